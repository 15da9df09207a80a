"""Samples per problem when `<think>` is forced; apart from compute.py so that the cost estimate needs no torch."""

from typing import Any


def samples_given(config: dict[str, Any], temperature: float) -> int:
    """`k` at the evaluation's own temperature, half as many (rounded up) at another, and 1 at temperature 0."""
    if temperature == 0:
        return 1
    return config["k"] if temperature == config["temperature"] else -(-config["k"] // 2)
