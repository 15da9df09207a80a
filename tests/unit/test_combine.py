"""Several rewards as one number: what adds up, what is unknown, what is logged, and when training stops."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from r1flow import rewards
from r1flow.artifacts.fingerprint import user_modules
from r1flow.core.errors import UserError
from r1flow.grading.verdict import Cause
from r1flow.rewards.combine import ENOUGH_ROWS, WATCHED_ROWS, combine
from r1flow.rewards.scores import Scores, reward, text_of

PAGE = Path("docs/rewards/your_own.md")
OWN = '''
from r1flow.grading.verdict import Cause
from r1flow.rewards.scores import Scores, reward

GIVEN = []


def listed(values):
    """A factory of a reward that returns these values, as plain TRL rewards do."""
    return lambda prompts, completions, **columns: values


def length(completions, per=1, **columns):
    """A reward as TRL takes it."""
    return [len(completion) / per for completion in completions]


def first(prompts, completions, **columns):
    """For the first row only; none without its prompt."""
    return [1.0 if prompt == "p" else None for prompt in prompts[:1]]


def causes(words):
    """A factory: "3" is a score, "3 timeout" one with a cause, "ungradable" none."""

    @reward
    def causes(prompts, texts, **columns):
        GIVEN.append(sorted(columns))
        return Scores.of(entry(text) for text in texts)

    def entry(text):
        number, _, cause = text.partition(" ")
        return Cause(number) if number in list(Cause) else (float(number), Cause(cause)) if cause else float(number)

    return causes


def endless():
    """A factory of a reward like our own, one of whose scores isn't finite."""

    @reward
    def endless(prompts, texts, **columns):
        return Scores.of([1.0, float("inf")])

    return endless


number = 3
'''


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A user's module `my_rewards` that can be imported."""
    (tmp_path / "my_rewards.py").write_text(OWN)
    (tmp_path / "broken_rewards.py").write_text("import math\nmath.foo\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("my_rewards", None)


def given(values: list[Any], weight: float = 1.0) -> dict[str, Any]:
    return {"name": "my_rewards.listed", "weight": weight, "args": {"values": values}}


def by_text(weight: float = 1.0) -> dict[str, Any]:
    return {"name": "my_rewards.causes", "weight": weight, "args": {"words": 1}}


def run(specs: dict[str, Any], texts: list[str], **options: Any) -> tuple[list[float | None], dict[str, float]]:
    logged: dict[str, float] = {}
    scores = combine(specs, **options)(["p"] * len(texts), texts, log_metric=logged.__setitem__)
    return scores, logged


# -- the sum -----------------------------------------------------------------------------------------------------


def test_the_parts_that_apply_are_weighed_and_added_up() -> None:
    scores, _ = run({"a": given([1, 1, None, None]), "b": given([1, None, 0.5, None], weight=-0.5)}, ["x"] * 4)
    assert scores == [0.5, 1.0, -0.25, None]


@pytest.mark.parametrize("cause", ["ungradable", "infrastructure"])
def test_a_row_whose_grading_failed_has_no_reward_at_all(cause: str) -> None:
    scores, logged = run({"a": by_text(), "b": given([1, 1, 1])}, [cause, "not_applicable", "2"])
    assert scores == [None, 1.0, 3.0]
    assert logged[f"rewards/a/{cause}"] == logged["rewards/a/not_applicable"] == pytest.approx(1 / 3)


def test_a_time_out_counts_with_its_score_and_is_logged() -> None:
    scores, logged = run({"a": by_text(), "b": given([1, 1])}, ["0 timeout", "1"])
    assert scores == [1.0, 2.0]
    assert (logged["rewards/a/timeout"], logged["rewards/a/none"], logged["rewards/a"]) == (0.5, 0, 0.5)


def test_every_cause_is_logged_apart_also_where_it_did_not_come_up() -> None:
    _, logged = run({"a": by_text()}, ["ungradable", "not_applicable", "0 timeout", "1"])
    shares = {name.removeprefix("rewards/a/"): value for name, value in logged.items() if name.startswith("rewards/a/")}
    assert shares == {"none": 0.5, "not_applicable": 0.25, "ungradable": 0.25, "timeout": 0.25, "infrastructure": 0.0}
    assert logged["rewards/a"] == 0.5


def test_the_mean_of_accuracy_is_a_curve_of_its_own_whatever_its_label() -> None:
    logged: dict[str, float] = {}
    columns = {"task": ["math"] * 2, "answer": ["5", "6"], "entry": [None] * 2}
    combined = combine({"right": {"name": "accuracy", "weight": 2.0}, "a": given([0.5, 0.5])})
    texts = ["<think>x</think>so <answer>5</answer>"] * 2
    assert combined(["p"] * 2, texts, log_metric=logged.__setitem__, **columns) == [2.5, 0.5]
    assert logged["accuracy"] == logged["rewards/right"] == logged["rewards/a"] == 0.5
    logged.clear()
    combined(["p"] * 2, texts, log_metric=logged.__setitem__, **columns | {"answer": [None] * 2})
    assert "accuracy" not in logged and logged["rewards/right/none"] == 1.0


def test_a_part_of_weight_0_is_logged_and_decides_nothing() -> None:
    scores, logged = run({"a": by_text(weight=0), "b": given([1, 1, None])}, ["infrastructure", "5", "5"])
    assert scores == [1.0, 1.0, None]
    assert logged["rewards/a"] == 5.0 and logged["rewards/a/infrastructure"] == pytest.approx(1 / 3)


def test_no_rows_are_no_scores() -> None:
    assert run({"a": by_text()}, [], stop_above={"ungradable": 0.0}) == ([], {})


# -- the user's own ----------------------------------------------------------------------------------------------


def test_a_reward_as_trl_takes_it_needs_no_factory() -> None:
    scores, logged = run({"my_rewards.length": {}}, ["abcd"])
    assert scores == [4.0] and logged["rewards/my_rewards.length"] == 4.0
    assert run({"length": {"name": "my_rewards.length", "args": {"per": 2}}}, ["abcd"])[0] == [2.0]


def test_the_columns_reach_every_part_and_what_is_logged_is_logged_once() -> None:
    logged: list[str] = []
    combined = combine({"a": by_text(), "b": by_text()})
    combined(["p"], ["1"], log_metric=lambda name, value: logged.append(name), answer=["7"], trainer_state=None)
    assert sys.modules["my_rewards"].GIVEN == [["answer", "trainer_state"]] * 2
    assert len(logged) == len(set(logged)) == 12 and not any("causes" in name for name in logged)


def test_a_part_is_given_the_prompts() -> None:
    assert run({"my_rewards.first": {}}, ["x"])[0] == [1.0]


def test_the_stage_s_reward_model_is_that_of_every_part_that_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def reward_model(model_dir: Path, device: str = "cpu") -> Any:
        asked.append(model_dir)
        return lambda prompts, completions, **columns: [1.0] * len(prompts)

    monkeypatch.setattr(rewards, "reward_model", reward_model)
    own = {"name": "reward_model", "args": {"model_dir": Path("mine")}}
    specs = {"reward_model": {}, "helpful": {"name": "reward_model", "args": {"device": "cpu"}}, "own": own}
    specs |= {"a": given([1.0])}
    assert run(specs, ["x"], reward_model_dir=Path("judge"))[0] == [4.0]
    assert asked == [Path("judge"), Path("judge"), Path("mine")]


def test_a_module_named_by_the_label_alone_counts_as_a_stage_s_code_too() -> None:
    named = {"my_rewards.length": {"weight": 1.0}, "a": {"name": "others.listed"}, "accuracy": {"name": None}}
    assert user_modules({"rewards": named}) == {"my_rewards", "others"}


BAD = [
    ({}, "there are none"),
    ({"acuracy": {}}, "did you mean 'accuracy'"),
    ({"accuracy": {"wieght": 1.0}}, "the keys name, weight"),
    ({"accuracy": {"weight": "1e-4"}}, "weight must be a number"),
    ({"accuracy": {"args": {"tolerance": 1}}}, "^rewards: accuracy: args: .* unexpected keyword argument 'tolerance'"),
    ({"language_consistency": {"args": {"language": "xx"}}}, "'xx' is not one of"),
    ({"helpful": {"name": "reward_model"}}, "missing a required argument: 'model_dir'"),
    ({"helpful": {"name": "reward_model", "args": {"model_dir": "/nowhere"}}}, "holds no model"),
    ({"a": given([1.0])}, r"^rewards\.a: my_rewards\.listed gave 1 scores for 2"),
    ({"a": {"name": "my_rewards.first"}}, r"^rewards\.a: my_rewards\.first gave 1 scores for 2"),
    ({"a": given([1.0, float("nan")])}, "gave nan for row 1"),
    ({"a": {"name": "my_rewards.endless"}}, "gave inf for row 1"),
    ({"a": given([float("-inf"), 1.0])}, "gave -inf for row 0"),
    ({"a": given({0: 1, 1: 2})}, r"^rewards\.a: my_rewards\.listed gave dict; return a list with a number, or None"),
    ({"a": given(None)}, "gave NoneType; return a list"),
    ({"a": given(1.0)}, "gave float; return a list"),
    ({"a": given("ab")}, "gave str; return a list"),
    ({"a": given([[1.0], [2.0]])}, "gave list for row 0; return a finite number"),
    ({"a": given([1.0, "1"])}, "gave str for row 1; return a finite number"),
    ({"a": given([1.0, 10**5000])}, "gave int for row 1; return a finite number"),
    ({"a": None}, "the keys name, weight"),
    ({"a": 3}, "the keys name, weight"),
    ({"my_rewards.number": {}}, "isn't a function"),
    ({"my_rewards.brevity": {}}, "my_rewards.py has no brevity; put the reward into my_rewards.py"),
    ({"broken_rewards.any": {}}, r"broken_rewards.py can't be imported \(AttributeError: .*\); mend it"),
    ({"no_such_module.brevity": {}}, "No module named 'no_such_module'"),
    ({"my_rewards.listed": {"args": {"words": 3}}}, "known: values"),
    ({"no_such_package.rewards.brevity": {}}, "put the reward into no_such_package/rewards.py in"),
    ({"my_rewards.length": {"args": {"pre": 2}}}, r"there is no 'pre' \(its args: completions, per, columns\)"),
    ({"my_rewards.length": {"weight": float("nan")}}, "weight must be a number"),
    ({"my_rewards.length": {"weight": True}}, "weight must be a number"),
]


@pytest.mark.parametrize(("specs", "message"), BAD)
def test_what_is_wrong_with_a_part_is_one_line(specs: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        run(specs, ["x", "y"])
    assert "\n" not in str(caught.value)


def test_a_reward_that_raises_is_named_and_keeps_its_traceback() -> None:
    with pytest.raises(RuntimeError, match=r"^rewards\.a: my_rewards\.length raised TypeError: unsupported") as caught:
        run({"a": {"name": "my_rewards.length", "args": {"per": "2"}}}, ["x", "y"])
    assert caught.value.__cause__.__traceback__.tb_next


def test_the_page_on_a_reward_of_your_own_holds(tmp_path: Path) -> None:
    """Its module and its config, as they stand there; tests/workflow/test_docs.py runs its examples."""
    fences = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    module, _, plain = (text for language, text in fences if language == "python")
    (config,) = (yaml.safe_load(text) for language, text in fences if language == "yaml")
    (tmp_path / "my_rewards.py").write_text(module + plain)
    assert config.pop("defaults") == ["reasoning"]
    scores, logged = run(config, ["one two three four", "<think>x</think>", "one two three four five six"])
    assert scores == [pytest.approx(0.1), None, pytest.approx(0.05)]
    assert logged["rewards/short"] == 0.75 and logged["rewards/short/not_applicable"] == pytest.approx(1 / 3)
    assert run({"my_rewards.exclaims": {"args": {"most": 2}}}, ["Oh!"])[0] == [0.5]


# -- stopping ----------------------------------------------------------------------------------------------------

LIMIT = {"infrastructure": 0.1}


def feeder(**options: Any) -> Callable[[str, int], None]:
    combined = combine({"a": by_text()}, **options)
    return lambda text, rows: combined(["p"] * rows, [text] * rows) and None


def test_too_few_rows_stop_nothing_and_enough_do() -> None:
    feed = feeder(stop_above=LIMIT)
    feed("infrastructure", ENOUGH_ROWS - 1)
    with pytest.raises(
        UserError, match=r"rewards\.a: 100\.0% .* infrastructure, more than stop_above\.infrastructure \(0\.1\) allows"
    ):
        feed("infrastructure", 1)


def test_a_share_at_the_limit_goes_on_and_another_cause_is_none_of_its_business() -> None:
    feed = feeder(stop_above=LIMIT)
    feed("1", ENOUGH_ROWS)
    feed("ungradable", ENOUGH_ROWS * 8)
    feed("infrastructure", ENOUGH_ROWS)
    with pytest.raises(UserError, match="infrastructure"):
        feed("infrastructure", 1)


def test_rows_that_a_part_is_not_for_hide_no_failure() -> None:
    feed = feeder(stop_above=LIMIT)
    for _ in range(5):
        feed("not_applicable", WATCHED_ROWS)
        feed("infrastructure", (ENOUGH_ROWS - 1) // 5)
    with pytest.raises(UserError):
        feed("infrastructure", 5)


def test_failures_of_long_ago_are_forgotten() -> None:
    feed = feeder(stop_above=LIMIT)
    feed("infrastructure", ENOUGH_ROWS - 1)
    free = feeder()  # without limits nothing ever stops
    free("infrastructure", WATCHED_ROWS)
    with pytest.raises(UserError):
        feed("1", 1)
    feed = feeder(stop_above=LIMIT)
    feed("infrastructure", ENOUGH_ROWS // 2)
    feed("1", WATCHED_ROWS - ENOUGH_ROWS // 2)  # 5 %
    feed("1", ENOUGH_ROWS)
    feed("infrastructure", ENOUGH_ROWS)  # 10 % of the latest: the first fifty are gone


# -- the contract ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("completion", "text"),
    [
        ("a", "a"),
        ([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "a"),
        (
            [{"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "image"}, {"text": 5}, "b"]}],
            "a5",
        ),
        ([{"role": "assistant", "content": None}], ""),
        ([{"role": "assistant"}], ""),
        (["a"], "a"),
        ([], ""),
        (None, ""),
        ([None], ""),
        (7, ""),
        ([{"content": "a", "reasoning_content": "t"}], "<think>t</think>a"),
        ([{"content": "\na", "reasoning": "<think>\nt\n</think>"}], "<think>t</think>a"),
        ([{"content": None, "thinking": "t"}], "<think>t</think>"),
        ([{"content": "a", "reasoning_content": None, "reasoning": 7, "thinking": " "}], "a"),
        (
            [{"content": [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "a"}]}],
            "<think>t</think>a",
        ),
        ([{"content": [{"type": "reasoning", "text": "t"}, {"text": "a"}]}], "<think>t</think>a"),
        ([{"content": "q", "reasoning_content": "t"}, {"content": "a"}], "a"),
    ],
)
def test_the_text_of_any_completion(completion: Any, text: str) -> None:
    assert text_of(completion) == text


def test_scores_know_why_and_are_still_a_list_for_trl() -> None:
    scores = Scores.of([1.0, Cause.UNGRADABLE, (0.0, Cause.TIMEOUT), Cause.NOT_APPLICABLE])
    assert scores == [1.0, None, 0.0, None] and isinstance(scores, list)
    assert [scores.failed(row) for row in range(4)] == [False, True, False, False]


def test_a_reward_alone_logs_under_its_own_name() -> None:
    @reward
    def brevity(prompts: list[Any], texts: list[str], **columns: Any) -> Scores:
        return Scores.of(1.0 / len(text) if text else Cause.NOT_APPLICABLE for text in texts)

    logged: dict[str, float] = {}
    assert brevity(["p", "p"], ["ab", ""], log_metric=logged.__setitem__) == [0.5, None]
    assert logged["rewards/brevity"] == 0.5 and logged["rewards/brevity/not_applicable"] == 0.5
