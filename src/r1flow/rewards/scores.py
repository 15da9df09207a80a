"""The interface of a reward: TRL's call signature, and how a missing score is represented.

    reward(prompts, completions, **columns) -> list[float | None]        columns are lists too: answer=["5", …]

A completion is text or a chat whose last message is the reply; where the chat keeps the reasoning apart, rewards see it
between its tags. None is not 0: it means that the reward doesn't apply to this row, or that the row couldn't be graded;
`Scores` records which, row by row. No text of a model makes a reward raise. A row's score depends on that row alone,
unless the reward documents that it compares a group of one prompt.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from functools import wraps
from numbers import Real
from typing import Any

from r1flow.core.errors import UserError
from r1flow.core.template import APART, Response
from r1flow.grading.verdict import Cause

RewardInput = str | list[dict[str, Any]]
Reward = Callable[..., list[float | None]]
LogMetric = Callable[[str, float], None]


class Scores(list[float | None]):
    """One score per row, and by row number the causes of missing scores (or of time-outs)."""

    def __init__(self) -> None:
        super().__init__()
        self.causes: dict[int, Cause] = {}

    @classmethod
    def of(cls, rows: Iterable[float | Cause | tuple[float, Cause]]) -> "Scores":
        """From one entry per row: a score, the cause of a missing score, or a score with the cause why it is low."""
        scores = cls()
        for entry in rows:
            value, cause = entry if isinstance(entry, tuple) else (entry, None)
            if isinstance(entry, Cause):
                value, cause = None, entry
            if cause is not None:
                scores.causes[len(scores)] = cause
            scores.append(value)
        return scores

    def failed(self, row: int) -> bool:
        """Whether grading failed, which makes a row's sum unknown."""
        return self.causes.get(row) in (Cause.UNGRADABLE, Cause.INFRASTRUCTURE)


def reward(score: Callable[..., Scores]) -> Reward:
    """Wrap `score(prompts, texts, **columns)` for TRL: completions become text; shares of missing scores are logged.

    The texts are `Response`s, which know their reasoning, summary and answer; `combine` gives every reward the same.
    """
    name = score.__name__

    @wraps(score)
    def call(
        prompts: list[Any], completions: list[RewardInput], log_metric: LogMetric | None = None, **columns: Any
    ) -> list[float | None]:
        for column, values in columns.items():
            if isinstance(values, list) and len(values) != len(completions):
                many = f"{len(values)} values for {len(completions)} completions"
                raise UserError(f"reward {name}: the column {column!r} has {many}; give one for each")
        scores = score(prompts, [Response.parse(text_of(c)) for c in completions], **columns)
        if log_metric:
            log_scores(log_metric, name, scores)
        return scores

    return call


def log_scores(log_metric: LogMetric, label: str, scores: list[float | None]) -> float | None:
    """Log a reward's mean as `rewards/<label>`, its share of None, and the share of each cause; returns the mean."""
    if not scores:
        return None
    known = [value for value in scores if value is not None]
    causes = Counter(getattr(scores, "causes", {}).values())
    log_metric(f"rewards/{label}/none", 1 - len(known) / len(scores))
    for cause in Cause:
        log_metric(f"rewards/{label}/{cause}", causes[cause] / len(scores))
    if not known:
        return None
    mean = sum(known) / len(known)
    log_metric(f"rewards/{label}", mean)
    return mean


def text_of(completion: Any) -> str:
    """The text of a plain or a chat completion (of a message in parts, the text parts); "" where there is none.

    Reasoning that the chat keeps apart (`reasoning_content`) stands before it, between its tags.
    """
    last = completion[-1] if isinstance(completion, list) and completion else completion
    if not isinstance(last, dict):
        return last if isinstance(last, str) else ""
    content = last.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    thoughts = [part for part in parts if part.get("type") in APART]
    reasoning = "".join(reasoning_apart(part) or part_text(part) for part in thoughts) or reasoning_apart(last)
    text = "".join(part_text(part) for part in parts if part not in thoughts)
    return Response.joined(reasoning, content if isinstance(content, str) else text)


def reasoning_apart(message: dict[str, Any]) -> str:
    """The reasoning that a message, or a part of one, keeps apart; "" if there is none."""
    return next((message[name] for name in APART if isinstance(message.get(name), str) and message[name]), "")


def part_text(part: dict[str, Any]) -> str:
    return str(part.get("text") or "")


def needed(columns: dict[str, Any], name: str, reward: str) -> list[Any]:
    """A dataset column that a reward requires; raises UserError without it."""
    if columns.get(name) is None:
        raise UserError(
            f"reward {reward}: the dataset has no column {name!r}; it has {', '.join(sorted(columns)) or 'none'}"
        )
    return columns[name]


def golds(columns: dict[str, Any], name: str, reward: str) -> list[str | None]:
    """A required column of right answers as text, numbers written out; None for what is no answer (nan, a list)."""
    return [as_text(gold) for gold in needed(columns, name, reward)]


def as_text(gold: Any) -> str | None:
    number = isinstance(gold, int) or (isinstance(gold, Real) and math.isfinite(gold))
    try:
        return str(gold) if number or isinstance(gold, str) else None
    except ValueError:  # more digits than Python writes: 4,300
        return None


def column(values: list[Any] | None, like: list[Any]) -> list[Any]:
    """A dataset column; if the dataset lacks it, as many None as `like` has rows."""
    return [None] * len(like) if values is None else values
