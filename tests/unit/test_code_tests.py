"""The reward for code: share or all, no solution, bad tests, failures, and text that is meant to break it."""

from pathlib import Path

import pytest

from r1flow import sandbox
from r1flow.core.errors import UserError
from r1flow.engine.run import Run
from r1flow.grading import code
from r1flow.grading.code import code_in
from r1flow.grading.verdict import Cause
from r1flow.rewards import code_tests
from r1flow.rewards.combine import combine
from r1flow.sandbox import Limits

held = pytest.mark.skipif(not sandbox.tiers(), reason="no sandbox holds on this machine")

TESTS = '[{"input": "4\\n", "output": "16\\n"}, {"input": "5\\n", "output": "25\\n"}]'
RIGHT = "<think>```python\nprint(1)\n```</think>So:\n```python\nprint(int(input()) ** 2)\n```\nDone."
HALF = "```python\nprint(16)\n```"
FENCES = ("python", "py")


@held
def test_share_and_all() -> None:
    assert code_tests()(["p"] * 3, [RIGHT, HALF, "none"], tests=[TESTS] * 3) == [1.0, 0.5, 0.0]
    assert code_tests(mode="all")(["p"] * 3, [RIGHT, HALF, "none"], tests=[TESTS] * 3) == [1.0, 0.0, 0.0]


@held
def test_rows_without_a_score_say_why() -> None:
    tests = [TESTS, None, "[]", "not JSON", [{"input": "1"}]]
    task = ["general", None, None, None, None]
    scores = code_tests()(["p"] * 5, [RIGHT] * 5, tests=tests, task=task)
    assert scores == [None] * 5
    assert [scores.causes[row] for row in range(5)] == [Cause.NOT_APPLICABLE] * 2 + [Cause.UNGRADABLE] * 3


@held
def test_a_timeout_keeps_its_score() -> None:
    program = "```python\nn = int(input())\nwhile n == 5: pass\nprint(n * n)\n```"
    scores = code_tests(limits={"cpu_s": 1, "wall_s": 20})(["p"], [program], tests=[TESTS])
    assert (scores, scores.causes) == ([0.5], {0: Cause.TIMEOUT})


@held
def test_a_sandbox_that_fails_is_infrastructure(monkeypatch: pytest.MonkeyPatch) -> None:
    reward = code_tests()
    monkeypatch.setattr(code.sandbox, "run", lambda *args: (_ for _ in ()).throw(sandbox.SandboxError("gone")))
    scores = reward(["p"], [RIGHT], tests=[TESTS])
    assert (scores, scores.causes) == ([None], {0: Cause.INFRASTRUCTURE})


def test_no_sandbox_is_known_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise UserError("no sandbox")

    monkeypatch.setattr(sandbox, "tier", absent)
    with pytest.raises(UserError, match="no sandbox"):
        code_tests()


@held
@pytest.mark.parametrize(
    "more", [{"mode": "some"}, {"language": "cobol"}, {"limits": {"seconds": 1}}], ids=["mode", "language", "limits"]
)
def test_arguments_that_do_not_fit(more: dict) -> None:
    with pytest.raises(UserError):
        code_tests(**more)
    with pytest.raises(UserError, match="tests"):
        code_tests(limits=Limits())(["p"], [RIGHT])


@held
def test_rows_do_not_depend_on_each_other() -> None:
    texts, reward = [RIGHT, HALF, "", RIGHT], code_tests()
    together = reward(["p"] * 4, texts, tests=[TESTS] * 4)
    assert reward(["p"] * 4, texts[::-1], tests=[TESTS] * 4) == together[::-1]
    assert [reward(["p"], [text], tests=[TESTS])[0] for text in texts] == together


@held
@pytest.mark.parametrize(
    "text",
    [
        *("", "<think>", "</think>", "```python\n", "```python\n```", "<answer>", "<answer></answer>", "\0", "\ud800"),
        *("x" * 1_000_000, "```python\n" * 100_000, "```" * 300_000, "<answer>" * 100_000, "</think>" * 100_000),
        *("```python\n" + "(" * 500_000 + "\n```", "<answer>\ud800\0</answer>", "```python\n\0\n```"),
    ],
    ids=range(17),
)
def test_hostile_text_scores_0(text: str) -> None:
    assert code_tests()(["p"], [[{"role": "assistant", "content": text}]], tests=[TESTS]) == [0.0]


@pytest.mark.parametrize(
    ("text", "program"),
    [
        (RIGHT, "print(int(input()) ** 2)"),
        ("```python\na\n```\n```py\nb\n```\n```text\nc\n```", "b"),
        ("reasoning</think>```python\na\n```", "a"),
        ("<think>```python\na\n```", None),
        ("<answer>print(1)</answer>", "print(1)"),
        ("<answer>see\n```python\na\n```\n</answer>", "a"),
        ("```python\na\n```\n<answer>print(1)</answer>", "print(1)"),
        ("  ```Python\n  if a:\n      b\n  ```", "if a:\n    b"),
        ("```\na\n```", None),
        ("~~~~\na\n~~~~", None),
        ("<answer>\n```\na\n```\n</answer>", "a"),
        ("<answer>~~~~\na\n~~~~</answer>", "a"),
        ("<answer>so\n```\na\n```\n```\nb\n```\n</answer>", None),
        ("<answer>```\n3\n```\n```python\na\n```</answer>", "a"),
        ("<answer>```text\na\n```</answer>", None),
        ("<answer>```\na</answer>", None),
        ("```python\na", None),
        ("", None),
    ],
)
def test_where_the_program_stands(text: str, program: str | None) -> None:
    assert code_in(text, FENCES) == program


@held
def test_the_experiment_with_programs_pays_each_kind_of_row_by_its_own_reward() -> None:
    run = Run.compose(Path(__file__).parents[2], "r1_zero_qwen2.5_1.5b_code")
    columns = {"task": ["codeforces", None], "answer": ["", "4"], "entry": [TESTS, None], "completion_ids": [[0], [0]]}
    logged: dict[str, float] = {}
    scores = combine(run.slice("zero_rl")["rewards"])(
        ["p"] * 2,
        [
            f"<think>I square it.</think><answer>{RIGHT.rpartition('So:')[2]}</answer>",
            "<think>2 + 2</think><answer>4</answer>",
        ],
        log_metric=logged.__setitem__,
        **columns,
    )
    assert scores == [1.2, 1.2]
    assert logged["rewards/accuracy/not_applicable"] == logged["rewards/code_tests/not_applicable"] == 0.5


def test_a_checker_may_be_an_argument() -> None:
    tests = [[{"input": "", "output": "2"}], [{"input": "", "output": "3", "checker": "livecodebench"}]]
    answers = ["<answer>print(2.0)</answer>", "<answer>print(3.0)</answer>"]
    assert code_tests()(["p"] * 2, answers, tests=tests) == [0.0, 1.0]
    assert code_tests(checker="livecodebench")(["p"] * 2, answers, tests=tests) == [1.0, 1.0]
    with pytest.raises(UserError, match="checker 'exact' isn't one of livecodebench"):
        code_tests(checker="exact")
