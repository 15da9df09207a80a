"""What a grader says of one answer: right, wrong, or that it can't tell, and why.

    Verdict(True)    Verdict(False)    Verdict(False, Cause.TIMEOUT)    Verdict(None, Cause.UNGRADABLE)

A time-out is the answer's own fault (the worker used up its CPU time on it) and so is wrong, not unknown: unknown would
let a model buy itself out of a wrong answer. A grader that was killed, starved or unreachable knows nothing.
"""

from enum import StrEnum
from typing import NamedTuple


class Cause(StrEnum):
    """Why a score is missing or low; the words are used in logs."""

    NOT_APPLICABLE = "not_applicable"  # the reward is not for this row: general prompts have no gold
    UNGRADABLE = "ungradable"  # the gold is bad
    TIMEOUT = "timeout"  # the completion used up its time; it scores as wrong
    INFRASTRUCTURE = "infrastructure"  # a worker, sandbox or server failed


class Rules(NamedTuple):
    """What counts as the same mathematics; the defaults are what training, rejection and evaluation go by."""

    places: int = 6  # a decimal of so many places, and digits that count, may stand for the value it rounds
    unevaluated: bool = False  # whether 3+4 is an answer where the gold is 7
    form: str | None = None  # "factored" or "expanded": the form that an answer must have


EXACT = Rules()


class Verdict(NamedTuple):
    """`correct` is None when that can't be told; then `cause` says why."""

    correct: bool | None
    cause: Cause | None = None
