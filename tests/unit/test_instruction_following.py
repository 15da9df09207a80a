"""The reward for following instructions: paid by the row's rule alone, absent without one, never raising."""

import json

import pytest

from r1flow.grading.verdict import Cause
from r1flow.rewards import instruction_following

SHORT = json.dumps({"type": "words", "least": None, "most": 6})
LIST = json.dumps({"type": "items", "count": 2})
ASK_NOTHING = (
    '{"type": "in_language", "language": "xx", "languages": []}',
    '{"type": "sentence_with", "word": ""}',
    '{"type": "has_words", "words": ["!"]}',
)


def test_each_row_is_paid_by_its_own_rule() -> None:
    reply = "- some bread\n- some water"
    assert instruction_following()(["a"] * 4, [reply] * 4, check=[SHORT, LIST, None, "{}"]) == [1.0, 1.0, None, None]
    wordy = f"Take these, please:\n{reply}"
    assert instruction_following()(["a"] * 2, [wordy] * 2, check=[SHORT, LIST]) == [0.0, 1.0]
    assert instruction_following()(["a"], [f"<think>{reply}</think>I don't know any."], check=[LIST]) == [0.0]


def test_data_without_rules_has_no_scores() -> None:
    scores = instruction_following()(["a", "b"], ["x", "y"])
    assert scores == [None, None] and set(scores.causes.values()) == {Cause.NOT_APPLICABLE}


@pytest.mark.parametrize("text", ["one two three", "one", ""])
@pytest.mark.parametrize(
    "check", ["{", "[1]", "[" * 10**5, '{"type": "rhymes"}', '{"type": "items"}', '"items"', "3", *ASK_NOTHING]
)
def test_a_damaged_rule_is_the_datas_fault_whatever_the_text_says(check: str, text: str) -> None:
    scores = instruction_following()(["a"], [text], check=[check])
    assert scores == [None] and scores.causes == {0: Cause.UNGRADABLE}
