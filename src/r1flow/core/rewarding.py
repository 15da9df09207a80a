"""Rewards as a configuration names them."""

from collections.abc import Mapping
from typing import Any


def reward_names(rewards: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The reward of each entry of a block `rewards`, by the entry's label: its `name`, or else the label itself."""
    return {label: part.get("name") or label for label, part in rewards.items()}
