"""Repetition is the share of n-grams that have been there before, in any language, in linear time."""

import time

import pytest

from r1flow.core.errors import UserError
from r1flow.rewards import repetition


def penalty(text: str, size: int = 2, **arguments) -> float:
    return repetition(ngram_size=size, **arguments)(["p"], [text])[0]


@pytest.mark.parametrize("text", ["", "so", "so we add", "eins zwei drei vier", "8 + 16 = 24"])
def test_text_without_repetition_loses_nothing(text: str) -> None:
    assert str(penalty(text)) == "0.0"  # and not -0.0


def test_penalty_is_the_share_of_repeated_ngrams() -> None:
    assert penalty("so we add so we add") == pytest.approx(-0.4)
    assert penalty("so we add so we add", max_penalty=-2.0) == pytest.approx(-0.8)
    assert penalty("so we add so we add", size=3) == pytest.approx(-0.25)
    assert penalty("so so so so", size=1) == pytest.approx(-0.75)
    assert penalty("so we add", size=4) == 0.0


def test_case_and_punctuation_do_not_hide_a_repetition() -> None:
    assert penalty("So we add. SO, we... add!") == penalty("so we add so we add")
    assert penalty("so w\u200be add so we add") == penalty("so we add so we add")
    assert penalty("*so* _we_ (add) so-we-add") == penalty("so we add so we add")


@pytest.mark.parametrize(
    "unit", ["我们先把两个数相加。", "まず二つの数を足します。", "мы складываем числа. ", "8 + 16 = 24. ", "? ! ", "+"]
)
def test_loops_are_seen_in_every_script_and_in_signs(unit: str) -> None:
    assert penalty(unit * 50) < -0.9
    assert penalty(unit * 50, size=3) < -0.9


def test_chinese_is_cut_into_words() -> None:
    assert penalty("首先我们检查答案") == 0.0
    assert penalty("我们检查答案，我们检查答案") == pytest.approx(-0.4)


def test_rows_do_not_see_each_other() -> None:
    texts = ["so we add so we add", "", "a b", "so we add so we add", "\x00\ud800", "7" * 100_000]
    together = repetition()(["p"] * len(texts), texts)
    assert together == [repetition()(["p"], [text])[0] for text in texts]
    assert together == repetition()(["p"] * len(texts), texts[::-1])[::-1]


@pytest.mark.parametrize("unit", ["so ", "a", "我", "\u0301", "! ", "\x00", "ab-"])
def test_a_long_text_is_measured_in_bounded_time(unit: str) -> None:
    begin = time.process_time()
    assert -1 <= penalty(unit * (500_000 // len(unit))) <= 0
    assert time.process_time() - begin < 10


@pytest.mark.parametrize(("arguments", "message"), [((0,), "at least 1"), ((2, 1.0), "must not be positive")])
def test_arguments_that_make_no_sense_are_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(UserError, match=message):
        repetition(*arguments)
