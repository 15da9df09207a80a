"""Pays for a reply that follows its prompt's instruction, which a rule can check: length, keywords, form, language.

    instruction_following()(prompts, ["a river is long"], check=['{"type": "in_case", "case": "lower"}'])    # [1.0]

The rules are those of grading/replies.py; IFEval (arXiv 2311.07911) asks and judges so, and Tülu 3 (arXiv 2411.15124,
section 6) pays for it in RL. Left out: whether the reply is any good otherwise.
"""

import json
from collections.abc import Sequence
from typing import Any

from r1flow.core.errors import UserError
from r1flow.grading import replies
from r1flow.grading.verdict import Cause
from r1flow.rewards.scores import Reward, Scores, column, reward


def instruction_following() -> Reward:
    """1.0 if the completion passes the rule in the row's column `check`, else 0.0; None on rows without a rule."""

    @reward
    def instruction_following(
        prompts: Sequence[Any], texts: list[str], /, check: list[str | None] | None = None, **columns: Any
    ) -> Scores:
        return Scores.of(followed(*row) for row in zip(texts, column(check, texts), strict=True))

    return instruction_following


def followed(text: str, check: str | None) -> float | Cause:
    try:
        if not json.loads(check or "{}"):
            return Cause.NOT_APPLICABLE
        return float(replies.passes(check, text))
    except (UserError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        # a damaged rule, whatever the text says
        return Cause.UNGRADABLE
