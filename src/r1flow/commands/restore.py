"""Brings published runs back, and verifies what is on disk: every file by its hash, every stage by its inputs.

    results/r1_tiny/sft_mix/model/model.safetensors is not what its manifest says
    results/r1_tiny/align_rl/provenance.json says that sft_mix (input model) was another one
    22 stages, 164 files, 61.3 MB hashed: 2 problems

The plan (plan.py) decides by content, so a restored run has nothing to do, whatever its files' times. Left out: inputs
from outside the project, which the plan hashes when it reads them.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from r1flow.artifacts import manifest, provenance, versions
from r1flow.artifacts.manifest import MANIFEST, Fault, sha256
from r1flow.artifacts.versions import RESULTS
from r1flow.commands.clean import megabytes, refuse_live
from r1flow.core.errors import UserError, listed, printable
from r1flow.tracking.progress import Progress

SHOWN = 5  # changed files in one line


def restore(revision: str | None, run: str | None, remote: str | None = None) -> None:
    """Check out `revision` (None: stay), pull its pointers of `run` (None: of all runs), verify every stage.

    Raises UserError naming the file or pointer that is missing or wrong (a wrong file is removed), and while a run is
    live in this folder.
    """
    lock = refuse_live(Path())  # noqa: F841  (held until all is back)
    if revision:
        checkout(revision)
    pointers = find_pointers(run)
    pull(pointers, remote)
    folders = [versions.folder_of(pointer) for pointer in pointers]
    if versions.DATA in folders:
        bring_what_was_beside_data()
    hashing = Hashing(folders)
    remove_wrong([fault for folder in folders for fault in faults(folder, hashing)])
    runs = sorted({run_of(folder).name for folder in folders} - {""})
    print(f"{len(folders)} stages are restored and verified ({hashing}); snakemake has nothing to do for", *runs)


def checkout(revision: str) -> None:
    """`git checkout`, but never over changes that aren't committed."""
    changed = git("status", "--porcelain", "--untracked-files=no").splitlines()
    if changed:
        names = ", ".join(line[3:] for line in changed[:SHOWN])
        raise UserError(f"{names}: has changes that are not committed; commit or stash them before restoring")
    git("checkout", "--quiet", revision, "--")


def git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True)
    except FileNotFoundError:
        raise UserError("git isn't installed here; install it (apt-get install git)") from None
    if done.returncode:
        raise UserError(f"git {' '.join(arguments)}: {' '.join(done.stderr.split())}")
    return done.stdout


def find_pointers(run: str | None) -> list[Path]:
    """The pointers to pull, data.dvc among them if a run reads the pinned data; raises UserError for an unknown run."""
    known = {folder.name: versions.pointers(folder) for folder in sorted(versions.PUBLISHED.glob("*/"))}
    known = {name: pointers for name, pointers in known.items() if pointers}
    own = {name: pointers for name, pointers in known.items() if run is None or name == Path(run).name}
    if not own:
        refuse_older_pointers(run)
        raise UserError(
            f"published/{run or ''}: no pointers here; runs published in this revision: {', '.join(known) or 'none'}"
        )
    pinned = versions.POINTER.exists() and any("data.dvc" not in {path.name for path in of} for of in own.values())
    return [pointer for of in own.values() for pointer in of] + ([versions.POINTER] if pinned else [])


def refuse_older_pointers(run: str | None) -> None:
    """Raise UserError where the pointers are still in results/, as earlier versions wrote them."""
    for pointer in sorted(RESULTS.glob(f"{Path(run).name if run else '*'}/*.dvc")):
        raise UserError(
            f"{pointer}: was published by an earlier version of r1flow, and only that reads it: `git checkout` the "
            "revision that published it, which brings that version's code, and run `r1flow restore` again"
        )


def pull(pointers: list[Path], remote: str | None) -> None:
    """`dvc pull`; raises UserError that names what is missing, or what would have been overwritten.

    The manifests come first, with the listings of what DVC would write. Both are checked: somebody else wrote them.
    """
    chosen = ["--remote", remote] if remote else []
    for pointer in pointers:
        versions.check_pointer(pointer)
    error = versions.dvc("fetch", *chosen, *(versions.folder_of(pointer) / MANIFEST for pointer in pointers))
    error = error or versions.unlisted(pointers) or versions.dvc("pull", *chosen, *pointers)
    if error is None:
        return
    found = versions.status()
    if missing := within(pointers, found.get("not_in_cache", [])):
        raise UserError(
            f"remote {versions.describe_remote(remote)}: does not have what a pointer names, or is away: "
            f"{listed(missing)} ({error})"
        )
    unsaved = found.get("uncommitted", {})
    if changed := within(pointers, [*unsaved.get("modified", []), *unsaved.get("added", [])]):
        raise UserError(f"{listed(changed)}: would be overwritten and was never published; publish or move it first")
    raise UserError(f"remote {versions.describe_remote(remote)}: {error}")


def within(pointers: list[Path], names: Iterable[str]) -> list[str]:
    """The names that belong to a pointer, each with it; a stage's folder only if none of its files is among them."""
    found = []
    for pointer in pointers:
        folder = f"{versions.folder_of(pointer)}/"
        own = [name for name in names if name.startswith(folder)]
        found += [f"{name.rstrip('/')} of {pointer}" for name in own if name != folder or len(own) == 1]
    return found


def bring_what_was_beside_data() -> None:
    """Copy data/provenance.json and cost.json from git's copies, if they belong to exactly this data."""
    made, edge = provenance_of(Path(), versions.BESIDE["provenance.json"].name), versions.DATA / MANIFEST
    if made and edge.is_file() and made["outputs"] == sha256(edge):
        for name, kept in versions.BESIDE.items():
            if kept.is_file():
                shutil.copyfile(kept, versions.DATA / name)


def remove_wrong(found: list[Fault]) -> None:
    """Remove wrong files, so that nothing uses them, then raise UserError that names them; without any, do nothing."""
    for fault in found:
        fault.path.unlink(missing_ok=True)
    if found:
        raise UserError(
            f"{listed([str(fault) for fault in found])}; removed, so that a run makes it anew. To restore it, mend the "
            "remote, delete .dvc/cache and restore again"
        )


def verify(run: Path | None) -> int:
    """Hash all files of a run (None: of all runs and of data/) and print every problem; 1 if there is one."""
    runs = [run_folder(run)] if run else sorted(RESULTS.glob("*/"))
    folders = [folder for each in runs for folder in stages(each) if any(folder.iterdir())]  # empty: not made yet
    if versions.DATA.is_dir() and (run is None or reads_pinned_data(runs[0])):
        folders.append(versions.DATA)
    hashing, count = Hashing(folders), 0
    for problem in problems(folders, hashing):
        print(printable(str(problem)))
        count += 1
    verdict = f"{count} problem{'s' if count > 1 else ''}" if count else "everything is as its manifest says"
    print(f"{len(folders)} stages, {hashing} hashed: {verdict}")
    return 1 if count else 0


def problems(folders: list[Path], hashing: "Hashing") -> Iterator[Fault]:
    """Everything that is wrong with these stages: contents, provenance, the stages they were made from, the pin."""
    for folder in folders:
        yield from faults(folder, hashing)
        yield from strangers(folder)
        if folder == versions.DATA:
            yield from unpinned(folder)


def faults(folder: Path, hashing: "Hashing") -> Iterator[Fault]:
    """Files that aren't as manifest and provenance say; data/ may lack a provenance, as data.dvc pins its files."""
    unproved = folder == versions.DATA and provenance_of(folder) is None
    yield from (manifest if unproved else provenance).faults(folder, hashing.sha256)


def strangers(folder: Path) -> Iterator[Fault]:
    """Inputs that the stage was made from and that no stage on disk is now."""
    for name, entry in ((provenance_of(folder) or {}).get("inputs") or {}).items():
        edges = [source / MANIFEST for source in sources(folder, entry.get("stage"))]
        if "stage" in entry and entry["sha256"] not in [sha256(edge) for edge in edges if edge.is_file()]:
            what = "was another one" if any(edge.is_file() for edge in edges) else "was there, which it isn't now"
            yield Fault(folder / "provenance.json", f"says that {entry['stage']} (input {name}) {what}")


def sources(folder: Path, stage: str | None) -> list[Path]:
    """Where a stage that `folder` was made from can be: in its run; else in data/ (for data) or in any other run."""
    own = run_of(folder) / str(stage)
    if own.is_dir():
        return [own]
    return [versions.DATA] if stage == "data" else sorted(RESULTS.glob(f"*/{stage}"))


def unpinned(folder: Path) -> Iterator[Fault]:
    """Files of data/ that aren't the ones that data.dvc pins."""
    expected, found = versions.pinned().get("files"), hashes(folder)
    if not expected or found is None:
        return
    for name in sorted(expected.keys() | found.keys() - {"metrics.json"}):
        if expected.get(name) != found.get(name):
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


def run_folder(run: Path) -> Path:
    """`results/r1_tiny`, also when `r1_tiny` was given; raises UserError for a run that isn't there."""
    for folder in (run, RESULTS / run):
        if folder.is_dir():
            return folder
    known = ", ".join(sorted(path.name for path in RESULTS.glob("*/")))
    raise UserError(f"{run}: there is no such run; in results/: {known or 'none'}")


def run_of(folder: Path) -> Path:
    return folder.parent.parent if folder.parent.name == "evaluate" else folder.parent


def stages(run: Path) -> list[Path]:
    """A run's stage folders; evaluate has one per model."""
    return sorted(path for path in [*run.glob("*/"), *run.glob("evaluate/*/")] if path != run / "evaluate")


def reads_pinned_data(run: Path) -> bool:
    return versions.POINTER.exists() and not (run / "data").is_dir()


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

    def __str__(self) -> str:
        return f"{self.files} files, {megabytes(self.size)}"
