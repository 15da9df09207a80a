"""A stage's sampling, shard by shard, so that a kill costs one shard and not the stage.

A shard is `shard_size` rows in order. Each is sampled in a call of its own, so its bytes depend on its rows alone and
not on which shards were read back; that makes `shard_size`, like `batch_size`, part of a run's identity. A finished one
lies in the stage's snapshots, which the stage's identity names and which go when the stage is done:

    shards/1024.json     9f2c41…                                                     sha256 of the second line
                         [{"ids": [5, 17, 0], "text": "<think>8 + 16 …", "finished": true}, …]

Rows come one by one, and memory holds one shard.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from r1flow.sampling import Completion, Sampler, SamplingParams

if TYPE_CHECKING:
    from r1flow.stage import Stage


def sample(stage: "Stage", sampler: Sampler, prompts: list[str], seeds: list[int]) -> Iterator[Completion]:
    """One completion per prompt row, in order, as the stage's config says; whole shards of a killed one are kept."""
    config, folder = stage.config, stage.snapshots / "shards"
    params = SamplingParams(config["temperature"], config["top_p"], config["max_new_tokens"])
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, len(prompts), config["shard_size"]):
        rows, path = slice(start, start + config["shard_size"]), folder / f"{start}.json"
        shard = read(path)
        if shard is None:
            report = partial(report_rows, stage, start, len(prompts))
            shard = sampler.sample(prompts[rows], params, seeds[rows], report)
            write(path, shard)
        yield from shard


def report_rows(stage: "Stage", before: int, total: int, rows: int, of_shard: int) -> None:
    stage.progress(before + rows, total)


def read(path: Path) -> list[Completion] | None:
    """The shard's completions; None when it isn't there or isn't what was written."""
    if not path.is_file():
        return None
    stamp, _, text = path.read_bytes().partition(b"\n")
    if hashlib.sha256(text).hexdigest().encode() != stamp:
        return None
    return [Completion(**row) for row in json.loads(text)]


def write(path: Path, shard: list[Completion]) -> None:
    text = json.dumps([asdict(row) for row in shard])
    unfinished = path.with_suffix(".partial")
    unfinished.write_text(f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}")
    unfinished.replace(path)
