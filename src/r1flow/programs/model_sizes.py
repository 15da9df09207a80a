"""The size of a model, from its config.json and the headers of its weights, without torch.

    model_in(Path("results/r1_tiny/base/model"))      Model(parameters=927872, hidden=128, layers=4, vocabulary=512)

A number that can't be known is nan.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from r1flow.artifacts.manifest import read_json
from r1flow.core.errors import UserError, errors_at
from r1flow.data.gguf import is_gguf, read_header
from r1flow.model.pretrained import DECODERS, check_dropped
from r1flow.model.weights import parameters_in

UNKNOWN = math.nan


@dataclass(frozen=True)
class Model:
    """The size of a model."""

    parameters: float
    hidden: float = UNKNOWN
    layers: float = UNKNOWN
    vocabulary: float = UNKNOWN


def model_of(config: dict[str, Any]) -> Model:
    """The size of a dense decoder, from its config.json; if it isn't built like a Llama, `parameters` is unknown."""
    hidden, layers, vocabulary = (
        config.get(key, UNKNOWN) for key in ("hidden_size", "num_hidden_layers", "vocab_size")
    )
    kind = config.get("model_type", "llama")
    if kind not in DECODERS:
        return Model(UNKNOWN, hidden, layers, vocabulary)
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or hidden // heads
    queries, groups = heads * width, (config.get("num_key_value_heads") or heads) * width
    attention = 2 * hidden * queries + 2 * hidden * groups
    attention += queries + 2 * groups if kind == "qwen2" else 0  # biases
    attention += 2 * width if kind == "qwen3" else 0  # norms of queries and keys
    layer = attention + 3 * hidden * config["intermediate_size"] + 2 * hidden
    tables = vocabulary * hidden * (1 if config.get("tie_word_embeddings") else 2)
    return Model(layers * layer + hidden + tables, hidden, layers, vocabulary)


def model_in(folder: Path) -> Model:
    """The size of the model in a folder or GGUF file: its parameters counted in the headers of its files."""
    if is_gguf(str(folder)):
        header = read_header(folder)
        vocabulary, hidden = header.tensors["token_embd.weight"].shape
        counted = sum(math.prod(tensor.shape) for tensor in header.tensors.values())
        return Model(counted, hidden, header.values["llama.block_count"], vocabulary)
    try:
        shape = model_of(read_json(folder / "config.json"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{folder}/config.json: no sizes of a model can be read from it ({error!r}); copy or download it again"
        ) from None
    return replace(shape, parameters=parameters_in(folder) or shape.parameters)


def model_outside(source: str, revision: str | None, assumed: dict[str, Any]) -> Model:
    """The size of a model on a hub or in a package, without network: from a cached config.json, else from the table."""
    from huggingface_hub import try_to_load_from_cache

    path = None if is_gguf(source) else try_to_load_from_cache(source, "config.json", revision=revision)
    config = read_json(Path(path)) if isinstance(path, str) else assumed["models"].get(source)
    return model_of(config) if config else Model(UNKNOWN)


def without_layers(model: Model, dropped: list[int], stage: str) -> Model:
    """The size without these layers, if all but one table of embeddings is in the layers."""
    if not math.isnan(model.layers):
        with errors_at(f"{stage}."):
            check_dropped(dropped, int(model.layers))
    table, left = model.vocabulary * model.hidden, model.layers - len(dropped)
    return replace(model, parameters=table + (model.parameters - table) * left / model.layers, layers=left)
