"""Strategies that search over the steps of a response: a scorer judges it before it is whole, and the best go on.

    first 59 * 40 = 2360, | then 59 * 8 = 472, | next 2360 + 472 = 2832, | so the answer is 2832.

A step ends with one of the marks of a rule (core/steps.py), with the response, or after `step_tokens` tokens.
It goes on from the very tokens that were drawn, with numbers of its own. What a step doesn't use of `step_tokens` is
given back to the budget, since how many responses there are was settled in the beginning: as many as best_of_n has. A
scorer reads all of a response after each of its steps, and all of that counts. Where another step of all might take
what the best one needs for its end, that one alone goes on to its end. A response that has no room for another step
ends there. The judge may be the model itself, whose verdicts are drawn and count. Left out: looking ahead, and trees
that go back to what they dropped.
"""

import math
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from r1flow.core.errors import UserError, did_you_mean
from r1flow.core.steps import STEP_MARKS
from r1flow.sampling import Completion

if TYPE_CHECKING:
    from r1flow.sampling.strategies import Attempt, SampleRequest, Strategy


@dataclass(frozen=True)
class Path:
    """A response so far."""

    sample: Completion
    score: float = 0.0
    tree: int = 0  # the subtree that it belongs to, in DVTS


@dataclass(frozen=True)
class Judge:
    """Who scores responses after each step."""

    # A generator, as strategies are: a model that is asked for its verdicts draws them.
    scores: Callable[[list[Completion]], Generator[list["SampleRequest"], list[Completion], list[float]]]
    reads: int = 0  # how often it reads all of a response, whose tokens count
    draws: int = 0  # how many tokens a verdict may have


# Which paths go on: one that is named twice goes on in two ways.
Choose = Callable[[list[Path]], list[Path]]
BEGINNING = Completion([], "", False)


def beam_search(attempt: "Attempt", scorer: str, step: str, step_tokens: int, expansions: int) -> "Strategy":
    """The best responses so far go on, each in so many ways (Snell et al. 2024, arXiv 2408.03314)."""
    return (yield from beam_by(attempt, by_scorer(attempt, scorer), step, step_tokens, expansions))


def tree_of_thoughts(
    attempt: "Attempt",
    step: str,
    step_tokens: int,
    expansions: int,
    value: str,
    value_tokens: int,
    values: Mapping[str, float],
) -> "Strategy":
    """Beam search by what the model itself says of each response so far (Yao et al. 2023, arXiv 2305.10601).

    `value` is what it is asked; a verdict is worth the number of the first of the words in `values` that it has, and 0
    without any. The paper's search in breadth; its search in depth, which goes back, is left out.
    """
    judge = by_verdicts(attempt, value, value_tokens, values)
    return (yield from beam_by(attempt, judge, step, step_tokens, expansions))


def dvts(attempt: "Attempt", scorer: str, step: str, step_tokens: int, expansions: int) -> "Strategy":
    """Beam search in independent subtrees, of each of which the best goes on: diverse verifier tree search.

    After Beeching, Tunstall and Rush 2024, "Scaling test-time compute with open models" (Hugging Face).
    """
    judge = by_scorer(attempt, scorer)
    count = paths_of(attempt, judge, step_tokens)
    trees = max(1, count // expansions)
    ways = count // trees

    def choose(paths: list[Path]) -> list[Path]:
        chosen = []
        for tree in range(trees):
            members = [path for path in paths if path.tree == tree]
            chosen += ways_on(attempt, best_first(attempt, members)[:1], ways, ways, step_tokens)
        return chosen

    begun = [Path(BEGINNING, tree=number // ways) for number in range(trees * ways)]
    return (yield from by_steps(attempt, judge, step, step_tokens, begun, choose))


def particle_filtering(attempt: "Attempt", scorer: str, step: str, step_tokens: int, temperature: float) -> "Strategy":
    """As many responses as before go on after each step, drawn with the weights exp(score / temperature).

    After Puri et al. 2025, arXiv 2502.01618, who take the logarithm of a score's odds for score / temperature. One
    number places all draws (systematic resampling).
    """
    judge = by_scorer(attempt, scorer)
    count = paths_of(attempt, judge, step_tokens)
    rounds = 0

    def choose(paths: list[Path]) -> list[Path]:
        nonlocal rounds
        rounds += 1
        ordered = sorted(paths, key=lambda path: attempt.drawn_by(f"{path.sample.ids}"))
        offset = int(attempt.drawn_by(f"particles {rounds}"), 16) / 2**256
        weights = boltzmann([path.score for path in ordered], temperature)
        return [ordered[number] for number in resampled(weights, offset)]

    return (yield from by_steps(attempt, judge, step, step_tokens, [Path(BEGINNING)] * count, choose))


STEP_STRATEGIES = {
    "beam_search": beam_search,
    "dvts": dvts,
    "particle_filtering": particle_filtering,
    "tree_of_thoughts": tree_of_thoughts,
}


# What they have in common.


def by_scorer(attempt: "Attempt", scorer: str) -> Judge:
    def scores(samples: list[Completion]) -> Generator[list["SampleRequest"], list[Completion], list[float]]:
        yield from ()  # nothing is drawn
        return attempt.score(scorer, samples)

    return Judge(scores, reads=attempt.reads(scorer))


def by_verdicts(attempt: "Attempt", value: str, value_tokens: int, values: Mapping[str, float]) -> Judge:
    """The model's own verdicts, one for equal responses; without room for one in the model's positions it is 0."""
    worth = {word.casefold(): float(number) for word, number in values.items()}
    words = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, sorted(worth, key=len, reverse=True)))})(?!\w)")

    def scores(samples: list[Completion]) -> Generator[list["SampleRequest"], list[Completion], list[float]]:
        asked: dict[tuple[int, ...], SampleRequest] = {}
        for ids, text in {tuple(sample.ids): sample.text for sample in samples}.items():
            before = (("user", attempt.question), ("assistant", text))
            request = attempt.again(value, before=before, most=value_tokens)
            if attempt.fits(request):
                asked[ids] = request
        found: dict[tuple[int, ...], float] = {}
        verdicts = (yield list(asked.values())) if asked else []
        for ids, verdict in zip(asked, verdicts, strict=True):
            if said := words.search(verdict.text.casefold()):
                found[ids] = worth[said[0]]
        return [found.get(tuple(sample.ids), 0.0) for sample in samples]

    return Judge(scores, draws=value_tokens)


def paths_of(attempt: "Attempt", judge: Judge, step_tokens: int) -> int:
    """How many responses are searched side by side: as many as the budget holds with their judging, at least one."""
    return max(1, attempt.left * step_tokens // (((1 + judge.reads) * step_tokens + judge.draws) * attempt.longest))


def beam_by(attempt: "Attempt", judge: Judge, step: str, step_tokens: int, expansions: int) -> "Strategy":
    """The responses that a judge likes best go on, each in so many ways."""
    count = paths_of(attempt, judge, step_tokens)
    width = max(1, count // expansions)

    def choose(paths: list[Path]) -> list[Path]:
        return ways_on(attempt, best_first(attempt, paths)[:width], count, count // width, step_tokens)

    return (yield from by_steps(attempt, judge, step, step_tokens, [Path(BEGINNING)] * count, choose))


def by_steps(
    attempt: "Attempt", judge: Judge, step: str, step_tokens: int, paths: list[Path], choose: Choose
) -> "Strategy":
    """Draw, judge and choose step by step; the best of the responses that ended, or the best so far and its end."""
    live, ended = paths if len(paths) > 1 else [], []
    while live and affords_a_step(attempt, judge, step_tokens, live):
        drawn = yield [attempt.again(begun=tuple(path.sample.ids), step=step, most=step_tokens) for path in live]
        samples = [continued(path.sample, new) for path, new in zip(live, drawn, strict=True)]
        trees, scores = [path.tree for path in live], (yield from judge.scores(samples))
        paths = choose(ended + list(map(Path, samples, scores, trees)))
        live = [path for path in paths if not has_ended(attempt, path, step_tokens)]
        ended = [path for path in paths if has_ended(attempt, path, step_tokens)]
    best = best_first(attempt, paths)[0]
    if not best.sample.ids:  # there was nothing to choose: direct
        [sample] = yield attempt.samples(1)
        return sample
    if live and not has_ended(attempt, best, step_tokens):
        # Few lengths, so few batches.
        rest = (attempt.longest - len(best.sample.ids)) // step_tokens * step_tokens
        [end] = yield [attempt.again(begun=tuple(best.sample.ids), most=rest)]
        return continued(best.sample, end)
    return max(best_first(attempt, paths), key=lambda path: path.sample.finished).sample


def affords_a_step(attempt: "Attempt", judge: Judge, step_tokens: int, live: Sequence[Path]) -> bool:
    """Whether the longest next step of all can be drawn and judged, and the best one can still come to its end."""
    reads, read_again = judge.reads, sum(len(path.sample.ids) for path in live)
    drawn = len(live) * (step_tokens + judge.draws)
    return drawn + reads * (len(live) * step_tokens + read_again) + attempt.longest <= attempt.left


def has_ended(attempt: "Attempt", path: Path, step_tokens: int) -> bool:
    return path.sample.finished or len(path.sample.ids) + step_tokens > attempt.longest


def continued(begun: Completion, new: Completion) -> Completion:
    return Completion([*begun.ids, *new.ids], begun.text + new.text, new.finished)


def best_first(attempt: "Attempt", paths: Sequence[Path]) -> list[Path]:
    """Distinct paths, those with the highest scores first; of equals, one that as good as chance decides."""
    distinct = {tuple(path.sample.ids): path for path in paths}
    return sorted(
        distinct.values(), key=lambda path: (path.score, attempt.drawn_by(f"{path.sample.ids}")), reverse=True
    )


def ways_on(attempt: "Attempt", kept: list[Path], count: int, ways: int, step_tokens: int) -> list[Path]:
    """The kept paths that ended, once; the others by turns, in `count` ways less `ways` for each that ended."""
    ended = [path for path in kept if has_ended(attempt, path, step_tokens)]
    live = [path for path in kept if not has_ended(attempt, path, step_tokens)]
    left = count - ways * len(ended) if live else 0
    return ended + [live[number % len(live)] for number in range(left)]


def boltzmann(scores: Sequence[float], temperature: float) -> list[float]:
    """Shares that add up to 1, in the ratios exp(score / temperature)."""
    highest = max(scores)
    weights = [math.exp((score - highest) / temperature) for score in scores]
    total = sum(weights)
    return [weight / total for weight in weights]


def resampled(shares: Sequence[float], offset: float) -> list[int]:
    """As many numbers of shares as there are, each as often as its share says, up or down by `offset` in [0, 1)."""
    count, number, reached, chosen = len(shares), 0, shares[0], []
    for place in range(count):
        while (place + offset) / count >= reached and number + 1 < count:
            number += 1
            reached += shares[number]
        chosen.append(number)
    return chosen


def check_steps(label: str, args: Mapping[str, Any], longest: int) -> None:
    """Refuse a rule of steps that there isn't, and numbers that these strategies can't take."""
    where = f"strategies.{label}.args"
    if args["step"] not in STEP_MARKS:
        raise UserError(
            f"{where}.step: there is no rule {args['step']!r}{did_you_mean(args['step'], list(STEP_MARKS))}"
        )
    for name, most in (("step_tokens", longest), ("value_tokens", longest), ("expansions", math.inf)):
        value = args.get(name, 1)
        if not 1 <= value <= most:
            upper = " or more" if most == math.inf else f" to {most}, which is max_new_tokens"
            raise UserError(f"{where}.{name}: {value!r}; use a whole number, 1{upper}")
    temperature = args.get("temperature", 1.0)
    if not 0 < temperature < math.inf:
        raise UserError(f"{where}.temperature: {temperature!r}; use a number above 0")
    if "values" in args:
        check_verdicts(where, args["value"], args["values"])


def check_verdicts(where: str, value: str, values: Mapping[str, float]) -> None:
    """Refuse a question that is none, and words of verdicts that can't be told apart or have no number."""
    if not value.strip():
        raise UserError(f"{where}.value: {value!r}; write what the model is asked of a response")
    known = all(word.strip() and 0 <= number < math.inf for word, number in values.items())
    if not values or not known or len({word.casefold() for word in values}) < len(values):
        raise UserError(
            f"{where}.values: {values}; write different words with numbers from 0, as {{sure: 20, likely: 1}}"
        )
