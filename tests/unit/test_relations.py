r"""Equations and inequalities: solved where the gold is, with numbers that are worked out, their sides in any order."""

import pytest

from r1flow.grading import math
from r1flow.grading.verdict import Rules

# A gold that is solved, answers that say the same, and copies of a question that it may be the answer of.
SOLVED = [
    (
        "x>7",
        ["7<x", "x>7.0", "(7,\\infty)", "x\\in(7,\\infty)", "\\{x \\mid x>7\\}"],
        ["x-3>4", "x>3+4", "x>\\frac{14}{2}", "x>\\sqrt{49}", "x-7>0", "5>12-x", "-x<-7", "2x>14", "(3+4,\\infty)",
         "x \\ge 7", "x<7", "7<x-0", "x>2^3-1", "x/7>1", "x>7\\cdot 1", "x>\\log_2 128", "x+y>7+y"],
    ),
    ("x\\le-2", ["-2\\ge x"], ["x+5\\le3", "x\\le 1-3", "2x\\le-4", "x\\le-\\frac{4}{2}", "0\\ge x+2"]),
    ("1<x<3", ["(1,3)"], ["0<x-1<2", "1<x<2+1", "2<2x<6", "1<x<\\sqrt9", "|x-2|<1", "x>1"]),
    ("a\\le3\\sqrt2", ["3\\sqrt2\\ge a"], ["a\\le\\frac{6}{\\sqrt2}", "a\\le\\sqrt2+2\\sqrt2",
     "a-\\sqrt2\\le2\\sqrt2"]),
    (
        "x=2, y=3",
        ["y=3,x=2", "x=2 and y=3", "2=x,3=y", "\\begin{cases}x=2\\\\y=3\\end{cases}"],
        ["x+1=3,y=3", "x=2, y-3=0", "x=2,y=1+2", "x=2,2y=6", "x=2, y=\\frac{6}{2}", "2x=4,3y=9", "x=2,x+y=5"],
    ),
    (
        "x=2 \\text{ or } x=3",
        ["x=3 \\text{ or } x=2"],
        ["x-2=0 \\text{ or } x-3=0", "x^2-5x+6=0", "x=2 \\text{ or } x=1+2"],
    ),
    ("x \\ne 3", ["3\\ne x"], ["x-3\\ne0", "x\\ne 2+1", "2x\\ne6"]),
    (
        "x<1 \\text{ or } x>2",
        ["x>2 or x<1", "(-\\infty,1)\\cup(2,\\infty)"],
        ["x<1 \\text{ or } x-2>0", "x<1\\text{ or }x>1+1", "(-\\infty,1)\\cup(1+1,\\infty)", "(x-1)(x-2)>0"],
    ),
    ("x>a+1", ["x>1+a", "a+1<x"], ["x-a>1", "2x>2a+2", "x>a+3-2", "a<x-1"]),
    (
        "y=2x+1",
        ["2x+1=y", "y=1+2x", "y=2x+1 \\text{ for all } x", "2x+1"],
        ["2y=4x+2", "4y=8x+4", "y-3=2(x-1)", "\\frac{y-3}{x-1}=2", "y=2x+2-1", "y=x+x+1", "x=(y-1)/2", "y-2x-1=0",
         "-y=-2x-1", "2x-y+1=0", "y-1=2x", "y=3x-x+1", "y=2x"],
    ),
    ("f(x)=2x+1", ["f(x)=1+2x"], ["2f(x)=4x+2", "f(x)-1=2x", "f(x)=x+x+1"]),
    ("x=7", ["7=x", "x=3+4=7", "7"], ["x-7=0", "0=7-x", "x+1=8", "2x=14", "x=3+4", "14=2x"]),
    ("7", ["7=x", "x+y=7", "AB=7"], ["3+4=x", "7=2x"]), ("AB=7", ["7=AB"], ["2AB=14"]),
    ("(x,y)=(1,2)", ["(1,2)"], ["(x,y)=(2-1,2)"]), ("x>\\frac{15}{2}", ["x>7.5", "x>7\\frac12"], ["x>7+\\frac12"]),
]  # fmt: skip
# A gold that is not solved, and what says the same.
UNSOLVED = [
    ("x+y=5", ["5=x+y", "x+y-5=0", "2x+2y=10", "y=5-x"], ["x+y=6", "x-y=5", "x=5"]),
    ("2x+3y=6", ["4x+6y=12", "6=2x+3y", "y=2-\\frac{2}{3}x"], ["2x+3y=7"]),
    ("x^2+y^2=25", ["x^2+y^2=5^2", "x^2+y^2-25=0"], ["x^2+y^2=5"]), ("x+y>5", ["5<x+y"], ["x+y<5"]),
    ("x^2-x=0", ["x(x-1)=0"], ["x=0"]),
]  # fmt: skip
# Bounds and values that can't be worked out are what they are.
AS_THEY_ARE = ["x\\ge\\log_3 5", "x\\ge\\frac{\\ln 5}{\\ln 3}", "x > \\sin 1", "x<2^{100}", "P(2)=3", "f^{-1}(x)=2x",
               "a_n=2n+1", "\\frac{a}{b}=\\frac{2}{3}", "\\theta=30^\\circ", "r=2\\sin\\theta", "x=y"]  # fmt: skip
OF_ITSELF = [("2x", "x=2x"), ("2x", "2x=x"), ("x^3+3x", "x=x^3+3x"), ("\\cot x", "\\cot x=x")]
COLLECTED = [
    ("5x", "3x+2x"),
    ("x^2+5x-1", "(x^2+2x)+(3x-1)"),
    ("5x/6", "\\frac{x}{2}+\\frac{x}{3}"),
    ("2x+1", "2x+3-2"),
]
PAIRS = []
for relation, right, wrong in SOLVED + UNSOLVED:
    PAIRS += [(relation, text, True) for text in right]
    PAIRS += [(relation, text, False) for text in wrong]


@pytest.mark.parametrize(("gold", "answer", "verdict"), PAIRS)
def test_an_answer_is_solved_where_its_gold_is(gold: str, answer: str, verdict: bool) -> None:
    assert math.equal(gold, answer) is verdict


@pytest.mark.parametrize("text", AS_THEY_ARE)
def test_what_cannot_be_worked_out_may_be_left_so(text: str) -> None:
    assert math.equal(text, text) is True


@pytest.mark.parametrize(("gold", "answer"), COLLECTED)
def test_terms_that_can_be_added_are(gold: str, answer: str) -> None:
    assert math.equal(gold, answer) is False
    assert math.equal(answer, answer) is True
    assert math.verdicts([(gold, answer)], Rules(unevaluated=True))[0].correct is True


def test_worked_out_numbers_are_asked_for_only_where_they_are_needed() -> None:
    pairs = [("x>7", "x>3+4"), ("x=2, y=3", "x=2,y=1+2"), ("x<1 or x>2", "x<1 or x>1+1")]
    assert all(verdict.correct for verdict in math.verdicts(pairs, Rules(unevaluated=True)))


@pytest.mark.parametrize(("gold", "answer"), OF_ITSELF)
def test_what_is_said_to_be_itself_is_still_to_be_solved(gold: str, answer: str) -> None:
    assert math.equal(gold, answer) is False
    assert math.equal(gold, f"y={gold}") is math.equal(gold, f"f(x)={gold}") is math.equal(gold, gold) is True
