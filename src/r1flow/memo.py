"""The store of everything that was computed: `.memo/<stage>/<identity>/` is a copy of a stage's folder.

Going back to an earlier configuration, or repairing one file, then takes the time of a copy. Copies, not links, so that
an edit of a run's outputs by hand can't reach the store; what comes out is verified, and an entry that fails is thrown
away. `r1flow clean --store-gb` bounds it. A store that can't be written (disk full) costs a line, not a training.
"""

import os
import shutil
import sys
from pathlib import Path

from r1flow import manifest, provenance

STORE = Path(".memo")


def entry(stage: str, identity: str) -> Path:
    return STORE / stage / identity


def entries(folder: Path = STORE) -> list[Path]:
    """The results in the store or in a part of it, the longest unused first; not the copies that a kill cut off."""
    found = [path.parent for path in folder.rglob(manifest.MANIFEST) if path.parent.suffix != ".partial"]
    return sorted(found, key=lambda path: path.stat().st_mtime)


def manifest_of(stage: str, identity: str) -> str | None:
    """The sha256 of the manifest that this identity led to, if the store has it (`take` verifies it)."""
    path = entry(stage, identity) / manifest.MANIFEST
    return manifest.sha256(path) if path.is_file() else None


def take(stage: str, identity: str, work: Path) -> bool:
    """Copy the outputs of an earlier computation into the empty folder `work`, verified; False if there is none."""
    source = entry(stage, identity)
    if not (source / manifest.MANIFEST).is_file():
        return False
    shutil.copytree(source, work, dirs_exist_ok=True, copy_function=shutil.copyfile)
    then, fault = provenance.recorded(work)
    if fault or then["identity"] != identity:
        print(f"the store's copy is damaged and was thrown away ({fault})", file=sys.stderr)
        shutil.rmtree(source)
        shutil.rmtree(work)
        work.mkdir()
        return False
    os.utime(source)  # used now: the last to go when the store is trimmed
    return True


def keep_whole(stage: str, folder: Path) -> None:
    """Keep what lies in a stage's folder, if it is whole and the store doesn't have it: it is about to be replaced."""
    with manifest.Hashes(folder) as remembered:  # the plan has just looked at it
        then, fault = provenance.recorded(folder, remembered)
    if not fault and manifest_of(stage, then["identity"]) is None:
        keep(stage, then["identity"], folder)


def keep(stage: str, identity: str, folder: Path) -> None:
    """Copy a computed stage's folder into the store; the entry appears whole."""
    target = entry(stage, identity)
    partial = target.with_name(f"{identity}.{os.getpid()}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(folder, partial, copy_function=shutil.copyfile)
        partial.replace(target)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        print(f"not kept in the store: {error}; the run itself is not affected", file=sys.stderr)
