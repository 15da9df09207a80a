"""Every trainer option that can change a result is written in conf/, so that no new default of TRL's goes unseen."""

from dataclasses import fields
from pathlib import Path

import pytest
import yaml

trl = pytest.importorskip("trl")

# Options that say where, how visibly, with which processes or how often saved a training runs, by how they begin ...
CHANGE_NO_RESULT = (
    *("accelerator_config", "ddp_", "deepspeed", "fsdp", "local_rank", "parallelism_config"),
    *("batch_eval_metrics", "bf16_full_eval", "do_", "eval_", "fp16_full_eval", "greater_is_better", "label_names"),
    *("load_best_model_at_end", "metric_for_best_model", "per_device_eval_batch_size", "prediction_loss_only"),
    *("debug", "disable_tqdm", "include_", "log_", "logging_", "project", "report_to", "run_name", "trackio_"),
    *("enable_jit_checkpoint", "hub_", "push_to_hub", "restore_callback_states", "resume_from_checkpoint", "save_"),
    *("dataloader_", "dataset_num_proc", "length_column_name", "skip_memory_metrics", "torch_empty_cache_steps"),
    *("use_cache",),
)
# ... and those that the stages decide: the seeds, the folder, the tokenizer, a dataset that is tokenised already.
SET_BY_THE_STAGE = {"output_dir", "seed", "data_seed", "model_init_kwargs", "trust_remote_code", "chat_template_path"}
SET_BY_THE_STAGE |= {"dataset_text_field", "dataset_kwargs", "eos_token", "pad_token", "remove_unused_columns"}


@pytest.mark.parametrize(("group", "config_class"), [("sft", "SFTConfig"), ("reward_model", "RewardConfig")])
def test_options_that_change_a_result_are_written_down(group: str, config_class: str) -> None:
    written = yaml.safe_load(Path(f"conf/{group}/default.yaml").read_text())["trainer"]
    options = {field.name for field in fields(getattr(trl, config_class))} - SET_BY_THE_STAGE
    assert {name for name in options if not name.startswith(CHANGE_NO_RESULT)} <= set(written)
    assert set(written) <= options
