"""Whether reinforcement learning has anything to learn from, by the curves of its steps: what is said where it hasn't.

    in 4 of 4 logged steps all completions of a prompt had the same reward, which teaches nothing: no completion is …

A group of equal rewards gives advantages of 0 (DeepSeekMath, section 4.1.2), and so no gradient. A completion that is
truncated has no answer. Such a training costs as much as any other, and its model is the one that it began with.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

StepMetrics = Mapping[str, float]

WINDOW = 5  # logged steps in a row, after which it is said while the training runs
# Of the prompts; over five sets of completions the trainings of r1_tiny reach 0.66 at most.
ALIKE = 0.95
CUT = 0.5  # of the completions


def is_alike(row: StepMetrics) -> bool:
    return row.get("zero_variance", 0.0) >= ALIKE


def is_cut(row: StepMetrics) -> bool:
    return row.get("truncated", 0.0) > CUT


def is_still(row: StepMetrics) -> bool:
    """No gradient although rewards differ."""
    return row.get("grad_norm") == 0 and not is_alike(row)


def why_alike(rows: Sequence[StepMetrics], config: Mapping[str, Any]) -> str:
    said, trainer = "all completions of a prompt had the same reward, which teaches nothing", config["trainer"]
    accuracy = [row["accuracy"] for row in rows if "accuracy" in row]
    if sum(map(is_cut, rows)) > len(rows) / 2:
        return f"{said}: most are truncated; raise trainer.max_completion_length ({trainer['max_completion_length']})"
    if accuracy and max(accuracy) == 0:
        return (
            f"{said}: no completion is right; use easier problems (data.file: {config['data']['file']}) or another"
            " model (init_from), or look at the completions: do the rewards find their answers?"
        )
    if accuracy and min(accuracy) == 1:
        return f"{said}: every completion is right; use harder problems (data.file: {config['data']['file']})"
    more = f"trainer.num_generations ({trainer['num_generations']}) or trainer.temperature ({trainer['temperature']})"
    return f"{said}; raise {more}, or use rewards that tell these completions apart"


def why_cut(rows: Sequence[StepMetrics], config: Mapping[str, Any]) -> str:
    share = sum(row["truncated"] for row in rows) / len(rows)
    limit = config["trainer"]["max_completion_length"]
    said = f"{share:.0%} of the completions were truncated, without an answer"
    return f"{said}; raise trainer.max_completion_length ({limit})"


def why_still(rows: Sequence[StepMetrics], config: Mapping[str, Any]) -> str:
    said = "the gradient was 0 although rewards differed, so that no weight changes"
    if config["trainer"].get("mask_truncated_completions"):
        return f"{said}; set trainer.mask_truncated_completions to false, which leaves out what is truncated"
    rate = config["trainer"]["learning_rate"]
    return (
        f"{said}; look at trainer.learning_rate ({rate}), which breaks a model if it is too high, at the rewards'"
        " weights, and at what trainer.delta and trainer.epsilon leave out of the loss"
    )


OBSTACLES: dict[
    str, tuple[Callable[[StepMetrics], bool], Callable[[Sequence[StepMetrics], Mapping[str, Any]], str]]
] = {
    "equal rewards": (is_alike, why_alike),
    "truncated": (is_cut, why_cut),
    "no gradient": (is_still, why_still),
}


def obstacles_now(rows: Sequence[StepMetrics], config: Mapping[str, Any]) -> dict[str, str]:
    """What kept the latest WINDOW logged steps from teaching anything, and what to change: {"truncated": "…"}."""
    latest = rows[-WINDOW:]
    if len(latest) < WINDOW:
        return {}
    obstacles = {}
    for name, (is_met, why) in OBSTACLES.items():
        if all(map(is_met, latest)):
            obstacles[name] = f"in the last {WINDOW} logged steps {why(latest, config)}"
    return obstacles


def obstacles_met(rows: Sequence[StepMetrics], config: Mapping[str, Any]) -> list[str]:
    """The same of a whole training: met in half of its logged steps or more, or in WINDOW in a row."""
    obstacles = []
    for is_met, why in OBSTACLES.values():
        met = [row for row in rows if is_met(row)]
        in_a_row = max((len(list(run)) for was_met, run in groupby(rows, is_met) if was_met), default=0)
        if met and (2 * len(met) >= len(rows) or in_a_row >= WINDOW):
            obstacles.append(f"in {len(met)} of {len(rows)} logged steps {why(met, config)}")
    return obstacles
