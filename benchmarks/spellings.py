r"""Does the accuracy reward pay for right answers in all their usual spellings, and never for a near one?

    python benchmarks/spellings.py                 # 300 pairs of a gold and an answer, generated from rules
    python benchmarks/spellings.py --seed 7 --show

A gold is drawn (a number, a fraction, a root, a multiple of pi, a point, a set, an interval, a matrix, a percentage, an
amount of money, a polynomial, a letter) and written in one of the right ways of its kind, or in one of the near but
wrong ones: the neighbour, the sign, another order, a question that is worth the answer, two answers, a doubt. Right
ones are also put into one of the frames in which models write answers ("The answer is **73**."). Pairs are in two
halves by the sha256 of their text: graders may be developed on the one whose first digit is 0 to 7, and `--show` prints
failures of that half only. Exits with 1 if a wrong answer is paid for, or less than 97 % of the right ones are.
"""

import argparse
import random
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from hashlib import sha256
from typing import NamedTuple

from r1flow.rewards import accuracy

LEAST = 0.97  # the share of right answers that must be paid
HALVES = ("developed on", "held out")


class Pair(NamedTuple):
    kind: str
    gold: str
    answer: str  # the text of an answer section
    right: bool

    @property
    def half(self) -> str:
        digest = sha256(f"{self.gold}\n{self.answer}".encode()).hexdigest()
        return HALVES[digest[0] not in "01234567"]


# Each maker draws a gold and returns it with its right and its wrong spellings.
Spellings = tuple[str, list[str], list[str]]


def integers(draw: random.Random) -> Spellings:
    number = draw.choice([draw.randint(2, 99), draw.randint(1000, 99_999)])
    noun = draw.choice(["apples", "dollars", "people", "ways", "cm", "km/h", "square meters", "minutes"])
    right = [
        *(f"{number}", f"${number}$", f"{number}.", f"{number}.0", f"+{number}", f"x = {number}", f"{number:,}"),
        *(f"{number} {noun}", f"${number}$ {noun}", f"{number}\\text{{ {noun}}}", f"\\text{{{number}}}"),
        *(f"\\mathbf{{{number}}}", f"{number}\\%" if noun == "%" else f"{number} in total", f"$x={number}$"),
        *(f"\\boxed{{{number}}}", f"\\boxed {{{number}}}", f"\\fbox{{{number}}}", f"$\\boxed{{{number}}}$."),
        *(f"\\({number}\\)", f"\\[{number}\\]", f"{number}。", f"f(2) = {number}"),
        *("".join(chr(ord(digit) + 0xFEE0) for digit in f"{number}"), f"{number}\\text{{ is the maximum}}"),
    ]
    wrong = [
        *(f"{number + 1}", f"-{number}", f"{number}0", f"{number}.5", f"0.{number}", f"{number} or {number + 1}"),
        *(f"{number - 1}+1", f"2\\cdot{number}/2", f"{2 * number}/2", f"-(-{number})", f"\\sqrt{{{number**2}}}"),
        *(f"not {number}", f"{number} thirds", f"{number}_{{a}}", f"{number}!", f"|x|={number}", f"x/2={number}"),
        *(f"{number}^2", f"{number} thousand", f"{number}, {number + 1}", f"between 1 and {number}", f"x>{number}"),
        *(f"{number}x", f"{number} unless", f"about {number + 1}", f"{number}i", f"\\pm {number}"),
        *(f"\\boxed{{{number + 1}}}, not {number}", f"It was {number}, but the answer is {number + 1}."),
        f"{number}\\text{{ is not the maximum}}",
    ]
    return f"{number}", right, wrong


def fractions(draw: random.Random) -> Spellings:
    value = Fraction(0)
    while value.denominator == 1:
        value = Fraction(draw.randint(1, 40), draw.randint(2, 12))
    top, below = value.numerator, value.denominator
    right = [
        *(f"\\frac{{{top}}}{{{below}}}", f"\\dfrac{{{top}}}{{{below}}}", f"\\tfrac{{{top}}}{{{below}}}"),
        *(f"{top}/{below}", f"$\\frac{{{top}}}{{{below}}}$", f"\\frac{{{3 * top}}}{{{3 * below}}}", f"{top} / {below}"),
        *(f"x=\\frac{{{top}}}{{{below}}}", f"\\left(\\frac{{{top}}}{{{below}}}\\right)"),
    ]
    if top < 10 and below < 10:
        right.append(f"\\frac{top}{below}")
    if 10**6 % below == 0:
        right.append(f"{top / below:g}")
    if top > below:
        right.append(f"{top // below}\\frac{{{top % below}}}{{{below}}}")
    wrong = [
        *(f"\\frac{{{below}}}{{{top}}}", f"-\\frac{{{top}}}{{{below}}}", f"{top}", f"{below}", f"{top}:{below + 1}"),
        *(f"\\frac{{{top + below}}}{{{below}}}", f"{top}\\cdot\\frac{{1}}{{{below}}}", f"\\frac{{{top}}}{{{below}}}x"),
        *(f"\\frac{{{top - 1}}}{{{below}}}+\\frac{{1}}{{{below}}}", f"{top}/{below} or {below}/{top}"),
        *(f"{top / below + 0.1:.1f}", f"\\frac{{{top}}}{{{below}}}\\pi", f"\\sqrt{{\\frac{{{top}}}{{{below}}}}}"),
        *(f"\\frac{{\\frac{{{top}}}{{2}}}}{{\\frac{{{below}}}{{2}}}}", f"1-\\frac{{{below - top}}}{{{below}}}"),
    ]
    return f"\\frac{{{top}}}{{{below}}}", right, wrong


def roots(draw: random.Random) -> Spellings:
    factor, inside = draw.randint(2, 9), draw.choice([2, 3, 5, 6, 7, 10, 11])
    right = [
        *(f"{factor}\\sqrt{{{inside}}}", f"{factor} \\sqrt {{{inside}}}", f"{factor}\\cdot\\sqrt{{{inside}}}"),
        *(f"\\sqrt{{{inside}}}\\cdot {factor}", f"${factor}\\sqrt{{{inside}}}$", f"{factor}*sqrt({inside})"),
        *(f"{factor}\\sqrt{{{inside}}}\\text{{ cm}}", f"x={factor}\\sqrt{{{inside}}}", f"{factor}√{inside}"),
        *(f"{factor} sqrt({inside})", f"{factor}√({inside})", f"{factor}\\cdot {inside}^{{1/2}}"),
    ]
    wrong = [
        *(f"{factor}\\sqrt{{{inside + 1}}}", f"-{factor}\\sqrt{{{inside}}}"),
        *(f"{factor + 1}\\sqrt{{{inside}}}", f"{factor * inside}", f"{factor * inside**0.5:.1f}", f"{factor}"),
        *(f"\\sqrt{{{inside}}}+{factor}", f"\\frac{{{factor * inside}}}{{\\sqrt{{{inside}}}}}", f"\\sqrt{{{inside}}}"),
        *(f"{factor - 1}\\sqrt{{{inside}}}+\\sqrt{{{inside}}}", f"\\pm {factor}\\sqrt{{{inside}}}"),
        *(f"{factor}\\sqrt[3]{{{inside}}}", f"\\sqrt{{{factor}}}\\cdot\\sqrt{{{factor * inside}}}"),
        *(f"{factor}\\cdot {inside**2}^{{1/4}}", f"{inside}^{{1/2}}", f"{factor} cbrt({inside})"),
    ]
    return f"{factor}\\sqrt{{{inside}}}", right, wrong


def multiples_of_pi(draw: random.Random) -> Spellings:
    factor = draw.randint(2, 60)
    right = [
        *(f"{factor}\\pi", f"{factor} \\pi", f"{factor}\\cdot\\pi", f"{factor}π", f"${factor}\\pi$", f"{factor} pi"),
        *(f"{factor}\\pi\\text{{ square units}}", f"A={factor}\\pi", f"\\pi\\cdot {factor}", f"{factor}\\pi cm^2"),
    ]
    wrong = [
        *(f"{factor + 1}\\pi", f"{factor}", "\\pi", f"{factor * 3.14:.2f}", f"{factor}\\pi^2", f"-{factor}\\pi"),
        *(f"{factor}+\\pi", f"\\frac{{{factor}}}{{\\pi}}", f"{factor - 1}\\pi+\\pi", f"{factor}\\pi r", f"{factor}e"),
        *(f"\\frac{{{2 * factor}\\pi}}{{2}}", f"{factor}\\pi or {factor}"),
    ]
    return f"{factor}\\pi", right, wrong


def points(draw: random.Random) -> Spellings:
    x, y = draw.randint(-9, -1), draw.randint(10, 30)
    right = [
        *(f"({x},{y})", f"({x}, {y})", f"\\left({x}, {y}\\right)", f"$({x},{y})$", f"({x},\\ {y})", f"(x,y)=({x},{y})"),
        *(f"\\left( {x} , {y} \\right)", f"\\big({x},{y}\\big)", f"({x}.0, {y})", f"（{x}，{y}）"),
    ]
    wrong = [
        *(f"({y},{x})", f"[{x},{y}]", f"({x},{y + 1})", f"({-x},{y})", f"({x},{y},0)", f"{x}", f"({x},{y}]", f"{y}"),
        *(f"\\{{{x},{y}\\}}", f"({x},{y}) or ({y},{x})", f"({x}-1+1,{y})", f"({x},{y}),({y},{x})"),
    ]
    return f"({x},{y})", right, wrong


def sets(draw: random.Random) -> Spellings:
    a, b, c = sorted(draw.sample(range(-9, 40), 3))
    right = [
        *(f"\\{{{a},{b},{c}\\}}", f"\\{{{c}, {a}, {b}\\}}", f"\\left\\{{{a}, {b}, {c}\\right\\}}", f"{a}, {b}, {c}"),
        *(f"$\\{{{b},{a},{c}\\}}$", f"{a}, {b} and {c}", f"${a}$, ${b}$, and ${c}$", f"{{{a},{b},{c}}}"),
        *(f"\\lbrace {a},{b},{c}\\rbrace", f"x={a}, {b}, {c}"),
    ]
    wrong = [
        *(f"\\{{{a},{b}\\}}", f"\\{{{a},{b},{c},{c + 1}\\}}", f"\\{{{a},{b},{c + 1}\\}}", f"{a}", f"{a} or {b}"),
        *(f"[{a},{c}]", f"\\{{{a},\\{{{b},{c}\\}}\\}}", f"{a + b + c}", f"\\{{{a},{b},\\ldots\\}}", "\\{x\\}"),
    ]
    return f"\\{{{a},{b},{c}\\}}", right, wrong


def intervals(draw: random.Random) -> Spellings:
    a, b = draw.randint(-9, 0), draw.randint(1, 20)
    right = [
        *(f"[{a},{b})", f"[{a}, {b})", f"\\left[{a},{b}\\right)", f"$[{a},{b})$", f"x\\in[{a},{b})"),
        *(f"[{a},\\,{b})", f"x \\in \\left[{a}, {b}\\right)", f"\\lbrack {a},{b})"),
    ]
    wrong = [
        *(f"({a},{b})", f"[{a},{b}]", f"({a},{b}]", f"[{a},{b + 1})", f"[{b},{a})", f"{a}", f"[{a},\\infty)"),
        *(f"{a}<x<{b}", f"{a}\\le x\\le {b}", f"[{a},{b})\\cup\\{{{b + 1}\\}}", f"\\{{{a},{b}\\}}", f"x\\ge {a}"),
    ]
    return f"[{a},{b})", right, wrong


def matrices(draw: random.Random) -> Spellings:
    a, b, c, d = draw.sample(range(1, 30), 4)
    body = f"{a} & {b} \\\\ {c} & {d}"
    right = [
        *(f"\\begin{{{form}matrix}}{body}\\end{{{form}matrix}}" for form in "pb"),
        *(f"\\begin{{pmatrix}} {a}&{b}\\\\{c}&{d} \\end{{pmatrix}}", f"$\\begin{{pmatrix}}{body}\\end{{pmatrix}}$"),
        *(f"A=\\begin{{pmatrix}}{body}\\end{{pmatrix}}", f"\\left(\\begin{{array}}{{cc}}{body}\\end{{array}}\\right)"),
        f"\\begin{{pmatrix}}{a} & {b} \\\\\n{c} & {d}\\end{{pmatrix}}",
    ]
    wrong = [
        *(f"\\begin{{vmatrix}}{body}\\end{{vmatrix}}", f"\\begin{{pmatrix}}{a} & {c} \\\\ {b} & {d}\\end{{pmatrix}}"),
        *(f"\\begin{{pmatrix}}{a} & {b}\\end{{pmatrix}}", f"\\begin{{pmatrix}}{body} \\\\ 0 & 0\\end{{pmatrix}}"),
        *(f"\\begin{{pmatrix}}{a} & {b} \\\\ {c} & {d + 1}\\end{{pmatrix}}", f"{a * d - b * c}"),
        f"\\begin{{pmatrix}}{a - 1}+1 & {b} \\\\ {c} & {d}\\end{{pmatrix}}",
        f"-\\begin{{pmatrix}}{body}\\end{{pmatrix}}",
    ]
    return f"\\begin{{pmatrix}}{body}\\end{{pmatrix}}", right, wrong


def percentages(draw: random.Random) -> Spellings:
    share = draw.randint(2, 95)
    right = [
        f"{share}\\%",
        f"{share}%",
        f"{share}",
        f"${share}\\%$",
        f"{share} percent",
        f"{share}.0\\%",
        f"{share} \\%",
    ]
    wrong = [
        *(f"{share + 1}\\%", f"{share}00\\%", f"0.{share:02}\\%", f"-{share}\\%", f"{100 - share}\\%"),
        *(f"{share - 1}\\%+1\\%", f"{share}\\% or {share + 1}\\%", f"1/{share + 1}", f"{share / 10:g}\\%"),
    ]
    return f"{share}\\%", right, [answer for answer in wrong if answer != f"{share}\\%"]


def amounts(draw: random.Random) -> Spellings:
    euros, cents = draw.randint(2, 400), draw.choice([5, 25, 40, 99])
    text = f"{euros}.{cents:02}"
    right = [
        *(text, f"${text}", f"\\${text}", f"$\\${text}$", f"{text} dollars", f"${text}$ dollars", f"\\$ {text}"),
        *(f"{text}0", f"${text}.", f"\\text{{\\${text}}}", f"${text} in total"),
    ]
    wrong = [
        *(f"{euros}", f"\\${euros + 1}.{cents:02}", f"{euros}.{cents + 1:02}" if cents < 99 else f"{euros}.98"),
        *(f"{euros}{cents:02}", f"-{text}", f"\\${text} or \\${euros}", f"{euros},{cents:02} thousand"),
        *(f"{euros}+0.{cents:02}", f"${euros}.{cents:02}1"),
    ]
    return f"\\${text}", right, wrong


def polynomials(draw: random.Random) -> Spellings:
    a, b, c = draw.randint(2, 9), draw.randint(2, 9), draw.randint(10, 30)
    right = [
        *(
            f"{a}x^2+{b}x-{c}",
            f"{a}x^2 + {b}x - {c}",
            f"{b}x+{a}x^2-{c}",
            f"-{c}+{b}x+{a}x^{{2}}",
            f"{a}x^{{2}}+{b}x-{c}",
        ),
        *(f"${a}x^2+{b}x-{c}$", f"{a} x^2+{b} x-{c}", f"{a}\\cdot x^2+{b}\\cdot x-{c}", f"f(x)={a}x^2+{b}x-{c}"),
        *(f"y = {a}x^2+{b}x-{c}", f"{a}x^2+{b}x-{c} \\text{{ for all }} x"),
    ]
    wrong = [
        *(
            f"{a}x^2-{b}x-{c}",
            f"{a}x^2+{b}x+{c}",
            f"{a}x^2+{b}x",
            f"{a}x^3+{b}x-{c}",
            f"{b}x^2+{a}x-{c}" if a != b else "x",
        ),
        *(
            f"{a}x^2+{b}x-{c}=0",
            f"{a}y^2+{b}y-{c}",
            f"-{a}x^2-{b}x+{c}",
            f"{a}x^2+{b}x-{c + 1}",
            f"{a}x^2",
            f"{a + b - c}",
        ),
        f"{a}x^2+{b}x-{c} or {a}x^2",
    ]
    return f"{a}x^2+{b}x-{c}", right, wrong


def letters(draw: random.Random) -> Spellings:
    letter, other = draw.sample("ABCDE", 2)
    place, another = (("first", "second", "third", "fourth", "fifth")["ABCDE".index(each)] for each in (letter, other))
    right = [
        *(letter, f"({letter})", f"{letter}.", f"{letter})", f"Option {letter}", f"\\text{{{letter}}}", f"[{letter}]"),
        *(
            f"\\boxed{{{letter}}}",
            f"**{letter}**",
            f"\\textbf{{({letter})}}",
            f"{letter}: the {place} one",
            f"({letter}) 12",
        ),
        *(f"The correct option is {letter}.", f"{letter} - a risk score", f"{letter}。", f"$\\text{{({letter})}}$"),
    ]
    wrong = [
        *(
            other,
            f"({other})",
            f"{letter} or {other}",
            f"{letter}, {other}",
            f"{letter}. Actually {other}!",
            f"not {letter}",
            f"{letter}: the {another} one",
        ),
        *(
            f"{letter}{other}",
            f"either {letter} or {other}",
            f"{other} - not {letter}",
            f"{letter}/{other}",
            "none",
            "all",
        ),
        *(f"{letter} and {other}", f"\\boxed{{{other}}}", f"I thought {letter}, but it is {other}.", "?"),
    ]
    return letter, right, wrong


MAKERS: dict[str, Callable[[random.Random], Spellings]] = {
    "integer": integers, "fraction": fractions, "root": roots, "pi": multiples_of_pi, "point": points, "set": sets,
    "interval": intervals, "matrix": matrices, "percent": percentages, "money": amounts, "polynomial": polynomials,
    "letter": letters,
}  # fmt: skip
# Sentences in which an answer stands; every second right answer gets one.
FRAMES = (
    "The answer is {}.", "**{}**", "The answer is **{}**.", "Answer: {}", "**Answer:** {}", "So the answer is {}.",
    "Therefore, the final answer is {}.", "**Final Answer:** {}", "It checks.\n\nHence the answer is {}", "答案是{}。",
    "$\\boxed{{{}}}$", "\\boxed{{{}}}", "Thus we get \\boxed{{{}}}.", "The answer is: {}",
)  # fmt: skip


def pairs(count: int, seed: int) -> Iterator[Pair]:
    """So many distinct pairs, the kinds by turns, right and wrong ones by turns."""
    draw, seen = random.Random(seed), set()
    while len(seen) < count:
        kind = list(MAKERS)[len(seen) // 2 % len(MAKERS)]
        gold, right, wrong = MAKERS[kind](draw)
        is_right = len(seen) % 2 == 0
        answer = draw.choice(right if is_right else wrong)
        if is_right and draw.random() < 0.5:
            answer = framed(draw.choice(FRAMES), answer)
        pair = Pair(kind, gold, answer, is_right)
        if pair not in seen:
            seen.add(pair)
            yield pair


def framed(frame: str, answer: str) -> str:
    """An answer in a sentence; in a box it has no dollars, no box, no stop and no name of its own."""
    if "boxed" in frame:
        is_plain = not any(mark in answer for mark in ("$", "boxed", "fbox", "**", "\\(", "\\[", "。", "The "))
        return frame.format(answer.removesuffix(".")) if is_plain else answer
    whole = answer.rstrip(".。")
    return answer if "**" in whole or whole.startswith(("The ", "\\[")) else frame.format(whole)


def paid(found: list[Pair]) -> list[bool]:
    """Whether the reward pays for each pair's answer."""
    verdicts: dict[Pair, bool] = {}
    for kind in ("math", "choice"):
        of_kind = [pair for pair in found if (pair.kind == "letter") == (kind == "choice")]
        texts = [f"<think>so</think><answer>{pair.answer}</answer>" for pair in of_kind]
        scores = accuracy(kind=kind)(["p"] * len(texts), texts, answer=[pair.gold for pair in of_kind])
        verdicts.update((pair, score == 1.0) for pair, score in zip(of_kind, scores, strict=True))
    return [verdicts[pair] for pair in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=300, help="how many pairs are made (300)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print what fails in the half that is developed on")
    options = parser.parse_args()
    found = list(pairs(options.pairs, options.seed))
    graded = list(zip(found, paid(found), strict=True))
    ok = True
    for half in HALVES:
        mine = [(pair, pays) for pair, pays in graded if pair.half == half]
        right = [pays for pair, pays in mine if pair.right]
        wrong = [pays for pair, pays in mine if not pair.right]
        print(f"{half}: {sum(right)} of {len(right)} right answers paid, {sum(wrong)} of {len(wrong)} wrong ones")
        ok = ok and sum(right) >= LEAST * len(right) and not any(wrong)
        if options.show and half == HALVES[0]:
            for pair, pays in mine:
                if pays != pair.right:
                    print(f"  {'not paid' if pair.right else 'PAID'}: {pair.answer!r} for {pair.gold!r}")
    sys.exit(not ok)


if __name__ == "__main__":
    main()
