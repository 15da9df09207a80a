"""Completions taken apart: whatever a model writes, hostile texts included."""

import pytest

from r1flow.core.template import reasoning_of, split, thinks

WHOLE = "<think>8 + 16 = 24, then 24 - 19 = 5.</think>the result is <answer>5</answer>"


def test_a_response_of_the_form_is_taken_apart():
    parts = split(WHOLE)
    assert parts.reasoning == "8 + 16 = 24, then 24 - 19 = 5."
    assert parts.summary == "the result is 5"
    assert parts.answer == "5"
    assert parts.well_formed


def test_a_summary_before_the_answer_is_optional_and_space_around_is_allowed():
    assert split(" <think>x</think><answer> 5 </answer>\n").well_formed
    assert split("<think>x</think><answer> 5 </answer>").answer == "5"


def test_a_plain_reply_is_all_summary():
    parts = split("Hello! How can I help you?")
    assert (parts.reasoning, parts.answer, parts.well_formed) == (None, None, False)
    assert parts.summary == "Hello! How can I help you?"


def test_reasoning_before_a_plain_reply_is_not_shown_to_the_reader():
    assert split("<think>the dog is der Hund.</think>Der Hund.").summary == "Der Hund."


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<think>",
        "<think>8 + 16 = 24",  # unclosed
        "<think>x</think>",  # no answer
        "<think>x</think><answer>5",  # unclosed answer
        "x<think>y</think><answer>5</answer>",  # text before
        "<think>x</think><think>y</think><answer>5</answer>",  # two blocks
        "<think>x</think><answer>5</answer><answer>6</answer>",  # two answers
        "<think><answer>5</answer></think><answer>5</answer>",  # an answer inside the reasoning
        "<think>x</think><answer>5</answer> and more",
        "</think><answer>5</answer><think>",
        "<answer>5</answer><think>x</think>",
        "<think>" * 10_000,
        "<answer>" * 10_000 + "</answer>" * 10_000,
    ],
)
def test_anything_else_is_not_well_formed(text):
    assert not split(text).well_formed


def test_the_last_of_several_answers_counts():
    assert split("<think>x</think><answer>5</answer> no <answer>6</answer>").answer == "6"


def test_an_answer_inside_the_reasoning_is_none():
    assert split("<think><answer>5</answer></think>the result is 6").answer is None


def test_tags_never_show_in_a_summary():
    assert "<" not in split("<think>x</think>so <answer>5</answer> or <answer>6</answer>").summary


def test_a_prefilled_prompt_has_opened_the_reasoning():
    assert split(WHOLE.removeprefix("<think>"), prefilled=True) == split(WHOLE)
    assert reasoning_of("we add</think>das ist <answer>7</answer>", None, prefilled=True) == "we add"
    assert not split(WHOLE, prefilled=True).well_formed  # opened twice


@pytest.mark.parametrize("text", ["", "<think>", "</think>", "x", "<answer>5</answer>", "\ud800\x00"])
def test_a_prefilled_fragment_is_not_well_formed(text):
    assert not split(text, prefilled=True).well_formed


@pytest.mark.parametrize(
    ("text", "thought"),
    [
        ("<think>8 + 16 = 24, so it is 24.</think><answer>24</answer>", True),
        (" <think>first 8 + 16 = 24, then", True),  # cut off
        ("<think></think><answer>24</answer>", False),
        ("<think>this is easy.</think><answer>24</answer>", False),
        ("8 + 16 = 24, so it is <think>24, yes it is 24</think>", False),  # not at its start
        ("<answer>24</answer>", False),
        ("", False),
    ],
)
def test_a_thought_has_at_least_five_words_or_numbers(text, thought):
    assert thinks(text) is thought
