"""Traces a number or a model back to its sources, by the records in the stages' folders, and checks each link.

    r1flow trace 'results/r1_tiny/report/summary.json#models.zero_rl.reasoning.pass_at_1'

    results/r1_tiny/report/summary.json#models.zero_rl.reasoning.pass_at_1 = 0.571875
    report: program report, config 1c77c8a0e1f4, code 9a02…, seed 1, threads 1, device cpu
      manifest 5be1…, git 20ea22a1b3c4, DVC none, MLflow 3f0c…
      evaluate/zero_rl: program evaluate, …
        samples.parquet 77ab…
        zero_rl (model): program grpo, …
          base (model) (this run's base has changed since): …

The number's file is hashed, and every recorded input is compared with the manifest on disk; the outputs themselves are
not hashed again (`r1flow verify` does that). MLflow's run is looked up only in a local SQLite file, else "unknown".
"""

import argparse
import json
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from r1flow.artifacts import manifest, provenance, versions
from r1flow.artifacts.manifest import MANIFEST, sha256
from r1flow.artifacts.records import Record, absolute_place, folder_of, read_file, read_record
from r1flow.artifacts.versions import RESULTS
from r1flow.commands.finding import add_json, tell
from r1flow.core.changes import children
from r1flow.core.errors import UserError, did_you_mean, listed
from r1flow.core.files import read_yaml
from r1flow.recipe.stages import position
from r1flow.sampling import ADDRESS
from r1flow.tracking import spool

Link = dict[str, Any]  # one stage of the chain, as --json prints it

UNKNOWN = "unknown"
FACTS = ("program", "config", "code", "seed", "threads", "device")
SHOWN = (".safetensors", ".parquet")  # weights and samples; the manifest has the other files
NOTES = {"unchanged": "", "changed": " (this run's {} has changed since)", "missing": " (this run's {} is missing)"}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Follow a number of the report, or a model, back to its sources: evaluation, checkpoint, training "
        "data and earlier stages, with hashes, seeds, commits, DVC and MLflow ids. Exit code 1: a file or an input is "
        "not what it was then. For example: r1flow trace "
        "'results/r1_tiny/report/summary.json#models.zero_rl.reasoning.pass_at_1'"
    )
    parser.add_argument("target", help="a number (FILE#KEY.KEY, in quotes), or the folder of a model or stage")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    return print_trace(arguments.target, arguments.json)


def print_trace(target: str, as_json: bool = False) -> int:
    """Print where `target`, FILE#KEY.KEY or a file or folder of a stage, comes from.

    0, or 1 when a link of the chain doesn't hold. Raises UserError for a target that isn't there.
    """
    name, _, keys = target.partition("#")
    path = existing(Path(name))
    record = read_record(nearest_stage(path))
    value = look_up(path, keys) if keys else None
    holds = is_as_made(record, absolute_place(path))
    links = follow(record, {}, only=chosen_inputs(record, path, keys.split(".")))
    finding = {"target": target, "value": value, "unchanged": holds, "stages": list(links.values())}
    note = "" if holds else f" ({path.name} has changed since {record.stage} wrote it)"
    first = f"{target} = {json.dumps(value)}{note}" if keys else target + note
    tell(finding, "\n".join([first, *chain_lines(links, record.stage, told=set())]), as_json)
    entries = chain.from_iterable(link["inputs"] for link in links.values())
    return int(not holds or any(entry.get("state", "unchanged") != "unchanged" for entry in entries))


# -- the target --------------------------------------------------------------------------------------------------


def existing(path: Path) -> Path:
    """The path, or the one below results/ that is meant: r1_tiny/zero_rl; raises UserError when there is neither."""
    for there in (path, RESULTS / path):
        if there.exists():
            return there
    raise UserError(f"{path} doesn't exist; name a stage's folder or a file in it: results/r1_tiny/zero_rl")


def nearest_stage(path: Path) -> Path:
    """The nearest folder upwards that a stage has written; raises UserError when there is none."""
    for folder in (absolute_place(path), *absolute_place(path).parents):
        if (folder / "provenance.json").is_file():
            return folder
    below = [record.parent for record in chain(path.glob("*/provenance.json"), path.glob("*/*/provenance.json"))]
    which = listed(sorted(map(str, below)), 6) if below else "results/r1_tiny/zero_rl"
    raise UserError(f"{path} belongs to no stage (no provenance.json); name a stage's folder or file: {which}")


def look_up(file: Path, keys: str) -> Any:
    """The single value at a dotted path (items of lists by number); raises UserError with the keys that there are."""
    if not file.is_file():
        raise UserError(
            f"{file} isn't a file; name the one with the number, for example results/r1_tiny/report/summary.json#{keys}"
        )
    value, path = read_file(file), f"{file}#"
    for key in keys.split("."):
        items = children(value)
        if not items:
            raise UserError(f"{path} is {json.dumps(value)}, with nothing below it; leave out {key!r} and what follows")
        if key not in items:
            raise UserError(f"{path}: there is no {key!r} in it{did_you_mean(key, list(items))}")
        value, path = items[key], f"{path}{'' if path.endswith('#') else '.'}{key}"
    if items := children(value):
        raise UserError(f"{path}: that is many numbers; name one of them: {', '.join(items)}")
    return value


def is_as_made(record: Record, path: Path) -> bool:
    """Whether a file is what the manifest says; a folder, or a file that no manifest knows (cost.json), passes."""
    entry = record.manifest["files"].get(str(path.relative_to(record.folder)))
    return entry is None or entry["sha256"] == sha256(path)


def chosen_inputs(record: Record, file: Path, keys: list[str]) -> set[str] | None:
    """The stages whose results the report's number was computed from; None for any other target: all inputs."""
    if record.stage != "report" or file.name != "summary.json" or len(keys) < 2:
        return None
    steps = {f"evaluate/{model}" for model in keys[1:3]}  # steps.zero_rl.base.gain
    return {"models": {f"evaluate/{keys[1]}"}, "claims": stages_of_claim(keys[1]), "steps": steps}.get(keys[0])


def stages_of_claim(name: str) -> set[str] | None:
    """The stages that a claim reads, as it says itself; None for a claim that isn't ours."""
    # Imports scipy, and every trace would wait for it.
    from r1flow.recipe.claims import CLAIMS, Evidence

    for judge in CLAIMS:
        claim = judge(Evidence({}))
        if claim.id == name:
            return {f"evaluate/{model}" for model in claim.models} | set(claim.curves)
    return None


# -- the chain ---------------------------------------------------------------------------------------------------


def follow(record: Record, links: dict[str, Link], only: set[str] | None = None) -> dict[str, Link]:
    """Add a link for the stage and for every one behind it to `links`, sources first.

    `only`: which of the stage's own inputs to follow (None: all); of the stages behind it, all inputs are followed.
    """
    entries = []
    for name, source in sorted(record.provenance["inputs"].items()):
        entry = {"name": name, **source}
        if only is not None and entry.get("stage") not in only:
            continue
        if "stage" in entry:  # else a path from outside
            folder = folder_of(record.run, entry["stage"])
            before = read_record(folder) if (folder / MANIFEST).is_file() else None
            if before is None:
                entry["state"] = "missing"
            else:
                entry["state"] = "unchanged" if before.sha256 == entry["sha256"] else "changed"
                if before.stage not in links:
                    follow(before, links)
        entries.append(entry)
    links[record.stage] = link_of(record, entries)
    return links


def link_of(record: Record, entries: list[dict[str, str]]) -> Link:
    """What is known of one stage; `generator` is the config of a stage that reads no other, else None."""
    cost = manifest.read_cost(record.folder / "cost.json") or {}
    config, files = read_yaml(record.folder / "config.yaml"), record.manifest["files"]
    return {
        "stage": record.stage,
        "folder": str(record.folder.relative_to(record.project)),
        **{fact: record.provenance.get(fact) for fact in FACTS},
        "manifest": record.sha256,
        "outputs": {name: entry["sha256"] for name, entry in files.items() if name.endswith(SHOWN)},
        "git": cost.get("revision"),
        "dvc": dvc_hashes(record),
        "mlflow": mlflow_run(record),
        "inputs": entries,
        "servers": provenance.servers_asked(config),
        "generator": None if any("stage" in entry for entry in entries) else config,
    }


def dvc_hashes(record: Record) -> dict[str, str]:
    """DVC's hash of the stage's folder as it was last published: {"zero_rl": "8a27….dir"}; empty if it never was."""
    pointer = record.project / versions.pointer_of(record.folder.relative_to(record.project))
    return {record.folder.name: versions.read_pointer(pointer, record.folder)[0]} if pointer.exists() else {}


def mlflow_run(record: Record) -> str:
    """The MLflow run that made these outputs from the same; of several the latest, one of this run's name first."""
    uri = spool.store(record.project)["uri"]
    # None yet, or a server, which may not answer.
    if not Path(uri.removeprefix("sqlite:///")).is_file():
        return UNKNOWN
    from r1flow.tracking.mlflow_client import runs_of  # takes two seconds

    for run in sorted(runs_of(uri, record.stage), key=lambda run: run.data.tags.get("run") != record.run.name):
        if logged_making(run.info.artifact_uri) == (record.provenance["identity"], record.sha256):
            return run.info.run_id
    return UNKNOWN


def logged_making(artifacts: str) -> tuple[str, str] | None:
    """The identity and the manifest's hash according to the provenance among an MLflow run's artifacts."""
    try:
        made = provenance.read_provenance(Path(unquote(urlparse(artifacts).path), "provenance.json"))
    except (OSError, ValueError):
        return None
    return made["identity"], made["outputs"]


# -- in words ----------------------------------------------------------------------------------------------------


def chain_lines(links: dict[str, Link], stage: str, told: set[str], note: str = "") -> list[str]:
    """The chain from the stage to the sources as indented lines; a stage is described only the first time."""
    if stage in told:
        return [f"{stage}{note}: see above"]
    told.add(stage)
    first, *more = facts(links[stage])
    # the latest stage first: the chain of models before the data that all of them read
    for entry in sorted(links[stage]["inputs"], key=lambda entry: position(entry.get("stage", "data")), reverse=True):
        source = entry.get("stage", entry.get("path"))
        words = "" if entry["name"] == source else f" ({entry['name']})"
        words += NOTES[entry.get("state", "unchanged")].format(source)
        known = source in links
        more += (
            chain_lines(links, source, told, words) if known else [f"{source}{words}: sha256 {entry['sha256'][:12]}"]
        )
    return [f"{stage}{note}: {first}", *(f"  {line}" for line in more)]


def facts(link: Link) -> list[str]:
    """One stage as lines; hashes are shortened to 12 characters (--json has them in full)."""
    dvc = ", ".join(f"{path} {md5}" for path, md5 in link["dvc"].items()) or "none"
    lines = [
        ", ".join(f"{fact} {link[fact]}" for fact in FACTS),
        f"manifest {link['manifest'][:12]}, git {(link['git'] or UNKNOWN)[:12]}, DVC {dvc}, MLflow {link['mlflow']}",
        *(f"{name} {digest[:12]}" for name, digest in link["outputs"].items()),
        *(f"asked {server['model']} at {server['url'] or 'the address in ' + ADDRESS}" for server in link["servers"]),
    ]
    return lines + ([f"generated as {link['folder']}/config.yaml says"] if link["generator"] else [])
