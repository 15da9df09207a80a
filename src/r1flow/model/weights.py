"""What a model's safetensors hold, read from the files themselves, without torch and without loading them.

header_of(Path("results/r1_tiny/base/model/model.safetensors"))
{"model.embed_tokens.weight": {"dtype": "F32", "shape": [512, 128], "data_offsets": [0, 262144]}, …}

A model's folder is checked here, whoever reads or writes it: `check_model_files` looks at names and headers, in
milliseconds, and `check_finite` at every value, at 5 GB/s (a quarter of what the hash of the same bytes takes). Left
out: whether the weights are those of the model that config.json describes, which transformers says when it reads them
(pretrained.py).
"""

import ast
import importlib.util
import math
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from r1flow.core.errors import UserError, listed
from r1flow.core.files import MOST_JSON, parse_bounded, read_json, refuse_lfs_pointer

INDEX = "model.safetensors.index.json"
GENERATION = "generation_config.json"
# Of a shape, torch's own limits: a product of 1,000 numbers of 4,300 digits takes 49 s.
MOST_AXES, LONGEST_AXIS = 64, 2**63
BITS = {"F64": 64, "F32": 32, "BF16": 16, "F16": 16, "I64": 64, "I32": 32, "I16": 16, "I8": 8, "U8": 8, "BOOL": 8}
FLOATS = {"F64", "F32", "BF16", "F16"}  # what safetensors calls the types that can be trained
# Keys of config.json for what transformers makes room for: 10^6 heads of keys took a tiny model 36 s and 8.7 GB.
HEADS = ("num_attention_heads", "num_key_value_heads", "n_head")
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_intermediate_size")
WIDTHS = (*HEADS, *EXPERTS, "vocab_size", "hidden_size", "intermediate_size", "head_dim", "n_embd", "n_inner")
DEPTHS = ("num_hidden_layers", "n_layer")
DIVISORS = ("rope_theta", "factor")  # keys of numbers by which positions are divided
DEEPEST = 8  # keys one within the other; a model's configuration has 4
# How numbers are read, the bits of their exponent, and the first one of a number that isn't finite; of a float64 that
# isn't finite in float32. numpy has no bfloat16, and no fast check of float16.
EXPONENTS = {
    "F64": (np.uint64, 0x7FF0000000000000, 0x47F0000000000000),
    "F32": (np.uint32, 0x7F800000, 0x7F800000),
    "F16": (np.uint16, 0x7C00, 0x7C00),
    "BF16": (np.uint16, 0x7F80, 0x7F80),
}
AT_ONCE = 1 << 18  # numbers: the fastest of 2^16 to 2^20
DIVERGED = "the training has diverged: lower trainer.learning_rate (muon.lr and adamw.lr in a pretraining)"
AGAIN = "copy or download it again"


def parameters_in(folder: Path) -> float:
    """The parameters of the model in a folder; 0 if it has no safetensors, nan if one of them can't be read."""
    return sum(map(numbers_in, folder.glob("*.safetensors")))


def numbers_in(path: Path) -> float:
    """How many numbers a safetensors file holds; nan for any other file."""
    try:
        header = header_of(path)
    except UserError:
        return math.nan
    return sum(math.prod(tensor["shape"]) for tensor in header.values())


def header_of(path: Path) -> dict[str, dict[str, Any]]:
    """Each tensor's dtype, shape and place in the file, by its name; raises UserError for a file that isn't whole.

    The tensors stand one after the other and fill the file: a header can't promise more than there is.
    """
    refuse_lfs_pointer(path)
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > size - 8:
            raise UserError(f"{path} is cut or damaged: it ends within its header; {AGAIN}")
        if length > MOST_JSON:  # 91,000 tensors, the most of a known model, take 12 MB
            raise UserError(f"{path}: its header has more than {MOST_JSON // 10**6} MB, and isn't read; {AGAIN}")
        try:
            header = parse_bounded(file.read(length))
            header.pop("__metadata__", None)
            places = sorted(map(place_of, header.values()))
        except Exception as error:  # a stranger's JSON may be of any shape
            raise UserError(f"{path} is damaged: its header can't be read ({error}); {AGAIN}") from error
    end = 0
    for begin, stop in places:
        if begin != end:
            raise UserError(f"{path} is damaged: its tensors overlap or leave gaps; {AGAIN}")
        end = stop
    if 8 + length + end != size:
        stated = 8 + length + end
        raise UserError(f"{path} is cut or damaged: it has {size} bytes and its header says {stated}; {AGAIN}")
    return header


def place_of(tensor: dict[str, Any]) -> tuple[int, int]:
    """Where a tensor begins and ends; raises ValueError unless it has room for its shape."""
    (begin, end), shape = tensor["data_offsets"], tensor["shape"]
    if not all(type(size) is int and 0 <= size < LONGEST_AXIS for size in (begin, end, *shape)):
        raise ValueError("a size is no number that it can be")
    if len(shape) > MOST_AXES:
        raise ValueError(f"a shape of {len(shape)} numbers")
    bits = BITS.get(tensor["dtype"])
    if end < begin or (bits and math.prod(shape) * bits != (end - begin) * 8):
        raise ValueError("a tensor isn't as large as its shape")
    return begin, end


def shards_of(folder: Path) -> list[Path]:
    """The files that transformers reads a model's weights from; raises UserError if its index can't be read."""
    index = folder / INDEX
    if (folder / "model.safetensors").is_file() or not index.is_file():
        return [folder / "model.safetensors"]
    listing = read_object(index)
    if not isinstance(listing.get("metadata"), dict):
        raise UserError(f'{index}: it has no metadata, which transformers asks for; add "metadata": {{}} to it')
    names = listing.get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise UserError(f"{index}: it has no weight_map that names files; {AGAIN}")
    for name in set(names.values()):
        if Path(name).name != name:
            raise UserError(f"{index}: {name!r} isn't the name of a file in this folder; {AGAIN}")
    return [folder / name for name in sorted(set(names.values()))]


def read_object(path: Path) -> dict[str, Any]:
    """A JSON file of a model's folder; raises UserError if it isn't there, or is none."""
    if not path.is_file():
        raise UserError(f"{path.parent} has no {path.name}; name the folder of a whole model")
    refuse_lfs_pointer(path)
    settings = read_json(path)
    if not isinstance(settings, dict):
        raise UserError(f"{path} holds no settings; {AGAIN}")
    for keys, value in numbers_within(settings):
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"{path}: {'.'.join(keys)} is {value}, which isn't finite; {AGAIN}")
        if keys[-1] in DIVISORS and value <= 0:
            raise UserError(f"{path}: {'.'.join(keys)} is {value}, and must be above 0; {AGAIN}")
    return settings


def numbers_within(settings: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], float]]:
    """Each number of nested settings with the keys that lead to it: (("rope_parameters", "rope_theta"), 10000.0)."""
    for key, value in settings.items():
        keys = (*above, key)
        if isinstance(value, dict) and len(keys) < DEEPEST:
            yield from numbers_within(value, keys)
        elif isinstance(value, float) or type(value) is int:
            yield keys, value


def check_model_files(folder: Path | str) -> None:
    """Raise UserError, which names the file and the remedy, unless a folder holds a whole model as safetensors."""
    folder = Path(folder)
    if (folder / "adapter_config.json").is_file():
        raise UserError(
            f"{folder} holds an adapter (adapter_config.json), which is a part of a model; merge it into its base model"
            " (peft's merge_and_unload, then save_pretrained) and name the folder of the result"
        )
    if not any(folder.glob("*.safetensors")) and not (folder / INDEX).is_file():
        pickled = (
            "pickled weights can run code and aren't read: load the model elsewhere and save it with save_pretrained"
        )
        raise UserError(f"{folder} has no *.safetensors; {gguf_hint(folder) or pickled}")
    for path in sorted(folder.iterdir()):
        if path.suffix in (".json", ".jinja", ".txt", ".model"):
            refuse_lfs_pointer(path)
    read_object(folder / "config.json")
    # transformers would take its own values for a file that it can't read.
    if (folder / GENERATION).is_file():
        read_object(folder / GENERATION)
    shards, found = shards_of(folder), {}
    for path in shards:
        if not path.is_file():
            wanted = f"as {INDEX} says" if (folder / INDEX).is_file() else f"and no {INDEX}, which would name others"
            raise UserError(f"{folder} has no {path.name}, {wanted}; {AGAIN}")
        found[path.name] = header_of(path)
    if folder / "model.safetensors" not in shards:
        check_index(folder / INDEX, found)


def gguf_hint(place: Path) -> str | None:
    """What to do with a GGUF file, or a folder of such files, where a model's folder is wanted; None for another."""
    files = [place] if place.suffix == ".gguf" else sorted(place.glob("*.gguf"))
    return f"a run can start from a GGUF file (model={files[0]})" if files else None


def check_index(index: Path, headers: dict[str, dict[str, Any]]) -> None:
    """Refuse an index that doesn't agree with its files: of two files with one tensor, either could be taken."""
    told = {(name, str(file)) for name, file in read_object(index)["weight_map"].items()}
    there = set()
    for file, tensors in headers.items():
        there |= {(name, file) for name in tensors}
    wrong = [name for name, _ in told - there] + [f"{name} in {file}" for name, file in there - told]
    if wrong:
        raise UserError(f"{index}: it and its files don't agree on {listed(sorted(wrong), 3)}; {AGAIN}")


def check_sizes(folder: Path) -> None:
    """Refuse sizes that a whole folder's weights haven't, before anything makes room for them; raises UserError."""
    config, shapes = read_object(folder / "config.json"), []
    for path in shards_of(folder):
        shapes += [tensor["shape"] for tensor in header_of(path).values()]
    largest = max(chain.from_iterable(shapes), default=0)
    for key, limit in (dict.fromkeys(WIDTHS, largest) | dict.fromkeys(DEPTHS, len(shapes))).items():
        if isinstance(size := config.get(key), int) and size > limit:
            raise UserError(f"{folder}/config.json: {key} is {size}, and the weights have at most {limit}; {AGAIN}")
    width, all_heads, hidden = (config.get(key) for key in ("head_dim", "num_attention_heads", "hidden_size"))
    if width is None and isinstance(all_heads, int) and isinstance(hidden, int):
        width = hidden // max(all_heads, 1)
    for key in HEADS:
        heads = config.get(key)
        if isinstance(heads, int) and isinstance(width, int) and heads * width > largest:
            raise UserError(
                f"{folder}/config.json: {key} is {heads}, each of {width} features, and the weights have at most"
                f" {largest}; {AGAIN}"
            )


def trainable_kind(folder: Path | str) -> str:
    """The model_type in a folder's config.json; raises UserError for quantised weights and for no language model.

    A model that fills gaps, such as BERT, reads in both directions, so it would see what it is to write next.
    """
    refuse_quantised(folder)
    config = read_object(Path(folder, "config.json"))
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in architectures("CAUSAL_LM"):
        raise UserError(
            f"{folder}/config.json: transformers has no language model of the model_type {kind!r}; choose a model of"
            " another kind, such as llama, qwen2, qwen3, mistral or gemma3_text"
        )
    if kind in architectures("MASKED_LM") and not (config.get("is_decoder") or config.get("causal")):
        raise UserError(
            f"{folder}/config.json: a {kind} model reads a text in both directions, so it can't write one; choose a"
            " language model, such as llama, qwen2 or qwen3 (or is_decoder: true, if it was trained as one)"
        )
    return kind


def refuse_quantised(folder: Path | str) -> None:
    method = read_object(Path(folder, "config.json")).get("quantization_config")
    if method:
        kind = method.get("quant_method") if isinstance(method, dict) else method
        raise UserError(f"{folder}: its weights are quantised ({kind}) and can't be trained; take unquantised ones")
    for path in sorted(Path(folder).glob("*.safetensors")):
        for name, tensor in header_of(path).items():
            # Masks and positions, which are whole numbers, have other names.
            if name.endswith(".weight") and tensor["dtype"] not in FLOATS:
                raise UserError(
                    f"{path}: {name} is of the type {tensor['dtype']}, as quantised weights are, and can't be trained;"
                    " take unquantised ones"
                )


@cache
def architectures(task: str) -> set[str]:
    """The model_type of each model that transformers has for a task, read from its source: importing takes seconds."""
    place = Path(importlib.util.find_spec("transformers").origin).parent / "models/auto/modeling_auto.py"
    for node in ast.parse(place.read_text()).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if [ast.unparse(target) for target in targets] == [f"MODEL_FOR_{task}_MAPPING_NAMES"]:
            return {kind for kind, _ in ast.literal_eval(node.value.args[0])}
    raise UserError(f"{place}: it lists no models for {task}; install the pinned transformers (constraints.txt)")


def check_finite(folder: Path | str, remedy: str) -> None:
    """Raise UserError, which ends with `remedy`, if a weight in a folder's safetensors is NaN or infinite."""
    bad: list[str] = []
    for path in sorted(Path(folder).glob("*.safetensors")):
        bad += not_finite(path)
    if bad:
        raise UserError(f"{folder}: weights that aren't finite (NaN or infinity): {listed(bad, 3)}; {remedy}")


def not_finite(path: Path) -> Iterator[str]:
    """The names of the tensors of a safetensors file that hold a value that isn't finite."""
    header = header_of(path)
    with path.open("rb") as file:
        first = 8 + int.from_bytes(file.read(8), "little")
        for name, tensor in header.items():
            if tensor["dtype"] in EXPONENTS:
                file.seek(first + tensor["data_offsets"][0])
                if not is_finite(file, math.prod(tensor["shape"]), *EXPONENTS[tensor["dtype"]]):
                    yield name


def is_finite(file: Any, count: int, kind: type[np.unsignedinteger], exponent: int, least: int) -> bool:
    """Whether the next `count` numbers of an open file are finite; it reads a few at a time, whatever their number."""
    for start in range(0, count, AT_ONCE):
        bits = np.fromfile(file, kind, min(AT_ONCE, count - start))
        if (bits & kind(exponent)).max() >= least:
            return False
    return True
