"""What distillation and RL of the small model cost in FLOPs, and what the data for distillation cost before that.

docs/claims.md ("C6 compares …") says what is counted. Shown beside C6; it decides nothing.
"""

from collections.abc import Mapping
from typing import Any

from r1flow.recipe.stages import STAGES, sources_of

TRAININGS = ("distill", "student_rl")


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


def behind(stage: str, configs: Mapping[str, dict[str, Any]]) -> set[str]:
    """A stage and all stages that it was made from, by their configurations, without `data`."""
    if stage == "data" or stage not in configs:  # the latter is a folder or a model from outside
        return set()
    return {stage}.union(*(behind(source, configs) for source in sources_of(stage, configs[stage], configs).values()))
