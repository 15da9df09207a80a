r"""Does an expression reach a target with the given numbers? It has its own parser, and computes with fractions.

    solves("94 × 4 − 61 − 6", [6, 61, 94, 4], 309)         # True
    solves("94*4 - 61 - 6 = 309", [6, 61, 94, 4], 309)     # True
    solves(r"$8 \div (3-\frac{8}{3})$", [8, 3, 8, 3], 24)   # True
    solves(r"**1.** 8 / \Big(3-{8 \over 3}\Big)", [8, 3, 8, 3], 24)   # True
    solves("309 = 94*4 - (61 + 6)", [6, 61, 94, 4], 309)   # True
    solves("44**19**35", [44, 19, 35], 98)                 # False, at once: there are no powers

Only + − × ÷ and parentheses are allowed, and every given number exactly once (reasoning-gym's and TinyZero's rule).
What stands before a parenthesis is multiplied where nothing is divided: 6(6-2), (6-2)(6).
Left out: signs before a number, joined digits, decimals, powers. Only the four operations are evaluated, after the
numbers have been checked, so no text can make this slow.
"""

import re
from collections.abc import Iterable
from fractions import Fraction
from numbers import Rational

from r1flow.grading.final import WIDE, candidate
from r1flow.grading.math import unwrapped

LIMIT = 1000  # characters of an expression; deeper and longer ones are no countdown
DEPTH = 50  # parentheses
SPELLINGS = str.maketrans({**dict.fromkeys("×·⋅∗✕✖•∙", "*"), "÷": "/", "∕": "/", "−": "-", "–": "-"}) | WIDE
SIGNS = {r"\times": "*", r"\cdot": "*", r"\ast": "*", r"\div": "/"}  # others are blanks
SIGN = re.compile(
    r"\\(?:(?:times|cdot|ast|div|left|right|q?quad|[bB]igg?[lrm]?|displaystyle|textstyle)(?![A-Za-z])|[,;:!> ])|[$~]"
)
FRACTION = re.compile(r"\\[cdt]?frac\s*(?:\{([^{}]*)\}|(\d))\s*(?:\{([^{}]*)\}|(\d))")
OVER = re.compile(r"\{([^{}]*)\\over(?![A-Za-z])([^{}]*)\}")
GROUP = re.compile(r"(?<!frac)(?<!\})\{([^{}\\]*)\}")  # braces that are no fraction's
# Of a list or a step; an expression can't begin so.
LIST_NUMBER = re.compile(r"^\s*(?:(?:\*\*|__)?\d{1,2}[.)](?:\*\*|__)?|[*•])\s+(?=\S)")
TIMES = re.compile(r"(?<=[\d)])\s*[xX]\s*(?=[\d(])", re.ASCII)
BESIDE = re.compile(r"(?<=[\d)\]])\s*(?=[(\[])", re.ASCII)  # not beside a fraction: 2\frac13
BRACKETS = str.maketrans("[]{}", "()()")
TOKEN = re.compile(r"\s*(?:(0|[1-9]\d{0,30})|([-+*/%()]))", re.ASCII)
TOTAL = re.compile(r"\s*-?\d{1,30}\s*", re.ASCII)


def solves(expression: str, numbers: Iterable[float], target: float) -> bool:
    """Whether `expression` has the value `target` and uses each of `numbers` exactly once; never raises for text.

    "= target" after it, or "target =" before it, is allowed when it is true. The numbers and the target may be of any
    type, text too; what isn't a finite number raises TypeError, ValueError or OverflowError.
    """
    given, goal = sorted(map(as_fraction, numbers)), as_fraction(target)
    if len(expression) > LIMIT:
        return False
    left, equals, right = without_latex(expression).partition("=")
    if equals and TOTAL.fullmatch(left) and not TOTAL.fullmatch(right):
        left, right = right, left
    if equals and not (TOTAL.fullmatch(right) and int(right) == goal):
        return False
    tokens = read_terms(left)
    if tokens is None or sorted(token for token in tokens if isinstance(token, Fraction)) != given:
        return False
    try:
        return value(tokens) == goal
    except (SyntaxError, ArithmeticError):
        return False


def without_latex(text: str) -> str:
    """An expression in LaTeX with plain signs, and with fractions as divisions; other commands stay, and are wrong."""
    text = candidate(LIST_NUMBER.sub("", text, count=1).translate(SPELLINGS))
    text = unwrapped(text).replace("\\*", "*").replace("==", "=")
    text = SIGN.sub(lambda match: SIGNS.get(match[0], " "), TIMES.sub("*", text))
    if "/" not in text:  # 6/2(3) is 9 to some and 1 to others
        text = BESIDE.sub("*", text)
    while True:  # the innermost fractions first, then braces around what has none
        text, fractions = FRACTION.subn(r"((\1\2)/(\3\4))", text)
        text, overs = OVER.subn(r"((\1)/(\2))", text)
        if not fractions and not overs:
            text, groups = GROUP.subn(r"(\1)", text)
            if not groups:
                return text.translate(BRACKETS)


def as_fraction(number: float) -> Fraction:
    """A number of the data as a fraction; it may be written as text: "4" is 4."""
    return Fraction(number) if isinstance(number, Rational) else Fraction(float(number))


def read_terms(text: str, remainders: bool = False) -> list[Fraction | str] | None:
    """The text's numbers and operators; None if it has anything else, or parentheses nested too deep.

    With `remainders` % is an operator, too.
    """
    tokens: list[Fraction | str] = []
    at, depth, text = 0, 0, text.rstrip()
    while at < len(text):
        match = TOKEN.match(text, at)
        if not match:
            return None
        number, symbol = match.groups()
        if symbol == "%" and not remainders:
            return None
        tokens.append(Fraction(number) if number else symbol)
        depth += (symbol == "(") - (symbol == ")")
        if depth > DEPTH:
            return None
        at = match.end()
    return tokens


def value(tokens: list[Fraction | str]) -> Fraction:
    """The value of all tokens: numbers, parentheses and the operators + - * / %.

    Raises SyntaxError if they aren't an expression, and ArithmeticError for a division by 0 or a remainder with a
    negative number, on which conventions differ.
    """
    rest = tokens[::-1]  # consumed from its end
    result = added(rest)
    if rest:
        raise SyntaxError
    return result


def added(rest: list[Fraction | str]) -> Fraction:
    total = multiplied(rest)
    while rest and rest[-1] in ("+", "-"):
        total = total + multiplied(rest) if rest.pop() == "+" else total - multiplied(rest)
    return total


def multiplied(rest: list[Fraction | str]) -> Fraction:
    product = atom(rest)
    while rest and rest[-1] in ("*", "/", "%"):
        operator, factor = rest.pop(), atom(rest)
        if operator == "*":
            product = product * factor
        elif operator == "/":
            product = product / factor
        elif min(product, factor) < 0:
            raise ArithmeticError
        else:
            product = product % factor
    return product


def atom(rest: list[Fraction | str]) -> Fraction:
    token = rest.pop() if rest else ""
    if isinstance(token, Fraction):
        return token
    if token != "(":
        raise SyntaxError
    inner = added(rest)
    if not rest or rest.pop() != ")":
        raise SyntaxError
    return inner
