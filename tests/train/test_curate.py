"""The curate stage: every planted fault is named, nothing but the rows decides who is kept, kills change no byte."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import psutil
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from datasets import Dataset
from tiny import make_model, make_stage, weights_hash
from transformers import AutoModelForCausalLM
from trl import pack_dataset
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from r1flow.artifacts.manifest import sha256
from r1flow.core.errors import UserError
from r1flow.core.schema import write_jsonl
from r1flow.data import packed, sift
from r1flow.data.general import ADJECTIVES, WORDS
from r1flow.data.pieces import Encoder
from r1flow.programs.curate import compute as curate
from r1flow.programs.sft import compute as sft
from r1flow.recipe import stages

CONFIG = yaml.safe_load(Path("conf/curate/default.yaml").read_text()) | {"init_from": "base", "device": "cpu"}
SFT = yaml.safe_load(Path("conf/sft/default.yaml").read_text())
TEST = [{"id": "t0", "question": "A farmer has 12 cows and 7 goats, and sells a third of the cows. How many are left?"}]
CHINESE = "我们先计算这个数字，然后得到答案。"
GERMAN = "wir beginnen mit der Zahl und rechnen dann weiter, also ist das Ergebnis richtig und die Aufgabe gelöst"


def words(rng: random.Random, count: int) -> str:
    """English without sense; runs of five words hardly ever come twice."""
    things = [f"{rng.choice(ADJECTIVES)} {rng.choice(WORDS)}" for _ in range(3 * (count // 13))]
    return ". ".join(f"then the {a} and my {b} are near the {c}" for a, b, c in zip(*[iter(things)] * 3, strict=True))


def row(number: int, *, reasoning: str | None = None, **changes: Any) -> dict[str, Any]:
    rng = random.Random(number)
    thought = words(rng, 120) if reasoning is None else reasoning
    response = f"<think>{thought}.</think>So we have the answer. <answer>{number}</answer>"
    return {"id": f"r{number}", "question": f"What is {words(rng, 12)}?", "response": response} | changes


def near(one: dict[str, Any]) -> dict[str, Any]:
    """The same row with two other words at its end."""
    return one | {"id": f"near {one['id']}", "response": one["response"].replace("the answer.", "this result.")}


GOOD = [row(number) for number in range(40)]
PLANTED: dict[str, list[Any]] = {
    "malformed": [
        row(100, response="<think>never finished"),
        row(101, response=GOOD[1]["response"].replace("</think>", "")),
        row(102, response=GOOD[2]["response"] + "<answer>7</answer>"),
    ],
    "no_summary": [row(103, response=f"<think>{words(random.Random(1), 60)}</think> <answer>4</answer>")],
    "short": [row(104, response="<think>x</think>so <answer>4</answer>")],
    "long_paragraph": [row(105, reasoning=words(random.Random(2), 900))],
    "code_block": [row(106, reasoning=f"{words(random.Random(3), 60)} ```print(1)```")],
    "mixed_language": [
        row(107, reasoning=f"{words(random.Random(4), 60)}. {GERMAN}. {words(random.Random(5), 24)}"),
        row(108, reasoning=". ".join([GERMAN] * 8)),
        row(109, reasoning=f"{words(random.Random(6), 120)}.\n{CHINESE * 12}\n{words(random.Random(7), 360)}"),
    ],
    "control token": [row(110, question="What does <|endoftext|> mean?")],
    "leak: whole": [row(111, question=TEST[0]["question"].upper())],
    "leak: 13-gram": [row(112, question=f"Think about it. {TEST[0]['question']} And how many in all?")],
    "too long": [row(113, reasoning="\n".join(words(random.Random(n), 240) for n in range(10)))],
    "duplicate": [GOOD[3], GOOD[3] | {"id": "again", "question": GOOD[3]["question"].upper() + " "}],
    "near duplicate": [near(GOOD[4]), near(GOOD[5])],
    "not JSON": ['{"question": "a", "response": "b"', '{"question": "a", "response": "\xff"}'],
    "not an object": ["[1, 2]"],
    "row too large": [row(114, other="x" * 60_000)],
    "missing in response": [{"question": "What?"}],
    "nothing in question": [row(115, question=None)],
    "wrong type in response": [row(116, response=["<think>"]), row(117, response=3)],
    "empty in question": [row(118, question=" \n")],
    "field too long in response": [row(119, response="x" * 30_000)],
    "half a surrogate pair in response": [row(120, response="\ud800" + GOOD[0]["response"])],
    "control character in question": [row(121, question="What is \x00?")],
}


def write(path: Path, rows: list[Any]) -> None:
    lines = [line if isinstance(line, str) else json.dumps(line) for line in rows]
    path.write_bytes("\n".join(lines).encode("latin-1" if "\xff" in "".join(lines) else "utf-8", "surrogateescape"))


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, benchmarks, and rows in a drawn order with every kind of fault among them."""
    folder = tmp_path_factory.mktemp("inputs")
    make_model(folder / "base")
    (folder / "data").mkdir()
    write_jsonl(folder / "data" / "test.jsonl", TEST)
    rows = [*GOOD, *(one for faulty in PLANTED.values() for one in faulty)]
    random.Random(1).shuffle(rows)
    write(folder / "data" / "cold_start.jsonl", rows)
    return folder


def stage_of(inputs: Path, name: str, **changes: Any) -> SimpleNamespace:
    config = CONFIG | {"threads": 1, "max_length": 8000, "max_row_bytes": 50_000, "max_field_characters": 25_000}
    stage = make_stage(inputs, name, config | changes)
    shutil.rmtree(stage.work)
    stage.work.mkdir()
    return stage


def rows_of(stage: SimpleNamespace) -> pl.DataFrame:
    return pl.read_parquet(stage.work / "rows.parquet")


def kept(stage: SimpleNamespace) -> set[str]:
    return set(rows_of(stage).filter(pl.col("dropped").is_null())["id"])


def hashes(stage: SimpleNamespace) -> dict[str, str]:
    return {str(p.relative_to(stage.work)): sha256(p) for p in sorted(stage.work.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def whole(inputs: Path) -> SimpleNamespace:
    stage = stage_of(inputs, "whole", shard_bytes=40_000)
    stage.metrics = curate.compute(stage)
    return stage


def test_every_planted_fault_is_found_and_named(whole: SimpleNamespace) -> None:
    assert whole.metrics["dropped"] == {reason: len(rows) for reason, rows in sorted(PLANTED.items())}
    assert whole.metrics["kept"] == len(GOOD) and whole.metrics["rows"] == len(GOOD) + sum(map(len, PLANTED.values()))


def test_of_copies_one_is_kept_and_the_others_say_which(whole: SimpleNamespace) -> None:
    rows = rows_of(whole)
    for one in (GOOD[3]["id"], GOOD[4]["id"], GOOD[5]["id"]):
        family = rows.filter(pl.col("id").is_in([one, "again", f"near {one}"]) & ~pl.col("dropped").is_null())
        left = rows.filter(pl.col("dropped").is_null() & pl.col("id").is_in([one, "again", f"near {one}"]))
        assert len(left) == 1 and len(family) in (1, 2)
        assert f"{left['file'][0]}: row {left['row'][0]}" in set(family["of"])


def test_a_leak_says_of_what(whole: SimpleNamespace) -> None:
    report = json.loads((whole.work / "curation.json").read_text())
    assert report["examples"]["leak: 13-gram"][0].endswith("(r112) is t0 in test.jsonl")
    assert report["benchmarks"]["test.jsonl"]["rows"] == 1


def test_rows_are_numbered_as_in_their_file(whole: SimpleNamespace, inputs: Path) -> None:
    lines = (inputs / "data/cold_start.jsonl").read_bytes().split(b"\n")
    for number, name in rows_of(whole).filter(pl.col("dropped").is_null()).select("row", "id").iter_rows():
        assert json.loads(lines[number - 1])["id"] == name


@pytest.mark.parametrize("size", [7_000, 150_000, 10**9])
def test_where_shards_end_decides_nothing_about_who_is_kept(inputs: Path, whole: SimpleNamespace, size: int) -> None:
    stage = stage_of(inputs, f"size_{size}", shard_bytes=size)
    metrics = curate.compute(stage)
    assert len(list((stage.snapshots / "sifted").iterdir())) == -(
        -(inputs / "data/cold_start.jsonl").stat().st_size // size
    )
    assert rows_of(stage).equals(rows_of(whole))
    assert {**metrics, "packs": 0, "filled": 0} == {**whole.metrics, "packs": 0, "filled": 0}


def test_a_tokenizer_without_special_tokens_leaves_out_no_row_for_them(inputs: Path, monkeypatch: Any) -> None:
    known = sift.encoder_of

    def plain(tokenizer: str) -> Encoder:
        encoder = copy(known(tokenizer))
        encoder.special = []
        return encoder

    monkeypatch.setattr(sift, "encoder_of", plain)
    stage = stage_of(inputs, "no_special_tokens")
    assert "control token" not in curate.compute(stage)["dropped"]
    assert rows_of(stage).filter(pl.col("id") == "r110")["dropped"].to_list() == [None]


def test_with_threads_tasks_are_done_side_by_side_and_an_error_comes_back(monkeypatch: Any) -> None:
    """Threads in the place of processes, which the slow test has: each takes seconds to start."""
    monkeypatch.setattr(curate, "SINGLE", {})
    monkeypatch.setattr(curate, "pool", ThreadPoolExecutor)
    together, told = threading.Barrier(2, timeout=60), []
    stage = SimpleNamespace(config={"threads": 2}, progress=lambda *counts, step: told.append((*counts, step)))
    curate.run(stage, "sifted", lambda number: together.wait(), [(1,), (2,)])
    assert told == [(number, 2, "sifted") for number in (0, 1, 2)]
    with pytest.raises(ZeroDivisionError):
        curate.run(stage, "sifted", lambda number: 1 // number, [(1,), (0,)])


@pytest.mark.slow
def test_two_processes_make_the_bytes_of_one(inputs: Path, whole: SimpleNamespace) -> None:
    stage = stage_of(inputs, "two", shard_bytes=40_000, threads=2)
    assert curate.compute(stage) == whole.metrics
    assert hashes(stage) == hashes(whole)


def interrupt(at: tuple[str, int]) -> Callable[..., None]:
    def progress(done: int, total: int, step: str) -> None:
        if (step, done) == at:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize("at", [("sifted", 1), ("sifted", 3), ("packed", 0), ("packed", 2)])
def test_killed_it_goes_on_from_the_last_shard_to_the_same_bytes(
    inputs: Path, whole: SimpleNamespace, at: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = stage_of(inputs, f"killed_{at[0]}_{at[1]}", shard_bytes=40_000)
    stage.progress = interrupt(at)
    with pytest.raises(KeyboardInterrupt):
        curate.compute(stage)
    (stage.snapshots / "sifted" / "00001.partial").mkdir()  # as a kill within a shard leaves it
    again = stage_of(inputs, stage.name, shard_bytes=40_000)
    computed: list[Any] = []
    monkeypatch.setattr(curate, "sift", lambda shard, *rest: (computed.append(shard.number), SIFT(shard, *rest)))
    assert curate.compute(again) == whole.metrics
    assert hashes(again) == hashes(whole)
    first = at[1] if at[0] == "sifted" else len(list((whole.snapshots / "sifted").iterdir()))
    assert computed == list(range(first, len(list((whole.snapshots / "sifted").iterdir()))))


SIFT = curate.sift
KILLED = """
import json, os, signal, sys
from pathlib import Path
from types import SimpleNamespace

import psutil

from r1flow.programs.curate import compute as curate

if __name__ == "__main__":
    told = json.loads(sys.argv[1])

    def progress(done, total, step):
        if (step, done) == ("sifted", 2):
            print(*(child.pid for child in psutil.Process().children()), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    paths = {name: Path(path) for name, path in told["inputs"].items()}
    folders = {name: Path(told[name]) for name in ("work", "snapshots")}
    curate.compute(SimpleNamespace(config=told["config"], seed=3, inputs=paths, progress=progress, **folders))
"""


@pytest.mark.slow
def test_a_killed_stage_takes_its_processes_along_and_goes_on(
    inputs: Path, whole: SimpleNamespace, tmp_path: Path
) -> None:
    stage = stage_of(inputs, "sigkill", shard_bytes=40_000, threads=2)
    told = {"config": stage.config, "inputs": stage.inputs, "work": stage.work, "snapshots": stage.snapshots}
    (tmp_path / "killed.py").write_text(KILLED)
    command = [sys.executable, str(tmp_path / "killed.py"), json.dumps(told, default=str)]
    found = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": "src"})
    assert found.returncode == -signal.SIGKILL, found.stderr
    workers = []
    for pid in found.stdout.split():
        with suppress(psutil.NoSuchProcess):
            workers.append(psutil.Process(int(pid)))
    assert psutil.wait_procs(workers, timeout=300)[1] == []
    done = {folder.name for folder in (stage.snapshots / "sifted").iterdir() if folder.suffix != ".partial"}
    assert len(done) >= 2
    again = stage_of(inputs, "sigkill", shard_bytes=40_000)
    assert curate.compute(again) == whole.metrics
    assert hashes(again) == hashes(whole)


def test_a_shard_whose_bytes_changed_is_computed_again(inputs: Path, whole: SimpleNamespace) -> None:
    stage = stage_of(inputs, "torn", shard_bytes=40_000)
    shutil.copytree(whole.snapshots / "sifted", stage.snapshots / "sifted")
    torn = stage.snapshots / "sifted/00001/tokens.parquet"
    torn.write_bytes(torn.read_bytes()[:-20] + b"x" * 20)
    curate.compute(stage)
    assert hashes(stage) == hashes(whole)


def two_sources(inputs: Path, name: str, **changes: Any) -> SimpleNamespace:
    folder = inputs / "general"
    if not folder.is_dir():
        folder.mkdir()
        rows = [
            {"question": f"Say {n}.", "response": f"Here it is: {n}, {words(random.Random(n), 24)}"} for n in range(90)
        ]
        pl.DataFrame(rows).write_parquet(folder / "general.parquet", row_group_size=7)
    sources = {
        "traces": {"of": "data", "files": ["cold_*.jsonl"], "share": 75, "filters": None},
        "general": {"of": str(folder), "files": ["general.parquet"], "share": 25, "filters": []},
    }
    stage = stage_of(inputs, name, sources=sources, shard_bytes=2_000, **changes)
    stage.inputs["source_general"] = folder
    return stage


def test_sources_are_mixed_in_their_shares(inputs: Path) -> None:
    stage = two_sources(inputs, "mixed")
    report = curate.compute(stage)
    counts = {name: source["kept"] for name, source in report["sources"].items()}
    assert counts == {"traces": 39, "general": 13} or counts == {"traces": 40, "general": 13}
    assert report["sources"]["general"]["dropped"] == {"surplus": 77}
    assert abs(report["sources"]["general"]["reached"] - 25) < 1


def test_the_draw_is_the_seed_s_and_not_the_order_s(inputs: Path) -> None:
    stage = two_sources(inputs, "drawn", rows=20)
    curate.compute(stage)
    shuffled = two_sources(inputs, "shuffled", rows=20)
    table = pl.read_parquet(inputs / "general/general.parquet")
    shuffled.inputs["source_general"] = inputs / "shuffled_rows"
    shuffled.inputs["source_general"].mkdir()
    table.sample(fraction=1, shuffle=True, seed=3).write_parquet(
        inputs / "shuffled_rows/general.parquet", row_group_size=4
    )
    curate.compute(shuffled)
    assert kept(shuffled) == kept(stage) and len(kept(stage)) == 20
    other = two_sources(inputs, "other_seed", rows=20)
    other.seed = 4
    curate.compute(other)
    assert kept(other) != kept(stage)


def test_a_source_without_rows_is_refused_with_what_became_of_them(inputs: Path) -> None:
    stage = stage_of(inputs, "none", filters=[{"name": "short", "args": {"min_characters": 10**6}}])
    with pytest.raises(UserError, match=r"of 70 rows none is left.*'short': 58"):
        curate.compute(stage)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"benchmarks": ["dev.jsonl"]}, "benchmarks: there is no .*dev.jsonl"),
        ({"sources": {"t": {"of": "data", "files": ["nothing*"], "share": 100, "filters": None}}}, "sources.t.files"),
        ({"sources": {"t": {"of": "data", "files": ["../base/*.json"], "share": 100, "filters": None}}}, "jsonl"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(inputs: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said) as refusal:
        curate.compute(stage_of(inputs, "refused", **changes))
    assert "\n" not in str(refusal.value)


# What SFT makes of it.


LENGTH = 900  # a row of GOOD has 700 tokens, a short one of PLANTED 100


def trained(folder: Path, name: str, data: Path, file: str, **trainer: Any) -> SimpleNamespace:
    options = {"max_steps": 3, "save_steps": 2, "packing": True, "max_length": LENGTH, "per_device_train_batch_size": 1}
    config = SFT | {"data": SFT["data"] | {"file": file}, "trainer": SFT["trainer"] | options | trainer}
    stage = make_stage(folder, name, config)
    stage.inputs["data"] = data
    stage.metrics = sft.compute(stage)
    return stage


@pytest.fixture(scope="module")
def one_shard(inputs: Path) -> SimpleNamespace:
    stage = stage_of(inputs, "one_shard", max_length=LENGTH, filters=[])
    curate.compute(stage)
    return stage


def test_packs_are_what_trl_makes_of_the_same_rows(inputs: Path, one_shard: SimpleNamespace) -> None:
    tokenizer = sft.AutoTokenizer.from_pretrained(inputs / "base")
    found = pq.read_table(one_shard.work / "packed/00000.parquet")
    examples = [sft.example(tokenizer, one) for one in kept_rows(inputs, one_shard)]
    labels = [
        [token if learnt else -100 for token, learnt in zip(one["input_ids"], one["completion_mask"], strict=True)]
        for one in examples
    ]
    plain = Dataset.from_dict({"input_ids": [one["input_ids"] for one in examples], "labels": labels})
    expected = pack_dataset(plain, LENGTH).to_dict()
    assert {name: found[name].to_pylist() for name in expected} == expected
    assert found["response_tokens"].to_pylist() == [sum(id != -100 for id in pack) for pack in expected["labels"]]


def kept_rows(inputs: Path, stage: SimpleNamespace) -> list[dict[str, Any]]:
    lines = (inputs / "data/cold_start.jsonl").read_bytes().split(b"\n")
    numbers = rows_of(stage).filter(pl.col("dropped").is_null())["row"]
    rows = [json.loads(lines[number - 1]) for number in numbers]
    return [one | {"question": one["question"].strip(), "response": one["response"].strip()} for one in rows]


def test_training_on_packs_is_training_on_the_rows_packed_by_trl(inputs: Path, one_shard: SimpleNamespace) -> None:
    (inputs / "same").mkdir()
    write_jsonl(inputs / "same/rows.jsonl", kept_rows(inputs, one_shard))
    ours = trained(inputs, "sft_packed", one_shard.work, packed.PACKED)
    theirs = trained(inputs, "sft_rows", inputs / "same", "rows.jsonl")
    assert weights_hash(ours) == weights_hash(theirs)
    assert ours.metrics == theirs.metrics
    assert ours.metrics["history"][-1]["loss"] < ours.metrics["history"][0]["loss"]


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_rows_of_a_pack_do_not_see_each_other(inputs: Path, one_shard: SimpleNamespace, attention: str) -> None:
    model = AutoModelForCausalLM.from_pretrained(inputs / "base", attn_implementation=attention)
    pack = next(one for one in packed.load(one_shard.work, inputs / "base", one_shard.work.parent / "cache")
                if len(one["seq_lengths"]) > 1)  # fmt: skip
    batch = DataCollatorForLanguageModeling(pad_token_id=1, padding_free=True)([pack])
    del batch["labels"]
    rows = torch.tensor(pack["input_ids"]).split(pack["seq_lengths"])
    with torch.no_grad():
        together = model.train()(**batch, use_cache=False).logits[0]
        apart = torch.cat([model(input_ids=row[None]).logits[0] for row in rows])
    assert torch.allclose(together, apart, atol=1e-5)


def test_packs_of_another_tokenizer_are_refused(inputs: Path, one_shard: SimpleNamespace, tmp_path: Path) -> None:
    shutil.copytree(inputs / "base", tmp_path / "base")
    path = tmp_path / "base/chat_template.jinja"
    path.write_text(path.read_text() + " ")
    with pytest.raises(UserError, match="the model's chat_template is"):
        packed.load(one_shard.work, tmp_path / "base", tmp_path / "cache")
    with pytest.raises(UserError, match="only a curate stage makes"):
        packed.load(inputs / "data", inputs / "base", tmp_path / "cache")


def test_packs_of_all_files_are_read_from_the_disk(inputs: Path, whole: SimpleNamespace, tmp_path: Path) -> None:
    assert len(list((whole.work / "packed").glob("*.parquet"))) > 1
    dataset = packed.load(whole.work, inputs / "base", tmp_path)
    assert dataset.cache_files and all(Path(file["filename"]).is_relative_to(tmp_path) for file in dataset.cache_files)
    assert packed.count(dataset)["rows"] == len(kept(whole))


def test_the_plan_and_the_stage_mean_the_same_word() -> None:
    assert stages.PACKED == packed.PACKED
