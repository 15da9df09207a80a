"""Checks and costs that all trainings have in common: required options, the model to start from, exact resuming."""

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from r1flow.artifacts.contract import model_apart
from r1flow.artifacts.folders import model_inside
from r1flow.core.errors import UserError, errors_at
from r1flow.core.flops import forward_flops, training_flops
from r1flow.data.gguf import is_gguf
from r1flow.data.sources import COMMIT, lock_command
from r1flow.programs.cost_estimate import BF16, F32, Cost, Estimator
from r1flow.programs.keys import NotNegative, OneOrMore, Positive, Share, ShareAboveZero, ShareBelowOne, in_range
from r1flow.programs.model_sizes import UNKNOWN, Model
from r1flow.training.ranks import strategy_of

# The trainer options that r1flow itself reads too, in checks, estimates and resuming; trainers have defaults for all.
TRANSFORMERS = (("transformers", "training_args.py"),)
TRL = (*TRANSFORMERS, ("trl", "trainer/base_config.py"))
STEPS = (
    *("max_steps", "per_device_train_batch_size", "gradient_accumulation_steps"),
    *("save_strategy", "save_steps", "logging_steps"),
)


def check_there(trainer: dict[str, Any], keys: Iterable[str]) -> None:
    for key in keys:
        if key not in trainer:
            raise UserError(f"trainer.{key}: it is missing; give it a value, in conf/ or as an override")


# Trainer options that are numbers in a range.
RANGES = {
    **dict.fromkeys(("per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation"), OneOrMore),
    **dict.fromkeys(("generation_batch_size", "num_iterations", "max_length", "max_completion_length"), OneOrMore),
    **dict.fromkeys(("learning_rate", "weight_decay", "max_grad_norm", "warmup_steps", "adam_epsilon"), NotNegative),
    **dict.fromkeys(("beta", "epsilon", "epsilon_high", "temperature", "neftune_noise_alpha"), NotNegative),
    **dict.fromkeys(("adam_beta1", "adam_beta2", "label_smoothing_factor"), ShareBelowOne),
    "num_train_epochs": Positive,
    "top_p": ShareAboveZero,
    "min_p": Share,
}


def check_ranges(trainer: dict[str, Any]) -> None:
    """Refuse numbers out of their range (null is allowed), and pairs of options that exclude each other."""
    for key, kind in RANGES.items():
        number, (holds, remedy) = trainer.get(key), in_range(kind)
        if number is not None and not holds(number):
            raise UserError(f"trainer.{key}: {number}; {remedy}")
    if trainer.get("logging_nan_inf_filter"):
        raise UserError("trainer.logging_nan_inf_filter: true would write 0 for a loss that is NaN; leave it out")
    for one, other in (("fp16", "bf16"), ("generation_batch_size", "steps_per_generation")):
        if trainer.get(one) and trainer.get(other):
            raise UserError(
                f"trainer.{one}: {trainer[one]} and {other}: {trainer[other]} exclude each other; set only one of them"
            )
    if trainer.get("fp16") and trainer.get("use_cpu"):
        raise UserError("trainer.fp16: true needs device: cuda; a CPU would compute in float32; leave it false")


def check_lora(lora: dict[str, Any]) -> None:
    """Refuse adapters of no layer; whether the model has modules of these names is only known when it is loaded."""
    names = lora["target_modules"]
    listed = names if isinstance(names, list) else [names]
    if not listed or not all(isinstance(name, str) and name for name in listed):
        raise UserError(f"lora.target_modules: {names!r}; use all-linear or a list of names, like [q_proj, v_proj]")
    if "lm_head" in listed:
        raise UserError(
            "lora.target_modules: TRL reads lm_head without its adapters; take it out (all-linear has none)"
        )


# What the stage decides: another value would be lost, or be the saved tokenizer's and not that of the rows.
DECIDED = {
    **dict.fromkeys(("output_dir", "resume_from_checkpoint"), "the stage finds its own snapshots; leave it out"),
    **dict.fromkeys(("seed", "data_seed"), "every stage derives it from the run's seed; set that"),
    **dict.fromkeys(("eos_token", "pad_token"), "rows have the model's; name it in its tokenizer_config.json"),
    "chat_template_path": "set the stage's template instead",
    **dict.fromkeys(
        ("dataset_kwargs", "dataset_text_field", "remove_unused_columns"), "the stage makes the rows; leave it out"
    ),
    "model_init_kwargs": "the stage reads the model; leave it out",
}
# Options that trainers of one kind or another don't read, with the values that ask for nothing.
SMOOTHING = {"label_smoothing_factor": (0, None)}


def check_decided(trainer: dict[str, Any]) -> None:
    for key, remedy in DECIDED.items():
        if trainer.get(key) is not None:
            raise UserError(f"trainer.{key}: {trainer[key]} would be lost: {remedy}")


def check_read(trainer: dict[str, Any], unread: Mapping[str, tuple[Any, ...]]) -> None:
    """Refuse options that this kind of training doesn't read, unless they ask for nothing: they would be lost."""
    for key, nothing in unread.items():
        if trainer.get(key, nothing[0]) not in nothing:
            raise UserError(f"trainer.{key}: {trainer[key]} changes nothing in this kind of training; leave it out")


# With any other value a resumed training lacks something that the snapshot doesn't hold: the reference model that
# follows the policy, the position in the data, the optimizer, or the losses since the last logged step.
RESUMABLE = {"sync_ref_model": False, "ignore_data_skip": False, "save_only_model": False, "logging_strategy": "steps"}


def check_resume(trainer: dict[str, Any]) -> None:
    """Refuse a training that, killed and resumed, would end with other weights or another curve than without a kill."""
    save, log = trainer["save_steps"], trainer["logging_steps"]
    if trainer["save_strategy"] == "no":
        return
    for key, value in RESUMABLE.items():
        if trainer.get(key, value) != value:
            raise UserError(
                f"trainer.{key}: {trainer[key]} would make a resumed training differ; set it to {str(value).lower()},"
                ' or set save_strategy: "no"'
            )
    if trainer.get("train_sampling_strategy") == "group_by_length":
        raise UserError(
            "trainer.train_sampling_strategy: group_by_length gives a training that is resumed in a later epoch the"
            ' order of the first; use random, or set save_strategy: "no"'
        )
    if log != 1 and (log < 1 or save % log or trainer["save_strategy"] != "steps"):
        raise UserError(
            f"trainer.save_steps: {save} isn't a multiple of logging_steps, {log}, so a resumed training's curve"
            " would differ; choose a multiple"
        )


def check_start(source: str, revision: str | None, stages: Collection[str]) -> None:
    """Require that a model to start from is a stage, a model directory, or a hub id with a pinned revision."""
    if source in stages:
        return
    if is_gguf(source):
        raise UserError(f"init_from: {source}: only base and student_base take that; name it there, and the stage here")
    folder = Path(source)
    if revision is not None:
        check_revision("model", source, revision)
    elif not any((folder / name).is_file() for name in ("config.json", "adapter_config.json")):
        inside = model_inside(folder)
        others = f"name a folder, one of the stages {', '.join(stages)}, or a hub id with its revision"
        hint = f"{inside} has one" if inside else others
        raise UserError(f"init_from: {source!r} is no stage and no model's folder (no config.json in it); {hint}")
    else:
        with errors_at("init_from: "):
            model_apart(folder)


def check_revision(kind: str, repo: str, revision: str) -> None:
    """Require that a hub repository is pinned by a commit, since branches and tags can move."""
    if Path(repo).exists():
        raise UserError(f"revision: {repo} is a folder here, and only a hub id has a revision; set it to null")
    if not COMMIT.fullmatch(revision):
        pin = f"pin it with `{lock_command(kind, repo, revision)}`"
        raise UserError(f"revision: {revision!r} is no commit (40 hex digits), so it can move; {pin}")


def curves_of(names: Iterable[str], config: dict[str, Any], metrics: dict[str, Any]) -> dict[str, str]:
    """The curves that every training of a kind must have, with the reason; none if it is too short to log a step."""
    trainer, steps = config["trainer"], metrics.get("steps", 1)
    logs = trainer.get("logging_strategy", "steps") == "steps" and steps >= trainer.get("logging_steps", 500)
    return dict.fromkeys(names if logs else (), "every such training has it")


# What they cost.

TILE = (4096, 32768)  # tokens × vocabulary of the logits that TRL holds at a time


def cost_of(
    estimator: Estimator,
    job: str,
    config: dict[str, Any],
    trained: float,
    mean: float,
    longest: float,
    *,
    drawn: float = 0,
    in_turn: float = 0,
    scored: float = 0,
    logits: Callable[[float, Model], float] | None = None,
    **others: Any,
) -> Cost:
    """The cost of a training on `trained` tokens, in rows of `mean` tokens and at most of `longest`.

    `drawn` tokens are sampled, with `in_turn` passes one after another, and `scored` ones get a forward pass only.
    `logits` gives the bytes of the logits of one pass, by its tokens (default: TRL's own).
    """
    model, trainer, memory = estimator.model(job), config["trainer"], others.pop("memory", memory_of)
    states, host = memory(config, model.parameters, estimator.reward(job))
    rows = trainer["per_device_train_batch_size"]
    # A forward pass alone takes a third of the time of one with its backward pass.
    passes = (trained + scored / 3) / (rows * row_tokens(trainer, mean))
    kept = 0 if trainer.get("save_strategy") == "no" else (trainer.get("save_total_limit") or 1) + 1
    fields = {
        "parameters": model.parameters,
        "sampled": drawn,
        "trained": trained,
        "sampling": forward_flops(model.parameters, drawn),
        "training": training_flops(model.parameters, trained) + forward_flops(model.parameters, scored),
        "layer_tokens": model.layers * in_turn,
        "layer_passes": model.layers * passes,
        "disk": 2 * F32 * model.parameters,
        "weights": F32 * model.parameters,
        "snapshot": model.parameters * (F32 + optimizer_of(config)),
        "snapshots": kept,  # the next one is written before the oldest goes
        "states": states,
        "host": host,
        "is_shared": strategy_of(config) != "ddp",
        "activations": (logits or chunked)(rows * longest, model)
        + layers(rows * longest, trainer, model, estimator.assumed["activation_bytes"]),
    }
    return Cost(job, **fields | others)


def memory_of(
    config: dict[str, Any], parameters: float, reward: float = 0, reference: bool = False
) -> tuple[float, float]:
    """Bytes that memory needs whatever the batch, and bytes of weights that each process first loads on the host.

    `reward` is the size of a reward model; `reference`: whether the starting model is kept, too. Every rank loads all
    weights, even if they are sharded later: transformers (5.17) can let one rank load, but the others then fill as much
    memory with zeros.
    """
    lora = config.get("lora")
    host = (parameters * (2 if reference and not lora else 1) + reward) * F32
    if lora:  # frozen weights, which are the reference too
        return (parameters + reward) * F32, host
    return parameters * (F32 + F32 + optimizer_of(config) + F32 * reference) + reward * F32, host


def optimizer_of(config: dict[str, Any]) -> float:
    """Bytes of the optimizer's state per parameter: AdamW has two moments, Muon one."""
    if "muon" in config:
        return F32
    return 2 * F32 if config["trainer"].get("optim", "").startswith("adamw_torch") else UNKNOWN


def layers(tokens: float, trainer: dict[str, Any], model: Model, bytes_each: float) -> float:
    """A rough bound of one pass's activations: all layers' or, with checkpointing, layers' inputs and one layer's."""
    layer = tokens * model.hidden * bytes_each
    kept = tokens * model.hidden * BF16 * model.layers + layer
    return kept if trainer.get("gradient_checkpointing") else layer * model.layers


def chunked(tokens: float, model: Model) -> float:
    """Bytes of TRL's tile of logits (1.16, kernels/chunked_logprob.py), and of head's and inputs' gradients (F32)."""
    return BF16 * min(tokens, TILE[0]) * min(model.vocabulary, TILE[1]) + F32 * model.hidden * (
        model.vocabulary + tokens
    )


def taught(estimator: Estimator, config: dict[str, Any], mean: float, maker: str = "data") -> float:
    """The tokens that a supervised training on rows of this mean length sees."""
    trainer, file = config["trainer"], Path(config["data"]["file"]).stem
    if trainer["max_steps"] > 0:
        return trainer["max_steps"] * batch(trainer) * row_tokens(trainer, mean)
    rows = estimator.rows_of(file, config["data"]["limit"], maker) / (1 - config["data"].get("general_share", 0))
    return trainer["num_train_epochs"] * rows * mean


def row_tokens(trainer: dict[str, Any], mean: float) -> float:
    """Tokens of each of a batch's rows: of rows of this mean length, or of one that packing fills with several."""
    return trainer["max_length"] if trainer.get("packing") else mean


def batch(trainer: dict[str, Any]) -> int:
    return trainer["per_device_train_batch_size"] * trainer["gradient_accumulation_steps"]
