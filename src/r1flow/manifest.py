"""What a stage leaves behind, and how it appears: all of it or none.

`manifest.json` is the edge to the next stage: sha256 and size of every output file, so that equal outputs are an equal
edge. `provenance.json` beside it says what made them (config, inputs, seed, versions, device) and is not an input of
anything. Neither knows a time, a host or an absolute path.

    {"files": {"model/config.json": {"sha256": "9f2c…", "size": 812}, …}, "stage": "cold_start"}
"""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from r1flow.errors import UserError

MANIFEST = "manifest.json"
# Written beside the outputs but not part of them: what made them and what they cost.
SIDECARS = {MANIFEST, "provenance.json", "cost.json", "config.yaml"}
MARK = ".snakemake_timestamp"  # Snakemake's own, in a folder that is an output


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def describe(stage: str, folder: Path) -> dict[str, Any]:
    """The manifest of what lies in `folder`, paths relative to it."""
    paths = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    files = {name: path for name, path in paths.items() if name not in SIDECARS and path.name != MARK}
    entries = {name: {"sha256": sha256(path), "size": path.stat().st_size} for name, path in files.items()}
    return {"stage": stage, "files": entries}


def broken(folder: Path) -> str | None:
    """The first file that isn't what the folder's manifest says, in words; None when all are."""
    if not (folder / MANIFEST).is_file():
        return f"{folder / MANIFEST} is missing"
    for name, entry in read_json(folder / MANIFEST)["files"].items():
        path = folder / name
        if not path.is_file():
            return f"{path} is missing"
        if path.stat().st_size != entry["size"] or sha256(path) != entry["sha256"]:
            return f"{path} is not what {folder / MANIFEST} says it is"
    return None


def check_inputs(inputs: dict[str, Path]) -> None:
    """Refuse to compute from a stage's folder that isn't what its manifest says."""
    for name, path in inputs.items():
        folder = path.parent if path.name == "model" else path
        if (folder / MANIFEST).is_file() and (fault := broken(folder)):
            raise UserError(f"input {name}: {fault}; delete {folder / MANIFEST} and run again to make it anew")
        if not path.exists():
            raise UserError(f"input {name}: {path} is missing")


def input_digests(inputs: dict[str, Path]) -> dict[str, str]:
    """A content hash per input: of a file, of a stage's manifest, or of the listing of a folder from outside."""
    digests = {}
    for name, path in sorted(inputs.items()):
        folder = path.parent if path.name == "model" else path
        edge = folder / MANIFEST
        if path.is_file() or edge.is_file():
            digests[name] = sha256(path if path.is_file() else edge)
        else:
            listing = json.dumps(describe(name, path), sort_keys=True)
            digests[name] = hashlib.sha256(listing.encode()).hexdigest()
    return digests


def publish(work: Path, out: Path) -> None:
    """Move everything in `work` into `out` by renames, the manifest last; what was there before goes first."""
    out.mkdir(parents=True, exist_ok=True)
    (out / MANIFEST).unlink(missing_ok=True)
    for item in sorted(work.iterdir(), key=lambda path: path.name == MANIFEST):
        target = out / item.name
        if target.is_dir():
            shutil.rmtree(target)
        item.replace(target)
