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

from r1flow.grading.final import BOX, LIMIT, WIDE, candidate
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
#
# What may stand beside a letter is listed, and pays nothing else: marks, the option's own text, its number in words, a
# reason. Where nobody says what the options are, any short text may be the option's own, unless it talks of choosing.

LETTER = re.compile(
    r"[#>→⇒∴✅✔✓☑🎯👉➡►▶\ufe0f\s]*"
    r"(?:I (?:think|believe|guess|would say)(?: that)? |I['’]d say )?"
    r"(?:(?:so|thus|hence|therefore),? )?"
    r"(?:(?:the )?(?:correct |right |best )?(?:option|choice|answer|ans\.?|letter)(?: is)?(?::| [-–—=])? "
    r"|(?:it is|it['’]s) "
    r"|I(?: would| will|['’]d|['’]ll)? (?:choose|pick|select|go with|opt for) (?:option )?"
    r"|only |【?(?:正确)?(?:答案|选项)】?\s*[是为]?\s*:?\s*|(?:所以|因此|故|应|应该)?选择?\s*:?\s*)?"
    r"[(\[{【“\"'`]?([A-Za-z])(?![A-Za-z\d_]|['’][A-Za-z])",
    re.IGNORECASE,
)
# After a letter that nothing else follows: marks, or in Chinese that it is an option, or right.
ALONE = re.compile(r"[)\]}】”\"'`]*(?:选项|项)?是?(?:正确|对)?的?[\s.:;!。、．✅✔✓☑🎉👍\ufe0f]*")
APART = re.compile(r"[)\]】”\"'`.:。、．]+\s*(?:[-–—] )?\s*|\s[-–—]\s|(?=\s\()|,?(?=\s(?:because|since|as)\s)")
LOOSELY_APART = re.compile(r"(?:,\s|[.,:]?\n)\s*")
STATES = re.compile(r"(?i:because|since|as)\s|[A-Z\d$\\]")
ALL_OR_NONE = re.compile(r"(?:all|none) of (?:the above|these)", re.IGNORECASE)  # an option's text, after its letter
REASON = re.compile(r"(?:because|since|as (?:it|this|that|the)) ", re.IGNORECASE)
GOES_ON = re.compile(r",? (?:because|since|as (?:it|this|that|the)|is|was|are|were|has|had) ")
# One clause: words, numbers and formulas, with no mark that begins another clause.
ONE_CLAUSE = re.compile(
    r"(?:[^\W_]|[ %$°€£(){}\\√“”\"'’/-]|(?<=[\w)} ])[+*^=<>×·−]|(?<=\d)[.,](?=\d)|,(?= \d)"
    r"|_(?=[\d{]))+[.!。]?"
)
WORDS_OF_TEXT = re.compile(r"[^\W_\u2e80-\u9fff]+(?:['’][^\W\d_]+)*")
# A letter by itself names an option, but for the word "a" and for variables and units beside numbers and signs.
NO_OPTION = re.compile(
    r"(?<![^\W_])(?:[Aa](?= [a-z]{2})|[a-z](?= ?(?:[+*^=<>×·]|[-−] ?\d)|\()"
    r"|(?:(?<=[+*^=<>×·])|(?<=[+*^=<>×·] )|(?<=\w\()|(?<=\d )|(?<=[a-z]/))[a-z])(?![^\W_])"
)
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
SWAYS_AS_PLACE = {*ORDINALS, "1st", "2nd", "3rd", "4th", "5th", "6th", "7th", "8th", "9th", "10th", "bottom"}


def words_of_text(text: str) -> list[str]:
    return [word.casefold().replace("’", "'") for word in WORDS_OF_TEXT.findall(text)]


# Words of choosing and of taking back: a text that takes its letter back has one of them, or names another option.
SWAYS = frozenset(
    words_of_text(
        "option options choice choices answer answers letter letters alternative alternatives alternatively pick "
        "select choose other others another former latter next previous preceding following last final rest or nor "
        "and not no nope never none neither either both but yet though although however except unless if whether "
        "while whereas wrong incorrect untrue mistake mistaken error correction corrected actually rather instead "
        "wait sorry oops hmm hm um uh er ah oh well ok okay maybe perhaps possibly probably presumably kidding "
        "joking scratch ignore forget cancel changed change mind better meant prefer then also too alternately "
        "otherwise unsure uncertain cannot try go going let definitely surely apparently hopefully anyway "
        "reconsider reconsidering revised"
    )
)
# Beyond a reason, an option's own text doesn't speak of who answers, or of what was said.
SPEAKS = frozenset(
    words_of_text(
        "i i'm i'd i'll i've me my mine myself you your yours we us our it's this that that's those one ones think "
        "thought thoughts believe guess say said mean all above below make"
    )
)
COUNTED_NAME = re.compile(rf"\b(?i:{'|'.join(ORDINALS)}) (?=[A-Z][a-z])")
SWAYS_IN_CHINESE = frozenset("选項项错錯改或不非没沒第最否而但应應该該")
STYLE = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|bold|mbox|underline|boxed|fbox|framebox|operatorname)\s*\{([^{}]*)\}"
)
DOLLARS = re.compile(r"\$|\\[()]|~")
STYLE_OF_PAGES = re.compile(r"</?(?:b|strong|i|em|u|mark|p)>", re.IGNORECASE)
IT_IS = re.compile(r"(?:i (?:think|believe) (?:that )?)?(?:it is|it['’]s) ")
WITH_LETTER = re.compile(r"(.+?)\s*[(\[]\s*([A-Za-z])\s*[)\]][\s.!]*", re.DOTALL)


def bare(text: str) -> str:
    r"""A text without `$`, `\text{…}`, `<b>` and the like around words, and with single spaces."""
    if len(text) > LIMIT:
        return ""
    text = unicodedata.normalize("NFC", text).translate(WIDE).replace("**", "")
    text = DOLLARS.sub(" ", text)
    return " ".join(STYLE.sub(r"\1", STYLE.sub(r"\1", STYLE_OF_PAGES.sub("", text))).split())


def letter_of(text: str) -> tuple[str, str] | None:
    """The option letter that a text begins with, and the text after it; None without one."""
    if len(text) > LIMIT:
        return None
    text = "\n".join(filter(None, map(bare, text.split("\n"))))
    match = LETTER.match(text)
    if not match:
        return None
    if ALONE.fullmatch(text, match.end()):
        return match[1].upper(), ""
    loosely = LOOSELY_APART.match(text, match.end())
    apart = loosely or APART.match(text, match.end())
    # A small letter that other text follows may be a word, unless it is in brackets: (b) London.
    bracketed = text[match.start(1) - 1 : match.end() + 1] == f"({match[1]})"
    if not apart or (match[1].islower() and not bracketed):
        return None
    rest = text[apart.end() :].strip()
    # After a comma and on another line there may stand anything, so that text must look like an option's or a reason.
    return None if loosely and not (STATES.match(rest) and sways_nothing(rest)) else (match[1].upper(), rest)


def single_letter(text: str) -> str | None:
    """The option letter that a text chooses; None without one, or if what follows it may name or mean another."""
    number = option_named(text, {})
    return None if number is None else chr(ord("A") + number)


def choice(gold: str, answer: str, options: Sequence[str] | None = None) -> bool | None:
    """Whether the answer chooses the gold's option: by letter, or, where `options` are given, by its text.

    The gold is a letter ("C", "(C)", "C. London") or an option's text; None when it is neither, or no option.
    """
    if not options:
        letter, text = letter_of(gold) or ("", "")
        if not letter:
            return None
        number = place_of_letter(letter)
        return option_chosen(answer, {number: folded(text)} if text else {}, all_known=False) == number
    if isinstance(options, str) or not isinstance(options, Sequence):
        return None
    if any(isinstance(option, bool) or not isinstance(option, str | int | float) for option in options):
        return None
    if any(isinstance(option, int) and abs(option) >= 10**LIMIT for option in options):
        return None
    texts = {number: folded(str(option)) for number, option in enumerate(options)}
    number = option_named(gold, texts, all_known=True)
    return None if number is None else option_chosen(answer, texts, all_known=True) == number


def option_chosen(answer: str, texts: dict[int, str], all_known: bool) -> int | None:
    """The number of the option that an answer chooses: by all of it, else by what it states in the end."""
    letter, rest = letter_of(answer) or ("", "")
    if not BOX.search(answer):
        whole = option_named(answer, texts, all_known)
        if whole is not None or REASON.match(rest):
            return whole
    stated = candidate(answer)
    number = option_named(stated, texts, all_known)
    # "C. It is Rome" names two.
    return None if letter and not letter_of(stated) and number != place_of_letter(letter) else number


def option_named(text: str, texts: dict[int, str], all_known: bool = False) -> int | None:
    """The number of the option that a text names; of the options `texts` has those whose texts are known."""
    said = folded(text)
    for form in (said, IT_IS.sub("", said, count=1)):
        numbers = [number for number in texts if is_same_text(form, texts[number])]
        if len(numbers) == 1:
            return numbers[0]
    ended = WITH_LETTER.fullmatch(said)
    if ended and is_same_text(ended[1], texts.get(place_of_letter(ended[2]), "")):  # Paris (C)
        return place_of_letter(ended[2])
    letter, rest = letter_of(text) or ("", "")
    if not letter or (all_known and place_of_letter(letter) not in texts):
        return None
    number = place_of_letter(letter)
    return number if names_no_other(number, rest, texts) else None


def place_of_letter(letter: str) -> int:
    return ord(letter.upper()) - ord("A")


def names_no_other(number: int, rest: str, texts: dict[int, str]) -> bool:
    """Whether what follows an option's letter is nothing, the option's place or own text, or a reason."""
    said, own = folded(rest), texts.get(number)
    if not said or is_place_of(number, said) or (own is not None and is_same_text(said, own)):
        return True
    if own is None and ALL_OR_NONE.fullmatch(said):
        return True
    if not sways_nothing(rest):
        return False
    if own is None and not REASON.match(rest):
        return not SPEAKS.intersection(words_of_text(rest))
    if own is not None and said.startswith(own) and GOES_ON.match(said, len(own)):
        said = said[len(own) :]
    elif not REASON.match(rest):
        return False
    return not any(is_named_in(said, text) for other, text in texts.items() if other != number)


def is_place_of(number: int, said: str) -> bool:
    """Whether words give an option's place: "the third option"."""
    return number < len(ORDINALS) and said.removeprefix("the ") in (
        ORDINALS[number],
        *(f"{ORDINALS[number]} {noun}" for noun in ("one", "option", "choice", "answer")),
    )


def sways_nothing(text: str) -> bool:
    """Whether a text is one clause without another letter, another's place, and words of choosing or taking back."""
    if not ONE_CLAUSE.fullmatch(text) or SWAYS_IN_CHINESE.intersection(text):
        return False
    spoken = words_of_text(NO_OPTION.sub(" ", text))
    if SWAYS.intersection(spoken) or any(word.endswith("n't") for word in spoken):
        return False
    # An ordinal counts something else only before a name: the Second World War.
    if not SWAYS_AS_PLACE.isdisjoint(words_of_text(COUNTED_NAME.sub(" ", text))):
        return False
    return not any(len(word) == 1 and word.isalpha() for word in spoken)


def is_same_text(said: str, own: str) -> bool:
    """Whether both are the same text, with or without quotation marks or brackets around it."""
    return bool(said) and (said == own or without_marks(said) == without_marks(own))


def without_marks(text: str) -> str:
    text = text.strip("\"“”'‘’«» .!")
    return text[1:-1].strip(" .!") if text[:1] + text[-1:] == "()" else text


def is_named_in(text: str, own: str) -> bool:
    return bool(own) and re.search(rf"(?<!\w){re.escape(own)}(?!\w)", text) is not None


def folded(text: str) -> str:
    return bare(text).casefold().strip(" .!。✅✔✓☑🎉👍\ufe0f")


def exact(gold: str, answer: str) -> bool | None:
    """Whether both are the same text, except for spaces and the encoding of accents; None for an empty gold."""
    expected, found = (" ".join(unicodedata.normalize("NFC", text).split()) for text in (gold, answer))
    return expected == found if expected else None
