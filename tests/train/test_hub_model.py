"""A base model from outside: at its commit, by its hashes, its pickles left there and its code not run; 7 s, CPU."""

import contextlib
import sys
from pathlib import Path

import pytest
import torch
from tiny import conf, edited, make_model, make_stage
from transformers import AutoModelForCausalLM

from r1flow.artifacts.manifest import sha256
from r1flow.core.errors import UserError
from r1flow.programs.pretrain import compute as pretrain

sys.path.append(str(Path(__file__).parents[1] / "unit"))
from hub import Hub

CONFIG = conf("pretrain/base")
COMMIT = f"{'beef':0<40}"


def test_the_base_model_is_held_against_the_hashes_of_its_pin(tmp_path, monkeypatch):
    make_model(tmp_path / "source")
    files = {path.name: path.read_bytes() for path in (tmp_path / "source").iterdir()}
    pinned = {"init_from": "Qwen/small", "revision": COMMIT, "template": None, "sha256": {"config.json": "0" * 64}}
    with Hub() as hub:
        hub.connect(monkeypatch, tmp_path / "cache")
        hub.add("models/Qwen/small", files, commit="beef")
        with pytest.raises(UserError, match=r"config.json has the sha256 .* by its pin"):
            pretrain.compute(make_stage(tmp_path, "base", CONFIG | pinned))


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


CODE = """
from pathlib import Path
from transformers import {base}
Path({mark!r}).touch()
class Theirs({base}):
    pass
"""


@pytest.mark.parametrize(
    ("file", "auto_map", "base"),
    [
        ("config.json", {"AutoConfig": "theirs.Theirs", "AutoModelForCausalLM": "theirs.Theirs"}, "LlamaConfig"),
        ("tokenizer_config.json", {"AutoTokenizer": ["theirs.Theirs", None]}, "PreTrainedTokenizerFast"),
    ],
)
def test_code_that_comes_with_a_model_is_not_run_whoever_is_asked(tmp_path, monkeypatch, file, auto_map, base):
    """Unless told not to, transformers asks on the terminal."""
    folder, mark = tmp_path / "model", tmp_path / "run"
    make_model(folder)
    (folder / "theirs.py").write_text(CODE.format(base=base, mark=str(mark)))
    edited(folder / file, model_type="theirs", tokenizer_class="Theirs", auto_map=auto_map)
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    stage = make_stage(tmp_path, "base", CONFIG | {"init_from": str(folder), "template": None})
    with contextlib.suppress(UserError):  # a class that is known otherwise may be taken in its place
        pretrain.compute(stage)
    assert not mark.exists()


def test_a_folder_with_pickled_weights_alone_is_refused(tmp_path):
    folder = tmp_path / "model"
    make_model(folder)
    weights = AutoModelForCausalLM.from_pretrained(folder).state_dict()
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    with pytest.raises(UserError, match="safetensors"):
        pretrain.compute(make_stage(tmp_path, "base", CONFIG | {"init_from": str(folder), "template": None}))
