"""pass@k: what a model can do in many tries, against what it does first, and against guessing.

docs/claims.md ("How many tries") has the measures and the rule, written down before the runs.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
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
from r1flow.programs.report.reflection import FORBIDDEN, FORCED, placements, sample_key
from r1flow.recipe.claims import CANT_TELL, DOES_NOT_HOLD, HOLDS, Part, describe_interval, describe_numbers, if_solved

KS = (1, 2, 4, 8, 16, 32, 64)
BINS = ((0, 0), (1, 15), (16, 47), (48, 63), (64, 64))  # of KS[-1] samples, how many are right
GUESSING = "guessing"
REACHED = {
    HOLDS: "widened what the model can do",
    DOES_NOT_HOLD: "narrowed what the model can do",
    CANT_TELL: "may have widened or narrowed what the model can do: can't tell",
}
ADDED = {
    HOLDS: "solves some, more than its start and more than guessing: RL added what sampling hasn't",
    DOES_NOT_HOLD: "solves no more of them than its start, or than guessing: RL added nothing there",
    CANT_TELL: "may or may not solve more of them than its start and than guessing: can't tell",
}


def tries(
    samples: Mapping[str, Sequence[Row]], starts: Mapping[str, str], placed: Mapping[str, str] = {}
) -> dict[str, Any]:
    """pass@k of every model and of guessing, and what RL changed; empty if a problem has fewer than KS[-1] samples.

    `starts` names the model that each stage of RL started from, `placed` that model where it reflects as often.
    "lines": name → intervals, one for each of KS; "differences": (stage, other) → intervals; "bins": start → `binned`;
    "placed": the names of lines that `placed` gives.
    """
    solved = {model: pass_at_ks(rows) for model, rows in samples.items()}
    if not solved or not all(solved.values()):
        return {}
    lines, differences, bins = {}, {}, {}
    for model, at_ks in solved.items():
        lines[model] = [share_interval(values.values()) for values in at_ks]
    if guessed := guess_at_ks(next(iter(samples.values()))):
        lines[GUESSING] = [share_interval(values.values()) for values in guessed]
    for stage, other in (*starts.items(), *placed.items()):
        if {stage, other} <= solved.keys():
            differences[stage, other] = list(map(paired_difference, solved[stage], solved[other]))
    for start in dict.fromkeys(start for stage, start in starts.items() if (stage, start) in differences):
        bins[start] = binned(samples, start)
    bins = {start: rows for start, rows in bins.items() if rows}
    return {"lines": lines, "differences": differences, "bins": bins, "placed": list(placed.values())}


def binned(samples: Mapping[str, Sequence[Row]], start: str) -> list[dict[str, Any]]:
    """What every model solves, by how many of the start's first KS[-1] samples of a problem are right.

    It is measured in the other samples, so that no problem is where it is because of what is measured; empty where one
    has fewer than KS[-1] of either. "lines": name → pass@1 and pass@KS[-1]; "beyond": model → the difference of its
    pass@KS[-1] to the start's, and to guessing.
    """
    solved = {}
    for model, rows in samples.items():
        solved[model] = pass_at_ks([row for row in rows if row["sample_index"] >= KS[-1]])
    first = pass_at_ks([row for row in samples[start] if row["sample_index"] < KS[-1]])
    if not first or not all(solved.values()):
        return []
    if guessed := guess_at_ks(samples[start]):
        solved[GUESSING] = guessed
    graded = set(first[0]).intersection(*(at_ks[0] for at_ks in solved.values()))
    right = {problem: round(KS[-1] * first[0][problem]) for problem in sorted(graded)}
    bins = []
    for low, high in BINS:
        kept = [problem for problem, count in right.items() if low <= count <= high]
        lines, often = {}, {}
        for name, at_ks in solved.items():
            often[name] = {problem: at_ks[-1][problem] for problem in kept}
            lines[name] = [share_interval(at_ks[0][problem] for problem in kept), share_interval(often[name].values())]
        beyond: dict[str, dict[str, Interval]] = {}
        for model in samples:
            beyond[model] = {}
            for other in (start, GUESSING):
                if other in often and other != model:
                    difference = paired_difference(often[model], often[other])
                    beyond[model][other] = if_solved(difference, often[model].values(), often[other].values())
        bins.append({"right": (low, high), "problems": len(kept), "lines": lines, "beyond": beyond})
    return bins


def with_placed(
    thoughts: Mapping[str, Sequence[Row]],
    changed: Mapping[str, Sequence[Row]],
    starts: Mapping[str, str],
    shares: Mapping[str, Mapping[str, float]],
) -> tuple[dict[str, Sequence[Row]], dict[str, str]]:
    """The models' thoughts, and for each stage of RL those of its start where that reflects as often in each family.

    `shares` are those of reflection_shares; which thoughts change is drawn by `placements`. The second part of what is
    returned names them by stage.
    """
    models, placed = dict(thoughts), {}
    for stage, start in starts.items():
        others = changed.get(start, ())
        if stage in changed and {row["intervention"] for row in others} >= {FORCED, FORBIDDEN}:
            rows = []
            for row, other, chance in placements(thoughts[start], others, shares[start], shares[stage]):
                drawn = random.Random(str(sample_key(row))).random()
                rows.append(other if drawn < chance else row)
            placed[stage] = f"{start}, reflecting as {stage}"
            models[placed[stage]] = rows
    return models, placed


def said_of_bins(tried: Mapping[str, Any]) -> list[tuple[str, str, Mapping[str, Any], str]]:
    """Each stage of RL with its start, the row of the problems of which that solved none, and whether RL added some."""
    said = []
    for stage, start in tried["differences"]:
        none = tried["bins"].get(start, [{"problems": 0}])[0]
        if none["problems"] and GUESSING in none["beyond"][stage]:
            verdicts = {Part(name, interval).verdict for name, interval in none["beyond"][stage].items()}
            weakest = next((verdict for verdict in (DOES_NOT_HOLD, CANT_TELL) if verdict in verdicts), HOLDS)
            said.append((stage, start, none, ADDED[weakest]))
    return said


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


def guess_at_ks(rows: Sequence[Row]) -> list[PerProblem]:
    """The chance of guessing each problem's answer, for each of KS; empty if a problem has none, such as a program."""
    families: dict[str, dict[str, str | None]] = {}
    for row in rows:
        if row["task"] != GENERAL:
            families.setdefault(row["task"], {})[row["problem_id"]] = row["gold"]
    if not all(chain.from_iterable(golds.values() for golds in families.values())):
        return []
    chances: list[PerProblem] = [{} for _ in KS]
    for golds in families.values():
        for k, chance in zip(KS, chances, strict=True):
            chance |= zip(golds, guess_at_k(list(golds.values()), k), strict=True)
    return chances


def reach(interval: Interval) -> str:
    """What RL did to a model's reach, from the difference of pass@k at the largest k."""
    return REACHED[Part("reach", interval, ceiling=0.0).verdict]


def summarise_tries(tried: Mapping[str, Any]) -> dict[str, Any]:
    """As summary.json has it: {"models": {"base": [{"k": 1, "estimate": …}, …], …}, "differences": {…}, …}."""
    if not tried:
        return {}
    differences: dict[str, dict[str, Any]] = {}
    for (stage, start), intervals in tried["differences"].items():
        differences.setdefault(stage, {})[start] = listed_intervals(intervals)
    models = {name: listed_intervals(line) for name, line in tried["lines"].items()}
    summary = {"models": models, "differences": differences}
    return summary | ({"bins": summarise_bins(tried["bins"])} if tried["bins"] else {})


def summarise_bins(bins: Mapping[str, Iterable[Mapping[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    summary: dict[str, list[dict[str, Any]]] = {}
    for start, rows in bins.items():
        summary[start] = []
        for row in rows:
            models = {name: listed_intervals(line, (1, KS[-1])) for name, line in row["lines"].items()}
            beyond = describe_numbers(row["beyond"])
            listed = {"right": list(row["right"]), "problems": row["problems"], "models": models, "beyond": beyond}
            summary[start].append(listed)
    return summary


def listed_intervals(intervals: Sequence[Interval], ks: Sequence[int] = KS) -> list[Mapping[str, Any]]:
    return [{"k": k, **describe_interval(interval)} for k, interval in zip(ks, intervals, strict=True)]
