"""What reflection is worth: thoughts that were changed after their first answer, beside the model's own.

docs/claims.md ("What reflection is worth") has the measures and the rules. The samples are those of
evaluate.interventions (programs/evaluate/interventions.py).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from r1flow.core.metrics import Interval, PerProblem, Row, as_share, is_solved, rows_by, within_bounds
from r1flow.recipe.claims import (
    CANT_TELL,
    DOES_NOT_HOLD,
    HOLDS,
    Evidence,
    Part,
    compare_families,
    describe_numbers,
    if_solved,
    over_families,
    over_seeds,
)

OWN, FORBIDDEN, FORCED, RIGHT, WRONG = "own", "no_reflection", "forced_reflection", "after_right", "after_wrong"
WAYS = {  # of continuing a thought, and their names in the table
    OWN: "as it goes on by itself",
    FORBIDDEN: "without reflection",
    FORCED: "with reflection",
    RIGHT: "with it, after a right answer",
    WRONG: "with it, after a wrong answer",
}
ALL = "all families"
WORTH, READS, REFLECTS = "worth", "reads", "reflects"
IS = {  # by the verdict on what it reads, of reflection that is worth something
    HOLDS: "is worth something, and depends on the answer before it: more is solved after a right one than a wrong one",
    DOES_NOT_HOLD: "is a second try: it is worth something, and whether the answer before it is right or wrong makes no"
    " difference",
    CANT_TELL: "is worth something; whether it depends on the answer before it, we can’t tell",
}
ISNT = {
    DOES_NOT_HOLD: "is a ritual: without it as many problems are solved, or more",
    CANT_TELL: "may or may not be worth anything: we can’t tell",
}
BEYOND = {
    HOLDS: "solves more than its start would if that reflected as often",
    DOES_NOT_HOLD: "solves no more than its start would if that reflected as often",
    CANT_TELL: "may or may not solve more than its start would if that reflected as often: we can’t tell",
}


def reflection_rows(
    evidence: Evidence, thoughts: Mapping[str, Sequence[Row]], changed: Mapping[str, Sequence[Row]]
) -> list[dict[str, Any]]:
    """For every model whose thoughts were changed, over all families and in each: the share solved in every way.

    `thoughts` are the models' samples as they were, of which those count that were changed too.
    """
    rows = []
    for model, others in changed.items():
        own = changeable(thoughts[model], others)
        solved = {OWN: share_of(own, is_solved)}
        for way, samples in rows_by(others, "intervention").items():
            solved[way] = share_of(samples, is_solved)
        reflects = share_of(own, lambda row: row["reflections"] > 0)
        families = sorted({evidence.families[problem] for problem in solved[OWN]})
        for family in (ALL, *families):
            kept = {way: of_one(evidence, values, family) for way, values in solved.items()}
            row = {"model": model, "family": family, "samples": len(own), "of": len(thoughts[model]), "solved": kept}
            rows.append(row | {REFLECTS: over_families(evidence, of_one(evidence, reflects, family)).estimate})
    return rows


def changeable(thoughts: Iterable[Row], changed: Iterable[Row]) -> list[Row]:
    """Those of the thoughts that state an answer, so that they were changed after it."""
    names = {sample_key(row) for row in changed}
    return [row for row in thoughts if sample_key(row) in names]


def sample_key(row: Row) -> tuple[str, int]:
    """What a model's own sample and the changed ones made from it have in common."""
    return row["problem_id"], row["sample_index"]


def share_of(rows: Iterable[Row], holds: Any) -> PerProblem:
    """Of each problem, the share of its samples for which this holds."""
    problems = rows_by(rows, "problem_id")
    return {problem: float(np.mean(list(map(holds, samples)))) for problem, samples in problems.items()}


def of_one(evidence: Evidence, values: PerProblem, family: str) -> PerProblem:
    """The values of one family's problems, or of all."""
    return {p: value for p, value in values.items() if family in (ALL, evidence.families[p])}


def with_intervals(evidence: Evidence, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows with intervals: of each way, of reflection's worth, and of the worth of a right answer before it."""
    with_cells = []
    for row in rows:
        solved = row["solved"]
        cells = {way: as_share(over_families(evidence, values)) for way, values in solved.items()}
        for name, (one, other) in {WORTH: (FORCED, FORBIDDEN), READS: (RIGHT, WRONG)}.items():
            if {one, other} <= solved.keys():
                difference = compare_families(evidence, solved[one], solved[other])
                cells[name] = if_solved(difference, solved[one].values(), solved[other].values())
        with_cells.append(row | {"cells": cells})
    return with_cells


def placed_rows(
    evidence: Evidence,
    rows: Iterable[Mapping[str, Any]],
    thoughts: Mapping[str, Sequence[Row]],
    changed: Mapping[str, Sequence[Row]],
    starts: Mapping[str, str],
) -> list[dict[str, Any]]:
    """For each RL stage, against what its start is expected to solve where it reflects as often in each family.

    Only thoughts that state an answer count, of both.
    """
    solved = {row["model"]: row["solved"] for row in rows if row["family"] == ALL}
    shares = reflection_shares(rows)
    compared = []
    for stage, start in starts.items():
        if stage in solved and {FORCED, FORBIDDEN} <= solved.get(start, {}).keys():
            expected: dict[str, list[float]] = {}
            own = changeable(thoughts[start], changed[start])
            for row, other, chance in placements(own, changed[start], shares[start], shares[stage]):
                value = (1 - chance) * is_solved(row) + chance * is_solved(other)
                expected.setdefault(row["problem_id"], []).append(value)
            placed = {problem: float(np.mean(values)) for problem, values in expected.items()}
            trained = solved[stage][OWN]
            difference = if_solved(compare_families(evidence, trained, placed), trained.values(), placed.values())
            share = as_share(over_families(evidence, placed))
            compared.append({"pair": (stage, start), "placed": share, "beyond": difference})
    return compared


def placements(
    thoughts: Iterable[Row], changed: Iterable[Row], owns: Mapping[str, float], wanted: Mapping[str, float]
) -> Iterator[tuple[Row, Row, float]]:
    """The thoughts of a stage's start, what may take each one's place, and with what chance, so that as many reflect.

    `owns` and `wanted` are the shares of the start's and of the stage's thoughts that reflect, by family. Where the
    start reflects more often in a family than the stage does, some of its thoughts that reflect are continued without
    reflection instead; where less often, some of the others with it. All else stays, also thoughts that state no
    answer, so a model that reflects as often as its start takes nothing's place.
    """
    ways = {(row["intervention"], sample_key(row)): row for row in changed}
    for row in thoughts:
        own = owns.get(row["task"], 0.0)
        share = wanted.get(row["task"], own)
        way, chance = FORBIDDEN, 0.0
        if row["reflections"] > 0 and share < own:
            chance = 1 - share / own
        elif row["reflections"] == 0 and share > own:
            way, chance = FORCED, (share - own) / (1 - own)
        yield row, ways.get((way, sample_key(row)), row), chance


def reflection_shares(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Of the rows of `reflection_rows`: model → family → the share of its thoughts that reflect."""
    shares: dict[str, dict[str, float]] = {}
    for row in rows:
        shares.setdefault(row["model"], {})[row["family"]] = row[REFLECTS]
    return shares


def lacking_in_a_run(told: Sequence[Mapping[str, Any]]) -> list[str]:
    """What `reflection_over` has no row of, as not every run's summary tells it: ["base in sums"]."""
    runs: Counter[str] = Counter()
    for run in told:
        for model, families in run["models"].items():
            runs.update(f"{model} in {family}" for family in families)
    return [name for name, count in runs.items() if count < len(told)]


def present_reflection(
    rows: Sequence[Mapping[str, Any]], placed: Sequence[Mapping[str, Any]], at_least: int
) -> dict[str, Any]:
    """What reflection.html.jinja shows; a verdict needs `at_least` problems, or seeds."""
    ways = [way for way in WAYS if rows and way in rows[0]["cells"]]
    said = {row["model"]: said_of_reflection(row["cells"], at_least) for row in rows if row["family"] == ALL}
    beyond = [(*row["pair"], said_of_placing(row["beyond"], at_least)) for row in placed]
    return {"rows": rows, "ways": {way: WAYS[way] for way in ways}, "said": said, "placed": placed, "beyond": beyond}


def said_of_reflection(cells: Mapping[str, Interval], at_least: int) -> str:
    """In words what reflection is; empty where it wasn't measured."""
    if not {WORTH, READS} <= cells.keys():
        return ""
    worth = Part(WORTH, cells[WORTH], at_least=at_least).verdict
    return IS[Part(READS, cells[READS], at_least=at_least).verdict] if worth == HOLDS else ISNT[worth]


def said_of_placing(beyond: Interval, at_least: int) -> str:
    return BEYOND[Part("beyond", beyond, at_least=at_least).verdict]


def summarise_reflection(rows: Iterable[Mapping[str, Any]], placed: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """As summary.json has them: {"models": {"base": {"products": {"samples": 640, "own": {…}, …}, …}, …}, …}."""
    models: dict[str, Any] = {}
    for row in rows:
        told = {"samples": row["samples"], "of": row["of"], REFLECTS: row[REFLECTS], **row["cells"]}
        models.setdefault(row["model"], {})[row["family"]] = describe_numbers(told)
    pairs = {}
    for row in placed:
        stage, start = row["pair"]
        pairs[stage] = describe_numbers({"start": start, "placed": row["placed"], "beyond": row["beyond"]})
    return {"models": models, "placed": pairs}


def reflection_over(told: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows over several runs, of what all of their summaries tell: means of their estimates, over seeds."""
    rows, placed = [], []
    for model, families in told[0]["models"].items():
        for family, first in families.items():
            each = [run["models"].get(model, {}).get(family) for run in told]
            if None in each:  # in one of the runs no thought about these problems states an answer
                continue
            cells = {}
            for name in [*WAYS, WORTH, READS]:
                if name in first:
                    mean = over_seeds([run[name] for run in each])
                    cells[name] = within_bounds(mean) if name in WAYS else mean
            samples, of = sum(one["samples"] for one in each), sum(one["of"] for one in each)
            row = {"model": model, "family": family, "samples": samples, "of": of, "cells": cells}
            rows.append(row | {REFLECTS: float(np.mean([one[REFLECTS] for one in each]))})
    for stage, first in told[0]["placed"].items():
        if not all(stage in run["placed"] for run in told):
            continue
        each = [run["placed"][stage] for run in told]
        share = within_bounds(over_seeds([run["placed"] for run in each]))
        beyond = over_seeds([run["beyond"] for run in each])
        placed.append({"pair": (stage, first["start"]), "placed": share, "beyond": beyond})
    return rows, placed
