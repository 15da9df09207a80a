"""Shares the rows of sources out to data files, by pools: which splits of which sources go into which files.

    pools: [{take: [gsm8k.test], into: {test: 100}}, {take: [gsm8k.train], into: {dev: 5, rl: 95}}]

A source is a data set on a hub, or files on this machine (data/sources.py). A row's id decides its file
(data/splits.py), so a problem is in one file only, even if several sources have it; if two pools have it, the earlier
pool keeps it. Therefore evaluation sets come first, and no exact copy of a test problem is trained on.
"""

import sys
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from r1flow.artifacts.manifest import read_json, write_json
from r1flow.core.errors import UserError, errors_at, printable
from r1flow.data import leaks, loaders
from r1flow.data.sources import Fetched, fetch_files, here, matching
from r1flow.data.splits import split_of
from r1flow.tracking.left_out import Count, tell_counts

if TYPE_CHECKING:
    from r1flow.tracking.stage import Stage

SHOWN = 60  # characters of a question in a line
RECORD = "sources.json"  # what the files were made from
OWN = {"own": "data.train", "own_test": "data.test"}  # sources that users name by a word (engine/own_data.py)


class Holder(Protocol):
    """What takes a file's rows: a list of them, or the file itself."""

    def append(self, row: loaders.FileRow, /) -> None: ...


def share_rows(stage: "Stage", files: Mapping[str, Holder]) -> None:
    """Bring the sources' rows into the `files` of the pools, and write sources.json; raises UserError with the key."""
    config = stage.config
    # ["gsm8k.train", …].
    taken = list(chain.from_iterable(pool["take"] for pool in config["pools"]))
    splits: dict[str, list[str]] = {}
    for take in sorted(taken):
        name, split = take.split(".")
        splits.setdefault(name, []).append(split)
    fetched = {name: bring(stage, name, of_source) for name, of_source in splits.items()}
    made_from = {name: source_entry(config["sources"][name], fetched[name]) for name in fetched}
    owners: dict[str, tuple[str, str | None]] = {}
    done = 0
    for pool in config["pools"]:
        for take in pool["take"]:
            name, split = take.split(".")
            stage.progress(done, len(taken), source=take)
            count = share_split(fetched[name], config["sources"][name], split, pool["into"], owners, files)
            check_count(key_of(name), split, count, config["damaged_share"])
            made_from[name]["splits"][split] = count.as_dict()
            done += 1
    write_json(stage.work / RECORD, made_from)


def bring(stage: "Stage", name: str, splits: list[str]) -> Fetched:
    """A source's files, for the splits that are used; raises UserError with the source's key."""
    source = stage.config["sources"][name]
    patterns = list(chain.from_iterable(source["files"][split] for split in splits))
    with errors_at(f"{key_of(name)}: "):
        if place := stage.inputs.get(f"source_{name}"):
            return here(place, patterns)
        return fetch_files("dataset", source["repo"], source["revision"], patterns, source["sha256"], stage.progress)


def key_of(source: str) -> str:
    """Where the configuration names a source."""
    return OWN.get(source, f"data.sources.{source}")


def source_entry(source: dict[str, Any], fetched: Fetched) -> dict[str, Any]:
    """A source's entry in sources.json; the path of a local folder is not part of it."""
    hub = {"repo": source["repo"], "revision": source["revision"]} if source["revision"] else {}
    return {**hub, "files": fetched.files, "splits": {}}


def share_split(
    fetched: Fetched,
    source: dict[str, Any],
    split: str,
    into: dict[str, int],
    owners: dict[str, tuple[str, str | None]],
    files: Mapping[str, Holder],
) -> Count:
    """Put a split's rows into the files that their ids decide; `owners`: each id's file and answer."""
    count = Count()
    names = matching(str(fetched.folder), fetched.files, source["files"][split])
    for row in loaders.load_apart(fetched.folder, names, source, count):
        file = split_of(row["id"], into)
        if row["id"] in owners:
            owner, answer = owners[row["id"]]
            if owner != file:
                reason = f"in {owner} already"
            else:
                reason = "twice" if row.get("answer") == answer else "answered otherwise"
            count.leave_out(reason, f"{split}: {' '.join(row['question'].split())[:SHOWN]!r}: {reason}")
            continue
        owners[row["id"]] = file, row.get("answer")
        files[file].append(row)
    for reason, place in count.first.items():
        said = f"{source['repo']}: {count.left_out[reason]} rows left out: {reason}; first: {place}"
        print(printable(said), file=sys.stderr)
    return count


def check_count(key: str, split: str, count: Count, damaged_share: float) -> None:
    """Refuse a split if too many of its rows are damaged, or none is left."""
    if count.damaged > damaged_share * count.read:
        reasons = first_places(count, count.damages)
        enough = min(1.0, round(count.damaged / count.read + 0.01, 2))
        allow = f", or allow it with ++data.damaged_share={enough}" if count.kept else ""
        raise UserError(
            f"{key}: {count.damaged} of {count.read} rows of {split} are damaged, more than data.damaged_share "
            f"({damaged_share}): {reasons}; mend them{allow}"
        )
    if not count.kept:
        reasons = first_places(count, count.left_out) or "its files are empty"
        raise UserError(f"{key}: no row of {split} is left of {count.read}: {reasons}")


def first_places(count: Count, rows: Counter[str]) -> str:
    """The first row of each of these reasons, and how many there are."""
    return "; ".join(f"{place} ({rows[reason]} such)" for reason, place in count.first.items() if reason in rows)


def check_filled(config: Mapping[str, Any], file: str, rows: int, leaks: int = 0) -> None:
    """Refuse a file that pools fill and that would have no rows; `leaks`: how many rows it would have had."""
    why = f" ({leaks} rows give an evaluation set away)" if leaks else ""
    for pool in config.get("pools", ()):
        if rows or file not in pool["into"]:
            continue
        key, remedy = "data.pools", "take other rows for it, or more of them"
        if pool["take"][0].partition(".")[0] in OWN:
            key, remedy = "data.train", "add problems to it, or name data.test"
        raise UserError(f"{key}: {file}.jsonl would be empty{why}; {remedy}")


def tell_data(stage: "Stage") -> dict[str, Any]:
    """The metrics of a finished data folder: rows and families of its files, and what was left out, which it says."""
    counts = leaks.count_leaks(stage.work)
    told = tell_sources(stage) if stage.config.get("pools") else {}
    told |= tell_counts(stage, counts, "data", stage.config, leaks.LEAKS_REMEDY)
    rows = {name.removesuffix(".jsonl"): count.kept for name, count in counts.items()}
    return {"rows": rows, "families": leaks.count_families(stage.work), "counts": told}


def tell_sources(stage: "Stage") -> dict[str, Any]:
    """Say how many rows of each source's splits were read and left out, by sources.json; returns the counts."""
    told = {}
    for name, entry in read_json(stage.work / RECORD).items():
        read = {}
        for split, count in entry["splits"].items():
            read[f"{name}.{split}"] = Count(count["read"], Counter(count["left_out"]))
        source, remedy = stage.config["sources"][name], "the stage's log names the first row of each reason"
        told |= tell_counts(stage, read, f"data.sources.{name}", source, remedy)
    return told
