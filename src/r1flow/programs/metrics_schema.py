"""The metrics schema: every number and curve that a stage's metrics.json must have, given the stage's configuration.

If a program stopped writing a curve, a claim based on it would look like one that nobody meant to test. So the
program's spec, not the code that computes, declares what must be there. The driver checks it before it publishes a
stage's outputs, and the report when it reads them.

    fault("grpo", {"rewards": {"accuracy": {…}, …}, …}, {"history": [{"step": 1, "reward": 0.4, …}, …], …})
    "history: no step has accuracy, and rewards.accuracy gives one"

Left out: the curves of rewards for some kinds of rows only (helpful, harmless), as a short training may meet no such
row, and of users' own rewards.
"""

from collections.abc import Mapping
from typing import Any

from r1flow.core.template import GENERAL
from r1flow.programs.specs import spec_of
from r1flow.tracking.left_out import REASONS
from r1flow.tracking.progress import is_number

# The metrics that every evaluated task must have; null where there is no value.
MEASURES = (
    *("pass_at_1", "se", "cons_at_k", "pass_at_1_lenient", "se_lenient", "cons_at_k_lenient", "pass_at_k"),
    *("format_rate", "language_rate", "mean_length", "finished_rate", "reflection_rate", "n_problems", "k"),
    *("solved", "thinking_rate", "reflection_density"),
)


class IncompleteMetrics(Exception):
    """A program left out a metric that the schema requires: a bug in the program, not a fault in the data."""


def first_fault(program: str, config: Mapping[str, Any], metrics: Any) -> str | None:
    """The first thing that a stage's metrics lack, as a message that begins with the key; None if they are complete."""
    keys = spec_of(program).metrics
    for key, kind in keys.items():
        if not isinstance(metrics, dict) or key not in metrics:
            return f"{key} is missing"
        if not isinstance(metrics[key], kind):
            return f"{key} should be a {kind.__name__}, and is {str(metrics[key])[:40]!r}"
    if "counts" in keys and (missing := counts_fault(metrics["counts"])):
        return missing
    if "tasks" in keys:
        return evaluation_fault(config, metrics)
    return curve_fault(spec_of(program).curves(config, metrics), metrics["history"]) if "history" in keys else None


def counts_fault(counts: dict[str, Any]) -> str | None:
    """What is wrong with the counts of rows: each has read, kept, and known reasons that add up to the difference."""
    for name, count in counts.items():
        if not isinstance(count, dict) or count.keys() != {"read", "kept", "left_out"}:
            return f"counts.{name}: it needs read, kept and left_out"
        if unknown := sorted(count["left_out"].keys() - REASONS.keys()):
            return f"counts.{name}.left_out: {unknown[0]!r} is no reason that tracking/left_out.py explains"
        if count["read"] - count["kept"] != sum(count["left_out"].values()):
            return f"counts.{name}: {count['read']} read, {count['kept']} kept, and the reasons don't add up to that"
    return None if counts else "counts: no file is counted"


def curve_fault(required: Mapping[str, str], history: list[Any]) -> str | None:
    for number, row in enumerate(history):
        if not isinstance(row, dict) or not is_number(row.get("step")):
            return f"history.{number}: {str(row)[:40]!r} has no number `step`"
    for curve, why in required.items():
        if not any(is_number(row.get(curve)) for row in history):
            return f"history: no step has {curve}, which is needed because {why}"
    return None


def evaluation_fault(config: Mapping[str, Any], metrics: dict[str, Any]) -> str | None:
    """What the tasks' numbers lack: as asked, with <think> given, or paraphrased."""
    if missing := task_fault("tasks", metrics["tasks"]):
        return missing
    given = {each["temperature"]: each["tasks"] for each in metrics["thinking"]}
    for number, temperature in enumerate(config["thinking"]):
        if temperature not in given:
            return f"thinking: {temperature} is missing"
        if missing := task_fault(f"thinking.{number}.tasks", given[temperature]):
            return missing
    again = {f"interventions.{name}": tasks for name, tasks in metrics.get("interventions", {}).items()}
    if config["paraphrased"] and "reasoning" in metrics["tasks"]:
        again["paraphrased.tasks"] = metrics.get("paraphrased", {}).get("tasks")
    for place, tasks in again.items():
        if missing := task_fault(place, tasks):
            return missing
    return None


def task_fault(place: str, tasks: dict[str, Any] | None) -> str | None:
    if tasks is None:
        return f"{place} is missing"
    if set(tasks) - {GENERAL} and "reasoning" not in tasks:
        return f"{place}: reasoning is missing"
    for task, summary in tasks.items():
        for measure in MEASURES:
            if not isinstance(summary, dict) or measure not in summary:
                return f"{place}.{task}: {measure} is missing"
            if summary[measure] is not None and not is_number(summary[measure]):
                return f"{place}.{task}.{measure}: {str(summary[measure])[:40]!r} isn't a number"
    return None
