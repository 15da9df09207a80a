"""A model's folder that holds pickles, code or other weights than its own is refused in one line; 10 s, CPU."""

import json
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import conf, edited, make_model, make_stage
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer, GenerationConfig

from r1flow.core.errors import UserError
from r1flow.model.pretrained import read_model, read_pretrained
from r1flow.programs.pretrain import compute as pretrain
from r1flow.sampling import load_sampler

CONFIG = conf("pretrain/base")
LAYER = "model.layers.0.mlp.down_proj.weight"
Tensors = dict[str, torch.Tensor]


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


@pytest.fixture
def folder(good, tmp_path) -> Path:
    """A copy of it that a test may change."""
    return shutil.copytree(good, tmp_path / "model")


def refused(folder: Path, match: str) -> None:
    """By both engines that read weights here."""
    for engine in ("r1flow", "transformers"):
        with pytest.raises(UserError, match=match):
            load_sampler(folder, engine, 4)


@pytest.mark.parametrize("hostile", [True, False])
def test_pickled_weights_are_not_read(folder, tmp_path, hostile) -> None:
    weights = Touch(tmp_path / "ran") if hostile else load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    refused(folder, "no \\*.safetensors")
    assert not (tmp_path / "ran").exists()


def test_code_beside_the_weights_is_not_run_and_nobody_is_asked(folder, tmp_path, monkeypatch) -> None:
    autos = {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}
    edited(folder / "config.json", model_type="own", auto_map=autos)
    (folder / "own.py").write_text(f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\n")
    monkeypatch.setattr("builtins.input", lambda *question: "y")
    refused(folder, "have to run code")
    assert not (tmp_path / "ran").exists()


def adopt(folder: Path, into: Path, **options: Any) -> Path:
    """Take a folder as a base model; returns the folder that it was written to."""
    config = CONFIG | {"init_from": str(folder), "template": None, "drop_layers": []} | options
    stage = make_stage(into, "base", config)
    stage.inputs = {}
    pretrain.compute(stage)
    return stage.work / "model"


def rewritten(folder: Path, change: Callable[[Tensors], Tensors]) -> None:
    """Write a folder's weights anew, changed."""
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, metadata={"format": "pt"})


WEIGHTS: dict[str, Callable[[Tensors], Tensors]] = {
    rf"missing: {LAYER}\)": lambda tensors: {name: value for name, value in tensors.items() if name != LAYER},
    "missing: lm_head.weight, .* and 18 more; unknown to this model: module.* and 17 more": lambda tensors: {
        f"module.{name}": value for name, value in tensors.items()
    },
    r"unknown to this model: v_head\.weight\)": lambda tensors: tensors | {"v_head.weight": torch.zeros(2)},
    r"of another shape: model\.norm\.weight\)": lambda tensors: tensors | {"model.norm.weight": torch.zeros(2)},
}


@pytest.mark.parametrize("said", WEIGHTS)
def test_weights_that_are_missing_renamed_unknown_or_of_another_shape_are_refused(folder, tmp_path, said) -> None:
    rewritten(folder, WEIGHTS[said])
    refused(folder, said)
    with pytest.raises(
        UserError, match=rf"{folder}: the weights aren't those .*{said}.*; load .*save_pretrained(, or name|$)"
    ):
        adopt(folder, tmp_path)


def test_weights_that_are_named_are_left_out_and_no_others(good, folder, tmp_path) -> None:
    rewritten(folder, lambda tensors: tensors | {"v_head.weight": torch.zeros(2), "v_head.bias": torch.zeros(2)})
    with pytest.raises(UserError, match=r"unknown to this model: v_head.bias\).*, or name .* in base.drop_weights$"):
        adopt(folder, tmp_path / "few", drop_weights=["v_head.weight"])
    with pytest.raises(UserError, match=r"^drop_weights: v_head: .* has no weight of this name"):
        adopt(folder, tmp_path / "none", drop_weights=["v_head"])
    taken = load_file(adopt(folder, tmp_path / "all", drop_weights=["v_head.*"]) / "model.safetensors")
    whole = load_file(good / "model.safetensors")
    assert {name: value.tolist() for name, value in taken.items()} == {
        name: value.tolist() for name, value in whole.items()
    }


@pytest.mark.parametrize("layers", [1, 3])
def test_weights_for_another_number_of_layers_are_refused(folder, layers) -> None:
    edited(folder / "config.json", num_hidden_layers=layers)
    refused(folder, r"(missing|unknown to this model): model\.layers\.[12]\.")


HARMLESS: dict[str, Callable[[Tensors], Tensors]] = {
    "a tied head that is saved too": lambda tensors: (
        tensors | {"lm_head.weight": tensors["model.embed_tokens.weight"].clone()}
    ),
    "positions of older versions": lambda tensors: (
        tensors | {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.zeros(8)}
    ),
    "names without the prefix": lambda tensors: {name.removeprefix("model."): value for name, value in tensors.items()},
}


@pytest.mark.parametrize("kind", HARMLESS)
def test_names_that_transformers_knows_to_be_harmless_are_taken(good, folder, tmp_path, kind) -> None:
    rewritten(folder, HARMLESS[kind])
    taken, own = (load_file(path / "model.safetensors") for path in (adopt(folder, tmp_path), good))
    assert taken.keys() == own.keys() and all(torch.equal(taken[name], own[name]) for name in own)


def test_a_reward_models_head_may_be_new_and_its_layers_may_not(good, tmp_path) -> None:
    model = read_model(AutoModelForSequenceClassification, good, new_head=True, num_labels=1)
    assert model.score.weight.shape == (1, 32)
    with pytest.raises(UserError, match=r"\(missing: score\.weight\)"):
        read_model(AutoModelForSequenceClassification, good, num_labels=1)
    for number, said in enumerate(list(WEIGHTS)[:2]):
        folder = shutil.copytree(good, tmp_path / str(number))
        rewritten(folder, WEIGHTS[said])
        with pytest.raises(UserError, match=r"\(missing: model\."):
            read_model(AutoModelForSequenceClassification, folder, new_head=True, num_labels=1)


def test_a_head_of_its_own_that_a_reward_model_replaces_is_no_unknown_weight(folder) -> None:
    edited(folder / "config.json", tie_word_embeddings=False)
    rewritten(folder, HARMLESS["a tied head that is saved too"])
    read_model(AutoModelForSequenceClassification, folder, new_head=True, num_labels=1)


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.6, "top_p": 0.95},
        {"temperature": 0.6, "do_sample": False},
        {"top_k": 20, "min_p": 0.1, "do_sample": None},
    ],
)
def test_values_for_sampling_without_do_sample_are_taken_as_meant(folder, tmp_path, settings, capsys) -> None:
    edited(folder / "generation_config.json", **settings)
    made = read_pretrained(GenerationConfig, adopt(folder, tmp_path))
    assert made.do_sample is True
    assert {name: getattr(made, name) for name in settings if name != "do_sample"} == {
        name: value for name, value in settings.items() if name != "do_sample"
    }
    said = capsys.readouterr().err
    assert said.count("generation_config.json has values for sampling without do_sample: true, which is added") == 1


def test_settings_that_need_no_repair_are_left_alone(good, tmp_path, capsys) -> None:
    made = adopt(good, tmp_path) / "generation_config.json"
    assert json.loads(made.read_text()) == json.loads((good / "generation_config.json").read_text())
    assert "do_sample" not in capsys.readouterr().err


def test_settings_with_which_a_model_could_not_be_saved_are_refused_before_it_trains(folder) -> None:
    edited(folder / "generation_config.json", temperature=0.6, length_penalty=2.0)
    with pytest.raises(UserError, match=r"take out of generation_config\.json what it names here: .*`length_penalty`"):
        read_model(AutoModelForCausalLM, folder)
    load_sampler(folder, "r1flow", 4)  # nothing is saved there, and only the ends of a text are used


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "nonesuch"}, r"config\.json: transformers doesn't know the model_type 'nonesuch'; choose"),
        ({"model_type": None}, "transformers"),
        ({"model_type": "vit"}, "can't read it .*ViTConfig"),
        ({"hidden_size": "wide"}, "can't read it .*hidden_size"),
        (
            {"quantization_config": {"quant_method": "gptq", "bits": 4}},
            r"quantised \(gptq\) .*; take",
        ),
    ],
)
def test_a_kind_of_model_that_is_not_known_or_not_whole_is_one_line(folder, tmp_path, changes, said) -> None:
    edited(folder / "config.json", **changes)
    with pytest.raises(UserError, match=said) as caught:
        adopt(folder, tmp_path)
    assert str(caught.value).startswith(str(folder)) and "\n" not in str(caught.value) and len(str(caught.value)) < 600


@pytest.mark.parametrize("kind", ["gemma3_text", "phi", "llama4_text"])
def test_a_kind_that_adds_sizes_of_its_own_is_refused_before_there_is_room_for_them(folder, kind) -> None:
    """As gemma3, a folder of 4 MB took 11 GB."""
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({"model_type": kind, "vocab_size": settings["vocab_size"]}))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(
        UserError, match=r"config\.json describes a model of \d+ parameters, and the weights have \d+ by"
    ):
        read_model(AutoModelForCausalLM, folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kB


def test_an_adapter_alone_is_to_be_merged_first(good, folder, tmp_path) -> None:
    (folder / "config.json").unlink()
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "base_model_name_or_path": str(good)}))
    with pytest.raises(UserError, match=r"adapter .*merge it into its base model"):
        adopt(folder, tmp_path)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_a_tokenizer_that_cannot_be_read_is_one_line(folder, name) -> None:
    (folder / name).write_text("<html>404</html>")
    with pytest.raises(UserError, match=r"can't read it \(.*; save it again") as caught:
        read_pretrained(AutoTokenizer, folder)
    assert "\n" not in str(caught.value)


def test_a_tokenizer_in_another_form_is_not_read_since_nobody_has_tried_it(folder, tmp_path) -> None:
    """vocab.json and merges.txt, or tokenizer.model: transformers would convert them, within no limits."""
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    edited(folder / "tokenizer_config.json", tokenizer_class="GPT2Tokenizer", unk_token="<|endoftext|>")
    AutoTokenizer.from_pretrained(folder)
    refused(folder, r"has no tokenizer\.json, and no other form .* is read; .*save_pretrained")
    with pytest.raises(UserError, match=rf"^{folder} has no tokenizer\.json"):
        adopt(folder, tmp_path)
