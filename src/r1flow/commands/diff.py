"""What differs between two runs, where it began, and how far it moved the results.

    r1flow diff results/r1_tiny ../other/results/r1_tiny

    A: results/r1_tiny
    B: ../other/results/r1_tiny
    the first stage that differs is zero_rl
      other bytes: metrics.json, model/model.safetensors
      cause: config trainer.learning_rate: 0.0001 → 0.0002
    stages after it that differ too: evaluate/zero_rl, report
    …

Equal means: the same manifest.json and the same provenance.json for every stage. The outputs themselves are not hashed
again (`r1flow verify` does that). Left out: what is inside the files; cost.json, which always differs.
"""

import argparse
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1flow.artifacts.folders import run_folder
from r1flow.artifacts.manifest import MANIFEST
from r1flow.artifacts.records import Record, absolute_place, folder_of, read_file, read_record
from r1flow.commands.finding import add_json, tell
from r1flow.core.changes import changes, leaves
from r1flow.core.errors import UserError, listed
from r1flow.core.files import read_yaml
from r1flow.recipe.stages import position

if TYPE_CHECKING:
    from r1flow.core.metrics import Interval, PerProblem

RunRecords = Mapping[str, Record]  # by stage, in dataflow order

NO_CAUSE = (
    "no recorded cause: config, code, inputs and libraries are the same, and only the bytes differ; perhaps the"
    " processors differ (mixed_precision in metrics.json), or a computation isn't deterministic"
)
DERIVED = ("stage", "identity", "outputs")  # hashes of the rest
TOLD_APART = ("config", "code", "modules", "inputs", "libraries")
TOLD_BY_PROVENANCE = ("seed", "threads", "device")  # keys that the provenance has, too; reported from there
SHOWN_FILES = 6
TASKS = ("reasoning", "general")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Compare the manifests and provenance of all stages. Exit code 0: the runs are equal. Exit code 1: "
        "they differ, and the first stage that differs is shown, with the cause and how much the results changed. "
        "This is for runs that should be equal, such as two clones'; to see whether a change helped, use "
        "`r1flow compare`."
    )
    parser.add_argument("runs", nargs=2, type=Path, metavar="RUN", help="a run's name or folder: r1_tiny")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    return diff(*arguments.runs, arguments.json)


def diff(run_a: Path, run_b: Path, as_json: bool = False) -> int:
    """Print whether two runs are equal (0), or the first difference, its cause and its consequences (1).

    Raises UserError for a run that isn't there or isn't whole.
    """
    a, b = read_run(run_a), read_run(run_b)
    stages = sorted(a.keys() | b.keys(), key=position)
    shared = [stage for stage in stages if stage in a and stage in b]
    other = [stage for stage in shared if a[stage].sha256 != b[stage].sha256]
    remade = [stage for stage in shared if stage not in other and a[stage].provenance != b[stage].provenance]
    alone = [stage for stage in stages if stage not in shared]
    equal = not (other or remade or alone)
    rows = [] if equal else compared(a, b)
    told = {
        "a": str(run_a),
        "b": str(run_b),
        "equal": equal,
        "first": first_of(a, b, other) if other else None,
        "other_bytes": {stage: list(causes(a[stage], b[stage])) for stage in other},
        "made_differently": {stage: list(causes(a[stage], b[stage])) for stage in remade},
        "only_in_a": [stage for stage in alone if stage in a],
        "only_in_b": [stage for stage in alone if stage in b],
        "results": rows,
    }
    if equal:
        words = [f"equal: the same manifest and provenance for each of the {len(stages)} stages"]
    else:
        words = [*differences(a, b, other), *only_in_one(a, alone), *made_differently(a, b, remade, other)]
        words += results(a, b, rows)
    tell(told, "\n".join([f"A: {run_a}", f"B: {run_b}", *words]), as_json)
    return int(not equal)


def read_run(run: Path) -> RunRecords:
    """Every stage of the run, the pinned data that it read included; raises UserError naming what isn't whole."""
    given = run_folder(run)
    run = absolute_place(given)
    written = [*run.glob("**/provenance.json"), *run.glob(f"**/{MANIFEST}")]
    stages = {str(path.parent.relative_to(run)) for path in written}
    if not stages:
        raise UserError(f"{given}: no stage's folder in it; name a run's folder, for example results/r1_tiny")
    pinned = {"data"} if (folder_of(run, "data") / MANIFEST).is_file() else set()
    return {stage: read_record(folder_of(run, stage)) for stage in sorted(stages | pinned, key=position)}


# -- what differs, and why ---------------------------------------------------------------------------------------


def differences(a: RunRecords, b: RunRecords, other: list[str]) -> Iterator[str]:
    """The first stage with other bytes and its causes, then the later ones, and any causes of their own."""
    if not other:
        return
    first = first_of(a, b, other)
    known = list(causes(a[first], b[first]))
    yield f"the first stage that differs is {first}"
    yield f"  other bytes: {listed(list(artifacts(a[first].manifest, b[first].manifest)), SHOWN_FILES)}"
    yield from (f"  cause: {cause}" for cause in known or [NO_CAUSE])
    later = [stage for stage in other if stage != first]
    if later:
        yield f"stages after it that differ too: {', '.join(later)}"
    for stage in later:
        own = list(causes(a[stage], b[stage], inputs=False))
        if own:
            yield f"  {stage} has causes of its own: {'; '.join(own)}"


def first_of(a: RunRecords, b: RunRecords, other: list[str]) -> str:
    """The stage where the differences begin: one that reads no other of them, whatever its place in the order."""
    return next((stage for stage in other if not sources_read(a[stage], b[stage]) & set(other)), other[0])


def only_in_one(a: RunRecords, alone: list[str]) -> Iterator[str]:
    for name, stages in (("A", [s for s in alone if s in a]), ("B", [s for s in alone if s not in a])):
        if stages:
            yield f"only in {name} (the other run doesn't have it, or isn't finished): {', '.join(stages)}"


def made_differently(a: RunRecords, b: RunRecords, remade: list[str], other: list[str]) -> Iterator[str]:
    for stage in remade:
        yield f"same bytes, made differently: {stage}: {'; '.join(causes(a[stage], b[stage])) or 'unrecorded'}"
    if remade and not other:
        yield "the outputs are identical; the runs aren't called equal because how they were made is not the same"


def sources_read(*records: Record) -> set[str]:
    """The stages that any of these stages has read."""
    stages = set()
    for record in records:
        stages |= {entry["stage"] for entry in record.provenance["inputs"].values() if "stage" in entry}
    return stages


def causes(a: Record, b: Record, inputs: bool = True) -> Iterator[str]:
    """Every recorded difference between the two, in words: config, code, inputs, libraries, the rest."""
    one, two = a.provenance, b.provenance
    if one["config"] != two["config"]:
        yield from config_changes(a, b)
    if one["code"] != two["code"]:
        modules = [name for name, _, _ in changes(one["modules"], two["modules"])]
        yield f"code: {', '.join(modules) or 'the same modules, called differently'}"
    if inputs:
        yield from input_changes(one["inputs"], two["inputs"])
    for name, before, after in changes(one["libraries"], two["libraries"]):
        yield f"library {name}: {before} → {after}"
    told = (*DERIVED, *TOLD_APART)
    for key, before, after in changes(leaves(all_but(one, told)), leaves(all_but(two, told))):
        yield f"{key}: {before} → {after}"


def all_but(row: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in keys}


def config_changes(a: Record, b: Record) -> Iterator[str]:
    """Every value that differs between the two config.yaml, by its dotted path; raises UserError if one is missing."""
    for record in (a, b):
        if not (record.folder / "config.yaml").is_file():
            raise UserError(f"{record.folder / 'config.yaml'} is missing; run the stage again, or restore it")
    changed = list(changes(*(leaves(read_yaml(record.folder / "config.yaml")) for record in (a, b))))
    if not changed:
        yield f"config: {a.provenance['config']} → {b.provenance['config']}, though both config.yaml read the same"
    for key, before, after in changed:
        if key not in TOLD_BY_PROVENANCE:
            yield f"config {key}: {before} → {after}"


def input_changes(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    """How the inputs of two stages differ, each as in the provenance: {"model": {"stage": "base", "sha256": …}}."""
    for name in sorted(a.keys() | b.keys()):
        if name not in a or name not in b:
            yield f"input {name}: only in {'A' if name in a else 'B'}"
        elif a[name] != b[name]:
            one, two = (row[name].get("stage", row[name].get("path")) for row in (a, b))
            same = f"other content of {one} ({a[name]['sha256'][:12]} → {b[name]['sha256'][:12]})"
            yield f"input {name}: {f'{one} → {two}' if one != two else same}"


def artifacts(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    """The entries in which two manifests differ: files, then what the contract says."""
    for name in sorted(a["files"].keys() | b["files"].keys()):
        if name not in a["files"] or name not in b["files"]:
            yield f"{name} (only in {'A' if name in a['files'] else 'B'})"
        elif a["files"][name] != b["files"][name]:
            yield name
    for key, before, after in changes(leaves(all_but(a, ["files"])), leaves(all_but(b, ["files"]))):
        yield f"{key} ({before} → {after})"


# -- how far the results moved -----------------------------------------------------------------------------------


def results(a: RunRecords, b: RunRecords, rows: list[dict[str, Any]]) -> Iterator[str]:
    """pass@1 of every model that both runs evaluated, and B − A in points."""
    stages = evaluated_alike(a, b)
    if not stages:
        yield "results: no model was evaluated in both runs"
    elif not rows:
        yield f"results: the same samples of all {len(stages)} evaluated models"
    else:
        yield f"{'pass@1 in %':<32}{'A':>8}{'B':>8}   B − A in points, 95 % interval paired by problem"
    for row in rows:
        before, after = 100 * row["a"], 100 * row["b"]
        known = row["low"] is not None
        spread = f"[{100 * row['low']:+.1f}, {100 * row['high']:+.1f}]" if known else "other problems"
        yield f"{row['model']:<22}{row['task']:<10}{before:>8.1f}{after:>8.1f}   {after - before:+.1f} {spread}"


def evaluated_alike(a: RunRecords, b: RunRecords) -> list[str]:
    return [stage for stage in a if stage.startswith("evaluate/") and stage in b]


def compared(a: RunRecords, b: RunRecords) -> list[dict[str, Any]]:
    """pass@1 of every model and task in both runs, with the interval of B − A; empty where all samples are the same."""
    stages = evaluated_alike(a, b)
    if all(a[stage].sha256 == b[stage].sha256 for stage in stages):
        return []
    of_a = pass_at_1_by_problem([a[stage].folder for stage in stages])
    of_b = pass_at_1_by_problem([b[stage].folder for stage in stages])
    rows = []
    for stage in stages:
        here, there = a[stage].folder, b[stage].folder
        one, two = read_file(here / "metrics.json")["tasks"], read_file(there / "metrics.json")["tasks"]
        for task in TASKS:
            means = [tasks.get(task, {}).get("pass_at_1") for tasks in (one, two)]
            if None not in means:  # a task that wasn't asked, or of which nothing was graded
                interval = paired(of_a.get((here, task), {}), of_b.get((there, task), {}))
                row = {"model": stage.removeprefix("evaluate/"), "task": task, "a": means[0], "b": means[1]}
                rows.append(row | {"low": interval and interval.low, "high": interval and interval.high})
    return rows


def paired(a: "PerProblem", b: "PerProblem") -> "Interval | None":
    """The mean of B − A over the problems; None unless both have samples of the same problems, at least two."""
    from r1flow.core.metrics import paired_difference

    return paired_difference(b, a) if a.keys() == b.keys() and len(a) > 1 else None


def pass_at_1_by_problem(folders: list[Path]) -> "dict[tuple[Path, str], PerProblem]":
    """By evaluation and task, from the samples; those without samples are left out."""
    from r1flow.api.comparison import stored_scores

    paths = {str(folder): folder / "samples.parquet" for folder in folders}
    by_problem = {}
    for name, scores in stored_scores({folder: path for folder, path in paths.items() if path.is_file()}).items():
        for task in TASKS:
            by_problem[Path(name), task] = scores[task, "pass_at_1"]
    return by_problem
