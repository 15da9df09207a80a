"""pass@k: what a model can do in many tries, against what it does first, and against guessing.

docs/claims.md ("How many tries") has the measures and the rule, written down before the runs.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from r1flow.core.metrics import (
    Interval,
    PerProblem,
    Row,
    by_problem,
    guess_at_k,
    paired_difference,
    pass_at_k,
    share_interval,
)
from r1flow.core.template import GENERAL
from r1flow.recipe.claims import CANT_TELL, DOES_NOT_HOLD, HOLDS, Part, describe_interval

KS = (1, 2, 4, 8, 16, 32, 64)
GUESSING = "guessing"
REACHED = {
    HOLDS: "widened what the model can do",
    DOES_NOT_HOLD: "narrowed what the model can do",
    CANT_TELL: "may have widened or narrowed what the model can do: can't tell",
}


def tries(samples: Mapping[str, Sequence[Row]], starts: Mapping[str, str]) -> dict[str, Any]:
    """pass@k of every model and of guessing, and what RL changed; empty if a problem has fewer than KS[-1] samples.

    `starts` names the model that each stage of RL started from.
    "lines": name → intervals, one for each of KS; "differences": (stage, the model it started from) → intervals.
    """
    solved = {model: pass_at_ks(rows) for model, rows in samples.items()}
    if not solved or not all(solved.values()):
        return {}
    lines, differences = {}, {}
    for model, at_ks in solved.items():
        lines[model] = [share_interval(values.values()) for values in at_ks]
    if guessed := guess_at_ks(next(iter(samples.values()))):
        lines[GUESSING] = [share_interval(values) for values in guessed]
    for stage, start in starts.items():
        if {stage, start} <= solved.keys():
            differences[stage, start] = list(map(paired_difference, solved[stage], solved[start]))
    return {"lines": lines, "differences": differences}


def pass_at_ks(rows: Sequence[Row]) -> list[PerProblem]:
    """The pass@k of each reasoning problem by the lenient rule, for each of KS; empty where samples are too few."""
    problems = by_problem(row for row in rows if row["task"] != GENERAL)
    if min(map(len, problems.values()), default=0) < KS[-1]:
        return []
    at_ks: list[PerProblem] = [{} for _ in KS]
    for problem, samples in problems.items():
        correct = [row["correct_lenient"] for row in samples]
        for k, solved in zip(KS, at_ks, strict=True):
            solved[problem] = pass_at_k(correct, k)
    return at_ks


def guess_at_ks(rows: Sequence[Row]) -> list[list[float]]:
    """The chance of guessing each problem's answer, for each of KS; empty if a problem has none, such as a program."""
    families: dict[str, dict[str, str | None]] = {}
    for row in rows:
        if row["task"] != GENERAL:
            families.setdefault(row["task"], {})[row["problem_id"]] = row["gold"]
    golds = [list(family.values()) for family in families.values()]
    if not all(chain.from_iterable(golds)):
        return []
    chances = []
    for k in KS:
        by_family = [guess_at_k(family, k) for family in golds]
        chances.append(list(chain.from_iterable(by_family)))
    return chances


def reach(interval: Interval) -> str:
    """What RL did to a model's reach, from the difference of pass@k at the largest k."""
    return REACHED[Part("reach", interval, ceiling=0.0).verdict]


def summarise_tries(tried: Mapping[str, Any]) -> dict[str, Any]:
    """As summary.json has it: {"models": {"base": [{"k": 1, "estimate": …}, …], …}, "differences": {…}}."""
    if not tried:
        return {}
    differences: dict[str, dict[str, Any]] = {}
    for (stage, start), intervals in tried["differences"].items():
        differences.setdefault(stage, {})[start] = listed_intervals(intervals)
    models = {name: listed_intervals(line) for name, line in tried["lines"].items()}
    return {"models": models, "differences": differences}


def listed_intervals(intervals: Sequence[Interval]) -> list[Mapping[str, Any]]:
    return [{"k": k, **describe_interval(interval)} for k, interval in zip(KS, intervals, strict=True)]
