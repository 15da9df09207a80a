"""What tools are to each model: what it solves with them and without, and how it calls them (docs/agents.md).

The samples without tools are those of the intervention `no_tools` (programs/evaluate/interventions.py).
"""

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any

from r1flow.core.metrics import PerProblem, Row, paired_difference, per_problem
from r1flow.programs.evaluate.ways import NO_TOOLS
from r1flow.programs.report.collect import Results
from r1flow.recipe.claims import describe_interval


def tool_rows(results: Results) -> list[dict[str, Any]]:
    """A row for each model and family that had tools: solved with and without them, the gain, and the calls."""
    rows = []
    for model in results.models:
        told = results.metrics[f"evaluate/{model}"].get("tools", {})
        alone = [row for row in results.drawn[model] if row["intervention"] == NO_TOOLS]
        for task in filter(told.__contains__, results.tasks):
            solved, without = (solved_of(task, samples) for samples in (results.samples[model], alone))
            row = {"model": model, "task": task, "solved": results.summaries[model][task]["solved"], **told[task]}
            if without:
                row |= {"without": fmean(without.values()), "gain": paired_difference(solved, without)}
            rows.append(row)
    return rows


def solved_of(task: str, rows: Iterable[Row]) -> PerProblem:
    return per_problem([row for row in rows if row["task"] == task])["solved"]


def summarise_tools(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """As summary.json has them: {"base": {"products": {"solved": 0.84, "without": 0.0, "gain": {…}, …}, …}, …}."""
    models: dict[str, dict[str, Any]] = {}
    for row in rows:
        numbers = {name: value for name, value in row.items() if name not in ("model", "task")}
        if "gain" in numbers:
            numbers["gain"] = describe_interval(numbers["gain"])
        models.setdefault(row["model"], {})[row["task"]] = numbers
    return models
