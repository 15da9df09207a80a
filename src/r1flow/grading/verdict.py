"""What a grader says of one answer: right, wrong, or that it can't tell, and why.

    Verdict(True)    Verdict(False)    Verdict(False, Cause.TIMEOUT)    Verdict(None, Cause.UNGRADABLE)

A time-out is the answer's own fault (it used up the worker's CPU time), so the answer is wrong, not unknown: otherwise
a model could avoid a wrong verdict by a slow answer. If a grader was killed, starved or unreachable, it is unknown.
"""

from enum import StrEnum
from typing import NamedTuple


class Cause(StrEnum):
    """Why a score is missing or low; the words are used in logs."""

    # The reward is not for this row: general prompts have no gold.
    NOT_APPLICABLE = "not_applicable"
    UNGRADABLE = "ungradable"  # the gold is bad
    TIMEOUT = "timeout"  # the completion used up its time; it scores as wrong
    INFRASTRUCTURE = "infrastructure"  # a worker, sandbox or server failed


class Rules(NamedTuple):
    """What counts as the same mathematics; training, rejection and evaluation use the defaults."""

    # A decimal with so many places and significant digits may stand for the value it rounds.
    places: int = 6
    unevaluated: bool = False  # whether 3+4 is an answer where the gold is 7
    form: str | None = None  # "factored" or "expanded": the form that an answer must have


EXACT = Rules()


class Verdict(NamedTuple):
    """`correct` is None if that can't be decided; then `cause` is the reason."""

    correct: bool | None
    cause: Cause | None = None
