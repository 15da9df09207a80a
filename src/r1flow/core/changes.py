"""The differences between two configurations, or other nested dicts and lists, value by value.

before, after = leaves({"trainer": {"beta": 0.001}}), leaves({"trainer": {"beta": 0.01}})
list(changes(before, after))    [("trainer.beta", "0.001", "0.01")]
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any


def children(value: Any) -> dict[str, Any]:
    """The direct children of a dict or list, by key or number; other values have none."""
    if isinstance(value, dict):
        return {str(key): item for key, item in value.items()}
    if isinstance(value, list):
        return {str(number): item for number, item in enumerate(value)}
    return {}


def leaves(value: Any, path: str = "") -> dict[str, str]:
    """Every leaf (innermost value) of nested dicts and lists as JSON, by its path: {"trainer.betas.0": "0.9"}."""
    by_path = {}
    for key, item in children(value).items():
        by_path |= leaves(item, f"{path}.{key}" if path else key)
    return by_path or {path: json.dumps(value, ensure_ascii=False, default=str)}


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """(key, before, after) for every difference; a value that one of them lacks is "absent"."""
    for key in sorted(before.keys() | after.keys()):
        if key not in before or key not in after or before[key] != after[key]:
            yield key, before.get(key, "absent"), after.get(key, "absent")
