"""Safetensors files of a few bytes, or with nothing but zeros that take no room, for tests that need no model."""

import json
import math
import struct
from pathlib import Path


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
