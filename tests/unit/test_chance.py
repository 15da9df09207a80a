"""The coin is fair, independent of what a completion says, and the same whenever it is thrown for the same."""

import math
import random

import pytest

from r1flow.rewards import random_reward
from r1flow.rewards.combine import combine

TEXTS = [f"<think>{number}</think><answer>{number % 97}</answer>" for number in range(10_000)]


def paid(texts: list[str], seed: int = 1, prompt: object = "What is 2 + 5?", **columns) -> list[float]:
    return random_reward(seed)([prompt] * len(texts), texts, **columns)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_second_text_is_paid(seed: int) -> None:
    scores = paid(TEXTS, seed)
    assert set(scores) == {0.0, 1.0}
    assert abs(sum(scores) - 5000) < 4 * math.sqrt(2500)


@pytest.mark.parametrize("other", [{"seed": 2}, {"prompt": "What is 2 + 6?"}])
def test_another_seed_and_another_prompt_throw_other_coins(other: dict) -> None:
    same = sum(map(float.__eq__, paid(TEXTS), paid(TEXTS, **other)))
    assert abs(same - 5000) < 4 * math.sqrt(2500)


def test_right_answers_are_paid_no_more_than_wrong_ones() -> None:
    right = [score for text, score in zip(TEXTS, paid(TEXTS), strict=True) if "<answer>7<" in text]
    assert abs(sum(right) / len(right) - 0.5) < 4 * math.sqrt(0.25 / len(right))


def test_a_row_is_paid_the_same_wherever_and_whenever_it_comes() -> None:
    texts = TEXTS[:200]
    shuffled = random.Random(1).sample(texts, len(texts))
    expected = dict(zip(texts, paid(texts), strict=True))
    assert dict(zip(shuffled, paid(shuffled, task=["general"] * 200, answer=["7"] * 200), strict=True)) == expected
    assert [paid([text])[0] for text in texts] == list(expected.values())
    assert paid(["7"] * 8) == paid(["7"]) * 8


def test_known_coins_have_not_turned() -> None:
    """Another hash would give another training under the same configuration."""
    assert (
        "".join(str(int(score)) for score in paid([str(number) for number in range(24)])) == "101010010101011110000010"
    )


@pytest.mark.parametrize("text", ["", "\x00\ud800", "7" * 1_000_000, "<think>" * 10_000])
def test_any_text_is_paid_or_not(text: str) -> None:
    chat = [{"role": "assistant", "content": text}]
    assert paid([text])[0] in (0.0, 1.0)
    assert paid([chat]) == paid([text])
    assert paid([text], prompt=[{"role": "user", "content": text}])[0] in (0.0, 1.0)


def test_in_the_control_nothing_else_pays() -> None:
    config = {"accuracy": {"weight": 0.0}, "answer_format": {"weight": 0.0}, "random_reward": {"args": {"seed": 1}}}
    logged: dict[str, float] = {}
    texts = ["<think>a</think><answer>7</answer>", "8"]
    columns = {"answer": ["7", "7"], "task": ["chain_sum"] * 2, "log_metric": logged.__setitem__}
    assert combine(config)(["What is 2 + 5?"] * 2, texts, **columns) == paid(texts)
    assert logged["accuracy"] == logged["rewards/answer_format"] == 0.5
