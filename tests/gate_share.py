"""The gate's share of a parametrised test: the other values are of the same kind, and wait for the slow suite."""

from collections.abc import Sequence
from typing import Any

import pytest


def one_in(count: int, values: Sequence[Any]) -> list[Any]:
    """`values` for pytest.mark.parametrize: the first one of each `count` in the gate, the others marked slow."""
    chosen = list(values)
    for number, value in enumerate(values):
        if number % count:
            param = (
                value if hasattr(value, "marks") else pytest.param(*(value if isinstance(value, tuple) else (value,)))
            )
            chosen[number] = pytest.param(*param.values, marks=[*param.marks, pytest.mark.slow], id=param.id)
    return chosen
