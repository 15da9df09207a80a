"""Everything that concerns DVC: its pointers, and calls of its commands.

A pointer is a file in git that names a folder, which is not, and DVC's hash of it. Results may lie behind a link, from
where git takes nothing, so their pointers are in a folder of their own:

    data.dvc                                data/
    published/r1_tiny/base.dvc              results/r1_tiny/base/
    published/r1_tiny/evaluate/base.dvc     results/r1_tiny/evaluate/base/

`data.dvc` pins the data. Beside DVC's hash it has under `meta` the hash of the config that the data was made from
(which shows whether a run's data is that data) and the sha256 of every file (which shows what differs if it isn't):

    meta: {config: 3f2a91c07b1d, files: {corpus.jsonl: 9f2c…, …}}

The records of how data/ was made can change while the data doesn't, so DVC's hash leaves them out (.dvcignore).
publish.py keeps them in git beside the pointer: data.provenance.json, data.cost.json.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from r1flow.artifacts import manifest
from r1flow.core.errors import UserError
from r1flow.core.files import read_yaml, write_whole

DATA, POINTER = Path("data"), Path("data.dvc")
RESULTS, PUBLISHED = Path("results"), Path("published")
BESIDE = {name: Path(f"data.{name}") for name in ("provenance.json", "cost.json")}  # file of data/: its copy in git
DVC = [sys.executable, "-P", "-m", "dvc", "--wait-for-lock"]  # wait if another DVC is at work

# The same with the setting `core.no_scm`, which no option sets. DVC wants each folder in a .gitignore beside it (ours
# has all of results/), and for a folder behind a link it would fail, since git has no files there.
WITHOUT_GIT = """
import sys; from functools import partialmethod; from dvc.cli import main; from dvc.repo import Repo
Repo.__init__ = partialmethod(Repo.__init__, config={"core": {"no_scm": True}})
sys.exit(main())
"""
DVC_WITHOUT_GIT = [sys.executable, "-P", "-c", WITHOUT_GIT, "--wait-for-lock"]


def pointer_of(folder: Path) -> Path:
    """Where the pointer of a stage's folder is, or would be; of a folder that isn't in results/: beside it."""
    inside = PUBLISHED / folder.relative_to(RESULTS) if folder.is_relative_to(RESULTS) else folder
    return inside.with_name(f"{inside.name}.dvc")


def folder_pinned(pointer: Path) -> Path:
    """The folder that a pointer is of."""
    inside = pointer.with_suffix("")
    return RESULTS / inside.relative_to(PUBLISHED) if inside.is_relative_to(PUBLISHED) else inside


def pointers(run: Path) -> list[Path]:
    """The pointers of a run, results/r1_tiny, whether or not their folders are here."""
    folder = PUBLISHED / run.name
    return sorted([*folder.glob("*.dvc"), *folder.glob("evaluate/*.dvc")])


def read_pointer(pointer: Path, folder: Path) -> tuple[str, dict[str, Any]]:
    """DVC's hash of the folder and the pointer's `meta`; raises UserError if it says anything else, or is of another
    folder."""
    try:
        said = read_yaml(pointer)
        (out,), meta = said["outs"], said.get("meta", {})
        fine = said.keys() <= {"outs", "meta", "wdir"} and out.keys() <= {"md5", "size", "nfiles", "hash", "path"}
        fine &= out["path"] == folder.name and said.get("wdir", ".") == way(pointer, folder) and out["hash"] == "md5"
        if fine and isinstance(meta, dict) and re.fullmatch(r"[0-9a-f]{32}\.dir", out["md5"]):
            return out["md5"], meta
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    again = "remove it and make a new pin (r1flow pin)" if pointer == POINTER else "publish it again"
    raise UserError(
        f"{pointer}: is no pointer to {folder}/, as r1flow writes it; nothing was touched: bring it back "
        f"(git checkout HEAD -- {pointer}) or {again}"
    )


def way(pointer: Path, folder: Path) -> str:
    """From the pointer to where its folder lies, as DVC has it: `../../results/r1_tiny`."""
    return os.path.relpath(folder.parent, pointer.parent)


def pinned(pointer: Path = POINTER) -> dict[str, Any]:
    """What the pointer says of its data: `config` and `files`; empty without a pointer."""
    return read_pointer(pointer, pointer.with_suffix(""))[1] if pointer.exists() else {}


def commit(folders: list[Path]) -> str | None:
    """Put the folders into DVC's cache and their hashes into their pointers, in one call; returns what went wrong, or
    None. The folders' files stay as they are. A data.dvc keeps its `meta`; other pointers are written anew."""
    pointers = [pointer_of(folder) for folder in folders]
    refuse_links(chain.from_iterable((pointer, *pointer.parents) for pointer in pointers))
    for pointer, folder in zip(pointers, folders, strict=True):
        if folder != DATA:
            pointer.parent.mkdir(parents=True, exist_ok=True)
            write_whole(pointer, yaml.safe_dump({"outs": [{"path": folder.name}], "wdir": way(pointer, folder)}))
    return dvc("commit", "--force", "--no-relink", *pointers, command=DVC_WITHOUT_GIT)


def fetch_pinned(work: Path) -> str | None:
    """Bring the pinned data from DVC's cache or remote into `work`; returns why neither gave it, or None."""
    check_pointer(POINTER)
    if fault := dvc("fetch", DATA / manifest.MANIFEST) or unlisted([POINTER]):
        return fault
    with TemporaryDirectory(dir=work) as folder:
        if fault := dvc("get", "--quiet", ".", "data", "--out", f"{folder}/data"):
            return fault
        if different := differing(Path(folder, "data")):
            return f"{', '.join(different)} differ there"
        for item in Path(folder, "data").iterdir():
            item.replace(work / item.name)
    return None


def check_pointer(pointer: Path) -> str:
    """DVC's hash of the pointer's folder; raises UserError if DVC would write anywhere else, or through a link."""
    folder = folder_pinned(pointer)
    refuse_links([pointer, *pointer.parents, folder, *folder.rglob("*"), *folder.parents])
    return read_pointer(pointer, folder)[0]


def refuse_links(paths: Iterable[Path]) -> None:
    """Raise UserError for a symbolic link: it may be of somebody who published it, and lead anywhere."""
    for path in paths:
        if path.is_symlink():
            raise UserError(
                f"{path}: is a link, through which files would be written; nothing was touched: put a folder in its "
                "place (from another disk: mount --bind it, or clone the project there)"
            )


def unlisted(pointers: list[Path]) -> str | None:
    """The first pointer whose listing or manifest isn't in DVC's cache, in words, or None; raises UserError if these
    name files outside the pointer's folder."""
    cache = Path(dvc_output("cache", "dir").strip(), "files/md5")
    for pointer in pointers:
        md5 = check_pointer(pointer)
        file = cache / md5[:2] / md5[2:]
        try:
            files = {entry["relpath"]: entry["md5"] for entry in manifest.read_json(file)}
            fine = all(manifest.stays_inside(name) and re.fullmatch(r"[0-9a-f]{32}", of) for name, of in files.items())
            if fine:
                listed = files[manifest.MANIFEST]
                file = cache / listed[:2] / listed[2:]
                manifest.read_manifest(file)
        except FileNotFoundError:
            return f"{pointer}: what it names isn't there"
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            fine = False
        if not fine:
            raise UserError(
                f"{pointer}: names files outside {folder_pinned(pointer)}/, or {file} is damaged; nothing was touched: "
                "remove that file, and it is fetched again"
            )
    return None


def bring_or_make(work: Path, pin: Path | None, make: Callable[[], None]) -> None:
    """Put a stage's data into `work`: what `pin` pins, from DVC, if there is a pin and DVC has it, or else what `make`
    makes; raises UserError when that isn't what the pin pins."""
    if not pin:
        return make()
    if fault := fetch_pinned(work):
        print(f"data.dvc: DVC's cache and remote don't give this data ({fault}); it is made again", file=sys.stderr)
        make()
        check_pinned(work, pin)


def check_pinned(folder: Path, pointer: Path = POINTER) -> None:
    """Raise UserError, naming the files, when `folder` isn't the data that the pointer pins."""
    if different := differing(folder, pointer):
        raise UserError(
            f"{pointer}: the data made here isn't the data it pins: {', '.join(different)} differ; if that is meant "
            f"(a changed generator or library), make a new pin with `r1flow pin`"
        )


def differing(folder: Path, pointer: Path = POINTER) -> list[str]:
    """The files of `folder` that differ from those that the pointer pins, also missing and additional ones."""
    expected, there = pinned(pointer)["files"], contents(folder)
    return sorted(name for name in expected.keys() | there.keys() if expected.get(name) != there.get(name))


def contents(folder: Path) -> dict[str, str]:
    """sha256 of every data file; without metrics.json, which only describes them."""
    files = manifest.manifest_of_files("data", folder)["files"]
    return {name: entry["sha256"] for name, entry in files.items() if name != "metrics.json"}


def pin(source: Path) -> None:
    """Make `source`, a data stage's folder, the pinned data: copy it to data/, `dvc add` it, write the contract."""
    from r1flow.artifacts.frozen import config_digest

    fault = manifest.broken(source)
    if fault:
        raise UserError(f"{fault}; run the data stage again")
    stage = manifest.read_manifest(source / manifest.MANIFEST)["stage"]
    if stage != "data":
        raise UserError(f"{source}: is the stage {stage}; name a data stage's folder, such as results/r1_tiny/data")
    refuse_links([DATA, POINTER])
    pinned()  # a pointer that is none is refused before the data is replaced
    if source.resolve() != DATA.resolve():
        shutil.rmtree(DATA, ignore_errors=True)
        shutil.copytree(source, DATA, ignore=shutil.ignore_patterns(".snakemake_timestamp"))
    if (error := dvc("add", DATA)) is not None:
        raise UserError(f"{DATA}: DVC can't add it: {error}")
    contract = read_yaml(POINTER)
    contract["meta"] = {"config": config_digest(read_yaml(DATA / "config.yaml")), "files": contents(DATA)}
    write_whole(POINTER, yaml.safe_dump(contract, sort_keys=False))


def dvc(*arguments: str | Path, command: list[str] = DVC) -> str | None:
    """Run one DVC command, with progress bars if there is a terminal; returns what went wrong, or None."""
    terminal = sys.stderr.isatty()
    done = subprocess.run(
        [*command, *map(str, arguments)],
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


def dvc_output(*arguments: str) -> str:
    """What a DVC command answers on stdout; empty when it fails."""
    return subprocess.run([*DVC, *arguments], capture_output=True, text=True).stdout


def status() -> dict[str, Any]:
    """Which of the pointers' files differ or aren't here: `{"not_in_cache": ["results/r1/base/model/…"], …}`."""
    return json.loads(dvc_output("data", "status", "--granular", "--json") or "{}")


def describe_remote(name: str | None) -> str:
    """A configured remote for people: `local (/home/me/r1flow/.dvc-remote)`; without a name, the default one."""
    settings = dict(line.split("=", 1) for line in dvc_output("config", "--list").splitlines() if "=" in line)
    name = name or settings.get("core.remote", "none")
    return f"{name} ({settings.get(f'remote.{name}.url', 'not in .dvc/config')})"
