"""Reads models and tokenizers from folders without running anything in them: no pickles, no code of the folder's own.

    model = read_model(AutoModelForCausalLM, Path("results/r1_tiny/base/model"), dtype="float32")

All loading by transformers goes through here (a test checks that). transformers starts weights that it misses at random
and leaves out those that it doesn't know, with a table in the log only; here both are refused. Left out: vLLM, which
calls `check_weights` first and refuses such weights itself.
"""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from r1flow.core.errors import UserError, listed
from r1flow.model.weights import (
    GENERATION,
    check_finite,
    check_model_files,
    check_sizes,
    read_object,
    refuse_quantised,
    shards_of,
)

DECODERS = ("llama", "mistral", "qwen2", "qwen3")  # model_type of those whose layers are all alike
LEAST_BITS = 2  # of a file for each parameter: some are quantised to 4 bits, and two layers may share theirs
LONGEST = 300  # characters of what transformers says: it may list all models that it has
OTHER_MODEL = "choose another model, or train this one again with a lower trainer.learning_rate"


def read_model(
    auto: Any,
    folder: Path | str,
    *,
    new_head: bool = False,
    to_save: bool = True,
    drop_weights: Sequence[str] = (),
    **options: Any,
) -> Any:
    """`auto.from_pretrained` of safetensors that hold all of the model's weights and no others, all of them finite.

    With `new_head` what stands above the layers may be missing, and is then made at random: a reward model's head in
    place of a language model's. Without `to_save` the model is only asked, so it may be quantised. `drop_weights` has
    names, or patterns of names, of weights that the folder may have too many. Raises UserError for a folder that can't
    be taken, before anything of it would run.
    """
    check_weights(folder)
    if to_save:
        refuse_quantised(folder)
    check_described_size(auto, folder)
    # By names; check_loaded refuses them.
    told = {"output_loading_info": True, "ignore_mismatched_sizes": True}
    model, loaded = read_pretrained(auto, folder, use_safetensors=True, **told, **options)
    check_loaded(folder, model, loaded, new_head, drop_weights)
    if to_save and model.can_generate():
        make_savable(folder, model)
    return model


def read_pretrained(auto: Any, folder: Path | str, **options: Any) -> Any:
    """`auto.from_pretrained` without weights; raises UserError for what it can't read, or if code would have to run.

    Of a tokenizer only tokenizer.json is read: it has been tried in a process apart (artifacts/contract.py).
    """
    if auto.__name__ == "AutoTokenizer" and not Path(folder, "tokenizer.json").is_file():
        raise UserError(
            f"{folder} has no tokenizer.json, and no other form of a tokenizer is read; load it with transformers where"
            " it is trusted, save it again with save_pretrained, and name that folder"
        )
    try:
        return auto.from_pretrained(folder, trust_remote_code=False, **options)
    except Exception as error:  # of a stranger's files, transformers and tokenizers raise whatever they come upon
        raise UserError(f"{folder}: {reason_of(folder, error)}") from error


def reason_of(folder: Path | str, error: Exception) -> str:
    """Why transformers couldn't read a folder, in one line, with the remedy."""
    said = " ".join(str(error).split()) or type(error).__name__
    if "trust_remote_code" in said:
        return (
            "transformers would have to run code from this folder (auto_map), and r1flow never does; choose a kind of"
            " model that is part of transformers"
        )
    if "does not recognize this architecture" in said or "Unrecognized model" in said:
        kind = read_object(Path(folder, "config.json")).get("model_type")
        return (
            f"config.json: transformers doesn't know the model_type {kind!r}; choose a kind of model that it has (a"
            " newer transformers may have this one)"
        )
    return f"transformers can't read it ({said[:LONGEST]}); save it again with save_pretrained, or choose another"


def check_weights(folder: Path | str) -> None:
    """Raise UserError, whatever is to read the weights, for a folder from which they can't be taken.

    It has to hold a whole model as safetensors, of the sizes that its config.json says, and all of it finite.
    """
    check_model_files(folder)
    check_sizes(Path(folder))
    check_finite(folder, OTHER_MODEL)


def check_described_size(auto: Any, folder: Path | str) -> None:
    """Refuse a model far larger than the weights in its folder, before anything makes room for it; raises UserError.

    Sizes that config.json doesn't name, a kind of model adds: a folder of 4 MB that called itself gemma3 took 11 GB.
    """
    import torch
    from transformers import AutoConfig

    config = read_pretrained(AutoConfig, folder)
    try:
        with torch.device("meta"):
            parameters = sum(weight.numel() for weight in auto.from_config(config).parameters())
    except Exception as error:  # as above
        raise UserError(f"{folder}: {reason_of(folder, error)}") from error
    stored = sum(path.stat().st_size for path in shards_of(Path(folder)))
    if parameters > stored * 8 / LEAST_BITS:
        raise UserError(
            f"{folder}: config.json describes a model of {parameters} parameters, and the weights have {stored} bytes;"
            " load the model where it works and save it again with save_pretrained"
        )


def check_loaded(
    folder: Path | str, model: Any, loaded: Mapping[str, Any], new_head: bool, drop_weights: Sequence[str] = ()
) -> None:
    """Raise UserError for weights that a model lacks, hasn't, or has in another shape, by what transformers reports.

    It already leaves out what is known to be harmless: a tied head, positions that older versions saved.
    """
    missing, unexpected = set(loaded["missing_keys"]), set(loaded["unexpected_keys"])
    if new_head:
        layers = f"{model.base_model_prefix}."
        missing = {name for name in missing if name.startswith(layers)}
        unexpected = {name for name in unexpected if name.startswith(layers)}
    for pattern in drop_weights:
        dropped = {name for name in unexpected if fnmatchcase(name, pattern)}
        if not dropped:
            raise UserError(f"drop_weights: {pattern}: {folder} has no weight of this name that its model is without")
        unexpected -= dropped
    wrong = {name for name, *_ in loaded["mismatched_keys"]}
    faults = []
    for names, what in ((missing, "missing"), (unexpected, "unknown to this model"), (wrong, "of another shape")):
        if names:
            faults.append(f"{what}: {listed(sorted(names), 3)}")
    if faults:
        named = "" if missing or wrong else ", or name what it can do without in base.drop_weights"
        raise UserError(
            f"{folder}: the weights aren't those of the model in config.json ({'; '.join(faults)}); load the model"
            f" where it works and save it again with save_pretrained{named}"
        )


def make_savable(folder: Path | str, model: Any) -> None:
    """Repair or refuse, before anything is computed, settings of a model with which transformers wouldn't save it.

    Many published models have a temperature in generation_config.json and no do_sample: transformers reads them, warns,
    and raises an exception when it is to write them. The temperature says that sampling was meant, so do_sample is set.
    """
    settings = model.generation_config
    if not settings.do_sample and not is_savable(settings):
        settings.do_sample = True
        if is_savable(settings):
            said = f"{folder}: {GENERATION} has values for sampling without do_sample: true, which is added"
            print(said, file=sys.stderr)
    with tempfile.TemporaryDirectory() as trial:
        for name, part in ((GENERATION, settings), ("config.json", model.config)):
            try:
                part.save_pretrained(trial)
            except ValueError as error:
                said = " ".join(str(error).partition("If you're using")[0].split())
                raise UserError(
                    f"{folder}: transformers couldn't save this model with its settings; take out of {name} what it"
                    f" names here: {said}"
                ) from error


def is_savable(settings: Any) -> bool:
    try:
        settings.validate(strict=True)
    except ValueError:
        return False
    return True


def check_dropped(dropped: list[int], layers: int) -> None:
    """Raise UserError unless a model of so many layers has those to be dropped, from 0, each once, and one is left."""
    known = all(0 <= number < layers for number in dropped) and len(set(dropped)) == len(dropped)
    if not known or len(dropped) >= layers:
        raise UserError(
            f"drop_layers: {dropped}; the model has {layers} layers: give numbers from 0, each once, not all"
        )


OUR_KINDS = ("llama", "qwen2", "qwen3")  # model_type of those that have a forward pass in llama.py


def has_our_pass(config: Mapping[str, Any]) -> bool:
    """Whether llama.py can compute a model with this config.json, and so engine r1flow can sample it."""
    slides = config.get("use_sliding_window") or set(config.get("layer_types") or ()) - {"full_attention"}
    return config.get("model_type") in OUR_KINDS and config.get("hidden_act", "silu") == "silu" and not slides


def positions_of(config: Any) -> int | None:
    """How many tokens a model is made for, by its configuration; None if that doesn't say."""
    config = config.get_text_config()
    positions = getattr(config, "max_position_embeddings", None)
    scaling = getattr(config, "rope_parameters", None) or {}
    if positions and scaling.get("factor") and scaling.get("original_max_position_embeddings"):
        positions = max(positions, int(scaling["factor"] * scaling["original_max_position_embeddings"]))
    return positions
