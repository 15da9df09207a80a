"""Verifies what is on disk: every file by its hash, every stage by its inputs.

    results/r1_tiny/sft_mix/model/model.safetensors is not what its manifest says
    results/r1_tiny/align_rl/provenance.json says that sft_mix (input model) was another one
    22 stages, 164 files, 61.3 MB hashed: 2 problems

Left out: inputs from outside the project, which the plan hashes when it reads them.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from r1flow.artifacts import manifest, provenance, versions
from r1flow.artifacts.folders import stage_or_run_folder
from r1flow.artifacts.manifest import MANIFEST, Fault, sha256
from r1flow.artifacts.versions import RESULTS
from r1flow.commands.finding import add_json, megabytes, tell
from r1flow.commands.places import enter_project
from r1flow.core.errors import UserError, printable
from r1flow.tracking.progress import Progress


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Hash every output and compare it with its manifest, and every manifest with the provenance of "
        "the stages that were made from it. Exit code 1: something has changed."
    )
    what = "a run's folder, or a stage's (default: all runs, and data/)"
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN_DIR", help=what)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    enter_project()
    return verify(arguments.run, arguments.json)


def verify(run: Path | None, as_json: bool = False) -> int:
    """Hash all files of a run or a stage (None: of all runs and of data/), print every problem; 1 if there is one."""
    runs = sorted(RESULTS.glob("*/"))
    if run:
        runs = [stage_or_run_folder(run)]
    of_runs = chain.from_iterable(map(stages, runs))
    folders = [folder for folder in of_runs if any(folder.iterdir())]  # an empty one isn't made yet
    if run and not folders:
        raise UserError(f"{runs[0]}: no finished stage in it; name a run's folder, for example results/r1_tiny")
    if versions.DATA.is_dir() and (run is None or reads_pinned_data(runs[0])):
        folders.append(versions.DATA)
    hashing, told = Hashing(folders), []
    for problem in problems(folders, hashing):
        told.append({"path": str(problem.path), "problem": problem.what})
        if not as_json:
            print(printable(str(problem)))
    verdict = "everything is as its manifest says"
    if told:
        verdict = f"{len(told)} problem{'s' if len(told) > 1 else ''}"
    words = f"{len(folders)} stages, {hashing} hashed: {verdict}"
    tell({"stages": len(folders), **hashing.counts, "problems": told}, words, as_json)
    return 1 if told else 0


def problems(folders: list[Path], hashing: "Hashing") -> Iterator[Fault]:
    """Everything that is wrong with these stages: contents, provenance, the stages they were made from, the pin."""
    for folder in folders:
        yield from folder_faults(folder, hashing)
        yield from strangers(folder)
        if folder == versions.DATA:
            yield from unpinned(folder)


def folder_faults(folder: Path, hashing: "Hashing") -> Iterator[Fault]:
    """Files that aren't as manifest and provenance say; data/ may lack a provenance, as data.dvc pins its files."""
    unproved = folder == versions.DATA and provenance_of(folder) is None
    yield from (manifest.file_faults if unproved else provenance.stage_faults)(folder, hashing.sha256)


def strangers(folder: Path) -> Iterator[Fault]:
    """Inputs that the stage was made from and that no stage on disk is now."""
    for name, entry in ((provenance_of(folder) or {}).get("inputs") or {}).items():
        manifests = [source / MANIFEST for source in sources(folder, entry.get("stage"))]
        if "stage" in entry and entry["sha256"] not in [sha256(path) for path in manifests if path.is_file()]:
            what = "was another one" if any(path.is_file() for path in manifests) else "was there, which it isn't now"
            yield Fault(folder / "provenance.json", f"says that {entry['stage']} (input {name}) {what}")


def sources(folder: Path, stage: str | None) -> list[Path]:
    """Where a stage that `folder` was made from can be: in its run; else in data/ (for data) or in any other run."""
    own = run_of(folder) / str(stage)
    if own.is_dir():
        return [own]
    return [versions.DATA] if stage == "data" else sorted(RESULTS.glob(f"*/{stage}"))


def unpinned(folder: Path) -> Iterator[Fault]:
    """Files of data/ that aren't the ones that data.dvc pins."""
    expected, there = versions.pinned().get("files"), hashes(folder)
    if not expected or there is None:
        return
    for name in sorted(expected.keys() | there.keys() - {"metrics.json"}):
        if expected.get(name) != there.get(name):
            yield Fault(folder / name, f"is not what {versions.POINTER} pins")


def hashes(folder: Path) -> dict[str, str] | None:
    """sha256 of each file as the manifest has it; None if the manifest is missing or can't be read."""
    try:
        return {name: entry["sha256"] for name, entry in manifest.read_manifest(folder / MANIFEST)["files"].items()}
    except (OSError, ValueError):
        return None


def provenance_of(folder: Path, name: str = "provenance.json") -> dict[str, Any] | None:
    """The folder's record of what it was made from; None if that is missing or can't be read."""
    try:
        return provenance.read_provenance(folder / name)
    except (OSError, ValueError):
        return None


def run_of(folder: Path) -> Path:
    return folder.parent.parent if folder.parent.name == "evaluate" else folder.parent


def stages(run: Path) -> list[Path]:
    """A run's stage folders, or a stage's own; evaluate has one per model."""
    if (run / MANIFEST).is_file():
        return [run]
    return sorted(path for path in [*run.glob("*/"), *run.glob("evaluate/*/")] if path != run / "evaluate")


def reads_pinned_data(run: Path) -> bool:
    return versions.POINTER.exists() and not any((run / name).exists() for name in ("data", MANIFEST))


@dataclass
class Hashing:
    """Hashes the stages' files and counts them; on a terminal it says how far it is."""

    folders: list[Path]
    files: int = 0
    size: int = 0  # bytes

    def __post_init__(self) -> None:
        self.total = sum(len(hashes(folder) or ()) for folder in self.folders)
        self.terminal = Progress("verify", sys.stderr) if sys.stderr.isatty() else None

    def sha256(self, path: Path) -> str:
        digest = sha256(path)
        self.files += 1
        self.size += path.stat().st_size
        if self.terminal:
            self.terminal.update(self.files, self.total, read=megabytes(self.size))
        return digest

    @property
    def counts(self) -> dict[str, int]:
        return {"files": self.files, "bytes": self.size}

    def __str__(self) -> str:
        return f"{self.files} files, {megabytes(self.size)}"
