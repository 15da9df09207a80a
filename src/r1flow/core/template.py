"""The form of a response: its tags, and how a completion is split into reasoning and answer.

A reasoning response has its reasoning in one block and its answer in another (DeepSeek-R1, Table 1 and section 2.3.1):

    <think>we start with 8 + 16 = 24, then 24 - 19 = 5.</think>the result is <answer>5</answer>

A general response is a plain reply, with or without a reasoning block before it. What a user reads, the summary, is
everything after the reasoning.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from r1flow.core.errors import UserError
from r1flow.core.language import tokens

THINK_OPEN, THINK_CLOSE = "<think>", "</think>"
ANSWER_OPEN, ANSWER_CLOSE = "<answer>", "</answer>"
GENERAL = "general"  # the `task` of prompts without a checkable answer
# Characters that are not displayed: control and format characters, fillers that Unicode calls letters, selectors, tags.
INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
LEAST_THOUGHT = 5  # words and numbers; "this is easy." is an empty thought
TAGS = (THINK_OPEN, THINK_CLOSE, ANSWER_OPEN, ANSWER_CLOSE)


@dataclass(frozen=True)
class Parts:
    """The parts of a completion."""

    reasoning: str | None  # None: there is no closed reasoning block at the start
    summary: str  # what follows the reasoning, answer tags stripped
    answer: str | None  # None: there is no closed answer after the reasoning
    well_formed: bool  # one reasoning block at the very start, then text with one answer that ends it


def render(tokenizer: Any, question: str, before: Iterable[dict[str, str]] = ()) -> str:
    """The prompt: a chat template renders the turns `before` and a question; the completion follows it directly."""
    messages = [*before, {"role": "user", "content": question}]
    return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)


def check_tags(place: str, encode: Callable[[str], list[int]], decode: Callable[[list[int]], str]) -> None:
    """Raise UserError if a tokenizer loses the tags: rewards need them in decoded text.

    A tag may be several tokens, but must be unchanged after decoding, where `decode` leaves out special tokens.
    """
    text = "".join(f"{tag}x" for tag in TAGS)
    if (back := decode(encode(text))) != text:
        raise UserError(f"{place}: its tokenizer turns {text!r} into {back!r}; add the tags to it as ordinary tokens")


def split(completion: str, prefilled: bool = False) -> Parts:
    """Split a completion into its parts; never raises, whatever the model wrote.

    With several reasoning blocks or answers the last answer counts as the answer, and the completion isn't well formed.
    `prefilled`: the prompt ends with <think>, so that the completion begins inside the reasoning.
    """
    text = whole(completion, prefilled).strip()
    reasoning, rest = None, text
    if text.startswith(THINK_OPEN) and THINK_CLOSE in text:
        reasoning, _, rest = text[len(THINK_OPEN) :].partition(THINK_CLOSE)
    _, opened, inside = rest.rpartition(ANSWER_OPEN)
    answer, closed, after = inside.partition(ANSWER_CLOSE)
    complete = bool(opened and closed)
    once = all(text.count(tag) == 1 for tag in TAGS)
    return Parts(
        reasoning=reasoning,
        summary=rest.replace(ANSWER_OPEN, "").replace(ANSWER_CLOSE, "").strip(),
        answer=answer.strip() if complete else None,
        well_formed=reasoning is not None and complete and once and not after.strip(),
    )


def thinks(completion: str, prefilled: bool = False) -> bool:
    """Whether a completion begins with a thought of at least LEAST_THOUGHT words and numbers, finished or not."""
    begun, opened, rest = whole(completion, prefilled).lstrip().partition(THINK_OPEN)
    return bool(opened) and not begun and len(tokens(rest.partition(THINK_CLOSE)[0])) >= LEAST_THOUGHT


def whole(completion: str, prefilled: bool) -> str:
    """The completion; if the prompt was prefilled, with the opening tag put before it."""
    return THINK_OPEN + completion if prefilled else completion


def reasoning_of(completion: str, task: str | None, prefilled: bool = False) -> str:
    """The text whose language counts: the reasoning block; without one, all of it, but nothing of a general reply."""
    reasoning = split(completion, prefilled).reasoning
    if reasoning is not None:
        return reasoning
    return "" if task == GENERAL else completion
