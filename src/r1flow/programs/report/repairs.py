"""Repairs: do models put right what their thoughts stated first, and is that worth more than a second try?

docs/claims.md ("Repairs") has the measures and the rule, written down before they were built.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from r1flow.core.metrics import Interval, Row, by_problem, is_solved, mean_interval, paired_difference
from r1flow.recipe.claims import (
    CANT_TELL,
    MIN_PROBLEMS,
    NOT_REPRODUCED,
    REPRODUCED,
    SKILL_AT,
    Part,
    describe_interval,
)

WORTH = {
    REPRODUCED: "its own repairs put right more than another try does",
    NOT_REPRODUCED: "another try puts right more than its own repairs do",
    CANT_TELL: "this run can’t tell whether another try puts right more than its own repairs do",
}


def repairs(thinking: Mapping[str, Mapping[float, Sequence[Row]]], models: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Of these models, each one's counts and shares; models without samples at SKILL_AT are left out."""
    asked = {model: thinking.get(model, {}).get(SKILL_AT) for model in models}
    return {model: repairs_of(rows) for model, rows in asked.items() if rows}


def repairs_of(rows: Sequence[Row]) -> dict[str, Any]:
    """Counts of samples, and over problems, of the samples whose first answer is wrong: repaired, second try, both."""
    problems = by_problem(rows)
    graded = [row for samples in problems.values() for row in samples]
    repaired, second = {}, {}
    for problem, samples in problems.items():
        wrong = [row for row in samples if row["first_correct"] is False]
        if wrong and len(samples) > 1:
            right = sum(map(is_solved, samples))
            repaired[problem] = float(np.mean([is_repaired(row) for row in wrong]))
            second[problem] = float(np.mean([(right - is_solved(row)) / (len(samples) - 1) for row in wrong]))
    return {
        "samples": len(graded),
        "stated": sum(row["first_correct"] is not None for row in graded),
        "several": sum(bool(row["several_answers"]) for row in graded),
        "repaired": sum(map(is_repaired, graded)),
        "broken": sum(map(is_broken, graded)),
        "wrong": sum(row["first_correct"] is False for row in graded),
        "repaired_share": mean_interval(repaired.values()),
        "second_try": mean_interval(second.values()),
        "difference": paired_difference(repaired, second),
        "tokens_several": mean_interval(row["length"] for row in graded if row["several_answers"]),
        "tokens_one": mean_interval(row["length"] for row in graded if not row["several_answers"]),
    }


def is_repaired(row: Row) -> bool:
    return bool(row["several_answers"]) and row["first_correct"] is False and is_solved(row)


def is_broken(row: Row) -> bool:
    return bool(row["several_answers"]) and row["first_correct"] is True and not is_solved(row)


def has_several(found: Mapping[str, Any]) -> bool:
    """Whether a model has enough samples with several answers for a row of the table."""
    return found["several"] >= MIN_PROBLEMS


def worth(difference: Interval) -> str:
    """What the repaired share minus the second try says, in words."""
    return WORTH[Part("repairs", difference, ceiling=0.0).verdict]


def summarise_repairs(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """As summary.json has them: {"base": {"samples": 3712, "several": 7, …, "difference": {"estimate": …}}, …}."""
    return {
        model: {name: describe_interval(v) if isinstance(v, Interval) else v for name, v in each.items()}
        for model, each in found.items()
    }
