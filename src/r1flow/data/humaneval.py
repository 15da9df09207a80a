"""HumanEval's problems (Chen et al. 2021, arXiv 2107.03374) as tests by calls, so that no answer enters the sandbox.

    {"task_id": "HumanEval/53", "entry_point": "add", "prompt": "def add(x: int, y: int):\\n …", "test": "def check(…"}
    {"call": "add", "args": "(2, 3)", "output": 5}

A problem's own `test` is a script that contains the answers; a solution running beside it could read or patch them. So
that test runs only once, with the canonical solution, and its calls are recorded; other solutions are tested on these
calls. Text of the dataset runs in the sandbox only. The drawback: if there are several right answers (HumanEval/32, any
zero of a polynomial), only the canonical one counts.
"""

import json
from typing import Any

from r1flow import sandbox
from r1flow.grading import code
from r1flow.sandbox import Limits, Tier

LIMITS = Limits(cpu_s=10, wall_s=60)
PYTHON = code.LANGUAGES["python"]

NOTE_CALLS = """
def calls_made():
    import copy, random
    random.seed(0)
    calls = []
    def noting(*args):
        shown, value = repr(args), {entry_point}(*args)
        calls.append((shown, copy.deepcopy(value)))
        return value
    check(noting)
    return calls
"""


def solution(problem: dict[str, str]) -> str:
    """The canonical solution as a whole."""
    return problem["prompt"] + problem["canonical_solution"]


def call_tests(problem: dict[str, str], tier: Tier | None = None) -> list[dict[str, Any]]:
    """The different calls that a problem's own test makes, with what the canonical solution returns."""
    noting = NOTE_CALLS.format(entry_point=problem["entry_point"])
    calls = dict(value_of_call(f"{solution(problem)}\n{problem['test']}\n{noting}", "calls_made()", tier))
    return [{"call": problem["entry_point"], "args": args, "output": output} for args, output in calls.items()]


def value_of_call(solution: str, call: str, tier: Tier | None) -> Any:
    """What a call returns in the sandbox; raises ValueError when it fails."""
    name, _, args = call.partition("(")
    test = code.Test(outputs=(), call=name, args=f"({args}")
    stdin = code.call_text(test).encode()
    result = sandbox.run(PYTHON.call, solution.encode(), PYTHON.file, stdin, LIMITS, tier)
    if code.failure(result):
        raise ValueError(f"{name} failed: {result.stderr[-300:].decode(errors='replace')}")
    return json.loads(result.report)
