"""Rewards, and functions of users, as a configuration names them."""

import importlib
from collections.abc import Mapping
from typing import Any

from r1flow.core.errors import UserError


def reward_names(rewards: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The reward of each entry of a block `rewards`, by the entry's label: its `name`, or else the label itself."""
    return {label: part.get("name") or label for label, part in rewards.items()}


def users_own(block: str, module: str, attribute: str) -> Any:
    """What a user's module has under this name; a UserError names the block of the configuration, and the file."""
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        where = f"{module.replace('.', '/')}.py in the project's folder"
        raise UserError(f"{block}: {module}.{attribute}: {error}; put the function into {where}") from error
