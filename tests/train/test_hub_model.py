"""A base model from the hub: at its commit, its pickles left there, its files' hashes in the metrics; 5 s, CPU."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")

import torch
import yaml
from tiny import make_model, make_stage
from transformers import AutoModelForCausalLM

from r1flow.manifest import sha256
from r1flow.stages import pretrain

sys.path.append(str(Path(__file__).parents[1] / "unit"))
from hub import Hub

CONFIG = yaml.safe_load(Path("conf/pretrain/base.yaml").read_text())
COMMIT = f"{'beef':0<40}"


def test_a_base_model_comes_from_the_hub_as_it_is_there(tmp_path, monkeypatch):
    source = tmp_path / "source"
    make_model(source)
    files = {path.name: path.read_bytes() for path in source.iterdir()}
    with Hub() as hub:
        hub.connect(monkeypatch, tmp_path / "cache")
        hub.add("models/Qwen/small", files | {"pytorch_model.bin": b"\x80\x04K\x01."}, commit="beef")
        stage = make_stage(tmp_path, "base", CONFIG | {"init_from": "Qwen/small", "revision": COMMIT, "template": None})
        metrics = pretrain.compute(stage)
        assert not any("pytorch_model" in request for request in hub.requests)
    hashes = {name: sha256(source / name) for name in files}
    assert metrics["source"] == {"repo": "Qwen/small", "revision": COMMIT, "files": hashes}
    before, after = (AutoModelForCausalLM.from_pretrained(path) for path in (source, stage.work / "model"))
    assert all(map(torch.equal, before.state_dict().values(), after.state_dict().values()))
