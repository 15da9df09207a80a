r"""Is a mathematical answer right? math-verify's mathematics, decided exactly, in processes that may be killed.

    equal("1/2", "0.5")                              # True
    equal(r"\{1, 2\}", "2 or 1")                     # True
    equal("7", "7 or 8")                             # False
    equal(r"1-\frac{1}{e}", r"1+\frac{1}{e}")        # False
    equal(r"\frac{", "7")                            # None: the gold can't be read

Numbers that are written out are compared here, at once and exactly, and words and choice letters as text; a worker
compares everything else (worker.py, closed_forms.py). A text counts as a whole: no answer is searched in it, so a hedge
or a sentence with several numbers is wrong. Units may be left out, but must agree if both sides have a known one.
A decimal with six places or more may stand for the fraction or constant it rounds.
"""

import re
import unicodedata
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import chain
from typing import NamedTuple

from r1flow.grading.answers import STYLE, PlainNumber, bare, plain_number, same_number, single_letter
from r1flow.grading.final import BOX, LIMIT, WIDE, candidate, closing_brace, values_of
from r1flow.grading.nouns import COUNTED, DESCRIBING_QUANTITIES, MATERIALS, QUANTITIES
from r1flow.grading.units import (
    BEFORE_ITS_UNIT,
    CHINESE_UNITS,
    COUNT,
    CURRENCY,
    DESCRIBING,
    DIVIDING,
    FILLERS,
    IN_COMMAND,
    LEFT,
    MONEY,
    RAISED_TO,
    SIGN,
    as_measure,
    factor_named,
    flattened,
    measure_of,
    same_measure,
)
from r1flow.grading.verdict import EXACT, Cause, Rules, Verdict
from r1flow.grading.worker import WORKERS, worker

CHUNK = 64  # pairs a worker is given at once
BAD_GOLD = Verdict(None, Cause.UNGRADABLE)
WRONG = Verdict(False)
# A gold, an answer and, where they aren't the usual ones, the rules.
Pair = tuple[str, str] | tuple[str, str, Rules]


def equal(gold: str, answer: str) -> bool | None:
    """Whether `answer` equals `gold`; None if that can't be decided: a bad gold, or a worker that failed."""
    return verdicts([(gold, answer)])[0].correct


def verdicts(pairs: Sequence[tuple[str | None, str | None]], rules: Rules = EXACT) -> list[Verdict]:
    """One verdict per (gold, answer), each as if it were alone; no answer (None) is wrong."""
    decided = [decide(gold, answer, rules) for gold, answer in pairs]
    asked = list(dict.fromkeys(chain.from_iterable(found for found in decided if isinstance(found, list))))
    questions = asked if rules == EXACT else [(*pair, rules) for pair in asked]
    graded = dict(zip(asked, by_workers(questions), strict=True))
    given = []
    for found in decided:
        given.append(best([graded[pair] for pair in found]) if isinstance(found, list) else found)
    return given


def by_workers(pairs: list[Pair]) -> list[Verdict]:
    """The pairs' verdicts, in order, from as many workers as the number of pairs needs."""
    chunks = [pairs[begin : begin + CHUNK] for begin in range(0, len(pairs), CHUNK)]
    if len(chunks) < 2:
        return list(chain.from_iterable(map(by_worker, chunks)))
    with ThreadPoolExecutor(WORKERS) as threads:
        return list(chain.from_iterable(threads.map(by_worker, chunks)))


def by_worker(chunk: list[Pair]) -> list[Verdict]:
    with worker() as grading:
        return grading.verdicts(chunk)


def best(readings: list[Verdict]) -> Verdict:
    """The verdict on several readings of one answer: a right one if any is, else the first (the gold unchanged)."""
    return next((reading for reading in readings if reading.correct), readings[0])


def number_in(answer: str | None) -> str | None:
    """The value of an answer that is one number, in one spelling: "18" of $18, 18 dollars, 18.0; None for any other."""
    found = tidy(in_plain_words(answer)) if answer else None
    return str(found.number.value) if found and found.number else None


# Answers that can be decided here, without a worker.


def decide(gold: str | None, answer: str | None, rules: Rules = EXACT) -> Verdict | list[Pair]:
    """A verdict, or the readings of gold and answer that a worker must compare, any of which may be right."""
    if not isinstance(gold, str | None):
        return BAD_GOLD
    if gold and answer and len(gold) <= LIMIT and len(answer) <= LIMIT:
        bare_gold, bare_answer = plain_number(gold), plain_number(answer)
        if bare_gold and bare_answer:  # the usual case, without looking for wrappers
            return Verdict(same_number(bare_gold, bare_answer, rules.places))
    written = answer or ""
    if gold:
        gold, answer = values_of(gold, written)
        if congruence := congruence_in(gold):
            return Verdict(same_congruence(congruence, congruence_in(answer)))
    expected = tidy(gold)
    if expected is None or not expected.core:
        return BAD_GOLD
    if expected.number:
        answer = in_plain_words(answer)
    found = tidy(answer, gold=expected)
    measured_gold = tidy(gold, letters=True)
    if measured_gold.unit and not expected.unit:  # 3 m may be a product, unless the answer has a unit
        with_unit = tidy(answer, gold=measured_gold)
        expected, found = (measured_gold, with_unit) if with_unit and with_unit.unit else (expected, found)
    if found and (numbers := by_comma(expected, found) or by_comma(found, expected)):
        return Verdict(same_number(*numbers))
    expected, found = on_the_hour(expected), found and on_the_hour(found)
    if CLOCK.fullmatch(expected.core) and found and (CLOCK.fullmatch(found.core) or expected.core.endswith(":00")):
        return Verdict(agree(expected, found) and CLOCK.fullmatch(found.core) is not None)
    if DATE.fullmatch(expected.core):
        return Verdict(found is not None and found.core == expected.core)
    if found and ":" in found.core and expected.number and expected.number.value.denominator == 1:
        return WRONG  # 12:4 is a division to be worked out, and no 3
    textual = grade_words(expected, found, written)
    if textual is not None:
        return textual
    if found is None or not found.core or not agree(expected, found) or says_more(expected, found):
        return check_gold(expected)
    if expected.number and found.number:
        return Verdict(same_plainly(expected, found, rules.places))
    return readings(expected, found)


CALLED_QUANTITY = re.compile(r"([A-Za-z]+(?: [A-Za-z]+){0,2}?)(?: of ([A-Za-z]+))?\s*[=:]\s*(?=\S)")
SAID_TWICE = re.compile(r"([^()=]+?)\s*\(\s*(?:or\s|=\s*|i\.e\.,?\s)?\s*([-\d.,/]+\s*\\?%?)\s*\)")
UNIT_IN_BRACKETS = re.compile(r"(\$?[-−]?[\d.,]*\d\$?)(?:\s|\\[ ,;])*\(\s*([^()]{1,24}?)\s*\)")


def in_plain_words(answer: str) -> str:
    """An answer where a number is asked for, without the number's name before it and brackets around its unit.

    "Total area = 73 (cm)" is 73 cm. The name must be a quantity's, since other words may reckon: "twice A = 73".
    """
    plain = unwrapped(answer) if len(answer) <= LIMIT else ""
    if called := CALLED_QUANTITY.match(plain):
        *describing, noun = called[1].lower().split()
        if called[2] and not (noun == "number" and is_counted(called[2].lower())):
            noun = ""
        if DESCRIBING_QUANTITIES.issuperset(describing) and (noun in QUANTITIES or is_counted(noun)):
            answer = plain = plain[called.end() :]
    if (named := NAME.match(plain)) and plain_number(plain[named.end() :].strip(" $")):
        answer = plain = plain[named.end() :]  # x = 1,440 is no list
    if twice := SAID_TWICE.fullmatch(plain):  # 3/4 (0.75)
        first, second = tidy(twice[1]), tidy(twice[2])
        if first and second and first.number and second.number and same_plainly(first, second, EXACT.places):
            return twice[1]
    if unit := UNIT_IN_BRACKETS.fullmatch(plain):
        words = flattened(unit[2])
        if measure_of(words) or is_counted(words) or words in CHINESE_UNITS or CHINESE_COUNTED.fullmatch(words):
            return f"{unit[1]} {unit[2]}"
    return answer


EXPONENT = re.compile(
    r"(?:(.+?)(?:[eE]|\s*(?:\\times|\\cdot|\*)\s*10\s*(?:\^|\*\*))|10\s*(?:\^|\*\*))\s*\{?([-+]?\d{1,3})\}?", re.ASCII
)
MIXED_FRACTION = re.compile(r"(-?)(\d{1,50})\s*\\frac\{(\d{1,50})\}\{(\d{1,50})\}", re.ASCII)
NAME = re.compile(r"^[A-Za-z](?:_\{?\w+\}?)?\s*=\s*")


def numeric(gold: str, answer: str, rel_tol: float, abs_tol: float) -> bool | None:
    """Whether the answer is within the greater of both tolerances of the gold; None when the gold is no number.

    Powers of ten are read, and units that both sides have must agree: 1.5e-3, 1.5 × 10^{-3} m.
    """
    expected = tidy(gold, letters=True)
    value = expected and measured(expected)
    if value is None:
        return None
    found = tidy(NAME.sub("", candidate(answer)), gold=expected, letters=True)
    near_to = found and agree(expected, found) and measured(found)
    allowed = max(Fraction(rel_tol) * abs(value), Fraction(abs_tol))
    return isinstance(near_to, Fraction) and abs(near_to - value) <= allowed


def measured(side: "Tidy") -> Fraction | None:
    """A number with or without a name, a unit and a power of ten; a percentage is a number of hundredths."""
    if side.number:
        return side.number.value / (100 if side.percent else 1)
    # 1.5e-3 is an expression in the core; 3 × 10^2 m has its unit in the text.
    for written in (side.text, side.core.strip("()")):
        value = NAME.sub("", written)
        if mixed := MIXED_FRACTION.fullmatch(value):
            part = Fraction(int(mixed[3]), int(mixed[4]) or 1)
            return (int(mixed[2]) + part) * (-1 if mixed[1] else 1)
        match = EXPONENT.fullmatch(value)
        number = plain_number((match[1] or "1") if match else value)
        if number and not side.percent:
            return number.value * Fraction(10) ** int(match[2] if match else 0)
    return None


HALVES_OF_A_DAY = (as_measure(("am", 1)), as_measure(("pm", 1)))


def on_the_hour(side: "Tidy") -> "Tidy":
    """3 PM as 3:00 PM."""
    if side.unit in HALVES_OF_A_DAY and side.core.isdecimal() and 1 <= int(side.core) <= 12:
        return side._replace(core=f"{int(side.core)}:00", number=None)
    return side


class Tidy(NamedTuple):
    """A text without its wrappers."""

    text: str  # as it was, but for its wrappers
    core: str  # without percent sign and unit, too
    number: PlainNumber | None
    percent: bool
    unit: str | None  # its measure
    base: str | None  # of 4210_{5}; then the core is its digits


def check_gold(gold: Tidy) -> Verdict | list[Pair]:
    """The verdict on an answer that can't be right: wrong if the gold can be read, else ungradable."""
    return WRONG if gold.number or gold.base else [(gold.core, "")]


def same_plainly(gold: Tidy, answer: Tidy, places: int) -> bool:
    """Two plain numbers; a percent sign may be left out where the number itself is meant ("what percent …?")."""
    if gold.percent == answer.percent:
        return same_number(gold.number, answer.number, places)
    if same_number(*(hundredth(side.number) if side.percent else side.number for side in (gold, answer)), places):
        return True
    return (gold.percent or abs(gold.number.value) >= 1) and same_number(gold.number, answer.number, places)


def by_comma(one: Tidy, other: Tidy) -> tuple[PlainNumber, PlainNumber] | None:
    """Both as numbers, if one has a decimal comma and the other a decimal point, so that the comma makes no list."""
    match = COMMA.fullmatch(one.core)
    if not match or one.number or not other.number or other.number.places is None:
        return None
    return plain_number(re.sub(r"[ .]", "", match[1]) + "." + match[2]), other.number


def hundredth(number: PlainNumber) -> PlainNumber:
    return PlainNumber(number.value / 100, None if number.places is None else number.places + 2)


def readings(gold: Tidy, answer: Tidy) -> list[Pair]:
    """The pairs to compare: a percent sign on one side only means hundredths; the gold's may also be ignored.

    Values without the names that the gold gives them are a list in the gold's order, or in that of the alphabet.
    """
    if (named := values_by_name(gold.core)) and "=" not in answer.core:
        given = BETWEEN.sub(", ", answer.core)
        listed = given if given.startswith(("(", "\\left(")) else f"({given})"
        orders = dict.fromkeys([", ".join(named.values()), ", ".join(named[name] for name in sorted(named))])
        return [(f"({values})", listed) for values in orders]
    if gold.percent == answer.percent:
        return [(gold.core, answer.core)]
    if gold.percent:
        return [(gold.core, answer.core), (rf"\frac{{{gold.core}}}{{100}}", answer.core)]
    return [(gold.core, rf"\frac{{{answer.core}}}{{100}}")]


def values_by_name(text: str) -> dict[str, str]:
    """What "x = 3, y = 4" gives to each of its names; nothing where it is anything else."""
    parts = [NAMED.fullmatch(part) for part in BETWEEN.split(text)]
    named = {part[1]: part[2] for part in parts if part}
    return named if 1 < len(named) == len(parts) else {}


def agree(gold: Tidy, answer: Tidy) -> bool:
    """Whether units and bases, where both sides have them, are the same."""
    if not same_measure(gold.unit, answer.unit):
        return False
    if gold.base and answer.base and gold.base != answer.base:
        return False
    if not (gold.base or answer.base):
        timed = CLOCK.fullmatch(gold.core) and ":" in answer.core  # 10:30 is not the ratio 1:3
        return not timed or gold.core.lstrip("0") == answer.core.lstrip("0")
    return gold.core.casefold().lstrip("0") == answer.core.casefold().lstrip("0")


def says_more(gold: Tidy, answer: Tidy) -> bool:
    """Whether the answer gives values to more names than the gold does ("x = 6 / x = 5"), or a longer ratio (5:6:1)."""
    if answer.core.count(":") > max(1, gold.core.count(":")):
        return True
    expected, given = ASSIGNED.findall(gold.core), ASSIGNED.findall(answer.core)
    if SEVERAL.search(gold.core) and len(set(expected)) == 1 and set(given) == set(expected):
        return False  # x = 1, 2 may be x = 1 or x = 2
    return 0 < len(expected) < len(given)


# Words and choice letters.

LETTERS = re.compile(r"[^\W\d_]+")
FEW = 3  # letters that may be variables side by side; from so many on, a word ("xyz" is one, too)
SHORT = {"no", "on", "up"}


def grade_words(gold: Tidy, answer: Tidy | None, written: str) -> Verdict | None:
    """The verdict where the gold is text: a choice letter, or words; None where it is mathematics."""
    said = bare(gold.text).strip(" .")
    if re.fullmatch(r"\(?[A-Z]\)?", said):
        texts = [candidate(written)] if answer is None else [candidate(written), answer.text]
        return Verdict(set(map(single_letter, texts)) - {None} == {single_letter(said)})
    if not is_text(said, styled=not LETTERS.search(STYLE.sub("", gold.text))):
        return None
    return Verdict(answer is not None and spelling(said) == spelling(bare(answer.text)))


def is_text(said: str, styled: bool) -> bool:
    r"""Whether something is words: "east", "x-axis" in `\text`, "Carla and Bob", but neither "x-y" nor "x and y"."""
    parts = LETTERS.findall(said)
    if not parts or re.search(r"[^\s,.'’-]", LETTERS.sub("", said)):
        return False
    if styled or not said.isascii() or said.lower() in SHORT:
        return True
    return min(map(len, parts)) >= (FEW if "-" in said else 2) and max(map(len, parts)) >= FEW


def spelling(text: str) -> str:
    """Letters alone and in lower case; what isn't a letter, space or mark stays, and so tells texts apart.

    There are no solutions where there is no solution.
    """
    letters = re.sub(r"[\s,.'’-]+", "", text).casefold()
    return letters.removesuffix("s") if re.match(r"\s*no\s", text, re.IGNORECASE) else letters


# Taking a text apart.

CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
SPELLINGS = {
    "–": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "÷": "/", "∕": "/", "⁄": "/", "π": r"\pi ",
    "∞": r"\infty ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "±": r"\pm ", "∪": r"\cup ",
    "∩": r"\cap ", "∈": r"\in ", "∅": r"\emptyset ", "°": r"^{\circ}", "²": "^{2}", "³": "^{3}", "√": r"\sqrt",
    "、": ",", "℃": r"^{\circ}C", "℉": r"^{\circ}F", "∛": r"\sqrt[3]", "∨": r"\lor ",
}  # fmt: skip
VULGAR = {one: unicodedata.normalize("NFKC", one).split("⁄") for one in "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒"}
AS_FRACTIONS = {one: rf"\frac{{{above}}}{{{below}}}" for one, (above, below) in VULGAR.items()}
IN_NUMBERS = str.maketrans({"−": "-", **dict.fromkeys("\xa0\u202f\u2009", " "), **AS_FRACTIONS}) | WIDE
SPELLED = str.maketrans(SPELLINGS) | IN_NUMBERS
SPACES = re.compile(r"(\s)\s+")  # a long run costs the patterns below half a second
LEAD = re.compile(
    r"(?:(?:the|my)?\s*(?:final|correct)?\s*(?:answer|result|ans\.?|total)\s*(?:is\s*:?|:|=|—|[-–]\s)"
    r"|(?:ans\.|a\s*:)(?=\s*-?[\d$\\])|\\(?:text|mathrm)\s*\{\s*(?:the )?(?:final )?answer\s*\}\s*[=:]"
    r"|(?:最终)?答案\s*(?:是|为)?\s*:?|答\s*:|(?:所以|因此)\s*,?|(?:一|总)?共(?:有|计)?|合计|(?:需要|等于|结果)?(?:是|为|有)|需要|等于"
    r"|(?:exactly|precisely|a total of|both|either)\s(?=-?[\d$\\]))\s*(?=\S)",
    re.IGNORECASE,
)
DRESS = re.compile(  # marks before an answer or after it, sizes and colours
    r"^(?:[→⇒∴✅✔✓☑🎯👉➡►▶•\ufe0f]+|—\s|=>|#+\s|\\Rightarrow(?![A-Za-z])|\\(?:displaystyle|textstyle|normalsize|small|bf|rm|it|[lL]arge|LARGE|[hH]uge)(?![A-Za-z])"
    r"|\\(?:color|textcolor|colorbox)\s*\{[^{}]*\})\s*"
    r"|\s*[✅✔✓☑🎉\ufe0f]+$|\s*\\[,;:! ]$|(?<!\\)\\$|\s*(?:\\\\|\\checkmark)$|(?<=\w)\s*[,;]$"
)
_TOTAL = r"(?:in total|in all|altogether|overall|total)"
TOTAL = re.compile(
    rf",?(?:\s+(?:\({_TOTAL}\)|{_TOTAL})(?=\}}?$)|\s*\\text\s*\{{\s*(?:\({_TOTAL}\)|{_TOTAL})\s*\}}$)", re.IGNORECASE
)
SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
SCALED = re.compile(
    rf"((?:[-+$\s]|{SIGN})*)((?:[1-9]\d{{0,2}}(?:,\d{{3}})+|\d+)(?:\.\d+)?)(\$?)(?:\s|\\[,;: ]|~)*(\\text\s*\{{\s*)?"
    rf"({'|'.join(SCALES)})(?![A-Za-z])",
    re.ASCII,
)
_PART = r"((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})+?)"
OVER = re.compile(rf"\{{{_PART}\\over(?![A-Za-z]){_PART}\}}")
ALL_OVER = re.compile(r"^(\$?)([^{}$=,]+)\\over(?![A-Za-z])([^{}$=,]+)(\$?)$")
PLUS_MINUS = re.compile(r"\\pm(?![A-Za-z])")
IN_FRACTION = re.compile(rf"\s*-?\s*\\[dt]?frac\s*\{{{_PART}\\pm(?![A-Za-z]){_PART}\}}\s*\{{[^{{}}]+\}}\s*")
CONGRUENCE = re.compile(r"([A-Za-z])(?:\\equiv|≡)(-?\d{1,9})\\?[pb]?mod(\d{1,9})", re.ASCII)
NOT_SAID = re.compile(r"\\(?:text|mathrm)\s*\{|\\[,;: ]|[\s${}().]")
COMMA = re.compile(r"([-+]?(?:\d{1,3}(?:[ .]\d{3})+|\d+)),(\d+)", re.ASCII)
CLOCK = re.compile(r"\d{1,2}:\d{2}", re.ASCII)
DATE = re.compile(r"\d{4}-[01]\d-[0-3]\d", re.ASCII)  # else a difference: 2024-05-01 would be 2018
NAMED = re.compile(r"([A-Za-z](?:_\{?\w+\}?)?)\s*=\s*([^=<>]+)")
BETWEEN = re.compile(r"\s*(?:[,;]|\band\b|\\text\s*\{\s*and\s*\})\s*")
PERCENT = re.compile(r"\s*(?:\\?%|(?:\\(?:text|mathrm)\s*\{)?\s*(?:percent(?:age)?|per cent|pct)\b\.?\s*\}?)$")
SEVERAL = re.compile(r",|\bor\b|\\pm(?![A-Za-z])")
ASSIGNED = re.compile(r"(?<![\\A-Za-z])[A-Za-z](?:_\{?\w+\}?)?\s*=")
BASES = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11,
    "twelve": 12, "sixteen": 16,
}  # fmt: skip
BASE = re.compile(rf"([0-9A-Za-z]+)_\{{?(?:\\text\{{)?(\d{{1,2}}|{'|'.join(BASES)})\}}{{0,2}}", re.ASCII)
# Other ways to say it: (52)_8, 52 base 8, 52 in base eight.
IN_BASE = re.compile(
    rf"^(?:\((\d[0-9A-Za-z]*)\)_|\$?(\d[0-9A-Za-z]*)\$? (?:in )?base )\$?"
    rf"\{{?(?:\\text\{{)?(\d{{1,2}}|{'|'.join(BASES)})\}}{{0,2}}\$?$",
    re.ASCII,
)
GROUPS = re.compile(
    r"(?<![\d.,_'’])(\d{1,3})((?:(?:['’_]|\\[,!;: ]|\s*\{\s*,\s*\}|~|[^\S\n])+\d{3})+(?![\d,])"
    r"|(?:\.\d{3}){2,}+(?![\d,.]))",
    re.ASCII,
)
POWER_OF_TEN = re.compile(r"(?<![\w.\\])(\d+(?:\.\d+)?)[eE]([-+]?\d{1,4})(?![\w^.])", re.ASCII)
SYSTEM = re.compile(
    r"^(?:\\left\s*)?(?:\\\{)?\s*\\begin\{(cases|array|aligned)\}(?(1)(?:\{[lcr| ]*\})?)"
    r"(.*=.*)\\end\{\1\}\s*(?:\\right\s*\.?)?$",
    re.DOTALL,
)
SUCH_THAT = re.compile(r"^\\\{\s*[a-z]\s*(?:\\in\s*\\mathbb\s*\{R\}\s*)?(?:\||:|\\mid\b)(.*[<>=\\].*)\\\}$")
ENDS = re.compile(r"([\[(][^\[\]();,]*);([^\[\]();,]*[\])])")  # of an interval
CONSTANT = re.compile(r"(?<![A-Za-z])\\mathrm\s*\{\s*([ei])\s*\}")
BRACKETS = {"lbrack": "[", "rbrack": "]", "lbrace": r"\{", "rbrace": r"\}", "lparen": "(", "rparen": ")"}
BRACKET = re.compile(rf"\\({'|'.join(BRACKETS)})(?![A-Za-z])\s*")
SIZE = re.compile(r"\\[bB]igg?[lrm]?(?![A-Za-z])\s*")  # of a bracket
TIMES = re.compile(r"(?<=\d)\s+x\s+(?=\d)", re.ASCII)
ROOT = re.compile(r"([√∛])\s*(\d+|[A-Za-z])", re.ASCII)
SUPERSCRIPTS, SUBSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "₀₁₂₃₄₅₆₇₈₉"
RAISED = re.compile(rf"([{SUPERSCRIPTS}]+)|([{SUBSCRIPTS}]+)")
AS_DIGITS = str.maketrans(SUPERSCRIPTS + SUBSCRIPTS, "0123456789-0123456789")
# What is written as in a program: pi, ln(2), sqrt(5), cbrt(2), 2^(1/3), atan(2), exp(-x), (-oo, 2] U [3, oo).
_WORD = r"(?<![\\A-Za-z])(?<!text\{)(?<!mbox\{)(?<!mathrm\{)(?<!textrm\{)(?<!textbf\{)(?<!operatorname\{)"
_FUNCTIONS = "arcsin|arccos|arctan|sin|cos|tan|cot|sec|csc|ln|log"
PI = re.compile(rf"{_WORD}pi(?![A-Za-z])")
INFINITY = re.compile(rf"(?:{_WORD}(?:[iI]nf|INF|[iI]nfinity|infty|oo)|\\inf)(?![A-Za-z_])")
FUNCTION = re.compile(
    rf"\\(?:operatorname|mathrm|text|textrm)\s*\{{\s*({_FUNCTIONS})\s*\}}"
    rf"|{_WORD}({_FUNCTIONS}|a(?:sin|cos|tan))(?=\s*(?:[\d({{\\^_|]|[a-z](?![A-Za-z])))"
)
NATURAL = re.compile(r"\\log\s*_\s*(?:e|\{\s*e\s*\})(?![A-Za-z])")
CALLED = re.compile(r"(\\?(?<![A-Za-z])(?:sqrt(?:\[\d\])?|exp)|(?<![\\A-Za-z])(?:cbrt|abs)|\^)\s*\(([^()]*)\)")
BARE_ROOT = re.compile(r"(?<![\\A-Za-z])sqrt\s*(\d+)|(\\sqrt\[\d\])\s*(\d)|\\sqrt\s*\{\s*\(([^(){}]*)\)\s*\}")
REPEATING = re.compile(r"(?<![\d.])(\d+)\.(\d*)\\(?:overline|bar)\s*\{?\s*(\d+)\s*\}?(?!\d)", re.ASCII)
ABOUT = re.compile(r"\s*\(\s*(?:≈|\\approx|approximately|about|or about)\s*([^()]+)\)$")
UNIT_APART = re.compile(  # 7 $\text{cm}^2$, 7\text{天}
    r"(?<=[\d})])\s*\$((?:\\(?:text|mathrm)\s*\{[^{}$\\]+\}|[A-Za-z]+)(?:\^\{?[23]\}?)?)\$$"
    r"|(?<=[\d})])\s*\\text\s*\{\s*([\u4e00-\u9fff]{1,4})\s*\}$"
)
BEFORE_UNIT = re.compile(r"(?<=[\d})])(?:\\[,;: ]|~)+(?=[A-Za-z])")
UNION = re.compile(r"(?<=[\])])\s*U\s*(?=[\[(])")
EITHER = re.compile(r"(?<=[\d})])\s*\\(?:lor|vee)\s*(?=[A-Za-z]\s*=)")  # x=2 ∨ x=3
ANGLE = re.compile(r"(?:\\(?:left|right)\s*)?\\([lr])angle(?![A-Za-z])")
MATRIX = re.compile(r"\\(begin|end)\{(?:B|small)matrix\}")
OHM = re.compile(r"(?<=\d)(?:\s|\\[,;: ])*([kM]?)\s*(?:\\Omega|Ω)$")
MIXED = re.compile(r"(?<![\w./])(\d+)\s+(?:and\s+)?(\d+)\s*/\s*(\d+)(?![\w./])", re.ASCII)
SPACE = re.compile(r"(?<!\\)\\(?:[,;:!>]|q?quad(?![a-zA-Z])|(?=\s))|~")
_SHOWN_IN = r"(?:align|aligned|equation|gather|displaymath|math)\*?"
SHOWN = re.compile(  # of one line
    rf"\\begin\{{({_SHOWN_IN})\}}((?:(?!\\\\|\\(?:begin|end)|&(?!\s*=)).)*)\\end\{{\1\}}"
)
FENCED = re.compile(r"```[a-z]{1,10}\n([^`]*)```")
IN_FONT = re.compile(r"\{\\(?:bf|it|rm|em)(?![A-Za-z])([^{}]*)\}")
SHORT_FRACTION = re.compile(
    r"\\([dt]?frac)\s*(?:(\d)\s*(\d)|(\d)\s*\{\s*(\d+)\s*\}|\{\s*(\d+)\s*\}\s*(\d))(?!\d)", re.ASCII
)
OVER_IN_BRACKETS = re.compile(r"(?:\((\d+)\)|\{(\d+)\})\s*/\s*(?:\((\d+)\)|\{(\d+)\})", re.ASCII)
BOXED_VALUE = re.compile(r"^([^=\\{}\d]+=\s*)\\boxed\s*\{([^{}]*)\}$")
LEFT_OUT = re.compile(r"\\(?:boxed|fbox|framebox|[lc]?dots|phantom|cancel|text(?:bf|it|rm)?\s*\{\s*\}\s*\S)|\.\.\.|…")
LAST_AND = re.compile(r",\s*(?:\\text\s*\{\s*and\s*\}|and\b)")
APART = re.compile(r"\$\s*\$|[^\s,;=+\-*/&\\{(\[]\s*\n")  # "$3$ $-3$" and "3\n-3" are two answers, not 0
APPROXIMATE = re.compile(r"^\s*(?:\\approx|=)\s*")
EACH_OF = re.compile(rf"(.+?) ({'|'.join(sorted(DIVIDING))}) (\w+)")


def tidy(text: str | None, gold: Tidy | None = None, letters: bool = False) -> Tidy | None:
    """A text's core and what was around it; None if it can't be an answer. `gold` decides what may be a unit.

    In a gold a single letter after a whole number, 3 m, is a variable unless `letters` are to be read as units.
    """
    if not isinstance(text, str) or len(text) > LIMIT or CONTROL.search(text):
        return None
    whole = IN_BASE.sub(r"\1\2_{\3}", scaled(unwrapped(in_latex(text))))
    number = plain_number(whole)
    if number:
        return Tidy(whole, whole, number, False, None, None)
    core, money = without_currency(TOTAL.sub("", whole))
    core, percent = without(PERCENT, OHM.sub(r" \1ohm", core))
    core, unit = (core, as_measure(("percent", 1))) if percent else without_unit(core, gold, money, letters)
    based = BASE.fullmatch(core) if any(map(str.isdigit, core[:1])) else None
    if based and has_digits_of(based[1], based[2]):
        return Tidy(whole, based[1], None, percent, unit, str(BASES.get(based[2], based[2])))
    core = spelled_out(core)
    return Tidy(whole, core, plain_number(core), percent, unit, None)


def in_latex(text: str) -> str:
    """A text with LaTeX's commands for other characters and names: √5, ½, sqrt(5), 2 ln 3, (2, inf)."""
    text = ROOT.sub(r"\1{\2}", TIMES.sub("×", ABOUT.sub(r" \\approx \1", SPACES.sub(r"\1", text))))
    text = ALL_OVER.sub(r"\1\\frac{\2}{\3}\4", OVER.sub(r"\\frac{\1}{\2}", text))
    text = SHORT_FRACTION.sub(fraction_of_digits, text)
    if over := OVER_IN_BRACKETS.fullmatch(text.strip(" $")):
        text = rf"\frac{{{over[1] or over[2]}}}{{{over[3] or over[4]}}}"
    text = RAISED.sub(raised, text).translate(SPELLED).replace(":=", "=")
    text = INFINITY.sub(r"\\infty ", PI.sub(r"\\pi ", UNIT_APART.sub(r" \1\2", BEFORE_UNIT.sub(" ", text))))
    text = FUNCTION.sub(function_named, UNION.sub(r"\\cup ", EITHER.sub(r"\\text{ or }", text)))
    text, found = REPEATING.sub(repeating_fraction, NATURAL.sub(r"\\ln ", BARE_ROOT.sub(rooted, text))), 1
    while found:  # the innermost brackets first
        text, found = CALLED.subn(called, text)
    return text


def scaled(text: str) -> str:
    """A number with a word for a power of ten after it as one number: 1.5 million apples are 1500000 apples."""
    match = SCALED.match(text)
    if not match:
        return text
    value = Fraction(match[2].replace(",", "")) * 10 ** SCALES[match[5]]
    if value.denominator > 1:
        return text
    sign, dollar, opened, rest = match[1], match[3], match[4] or " ", text[match.end() :]
    if match[4] and rest.strip() == "}":
        opened = rest = ""
    return scaled(unwrapped(f"{sign}{value}{dollar}{opened}{rest}"))


def congruence_in(text: str) -> tuple[str, int, int] | None:
    r"""The name, remainder and modulus of n \equiv 3 \pmod 7, if the text is that."""
    if len(text) > LIMIT or not ("equiv" in text or "≡" in text):
        return None
    match = CONGRUENCE.fullmatch(NOT_SAID.sub("", unwrapped(text)))
    return (match[1], int(match[2]), int(match[3])) if match and int(match[3]) else None


def same_congruence(gold: tuple[str, int, int], answer: tuple[str, int, int] | None) -> bool:
    """Whether both say the same of one name, with a remainder that is worked out: 3 or -4, but not 10, of 7."""
    if answer is None or (gold[0], gold[2]) != (answer[0], answer[2]):
        return False
    return (gold[1] - answer[1]) % gold[2] == 0 and (abs(answer[1]) < gold[2] or answer[1] == gold[1])


def fraction_of_digits(match: re.Match[str]) -> str:
    above, below = (match[place] or match[place + 2] or match[place + 4] for place in (2, 3))
    return rf"\{match[1]}{{{above}}}{{{below}}}"


def raised(match: re.Match[str]) -> str:
    return ("^" if match[1] else "_") + f"{{{match[0].translate(AS_DIGITS)}}}"


def function_named(match: re.Match[str]) -> str:
    name = match[1] or match[2]
    return f"\\arc{name[1:]} " if name in ("asin", "acos", "atan") else f"\\{name} "


def rooted(match: re.Match[str]) -> str:
    return rf"\sqrt{{{match[1] or match[4]}}}" if match[2] is None else f"{match[2]}{{{match[3]}}}"


def repeating_fraction(match: re.Match[str]) -> str:
    r"""The fraction that a repeating decimal is: 0.1\overline{6} is 1/6."""
    whole, places, again = match.groups()
    value = Fraction(int(whole + places + again) - int(whole + places), (10 ** len(again) - 1) * 10 ** len(places))
    return rf"\frac{{{value.numerator}}}{{{value.denominator}}}"


def ungrouped(text: str) -> str:
    r"""A text without what stands between groups of three digits: 2 000 006, 2\,000\,006, 2{,}000{,}006."""
    return GROUPS.sub(lambda match: match[1] + re.sub(r"\D", "", match[2]), text)


def called(match: re.Match[str]) -> str:
    if match[1] == "abs":
        return f"|{match[2]}|"
    name = {"sqrt": r"\sqrt", "cbrt": r"\sqrt[3]", "exp": "e^", r"\exp": "e^"}.get(match[1], match[1])
    return f"{name}{{{match[2]}}}"


def has_digits_of(number: str, base: str) -> bool:
    """Whether a number may be written in a base: 42_5, but not 81_2."""
    value = BASES.get(base) or int(base)
    return 2 <= value <= 36 and all(int(digit, 36) < value for digit in number)


def without(pattern: re.Pattern[str], text: str) -> tuple[str, bool]:
    """The text before the pattern, unless nothing would be left; and whether it was found."""
    match = pattern.search(text)
    return (text[: match.start()].strip(), True) if match and text[: match.start()].strip() else (text, False)


WRAPPERS = (
    ("$$", "$$"),
    ("$", "$"),
    (r"\(", r"\)"),
    (r"\[", r"\]"),
    ("**", "**"),
    ("*", "*"),
    ("__", "__"),
    ("_", "_"),
    ("```", "```"),
    ("`", "`"),
)
WRAPPERS += (('"', '"'), ("“", "”"), ("'", "'"), ("‘", "’"), ("«", "»"), ("「", "」"), ("『", "』"), ("【", "】"))
WRAPPERS += tuple((f"<{name}>", f"</{name}>") for name in ("b", "strong", "i", "em", "u", "mark", "p"))


def unwrapped(text: str) -> str:
    """Without dollar signs, boxes, brackets of display, stars and quotes around all of it, a lead-in, a full stop."""
    while True:
        before, text = text, text.strip()
        if text.endswith((".", "。")) and not text.endswith(".."):
            text = text[:-1]
        if framed := FENCED.fullmatch(text) or IN_FONT.fullmatch(text):
            text = framed[1]
        text = DRESS.sub("", LEAD.sub("", text, count=1) if LEAD.match(text) else text)
        for opening, closing in WRAPPERS:
            inside = text[len(opening) : -len(closing)]
            if text.startswith(opening) and text.endswith(closing) and inside and opening not in inside:
                text = inside
        box = BOX.match(text)
        if box and closing_brace(text, box.end()) == len(text) - 1:
            text = text[box.end() : -1]
        if shown := SHOWN.fullmatch(text):
            text = shown[2].replace("&", "")
        style = STYLE.fullmatch(text)
        if style and (re.match(r"[-+]?\d", style[1]) or (re.search(r"\d", style[1]) and not LETTERS.search(style[1]))):
            text = style[1]
        if text == before:
            return text


def spelled_out(core: str) -> str:
    """Thousands, powers of ten, mixed fractions, operators in LaTeX; "" where a part is hidden or stands apart."""
    system = SYSTEM.match(core)
    if system:  # lines of a system become a list
        core = ", ".join(line.replace("&", "").strip(" ,;") for line in system[2].split(r"\\") if line.strip(" ,;&"))
    core = BRACKET.sub(lambda match: BRACKETS[match[1]], SIZE.sub("", core))
    core = ENDS.sub(r"\1,\2", CONSTANT.sub(r"\1 ", SUCH_THAT.sub(r"\1", core)))
    core = ANGLE.sub(lambda match: "(" if match[1] == "l" else ")", core)
    core = MATRIX.sub(r"\\\1{pmatrix}", core).replace("!=", r"\ne ").replace(r"\varnothing", r"\emptyset")
    core = BOXED_VALUE.sub(r"\1\2", re.sub(r",\\!\s*", ",", core).replace(r"\!", ""))
    core = ungrouped(core)
    core = LAST_AND.sub(",", core)
    if LEFT_OUT.search(core) or ("\\begin" not in core and APART.search(core)):
        return ""
    core = POWER_OF_TEN.sub(r"(\1 \\cdot 10^{\2})", SPACE.sub(" ", core))
    core = MIXED.sub(r"\1\\frac{\2}{\3}", core)
    return with_both_signs(APPROXIMATE.sub("", core.replace("**", "^").replace("$", " ")).strip())


def with_both_signs(core: str) -> str:
    r"""A fraction with \pm in it as the list of its two values, which the parser can't read: \frac{1\pm\sqrt5}{2}."""
    name, equals, value = core.rpartition("=")
    if len(PLUS_MINUS.findall(value)) != 1 or not IN_FRACTION.fullmatch(value):
        return core
    both = [PLUS_MINUS.sub(sign, value) for sign in ("+", "-")]
    return f"{name}{equals}{', '.join(both)}"


# Units.

CHINESE_COUNTED = re.compile(
    r"(?:[个個只隻本件条次种颗棵辆名位张页支箱袋盒套组座块头朵]|(?:平方|立方)(?:厘米|千米|米)|人|吨)"  # and their noun
    r"(?:(?![半多余来不没非错或十百千万亿])[\u4e00-\u9fff]){0,3}"
)
SCALE = re.compile(
    r"\s*(?:\\(?:text|mathrm)\s*\{\s*)?(?:\^\s*\{?\s*\\circ\s*\}?|\\degrees?|degrees?)\s*(?:\\(?:text|mathrm)\s*\{\s*)?"
    r"(?:(C|celsius|centigrade)|(F|fahrenheit))?\s*\}?$",
    re.IGNORECASE,
)
IN_CHINESE = re.compile(r"(?<=[\d})\s$%])\s*([\u4e00-\u9fff]{1,4})$")
AMOUNTS = re.compile(  # no units, in a gold
    r"(?:hundred|thousand|lakh|crore|\w*illion|\w*illiard|myriad|googol|dozen|gross|score|couple|trio|double|triple|pair|"
    r"hal[fv]|third|quarter|\w+th|ten|\w+ty|time|les|plu|minu|zero|one|two|three|four|five|six|seven|eight|nine|squared|"
    r"cubed|wa|perhap|alway|doe|thi)e?s?"
)
IN_TEXT = re.compile(rf"\s*{IN_COMMAND}(?:{RAISED_TO})?(?:\s*(?:/|\\cdot)?\s*{IN_COMMAND}(?:{RAISED_TO})?)*$")
QUOTIENT = re.compile(
    rf"\\[dt]?frac\s*\{{\s*({IN_COMMAND}(?:{RAISED_TO})?)\s*\}}\s*\{{\s*({IN_COMMAND}(?:{RAISED_TO})?)\s*\}}$"
)
KELVIN = re.compile(r"(?:(?:[\s~]|\\[,;: ])\s*\\(?:text|mathrm)\s*\{\s*|\{[\s~]+)K\s*\}$")  # 73K may be thousands
_NAME = rf"(?:\\mu\s*)?[A-Za-zμµÅ][A-Za-zμµÅ.]*(?:{RAISED_TO})?"
IN_PLAIN = re.compile(
    rf"(?<=[\d}})\s])\s*((?:/\s*)?{_NAME}(?:\s*(?:[\s*/]|\\cdot(?![A-Za-z]))\s*\(?{_NAME}){{0,5}}\)?)$"
)
COMMAND = re.compile(r"\\[A-Za-z]+|π")


def without_currency(text: str) -> tuple[str, str | None]:
    """Without a sign before the number, or after it, and the unit that it is; it may come after a minus."""
    bare_number = CURRENCY.sub("", text).strip()
    signs = CURRENCY.findall(text)
    ends = re.match(rf"\s*[-+]?\s*(?:{SIGN})", text) or re.search(rf"(?:{SIGN})\s*$", text)
    if len(signs) != 1 or not ends or not re.search(r"\d", bare_number):
        return text, None
    return bare_number, MONEY[signs[0].replace("\\", "").rstrip(".")]


def without_unit(
    text: str, gold: Tidy | None, paid_in: str | None = None, letters: bool = False
) -> tuple[str, str | None]:
    r"""A text without the unit at its end, and its measure where it is known: "5\text{ cm}^2" gives "5" and one.

    Words without `\text` are units of a number only, and single letters only when the gold is a number, or where
    `letters` of a gold are to be read so. An amount of money may be of so much for each unit.
    """
    money, whole = as_measure((paid_in, 1)) if paid_in else None, text
    match = SCALE.search(text)
    if match and plain_number(text[: match.start()].strip(" $")):
        scale = "degree"
        if match[1] or match[2]:
            scale = "celsius" if match[1] else "fahrenheit"
        return text[: match.start()].strip(" $"), money or as_measure((scale, 1))
    match = IN_CHINESE.search(text)
    if match and plain_number(text[: match.start()].strip(" $")):
        named = CHINESE_UNITS.get(match[1])
        if named or CHINESE_COUNTED.fullmatch(match[1]):
            return text[: match.start()].strip(), money or (as_measure(factor_named(named)) if named else COUNT)
    match = KELVIN.search(text)
    if match and text[: match.start()].strip():
        return text[: match.start()].rstrip(" ~\\,;:!"), money or as_measure(("kelvin", 1))
    text = QUOTIENT.sub(r" \1/\2", text)
    match = IN_TEXT.search(text)
    core = match and text[: match.start()].rstrip(" ~\\,;:!")
    if not match:
        match = IN_PLAIN.search(text)
        core = match and text[: match.start()].strip().rstrip("\\").strip()
        apart = core and (is_value(core) or CLOCK.fullmatch(core) or core.endswith("$"))
        if not match or not apart:
            return whole, money
        apart = bool(gold and gold.number) or letters or (gold is None and is_amount(core, match[0]))
        if are_letters(flattened(match[1])) and not apart:
            return whole, money
    others = [word for word in LETTERS.findall(gold.text.lower()) if len(word) > 1] if gold else None
    words = flattened(match[0])
    known = unit_of(words, others) if core and re.search(r"[\dA-Za-z]", core) else None
    if known is None:
        return whole, money
    each = words.partition(" ")[0].lower() in DIVIDING and measure_of(f"{paid_in} {words}")
    return core, each or money or known or None


def are_letters(words: str) -> bool:
    """Whether a plain text may be a product of variables: m, or m s^-2, but not m/s."""
    names = [word.partition("^")[0] for word in words.split()]
    return all(len(name) == 1 and name.isascii() and name.isalpha() for name in names)


def is_amount(number: str, letters: str) -> bool:
    """Whether letters after a number stand for a unit even in a gold: after a decimal and a space, as in 3.14 m."""
    value = plain_number(number)
    return value is not None and value.places is not None and letters[:1].isspace()


def is_value(core: str) -> bool:
    r"""Whether a text has numbers and no letters that may be variables: 15\pi, \frac{1}{2}."""
    return plain_number(core) is not None or not LETTERS.search(COMMAND.sub("", POWER_OF_TEN.sub("", core)))


def unit_of(said: str, others: list[str] | None) -> str | None:
    """The measure of a unit, COUNT of a noun ("7 red apples"), "" of what says nothing more ("7 left"), else None.

    An answer may also have a noun that its gold has (`others`); a gold (None) may have any plural but a number's.
    """
    unit, of, material = said.rpartition(" of ")
    if of and material.lower() in MATERIALS and (known := measure_of(unit)):
        return known
    if known := measure_of(said):
        return known
    counted_noun, divided, divisor = each_of(said)
    if divided and unit_of(counted_noun, others) == COUNT and (measure_of(divisor) or is_counted(divisor.lower())):
        return COUNT  # 7 apples per day
    parts = said.split()
    rest = [part for part in parts if part.lower().rstrip(".") not in BEFORE_ITS_UNIT.keys() | FILLERS | DESCRIBING]
    if not rest:
        return "" if parts[-1:] and set(map(str.lower, parts)) <= LEFT else None
    first = rest[0].lower()
    counted = is_counted(first) or first in (others or ())
    if counted and (
        len(rest) == 1
        or (len(rest) == 2 and "of" in parts and (is_counted(rest[1].lower()) or rest[1].lower() in MATERIALS))
    ):
        return COUNT
    if others is None and len(rest) == 1 and len(first) > 3 and first.endswith("s") and first.isalpha():
        return None if AMOUNTS.fullmatch(first) else COUNT
    return None


def each_of(said: str) -> tuple[str, str, str]:
    """What is before the word that divides in "red apples per day", that, and what is after it; else empty texts."""
    match = EACH_OF.fullmatch(said)
    return (match[1], match[2], match[3]) if match else ("", "", "")


def is_counted(noun: str) -> bool:
    return noun in COUNTED or f"{noun}s" in COUNTED
