"""How much of what Math-Verify's own tests call right does the accuracy reward accept, and how much that is wrong?

    git clone https://github.com/huggingface/Math-Verify ~/math-verify
    python benchmarks/math_verify_cases.py ~/math-verify

The cases are read from a checkout, as literals: nothing of it is run, and nothing of it is copied here. A case is a
gold, a prediction and what should come out of comparing them; the prediction is graded as an answer section's text.
Cases are in two halves by the sha256 of their text (gold, newline, prediction): graders may be developed on the one
whose first digit is 0 to 7, while the other tells what that is worth elsewhere; `--show` prints failures of the first
only. Exits with 1 when fewer than `--least` right answers are accepted, or a wrong one is. A few that its tests call
right are refused on purpose: copied questions (a product of matrices in place of its value, -x > -1 for the gold
x < 1).
"""

import argparse
import ast
import math
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from r1flow.rewards import accuracy

GOLD, PREDICTION, EXPECTED = "gold", "pred", ("expected", "result")
SHOWN = 400  # characters of a text
HALVES = ("developed on", "held out")


class Case(NamedTuple):
    gold: str
    prediction: str
    right: bool

    @property
    def half(self) -> str:
        digest = sha256(f"{self.gold}\n{self.prediction}".encode()).hexdigest()
        return HALVES[digest[0] not in "01234567"]


def cases(checkout: Path) -> list[Case]:
    """The distinct cases of all its tests, in the order of the files."""
    files = sorted((checkout / "tests").glob("test_*.py"))
    return list(dict.fromkeys(case for path in files for case in cases_of(ast.parse(path.read_text("utf-8")))))


def cases_of(module: ast.Module) -> Iterator[Case]:
    """Of every `parametrize` with a gold, a prediction and an outcome, its rows."""
    for call in ast.walk(module):
        if not isinstance(call, ast.Call) or getattr(call.func, "attr", None) != "parametrize" or len(call.args) < 2:
            continue
        names = [name.strip() for name in str(ast.literal_eval(call.args[0])).split(",")]
        outcome = next((name for name in EXPECTED if name in names), None)
        if outcome and GOLD in names and PREDICTION in names:
            for element in call.args[1].elts:
                row = dict(zip(names, ast.literal_eval(Formatted().visit(element)), strict=True))
                yield Case(row[GOLD], row[PREDICTION], bool(row[outcome]))


class Formatted(ast.NodeTransformer):
    """Makes literals of f-strings, one of which has a root in it: f"{math.sqrt(17):.15f}"."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.Constant:
        return ast.Constant("".join(self.text(part) for part in node.values))

    def text(self, part: ast.expr) -> str:
        if isinstance(part, ast.Constant):
            return part.value
        root = isinstance(part.value, ast.Call) and ast.unparse(part.value.func) == "math.sqrt"
        value = math.sqrt(*map(ast.literal_eval, part.value.args)) if root else ast.literal_eval(part.value)
        return format(value, self.visit(part.format_spec).value if part.format_spec else "")


def accepted(found: list[Case]) -> list[bool | None]:
    """What the reward says of each prediction as an answer section; None: it can't read the gold."""
    texts = [f"<think>so</think><answer>{case.prediction}</answer>" for case in found]
    scores = accuracy()([""] * len(found), texts, answer=[case.gold for case in found])
    return [None if score is None else score == 1.0 for score in scores]


def table(found: list[Case], verdicts: list[bool | None]) -> Iterator[str]:
    """A line for each half and for both: accepted of the right ones, and of the wrong ones."""
    for name, halves in (*((half, (half,)) for half in HALVES), ("both", HALVES)):
        mine = [(case.right, verdict) for case, verdict in zip(found, verdicts, strict=True) if case.half in halves]
        of = {right: [verdict for is_right, verdict in mine if is_right is right] for right in (True, False)}
        counts = {right: f"{said.count(True):>3} of {len(said):>3}" for right, said in of.items()}
        unread = of[True].count(None) + of[False].count(None)
        yield f"{name:<14} right ones accepted: {counts[True]}, wrong ones: {counts[False]}, golds unread: {unread:>2}"


def tail(text: str) -> str:
    return repr(text if len(text) <= SHOWN else f"…{text[-SHOWN:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="folder with a checkout of huggingface/Math-Verify")
    parser.add_argument("--show", action="store_true", help="print what fails in the half that is developed on")
    parser.add_argument("--least", type=int, default=195, help="right answers that must be accepted (195)")
    options = parser.parse_args()
    try:
        found = cases(options.checkout)
    except ValueError as error:
        parser.error(f"{options.checkout}: a case that can't be read without running it: {error}")
    if not found:
        parser.error(
            f"{options.checkout}: no cases in tests/test_*.py; clone huggingface/Math-Verify and name its folder"
        )
    verdicts = accepted(found)
    for case, verdict in zip(found, verdicts, strict=True) if options.show else ():
        if case.half == HALVES[0] and verdict is not case.right:
            print(f"{verdict!s:<6} {tail(case.gold)}  {tail(case.prediction)}")
    print(*table(found, verdicts), sep="\n")
    both = [(case.right, verdict) for case, verdict in zip(found, verdicts, strict=True)]
    sys.exit(both.count((True, True)) < options.least or (False, True) in both)


if __name__ == "__main__":
    main()
