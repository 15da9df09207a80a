"""What the neighbours of the program must know that makes a model from nothing, or takes one from a hub."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from r1flow.core.errors import UserError
from r1flow.programs.keys import Seeded
from r1flow.programs.specs import Spec
from r1flow.programs.trainings import STEPS, TRANSFORMERS


@dataclass
class Pretrain(Seeded):
    init_from: str | None
    revision: str | None
    template: str | None
    block: int
    model: dict[str, Any]
    muon: dict[str, Any]
    adamw: dict[str, Any]
    trainer: dict[str, Any]
    sha256: dict[str, str] | None = None  # of the hub's files, by name; sources.lock brings them


def check_pretrain(config: dict[str, Any]) -> None:
    if not config["init_from"] and not config["template"]:
        raise UserError("template: a model from nothing has none of its own; choose one of conf/template/")


def files_read(config: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if not config["init_from"]:
        yield "init_from", "corpus.jsonl"


SPEC = Spec(Pretrain, check_pretrain, files_read, trainer=TRANSFORMERS, read=(*STEPS, "num_train_epochs"))
