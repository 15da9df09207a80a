"""A penalty for repetition: the share of repeated n-grams (Yeo et al. 2025, arXiv 2502.03373, appendix C.2).

repetition(ngram_size=2)(prompts, ["so we add so we add"])    # [-0.4]: 2 of 5 pairs occurred before
"""

from collections.abc import Sequence
from typing import Any

from r1flow.core.errors import UserError
from r1flow.core.language import tokens
from r1flow.rewards.scores import Reward, Scores, reward


def repetition(ngram_size: int = 3, max_penalty: float = -1.0) -> Reward:
    """`max_penalty` times the share of word n-grams that repeat an earlier one; 0.0 for texts of fewer than n words.

    Words and numbers count, case and punctuation don't; in a text without words and numbers, signs count instead.
    """
    if ngram_size < 1:
        raise UserError(f"reward repetition: ngram_size must be at least 1, not {ngram_size}")
    if max_penalty > 0:
        raise UserError(f"reward repetition: max_penalty must not be positive, and is {max_penalty}")

    @reward
    def repetition(prompts: Sequence[Any], texts: list[str], /, **columns: Any) -> Scores:
        # Not -0.0.
        return Scores.of(max_penalty * repeated(text, ngram_size) or 0.0 for text in texts)

    return repetition


def repeated(text: str, size: int) -> float:
    """The share (0 to 1) of the text's n-grams that are repetitions."""
    words = tokens(text) or [sign for sign in text if not sign.isspace()]
    if len(words) < size:
        return 0.0
    grams = list(zip(*(words[start:] for start in range(size)), strict=False))
    return 1 - len(set(grams)) / len(grams)
