"""Does a solution pass its tests? Each test runs in a sandbox of its own, and its output is compared outside.

    run("print(int(input()) ** 2)", [{"input": "4\\n", "output": "16\\n"}])          # [Outcome("passed", 0.03)]
    run("def f(a, b): return a / b", [{"call": "f", "args": [1, 3], "output": 0.333333333}])

Expected outputs never enter the sandbox, so a solution can't read or patch them there, nor fool the comparison: it must
compute the answer. Tests are read in the forms of APPS, TACO and LiveCodeBench (`tests_of`). The whole output is
compared, except spaces at line ends and empty lines at the end; where a test expects 0.5, 0.50000001 is accepted.
The only language is Python with its standard library; another one needs an entry in LANGUAGES.
"""

import ast
import json
import keyword
import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from typing import Any

from r1flow import sandbox
from r1flow.core.errors import UserError, did_you_mean
from r1flow.core.template import ANSWER_CLOSE, ANSWER_OPEN, THINK_CLOSE, THINK_OPEN
from r1flow.grading import verdict
from r1flow.grading.verdict import Cause
from r1flow.sandbox import Limits, Result, SandboxError, Stop, Tier

FENCE = "```"

# After so many tests of a solution that timed out, or wall limits in sum, the rest count as timed out: else one that
# hangs could hold up a training for the limit times the number of its tests.
MOST_TIMEOUTS, MOST_WALL_LIMITS = 3, 10
TOLERANCE = 1e-6  # absolute or relative, as is usual in contests
LIVECODEBENCH = "livecodebench"
CHECKERS = (LIVECODEBENCH,)  # what a test may name to be compared by
MOST_OUTPUT_MB = 64.0  # that a test's expected output may raise the limit to
MOST_DIGITS = 400  # a longer number in an output isn't compared as a number
DECIMAL = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
FRACTIONAL = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+)(?:e[+-]?\d+)?|[+-]?\d+e[+-]?\d+", re.ASCII | re.IGNORECASE)
# Names that arguments in source text may use: of values, and of what makes them.
VALUES = {
    *("inf", "nan", "int", "float", "complex", "bool", "str", "bytes", "bytearray"),
    *("list", "tuple", "dict", "set", "frozenset", "range", "deque", "Counter", "OrderedDict"),
}
# Types of what JSON holds, in annotations.
TYPES_OF_JSON = {
    *("int", "float", "str", "bool", "None", "list", "tuple", "dict", "object", "Any", "Optional", "Union"),
    *("List", "Tuple", "Dict", "Sequence", "Iterable", "Mapping", "typing"),
}
SIGNATURE = re.compile(r"^\s*def\s[^#]*?\)\s*(?:->[^:#]*)?:", re.MULTILINE)


class Status(StrEnum):
    """The outcome of one test."""

    PASSED = "passed"
    WRONG_OUTPUT = "wrong_output"
    RUNTIME_ERROR = "runtime_error"  # an exit status other than 0, whatever the output
    SYNTAX_ERROR = "syntax_error"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    OUTPUT_LIMIT = "output_limit"
    INFRASTRUCTURE = "infrastructure"  # the sandbox failed; nothing is known of the solution


@dataclass(frozen=True)
class Outcome:
    """One test's outcome, and the seconds that the solution took, including its start."""

    status: Status
    seconds: float = 0.0

    @property
    def passed(self) -> bool | None:
        """None when the sandbox failed."""
        return None if self.status is Status.INFRASTRUCTURE else self.status is Status.PASSED


@dataclass(frozen=True)
class Language:
    """How a language's solutions are run; words in braces have the meaning of `sandbox.run`.

    `compile`, if any, gets the source as its code, and its output is the code that is then run; an exit status
    other than 0 means a syntax error. `call`, if any, gets one call on its standard input, as `call_text` writes it,
    and reports the result as JSON. `by` has both commands for tests of a checker that runs them otherwise. `fences` are
    the names of its code blocks.
    """

    fences: tuple[str, ...]
    file: str
    run: tuple[str, ...]
    call: tuple[str, ...] | None = None
    compile: tuple[str, ...] | None = None
    by: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict)


# Contest solutions print numbers of more than 4,300 digits and read /dev/stdin, which the sandbox doesn't have.
PYTHON_AS_USUAL = """
import builtins, io, os, sys
builtins.exit = builtins.quit = sys.exit
if hasattr(sys, "set_int_max_str_digits"):
    sys.set_int_max_str_digits(0)
def standard(file, os=os, places={}):
    if not places:
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            places.update(dict.fromkeys((f"/dev/{name}", f"/dev/fd/{number}", f"/proc/self/fd/{number}"), number))
    path = os.fsdecode(file) if isinstance(file, (str, bytes, os.PathLike)) else None
    return os.dup(places[path]) if path in places else None
def opened(file, *args, _open=open, _standard=standard, **more):
    number = _standard(file)
    return _open(file if number is None else number, *args, **more)
def opened_by_os(path, *args, _open=os.open, _standard=standard, **more):
    number = _standard(path)
    return _open(path, *args, **more) if number is None else number
builtins.open = io.open = opened
os.open = opened_by_os
del opened, opened_by_os, standard
"""
# -s -P -S: no packages, nothing imported from the folder; -I would also ignore PYTHONHASHSEED, and sets would print in
# another order at every run. Without site there is no exit(), which solutions use.
PYTHON = ("{python}", "-s", "-P", "-S", "-c")
PYTHON_CHECK = """
import sys
source = open(sys.argv[1], "rb").read()
compile(source, "main.py", "exec")
sys.stdout.buffer.write(source)
"""
PYTHON_RUN = f"""{PYTHON_AS_USUAL}
sys.argv = sys.argv[1:]
__file__ = "main.py"
del builtins, io, os, sys
exec(compile(open(__import__("sys").argv[0], "rb").read(), "main.py", "exec"))
"""
# LeetCode's starter code has List[int] and imports nothing, so the modules that LeetCode imports and all their names
# are known here, as there: a later module's name replaces an earlier one's, but none of Python's own. They aren't in
# the solution's scope, where one of them could be taken for its function. LiveCodeBench imports the same for those
# that read standard input, allows the same depth of recursion, and takes exit(1) for an end like others.
USUAL_NAMES = """
import bisect, collections, copy, datetime, functools, heapq, itertools, json, math, operator, random, re, statistics
import string, typing
sys.setrecursionlimit(50_000)
modules = [string, re, datetime, collections, heapq, bisect, copy, math, random, statistics, itertools, functools]
modules += [operator, io, sys, json, typing]
usual = {}
for module in modules:
    for name in getattr(module, "__all__", dir(module)):
        if not name.startswith("_"):
            usual[name] = getattr(module, name)
for name, value in {**usual, **{module.__name__: module for module in modules}}.items():
    vars(builtins).setdefault(name, value)
"""
PYTHON_RUN_AS_LIVECODEBENCH = f"""{PYTHON_AS_USUAL}{USUAL_NAMES}
scope = {{"__name__": "__main__", "__file__": "main.py"}}
sys.argv = sys.argv[1:]
try:
    exec(compile(open(sys.argv[0], "rb").read(), "main.py", "exec"), scope)
except SystemExit:
    pass
"""
PYTHON_RETURNED = f"""{PYTHON_AS_USUAL}{USUAL_NAMES}
name, args = eval(sys.stdin.read())
scope = {{"__name__": "program", "__file__": "main.py"}}
exec(compile(open(sys.argv[1], "rb").read(), "main.py", "exec"), scope)
solution = scope.get("Solution")
function = getattr(solution(), name) if hasattr(solution, name) else scope[name]
value = function(*args)
"""
PYTHON_CALL = f"""{PYTHON_RETURNED}
with open(int(sys.argv[2]), "w") as report:
    json.dump(value, report)
"""
# LiveCodeBench compares Python's values: a tuple is a list only if it isn't within another value, and 1 is no key "1".
PYTHON_CALL_AS_LIVECODEBENCH = f"""{PYTHON_RETURNED}
value = list(value) if isinstance(value, tuple) else value
text = json.dumps(value)
with open(int(sys.argv[2]), "w") as report:
    report.write(text if json.loads(text) == value else "")
"""

LANGUAGES = {
    "python": Language(
        fences=("python", "python3", "py", "py3", "ipython", "ipython3"),
        file="main.py",
        run=(*PYTHON, PYTHON_RUN, "{code}"),
        call=(*PYTHON, PYTHON_CALL, "{code}", "{report}"),
        compile=(*PYTHON, PYTHON_CHECK, "{code}"),
        by={
            LIVECODEBENCH: (
                (*PYTHON, PYTHON_RUN_AS_LIVECODEBENCH, "{code}"),
                (*PYTHON, PYTHON_CALL_AS_LIVECODEBENCH, "{code}", "{report}"),
            )
        },
    )
}


@dataclass(frozen=True)
class Test:
    """One test: standard input and output, or a call and the values that it may return."""

    outputs: tuple[Any, ...]  # texts, or values for a call; any of them is accepted
    checker: str | None = None  # one of CHECKERS; None: `same_line` or `same_value`
    stdin: str = ""
    call: str | None = None
    args: str = ""  # source text: "[4, 'a']"


def run(
    solution: str,
    tests: Any,
    language: str = "python",
    limits: Limits | None = None,
    tier: Tier | None = None,
    whole: bool = True,
    checker: str | None = None,
) -> list[Outcome]:
    """One verdict per test of `tests`, which are in any form that `tests_of` reads; never raises for a solution's text.

    Unless `whole`, it stops after the first test that fails, so that a solution that hangs doesn't cost every test.
    `checker`: that of tests that name none.

    Raises ValueError for tests that can't be read, UserError for an unknown language and where there is no sandbox.
    """
    how, limits = language_of(language), limits or Limits()
    cases = [replace(case, checker=case.checker or checker) for case in tests_of(tests)]
    if how.call is None and any(case.call for case in cases):
        raise ValueError(f"tests: language {language} has no call-based tests")
    source = solution.encode(errors="surrogatepass")
    if how.compile:
        compiled = executed(how.compile, source, how, b"", limits, tier)
        if isinstance(compiled, Outcome):
            return [compiled] * len(cases)
        if (status := failure(compiled)) is not None:
            status = Status.SYNTAX_ERROR if status is Status.RUNTIME_ERROR else status
            return [Outcome(status, compiled.seconds)] * len(cases)
        source = compiled.stdout
    verdicts = []
    for outcome in each(source, cases, how, limits, tier):
        verdicts.append(outcome)
        if not whole and outcome.passed is False:
            break
    return verdicts


def each(source: bytes, cases: list[Test], how: Language, limits: Limits, tier: Tier | None) -> Iterator[Outcome]:
    """One verdict per test, in order; after too many time-outs, or too long, the rest are time-outs without a run.

    If this generator or its caller stops early, `map` ends, which cancels the tests that haven't begun.
    """
    timeouts, seconds = 0, 0.0
    with ThreadPoolExecutor(max(1, min(sandbox.workers(), len(cases)))) as pool:
        for number, outcome in enumerate(pool.map(lambda case: run_test(source, case, how, limits, tier), cases), 1):
            yield outcome
            timeouts += outcome.status is Status.TIMEOUT
            seconds += outcome.seconds
            if timeouts >= MOST_TIMEOUTS or seconds > MOST_WALL_LIMITS * limits.wall_s:
                yield from [Outcome(Status.TIMEOUT)] * (len(cases) - number)
                return


def passes_tests(solution: str | None, tests: Any) -> verdict.Verdict:
    """Whether a Python solution passes all of its tests; a missing one (None) is wrong.

    None: the tests can't be read, or the sandbox failed in one test and the solution failed in none.
    """
    try:
        tests_of(tests)
    except ValueError:
        return verdict.Verdict(None, Cause.UNGRADABLE)
    if solution is None:
        return verdict.Verdict(False)
    passed = {one.passed for one in run(solution, tests, whole=False)}
    if None in passed and False not in passed:
        return verdict.Verdict(None, Cause.INFRASTRUCTURE)
    return verdict.Verdict(False not in passed)


def asks_for_code(answer: str | None, entry: str | None) -> bool:
    """Whether a row asks for code: it has no answer, and an entry, which holds the tests."""
    return answer == "" and entry is not None


def can_be_run(tests: Any) -> bool:
    """Whether tests can be read; raises UserError where there is no sandbox to run them in."""
    try:
        tests_of(tests)
    except ValueError:
        return False
    return bool(sandbox.tier())


def code_in(text: str, fences: Sequence[str] = LANGUAGES["python"].fences) -> str | None:
    """The solution in a completion, or None: a code block in its answer, all of its answer, or the last code block."""
    reasoning, closed, rest = text.partition(THINK_CLOSE)
    if not closed:
        rest = "" if reasoning.lstrip().startswith(THINK_OPEN) else text
    _, opened, answer = rest.rpartition(ANSWER_OPEN)
    tagged = bool(opened) and ANSWER_CLOSE in answer
    if tagged:
        rest = answer.partition(ANSWER_CLOSE)[0]
        if FENCE not in rest and "~~~" not in rest:
            return rest.strip("\r\n")
    found = list(blocks(rest))
    named = [body for name, body in found if name in fences]
    if named:
        return named[-1]
    # In an answer, which is code by itself, the only block needs no name.
    return found[0][1] if tagged and [name for name, _ in found] == [""] else None


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """The closed code blocks of a text, with their names; read in one pass, since a pattern could take hours."""
    name, fence, body, indented = None, "", [], False
    for line in text.split("\n"):
        mark = line.strip()
        described = mark.lstrip(mark[:1])
        if name is None and mark.startswith((FENCE, "~~~")) and "`" not in described:
            fence, body = mark[: len(mark) - len(described)], []
            indented = line[:1].isspace()  # as within a list
            # Of python:main.py, python,editable and python3.12, what comes before a mark.
            name = re.match(r"\w*", described.strip(" {}.").lower())[0]
        elif name is not None and mark.startswith(fence) and not mark.strip(fence[0]):
            yield name, textwrap.dedent("\n".join(body)) if indented else "\n".join(body)
            name = None
        elif name is not None:
            body.append(line)


def last_block(text: str) -> str | None:
    """The last code block anywhere that may be Python: what `code_in` missed."""
    bodies = [body for name, body in blocks(text) if name in (*LANGUAGES["python"].fences, "")]
    return bodies[-1] if bodies else None


def language_of(name: str) -> Language:
    if name not in LANGUAGES:
        raise UserError(f"language {name!r} is not one that solutions run in{did_you_mean(name, sorted(LANGUAGES))}")
    return LANGUAGES[name]


def executed(
    command: Sequence[str], solution: bytes, how: Language, stdin: bytes, limits: Limits, tier: Tier | None
) -> Result | Outcome:
    """A run's result, or a verdict if the sandbox failed."""
    try:
        return sandbox.run(command, solution, how.file, stdin, limits, tier)
    except (SandboxError, OSError):
        return Outcome(Status.INFRASTRUCTURE)


def run_test(solution: bytes, test: Test, how: Language, limits: Limits, tier: Tier | None) -> Outcome:
    """Run one test, and compare."""
    # An expected output may be longer than the limit for others.
    longest = 2 * max(len(source_of(output)) for output in test.outputs) / 2**20
    limits = replace(limits, output_mb=min(max(limits.output_mb, longest), max(limits.output_mb, MOST_OUTPUT_MB)))
    run, call = how.by.get(test.checker, (how.run, how.call))
    command = call if test.call else run
    stdin = call_text(test) if test.call else test.stdin
    result = executed(command, solution, how, stdin.encode(errors="surrogatepass"), limits, tier)
    if isinstance(result, Outcome):
        return result
    status = failure(result)
    if status is None:
        told, says = (result.report, returned) if test.call else (result.stdout, printed)
        right = any(says(told, value, test.checker) for value in test.outputs)
        status = Status.PASSED if right else Status.WRONG_OUTPUT
    return Outcome(status, result.seconds)


def call_text(test: Test) -> str:
    """A call in the form that the solution's side reads: source text of a pair of function name and arguments."""
    return f"({test.call!r}, {test.args})"


def failure(result: Result) -> Status | None:
    """What went wrong in a run, whatever its output; None if nothing did."""
    if result.stopped is Stop.OUTPUT:
        return Status.OUTPUT_LIMIT
    if result.stopped:
        return Status.TIMEOUT
    if result.status:
        last = result.stderr.rstrip().rpartition(b"\n")[2]
        return Status.MEMORY if last.startswith(b"MemoryError") else Status.RUNTIME_ERROR
    return None


def printed(output: bytes, expected: str, checker: str | None = None) -> bool:
    """Whether a whole output is the expected one, except for spaces at line ends and empty lines at the end."""
    text = output.decode(errors="surrogateescape")
    if checker == LIVECODEBENCH:
        got, wanted, same = stripped_lines(text), stripped_lines(expected), same_numbers
    else:
        got, wanted, same = lines(text), lines(expected), same_line
    return len(got) == len(wanted) and all(map(same, got, wanted))


def stripped_lines(text: str) -> list[str]:
    """The lines as LiveCodeBench compares them: without blanks around them and empty lines around all."""
    return [line.strip() for line in text.strip().split("\n")]


def same_numbers(got: str, wanted: str) -> bool:
    """Whether two lines are equal, or have equal numbers: 2.0 is 2, any blanks divide them, and none is only near.

    A number is what Python's Decimal takes, of any length.
    """
    try:
        return got == wanted or list(map(Decimal, got.split())) == list(map(Decimal, wanted.split()))
    except ArithmeticError:  # no number
        return False


def lines(text: str) -> list[str]:
    stripped = [line.rstrip(" \t\r") for line in text.split("\n")]
    while stripped and not stripped[-1]:
        stripped.pop()
    return stripped


def same_line(got: str, wanted: str) -> bool:
    """Whether two lines are equal, or differ only in numbers near enough to an expected fractional number."""
    if got == wanted:
        return True
    words, others = got.split(" "), wanted.split(" ")
    return len(words) == len(others) and all(map(same_word, words, others))


def same_word(got: str, wanted: str) -> bool:
    if got == wanted:
        return True
    if max(len(got), len(wanted)) > MOST_DIGITS or not (DECIMAL.fullmatch(got) and FRACTIONAL.fullmatch(wanted)):
        return False
    return near(float(got), float(wanted))


def near(got: float, wanted: float) -> bool:
    """Whether the numbers are within the tolerance; nothing is near to infinity or nan."""
    return math.isfinite(wanted) and math.isclose(got, wanted, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def returned(report: bytes, expected: Any, checker: str | None = None) -> bool:
    """Whether a report is JSON, and its value is the expected one."""
    try:
        value = json.loads(report, parse_constant=refuse, parse_int=whole_number)
        return value == expected if checker == LIVECODEBENCH else same_value(value, expected)
    except (ValueError, RecursionError):
        return False


def whole_number(text: str) -> int:
    """An integer of any length: int() refuses more than 4,300 digits, and would take long."""
    return int(Decimal(text)) if len(text) > MOST_DIGITS else int(text)


def source_of(value: Any) -> str:
    """A value's source text, with integers of any length."""
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(source_of, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {source_of(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 1000:
        return f"{Decimal(value):f}"
    return repr(value)


def refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")


def same_value(got: Any, wanted: Any) -> bool:
    """Equality of JSON values, numbers by tolerance where a fraction is expected; True is 1, as in Python."""
    if isinstance(wanted, list):
        return isinstance(got, list) and len(got) == len(wanted) and all(map(same_value, got, wanted))
    if isinstance(wanted, dict):
        return (
            isinstance(got, dict) and got.keys() == wanted.keys() and all(same_value(got[k], wanted[k]) for k in wanted)
        )
    if isinstance(wanted, float) and isinstance(got, int | float):
        try:
            return near(float(got), wanted)
        except OverflowError:  # an integer beyond all floats
            return False
    return not isinstance(got, list | dict) and got == wanted


def tests_of(tests: Any) -> list[Test]:
    """Tests from a list, or from the JSON of one; raises ValueError for anything else, and for no tests at all.

    [{"input": "4\\n", "output": "16\\n"}]                                  also LiveCodeBench's stdin tests
    [{"input": "4\\n", "output": "2", "checker": "livecodebench"}]        as that benchmark compares them
    [{"call": "f", "args": [4], "output": 16}]                            args may be source text: "(4,)"
    [{"input": "[1, 2]\\n3", "output": "6", "fn_name": "f"}]               LiveCodeBench: one JSON value a line
    {"inputs": ["4\\n"], "outputs": ["16\\n"]}                              APPS, TACO
    {"inputs": [[4]], "outputs": [[16]], "fn_name": "f"}                  APPS, TACO: the value, or a list of it
    """
    if isinstance(tests, str | bytes):
        tests = from_json(tests)
    read = list(in_columns(tests)) if isinstance(tests, dict) else [one(test) for test in list_of(tests)]
    if not read:
        raise ValueError("tests: there are none")
    return [replace(test, outputs=tuple(map(as_json_value, test.outputs))) for test in read]


def as_json_value(value: Any) -> Any:
    """A value as JSON has it: lists for tuples, texts for keys."""
    try:
        if isinstance(value, list | tuple):
            return [as_json_value(inner) for inner in value]
        if isinstance(value, dict):
            return {next(iter(json.loads(json.dumps({key: 0})))): as_json_value(inner) for key, inner in value.items()}
        long = isinstance(value, int) and value.bit_length() > 1000
        return value if long else json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"tests: an output is no JSON value: {error}") from error


def from_json(text: str | bytes) -> Any:
    try:
        return json.loads(text, parse_constant=refuse, parse_int=whole_number)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"tests: not JSON: {str(error)[:80]}") from error


def list_of(value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"tests: {str(value)[:80]!r} should be a list")
    return list(value)


def one(test: Any) -> Test:
    """A test that is a dict."""
    if not isinstance(test, dict) or "output" not in test:
        raise ValueError(f"tests: {str(test)[:80]!r} has no output")
    name = test.get("call") or test.get("fn_name") or test.get("func_name")
    if not name and test.get("testtype") != "functional":
        stdin, outputs = lines_as_text(test.get("input", "")), (lines_as_text(test["output"]),)
        return Test(stdin=stdin, outputs=outputs, checker=checker_of(test))
    name = called_function(name, test)
    if "args" in test:
        if isinstance(test["args"], str):
            args = test["args"]
            refuse_no_python(args)
        else:
            args = source_of(list_of(test["args"]))
        return Test(call=name, args=args, outputs=(test["output"],), checker=checker_of(test))
    args = [from_json(line) for line in lines_as_text(test.get("input")).split("\n") if line.strip()]
    outputs = (from_json(lines_as_text(test["output"])),)
    return Test(call=name, args=source_of(args), outputs=outputs, checker=checker_of(test))


def called_function(name: Any, tests: dict[str, Any]) -> str:
    """The function that tests call; raises ValueError for what can be no name of one."""
    name = name.removeprefix("Solution.") if isinstance(name, str) else ""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"tests: {str(tests)[:80]!r} doesn't name the function to call")
    return name


def refuse_no_python(args: str) -> None:
    """Raises ValueError for arguments that are no list of values in Python, which no solution could pass.

    Names may be those of VALUES, and those that the text itself binds, as a comprehension does.
    """
    try:
        value = ast.parse(args.strip(), mode="eval").body
        handed_on = ast.parse(f"(0, {args})", mode="eval").body  # as by `call_text`
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"tests: the arguments {args[:80]!r} are no Python: {error}") from None
    is_list = isinstance(value, ast.List | ast.Tuple | ast.Call | ast.BinOp | ast.ListComp)
    if not is_list or len(handed_on.elts) != 2:
        raise ValueError(f"tests: the arguments {args[:80]!r} are no list; write [4] for one argument")
    names = [node for node in ast.walk(value) if isinstance(node, ast.Name)]
    bound = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    for name in names:
        if name.id not in VALUES | bound:
            raise ValueError(f"tests: the arguments {args[:80]!r} use {name.id[:40]!r}, which isn't known there")


def class_beyond_json(frame: str) -> str | None:
    """The first class that a function in this code takes or returns and tests can't hold: ListNode, TreeNode.

    Tests are JSON, so such a function would be given lists, and fail whatever it does. None: there is none.
    """
    for signature in SIGNATURE.findall(frame):
        try:
            [function] = ast.parse(f"{signature.strip()} pass").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        arguments = function.args
        given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for annotation in (*(each.annotation for each in given), function.returns):
            for name in annotation_names(annotation):
                if name not in TYPES_OF_JSON:
                    return name
    return None


def annotation_names(annotation: ast.expr | None) -> Iterator[str]:
    """The names in an annotation, also within a text: Optional["TreeNode"]."""
    for node in ast.walk(annotation) if annotation else ():
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"[^\W\d]\w*", node.value)


def checker_of(test: dict[str, Any]) -> str | None:
    name = test.get("checker")
    if name is not None and name not in CHECKERS:
        raise ValueError(f"tests: the checker {str(name)[:80]!r} isn't known")
    return name


def in_columns(tests: dict[str, Any]) -> Iterable[Test]:
    """APPS's form: lists of inputs and of outputs, and the function's name if the tests call one."""
    inputs, outputs, name = list_of(tests.get("inputs")), list_of(tests.get("outputs")), tests.get("fn_name")
    if len(inputs) != len(outputs):
        raise ValueError(f"tests: {len(inputs)} inputs and {len(outputs)} outputs")
    name, checker = called_function(name, tests) if name else "", checker_of(tests)
    for given, wanted in zip(inputs, outputs, strict=True):
        if not name:
            yield Test(stdin=lines_as_text(given), outputs=(lines_as_text(wanted),), checker=checker)
        else:
            alone = isinstance(wanted, list) and len(wanted) == 1
            outputs = (wanted, *wanted) if alone else (wanted,)
            yield Test(call=name, args=source_of(list_of(given)), outputs=outputs, checker=checker)


def lines_as_text(value: Any) -> str:
    """A text, or a list of its lines."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    if not isinstance(value, str):
        raise ValueError(f"tests: {str(value)[:80]!r} should be text")
    return value
