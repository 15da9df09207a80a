"""Removes scratch, old runs and long unused results of the store: lists them with sizes, asks, and only then removes.

    scratch                    210.4 MB   snapshots of interrupted stages, records on their way to MLflow
    results/r1_zero            41.0 MB    last changed 3 days ago
    logs/r1_zero               0.1 MB
    .memo                      512.7 MB   96 results of 140 in the store, the longest unused

Never touches data/, anything outside the project's root, or what a symbolic link points to; but results/, logs/ and
.memo may themselves be links, to a larger disk. MLflow keeps its records.
"""

import argparse
import os
import shutil
import sys
import time
from pathlib import Path

from r1flow.artifacts import store
from r1flow.artifacts.locks import refuse_live
from r1flow.artifacts.manifest import MANIFEST
from r1flow.commands.finding import add_json, ago, megabytes, tell
from r1flow.commands.places import project_root
from r1flow.core.errors import UserError, listed

STORE_GB = 10.0
ROW = ("path", "bytes", "remark")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List what can be removed with its size, ask, and remove it. Without options that is: scratch/, "
        "every run in results/ except the newest, and what the store of computed results (.memo/) holds above 10 GB, "
        "beginning with what was unused for longest. data/ and MLflow's records stay."
    )
    parser.add_argument(
        "--run", action="append", default=[], metavar="NAME", help="remove only this run; may be repeated"
    )
    parser.add_argument(
        "--scratch", action="store_true", help="remove only scratch/, the snapshots of interrupted stages"
    )
    parser.add_argument(
        "--store-gb", type=float, metavar="GB", help="only trim the store (.memo/) to this size; 0 empties it"
    )
    parser.add_argument("--yes", action="store_true", help="remove without asking")
    parser.add_argument("--dry-run", action="store_true", help="only list what would be removed")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Remove the named runs or scratch, or trim the store; by default scratch, all runs but the newest, and the store
    above STORE_GB. Returns 0, or 1 if the user said no.

    Raises UserError for an unknown run, when a run is live, and when nobody can be asked.
    """
    root, store_gb = project_root(), arguments.store_gb
    if store_gb is not None and not store_gb >= 0:
        raise UserError(f"--store-gb {store_gb:g}: no store is that small; use 0 (empties it) or more")
    targets = folders_to_remove(root, arguments.run, arguments.scratch, store_gb)
    rows = listing(root, targets)
    finding = {"targets": [dict(zip(ROW, row, strict=True)) for row in rows], "bytes": sum(size for _, size, _ in rows)}
    if not targets or arguments.dry_run:
        tell(finding | {"removed": False}, table_of_removals(rows) if targets else "nothing to remove", arguments.json)
        return 0
    if arguments.json and not arguments.yes:
        raise UserError("--json: nobody is asked, so add --yes to remove what --dry-run lists")
    if not arguments.json:
        print(table_of_removals(rows))
    lock = refuse_live(root)  # noqa: F841  (held until all is removed)
    if not arguments.yes and not agreed():
        return 1
    kept = []
    for target in targets:
        # It doesn't follow links.
        shutil.rmtree(target, onerror=lambda *fault: kept.append(f"{fault[1]} ({fault[2][1].strerror})"))
    if kept:
        raise UserError(f"could not be removed: {listed(kept)}; everything else was. Mend that, and clean again")
    tell(finding | {"removed": True}, "removed", arguments.json)
    return 0


def folders_to_remove(root: Path, runs: list[str], scratch: bool, store_gb: float | None) -> list[Path]:
    """The folders to remove, scratch first; each a real folder inside the root."""
    everything = not runs and not scratch and store_gb is None
    names = runs or (old_runs(root) if everything else [])
    for name in runs:
        if name not in all_runs(root):
            raise UserError(
                f"--run: there is no run {name!r} in results/; known: {', '.join(all_runs(root)) or 'none'}"
            )
    folders = [root / "scratch"] if scratch or everything else []
    for name in names:
        folders += [root / "results" / name, root / "logs" / name]
    if store_gb is not None or everything:
        folders += surplus(root / store.STORE, (STORE_GB if store_gb is None else store_gb) * 1e9)
    return [folder for folder in folders if is_own_folder(root, folder)]


def surplus(folder: Path, limit: float) -> list[Path]:
    """The longest unused results whose removal brings the store down to `limit` bytes."""
    entries = store.entries(folder)
    sizes = [size(path) for path in entries]
    total, count = sum(sizes), 0
    while total > limit:
        total -= sizes[count]
        count += 1
    return [*folder.rglob("*.partial"), *entries[:count]]  # a partial is a copy that a kill cut off


def is_own_folder(root: Path, folder: Path) -> bool:
    """Whether the folder exists and is no link; of the folders above it only the first (results/) may be a link."""
    first, *others = folder.relative_to(root).parts
    return (
        folder.is_dir() and not folder.is_symlink() and folder.resolve() == (root / first).resolve().joinpath(*others)
    )


def all_runs(root: Path) -> list[str]:
    """Names of the runs in results/, the last changed first."""
    results = root / "results"
    folders = [path for path in results.glob("*") if is_own_folder(root, path)] if results.is_dir() else []
    return [path.name for path in sorted(folders, key=last_change, reverse=True)]


def old_runs(root: Path) -> list[str]:
    """The runs but the newest; a folder without a finished stage, as the report of `r1flow seeds`, is none of them."""
    begun = [name for name in all_runs(root) if any((root / "results" / name).rglob(MANIFEST))]
    return sorted(begun[1:])


def last_change(run: Path) -> float:
    """When the run's last stage ended (seconds since the epoch): the newest of its manifests, or its own time."""
    return max((path.stat().st_mtime for path in run.rglob(MANIFEST)), default=run.stat().st_mtime)


def size(folder: Path) -> int:
    """Bytes of all files below, links not followed."""
    total = 0
    for parent, _, names in os.walk(folder):
        total += sum(os.lstat(os.path.join(parent, name)).st_size for name in names)
    return total


def listing(root: Path, targets: list[Path]) -> list[tuple[str, int, str]]:
    """Path, bytes and a remark of each target; the results of the store are one line."""
    stored = [target for target in targets if store.STORE.name in target.parts]
    others = [target for target in targets if target not in stored]
    rows = [(str(target.relative_to(root)), size(target), remark(target)) for target in others]
    if stored:
        known = len(store.entries(root / store.STORE))
        remarks = f"{len(stored)} of the {known} results in the store, those unused for longest"
        rows.append((str(store.STORE), sum(map(size, stored)), remarks))
    return rows


def table_of_removals(rows: list[tuple[str, int, str]]) -> str:
    total = ("in all", sum(count for _, count, _ in rows), "")
    return "\n".join(f"{name:<40} {megabytes(count):>12}   {remark}".rstrip() for name, count, remark in [*rows, total])


def remark(target: Path) -> str:
    if target.name == "scratch":
        return "snapshots of interrupted stages" + undelivered(target)
    return f"last changed {ago(time.time() - last_change(target))}" if target.parent.name == "results" else ""


def undelivered(scratch: Path) -> str:
    """A warning if removing scratch loses tracking records that MLflow doesn't have yet; empty if it doesn't."""
    count = len([*scratch.glob("tracking/*/execution.jsonl"), *scratch.glob("tracking/*.refused.jsonl")])
    return f", records of {count} execution(s) that MLflow does not have yet" if count else ""


def agreed() -> bool:
    if not sys.stdin.isatty():
        raise UserError("this isn't a terminal, so nobody can confirm; add --yes to remove what is listed")
    try:
        return input("remove? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
