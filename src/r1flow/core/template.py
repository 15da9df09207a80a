"""The form of a response: its tags, and how it is taken apart into reasoning, summary and answer.

A reasoning response has its reasoning in one block and its answer in another (DeepSeek-R1, Table 1 and section 2.3.1):

    <think>we start with 8 + 16 = 24, then 24 - 19 = 5.</think>the result is <answer>5</answer>

A general response is a plain reply, with or without a reasoning block before it. What a user reads, the summary, is
everything after the reasoning. Where a model may call tools, what it asks is between tags of its own, and the result
follows at once (sampling/turns.py): <tool>48 * 377</tool><result>18096</result>.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from typing import Any

from r1flow.core.errors import UserError
from r1flow.core.language import Clause, clauses, share_in, tokens
from r1flow.core.limits import time_limit

THINK_OPEN, THINK_CLOSE = "<think>", "</think>"
ANSWER_OPEN, ANSWER_CLOSE = "<answer>", "</answer>"
TOOL_OPEN, TOOL_CLOSE = "<tool>", "</tool>"  # around a call, which the model writes
RESULT_OPEN, RESULT_CLOSE = "<result>", "</result>"  # around what the tool says, which it doesn't
GENERAL = "general"  # the `task` of prompts without a checkable answer
REASONING = "reasoning"  # in results, in place of a `task`: all families of problems together
# Characters that are not displayed: control and format characters, fillers that Unicode calls letters, selectors, tags.
INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
LEAST_THOUGHT = 5  # words and numbers; "this is easy." is an empty thought
TAGS = (THINK_OPEN, THINK_CLOSE, ANSWER_OPEN, ANSWER_CLOSE)
TOOL_TAGS = (TOOL_OPEN, TOOL_CLOSE, RESULT_OPEN, RESULT_CLOSE)
# A tool's result, with its tags. A model that writes these itself can't put them after a call: there the tool's are. A
# token that closes a call may go on with signs and line ends, as Qwen's ">\n" does: they are between call and result.
CALLED = re.compile(rf"{TOOL_CLOSE}\W{{0,15}}(?={RESULT_OPEN})")
# A character that no text has: after the first one of a name that is to stay text (`render`).
KEPT = "\ufdd0"
# CPU time for a prompt, which takes 0.3 ms. Jinja limits a loop, but not loops within loops.
RENDER_S = 60.0
# Where chats keep a reply's reasoning: DeepSeek, vLLM, gpt-oss.
APART = ("reasoning_content", "reasoning", "thinking")


def family_name(name: str) -> str:
    """The name as that of a family of problems: own_general, own_reasoning; no family has these two words alone."""
    return f"own_{name}" if name in (GENERAL, REASONING) else name


def opens_thought(prompt: str) -> bool:
    """Whether a prompt ends with <think>, as by the chat templates of DeepSeek-R1's distilled models."""
    return prompt.rstrip().endswith(THINK_OPEN)


class Response(str):
    """A model's response: text, and the parts of it, each found once, when it is first asked for.

    As it is text, it stands for its text everywhere, also among TRL's `completions`: so whoever has the text first
    parses it, and hands it on. Nothing that a model writes makes a part raise.
    """

    @classmethod
    def parse(cls, text: str, prefilled: bool = False) -> "Response":
        """A text as a response; what is a response already is returned as it is, with the parts that were found.

        `prefilled`: the prompt ends with <think>, so that the text begins inside the reasoning.
        """
        response = text if isinstance(text, cls) else cls(text)
        return response.opened if prefilled else response

    @classmethod
    def joined(cls, reasoning: str, text: str) -> "Response":
        """A response whose reasoning is kept apart from its text, as chats do: the tags are put back around it.

        It has its first tag, so it is the same after a prompt that ends with <think>.
        """
        inside = reasoning.strip().removeprefix(THINK_OPEN).removesuffix(THINK_CLOSE).strip()
        if not inside:
            return cls(text)
        response = cls(f"{THINK_OPEN}{inside}{THINK_CLOSE}{text.lstrip()}")
        response.opened = response
        return response

    @cached_property
    def opened(self) -> "Response":
        """The response after a prompt that ends with <think>: with this tag before it."""
        return Response(THINK_OPEN + self)

    @cached_property
    def blocks(self) -> tuple[str | None, str]:
        """The reasoning, and all that follows it."""
        text = self.strip()
        if not text.startswith(THINK_OPEN) or THINK_CLOSE not in text:
            return None, text
        reasoning, _, rest = text.removeprefix(THINK_OPEN).partition(THINK_CLOSE)
        return reasoning, rest

    @property
    def reasoning(self) -> str | None:
        """The first reasoning block; None: the response doesn't begin with one that is closed."""
        return self.blocks[0]

    @cached_property
    def thought(self) -> str:
        """What follows the first <think>, up to its end if it has one: also where text stands before it."""
        return self.partition(THINK_OPEN)[2].partition(THINK_CLOSE)[0]

    @cached_property
    def summary(self) -> str:
        """What follows the reasoning, without answer tags."""
        return self.blocks[1].replace(ANSWER_OPEN, "").replace(ANSWER_CLOSE, "").strip()

    @cached_property
    def answer(self) -> str | None:
        """The last answer after the reasoning; None: there is none that is closed."""
        return last_answer(self.blocks[1])

    @cached_property
    def well_formed(self) -> bool:
        """One reasoning block at the very start, then text with one answer that ends it, and something in both."""
        once = all(self.count(tag) == 1 for tag in TAGS)
        if not once or None in (self.reasoning, self.answer) or not self.rstrip().endswith(ANSWER_CLOSE):
            return False
        return has_word(self.reasoning) and is_seen(self.answer)

    @cached_property
    def thinks(self) -> bool:
        """Whether it begins with a thought of at least LEAST_THOUGHT words and numbers, finished or not."""
        before, opened, rest = self.lstrip().partition(THINK_OPEN)
        return bool(opened) and not before and len(tokens(rest.partition(THINK_CLOSE)[0])) >= LEAST_THOUGHT

    @cached_property
    def clauses(self) -> list[Clause]:
        """The clauses whose language counts: of the reasoning; without a reasoning block, of all of the text."""
        return list(clauses(self if self.reasoning is None else self.reasoning))

    def consistency(self, task: str | None, target: str, languages: Sequence[str]) -> float | None:
        """The share of the clauses' words that are in `target` (core/language.py); None without words.

        Of a general reply only a reasoning block counts: the reply itself may have to be in another language.
        """
        is_reply = task == GENERAL and self.reasoning is None
        return None if is_reply else share_in(self.clauses, target, languages)


split = Response.parse  # under this name, 0.1.0 documented it for rewards of users' own


def has_word(text: str) -> bool:
    return any(character.isalnum() for character in INVISIBLE.sub("", text))


def is_seen(text: str) -> bool:
    """Whether anything in the text is visible: an answer may be a sign (∅, <), but not an invisible character."""
    return any(unicodedata.category(character)[0] in "LNPS" for character in INVISIBLE.sub("", text))


def last_answer(text: str) -> str | None:
    """What is between the last answer tags of a text; None if they aren't closed."""
    _, opened, inside = text.rpartition(ANSWER_OPEN)
    answer, closed, _ = inside.partition(ANSWER_CLOSE)
    return answer.strip() if opened and closed else None


def render(tokenizer: Any, question: str, before: Sequence[dict[str, str]] = ()) -> str:
    """The prompt: a chat template renders the turns `before` and a question; the completion follows it directly.

    Names of special tokens in the turns and the question are marked by KEPT, so that `prompt_ids` keeps them text. The
    templates of Qwen3 and DeepSeek-R1 drop the reasoning of earlier turns: there its tags are marked, too, which hides
    it from them. Raises UserError where a template drops it all the same, or the question itself.
    """
    names = special_names(tokenizer)
    turns = [{**turn, "content": marked(turn["content"], names)} for turn in before]
    asked = {"role": "user", "content": marked(question, names)}

    def shown(turns: Sequence[dict[str, str]]) -> str:
        try:
            with time_limit(RENDER_S):
                return tokenizer.apply_chat_template([*turns, asked], tokenize=False, add_generation_prompt=True)
        except Exception as error:  # a template may raise anything
            said = " ".join(str(error).split())[:300] or type(error).__name__
            raise UserError(f"the chat template can't show a question ({said}); use another (`template`)") from error

    prompt = shown(turns)
    # None: a server renders it.
    if not getattr(tokenizer, "chat_template", None) or not lost_turn([*turns, asked], prompt):
        return prompt
    turns = [{**turn, "content": marked(turn["content"], (THINK_OPEN, THINK_CLOSE))} for turn in turns]
    prompt = shown(turns)
    if lost_turn([asked], prompt):
        raise UserError(
            f"the chat template drops the question ({question[:60]!r}); use another (`template`, or chat_template.jinja"
            " in the model's folder): some expect a list of texts and images in place of a text"
        )
    if lost := lost_turn(turns, prompt):
        raise UserError(
            f"the chat template drops what an earlier turn says ({unmarked(lost)[:60]!r}); use another (`template`),"
            " or no such turns (`preamble`, or chats of several turns)"
        )
    return prompt


def lost_turn(turns: Iterable[dict[str, str]], prompt: str) -> str | None:
    """The first turn whose text the prompt doesn't have; templates may strip blanks around it."""
    return next((turn["content"] for turn in turns if turn["content"].strip() not in prompt), None)


def special_names(tokenizer: Any) -> tuple[str, ...]:
    """The texts that a tokenizer reads as special tokens, longest first; () for what has no vocabulary."""
    return names_added(tokenizer) if hasattr(tokenizer, "added_tokens_decoder") else ()


@cache  # 0.3 ms for the 256 of Llama 3, as long as rendering a prompt takes
def names_added(tokenizer: Any) -> tuple[str, ...]:
    names = {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
    return tuple(sorted(names, key=lambda name: (-len(name), name)))


def marked(text: str, names: Iterable[str]) -> str:
    """The text with KEPT in each of these names."""
    for name in names:
        if name in text:
            text = text.replace(name, name[:1] + KEPT + name[1:])
    return text


def unmarked(text: str) -> str:
    return text.replace(KEPT, "")


def prompt_ids(tokenizer: Any, prompts: Sequence[str]) -> list[list[int]]:
    """The token ids of rendered prompts: the template's special tokens are tokens, their names in a row's text aren't.

    The one way from a prompt to its ids, in training and in sampling.
    """
    if not prompts:
        return []
    ids = tokenizer(list(prompts), add_special_tokens=False)["input_ids"]
    for number, prompt in enumerate(prompts):
        if KEPT in prompt:
            ids[number] = marked_ids(tokenizer, prompt)
    return ids


def marked_ids(tokenizer: Any, prompt: str) -> list[int]:
    """The ids of a prompt with marks: of its special tokens, and of the texts between them."""
    names = special_names(tokenizer)
    pattern = "|".join(re.escape(name) for name in names)
    ids: list[int] = []
    for piece in re.split(f"({pattern})", prompt) if names else [prompt]:
        if piece in names:
            ids.append(tokenizer.convert_tokens_to_ids(piece))
        elif piece:
            ids += text_ids(tokenizer, [unmarked(piece)])[0]
    return ids


def text_ids(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """The token ids of texts in which no special token is: names of some that they spell out stay text."""
    return tokenizer(list(texts), add_special_tokens=False, split_special_tokens=True)["input_ids"] if texts else []


def split_at_results(response: str) -> list[tuple[str, bool]]:
    """A response with tool calls in the pieces that it was made of, each with whether it is a tool's result."""
    pieces, end = [], 0
    for call in CALLED.finditer(response):
        begin, before = call.end(), end
        if begin < before:  # within the last result
            continue
        closed = response.find(RESULT_CLOSE, begin)
        if closed < 0:
            break
        end = closed + len(RESULT_CLOSE)
        pieces += [(response[before:begin], False), (response[begin:end], True)]
    return [(text, told) for text, told in [*pieces, (response[end:], False)] if text]


def check_tags(place: str, encode: Callable[[str], list[int]], decode: Callable[[list[int]], str]) -> None:
    """Raise UserError if a tokenizer loses the tags: rewards need them in decoded text.

    A tag may be several tokens, but must be unchanged after decoding, where `decode` leaves out special tokens.
    """
    text = "".join(f"{tag}x" for tag in TAGS)
    if (back := decode(encode(text))) != text:
        raise UserError(f"{place}: its tokenizer turns {text!r} into {back!r}; add the tags to it as ordinary tokens")
