"""The reward model of the last RL stage: a scalar head on the base model, trained on preference pairs.

Inputs: `model`, the base model's directory, and `data`, a folder with preferences.jsonl:

    {"id": "…", "kind": "helpful", "question": "hello!", "chosen": "Hello! How can I help?", "rejected": "No."}

Helpful pairs are shown as summaries, harmless ones as whole responses, by the same function that RL calls. A tenth of the
pairs, chosen by a hash of the question, is held out; its accuracy (chosen scores higher) is in the metrics. DeepSeek-R1,
section 2.3.4, which says no more than that it follows DeepSeek-V3's pipeline. Left out: margins, several heads.
"""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1flow.errors import UserError
from r1flow.rewards import judged_ids
from r1flow.schema import read_jsonl
from r1flow.stage import Stage, main

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from r1flow.callbacks import History

SEES = {"helpful": "summary", "harmless": "response"}
HELD_OUT = 10  # one pair in so many


def compute(stage: Stage) -> dict[str, Any]:
    """Train work/model; metrics: pairs and held-out accuracy, whole and by kind, and the loss curve."""
    rows = load_pairs(stage.inputs["data"] / stage.config["data"]["file"], stage.config["data"].get("limit"))
    train = [row for row in rows if not held_out(row["question"])]
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(stage.inputs["model"])
    model, history = fit(stage, tokenizer, [pair(tokenizer, row) for row in train])
    model.save_pretrained(stage.work / "model")
    tokenizer.save_pretrained(stage.work / "model")
    test = [row for row in rows if held_out(row["question"])]
    return {
        "pairs": len(train),
        "held_out_pairs": len(test),
        "accuracy": accuracy(model, tokenizer, test),
        "accuracy_by_kind": {
            kind: accuracy(model, tokenizer, [row for row in test if row["kind"] == kind]) for kind in SEES
        },
        "history": history.rows,
    }


def fit(
    stage: Stage, tokenizer: "PreTrainedTokenizerBase", pairs: list[dict[str, list[int]]]
) -> "tuple[PreTrainedModel, History]":
    """The trained classifier and its curve."""
    from datasets import Dataset
    from transformers import AutoModelForSequenceClassification, set_seed
    from trl import RewardConfig, RewardTrainer

    from r1flow.callbacks import History, last_snapshot

    set_seed(stage.seed)  # the head starts at random
    model = AutoModelForSequenceClassification.from_pretrained(stage.inputs["model"], num_labels=1, dtype="float32")
    model.config.pad_token_id = tokenizer.pad_token_id
    history = History(stage, {"loss": "loss", "learning_rate": "learning_rate", "accuracy": "accuracy"})
    trainer = RewardTrainer(
        model=model,
        args=RewardConfig(
            **stage.config["trainer"], seed=stage.seed, data_seed=stage.seed, output_dir=str(stage.snapshots)
        ),
        train_dataset=Dataset.from_list(pairs),
        processing_class=tokenizer,
        callbacks=[history],
    )
    trainer.train(resume_from_checkpoint=last_snapshot(stage.snapshots))
    return model.eval(), history


def load_pairs(path: Path, limit: int | None) -> list[dict[str, Any]]:
    """The preference pairs of a file; raises UserError when there are none or one has an unknown kind."""
    rows = read_jsonl(path)[:limit]
    if not rows:
        raise UserError(f"{path}: no preference pairs to train on; look at the data stage, or at data.limit ({limit})")
    for number, row in enumerate(rows, 1):
        if row.get("kind") not in SEES:
            raise UserError(f"{path}: row {number}: kind must be one of {', '.join(SEES)}, not {row.get('kind')!r}")
    return rows


def held_out(question: str) -> bool:
    return int(hashlib.sha256(question.encode()).hexdigest(), 16) % HELD_OUT == 0


def pair(tokenizer: "PreTrainedTokenizerBase", row: dict[str, Any]) -> dict[str, list[int]]:
    """Token ids of both sides, as the reward model will see them in RL."""
    return {
        f"{side}_ids": judged_ids(tokenizer, row["question"], row[side], SEES[row["kind"]])
        for side in ("chosen", "rejected")
    }


def accuracy(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", rows: list[dict[str, Any]]
) -> float | None:
    """The share of pairs whose chosen side scores higher; None without pairs."""
    pairs = [pair(tokenizer, row) for row in rows]
    wins = [score(model, row["chosen_ids"]) > score(model, row["rejected_ids"]) for row in pairs]
    return sum(wins) / len(wins) if wins else None


def score(model: "PreTrainedModel", ids: list[int]) -> float:
    import torch

    with torch.inference_mode():
        return model(torch.tensor([ids], device=model.device)).logits.item()


if __name__ == "__main__":
    main(compute)
