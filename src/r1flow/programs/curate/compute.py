"""Curation: long chains of thought from files are filtered, deduplicated, mixed, and packed as token ids for SFT.

Inputs: `data`, the data folder with the benchmarks; `model`, whose tokenizer and chat template encode the rows; and,
where a source names them, `rejection` (that stage's folder) or `source_<name>` (a folder from outside). Outputs:
packed/*.parquet (data/packed.py describes them), tokenizer/, rows.parquet (every row, and why it was dropped), and
curation.json:

    {"rows": 800000, "kept": 641202, "dropped": {"near duplicate": 40123, "leak: 13-gram": 212, …},
     "sources": {"traces": {"rows": 600000, "kept": 480901, "share": 75, "reached": 0.75, "tokens": 2.1e9}, …},
     "packs": 130213, "tokens": 2.1e9, "filled": 0.997, …}

First the rows of each shard are filtered on their own (data/sift.py), then rows are chosen among all shards
(data/choose.py), then each shard's chosen rows are packed. As many shards are computed at once as the stage has
threads; the output's bytes don't depend on that number. Finished shards are kept among the stage's snapshots, so a
kill loses only the shards that were being computed.

DeepSeek-R1, section 2.3.3: 600k reasoning and 200k general samples. Left out: whether answers are right (the program
rejection checks that), and packs with rows of several shards, since training draws packs at random anyway.
"""

import os
import shutil
from collections.abc import Callable
from concurrent.futures import as_completed
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from r1flow.artifacts import manifest
from r1flow.core.errors import UserError
from r1flow.core.processes import pool
from r1flow.core.schema import read_jsonl
from r1flow.core.template import render
from r1flow.data import packed
from r1flow.data.choose import choose
from r1flow.data.decontaminate import RULE, SLOTS
from r1flow.data.sift import ROWS, TOKENS, Rules, Shard, shards_of, sift
from r1flow.model.pretrained import read_pretrained
from r1flow.recipe.stages import input_of

if TYPE_CHECKING:
    from r1flow.tracking.stage import Stage

EXAMPLES = 3  # of dropped rows, for each reason
MARK = "\0"  # stands for a question in a rendered prompt
# Each process computes one shard on one thread.
SINGLE = dict.fromkeys(("POLARS_MAX_THREADS", "RAYON_NUM_THREADS", "OMP_NUM_THREADS"), "1")

Task = tuple[Any, ...]


def compute(stage: "Stage") -> dict[str, Any]:
    """Write packs, rows and report; the metrics are the report's numbers."""
    config = stage.config
    shards = plan(config, stage.inputs)
    rules = rules_of(stage)
    sifted = [stage.snapshots / "sifted" / f"{shard.number:05}" for shard in shards]
    run(stage, "sifted", partial(sift_shard, rules), list(zip(sifted, shards, strict=True)))
    rows = chosen(shards, sifted, config)
    parts = [stage.snapshots / packed.PACKED / folder.name for folder in sifted]
    run(stage, "packed", partial(pack_shard, config["max_length"]), tasks_of(rows, sifted, parts))
    rows.drop("shard", "place").write_parquet(stage.work / ROWS)
    report = report_of(rows, config) | gather(parts, stage.work / packed.PACKED, config["max_length"])
    told = {"rule": RULE, "benchmarks": benchmarks_of(stage), "examples": examples_of(rows)}
    manifest.write_json(stage.work / packed.REPORT, report | told)
    return report


# The shards, and the rules for them.


def plan(config: dict[str, Any], inputs: dict[str, Path]) -> list[Shard]:
    """The shards of all sources; raises UserError for files that are missing or can't be read."""
    shards: list[Shard] = []
    for name, source in config["sources"].items():
        folder = inputs[input_of(name, source["of"])]
        for pattern in source["files"]:
            found = sorted(folder.glob(pattern))
            if not found:
                raise UserError(
                    f"sources.{name}.files: no file in {folder} matches {pattern}; name files that are there"
                )
            for path in found:
                shards += shards_of(name, str(path.relative_to(folder)), path, config["shard_bytes"], len(shards))
    return shards


def rules_of(stage: "Stage") -> Rules:
    """The rules by which every shard is filtered and encoded; also writes the tokenizer to work."""
    from transformers import AutoTokenizer

    config = stage.config
    tokenizer = read_pretrained(AutoTokenizer, stage.inputs["model"])
    tokenizer.save_pretrained(stage.work / "tokenizer")
    before, after = around(tokenizer)
    filters = {
        name: config["filters"] if source["filters"] is None else source["filters"]
        for name, source in config["sources"].items()
    }
    return Rules(
        filters=filters,
        max_row_bytes=config["max_row_bytes"],
        max_field_characters=config["max_field_characters"],
        asked=tuple(
            (f"{row['id']} in {file}", row["question"])
            for file in config["benchmarks"]
            for row in benchmark(stage.inputs["data"] / file)
        ),
        tokenizer=tokenizer.backend_tokenizer.to_str(),
        before=before,
        after=after,
        eos=tokenizer.eos_token_id,
        max_length=config["max_length"],
        seed=stage.seed,
    )


def around(tokenizer: Any) -> tuple[str, str]:
    """The prompt's text before and after the question; raises UserError for a template that changes the question."""
    before, found, after = render(tokenizer, MARK).partition(MARK)
    if not found or render(tokenizer, "8 + 16 = ?") != f"{before}8 + 16 = ?{after}":
        raise UserError("init_from: the model's chat template changes the question; give that model a plain template")
    return before, after


def benchmark(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        raise UserError(f"benchmarks: there is no {path}; name files of the data stage")
    return read_jsonl(path)


def benchmarks_of(stage: "Stage") -> dict[str, dict[str, Any]]:
    paths = {file: stage.inputs["data"] / file for file in stage.config["benchmarks"]}
    return {file: {"sha256": manifest.sha256(path), "rows": len(read_jsonl(path))} for file, path in paths.items()}


# Shards: each gets its folder only once it is complete.


def sift_shard(rules: Rules, folder: Path, shard: Shard) -> None:
    keep(folder, partial(sift, shard, rules))


def pack_shard(max_length: int, folder: Path, tokens: Path, places: np.ndarray) -> None:
    """Pack a shard's chosen rows, which are at `places` in `tokens`; without chosen rows no file is written."""

    def write(partial_folder: Path) -> None:
        if len(places):
            table = packed.pack(pq.read_table(tokens).take(pa.array(places)), max_length)
            pq.write_table(table, partial_folder / "packs.parquet", compression="zstd", use_dictionary=False)

    keep(folder, write)


def keep(folder: Path, write: Callable[[Path], None]) -> None:
    """Let `write` make the folder, unless it exists and is complete."""
    if manifest.broken(folder) is None:
        return
    unfinished = folder.with_suffix(".partial")
    for old in (unfinished, folder):
        shutil.rmtree(old, ignore_errors=True)
    unfinished.mkdir(parents=True)
    write(unfinished)
    manifest.write_json(unfinished / manifest.MANIFEST, manifest.describe(folder.name, unfinished))
    unfinished.replace(folder)


def run(stage: "Stage", step: str, work: Callable[..., None], tasks: list[Task]) -> None:
    """Do all tasks, at most as many at once as the stage has threads."""
    workers = min(stage.config["threads"], len(tasks))
    stage.progress(0, len(tasks), step=step)
    if workers == 1:
        for number, task in enumerate(tasks, 1):
            work(*task)
            stage.progress(number, len(tasks), step=step)
        return
    os.environ.update(SINGLE)
    with pool(workers) as processes:  # after an error, shards that are being computed are finished and kept
        waiting = [processes.submit(work, *task) for task in tasks]
        for number, done in enumerate(as_completed(waiting), 1):
            done.result()
            stage.progress(number, len(tasks), step=step)


# All rows.


def chosen(shards: list[Shard], sifted: list[Path], config: dict[str, Any]) -> pl.DataFrame:
    """Every row of every shard, with why it was dropped; `place` is its row number in its shard's tokens."""
    frames = [named(shard, folder) for shard, folder in zip(shards, sifted, strict=True)]
    rows = pl.concat(frames).with_columns(
        row=pl.int_range(1, pl.len() + 1, dtype=pl.UInt32).over("source", "file"),
        place=pl.when(pl.col("dropped").is_null()).then(pl.col("dropped").is_null().cum_sum().over("shard") - 1),
    )
    sketches = np.zeros((len(rows), SLOTS), np.uint32)
    start = 0
    for folder, frame in zip(sifted, frames, strict=True):
        read_sketches(folder, sketches[start : start + len(frame)])
        start += len(frame)
    shares = {name: source["share"] for name, source in config["sources"].items()}
    found = choose(rows, sketches, shares, config["rows"], config["nearness"])
    if found["dropped"].null_count() == 0:
        counts = dict(found["dropped"].value_counts(sort=True).iter_rows())
        what = f"of {len(rows)} rows none is left, or none of one source ({counts})"
        raise UserError(f"sources: {what}; relax the filters that dropped them")
    place = rows.select(pl.concat_str("file", pl.lit(": row "), "row")).to_series()
    rows = rows.with_columns(found["dropped"], of=pl.coalesce("of", place.gather(found["same"])))
    return rows.select("shard", "place", "source", "file", "row", "id", "dropped", "of", "tokens")


def named(shard: Shard, folder: Path) -> pl.DataFrame:
    rows = pl.read_parquet(folder / ROWS, columns=["id", "dropped", "of", "key", "draw", "tokens"])
    return rows.with_columns(shard=pl.lit(shard.number), source=pl.lit(shard.source), file=pl.lit(shard.file))


def read_sketches(folder: Path, into: np.ndarray) -> None:
    found = pl.read_parquet(folder / ROWS, columns=["sketch"])["sketch"]
    there = found.is_not_null().to_numpy()
    into[there] = np.frombuffer(b"".join(found.drop_nulls()), np.uint32).reshape(-1, SLOTS)


def tasks_of(rows: pl.DataFrame, sifted: list[Path], parts: list[Path]) -> list[Task]:
    """For each shard: the folder for its packs, the file of its tokens, and the places of its chosen rows there."""
    kept = rows.filter(pl.col("dropped").is_null())
    places = {shard: part["place"].to_numpy() for (shard,), part in kept.partition_by("shard", as_dict=True).items()}
    none = np.zeros(0, np.int64)
    return [
        (part, folder / TOKENS, places.get(number, none))
        for number, (folder, part) in enumerate(zip(sifted, parts, strict=True))
    ]


def gather(parts: list[Path], folder: Path, max_length: int) -> dict[str, Any]:
    """Link the packs into the output folder, and count them; with links, a kill here leaves the shards complete."""
    folder.mkdir()
    count = {"packs": 0, "tokens": 0, "response_tokens": 0}
    for part in parts:
        path = part / "packs.parquet"
        if path.is_file():
            os.link(path, folder / f"{part.name}.parquet")
            lengths = pq.read_table(path, columns=["seq_lengths", "response_tokens"])
            count["packs"] += len(lengths)
            count["tokens"] += int(np.sum(lengths["seq_lengths"].combine_chunks().flatten().to_numpy()))
            count["response_tokens"] += int(np.sum(lengths["response_tokens"].to_numpy()))
    return {**count, "max_length": max_length, "filled": count["tokens"] / (count["packs"] * max_length)}


# The report.


def report_of(rows: pl.DataFrame, config: dict[str, Any]) -> dict[str, Any]:
    kept = rows.filter(pl.col("dropped").is_null())
    sources = {}
    for name, source in config["sources"].items():
        mine = counts_of(rows.filter(pl.col("source") == name))
        reached = 100 * mine["kept"] / len(kept)
        sources[name] = {**mine, "share": source["share"], "reached": reached}
    return {**counts_of(rows), "sources": sources}


def counts_of(rows: pl.DataFrame) -> dict[str, Any]:
    dropped = rows.drop_nulls("dropped")["dropped"].value_counts()
    return {"rows": len(rows), "kept": rows["dropped"].null_count(), "dropped": dict(sorted(dropped.iter_rows()))}


def examples_of(rows: pl.DataFrame) -> dict[str, list[str]]:
    """For each reason, the places of the first rows that were dropped for it."""
    first = rows.drop_nulls("dropped").group_by("dropped", maintain_order=True).head(EXAMPLES)
    place = pl.concat_str(
        "source", pl.lit(": "), "file", pl.lit(": row "), "row", pl.lit(" ("), "id", pl.lit(")"), ignore_nulls=True
    )
    told = pl.when(pl.col("of").is_null()).then(place).otherwise(pl.concat_str(place, pl.lit(" is "), "of"))
    return dict(first.group_by("dropped").agg(told).sort("dropped").iter_rows())
