"""What a stage's folder says of how it was made: its manifest and provenance, read together.

    read_record(Path("results/r1_tiny/zero_rl")).provenance["seed"]    # 1

Every mistake is a UserError with the file and the remedy.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from r1flow.artifacts.manifest import MANIFEST, PROVENANCE, read_json, read_manifest, sha256
from r1flow.artifacts.provenance import read_provenance
from r1flow.core.errors import UserError


@dataclass(frozen=True)
class Record:
    """What a stage's folder says of how it was made."""

    folder: Path
    sha256: str  # of manifest.json
    manifest: dict[str, Any]
    provenance: dict[str, Any]

    @property
    def stage(self) -> str:
        return self.provenance["stage"]

    @property
    def run(self) -> Path:
        """results/r1_tiny; for the pinned data, the project."""
        return self.folder.parents[self.stage.count("/")]

    @property
    def project(self) -> Path:
        return self.run.parent.parent if self.run.parent.name == "results" else self.run


def read_record(folder: Path) -> Record:
    """A stage's manifest and provenance; raises UserError if one is missing or they don't belong together."""
    outputs = read_file(folder / MANIFEST, read_manifest)
    made = read_file(folder / PROVENANCE, read_provenance)
    digest = sha256(folder / MANIFEST)
    if made["outputs"] != digest:
        raise UserError(f"{folder / MANIFEST} isn't what provenance.json beside it names; delete it and run again")
    return Record(folder, digest, outputs, made)


def evaluated_earlier(evaluation: Path, model: Path) -> bool:
    """Whether an evaluation's stage was made with an earlier state of its model's stage, as a killed run may leave."""
    made, now = evaluation / PROVENANCE, model / MANIFEST
    if not made.is_file() or not now.is_file():
        return False
    inputs = read_file(made, read_provenance)["inputs"]
    if "model" not in inputs:
        raise UserError(f"{made} names no model that was evaluated; run the stage again, or restore it")
    return inputs["model"]["sha256"] != sha256(now)


def read_file(path: Path, how: Callable[[Path], Any] = read_json) -> Any:
    """What a stage's file says; raises UserError where it isn't there or can't be read."""
    try:
        return how(path)
    except FileNotFoundError:
        raise UserError(f"{path} is missing; run the stage again, or restore it") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(
            f"{path} can't be read as a stage's file ({error}); run the stage again, or restore it"
        ) from error


def absolute_place(path: Path) -> Path:
    """The absolute path: through links, but for results/ on another disk, as a run's project is beside results/."""
    here = Path(os.path.abspath(path))
    return here if "results" in here.parts else path.resolve()


def folder_of(run: Path, stage: str) -> Path:
    """The stage's folder; a run without data of its own has read the pinned data of its project."""
    own = run / stage
    return run.parent.parent / "data" if stage == "data" and not own.is_dir() else own
