"""What the neighbours of a program must know of it, by its name, without importing what it computes with.

    spec_of("grpo").keys, spec_of("grpo").check(config), …

A program is a folder here with two modules: compute.py, and spec.py with a `SPEC`. The first doesn't import the second,
or an edited check would rerun a training; no spec imports torch, or a plan would take seconds.
"""

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from r1flow.core.errors import UserError

Config = dict[str, Any]


@dataclass(frozen=True)
class Spec:
    """A program's facts."""

    keys: type  # a dataclass: the keys of its configuration, with their types
    check: Callable[[Config], None] = lambda config: None  # raises UserError for values that it couldn't run with
    files_read: Callable[[Config], Iterator[tuple[str, str]]] = lambda config: iter(())  # of the data: key, file
    trainer: tuple[tuple[str, str], ...] = ()  # wheel and file of the classes that own the keys under `trainer:`
    read: tuple[str, ...] = ()  # options of the trainer that checks, prices and resumes read too
    words: dict[str, list[str]] = field(default_factory=dict)  # of trainer options; those that no such class lists


@cache
def spec_of(program: str) -> Spec:
    """The program's; raises UserError, naming the file, for a program that is half there."""
    for name in ("compute.py", "spec.py"):
        if not (path := Path(__file__).parent / program / name).is_file():
            raise UserError(f"{path}: missing; a program is a folder with compute.py and spec.py")
    module = importlib.import_module(f"{__package__}.{program}.spec")
    if not isinstance(getattr(module, "SPEC", None), Spec):
        raise UserError(f"{module.__file__}: has no SPEC; make one (src/r1flow/programs/specs.py says of what)")
    return module.SPEC
