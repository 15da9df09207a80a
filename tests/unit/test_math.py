r"""Mathematical answers: right in any spelling, wrong when hedged, cut or only nearly equal, unknown for a bad gold."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from r1flow.grading import math
from r1flow.grading.answers import plain_number
from r1flow.grading.closed_forms import read_expression, same
from r1flow.grading.verdict import Cause, Rules, Verdict
from r1flow.grading.worker import worker

DATASETS = os.environ.get("R1FLOW_DATASETS")
with_data = pytest.mark.skipif(not DATASETS, reason="R1FLOW_DATASETS names no folder of datasets")

RIGHT = [
    ("4\\pi", "V = 4\\pi \\approx 12.57"),
    ("7", "\\mathcal{A} = 7"),
    ("7", "a_{n+1} = 7"),
    ("7", "\\text{area of x-axis} = 7"),
    ("7", "x = \\boxed{7}"),
    ("\\$32,\\!348", "32348"),
    ("\\$32,\\!348", "32,348"),
    ("11,\\!111", "11111"),
    ("p - q", "p-q"),
    ("\\text{Carla and Bob}", "Carla and Bob."),
    ("7", "7"),
    ("7", "x=7"),
    ("7", "The answer is 7."),
    ("7", "\\boxed{7}"),
    ("7", "$7$"),
    ("7", "7 apples"),
    ("7", "7\\text{ cm}"),
    ("7\\text{ cm}", "7"),
    ("7\\text{ cm}", "7 centimeters"),
    ("50\\%", "50"),
    ("50\\%", "0.5"),
    ("0.5", "50%"),
    ("50", "50%"),
    ("50\\%", "\\frac{1}{2}"),
    ("\\frac{1}{2}", "50\\%"),
    ("\\frac13", "0.333333"),
    ("1/3", "0.333333"),
    ("\\pi", "3.141593"),
    ("\\pi", "3.1415926536"),
    ("1000", "1 000"),
    ("1000", "1,000"),
    ("1000", "1\\,000"),
    ("4210_{5}", "4210_5"),
    ("4210_5", "4210"),
    *(("52_8", r"52_{\text{eight}}"), ("52_8", "(52)_8"), ("52_8", "52 base 8"), ("52_8", "52 in base 8")),
    *(("52_{8}", "$52$ in base $8$"), (r"52_{\text{eight}}", "52_8"), ("52_8", "The answer is 52 in base eight.")),
    ("\\text{east}", "East"),
    ("\\text{(C)}", "C"),
    ("C", "(C)"),
    ("C", "C. London"),
    ("1:2", "2:4"),
    ("\\text{Evelyn}", "\\text{Evelyn}"),
    ("5", "$5"),
    ("5", "\\$5"),
    ("5", "5 cents"),
    ("90^\\circ", "90"),
    ("90", "90°"),
    ("90", "90 degrees"),
    ("10!", "10!"),
    ("7", "7 = 7"),
    ("1.5\\times 10^{3}", "1500"),
    ("1500", "1.5e3"),
    ("0.00015", "1.5e-4"),
    ("5/2", "2 1/2"),
    ("\\frac52", "2\\frac12"),
    ("0.5", "\\frac{1}{2}"),
    ("\\frac{1}{2}", ".5"),
    ("x^2-1", "(x+1)(x-1)"),
    ("\\frac{\\sqrt{3}}{2}", "\\sqrt{3}/2"),
    ("\\sqrt{2}", "sqrt(2)"),
    ("\\sqrt{2}", "√2"),
    ("2\\pi", "2π"),
    ("x=5", "5"),
    ("5", "y = 5"),
    ("\\{1,2,3\\}", "3, 2 and 1"),
    ("(1,2)", "(1, 2)"),
    ("7", "7."),
    ("7", "**7**"),
    ("-5", "−5"),
    ("3", "3.0"),
    ("18", "18 dollars per day"),
    ("\\frac{\\pi}{2}", "50\\pi\\%"),
    ("12\\text{ cm}^2", "12 cm squared"),
    ("-x", "i^2x"),
]
WORDED = [  # answers that stand among words, or in several boxes, as models and golds write them
    ("34", "final answer: 34"),
    ("34", "**Answer:** 34"),
    ("9", "Answer $$ \n 9 \n $$"),
    ("7", "Let $x=3$. Then we find that $x+4=7$. \\[ \\boxed{7} \\]"),
    ("7", "The value of $x$ is 7"),
    ("7", "It can't be 8, so the answer is 7."),
    ("\\frac{1}{2}", "By symmetry $0.5$."),
    ("x=5", "After all terms cancel, $x=5$"),
    ("7", "It is 8, or so I thought. Thus the answer is $7$. I hope it is correct."),
    ("\\text{east}", "The answer is east."),
    ("7", "The final answer is $7$. I hope it is correct. Note: the sum was long."),
    ("7", "The final answer is $7$. I hope it is correct."),
    ("7", "The final answer is 7. There are no other solutions. This completes the proof."),
    ("7", "The final answer is 8. Wait, that was rash. So the final answer is 7. I hope it is correct."),
    ("3\\sqrt{2}", "The length is $3\\sqrt{2}$ cm."),
    ("x \\le 2", "Thus $x <= 2$ is our answer."),
    ("x \\ne 3", "We find that $x != 3$."),
    ("(1, 2)", "so \\\\boxed{\\\\left(1, 2\\\\right)}"),
    ("\\{1,2\\}", "\\boxed{1}, \\boxed{2}"),
    ("\\sqrt{2}", "\\boxed{\\boxed{\\sqrt{2}}}"),
    ("1, 2", "$\\boxed{1}$ and $\\boxed{2}$"),
    ("a=1, b=2", "$a=\\boxed{1}$ and $b=\\boxed{2}$"),
    ("We find $n = \\boxed{1,-2}.$", "-2, 1"),
    ("Therefore, $\\boxed{14{,}916}$ is our answer.", "14916"),
    ("\\begin{pmatrix}1&0\\\\0&1\\end{pmatrix}", "The identity matrix is $\\begin{bmatrix}1&0\\\\0&1\\end{bmatrix}$."),
]
SAID = [  # a value in a sentence, with what may follow it
    ("73", "It checks.\n\nHence **73** people keep every pet.\n\n---\n\n✅ Final Answer: **73**"),
    ("73", "The answer is **73**."), ("73", "**The answer is 73.**"), ("73", "**Answer: $73$**"), ("73", "**73**."),
    ("72", "The answer is 72, in total, and so she can pay."), ("72", "The answer is 72, which is even."),
    ("72", "So the answer is 72 because 8*9=72."), ("72", "72 in total"), ("72", "72 people altogether"),
    ("x=2", "x = 2 \\text{ is the only solution}"), ("f(x)=x^2", "f(x) = x^2 \\text{ for all real } x"),
    ("n(n+1)", "n(n+1) \\text{ for } n \\ge 1"), ("2k\\pi", "$2k\\pi$, where $k$ is an integer"),
    ("x^2", "x^2 for all x"), ("x^2", "x^{2} \\text{ for all } x"), ("x^2", "$x^{2}$ for all $x$"),
    ("\\frac{n}{2}", "\\frac{n}{2}\\text{ for all }n"), ("2^{n} for n \\ge 1", "2^n"),
    ("180", "180天"), ("42", "因为如此，所以答案是42。"), ("42", "答案：42元。"),
    ("(1,2)", "（1，2）"), ("7", "\\framebox{7}"), ("7", "\\boxed {7}"), ("E", "E - a risk score"), ("E", "Option E"),
    ("3.14", "3.14 m"), ("5 wombats", "5"), ("5", "5 people"), ("73", "**Final Answer:** **73**"),
    ("72", "The answer is 72, in total."), ("73", "Therefore, **73**."), ("73", "### Final Answer\n\n73"),
    ("73", "So it checks.\n\n**Answer**\n$73$"), ("73", "*73*"), ("73", "`73`"), ("73", "“73”"), ("73", "__73__"),
    ("72", "72, so she can pay."), ("72", "72 because 8*9=72."), ("f(x)=x^2", "f(x) = x^2 \\quad \\forall x"),
    ("180", "共180天。"), ("180", "总共180人"), ("180", "180日"), ("7", "$\\boxed 7$."),
    ("\\frac12", "\\boxed\\frac12"),
    ("29", "29 °C"), ("29", "29^{\\circ}\\text{C}"), ("29 \\text{ °C}", "29"), ("29", "29 degrees Celsius"),
]  # fmt: skip
TYPED = [  # as people type it, without LaTeX, or with another keyboard
    *(("\\ln 2", text) for text in ("ln 2", "ln(2)", "ln2", "\\log_e 2", "\\text{ln}(2)", "\\operatorname{ln} 2")),
    *(("3\\sqrt{5}", text) for text in ("3 sqrt(5)", "3√(5)", "3 sqrt5", "3*sqrt(5)", "3\\cdot 5^{1/2}")),
    *(("\\sqrt[3]{2}", text) for text in ("cbrt(2)", "∛2", "2^(1/3)", "2^{\\frac13}", "\\sqrt[3]2")),
    *(("(2, \\infty)", text) for text in ("(2, inf)", "(2, +infinity)", "(2, oo)")),
    *(("e^2", text) for text in ("exp(2)", "\\exp(2)", "e²")),
    *(("\\frac{1}{2}", text) for text in ("½", "1⁄2", "$½$")),
    *(("3\\frac{1}{2}", text) for text in ("3½", "3 ½", "7/2")),
    *(
        ("73", text)
        for text in ("７３", "答案是７３。", "Answer：73", "'73'", "«73»", "```\n73\n```", "exactly 73", "73個")
    ),
    *(
        ("73", text)
        for text in ("\\begin{align*}73\\end{align*}", "\\boxed{73 \\checkmark}", "x := 73", "73~cm", "73\\;cm")
    ),
    *(("180", text) for text in ("180\\text{天}", "答：需要180天。", "180个苹果", "是180", "US$180", "180 sq. ft.")),
    *(("180", text) for text in ("180 $\\text{cm}^2$", "180 cm long")),
    *(("2000006", text) for text in ("2 000 006", "2'000'006", "2_000_006", "2.000.006")),
    *(("10^8", text) for text in ("10⁸", "100 000 000", "1e8")),
    *(("x_1^4", text) for text in ("x₁⁴", "x_1⁴")),
    *(("2+3i", text) for text in ("2+3 i", "2+3*i", "2+3\\mathrm{i}", "2+3𝑖")),
    *(("x=1,2", text) for text in ("x=1 or x=2", "x=1 ∨ x=2", "x=2, x=1")),
    ("(-\\infty,2]\\cup[3,\\infty)", "(-inf, 2] U [3, inf)"),
    ("x=\\pm 2", "x=2 or x=-2"),
    ("\\arctan 2", "atan(2)"),
    *(("(2, \\infty)", text) for text in ("(2, Infinity)", "(2, INF)", "(2, \\inf)")),
    *(
        ("7", text)
        for text in ("\\boxed{\\text{The maximum is } 7}", "\\boxed{\\text{Total: }7\\text{ apples in total}}")
    ),
    *(("7", text) for text in ("7\\text{ is the number of apples}", "\\boxed{7\\text{ is the smallest integer}}")),
    ("\\cos x", "cos(x)"),
    ("|x|", "abs(x)"),
    ("\\sqrt{1+\\sqrt{5}}", "sqrt(1+sqrt(5))"),
    ("\\frac{\\pi}{4}", "\\frac{pi}{4}"),
    ("\\frac{1}{6}", "0.1\\overline{6}"),
    ("4\\sqrt{3}", "4√3 (≈ 6.93)"),
    *(
        ("7", text)
        for text in ("7 is the maximum", "\\boxed{7\\text{ is the maximum}}", "7 is the largest such number.")
    ),
    *(
        ("7", text)
        for text in ("7\\text{ is the minimum value}", "$\\text{The maximum is }7$", "\\boxed{7\\text{ is the answer}}")
    ),
]
MISTYPED = [  # near those, and wrong
    *(("\\ln 2", text) for text in ("ln 3", "log(2)", "ln(4)-ln(2)", "-ln 2")),
    *(("2", text) for text in ("8^(1/3)", "4^{1/2}", "2^{1/2}\\cdot 2^{1/2}", "∛8", "x²", "cbrt(8)")),
    *(("\\sqrt{5}", text) for text in ("5^{2/4}", "25^{1/4}", "\\sqrt[4]{25}", "5^{1/3}")),
    *(("5\\sqrt{3}", text) for text in ("sqrt(12)+sqrt(27)", "12^{1/2}+27^{1/2}")),
    *(("\\frac{1}{2}", text) for text in ("1½", "½½", "½x", "½+0", "⅓")),
    *(("7", text) for text in ("７＋０", "７７", "３＋４", "abs(-7)", "sqrt(49)", "7~x", "exactly 7 or 8", "8 (≈ 7)")),
    *(("2000006", text) for text in ("2 000 06", "2.000.06", "2'000'06", "2.000.006.1")),
    *(("x=1,2", text) for text in ("x=1", "x=1 or y=2", "x=1 or x=2 or x=3", "x=1 or x=3")),
    *(("7", text) for text in ("\\boxed{7\\text{ is not the maximum}}", "7 is the maximum of 8", "8-1 is the maximum")),
    *(
        ("7", text)
        for text in ("\\boxed{7\\text{ is the maximum or }8}", "\\text{The sum is not }7", "7x is the maximum")
    ),
    *(("1", text) for text in ("sin(90°)", "exp(0)", "x⁰")),
    *(("6i", text) for text in ("2*3i", "2i+4i", "6i+0", "6-i")),
    ("e", "exp(1)"),
    *(
        ("7", text)
        for text in ("\\boxed{\\text{It never is }7}", "\\boxed{\\text{The sum is not }7}", "7 is the number of 8s")
    ),
    ("1234", "1\n234"),
    *(("180", text) for text in ("180个半", "不是180", "180万个", "180个不对", "180 $x^2$", "180个万")),
    ("\\infty", "-inf"),
    ("x_2", "x²"),
]
SET_OFF = [  # brackets, names and styles in other spellings
    ("33\\pi", "33 pi"), ("15\\pi", "15\\pi cm^2"), ("\\frac12", "\\frac12 inches"), ("(-3,18)", "\\big(-3,18\\big)"),
    ("[-3,13)", "\\lbrack -3,13)"), ("\\{1,2\\}", "\\lbrace 2,1\\rbrace"), ("9\\sqrt{11}", "9√11"),
    ("33", "\\text{33}"),
    ("9", "\\mathbf{9}."), ("\\{9,17,31\\}", "$9$, $17$, and $31$"), ("9\\sqrt{7}", "**9*sqrt(7)**"),
    ("\\$129.25", "\\text{\\$129.25}"),
    ("\\begin{pmatrix}1\\\\ 3\\end{pmatrix}", "v=\\begin{pmatrix}1\\\\ 3\\end{pmatrix}"),
    ("\\begin{pmatrix}1\\\\3\\end{pmatrix}", "So the answer is \\begin{pmatrix}1\\\\\n3\\end{pmatrix}."),
]  # fmt: skip
WHERE_IT_HOLDS = [  # a gold, and answers with a condition that restricts nothing, or that the gold has, too
    ("n(n+1)", "n(n+1), n \\ge 1"), ("n(n+1)", "n(n+1) \\quad (n\\geq 1)"),
    ("n(n+1)", "$n(n+1)$ for every integer $n$."), ("n(n+1)", "n(n+1) \\text{ for } n = 1, 2, 3, \\ldots"),
    ("f(x)=x^2", "f(x)=x^2 \\quad (x \\in \\mathbb{R})"), ("f(x)=x^2", "f(x)=x^2 \\text{ for all reals}"),
    ("2k\\pi", "2k\\pi, k \\in \\mathbb{Z}"), ("2k\\pi, k \\in \\mathbb{Z}", "2k\\pi, where k is an integer"),
    ("2k\\pi, k \\in \\mathbb{Z}", "$2k\\pi$"), ("x^2 \\text{ for } x > 0", "x^2, x>0"),
    ("x^2 \\text{ for } x \\leq 0", "x^2 where x \\le 0"),
]  # fmt: skip
UNSOLVED = [("x=7", "x-7=0"), ("x=7", "0=7-x"), ("x=7", "x+1=8"), ("5/6", "5:6:1"), ("1:2", "1:2:1")]
HOLDS_ELSEWHERE = [
    ("x^2 \\text{ for } x > 0", "x^2 \\text{ for } x < 0"), ("x^2, x \\ge 1", "x^2, x \\ge 5"),
    ("f(x)=x^2", "f(x)=x^2 \\text{ for } x \\ne 2"), ("n^2", "n^2 for odd n"), ("n^2", "n^2 \\text{ for even } n"),
    ("n^2", "n^2 for some n"), ("7", "7 for some x"), ("n^2", "n^2, n < 5"), ("n^2", "n^2 for negative n"),
    ("x>2", "x>2, x<5"), ("n^2", "n^2, n \\in (0,1)"),
]  # fmt: skip
DRESSED = [  # marks, headings, sizes, colours and currencies around an answer, and what is counted
    ("73", "Final Answer: 73 ✅"), ("73", "→ 73"), ("73", "#### 73"), ("73", "<b>73</b>"), ("73", "Final answer — 73"),
    ("73", "Ans: 73"), ("73", "Total: 73"), ("73", "\\underline{73}"), ("73", "\\Large 73"),
    ("73", "\\color{red}{73}"), ("73", "\\boxed{\\text{73 people}}"), ("73", "\\boxed{\\large 73}"),
    ("73", "\\boxed{73\\ }"), ("73", "73,"), ("73", "73;"), ("72", "8 x 9 = 72"),
    ("72", "The value is 72, which is what we wanted."), ("72", "There are 72 people who came."),
    ("72", "The sum is 72 and that is the answer."), ("3", "答：3个"), ("3", "所以，3"), ("29", "USD 29"),
    ("29", "₹29"), ("29", "Rs. 29"), ("29", "29 years old"), ("29", "29 red marbles"), ("29", "29 more apples"),
    ("29", "29 apples left"), ("29", "29 slices of pizza"), ("29", "29 cups of flour"), ("29", "29 each"),
    ("x=2", "x = 2 is the unique solution."), ("x=2", "x = 2 \\text{ is the only real solution}"),
    ("7", "7 is correct."), ("3.14", "3.14 mol"), ("3.14", "3.14 kJ/mol"), ("3.14", "$3.14\\,\\mathrm{m/s^2}$"),
    ("3.14", "3.14\\ \\Omega"), ("3.14", "3.14 kg·m/s"), ("3.14", "3.14 kPa"),
    ("12 \\text{ cm}^2", "12\\text{ cm^2}"), ("73", "$2+\\boxed{3}$ is wrong.\n\nSo $x = \\boxed{73}$"),
    ("73", "$n \\ge \\boxed{73}$"), ("73", "$x \\in \\boxed{73}$"), ("$2\\boxed{73}$", "73"), ("73", "- \\boxed{73}"),
    ("73", "**\\boxed{73}**, since it fits."), ("73", "\\boxed{73} cm"), ("73", "\\textbf{\\boxed{73}}"),
    ("73", "\\boxed{73}. Note that 74 is too much."), ("73", "\\boxed{73}. No other number fits."),
    ("73", "The answer is \\boxed{73}!"),
]  # fmt: skip
NOT_ALONE = [  # what is around a box, a number or its unit makes another answer of it
    ("73", "2\\boxed{73}"), ("73", "-\\boxed{73}"), ("73", "1\\boxed{73}"), ("73", "\\sqrt{\\boxed{73}}"),
    ("73", "\\frac{\\boxed{73}}{2}"), ("73", "\\boxed{73}{2}"), ("73", "\\boxed{73}00"), ("73", "$\\boxed{73}!$"),
    ("73", "x \\ne \\boxed{73}"), ("73", "\\boxed{73} and 74"), ("73", "\\boxed{73}, wait, 74"),
    ("73", "\\boxed{73} is wrong. It is 74."), ("73", "not \\boxed{73}"), ("73", "I don't think it is \\boxed{73}"),
    ("73", "\\boxed{73} is not the answer"), ("73", "\\boxed{73}. No, 74."), ("73", "\\boxed{73}x"),
    ("73", "\\boxed{73}\\pi"), ("73", "more than \\boxed{73}"), ("73", "73M"), ("73", "73K"), ("73", "73 MM"),
    ("73", "73 left of 80"), ("73", "73 fewer apples"), ("73", "73 slices of 8"), ("73", "> 73"), ("73", "73 of the"),
    ("73", "The answer has 73 digits."), ("73", "\\text{73 or 74}"), ("73", "73 million people"), ("73", "73 N 5"),
    ("73", "73 red or blue"), ("12 \\text{ cm}^2", "12\\text{ cm^3}"), ("29 kJ", "29 J"), ("€5", "$5"), ("₹5", "$5"),
]  # fmt: skip
NOTATION = [  # other spellings of sets, systems, matrices, numbers, units and equations
    ("\\{1,2,3,4\\}", "\\{1,3\\}\\cup\\{2,4\\}"),
    ("\\{1,3\\}\\cup\\{2,4\\}", "\\{1,2,3,4\\}"),
    ("-2\\le x\\le 7", "x\\in[-2,7]"),
    ("x>5", "(5,\\infty)"),
    ("x<1 \\text{ or } x>2", "(-\\infty,1)\\cup(2,\\infty)"),
    ("\\begin{cases}x=1\\\\y=2\\end{cases}", "x=1, y=2"),
    ("\\left\\{\\begin{array}{l}x=1\\\\y=2\\end{array}\\right.", "x=1, y=2"),
    ("\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "\\begin{Bmatrix}1&2\\\\3&4\\end{Bmatrix}"),
    ("\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "\\left[\\begin{smallmatrix}1&2\\\\3&4\\end{smallmatrix}\\right]"),
    ("2x+4y-3=0", "y=-\\frac{1}{2}x+\\frac{3}{4}"),
    ("x+2y=3", "2x+4y=6"),
    ("12:00", "12:00"),
    ("12:00", "12:00 PM"),
    ("0.5", "0,5"),
    ("1000.5", "1.000,5"),
    ("1,22", "1.22"),
    ("28\\%", "\\boxed{28 percentage}"),
    ("0.06 \\text{ yuan}", "0.06"),
    ("5", "5 \\mathrm{~cm}"),
    ("40 \\mathrm{~km} / \\mathrm{h}", "40"),
    ("\\varnothing", "\\emptyset"),
    ("[1;2]", "[1,2]"),
    ("(-\\infty;1)\\cup(2;+\\infty)", "(-\\infty,1)\\cup(2,\\infty)"),
    ("\\{x \\mid 1<x<2\\}", "(1,2)"),
    ("3-2\\mathrm{i}", "3-2i"),
    ("\\langle 1,2\\rangle", "(1,2)"),
    ("100", "1e2"),
    ("11,\\!111", "11 {, }111"),
]
WORKED_OUT = [
    ("1024", "1024"), ("2^{100}", "2^{100}"), ("\\binom{10}{5}", "\\binom{10}{5}"), ("2\\sqrt3", "\\sqrt{12}"),
    ("\\frac12", "\\frac24"), ("1000", "10^3"), ("1-\\frac1e", "1-e^{-1}"), ("\\frac{9\\pi}{4}", "\\frac94\\pi"),
    ("\\ln 2", "\\ln 2"), ("2^3\\cdot 3^2", "3^2 \\cdot 2^3"), ("7", "x=3+4=7"), ("10000000", "10^{7}"),
    ("\\frac{2}{\\sqrt3}", "\\frac{2\\sqrt3}{3}"), ("5\\frac12", "\\frac{11}{2}"), ("0", "\\frac{0}{3}"),
]  # fmt: skip
FINISHED = [  # what a finished answer may look like; each is right for itself
    "2\\sqrt3", "\\sqrt{3}/2", "\\frac34", "2\\frac12", "1-\\frac1e", "\\frac{9\\pi}{4}", "\\frac94\\pi", "5\\pi/6",
    "(1+\\sqrt5)/2", "\\frac12(1+\\sqrt5)", "\\frac{-3+\\sqrt{17}}{4}", "3+2i", "3\\sqrt{2}i", "e^2", "2\\sqrt[3]{5}",
    "1.5\\times 10^{3}", "\\log_2 3", "2\\cdot\\sqrt3", "(-\\infty,2)\\cup(3,\\infty)", "\\frac{2}{\\pi}",
    "\\left(3,\\frac{\\pi}{2}\\right)", "\\begin{pmatrix}1\\\\ \\frac{1}{2}\\end{pmatrix}", "2^{100}-1",
]  # fmt: skip
UNREAD = ("\\sin 30^\\circ", "\\frac{d}{dx} 2x", "25\\%+25\\%")  # in radians; with a letter; with the last sign only
COPIED = [  # questions, which are worth their answers
    ("120", "5!"), ("7", "7 / 1"), ("6", "2\\cdot 3"), ("5050", "\\sum_{k=1}^{100} k"), ("7", "3+4"),
    ("252", "\\binom{10}{5}"), ("1/3", "\\int_0^1 x^2 dx"), ("12", "144/12"), ("4", "\\sqrt{16}"), ("3", "\\log_2 8"),
    ("1/2", "\\sin 30^\\circ"), ("1024", "2^{10}"), ("2", "\\frac{d}{dx} 2x"), ("3", "\\lim_{x\\to 3} x"),
    ("3", "\\max(3,2)"), ("4", "\\gcd(4,8)"), ("x=7", "x=3+4"), ("(7,1)", "(3+4,1)"), ("7", "\\boxed{3+4}"),
    ("5/6", "\\frac12+\\frac13"), ("50\\%", "25\\%+25\\%"), ("7", "7\\cdot 1"), ("7", "7+0"),
    ("3/4", "3\\cdot\\frac14"), ("3+i", "3-\\frac{1}{i}"), ("4", "\\sqrt2\\cdot\\sqrt8"), ("5", "-(-5)"),
    ("2\\sqrt3", "\\frac{6}{\\sqrt3}"), ("5\\sqrt3", "\\sqrt{12}+\\sqrt{27}"), ("7\\pi", "3\\pi+4\\pi"),
    ("-i", "i^{2023}"), ("16", "(1+i)^8"), ("-1", "e^{i\\pi}"), ("2/3", "\\frac{\\frac12}{\\frac34}"),
    ("7", "7\\pi^0"), ("-2", "\\begin{vmatrix}1&2\\\\3&4\\end{vmatrix}"), ("\\sqrt6", "\\sqrt2\\sqrt3"),
    ("\\begin{pmatrix}7\\\\15\\end{pmatrix}",
     "\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}\\begin{pmatrix}1\\\\3\\end{pmatrix}"),
    ("\\begin{pmatrix}7\\\\1\\end{pmatrix}", "\\begin{pmatrix}3+4\\\\1\\end{pmatrix}"), ("5", "--5"),
    ("2\\sqrt3", "\\frac{4\\sqrt3}{2}"), ("1+2\\sqrt3", "\\frac{2+4\\sqrt3}{2}"), ("\\sqrt2-1", "\\frac{1}{\\sqrt2+1}"),
    ("\\frac{1-i}{2}", "\\frac{1}{1+i}"), ("3", "(\\sqrt3)^2"), ("2", "8^{\\frac13}"), ("3", "e^{\\ln 3}"),
    ("\\frac34", "-\\frac{-3}{4}"), ("\\ln 6", "\\ln 2+\\ln 3"), ("1+\\sqrt2", "\\sqrt{3+2\\sqrt2}"),
]  # fmt: skip
MORE = [  # another thing than the gold, since what follows it, or is before it, is no unit or name
    ("7", "x/2=7"), ("7", "|x|=7"), ("7", "\\sqrt{x}=7"), ("7", "2x+1=7"), ("7", "7 sixteenths"),
    ("7", "7 sextillions"), ("7", "7 unless"), ("7", "7 octillion"), ("7", "7 always"), ("7", "7 twelfths"),
    ("7", "7 grandmas or so"), ("(-5,23)", "\\{-5,23\\}"), ("(5,3)", "\\{5,3\\}"), ("81", "81_{2}"), ("7", "7 pi"),
    ("7", "7_{wrong}"), ("7", "7\\text{ minus}"), ("C", "C. Actually D!"), ("C", "C - no, D"), ("C", "C. D"),
    ("72", "The answer is 72, no wait, 73."), ("72", "The answer is 72 because it isn't 73."),
    ("72", "72 in total or 73"), ("72", "72, so 73"), ("72", "72 because it isn't 73"), ("7", "*7* *8*"),
    ("73", "### No answer\n\n73 or 74"), ("29 °C", "29 °F"), ("7", "$\\boxed 7 + 1$"), ("7", "$\\boxed 7$ or 8"),
    ("x", "x \\text{ for } x = 3"), ("5 wombats", "5 thirds"), ("42", "答案不是42"), ("42", "答案是42或43"),
]  # fmt: skip
WRONG = [
    *MORE,
    *HOLDS_ELSEWHERE,
    *UNSOLVED,
    *NOT_ALONE,
    # the fuzzer's
    ("7", "\\boxed{8} \x00\\boxed{7}"),
    ("x=5", "x=6 / x=5"),
    ("x=5", "x=6\n\nx=5"),
    ("x=5", "$x=6$ $x=5$"),
    ("-3", "$3$ $-3$\n\n-3"),
    ("0", "3\n-3"),
    ("12", "\\text{21} \\in 12"),
    ("3/4", "\\text{4/3} == 3/4"),
    ("x^2+1", "x^2+1 \\approx x^2-1"),
    ("0.5", "0.5 \\approx 0.6 all of the above"),
    # others'
    ("8", "7 or 8"),
    ("7", "7 or 8"),
    ("7", "7, 8"),
    ("8", "7, 8"),
    ("7", "7 8"),
    ("15", "7 8"),
    ("7", "7 0"),
    ("7\\text{ cm}", "7 m"),
    ("7 \\text{ km}", "7\\text{ m}"),
    ("0.5", "0.5%"),
    ("1/3", "0.3333"),
    ("1/3", "0.333334"),
    ("\\pi", "3.14159"),
    ("\\pi", "3.1415926535"),
    ("1/2^99", "1/2^98"),
    ("1/2^{99}", "0"),
    ("1/2^{99}", "0.000000"),
    ("1-1/e", "1+1/e"),
    ("1-\\frac{1}{e}", "1+\\frac{1}{e}"),
    ("7", ""),
    ("12", "123"),
    ("123", "12"),
    ("123", "12 3"),
    ("4210_5", "4210_7"),
    *(("52_8", "(52)_7"), ("52_8", "52 in base 9"), ("52_8", "53 base 8"), ("42", "52 in base 8"), ("81", "81 base 2")),
    *(("52_8", "52 in base 8 or 9"), ("52_8", r"52_{\text{nine}}")),
    ("\\text{east}", "seat"),
    ("C", "A or C"),
    ("(C)", "B"),
    ("10:30", "1:3"),
    ("\\text{Evelyn}", "Evelyn or Bob"),
    ("\\$5", "5 cents"),
    ("7", "7 \\text{ maybe } \\frac{8}{3}"),
    ("7", "7\\text{ or }8"),
    ("7", "7 million"),
    ("7", "7 hundred"),
    ("7", "7 lakhs"),
    ("7", "7 crores"),
    ("7", "7 grosses"),
    ("5", "5!"),
    ("7", "not 7"),
    ("7", "7; 8"),
    ("8", "7=8"),
    ("9", "9**9**9"),
    ("9", "9^{9^{9}}"),
    ("0", "factorial(10**9)"),
    ("0", "(10^9)!"),
    ("1", "__import__('os').system('x')"),
    ("x", "lambda"),
    ("1", "\\ud800"),
    ("1", "1\x00"),
    ("5", "٥"),
    ("5", "６"),
    ("3", "\\int_0^1 x^{x^{x}} dx"),
    ("1", "\\prod_{n=1}^{10^{7}} n"),
    ("[0,1]", "[0,1)"),
    ("(1,2)", "(2,1)"),
    ("3", "3.0000001"),
    ("10^{-7}", "0"),
    ("0.0000001", "0.0000002"),
    ("1", "0.9999999999"),
    ("\\infty", "10^{99}"),
    ("2", "2 \\text{(the final answer)}"),
    ("7", "7\\ldots 8"),
    ("0", "0 is wrong"),
    ("0", "not 0"),
    ("0", "\\boxed{8} \\boxed{0}"),
    ("0", "\\phantom{8} 0"),
    ("0", "\\frac{2}{7} 0"),
    ("0", "0\\text{ dollars or }8"),
    ("p - q", "pq"),
    ("1, 2", "x=8=1, 2"),
    ("x-y", "xy"),
    ("\\text{(C)}", "\\text{(C)} or 8"),
    ("\\text{(C)}", "(C) is wrong"),
    ("\\text{x and y}", "\\text{y or z}"),
    ("2", "\\boxed{2}, \\boxed{3}"),
    ("1", "1^{x}"),
    ("7", "7 \\approx 8"),
    ("0.5", "0.5 \\approx 0.6x"),
    ("x^2+1", "x^2+1 \\approx x^2-1"),
    ("12", "V = 12 \\approx 13"),
    ("7", "\\text{8} = 7"),
    ("x^2+1", "\\text{x^2-1} = x^2+1"),
    ("x+1", "\\text{x-1} = x+1"),
    ("(1,2)", "\\text{(2,1)} = (1,2)"),
    ("2x", "2X"),
    ("\\pi (R^2 - r^2)", "0"),
    ("x^2+1=0", "x^2+4=0"),
    ("14", "2x=14"),
    ("x + 1/2^{99}", "x"),
    ("262537412640768744", "e^{\\pi\\sqrt{163}}"),
    ("7", "7+\\frac{1}{3 \\cdot 10^{7}}"),
    ("\\sqrt{x^2}", "x"),
    ("(1,2)", "(1, 2 + 10^{-20})"),
    ("\\{1, 1+10^{-30}\\}", "\\{1, 1\\}"),
    ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}1\\\\2+10^{-20}\\end{pmatrix}"),
    # one candidate, chosen by where it stands
    ("7", "7,0"),
    ("7", "$7$ million"),
    ("49", "the square root of $49$"),
    ("7", "$7$ or 8"),
    ("7", "8 or $7$"),
    ("7", "The answer is 7. No, 8."),
    ("7", "The answer is 8. No, 7."),
    ("7", "The answer is not 7"),
    ("7", "it's not true that the answer is 7"),
    ("7", "The answers are 7 and 8"),
    ("7", "The final answer is 7. The final answer is 8."),
    ("7", "The final answer is 7. Wait, it is 8."),
    ("7", "The final answer is 7. But that is wrong."),
    ("7", "The final answer is 7.\nActually, I forgot a sign, so it is -7."),
    ("7", "The final answer is $7$. It might not be."),
    ("8", "The final answer is 7. No, it is 8."),
    ("7", "\\boxed{7} or 8"),
    ("7", "\\boxed{7}+1"),
    ("8", "\\boxed{7} or \\boxed{8}"),
    ("1, 2", "\\boxed{1} no no \\boxed{2}"),
    # what isn't another spelling
    ("\\{1,2\\}", "1,3"),
    ("12\\text{ cm}^2", "12 cm cubed"),
    ("\\sqrt{-2}", "1.41421356"),
    ("[-2,7]", "-2 \\le x \\le 7"),
    ("x>5", "[5,\\infty)"),
    ("12:00", "1:00"),
    ("12:00", "12:00:30"),
    ("x=5", "2x=10"),
    ("2x+y-3=0", "2x+y+3=0"),
    ("x+y=1", "0=0"),
    ("0.5", "0, 5"),
    ("\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "\\begin{vmatrix}1&2\\\\3&4\\end{vmatrix}"),
]
HOSTILE = [
    "",
    " ",
    "\x00",
    "7\ud800",
    "7" * 1_000_000,
    "(" * 1900,
    "\\frac{" * 300,
    "{" * 900 + "7" + "}" * 900,
    "-" * 1900 + "7",
    "2^" * 600 + "2",
    "9**9**9",
    "9^{9^{9^{9}}}",
    "(10^{9})!",
    "5!!!!!!!!",
    "\\binom{10^{9}}{10^{8}}",
    "10^{10^{10^{10}}}",
    "1E999999999",
    "1e9999",
    "nan",
    "\\infty - \\infty",
    "\\frac{0}{0}",
    "__import__('os').abort()",
    "lambda: 7",
    "factorial(10**9)",
    "Integer(7)",
    "\\operatorname{eye}(10^{5})",
    "\\frac{d}{dx}",
    "\\lim",
    "٧",
    "८",
    "<answer>7</answer>",
]


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        *RIGHT,
        *WORDED,
        *SAID,
        *TYPED,
        *SET_OFF,
        *WHERE_IT_HOLDS,
        *DRESSED,
        *NOTATION,
        *WORKED_OUT,
        *zip(FINISHED, FINISHED, strict=True),
    ],
)
def test_another_spelling_is_right(gold: str, answer: str) -> None:
    assert math.equal(gold, answer) is True


@pytest.mark.parametrize(("gold", "answer"), [*WRONG, *MISTYPED])
def test_hedges_pieces_and_near_misses_are_wrong(gold: str, answer: str) -> None:
    assert math.equal(gold, answer) is False


@pytest.mark.parametrize(("gold", "answer"), COPIED)
def test_what_is_left_to_be_worked_out_is_an_answer_only_where_that_is_allowed(gold: str, answer: str) -> None:
    assert math.equal(gold, answer) is False
    allowed = math.verdicts([(gold, answer)], Rules(unevaluated=True))[0].correct
    assert allowed is True or answer in UNREAD


@pytest.mark.parametrize(("gold", "answer"), [("1/3", "0.33"), (r"\pi", "3.14"), (r"\sqrt2", "1.41")])
def test_a_rough_decimal_is_right_only_where_so_few_places_are_allowed(gold: str, answer: str) -> None:
    found = [math.verdicts([(gold, answer)], Rules(places=places))[0].correct for places in (6, 3, 2)]
    assert found == [False, False, True]


@pytest.mark.parametrize(
    ("form", "right", "wrong"),
    [("factored", "(x-1)(x+1)", "x^2-1"), ("factored", "(x+1)(x-1)", "x^2-1"), ("expanded", "x^2-1", "(x-1)(x+1)")],
)
def test_a_form_that_is_asked_for_is_needed(form: str, right: str, wrong: str) -> None:
    pairs = [("x^2-1", right), ("x^2-1", wrong)]
    assert [verdict.correct for verdict in math.verdicts(pairs, Rules(form=form))] == [True, False]
    assert [verdict.correct for verdict in math.verdicts(pairs)] == [True, True]


@pytest.mark.parametrize(("a", "b"), [(r"2\pi", r"3\pi \infty"), (r"\infty", r"-\infty"), ("7", r"\infty")])
def test_infinity_is_decided_and_not_left_to_simplification_which_tries_its_luck(a: str, b: str) -> None:
    assert same(read_expression(a), read_expression(b)) is same(read_expression(b), read_expression(a)) is False


@pytest.mark.parametrize(
    ("text", "value"), [("-1,234.5", "-2469/2"), ("0.1", "1/10"), ("1E5", "None"), ("(" * 61 + "1" + ")" * 61, "None")]
)
def test_a_number_is_read_exactly_or_not_at_all(text: str, value: str) -> None:
    assert str(read_expression(text)) == value


@pytest.mark.parametrize("space", [" ", "\n", "\t", "\u2009"])
def test_a_long_run_of_spaces_is_one_and_costs_no_more(space: str) -> None:
    assert math.tidy(f"7{space * 1900}apples") == math.tidy(f"7{space}apples")
    assert math.equal("12", f"1{space * 1900}2") is False


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_a_wrong_answer_and_a_bad_gold(text: str) -> None:
    assert math.equal("7", text) is False
    assert math.equal(r"\sqrt{2}", text) is False
    assert math.equal(text, "8") in (None, False)


@pytest.mark.parametrize(
    "gold", ["", " ", "???", r"\frac{", "7 8", r"\frac{1}{0}", "(" * 1900, "7" * 3000, "\x007", "{"]
)
@pytest.mark.parametrize("answer", ["7", "", "x", r"\frac{", "9" * 5000])
def test_a_bad_gold_is_unknown_whatever_the_answer(gold: str, answer: str) -> None:
    assert math.verdicts([(gold, answer)]) == [Verdict(None, Cause.UNGRADABLE)]


def test_no_answer_is_wrong_and_no_gold_unknown() -> None:
    found = math.verdicts([("7", None), (r"\sqrt{2}", None), ("east", None), (None, "7"), (None, None)])
    assert [verdict.correct for verdict in found] == [False, False, False, None, None]


def test_verdicts_depend_on_nothing_but_their_pair() -> None:
    pairs = [*RIGHT, *WRONG, ("", "7")]
    mixed = pairs * 2
    random.Random(3).shuffle(mixed)
    together = dict(zip(mixed, math.verdicts(mixed), strict=True))
    assert together == dict(zip(pairs, math.verdicts(pairs), strict=True))
    assert [together[pair] for pair in pairs[::7]] == [math.verdicts([pair])[0] for pair in pairs[::7]]


def numbers(rng: random.Random) -> str:
    whole = rng.choice([0, 1, 3, 7, 12, 999, 1000, 12345, 10**6, 10**12 + 1, rng.randrange(10**6)])
    part = rng.choice(["0", "5", "25", "333333", "3333333", "666667", "000001", "0000001"])
    below = rng.choice([1, 2, 3, 4, 7, 9, 16, 1000])
    shapes = [f"{whole}", f"{whole:,}", f"00{whole}", f"{whole}.{part}", f"{whole:,}.{part}", f".{part}"]
    return rng.choice(["", "-", "+"]) + rng.choice([*shapes, f"{whole}/{below}", rf"\frac{{{whole}}}{{{below}}}"])


def test_the_fast_path_agrees_with_the_worker() -> None:
    rng = random.Random(11)
    pairs = []
    for _ in range(250):
        gold = numbers(rng)
        value = plain_number(gold).value if plain_number(gold) else 0
        others = [numbers(rng), str(value), f"{float(value):.6f}", f"{float(value):.8f}", str(value + 1)]
        pairs += [pair for other in others for pair in ((gold, other), (other, gold)) if all(map(plain_number, pair))]
    assert len(pairs) > 2000
    fast = math.verdicts(pairs)
    with worker() as grading:
        assert grading.verdicts(pairs) == fast
    assert 0.2 < sum(verdict.correct for verdict in fast) / len(fast) < 0.9


def test_comparing_raises_nothing_that_a_worker_would_take_for_wrong() -> None:
    pairs = [(gold, answer) for gold, answer in [*RIGHT, *WRONG] if isinstance(math.decide(gold, answer), list)]
    program = "import json, sys\nfrom r1flow.grading.closed_forms import matches\n"
    program += "for pair in json.load(sys.stdin): matches(*pair)\n"
    done = subprocess.run([sys.executable, "-c", program], input=json.dumps(pairs), text=True, check=False)
    assert done.returncode == 0


def rows(*names: str) -> list[str]:
    """Gold answers; GSM8K's stand at the end of a worked solution."""
    found = [json.loads(line)["answer"] for name in names for line in (Path(DATASETS) / name).open(encoding="utf-8")]
    return [answer.rpartition("####")[2].strip() for answer in found]


@with_data
def test_gsm8k_golds_are_right_and_exchanged_ones_wrong() -> None:
    golds = rows("gsm8k/train.jsonl", "gsm8k/test.jsonl")
    assert len(golds) == 8792
    assert all(verdict.correct for verdict in math.verdicts(list(zip(golds, golds, strict=True))))
    exchanged = list(zip(golds, golds[1:] + golds[:1], strict=True))
    value = [int(gold.replace(",", "")) for gold in golds]
    equal = [left == right for left, right in zip(value, value[1:] + value[:1], strict=True)]
    assert [verdict.correct for verdict in math.verdicts(exchanged)] == equal


@with_data
@pytest.mark.parametrize(("name", "size"), [("math500/test.jsonl", 500), ("aime24/test.jsonl", 30)])
def test_golds_are_right_against_themselves(name: str, size: int) -> None:
    golds = rows(name)
    found = math.verdicts([(gold, gold) for gold in golds])
    assert [gold for gold, verdict in zip(golds, found, strict=True) if not verdict.correct] == []
    assert len(golds) == size


@with_data
@pytest.mark.slow
def test_the_worker_agrees_on_all_of_gsm8k() -> None:
    golds = rows("gsm8k/train.jsonl", "gsm8k/test.jsonl")
    pairs = [*zip(golds, golds, strict=True), *zip(golds, golds[1:] + golds[:1], strict=True)]
    with worker() as grading:
        assert grading.verdicts(pairs) == math.verdicts(pairs)


def test_importing_it_imports_neither_torch_nor_sympy() -> None:
    program = "import sys, r1flow.grading.math, r1flow.rewards; sys.exit(bool({'torch', 'sympy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


COPIED = [  # gold, a question that has its value, and the gold in another spelling
    ("6", r"\log_264", "6.0"),
    ("6+9i", "(1+2i)6-3i", "9i+6"),
    ("7i", "3i+4i", "7i"),
    ("2x", r"\frac{d}{dx} x^2", "x*2"),
    ("x^2", r"\int 2x\,dx", "x*x"),
    (r"\frac{n(n+1)}{2}", r"\sum_{k=1}^n k", "n(n+1)/2"),
]


@pytest.mark.parametrize(("gold", "copy", "finished"), COPIED)
def test_a_copied_question_is_no_answer_and_the_worked_out_one_is(gold, copy, finished):
    assert math.equal(gold, copy) is False
    assert math.equal(gold, finished) is True and math.equal(gold, gold) is True


def test_a_gold_that_leaves_an_operation_open_may_be_given_so():
    assert math.equal(r"\sum_{k=1}^n k^2", r"\sum_{k=1}^n k^2")


# How a number is written with its name, its unit or a mark of joy; the last ones are known to be paid.
NAMED = (
    *(
        "{} (cm)",
        "{}（人）",
        "{}(km/h)",
        "{} (apples)",
        "${}$ (cm)",
        r"{}\ (\text{{cm}})",
        "The answer is {} (dollars).",
    ),
    *("Area = {}", "Total cost: {}", "apples = {}", "The final volume = {} cm", "Area = {} (cm)", r"\boxed{{A = {}}}"),
    *("The answer is *{}*.", "So it is *{}* cm.", "The answer is **{}**!", "**{}**!", "He has {} apples!"),
    *("The answer is ${}$!", r"\text{{Area}} = {}"),
    # a sentence of a word problem's, and what a chat ends with
    *("He needs {} more dollars.", "She sold {} clips altogether.", "She earned ${}.", "John will pay ${}."),
    *("It costs {} dollars.", "It takes her {} minutes.", "Thus, it takes {} bolts in total.", "There were {} people."),
    *("He made a profit of **${}**.", "He's {} years old.", "It's {}.", "That makes {}.", "It comes out to {}."),
    *("The answer is {}. Hope this helps!", "The answer is {}.\n\nLet me know if you have any questions!"),
    *("The most she could earn is {}.", "The number of incorrect answers is {}.", "The total in May is {}."),
    *("The answer is {}. This completes the solution.", "The answer is {} (since it is so).", "{} (rounded)"),
    *("{} apples per day", "{} words per minute", "{} apples a day", r"{} \text{{ pages per hour}}", "{} total apples"),
    *("{} positive integers", "{} distinct values", "{} small boxes", "{} years ago", "{} apples left over"),
    *("{} hours of work", "{} grams of protein", "{} GB", "{} kmph", "• {}", "=> {}", r"\Rightarrow {}", "A: {}"),
    *("Ans. {}", "Number of ways: {}", "The total number of apples = {}", r"{{\bf {}}}", "```text\n{}\n```"),
    *(r"\begin{{align*}} x &= {} \end{{align*}}", "{0} ({0})", "{0} (= {0})"),
)
# What reckons, hedges, scales or leaves it open whether "!" is a factorial.
RECKONED = (
    *("x/2 = {}", "2x = {}", "x - 1 = {}", "-x = {}", "1/x = {}", "x! = {}", "ln x = {}", "twice area = {}"),
    *("half of the area = {}", "area / 2 = {}", "2 area = {}", "area squared = {}", "perhaps = {}"),
    *("Area = {} or 4", "Area = {} + 1", "Area = {}, perimeter = 4", "Area = {}^2"),
    *("{} (or 4)", "{} (not 4)", "{} (4)", "{} (million)", "{} (thousands)", "{} (M)", "{} (K)", "{} (dozens)"),
    *("{} (mod 100)", "{} (x)", "{} (cm) (m)", "{} (wrong)", "({}) (4)"),
    *("{}!", "**{}!**", "The answer is {}!", "The answer is ${}!$.", "${}$!", "The answer is {}!!"),
    *("She earned half of ${}.", "He had {} of 100 apples.", "It costs less than {} dollars.", "It's not {}."),
    *(
        "He needs {} or 4 dollars.",
        "It takes {} minutes and 5 seconds.",
        "It may cost {} dollars.",
        "{}:1",
        "It could be {}",
    ),
    *("He sold {} more than 5 clips.", "She earned twice ${}.", "Did he sell {} clips?", "He sold {} squared clips."),
    *("The answer is 4. Hope this helps! {}", "{} apples per dozen", "{} others", "{} fewer apples", "{} (times 2)"),
    *("The answer is *{}* or *4*.", "2 *{}* 1", "The answer is **not {}**!", "The answer is not *{}*."),
)


@pytest.mark.parametrize("written", NAMED)
@pytest.mark.parametrize("gold", ["73", "5", "0", "1234", "0.75"])
def test_a_number_is_right_with_its_name_its_unit_or_a_mark_of_joy(written: str, gold: str) -> None:
    others = [f"{gold}1", f"-{gold}", "4", f"2{gold}"]
    found = math.verdicts([(gold, written.format(number)) for number in (gold, *others)])
    if gold == "0":
        found[2] = Verdict(False)  # -0 is 0
    assert [each.correct for each in found] == [True, *[False] * len(others)]


@pytest.mark.parametrize("written", RECKONED)
@pytest.mark.parametrize("gold", ["73", "5"])
def test_what_reckons_with_a_number_or_hedges_is_not_that_number(written: str, gold: str) -> None:
    assert math.equal(gold, written.format(gold)) is False


UNFINISHED = [  # a sum with a power of ten, a division written as a ratio, a root that isn't taken out over a line
    *(("7", "(14)/2"), (r"2\sqrt3", "(4√3)/2"), (r"\frac{\pi}{6}", "-(-π)/6"), (r"2\sqrt3", "(6)/√3")),
    *(("305", r"3\cdot 10^2 + 5"), ("295", r"3\times10^2-5"), ("101", "10^2+1"), ("1", r"5\cdot 10^{-1}+0.5")),
    *(("3", "12:4"), ("4", "100:25"), ("-3", "-12:4")),
    *(
        (r"\sqrt{3}", r"\frac{\sqrt{12}}{2}"),
        (r"\sqrt{2}", r"\frac{\sqrt{18}}{3}"),
        (r"\sqrt{2}", r"\frac{2\sqrt{8}}{4}"),
    ),
]
BOTH_WAYS = [  # a fraction in its spellings, said twice; hours
    *(
        (r"\frac{3}{4}", "3/4 (0.75)"),
        (r"\frac{3}{4}", "3/4 (or 0.75)"),
        (r"\frac{3}{4}", "(3)/(4)"),
        ("3/4", "{3}/{4}"),
    ),
    *((r"\frac58", "62.5%"), (r"\frac58", r"62.5\%"), (r"\frac{23}{3}", "7 and 2/3"), (r"\frac{12}{5}", r"\frac{12}5")),
    *(("3:00 PM", "3 PM"), ("3 PM", "3:00 PM"), ("10^{10}-1", "10^{10}-1"), (r"3\cdot 10^8", "300000000")),
    (r"\frac{\sqrt{12}}{5}", r"\frac{2\sqrt{3}}{5}"),
    *((r"\frac{3\sqrt3}{4}", "(3√3)/4"), (r"\frac{3\sqrt3}{4}", "(3*sqrt(3))/4")),
    *((r"\frac{3\sqrt3}{4}", r"(3\sqrt{3})/4"), (r"\frac{\sqrt3}{3}", "(√3)/3"), ("-7/2", "(-7)/2")),
    *((r"-\frac{\pi}{6}", "(-π)/6"), (r"\frac{1+\sqrt5}{2}", "(1+√5)/2"), (r"1+\frac{\sqrt3}{2}", "1+(√3)/2")),
]


@pytest.mark.parametrize(("gold", "answer"), UNFINISHED)
def test_a_sum_a_ratio_or_a_root_that_is_to_be_worked_out_is_no_answer(gold: str, answer: str) -> None:
    assert math.equal(gold, answer) is False and math.equal(gold, gold) is True


@pytest.mark.parametrize(("gold", "answer"), BOTH_WAYS)
def test_fractions_hours_and_large_powers_have_their_spellings(gold: str, answer: str) -> None:
    assert math.equal(gold, answer) is True


@pytest.mark.parametrize(
    ("gold", "answer"), [("3/4", "3/4 (0.8)"), ("3 PM", "3 AM"), ("3 PM", "3:30 PM"), ("3", "3 PM or 4")]
)
def test_what_is_said_twice_or_on_the_hour_must_agree(gold: str, answer: str) -> None:
    assert math.equal(gold, answer) is False


def test_thousands_after_a_name_are_no_list() -> None:
    assert math.equal("1,440", "x = 1,440") and math.equal("1440", "$S_{10} = 1,440$")
    assert math.equal("1440", "x = 1, 440") is False and math.equal("440", "x = 1,440") is False


def test_a_unit_in_brackets_must_agree_with_its_gold() -> None:
    assert math.equal("73 cm", "73 (cm)") and math.equal("73 meters per second", "73 (m/s)")
    assert math.equal("73 cm", "73 (m)") is False and math.equal("73 apples", "73 (cm)") is False
    assert math.equal("73x", "73 (cm)") is False and math.equal("x", "area = x (cm)") is False


@pytest.mark.parametrize("gold", ["x=3, y=4", r"x = 3 \text{ and } y = 4", r"\begin{cases} x=3 \\ y=4 \end{cases}"])
def test_values_without_their_names_are_in_the_names_order(gold: str) -> None:
    for answer in ("y=4, x=3", "(3, 4)", "3, 4", "3 and 4", r"\left(3,4\right)"):
        assert math.equal(gold, answer) is True, answer
    for answer in ("(4, 3)", "4, 3", "4 and 3", r"\{3, 4\}", "x=4, y=3", "3", "7"):
        assert math.equal(gold, answer) is False, answer


def test_names_may_be_in_another_order_and_values_the_same() -> None:
    assert math.equal("y=4, x=3", "(3,4)") and math.equal("y=4, x=3", "(4,3)") and math.equal("x=3, y=3", "3, 3")
    assert math.equal("x=1, x=2", "2, 1") is True  # two solutions


def test_a_date_is_no_difference() -> None:
    assert math.equal("2024-05-01", "2024-05-01") is True
    assert [math.equal("2024-05-01", answer) for answer in ("2018", "2024-04-02", "2024")] == [False] * 3
