"""A model's folder is whole and its weights are finite, or one line names the file and what to do."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from r1flow.artifacts.contract import dtype_of, read_tokenizer, template_of
from r1flow.core.errors import UserError
from r1flow.model import weights
from r1flow.model.weights import (
    DEPTHS,
    INDEX,
    WIDTHS,
    architectures,
    check_finite,
    check_model_files,
    check_sizes,
    parameters_in,
    shards_of,
    trainable_kind,
)
from r1flow.programs.trainings import check_start

TENSORS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(5, np.float16), "c": np.ones(3, np.int64)}
INDEX_OF_ANOTHER = '{"metadata": {}, "weight_map": {"a": "../model.safetensors"}}'
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0f3e\nsize 2269\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three tensors in two files, an index, and settings."""
    first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    save_file({name: TENSORS[name] for name in "ab"}, tmp_path / first)
    save_file({"c": TENSORS["c"]}, tmp_path / second)
    (tmp_path / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": {"a": first, "b": first, "c": second}}))
    for name in ("config.json", "generation_config.json", "tokenizer.json"):
        (tmp_path / name).write_text("{}")
    return tmp_path


def test_a_whole_folder_is_taken(folder: Path) -> None:
    check_model_files(folder)
    check_finite(folder, "")
    assert parameters_in(folder) == 14
    assert [path.name for path in shards_of(folder)] == sorted(path.name for path in folder.glob("*.safetensors"))
    assert dtype_of(folder) == "F16+F32"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def refill(path: Path, **changes: Any) -> None:
    """Write the header of a safetensors file anew, with changes to its tensor a."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    header["a"] |= changes
    written = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(written)) + written + data[8 + length :])


def rename_in(path: Path, **files: str) -> None:
    """Give tensors other files in an index."""
    index = json.loads(path.read_text())
    index["weight_map"] |= files
    path.write_text(json.dumps(index))


HARM = {
    "model-00001-of-00002.safetensors": [
        ("is cut or damaged: it has", cut),
        ("ends within its header", lambda path: path.write_bytes(b"")),
        ("ends within its header", lambda path: path.write_bytes(path.read_bytes()[:40])),
        ("ends within its header", lambda path: path.write_bytes(b"<html>404 not found</html>")),
        ("header can't be read", lambda path: path.write_bytes(struct.pack("<Q", 2) + b"[]")),
        ("header can't be read", lambda path: path.write_bytes(struct.pack("<Q", 4) + b'{"a}')),
        ("header can't be read", lambda path: path.write_bytes(struct.pack("<Q", 90_000) + b"[" * 90_000)),
        ("header can't be read", lambda path: refill(path, shape=[10**9])),
        ("header can't be read", lambda path: refill(path, shape=[-2, -3])),
        ("header can't be read", lambda path: refill(path, data_offsets=[0, "24"])),
        ("header can't be read .*a size", lambda path: refill(path, shape=[0, 10**4000])),
        ("header can't be read .*a shape of 65 numbers", lambda path: refill(path, shape=[1] * 65)),
        ("header can't be read .*brackets", lambda path: refill(path, more=[[]] * 1_000_000)),
        ("header has more than 32 MB", lambda path: refill(path, more="x" * 33_000_000)),
        ("overlap or leave gaps", lambda path: refill(path, data_offsets=[1, 25])),
        ("has no model-00001-of-00002.safetensors, as .*index.json says", Path.unlink),
        ("Git LFS pointer .*git lfs pull", lambda path: path.write_text(POINTER)),
    ],
    INDEX: [
        ("can't be read as JSON", lambda path: path.write_text("{")),
        ("no metadata, .*; add", lambda path: path.write_text('{"weight_map": {"a": "b.safetensors"}}')),
        ("no weight_map", lambda path: path.write_text('{"metadata": {}}')),
        ("no weight_map", lambda path: path.write_text('{"metadata": {}, "weight_map": {"a": 1}}')),
        ("isn't the name of a file", lambda path: path.write_text(INDEX_OF_ANOTHER)),
        ("no model.safetensors, and no .*index", Path.unlink),
        ("Git LFS pointer", lambda path: path.write_text(POINTER)),
        ("don't agree on a, a in model-00001", lambda path: rename_in(path, a="model-00002-of-00002.safetensors")),
        ("don't agree on d;", lambda path: rename_in(path, d="model-00002-of-00002.safetensors")),
    ],
    "config.json": [
        ("has no config.json", Path.unlink),
        ("holds no settings", lambda path: path.write_text("[]")),
        ("can't be read as JSON", lambda path: path.write_text("[" * 90_000)),
        ("can't be read as JSON", lambda path: path.write_bytes(b"\xff\xfe{")),
        ("Git LFS pointer", lambda path: path.write_text(POINTER)),
    ],
    "generation_config.json": [
        ("can't be read as JSON", lambda path: path.write_text("{")),
        ("Git LFS pointer", lambda path: path.write_text(POINTER)),
    ],
    "tokenizer.json": [("Git LFS pointer", lambda path: path.write_text(POINTER))],
    "adapter_config.json": [("an adapter .*merge", lambda path: path.write_text("{}"))],
}


@pytest.mark.parametrize(("name", "said", "harm"), [(name, *case) for name, cases in HARM.items() for case in cases])
def test_a_folder_that_is_not_whole_is_refused_in_one_line(folder: Path, name: str, said: str, harm: Any) -> None:
    harm(folder / name)
    with pytest.raises(UserError, match=said) as caught:
        check_model_files(folder)
    assert str(caught.value).startswith(str(folder)) and "\n" not in str(caught.value)


def test_heads_and_their_width_together_are_a_size(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"num_key_value_heads": 1, "head_dim": 3}))
    check_sizes(folder)
    for sizes in ({"head_dim": 3}, {"hidden_size": 3, "num_attention_heads": 1}):
        (folder / "config.json").write_text(json.dumps({"num_key_value_heads": 3, **sizes}))
        with pytest.raises(UserError, match="num_key_value_heads is 3, each of 3 features, and the weights have at m"):
            check_sizes(folder)


@pytest.mark.parametrize("key", [*WIDTHS, *DEPTHS])
def test_a_size_that_the_weights_have_not_is_refused_before_there_is_room_for_it(folder: Path, key: str) -> None:
    (folder / "config.json").write_text(json.dumps({key: 3}))
    check_sizes(folder)
    (folder / "config.json").write_text(json.dumps({key: 10**10}))
    with pytest.raises(UserError, match=rf"config\.json: {key} is 10000000000, and the weights have at most"):
        check_sizes(folder)


@pytest.mark.parametrize("name", ["model-00001-of-00002.safetensors", "tokenizer.json", "chat_template.jinja"])
def test_a_pointer_is_called_one_by_whoever_reads_the_file_first(folder: Path, name: str) -> None:
    (folder / name).write_text(POINTER)
    read = {"tokenizer.json": read_tokenizer, "chat_template.jinja": template_of}.get(name, dtype_of)
    with pytest.raises(UserError, match=rf"{name} is a Git LFS pointer .*git lfs pull"):
        read(folder)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"model_type": "llama", "quantization_config": {"quant_method": "gptq"}}, r"are quantised \(gptq\)"),
        ({"model_type": "llama", "quantization_config": "fp8"}, r"are quantised \(fp8\)"),
        ({"model_type": "llava"}, "no language model of the model_type 'llava'; choose"),
        ({"model_type": "own", "auto_map": {"AutoModelForCausalLM": "own.Model"}}, "model_type 'own'; choose"),
        ({"model_type": ["llama"]}, r"model_type \['llama'\]; choose"),
        ({}, "model_type None; choose"),
    ],
)
def test_a_kind_that_cannot_be_trained_is_refused_when_a_run_is_planned(folder: Path, settings: Any, said: str) -> None:
    """Not in the stage that reads it, after the data are made; wherever a model to start from is named."""
    (folder / "config.json").write_text(json.dumps(settings))
    for check in (trainable_kind, lambda folder: check_start(str(folder), None, ["base"])):
        with pytest.raises(UserError, match=said) as caught:
            check(folder)
        assert str(folder) in str(caught.value) and "\n" not in str(caught.value)


def test_an_adapter_without_settings_of_a_model_is_to_be_merged_when_planned(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(UserError, match=r"init_from: .* holds an adapter .*; merge it into its base model"):
        check_start(str(tmp_path), None, ["base"])


def test_the_language_models_are_those_of_transformers() -> None:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    known = architectures("CAUSAL_LM")
    assert known == set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES) >= {"llama", "qwen2", "qwen3", "gpt2"}


@pytest.mark.parametrize("kind", ["bert", "roberta", "electra"])
def test_a_model_that_reads_in_both_directions_is_refused_unless_it_was_trained_as_a_decoder(folder, kind) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    with pytest.raises(UserError, match=rf"config\.json: a {kind} model reads a text in both directions.*; choose a"):
        trainable_kind(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": kind, "is_decoder": True}))
    assert trainable_kind(folder) == kind


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint8, np.bool_])
def test_weights_that_are_no_floats_are_refused_and_masks_are_not(folder: Path, kind: type) -> None:
    (folder / "config.json").write_text('{"model_type": "llama"}')
    save_file(
        {"attention.bias": np.ones((2, 2), kind), "c": np.ones(3, kind)}, folder / "model-00002-of-00002.safetensors"
    )
    assert trainable_kind(folder) == "llama"
    save_file({"norm.weight": np.ones(3, kind)}, folder / "model-00002-of-00002.safetensors")
    with pytest.raises(UserError, match=r"norm\.weight is of the type \w+, as quantised weights are, .*; take unquant"):
        trainable_kind(folder)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_settings_that_are_not_finite_are_refused(folder: Path, value: str) -> None:
    (folder / "config.json").write_text('{"rms_norm_eps": VALUE}'.replace("VALUE", value))
    with pytest.raises(UserError, match=r"config\.json: rms_norm_eps is -?(nan|inf), which isn't finite; copy"):
        check_model_files(folder)


@pytest.mark.parametrize(
    ("rope", "said"),
    [
        ('{"rope_theta": NaN}', "rope_theta is nan, which isn't finite"),
        ('{"full_attention": {"rope_theta": Infinity}}', "full_attention.rope_theta is inf, which isn't finite"),
        ('{"rope_theta": 0}', "rope_theta is 0, and must be above 0"),
        ('{"factor": -2.0}', r"factor is -2\.0, and must be above 0"),
    ],
)
def test_numbers_within_settings_are_looked_at_too(folder: Path, rope: str, said: str) -> None:
    (folder / "config.json").write_text('{"rope_parameters": {"rope_type": "linear", "factor": 2.0}}')
    check_model_files(folder)
    (folder / "config.json").write_text('{"rope_parameters": ROPE}'.replace("ROPE", rope))
    with pytest.raises(UserError, match=rf"config\.json: rope_parameters\.{said}; copy"):
        check_model_files(folder)


def test_a_tensor_that_the_index_does_not_name_is_refused(folder: Path) -> None:
    save_file({"c": TENSORS["c"], "a": TENSORS["a"]}, folder / "model-00002-of-00002.safetensors")
    with pytest.raises(UserError, match=r"index\.json: it and its files don't agree on a in model-00002-of-00002"):
        check_model_files(folder)


def test_a_value_that_is_finite_in_float64_alone_is_not_finite(tmp_path: Path) -> None:
    largest = float(np.finfo(np.float32).max)
    save_file({"a": np.array([largest, -largest])}, tmp_path / "model.safetensors")
    check_finite(tmp_path, "")
    save_file({"a": np.array([1.0, -1e300])}, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="aren't finite"):
        check_finite(tmp_path, "")


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 7, 8, -1])
def test_a_value_that_is_not_finite_is_found_wherever_it_is(tmp_path, monkeypatch, kind, value, place) -> None:
    monkeypatch.setattr(weights, "AT_ONCE", 8)
    largest = min(np.finfo(kind).max, np.finfo(np.float32).max)
    tensors = {name: np.array([largest, -largest, 0, np.finfo(kind).tiny] * 5, kind) for name in "abc"}
    save_file(tensors, tmp_path / "model.safetensors")
    check_finite(tmp_path, "")
    tensors["b"][place] = value
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match=r"aren't finite \(NaN or infinity\): b; lower it"):
        check_finite(tmp_path, "lower it")


def test_bfloat16_is_looked_at_by_its_own_exponent_and_whole_numbers_are_not(tmp_path: Path) -> None:
    def write(kind: str, *bits: int) -> None:
        header = json.dumps({"a": {"dtype": kind, "shape": [len(bits)], "data_offsets": [0, 2 * len(bits)]}}).encode()
        data = np.array(bits, np.uint16).tobytes()
        (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + data)

    for taken in (("BF16", 0x7F7F, 0xFF7F, 0), ("I16", 0x7F80, 0xFFFF)):
        write(*taken)
        check_finite(tmp_path, "")
    for refused in (("BF16", 0, 0x7F80), ("BF16", 0xFFC0)):
        write(*refused)
        with pytest.raises(UserError, match=r"infinity\): a; "):
            check_finite(tmp_path, "x")


def test_files_that_are_read_are_those_that_transformers_reads(folder: Path) -> None:
    save_file(load_file(folder / "model-00001-of-00002.safetensors"), folder / "model.safetensors")
    assert shards_of(folder) == [folder / "model.safetensors"]
