"""Ours beside TRL's rewards: docs/rewards/index.md says where they are equal and where they differ."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from trl.rewards import (
    accuracy_reward,
    get_cosine_scaled_reward,
    get_repetition_penalty_reward,
    get_soft_overlong_punishment,
    reasoning_accuracy_reward,
    think_format_reward,
)

from r1flow.rewards import accuracy, answer_format, cosine_length, overlong, repetition
from r1flow.rewards.combine import combine

PAGE = Path("docs/rewards/index.md")
RIGHT, WRONG = "\\boxed{7}", "\\boxed{8}"


def chats(*texts: str) -> list[list[dict[str, str]]]:
    return [[{"role": "assistant", "content": text}] for text in texts]


@pytest.mark.parametrize(("max_length", "buffer"), [(100, 20), (100, 100), (7, 3)])
def test_overlong_is_trls_and_dapos(max_length: int, buffer: int) -> None:
    ids = [[1] * count for count in range(2 * max_length)]
    found = overlong(max_length, buffer)(["p"] * len(ids), ["a"] * len(ids), completion_ids=ids)
    assert found == get_soft_overlong_punishment(max_length, buffer)(ids)
    assert found == [max(-1.0, min(0.0, (max_length - buffer - len(row)) / buffer)) for row in ids]


def test_the_cosine_is_trls_where_both_grade_alike() -> None:
    ids = [[1] * count for count in (0, 25, 50, 99, 100, 101, 500)] * 2
    texts = [RIGHT] * 7 + [WRONG] * 7
    ours = cosine_length(max_length=100)(["p"] * 14, texts, answer=["7"] * 14, completion_ids=ids)
    assert ours == pytest.approx(get_cosine_scaled_reward(100)(chats(*texts), ["7"] * 14, ids), abs=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_repetition_is_trls_where_a_word_is_a_token(size: int) -> None:
    texts = ["so we add so we add", "", "so", "so so so so", "a thing and a thing and then a thing"]
    ids = [[sum(map(ord, word)) for word in text.split()] for text in texts]
    ours = repetition(size)(["p"] * len(texts), texts)
    assert ours == pytest.approx(get_repetition_penalty_reward(size)(ids))


def test_commas_and_case_hide_a_loop_from_trls_but_not_from_ours() -> None:
    words = {"So": 1, "so": 2, "add,": 3, "add": 4}
    text = "So add, so add"
    assert repetition(2)(["p"], [text]) == [pytest.approx(-1 / 3)]
    assert get_repetition_penalty_reward(2)([[words[word] for word in text.split()]]) == [0.0]


def test_the_pages_table_of_accuracy_holds() -> None:
    rows = re.findall(
        r"^\| `([^`]+)`[^|]*\| (\d\.0)[^|]*\| (\d\.0)[^|]*\| (\d\.0)[^|]*\|$", PAGE.read_text(), re.MULTILINE
    )
    assert len(rows) == 5
    for text, *expected in rows:
        found = [
            *accuracy_reward(chats(text), ["7"]),
            *reasoning_accuracy_reward(chats(text), ["7"]),
            *accuracy()(["p"], [text], answer=["7"]),
        ]
        assert found == list(map(float, expected)), text


def test_a_gold_that_cant_be_read_has_no_score_in_either() -> None:
    assert accuracy_reward(chats("7"), ["\\frac{"]) == accuracy()(["p"], ["7"], answer=["\\frac{"]) == [None]


@pytest.mark.parametrize(
    ("text", "theirs", "ours"),
    [
        ("<think>a</think><answer>7</answer>", 1.0, 1.0),
        ("<think></think>", 1.0, 0.0),
        ("<think>a</think>7", 1.0, 0.0),
        ("x<think>a</think><answer>7</answer>", 0.0, 0.0),
    ],
)
def test_trls_format_asks_for_the_block_alone(text: str, theirs: float, ours: float) -> None:
    assert think_format_reward(chats(text)) == [theirs]
    assert answer_format()(["p"], [text]) == [ours]


def test_trls_rewards_over_ids_can_be_named_in_a_config() -> None:
    spec = {"name": "trl.rewards.get_repetition_penalty_reward", "weight": 0.5, "args": {"ngram_size": 2}}
    assert combine({"loops": spec})(["p"], ["x"], completion_ids=[[5] * 5]) == [pytest.approx(-0.375)]


def test_building_a_reward_over_lengths_imports_no_torch() -> None:
    use = "from r1flow.rewards import overlong; overlong(9, 3)(['p'], ['x'])"
    program = f"import sys; {use}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
