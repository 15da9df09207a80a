"""Facts about the program that pretrains a base model or fetches one, for plan, checks and report (specs.py)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from r1flow.core.errors import UserError, errors_at
from r1flow.data.gguf import is_gguf, read_header
from r1flow.data.packages import PACKAGE, check_package
from r1flow.programs.cost_estimate import BF16, F32, Cost, Estimator
from r1flow.programs.keys import Counting, OneOrMore, Seeded
from r1flow.programs.model_sizes import UNKNOWN, Model
from r1flow.programs.specs import Spec
from r1flow.programs.trainings import STEPS, TRANSFORMERS, batch, check_read, cost_of, curves_of, memory_of


@dataclass
class Pretrain(Seeded, Counting):
    init_from: str | None
    revision: str | None
    template: str | None
    block: OneOrMore
    model: dict[str, Any]
    muon: dict[str, Any]
    adamw: dict[str, Any]
    trainer: dict[str, Any]
    file: str | None
    drop_layers: list[int]
    drop_weights: list[str]  # names or patterns of those that its config.json is without
    # Of the source's files, by name; a hub's are filled in from sources.lock.
    sha256: dict[str, str] | None = None


# The blocks muon and adamw have these.
BY_OPTIMIZERS = ("learning_rate", "optim", "optim_args", "optim_target_modules", "weight_decay")
BY_OPTIMIZERS += ("adam_beta1", "adam_beta2", "adam_epsilon")


def check_pretrain(config: dict[str, Any]) -> None:
    check_read(config["trainer"], dict.fromkeys(BY_OPTIMIZERS, (None,)))
    if not config["init_from"] and not config["template"]:
        raise UserError("template: a model trained from scratch has none of its own; choose one of conf/template/")
    if not config["init_from"]:
        check_size(config["model"], config["block"])
    source = config["init_from"] or ""
    if config["drop_layers"] and not source:
        raise UserError("drop_layers: a model trained from scratch has model.num_hidden_layers; set drop_layers to []")
    if config["drop_weights"] and (not source or is_gguf(source) or source.startswith(PACKAGE)):
        raise UserError("drop_weights: only a folder or hub id in init_from has such weights; leave it out")
    if is_gguf(source) and config["revision"]:
        raise UserError(f"revision: {source} has none; set it to null")
    if source.startswith(PACKAGE):
        check_package(source, config["file"], config.get("sha256"))
    elif config["file"]:
        raise UserError("file: it belongs to a package; name that in init_from, or set file to null")
    elif is_gguf(source):
        with errors_at("init_from: "):
            read_header(Path(source))


def check_size(model: dict[str, Any], block: int) -> None:
    """Refuse sizes of which no Llama can be made, and blocks that are longer than it can read."""
    for key, size in model.items():
        if isinstance(size, int) and not isinstance(size, bool) and size < 1:
            raise UserError(f"model.{key}: {size}; use 1 or more")
    hidden, heads = model["hidden_size"], model["num_attention_heads"]
    if hidden % heads and not model.get("head_dim"):
        raise UserError(f"model.num_attention_heads: {heads} doesn't divide hidden_size ({hidden}); use another number")
    groups = model.get("num_key_value_heads") or heads
    if heads % groups:
        raise UserError(f"model.num_key_value_heads: {groups} doesn't divide num_attention_heads ({heads})")
    if block > (positions := model["max_position_embeddings"]):
        raise UserError(f"block: {block} is more than model.max_position_embeddings; use {positions} or less")


def files_read(config: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if not config["init_from"]:
        yield "init_from", "corpus.jsonl"


def curves(config: dict[str, Any], metrics: dict[str, Any]) -> dict[str, str]:
    return {} if config["init_from"] else curves_of(("loss", "learning_rate"), config, metrics)


def cost(estimator: Estimator, job: str, config: dict[str, Any]) -> Cost:
    if config["init_from"]:
        model = estimator.model(job)
        size = model.parameters * (F32 if is_gguf(config["init_from"]) else BF16)
        return Cost(job, parameters=model.parameters, disk=2 * size, weights=size, host=model.parameters * F32)
    trainer = config["trainer"]
    if trainer["max_steps"] > 0:
        trained = trainer["max_steps"] * batch(trainer) * config["block"]
    else:
        trained = trainer["num_train_epochs"] * estimator.rows.get("corpus", UNKNOWN) * estimator.response("corpus")
    return cost_of(estimator, job, config, trained, config["block"], config["block"], logits=all_logits)


def all_logits(tokens: float, model: Model) -> float:
    """Bytes of the logits of all tokens and of their gradients: transformers' loss holds both, in float32."""
    return 2 * F32 * tokens * model.vocabulary


def memory(config: dict[str, Any], parameters: float, reward: float) -> tuple[float, float]:
    return (0, parameters * F32) if config["init_from"] else memory_of(config, parameters)


SPEC = Spec(
    keys=Pretrain,
    outputs=lambda config: ["model/"],
    check=check_pretrain,
    files_read=files_read,
    trainer=TRANSFORMERS,
    read=(*STEPS, "num_train_epochs"),
    metrics={"flops": float, "history": list},
    curves=curves,
    cost=cost,
    memory=memory,
    labels=lambda config: None if config["init_from"] else "all",
    on_gpu=True,
)
