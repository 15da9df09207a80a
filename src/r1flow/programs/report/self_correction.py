"""Self-correction: do models put right what their thoughts stated first, and is that worth more than a second try?

docs/claims.md ("Self-correction") has the measures and the rule, and what was changed after results had been seen.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from r1flow.core.metrics import Interval, Row, by_problem, is_solved, mean_interval, paired_difference, share_interval
from r1flow.recipe.claims import CANT_TELL, DOES_NOT_HOLD, HOLDS, MIN_PROBLEMS, SKILL_AT, Part

WORTH = {
    HOLDS: "where it reflects on a wrong answer, it ends right more often than another try is right",
    DOES_NOT_HOLD: "where it reflects on a wrong answer, another try is right more often than it ends right",
    CANT_TELL: "where it reflects on a wrong answer, we can’t tell whether another try is right more often",
}


def self_correction(
    thinking: Mapping[str, Mapping[float, Sequence[Row]]], models: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Of these models, each one's counts and shares; models without samples at SKILL_AT are left out."""
    asked = {model: thinking.get(model, {}).get(SKILL_AT) for model in models}
    return {model: self_correction_of(rows) for model, rows in asked.items() if rows}


def self_correction_of(rows: Sequence[Row]) -> dict[str, Any]:
    """Counts of samples; and over problems, of those that reflect on a wrong answer: corrected, second try, both."""
    problems = by_problem(rows)
    graded = list(chain.from_iterable(problems.values()))
    corrected, second = {}, {}
    for problem, samples in problems.items():
        doubted = [row for row in samples if is_doubted(row)]
        if doubted and len(samples) > 1:
            right = sum(map(is_solved, samples))
            corrected[problem] = float(np.mean([is_corrected(row) for row in doubted]))
            second[problem] = float(np.mean([(right - is_solved(row)) / (len(samples) - 1) for row in doubted]))
    return {
        "samples": len(graded),
        "stated": sum(row["first_correct"] is not None for row in graded),
        "several": sum(bool(row["several_answers"]) for row in graded),
        "corrected": sum(map(is_corrected, graded)),
        "broken": sum(map(is_broken, graded)),
        "wrong": sum(row["first_correct"] is False for row in graded),
        "doubted": sum(map(is_doubted, graded)),
        "corrected_share": share_interval(corrected.values()),
        "second_try": share_interval(second.values()),
        "difference": paired_difference(corrected, second),
        "tokens_several": mean_interval(row["length"] for row in graded if row["several_answers"]),
        "tokens_one": mean_interval(row["length"] for row in graded if not row["several_answers"]),
    }


def is_doubted(row: Row) -> bool:
    """Whether the first answer is wrong and the thought has words of reflection."""
    return row["first_correct"] is False and row["reflections"] > 0


def is_corrected(row: Row) -> bool:
    return bool(row["several_answers"]) and row["first_correct"] is False and is_solved(row)


def is_broken(row: Row) -> bool:
    return bool(row["several_answers"]) and row["first_correct"] is True and not is_solved(row)


def has_several(measured: Mapping[str, Any]) -> bool:
    """Whether a model has enough samples with several answers for a row of the table."""
    return measured["several"] >= MIN_PROBLEMS


def worth(difference: Interval) -> str:
    """What the corrected share minus the second try says, in words."""
    return WORTH[Part("self-correction", difference, ceiling=0.0).verdict]
