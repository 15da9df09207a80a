r"""Evidence on real data that the rewards pay for right answers only, and how fast they do.

    python benchmarks/reward_check.py --datasets ~/datasets

Mathematics: every gold answer of GSM8K, MATH-500 and AIME 2024 is right against itself, and against another problem's
gold only where the two are equal numbers. Then gradings per second with all limits on, beside plain math-verify in the
same run: "numbers" are GSM8K's golds against themselves and exchanged ones, "LaTeX" those of MATH-500's golds that need
a worker, each against itself, three spellings of it and twelve other golds.

Programs: HumanEval's 164 solutions pass its tests and 164 broken copies fail them, in every tier of the sandbox.

A part is a function that yields lines; PARTS names them. Exits with 1 when a line fails.
"""

import argparse
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from r1flow import sandbox
from r1flow.core.schema import read_jsonl
from r1flow.data import humaneval
from r1flow.grading import math

Pair = tuple[str, str]
KINDS = (("canonical", True), ("broken", False))
SIZES = {"gsm8k/train": 7473, "gsm8k/test": 1319, "math500/test": 500, "aime24/test": 30}
HUMANEVAL = 164
PLAIN_PAIRS = 1000  # math-verify's share; it takes a millisecond or more each


class Line(NamedTuple):
    """What was checked, what came of it, and whether that is what it must be (None: there is no must)."""

    what: str
    found: str
    passed: bool | None = None


def golds(options: argparse.Namespace, name: str) -> list[str]:
    """The gold answers of a file, one a row; GSM8K's stand at the end of a worked solution."""
    rows = read_jsonl(options.datasets / name)[: options.rows]
    return [row["answer"].rpartition("####")[2].strip() for row in rows]


def right(pairs: list[Pair]) -> list[bool]:
    return [verdict.correct is True for verdict in math.verdicts(pairs)]


def against_themselves(name: str, answers: list[str], size: int) -> Line:
    count = sum(right([(answer, answer) for answer in answers]))
    return Line(
        f"{name}: golds right against themselves", f"{count:,} of {len(answers):,}", count == len(answers) == size
    )


def exchanged(name: str, answers: list[str], shift: int) -> Line:
    """Each problem's gold against the answer of another, `shift` rows on; only equal numbers may pass."""
    pairs = list(zip(answers, answers[shift:] + answers[:shift], strict=True))
    accepted = [pair for pair, verdict in zip(pairs, right(pairs), strict=True) if verdict]
    equal = [pair for pair in pairs if Fraction(pair[0].replace(",", "")) == Fraction(pair[1].replace(",", ""))]
    found = f"{len(accepted):,} accepted, {len(set(accepted) - set(equal))} of them wrong; {len(equal):,} are equal"
    return Line(f"{name}: golds of the problem {shift} rows on", found, sorted(accepted) == sorted(equal))


def spellings(latex: str) -> list[str]:
    """The same answer as others write it."""
    return [latex, rf"\boxed{{{latex}}}", latex.replace(r"\frac", r"\dfrac"), re.sub(r"(?<=[-+=,])(?=\S)", " ", latex)]


def latex_pairs(answers: list[str]) -> list[Pair]:
    hard = [answer for answer in dict.fromkeys(answers) if isinstance(math.decide(answer, answer), list)]
    count = len(hard)
    return [
        (gold, other)
        for index, gold in enumerate(hard)
        for other in [*spellings(gold), *(hard[(index + step) % count] for step in range(1, 13))]
    ]


def rate(grade: Callable[[list[Pair]], object], pairs: list[Pair]) -> float:
    begin = time.perf_counter()
    grade(pairs)
    return len(pairs) / (time.perf_counter() - begin)


def by_math_verify(pairs: list[Pair]) -> None:
    """As its documentation has it, with its own time limit."""
    from math_verify import parse, verify

    for gold, answer in pairs:
        verify(parse(f"${gold}$"), parse(f"${answer}$"))


def speed(name: str, pairs: list[Pair], least: float) -> Iterator[Line]:
    ours = rate(right, pairs)
    yield Line(f"{name}: ours, first time", f"{ours:,.0f} a second", ours >= least)
    yield Line(f"{name}: ours, again", f"{rate(right, pairs):,.0f} a second")
    sample = pairs[:: max(1, len(pairs) // PLAIN_PAIRS)]
    yield Line(f"{name}: plain math-verify, one process", f"{rate(by_math_verify, sample):,.0f} a second")


def mathematics(options: argparse.Namespace) -> Iterator[Line]:
    """Golds against themselves and each other, then the speed of both ways of grading."""
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    train, test, math500, aime = (golds(options, f"{name}.jsonl") for name in SIZES)
    gsm8k, sizes = train + test, [min(size, options.rows) for size in SIZES.values()]
    yield against_themselves("GSM8K", gsm8k, sizes[0] + sizes[1])
    for shift in (1, 1000):
        yield exchanged("GSM8K", gsm8k, shift)
    yield against_themselves("MATH-500", math500, sizes[2])
    yield against_themselves("AIME 2024", aime, sizes[3])
    pairs = list(zip(gsm8k, gsm8k, strict=True)) + list(zip(gsm8k, gsm8k[1:] + gsm8k[:1], strict=True))
    yield from speed("numbers", pairs, options.least_numbers)
    yield from speed("LaTeX", latex_pairs(math500), options.least_latex)


def programs(options: argparse.Namespace) -> Iterator[Line]:
    """HumanEval in every tier that this machine has: its solutions pass, and a broken copy of each fails."""
    size, problems = min(HUMANEVAL, options.rows), humaneval.read_problems(options.datasets)[: options.rows]
    for tier in sandbox.tiers():
        rows = humaneval.evidence(problems, tier)
        passed, failed = (sum(row[f"{kind}_passes"] is want for row in rows) for kind, want in KINDS)
        yield Line(f"HumanEval, {tier}: solutions that pass", f"{passed} of {len(rows)}", passed == len(rows) == size)
        yield Line(f"HumanEval, {tier}: broken ones that fail", f"{failed} of {len(rows)}", failed == len(rows) == size)


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[Line]]] = {"maths": mathematics, "programs": programs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get("R1FLOW_DATASETS")
    parser.add_argument(
        "--datasets",
        type=Path,
        default=default,
        required=default is None,
        help="folder with gsm8k/, math500/, aime24/ and humaneval/, each with its files (default: $R1FLOW_DATASETS)",
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what to check (default: all)")
    parser.add_argument("--rows", type=int, default=sys.maxsize, help="so many rows of each file (default: all)")
    parser.add_argument("--least-numbers", type=float, default=20_000, help="gradings a second that must be (20,000)")
    parser.add_argument("--least-latex", type=float, default=3_000, help="gradings a second that must be (3,000)")
    options = parser.parse_args()
    failed = False
    for part in options.parts:
        for line in PARTS[part](options):
            mark = {True: "ok", False: "FAILED", None: ""}[line.passed]
            print(f"{line.what:<46}{line.found:>44}  {mark}", flush=True)
            failed |= line.passed is False
    sys.exit(failed)


if __name__ == "__main__":
    main()
