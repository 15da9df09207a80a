"""Is the answer to a reasoning-gym problem right? By reasoning-gym's own scorer for the family, held to exactly 1.0.

    correct("chain_sum", "5", "5", '{"question": "8 + 16 - 19 = ?", "answer": "5", "metadata": {…}}')    # True

Three verdicts: right, wrong, and None for what can't be graded (an unknown family, a gold that its own scorer
refuses). reasoning-gym's scorers give partial credit, which invites answers like "4 5 6 7"; here anything under 1.0 is
wrong. Left out are the families whose scorers run Python's or sympy's eval on the answer, which model-written text must
not reach; countdown and puzzle24 are graded by our own parser instead. All 106 scorers were read and attacked
(reasoning-gym 0.1.25); the sets and patterns below close the other weaknesses that were found.
"""

import json
import re
from collections.abc import Callable
from decimal import Decimal
from functools import cache, lru_cache, partial
from typing import Any

from r1flow.core.template import Response
from r1flow.grading import countdown, math
from r1flow.grading.final import candidate, final_answer
from r1flow.grading.last_number import NUMBER, last_number

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
# These use a move's repeat count as the size of a list or a shift: "R999999999" takes all memory.
UNBOUNDED = {"rubiks_cube", "rush_hour"}
# These read only a part of the answer ("1090 or 5", "99 days or 5"), or accept numbers within a tolerance of 1: here
# the answer must have the gold's numbers, and no others.
READS_A_PART = {"fraction_simplification", "gsm_symbolic", "number_sorting", "time_intervals"}
# A float's "nan" passes where a distance is compared; a huge exponent takes for ever in Fraction and Decimal.
NO_NUMBER = re.compile(r"\b(?:nan|inf|infinity)|nan\b|\de[-+]?\d{4}", re.IGNORECASE)
LARGEST_ENTRY = 1_000_000  # characters; of 30 draws of every family the largest has 19,462
SLACK_CHARACTERS = 64  # an answer this much longer than the gold isn't a spelling of it

Score = Callable[[str, dict[str, Any]], float]


def correct(task: str | None, answer_text: str | None, answer: str | None, entry_json: str | None) -> bool | None:
    """Whether `answer_text` is the right answer; None when that can't be graded, never an exception for model text.

    `task` is a reasoning-gym family and `entry_json` its entry (the fields its scorer reads). Answers of a row without
    an entry are graded as mathematics.
    """
    if not answer or not all(isinstance(each, str | None) for each in (task, answer, entry_json)):
        return None
    if entry_json is None:
        return math.verdicts([(answer, answer_text)])[0].correct
    entry = gradable(task, answer, entry_json)
    if entry is None:
        return None
    if answer_text is None or not (task in OWN or is_spelling(answer_text, answer)):
        return False
    return scored_right(task, answer_text.strip(), entry)


def answer_of(text: str, entry_json: str | None) -> str | None:
    """The text that is graded as a response's answer, or None; training's reward, rejection and `correct` agree on it.

    For reasoning-gym's rows, whose scorers want exact text, it is the text between the answer tags; for mathematics the
    one candidate in the text between the tags or, without them, in the last boxes after the reasoning.
    """
    if entry_json is not None:
        return Response.parse(text).answer
    answer = final_answer(text)
    return None if answer is None else candidate(answer)


def lenient_answer_of(text: str, entry_json: str | None) -> str | None:
    """The same where there is one (evaluation's `correct_lenient`); else what is in a box, else the last number."""
    answer = answer_of(text, entry_json)
    if answer is None and entry_json is not None:
        answer = final_answer(text)
    return last_number(text) if answer is None else answer


def is_spelling(answer_text: str, answer: str) -> bool:
    """Whether a scorer may see this text: not enormous, and no digits from other scripts (which int() would take)."""
    if len(answer_text) > 2 * len(answer) + SLACK_CHARACTERS:
        return False
    if NO_NUMBER.search(answer_text) and not NO_NUMBER.search(answer):
        return False
    return (answer_text.isascii() or not answer.isascii()) and ("_" not in answer_text or "_" in answer)


@lru_cache(maxsize=65536)
def gradable(task: str, answer: str, entry_json: str | None) -> dict[str, Any] | None:
    """The entry that the family's scorer takes, or None when the scorer doesn't even accept the gold."""
    if entry_json and len(entry_json) > LARGEST_ENTRY:
        return None
    try:
        entry = {"answer": answer, "metadata": {}, **json.loads(entry_json or "{}")}
    except (ValueError, TypeError, RecursionError):
        return None
    return entry if scorer(task) and scored_right(task, answer, entry) else None


def scored_right(task: str, answer_text: str, entry: dict[str, Any]) -> bool:
    try:
        return scorer(task)(answer_text, entry) == 1.0
    except Exception:  # a scorer that fails on model text means wrong; one that fails on its gold, ungradable
        return False


@cache
def scorer(task: str) -> Score | None:
    """The family's score_answer, or None for a family that is unknown or whose scorer evaluates the answer."""
    if task in OWN:
        return OWN[task]
    if task in EVALUATES_ANSWERS | UNBOUNDED:
        return None
    from reasoning_gym import get_score_answer_fn  # the import takes 1.5 s

    try:
        score = get_score_answer_fn(task)
    except (ValueError, AssertionError):  # unknown, or made of others (composite), whose entries don't say how
        return None
    return same_figures_too(score) if task in READS_A_PART else score


def same_figures_too(score: Score) -> Score:
    """The scorer, with the further condition that the answer's numbers are exactly the gold's, in their order."""

    def scored(answer_text: str, entry: dict[str, Any]) -> float:
        return score(answer_text, entry) if figures(answer_text) == figures(entry["answer"]) else 0.0

    return scored


def figures(text: str) -> list[Decimal]:
    return [Decimal(number.replace(",", "")) for number in NUMBER.findall(text)]


def reaches(answer_text: str, entry: dict[str, Any], target: int | None = None) -> float:
    """Whether a countdown reaches its target; puzzle24's is 24."""
    metadata = entry["metadata"]
    return float(countdown.solves(answer_text, metadata["numbers"], target or metadata["target"]))


def is_close(answer_text: str, entry: dict[str, Any]) -> float:
    """coin_flip, whose scorer takes any beginning of the answer ("0") for all of it: within its tolerance of 1e-4."""
    return float(math.numeric(entry["answer"], answer_text, rel_tol=0.0, abs_tol=1e-4) or 0)


def is_same_word(answer_text: str, entry: dict[str, Any]) -> float:
    """game_of_life_halting, whose scorer takes any text for True: "True" or "False"."""
    return float(answer_text.casefold() == entry["answer"].casefold())


def is_verbatim(answer_text: str, entry: dict[str, Any]) -> float:
    """look_ups, our own family: what the table has."""
    return float(answer_text == entry["answer"])


OWN: dict[str, Score] = {
    "coin_flip": is_close,
    "countdown": reaches,
    "game_of_life_halting": is_same_word,
    "look_ups": is_verbatim,
    "puzzle24": partial(reaches, target=24),
}
