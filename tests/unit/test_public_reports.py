"""Inputs of public bug reports that graders here got wrong once: each is judged as it should be."""

import json
from pathlib import Path

import pytest

from r1flow import rewards, sandbox
from r1flow.data import loaders
from r1flow.grading import code, generated, math

REPORTS = [json.loads(line) for line in (Path(__file__).parent / "golden/public_reports.jsonl").open(encoding="utf-8")]


def judged(report: dict) -> bool | str:
    text, gold = report.get("text"), report.get("gold")
    match report["grader"]:
        case "equal":
            return math.equal(gold, text)
        case "lenient":
            return generated.correct(None, generated.lenient_answer_of(text, None), gold, None)
        case "numeric" | "choice" as kind:
            return bool(
                rewards.accuracy(kind=kind)(["?"], [f"<think>…</think><answer>{text}</answer>"], answer=[gold])[0]
            )
        case "boxed":
            return loaders.boxed(text)
        case "program":
            return code.passes_tests(report["program"], report["tests"]).correct
        case "code_tests":
            return bool(rewards.code_tests()(["?"], [text], tests=[report["tests"]])[0])
    raise ValueError(report["grader"])


held = pytest.mark.skipif(not sandbox.tiers(), reason="no sandbox holds on this machine")
CASES = []
for report in REPORTS:
    marks = [held] if report["grader"] in ("program", "code_tests") else []
    CASES.append(pytest.param(report, id=report["id"], marks=marks))


@pytest.mark.parametrize("report", CASES)
def test_a_publicly_reported_input_is_judged_rightly(report):
    assert judged(report) == report["expected"]


@held
def test_thousands_of_digits_are_read_and_compared():
    value = 2**20000
    digits = math_digits(value)
    tests = [{"input": digits, "output": str(value % 7)}]
    assert code.passes_tests("a=int(input())\nprint(a%7)", tests).correct
    tests = '[{"call": "f", "args": [5000], "output": 1' + "0" * 5000 + "}]"
    assert code.passes_tests("def f(n):\n    return 10**n", tests).correct


def math_digits(value: int) -> str:
    """A whole number's digits, without Python's limit of 4,300."""
    head, tail = divmod(value, 10**3000)
    return f"{math_digits(head)}{tail:03000d}" if head else str(tail)
