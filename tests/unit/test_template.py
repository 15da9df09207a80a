"""Completions taken apart: whatever a model writes, hostile texts included."""

import signal
import threading
from functools import cached_property

import jinja2.sandbox
import pytest

from r1flow.core import template
from r1flow.core.errors import UserError
from r1flow.core.template import Response, render, split
from r1flow.programs.evaluate.compute import grader
from r1flow.rewards.combine import combine
from r1flow.sampling import Completion

WHOLE = "<think>8 + 16 = 24, then 24 - 19 = 5.</think>the result is <answer>5</answer>"


def test_a_response_of_the_form_is_taken_apart():
    response = Response(WHOLE)
    assert response.reasoning == "8 + 16 = 24, then 24 - 19 = 5."
    assert response.summary == "the result is 5"
    assert response.answer == "5"
    assert response.well_formed


def test_a_summary_before_the_answer_is_optional_and_space_around_is_allowed():
    assert Response(" <think>x</think><answer> 5 </answer>\n").well_formed
    assert Response("<think>x</think><answer> 5 </answer>").answer == "5"


def test_a_plain_reply_is_all_summary():
    response = Response("Hello! How can I help you?")
    assert (response.reasoning, response.answer, response.well_formed) == (None, None, False)
    assert response.summary == "Hello! How can I help you?"


def test_reasoning_before_a_plain_reply_is_not_shown_to_the_reader():
    assert Response("<think>the dog is der Hund.</think>Der Hund.").summary == "Der Hund."


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
    assert not Response(text).well_formed


def test_the_last_of_several_answers_counts():
    assert Response("<think>x</think><answer>5</answer> no <answer>6</answer>").answer == "6"


def test_an_answer_inside_the_reasoning_is_none():
    assert Response("<think><answer>5</answer></think>the result is 6").answer is None


def test_tags_never_show_in_a_summary():
    assert "<" not in Response("<think>x</think>so <answer>5</answer> or <answer>6</answer>").summary


def test_a_prefilled_prompt_has_opened_the_reasoning():
    response = Response.parse(WHOLE.removeprefix("<think>"), prefilled=True)
    assert (response, response.well_formed) == (WHOLE, True)
    assert Response.parse("we add</think>das ist <answer>7</answer>", prefilled=True).reasoning == "we add"
    assert not Response.parse(WHOLE, prefilled=True).well_formed  # opened twice


@pytest.mark.parametrize("text", ["", "<think>", "</think>", "x", "<answer>5</answer>", "\ud800\x00"])
def test_a_prefilled_fragment_is_not_well_formed(text):
    assert not Response.parse(text, prefilled=True).well_formed


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
    assert Response(text).thinks is thought


def test_a_response_is_text_and_parsing_it_again_keeps_its_parts():
    response = Response.parse(WHOLE)
    assert response == WHOLE and Response.parse(response) is response and split(response) is response
    assert Response.parse(response, prefilled=True) is response.opened


@pytest.fixture
def taken_apart(monkeypatch) -> list[str]:
    """Every text that is taken apart."""
    texts, find = [], Response.blocks.func
    blocks = cached_property(lambda response: texts.append(response) or find(response))
    blocks.__set_name__(Response, "blocks")
    monkeypatch.setattr(Response, "blocks", blocks)
    return texts


def test_all_rewards_of_a_combination_share_each_responses_parts(taken_apart):
    names = ("accuracy", "answer_format", "reasoning_steps", "language_consistency", "instruction_following")
    reward = combine({name: {"weight": 1.0} for name in names})
    texts = [WHOLE, "we add", "<think>8 + 16 = 24"]
    columns = {
        "task": ["chain_sum"] * 3,
        "entry": ['{"question": "q", "answer": "5", "metadata": {}}'] * 3,
        "answer": ["5"] * 3,
        "check": ['{"type": "in_case", "case": "lower"}'] * 3,
    }
    reward(["p"] * 3, texts, **columns)
    assert sorted(taken_apart) == sorted(texts)


def test_an_evaluation_takes_each_response_apart_once(taken_apart):
    grade = grader("en", ("en", "de"), ["wait"])
    entry = '{"question": "q", "answer": "5", "metadata": {}}'
    problem = {"id": "1", "task": "chain_sum", "question": "q", "answer": "5", "entry": entry}
    prompt = {"id": "2", "task": "general", "kind": "greeting", "question": "hi", "check": '{"type": "greets"}'}
    for asked in (problem, prompt):
        grade(asked, Completion(ids=[1], text=WHOLE, finished=True))
    assert taken_apart == [WHOLE] * 2


def test_a_template_that_never_ends_for_some_question_is_one_line(monkeypatch):
    """What was tried once may still wait for a longer question."""
    monkeypatch.setattr(template, "RENDER_S", 0.3)
    loop = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    text = "{{ messages[-1].content }}{% if messages[-1].content|length > 9 %}" + loop + "{% endif %}"
    rendered = jinja2.sandbox.ImmutableSandboxedEnvironment().from_string(text)

    class Tokenizer:
        chat_template = text

        def apply_chat_template(self, messages, **options):
            return rendered.render(messages=messages)

    before = signal.getsignal(signal.SIGVTALRM)
    assert render(Tokenizer(), "short") == "short"
    with pytest.raises(UserError, match=r"can't show a question \(it takes more than 0.3 s\); use another"):
        render(Tokenizer(), "a longer question")
    assert signal.getsignal(signal.SIGVTALRM) == before and signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    in_thread = threading.Thread(target=lambda: render(Tokenizer(), "short"))
    in_thread.start()
    in_thread.join()


def test_a_template_that_raises_is_one_line():
    class Tokenizer:
        def apply_chat_template(self, messages, **options):
            raise TypeError("roles must\nalternate")

    with pytest.raises(UserError, match=r"can't show a question \(roles must alternate\); use another"):
        render(Tokenizer(), "?")
