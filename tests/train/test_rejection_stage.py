"""Rejection end to end with an untrained model: the same bytes twice, and nothing kept is said plainly; seconds."""

import json
from pathlib import Path

import pytest
import yaml

from r1flow.errors import UserError
from r1flow.schema import read_jsonl, write_jsonl
from r1flow.stages import rejection

pytest.importorskip("torch")

from tiny import make_model, make_stage

CONFIG = yaml.safe_load(Path("conf/rejection/default.yaml").read_text())
CONFIG |= {"samples_per_prompt": 3, "keep_per_prompt": 2, "max_new_tokens": 8, "batch_size": 4, "general_share": 0.5}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    make_model(tmp_path / "base")
    (tmp_path / "data").mkdir()
    entry = json.dumps({"question": "2 + 5", "answer": "7", "metadata": {}})
    problem = {"task": "chain_sum", "question": "2 + 5", "answer": "7", "entry": entry}
    write_jsonl(tmp_path / "data" / "rejection.jsonl", [{"id": f"p{i}", **problem} for i in range(5)])
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
