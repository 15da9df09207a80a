"""Pays for reasoning in one language (DeepSeek-R1, section 2.3.2).

language_consistency(language="en")(prompts, ["<think>wir addieren</think><answer>7</answer>"])    # [0.0]
"""

from collections.abc import Sequence
from typing import Any

from r1flow.core.errors import UserError
from r1flow.core.language import LANGUAGES
from r1flow.core.template import Response
from r1flow.grading.verdict import Cause
from r1flow.rewards.scores import Reward, Scores, column, reward


def language_consistency(language: str = "en", languages: Sequence[str] = LANGUAGES, prefilled: bool = False) -> Reward:
    """Share of the reasoning's words that are in `language`, out of the candidate `languages`; None without words.

    A completion without a reasoning block is judged as a whole; on general rows only a reasoning block is judged (the
    reply itself may have to be in another language). `prefilled`: the prompt has opened the block.
    """
    if language not in languages:
        raise UserError(f"reward language_consistency: language {language!r} is not one of languages {list(languages)}")

    @reward
    def language_consistency(
        prompts: Sequence[Any], texts: list[str], /, task: list[str | None] | None = None, **columns: Any
    ) -> Scores:
        scores = []
        for text, task_of_row in zip(texts, column(task, texts), strict=True):
            share = Response.parse(text, prefilled).consistency(task_of_row, language, languages)
            scores.append(Cause.NOT_APPLICABLE if share is None else share)
        return Scores.of(scores)

    return language_consistency
