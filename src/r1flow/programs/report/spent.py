"""FLOPs of what is compared: distillation and RL of the small model, and R1 and R1-Zero after the base model.

docs/claims.md ("C6 compares …") says what is counted. Shown beside C6 and C11; it decides nothing.
"""

from collections.abc import Mapping
from typing import Any

from r1flow.recipe.stages import STAGES, sources_of

TRAININGS = ("distill", "student_rl")
R1 = ("align_rl", "zero_rl")


def spent(configs: Mapping[str, dict[str, Any]], metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """FLOPs of both trainings, and of each stage that the distillation data came from; empty unless the run has both.

    A stage that runs no model isn't listed; a stage's value is None if its FLOPs aren't known.
    """
    if not set(TRAININGS) <= configs.keys():
        return {}
    makers = behind(sources_of("distill", configs["distill"], configs)["data"], configs)
    return {
        "training": {stage: metrics[stage]["flops"] for stage in TRAININGS},
        "data": {stage: metrics[stage]["flops"] for stage in STAGES if stage in makers and "flops" in metrics[stage]},
    }


def spent_after_base(
    configs: Mapping[str, dict[str, Any]], metrics: Mapping[str, Mapping[str, Any]]
) -> dict[str, float | None]:
    """FLOPs of all stages between the base model and R1, and R1-Zero; None if one isn't known, empty without both."""
    if not set(R1) <= configs.keys():
        return {}
    needed = {}
    for model in R1:
        makers = behind(model, configs) - behind("base", configs)
        flops = [metrics[stage]["flops"] for stage in makers if "flops" in metrics[stage]]
        needed[model] = None if None in flops else sum(flops)
    return needed


def behind(stage: str, configs: Mapping[str, dict[str, Any]]) -> set[str]:
    """A stage and all stages that it was made from, by their configurations, without `data`."""
    if stage == "data" or stage not in configs:  # the latter is a folder or a model from outside
        return set()
    return {stage}.union(*(behind(source, configs) for source in sources_of(stage, configs[stage], configs).values()))
