"""The facts about a program that plan, checks and report need, found by its name, without importing torch.

    spec_of("grpo").keys, spec_of("grpo").check(config), …

A program is a folder here with two modules: compute.py, and spec.py with a `SPEC`. compute.py must not import spec.py,
or an edited check would rerun a training; no spec may import torch, or planning would take seconds longer.
"""

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1flow.core.errors import UserError, did_you_mean
from r1flow.recipe import stages

if TYPE_CHECKING:
    from r1flow.programs.cost_estimate import Cost, Estimator

Config = dict[str, Any]
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Spec:
    """A program's facts."""

    keys: type  # a dataclass: the keys of its configuration, with their types
    # Files and folders (with a slash) that it adds to those of every stage.
    outputs: Callable[[Config], list[str]]
    check: Callable[[Config], None] = lambda config: None  # raises UserError for values that it couldn't run with
    check_anew: Callable[[Config], None] = lambda config: None  # slow checks, of a stage to compute
    files_read: Callable[[Config], Iterator[tuple[str, str]]] = lambda config: iter(())  # data files: (key, file)
    # Wheel and file of the classes that define the keys under `trainer:`.
    trainer: tuple[tuple[str, str], ...] = ()
    # Trainer options that r1flow itself reads too, in checks, cost estimates and resuming.
    read: tuple[str, ...] = ()
    metrics: dict[str, type] = field(default_factory=dict)  # keys that metrics.json must have, with their types
    curves: Callable[[Config, Config], dict[str, str]] = lambda config, metrics: {}  # in `history`: name → reason
    cost: Callable[["Estimator", str, Config], "Cost"] | None = None  # of a job; None: it can't be estimated
    memory: Callable[[Config, float, float], tuple[float, float]] = lambda config, parameters, reward: (0, 0)
    labels: Callable[[Config], str | None] = lambda config: None  # the loss's: all, response, completion, pairs, …
    on_gpu: bool = False  # whether a stage with `device: cuda` holds a GPU
    by_ranks: bool = False  # whether a stage is computed by a process for each of its GPUs
    # Minutes that a cluster gives each of its jobs; None: the profile's default.
    runtime: int | None = None
    words: dict[str, list[str]] = field(default_factory=dict)  # values of trainer options that the classes don't list


def spec_of(program: str) -> Spec:
    """The program's spec; raises UserError, naming the file, where it has none."""
    name = f"{__package__}.{program}.spec"
    try:
        return importlib.import_module(name).SPEC
    except (ModuleNotFoundError, AttributeError) as error:
        raise UserError(f"{name}: {error}; write a spec.py that defines SPEC = Spec(keys=…, outputs=…)") from error


def check_recipe() -> None:
    """Refuse two rows of one name, and a row whose program doesn't exist; raises UserError that names the file."""
    names, programs = [row.stage for row in stages.ROWS], sorted(path.parent.name for path in HERE.glob("*/spec.py"))
    for row in stages.ROWS:
        if names.count(row.stage) > 1:
            raise UserError(f"{stages.__file__}: two rows are called {row.stage!r}; give one another name")
        if row.program not in programs:
            hint = did_you_mean(row.program, programs)
            raise UserError(f"{stages.__file__}: {row.stage}: there is no program {row.program!r} in {HERE}{hint}")


def check_programs() -> None:
    """Refuse a program without compute.py or spec.py, and specs that import torch; raises UserError with the file."""
    before = "torch" in sys.modules
    for folder in HERE.iterdir():
        if folder.is_dir() and folder.name != "__pycache__":
            for name in ("compute.py", "spec.py"):
                if not (folder / name).is_file():
                    raise UserError(f"{folder / name}: missing; a program is a folder with compute.py and spec.py")
            spec_of(folder.name)
            if "torch" in sys.modules and not before:
                raise UserError(
                    f"{folder / 'spec.py'}: it imports torch, so every plan would take seconds; import it in compute.py"
                )
