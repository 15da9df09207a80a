"""Is the answer to a reasoning-gym problem right? By reasoning-gym's own scorer for the family, held to exactly 1.0.

    correct("chain_sum", "5", "5", '{"question": "8 + 16 - 19 = ?", "answer": "5", "metadata": {…}}')    # True

Three verdicts: right, wrong, and None for what can't be graded (an unknown family, a gold that its own scorer
refuses). Its scorers give partial credit, which invites answers like "4 5 6 7"; here anything under 1.0 is wrong.
Left out are the families whose scorers run Python's or sympy's eval on the answer: model-written text must not reach
it.
"""

import json
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from functools import cache, lru_cache
from typing import Any

from r1flow.template import split

# reasoning-gym 0.1.25: eval(answer) or sympy's parse_expr(answer) in score_answer.
EVALUATES_ANSWERS = {
    "binary_matrix",
    "countdown",
    "intermediate_integration",
    "n_queens",
    "polynomial_multiplication",
    "puzzle24",
    "simple_integration",
    "spiral_matrix",
    "string_insertion",
}
# A sign belongs to a number unless it stands between two numbers; a comma only as a thousands separator.
NUMBER = re.compile(r"(?:(?<![\d)])(?<![\d)] )-)?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?", re.ASCII)
TAIL_CHARACTERS = 2000  # a last number is looked for here, so that an enormous text costs nothing
SLACK_CHARACTERS = 64  # an answer this much longer than the gold isn't a spelling of it

Score = Callable[[str, dict[str, Any]], float]


def correct(task: str | None, answer_text: str | None, answer: str | None, entry_json: str | None) -> bool | None:
    """Whether `answer_text` is the right answer; None when that can't be graded, never an exception for model text.

    `task` is a reasoning-gym family and `entry_json` its entry (the fields its scorer reads). Without a task, the gold
    `answer` alone is compared, as a number or as text.
    """
    if not answer:
        return None
    if task is None:
        return answer_text is not None and is_spelling(answer_text, answer) and same(answer_text.strip(), answer)
    entry = gradable(task, answer, entry_json)
    if entry is None:
        return None
    if answer_text is None or not is_spelling(answer_text, answer):
        return False
    return scored_right(task, answer_text.strip(), entry)


def lenient_answer(text: str) -> str | None:
    """The answer between the tags, else the last number of the text, without its thousands separators."""
    strict = split(text).answer
    if strict is not None:
        return strict
    numbers = NUMBER.findall(text[-TAIL_CHARACTERS:])
    return numbers[-1].replace(",", "") if numbers else None


def is_spelling(answer_text: str, answer: str) -> bool:
    """Whether a scorer may see this text: not enormous, and no digits from other scripts (which int() would take)."""
    if len(answer_text) > 2 * len(answer) + SLACK_CHARACTERS:
        return False
    return (answer_text.isascii() or not answer.isascii()) and ("_" not in answer_text or "_" in answer)


def same(answer_text: str, answer: str) -> bool:
    if answer_text == answer.strip():
        return True
    try:
        return Decimal(answer_text.replace(",", "")) == Decimal(answer.replace(",", ""))
    except InvalidOperation:
        return False


@lru_cache(maxsize=65536)
def gradable(task: str, answer: str, entry_json: str | None) -> dict[str, Any] | None:
    """The entry that the family's scorer takes, or None when the scorer doesn't even accept the gold."""
    try:
        entry = {"answer": answer, "metadata": {}, **json.loads(entry_json or "{}")}
    except (ValueError, TypeError):
        return None
    return entry if scorer(task) and scored_right(task, answer, entry) else None


def scored_right(task: str, answer_text: str, entry: dict[str, Any]) -> bool:
    try:
        return scorer(task)(answer_text, entry) == 1.0
    except Exception:  # a scorer that chokes on model text has found it wrong; one that chokes on its gold, ungradable
        return False


@cache
def scorer(task: str) -> Score | None:
    """The family's score_answer, or None for a family that is unknown or that evaluates what it is given."""
    if task in EVALUATES_ANSWERS:
        return None
    from reasoning_gym import get_score_answer_fn  # 1.5 s

    try:
        return get_score_answer_fn(task)
    except ValueError:
        return None
