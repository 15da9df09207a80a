"""What a stage leaves behind, and how it is moved into place: the manifest last, when all else is there.

`manifest.json` is what the next stage depends on: sha256 and size of every output file, so that equal outputs have
equal manifests. `provenance.json` beside it says what made them (provenance.py) and is no stage's input. Neither
contains a time, a host or an absolute path.

    {"contract": {…}, "files": {"model/config.json": {"sha256": "9f2c…", "size": 812}, …}, "stage": "cold_start"}

The contract (contract.py) is what the next stage must agree with: tokenizer, template, ids, lengths.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from r1flow.core.files import MOST_JSON, parse_bounded, read_bounded, read_json, write_whole

MANIFEST, PROVENANCE = "manifest.json", "provenance.json"
# Written beside the outputs but not part of them: what made them and what they cost.
SIDECARS = {MANIFEST, PROVENANCE, "cost.json", "config.yaml", "costs.json", "making.html"}
MARK = ".snakemake_timestamp"  # Snakemake's own, in a folder that is an output
HASHES = Path(".config/hashes")

Digest = Callable[[Path], str]


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_json(path: Path, value: Any) -> None:
    """Write the file whole, by a rename: a reader never sees a part of it."""
    write_whole(path, json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def read_cost(path: Path) -> dict[str, Any] | None:
    """What a stage or a part of one cost; None if that can't be read, as only tables and estimates depend on it."""
    try:
        cost = read_json(path) if path.is_file() else {}
        return cost if isinstance(cost["seconds"] + cost["peak_mb"], int | float) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def read_manifest(path: Path) -> dict[str, Any]:
    """A manifest; raises OSError, or ValueError for a file that is none."""
    return parse_manifest(read_bounded(path, MOST_JSON))


def parse_manifest(text: bytes) -> dict[str, Any]:
    """A manifest; raises ValueError for text that is none: another shape, or a name that leads out of its folder."""
    try:
        manifest = parse_bounded(text)
        whole = isinstance(manifest["stage"], str) and isinstance(manifest.get("contract", {}), dict)
        for name, entry in manifest["files"].items():
            whole &= stays_inside(name) and isinstance(entry["sha256"], str) and isinstance(entry["size"], int)
    except (KeyError, TypeError, AttributeError, RecursionError):
        whole = False
    if not whole:
        raise ValueError("no manifest of a stage")
    return manifest


def stays_inside(name: Any) -> bool:
    """Whether a name that somebody else wrote stays in the folder that it is relative to."""
    return isinstance(name, str) and "\0" not in name and not {"", ".", ".."} & set(name.split("/"))


def output_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files that count as outputs, named relative to the folder."""
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and name not in SIDECARS and path.name != MARK:
            yield name, path


def manifest_of_files(stage: str, folder: Path) -> dict[str, Any]:
    """The manifest of what lies in `folder`, paths relative to it."""
    files = {name: {"sha256": sha256(path), "size": path.stat().st_size} for name, path in output_files(folder)}
    return {"stage": stage, "files": files}


def strays(folder: Path, files: Container[str]) -> Iterator[Path]:
    """Files in subfolders that the manifest doesn't list; they matter, as transformers reads all of a model's."""
    return (path for name, path in output_files(folder) if "/" in name and name not in files)


class Fault(NamedTuple):
    """A file that isn't as it should be, and what is wrong with it."""

    path: Path
    what: str

    def __str__(self) -> str:
        return f"{self.path} {self.what}"


def file_faults(folder: Path, digest: Digest = sha256) -> Iterator[Fault]:
    """Every file that isn't what the folder's manifest says; the manifest alone where that can't be read."""
    try:
        files = read_manifest(folder / MANIFEST)["files"]
    except (OSError, ValueError) as error:
        yield Fault(folder / MANIFEST, "is missing" if isinstance(error, FileNotFoundError) else "can't be read")
        return
    for path in strays(folder, files):
        yield Fault(path, "is not in its manifest")
    for name, entry in files.items():
        path = folder / name
        if not path.is_file():
            yield Fault(path, "is missing")
        elif path.stat().st_size != entry["size"] or digest(path) != entry["sha256"]:
            yield Fault(path, "is not what its manifest says")


def broken(folder: Path, digest: Digest = sha256) -> str | None:
    """The first of the faults in words; None when all files are what the folder's manifest says."""
    return next(map(str, file_faults(folder, digest)), None)


def sync(path: Path) -> None:
    """Force a file, or all of a folder, to disk: a power cut mustn't keep a rename and lose the content."""
    for each in (*path.rglob("*"), path):
        if each.is_file() or each.is_dir():
            handle = os.open(each, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)


def publish_outputs(work: Path, out: Path) -> None:
    """Move everything in `work` into `out`, the manifest last; the old manifest is removed first."""
    sync(work)
    out.mkdir(parents=True, exist_ok=True)
    (out / MANIFEST).unlink(missing_ok=True)
    for item in sorted(work.iterdir(), key=lambda path: path.name == MANIFEST):
        target = out / item.name
        if target.is_dir():
            shutil.rmtree(target)
        shutil.move(item, target)  # a rename, unless results/ is on another disk
    sync(out)


class Hashes:
    """sha256 of a folder's files, cached while size, times and inode stay the same: hashing 15 GB takes a while.

    ctime is one of the times, so `cp -p` and `touch -r` don't hide an edit. Leaving the context writes the cache.
    """

    def __init__(self, folder: Path) -> None:
        self.memory = HASHES / f"{str(folder).replace('/', '.')}.json"
        try:
            self.known: dict[str, list[Any]] = dict(read_json(self.memory))
        except (OSError, ValueError, TypeError):
            self.known = {}
        self.learnt = False

    def __enter__(self) -> Digest:
        return self.digest

    def __exit__(self, *_: object) -> None:
        if self.learnt:
            HASHES.mkdir(parents=True, exist_ok=True)
            write_json(self.memory, self.known)

    def digest(self, path: Path) -> str:
        status = path.stat()
        stamp = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
        if self.known.get(str(path), [None])[:-1] != stamp:
            self.known[str(path)] = [*stamp, sha256(path)]
            self.learnt = True
        return self.known[str(path)][-1]
