"""Rewards keep to TRL's call, know None from 0, and don't depend on the rows beside them."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from r1flow.core.errors import UserError
from r1flow.rewards import accuracy, answer_format, language_consistency, reward_model, tool_calls
from r1flow.rewards.combine import combine

RIGHT = "<think>we add 2 and 5</think>so it is <answer>7</answer>"
WRONG = "<think>wir addieren</think>also <answer>8</answer>"
HOSTILE = [
    "",
    "<think>",
    "</think><think>",
    "<answer>7",
    "<answer>7</answer>" * 1000,
    "<think>" * 10_000,
    "7" * 1_000_000,
    "\x00\ud800",
    "<think>a</think><answer>7</answer> and more",
    "<think>a</think><think>b</think><answer>7</answer>",
    "<think>a</think><answer>6</answer><answer>7</answer>",
]


def config(name: str) -> dict:
    """A rewards config with its defaults, which come first."""
    own = yaml.safe_load(Path(f"conf/reward/{name}.yaml").read_text())
    inherited = [config(base) for base in own.pop("defaults", [])]
    return {label: spec for part in [*inherited, own] for label, spec in part.items()}


def test_plain_trl_call() -> None:
    assert accuracy()(["p", "p"], [RIGHT, WRONG], answer=["7", "7"]) == [1.0, 0.0]
    assert answer_format()(["p"], [RIGHT]) == [1.0]
    assert language_consistency(language="en")(["p", "p"], [RIGHT, WRONG]) == [1.0, 0.0]


def test_chat_completions_are_read_like_plain_ones() -> None:
    chat = [[{"role": "assistant", "content": text}] for text in (RIGHT, WRONG)]
    assert accuracy()(["p", "p"], chat, answer=["7", "7"]) == [1.0, 0.0]
    assert answer_format()(["p", "p"], chat) == [1.0, 1.0]


def test_a_dataset_may_have_a_column_of_any_name() -> None:
    columns = {"texts": ["a"], "score": [1], "self": ["b"]}
    assert accuracy()(["p"], [RIGHT], answer=["7"], **columns) == answer_format()(["p"], [RIGHT], **columns) == [1.0]


@pytest.mark.parametrize("text", HOSTILE)
def test_malformed_text_earns_nothing_for_form_and_never_raises(text: str) -> None:
    assert answer_format()(["p"], [text]) == [0.0]
    assert accuracy()(["p"], [text], answer=["7"])[0] in (0.0, 1.0)
    (share,) = language_consistency()(["p"], [text])
    assert share is None or 0 <= share <= 1


def test_general_rows_have_no_accuracy_and_no_format() -> None:
    columns = {"answer": [None], "task": ["general"], "entry": [None]}
    assert accuracy()(["p"], ["Hello!"], **columns) == [None]
    assert answer_format()(["p"], ["Hello!"], **columns) == [None]
    assert language_consistency()(["p"], ["Guten Tag!"], **columns) == [None]


def test_ungradable_gold_is_skipped_not_zeroed() -> None:
    assert accuracy()(["p"], [RIGHT], answer=["7"], task=["no_such_family"], entry=["{}"]) == [None]
    reward = combine({"accuracy": {}, "answer_format": {}})
    assert reward(["p"], [RIGHT], answer=["7"], task=["no_such_family"], entry=["{}"]) == [None]


def test_a_call_costs_its_weight_on_every_row_and_what_is_written_costs_nothing() -> None:
    texts = [RIGHT, WRONG, "Hello!", "<tool>7</tool>" * 9]
    columns = {"task": ["x", "x", "general", "x"], "tool_calls": [1, 3, 2, 0]}
    scores = tool_calls()(["p"] * 4, texts, **columns)
    assert scores == [-1.0, -3.0, -2.0, 0.0] and str(scores[3]) == "0.0"
    priced = {"answer_format": {"weight": 0.2}, "tool_calls": {"weight": 0.05}}
    assert combine(priced)(["p"] * 4, texts, **columns) == pytest.approx([0.15, 0.05, -0.1, 0.0])


def test_calls_cannot_be_counted_without_an_environment() -> None:
    with pytest.raises(UserError, match=r"^reward tool_calls: there is no column 'tool_calls'; set environment"):
        tool_calls()(["p"], [RIGHT], answer=["7"])


def test_language_consistency_without_words_is_not_applicable() -> None:
    assert language_consistency()(["p"], ["<think>2+5=7</think><answer>7</answer>"]) == [None]


def test_combine_adds_up_the_parts_that_apply_and_logs_them() -> None:
    specs = {
        "accuracy": {"weight": 1.0},
        "answer_format": {"weight": 0.2},
        "english": {"name": "language_consistency", "weight": 0.1},
    }
    logged: dict[str, float] = {}
    completions = [RIGHT, WRONG, "Hello!"]
    columns = {"answer": ["7", "7", None], "task": [None, None, "general"], "entry": [None] * 3}
    rewards = combine(specs)(["p"] * 3, completions, log_metric=logged.__setitem__, trainer_state=None, **columns)
    assert rewards == [pytest.approx(1.3), pytest.approx(0.2), None]
    assert logged["rewards/accuracy"] == logged["accuracy"] == 0.5
    assert logged["rewards/accuracy/none"] == pytest.approx(1 / 3)
    assert logged["rewards/english"] == 0.5


def test_rows_do_not_see_each_other() -> None:
    reward = combine(config("reasoning"))
    completions = [RIGHT, WRONG, RIGHT, "", "<think>x</think><answer>7</answer>"]
    together = reward(["p"] * 5, completions, answer=["7"] * 5)
    apart = [reward(["p"], [completion], answer=["7"])[0] for completion in completions]
    backwards = reward(["p"] * 5, completions[::-1], answer=["7"] * 5)[::-1]
    assert together == apart == backwards


@pytest.mark.parametrize("golds", [["7"], ["7", "7", "7"], []])
def test_a_column_of_another_length_is_refused_by_its_name(golds: list[str]) -> None:
    with pytest.raises(UserError, match=rf"reward accuracy: the column 'answer' has {len(golds)} values for 2"):
        accuracy()(["p", "p"], [RIGHT, WRONG], answer=golds)


@pytest.mark.parametrize("name", ["zero", "reasoning", "reasoning_calls", "format"])
def test_configs_can_be_built(name: str) -> None:
    combine(config(name))


def test_ablation_of_language_is_zero_rl_s_rewards() -> None:
    without = {label: spec for label, spec in config("reasoning").items() if label != "language_consistency"}
    assert without == config("zero")


def test_reward_model_must_see_something(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="neither 'summary' nor 'response'"):
        reward_model(tmp_path, sees="all")


def test_importing_rewards_imports_no_torch() -> None:
    program = "import sys, r1flow.rewards, r1flow.grading.replies; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
