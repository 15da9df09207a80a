"""Countdown: the four operations, every number exactly once, exact fractions, and nothing is evaluated."""

import random
from fractions import Fraction

import pytest

from r1flow.grading.countdown import read_terms, solves, value

NUMBERS, TARGET = [6, 61, 94, 4], 309


@pytest.mark.parametrize(
    "text",
    [
        "94*4 - 61 - 6",
        "94 × 4 − 61 − 6",
        "(94*4)-(61+6)",
        "((4*(94)))-61-6",
        "(" * 50 + "94*4-61-6" + ")" * 50,
        "94*4-61-6=309",
        "94*4-61-6 = 309 ",
        "4*94\n-61-6",
        r"94 \times 4 - 61 - 6",
        r"$94 \cdot 4 - \left(61 + 6\right) = 309$",
        r"\(94 \ast 4 - [61 + 6]\)",
        r"\[94*4-61-6\]",
        "94 x 4 - 61 - 6.",
        r"\boxed{94*4-61-6}",
        r"So it is $\boxed{94 \times 4 - 61 - 6}$.",
        r"\boxed{\text{94*4-61-6}}",
        "The answer is 94*4-61-6.",
        "**94*4-61-6**",
        "`94*4-61-6`",
        "９４＊４－６１－６",
        r"94 \* 4 - 61 - 6 == 309",
        "94•4 - 61 - 6 = $309$",
        "309=94*4-61-6",
        r"$309 = 94(4)-\left(61+6\right)$",
        "94(4)-61-6",
        "(94)(4)-61-6",
        "(94)[4] - [61+6]",
        "(94)x4-61-6",
        "94X4-61-6",
    ],
)
def test_solutions_in_any_spelling(text: str) -> None:
    assert solves(text, NUMBERS, TARGET) is True


@pytest.mark.parametrize(
    "text",
    [
        "", "(", ")", "()", "309", "94*4-61", "94*4-61-6-0", "94*4-61-6+6-6", "94*4-61-6=308", "94*4-61-6=309=309",
        "-61-6+94*4", "94*4+-61-6", "94*4-61-06", "944-61-6", "94 4-61-6",
        "94**4-61-6", "94^4-61-6", "94//4-61-6", "94*4-61-6.0", "94*4-61-6 or 7", "٩٤*4-61-6", "94*4-61-6\x00",
        "94*4-61-6#", "9" * 5000, "(" * 900 + "94*4-61-6" + ")" * 900, "94*4-61-6" + "-(6-6)" * 500, "6/(61-61)",
        "(" * 51 + "94*4-61-6" + ")" * 51, r"94\timesx4-61-6", r"\frac{94}4-61-6", r"94\mod4", "$", r"\frac" * 200,
        "__import__('os').abort()", "94*4-61-6 if 1 else 6", "1e9*94*4", "\ud800", r"\boxed{309}", r"\boxed{94*4}-61-6",
        "308=94*4-61-6", "309=94*4-61-6=309", "309=309", "309=", "=309", "94 4(1)-61-6", "94(4)(1)-61-6", "x94(4)-61-6",
        "94()4-61-6", "(94)4-61-6", r"94\frac{4}{1}-61-6", "94(4)-61-6=308", "94(4-61)-6", "94(4)^1-61-6",
        r"\boxed{94*4-61-6} or 7", "The answer is not 94*4-61-6", r"\boxed{94*4-61-6=308}",
    ],
)  # fmt: skip
def test_everything_else_is_wrong(text: str) -> None:
    assert solves(text, NUMBERS, TARGET) is False


def test_powers_do_not_hang() -> None:
    assert solves("44**19**35", [44, 19, 35], 98) is False


def test_fractions_are_exact() -> None:
    assert solves("8/(3-8/3)", [8, 3, 8, 3], 24)
    assert solves(r"8 \div (3-\frac{8}{3})", [8, 3, 8, 3], 24)
    assert solves(r"$\dfrac{8}{3-\frac{8}{3}} = 24$", [8, 3, 8, 3], 24)
    assert solves(r"12 \div \frac{6}{3}", [12, 6, 3], 6) and solves(r"\frac62+\dfrac{4}2", [6, 2, 4, 2], 5)
    assert not solves(r"\frac623", [6, 23], Fraction(6, 23)) and not solves("1 x", [1], 1)
    assert not solves(r"\frac{8}{3}-\frac{8}{3}", [8, 3, 8, 3], 24)
    assert not solves("(1/3)*3", [1, 3, 3], Fraction(10**20 + 1, 10**20))
    assert not solves("1/(1-1)", [1, 1, 1], 1)
    # A number before a fraction may be its whole part.
    assert not solves(r"6\frac{2}{3}", [6, 2, 3], 4) and not solves("24", [24], 25) and solves("24=24", [24], 24)
    assert not solves("6/2(3)", [6, 2, 3], 9) and not solves("6/2(3)", [6, 2, 3], 1)


def test_a_remainder_is_no_way_to_a_target_and_an_operator_where_it_is_asked_for() -> None:
    assert not solves("7 % 4", [7, 4], 3) and read_terms("7 % 4") is None
    assert value(read_terms("1 + 7 % 4", remainders=True)) == 4


def test_numbers_must_be_numbers() -> None:
    for numbers, target in (([6, None], 6), (["six"], 6), ([6], None), ([float("nan")], 6)):
        with pytest.raises((TypeError, ValueError)):
            solves("6", numbers, target)


def grown(rng: random.Random, numbers: list[int]) -> tuple[str, Fraction]:
    """A random expression of the numbers, in their order, and its value by Python's fractions."""
    if len(numbers) == 1:
        return str(numbers[0]), Fraction(numbers[0])
    cut = rng.randrange(1, len(numbers))
    (left, a), (right, b) = grown(rng, numbers[:cut]), grown(rng, numbers[cut:])
    sign = rng.choice("+-*/" if b else "+-*")
    value = {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else a}[sign]
    return f"({left}{rng.choice(['', ' '])}{sign}{right})", value


def test_it_agrees_with_python_on_random_expressions() -> None:
    rng = random.Random(5)
    for _ in range(500):
        numbers = [rng.randint(0, 20) for _ in range(rng.randint(1, 6))]
        text, value = grown(rng, numbers)
        shuffled = rng.sample(numbers, len(numbers))
        assert solves(text, shuffled, value)
        assert not solves(text, shuffled, value + 1)
        assert not solves(text, [*shuffled, 1], value)
        assert not solves(text, shuffled[1:], value)


def in_latex(rng: random.Random, numbers: list[int]) -> tuple[str, Fraction]:
    """The same in LaTeX: brackets of sizes, braces, spaces, and three ways to write a fraction."""
    if len(numbers) == 1:
        return str(numbers[0]), Fraction(numbers[0])
    cut = rng.randrange(1, len(numbers))
    (left, a), (right, b) = in_latex(rng, numbers[:cut]), in_latex(rng, numbers[cut:])
    sign = rng.choice("+-*/" if b else "+-*")
    value = {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else a}[sign]
    if sign == "/":
        shape = rng.choice([r"\cfrac{%s}{%s}", r"\tfrac{%s}{%s}", r"{%s \over %s}", r"{{%s}\over{%s}}"])
        return shape % (left, right), value
    opened, closed = rng.choice(
        [(r"\big(", r"\big)"), (r"\Bigl(", r"\Bigr)"), (r"\left[", r"\right]"), ("{", "}"), (r"\Bigg(", r"\Bigg)")]
    )
    space = rng.choice(["", r"\;", r"\!", r"\quad ", "~", r"\:"])
    return f"{opened}{left}{space}{sign.replace('*', chr(92) + 'times')} {right}{closed}", value


@pytest.mark.parametrize("number", ["", "**1.** ", "2) ", "* "])
def test_spellings_in_latex_change_no_value(number: str) -> None:
    rng = random.Random(7)
    for _ in range(200):
        numbers = [rng.randint(0, 20) for _ in range(rng.randint(1, 5))]
        text, value = in_latex(rng, numbers)
        assert solves(number + text, numbers, value), text
        assert not solves(number + text, numbers, value + 1)
        assert not solves(number + text, [*numbers, 1], value)


def test_what_changes_a_value_is_not_taken_for_a_spelling() -> None:
    assert not solves("- 4 + 9", [4, 9], 13) and not solves("- 4 + 9", [4, 9], 5)  # a sign, or a mark of a list
    assert not solves(r"6{2 \over 3}", [6, 2, 3], 4) and not solves(r"{8 \over 3} 3", [8, 3, 3], 8)
    assert not solves("1.4+9", [1, 4, 9], 13) and not solves(r"9\!4", [94], 94)
