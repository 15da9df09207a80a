"""Configuration keys that several programs have, with their types."""

from dataclasses import dataclass, field
from typing import Any

from r1flow.core.errors import UserError, did_you_mean
from r1flow.data.leaks import EVALUATION
from r1flow.tracking.left_out import MOST_LOST


@dataclass
class Place:
    """The keys that every stage has: how it is computed."""

    threads: int
    device: str


@dataclass
class Seeded(Place):
    """The keys of every stage that draws random numbers."""

    seed: int


@dataclass
class Sampled(Seeded):
    """The keys of every stage that samples, in shards."""

    temperature: float
    top_p: float
    max_new_tokens: int
    engine: str
    engine_options: dict[str, Any]
    batch_size: int
    shard_size: int


@dataclass
class Rows:
    file: str
    limit: int | None


@dataclass
class Lora:
    r: int
    alpha: float
    dropout: float
    target_modules: Any  # a list of names, or "all-linear"


@dataclass
class Filter:
    name: str
    args: dict[str, Any] = field(default_factory=dict)


@dataclass
class Decontaminate:
    drop: bool
    reported_only: list[str]


def check_share(key: str, share: float) -> None:
    if not 0 <= share < 1:
        raise UserError(f"{key}: {share}; use 0 or a share below 1")


def check_lost_share(config: dict[str, Any]) -> None:
    share = config.get("lost_share", MOST_LOST)
    if not 0 <= share <= 1:
        raise UserError(f"lost_share: {share}; use a share from 0 (no row may be lost) to 1 (all may)")


def check_reported(config: dict[str, Any]) -> None:
    for name in config["decontaminate"]["reported_only"]:
        if name not in EVALUATION:
            raise UserError(
                f"decontaminate.reported_only: {name!r} is no evaluation set{did_you_mean(name, list(EVALUATION))}"
            )
