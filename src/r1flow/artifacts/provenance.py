"""What made a stage's outputs: everything that decides them, and nothing else.

    {"stage": "zero_rl", "program": "grpo", "config": "3f2a91c07b1d", "code": "4d4e91da584904ef", "modules": {…},
     "inputs": {"model": {"stage": "base", "sha256": "9f2c…"}, …}, "libraries": {"torch": "2.13.0+cpu", …},
     "seed": 1, "threads": 1, "device": "cpu", "python": "3.11", "identity": "…", "outputs": "sha256 of manifest.json"}

Two stages with one identity have the same config, code, inputs' contents, libraries and Python, so the second one need
not be computed: its outputs are in the store (store.py). The plan compares these files with what it would write now.
"""

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from r1flow.artifacts import manifest
from r1flow.artifacts.fingerprint import Code
from r1flow.artifacts.frozen import config_digest
from r1flow.core.errors import UserError
from r1flow.core.files import read_yaml
from r1flow.core.rewarding import judges

# Keys that only say how to ask a server; the last three are a judge's.
ASKING = ("api_key_env", "timeout_s", "attempts", "concurrency", "backoff_s", "cache_dir")
DECIDE = ("stage", "program", "config", "code", "libraries", "python")  # and the inputs' contents
NOT_THERE = "not there yet"  # what is wrong with a folder that doesn't exist


def describe_provenance(
    stage: str, program: str, config: dict[str, Any], code: Code, inputs: dict[str, dict[str, str]]
) -> dict[str, Any]:
    """The provenance of a stage that is about to be computed; `inputs` as from `input_of`."""
    provenance = {
        "stage": stage,
        "program": program,
        "config": config_digest(deciding(config)),
        "code": code.digest,
        "modules": code.modules,
        "inputs": inputs,
        "libraries": code.libraries,
        "python": ".".join(map(str, sys.version_info[:2])),
        **{key: config.get(key) for key in ("seed", "threads", "device")},
    }
    return {**provenance, "identity": identity_of(provenance)}


def deciding(config: dict[str, Any]) -> dict[str, Any]:
    """The config without what only says how a server is asked: after an outage, a longer timeout keeps what was done.

    With a server that samples, the batch size is the number of requests under way, so it is left out, too.
    """
    if config.get("engine") == "openai":
        options = without_asking(config["engine_options"])
        config = {key: value for key, value in config.items() if key != "batch_size"} | {"engine_options": options}
    rewards = dict(config.get("rewards") or {})
    for label in judges(rewards):
        rewards[label] = rewards[label] | {"args": without_asking(rewards[label].get("args") or {})}
    return config | {"rewards": rewards} if rewards else config


def without_asking(options: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if key not in ASKING}


def servers_asked(config: dict[str, Any]) -> list[dict[str, str | None]]:
    """The models behind servers that wrote a stage's samples in place of its own, or judged them."""
    rewards = config.get("rewards") or {}
    asked = [config.get("engine_options") or {}, *(rewards[label].get("args") or {} for label in judges(rewards))]
    return [{"model": options["model"], "url": options.get("url")} for options in asked if options.get("model")]


def identity_of(provenance: dict[str, Any]) -> str:
    """16 hex digits of everything that decides the outputs."""
    contents = {name: entry["sha256"] for name, entry in provenance["inputs"].items()}
    decisive = {**{key: provenance[key] for key in DECIDE}, "inputs": contents}
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]


def identify_input(path: Path) -> dict[str, str]:
    """What identifies an input: for a stage's folder or manifest its manifest, for the rest the files' contents.

    Raises UserError for a path that isn't there and for a stage's folder that isn't what its manifest says.
    """
    folder = path.parent if path.name in (manifest.MANIFEST, "model") else path
    written = folder / manifest.MANIFEST
    if is_stage(folder):
        with hashes_of(folder) as remembered:
            if fault := manifest.broken(folder, remembered):
                raise UserError(f"{fault}; run the stage that made {folder} again")
        return {"stage": manifest.read_manifest(written)["stage"], "sha256": manifest.sha256(written)}
    if not path.exists():
        raise UserError(f"{path} is missing; check the path, or run the stage that makes it")
    return {"path": str(path), "sha256": content(path)}


def hashes_of(source: Path) -> manifest.Hashes:
    """The cache of an input's hashes, named by the end of its path: names may have 255 bytes. Paths in it are whole."""
    return manifest.Hashes(Path(str(source)[-50:]))


def is_stage(folder: Path) -> bool:
    """Whether a stage made the folder: it has a stage's manifest, not one of another kind, such as a web page's."""
    if not (folder / manifest.MANIFEST).is_file():
        return False
    try:
        written = manifest.read_json(folder / manifest.MANIFEST)
    except (ValueError, RecursionError):
        return True  # a damaged one, which manifest.broken reports
    return isinstance(written, dict) and {"stage", "files"} <= written.keys()


def content(path: Path) -> str:
    """The sha256 of a file, or a folder's listing without hidden files (git's, an editor's); no stage reads these."""
    with hashes_of(path) as remembered:
        if path.is_file():
            return remembered(path)
        files = {}
        for file in path.rglob("*"):
            name = str(file.relative_to(path))
            if file.is_file() and "/." not in f"/{name}":
                files[name] = {"sha256": remembered(file), "size": file.stat().st_size}
        return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def read_provenance(path: Path) -> dict[str, Any]:
    """A stage's provenance; raises OSError, or ValueError for what is none."""
    try:
        then = manifest.read_json(path)
        whole = all(isinstance(then[key], str) for key in (*DECIDE, "identity", "outputs") if key != "libraries")
        for table in (then["libraries"], then.get("modules", {}), then.get("accepted", {}), *then["inputs"].values()):
            whole &= all(isinstance(value, str) for value in table.values())
        whole &= all("sha256" in entry for entry in then["inputs"].values())
    except (KeyError, TypeError, AttributeError, RecursionError):
        whole = False
    if not whole:
        raise ValueError("no provenance of a stage")
    return then


def recorded(folder: Path, hashed: manifest.Digest = manifest.sha256) -> tuple[dict[str, Any], str | None]:
    """The provenance of what lies in a stage's folder, and what is wrong with the folder, if anything is."""
    if not folder.exists():
        return {}, NOT_THERE
    then, fault = proof_of(folder)
    fault = next(manifest.file_faults(folder, hashed), fault)
    return ({}, str(fault)) if fault else (then, None)


def stage_faults(folder: Path, hashed: manifest.Digest = manifest.sha256) -> Iterator[manifest.Fault]:
    """Files in a stage's folder that aren't what its manifest says, and a provenance or config of other outputs."""
    yield from manifest.file_faults(folder, hashed)
    _, fault = proof_of(folder)
    if fault:
        yield fault


def proof_of(folder: Path) -> tuple[dict[str, Any], manifest.Fault | None]:
    """The provenance beside a stage's outputs, and what is wrong with it or with the config, if anything is."""
    written, proof, config = folder / manifest.MANIFEST, folder / manifest.PROVENANCE, folder / "config.yaml"
    try:
        then = read_provenance(proof)
    except (OSError, ValueError):
        return {}, manifest.Fault(proof, "is missing or can't be read")
    if written.is_file() and (then["outputs"] != manifest.sha256(written) or then["identity"] != identity_of(then)):
        return {}, manifest.Fault(proof, "belongs to other outputs than those here")
    if not made_with(config, then):
        return {}, manifest.Fault(config, "isn't the configuration that these outputs were made with")
    return then, None


def made_with(config: Path, then: dict[str, Any]) -> bool:
    """Whether the config that lies beside the outputs is the one that their provenance names."""
    try:
        return config_digest(deciding(read_yaml(config))) == then["config"]
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return False


def revision() -> str | None:
    """The commit that is checked out, with -dirty after it where tracked files differ from it; None without git.

    It is for people; the provenance has the code's own hash.
    """
    words = ("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")  # no tag in place of the commit
    try:
        told = subprocess.run(["git", "--no-optional-locks", *words], capture_output=True, text=True)
        return told.stdout.strip() or None
    except FileNotFoundError:
        return None
