"""What tools are to each model: what it solves with them and without, and how it calls them (docs/agents.md).

The samples without tools are those of the intervention `no_tools` (programs/evaluate/interventions.py).
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from r1flow.core.metrics import PerProblem, Row, paired_difference, per_problem
from r1flow.recipe.claims import describe_numbers


def tool_row(told: Mapping[str, float], asked: Sequence[Row], alone: Sequence[Row]) -> dict[str, Any]:
    """Of a model and a family: solved with tools and without, the gain, and `told`, what the evaluation says of calls.

    `asked` are the samples as asked, and `alone` those without tools, of which there may be none.
    """
    solved, without = solved_of(asked), solved_of(alone)
    row = {"solved": fmean(solved.values()) if solved else None, **told}
    if without:
        row |= {"without": fmean(without.values()), "gain": paired_difference(solved, without)}
    return row


def solved_of(rows: Sequence[Row]) -> PerProblem:
    return per_problem(rows)["solved"]


def summarise_tools(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """As summary.json has them: {"base": {"products": {"solved": 0.84, "without": 0.0, "gain": {…}, …}, …}, …}."""
    models: dict[str, dict[str, Any]] = {}
    for row in rows:
        numbers = {name: value for name, value in row.items() if name not in ("model", "task")}
        models.setdefault(row["model"], {})[row["task"]] = describe_numbers(numbers)
    return models
