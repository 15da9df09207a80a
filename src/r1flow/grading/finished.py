r"""Is a number worked out? The form that a finished answer has, as a grammar of LaTeX text.

    is_finished(r"\frac{1+2\sqrt{3}}{2}")        # True
    is_finished(r"\sqrt{12}+\sqrt{27}")          # False: both are multiples of the root of 3
    is_finished(r"(3, \frac{6}{\sqrt{3}})")      # False: a root below the line

A copied question has its answer's value, so a value alone is no answer. What a finished one is:

    entries   numbers in lists, tuples, sets, intervals, unions, ratios, one matrix, or after a last equals sign
    number    terms, no two of which could be added: each has other roots and constants than the rest
    term      one rational coefficient (or one sum in brackets or above a line) times different roots and constants
    rational  an integer, a decimal, a mixed fraction, or a fraction of integers that isn't an integer
    root      of an integer that isn't its power; one for each index, and none below a line; 5^{1/3} is one
    constant  pi and its powers, e to a finished power without i, i, infinity, one logarithm of an integer,
              a power of ten, and powers of integers from a million on

The text is read and not the parsed expression, since sympy's constructors work out much unseen: 7*1, -(-5), pi^0.
Other forms (functions, factorials, binomials, roots in roots) count as finished only where the gold has them, too.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from math import gcd
from typing import NamedTuple

LARGE = 10**6  # a power this large needn't be worked out
HARMLESS = re.compile(r"\\(?:left|right|displaystyle|[!,;: ])(?![A-Za-z])|\s+|\^\{?\\circ\}?|\\%|%")
FRACTIONS = re.compile(r"\\[dtc]frac(?![A-Za-z])")
TOKENS = re.compile(r"\d+(?:\.\d+)?|\.\d+|\\[A-Za-z]+|\\?.", re.ASCII | re.DOTALL)
THOUSANDS = re.compile(r"(?<![\d.])\d{1,3}(?:(?:,|\{,\})\d{3})+(?![\d,])", re.ASCII)
JOINED = re.compile(
    r"\\cup(?![A-Za-z])|\\(?:text|mbox|mathrm)\{(?:and|or)\}|\\q?quad(?![A-Za-z])|(?<=\d|[)\]}])(?:and|or)"
)
MATRIX = re.compile(  # not of vmatrix, which is a determinant
    r"(?:\\left)?[(\[]?\s*\\begin\{([pb]matrix|array|matrix)\}(?:\{[lcr]+\})?((?:(?!\\begin|\\end).)*)\\end\{\1\}"
    r"\s*(?:\\right)?[)\]]?",
    re.DOTALL,
)
NAME = re.compile(r"\s*\\?[A-Za-z]*(?:_\{?\w+\}?)?\s*", re.ASCII)
PLAIN_NAMES = re.compile(r"(?<![\\A-Za-z])(?=(?:sqrt|pi|ln|log|infty)(?![A-Za-z]))")
PAIRS = {"(": ")", "[": "]", "{": "}", "\\{": "\\}"}
NAMED = re.compile(r"[A-Za-z](?:_\{?\w+\}?)?\\in(?![A-Za-z])")
NOT_BELOW = ("root", "i")


class Term(NamedTuple):
    """A product: its coefficient where that is an integer, roots and constants, and what can be taken out of roots."""

    value: int | None
    parts: tuple[tuple[str, int], ...]
    outside: int = 1


class UnfinishedError(Exception):
    """Something is still to be worked out, or isn't of the form."""


@lru_cache(maxsize=8192)
def is_finished(text: str) -> bool:
    text = THOUSANDS.sub(lambda match: re.sub(r"\D", "", match[0]), text)
    exact, approx, rounded = text.partition("\\approx")
    text = FRACTIONS.sub(r"\\frac", rounded if approx and NAME.fullmatch(exact) else exact)
    text = PLAIN_NAMES.sub(r"\\", text)
    if "\\begin" in text:
        name, _, matrix = text.partition("=")
        text = (matrix if NAME.fullmatch(name) else text).strip()
    else:
        text = HARMLESS.sub("", text)
    try:
        check_entries(text, 0)
    except (UnfinishedError, IndexError, ValueError, RecursionError):  # ⁰ is a digit, and no integer
        return False
    return True


def check_entries(text: str, depth: int) -> None:
    """Raises UnfinishedError for a list with an entry that isn't finished."""
    matrix = MATRIX.fullmatch(text)
    if matrix:
        for part in re.split(r"\\\\|&", matrix[2]):
            check_entries(HARMLESS.sub("", part), depth + 1)
        return
    parts = separated(NAMED.sub("", JOINED.sub(",", text)))
    if len(parts) > 1:
        for part in parts:
            check_entries(part, depth + 1)
        return
    last = parts[0].rpartition("=")[2]
    tokens = TOKENS.findall(last)
    if not tokens or last in ("\\emptyset", "\\{\\}"):
        return
    if tokens[0] in PAIRS and closing_bracket(tokens, 0) == len(tokens) - 1 and depth < 20:
        check_entries("".join(tokens[1:-1]), depth + 1)
    elif tokens[:2] == ["-", "("] and tokens[2] not in "+-" and closing_bracket(tokens, 1) == len(tokens) - 1:
        Reading(tokens[2:-1]).number()
    else:
        Reading(tokens).number()


def separated(text: str) -> list[str]:
    """The parts between commas, semicolons and colons that are in no brackets."""
    parts, depth = [""], 0
    for token in TOKENS.findall(text):
        depth += (token in (*"([{", "\\{")) - (token in (*")]}", "\\}"))
        if not depth and token in (",", ";", ":"):
            parts.append("")
        else:
            parts[-1] += token
    return parts


def closing_bracket(tokens: list[str], begin: int) -> int:
    """Where the bracket at `begin` closes, by any closing bracket: [1,2) is an interval."""
    depth = 0
    for at in range(begin, len(tokens)):
        depth += (tokens[at] in PAIRS) - (tokens[at] in PAIRS.values())
        if depth == 0:
            return at
    raise UnfinishedError


class Reading:
    """Reads one number, token by token."""

    def __init__(self, tokens: list[str]) -> None:
        self.rest = tokens[::-1]  # consumed from its end
        self.outside = 1  # what the root that was read last has outside of it when it is taken out: 2 of \\sqrt{12}

    def peek(self) -> str:
        return self.rest[-1] if self.rest else ""

    def take(self, *tokens: str) -> bool:
        is_next = self.peek() in tokens and bool(self.rest)
        if is_next:
            self.rest.pop()
        return is_next

    def group(self) -> "Reading":
        """What a command applies to: the inside of braces or brackets, one digit, or one command."""
        token = self.rest.pop()
        if token in ("{", "("):
            rest = [token, *self.rest[::-1]]
            end = closing_bracket(rest, 0)
            self.rest = rest[end + 1 :][::-1]
            return Reading(rest[1:end])
        if token[0].isdigit() and len(token) > 1:
            self.rest.append(token[1:])
            return Reading([token[0]])
        return Reading([token])

    def integer(self) -> int:
        """A group that is an integer, with its sign."""
        sign = -1 if self.take("-") else 1
        if len(self.rest) != 1 or not self.rest[0].isdigit():
            raise UnfinishedError
        return sign * int(self.rest[0])

    def number(self) -> list[Term]:
        """All tokens as a sum, whose terms are returned."""
        terms: list[Term] = []
        signed = self.take("-", "+", "\\pm")
        while True:
            terms.append(self.term(signed))
            signed = True
            if not self.rest:
                break
            if not self.take("-", "+", "\\pm", "\\mp"):
                raise UnfinishedError
        kinds = [term.parts for term in terms]
        # Of a sum, 10^2 is to be worked out; alone or with one number before it, it is how a large number is written.
        grouped = any(("sum", 0) in kind or ("ten", 0) in kind for kind in kinds)
        if len(set(kinds)) < len(kinds) or (len(terms) > 1 and (grouped or any(term.value == 0 for term in terms))):
            raise UnfinishedError
        return terms

    def term(self, signed: bool) -> Term:
        value: int | None = 1
        numbers, parts, divided, outside = 0, [], False, 1
        while self.rest and self.peek() not in ("-", "+", "\\pm", "\\mp"):
            multiplied = bool(parts or numbers) and self.take("\\cdot", "\\times", "*")
            token = self.rest.pop()
            if token[0].isdigit() or token[0] == ".":
                power = self.power_of(token)
                if power:
                    parts.append(power)
                    continue
                if numbers or (parts and parts[-1][0] != "ten" and not multiplied):
                    raise UnfinishedError
                numbers += 1
                value = self.rational(token)
                if value == 1 and self.peek() in ("\\cdot", "\\times", "*") and self.rest[-2:-1] != ["10"]:
                    raise UnfinishedError
            elif token == "\\frac" or token == "/":
                if token == "\\frac":
                    top, below = self.group(), self.group()
                    if signed and top.peek() == "-":
                        raise UnfinishedError
                    above = top.number()
                else:
                    above, parts, numbers = [Term(value, tuple(parts), outside)], [], 0
                    below = self.below_slash()
                if divided or numbers:
                    raise UnfinishedError
                if below.peek() in ("-", "+"):
                    raise UnfinishedError
                value, more = fraction(above, below.number())
                parts.extend(more)
                divided, numbers = True, 1
            elif token == "(":
                self.rest.append(token)
                group = self.group()
                negative = group.peek() == "-"
                inside = group.number()
                # Above a slash brackets may hold one term: (3√3)/4 as \frac{3√3}{4}.
                if len(inside) == 1 and self.peek() == "/" and not (parts or numbers or (signed and negative)):
                    value, outside = inside[0].value, inside[0].outside
                    parts = list(inside[0].parts)
                    continue
                if len(inside) < 2 or self.peek() == "^":
                    raise UnfinishedError
                parts.append(("sum", 0))
            else:
                parts.append(self.constant(token))
                outside *= self.outside
        names = [name for name, _ in parts]
        if (not names and not numbers) or (value == 0 and names) or len(set(parts)) < len(parts):
            raise UnfinishedError
        once = [name for name in names if name != "power" and name != "root"]
        if len(set(once)) < len(once) or ("sum" in names and {"root", "i"} & set(names)):
            raise UnfinishedError
        indices = [detail >> 64 for name, detail in parts if name == "root"]
        if len(set(indices)) < len(indices):
            raise UnfinishedError
        return Term(value, tuple(sorted(parts)), outside)

    def rational(self, token: str) -> int | None:
        """An integer's value; None for a decimal, and for a mixed fraction, which is taken with its fraction."""
        if "." in token:
            return None
        if self.peek() == "\\frac":
            self.rest.pop()
            above, below = self.group().integer(), self.group().integer()
            if not 0 < above < below:
                raise UnfinishedError
            return None
        return int(token)

    def power_of(self, token: str) -> tuple[str, int] | None:
        """A power of ten, or one that needn't be worked out; None where none follows."""
        if not self.take("^"):
            return None
        base, group = token, self.group()
        if base.isdigit() and ("/" in group.rest or "\\frac" in group.rest):
            return root_of(int(base), group)
        exponent = group.integer()
        if not base.isdigit() or exponent in (0, 1) or int(base) < 2:
            raise UnfinishedError
        large = abs(exponent) >= 20 or int(base) ** abs(exponent) >= LARGE
        if int(base) == 10:
            return "ten", int(large)
        if not large:
            raise UnfinishedError
        return "power", int(base)

    def below_slash(self) -> "Reading":
        """What a slash divides by: brackets, or one number or constant with its power."""
        if self.peek() == "(":
            return self.group()
        tokens = [self.rest.pop()]
        while self.take("^"):
            inside = self.group()
            tokens += ["^", "{", *inside.rest[::-1], "}"]
        return Reading(tokens)

    def constant(self, token: str) -> tuple[str, int]:
        self.outside = 1
        if token == "\\sqrt":
            return self.root()
        if token in ("\\ln", "\\log"):
            return self.logarithm(token)
        if token == "\\pi":
            exponent = self.group().integer() if self.take("^") else 1
            if exponent == 0:
                raise UnfinishedError
            return "pi", exponent
        if token == "e":
            if self.take("^"):
                exponent = self.group()
                if exponent.rest == ["1"]:
                    raise UnfinishedError
                terms = exponent.number()
                if any(term.value == 0 or names_of(term.parts) & {"i", "log"} for term in terms):
                    raise UnfinishedError
                return "e", hash(tuple(terms))
            return "e", 1
        if token in ("i", "\\infty") and self.peek() != "^":
            return token, 0
        raise UnfinishedError

    def root(self) -> tuple[str, int]:
        index = 2
        if self.take("["):
            index = int(self.rest.pop())
            if not self.take("]") or index < 2:
                raise UnfinishedError
        inside = self.group()
        # As decimals go, 10.5 is a number like another.
        if len(inside.rest) == 1 and "." in inside.peek():
            whole, part = inside.rest.pop().split(".")
            inside.rest.append(str(int(whole + part) * 10 ** (-len(part) % index)))
        if self.peek() == "^":
            raise UnfinishedError
        value = inside.integer()
        root = named_root(value, index)
        self.outside = nearest_root(value // without_powers(value, index), index)
        return root

    def logarithm(self, token: str) -> tuple[str, int]:
        base = 10 if token == "\\log" else 0
        if base and self.take("_"):
            base = self.group().integer()
        digits = self.rest.pop() if self.peek()[:1].isdigit() else ""
        inside = int(digits) if digits.isdigit() else self.group().integer()
        if inside < 2 or (base and (base < 2 or one_base(inside, base))):
            raise UnfinishedError
        return "log", 0


def root_of(base: int, exponent: Reading) -> tuple[str, int]:
    """A root that is written as a power: 5^{2/3}, with an exponent between 0 and 1 in lowest terms."""
    if exponent.take("\\frac"):
        above, below = exponent.group().integer(), exponent.group().integer()
    else:
        above, slash, below = [*exponent.rest[::-1], "", ""][:3]
        above, below = (int(token) if slash == "/" and token.isdigit() else 0 for token in (above, below))
        del exponent.rest[:3]
    if exponent.rest:
        raise UnfinishedError
    if not 0 < above < below < LARGE or gcd(above, below) > 1 or base ** min(above, 20) > LARGE:
        raise UnfinishedError
    return named_root(base**above, below)


def named_root(inside: int, index: int) -> tuple[str, int]:
    """A root of an integer that is no power, so that its index is the least that there is."""
    if inside < 2:
        raise UnfinishedError
    for part in range(2, min(index, inside.bit_length()) + 1):
        if index % part == 0 and nearest_root(inside, part) ** part == inside:
            raise UnfinishedError
    return "root", (index << 64) | hash(without_powers(inside, index)) & (2**64 - 1)


def fraction(above: list[Term], below: list[Term]) -> tuple[int | None, list[tuple[str, int]]]:
    """A fraction's coefficient and parts: the line divides by an integer or constants, and nothing can be divided."""
    divisor, constants = (below[0].value, below[0].parts) if len(below) == 1 else (0, ())
    if not divisor or any(name in (*NOT_BELOW, "sum") for name, _ in constants):
        raise UnfinishedError
    values = [term.value and term.value * term.outside for term in above]
    if None in values or (divisor == 1 and not constants):
        raise UnfinishedError
    shared = gcd(*values)
    if divisor > 1 and shared % divisor == 0 and shared:
        raise UnfinishedError
    if any(names_of(constants) & names_of(term.parts) for term in above):
        raise UnfinishedError
    over = [("sum", 0)] if len(above) > 1 else list(above[0].parts)
    return None if values != [0] else 0, [*over, *((name, -detail) for name, detail in constants)]


def names_of(parts: Iterable[tuple[str, int]]) -> set[str]:
    return {name for name, _ in parts}


def nearest_root(value: int, index: int) -> int:
    """The integer nearest to a root, near enough to find out whether it is one."""
    low, high = 1, 1 << (value.bit_length() // index + 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**index <= value else (low, middle - 1)
    return low


def without_powers(value: int, index: int) -> int:
    """What stays below a root when all that can be taken out is: 3 of 12."""
    factor = 2
    while factor**index <= value and factor < 2000:
        while value % factor**index == 0:
            value //= factor**index
        factor += 1
    return value


def one_base(value: int, base: int) -> bool:
    """Whether both are powers of one number, so that the logarithm is rational."""
    while value > 1 and base > 1:
        value, base = max(value, base), min(value, base)
        if value % base:
            return False
        value //= base
    return True
