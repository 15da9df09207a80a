"""Everything that concerns DVC: reads and writes `data.dvc`, the pointer that pins the data in data/, and calls DVC.

Beside DVC's own hash of the folder, `data.dvc` has under `meta` the hash of the config that the data was made from
(which shows whether a run's data is that data) and the sha256 of every file (which shows what differs if it isn't):

    meta: {config: 3f2a91c07b1d, files: {corpus.jsonl: 9f2c…, …}}

The records of how data/ was made can change while the data doesn't, so DVC's hash leaves them out (.dvcignore).
publish.py keeps them in git beside the pointer: data.provenance.json, data.cost.json.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from r1flow.artifacts import manifest
from r1flow.core.errors import UserError

DATA, POINTER = Path("data"), Path("data.dvc")
BESIDE = {name: Path(f"data.{name}") for name in ("provenance.json", "cost.json")}  # file of data/: its copy in git
DVC = [sys.executable, "-P", "-m", "dvc", "--wait-for-lock"]  # wait if another DVC is at work


def pinned(pointer: Path = POINTER) -> dict[str, Any]:
    """What the pointer says of its data: `config` and `files`; empty without a pointer."""
    try:
        return dict(yaml.safe_load(pointer.read_text()).get("meta", {})) if pointer.exists() else {}
    except (ValueError, TypeError, AttributeError, yaml.YAMLError):
        raise UserError(f"{pointer}: is no pointer of DVC's; bring it back (git checkout {pointer})") from None


def fetch(work: Path) -> bool:
    """Bring the pinned data from DVC's cache or remote into `work`; False when neither has all of it."""
    if check_pointer(POINTER) and (dvc("fetch", DATA / manifest.MANIFEST) or unlisted([POINTER])):
        return False
    with TemporaryDirectory(dir=work) as folder:
        if dvc("get", "--quiet", ".", "data", "--out", f"{folder}/data") or differing(Path(folder, "data")):
            return False
        for item in Path(folder, "data").iterdir():
            item.replace(work / item.name)
    return True


def check_pointer(pointer: Path) -> str:
    """DVC's hash of the folder beside the pointer; raises UserError if it points elsewhere, or for symbolic links."""
    folder = pointer.with_suffix("")
    for path in (pointer, folder, *folder.rglob("*"), *folder.parents):
        if path.is_symlink():
            raise UserError(f"{path}: is a link, through which DVC would write; nothing was touched: remove it")
    try:
        found = yaml.safe_load(pointer.read_text())
        (out,) = found["outs"]
        fine = found.keys() <= {"outs", "meta"} and out.keys() <= {"md5", "size", "nfiles", "hash", "path"}
        fine &= out["path"] == folder.name and out["hash"] == "md5"
        if fine and re.fullmatch(r"[0-9a-f]{32}\.dir", out["md5"]):
            return out["md5"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError):
        pass
    raise UserError(f"{pointer}: is no pointer to {folder}/, as `r1flow publish` writes it; nothing was touched")


def unlisted(pointers: list[Path]) -> str | None:
    """The first pointer whose listing or manifest isn't in DVC's cache, in words, or None; raises UserError if these
    name files outside the pointer's folder."""
    cache = Path(asked("cache", "dir").strip(), "files/md5")
    for pointer in pointers:
        md5 = check_pointer(pointer)
        try:
            files = {entry["relpath"]: entry["md5"] for entry in manifest.read_json(cache / md5[:2] / md5[2:])}
            fine = all(manifest.is_inside(name) and re.fullmatch(r"[0-9a-f]{32}", of) for name, of in files.items())
            if fine:
                edge = files[manifest.MANIFEST]
                manifest.read_manifest(cache / edge[:2] / edge[2:])
        except FileNotFoundError:
            return f"{pointer}: what it names isn't there"
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            fine = False
        if not fine:
            raise UserError(f"{pointer}: names files outside {pointer.with_suffix('')}/; nothing was touched")
    return None


def bring_or_make(work: Path, pin: Path | None, make: Callable[[], None]) -> None:
    """Put a stage's data into `work`: what `pin` pins, from DVC, if there is a pin and DVC has it, or else what `make`
    makes; raises UserError when that isn't what the pin pins."""
    if pin and fetch(work):
        return
    if pin:
        print("data.dvc: neither DVC's cache nor its remote has this data; it is made again", file=sys.stderr)
    make()
    if pin:
        check_data(work, pin)


def check_data(folder: Path, pointer: Path = POINTER) -> None:
    """Raise UserError, naming the files, when `folder` isn't the data that the pointer pins."""
    if different := differing(folder, pointer):
        raise UserError(
            f"{pointer}: the data made here isn't the data it pins: {', '.join(different)} differ; if that is meant "
            f"(a changed generator or library), make a new pin with `r1flow pin`"
        )


def differing(folder: Path, pointer: Path = POINTER) -> list[str]:
    """The files of `folder` that differ from those that the pointer pins, also missing and additional ones."""
    expected, found = pinned(pointer)["files"], contents(folder)
    return sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))


def contents(folder: Path) -> dict[str, str]:
    """sha256 of every data file; without metrics.json, which only describes them."""
    files = manifest.describe("data", folder)["files"]
    return {name: entry["sha256"] for name, entry in files.items() if name != "metrics.json"}


def pin(source: Path) -> None:
    """Make `source`, a data stage's folder, the pinned data: copy it to data/, `dvc add` it, write the contract."""
    from r1flow.artifacts.frozen import digest, load

    fault = manifest.broken(source)
    if fault:
        raise UserError(f"{fault}; run the data stage again")
    if source.resolve() != DATA.resolve():
        shutil.rmtree(DATA, ignore_errors=True)
        shutil.copytree(source, DATA, ignore=shutil.ignore_patterns(".snakemake_timestamp"))
    if (error := dvc("add", DATA)) is not None:
        raise UserError(f"{DATA}: DVC can't add it: {error}")
    contract = yaml.safe_load(POINTER.read_text())
    contract["meta"] = {"config": digest(load(DATA / "config.yaml")), "files": contents(DATA)}
    POINTER.write_text(yaml.safe_dump(contract, sort_keys=False))


def dvc(*arguments: str | Path) -> str | None:
    """Run one DVC command, with progress bars if there is a terminal; returns what went wrong, or None."""
    terminal = sys.stderr.isatty()
    done = subprocess.run(
        [*DVC, *map(str, arguments)],
        stdin=subprocess.DEVNULL,  # it would ask before it overwrites; the answer is no
        stdout=subprocess.DEVNULL,
        stderr=None if terminal else subprocess.PIPE,
        text=True,
    )
    if done.returncode == 0:
        return None
    return "DVC says why above" if terminal else reason(done.stderr)


def reason(output: str) -> str:
    """The first error among DVC's lines: "remote 'nope' doesn't exist"."""
    lines = [line.removeprefix("ERROR: ") for line in output.splitlines() if line.startswith("ERROR: ")]
    return (lines or output.splitlines() or ["no reason given"])[0].removeprefix("unexpected error - ").rstrip(" :")


def asked(*arguments: str) -> str:
    """What a DVC command answers on stdout; empty when it fails."""
    return subprocess.run([*DVC, *arguments], capture_output=True, text=True).stdout


def status() -> dict[str, Any]:
    """Which of the pointers' files differ or aren't here: `{"not_in_cache": ["results/r1/base/model/…"], …}`."""
    return json.loads(asked("data", "status", "--granular", "--json") or "{}")


def describe_remote(name: str | None) -> str:
    """A configured remote for people: `local (/home/me/r1flow/.dvc-remote)`; without a name, the default one."""
    settings = dict(line.split("=", 1) for line in asked("config", "--list").splitlines() if "=" in line)
    name = name or settings.get("core.remote", "none")
    return f"{name} ({settings.get(f'remote.{name}.url', 'not in .dvc/config')})"
