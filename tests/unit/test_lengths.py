"""Length rewards keep to their papers, know tokens from characters, and inherit what accuracy can't grade."""

import math

import pytest

from r1flow.core.errors import UserError
from r1flow.grading.verdict import Cause
from r1flow.rewards import cosine_length, kimi_length, lengths, overlong
from r1flow.rewards.scores import Scores, reward

RIGHT, WRONG = "<think>a</think><answer>7</answer>", "<think>a</think><answer>8</answer>"
HOSTILE = ["", "<think>", "<answer>7</answer>" * 2, "7" * 1_000_000, "\x00\ud800", "</think><answer>7"]


def ids(*counts: int) -> list[list[int]]:
    return [[1] * count for count in counts]


def scored(factory, texts: list[str], counts: list[int], prompts: list | None = None) -> list[float | None]:
    return factory(prompts or ["p"] * len(texts), texts, completion_ids=ids(*counts), answer=["7"] * len(texts))


@pytest.mark.parametrize(
    ("tokens", "score"), [(0, 0.0), (80, 0.0), (81, -0.05), (90, -0.5), (100, -1.0), (101, -1.0), (10_000, -1.0)]
)
def test_overlong_falls_over_the_buffer_and_no_further(tokens: int, score: float) -> None:
    assert overlong(max_length=100, buffer=20)(["p"], [RIGHT], completion_ids=ids(tokens)) == [pytest.approx(score)]


def test_lengths_are_tokens_where_there_are_any_and_else_characters() -> None:
    assert overlong(100, 20)(["p"], ["a" * 90]) == [-0.5]
    assert overlong(100, 20)(["p"], ["a" * 90], completion_ids=ids(10)) == [0.0]
    assert overlong(100, 20)(["p"], [[{"role": "assistant", "content": "a" * 90}]]) == [-0.5]


@pytest.mark.parametrize(
    ("text", "tokens", "score"),
    [
        (RIGHT, 0, 1.0),
        (RIGHT, 50, 0.75),
        (RIGHT, 25, 0.75 + 0.25 * math.sqrt(0.5)),
        (RIGHT, 100, 0.5),
        (WRONG, 0, -1.0),
        (WRONG, 50, -0.75),
        (WRONG, 100, -0.5),
    ],
)
def test_cosine_of_right_and_wrong_answers(text: str, tokens: int, score: float) -> None:
    assert scored(cosine_length(max_length=100), [text], [tokens]) == [pytest.approx(score)]


@pytest.mark.parametrize("tokens", [101, 150, 200, 1_000_000])
def test_cosine_does_not_come_back_beyond_the_maximum(tokens: int) -> None:
    assert scored(cosine_length(max_length=100), [RIGHT, WRONG], [tokens, tokens]) == [0.5, -0.5]


def test_cosine_values_can_be_those_of_the_paper() -> None:
    reward = cosine_length(max_length=100, right=(2.0, 1.0), wrong=(-10.0, 0.0))
    assert scored(reward, [RIGHT, RIGHT, WRONG, WRONG], [0, 100, 0, 100]) == [2.0, 1.0, -10.0, 0.0]


def test_kimi_compares_within_the_group_of_a_prompt() -> None:
    texts = [RIGHT, RIGHT, RIGHT, WRONG, WRONG, WRONG]
    found = scored(kimi_length(), texts, [10, 20, 30, 10, 20, 30])
    assert found == [0.5, 0.0, -0.5, 0.0, 0.0, -0.5]


def test_kimi_groups_don_t_mix_and_their_order_doesn_t_matter() -> None:
    prompts = ["p", "q", "p", "q"]
    assert scored(kimi_length(), [RIGHT] * 4, [10, 500, 30, 700], prompts) == [0.5, 0.5, -0.5, -0.5]
    assert scored(kimi_length(), [RIGHT] * 2, [10, 30]) == [0.5, -0.5]
    assert scored(kimi_length(), [RIGHT] * 4, [700, 30, 500, 10], prompts[::-1]) == [-0.5, -0.5, 0.5, 0.5]


def test_kimi_takes_chat_prompts() -> None:
    chats = [[{"role": "user", "content": name}] for name in "pqpq"]
    assert scored(kimi_length(), [RIGHT] * 4, [10, 500, 30, 700], chats) == [0.5, 0.5, -0.5, -0.5]


def test_kimi_groups_of_one_length_get_nothing() -> None:
    assert scored(kimi_length(), [RIGHT, WRONG], [10, 10]) == [0.0, 0.0]
    assert scored(kimi_length(), [RIGHT], [10]) == [0.0]


@pytest.mark.parametrize("factory", [cosine_length(max_length=100), kimi_length()])
def test_what_accuracy_cannot_grade_has_no_length_reward_and_keeps_its_cause(factory, monkeypatch) -> None:
    @reward
    def stand_in(prompts, texts, **columns):
        return Scores.of([Cause.UNGRADABLE, Cause.INFRASTRUCTURE, Cause.NOT_APPLICABLE, (0.0, Cause.TIMEOUT), 1.0])

    monkeypatch.setattr(lengths, "accuracy", lambda gold_column: stand_in)
    scores = scored(factory, [RIGHT] * 5, [10, 20, 30, 50, 50])
    assert scores[:3] == [None] * 3
    assert scores.causes == {
        0: Cause.UNGRADABLE,
        1: Cause.INFRASTRUCTURE,
        2: Cause.NOT_APPLICABLE,
        3: Cause.TIMEOUT,
    }
    assert scores[3] < scores[4] or factory.__name__ == "kimi_length"


def test_general_rows_have_no_length_reward_by_accuracy() -> None:
    columns = {"answer": [None], "task": ["general"], "completion_ids": ids(5)}
    assert cosine_length(max_length=100)(["p"], ["Hello!"], **columns) == [None]
    assert kimi_length()(["p"], ["Hello!"], **columns) == [None]
    assert overlong(100, 20)(["p"], ["Hello!"], **columns) == [0.0]


def test_gold_may_be_in_another_column() -> None:
    assert cosine_length(max_length=100, gold_column="gold")(["p"], [RIGHT], gold=["7"], completion_ids=ids(0)) == [1.0]
    with pytest.raises(UserError, match="no column 'gold'"):
        kimi_length(gold_column="gold")(["p"], [RIGHT], answer=["7"])


@pytest.mark.parametrize("factory", [overlong(100, 20), cosine_length(max_length=100)])
def test_rows_do_not_see_each_other_and_hostile_text_has_a_score(factory) -> None:
    texts = [RIGHT, *HOSTILE, WRONG, RIGHT]
    together = factory(["p"] * len(texts), texts, answer=["7"] * len(texts))
    assert together == [factory(["p"], [text], answer=["7"])[0] for text in texts]
    assert all(-1 <= score <= 1 for score in together)


def test_kimi_scores_hostile_text() -> None:
    assert all(-0.5 <= score <= 0.5 for score in kimi_length()(["p"] * len(HOSTILE), HOSTILE, answer=["7"] * 6))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: overlong(100, 0), "buffer must be above 0"),
        (lambda: overlong(100, 200), "at most max_length"),
        (lambda: cosine_length(max_length=0), "at least 1"),
    ],
)
def test_lengths_that_make_no_sense_are_refused(make, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()
