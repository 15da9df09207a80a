"""Pays for solutions that pass their tests (DeepSeek-R1, section 2.2.2: code is run on predefined test cases).

completion    "<think>…</think>\\n```python\\nprint(int(input()) ** 2)\\n```"
tests         '[{"input": "4\\\\n", "output": "16\\\\n"}, {"input": "x", "output": ""}]'
reward        0.5 with mode "share", 0.0 with mode "all"
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from r1flow import sandbox
from r1flow.core.errors import UserError
from r1flow.core.rewarding import check_types
from r1flow.core.template import GENERAL
from r1flow.grading import code
from r1flow.grading.verdict import Cause
from r1flow.rewards.scores import Reward, Scores, column, needed, reward
from r1flow.sandbox import Limits, Tier


def code_tests(
    mode: str = "share",
    language: str = "python",
    tests_column: str = "tests",
    limits: Limits | dict[str, Any] | None = None,
    tier: Tier | None = None,
    checker: str | None = None,
) -> Reward:
    """The share of a row's tests that its solution passes, or with mode "all" 1.0 for all of them, else 0.0.

    The solution is the last code block after the reasoning, or what is between the answer tags. Columns: the tests, as
    `grading.code.tests_of` reads them (None: the row doesn't ask for code), and `task`. `limits` are those of
    `sandbox.Limits`, for each test. `checker`: "livecodebench" runs and compares as that benchmark does (None: exactly,
    but for blanks at line ends and near fractions), where a test doesn't name one itself. Raises UserError for invalid
    arguments and where there is no sandbox.
    """
    if mode not in ("share", "all"):
        raise UserError(f"reward code_tests: mode {mode!r} is neither 'share' nor 'all'")
    if checker not in (None, *code.CHECKERS):
        raise UserError(
            f"reward code_tests: checker {checker!r} isn't one of {', '.join(code.CHECKERS)}; or leave it out"
        )
    fences, within = code.language_of(language).fences, limits_of(limits)
    where = tier or sandbox.tier()

    @reward
    def code_tests(
        prompts: Sequence[Any], texts: list[str], /, task: list[str | None] | None = None, **columns: Any
    ) -> Scores:
        def score(text: str, task: str | None, tests: Any) -> float | Cause | tuple[float, Cause]:
            if task == GENERAL or tests is None:
                return Cause.NOT_APPLICABLE
            try:
                code.tests_of(tests)
            except ValueError:
                return Cause.UNGRADABLE
            solution = code.code_in(text, fences)
            if solution is None:
                return 0.0
            return paid(code.run(solution, tests, language, within, where, mode == "share", checker), mode)

        with ThreadPoolExecutor(sandbox.workers()) as pool:
            return Scores.of(pool.map(score, texts, column(task, texts), needed(columns, tests_column, "code_tests")))

    return code_tests


def limits_of(limits: Limits | dict[str, Any] | None) -> Limits:
    try:
        made = limits if isinstance(limits, Limits) else Limits(**(limits or {}))
    except TypeError as error:
        known = ", ".join(Limits.__dataclass_fields__)
        raise UserError(f"reward code_tests: limits: {error} (known: {known})") from error
    check_types("reward code_tests: limits", Limits, vars(made))
    for name, value in vars(made).items():
        if not value > 0 and (name, value) != ("disk_mb", 0):
            raise UserError(f"reward code_tests: limits.{name}: {value} leaves a solution none; write more than 0")
    return made


def paid(verdicts: list[code.Outcome], mode: str) -> float | Cause | tuple[float, Cause]:
    """One row's score; if the sandbox failed in one test, there is none; time-outs are recorded as a cause."""
    statuses = [verdict.status for verdict in verdicts]
    if code.Status.INFRASTRUCTURE in statuses:
        return Cause.INFRASTRUCTURE
    share = statuses.count(code.Status.PASSED) / len(statuses)
    value = share if mode == "share" else float(share == 1.0)
    return (value, Cause.TIMEOUT) if code.Status.TIMEOUT in statuses else value
