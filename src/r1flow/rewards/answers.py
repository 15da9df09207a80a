"""Pays for the right answer: a rule, never a model (DeepSeek-R1, section 2.2.2).

accuracy()(prompts, ["<think>2+5</think><answer>7</answer>"], answer=["7"])    # [1.0]
"""

from collections.abc import Sequence
from typing import Any

from r1flow.grading import tasks
from r1flow.grading.verdict import Cause
from r1flow.rewards.contract import Reward, Scores, column, needed, reward
from r1flow.template import GENERAL, split


def accuracy(gold_column: str = "answer") -> Reward:
    """1.0 for the right answer between the answer tags, else 0.0; None on general rows and where the gold is bad.

    Columns: the gold, and for reasoning-gym's scorers `task` and `entry` (without them, plain equality).
    """

    @reward
    def accuracy(
        prompts: Sequence[Any],
        texts: list[str],
        task: list[str | None] | None = None,
        entry: list[str | None] | None = None,
        **columns: Any,
    ) -> Scores:
        golds = needed(columns, gold_column, "accuracy")
        rows = zip(texts, column(task, texts), golds, column(entry, texts), strict=True)
        return Scores.of(grade(text, task, gold, entry) for text, task, gold, entry in rows)

    return accuracy


def grade(text: str, task: str | None, gold: str | None, entry: str | None) -> float | Cause:
    if task == GENERAL:
        return Cause.NOT_APPLICABLE
    verdict = tasks.correct(task, split(text).answer, gold, entry)
    return Cause.UNGRADABLE if verdict is None else float(verdict)
