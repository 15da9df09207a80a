r"""Are two mathematical expressions equal? math-verify's parser and rules, with numbers compared exactly.

    matches(r"1-\frac{1}{e}", r"\frac{e-1}{e}")    # True
    matches("1-1/e", "1+1/e")                      # False
    matches(r"\{1,2\}", "2, 1")                    # True

Only grading workers may import this (worker.py): it imports sympy, which may take for ever on hostile text. The
parser (latex2sympy) must read a text as a whole, or it counts as unreadable; no text is ever evaluated as Python.

math-verify 0.9.0 picks a number out of a text (the 1 from both `1-1/e` and `1+1/e`) and calls two numbers equal if
their difference vanishes when chopped at 15 digits (`1/2^99` and `1/2^98`). Here a text counts as a whole, and all
numbers, also inside sets, intervals, matrices and equations, are compared by `same` instead: fractions as fractions,
constants to a hundred digits, functions of symbols at several points. What math-verify misreads, `Reader` refuses or
reads correctly.
"""

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache, lru_cache
from itertools import chain
from typing import Any

import sympy

# Else simplifying imports it, after `exact` has forbidden what that does.
import sympy.physics.units
from antlr4.atn.PredictionMode import PredictionMode
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, _Latex2Sympy
from latex2sympy2_extended.math_normalization import NormalizationConfig, normalize_latex
from math_verify import grader
from sympy.core import random
from sympy.core.function import Application, AppliedUndef
from sympy.parsing import sympy_parser

from r1flow.grading.answers import is_rounding, plain_number
from r1flow.grading.finished import LARGE, is_finished, separated
from r1flow.grading.verdict import EXACT, Rules

NORMAL = NormalizationConfig(basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none")
EXPONENT = 100_000  # greatest size of a constant exponent
FACTORIAL = 10_000  # greatest number before a "!" or in a binomial
DEEP = 60  # nested brackets; the parser's recursion ends near there anyway
# Five in a row are no mathematics, and the parser recurses on them.
SIGNS = re.compile(r"(?:[-+!^]\s*){5}")
# The quick parse confuses the power of a letter with that of a function's name (x^2, f^2(x)); braces prevent that.
POWER = re.compile(r"(?<![\\A-Za-z_])([A-DF-Za-df-z]|\\pi)(\s*\^\s*(?:[0-9A-Za-z]|\{[^{}\\]*\}))(?!\s*[(\w])")
DIGITS = 60  # significant digits computed of a difference
ZERO = sympy.Float(10) ** -110  # a difference this small, relative to its terms, at WORKING digits
WORKING = 400  # the most digits used in a computation, if terms cancel
THOUSANDS = re.compile(r"\s*([-+]?)\s*(\d{1,3}(?:,\d{3})+(?:\.\d+)?)\s*", re.ASCII)
NAME = re.compile(r"(?:math\{)?[^\W\d_](?:(?!-\d)[^_^+*=<>])*(?:_.*)?$", re.DOTALL)  # x_{n+1}, Areaof8; not x^2-1
IN_BRACES = re.compile(r"\\\{")
ORDERED = (sympy.Interval, sympy.Tuple)  # a point is read as an open interval
POINTS = (
    sympy.Rational(7312411, 10**7),
    sympy.Rational(-13790923, 10**7),
    sympy.Rational(52718281, 10**7),
    sympy.Rational(-4166017, 10**7),
)


# math-verify takes the i of 3i for a letter, and that of 3 i for none.
IMAGINARY = re.compile(r"(?<=\d)i(?![A-Za-z])")


class UnreadableError(Exception):
    """A text that isn't one expression, or one that is too large to work with."""


class Reader(_Latex2Sympy):
    """math-verify's parser, with numbers read exactly and some readings refused."""

    quick = True

    def create_parser(self, latex_str: str) -> Any:
        """A parser with quick (SLL) prediction: if it succeeds, its result equals the full one's, ten times as fast."""
        parser = super().create_parser(latex_str)
        parser._interp.predictionMode = PredictionMode.SLL if self.quick else PredictionMode.LL
        return parser

    def parse(self, latex_str: str) -> Any:
        """A number with thousands separators is one number; math-verify would let sympy evaluate it."""
        match = THOUSANDS.fullmatch(latex_str)
        if not match:
            return super().parse(latex_str)
        return self.parse_number(match[2]) * (-1 if match[1] == "-" else 1)

    def parse_number(self, text: str) -> sympy.Rational:
        """A decimal as the fraction it is, never by sympy's evaluating constructor; one with an exponent is refused."""
        text = text.replace(",", "")
        if not re.fullmatch(r"\d*\.?\d*", text, re.ASCII) or not any(map(str.isdigit, text)):
            raise UnreadableError(text)
        whole, _, part = text.partition(".")
        return sympy.Rational(int(whole + part or "0"), 10 ** len(part))

    def convert_atom(self, atom: Any) -> Any:
        """A number's subscript is its base, which sympy's value lacks; so such numbers are compared as text."""
        number = atom.number_subexpr()
        if number and number.subexpr():
            raise UnreadableError("a number with a base")
        return super().convert_atom(atom)

    def convert_atom_expr(self, atom_expr: Any) -> Any:
        """Read i as the imaginary unit: if math-verify finds "i", it only drops the assumption that all is real."""
        atom = super().convert_atom_expr(atom_expr)
        if not self.is_real and atom == sympy.Symbol("i", real=False):
            return sympy.I
        if not self.is_real and isinstance(atom, sympy.Pow) and atom.base == sympy.Symbol("i", real=False):
            return sympy.Pow(sympy.I, atom.exp, evaluate=False)
        return atom

    def convert_exp(self, exp: Any) -> Any:
        power = super().convert_exp(exp)
        if isinstance(power, sympy.Pow):
            refuse_above(power.exp, EXPONENT)
        return power

    def convert_postfix(self, postfix: Any) -> Any:
        converted = super().convert_postfix(postfix)
        for part in sympy.preorder_traversal(converted) if isinstance(converted, sympy.factorial) else ():
            if isinstance(part, sympy.factorial):
                refuse_above(part.args[0], FACTORIAL)
        return converted

    def convert_binom(self, binom: Any) -> Any:
        upper, lower = self.convert_expr(binom.upper), self.convert_expr(binom.lower)
        refuse_above(upper, FACTORIAL)
        return sympy.binomial(upper, lower, evaluate=False)

    def convert_postfix_list(self, arr: list[Any], i: int = 0) -> Any:
        """Adjacent factors are multiplied; two adjacent numbers are only allowed as a mixed fraction.

        math-verify adds any two, so that "7 0" is 7 and "2(3)" is 5.
        """
        if i + 1 == len(arr):
            return super().convert_postfix_list(arr, i)
        left, text = self.convert_postfix(arr[i]), arr[i + 1].getText()
        if constant(left) and text.lstrip("{")[:1] in tuple("0123456789."):
            raise UnreadableError("two numbers side by side")
        if not isinstance(left, sympy.Integer):
            return super().convert_postfix_list(arr, i)
        right = self.convert_postfix_list(arr, i + 1)
        mixed = text.startswith("\\frac") and re.fullmatch(r"\d+", arr[i].getText(), re.ASCII)
        if mixed and isinstance(right, sympy.Rational) and 0 < right < 1:
            return left + right
        return self.mul_flat(left, right)

    def convert_relation(self, rel: Any) -> Any:
        """An approximation must be true, or give a name its value: math-verify reads "7 \\approx 8" as 7."""
        if not rel.expr() and rel.APPROX():
            left, right = (self.convert_relation(side) for side in (rel.relation(0), rel.relation(1)))
            value = sides_of(left)[-1] if grader.is_equation(left) else left
            near = constant(value) and constant(right) and 20 * abs(value - right) <= abs(value)
            if not (near or is_name(left)):
                raise UnreadableError("an approximation that is none")
        return super().convert_relation(rel)


def refuse_above(value: Any, limit: int) -> None:
    """Keep sympy from computing powers and factorials that don't fit into memory."""
    if constant(value) and not abs(value.evalf(5)) <= limit:
        raise UnreadableError(f"a number above {limit}")


def constant(value: Any) -> bool:
    return isinstance(value, sympy.Expr) and not value.free_symbols


@lru_cache(maxsize=8192)
def read_expression(latex: str) -> Any:
    """The expression, if the whole text is one; None otherwise, and for one without a value."""
    if depth(latex) > DEEP or SIGNS.search(latex):
        return None
    latex = IMAGINARY.sub(" i", normalize_latex(latex, NORMAL))
    expression = parsed_latex(POWER.sub(r"{\1}\2", latex), quick=True)
    if expression is None:
        expression = parsed_latex(latex, quick=False)
    if not isinstance(expression, (sympy.Basic, sympy.MatrixBase)) or expression in (sympy.nan, sympy.zoo):
        return None
    listed = isinstance(expression, sympy.Union) and all(isinstance(part, sympy.FiniteSet) for part in expression.args)
    return sympy.FiniteSet(*(element for part in expression.args for element in part.args)) if listed else expression


def parsed_latex(latex: str, quick: bool) -> Any:
    reader = Reader(is_real=not grader.should_treat_as_complex(latex), config=ConversionConfig(lowercase_symbols=False))
    reader.quick = quick
    try:
        return reader.parse(latex)
    except (RecursionError, MemoryError):
        raise
    except Exception:  # the parser raises bare Exceptions, and AttributeErrors where its grammar has gaps
        return None


def depth(text: str) -> int:
    """How deep brackets of any kind are nested."""
    deepest = now = 0
    for character in text:
        now += (character in "([{") - (character in ")]}")
        deepest = max(deepest, now)
    return deepest


def matches(gold: str, answer: str, rules: Rules | list[Any] = EXACT) -> bool | None:
    """Whether `answer` equals `gold`, by these rules; None when the gold can't be read."""
    places, unevaluated, form = rules
    compare_exactly()
    expected = read_expression(gold)
    if expected is None:
        return None
    (expected, gold), (found, answer) = (
        with_name_first(expected, gold),
        with_name_first(read_expression(answer), answer),
    )
    if found is None or not stands_for_its_end(expected, found):
        return False
    if not is_solved_too(expected, found):
        return False
    if grader.is_equation(found) and not grader.is_equation(expected):
        found = sides_of(found)[-1]
    if (
        isinstance(expected, ORDERED)
        and isinstance(found, sympy.FiniteSet)
        and len(found) > 1
        and IN_BRACES.search(answer)
    ):
        return False  # a set has no order
    if is_foreign(expected, found) or not (unevaluated or is_evaluated(expected, found, gold, answer)):
        return False
    if not (unevaluated or has_finished_sides(expected, gold, answer)):
        return False
    if form and not FORMS[form](found):
        return False
    if constant(expected) and constant(found):
        return (
            equal_expressions(expected, found)
            or rounds(gold, answer, found, places)
            or rounds(answer, gold, expected, places)
        )
    if is_region(expected, found):
        return True
    random.seed(0)
    return bool(grader.verify(expected, found, timeout_seconds=None))


def is_foreign(gold: Any, answer: Any) -> bool:
    """Whether an answer has letters that the gold lacks: math-verify reads a sentence times 0 as 0."""
    if not isinstance(gold, sympy.Expr) or not isinstance(answer, sympy.Expr):
        return False
    return not {symbol.name for symbol in answer.free_symbols} <= {symbol.name for symbol in gold.free_symbols}


def stands_for_its_end(gold: Any, answer: Any) -> bool:
    """Whether an equation may count as its right side, as math-verify does: the left is a name, or has the same value.

    Otherwise "8 = 7" would be right for 7, and so would "2x = 7".
    """
    if isinstance(answer, (sympy.FiniteSet, sympy.Tuple)):
        return any(map(grader.is_equation, getattr(gold, "args", ()))) or all(
            stands_for_its_end(gold, part) for part in answer.args
        )
    if not grader.is_equation(answer) or grader.is_equation(gold):
        return True
    sides = sides_of(answer)
    rest = sides[1:-1] if is_name(sides[0]) and not occurs_in(sides[0], sides[-1]) else sides[:-1]
    return all(constant(side) and same(side, sides[-1]) for side in rest)


def sides_of(equation: Any) -> list[Any]:
    """All sides of an equation, such as the three of a = b = c."""
    relations = equation._unsorted_args if isinstance(equation, grader.And) else [equation]
    return [relations[0].lhs, *(relation.rhs for relation in relations)]


def is_name(side: Any) -> bool:
    r"""Whether what stands before "= 7" only names it: x, f(x), A/S; `\text{8}` would be a symbol, and is no name.

    With numbers, or by one letter alone, it is an equation that is still to be solved: x/2, |x|.
    """
    several = grader.is_expr_of_only_symbols(side) and len(side.free_symbols) > 1 and not side.has(sympy.Number)
    named = isinstance(side, sympy.Symbol | AppliedUndef) or several
    return named and all(NAME.match(symbol.name) for symbol in side.free_symbols)


def occurs_in(name: Any, side: Any) -> bool:
    """Whether a name is on the other side, too, so that x = x^2 + x says nothing of x; f(x) is one, and x none."""
    parts = [name] if isinstance(name, AppliedUndef) else list(name.free_symbols)
    return side.has(*parts)


def rounds(decimal: str, other: str, value: Any, places: int) -> bool:
    """Whether `decimal` has at least `places` places and rounds a constant, which `other` writes in another way."""
    written, plainly = plain_number(decimal), plain_number(other)
    if not written or not written.places or isinstance(value, sympy.Integer) or (plainly and plainly.places):
        return False
    number = grader.safe_sympy_doit(value).evalf(written.places + DIGITS, maxn=WORKING)
    if not number.is_Float and not number.is_Rational:
        return False
    return is_rounding(written, Fraction(*map(int, sympy.Rational(number).as_numer_denom())), places)


# Is the answer worked out? A question that is copied into the answer equals the gold, too.

OPERATIONS = (sympy.Sum, sympy.Product, sympy.Integral, sympy.Limit, sympy.Derivative)
COMPUTED = (
    *OPERATIONS, sympy.core.expr.UnevaluatedExpr, Application, sympy.Union, sympy.Intersection, sympy.Complement,
)  # fmt: skip
DIVISION = re.compile(
    r"\\[dt]?frac\s*\{\s*(\d+)\s*\}\s*\{\s*(\d+)\s*\}|(?<![\w.}])(\d+)\s*(?:/|\\div\b)\s*(\d+)", re.ASCII
)
FOR_NOTHING = re.compile(
    r"[\w)}]\s*[-+]\s*0(?![\d.])|[\d)}]\s*(?:\*|\\cdot|\\times)\s*1(?![\d.])|(?<![\d.^{])1\s*(?:\*|\\cdot|\\times)\s*(?!10\s*\^)[\d({]",
    re.ASCII,
)


def is_evaluated(gold: Any, answer: Any, gold_text: str, answer_text: str) -> bool:
    """Whether the answer to a question for numbers is worked out (finished.py).

    If the gold isn't, having a function or a product, the answer may have left undone what the gold has.
    """
    if grader.is_equation(gold) and not solved_names(gold):
        return True
    gold, answer = (sides_of(side)[-1] if grader.is_equation(side) else side for side in (gold, answer))
    if answer.has(*OPERATIONS) and not gold.has(*OPERATIONS):
        return False
    if {symbol.name for symbol in gold.free_symbols} - {"i"}:  # in 9i alone it is read as a letter
        return is_collected(answer) or not is_collected(gold)
    if is_finished(answer_text):
        return True
    if is_finished(gold_text):
        return False
    kinds = all_left_over(answer)
    if is_undone(answer_text) and not is_undone(gold_text):
        return False
    return not kinds or kinds <= all_left_over(gold)


def all_left_over(value: Any) -> set[str]:
    return set().union(*map(left_over, sympy.preorder_traversal(value)))


def left_over(part: Any) -> Iterator[str]:
    """The names of operations that are still to be done at the top level of an expression."""
    if isinstance(part, COMPUTED) and not isinstance(part, sympy.exp):
        yield type(part).__name__
    elif isinstance(part, sympy.Add | sympy.Mul):
        signs = (1, -1) if isinstance(part, sympy.Mul) else ()  # no factors
        if sum(isinstance(term, sympy.Rational) and term not in signs for term in factors(part)) > 1:
            yield type(part).__name__
    elif isinstance(part, sympy.Pow) and part.base.is_Rational and part.exp.is_Rational:
        value = sympy.Pow(part.base, part.exp)
        if part.exp == -1 or part.base == 10 or not value.is_Rational:
            return
        if part.exp.is_Integer and max(abs(value.p), value.q) >= LARGE:
            return
        yield "Pow"


def factors(part: Any) -> Iterator[Any]:
    """The terms of a sum, or the factors of a product, those of sums in sums and of products in products too."""
    for inner in part.args:
        yield from factors(inner) if isinstance(inner, type(part)) else (inner,)


def is_undone(text: str) -> bool:
    """Whether a text has what the parser simplifies unseen: a fraction that is a whole number, a factor 1, a term 0."""
    if FOR_NOTHING.search(text):
        return True
    pairs = ((int(match[1] or match[3]), int(match[2] or match[4])) for match in DIVISION.finditer(text))
    return any(below and above and above % below == 0 for above, below in pairs)


def is_collected(value: Any) -> bool:
    """Whether no sum has two terms that could be added, as x+x+1 and 2x+3-1 have."""
    for part in sympy.preorder_traversal(value):
        if isinstance(part, sympy.Add):
            terms = [tuple(sorted(map(str, others_than_numbers(term)))) for term in factors(part)]
            if len(set(terms)) < len(terms):
                return False
    return True


def others_than_numbers(term: Any) -> list[Any]:
    """The factors of a term but for its rational coefficient."""
    parts = factors(term) if isinstance(term, sympy.Mul) else [term]
    found = []
    for part in parts:
        power = isinstance(part, sympy.Pow) and part.base.is_Rational and part.exp.is_Integer
        if not part.is_Rational and not power:
            found.append(part)
    return found


def is_expanded(value: Any) -> bool:
    """Whether no product and no power of a sum is left."""
    parts = list(sympy.preorder_traversal(value))
    products = [part for part in parts if isinstance(part, sympy.Mul)]
    powers = [part for part in parts if isinstance(part, sympy.Pow) and part.exp.is_Integer and part.exp > 1]
    inner = chain.from_iterable(part.args for part in products + powers)
    return not any(isinstance(part, sympy.Add) for part in inner)


def is_factored(value: Any) -> bool:
    """Whether it is a product whose factors can't be factored further over the rationals."""
    product = factors(sympy.Mul(1, value, evaluate=False))
    parts = [part.base if isinstance(part, sympy.Pow) else part for part in product]
    return all(not isinstance(part, sympy.Add) or isinstance(sympy.factor(part), sympy.Add) for part in parts)


FORMS = {"expanded": is_expanded, "factored": is_factored}


# Relations. If the gold is solved, so must the answer be: the question is often the gold unsolved.

RELATION_SIGN = re.compile(
    r"(\\(?:leq?|geq?|leqslant|geqslant|lt|gt|neq?|approx|in)(?![A-Za-z])|[<>!]?=|[<>])"
    r"|\\(?:text|mbox|mathrm)\s*\{[\s,]*(?:or|and)\s*\}|(?<![A-Za-z\\])(?:or|and)(?![A-Za-z])|\\(?:lor|vee|land|wedge)(?![A-Za-z])"
)


def relations_in(value: Any) -> list[Any]:
    """The equations and inequalities that a value is a list of, chains as one; empty if it is something else."""
    parts = value.args if isinstance(value, sympy.FiniteSet | sympy.Tuple | sympy.Or) else (value,)
    if all(isinstance(part, sympy.Rel | grader.And) for part in parts):
        return list(parts)
    return []


def solved_names(relation: Any) -> set[str]:
    """The names that a relation is solved for: y of y = 2x + 1, x of 1 < x < 3, none of x + y = 5 and x - 3 > 4."""
    sides = sides_of(relation)
    names = set()
    for place, side in enumerate(sides):
        inverse = isinstance(side, sympy.Pow) and isinstance(side.base, AppliedUndef)
        name = side.base if inverse else side
        others = [other for at, other in enumerate(sides) if at != place]
        if is_name(name) and not isinstance(name, sympy.Add) and not any(occurs_in(name, other) for other in others):
            names.add(str(side))
    return names


def with_name_first(value: Any, text: str) -> tuple[Any, str]:
    """An equation, or that two sides differ, with the name first if it ends in one: 7 = x is x = 7; and its text."""
    if not isinstance(value, sympy.Eq | sympy.Ne) or is_name(value.lhs) or not is_name(value.rhs):
        return value, text
    if occurs_in(value.rhs, value.lhs):
        return value, text
    left, sign, right = text.partition("=")
    turned = type(value)(value.rhs, value.lhs, evaluate=False)
    return turned, f"{right}{sign}{left}" if isinstance(value, sympy.Eq) else text


def is_solved_too(gold: Any, answer: Any) -> bool:
    """Whether relations in an answer are solved for what those of the gold are, or for a name of its own."""
    expected = [solved_names(relation) for relation in relations_in(gold)]
    if not expected or not all(expected):
        return True
    others = {symbol.name for symbol in gold.free_symbols}.difference(*expected)
    return all(solved_names(relation) - others for relation in relations_in(answer))


def has_finished_sides(gold: Any, gold_text: str, answer_text: str) -> bool:
    """Whether the numbers in an answer are worked out, if the gold is a solved relation: x > 7, but not x > 3 + 4."""
    solved = [solved_names(relation) for relation in relations_in(gold)]
    if not solved or not all(solved):
        return True
    expected = number_sides(gold_text)
    for text, value in number_sides(answer_text):
        allowed = any(is_evaluated(wanted, value, written, text) for written, wanted in expected)
        if not is_finished(text) and not allowed:
            return False
    return True


def number_sides(text: str) -> list[tuple[str, Any]]:
    """The sides of relations, and other parts of a list, that have no letters, each with its value."""
    sides = RELATION_SIGN.split(text)
    found = []
    for place in range(0, len(sides), 2):
        parts = separated(sides[place])
        if len(parts) == 1 and 0 < place < len(sides) - 1 and sides[place - 1] == sides[place + 1] == "=":
            continue  # on the way: x = 3 + 4 = 7
        for part in parts:
            value = read_expression(part)
            if isinstance(value, sympy.Basic) and not value.free_symbols and not value.has(AppliedUndef):
                found.append((part, value))
    return found


def is_region(gold: Any, answer: Any) -> bool:
    """Whether the gold, inequalities in one variable, holds exactly on the answer, a set of numbers.

    The reverse isn't accepted: if a set is asked for, an inequality in the answer may be copied from the question.
    """
    named = isinstance(answer, sympy.Eq) and isinstance(answer.rhs, sympy.Set) and is_name(answer.lhs)
    answer = answer.rhs if named else answer
    parts = gold.args if isinstance(gold, sympy.FiniteSet) else (gold,)
    unequal = all(isinstance(part, sympy.Rel | sympy.And) and not part.has(sympy.Eq) for part in parts)
    if not isinstance(answer, sympy.Set) or not parts or not unequal or len(gold.free_symbols) != 1:
        return False
    return sympy.Union(*(part.doit().as_set() for part in parts)) == sympy.Union(answer.doit())


SIMPLIFIED, SOLVE, COMPARE_SETS = grader.sympy_symbolic_eq, grader.solve, grader.sympy_compare_sets


@cache
def compare_exactly() -> None:
    """Make math-verify compare numbers exactly, and stop sympy from evaluating text, for the rest of this process."""
    grader.sympy_numeric_eq = lambda a, b, *_: equal_expressions(a, b)
    grader.sympy_symbolic_eq = lambda a, b: False
    grader.solve = solutions
    grader.sympy_compare_sets = compare_sets
    sympy_parser.parse_expr = sympy_parser.eval_expr = never


def equal_expressions(a: Any, b: Any) -> bool:
    """Whether the values are equal; if these can't be computed, sympy's simplification decides."""
    verdict = same(a, b)
    if verdict is not None:
        return verdict
    random.seed(0)  # sympy tries random numbers: a verdict must not depend on earlier ones
    return bool(SIMPLIFIED(a, b))


def never(*_: Any, **__: Any) -> Any:
    raise UnreadableError("text is not evaluated")


def solutions(*arguments: Any) -> Any:
    """sympy's solve, but an empty result isn't accepted: any two equations without solutions would be equal."""
    solved = SOLVE(*arguments)
    if solved in ([], sympy.true, sympy.false):
        raise UnreadableError("no solution")
    return solved


def compare_sets(gold: Any, found: Any, *precision: int) -> bool:
    """Compare finite sets by finding an equal for each element, in any order: quicker than math-verify's way."""
    # A number equals at most {number}.
    if isinstance(gold, sympy.Expr) or isinstance(found, sympy.Expr):
        gold, found = (sympy.FiniteSet(side) if isinstance(side, sympy.Expr) else side for side in (gold, found))
        if not isinstance(gold, sympy.FiniteSet) or not isinstance(found, sympy.FiniteSet):
            return False
    listed = [side for side in (gold, found) if isinstance(side, sympy.FiniteSet | sympy.Tuple)]
    if len(listed) == 1:  # a pair may be written as an open interval, but no other list as one
        (interval,) = [side for side in (gold, found) if side is not listed[0]]
        if not (isinstance(interval, sympy.Interval) and interval.is_open and len(listed[0]) == 2):
            return False
    if not isinstance(gold, sympy.FiniteSet) or not isinstance(found, sympy.FiniteSet):
        return COMPARE_SETS(gold, found, *precision)
    rest = list(found.args)
    for element in gold.args if len(gold) == len(found) else ():
        match = next((other for other in rest if grader.sympy_expr_eq(element, other, *precision)), None)
        if match is None:
            return False
        rest.remove(match)
    return not rest


def same(a: Any, b: Any) -> bool | None:
    """Whether two expressions or matrices have the same value everywhere; None if that can't be decided."""
    if constant(a) and constant(b) and clearly_differ(a, b):
        return False
    a, b = grader.safe_sympy_doit(a), grader.safe_sympy_doit(b)
    if isinstance(a, sympy.MatrixBase) and isinstance(b, sympy.MatrixBase):
        return a.shape == b.shape and all(same(x, y) is True for x, y in zip(a.flat(), b.flat(), strict=True))
    if not isinstance(a, sympy.Expr) or not isinstance(b, sympy.Expr):
        return False
    if a == b:
        return True
    if isinstance(a, sympy.Rational) and isinstance(b, sympy.Rational):
        return False
    names = sorted({symbol.name for symbol in a.free_symbols | b.free_symbols})
    if not names:
        return vanishes(a, b)
    verdicts = set()
    for turn in range(len(POINTS)):
        verdicts.add(vanishes(*(put(side, names, turn) for side in (a, b))))
        if False in verdicts:
            return False
    return True if True in verdicts else None


def clearly_differ(a: Any, b: Any) -> bool:
    """Whether constants obviously differ; if that isn't clear, the exact comparison decides."""
    near, far = a.evalf(15), b.evalf(15)
    return near.is_Float and far.is_Float and bool(abs(near - far) > sympy.Float(1e-6) * max(abs(near), abs(far)))


def put(expression: Any, names: list[str], turn: int) -> Any:
    """The expression with a number put for every name; `turn` selects the numbers."""
    places = {
        name: POINTS[(turn + index) % len(POINTS)] + sympy.Rational(index // len(POINTS), 7)
        for index, name in enumerate(names)
    }
    return expression.xreplace({symbol: places[symbol.name] for symbol in expression.free_symbols}).doit()


def vanishes(a: Any, b: Any) -> bool | None:
    """Whether two constants are equal, at far more digits than two different forms of this length could share."""
    if clearly_differ(a, b):
        return False
    if a.is_infinite or b.is_infinite:  # simplifying 2 pi - 3 pi oo gives 0 at every fortieth try
        return a == b != sympy.zoo
    difference = a - b
    if difference.is_Rational:
        return bool(difference == 0)
    if difference.has(sympy.oo, -sympy.oo, sympy.zoo, sympy.nan):
        return None
    number = difference.evalf(DIGITS, maxn=WORKING)
    if not all(part.is_Float or part.is_Rational for part in number.as_real_imag()):
        return None
    size = max(abs(a.evalf(5)), abs(b.evalf(5)), sympy.Float(10) ** -5000)
    return bool(abs(number) <= ZERO * size)
