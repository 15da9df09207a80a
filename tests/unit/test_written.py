r"""Ways to write an answer: commas, marks after a box, words for amounts, brackets, fractions and remainders."""

import pytest

from r1flow.data import loaders
from r1flow.grading import math

AFTER_A_BOX = [
    "\\boxed{7}!",
    "\\boxed{7}.5",
    "$\\boxed{7}!$",
    "\\boxed{7},5",
    "$\\boxed{7}$!",
    "\\boxed{7}!!",
    "$\\boxed{7}$.5",
    "x=\\boxed{7}!",
    "$$\\boxed{7}.5$$",
    "The answer is $\\boxed{7}!$",
    "\\boxed{7}\\,!",
    "\\boxed{7} !",
]
RIGHT = [
    *(("0.5", "0,5"), ("1000.5", "1.000,5"), ("1.2", "1,2"), ("1,05", "1.05"), ("1.000,5", "1000.5"), ("1,2", "2,1")),
    *(
        ("7", text)
        for text in ("The answer is \\boxed{7}!", "\\boxed{7}.", "\\boxed{7}. It fits.", "So it is $\\boxed{7}$!")
    ),
    *(
        ("1000000", text)
        for text in ("1 million", "1\\text{ million}", "$1$ million", "1,000 thousand", "0.001 billion")
    ),
    *(
        ("\\$2000000", text)
        for text in ("\\$2 million", "2 million dollars", "2 \\text{ million dollars}", "$2 million")
    ),
    *(("1 million", "1000000"), ("1 million", "1 million"), ("73000000", "73 million people"), ("400", "4 hundred")),
    *(("300000", "3 hundred thousand"), ("1500000", "1.5 million"), ("-2000", "-2 thousand")),
    *(
        ("no solution", text)
        for text in ("No solutions", "There are no solutions.", "There is no solution.", "no solution")
    ),
    *(("no real solutions", "no real solution"), ("no solution", "The equation has no solutions.")),
    *(
        ("72", text)
        for text in ("72 (in total)", "72 apples (in total)", "72 \\text{ (in total)}", "\\framebox[2cm]{72}")
    ),
    *(("3/4", text) for text in ("{3 \\over 4}", "3 \\over 4", "${3\\over4}$", "\\left({3 \\over 4}\\right)")),
    *(("\\frac{\\sqrt2}{2}", "{\\sqrt{2} \\over 2}"), ("x^2/4", "{x^2 \\over 4}"), ("{3 \\over 4}", "0.75")),
    *(("-3/4", text) for text in ("-(3/4)", "-\\left(\\frac{3}{4}\\right)", "-(\\frac34)")),
    *(("(-3/4, 2)", "(-(3/4), 2)"), ("72", "\\framebox[2cm][c]{72}"), ("-\\sqrt2", "-(\\sqrt2)")),
]
WRONG = [
    *(("7", text) for text in AFTER_A_BOX),
    *(
        ("1", "1 million"),
        ("7", "7 million"),
        ("1000000", "1 billion"),
        ("1000000", "1 millionth"),
        ("2", "{4 \\over 2}"),
    ),
    *(("1000000", "1 million or 2"), ("1000000", "1 million 5"), ("5", "-(-5)"), ("-3/4", "-(-3/4)"), ("-7", "-(3+4)")),
    *(("72", "72 (in total) or 73"), ("72", "72 (not in total)"), ("72", "\\framebox[2cm]{73}"), ("-6", "-(2)(3)")),
    *(
        ("no solution", "one solution"),
        ("no solution", "solutions"),
        ("no solution", "It is false that there is no solution."),
    ),
    *(("3/4", "{4 \\over 3}"), ("3/4", "-(3/4)"), ("no triangles", "triangles")),
]
BOTH = "\\frac{1\\pm\\sqrt{19}}{2}"
SAME_TWO = [
    BOTH,
    f"x={BOTH}",
    "\\frac{1-\\sqrt{19}}{2}, \\frac{1+\\sqrt{19}}{2}",
    "{1 \\pm \\sqrt{19} \\over 2}",
    "\\frac12\\pm\\frac{\\sqrt{19}}{2}",
    "x=\\frac{1+\\sqrt{19}}{2} \\text{ or } x=\\frac{1-\\sqrt{19}}{2}",
]
OTHER_TWO = [
    "\\frac{1+\\sqrt{19}}{2}",
    "\\frac{1\\pm\\sqrt{17}}{2}",
    "1\\pm\\sqrt{19}",
    "\\frac{1\\pm\\sqrt{20-1}}{2}",
    "\\frac{1\\pm\\frac{\\sqrt{76}}{2}}{2}",
    "7",
]
REMAINDER = "n \\equiv 3 \\pmod 7"
SAME_REMAINDER = [
    "n \\equiv 3 \\pmod{7}",
    "n ≡ 3 (mod 7)",
    "$n\\equiv 3 \\pmod{7}$",
    "n \\equiv -4 \\pmod 7",
    "n ≡ 3 mod 7",
    "n\\equiv3\\bmod 7",
    "n \\equiv 3 \\text{ (mod 7)}",
    "\\boxed{n \\equiv 3 \\mod 7}",
]
OTHER_REMAINDER = [
    "n \\equiv 4 \\pmod 7",
    "n \\equiv 3 \\pmod 8",
    "m \\equiv 3 \\pmod 7",
    "n \\equiv 10 \\pmod 7",
    "3",
    "n=3",
    "n \\equiv 3",
    "n+1 \\equiv 4 \\pmod 7",
    "2n \\equiv 6 \\pmod 7",
    "n \\equiv 1+2 \\pmod 7",
    "n \\not\\equiv 3 \\pmod 7",
    "n \\equiv 3 \\pmod 7 \\text{ or } 4",
    "",
    "n \\equiv 3 \\pmod 0",
]


@pytest.mark.parametrize(("gold", "answer"), RIGHT)
def test_it_may_be_written_so(gold: str, answer: str) -> None:
    assert math.equal(gold, answer) is True


@pytest.mark.parametrize(("gold", "answer"), WRONG)
def test_it_means_something_else_if_written_so(gold: str, answer: str) -> None:
    assert math.equal(gold, answer) is False


def test_a_fraction_with_both_signs_is_a_list_of_two() -> None:
    for gold in (BOTH, f"x={BOTH}", "{1 \\pm \\sqrt{19} \\over 2}"):
        assert [answer for answer in SAME_TWO if math.equal(gold, answer) is not True] == []
        assert [answer for answer in OTHER_TWO if math.equal(gold, answer) is not False] == []
    assert math.equal("\\frac{1+\\sqrt{19}}{2}", BOTH) is False


@pytest.mark.parametrize("answer", SAME_REMAINDER)
def test_a_remainder_may_be_written_so(answer: str) -> None:
    assert math.equal(REMAINDER, answer) is True


@pytest.mark.parametrize("answer", OTHER_REMAINDER)
def test_another_remainder_or_one_that_is_not_worked_out_is_wrong(answer: str) -> None:
    assert math.equal(REMAINDER, answer) is False


@pytest.mark.parametrize("solution", ["So \\boxed{3}.5", "\\boxed{3}!"])
def test_a_gold_is_not_a_part_of_what_a_solution_boxes(solution: str) -> None:
    with pytest.raises(loaders.Unusable):
        loaders.boxed(solution)
    assert loaders.boxed("We get \\boxed{3}!") == loaders.boxed("\\framebox[2cm]{3}") == "3"
