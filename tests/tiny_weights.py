"""Safetensors files of a few bytes, or with nothing but zeros that take no room, for tests that need no model."""

import json
import math
import struct
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers


def write_zeros(path: Path, made_by: str = "", **shapes: list[int]) -> Path:
    """Write tensors of zeros in float32, as a file with a hole; `made_by` makes it another file than others."""
    header: dict[str, object] = {"__metadata__": {"made_by": made_by}}
    end = 0
    for name, shape in shapes.items():
        begin, end = end, end + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    return path


def write_folder(folder: Path, template: str | None = None, **config: object) -> Path:
    """What looks like a model's folder to all that reads no weights: a byte tokenizer, one number, and this config."""
    folder.mkdir(parents=True, exist_ok=True)
    words = ["<eos>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer.add_special_tokens(words[:1])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": words[0], "pad_token": words[0]}))
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    write_zeros(folder / "model.safetensors", a=[1])
    (folder / "config.json").write_text(json.dumps(config))
    return folder
