"""A stage's sampling, shard by shard, so that a kill loses at most one shard.

A shard is `shard_size` consecutive rows. Each is sampled in a call of its own, so its bytes depend on its rows only and
not on which shards were read back; therefore `shard_size`, like `batch_size`, is part of a run's identity. A finished
shard is a file among the stage's snapshots, whose folder is named by the stage's identity and removed when it is done:

    shards/1024.json     9f2c41…                                                     sha256 of the second line
                         [{"ids": [5, 17, 0], "text": "<think>8 + 16 …", "finished": true}, …]

Rows are yielded one by one, and memory holds one shard. Before the stage runs, separate jobs may each sample a part of
the shards into the same folder (docs/scaling.md): each of 4 takes every fourth shard. The stage reads these back and
samples the missing ones; it loads the model only if there are any. So a program that samples has a
`sample_part(stage, part)` beside its `compute(stage)`.
"""

import hashlib
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from r1flow.core.files import write_whole
from r1flow.core.template import render
from r1flow.sampling import Completion, Sampler, SamplingParams, check_room_left, encode, load_sampler
from r1flow.sampling.environments import Tools
from r1flow.sampling.turns import sample_in_turns

if TYPE_CHECKING:
    from r1flow.tracking.stage import Stage


class Draw(NamedTuple):
    """A sample to draw."""

    question: str
    seed: int
    opening: str = ""  # text that the response begins with
    row: dict[str, Any] | None = None  # the problem, with which its tools begin, where there are tools


class ShardPart(NamedTuple):
    """One of several parts of a stage's shards; as text 2-of-4."""

    number: int  # from 1
    count: int

    def __str__(self) -> str:
        return f"{self.number}-of-{self.count}"


WHOLE = ShardPart(1, 1)
Group = tuple[SamplingParams, list[Draw]]  # rows, and how to sample them


def params_of(config: dict[str, Any]) -> SamplingParams:
    """How a stage's config says to sample."""
    return SamplingParams(config["temperature"], config["top_p"], config["max_new_tokens"])


def sample_shards(
    stage: "Stage",
    groups: list[Group],
    part: ShardPart = WHOLE,
    before: Sequence[dict[str, str]] = (),
    name: str = "shards",
    tools: Tools | None = None,
) -> Iterator[Completion]:
    """One completion for each row of the groups, or of a part's, in order; finished shards are read back.

    The stage's model is loaded at the first missing shard, and asked after the turns `before`. All rows of a shard
    belong to one group. `name` is the folder's, which a stage's second sampling must choose. With `tools` completions
    have calls and their results.
    """
    folder = stage.snapshots / name
    folder.mkdir(parents=True, exist_ok=True)
    mine = shards_of_part(groups, stage.config["shard_size"], part)
    done, total = 0, sum(len(rows) for _, _, rows in mine)
    sampler = None
    for first, params, rows in mine:
        path = folder / f"{first}.json"
        shard = read_completions(path)
        if shard is None:
            if sampler is None:
                sampler = load_engine(stage)
                check_all_room(sampler, mine, before)
            questions = {row.question for row in rows}
            prompts = {text: render(sampler.tokenizer, text, before) for text in questions}
            asked, seeds = [prompts[row.question] for row in rows], [row.seed for row in rows]
            progress = partial(report_rows, stage, done, total)
            openings = [row.opening for row in rows]
            if tools:
                sessions = [tools.begin(row.row) for row in rows]
                episodes = sample_in_turns(sampler, asked, params, seeds, sessions, openings)
                shard = [episode.completion(sampler.tokenizer) for episode in episodes]
            else:
                shard = sampler.sample(asked, params, seeds, progress, openings)
            write(path, shard)
        else:
            stage.progress(done + len(rows), total, step="read back")
        done += len(rows)
        yield from shard


def check_all_room(
    sampler: Sampler, shards: list[tuple[int, SamplingParams, list[Draw]]], before: Sequence[dict[str, str]]
) -> None:
    """Refuse a prompt that is too long before the first shard is sampled, and not hours later in its own."""
    if sampler.positions is None:
        return
    asked: dict[SamplingParams, set[tuple[str, str]]] = defaultdict(set)
    for _, params, rows in shards:
        asked[params].update((row.question, row.opening) for row in rows)
    for params, pairs in asked.items():
        # Sorted, so that a refusal names the same prompt every time: sets of texts have another order in each process.
        questions, openings = zip(*sorted(pairs), strict=True)
        prompts = [render(sampler.tokenizer, text, before) for text in questions]
        check_room_left(encode(sampler.tokenizer, prompts, openings), params, sampler.positions, questions)


def load_engine(stage: "Stage") -> Sampler:
    """The stage's model, in the engine that its config names."""
    config = stage.config
    return load_sampler(stage.inputs["model"], config["engine"], config["batch_size"], config["engine_options"])


def shards_of_part(
    groups: list[Group], size: int, part: ShardPart = WHOLE
) -> list[tuple[int, SamplingParams, list[Draw]]]:
    """A part's shards, each with its first row's number; every row is in one shard and every shard in one part."""
    shards, first = [], 0
    for params, rows in groups:
        shards += [(first + start, params, rows[start : start + size]) for start in range(0, len(rows), size)]
        first += len(rows)
    return shards[part.number - 1 :: part.count]


def report_rows(stage: "Stage", before: int, total: int, rows: int, of_shard: int) -> None:
    stage.progress(before + rows, total)


def read_completions(path: Path) -> list[Completion] | None:
    """The shard's completions; None if the file is missing or doesn't match its hash."""
    if not path.is_file():
        return None
    stamp, _, text = path.read_bytes().partition(b"\n")
    if hashlib.sha256(text).hexdigest().encode() != stamp:
        print(f"{path}: it isn't as it was written; these rows are sampled again", file=sys.stderr)
        return None
    return [Completion(**row) for row in json.loads(text)]


def write(path: Path, shard: list[Completion]) -> None:
    """Write a shard atomically, since others may write the same one: jobs of a killed run may still be running."""
    text = json.dumps([vars(row) for row in shard])  # asdict copies every id: 7 ms for 8,000
    write_whole(path, f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}")
