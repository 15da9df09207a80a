"""Every trainer option that can change a result is written in conf/, and none that a resumed training can't keep to."""

import subprocess
import sys
from dataclasses import fields
from typing import Any

import pytest
import trl
from tiny import conf

from r1flow.core.errors import UserError
from r1flow.engine.checks import check_stage
from r1flow.programs.trainings import check_decided, check_resume

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
    written = conf(f"{group}/default")["trainer"]
    options = {field.name for field in fields(getattr(trl, config_class))} - SET_BY_THE_STAGE
    assert {name for name in options if not name.startswith(CHANGE_NO_RESULT)} <= set(written)
    assert set(written) <= options


def trainer(group: str, **changes: Any) -> dict[str, Any]:
    return conf(group)["trainer"] | changes


@pytest.mark.parametrize(
    ("group", "changes"),
    [
        *[(group, {}) for group in ("pretrain/base", "sft/default", "reward_model/default", "grpo/default")],
        ("pretrain/base", {"save_steps": 30, "logging_steps": 15}),
        ("sft/default", {"save_strategy": "epoch"}),
        ("sft/default", {"save_strategy": "no", "save_steps": 50, "logging_steps": 7}),
        ("grpo/default", {"save_strategy": "no", "sync_ref_model": True}),
    ],
)
def test_what_is_resumed_to_the_same_bytes_is_let_through(group: str, changes: dict[str, Any]) -> None:
    check_resume(trainer(group, **changes))


@pytest.mark.parametrize(
    ("group", "changes", "named"),
    [
        ("pretrain/base", {"save_steps": 15}, "save_steps: 15 isn't a multiple of logging_steps, 10"),
        ("pretrain/base", {"save_steps": 5}, "save_steps"),
        ("sft/default", {"logging_steps": 0.5}, "save_steps: 50 .* logging_steps, 0.5"),
        ("pretrain/base", {"save_strategy": "epoch"}, "logging_steps, 10"),
        ("sft/default", {"logging_strategy": "epoch"}, "logging_strategy: epoch.* to steps"),
        ("sft/default", {"ignore_data_skip": True}, "ignore_data_skip: True.* to false"),
        ("sft/default", {"save_only_model": True}, "save_only_model"),
        ("sft/default", {"train_sampling_strategy": "group_by_length"}, "train_sampling_strategy: group_by_length"),
        ("grpo/default", {"sync_ref_model": True}, "sync_ref_model"),
    ],
)
def test_what_is_resumed_to_other_bytes_is_refused_by_key(group: str, changes: dict[str, Any], named: str) -> None:
    with pytest.raises(UserError, match=rf"^trainer\..*{named}"):
        check_resume(trainer(group, **changes))


@pytest.mark.parametrize("key", sorted(SET_BY_THE_STAGE - {"trust_remote_code"}))  # refused everywhere
def test_what_a_stage_decides_is_refused_and_not_lost(key: str) -> None:
    with pytest.raises(UserError, match=rf"^trainer\.{key}: False would be lost"):
        check_decided(trainer("sft/default", **{key: False}))
    check_decided(trainer("sft/default", **{key: None}))


def test_every_stage_that_trains_is_checked() -> None:
    config = {"threads": 1, "device": "cpu", "trainer": trainer("sft/default", ignore_data_skip=True)}
    with pytest.raises(UserError, match=r"^distill\.trainer\.ignore_data_skip"):
        check_stage("distill", "sft", config, stages=["distill"])


def test_a_stage_imports_neither_mlflow_nor_scikit_learn_and_a_users_reward_may():
    code = "import sys; from r1flow.engine import driver; driver.import_less({'transformers'})\n"
    code += "import r1flow.programs.grpo.compute\n"
    code += "assert not {'mlflow', 'sklearn'} & sys.modules.keys(); import sklearn"
    subprocess.run([sys.executable, "-c", code], check=True)
