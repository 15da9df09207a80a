r"""Final answers of completions, and the kinds of answers that need no mathematics: numbers, letters, text.

    final_answer("<think>…</think>so it is \boxed{\frac{1}{2}}")    # "\frac{1}{2}"
    plain(r"\frac{3}{4}") == plain("0.75")                          # the same Fraction
    choice("C", "(C) London")                                       # True

Left out: looking for an answer that isn't marked as one, which pays for guessing in every sentence.
"""

import re
import unicodedata
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from r1flow.template import THINK_CLOSE, THINK_OPEN, split

BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
LIMIT = 2000  # characters of an answer; a longer one is wrong


# The final answer.


def final_answer(completion: str) -> str | None:
    """What is between the answer tags after the reasoning, else in the last box after it; None without either."""
    _, closed, rest = completion.rpartition(THINK_CLOSE)
    answer = split(rest).answer
    if answer is not None:
        return answer
    return None if not closed and THINK_OPEN in completion else last_box(rest)


def last_box(text: str) -> str | None:
    r"""What is in the last `\boxed{…}` that is closed, braces and all; boxes in a box are part of it."""
    found, end = None, 0
    for match in BOX.finditer(text):
        if match.start() < end:
            continue
        closing = closing_brace(text, match.end())
        if closing is not None:
            found, end = text[match.end() : closing], closing
        elif len(text) - match.end() > LIMIT:
            return found  # an unclosed box before a long rest: looking on would take for ever
    return found


def closing_brace(text: str, begin: int) -> int | None:
    """Where the brace opened just before `begin` is closed, within an answer's length; `\\{` and `\\}` don't count."""
    depth, at = 1, begin
    end = min(len(text), begin + LIMIT + 1)
    while at < end:
        if text[at] == "\\":
            at += 1
        elif text[at] in "{}":
            depth += 1 if text[at] == "{" else -1
            if depth == 0:
                return at
        at += 1
    return None


# Numbers.


class Plain(NamedTuple):
    """A number that is written out: digits, a sign, thousands separators, a decimal point, a simple fraction."""

    value: Fraction
    places: int | None  # digits after the point; None: there is no point


WHOLE = r"(?:[1-9]\d{0,2}(?:,\d{3})+|\d+)"
NUMBER = re.compile(rf"([-+]?)({WHOLE}(?:\.\d+)?|\.\d+)", re.ASCII)
FRACTION = re.compile(
    rf"([-+]?)(?:({WHOLE})\s*/\s*({WHOLE})|\\[dt]?frac\s*\{{\s*(\d+)\s*\}}\s*\{{\s*(\d+)\s*\}})", re.ASCII
)
CLOSE = 6  # a decimal with so many places, and so many digits that count, may stand for what it rounds


def plain(text: str) -> Plain | None:
    """The number that a text is, as a whole; None when it is none, or a fraction by zero."""
    match = NUMBER.fullmatch(text)
    if match:
        whole, point, part = match[2].replace(",", "").partition(".")
        value = int(whole + part) * (-1 if match[1] == "-" else 1)
        return Plain(Fraction(value, 10 ** len(part)), len(part)) if point else Plain(Fraction(value), None)
    match = FRACTION.fullmatch(text)
    if not match:
        return None
    above, below = (int((match[i] or match[i + 2]).replace(",", "")) for i in (2, 3))
    return Plain(Fraction(above, below) * (-1 if match[1] == "-" else 1), None) if below else None


def is_rounding(decimal: Plain, value: Fraction) -> bool:
    """Whether a written decimal is the value, rounded (halves away from 0) to six places and six digits or more."""
    places = decimal.places
    if not places or places < CLOSE or not value:
        return False
    if abs(value) < 1 and abs(value) * 10**places < 10 ** (CLOSE - 1):
        return False
    return abs(abs(decimal.value) - abs(value)) * 2 * 10**places <= 1 and (decimal.value < 0) == (value < 0)


def same_number(gold: Plain, answer: Plain) -> bool:
    """Equal; or one is a decimal of six places that rounds the other, which is a fraction."""
    if gold.value == answer.value:
        return True
    if gold.places is None and gold.value.denominator > 1:
        return is_rounding(answer, gold.value)
    return answer.places is None and answer.value.denominator > 1 and is_rounding(gold, answer.value)


EXPONENT = re.compile(r"(.+?)(?:[eE]|\s*(?:\\times|×|\*)\s*10\s*(?:\^|\*\*))\s*\{?([-+]?\d{1,3})\}?", re.ASCII)


def measured(text: str) -> Fraction | None:
    """A plain number with or without a power of ten: 1.5e-3, 1.5 × 10^{-3}."""
    text = text.strip().strip("$").strip().replace("−", "-")
    match = EXPONENT.fullmatch(text)
    mantissa = plain(match[1] if match else text)
    return mantissa and mantissa.value * Fraction(10) ** int(match[2] if match else 0)


def numeric(gold: str, answer: str, rel_tol: float, abs_tol: float) -> bool | None:
    """Whether the answer is within the greater of both tolerances of the gold; None when the gold is no number."""
    expected = measured(gold) if len(gold) <= LIMIT else None
    if expected is None:
        return None
    found = measured(answer) if len(answer) <= LIMIT else None
    allowed = max(Fraction(rel_tol) * abs(expected), Fraction(abs_tol))
    return found is not None and abs(found - expected) <= allowed


# Letters and text.

LETTER = re.compile(r"[(\[]?([A-Za-z])(?:[)\].:]+|$)\s*(.*)", re.DOTALL)
OTHER = re.compile(
    r"(?:^|[\s,;/&(\[])[(\[]?[A-Z](?:[)\].:](?!\w)|$)|\b(?:or|and|nor|not|but|wrong|maybe|perhaps)\b|^\s*[,;/&]"
    r"|(?:^|[\s,;/&])[(\[]?[a-z][)\]](?!\w)|^[a-z]$"
)
STYLE = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|boxed|operatorname)\s*\{([^{}]*)\}")


def bare(text: str) -> str:
    r"""A text without `$`, `\text{…}` and the like around words, and with single spaces."""
    if len(text) > LIMIT:
        return ""
    text = unicodedata.normalize("NFC", text).replace("$", " ").replace("**", "")
    return " ".join(STYLE.sub(r"\1", STYLE.sub(r"\1", text)).split())


def letter_of(text: str) -> tuple[str, str] | None:
    """The option that a text begins with, and what it says after the letter; None for none."""
    match = LETTER.fullmatch(bare(text))
    return None if not match or (match[1].islower() and match[2]) else (match[1].upper(), match[2])


def single_letter(text: str) -> str | None:
    """The option that a text chooses; None for none, or when it goes on to name another."""
    found = letter_of(text)
    return None if found is None or OTHER.search(found[1]) else found[0]


def choice(gold: str, answer: str, options: Sequence[str] | None = None) -> bool | None:
    """Whether the answer chooses the gold's option: by letter, or, where `options` are given, by its text.

    The gold is a letter ("C", "(C)", "C. London") or an option's text; None when it is neither, or no option.
    """
    texts = [folded(option) for option in options or []]
    expected = chosen(gold, texts)
    return None if expected is None else chosen(answer, texts) == expected


def chosen(text: str, options: list[str]) -> int | None:
    """The number of the option that a text names; a letter with another option's text names none."""
    if options.count(folded(text)) == 1:
        return options.index(folded(text))
    if not options:
        letter = single_letter(text)
        return None if letter is None else ord(letter) - ord("A")
    letter, rest = letter_of(text) or ("", "")
    number = ord(letter) - ord("A") if letter else len(options)
    return number if number < len(options) and (not rest or folded(rest) == options[number]) else None


def folded(text: str) -> str:
    return bare(text).casefold().strip(" .")


def exact(gold: str, answer: str) -> bool | None:
    """The same text, but for spaces and the way its accents are coded; None for an empty gold."""
    expected, found = (" ".join(unicodedata.normalize("NFC", text).split()) for text in (gold, answer))
    return expected == found if expected else None
