"""What a stage's program is given: what it reads, where it writes, and how it reports.

A program is a folder of r1flow.programs with a function `compute(stage) -> metrics` in its compute.py. It reads
`stage.config` and `stage.inputs`, writes its outputs to `stage.work`, keeps what a killed training needs in
`stage.snapshots`, and reports its progress. The code around it (engine/driver.py) can't change an output.
"""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from r1flow.tracking.progress import Progress
    from r1flow.tracking.spool import StageRun


@dataclass
class Stage:
    """One stage being computed: what it reads, where it writes, and how it reports."""

    name: str  # "zero_rl", or "evaluate/zero_rl"
    config: dict[str, Any]
    inputs: dict[str, Path]
    work: Path  # outputs are written here
    snapshots: Path  # resumable state; outlives a kill
    terminal: "Progress"
    tracker: "StageRun" = field(repr=False)
    ranks: int = 1  # processes that compute it together; each has a copy of this

    @property
    def seed(self) -> int:
        """The stage's own seed, 31 bits: from the run's and the stage's name (one name for all evaluations).

        An ablation has the seed of the stage that it is compared with, which its config names.
        """
        name = f"{self.config['seed']}/{self.config.get('ablation_of') or self.name.partition('/')[0]}"
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") >> 1

    def progress(self, done: int, total: int, **fields: float | str) -> None:
        self.terminal.update(done, total, **fields)

    def log_metrics(self, step: int, values: dict[str, float]) -> None:
        self.tracker.log_metrics(step, values)

    def log_table(self, name: str, rows: list[dict[str, Any]]) -> None:
        self.tracker.log_table(name, rows)
