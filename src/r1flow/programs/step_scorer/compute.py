"""A scorer of the steps of a response: a scalar head on a model, trained on beginnings of samples that are stored.

Inputs: `model`, the directory to start from, and `data`, the folder of the stage `rejection`, in whose samples.parquet
are all samples of training problems, wrong ones too. Of each sample it learns from the whole and from `prefixes` of its
beginnings, which end with a step. What a row says, by `labels`:

    steps      every step so far is right: true labels, by arithmetic (grading/equations.py); a process reward model
    outcome    the sample's answer is right, whatever the beginning says (Math-Shepherd's idea, arXiv 2312.08935)
    both       every step so far is right, and of a whole sample the answer, too; one without an answer is wrong

The loss is the binary cross-entropy; the input is that of a reward model (rewards/classifier.py), so `classify` scores
with it. A tenth of the questions, chosen by a hash, is held out. Lightman et al. 2023 (arXiv 2305.20050) compare both
labels, by people. Left out: adapters, a score for each token of a text.

    {"question": "What is 59 * 48?", "text": "<think>first 59 * 40 = 2360,", "label": 1.0}
"""

import random
from pathlib import Path
from typing import Any

from datasets import Dataset
from scipy.stats import rankdata
from transformers import AutoTokenizer, DataCollatorWithPadding, Trainer, TrainingArguments

from r1flow.core.errors import UserError
from r1flow.core.parquet import stream_rows
from r1flow.core.steps import step_ends_in
from r1flow.core.template import GENERAL
from r1flow.grading import math
from r1flow.grading.equations import first_faults, right_so_far
from r1flow.model.pretrained import read_pretrained
from r1flow.rewards.classifier import classify, judged_ids
from r1flow.tracking.left_out import Count, tell_counts
from r1flow.tracking.stage import Stage
from r1flow.training.callbacks import History
from r1flow.training.ranks import trainer_options
from r1flow.training.scorer import held_out, new_scorer, train_scorer

COLUMNS = ("problem_id", "task", "sample_index", "question", "gold", "completion", "answer")
FIELDS = {"loss": "loss", "learning_rate": "learning_rate"}
UNREAD = {"steps": "step not read", "outcome": "ungradable", "both": "step not read"}  # why a row has no label

LabelledRow = dict[str, Any]  # question, text, label and token ids; or one of samples.parquet


def compute(stage: Stage) -> dict[str, Any]:
    """Train work/model; metrics: rows, how well those held out are told apart, counts, FLOPs and the loss curve."""
    samples, count = load_samples(stage.inputs["data"] / "samples.parquet", stage.config["samples"])
    tokenizer = read_pretrained(AutoTokenizer, stage.inputs["model"])
    rows, beginnings = labelled_rows(stage, samples, tokenizer)
    train = [row for row in rows if not held_out(row["question"])]
    test = [row for row in rows if held_out(row["question"])]
    beginnings.leave_out("held out", rows=len(test))
    counts = {"samples.parquet": count, "beginnings of samples": beginnings}
    told = tell_counts(stage, counts, stage.name, stage.config, "look at the samples, and at max_length")
    if len({row["label"] for row in train}) < 2:
        raise UserError(
            f"{stage.name}.samples: all {len(train)} labels are the same, so there is nothing to learn; use more"
            " samples, or a model that is right and wrong"
        )
    spent = learn(stage, train, tokenizer)
    return {"rows": len(train), **told_apart(stage, test), "counts": told, **spent}


def load_samples(path: Path, limit: int | None) -> tuple[list[LabelledRow], Count]:
    """The samples of problems that have an answer, at most so many; and what became of all."""
    count, kept = Count(), []
    for row in stream_rows(path, list(COLUMNS)):
        count.read += 1
        if limit is not None and count.read > limit:
            count.leave_out("limit")
        elif row["task"] == GENERAL or not row["gold"]:
            count.leave_out("ungradable", f"{row['problem_id']} has no answer")
        else:
            kept.append(row)
    return kept, count


def labelled_rows(stage: Stage, samples: list[LabelledRow], tokenizer: Any) -> tuple[list[LabelledRow], Count]:
    """The beginnings of samples that have a label and aren't too long, and what became of the others."""
    config, count, rows = stage.config, Count(), []
    right = [None] * len(samples)
    if config["labels"] != "steps":
        answers = [(row["gold"], row["answer"]) for row in samples]
        right = [verdict.correct for verdict in math.verdicts(answers)]
    for sample, outcome in zip(samples, right, strict=True):
        name = f"{sample['problem_id']}/{sample['sample_index']}"
        text = sample["completion"]
        faults = first_faults(text, sample["gold"])
        rng = random.Random(f"{stage.seed}/{name}")
        for end in chosen_ends(text, config["step"], config["prefixes"], rng):
            count.read += 1
            label = label_of(config["labels"], right_so_far(faults, end), outcome, is_whole=end == len(text))
            ids = judged_ids(tokenizer, sample["question"], text[:end], "response")
            if label is None:
                count.leave_out(UNREAD[config["labels"]], f"{name}: {text[:end][-60:]!r}")
            elif len(ids) > config["max_length"]:
                count.leave_out("too long", f"{name} has {len(ids)} tokens")
            else:
                row = {"question": sample["question"], "text": text[:end], "label": float(label), "input_ids": ids}
                rows.append(row)
    return rows, count


def label_of(labels: str, steps: bool | None, outcome: bool | None, is_whole: bool) -> bool | None:
    """A row's label of those that are explained above; None: it can't be told."""
    if labels == "outcome":
        return outcome
    if labels == "steps" or not is_whole:
        return steps
    if None in (steps, outcome) and False not in (steps, outcome):
        return None
    return steps is True and outcome is True


def chosen_ends(text: str, step: str, most: int, rng: random.Random) -> list[int]:
    """Where a text's steps end: at most so many by chance, and its own end."""
    ends = [end for end in step_ends_in(text, step) if end < len(text.rstrip())]
    return [*sorted(rng.sample(ends, min(most, len(ends)))), len(text)]


def learn(stage: Stage, rows: list[LabelledRow], tokenizer: Any) -> dict[str, Any]:
    """Train on the rows and save to work/model; returns steps, FLOPs and the curve."""
    options = TrainingArguments(**trainer_options(stage))
    # transformers' name of the binary cross-entropy of each output
    model = new_scorer(stage, tokenizer, problem_type="multi_label_classification")
    examples = [{"input_ids": row["input_ids"], "labels": [row["label"]]} for row in rows]
    history = History(stage, FIELDS)
    trainer = Trainer(
        model=model,
        args=options,
        train_dataset=Dataset.from_list(examples),
        data_collator=DataCollatorWithPadding(tokenizer),
        callbacks=[history],
    )
    spent = train_scorer(stage, trainer, history, tokenizer, sum(len(row["input_ids"]) for row in rows))
    return {"steps": trainer.state.global_step, **spent}


def told_apart(stage: Stage, rows: list[LabelledRow]) -> dict[str, Any]:
    """How well the rows held out are told apart, by the scores that a search will see; None where it can't be said."""
    scores = []
    for number, row in enumerate(rows, 1):
        scores += classify(stage.work / "model", [(row["question"], row["text"])], "response")
        stage.progress(number, len(rows), step="rows held out")
    right = [row["label"] > 0.5 for row in rows]
    agree = [(score > 0.5) == label for score, label in zip(scores, right, strict=True)]
    return {
        "held_out_rows": len(rows),
        "right_share": sum(right) / len(rows) if rows else None,  # what always saying the same would reach
        "accuracy": sum(agree) / len(rows) if rows else None,
        "auc": area_under_curve(scores, right),
    }


def area_under_curve(scores: list[float], right: list[bool]) -> float | None:
    """The chance that a right row scores higher than a wrong one, ties as halves; None without both."""
    positive, negative = sum(right), len(right) - sum(right)
    if not positive or not negative:
        return None
    ranks = sum(rank for rank, label in zip(rankdata(scores), right, strict=True) if label)
    return float((ranks - positive * (positive + 1) / 2) / (positive * negative))
