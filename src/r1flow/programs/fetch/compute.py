"""Fetch datasets from outside and convert them to the files that stages read: the `data` stage, if it names sources.

Inputs: `source_<name>`, the folder of each local source; the other sources come from the hub at their pinned commit.
Outputs: a JSONL file for each name under the pools' `into`, with rows as in core/schema.py; schema.json, which explains
the fields; and sources.json, which records what the files were made from:

    {"gsm8k": {"repo": "openai/gsm8k", "revision": "740312…", "files": {"main/train-00000-of-00001.parquet": "3f2a…"},
               "splits": {"train": {"read": 7473, "kept": 7473, "left_out": {}}}}, …}

Pools say which rows go where (data/pools.py). Near copies of test problems are left out of training files, too, and
reported (data/leaks.py). Rows are sorted by their ids, which are hashes, so a file's first n rows are a fair sample.
With the input `pin` the outputs must be those that data.dvc pins.

Left out: a corpus and a tokenizer. Such experiments start from existing base models (`base.init_from`).
"""

import json
from collections.abc import Collection
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1flow.artifacts import versions
from r1flow.artifacts.manifest import write_json
from r1flow.core.schema import BEFORE, FIELDS, FILES
from r1flow.data import leaks
from r1flow.data.loaders import FileRow
from r1flow.data.pools import check_filled, share_rows, tell_data

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
    return tell_data(stage)


def build_files(stage: "Stage") -> None:
    """Fetch the sources, convert their rows, distribute them to files, and write these."""
    config = stage.config
    names = chain.from_iterable(pool["into"] for pool in config["pools"])
    files = {file: RowFile(stage.work / f"{file}.jsonl") for file in names}
    share_rows(stage, files)
    rows = write_files(stage.work, files, config)
    schema = {}
    for name, count in rows.items():
        schema[f"{name}.jsonl"] = described(files[name].fields, count, files[name].beyond_limit)
    write_json(stage.work / "schema.json", schema)


def write_files(work: Path, files: dict[str, "RowFile"], config: dict[str, Any]) -> dict[str, int]:
    """Write every file without rows that leak evaluation problems, and the report; returns the rows of each file."""
    limits, rules = config["rows"], config["decontaminate"]
    training = {f"{name}.jsonl": file.choose(limits.get(name)) for name, file in files.items()}
    asked = {name: training.pop(name) for name in leaks.EVALUATION if name in training}
    matches = leaks.matches_by_file(training, asked, rules.get("templates", False))
    spared = rules["reported_only"] if rules["drop"] else list(asked)
    dropped = {name: leaks.leaking_rows(of_file, spared) for name, of_file in matches.items()}
    rows = {}
    for name, file in files.items():
        leaks_of_file = dropped.get(f"{name}.jsonl", {})
        rows[name] = file.write(leaks_of_file)
        check_filled(config, name, rows[name], len(leaks_of_file))
    leaks.write_report(work, matches, list(asked), rules["reported_only"], dropped)
    return rows


class RowFile:
    """A file being written: rows go to disk as they come, and are sorted by id at the end, so memory holds none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fields = [field.name for field in fields(FILES[path.stem])]
        self.part = path.with_suffix(".part").open("w+b")
        # Id, where its line begins, the line's length in bytes.
        self.places: list[tuple[str, int, int]] = []
        self.beyond_limit = 0

    def append(self, row: FileRow) -> None:
        if BEFORE in row and BEFORE not in self.fields:
            self.fields.append(BEFORE)
        line = json.dumps({name: row[name] for name in self.fields if name in row}, ensure_ascii=False).encode() + b"\n"
        self.places.append((row["id"], self.part.tell(), len(line)))
        self.part.write(line)

    def choose(self, limit: int | None) -> list[tuple[str, str]]:
        """Keep only the `limit` rows with the smallest ids; returns the ids and texts of the kept rows."""
        self.beyond_limit = len(self.places[limit:]) if limit is not None else 0
        self.places = sorted(self.places)[:limit]
        return [(identity, all_asked(json.loads(self.line(start, length)))) for identity, start, length in self.places]

    def line(self, start: int, length: int) -> bytes:
        self.part.seek(start)
        return self.part.read(length)

    def write(self, without: Collection[str]) -> int:
        """Write the chosen rows except those with these ids; returns how many were written."""
        kept = [place for place in self.places if place[0] not in without]
        with self.part, self.path.open("wb") as file:
            for _, start, length in kept:
                file.write(self.line(start, length))
        self.path.with_suffix(".part").unlink()
        return len(kept)


def all_asked(row: FileRow) -> str:
    """What may give an evaluation problem away: the question, and what was said before it."""
    return "\n".join([*(turn["content"] for turn in json.loads(row.get(BEFORE, "[]"))), row["question"]])


def described(names: list[str], rows: int, beyond_limit: int) -> dict[str, Any]:
    """A file's entry in schema.json, from the names of its fields, and how many rows its limit left out."""
    cut = {"beyond_limit": beyond_limit} if beyond_limit else {}
    return {"rows": rows, **cut, "fields": {name: (FIELDS | MEANS)[name] for name in names}}
