"""Responses with tool calls: a model writes until it has called a tool, is told the result, and goes on from there.

    <think>it is <tool>48 * 377</tool><result>18096</result>, so yes.</think><answer>18096</answer>
    1111111111111111111111111111111000000000000000000000000111111111111111111111111111111111111111

A turn ends with the token that closes a call, with the response, or where a limit is reached. The result's tokens are
appended, and the next turn goes on from the very ids that are there: nothing is decoded and tokenised again, so what
was sampled is what a training learns from. The mask, here under the text, is 1 for a token that was sampled and 0 for
one of a tool's, which nobody may learn. Rows are drawn side by side, by any of our samplers; each turn has the random
numbers of its row and its place, so a row depends on its prompt, its seed and its tools only.

`max_new_tokens` holds for the whole response, results too. One that calls more often than it may, or for whose result
there is no room, ends there, unfinished. Left out: results that come while a model writes on, and calls in parallel.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from r1flow.core.template import RESULT_CLOSE, RESULT_OPEN, TOOL_CLOSE, TOOL_OPEN, split_at_results, text_ids
from r1flow.sampling import Completion, Opening, Sampler, SamplingParams, check_room_left, encode, seed_of, tokens_with
from r1flow.sampling.environments import WRONG, ToolCall, ToolSession

# Rows of about as many tokens left are drawn together, and what a turn has beyond its row's limit is truncated.
TOKENS_STEP = 64


class DrawnTurn(NamedTuple):
    """What was drawn for a row."""

    ids: list[int]
    finished: bool  # with a token that ends the text
    logps: list[float] | None = None


# Draws a turn for some rows: their numbers, the ids of their responses so far, how to sample, and a seed for each.
DrawTurns = Callable[[list[int], list[list[int]], SamplingParams, list[int]], list[DrawnTurn]]


@dataclass
class Episode:
    """A response with its tool calls, while it grows and when it is done."""

    ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)  # one for each id: 1 was sampled, 0 is a tool's
    logps: list[float] = field(default_factory=list)  # one for each id, 0 for a tool's; empty if none were drawn
    calls: list[ToolCall] = field(default_factory=list)
    turns: int = 0
    read_again: int = 0  # tokens of the response that its later turns read, the prompt's not counted
    finished: bool = False  # ended by itself
    ended: bool = False
    answered: int = 0  # calls in the ids up to here have their results

    @property
    def failed(self) -> int:
        """How many calls failed."""
        return sum(call.failed for call in self.calls)

    def completion(self, tokenizer: Any) -> Completion:
        return Completion(self.ids, self.text(tokenizer), self.finished)

    def text(self, tokenizer: Any, start: int = 0) -> str:
        return tokenizer.decode(self.ids[start:], skip_special_tokens=True)


def respond(
    tokenizer: Any,
    draw: DrawTurns,
    sessions: Sequence[ToolSession],
    params: SamplingParams,
    seeds: Sequence[int],
    room: Sequence[int | None],
) -> list[Episode]:
    """A response for each session, in order.

    `room` is how many tokens a row's prompt leaves for its response, `max_new_tokens` or more; None: no limit is known.
    """
    episodes = [Episode() for _ in sessions]
    stopping = replace(params, stops=call_ends(tokenizer))
    live = list(range(len(sessions)))
    while live:
        for most, rows in by_length(live, episodes, params.max_new_tokens, room).items():
            begun = [episodes[row].ids for row in rows]
            numbers = [turn_seed(seeds[row], episodes[row].turns) for row in rows]
            drawn = draw(rows, begun, replace(stopping, max_new_tokens=most), numbers)
            for row, turn in zip(rows, drawn, strict=True):
                add_turn(episodes[row], turn, params.max_new_tokens)
                answer_call(episodes[row], sessions[row], tokenizer, params.max_new_tokens)
        live = [row for row in live if not episodes[row].ended]
    return episodes


def by_length(
    live: Sequence[int], episodes: Sequence[Episode], longest: int, room: Sequence[int | None]
) -> dict[int, list[int]]:
    """The live rows by how many tokens are drawn for their next turn, at least those that are left to each.

    A row's number depends on the row alone, and so does what is drawn for it.
    """
    groups: dict[int, list[int]] = {}
    for row in live:
        used = len(episodes[row].ids)
        most = -(-(longest - used) // TOKENS_STEP) * TOKENS_STEP if used else longest
        if room[row] is not None:
            most = min(most, room[row] - used)
        groups.setdefault(most, []).append(row)
    return groups


def turn_seed(seed: int, turn: int) -> int:
    """The first turn has the row's own numbers, so a response without a call is what it is without tools."""
    return seed_of(seed, "turn", turn) if turn else seed


def add_turn(episode: Episode, turn: DrawnTurn, longest: int) -> None:
    """Append what was drawn, up to the limit of the response."""
    episode.read_again += len(episode.ids)
    left = longest - len(episode.ids)
    new = turn.ids[:left]
    episode.ids += new
    episode.mask += [1] * len(new)
    episode.logps += turn.logps[:left] if turn.logps else []
    episode.turns += 1
    episode.finished = turn.finished and len(turn.ids) <= left
    # An engine that draws nothing would do so for ever.
    episode.ended = episode.finished or not new or len(episode.ids) == longest


def answer_call(episode: Episode, session: ToolSession, tokenizer: Any, longest: int) -> None:
    """Make the call that a turn has closed, if there is one, and append its result, or end the response."""
    asked = None if episode.finished else call_in(episode.text(tokenizer, episode.answered))
    if asked is None:
        # Where the tag that closes a call is several tokens, other turns may end like it, and go on.
        return
    if len(episode.calls) == session.of.most_calls:
        episode.ended = True
        return
    call = session.call(asked) if asked else ToolCall(asked, f"{WRONG}the call is empty", failed=True)
    episode.calls.append(call)
    [told] = text_ids(tokenizer, [f"{RESULT_OPEN}{call.result}{RESULT_CLOSE}"])
    if len(episode.ids) + len(told) >= longest:
        episode.ended = True
        return
    episode.ids += told
    episode.mask += [0] * len(told)
    episode.logps += [0.0] * len(told) if episode.logps else []
    episode.answered = len(episode.ids)


def call_in(text: str) -> str | None:
    """What the last call in a turn's text says, "" where it has no beginning; None where no call is closed."""
    before, closed, _ = text.rpartition(TOOL_CLOSE)
    _, opened, asked = before.rpartition(TOOL_OPEN)
    if not closed:
        return None
    return asked.strip() if opened else ""


def call_ends(tokenizer: Any) -> tuple[int, ...]:
    """The tokens after which a call may be closed: its tag where that is one token, else all that may be its end."""
    added = tokenizer.get_added_vocab()
    if TOOL_CLOSE in added:
        return (added[TOOL_CLOSE],)
    return tokens_with(tokenizer, TOOL_CLOSE[-1])


def sample_in_turns(
    sampler: Sampler,
    prompts: Sequence[str],
    params: SamplingParams,
    seeds: Sequence[int],
    sessions: Sequence[ToolSession],
    openings: Sequence[Opening] | None = None,
) -> list[Episode]:
    """`sampler.sample` with tools: an episode for each prompt, whose response doesn't repeat its opening."""
    asked = encode(sampler.tokenizer, list(prompts))
    whole = encode(sampler.tokenizer, list(prompts), openings)
    check_room_left(whole, params, sampler.positions, prompts)
    heads = [ids[len(before) :] for ids, before in zip(whole, asked, strict=True)]
    room = [sampler.positions and sampler.positions - len(ids) for ids in whole]

    def draw(rows: list[int], begun: list[list[int]], params: SamplingParams, seeds: list[int]) -> list[DrawnTurn]:
        so_far = [(*heads[row], *ids) for row, ids in zip(rows, begun, strict=True)]
        drawn = sampler.sample([prompts[row] for row in rows], params, seeds, openings=so_far)
        return [DrawnTurn(completion.ids, completion.finished) for completion in drawn]

    return respond(sampler.tokenizer, draw, sessions, params, seeds, room)


def calls_in(text: str) -> tuple[int, int]:
    """How many calls a response's text has whose results it was told, and how many of these failed."""
    results = [piece for piece, told in split_at_results(text) if told]
    return len(results), sum(result.startswith(RESULT_OPEN + WRONG) for result in results)
