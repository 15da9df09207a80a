"""Pays for the form of a response, whatever it says (DeepSeek-R1, section 2.2.2: thinking between the tags).

    answer_format()(prompts, ["<think>2+5</think><answer>7</answer>"])    # [1.0]

Form is cheap to fake, so give these rewards a low weight beside accuracy. Left out: whether the reasoning is any good.
"""

import re
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from r1flow.core.errors import UserError
from r1flow.core.language import any_of, tokens
from r1flow.core.template import GENERAL, INVISIBLE, TAGS, THINK_OPEN, Response, has_word, is_seen
from r1flow.grading.final import boxes
from r1flow.grading.verdict import Cause
from r1flow.rewards.scores import Reward, Scores, column, reward

REFLECTION_WORDS = ("wait", "hmm", "recheck", "double check", "double-check", "let me check", "check again", "mistake")
STEP = re.compile(
    r"^[ \t]*(?:[-*•]|\d{1,3}[.)])[ \t]+"  # a list
    r"|\bstep[ \t]+\d{1,4}[ \t]*[:.]"
    r"|(?:^[ \t]*|(?<=[.,;:!?][ \n]))(?:first|second|third|next|then|finally|lastly)(?:ly)?\b",
    re.IGNORECASE | re.MULTILINE,
)


def answer_format(prefilled: bool = False, summary: bool = False) -> Reward:
    """1.0 for one reasoning block followed by text with one answer at its end, else 0.0; None on general rows.

    Block and answer must contain visible text. `prefilled`: the prompt has opened the block. `summary`, the pattern of
    the cold start: the answer must be in a text for the reader, between its tags or, without tags, in one box.
    """

    @reward
    def answer_format(
        prompts: Sequence[Any], texts: list[str], /, task: list[str | None] | None = None, **columns: Any
    ) -> Scores:
        return of_reasoning(texts, task, prefilled, is_summarised if summary else attrgetter("well_formed"))

    return answer_format


def is_summarised(response: Response) -> bool:
    """One reasoning block, then words for the reader with the answer in its tags or in a box."""
    if response.well_formed:
        return has_letter(response.summary.removesuffix(response.answer or ""))
    all_boxes = list(boxes(response.summary))
    once = [response.count(tag) for tag in TAGS] == [1, 1, 0, 0] and len(all_boxes) == 1
    if not once or not is_seen(all_boxes[0].inside):
        return False
    return has_word(response.reasoning or "") and has_letter(response.summary[: all_boxes[0].start])


def has_letter(text: str) -> bool:
    return any(character.isalpha() for character in INVISIBLE.sub("", text))


def tag_count(prefilled: bool = False) -> Reward:
    """The share of the four tags that occur exactly once, in whatever order; None on general rows.

    It helps a model to learn `answer_format` (from Hugging Face's open-r1); `prefilled`: the prompt has the first tag.
    """

    @reward
    def tag_count(
        prompts: Sequence[Any], texts: list[str], /, task: list[str | None] | None = None, **columns: Any
    ) -> Scores:
        def share(response: Response) -> float:
            return sum(response.count(tag) == 1 for tag in TAGS) / len(TAGS)

        return of_reasoning(texts, task, prefilled, share)

    return tag_count


def reasoning_steps(target: int = 3, prefilled: bool = False) -> Reward:
    """The share of `target` steps that the reasoning has, at most 1.0; None on general rows.

    A step is a numbered line, a bullet, "Step 1:", or a clause that begins with first, second, third, next, then,
    finally or lastly; what follows it must hold words that no other step has. Idea and target: open-r1.
    """
    if target < 1:
        raise UserError(f"reward reasoning_steps: target must be at least 1, not {target}")

    @reward
    def reasoning_steps(
        prompts: Sequence[Any], texts: list[str], /, task: list[str | None] | None = None, **columns: Any
    ) -> Scores:
        def share(response: Response) -> float:
            unclosed = response.removeprefix(THINK_OPEN) if prefilled else response
            reasoning = unclosed if response.reasoning is None else response.reasoning
            return min(1.0, steps(reasoning) / target)

        return of_reasoning(texts, task, prefilled, share)

    return reasoning_steps


def steps(reasoning: str) -> int:
    """How many different steps the text marks."""
    contents = (tuple(tokens(content)) for content in STEP.split(reasoning)[1:])
    return len({content for content in contents if content})


def reflection_count(words: Sequence[str] = REFLECTION_WORDS) -> Reward:
    """How often a completion reflects: the number of `words` and phrases in it. Use it with weight 0, to log it only.

    With another weight it teaches a model to write "wait".
    """
    pattern = any_of(words)

    @reward
    def reflection_count(prompts: Sequence[Any], texts: list[str], /, **columns: Any) -> Scores:
        return Scores.of(float(len(pattern.findall(text))) for text in texts)

    return reflection_count


def of_reasoning(
    texts: list[str], task: list[str | None] | None, prefilled: bool, score: Callable[[Response], float]
) -> Scores:
    """The score of each response; general rows, whose form is free, have none."""
    scores = []
    for text, task_of_row in zip(texts, column(task, texts), strict=True):
        scores.append(Cause.NOT_APPLICABLE if task_of_row == GENERAL else float(score(Response.parse(text, prefilled))))
    return Scores.of(scores)
