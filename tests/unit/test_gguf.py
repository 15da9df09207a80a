"""GGUF files that can't be read are refused by their header, in one line, before anything is computed."""

import math
import random
import re
import struct
from pathlib import Path
from typing import Any

import gguf
import numpy
import pytest
from tiny_gguf import SHAPES, TOKENS, VALUES, weights, write_gguf

from r1flow.core.errors import UserError
from r1flow.data.gguf import read_header, read_llama
from r1flow.engine.run import Run
from r1flow.programs.model_sizes import model_in

ROOT = Path(__file__).parents[2]


def test_a_header_has_the_values_and_where_each_tensor_lies(tmp_path):
    path = write_gguf(tmp_path / "a.gguf", kind="Q4_1")
    header = read_header(path)
    assert {key: header.values[key] for key in VALUES} == {**VALUES, "llama.attention.layer_norm_rms_epsilon": FLOAT}
    theirs = gguf.GGUFReader(path).tensors
    assert {name.removesuffix(".weight"): tensor.shape for name, tensor in header.tensors.items()} == SHAPES
    assert {name: (t.kind, t.start, t.size) for name, t in header.tensors.items()} == {
        t.name: (t.tensor_type.name, t.data_offset, t.n_bytes) for t in theirs
    }


FLOAT = struct.unpack("f", struct.pack("f", 1e-5))[0]
CUT = {"blk.1.attn_q.weight": None}
BIAS = {"blk.0.attn_q.bias": numpy.zeros(64, "float32")}
WIDE = {"blk.0.ffn_up.weight": numpy.zeros((128, 64), "float32")}
OTHERS = {name.replace("blk.", "transformer.h.") for name in SHAPES}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "another architecture": ({"architecture": "qwen2"}, "of the architecture 'qwen2', and only Llamas"),
    "a missing tensor": ({"tensors": CUT}, r"blk.1.attn_q.weight is missing, not \(64, 64\)"),
    "one too many": ({"tensors": BIAS}, r"blk.0.attn_q.bias is \(64,\), not there"),
    "another shape": ({"tensors": WIDE}, r"blk.0.ffn_up.weight is \(128, 64\), not \(96, 64\)"),
    "other layers": ({"values": {"llama.block_count": 3}}, "blk.2.attn_k.weight is missing"),
    "a layer for each of 1001 tensors": (
        {"values": {"llama.block_count": 1001}, "tensors": {f"{n}": numpy.zeros(4, "float32") for n in range(1001)}},
        "are of another model",
    ),
    "absurdly many layers": ({"values": {"llama.block_count": 2**32 - 1}}, "are of another model"),
    "no layers": ({"values": {"llama.block_count": None}}, "doesn't give the sizes of a Llama"),
    "no heads": ({"values": {"llama.attention.head_count": 0}}, "doesn't give the sizes of a Llama"),
    "a size in words": ({"values": {"llama.embedding_length": "many"}}, "doesn't give the sizes of a Llama"),
    "fewer embeddings than tokens": ({"values": {"llama.vocab_size": 9}}, "are of another model"),
    "scaled positions": ({"values": {"llama.rope.scaling.type": "yarn"}}, "positions are scaled"),
    "a factor of positions": ({"values": {"llama.rope.scaling.factor": 4.0}}, "positions are scaled"),
    "heads that divide nothing": ({"values": {"llama.attention.head_count": 3}}, "doesn't give the sizes of a Llama"),
    "a base in words": ({"values": {"llama.rope.freq_base": "1e4"}}, "doesn't give the sizes of a Llama"),
    "a template of two": ({"values": {"tokenizer.chat_template": ["a", "b"]}}, "chat template is no text"),
    "a name with a line of its own": ({"tensors": {"a\nall is well": numpy.zeros(4, "float32")}}, "a all is well is"),
    "SentencePiece": ({"values": {"tokenizer.ggml.model": "llama"}}, "only byte-level BPE"),
    "unknown pieces": (
        {"values": {"tokenizer.ggml.pre": "qwen2"}},
        "by 'qwen2', and only gpt-2, smollm are known",
    ),
    "pieces by no name": ({"values": {"tokenizer.ggml.pre": None}}, "splits texts by None"),
    "pieces by many names": ({"values": {"tokenizer.ggml.pre": ["smollm"]}}, r"splits texts by \['smollm'\]"),
    "positions without a base": ({"values": {"llama.rope.freq_base": None}}, "doesn't give the sizes of a Llama"),
    "no end of text": ({"values": {"tokenizer.ggml.eos_token_id": None}}, "eos_token_id is None"),
    "an end beyond": ({"values": {"tokenizer.ggml.eos_token_id": len(TOKENS)}}, f"eos_token_id is {len(TOKENS)}"),
    "no tokens": ({"values": {"tokenizer.ggml.tokens": None}}, "don't fit each other"),
    "twice a token": ({"values": {"tokenizer.ggml.tokens": ["a"] * len(TOKENS)}}, "don't fit each other"),
}


def changed(change: dict[str, Any]) -> dict[str, Any]:
    """The change with all tensors: those that it has, the others as they are, without those that are None."""
    if "tensors" not in change:
        return change
    tensors = {name: array for name, array in (weights() | change["tensors"]).items() if array is not None}
    return change | {"tensors": tensors}


@pytest.mark.parametrize(("change", "said"), WRONG.values(), ids=WRONG)
def test_what_is_no_plain_llama_is_refused_with_the_reason_and_the_remedy(tmp_path, change, said):
    path = write_gguf(tmp_path / "a.gguf", **changed(change))
    with pytest.raises(UserError, match=f"^{path}: .*{said}.*; take its safetensors from a hub or a folder$"):
        read_header(path)


def test_tensors_of_a_kind_that_nothing_de_quantises_are_refused(tmp_path):
    path = write_gguf(tmp_path / "a.gguf")
    name = b"token_embd.weight"
    place = path.read_bytes().index(name) + len(name) + 4 + 16
    content = bytearray(path.read_bytes())
    content[place : place + 4] = struct.pack("<I", gguf.GGMLQuantizationType.I32)
    path.write_bytes(content)
    with pytest.raises(UserError, match="its tensors are of the kind I32, which isn't read"):
        read_header(path)


def test_a_file_that_was_cut_off_anywhere_is_called_truncated(tmp_path):
    whole = write_gguf(tmp_path / "a.gguf").read_bytes()
    path = tmp_path / "cut.gguf"
    for size in (30, 500, 5000, len(whole) - 5000, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(UserError, match=r"cut\.gguf: truncated: .*copy or download it again"):
            read_header(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04" + b"\0" * 99, b"GGUF\x00\x00\x00\x03" + b"\0" * 99])
def test_what_is_no_gguf_is_refused(tmp_path, content):
    (tmp_path / "a.gguf").write_bytes(content)
    with pytest.raises(UserError, match=r"a.gguf: no GGUF file that can be read \(.*copy or download it again"):
        read_header(tmp_path / "a.gguf")


def test_a_damaged_header_is_one_line_whatever_is_damaged(tmp_path):
    """Counts of 2**60 among them: nothing is read, or waited for, that the file hasn't got."""
    whole, path = write_gguf(tmp_path / "a.gguf").read_bytes(), tmp_path / "b.gguf"
    dice = random.Random(1)
    refused = 0
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(dice.choice([1, 8])):
            content[dice.randrange(12000)] = dice.choice([0, 1, 16, 127, 255, dice.randrange(256)])
        path.write_bytes(content)
        try:
            read_header(path)
        except UserError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused > 20


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("base.init_from={}/b.gguf", "base.init_from: .*b.gguf: there is no such file"),
        ("base.init_from={}/cut.gguf", "base.init_from: .*cut.gguf: truncated"),
        ("base.init_from={0}/a.gguf base.revision=main", "base.revision: .*a.gguf has none; set it to null"),
        ("base.init_from={0}/a.gguf base.file=x", "base.file: it belongs to a package"),
        ("zero_rl.init_from={}/a.gguf", "zero_rl.init_from: .*a.gguf: only base and student_base take that"),
        ("base.drop_layers=[1]", "base.drop_layers: a model trained from scratch has model.num_hidden_layers; set"),
    ],
)
def test_a_plan_refuses_it_in_one_line_that_begins_with_the_key(tmp_path, words, said):
    (tmp_path / "cut.gguf").write_bytes(write_gguf(tmp_path / "a.gguf").read_bytes()[:-99])
    with pytest.raises(UserError, match=f"^{said}") as refusal:
        Run.compose(ROOT, "r1_zero", words.format(tmp_path))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("dropped", ["[2]", "[-1]", "[0,0]", "[1,0]"])
def test_layers_that_cannot_be_dropped_are_refused_before_anything_runs(tmp_path, dropped):
    """Of the file's own model, and of one that another stage is still to make of it."""
    source = f"base.init_from={write_gguf(tmp_path / 'a.gguf')}"
    for stage, more in (("base", ""), ("student_base", "student_base.init_from=base")):
        run = Run.compose(ROOT, "r1_tiny", f"{source} {more} {stage}.drop_layers={dropped}")
        with pytest.raises(UserError, match=rf"^{stage}.drop_layers: .*; the model has 2 layers: give .* not all$"):
            list(run.costs)


def test_a_plan_knows_its_size_and_that_it_is_an_input(tmp_path):
    path = write_gguf(tmp_path / "a.gguf", kind="Q8_0")
    run = Run.compose(ROOT, "r1_zero", f"base.init_from={path}")
    assert run.inputs("base")["model"] == str(path)
    size = sum(array.size for array in weights().values())
    assert model_in(path).parameters == size
    costs = {cost.job: cost for cost in run.costs}
    assert costs["base"].weights == 4 * size and costs["zero_rl"].parameters == size
    half = Run.compose(ROOT, "r1_zero", f"base.init_from={path} base.drop_layers=[1]")
    in_layers = sum(array.size for name, array in weights().items() if name.startswith("blk."))
    assert half.costs[1].parameters == pytest.approx(size - in_layers / 2, rel=0.01)


def test_the_words_of_a_refusal_name_no_more_than_three_tensors(tmp_path):
    with pytest.raises(UserError) as refusal:
        read_header(write_gguf(tmp_path / "a.gguf", tensors={name: numpy.zeros(4, "float32") for name in OTHERS}))
    assert len(re.findall("weight is", str(refusal.value))) <= 3 and "more" in str(refusal.value)


def damaged(path: Path, field: bytes, number: int) -> Path:
    """A file in which the count after a tensor's name is another."""
    content = bytearray(write_gguf(path).read_bytes())
    place = content.index(field) + len(field)
    content[place : place + 4] = struct.pack("<I", number)
    path.write_bytes(content)
    return path


def test_a_tensor_has_few_dimensions(tmp_path):
    """The product of millions of them takes hours."""
    path = damaged(tmp_path / "a.gguf", b"output_norm.weight", 5)
    with pytest.raises(UserError, match=r"no GGUF file that can be read \(a tensor of 5 dimensions\)"):
        read_header(path)


def test_tensors_have_bytes_of_their_own(tmp_path):
    """Else a file of 10 MB could be a model of any size."""
    content = bytearray(write_gguf(tmp_path / "a.gguf").read_bytes())
    for name in SHAPES:
        place = content.index(f"{name}.weight".encode()) + len(f"{name}.weight") + 4 + 8 * len(SHAPES[name]) + 4
        content[place : place + 8] = bytes(8)
    first, after = content[:14_000], bytes(4 * math.prod(SHAPES["token_embd"]))
    (tmp_path / "b.gguf").write_bytes(first + after)
    with pytest.raises(UserError, match=r"b\.gguf: its tensors overlap: they have \d+ bytes, and the file \d+; copy"):
        read_header(tmp_path / "b.gguf")


def test_a_header_is_short_and_so_is_what_it_says_of_itself(tmp_path, monkeypatch):
    path = write_gguf(tmp_path / "a.gguf", {"general.architecture": "long " * 100_000})
    with pytest.raises(UserError) as refused:
        read_header(path)
    assert len(str(refused.value)) < 1000 and str(refused.value).endswith("from a hub or a folder")
    monkeypatch.setattr("r1flow.data.gguf.LONGEST_HEADER", 1 << 18)
    with pytest.raises(UserError, match="a header of more than 0 MB"):
        read_header(path)


def test_a_template_in_a_file_that_never_ends_is_one_line(tmp_path, monkeypatch):
    loop = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    path = write_gguf(tmp_path / "a.gguf", {"tokenizer.chat_template": loop})
    monkeypatch.setattr("r1flow.data.gguf.APART_S", 1.0)
    with pytest.raises(UserError, match=r"a\.gguf: its tokenizer or chat template: reading it took more than 1 s"):
        read_llama(path)
