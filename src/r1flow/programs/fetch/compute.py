"""Fetch datasets from outside and convert them to the files that stages read: the `data` stage, if it names sources.

Inputs: `source_<name>`, the folder of each local source; the other sources come from the hub at their pinned commit.
Outputs: a JSONL file for each name under the pools' `into`, with rows as in core/schema.py; schema.json, which explains
the fields; and sources.json, which records what the files were made from:

    {"gsm8k": {"repo": "openai/gsm8k", "revision": "740312…", "files": {"main/train-00000-of-00001.parquet": "3f2a…"},
               "splits": {"train": {"read": 7473, "kept": 7473, "left_out": {}}}}, …}

A pool takes splits of sources and distributes their rows to its files by their ids (data/splits.py). So a problem is in
one file only, even if several data sets have it; if two pools have it, the earlier pool keeps it. Therefore evaluation
sets come first, and no exact copy of a test problem is trained on; near copies are left out too, and reported
(data/leaks.py). Rows are sorted by their ids, which are hashes, so a file's first n rows are a fair sample. With the
input `pin` the outputs must be those that data.dvc pins.

Left out: a corpus and a tokenizer. Such experiments start from existing base models (`base.init_from`).
"""

import json
import sys
from collections import Counter
from collections.abc import Collection
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1flow.artifacts import versions
from r1flow.artifacts.manifest import read_json, write_json
from r1flow.core.errors import UserError, printable
from r1flow.core.schema import FIELDS, FILES
from r1flow.data import leaks, loaders
from r1flow.data.loaders import Row
from r1flow.data.sources import Fetched, fetch_files, here, matching
from r1flow.data.splits import split_of
from r1flow.tracking.left_out import Count, tell_counts

if TYPE_CHECKING:
    from r1flow.tracking.stage import Stage

# Fields that mean something else than in generated data.
MEANS = {
    "id": "str: 12 hex digits of the question, spaces and case aside; of a pair, with its responses",
    "task": "str: the data set's name",
    "entry": "null: the answer is graded as mathematics; of programs, str: JSON list of their tests",
    "kind": "str: of general prompts, their source's word; of preferences: helpful or harmless",
    "check": "str: empty JSON; no rule judges these prompts",
}


def compute(stage: "Stage") -> dict[str, Any]:
    """Write every file to work; metrics: rows of each file, and what became of the rows of each split and file."""
    versions.bring_or_make(stage.work, stage.inputs.get("pin"), lambda: build_files(stage))
    counts = leaks.count_leaks(stage.work)
    told = {}
    for name, made_from in read_json(stage.work / "sources.json").items():
        read = {}
        for split, count in made_from["splits"].items():
            read[f"{name}.{split}"] = Count(count["read"], Counter(count["left_out"]))
        source, remedy = stage.config["sources"][name], "the stage's log names the first row of each reason"
        told |= tell_counts(stage, read, f"data.sources.{name}", source, remedy)
    told |= tell_counts(stage, counts, "data", stage.config, leaks.LEAKS_REMEDY)
    return {"rows": {name.removesuffix(".jsonl"): count.kept for name, count in counts.items()}, "counts": told}


def build_files(stage: "Stage") -> None:
    """Fetch the sources, convert their rows, distribute them to files, and write these."""
    config = stage.config
    taken = list(chain.from_iterable(pool["take"] for pool in config["pools"]))  # ["gsm8k.train", …]
    splits: dict[str, set[str]] = {}
    for take in taken:
        name, split = take.split(".")
        splits.setdefault(name, set()).add(split)
    fetched = {name: bring(stage, name, sorted(splits[name])) for name in sorted(splits)}
    made_from = {name: about(config["sources"][name], fetched[name]) for name in fetched}
    files: dict[str, RowFile] = {}
    for pool in config["pools"]:
        files |= {file: RowFile(stage.work / f"{file}.jsonl") for file in pool["into"]}
    owners: dict[str, str] = {}
    for pool in config["pools"]:
        for take in pool["take"]:
            name, split = take.split(".")
            done = sum(len(one["splits"]) for one in made_from.values())
            stage.progress(done, len(taken), source=take)
            count = share_out(fetched[name], config["sources"][name], split, pool["into"], owners, files)
            check_count(f"data.sources.{name}", split, count, config["damaged_share"])
            made_from[name]["splits"][split] = count.as_dict()
    rows = write_files(stage.work, files, config["rows"], config["decontaminate"])
    write_json(stage.work / "sources.json", made_from)
    write_json(stage.work / "schema.json", {f"{name}.jsonl": described(name, count) for name, count in rows.items()})


def bring(stage: "Stage", name: str, splits: list[str]) -> Fetched:
    """A source's files, for the splits that are used; raises UserError with the source's key."""
    source = stage.config["sources"][name]
    patterns = list(chain.from_iterable(source["files"][split] for split in splits))
    try:
        if folder := stage.inputs.get(f"source_{name}"):
            return here(folder, patterns)
        return fetch_files("dataset", source["repo"], source["revision"], patterns, source["sha256"], stage.progress)
    except UserError as error:
        raise UserError(f"data.sources.{name}: {error}") from None


def about(source: dict[str, Any], fetched: Fetched) -> dict[str, Any]:
    """A source's entry in sources.json; the path of a local folder is not part of it."""
    hub = {"repo": source["repo"], "revision": source["revision"]} if source["revision"] else {}
    return {**hub, "files": fetched.files, "splits": {}}


def share_out(
    fetched: Fetched,
    source: dict[str, Any],
    split: str,
    into: dict[str, int],
    owners: dict[str, str],
    files: dict[str, "RowFile"],
) -> Count:
    """Put a split's rows into the files that their ids decide; `owners` maps each id to the file that has it."""
    count = Count()
    names = matching(str(fetched.folder), fetched.files, source["files"][split])
    for row in loaders.load_apart(fetched.folder, names, source, count):
        file = split_of(row["id"], into)
        if row["id"] in owners:
            owner = owners[row["id"]]
            count.leave_out("twice" if owner == file else f"in {owner} already", f"{split}: {row['id']}")
            continue
        owners[row["id"]] = file
        files[file].add(row)
    for reason, place in count.first.items():
        said = f"{source['repo']}: {count.left_out[reason]} rows left out: {reason}; first: {place}"
        print(printable(said), file=sys.stderr)
    return count


def check_count(key: str, split: str, count: Count, damaged_share: float) -> None:
    """Refuse a split if too many of its rows are damaged, or none is left."""
    reasons = "; ".join(f"{place} ({count.left_out[reason]} such)" for reason, place in count.first.items())
    if count.damaged > damaged_share * count.read:
        raise UserError(
            f"{key}: {count.damaged} of {count.read} rows of {split} are damaged, more than data.damaged_share "
            f"({damaged_share}): {reasons}"
        )
    if not count.kept:
        raise UserError(f"{key}: no row of {split} is left of {count.read}: {reasons or 'its files are empty'}")


def write_files(
    work: Path, files: dict[str, "RowFile"], limits: dict[str, int | None], rules: dict[str, Any]
) -> dict[str, int]:
    """Write every file without rows that leak evaluation problems, and the report; returns the rows of each file."""
    training = {f"{name}.jsonl": file.choose(limits.get(name)) for name, file in files.items()}
    asked = {name: training.pop(name) for name in leaks.EVALUATION if name in training}
    matches = leaks.matches_by_file(training, asked)
    spared = rules["reported_only"] if rules["drop"] else list(asked)
    dropped = {name: leaks.leaking_rows(of_file, spared) for name, of_file in matches.items()}
    rows = {name: file.write(dropped.get(f"{name}.jsonl", {})) for name, file in files.items()}
    leaks.write_report(work, matches, list(asked), rules["reported_only"], dropped)
    return rows


class RowFile:
    """A file being written: rows go to disk as they come, and are sorted by id at the end, so memory holds none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fields = [field.name for field in fields(FILES[path.stem])]
        self.part = path.with_suffix(".part").open("w+b")
        self.places: list[tuple[str, int, int]] = []  # id, where its line begins, the line's length in bytes

    def add(self, row: Row) -> None:
        line = json.dumps({name: row[name] for name in self.fields}, ensure_ascii=False).encode() + b"\n"
        self.places.append((row["id"], self.part.tell(), len(line)))
        self.part.write(line)

    def choose(self, limit: int | None) -> list[tuple[str, str]]:
        """Keep only the `limit` rows with the smallest ids; returns the ids and questions of the kept rows."""
        self.places = sorted(self.places)[:limit]
        return [(identity, json.loads(self.line(start, length))["question"]) for identity, start, length in self.places]

    def line(self, start: int, length: int) -> bytes:
        self.part.seek(start)
        return self.part.read(length)

    def write(self, without: Collection[str]) -> int:
        """Write the chosen rows except those with these ids; returns how many were written."""
        kept = [place for place in self.places if place[0] not in without]
        if not kept:
            raise UserError(
                f"data.pools: {self.path.name} would be empty ({len(without)} rows give an evaluation set away)"
            )
        with self.part, self.path.open("wb") as file:
            for _, start, length in kept:
                file.write(self.line(start, length))
        self.path.with_suffix(".part").unlink()
        return len(kept)


def described(file: str, rows: int) -> dict[str, Any]:
    """A file's entry in schema.json."""
    return {"rows": rows, "fields": {field.name: (FIELDS | MEANS)[field.name] for field in fields(FILES[file])}}
