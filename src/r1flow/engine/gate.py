"""Refuses to train or evaluate without the report (data/leaks.py) that training and test data share no problem.

    cold_start: data/decontamination.json lists leaks: rl.jsonl gives test.jsonl away (13-gram, rows: 3); set
    data.decontaminate.drop=true, or take them out and run the data stage again

The report must be made by the current version of the rule, match these files' hashes, and list no leaks. Rows that a
stage of this run made from such data (the mix of rejection or of a search) need no report of their own, because that
stage has passed the gate. Left out: what models from outside were trained on.
"""

import json
from pathlib import Path
from typing import Any

from r1flow.artifacts import manifest
from r1flow.core.errors import UserError
from r1flow.data.decontaminate import RULE
from r1flow.data.leaks import REPORT
from r1flow.recipe.stages import RECIPE, stage_of

PROGRAMS = {row.program for row in RECIPE.values()} - {"data", "report"}  # they train on rows, or ask their problems


def check_leaks(stage: str, program: str, inputs: dict[str, Path]) -> None:
    """Refuse, before anything is computed, data that isn't known to be clean; raises UserError."""
    if program not in PROGRAMS or "data" not in inputs:
        return
    folder = inputs["data"]
    # None for a stage that a program is tried with outside of the recipe.
    row = RECIPE.get(stage_of(stage))
    # The stage that makes this one's rows has read its own data through this gate.
    checked_before = {row.rows_of} - {"data"} if row else set()
    made_by = folder / manifest.MANIFEST
    if made_by.is_file() and manifest.read_json(made_by)["stage"] in checked_before:
        return
    if fault := report_fault(folder):
        raise UserError(f"{stage}: {fault}")


def report_fault(folder: Path) -> str | None:
    """What is wrong with a data folder's report, in words; None if it says that the folder is clean."""
    path, again = folder / REPORT, "run the data stage again"
    if not path.is_file():
        return f"{path} is missing, so the training files may contain test problems; {again}"
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        return stale(folder, report, path, again) or leaking(report, path)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return f"{path} can't be read; {again}"


def stale(folder: Path, report: dict[str, Any], path: Path, again: str) -> str | None:
    """How the report is outdated, in words: it is by another rule or of other files than those there; else None."""
    if report["rule"] != RULE:
        return f"{path} was made by version {report['rule']} of the rule, and the current one is {RULE}; {again}"
    training, evaluation = report["training"], report["evaluation"]
    if not evaluation:
        return f"{path} compares with no evaluation set; {again}"
    for name, entry in training.items():
        if missing := evaluation.keys() - entry["hits"].keys():
            return f"{path} doesn't compare {name} with {min(missing)}; {again}"
    known = training | evaluation
    with manifest.Hashes(folder) as digest:
        for file in sorted(folder.glob("*.jsonl")):
            if file.name not in known:
                return f"{path} doesn't mention {file.name}; {again}"
            if digest(file) != known[file.name]["sha256"]:
                return f"{path} was made for another version of {file.name}; {again}"
    return None


def leaking(report: dict[str, Any], path: Path) -> str | None:
    """The first leak that the report names."""
    for name, entry in report["training"].items():
        for other, kinds in entry["hits"].items():
            for kind, hits in kinds.items():
                if hits["leak"]:
                    what = f"{path} lists leaks: {name} gives {other} away ({kind}, rows: {hits['rows']})"
                    return f"{what}; set data.decontaminate.drop=true, or take them out and run the data stage again"
    return None
