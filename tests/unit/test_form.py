"""Form is one block and one answer with something in both; tags, steps and reflections are counted and can be faked."""

import pytest

from r1flow.core.errors import UserError
from r1flow.rewards import (
    accuracy,
    answer_format,
    language_consistency,
    reasoning_steps,
    reflection_count,
    tag_count,
)
from r1flow.rewards.combine import combine

WHOLE = "<think>2 + 5 = 7</think>so it is <answer>7</answer>"


def one(reward, text: str, **columns) -> float | None:
    """The reward of one completion, which must be the same among others, and as a chat."""
    (alone,) = reward(["p"], [text], **columns)
    chat = [{"role": "assistant", "content": text}]
    others = {name: values * 3 for name, values in columns.items()}
    assert reward(["p", "q", "p"], [text, WHOLE, chat], **others)[::2] == [alone, alone]
    return alone


def in_parts(text: str) -> list[dict[str, str]]:
    """A response as a chat that keeps its reasoning apart."""
    reasoning, _, reply = text.removeprefix("<think>").partition("</think>")
    return [{"role": "assistant", "content": reply, "reasoning_content": reasoning}]


@pytest.mark.parametrize("prefilled", [False, True])
def test_reasoning_that_a_chat_keeps_apart_is_paid_as_between_its_tags(prefilled: bool) -> None:
    steps = "<think>1. two\n2. five</think>so it is <answer>7</answer>"
    rewards = [answer_format(prefilled), answer_format(prefilled, summary=True), tag_count(prefilled)]
    rewards += [reasoning_steps(2, prefilled), language_consistency(prefilled=prefilled)]
    for reward in rewards:
        assert reward(["p"], [in_parts(steps)]) == [1.0]
    assert accuracy()(["p"], [in_parts(steps)], answer=["7"]) == [1.0]
    assert answer_format(prefilled)(["p"], [in_parts("<think>a <think> b</think><answer>7</answer>")]) == [0.0]
    assert answer_format(prefilled)(["p"], [in_parts("<think></think><answer>7</answer>")]) == [0.0]


@pytest.mark.parametrize(
    "text", [WHOLE, " <think>7</think><answer> 7 </answer>\n", "<think>空集</think><answer>∅</answer>"]
)
def test_one_block_and_one_answer_is_well_formed(text: str) -> None:
    assert one(answer_format(), text) == 1.0


MALFORMED = [
    "",
    "7",
    "<think>2 + 5<answer>7</answer>",
    "2 + 5</think><answer>7</answer>",
    "<think>a</think><answer>7",
    "<think>a</think><answer>7</answer> and more",
    "x <think>a</think><answer>7</answer>",
    "<think>a</think><think>b</think><answer>7</answer>",
    "<think>a</think><answer>6</answer><answer>7</answer>",
    "<think>a<answer>6</answer></think><answer>7</answer>",
    "<answer>7</answer><think>a</think>",
    "\x00\ud800",
    "<think>" * 100_000,
    "<think>a</think>" + "<answer>" * 100_000,
    "7" * 1_000_000,
]
EMPTY = [
    "",
    " \n\t",
    "\u200b",
    "\u2800\u3164",
    "\u00a0",
    "\x00",
    "\u034f",
    "\ufe0f\U000e0100",
    "\u180b",
    "\U0001d159",
    "\u0301",
]  # nothing that can be seen


@pytest.mark.parametrize("text", MALFORMED)
@pytest.mark.parametrize("summary", [False, True])
def test_anything_else_is_malformed(text: str, summary: bool) -> None:
    assert one(answer_format(summary=summary), text) == 0.0


@pytest.mark.parametrize("nothing", EMPTY)
@pytest.mark.parametrize("summary", [False, True])
def test_empty_reasoning_and_empty_answers_earn_nothing(nothing: str, summary: bool) -> None:
    reward = answer_format(summary=summary)
    assert one(reward, f"<think>{nothing}</think>it is <answer>7</answer>") == 0.0
    assert one(reward, f"<think>a</think>it is <answer>{nothing}</answer>") == 0.0
    assert one(reward, f"<think>a</think>it is \\boxed{{{nothing}}}") == 0.0


def test_signs_alone_are_no_reasoning() -> None:
    assert one(answer_format(), "<think>... !</think><answer>7</answer>") == 0.0


def test_prefilled_means_that_the_prompt_has_opened_the_block() -> None:
    tail = WHOLE.removeprefix("<think>")
    assert one(answer_format(prefilled=True), tail) == 1.0
    assert one(answer_format(prefilled=True), WHOLE) == 0.0  # opened twice
    assert one(answer_format(), tail) == 0.0


@pytest.mark.parametrize(
    "tail",
    [
        "so it is <answer>7</answer>",
        "The answer is \\boxed{7}.",
        "答えは<answer>7</answer>",
        "It is \\boxed{\\frac{1}{2}}",
        "It is \\boxed {7}.",
        "It is \\framebox{7}.",
    ],
)
def test_a_summary_carries_the_answer_in_text(tail: str) -> None:
    assert one(answer_format(summary=True), f"<think>a</think>{tail}") == 1.0


@pytest.mark.parametrize(
    "tail",
    [
        "<answer>7</answer>",
        " . <answer>7</answer>",
        "\\boxed{7}",
        "7",
        "the answer is 7",
        "it is \\boxed{7} or \\boxed{8}",
        "it is \\boxed{7",
        "it is \\boxed{ }",
        "it is \\boxed{7} <answer>8",
        "<answer>it is \\boxed{7}</answer>",
    ],
)
def test_a_bare_answer_and_an_unmarked_one_are_no_summary(tail: str) -> None:
    assert one(answer_format(summary=True), f"<think>a</think>{tail}") == 0.0


@pytest.mark.parametrize("factory", [answer_format, tag_count, reasoning_steps])
def test_general_rows_have_no_form(factory) -> None:
    scores = factory()(["p"], [WHOLE], task=["general"])
    assert scores == [None]
    assert not scores.failed(0)


@pytest.mark.parametrize(
    ("text", "share"),
    [("", 0.0), ("<think>", 0.25), ("<think>a</think>", 0.5), (WHOLE, 1.0), ("<think>" + WHOLE, 0.75)],
)
def test_tags_count_when_they_occur_once(text: str, share: float) -> None:
    assert one(tag_count(), text) == share


def test_tag_count_knows_a_prefilled_block() -> None:
    assert one(tag_count(prefilled=True), "a</think><answer>7</answer>") == 1.0
    assert one(tag_count(prefilled=True), WHOLE) == 0.75


def test_tag_count_does_not_see_order() -> None:
    """A known way to fake it, which answer_format does not pay."""
    assert one(tag_count(), "</answer></think><answer><think>") == 1.0
    assert one(answer_format(), "</answer></think><answer><think>") == 0.0


@pytest.mark.parametrize(
    "reasoning",
    [
        "Step 1: add.\nStep 2: take away.\nStep 3: check.",
        "1. add\n2. take away\n3) check",
        "- add\n* take away\n• check",
        "First, we add. Next, we take away. Finally, we check.",
        "first 8 + 16 = 24, then 24 - 19 = 5, then 5 * 2 = 10",
    ],
)
def test_marked_steps_are_counted(reasoning: str) -> None:
    assert one(reasoning_steps(), f"<think>{reasoning}</think><answer>7</answer>") == 1.0
    assert one(reasoning_steps(target=6), f"<think>{reasoning}</think><answer>7</answer>") == 0.5


@pytest.mark.parametrize(
    "reasoning",
    [
        "we add and then check",
        "the first number and the second",
        "1.5 and 2.5",
        "8 - 3 - 2",
        "Step 1: Step 2: Step 3:",
        "1.\n2.\n3.\n",
        "- \n- ...\n- !",
    ],
)
def test_unmarked_and_empty_steps_are_none(reasoning: str) -> None:
    assert one(reasoning_steps(), f"<think>{reasoning}</think><answer>7</answer>") == 0.0


def test_a_repeated_step_counts_once() -> None:
    assert one(reasoning_steps(target=3), "<think>" + "- add\n" * 1000 + "</think>") == pytest.approx(1 / 3)


def test_steps_outside_the_reasoning_do_not_count() -> None:
    assert one(reasoning_steps(), "<think>7</think>1. add\n2. check\n3. stop <answer>7</answer>") == 0.0


@pytest.mark.parametrize("unit", ["\t", "\n", "- ", "1. ", "step ", "step 1: ", "first, ", "\n\t- a", "\x00\ud800"])
def test_hostile_reasoning_is_counted_and_never_raises(unit: str) -> None:
    assert 0 <= one(reasoning_steps(), unit * (300_000 // len(unit))) <= 1


def test_reflections_are_counted_as_whole_words() -> None:
    assert one(reflection_count(), "Wait, 7. Let  me check: hmm. waiter, mistaken") == 3
    assert one(reflection_count(words=["等等", "noch einmal"]), "等等我们 noch\neinmal") == 2
    assert one(reflection_count(words=[]), "wait") == 0


def test_a_reward_of_weight_0_is_logged_and_pays_nothing() -> None:
    reward = combine({"answer_format": {"weight": 1.0}, "reflection_count": {"weight": 0}})
    logged: dict[str, float] = {}
    texts = [WHOLE, "wait, wait"]
    columns = {"task": [None, "general"]}
    assert reward(["p", "p"], texts, log_metric=logged.__setitem__, **columns) == [1.0, None]
    assert logged["rewards/reflection_count"] == 1.0


def test_a_target_of_no_steps_is_refused() -> None:
    with pytest.raises(UserError, match="target must be at least 1"):
        reasoning_steps(target=0)
