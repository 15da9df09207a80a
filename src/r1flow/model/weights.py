"""What a model's safetensors hold, read from the headers of its files without loading them.

header_of(Path("results/r1_tiny/base/model/model.safetensors"))
{"model.embed_tokens.weight": {"dtype": "F32", "shape": [512, 128], "data_offsets": [0, 262144]}, …}
"""

import json
import math
import struct
from pathlib import Path
from typing import Any


def parameters_in(folder: Path) -> float:
    """The parameters of the model in a folder; 0 if it has no safetensors, nan if one of them can't be read."""
    return sum(map(numbers_in, folder.glob("*.safetensors")))


def numbers_in(path: Path) -> float:
    """How many numbers a safetensors file holds; nan for any other file."""
    try:
        header = header_of(path)
    except (struct.error, ValueError, OverflowError, MemoryError):
        return math.nan
    return sum(math.prod(tensor["shape"]) for tensor in header.values())


def header_of(path: Path) -> dict[str, dict[str, Any]]:
    """Each tensor's dtype, shape and place in the file, by its name; raises struct.error or ValueError for others."""
    with path.open("rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return header
