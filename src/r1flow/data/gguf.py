"""A Llama in one GGUF file, llama.cpp's format: header checked, weights de-quantised, tokenizer built.

    header = read_header(Path("SmolLM2-135M-Instruct.Q4_1.gguf"))
    header.values["llama.block_count"], header.tensors["blk.0.attn_k.weight"]
    (30, Tensor(shape=(192, 576), kind="Q4_1", start=33530176, size=69120))

The package gguf has the kinds of numbers; header, model and tokenizer are read here. gguf's own GGUFReader (0.19.0)
takes 5.4 s for 98,304 texts (here: 0.2 s, and each plan reads the header) and believes what a file says of its sizes:
49 bytes that promise a list of 2^40 numbers keep it busy (ended after 8 s). transformers (5.17) reads such files too,
but it takes the token that begins a text for the one that ends it, splits digits by other rules, starts tensors that it
misses at random and leaves out those that it doesn't know. So a file is read only if its tensors are those of a plain
Llama, by names and shapes. Left out: SentencePiece, scaled positions (Llama 3.1), experts. The format: ggml's
docs/gguf.md; how texts are split, and the order of rows in attn_q and attn_k: llama.cpp.
"""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, Self

from r1flow.artifacts.contract import APART_S, PROBE, tried_template
from r1flow.core.apart import read_apart
from r1flow.core.errors import UserError, listed
from r1flow.core.limits import time_limit
from r1flow.core.template import RENDER_S
from r1flow.data.packages import PACKAGE

NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}  # struct's
TEXT, LIST = 8, 9
CONTROL, USER_DEFINED = 3, 4  # kinds of tokens: special, and ordinary ones that are never split
# How a text is split before BPE, by tokenizer.ggml.pre: whether each digit is a piece of its own.
DIGITS_APART = {"gpt-2": False, "smollm": True}
SPECIAL = {"eos": "eos_token_id", "bos": "bos_token_id", "pad": "padding_token_id"}  # ours: theirs
FRACTIONS = ("attention.layer_norm_rms_epsilon", "rope.freq_base")
# What llama.cpp reads a scaling of positions from, each with the values that mean none.
UNSCALED = {"llama.rope.scaling.type": ["none"]} | {
    f"llama.rope.{key}": [0, 1] for key in ("scaling.factor", "scale_linear")
}
MOST_DIMENSIONS = 4  # ggml's own limit
# Models have up to 200. Where each tensor could be said to be a layer, the list of those that are missing took 44 s.
MOST_LAYERS = 1000
# Bytes; the largest vocabularies take 2^24. Of the worst header that long, reading takes 5 s and 0.5 GB.
LONGEST_HEADER = 1 << 25
INSTEAD = "take its safetensors from a hub or a folder"
REPLY = "An answer."


@dataclass(frozen=True)
class Tensor:
    shape: tuple[int, ...]  # as in torch
    kind: str
    start: int  # where its bytes begin in the file
    size: int  # in bytes


@dataclass(frozen=True)
class Header:
    """What a GGUF file says of itself."""

    values: dict[str, Any]
    tensors: dict[str, Tensor]
    size: int  # of the file, in bytes


@dataclass(frozen=True)
class Sizes:
    """The sizes of a Llama, from the values of its header."""

    layers: int
    positions: int
    hidden: int
    inner: int
    heads: int
    key_heads: int
    width: int  # of a head
    vocabulary: int

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """Raises KeyError for a missing value, TypeError or ValueError for one that is no size."""
        names = ("block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count")
        layers, positions, hidden, inner, heads = (values[f"llama.{name}"] for name in names)
        key_heads = values.get("llama.attention.head_count_kv", heads)
        width = values.get("llama.rope.dimension_count", hidden // max(heads, 1))
        vocabulary = values.get("llama.vocab_size", len(values["tokenizer.ggml.tokens"]))
        sizes = (layers, positions, hidden, inner, heads, key_heads, width, vocabulary)
        if not all(type(size) is int and size > 0 for size in sizes):
            raise ValueError(f"{sizes} aren't all numbers above 0")
        if hidden % heads or heads % key_heads or width % 2:
            raise ValueError(
                f"{heads} heads of {width}, {key_heads} of keys, {hidden} features don't divide each other"
            )
        return cls(*sizes)


def is_gguf(source: str | None) -> bool:
    """Whether a source of a base model is a GGUF file: one here, or one in a package."""
    return bool(source) and (source.startswith(PACKAGE) or source.endswith(".gguf"))


def read_header(path: Path) -> Header:
    """The header of a file that `read_llama` can read; raises UserError for any other, in a fraction of a second."""
    if not path.is_file():
        raise UserError(f"{path}: there is no such file; name one that is here")
    try:
        with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            header = parse_header(Cursor(data))
    except struct.error:
        raise UserError(f"{path}: truncated: it ends within its header; copy or download it again") from None
    except ValueError as error:
        raise UserError(f"{path}: no GGUF file that can be read ({error}); copy or download it again") from None
    for fault in header_faults(header):
        raise UserError(f"{path}: {in_one_line(fault)}")
    return header


def in_one_line(text: str) -> str:
    """Names in a file may be long and have line breaks, by which it could write lines of its own into a message."""
    line = " ".join(text.split())
    return line if len(line) <= 800 else f"{line[:400]} … {line[-400:]}"


class Cursor:
    """Reads one value after the other; raises struct.error at the end of the data, ValueError in too long a header."""

    def __init__(self, data: mmap) -> None:
        self.data, self.at = data, 0

    def numbers(self, kinds: str) -> tuple[Any, ...]:
        begin, self.at = self.at, self.at + struct.calcsize(f"<{kinds}")
        if LONGEST_HEADER < self.at <= len(self.data):
            raise ValueError(f"a header of more than {LONGEST_HEADER >> 20} MB")
        return struct.unpack_from(f"<{kinds}", self.data, begin)

    def text(self) -> str:
        (length,) = self.numbers("Q")
        return self.numbers(f"{length}s")[0].decode()

    def value(self, kind: int) -> Any:
        if kind == TEXT:
            return self.text()
        if kind != LIST:
            return self.numbers(NUMBERS[kind])[0]
        inner, count = self.numbers("IQ")
        if inner == TEXT:
            return [self.text() for _ in range(count)]
        return list(self.numbers(f"{count}{NUMBERS[inner]}"))


def parse_header(cursor: Cursor) -> Header:
    """Read a header; raises struct.error where it is cut off, and ValueError for what is no GGUF."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    magic, version, tensor_count, value_count = cursor.numbers("4sIQQ")
    if magic != b"GGUF" or version not in (2, 3):
        raise ValueError("it doesn't begin like a GGUF of version 2 or 3")
    try:
        values = {cursor.text(): cursor.value(*cursor.numbers("I")) for _ in range(value_count)}
    except KeyError as error:
        raise ValueError(f"a value of the unknown kind {error}") from None
    table = []
    for _ in range(tensor_count):
        name, (dimensions,) = cursor.text(), cursor.numbers("I")
        if dimensions > MOST_DIMENSIONS:
            raise ValueError(f"a tensor of {dimensions} dimensions")
        table.append((name, cursor.numbers(f"{dimensions}Q"), *cursor.numbers("IQ")))
    alignment = values.get("general.alignment", 32)
    if type(alignment) is not int or alignment < 1:
        raise ValueError(f"general.alignment is {alignment!r}")
    start = math.ceil(cursor.at / alignment) * alignment
    tensors = {}
    for name, shape, number, offset in table:
        kind = GGMLQuantizationType(number)  # ValueError: an unknown one
        block, size = GGML_QUANT_SIZES[kind]
        if not shape or shape[0] % block:
            raise ValueError(f"{name} has rows that its kind, {kind.name}, can't hold")
        tensors[name] = Tensor(shape[::-1], kind.name, start + offset, math.prod(shape) // block * size)
    return Header(values, tensors, len(cursor.data))


def header_faults(header: Header) -> Iterator[str]:
    """Why a file can't be read, in words. Stop at the first: each check assumes that those before it found nothing."""
    values = header.values
    if (kind := values.get("general.architecture")) != "llama":
        yield f"a model of the architecture {kind!r}, and only Llamas are read from GGUF; {INSTEAD}"
    for key, plain in UNSCALED.items():
        if key in values and values[key] not in plain:
            yield f"its positions are scaled ({key}: {values[key]!r}), which isn't read; {INSTEAD}"
    yield from tokenizer_faults(values)
    yield from tensor_faults(header)
    if (end := max(tensor.start + tensor.size for tensor in header.tensors.values())) > header.size:
        yield f"truncated: it has {header.size} bytes of {end}; copy or download it again"
    if (stated := sum(tensor.size for tensor in header.tensors.values())) > header.size:
        yield f"its tensors overlap: they have {stated} bytes, and the file {header.size}; copy or download it again"


def tokenizer_faults(values: dict[str, Any]) -> Iterator[str]:
    own = {name: values.get(f"tokenizer.ggml.{name}") for name in ("model", "pre", "tokens", "merges", "token_type")}
    if own["model"] != "gpt2":
        yield f"a tokenizer of the kind {own['model']!r}, and only byte-level BPE ('gpt2') is read; {INSTEAD}"
    if own["pre"] not in list(DIGITS_APART):
        known = ", ".join(DIGITS_APART)
        yield f"its tokenizer splits texts by {own['pre']!r}, and only {known} are known here; {INSTEAD}"
    tokens, kinds = own["tokens"], own["token_type"]
    listing = isinstance(tokens, list) and isinstance(kinds, list) and isinstance(own["merges"], list)
    if not isinstance(values.get("tokenizer.chat_template", ""), str):
        yield f"its chat template is no text; {INSTEAD}"
    if not listing or not all(isinstance(token, str) for token in tokens) or len(set(tokens)) != len(kinds):
        yield f"tokens, token_type and merges of its tokenizer don't fit each other; {INSTEAD}"
    for name in SPECIAL.values():
        key = f"tokenizer.ggml.{name}"
        number = values.get(key)
        if (number is not None or name == "eos_token_id") and number not in range(len(tokens)):
            yield f"{key} is {number!r}, which is no token of its tokenizer; {INSTEAD}"


def tensor_faults(header: Header) -> Iterator[str]:
    """Tensors must be exactly those of a plain Llama: transformers would start a missing one at random."""
    import gguf
    import numpy

    try:
        sizes = Sizes.of(header.values)
        if not all(type(header.values[f"llama.{name}"]) is float for name in FRACTIONS):
            raise TypeError(f"{', '.join(FRACTIONS)} must be fractions")
    except (KeyError, TypeError, ValueError) as error:
        yield f"its header doesn't give the sizes of a Llama ({error}); {INSTEAD}"
    if sizes.layers > MOST_LAYERS or sizes.vocabulary < len(header.values["tokenizer.ggml.tokens"]):
        yield f"its header gives {sizes}, and its tensors or tokens are of another model; {INSTEAD}"
    wanted = plain_llama(sizes)
    have = {name: tensor.shape for name, tensor in header.tensors.items()}
    wanted |= {"output.weight": wanted["token_embd.weight"]} if "output.weight" in have else {}
    if odd := sorted(name for name in wanted.keys() | have if wanted.get(name) != have.get(name)):
        said = [f"{name} is {have.get(name, 'missing')}, not {wanted.get(name, 'there')}" for name in odd]
        yield f"its tensors aren't a plain Llama's ({listed(said, 3)}); {INSTEAD}"
    for kind in sorted({tensor.kind for tensor in header.tensors.values()}):
        number = gguf.GGMLQuantizationType[kind]
        try:
            gguf.dequantize(numpy.zeros((1, gguf.GGML_QUANT_SIZES[number][1]), "uint8"), number)
        except NotImplementedError:
            yield f"its tensors are of the kind {kind}, which isn't read; {INSTEAD}"


def plain_llama(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """The names and shapes of a Llama's tensors, but for an output layer of its own."""
    queries, keys = sizes.heads * sizes.width, sizes.key_heads * sizes.width
    layer = {
        "attn_norm": (sizes.hidden,),
        "attn_q": (queries, sizes.hidden),
        "attn_k": (keys, sizes.hidden),
        "attn_v": (keys, sizes.hidden),
        "attn_output": (sizes.hidden, queries),
        "ffn_norm": (sizes.hidden,),
        "ffn_gate": (sizes.inner, sizes.hidden),
        "ffn_up": (sizes.inner, sizes.hidden),
        "ffn_down": (sizes.hidden, sizes.inner),
    }
    tensors = {"token_embd.weight": (sizes.vocabulary, sizes.hidden), "output_norm.weight": (sizes.hidden,)}
    for number in range(sizes.layers):
        tensors |= {f"blk.{number}.{name}.weight": shape for name, shape in layer.items()}
    return tensors


def read_llama(path: Path) -> tuple[Any, Any, dict[str, Any]]:
    """The model, its tokenizer, and what is to be recorded of the file: its licence's name, and repaired special ids.

    The weights are the file's own numbers in float32, not rounded again. The text ends with the token by which the
    file's chat template closes the assistant's turn; without such a template, with tokenizer.ggml.eos_token_id. Raises
    UserError as `read_header` does.
    """
    header = read_header(path)
    what = f"{path}: its tokenizer or chat template"
    [_] = read_apart(tried, path, size=LONGEST_HEADER, what=what, cpu_s=APART_S)
    tokenizer = build_tokenizer(header.values)
    told = tokenizer.eos_token_id
    used = closing(tokenizer)
    if used is not None:
        tokenizer.eos_token = tokenizer.convert_ids_to_tokens(used)
    repaired = {} if used in (None, told) else {"eos_token_id": {"file": told, "used": used}}
    recorded = {"license": header.values.get("general.license"), "repaired": repaired}
    return build_model(path, header, tokenizer), tokenizer, recorded


def tried(path: Path) -> Iterator[bool]:
    """In a process apart: build a file's tokenizer, cut a text by it and run the chat template, once."""
    values = read_header(path).values
    try:
        bare_tokenizer(values).encode(PROBE)
    except Exception as error:  # tokenizers has no exceptions of its own
        raise UserError(f"{path}: its tokenizer can't be built ({in_one_line(str(error))}); {INSTEAD}") from error
    tried_template(values.get("tokenizer.chat_template"))
    yield True


def build_model(path: Path, header: Header, tokenizer: Any) -> Any:
    """The Llama with the file's weights, in float32."""
    import gguf
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = Sizes.of(header.values)
    config = LlamaConfig(
        vocab_size=sizes.vocabulary,
        hidden_size=sizes.hidden,
        intermediate_size=sizes.inner,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.key_heads,
        head_dim=sizes.width,
        max_position_embeddings=sizes.positions,
        rms_norm_eps=header.values["llama.attention.layer_norm_rms_epsilon"],
        rope_theta=header.values["llama.rope.freq_base"],
        tie_word_embeddings="output.weight" not in header.tensors,
        **{key: getattr(tokenizer, key) for key in ("bos_token_id", "eos_token_id", "pad_token_id")},
    )
    model = LlamaForCausalLM(config)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, sizes.layers)
    heads = {"q_proj": sizes.heads, "k_proj": sizes.key_heads}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            weights = torch.from_numpy(dequantised(path, header.tensors[names.get_name(name, (".weight",))]))
            # llama.cpp interleaves the halves that positions rotate.
            if count := heads.get(name.split(".")[-2]):
                weights = weights.view(count, sizes.width // 2, 2, -1).transpose(1, 2)
            parameter.copy_(weights.reshape(parameter.shape))
    return model


def dequantised(path: Path, tensor: Tensor) -> Any:
    """A tensor's numbers as float32, in an array of its shape."""
    import gguf
    import numpy

    packed = numpy.fromfile(path, "uint8", count=tensor.size, offset=tensor.start)
    rows = packed.reshape(math.prod(tensor.shape[:-1]), -1)
    return gguf.dequantize(rows, gguf.GGMLQuantizationType[tensor.kind]).reshape(tensor.shape)


def bare_tokenizer(values: dict[str, Any]) -> Any:
    """The file's byte-level BPE."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens, kinds = values["tokenizer.ggml.tokens"], values["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in values["tokenizer.ggml.merges"]]
    built = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, merges))
    pieces = [pre_tokenizers.Digits(individual_digits=True)] * DIGITS_APART[values["tokenizer.ggml.pre"]]
    built.pre_tokenizer = pre_tokenizers.Sequence([*pieces, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    built.decoder = decoders.ByteLevel()
    for token, kind in zip(tokens, kinds, strict=True):
        if kind in (CONTROL, USER_DEFINED):
            add = built.add_special_tokens if kind == CONTROL else built.add_tokens
            add([AddedToken(token, normalized=False, special=kind == CONTROL)])
    return built


def build_tokenizer(values: dict[str, Any]) -> Any:
    """The file's tokenizer for transformers, with its special tokens and its chat template."""
    from transformers import PreTrainedTokenizerFast

    tokens = values["tokenizer.ggml.tokens"]
    numbers = {name: values.get(f"tokenizer.ggml.{key}") for name, key in SPECIAL.items()}
    return PreTrainedTokenizerFast(
        tokenizer_object=bare_tokenizer(values),
        chat_template=values.get("tokenizer.chat_template"),
        model_max_length=values["llama.context_length"],
        clean_up_tokenization_spaces=False,
        **{f"{name}_token": tokens[number] for name, number in numbers.items() if number is not None},
    )


def closing(tokenizer: Any) -> int | None:
    """The special token by which the chat template closes the assistant's turn; None where there is none."""
    turns = [{"role": "user", "content": "?"}, {"role": "assistant", "content": REPLY}]
    try:
        with time_limit(RENDER_S):
            text = tokenizer.apply_chat_template(turns, tokenize=False) if tokenizer.chat_template else ""
    except Exception:  # a template may raise anything; then it can't be used, and a stage may set one of its own
        return None
    after = text.rpartition(REPLY)[2] if REPLY in text else ""
    special = {number for number, token in tokenizer.added_tokens_decoder.items() if token.special}
    ids = tokenizer(after, add_special_tokens=False)["input_ids"]
    return next((number for number in ids if number in special), None)
