"""DVC's part: `data.dvc` is the contract on data/, and this module reads it and keeps it.

Beside DVC's own hash of the folder, `data.dvc` carries under `meta` the hash of the config that the data was made from
(which tells whether a run's data is that data) and the sha256 of every file (which tells what differs when it isn't):

    meta: {config: 3f2a91c07b1d, files: {corpus.jsonl: 9f2c…, …}}
"""

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from r1flow import manifest
from r1flow.errors import UserError

POINTER = Path("data.dvc")


def pinned(pointer: Path = POINTER) -> dict[str, Any]:
    """What the pointer says of its data: `config` and `files`; empty without a pointer."""
    return yaml.safe_load(pointer.read_text()).get("meta", {}) if pointer.exists() else {}


def fetch(work: Path) -> bool:
    """Bring the pinned data from DVC's cache or remote into `work`; False when neither has it."""
    with TemporaryDirectory(dir=work) as folder:
        command = ["dvc", "get", "--quiet", ".", "data", "--out", f"{folder}/data"]
        if subprocess.run(command, capture_output=True).returncode:
            return False
        for item in Path(folder, "data").iterdir():
            item.replace(work / item.name)
    return True


def check(folder: Path, pointer: Path = POINTER) -> None:
    """Raise UserError, naming the files, when `folder` isn't the data that the pointer pins."""
    expected = pinned(pointer)["files"]
    found = contents(folder)
    different = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    if different:
        raise UserError(
            f"{pointer}: the data made here isn't the data it pins: {', '.join(different)} differ; if that is meant "
            f"(a changed generator or library), make a new pin with `r1flow pin`"
        )


def contents(folder: Path) -> dict[str, str]:
    """sha256 of every data file; metrics.json is what the stage says about them."""
    files = manifest.describe("data", folder)["files"]
    return {name: entry["sha256"] for name, entry in files.items() if name != "metrics.json"}


def pin(source: Path, data: Path = Path("data"), pointer: Path = POINTER) -> None:
    """Make `source`, a data stage's folder, the pinned data: copy it to data/, `dvc add` it, write the contract."""
    from r1flow.frozen import digest, load

    fault = manifest.broken(source)
    if fault:
        raise UserError(f"{fault}; run the data stage again")
    if source.resolve() != data.resolve():
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(source, data, ignore=shutil.ignore_patterns(".snakemake_timestamp"))
    subprocess.run(["dvc", "add", "--quiet", str(data)], check=True)
    contract = yaml.safe_load(pointer.read_text())
    contract["meta"] = {"config": digest(load(data / "config.yaml")), "files": contents(data)}
    pointer.write_text(yaml.safe_dump(contract, sort_keys=False))
