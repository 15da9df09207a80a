"""HumanEval's problems (Chen et al. 2021, arXiv 2107.03374) as tests by calls, so that no answer enters the sandbox.

    {"task_id": "HumanEval/53", "entry_point": "add", "prompt": "def add(x: int, y: int):\\n …", "test": "def check(…"}
    {"call": "add", "args": "(2, 3)", "output": 5}

A problem's own `test` is a program that contains the answers; a solution running beside it could read or patch them. So
that test runs only once, with the canonical solution, and its calls are recorded; other solutions are tested on these
calls. Text of the dataset runs in the sandbox only. The drawback: if there are several right answers (HumanEval/32, any
zero of a polynomial), only the canonical one counts.
"""

import gzip
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from r1flow import sandbox
from r1flow.core.errors import UserError
from r1flow.grading import code
from r1flow.sandbox import Limits, Result, Tier

FILE = "humaneval/HumanEval.jsonl.gz"
LIMITS = Limits(cpu_s=10, wall_s=60)
PYTHON = code.LANGUAGES["python"]

NOTE_CALLS = """
def calls_made():
    import copy, random
    random.seed(0)
    found = []
    def noting(*args):
        shown, value = repr(args), {entry_point}(*args)
        found.append((shown, copy.deepcopy(value)))
        return value
    check(noting)
    return found
"""
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


def read_problems(datasets: Path) -> list[dict[str, str]]:
    """The 164 problems, from HumanEval's file in a folder of datasets."""
    try:
        with gzip.open(datasets / FILE, "rt", encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    except (OSError, ValueError) as error:
        raise UserError(f"{datasets / FILE}: {error}; it should be HumanEval's own file") from error


def solution(problem: dict[str, str]) -> str:
    """The canonical solution as a whole program."""
    return problem["prompt"] + problem["canonical_solution"]


def call_tests(problem: dict[str, str], tier: Tier | None = None) -> list[dict[str, Any]]:
    """The different calls that a problem's own test makes, with what the canonical solution returns."""
    noting = NOTE_CALLS.format(entry_point=problem["entry_point"])
    calls = dict(value_of_call(f"{solution(problem)}\n{problem['test']}\n{noting}", "calls_made()", tier))
    return [{"call": problem["entry_point"], "args": args, "output": output} for args, output in calls.items()]


def value_of_call(program: str, call: str, tier: Tier | None) -> Any:
    """What a call returns in the sandbox; raises ValueError when it fails."""
    name, _, args = call.partition("(")
    test = code.Test(outputs=(), call=name, args=f"({args}")
    stdin = code.call_text(test).encode()
    result = sandbox.run(PYTHON.call, program.encode(), PYTHON.file, stdin, LIMITS, tier)
    if code.failure(result):
        raise ValueError(f"{name} failed: {result.stderr[-300:].decode(errors='replace')}")
    return json.loads(result.report)


def passes_check(problem: dict[str, str], program: str, tier: Tier | None = None) -> Result:
    """Run a problem's own test: the dataset's verdict, which a program could forge."""
    whole = f"{program}\n{problem['test']}\ncheck({problem['entry_point']})\n"
    return sandbox.run(PYTHON.run, whole.encode(), PYTHON.file, b"", Limits(cpu_s=2, wall_s=30), tier)


def mutants(problem: dict[str, str], tier: Tier | None = None) -> Iterator[str]:
    """Variants of the canonical solution with one small mistake each, which the problem's own test detects."""
    line = problem["prompt"].rstrip().count("\n") + 1
    for program in value_of_call(BREAK, f"broken({solution(problem)!r}, {line})", tier):
        check = passes_check(problem, program, tier)
        if check.status and not check.stopped:
            yield program


def evidence(problems: list[dict[str, str]], tier: Tier | None = None) -> list[dict[str, Any]]:
    """For each problem: its number of tests, and whether its canonical and a broken solution pass them all."""

    def row(problem: dict[str, str]) -> dict[str, Any]:
        tests, broken = call_tests(problem, tier), next(mutants(problem, tier))
        return {
            "task_id": problem["task_id"],
            "tests": len(tests),
            "canonical_passes": passes_humaneval(solution(problem), tests, tier),
            "broken_passes": passes_humaneval(broken, tests, tier),
            "broken": broken,
        }

    with ThreadPoolExecutor(sandbox.workers()) as pool:
        return list(pool.map(row, problems))


def passes_humaneval(program: str, tests: list[dict[str, Any]], tier: Tier | None = None) -> bool:
    return all(verdict.passed for verdict in code.run(program, tests, limits=LIMITS, tier=tier))
