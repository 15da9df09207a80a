"""Scorers of steps: their rows and labels, the loss, the same bytes killed or not, and what is refused."""

import math
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from tiny import base_with, check_resume, make_stage, make_tokenizer, weights_hash

from r1flow.core.errors import UserError
from r1flow.core.steps import step_ends_in
from r1flow.programs.step_scorer import compute as step_scorer
from r1flow.rewards.classifier import classify
from r1flow.training.scorer import held_out

TRAINER = {
    **{"max_steps": 6, "learning_rate": 0.0, "per_device_train_batch_size": 16, "logging_steps": 1},
    **{"save_strategy": "steps", "save_steps": 2, "report_to": "none", "disable_tqdm": True, "use_cpu": True},
}
CONFIG = {
    **{"init_from": "base", "labels": "steps", "samples": None, "prefixes": 2, "step": "clause", "max_length": 120},
    **{"attention": "eager", "lost_share": 0.5},
}


def sample(number: int, thought: str, answer: str | None = "4", gold: str = "4") -> dict[str, Any]:
    text = f"<think>{thought}</think><answer>{answer}</answer>" if answer is not None else f"<think>{thought}"
    row = {"problem_id": f"p{number}", "task": "chain_sum", "sample_index": 0, "question": f"{number}?", "gold": gold}
    return row | {"completion": text, "answer": answer}


def half_right(count: int = 60) -> list[dict[str, Any]]:
    """Every other sample has a wrong step, and a wrong answer."""
    return [sample(number, f"2 + 2 = {4 + number % 2}, so", f"{4 + number % 2}") for number in range(count)]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    base_with(tmp_path)
    write_samples(tmp_path, half_right())
    return tmp_path


def write_samples(folder: Path, rows: list[dict[str, Any]]) -> None:
    parquet.write_table(pa.Table.from_pylist(rows), folder / "data/samples.parquet")


def stage_of(base: Path, name: str = "scorer", trainer: dict[str, Any] | None = None, **config: Any) -> SimpleNamespace:
    return make_stage(base, name, CONFIG | config | {"trainer": TRAINER | (trainer or {})})


def rows_of(base: Path, **config: Any) -> list[tuple[str, float]]:
    stage = stage_of(base, **config)
    samples, _ = step_scorer.load_samples(base / "data/samples.parquet", None)
    rows, _ = step_scorer.labelled_rows(stage, samples, make_tokenizer())
    return [(row["text"], row["label"]) for row in rows]


def test_a_step_is_labelled_by_arithmetic_and_an_outcome_by_the_answer(base: Path) -> None:
    slip = "2 + 2 = 5, 1 + 1 = 2, so"
    write_samples(base, [sample(1, slip), sample(2, "3 + 1 = 4, so", "9")])
    by_steps = dict(rows_of(base, prefixes=9))
    begun = "<think>2 + 2 = 5,"
    assert by_steps[begun] == by_steps[f"<think>{slip}</think><answer>4</answer>"] == 0
    assert by_steps["<think>3 + 1 = 4,"] == 1
    assert by_steps["<think>3 + 1 = 4, so</think><answer>9</answer>"] == 0
    outcomes = dict(rows_of(base, prefixes=9, labels="outcome"))
    assert {label for text, label in outcomes.items() if "2 + 2" in text} == {1}
    assert {label for text, label in outcomes.items() if "3 + 1" in text} == {0}


def test_a_sample_without_an_answer_is_a_wrong_outcome(base: Path) -> None:
    write_samples(base, [sample(1, "2 + 2 = 4, so", None)])
    assert {label for _, label in rows_of(base, labels="outcome")} == {0}
    assert {label for _, label in rows_of(base)} == {1}


def test_with_both_labels_a_whole_sample_needs_its_steps_and_its_answer(base: Path) -> None:
    right, slip, no_answer = "2 + 2 = 4, so", "2 + 2 = 5, so", "2 + 2 = 4, and so"
    write_samples(base, [sample(1, right), sample(2, slip), sample(3, right, "9"), sample(4, no_answer, None)])
    labels = dict(rows_of(base, prefixes=9, labels="both"))
    assert labels["<think>2 + 2 = 4,"] == labels[f"<think>{right}</think><answer>4</answer>"] == 1
    assert labels["<think>2 + 2 = 5,"] == labels[f"<think>{slip}</think><answer>4</answer>"] == 0
    assert labels[f"<think>{right}</think><answer>9</answer>"] == labels[f"<think>{no_answer}"] == 0
    assert [step_scorer.label_of("both", steps, outcome, True) for steps, outcome in ((None, False), (True, None))] == [
        False,
        None,
    ]


def test_beginnings_end_with_a_step_and_the_whole_is_always_there() -> None:
    text = "first 1.5 + 1.5 = 3, then 3:2! so\n"
    assert [text[:end] for end in step_ends_in(text, "clause")] == [
        *("first 1.5 + 1.5 = 3,", "first 1.5 + 1.5 = 3, then 3:2!", text),
    ]
    assert step_ends_in(text, "line") == [len(text)]
    for most in range(4):
        ends = step_scorer.chosen_ends(text, "clause", most, random.Random(1))
        assert ends == sorted(ends) and ends[-1] == len(text) and len(ends) == min(most, 2) + 1


def test_rows_depend_on_the_seed_and_their_sample_alone(base: Path) -> None:
    long = "1 + 1 = 2, 2 + 1 = 3, 3 + 1 = 4, 4 + 1 = 5, 5 + 1 = 6"
    write_samples(base, [sample(number, long) for number in range(9)])
    together = rows_of(base)
    assert together == rows_of(base) and len(set(together)) > 3
    write_samples(base, [sample(number, long) for number in range(5)])
    assert rows_of(base) == together[:15]


def test_samples_that_a_few_bytes_stand_for_are_refused(tmp_path: Path) -> None:
    """Each row is a reference to one text; the process apart has room for a batch of them, and the caller for few."""
    rows = 300_000
    row = sample(1, "2 + 2 = 4")
    columns = {name: pa.DictionaryArray.from_arrays([0] * rows, [value]) for name, value in row.items()}
    columns["problem_id"] = pa.DictionaryArray.from_arrays([0] * rows, ["p" * 500])
    path = tmp_path / "samples.parquet"
    parquet.write_table(pa.table(columns), path, compression="zstd")
    assert path.stat().st_size < 40_000
    with pytest.raises(UserError, match=r"samples\.parquet: \d+ bytes unpack to more than 1000 times as much"):
        step_scorer.load_samples(path, None)


def test_the_loss_is_the_binary_cross_entropy_of_the_scores(base: Path) -> None:
    """With a learning rate of 0 and all rows in a batch, the saved model is the one whose loss was logged."""
    stage = stage_of(base, trainer={"max_steps": 1, "per_device_train_batch_size": 1000})
    logged = step_scorer.compute(stage)["history"][0]["loss"]
    samples, _ = step_scorer.load_samples(base / "data/samples.parquet", None)
    rows, _ = step_scorer.labelled_rows(stage, samples, make_tokenizer())
    learnt = [row for row in rows if not held_out(row["question"])]
    scores = classify(stage.work / "model", [(row["question"], row["text"]) for row in learnt], "response")
    losses = [-math.log(score if row["label"] else 1 - score) for row, score in zip(learnt, scores, strict=True)]
    assert logged == pytest.approx(sum(losses) / len(losses), abs=1e-4)


@pytest.mark.parametrize("labels", ["steps", "outcome"])
def test_it_learns_to_tell_right_from_wrong(base: Path, labels: str) -> None:
    write_samples(base, half_right(240))
    trainer = {"max_steps": 60, "learning_rate": 3e-3, "per_device_train_batch_size": 32}
    metrics = step_scorer.compute(stage_of(base, labels=labels, trainer=trainer, prefixes=0))
    assert metrics["held_out_rows"] > 10 and 0.3 < metrics["right_share"] < 0.7
    assert metrics["accuracy"] > 0.9 and metrics["auc"] > 0.95


def test_killed_and_resumed_it_ends_with_the_same_bytes(base: Path) -> None:
    def make(name: str) -> SimpleNamespace:
        return stage_of(base, name, trainer={"learning_rate": 1e-3})

    check_resume(step_scorer.compute, make, at=5, snapshot=4)
    again = make("again")
    step_scorer.compute(again)
    assert weights_hash(again) == weights_hash(make("whole"))


def test_what_has_no_label_or_is_too_long_is_counted_and_refused_above_a_share(base: Path) -> None:
    odd = [sample(100, "x = 4, so"), sample(101, "2 + 2 = 4 " + "x" * 200), sample(102, "", gold="")]
    write_samples(base, half_right() + odd)
    metrics = step_scorer.compute(stage_of(base, prefixes=0, samples=63))
    counts = metrics["counts"]
    assert counts["samples.parquet"] == {"read": 63, "kept": 62, "left_out": {"ungradable": 1}}
    found = counts["beginnings of samples"]
    assert found["left_out"] == {"held out": metrics["held_out_rows"], "step not read": 2}
    assert found["kept"] == metrics["rows"] == 60 - metrics["held_out_rows"]
    limited = step_scorer.compute(stage_of(base, "limited", prefixes=0, samples=20))["counts"]["samples.parquet"]
    assert limited == {"read": 63, "kept": 20, "left_out": {"limit": 43}}
    assert step_scorer.compute(stage_of(base, "long", labels="outcome", prefixes=0))["counts"]["beginnings of samples"][
        "left_out"
    ]["too long"]
    with pytest.raises(UserError, match=r"^many\.lost_share: 0\.5, and 100\.0% of beginnings of samples is lost"):
        step_scorer.compute(stage_of(base, "many", max_length=5))


def test_labels_that_are_all_the_same_are_refused(base: Path) -> None:
    write_samples(base, [sample(number, "2 + 2 = 4, so") for number in range(30)])
    with pytest.raises(UserError, match=r"^scorer\.samples: all \d+ labels are the same, .*use more samples"):
        step_scorer.compute(stage_of(base))


def test_the_area_under_the_curve_is_the_chance_to_be_ranked_right() -> None:
    rng = random.Random(3)
    scores, right = [rng.randint(0, 5) / 5 for _ in range(60)], [rng.random() < 0.4 for _ in range(60)]
    good = [score for score, label in zip(scores, right, strict=True) if label]
    bad = [score for score, label in zip(scores, right, strict=True) if not label]
    chance = sum((one > other) + 0.5 * (one == other) for one in good for other in bad) / len(good) / len(bad)
    assert step_scorer.area_under_curve(scores, right) == pytest.approx(chance)
    assert step_scorer.area_under_curve([0.5], [True]) is None
