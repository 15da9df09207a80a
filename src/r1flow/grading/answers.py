r"""Grades the kinds of answers that need no mathematics: written-out numbers, choice letters, text.

    plain_number(r"\frac{3}{4}") == plain_number("0.75")                          # the same Fraction
    choice("C", "(C) London")                                       # True

final.py decides which text of a completion is graded.
"""

import re
import unicodedata
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from r1flow.grading.final import LIMIT, WIDE, candidate
from r1flow.grading.verdict import EXACT

# Numbers.


class PlainNumber(NamedTuple):
    """A number that is written out: digits, a sign, thousands separators, a decimal point, a simple fraction."""

    value: Fraction
    places: int | None  # digits after the point; None: there is no point


WHOLE = r"(?:[1-9]\d{0,2}(?:,\d{3})+|\d+)"
NUMBER = re.compile(rf"([-+]?)({WHOLE}(?:\.\d+)?|\.\d+)", re.ASCII)
FRACTION = re.compile(
    rf"([-+]?)(?:({WHOLE})\s*/\s*({WHOLE})|\\[dt]?frac\s*\{{\s*(\d+)\s*\}}\s*\{{\s*(\d+)\s*\}})", re.ASCII
)


def plain_number(text: str) -> PlainNumber | None:
    """The number, if the whole text is one; None otherwise, and for x/0 or a fraction that isn't worked out (6/2)."""
    match = NUMBER.fullmatch(text)
    if match:
        whole, point, part = match[2].replace(",", "").partition(".")
        value = int(whole + part) * (-1 if match[1] == "-" else 1)
        return PlainNumber(Fraction(value, 10 ** len(part)), len(part)) if point else PlainNumber(Fraction(value), None)
    match = FRACTION.fullmatch(text)
    if not match:
        return None
    above, below = (int((match[i] or match[i + 2]).replace(",", "")) for i in (2, 3))
    worked_out = below and (above % below or not above)
    return PlainNumber(Fraction(above, below) * (-1 if match[1] == "-" else 1), None) if worked_out else None


def is_rounding(decimal: PlainNumber, value: Fraction, least: int = EXACT.places) -> bool:
    """Whether a written decimal is the value, rounded (halves away from 0) to `least` places and digits or more."""
    places = decimal.places
    if not places or places < least or not value:
        return False
    if abs(value) < 1 and abs(value) * 10**places < 10 ** (least - 1):
        return False
    return abs(abs(decimal.value) - abs(value)) * 2 * 10**places <= 1 and (decimal.value < 0) == (value < 0)


def same_number(gold: PlainNumber, answer: PlainNumber, least: int = EXACT.places) -> bool:
    """Whether both are equal, or one is a decimal of at least `least` places that rounds the other, a fraction."""
    if gold.value == answer.value:
        return True
    if gold.places is None and gold.value.denominator > 1:
        return is_rounding(answer, gold.value, least)
    return answer.places is None and answer.value.denominator > 1 and is_rounding(gold, answer.value, least)


# Letters and text.

LETTER = re.compile(
    r"(?:(?:the )?(?:correct |right |best )?(?:option|choice|answer|letter)(?: is)?(?::| [-–—])? |(?:it is|it['’]s) "
    r"|I(?: would| will|['’]d|['’]ll)? (?:choose|pick|select|go with|opt for) (?:option )?"
    r"|(?:正确)?(?:答案|选项)\s*[是为]?\s*[:：]?\s*|[应故]?选择?\s*)?"
    r"[(\[（【“\"'`]?([A-Za-z])(?:[)\].:。、：）】”\"'`．]+|$|(?= [-–—] )|(?= \()"
    r"|,?(?= (?:because|since|as (?:it|this|that|the)) ))"
    r"(?:\s*[-–—] )?\s*(.*)",
    re.DOTALL | re.IGNORECASE,
)
# A letter by itself, but for the words "A" and "I" before others, or what wavers.
OTHER = re.compile(
    r"(?<![\w'’])(?:[B-HJ-Z]|[AI](?!\s+[a-z]))(?![\w'’])"
    r"|\b(?:or|and|nor|not|but|wrong|maybe|perhaps|actually|rather|instead|wait|no)\b|^\s*[,;/&]"
    r"|(?:^|[\s,;/&])[(\[]?[a-z][)\]](?!\w)|^[a-z]$"
)
REASON = re.compile("(?:because|since|as (?:it|this|that|the)) ")
STYLE = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|underline|boxed|fbox|framebox|operatorname)\s*\{([^{}]*)\}"
)


def bare(text: str) -> str:
    r"""A text without `$`, `\text{…}` and the like around words, and with single spaces."""
    if len(text) > LIMIT:
        return ""
    text = unicodedata.normalize("NFC", text).translate(WIDE).replace("$", " ").replace("**", "")
    return " ".join(STYLE.sub(r"\1", STYLE.sub(r"\1", text)).split())


def letter_of(text: str) -> tuple[str, str] | None:
    """The option letter that a text begins with, and the text after it; None without one."""
    match = LETTER.fullmatch(bare(text))
    return None if not match or (match[1].islower() and match[2]) else (match[1].upper(), match[2])


def single_letter(text: str) -> str | None:
    """The option letter that a text chooses; None without one, or if the text names another as well."""
    found = letter_of(text)
    return None if found is None or OTHER.search(found[1]) else found[0]


def choice(gold: str, answer: str, options: Sequence[str] | None = None) -> bool | None:
    """Whether the answer chooses the gold's option: by letter, or, where `options` are given, by its text.

    The gold is a letter ("C", "(C)", "C. London") or an option's text; None when it is neither, or no option.
    """
    reasoned = REASON.match((letter_of(answer) or ("", ""))[1])
    said = answer if reasoned else candidate(answer)
    if not options:
        expected = letter_of(gold)
        return None if expected is None else single_letter(said) == expected[0] or folded(said) == folded(gold)
    if isinstance(options, str) or not isinstance(options, Sequence):
        return None
    if any(isinstance(option, bool) or not isinstance(option, str | int | float) for option in options):
        return None
    texts = [folded(str(option)) for option in options]
    number = option_named(gold, texts)
    return None if number is None else option_named(said, texts) == number


def option_named(text: str, options: list[str]) -> int | None:
    """The number of the option that a text names; a letter with another option's text names none."""
    if options.count(folded(text)) == 1:
        return options.index(folded(text))
    letter, rest = letter_of(text) or ("", "")
    number = ord(letter) - ord("A") if letter else len(options)
    if number >= len(options):
        return None
    explained = REASON.match(rest) and not OTHER.search(rest)
    return number if not rest or explained or folded(rest.strip("()")) == options[number] else None


def folded(text: str) -> str:
    return bare(text).casefold().strip(" .")


def exact(gold: str, answer: str) -> bool | None:
    """Whether both are the same text, except for spaces and the encoding of accents; None for an empty gold."""
    expected, found = (" ".join(unicodedata.normalize("NFC", text).split()) for text in (gold, answer))
    return expected == found if expected else None
