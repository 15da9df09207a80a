"""Pays by length: DAPO's soft overlong punishment, the cosine of Yeo et al., and the length reward of Kimi k1.5.

    overlong(max_length=100, buffer=20)(prompts, completions, completion_ids=ids_of_90_tokens)    # [-0.5]

A length is the number of tokens if there is TRL's column `completion_ids`, else of characters. The last two rewards use
`accuracy` to find which answers are right; a row that it can't grade has no score here either, for the same cause.
"""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from r1flow.core.errors import UserError
from r1flow.grading.verdict import Cause
from r1flow.rewards.correctness import accuracy
from r1flow.rewards.scores import Reward, Scores, reward

# A row's value, from its number and whether its answer is right.
Value = Callable[[int, bool], float]


def overlong(max_length: int, buffer: int) -> Reward:
    """0 up to max_length − buffer, from there falling linearly to −1 at max_length, and −1 beyond.

    DAPO (arXiv 2503.14476), equation 13, where max_length is 20,480 tokens and buffer 4,096. It is TRL's
    `get_soft_overlong_punishment`; without token ids, a text's characters are counted in their place.
    """
    if not 0 < buffer <= max_length:
        raise UserError(f"reward overlong: buffer must be above 0 and at most max_length ({max_length}), not {buffer}")

    from trl.rewards import get_soft_overlong_punishment  # without torch, but 0.2 to 0.35 s

    punishment = get_soft_overlong_punishment(max_completion_len=max_length, soft_punish_cache=buffer)

    @reward
    def overlong(
        prompts: Sequence[Any], texts: list[str], /, completion_ids: list[list[int]] | None = None, **columns: Any
    ) -> Scores:
        return Scores.of(punishment(texts if completion_ids is None else completion_ids))

    return overlong


def cosine_length(
    max_length: int,
    right: Sequence[float] = (1.0, 0.5),
    wrong: Sequence[float] = (-1.0, -0.5),
    gold_column: str = "answer",
) -> Reward:
    """The longer an answer, the less a right one is paid, and the less a wrong one is punished.

    `right` and `wrong` are the values at length 0 and from max_length on; half a cosine lies between. Yeo et al. 2025
    (arXiv 2502.03373), section 4.2. The default values are those of Hugging Face's open-r1; the paper's are (2, 1) and
    (-10, 0), with -10 for what is longer than max_length. Columns: accuracy's.
    """
    if max_length < 1:
        raise UserError(f"reward cosine_length: max_length must be at least 1, not {max_length}")

    @reward
    def cosine_length(prompts: Sequence[Any], texts: list[str], /, **columns: Any) -> Scores:
        length_of = lengths(texts, columns)

        def value(row: int, correct: bool) -> float:
            start, end = right if correct else wrong
            share = min(1.0, length_of[row] / max_length)
            return end + (start - end) * (1 + math.cos(math.pi * share)) / 2

        return where_graded(prompts, texts, gold_column, columns, value)

    return cosine_length


def kimi_length(gold_column: str = "answer") -> Reward:
    """0.5 for the shortest completion of a prompt to −0.5 for the longest; a wrong one gets at most 0.

    It compares rows with equal prompts (a group), which must all be in the same call. Groups whose completions all have
    one length get 0. Kimi k1.5 (arXiv 2501.12599), section 2.3.3. Columns: accuracy's.
    """

    @reward
    def kimi_length(prompts: Sequence[Any], texts: list[str], /, **columns: Any) -> Scores:
        ranks = group_ranks(prompts, lengths(texts, columns))
        return where_graded(
            prompts, texts, gold_column, columns, lambda row, correct: ranks[row] if correct else min(0.0, ranks[row])
        )

    return kimi_length


def lengths(texts: list[str], columns: dict[str, Any]) -> list[int]:
    """Tokens of each completion where the trainer gives them, else characters."""
    ids = columns.get("completion_ids")
    return [len(completion) for completion in (texts if ids is None else ids)]


def group_ranks(prompts: Sequence[Any], lengths: list[int]) -> list[float]:
    """Each row's 0.5 − (length − shortest) / (longest − shortest) among the rows of its prompt."""
    keys = [json.dumps(prompt, sort_keys=True, default=str) for prompt in prompts]
    groups: dict[str, list[int]] = defaultdict(list)
    for key, length in zip(keys, lengths, strict=True):
        groups[key].append(length)
    spans = {key: (min(group), max(group)) for key, group in groups.items()}
    return [rank_of(length, *spans[key]) for key, length in zip(keys, lengths, strict=True)]


def rank_of(length: int, shortest: int, longest: int) -> float:
    return 0.5 - (length - shortest) / (longest - shortest) if longest > shortest else 0.0


def where_graded(
    prompts: Sequence[Any], texts: list[str], gold_column: str, columns: dict[str, Any], value: Value
) -> Scores:
    """The value of each row that accuracy can grade; for the others accuracy's cause."""
    graded = accuracy(gold_column=gold_column)(prompts=prompts, completions=texts, **columns)

    def entry(row: int) -> float | Cause | tuple[float, Cause]:
        cause = graded.causes.get(row)
        if graded[row] is None:
            return cause or Cause.NOT_APPLICABLE
        score = value(row, graded[row] == 1.0)
        return (score, cause) if cause else score

    return Scores.of(entry(row) for row in range(len(texts)))
