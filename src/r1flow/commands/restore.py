"""Brings published runs back and verifies them.

The plan (engine/plan.py) decides by content, so a restored run has nothing to do, whatever its files' times.
"""

import argparse
import shutil
import subprocess
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from r1flow.artifacts import versions
from r1flow.artifacts.locks import refuse_live
from r1flow.artifacts.manifest import MANIFEST, Fault, sha256
from r1flow.artifacts.versions import RESULTS
from r1flow.commands.finding import add_json, tell
from r1flow.commands.places import enter_project
from r1flow.commands.verify import Hashing, folder_faults, provenance_of, run_of, strangers
from r1flow.core.errors import UserError, listed

SHOWN = 5  # changed files in one line


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Check out REV, fetch its runs from DVC's remote and verify every hash. Running the restored run "
        "again then finds nothing to do."
    )
    parser.add_argument("revision", nargs="?", metavar="REV", help="a commit, tag or branch (default: as checked out)")
    parser.add_argument("--run", metavar="NAME", help="restore only this run")
    parser.add_argument("--remote", help="name of the DVC remote that has it (default: the one DVC is configured with)")
    add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    enter_project()
    restore(arguments.revision, arguments.run, arguments.remote, arguments.json)


def restore(revision: str | None, run: str | None, remote: str | None = None, as_json: bool = False) -> None:
    """Check out `revision` (None: stay), pull its pointers of `run` (None: of all runs), verify every stage.

    Raises UserError naming the file or pointer that is missing or wrong (a wrong file is removed), for stages that were
    made from others than those that came back, and while a run is live in this folder.
    """
    lock = refuse_live(Path())  # noqa: F841  (held until all is back)
    if revision:
        checkout(revision)
    pointers = find_pointers(run)
    pull(pointers, remote)
    folders = [versions.folder_pinned(pointer) for pointer in pointers]
    if versions.DATA in folders:
        bring_what_was_beside_data()
    hashing = Hashing(folders)
    remove_wrong(list(chain.from_iterable(folder_faults(folder, hashing) for folder in folders)))
    if unlike := [str(fault) for fault in chain.from_iterable(map(strangers, folders))]:
        raise UserError(
            f"{listed(unlike)}; all is restored as it was published, but not by one run on this data: restore the"
            " revision that published the run (r1flow restore REV), or run what is missing"
        )
    runs = sorted({run_of(folder).name for folder in folders} - {""})
    words = f"{len(folders)} stages are restored and verified ({hashing}); snakemake keeps them all, in"
    tell({"runs": runs, "stages": len(folders), **hashing.counts}, " ".join([words, *runs]), as_json)


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
    pointers, reads_pinned = [], False
    for of_run in own.values():
        pointers += of_run
        if "data.dvc" not in [pointer.name for pointer in of_run]:
            reads_pinned = True
    return [*pointers, versions.POINTER] if reads_pinned and versions.POINTER.exists() else pointers


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
    error = versions.dvc("fetch", *chosen, *(versions.folder_pinned(pointer) / MANIFEST for pointer in pointers))
    error = error or versions.unlisted(pointers) or versions.dvc("pull", *chosen, *pointers)
    if error is None:
        return
    status = versions.status()
    if missing := within(pointers, status.get("not_in_cache", [])):
        raise UserError(
            f"remote {versions.describe_remote(remote)}: does not have what a pointer names, or is away: "
            f"{listed(missing)} ({error})"
        )
    unsaved = status.get("uncommitted", {})
    if changed := within(pointers, [*unsaved.get("modified", []), *unsaved.get("added", [])]):
        raise UserError(f"{listed(changed)}: would be overwritten and was never published; publish or move it first")
    raise UserError(f"remote {versions.describe_remote(remote)}: {error}")


def within(pointers: list[Path], names: Iterable[str]) -> list[str]:
    """The names that belong to a pointer, each with it; a stage's folder only if none of its files is among them."""
    belonging = []
    for pointer in pointers:
        folder = f"{versions.folder_pinned(pointer)}/"
        own = [name for name in names if name.startswith(folder)]
        belonging += [f"{name.rstrip('/')} of {pointer}" for name in own if name != folder or len(own) == 1]
    return belonging


def bring_what_was_beside_data() -> None:
    """Copy data/provenance.json and cost.json from git's copies, if they belong to exactly this data."""
    made, listing = provenance_of(Path(), versions.BESIDE["provenance.json"].name), versions.DATA / MANIFEST
    if made and listing.is_file() and made["outputs"] == sha256(listing):
        for name, kept in versions.BESIDE.items():
            if kept.is_file():
                shutil.copyfile(kept, versions.DATA / name)


def remove_wrong(wrong: list[Fault]) -> None:
    """Remove wrong files, so that nothing uses them, then raise UserError that names them; without any, do nothing."""
    for fault in wrong:
        fault.path.unlink(missing_ok=True)
    if wrong:
        raise UserError(
            f"{listed([str(fault) for fault in wrong])}; removed, so that a run makes it anew. To restore it, mend the "
            "remote, delete .dvc/cache and restore again"
        )
