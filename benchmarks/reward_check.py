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
import gzip
import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from r1flow import sandbox
from r1flow.core.errors import UserError
from r1flow.core.schema import read_jsonl
from r1flow.data import humaneval
from r1flow.grading import code, math
from r1flow.sandbox import Limits, Result, Tier

Pair = tuple[str, str]
KINDS = (("canonical", True), ("broken", False))
SIZES = {"gsm8k/train": 7473, "gsm8k/test": 1319, "math500/test": 500, "aime24/test": 30}
HUMANEVAL = 164
FILE = "humaneval/HumanEval.jsonl.gz"
PLAIN_PAIRS = 1000  # math-verify's share; it takes a millisecond or more each

# Makes small mistakes in a solution's own lines, one at a time: another comparison or operation, a number that is one
# too high, a reversed condition, an emptied result; no mistakes that only crash the program.
BREAK = """
import ast
OTHERS = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
          ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add,
          ast.Mod: ast.FloorDiv, ast.FloorDiv: ast.Mod, ast.And: ast.Or, ast.Or: ast.And}
EMPTIED = "(lambda value: type(value)() if value else [value])"
def change(node):
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OTHERS:
        node.ops[0] = OTHERS[type(node.ops[0])]()
    elif isinstance(node, (ast.BinOp, ast.AugAssign, ast.BoolOp)) and type(node.op) in OTHERS:
        node.op = OTHERS[type(node.op)]()
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        node.value += 1
    elif isinstance(node, (ast.If, ast.IfExp)):
        node.test = ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.Return) and node.value:
        node.value = ast.Call(ast.parse(EMPTIED, mode="eval").body, [node.value], [])
    else:
        return False
    return True
def broken(source, first_line):
    found, position = [], 0
    while True:
        tree = ast.parse(source)
        nodes = [node for node in ast.walk(tree) if getattr(node, "lineno", 0) > first_line]
        if position == len(nodes):
            return found
        if change(nodes[position]):
            found.append(ast.unparse(ast.fix_missing_locations(tree)))
        position += 1
"""


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


def read_problems(datasets: Path) -> list[dict[str, str]]:
    """The 164 problems, from HumanEval's file in a folder of datasets."""
    try:
        with gzip.open(datasets / FILE, "rt", encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    except (OSError, ValueError) as error:
        raise UserError(f"{datasets / FILE}: {error}; it should be HumanEval's own file") from error


def passes_check(problem: dict[str, str], program: str, tier: Tier | None = None) -> Result:
    """Run a problem's own test: the dataset's verdict, which a program could forge."""
    whole = f"{program}\n{problem['test']}\ncheck({problem['entry_point']})\n"
    return sandbox.run(
        humaneval.PYTHON.run, whole.encode(), humaneval.PYTHON.file, b"", Limits(cpu_s=2, wall_s=30), tier
    )


def mutants(problem: dict[str, str], tier: Tier | None = None) -> Iterator[str]:
    """Variants of the canonical solution with one small mistake each, which the problem's own test detects."""
    line = problem["prompt"].rstrip().count("\n") + 1
    for program in humaneval.value_of_call(BREAK, f"broken({humaneval.solution(problem)!r}, {line})", tier):
        check = passes_check(problem, program, tier)
        if check.status and not check.stopped:
            yield program


def evidence_on(problems: list[dict[str, str]], tier: Tier | None = None) -> list[dict[str, Any]]:
    """For each problem: its number of tests, and whether its canonical and a broken solution pass them all."""

    def row(problem: dict[str, str]) -> dict[str, Any]:
        tests, broken = humaneval.call_tests(problem, tier), next(mutants(problem, tier))
        return {
            "task_id": problem["task_id"],
            "tests": len(tests),
            "canonical_passes": passes_humaneval(humaneval.solution(problem), tests, tier),
            "broken_passes": passes_humaneval(broken, tests, tier),
            "broken": broken,
        }

    with ThreadPoolExecutor(sandbox.workers()) as pool:
        return list(pool.map(row, problems))


def passes_humaneval(program: str, tests: list[dict[str, Any]], tier: Tier | None = None) -> bool:
    return all(verdict.passed for verdict in code.run(program, tests, limits=humaneval.LIMITS, tier=tier))


def programs(options: argparse.Namespace) -> Iterator[Line]:
    """HumanEval in every tier that this machine has: its solutions pass, and a broken copy of each fails."""
    size, problems = min(HUMANEVAL, options.rows), read_problems(options.datasets)[: options.rows]
    for tier in sandbox.tiers():
        rows = evidence_on(problems, tier)
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
