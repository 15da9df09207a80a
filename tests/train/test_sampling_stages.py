"""Rejection and evaluation end to end with an untrained model: the same bytes twice, killed or not; seconds."""

import json
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from r1flow.errors import UserError
from r1flow.schema import read_jsonl, write_jsonl
from r1flow.stages import evaluate, rejection

pytest.importorskip("torch")

from tiny import make_model, make_stage

CONFIG = yaml.safe_load(Path("conf/rejection/default.yaml").read_text())
EXAMINATION = yaml.safe_load(Path("conf/evaluate/default.yaml").read_text())
SMALL = {"max_new_tokens": 8, "batch_size": 4, "shard_size": 6}  # 15 rows: shards of 6, 6 and 3
CONFIG |= SMALL | {"samples_per_prompt": 3, "keep_per_prompt": 2, "general_share": 0.5}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    make_model(tmp_path / "base")
    (tmp_path / "data").mkdir()
    entry = json.dumps({"question": "2 + 5", "answer": "7", "metadata": {}})
    problem = {"task": "chain_sum", "question": "2 + 5", "answer": "7", "entry": entry}
    for name in ("rejection", "test"):
        write_jsonl(tmp_path / "data" / f"{name}.jsonl", [{"id": f"p{i}", **problem} for i in range(5)])
    general = {"kind": "greeting", "question": "hi", "response": "Hello!", "check": "{}"}
    write_jsonl(tmp_path / "data" / "general_sft.jsonl", [{"id": f"g{i}", **general} for i in range(20)])
    return tmp_path


def test_two_runs_write_the_same_bytes(base: Path) -> None:
    one, two = (make_stage(base, name, CONFIG | {"filters": [{"name": "duplicate"}]}) for name in ("one", "two"))
    metrics = rejection.compute(one)
    assert rejection.compute(two) == metrics
    for name in ("samples.parquet", "mix.jsonl"):
        assert (one.work / name).read_bytes() == (two.work / name).read_bytes()
    assert metrics["samples"] == 15 and metrics["kept"] == 10 and metrics["dropped"] == {"surplus": 5}
    assert len(read_jsonl(one.work / "mix.jsonl")) == metrics["mix"] == 20


def test_nothing_kept_names_the_reasons(base: Path) -> None:
    with pytest.raises(UserError, match="none of the 15 samples was kept"):
        rejection.compute(make_stage(base, "none", CONFIG))


@pytest.mark.parametrize(
    ("program", "config"),
    [(rejection, CONFIG | {"filters": [{"name": "duplicate"}]}), (evaluate, EXAMINATION | SMALL | {"k": 3})],
)
def test_killed_in_its_second_shard_a_stage_goes_on_there_to_the_same_bytes(
    base: Path, program: ModuleType, config: dict
) -> None:
    whole, killed, resumed = (make_stage(base, name, config) for name in ("whole", "killed", "killed"))
    killed.name = resumed.name = whole.name  # evaluation writes it into every row
    metrics = program.compute(whole)

    def kill(done: int, total: int) -> None:
        if done == 10:
            raise KeyboardInterrupt

    killed.progress = kill
    with pytest.raises(KeyboardInterrupt):
        program.compute(killed)
    assert not list(killed.work.iterdir())
    shown: list[tuple[int, int]] = []
    resumed.progress = lambda *rows: shown.append(rows)
    assert program.compute(resumed) == metrics
    assert shown == [(10, 15), (12, 15), (15, 15)]
    assert contents(resumed.work) == contents(whole.work)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}
