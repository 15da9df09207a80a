"""Pays for the form of a response, whatever it says (DeepSeek-R1, section 2.2.2: thinking between the tags).

answer_format()(prompts, ["<think>2+5</think><answer>7</answer>"])    # [1.0]
"""

from collections.abc import Sequence
from typing import Any

from r1flow.grading.verdict import Cause
from r1flow.rewards.contract import Reward, Scores, column, reward
from r1flow.template import GENERAL, split


def answer_format() -> Reward:
    """1.0 for one reasoning block followed by text with one answer at its end, else 0.0; None on general rows."""

    @reward
    def answer_format(
        prompts: Sequence[Any], texts: list[str], task: list[str | None] | None = None, **columns: Any
    ) -> Scores:
        rows = zip(texts, column(task, texts), strict=True)
        return Scores.of(
            Cause.NOT_APPLICABLE if task == GENERAL else float(split(text).well_formed) for text, task in rows
        )

    return answer_format
