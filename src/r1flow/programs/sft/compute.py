"""Supervised fine-tuning (SFT): cold start, the SFT on the mix, and distillation use this program with other inputs.

Inputs: `model`, a model directory, and `data`, a folder with the file that the config names; each row has a `question`
and the `response` to learn. The loss is the cross-entropy of the response and its end of sequence only. A row becomes

    prompt    "User: What is 8 + 16 - 19?\\nAssistant: "             (by the chat template)
    response  "<think>8 + 16 = 24. …</think>so <answer>5</answer>" + end of sequence

tokenised separately, as in sampling: so both see the same tokens where prompt and response meet, even if a tokenizer
would merge across that border. DeepSeek-R1, sections 2.3.1 (cold start), 2.3.3 (the mix, two epochs) and 2.4
(distillation: SFT only, no RL). With `data.file: packed` the rows are those that the stage curate has tokenised and
packed (data/packed.py).
"""

import random
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase
from trl import SFTConfig, SFTTrainer

from r1flow.core.errors import UserError
from r1flow.core.schema import read_jsonl
from r1flow.core.template import render
from r1flow.data import packed
from r1flow.data.mixing import general_rows, mix_in
from r1flow.model.pretrained import read_model, read_pretrained
from r1flow.model.scoring import score_labels_only
from r1flow.tracking.stage import Stage
from r1flow.training.callbacks import History, last_snapshot
from r1flow.training.ranks import adapters, parameters_of, save, trainer_options

FIELDS = {"loss": "loss", "learning_rate": "learning_rate", "mean_token_accuracy": "token_accuracy"}


def compute(stage: Stage) -> dict[str, Any]:
    """Train work/model; metrics: rows, tokens of the responses, steps, and the loss curve."""
    tokenizer = read_pretrained(AutoTokenizer, stage.inputs["model"])
    tokenizer.chat_template = stage.config["template"] or tokenizer.chat_template
    # These come before the model, because with zero3 they decide how it is loaded.
    options = SFTConfig(**trainer_options(stage), dataset_kwargs={"skip_prepare_dataset": is_packed(stage)})
    model = read_model(
        AutoModelForCausalLM, stage.inputs["model"], dtype="float32", attn_implementation=stage.config["attention"]
    )
    dataset, count = training_data(stage, tokenizer)
    history = History(stage, FIELDS)
    trainer = SFTTrainer(
        model=model,
        args=options,
        train_dataset=dataset,
        processing_class=tokenizer,
        peft_config=adapters(stage.config),
        callbacks=[history],
    )
    if options.use_cpu and model.config.model_type == "llama":
        score_labels_only(model)
    trainer.train(resume_from_checkpoint=last_snapshot(stage.snapshots))
    save(stage, trainer, tokenizer)
    return {
        "rows": count["rows"],
        "response_tokens": count["response_tokens"],
        "steps": trainer.state.global_step,
        # 6N per token, as in programs/grpo
        "flops": 6.0 * parameters_of(model) * count["tokens"] * trainer.state.epoch,
        "mixed_precision": trainer.accelerator.mixed_precision,
        "history": history.rows,
    }


def is_packed(stage: Stage) -> bool:
    return stage.config["data"]["file"] == packed.PACKED


def training_data(stage: Stage, tokenizer: PreTrainedTokenizerBase) -> tuple[Dataset, dict[str, int]]:
    """The training data, a curate stage's packs or a file's rows, with its numbers of rows and tokens."""
    data = stage.config["data"]
    if is_packed(stage):
        dataset = packed.load(stage.inputs["data"], stage.inputs["model"], stage.snapshots / "dataset")
        return dataset, packed.count(dataset)
    rows = load_examples(stage.inputs["data"] / data["file"], data["limit"])
    if data["general_share"]:
        rows = mix_in(general_rows(stage.inputs), rows, data["general_share"], random.Random(stage.seed))
    examples = [example(tokenizer, row) for row in rows]
    count = {
        "rows": len(examples),
        "tokens": sum(len(row["input_ids"]) for row in examples),
        "response_tokens": sum(sum(row["completion_mask"]) for row in examples),
    }
    return Dataset.from_list(examples), count


def load_examples(path: Path, limit: int | None) -> list[dict[str, Any]]:
    """The rows of a JSONL file that have a question and a response; raises UserError when there are none."""
    if not path.is_file():
        raise UserError(f"{path}: there is no such file; look at data.file")
    rows = read_jsonl(path)[:limit]
    if not rows:
        raise UserError(f"{path}: no rows to train on; look at the stage that wrote it, or at data.limit ({limit})")
    for number, row in enumerate(rows, 1):
        if not row.get("question") or not row.get("response"):
            raise UserError(f"{path}: row {number} needs a question and a response; it has {', '.join(row)}")
    return rows


def example(tokenizer: PreTrainedTokenizerBase, row: dict[str, Any]) -> dict[str, list[int]]:
    """Token ids of prompt + response + end of sequence, and a mask that is 1 for tokens that the loss counts."""
    texts = (render(tokenizer, row["question"]), row["response"])
    prompt_ids, response_ids = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts)
    response_ids = [*response_ids, tokenizer.eos_token_id]
    return {
        "input_ids": prompt_ids + response_ids,
        "completion_mask": [0] * len(prompt_ids) + [1] * len(response_ids),
    }
