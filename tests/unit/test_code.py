"""A solution's verdicts: what passes, what is wrong, and whose fault it is."""

import os
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest
from benchmark import load

from r1flow import sandbox
from r1flow.core.errors import UserError
from r1flow.data import humaneval
from r1flow.grading import code
from r1flow.grading.code import LANGUAGES, Language, Status, run
from r1flow.rewards import code_tests
from r1flow.sandbox import Limits, SandboxError, Stop

held = pytest.mark.skipif(not sandbox.tiers(), reason="no sandbox holds on this machine")
DATASETS = os.environ.get("R1FLOW_DATASETS")
CHECK = load("reward_check")

SQUARE = "print(int(input()) ** 2)"
ONE = [{"input": "4\n", "output": "16\n"}]


def statuses(solution: str, tests: object, **more: object) -> list[str]:
    return [str(verdict.status) for verdict in run(solution, tests, **more)]


@held
def test_one_verdict_per_test() -> None:
    first, second = run(SQUARE, [*ONE, {"input": "5\n", "output": "26\n"}], language="python")
    assert (first.passed, first.status) == (True, "passed")
    assert (second.passed, second.status) == (False, "wrong_output")
    assert first.seconds > 0


@held
@pytest.mark.parametrize(
    ("solution", "status"),
    [
        ("print(", "syntax_error"),
        ("\ud800 = 1\0", "syntax_error"),
        ("x = [0] * 10 ** 11", "memory"),
        ("print(16)\nraise ValueError", "runtime_error"),
        ("import nonesuch", "runtime_error"),
        ("print(' ' * 10 ** 7)", "output_limit"),
        ("while True: pass", "timeout"),
        ("print(15)", "wrong_output"),
        ("exit(print(16))", "passed"),
        ("if __name__ == '__main__': print(16)", "passed"),
        (
            "import sys\nsys.setrecursionlimit(10 ** 6)\nf = lambda n: n and 1 + f(n - 1)\nprint(f(50000) - 49984)",
            "passed",
        ),
    ],
)
def test_status_of_a_solution(solution: str, status: str) -> None:
    assert statuses(solution, ONE, limits=Limits(cpu_s=1, wall_s=30)) == [status]


@held
def test_a_sandbox_that_fails_is_nobodys_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> None:
        raise SandboxError("no more processes")

    monkeypatch.setattr(sandbox, "run", broken)
    (verdict,) = run(SQUARE, ONE)
    assert (verdict.status, verdict.passed) == (Status.INFRASTRUCTURE, None)


@held
def test_a_sandbox_that_fails_after_a_while_is_nobodys_error_either(monkeypatch: pytest.MonkeyPatch) -> None:
    real = sandbox.run
    sandbox.tier()

    def broken(command: list[str], solution: bytes, file: str, stdin: bytes, *rest: object) -> sandbox.Result:
        if stdin:  # only the check of the syntax has none
            raise SandboxError("no more processes")
        return real(command, solution, file, stdin, *rest)

    monkeypatch.setattr(sandbox, "run", broken)
    assert statuses(SQUARE, ONE) == ["infrastructure"]


@held
def test_a_syntax_error_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, real = [], sandbox.run
    sandbox.tier()  # else what finds it out is counted
    monkeypatch.setattr(sandbox, "run", lambda *args: runs.append(args) or real(*args))
    assert statuses("def", ONE * 50) == ["syntax_error"] * 50
    assert len(runs) == 1


@held
@pytest.mark.parametrize(
    "tests",
    [
        [{"call": "f", "args": [2, 3], "output": [6, "x"]}],
        [{"call": "f", "args": "(2, 3)", "output": [6, "x"]}],
        '[{"fn_name": "f", "input": "2\\n3", "output": "[6, \\"x\\"]", "testtype": "functional"}]',
        {"inputs": [[2, 3]], "outputs": [[[6, "x"]]], "fn_name": "f"},
        {"inputs": [[2, 3]], "outputs": [[6, "x"]], "fn_name": "f"},
    ],
)
def test_calls_as_data_sets_write_them(tests: object) -> None:
    assert statuses("def f(a, b): return a * b, 'x'", tests) == ["passed"]
    assert statuses("class Solution:\n    def f(self, a, b): return [a * b, 'x']", tests) == ["passed"]
    assert statuses("def f(a, b): return a + b, 'x'", tests) == ["wrong_output"]
    assert statuses("print('no f')", tests) == ["runtime_error"]


@held
@pytest.mark.parametrize(
    "tests",
    [
        {"inputs": ["4\n"], "outputs": ["16\n"]},
        {"inputs": [["4"]], "outputs": [["16"]], "fn_name": None},
        '{"inputs": ["4"], "outputs": ["16"]}',
        [{"input": "4", "output": "16", "testtype": "stdin"}],
    ],
)
def test_standard_input_as_data_sets_write_it(tests: object) -> None:
    assert statuses(SQUARE, tests) == ["passed"]


DIGITS = "7" * 6000
STDIN_AND_FILE = [{"input": "4", "output": "4main.py"}]


@held
@pytest.mark.parametrize(
    ("solution", "tests"),
    [
        ("print(int(input()) % 7)", [{"input": DIGITS, "output": "0"}]),
        ("print(int(input()) + 1)", [{"input": DIGITS, "output": DIGITS[:-1] + "8"}]),
        ("def f(n): return 10 ** n", '[{"call": "f", "args": [5000], "output": 1' + "0" * 5000 + "}]"),
        ("def f(n): return n % 7", [{"call": "f", "args": [10**5000 * 7], "output": 0}]),
        ("print(sum(map(int, open('/dev/stdin').read().split())))", [{"input": "1 2 3", "output": "6"}]),
        ("from pathlib import Path\nprint(Path('/dev/stdin').read_text())", [{"input": "4", "output": "4"}]),
        ("print(open(b'/dev/stdin').read())", [{"input": "4", "output": "4"}]),
        ("import os\nprint(os.read(os.open('/dev/fd/0', 0), 9).decode())", [{"input": "4", "output": "4"}]),
        ("open('/dev/stdout', 'w').write(open('/proc/self/fd/0').read())\nprint(__file__)", STDIN_AND_FILE),
        ("print('x' * 3000000)", [{"input": "", "output": "x" * 3000000}]),
        ("class Solution:\n    def f(self, n): return n", [{"call": "Solution.f", "args": [4], "output": 4}]),
        ("def f(n): return n", [{"call": "f", "args": "[10**3 + 1]", "output": 1001}]),
        ("print(4)", {"inputs": [""], "outputs": ["4"], "fn_name": ""}),
        ("def f(n): return 'x' * n", [{"call": "f", "args": [1500000], "output": "x" * 1500000}]),
        ("class Solution:\n    def f(self, n): return n", {"inputs": [[4]], "outputs": [[4]], "fn_name": "Solution.f"}),
        ("print(2.0)", {"inputs": [""], "outputs": ["2"], "checker": "livecodebench"}),
        (
            "class Solution:\n    @cache\n    def f(self, n: int): return sqrt(n)",
            [{"call": "f", "args": [4], "output": 2}],
        ),
        (
            "def f(n): return Counter([n, n]).most_common(1)[0][1] + pow(2, 1, 2)",
            [{"call": "f", "args": [4], "output": 2}],
        ),
        ("print('2.0   3 ')", [{"input": "", "output": "2 3.00", "checker": "livecodebench"}]),
        ("print('\\n  a b\\n\\t1e2 ')", [{"input": "", "output": "a b\n100\n", "checker": "livecodebench"}]),
    ],
    ids=[
        "digits in",
        "digits out",
        "digits returned",
        "digits given",
        "stdin",
        "stdin as a path",
        "stdin as bytes",
        "stdin by os.open",
        "stdout",
        "long",
        "a method by its class",
        "an expression",
        "no function",
        "long from a call",
        "columns with a method",
        "columns with a checker",
        "cache",
        "Counter",
        "checker",
        "blanks",
    ],
)
def test_solutions_as_contests_and_their_judges_take_them(solution: str, tests: object) -> None:
    assert statuses(solution, tests) == ["passed"]


# What LiveCodeBench takes and others don't, by its own lcb_runner/evaluation/testing_util.py.
TAKEN: dict[str, tuple[str, dict[str, object]]] = {
    "numbers as Decimal reads them": ("print('1_0 Infinity')", {"input": "", "output": "10 inf"}),
    "long numbers": ("print('0' + '7' * 500)", {"input": "", "output": "7" * 500 + ".0"}),
    "imports of a solution": ("print(Counter(input())['a'], gcd(4, 6))", {"input": "aab", "output": "2 2"}),
    "an end with another status": ("print(5)\nexit(1)", {"input": "", "output": "5"}),
    "deep recursion": (
        "def f(n): return n and 1 + f(n - 1)\nprint(f(int(input())))",
        {"input": "9000", "output": "9000"},
    ),
}
REFUSED: dict[str, tuple[str, dict[str, object]]] = {
    "a near fraction": ("def f(a): return a + 0.2", {"call": "f", "args": [0.1], "output": 0.3}),
    "a tuple in a list": ("def f(a): return [(a, a)]", {"fn_name": "f", "input": "1", "output": "[[1, 1]]"}),
    "a number as a key": ("def f(a): return {a: 2}", {"fn_name": "f", "input": "1", "output": '{"1": 2}'}),
}


@held
@pytest.mark.parametrize(("solution", "test"), TAKEN.values(), ids=TAKEN)
def test_livecodebench_takes_what_a_strict_comparison_does_not(solution: str, test: dict[str, object]) -> None:
    assert statuses(solution, [test]) != ["passed"]
    assert statuses(solution, [test | {"checker": "livecodebench"}]) == ["passed"]


@held
@pytest.mark.parametrize(("solution", "test"), REFUSED.values(), ids=REFUSED)
def test_livecodebench_compares_returned_values_as_python_does(solution: str, test: dict[str, object]) -> None:
    assert statuses(solution, [test]) == ["passed"]
    assert statuses(solution, [test | {"checker": "livecodebench"}]) == ["wrong_output"]


@held
def test_livecodebench_takes_a_tuple_for_a_list_and_a_method_before_a_function() -> None:
    tests = [{"fn_name": "f", "input": "1", "output": "[1, 1]", "checker": "livecodebench"}]
    assert statuses("def f(a): return a, a", tests) == ["passed"]
    assert statuses("def f(a): return 0\nclass Solution:\n    def f(self, a): return [a, a]", tests) == ["passed"]
    assert statuses("class Solution: pass\ndef f(a): return [a, a]", tests) == ["passed"]
    deep = [{"fn_name": "f", "input": "9000", "output": "9000"}]
    assert statuses("def f(n): return n and 1 + f(n - 1)", deep) == ["passed"]


@held
def test_of_leetcodes_names_the_last_modules_is_meant_and_pythons_own_stay() -> None:
    solution = "def f(a): return [sub(a, 1), pow(2, 5, 7), bisect.bisect([1], a), mean([a, a])]"
    assert statuses(solution, [{"call": "f", "args": [3], "output": [2, 4, 1, 3]}]) == ["passed"]


@held
@pytest.mark.parametrize(
    ("solution", "tests"),
    [
        ("print('2.0 3')", [{"input": "", "output": "2 3"}]),
        ("print('2.1 3')", [{"input": "", "output": "2 3", "checker": "livecodebench"}]),
        ("print('2\\n3')", [{"input": "", "output": "2 3", "checker": "livecodebench"}]),
        ("print('0.3333333')", [{"input": "", "output": "0.33333334", "checker": "livecodebench"}]),
        ("print('a  b')", [{"input": "", "output": "a b", "checker": "livecodebench"}]),
        ("print('1-0')", [{"input": "", "output": "10", "checker": "livecodebench"}]),
        ("print('sNaN')", [{"input": "", "output": "1", "checker": "livecodebench"}]),
        ("print('1e9999999999999999999')", [{"input": "", "output": "1", "checker": "livecodebench"}]),
        ("print('nan')", [{"input": "", "output": "NaN", "checker": "livecodebench"}]),
        ("def f(n): return 10 ** n + 1", '[{"call": "f", "args": [5000], "output": 1' + "0" * 5000 + "}]"),
        ("def f(n): return str(n) * 5000", '[{"call": "f", "args": [1], "output": ' + "1" * 5000 + "}]"),
    ],
    ids=[
        *["exact", "another number", "two lines", "near", "blanks in text", "digits", "signalling", "huge", "nan"],
        *["off by one", "text"],
    ],
)
def test_and_no_others(solution: str, tests: object) -> None:
    assert statuses(solution, tests) == ["wrong_output"]


@pytest.mark.parametrize(
    "opening",
    [
        "````python",
        '```python title="main.py"',
        "~~~py",
        "```{.python}",
        "```Python 3",
        "  ```python",
        "```python:main.py",
        "```python,edit",
        "```python3.12",
        "```py3",
        "```ipython",
    ],
)
def test_a_solution_is_found_in_any_fence(opening: str) -> None:
    fence = opening.strip()[0] * opening.count(opening.strip()[0])
    assert code.code_in(f"so\n{opening}\nprint(1)\n{fence}\n") == "print(1)"
    assert code.code_in(f"so\n{opening}\nprint(1)\n") is None


@pytest.mark.parametrize(
    "tests",
    [
        "",
        "[",
        "[]",
        "7",
        None,
        [],
        {},
        [7],
        [{}],
        [{"input": "4"}],
        [{"input": 4, "output": "16"}],
        [{"input": "4", "output": 16}],
        [{"call": 7, "args": [], "output": 1}],
        [{"call": "f", "args": 7, "output": 1}],
        [{"call": "f", "args": [], "output": float("nan")}],
        [{"call": "f", "args": [], "output": {1, 2}}],
        [{"input": "4", "output": "16", "testtype": "functional"}],
        '[{"call": "f", "args": [], "output": NaN}]',
        {"inputs": ["1"], "outputs": []},
        {"inputs": "1", "outputs": "1"},
        "[" * 100_000,
    ],
)
def test_bad_tests_are_refused(tests: object) -> None:
    with pytest.raises(ValueError, match="tests"):
        code.tests_of(tests)


@pytest.mark.parametrize(
    ("args", "name"),
    [
        ("[x]", "x"),
        ("g(4)", "g"),
        ("[1, y]", "y"),
        ("[g(4)]", "g"),
        ("(ListNode(1),)", "ListNode"),
        ("[z] * 3", "z"),
        ("[i for i in k]", "k"),
        ("[__import__('os')]", "__import__"),
        ("[lambda: q]", "q"),
    ],
)
def test_arguments_with_unknown_names_are_refused_by_name(args: str, name: str) -> None:
    tests = [{"call": "f", "args": args, "output": 1}]
    with pytest.raises(ValueError, match=f"^tests: the arguments .* use '{name}', which"):
        code.tests_of(tests)
    assert code.passes_tests("def f(*_): return 1", tests).cause == "ungradable"
    assert code.can_be_run(tests) is False


@pytest.mark.parametrize(
    "args", ["[]", "(4,)", "[-1, 'x', None, True]", "[{1: {2}}]", "[0] * 9", "[set(), inf]", "[i for i in range(3)]"]
)
def test_arguments_of_values_are_taken(args: str) -> None:
    assert statuses("def f(*_): return 1", [{"call": "f", "args": args, "output": 1}]) == ["passed"]


@pytest.mark.parametrize(
    ("signature", "beyond"),
    [
        ("def f(self, head: Optional[ListNode]) -> Optional[ListNode]:", "ListNode"),
        ("def f(self, k: int, roots: List[Optional['TreeNode']] = None) -> int:", "TreeNode"),
        ("def f(\n        self,\n        n: int,\n    ) -> lists.Node:", "Node"),
        ("def f(self, nums: List[int], names: Dict[str, typing.Tuple[int, float]]) -> Optional[bool]:", None),
        ("def f(self, ListNode, *TreeNode):", None),
        ("def f(self, n: Any) -> None:", None),
    ],
)
def test_a_frame_with_classes_that_tests_cant_hold_is_known(signature: str, beyond: str | None) -> None:
    definition = "# class ListNode:\n#     def __init__(self, val: Node): ...\n"
    frame = f"{definition}class Solution:\n    def g(self) -> int:\n        pass\n    {signature}\n        "
    assert code.class_beyond_json(frame.rstrip()) == beyond
    assert code.class_beyond_json(frame.partition("    def g")[0]) is None
    assert code.class_beyond_json("def f(") is None


@pytest.mark.parametrize(
    ("output", "expected", "same"),
    [
        ("16\n", "16", True),
        ("16", "16\n\n", True),
        ("1 \n2\t\r\n", "1\n2\n", True),
        ("0.50000001", "0.5", True),
        ("1e6 x", "1000000.0 x", True),
        (".5", "0.5", True),
        ("", "", True),
        ("16.0", "16", False),
        ("0.5", "0.50001", False),
        ("a  b", "a b", False),
        ("nan", "0.5", False),
        ("1e400", "1e400", True),
        ("1e401", "1e400", False),
        ("0.5" + "0" * 500, "0.5", False),
        ("1\n\n2", "1\n2", False),
        ("\n16", "16", False),
    ],
)
def test_whole_outputs_are_compared(output: str, expected: str, same: bool) -> None:
    assert code.printed(output.encode(), expected) is same


@pytest.mark.parametrize(
    ("report", "expected", "same"),
    [
        (b"[1, 2]", [1, 2], True),
        (b"1", True, True),
        (b"3.0", 3, True),
        (b"0.3333333333", 1 / 3, True),
        (b'[0.1, {"a": null}]', [0.1, {"a": None}], True),
        (b"NaN", 0.5, False),
        (b"1e999", 0.5, False),
        (b'"1"', 1, False),
        (b"[1]", 1, False),
        (b"[1, 2, 3]", [1, 2], False),
        (b'{"a": 1, "b": 2}', {"a": 1}, False),
        (b"1 2", 1, False),
        (b"", None, False),
        (b"1" * 400, 0.5, False),
        (b"9" * 5000, 1, False),
        (b"[" * 100_000, [], False),
        (b"\xff", "x", False),
    ],
)
def test_returned_values_are_compared(report: bytes, expected: object, same: bool) -> None:
    assert code.returned(report, expected) is same


def test_an_unknown_language_is_the_users_to_mend() -> None:
    with pytest.raises(UserError, match="python"):
        run(SQUARE, ONE, language="pyhton")


@held
def test_another_language_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LANGUAGES, "sh", Language(fences=("sh",), file="main.sh", run=("/bin/sh", "{code}")))
    assert statuses("read n; echo $((n * n))", ONE, language="sh") == ["passed"]
    assert statuses("exit 1", ONE, language="sh") == ["runtime_error"]
    with pytest.raises(ValueError, match="call-based"):
        run("", [{"call": "f", "args": [], "output": 1}], language="sh")


@held
@pytest.mark.skipif(not shutil.which("perl", path="/usr/bin"), reason="no Perl on this machine")
def test_another_language_may_have_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the compiler prints is what runs: here Perl checks the syntax and hands the source on."""
    check = "open F, shift; undef $/; $s = <F>; eval qq{sub { $s }}; die if $@; print $s"
    perl = Language(
        ("perl",), "main.pl", run=("/usr/bin/perl", "{code}"), compile=("/usr/bin/perl", "-e", check, "{code}")
    )
    monkeypatch.setitem(LANGUAGES, "perl", perl)
    assert statuses("my $n = <STDIN>; print $n ** 2;", ONE, language="perl") == ["passed"]
    assert statuses("my $n = ;", ONE * 2, language="perl") == ["syntax_error"] * 2


@held
@pytest.mark.skipif(not DATASETS, reason="R1FLOW_DATASETS names no folder of datasets")
def test_a_humaneval_problem_becomes_calls() -> None:
    problem = next(p for p in CHECK.read_problems(Path(DATASETS)) if p["entry_point"] == "truncate_number")
    tests = humaneval.call_tests(problem)
    assert tests[0] == {"call": "truncate_number", "args": "(3.5,)", "output": 0.5}
    assert CHECK.passes_humaneval(humaneval.solution(problem), tests)
    assert not CHECK.passes_humaneval(next(CHECK.mutants(problem)), tests)
    [row] = CHECK.evidence_on([problem])
    assert (row["task_id"], row["tests"], row["canonical_passes"]) == (problem["task_id"], len(tests), True)
    assert not row["broken_passes"]


@held
def test_a_mistake_that_the_problems_own_test_does_not_see_is_no_mutant() -> None:
    problem = {"prompt": "def f(x):\n", "canonical_solution": "    return x + 0\n", "entry_point": "f"}
    problem["test"] = "def check(f):\n    assert f(1) == 1"
    found = list(CHECK.mutants(problem))
    assert len(found) == 2 and not any("x - 0" in solution for solution in found)


@pytest.mark.slow
@pytest.mark.skipif(not DATASETS, reason="R1FLOW_DATASETS names no folder of datasets")
@pytest.mark.parametrize("tier", sandbox.tiers())
def test_humaneval_canonical_solutions_pass_and_broken_ones_fail(tier: sandbox.Tier) -> None:
    rows = CHECK.evidence_on(CHECK.read_problems(Path(DATASETS)), tier)
    assert len(rows) == 164
    assert [row["task_id"] for row in rows if not row["canonical_passes"]] == []
    assert [row["task_id"] for row in rows if row["broken_passes"]] == []


TESTS = [{"input": str(number), "output": str(number)} for number in range(50)]


def counted(monkeypatch: pytest.MonkeyPatch, run: Callable[..., sandbox.Result], most: int) -> list[object]:
    """Every run; the one after so many ends only after the others are called off, as it may on a busy machine."""
    runs, cancel, cancelled, all_cancelled = [], Future.cancel, [], threading.Event()

    def held_back(*arguments: object) -> sandbox.Result:
        runs.append(arguments)
        if len(runs) > most:
            all_cancelled.wait(20)
            all_cancelled.set()  # who failed to call them off is waited for once
        return run(*arguments)

    def counting(test: Future) -> None:
        cancel(test)
        cancelled.append(test)
        if len(cancelled) == len(TESTS):
            all_cancelled.set()

    sandbox.tier()  # else what finds it out is counted
    monkeypatch.setattr(sandbox, "workers", lambda: 1)
    monkeypatch.setattr(sandbox, "run", held_back)
    monkeypatch.setattr(Future, "cancel", counting)
    return runs


@held
def test_after_a_failed_test_no_other_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        runs = counted(patch, sandbox.run, 3)  # the check of the syntax and two tests
        assert [verdict.passed for verdict in code.run("print(0)", TESTS, whole=False)] == [True, False]
    assert len(runs) in (3, 4)
    assert code.passes_tests("print(input())", TESTS[:3]).correct


def took(seconds: float, stopped: Stop | None) -> Callable[..., sandbox.Result]:
    """Runs that have taken so long; the check of the syntax, without input, took no time."""

    def run(command: object, solution: bytes, file: str, stdin: bytes, *more: object) -> sandbox.Result:
        return sandbox.Result(0, stdin, b"", b"", stopped if stdin else None, seconds if stdin else 0.0)

    return run


def test_after_some_timeouts_the_other_tests_are_timeouts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = counted(monkeypatch, took(12.0, Stop.WALL), 4)
    assert statuses("", TESTS) == ["timeout"] * 50
    assert len(runs) in (4, 5)


def test_a_solution_has_a_budget_for_all_of_its_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = counted(monkeypatch, took(11.0, None), 12)
    assert statuses("", TESTS, limits=Limits(wall_s=12.0)) == ["passed"] * 11 + ["timeout"] * 39  # 121 s
    assert len(runs) in (12, 13)
    monkeypatch.setattr(sandbox, "run", took(11.0, None))
    assert code.passes_tests("", TESTS).correct is False


def test_many_quick_tests_are_all_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "run", took(0.1, None))
    assert statuses("", TESTS * 20) == ["passed"] * 1000


@held
def test_where_all_must_pass_the_reward_too_waits_for_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    reward = code_tests(mode="all")
    runs = counted(monkeypatch, sandbox.run, 2)
    assert reward(["p"], ["```python\nprint(-1)\n```"], tests=[TESTS]) == [0.0]
    assert len(runs) in (2, 3)


def test_a_checker_that_is_not_known_is_no_exact_one() -> None:
    tests = [{"input": "", "output": "2", "checker": "special_judge"}]
    with pytest.raises(ValueError, match="the checker 'special_judge' isn't known"):
        code.tests_of(tests)
    assert code.passes_tests("print(2)", tests).correct is None


def test_a_block_that_is_indented_with_its_fence_is_read_as_it_would_run():
    text = "1. So:\n   ```python\n   def f():\n       return 1\n   ```\n"
    assert list(code.blocks(text)) == [("python", "def f():\n    return 1")]


@pytest.mark.parametrize(
    "test",
    [
        *({"call": "f", "args": args, "output": 1} for args in ("1 +", "(4)", "4", "x", "'4'", "{4}", "4, 5")),
        *({"call": name, "args": [1], "output": 1} for name in ("f; x", "import", "f.g", "Solution.")),
        {"fn_name": "f", "output": "1"},
        *({"inputs": [[1]], "outputs": [[1]], "fn_name": name} for name in (5, ["f"], "import", "f g", "Solution.")),
        {"inputs": [""], "outputs": ["1"], "checker": "special_judge"},
    ],
)
def test_tests_that_no_solution_could_pass_are_ungradable(test):
    with pytest.raises(ValueError, match="tests: "):
        code.tests_of(test if "inputs" in test else [test])
