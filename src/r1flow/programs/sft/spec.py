"""Facts about the program that fine-tunes a model on examples, for plan, checks and report (programs/specs.py)."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from r1flow.core.errors import UserError
from r1flow.core.schema import MIX
from r1flow.programs.cost_estimate import Cost, Estimator, least
from r1flow.programs.keys import Rows, ShareBelowOne, Trained
from r1flow.programs.specs import Spec
from r1flow.programs.trainings import STEPS, TRL, cost_of, curves_of, memory_of, taught
from r1flow.recipe.stages import rows_of


@dataclass
class Examples(Rows):
    general_share: ShareBelowOne


@dataclass
class Sft(Trained):
    template: str | None
    data: Examples
    mask_results: bool


def check_sft(config: dict[str, Any]) -> None:
    """Refuse options with which more is learnt than is said, rows aren't truncated, or packed ones see each other."""
    trainer, data = config["trainer"], config["data"]
    if data["general_share"] and data["file"] == MIX:
        raise UserError(f"data.general_share: the rows of {data['file']} are mixed already; set it to 0")
    only = trainer.get("completion_only_loss")
    if config["mask_results"] and not only:
        raise UserError(
            f"mask_results: true, and with trainer.completion_only_loss: {json.dumps(only)} every token is learnt, what"
            " tools said, too; set that to true, or this to false"
        )
    if trainer.get("assistant_only_loss"):
        raise UserError(
            "trainer.assistant_only_loss: rows come to TRL as tokens, in which it finds no assistant; set it to false,"
            " and completion_only_loss to true"
        )
    if trainer.get("padding_free") and not trainer.get("packing") and trainer.get("max_length"):
        what = "without packing TRL doesn't truncate rows to max_length"
        raise UserError(f"trainer.padding_free: {what}; set max_length to null, or packing to true")
    if trainer.get("packing") and trainer.get("packing_strategy", "bfd") == "wrapped":
        raise UserError("trainer.packing_strategy: wrapped lets packed examples see each other; use bfd or bfd_split")


def files_read(config: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if config["data"]["general_share"]:
        yield "data.general_share", "general_sft.jsonl"


def curves(config: dict[str, Any], metrics: dict[str, Any]) -> dict[str, str]:
    return curves_of(("loss", "learning_rate", "token_accuracy"), config, metrics)


def cost(estimator: Estimator, job: str, config: dict[str, Any]) -> Cost:
    maker = rows_of(job, estimator.run.stages)
    longest = config["trainer"]["max_length"]
    mean = least(estimator.prompt + estimator.response(Path(config["data"]["file"]).stem, maker), longest)
    return cost_of(estimator, job, config, taught(estimator, config, mean, maker), mean, longest or mean)


SPEC = Spec(
    keys=Sft,
    outputs=lambda config: ["model/"],
    check=check_sft,
    files_read=files_read,
    trainer=(*TRL, ("trl", "trainer/sft_config.py")),
    read=(*STEPS, "num_train_epochs", "max_length"),
    metrics={"steps": int, "flops": float, "counts": dict, "history": list},
    curves=curves,
    by_ranks=True,
    cost=cost,
    memory=memory_of,
    # Of null, TRL makes false where rows are tokens.
    labels=lambda config: "response" if config["trainer"].get("completion_only_loss") else "all",
    on_gpu=True,
)
