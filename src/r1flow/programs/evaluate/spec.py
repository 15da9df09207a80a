"""What the neighbours of the program must know that examines a model."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from r1flow.programs.keys import Seeded
from r1flow.programs.samplings import check_sampling
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


def files_read(config: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "split", f"{config['split']}.jsonl"


SPEC = Spec(Evaluate, check_sampling, files_read)
