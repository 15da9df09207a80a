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

from r1flow.core.template import TAGS, Response
from r1flow.grading import countdown, math
from r1flow.grading.final import candidate, final_answer

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
# A sign belongs to a number unless it stands between two numbers; a comma only as a thousands separator.
NUMBER = re.compile(
    r"(?:(?<![\d)])(?<![\d)] )-)?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<![\w.])\.\d+)", re.ASCII
)
# With a whole part ("7 2/3", 7\frac23), or a power of ten (1e5, 1.5 × 10^5).
FRACTION_OR_NUMBER = re.compile(
    rf"-?(?:(?<![\d.,])\d+ ?)?\\[dt]?frac\s*(?:(?:\{{\s*\d+\s*\}}|\d)\s*(?:\{{\s*\d+\s*\}}|\d(?!\d)))"
    rf"|{NUMBER.pattern}(?:[eE][-+]?\d{{1,3}}(?!\w)| ?(?:×|\\times|\\cdot) ?10\^(?:\{{-?\d{{1,3}}\}}|\d(?!\d))"
    rf"|(?: \d+)?\s?/\s?\d+(?!\d|\.\d))?",
    re.ASCII,
)
# What makes the last number a part of something else: of a power, a time (3:45), a pair, a mixed number, a denial, and
# in words of a sum, a fraction (3 over 4), a function (ln 2).
BEFORE = re.compile(
    r"(?:[\^_]\{?|[/×÷√|]|(?:[\d)}]\s?|\w)\*+|\w\(|\\(?:sqrt|[dt]?frac|binom)[^ ]{0,9}"
    r"|\\(?:cdot|times|div|[pb]?mod|neq?|over|atop|ln|log|lg|exp|sin|cos|tan|cot|sec|csc|arc[a-z]{3})|\d[:,](?!\s)|[<>≠]"
    r"|\d\.\d*\\(?:overline|bar|dot)\s?\{?|\b(?:or|not|mod|log|ln|lg|exp|a?(?:rc)?(?:sin|cos|tan)|sqrt|cbrt|roots? of"
    r"|minus|negative|plus|times|divided by|multiplied by|to the power of|(?<=[\d)}] )(?:to|over|choose)|half of|twice"
    r"|double|triple|thrice|(?:third|quarter|fourth|fifth|sixth|tenth|percent|%) of)|(?<=\b[a-z] )over|n['’]t)[ $]?$"
    r"|(?<![\\A-Za-z])(?!(?:USD|EUR|GBP|INR|Rs)$)[A-Za-z]+$"
)
AFTER = re.compile(
    rf"[ $]?(?:[\^/×÷π{math.SUPERSCRIPTS}]|\\(?:sqrt|[dt]?frac|pi|cdot|times|div)\b|\*+\s?[A-Za-z\\(]"
    r"|(?:hundred|thousand|million|billion|trillion|dozen|pi|sqrt|squared|cubed|hal(?:f|ves)|thirds?|fourths?|fifths?"
    r"|sixths?|sevenths?|eighths?|ninths?|tenths?|hundredths?|over\s\$?[\d(])\b)|[b-fi-knp-rt-z](?!\w)"
)
MIXED = re.compile(r"\d[ $]?$")  # before a fraction
IN_SUMS = math.IN_NUMBERS | {ord("⁄"): "/", ord("∕"): "/"}
TAG = re.compile("|".join(map(re.escape, TAGS)))
# The last number is searched only here, so that an enormous text costs nothing.
TAIL_CHARACTERS = 2000
LARGEST_ENTRY = 1_000_000  # characters; of 30 draws of every family the largest has 19,462
SLACK_CHARACTERS = 64  # an answer this much longer than the gold isn't a spelling of it

Score = Callable[[str, dict[str, Any]], float]


def correct(task: str | None, answer_text: str | None, answer: str | None, entry_json: str | None) -> bool | None:
    """Whether `answer_text` is the right answer; None when that can't be graded, never an exception for model text.

    `task` is a reasoning-gym family and `entry_json` its entry (the fields its scorer reads). Answers of a row without
    an entry are graded as mathematics.
    """
    if (
        not answer
        or not isinstance(answer, str)
        or not all(isinstance(each, str | None) for each in (task, entry_json))
    ):
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
    """The same where there is one (evaluation's `correct_lenient`); else what is in a box, else the last number.

    A number that is a part of something (the 3 of 2^3, the 45 of 3:45) is no answer; a fraction counts as one number.
    """
    answer = answer_of(text, entry_json)
    if answer is None and entry_json is not None:
        answer = final_answer(text)
    if answer is not None:
        return answer
    tail = math.ungrouped(TAG.sub("\n", text[-TAIL_CHARACTERS:]).translate(IN_SUMS))
    numbers = list(FRACTION_OR_NUMBER.finditer(tail))
    if not numbers:
        return None
    before, last = tail[: numbers[-1].start()], numbers[-1][0]
    mixed = not last.replace(",", "").isdigit() and MIXED.search(before)
    if mixed or BEFORE.search(before) or AFTER.match(tail, numbers[-1].end()):
        return None
    return last.replace(",", "")


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


OWN: dict[str, Score] = {
    "coin_flip": is_close,
    "countdown": reaches,
    "game_of_life_halting": is_same_word,
    "puzzle24": partial(reaches, target=24),
}
