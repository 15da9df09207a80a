"""Configuration keys that several programs have, with their types, and the types of numbers in a range."""

import operator
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt

from r1flow.core.errors import UserError, did_you_mean
from r1flow.data.leaks import EVALUATION
from r1flow.tracking.left_out import MOST_LOST

OneOrMore = Annotated[int, Ge(1)]
ZeroOrMore = Annotated[int, Ge(0)]
Share = Annotated[float, Ge(0), Le(1)]
ShareAboveZero = Annotated[float, Gt(0), Le(1)]
ShareBelowOne = Annotated[float, Ge(0), Lt(1)]
Positive = Annotated[float, Gt(0)]
NotNegative = Annotated[float, Ge(0)]
BOUNDS = {"ge": operator.ge, "gt": operator.gt, "le": operator.le, "lt": operator.lt}
REMEDIES = {
    ("ge",): "use {:g} or more",
    ("gt",): "use more than {:g}",
    ("ge", "le"): "use a number from {:g} to {:g}",
    ("gt", "le"): "use a number above {:g}, up to {:g}",
    ("ge", "lt"): "use {:g} or more, but less than {:g}",
}


def in_range(kind: Any) -> tuple[Callable[[float], bool], str]:
    """A test whether a number is in one of these ranges, and the remedy for one that isn't: the whole range."""
    bounds: dict[str, float] = {}
    for bound in kind.__metadata__:
        bounds |= asdict(bound)

    def holds(number: float) -> bool:
        return all(BOUNDS[name](number, bound) for name, bound in bounds.items())

    return holds, REMEDIES[tuple(bounds)].format(*bounds.values())


@dataclass
class Place:
    """The keys that every stage has: how it is computed."""

    threads: OneOrMore
    device: Literal["cpu", "cuda"]


@dataclass
class Seeded(Place):
    """The keys of every stage that draws random numbers."""

    seed: int


@dataclass(kw_only=True)
class Counting(Place):
    """The key of every stage that counts the rows that it loses (tracking/left_out.py)."""

    lost_share: Share = MOST_LOST


@dataclass
class Sampled(Seeded, Counting):
    """The keys of every stage that samples, in shards."""

    temperature: NotNegative  # 0: greedy
    top_p: ShareAboveZero
    max_new_tokens: OneOrMore
    engine: str
    engine_options: dict[str, Any]
    batch_size: OneOrMore
    shard_size: OneOrMore


@dataclass
class Lora:
    r: OneOrMore
    alpha: Positive
    dropout: ShareBelowOne
    target_modules: Any  # a list of names, or "all-linear"


@dataclass(kw_only=True)
class Trained(Seeded, Counting):
    """The keys of every training that may have adapters."""

    init_from: str
    attention: str
    trainer: dict[str, Any]
    strategy: str = "ddp"
    lora: Lora | None = None


@dataclass
class Rows:
    file: str
    limit: OneOrMore | None


@dataclass
class ToolUse:
    """The key `environment` of a stage whose model may call tools (sampling/environments.py)."""

    name: str | None
    tools: list[str]
    most_calls: OneOrMore
    most_characters: OneOrMore
    call_s: Positive


@dataclass
class Filter:
    name: str
    args: dict[str, Any] = field(default_factory=dict)


@dataclass
class Decontaminate:
    drop: bool
    reported_only: list[str]
    # Whether rows that resemble an evaluation problem as more than ten do are of a template.
    templates: bool = False


def check_reported(config: dict[str, Any]) -> None:
    for name in config["decontaminate"]["reported_only"]:
        if name not in EVALUATION:
            raise UserError(
                f"decontaminate.reported_only: {name!r} is no evaluation set{did_you_mean(name, list(EVALUATION))}"
            )
