"""Ways of asking that checks and cost estimates know, too; apart from compute.py, so that they need no torch."""

from typing import Any

NO_TOOLS = "no_tools"  # of evaluate.interventions: without the tools of evaluate.environment


def samples_given(config: dict[str, Any], temperature: float) -> int:
    """Of a problem with <think> given: `k` at the evaluation's own temperature, half as many at another, 1 at 0."""
    if temperature == 0:
        return 1
    return config["k"] if temperature == config["temperature"] else -(-config["k"] // 2)
