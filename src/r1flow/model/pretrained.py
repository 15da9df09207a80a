"""Reads models and tokenizers from folders without running anything in them: no pickles, no code of the folder's own.

    model = read_model(AutoModelForCausalLM, Path("results/r1_tiny/base/model"), dtype="float32")

All loading by transformers goes through here (a test checks that). Left out: vLLM, which calls `check_weights` first.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from r1flow.core.errors import UserError

DECODERS = ("llama", "mistral", "qwen2", "qwen3")  # model_type of those whose layers are all alike


def read_model(auto: Any, folder: Path | str, **options: Any) -> Any:
    """`auto.from_pretrained` of safetensors; raises UserError if there are none, or the folder's code would run."""
    check_weights(folder)
    return read_pretrained(auto, folder, use_safetensors=True, **options)


def read_pretrained(auto: Any, folder: Path | str, **options: Any) -> Any:
    """`auto.from_pretrained` for objects without weights; raises UserError if the folder's code would have to run."""
    try:
        return auto.from_pretrained(folder, trust_remote_code=False, **options)
    except ValueError as error:
        if "trust_remote_code" not in str(error):
            raise
        raise UserError(
            f"{folder}: transformers would have to run code from this folder (auto_map), and r1flow never does; choose"
            " a kind of model that is part of transformers"
        ) from error


def check_weights(folder: Path | str) -> None:
    """Raise UserError for a folder without weights as safetensors."""
    if not any(Path(folder).glob("*.safetensors")):
        raise UserError(
            f"{folder} has no *.safetensors; pickled weights can run code and aren't read: load the model elsewhere and"
            " save it with save_pretrained"
        )


def check_dropped(dropped: list[int], layers: int) -> None:
    """Raise UserError unless a model of so many layers has those to be dropped, from 0, each once, and one is left."""
    known = all(0 <= number < layers for number in dropped) and len(set(dropped)) == len(dropped)
    if not known or len(dropped) >= layers:
        raise UserError(
            f"drop_layers: {dropped}; the model has {layers} layers: give numbers from 0, each once, not all"
        )


def is_plain_llama(config: Mapping[str, Any]) -> bool:
    """Whether engine r1flow can sample a model: its config.json must be a Llama's, without biases."""
    biased = config.get("attention_bias") or config.get("mlp_bias")
    return config.get("model_type") == "llama" and not biased and config.get("hidden_act", "silu") == "silu"
