"""Strategies: how one answer is made of several samples, within a budget of generated tokens.

A strategy is a generator function. It yields lists of requests, is sent their completions, and returns the one that it
chose. `run_together` runs any number of them side by side, for many problems: what all ask for in a round is drawn in
one call, and what several ask for is drawn once, but counted against the budget of each.

    def direct(attempt):
        [sample] = yield attempt.samples(1)
        return sample

The budget counts every generated token: drafts, critiques and thoughts that were thrown away too, and the tokens that a
scorer reads, since reading one is a forward pass as drawing one is. Prompts aren't counted. Each completion to
draw reserves the tokens of the longest that there may be, so a budget is never exceeded and none is cut by it. What a
short one leaves isn't given back: else a model that answers in ten tokens would draw hundreds of samples, and the last
ones in dozens of rounds. `spent` has the tokens that were really used.

Independent samples have the random numbers of (stage, problem, index), whichever strategy or model draws them, so all
strategies choose among the same ones; what depends on an earlier completion has numbers of its own strategy, too. No
strategy sees the right answer. Strategies that search over steps are in step_search.py.
"""

import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from itertools import chain
from typing import Any, NamedTuple

from r1flow.core.errors import UserError, did_you_mean
from r1flow.core.metrics import normalise_answer
from r1flow.core.rewarding import check_types, find_named
from r1flow.core.steps import STEP_MARKS
from r1flow.core.template import THINK_CLOSE, THINK_OPEN, render
from r1flow.grading import generated, math
from r1flow.sampling import (
    Completion,
    OnProgress,
    Sampler,
    SamplingParams,
    encode,
    seed_of,
    tokens_with,
    with_opened_thought,
)
from r1flow.sampling.step_search import STEP_STRATEGIES, check_steps

Turns = tuple[tuple[str, str], ...]  # (role, what it said)


class SampleRequest(NamedTuple):
    """A completion to draw."""

    question: str
    seed: int
    opening: str = ""  # text that the response begins with
    before: Turns = ()  # earlier turns of the conversation
    # Tokens that the response begins with, instead of an opening; drawn ones go on exactly.
    begun: tuple[int, ...] = ()
    # The rule by which it ends after a step, of core/steps.py; none: it goes on.
    step: str = ""
    # Tokens, of which those that aren't used are given back; 0: as many as any completion may have.
    most: int = 0


class Scorer(NamedTuple):
    """A function from a question and its samples to their scores, higher is better."""

    score: Callable[[str, list[Completion]], list[float]]
    # Tokens it reads for each one of a sample: 0 if its numbers are known once the sample is drawn.
    reads: int


Strategy = Generator[list[SampleRequest], list[Completion], Completion]
DrawRequests = Callable[[list[SampleRequest]], list[Completion]]


@dataclass
class Attempt:
    """A problem as a strategy sees it, and what is left of the budget."""

    question: str
    problem_id: str
    label: str  # of the strategy, in the configuration
    budget: int  # tokens
    longest: int  # tokens that a completion may have
    seed: int
    # A problem of a generated family, whose answers aren't read as mathematics.
    is_generated: bool = True
    scorers: Mapping[str, Scorer] = field(default_factory=dict)
    fits: Callable[[SampleRequest], bool] = lambda request: True  # whether the model has the positions for it
    reserved: int = 0  # tokens
    spent: int = 0  # tokens, of those reserved
    pool: list[SampleRequest] = field(default_factory=list)  # the independent samples asked for
    dependent: int = 0  # completions asked for that depend on earlier ones

    @property
    def left(self) -> int:
        return self.budget - self.reserved

    def affords(self, count: int) -> bool:
        """Whether so many completions fit into what is left, however long they get."""
        return count * self.longest <= self.left

    def samples(self, count: int) -> list[SampleRequest]:
        """Requests for the next independent samples."""
        numbers = range(len(self.pool), len(self.pool) + count)
        requests = [SampleRequest(self.question, seed_of(self.seed, self.problem_id, number)) for number in numbers]
        self.pool += requests
        return requests

    def again(
        self,
        question: str | None = None,
        opening: str = "",
        before: Sequence[Sequence[str]] = (),
        begun: Sequence[int] = (),
        **of_step: Any,
    ) -> SampleRequest:
        """A request that depends on earlier completions: other random numbers than theirs."""
        seed = seed_of(self.seed, f"{self.problem_id}/{self.label}", self.dependent)
        self.dependent += 1
        turns = tuple((role, said) for role, said in before)  # tuples, since requests are compared by their hash
        asked = self.question if question is None else question
        return SampleRequest(asked, seed, opening, turns, tuple(begun), **of_step)

    def answer(self, sample: Completion) -> str | None:
        """The answer in a sample, as evaluations read it leniently; None without one."""
        answer = generated.lenient_answer_of(sample.text, "" if self.is_generated else None)
        return answer if answer and answer.strip() else None

    def reads(self, scorer: str) -> int:
        """How many tokens a scorer reads for each one of a sample; raises UserError for a scorer that isn't there."""
        if scorer not in self.scorers:
            raise UserError(
                f"strategies.{self.label}: there is no scorer {scorer!r} here{did_you_mean(scorer, [*self.scorers])}"
            )
        return self.scorers[scorer].reads

    def score(self, scorer: str, samples: Sequence[Completion]) -> list[float]:
        """A scorer's scores, whose reading is counted; raises UserError if the budget doesn't hold it."""
        tokens = self.reads(scorer) * sum(len(sample.ids) for sample in samples)
        self.reserve(tokens, f"reading by {scorer}")
        self.spent += tokens
        return self.scorers[scorer].score(self.question, list(samples))

    def reserve(self, tokens: int, what: str) -> None:
        """Take so many tokens from the budget; raises UserError if they aren't left."""
        if tokens > self.left:
            raise UserError(
                f"strategies.{self.label}: {what} may take {tokens} tokens, and {self.left} of {self.budget} are left;"
                " ask attempt.affords first"
            )
        self.reserved += tokens

    def drawn_by(self, text: str) -> str:
        """What decides between equals: as good as chance, and independent of the order of samples."""
        return sha256(f"{self.seed}/{self.problem_id}/{text}".encode(errors="surrogatepass")).hexdigest()


# Strategies: generator functions of an attempt and the arguments that conf/strategy/ gives.


def direct(attempt: Attempt) -> Strategy:
    """One sample; what more the budget holds isn't used."""
    [sample] = yield attempt.samples(1)
    return sample


def self_consistency(attempt: Attempt) -> Strategy:
    """The answer that most samples give (Wang et al. 2022, arXiv 2203.11171); answers that are equal count as one."""
    samples = yield from independent(attempt)
    return most_voted(attempt, samples, [1.0] * len(samples))


def best_of_n(attempt: Attempt, scorer: str) -> Strategy:
    """The sample that the scorer likes best (Cobbe et al. 2021, arXiv 2110.14168)."""
    samples = yield from independent(attempt, attempt.reads(scorer))
    return samples[0] if len(samples) == 1 else best_scored(attempt, samples, attempt.score(scorer, samples))


def weighted_best_of_n(attempt: Attempt, scorer: str) -> Strategy:
    """The answer whose samples have the largest sum of scores (Li et al. 2022, arXiv 2206.02336)."""
    samples = yield from independent(attempt, attempt.reads(scorer))
    return samples[0] if len(samples) == 1 else most_voted(attempt, samples, attempt.score(scorer, samples))


def budget_forcing(attempt: Attempt, wait: str) -> Strategy:
    """The thought goes on with `wait` instead of ending, while the budget and the model's positions hold it.

    After s1 (Muennighoff et al. 2025, arXiv 2501.19393). A sample without a closed thought is left as it is.
    """
    [sample] = yield attempt.samples(1)
    while attempt.affords(1):
        begun, closed, _ = sample.text.partition(THINK_CLOSE)
        if THINK_OPEN not in begun or not closed:
            break
        request = attempt.again(opening=f"{begun.rstrip()} {wait}")
        if not attempt.fits(request):
            break
        [sample] = yield [request]
    return sample


def revise_drafts(attempt: Attempt, critique: str, revise: str) -> Strategy:
    """A draft, its critique by the same model, a revised draft, and so on (Madaan et al. 2023, arXiv 2303.17651)."""
    [draft] = yield attempt.samples(1)
    while attempt.affords(2):
        drafted = (("user", attempt.question), ("assistant", draft.text))
        request = attempt.again(critique, before=drafted)
        if not attempt.fits(request):
            break
        [said] = yield [request]
        request = attempt.again(revise, before=(*drafted, ("user", critique), ("assistant", said.text)))
        if not attempt.fits(request):
            break
        [draft] = yield [request]
    return draft


STRATEGIES = {
    "direct": direct,
    "self_consistency": self_consistency,
    "best_of_n": best_of_n,
    "weighted_best_of_n": weighted_best_of_n,
    "budget_forcing": budget_forcing,
    "revision": revise_drafts,
    **STEP_STRATEGIES,
}


# What they have in common.


def independent(attempt: Attempt, reads: int = 0) -> Generator[list[SampleRequest], list[Completion], list[Completion]]:
    """As many independent samples as the budget holds, each of which a scorer will read so many times; at least one."""
    return (yield attempt.samples(max(1, attempt.left // ((1 + reads) * attempt.longest))))


def best_scored(attempt: Attempt, samples: Sequence[Completion], scores: Sequence[float]) -> Completion:
    """The sample with the highest score."""
    pairs = zip(samples, scores, strict=True)
    return max(pairs, key=lambda pair: (pair[1], attempt.drawn_by(pair[0].text)))[0]


def most_voted(attempt: Attempt, samples: Sequence[Completion], weights: Sequence[float]) -> Completion:
    """A sample with the answer of the largest total weight, of these the heaviest; without an answer none votes."""
    votes: dict[str, list[int]] = {}
    for number, sample in enumerate(samples):
        answer = attempt.answer(sample)
        if answer is not None:
            votes.setdefault(normalise_answer(answer), []).append(number)
    if not votes:
        return best_scored(attempt, samples, weights)

    def weight(members: list[int]) -> tuple[float, str]:
        # Sorted, and the sum rounded: the order in which weights are added decides no tie.
        texts = sorted(attempt.drawn_by(samples[number].text) for number in members)
        return round(sum(sorted(weights[number] for number in members)), 9), texts[-1]

    classes = []
    for equals in equal_answers(sorted(votes)):
        classes.append(list(chain.from_iterable(votes[answer] for answer in equals)))
    members = max(classes, key=weight)
    return best_scored(attempt, [samples[number] for number in members], [weights[number] for number in members])


def equal_answers(answers: Sequence[str]) -> list[list[str]]:
    """The answers in classes of equal ones, as our grader compares two of them; none of them need be right."""
    classes: list[list[str]] = []
    for answer in answers:
        same = next((members for members in classes if are_equal(members[0], answer)), None)
        if same is None:
            classes.append([answer])
        else:
            same.append(answer)
    return classes


@cache
def are_equal(one: str, other: str) -> bool:
    return bool(math.equal(one, other))


# How they are found and run.


def find_strategy(name: str) -> Callable[..., Strategy]:
    """One of ours, or a user's generator function, by its name; raises UserError for one that isn't there."""
    strategy = find_named("strategies", "strategy", name, STRATEGIES)
    if not inspect.isgeneratorfunction(strategy):
        raise UserError(f"strategies: {name} is no generator function; write one that yields attempt.samples(…)")
    return strategy


def begin_strategy(
    sampler: Sampler,
    scorers: Mapping[str, Scorer],
    label: str,
    part: Mapping[str, Any],
    problem: Mapping[str, Any],
    budget: int,
    longest: int,
    seed: int,
) -> tuple[Attempt, Strategy]:
    """An attempt at a problem (its `id`, `question` and `entry`), and the strategy that `run_together` runs on it.

    `part` has the strategy's `name` and `args`, where they aren't its label and nothing. `budget` is in samples of
    `longest` tokens.
    """
    attempt = Attempt(
        problem["question"],
        problem["id"],
        label,
        budget * longest,
        longest,
        seed,
        problem["entry"] is not None,
        scorers,
        fits_in(sampler, longest),
    )
    return attempt, find_strategy(part.get("name") or label)(attempt, **part.get("args") or {})


def check_strategies(strategies: Mapping[str, Any], longest: int) -> None:
    """Refuse what `find_strategy` doesn't find, and arguments that a strategy doesn't take or lacks.

    `longest` is how many tokens a completion may have.
    """
    if not strategies:
        raise UserError("strategies: there are none; name at least one file of conf/strategy/")
    for label, part in strategies.items():
        if not isinstance(part, Mapping) or set(part) - {"name", "args"}:
            raise UserError(f"strategies.{label}: {part}; write it with the keys name and args")
        function, args = find_strategy(part.get("name") or label), part.get("args") or {}
        try:
            inspect.signature(function).bind(None, **args)
        except TypeError as error:
            takes = ", ".join(list(inspect.signature(function).parameters)[1:]) or "none"
            raise UserError(f"strategies.{label}.args: {error} (its args: {takes})") from None
        if function in STRATEGIES.values():
            check_types(f"strategies.{label}.args", function, args)
        if function in STEP_STRATEGIES.values():
            check_steps(label, args, longest)


def prompt_of(sampler: Sampler, request: SampleRequest) -> str:
    before = [{"role": role, "content": said} for role, said in request.before]
    return render(sampler.tokenizer, request.question, before)


def fits_in(sampler: Sampler, longest: int) -> Callable[[SampleRequest], bool]:
    """Whether a model has the positions for a request; without a limit of its own a completion may be `longest`."""

    def fits(request: SampleRequest) -> bool:
        if sampler.positions is None:  # as behind a server's chat, which has no tokenizer either
            return True
        [ids] = encode(sampler.tokenizer, [prompt_of(sampler, request)], [request.opening])
        return len(ids) + (request.most or longest) <= sampler.positions

    return fits


def drawing(sampler: Sampler, params: SamplingParams, on_progress: OnProgress | None = None) -> DrawRequests:
    """A function that draws requests' completions: those of one length and rule of steps in one call."""
    ends = cache(lambda step: tokens_with(sampler.tokenizer, STEP_MARKS[step]))

    def draw(requests: list[SampleRequest]) -> list[Completion]:
        alike: dict[tuple[str, int], list[int]] = {}
        for place, request in enumerate(requests):
            alike.setdefault((request.step, request.most), []).append(place)
        drawn: dict[int, Completion] = {}
        for (step, most), places in alike.items():
            asked = [requests[place] for place in places]
            stops = ends(step) if step else ()
            prompts = [prompt_of(sampler, request) for request in asked]
            completions = sampler.sample(
                prompts,
                replace(params, max_new_tokens=most or params.max_new_tokens, stops=stops),
                [request.seed for request in asked],
                on_progress,
                [request.begun or request.opening for request in asked],
            )
            for place, request, prompt, completion in zip(places, asked, prompts, completions, strict=True):
                goes_on = request.begun or request.opening
                drawn[place] = completion if goes_on else with_opened_thought(prompt, completion)
        return [drawn[place] for place in range(len(requests))]

    return draw


def check_requests(attempt: Attempt, requests: Any) -> None:
    """Raise UserError for what a strategy yields that is no list of requests, or none that can be drawn."""
    where = f"strategies.{attempt.label}: it asks for"
    if not requests:
        raise UserError(f"{where} nothing; return a completion instead, or first yield attempt.samples(1)")
    if not isinstance(requests, list) or not all(isinstance(each, SampleRequest) for each in requests):
        raise UserError(
            f"{where} something else than a list of requests; yield attempt.samples(1) or [attempt.again(…)]"
        )
    for step in {each.step for each in requests} - {"", *STEP_MARKS}:
        raise UserError(f"{where} a step by the rule {step!r}{did_you_mean(step, list(STEP_MARKS))}")


def run_together(
    begun: Sequence[tuple[Attempt, Strategy]], draw: DrawRequests, on_round: OnProgress | None = None
) -> list[Completion]:
    """What every strategy chose, in order; `draw` gives the completions of a round's distinct requests.

    The completions that strategies see begin with their opening. `on_round` is told after each round how many tokens of
    all budgets are spent or no longer needed, and how many there are. Raises UserError for a strategy that asks for
    more than its budget holds, for nothing, or returns something else than a completion.
    """
    drawn: dict[SampleRequest, Completion] = {}
    chosen: dict[int, Completion] = {}
    asked = {number: next(strategy, []) for number, (_, strategy) in enumerate(begun)}
    while asked:
        for number, requests in asked.items():
            attempt = begun[number][0]
            check_requests(attempt, requests)
            attempt.reserve(sum(each.most or attempt.longest for each in requests), "what it asks for")
        # In the order in which they are asked for.
        distinct = dict.fromkeys(chain.from_iterable(asked.values()))
        new = [request for request in distinct if request not in drawn]
        for request, completion in zip(new, draw(new) if new else [], strict=True):
            drawn[request] = replace(completion, text=request.opening + completion.text)
        further = {}
        for number, requests in asked.items():
            attempt, strategy = begun[number]
            completions = [drawn[request] for request in requests]
            attempt.spent += sum(len(each.ids) for each in completions)
            unused = [each.most - len(drawn[each].ids) for each in requests if each.most]
            attempt.reserved -= sum(unused)
            try:
                further[number] = strategy.send(completions)
            except StopIteration as end:
                if not isinstance(end.value, Completion):
                    raise UserError(
                        f"strategies.{attempt.label}: it returned {type(end.value).__name__}; return the completion"
                        " that it chose"
                    ) from None
                chosen[number] = end.value
        asked = further
        if on_round:
            attempts = [attempt for attempt, _ in begun]
            settled = sum(each.budget if n in chosen else each.spent for n, each in enumerate(attempts))
            on_round(settled, sum(each.budget for each in attempts))
    return [chosen[number] for number in range(len(begun))]
