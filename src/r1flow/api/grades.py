r"""Grades answers as training and evaluation do: by rule, exactly, without a model.

    grade([r"so it is \boxed{\frac{1}{2}}", "<answer>7 or 8</answer>", r"\boxed{5}"], ["0.5", 7, r"\frac{"])
    # [True, False, None]

The answer is what stands between the answer tags, else in the last box after the reasoning; docs/rewards/accuracy.md
says what counts as the same. None is for a gold that can't be read, and for a grader that failed. Left out: problems of
reasoning-gym's families and code, whose graders need more than a gold (api/examination.py takes them).
"""

from collections.abc import Sequence
from reprlib import repr as brief
from typing import Any, NamedTuple

from r1flow.core.errors import UserError
from r1flow.data.loaders import MISSING, Damaged, Unusable, gold
from r1flow.grading import generated, math
from r1flow.grading.verdict import Cause
from r1flow.rewards.scores import text_of


class GradedAnswer(NamedTuple):
    """One completion's verdict."""

    gold: str | None  # as it was read
    answer: str | None  # as it was found; None: the completion marks none, and is wrong
    correct: bool | None
    cause: Cause | None  # why `correct` is None: ungradable (the gold), infrastructure


def grade(completions: Sequence[Any], golds: Sequence[Any], lenient: bool = False) -> list[bool | None]:
    r"""Whether each completion is right; None where its gold can't be read.

    A completion is a text, or a conversation as TRL has it, whose last message counts. A gold is a number or a text: a
    value, `\boxed{…}`, or a solution that ends with GSM8K's "#### 72". `lenient` takes the last number of a text that
    marks no answer. A missing completion (None, NaN) is wrong. Raises UserError for lists of different lengths, and for
    completions of another type.

    >>> r1flow.grade(["so it is \\boxed{1/2}", "it is 7", "\\boxed{5}"], ["0.5", 7, "\\frac{"])
    [True, False, None]
    >>> r1flow.grade(["it is 7", "it is 72."], [7, "9 * 8 = 72\n#### 72"], lenient=True)
    [True, True]
    """
    return [each.correct for each in graded_answers(completions, golds, lenient)]


def graded_answers(completions: Sequence[Any], golds: Sequence[Any], lenient: bool = False) -> list[GradedAnswer]:
    """The same with the answers that were found, and why there is no verdict."""
    if isinstance(completions, str) or isinstance(golds, str):
        raise UserError("grade: a text where a list belongs; write grade([completion], [gold])")
    if len(completions) != len(golds):
        raise UserError(f"grade: {len(completions)} completions and {len(golds)} golds; give one gold for each")
    for completion in completions:
        if not isinstance(completion, str | dict | list) and str(completion) not in MISSING:
            raise UserError(
                f"grade: a completion is a {type(completion).__name__}, {brief(completion)}; give texts, or"
                " conversations as lists of messages (what Arrow has: to_pylist)"
            )
    find = generated.lenient_answer_of if lenient else generated.answer_of
    answers = [find(text_of(completion), None) for completion in completions]
    read = [gold_of(gold) for gold in golds]
    verdicts = math.verdicts(list(zip(read, answers, strict=True)))
    return [GradedAnswer(*each, *verdict) for *each, verdict in zip(read, answers, verdicts, strict=True)]


def gold_of(value: Any) -> str | None:
    """A gold as text, read as that of your own problems is (data/loaders.py); None for what is none."""
    try:
        return gold(value)
    except (Damaged, Unusable):
        return None
