"""Facts about the program that evaluates a model, for plan, checks and report (programs/specs.py)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from r1flow.core.errors import UserError
from r1flow.programs.costs import KINDS, UNKNOWN, Book, Cost, least
from r1flow.programs.keys import Seeded
from r1flow.programs.samplings import check_sampling, cost_of, memory_of
from r1flow.programs.specs import Spec


@dataclass
class Evaluate(Seeded):
    split: str
    n_problems: int | None
    k: int
    temperature: float
    top_p: float
    max_new_tokens: int
    engine: str
    engine_options: dict[str, Any]
    batch_size: int
    shard_size: int
    language: str
    languages: list[str]
    reflection_words: list[str]
    thinking: list[float]


def check_evaluate(config: dict[str, Any]) -> None:
    """Refuse what can't be asked; temperatures of `thinking` name metrics, so each may stand there once."""
    check_sampling(config)
    for number, temperature in enumerate(config["thinking"]):
        if temperature < 0 or temperature in config["thinking"][:number]:
            raise UserError(f"thinking: {config['thinking']}; use temperatures of 0 or more, each of them once")


def files_read(config: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "split", f"{config['split']}.jsonl"


def cost(book: Book, job: str, config: dict[str, Any]) -> Cost:
    """The cost of sampling answers to all problems and general prompts."""
    split, limit, data = config["split"], config["n_problems"], book.run.slice("data")
    families = len(data["tasks"] if book.origin == "generated" else data["sources"])
    problems = least(book.rows.get(split, UNKNOWN), limit and limit * families)
    prompts = least(book.rows.get(f"general_{split}", 0), limit and limit * KINDS)
    return cost_of(book, job, config, (problems * (1 + len(config["thinking"])) + prompts) * config["k"])


SPEC = Spec(
    keys=Evaluate,
    outputs=lambda config: ["samples.parquet"],
    check=check_evaluate,
    files_read=files_read,
    owed={"tasks": dict, "thinking": list},
    cost=cost,
    memory=memory_of,
    on_gpu=True,
)
