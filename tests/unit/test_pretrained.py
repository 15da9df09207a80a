"""What comes in a model's folder is never run: where models are loaded, and what a load is asked to leave alone."""

import ast
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from r1flow.core.errors import UserError
from r1flow.model import pretrained
from r1flow.model.pretrained import read_model, read_pretrained
from r1flow.programs.trainings import check_start

PACKAGE = Path(pretrained.__file__).parents[1]


class Auto:
    """In the place of transformers' AutoTokenizer: says what it was asked for."""

    @classmethod
    def from_pretrained(cls, folder: Path, **options: Any) -> dict[str, Any]:
        return options


class AutoModel:
    """In the place of transformers' AutoModel…: a model that knows what it was asked for, and how its load went."""

    base_model_prefix = "model"

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options

    @classmethod
    def from_pretrained(cls, folder: Path, **options: Any) -> tuple["AutoModel", dict[str, set]]:
        return cls(options), {"missing_keys": set(), "unexpected_keys": set(), "mismatched_keys": set()}

    @classmethod
    def from_config(cls, config: Any) -> "AutoModel":
        return cls({})

    def parameters(self) -> list[np.ndarray]:
        return []

    def can_generate(self) -> bool:
        return False


@cache
def calls() -> list[tuple[str, str, ast.Call]]:
    """Each call in the package: its module, the name of what is called, and itself."""
    trees = {path.stem: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
    nodes = [(module, node) for module, tree in trees.items() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [(module, getattr(node.func, "attr", getattr(node.func, "id", "")), node) for module, node in nodes]


def test_every_load_goes_through_one_place_and_every_model_through_the_one_for_models() -> None:
    assert {module for module, name, _ in calls() if name == "from_pretrained"} == {"pretrained"}
    read = [call.args[0].id for module, name, call in calls() if name == "read_pretrained" and module != "pretrained"]
    assert len(read) > 5 and not [name for name in read if "Model" in name]


def test_loads_refuse_code_and_loads_of_models_pickles(tmp_path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    save_file({"a": np.ones(2, np.float32)}, tmp_path / "model.safetensors")
    assert read_pretrained(Auto, tmp_path, padding_side="left") == {"trust_remote_code": False, "padding_side": "left"}
    asked = read_model(AutoModel, tmp_path, dtype="float32").options
    assert not asked["trust_remote_code"] and asked["use_safetensors"] and asked["dtype"] == "float32"


@pytest.mark.parametrize("error", [ValueError, KeyError, OSError, ImportError, TypeError, RecursionError, MemoryError])
def test_what_else_is_wrong_with_a_folder_is_a_line_in_transformers_words(tmp_path, error) -> None:
    class Odd:
        @classmethod
        def from_pretrained(cls, folder: Path, **options: Any) -> None:
            raise error("no\n  such thing")

    with pytest.raises(UserError, match=r"can't read it \(.*no.*such thing'?\); save it again with") as caught:
        read_pretrained(Odd, tmp_path)
    assert str(caught.value).startswith(str(tmp_path)) and "\n" not in str(caught.value)


def test_a_folder_with_pickles_alone_is_refused_before_anything_is_computed(tmp_path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").touch()
    for refuse in (lambda: check_start(str(tmp_path), None, []), lambda: read_model(Auto, tmp_path)):
        with pytest.raises(UserError, match=r"no \*\.safetensors; .*save_pretrained"):
            refuse()


def test_sizes_that_the_weights_have_not_are_refused_before_a_model_is_made_of_them(tmp_path) -> None:
    class Never:
        @classmethod
        def from_pretrained(cls, folder: Path, **options: Any) -> None:
            raise AssertionError("there would be room for it by now")

    (tmp_path / "config.json").write_text('{"vocab_size": 10000000}')
    save_file({"a": np.ones(2, np.float32)}, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match=r"vocab_size is 10000000, and the weights have at most 2"):
        read_model(Never, tmp_path)
