"""The reward model of the last RL stage: a scalar head on the base model, trained on preference pairs.

Inputs: `model`, the base model's directory, and `data`, a folder with preferences.jsonl:

    {"id": "…", "kind": "helpful", "question": "hello!", "chosen": "Hello! How can I help?", "rejected": "No."}

For helpful pairs the model is shown the summaries, for harmless ones the whole responses, by the same function as in
RL. A tenth of the pairs, chosen by a hash of the question, is held out; the metrics have the accuracy on these (how
often the chosen side scores higher). DeepSeek-R1, section 2.3.4, which only says that it follows DeepSeek-V3's
pipeline. Left out: margins, several heads.
"""

from itertools import chain
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.utils import gather_object
from datasets import Dataset
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from trl import RewardConfig, RewardTrainer

from r1flow.core.errors import UserError
from r1flow.core.schema import read_jsonl
from r1flow.model.pretrained import read_pretrained
from r1flow.rewards.classifier import classify, judged_ids
from r1flow.tracking.left_out import Count, count_limited, tell_counts
from r1flow.tracking.stage import Stage
from r1flow.training.callbacks import History
from r1flow.training.ranks import adapters, trainer_options
from r1flow.training.scorer import held_out, new_scorer, train_scorer

SEES = {"helpful": "summary", "harmless": "response"}
FIELDS = {"loss": "loss", "learning_rate": "learning_rate", "accuracy": "accuracy"}


def compute(stage: Stage) -> dict[str, Any]:
    """Train work/model; metrics: pairs, held-out accuracy in all and by kind, FLOPs and the loss curve."""
    rows = load_pairs(stage.inputs["data"] / stage.config["data"]["file"], stage.config["data"]["limit"])
    train = [row for row in rows if not held_out(row["question"])]
    test = [row for row in rows if held_out(row["question"])]
    told, spent = fit(stage, train)
    wins = {kind: chosen_wins(stage, test, kind) for kind in SEES}
    return {
        "pairs": len(train),
        "held_out_pairs": len(test),
        "accuracy": mean(list(chain.from_iterable(wins.values()))),
        "accuracy_by_kind": {kind: mean(wins[kind]) for kind in SEES},
        "counts": told,
        **spent,
    }


def fit(stage: Stage, rows: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Train on the pairs and save to work/model; returns the counts of rows, and as metrics FLOPs and the curve."""
    tokenizer = read_pretrained(AutoTokenizer, stage.inputs["model"])
    options = RewardConfig(**trainer_options(stage))
    model = new_scorer(stage, tokenizer)
    pairs = [pair(tokenizer, row) for row in rows]
    counts, tokens = pairs_left_out(stage, rows, pairs)
    told = tell_counts(stage, counts, stage.name, stage.config, "raise trainer.max_length")
    history = History(stage, FIELDS)
    trainer = RewardTrainer(
        model=model,
        args=options,
        train_dataset=Dataset.from_list(pairs),
        processing_class=tokenizer,
        # With adapters the whole head is still trained.
        peft_config=adapters(stage.config, "SEQ_CLS"),
        callbacks=[history],
    )
    return told, train_scorer(stage, trainer, history, tokenizer, tokens)


def load_pairs(path: Path, limit: int | None) -> list[dict[str, Any]]:
    """The preference pairs of a file; raises UserError when there are none or one has an unknown kind."""
    if not path.is_file():
        raise UserError(f"{path}: there is no such file; look at data.file")
    rows = read_jsonl(path)[:limit]
    if all(held_out(row["question"]) for row in rows):
        raise UserError(f"{path}: no preference pairs to train on; look at the data stage, or at data.limit ({limit})")
    for number, row in enumerate(rows, 1):
        if row["kind"] not in SEES:
            raise UserError(f"{path}: row {number}: kind must be one of {', '.join(SEES)}, not {row['kind']!r}")
    return rows


def pair(tokenizer: PreTrainedTokenizerBase, row: dict[str, Any]) -> dict[str, list[int]]:
    """Token ids of both sides, as the reward model will see them in RL."""
    return {
        f"{side}_ids": judged_ids(tokenizer, row["question"], row[side], SEES[row["kind"]])
        for side in ("chosen", "rejected")
    }


def pairs_left_out(
    stage: Stage, rows: list[dict[str, Any]], pairs: list[dict[str, list[int]]]
) -> tuple[dict[str, Count], int]:
    """What becomes of the file's pairs, and how many tokens are trained on.

    Some pairs are held out, and TRL leaves out those with a side beyond max_length.
    """
    data, longest, tokens = stage.config["data"], stage.config["trainer"]["max_length"], 0
    count = count_limited(stage.inputs["data"] / data["file"], data["limit"])
    count.leave_out("held out", rows=count.kept - len(pairs))
    for row, sides in zip(rows, pairs, strict=True):
        length = max(map(len, sides.values()))
        if longest is not None and length > longest:
            count.leave_out("too long", f"{row['id']} has {length} tokens")
        else:
            tokens += sum(map(len, sides.values()))
    return {data["file"]: count}, tokens


def chosen_wins(stage: Stage, rows: list[dict[str, Any]], kind: str) -> list[bool]:
    """For each pair of a kind, whether its chosen side scores higher, by the scores that RL will see.

    Each rank scores a share of the pairs, and every rank gets all results.
    """
    wins = []
    with PartialState().split_between_processes([row for row in rows if row["kind"] == kind]) as mine:
        for number, row in enumerate(mine, 1):
            sides = [(row["question"], row[side]) for side in ("chosen", "rejected")]
            better, worse = classify(stage.work / "model", sides, SEES[kind])
            wins.append(better > worse)
            stage.progress(number, len(mine), step=f"{kind} pairs held out")
    return gather_object(wins)


def mean(values: list[bool]) -> float | None:
    return sum(values) / len(values) if values else None
