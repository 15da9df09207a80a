r"""The last number of a text, which the lenient rule takes where no answer is marked.

    last_number("He sells 48 / 2 = 24 clips in May, and 72 in all.")     # "72"
    last_number("The point is (3, 4).")                                  # None

Read as a number are digits with thousands separators and decimals, a fraction (3/4, \frac{3}{4}), a mixed number
(7 2/3) and a power of ten (1e5, 1.5 × 10^5). It counts where it stands alone. What may touch it is listed: before it
spaces, currencies, equals signs, opening marks, LaTeX's fonts and arrows; after it spaces, closing marks, units.
Anything else makes it a part of something (3rd, 4M, 12-hour, 5x), and so does another number, a variable or an operator
beside it: of a sum, a product, a range, a ratio, a pair or a list (3-4, 4 x 5, 3 : 4, (3, 4)). Then the text has no
number, and none before it is tried: the rule takes the last one, not one that suits.

Words can't be listed so: those that compute or deny are (minus, over, half of, or).
"""

import re

from r1flow.core.template import TAGS
from r1flow.grading import math
from r1flow.grading.answers import STYLE_OF_PAGES
from r1flow.grading.final import WORD
from r1flow.grading.units import CHINESE_UNITS, SYMBOLS, unit_named

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
# What may stand directly before a number, after it, and the commands that may (LaTeX's `\,` and `\)` are no commands).
OPENS = re.compile(
    r"(?:^|[\s$€£¢¥₹₩₽=≈:~+→⇒∴(\[{\"'“”‘’«「『【`*&|]|##|\\[,;:!(\[]|Rs\.?|USD|EUR|GBP|INR|\.\.|[，。、；：]|[\u4e00-\u9fff]"
    r"|\\[A-Za-z]+)$"
)
CLOSES = re.compile(
    r"$|[\s.,;:!?)\]}\"'”’»」』】`*$€£¢¥₹₩₽%°。，、；：！？…~✅]|[–—](?!\s?\d)|\\(?:[,;:! )\]%$\\]|[A-Za-z]+)"
)
COMMANDS_BEFORE = {
    *("text", "textbf", "textit", "textrm", "mathbf", "mathrm", "mathit", "mbox", "bf", "rm", "displaystyle", "left"),
    *("approx", "to", "rightarrow", "Rightarrow", "longrightarrow", "Longrightarrow", "implies", "iff", "therefore"),
    *("quad", "qquad", "item", "hspace", "boxed", "fbox", "underline"),
}
COMMANDS_AFTER = {
    *("text", "textbf", "textrm", "mathrm", "mbox", "quad", "qquad", "right", "degree", "degrees", "circ"),
    *("hfill", "square", "blacksquare", "checkmark", "qed"),
}
COMMAND_BEFORE = re.compile(r"\\([A-Za-z]+)[\s{]*$")
COMMAND_AFTER = re.compile(r"[\s}]*\\([A-Za-z]+)")
END_OF_FORMULA = re.compile(r"[\s\\]*\\end\{(?:align|aligned|equation|gather|displaymath|math|center)\*?\}")
THIN_SPACE = re.compile(r",\\!\s*")  # 10,\!080
# Letters that touch a number, or a letter alone after a space, must be a unit; "a" may be a word (4 a day).
LETTERS = re.compile(r"([A-Za-zμµÅ]+)|\s([A-Za-z])(?![\w'’])")
CHINESE = re.compile(r"[\u4e00-\u9fff]{1,4}")
COUNTED = re.compile(rf"{math.CHINESE_COUNTED.pattern}|{'|'.join(sorted(CHINESE_UNITS, key=len, reverse=True))}")
# A value that the next one is reckoned or listed with: a number, what closes a bracket, a variable.
_VALUE = r"(?:[\d)\]}%!°]|(?<![A-Za-z'’])[A-Za-z])"
BESIDE_BEFORE = re.compile(
    rf"{_VALUE}[$ ]*(?:[-+−–—*·•∙⋅×÷/^±]+|[xX]|:(?!\s)|\s:|;)[$ ]*$|\d\s*;\s*$|\d,?\s+(?:and|&)\s+$|\d['’]$|\d\.{{2,}}$"
    r"|[±√∛∑∏∫]\s*$|\}\s*\{$"
)
BESIDE_AFTER = re.compile(r"[$ ]*(?:[+*/^×÷·•∙⋅√±]\s*[\w\\(]|√|[-−]\s*(?:[A-Za-z](?![A-Za-z])|\())")
IN_BRACKETS = re.compile(r"[(\[{]([^()\[\]{}\n]{0,60})$")
TO_BRACKET = re.compile(r"([^()\[\]{}\n]{0,60})[)\]}\\]")
AFTER_COMMA = re.compile(r"\d,\s*$")
# What makes the last number a part of something else: of a power, a time (3:45), a pair, a mixed number, a denial, and
# in words of a sum, a fraction (3 over 4), a function (ln 2).
BEFORE = re.compile(
    r"(?:[\^_]\{?|[/×÷√|]|(?:[\d)}]\s?|\w)\*+|\w\(|\\(?:sqrt|[dt]?frac|binom)[^ ]{0,9}"
    r"|\\(?:cdot|times|div|[pb]?mod|neq?|over|atop|ln|log|lg|exp|sin|cos|tan|cot|sec|csc|arc[a-z]{3})|\d[:,](?!\s)"
    r"|(?<![=-])[<>≤≥≠]=?|\d\.\d*\\(?:overline|bar|dot)\s?\{?|\b(?:or|not|mod|log|ln|lg|exp|a?(?:rc)?(?:sin|cos|tan)"
    r"|never|maybe|perhaps|cannot be|not be|(?:less|more|fewer|greater) than|at (?:least|most)|base|[Ss]tep|[Pp]age"
    r"|[Qq]uestion|[Pp]roblem|[Ss]ection|[Oo]ption|[Vv]ersion|(?<=\d )(?:out )?of(?: the)?|(?<=\d )in"
    r"|sqrt|cbrt|roots? of|minus|negative|plus|times|divided by|multiplied by|to the power of|(?<=[\d)}] )(?:to|over"
    r"|choose)|half of|twice|double|triple|thrice|(?:third|quarter|fourth|fifth|sixth|tenth|percent|%) of)"
    r"|(?<=\b[a-z] )over|n['’]t|%|!=)[ $]?\Z"
    r"|(?<![\\A-Za-z])(?!(?:USD|EUR|GBP|INR|Rs)\Z)[A-Za-z]+\Z"
    r"|(?:第|分之|[又加减乘除负点或和与万千百]|除以|乘以|不是|大于|小于|超过)\Z"
)
AFTER = re.compile(
    rf"[ $]?(?:[\^/×÷π≠?{math.SUPERSCRIPTS}]|\\(?:sqrt|[dt]?frac|pi|cdot|times|div)\b|\*+\s?[A-Za-z\\(]"
    r"|(?:hundred|thousand|million|billion|trillion|dozen|pi|sqrt|squared|cubed|hal(?:f|ves)|thirds?|fourths?|fifths?"
    r"|sixths?|sevenths?|eighths?|ninths?|tenths?|hundredths?|(?:eleven|twelf|[a-z]+teen)ths?|[a-z]+tieths?"
    r"|is (?:not|wrong|incorrect|false)|or (?:more|less|fewer)|over\s\$?[\d(]|m[ni]l?o?|bn|tn|lakh|crore)\b)"
)
EXCLAIMED = re.compile(r"!+[*\"'”)]*(?:\s|$)")
MIXED = re.compile(r"\d[ $]?$")  # before a fraction
IN_SUMS = math.IN_NUMBERS | {ord("⁄"): "/", ord("∕"): "/"}
TAG = re.compile("|".join([*map(re.escape, TAGS), r"<\|\w{1,20}\|>"]))
# The number is searched only here, so that an enormous text costs nothing.
TAIL_CHARACTERS = 2000


def last_number(text: str) -> str | None:
    """The last number of a text, without thousands separators; None if that is a part of something, and without one."""
    tail = STYLE_OF_PAGES.sub("", TAG.sub("\n", text[-TAIL_CHARACTERS:]))
    tail = math.ungrouped(THIN_SPACE.sub(",", tail).translate(IN_SUMS))
    numbers = list(FRACTION_OR_NUMBER.finditer(tail))
    if not numbers:
        return None
    before, last, after = tail[: numbers[-1].start()], numbers[-1][0], tail[numbers[-1].end() :]
    mixed = not last.replace(",", "").isdigit() and MIXED.search(before)
    if mixed or BEFORE.search(before) or AFTER.match(after):
        return None
    touches = may_precede(before) and may_follow(after)
    return last.replace(",", "") if touches and not is_reckoned_with(before, last, after) else None


def may_precede(before: str) -> bool:
    """Whether what stands directly before a number is on the list."""
    command = COMMAND_BEFORE.search(before)
    return bool(OPENS.search(before)) and (command is None or command[1] in COMMANDS_BEFORE)


def may_follow(after: str) -> bool:
    """Whether what stands directly after a number is on the list: space, a mark, a command or a unit."""
    if END_OF_FORMULA.match(after):
        return True
    if command := COMMAND_AFTER.match(after):
        return command[1] in COMMANDS_AFTER
    if letters := LETTERS.match(after):
        word = letters[1] or letters[2]
        return letters[2] in ("a", "I") or is_unit(word)
    if CHINESE.match(after):
        return COUNTED.match(after) is not None
    return CLOSES.match(after) is not None


def is_unit(word: str) -> bool:
    """Whether letters are a unit as it is written: 4 g and 4 kg, but not 4 G, 4 M or 4 x."""
    return word in SYMBOLS or (not word.isupper() and unit_named(word) is not None)


def is_reckoned_with(before: str, number: str, after: str) -> bool:
    """Whether a number belongs to the value beside it: of a sum, a range, a ratio, a pair, a list."""
    if BESIDE_BEFORE.search(before) or BESIDE_AFTER.match(after):
        return True
    if number.startswith("-") and re.search(r"(?<![A-Za-z'’])[B-HJ-Zb-z]\s$", before):  # x -5
        return True
    # In brackets every comma divides a list, but not in a remark of words; outside of them if no noun follows.
    opened, closed = IN_BRACKETS.search(before), TO_BRACKET.match(after)
    if opened and closed and "," in opened[1] + number + closed[1] and not WORD.search(opened[1] + closed[1]):
        return True
    if AFTER_COMMA.search(before) and not re.match(r"\s+[A-Za-z]{2}", after):
        return True
    # 5! is a factorial, unless a sentence of words ends with it.
    ends = EXCLAIMED.match(after) and WORD.search(before.rpartition("\n")[2])
    return after.startswith("!") and not ends
