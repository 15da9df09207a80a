"""How many samples a problem gets in each way of asking; the price, too, is known by this."""

from typing import Any


def samples_given(config: dict[str, Any], temperature: float) -> int:
    """Samples of a problem with <think> given: k at the evaluation's own temperature, half at others, 1 at 0."""
    if temperature == 0:
        return 1
    return config["k"] if temperature == config["temperature"] else -(-config["k"] // 2)
