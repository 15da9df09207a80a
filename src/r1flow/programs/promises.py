"""Checks that a stage's metrics.json has every number and curve that the stage's configuration promises to the report.

If a program stopped writing a curve, a claim based on it would look like one that nobody meant to test. So the
program's spec, not the code that computes, declares what must be there. The driver checks it before it publishes a
stage's outputs, and the report when it reads them.

    fault("grpo", {"rewards": {"accuracy": {…}, …}, …}, {"history": [{"step": 1, "reward": 0.4, …}, …], …})
    "history: no step has accuracy, and rewards.accuracy gives one"

Left out: the curves of rewards for some kinds of rows only (helpful, harmless), as a short training may meet no such
row, and of users' own rewards.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from r1flow.core.template import GENERAL
from r1flow.programs.specs import spec_of

# The metrics that every evaluated task must have; null where there is no value.
MEASURES = (
    *("pass_at_1", "se", "cons_at_k", "pass_at_1_lenient", "se_lenient", "cons_at_k_lenient", "pass_at_k"),
    *("format_rate", "language_rate", "mean_length", "finished_rate", "reflection_rate", "n_problems", "k"),
)


class BrokenPromise(Exception):
    """A program left out what its stage's configuration promises: a bug in the program, not a fault in the data."""


def fault(program: str, config: Mapping[str, Any], metrics: Any) -> str | None:
    """The first thing that a stage's metrics lack, as a message that begins with the key; None if they are complete."""
    return next(faults(program, config, metrics), None)


def faults(program: str, config: Mapping[str, Any], metrics: Any) -> Iterator[str]:
    keys = spec_of(program).owed
    for key, kind in keys.items():
        if not isinstance(metrics, dict) or key not in metrics:
            yield f"{key} is missing"
            return
        if not isinstance(metrics[key], kind):
            yield f"{key} should be a {kind.__name__}, and is {str(metrics[key])[:40]!r}"
            return
    if "history" in keys:
        yield from curve_faults(spec_of(program).curves(config, metrics), metrics["history"])
    if "tasks" in keys:
        yield from task_faults(metrics["tasks"])


def curve_faults(promised: Mapping[str, str], history: list[Any]) -> Iterator[str]:
    for number, row in enumerate(history):
        if not isinstance(row, dict) or not is_number(row.get("step")):
            yield f"history.{number}: {str(row)[:40]!r} has no number `step`"
            return
    for curve, why in promised.items():
        if not any(is_number(row.get(curve)) for row in history):
            yield f"history: no step has {curve}, which is needed because {why}"


def task_faults(tasks: dict[str, Any]) -> Iterator[str]:
    if set(tasks) - {GENERAL} and "reasoning" not in tasks:
        yield "tasks: reasoning is missing"
    for task, summary in tasks.items():
        for measure in MEASURES:
            if not isinstance(summary, dict) or measure not in summary:
                yield f"tasks.{task}: {measure} is missing"
            elif summary[measure] is not None and not is_number(summary[measure]):
                yield f"tasks.{task}.{measure}: {str(summary[measure])[:40]!r} isn't a number"


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
