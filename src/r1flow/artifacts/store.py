"""The store of everything that was computed: `.memo/<stage>/<identity>/` is a copy of a stage's folder.

Going back to an earlier configuration, or repairing one file, then takes only the time of a copy. Entries are copies,
not links, so that an edit of a run's outputs by hand can't reach the store. What comes out is verified, and an entry
that fails is thrown away. `r1flow clean --store-gb` bounds the store. If it can't be written (disk full) or read
(it is somebody else's), that costs a warning, not a training.
"""

import os
import shutil
import stat
import sys
from contextlib import suppress
from pathlib import Path

from r1flow.artifacts import manifest, provenance

STORE = Path(".memo")


def entry(stage: str, identity: str) -> Path:
    return STORE / stage / identity


def entries(folder: Path = STORE) -> list[Path]:
    """The results in the store or in a part of it, the longest unused first; without copies that a kill cut off."""
    whole = [path.parent for path in folder.rglob(manifest.MANIFEST) if path.parent.suffix != ".partial"]
    return sorted(whole, key=lambda path: path.lstat().st_mtime)


def manifest_of(stage: str, identity: str) -> str | None:
    """The sha256 of the manifest that this identity led to, if the store has it (`take` verifies it)."""
    path = entry(stage, identity) / manifest.MANIFEST
    try:
        return manifest.sha256(path) if path.is_file() else None
    except OSError:
        return None


def take_outputs(stage: str, identity: str, work: Path) -> bool:
    """Copy the outputs of an earlier computation into the empty folder `work`, verified; False if there is none."""
    source = entry(stage, identity)
    if manifest_of(stage, identity) is None:
        if os.path.isdir(source):
            print("the copy in the store has no manifest that can be read; computing again", file=sys.stderr)
        return False
    try:
        # Copied first and verified then, so that what is verified is what will be used.
        shutil.copytree(source, work, dirs_exist_ok=True, copy_function=shutil.copyfile, ignore=odd)
        then, fault = provenance.recorded(work)
        fault = fault or (None if manifest.read_cost(work / "cost.json") else "cost.json is missing or can't be read")
        if not fault and then["identity"] != identity:
            fault = "it is another stage's result"
        if not fault:
            with suppress(OSError):  # somebody else's
                os.utime(source)  # just used, so the last to be removed when the store is trimmed
            return True
        print(f"the copy in the store was damaged and has been removed ({fault}); computing again", file=sys.stderr)
        shutil.rmtree(source, ignore_errors=True)
    except OSError as error:
        reason = error.args[0][0][2] if isinstance(error, shutil.Error) else error
        print(f"the copy in the store can't be read ({reason}); computing again", file=sys.stderr)
    shutil.rmtree(work)
    work.mkdir()
    return False


def odd(folder: str, names: list[str]) -> list[str]:
    """Names of what no stage writes: links, which may lead anywhere or in circles, and pipes, which block a reader."""
    modes = {name: os.lstat(os.path.join(folder, name)).st_mode for name in names}
    return [name for name, mode in modes.items() if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))]


def keep_whole(stage: str, folder: Path) -> None:
    """Copy a stage's folder that is about to be replaced into the store, if it is whole and not there already."""
    with manifest.Hashes(folder) as remembered:  # the plan has just hashed it
        then, fault = provenance.recorded(folder, remembered)
    if not fault and manifest_of(stage, then["identity"]) is None:
        store_outputs(stage, then["identity"], folder)


def store_outputs(stage: str, identity: str, folder: Path) -> None:
    """Copy a computed stage's folder into the store; the entry appears complete, by a rename."""
    target = entry(stage, identity)
    partial = target.with_name(f"{identity}.{os.getpid()}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(folder, partial, copy_function=shutil.copyfile)
        partial.replace(target)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        print(f"no copy was kept in the store: {error}; the run itself is not affected", file=sys.stderr)
