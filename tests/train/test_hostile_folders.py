"""A model's folder that holds pickles or code: nothing of it runs, and one line says what to do."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny import make_model

from r1flow.core.errors import UserError
from r1flow.sampling import load_sampler


class Touch:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return os.system, (f"touch {self.path}",)


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    make_model(folder := tmp_path_factory.mktemp("good"))
    return folder


def refused(folder: Path, match: str) -> None:
    """By both engines that read weights here."""
    for engine in ("r1flow", "transformers"):
        with pytest.raises(UserError, match=match):
            load_sampler(folder, engine, 4)


@pytest.mark.parametrize("hostile", [True, False])
def test_pickled_weights_are_not_read(good, tmp_path, hostile) -> None:
    folder = shutil.copytree(good, tmp_path / "model")
    weights = Touch(tmp_path / "ran") if hostile else load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    refused(folder, "no \\*.safetensors")
    assert not (tmp_path / "ran").exists()


def test_code_beside_the_weights_is_not_run_and_nobody_is_asked(good, tmp_path, monkeypatch) -> None:
    folder = shutil.copytree(good, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    autos = {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "own", "auto_map": autos}))
    (folder / "own.py").write_text(f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\n")
    monkeypatch.setattr("builtins.input", lambda *question: "y")
    refused(folder, "have to run code")
    assert not (tmp_path / "ran").exists()
