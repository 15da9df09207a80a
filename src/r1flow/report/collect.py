"""Read what the stages of a run left behind, into one object that the report draws from.

A run need not have every stage: whatever folder is not among the inputs is simply absent here, and the claims that need
it come out as "not tested here".

    inputs: {"evaluate/base": results/r1_tiny/evaluate/base, "zero_rl": results/r1_tiny/zero_rl, …}
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet

from r1flow.claims import Claim, Evidence, judge
from r1flow.errors import UserError
from r1flow.metrics import PerProblem, Row, per_problem

# Dataflow order; a model that is not listed comes after these, in alphabetical order.
MODELS = (
    "base",
    "zero_rl",
    "cold_start",
    "reasoning_rl",
    "reasoning_rl_no_language",
    "sft_mix",
    "align_rl",
    "student_base",
    "student_rl",
    "distill",
)
RL_STAGES = ("zero_rl", "reasoning_rl", "reasoning_rl_no_language", "align_rl", "student_rl")
BASES = ("base", "student_base")  # scored strictly and leniently
FIRST_TASKS, LAST_TASKS = ("reasoning",), ("general",)


@dataclass(frozen=True)
class Results:
    """A run's evaluations and training histories, as far as they exist."""

    run: str
    samples: Mapping[str, list[Row]]  # model -> rows of samples.parquet, models in MODELS' order
    summaries: Mapping[str, Mapping[str, Mapping[str, Any]]]  # model -> task -> metrics
    metrics: Mapping[str, Mapping[str, Any]]  # stage -> its metrics.json

    @property
    def models(self) -> list[str]:
        return list(self.samples)

    @property
    def tasks(self) -> list[str]:
        """ "reasoning" (all families together), then the families, then "general"."""
        found = {task for tasks in self.summaries.values() for task in tasks}
        families = sorted(found - {*FIRST_TASKS, *LAST_TASKS})
        return [task for task in (*FIRST_TASKS, *families, *LAST_TASKS) if task in found]

    def history(self, stage: str, key: str) -> list[tuple[float, float]]:
        """(step, value) for every step of a training that has the value."""
        rows = self.metrics.get(stage, {}).get("history", [])
        return [(row["step"], row[key]) for row in rows if row.get(key) is not None]

    @cached_property
    def evidence(self) -> Evidence:
        """What the claims look at: scores per problem, and the accuracy of every RL step."""
        accuracy = {stage: [value for _, value in self.history(stage, "accuracy")] for stage in RL_STAGES}
        return Evidence({model: scores_of(rows) for model, rows in self.samples.items()}, accuracy)

    @cached_property
    def claims(self) -> list[Claim]:
        return judge(self.evidence)


def in_order(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (MODELS.index(name) if name in MODELS else len(MODELS), name))


def scores_of(rows: Sequence[Row]) -> dict[str, dict[str, PerProblem]]:
    """A model's metrics per problem: reasoning families together, general prompts apart."""
    return {
        "reasoning": per_problem(row for row in rows if row["task"] != "general"),
        "general": per_problem(row for row in rows if row["task"] == "general"),
    }


def collect(run: str, inputs: Mapping[str, Path]) -> Results:
    """Read every input folder; raises UserError if no model was evaluated."""
    evaluated = {name.removeprefix("evaluate/"): path for name, path in inputs.items() if name.startswith("evaluate/")}
    if not evaluated:
        raise UserError("report: no evaluated model among its inputs; add a model stage and evaluate to `stages`")
    models = in_order(evaluated)
    metrics = {name: path / "metrics.json" for name, path in inputs.items()}
    found = {name: json.loads(path.read_text()) for name, path in metrics.items() if path.is_file()}
    return Results(
        run=run,
        samples={model: parquet.read_table(evaluated[model] / "samples.parquet").to_pylist() for model in models},
        summaries={model: found[f"evaluate/{model}"]["tasks"] for model in models},
        metrics=found,
    )
