"""Search over steps: within its budget, the same again, direct with one sample, in any order, led by its scorer."""

import random
from collections import Counter
from collections.abc import Callable

import pytest

from r1flow.core.errors import UserError
from r1flow.sampling import Completion, step_search
from r1flow.sampling.step_search import boltzmann, resampled
from r1flow.sampling.strategies import Attempt, SampleRequest, Scorer, check_strategies, find_strategy, run_together

LONGEST, STEP = 60, 12
STEPS = {"scorer": "good", "step": "clause", "step_tokens": STEP}
ARGS = {
    "beam_search": STEPS | {"expansions": 4},
    "dvts": STEPS | {"expansions": 4},
    "particle_filtering": STEPS | {"temperature": 0.1},
    "tree_of_thoughts": {
        **{"value": "Will it do?", "value_tokens": STEP, "values": {"sure": 20, "likely": 1, "No way": 0.001}},
        **{"step": "clause", "step_tokens": STEP, "expansions": 4},
    },
}
GOOD = 1  # the token that the scorer likes


def drawn(request: SampleRequest) -> Completion:
    """A step or a whole completion of a length that depends on the request alone, as a model's do; one in four ends.

    Asked what it thinks of a response, this model says so by the share of tokens that the scorer likes.
    """
    rng = random.Random(f"{request}")
    if request.before:
        text = request.before[-1][1]
        # Two verdicts on one response may differ, as a model's do.
        share = text.count(f"{GOOD}") / len(text) + rng.uniform(-0.05, 0.05)
        words = {share > 0.4: "Sure: it isn't no way", share < 0.2: "NO WAY"}
        return Completion([9, 9], words.get(True, "Likely"), True)
    ids = [rng.randrange(4) for _ in range(rng.randint(1, request.most or LONGEST))]
    return Completion(ids, "".join(map(str, ids)), rng.random() < 0.25)


def goodness(sample: Completion) -> float:
    return sample.ids.count(GOOD) / len(sample.ids)


class Reading:
    """A scorer that reads each sample once, and remembers how much it read."""

    def __init__(self, reads: int = 1) -> None:
        self.tokens = 0
        self.scorer = Scorer(self.score, reads)

    def score(self, question: str, samples: list[Completion]) -> list[float]:
        self.tokens += sum(len(sample.ids) for sample in samples)
        return [goodness(sample) for sample in samples]


def attempt_at(label: str, budget: int, problem: int = 0, reading: Reading | None = None, seed: int = 3) -> Attempt:
    scorers = {"good": (reading or Reading()).scorer}
    return Attempt(f"What is {problem}?", f"{problem}", label, budget * LONGEST, LONGEST, seed, scorers=scorers)


def searched(
    label: str, budget: int, problems: int = 20, draw: Callable = drawn, **of_attempt
) -> tuple[list[Attempt], list[Completion]]:
    attempts = [attempt_at(label, budget, number, **of_attempt) for number in range(problems)]
    begun = [(attempt, find_strategy(label)(attempt, **ARGS.get(label, {}))) for attempt in attempts]
    return attempts, run_together(begun, lambda requests: [draw(request) for request in requests])


@pytest.mark.parametrize("label", ARGS)
@pytest.mark.parametrize("budget", [1, 2, 4, 16])
@pytest.mark.parametrize("reads", [0, 1])
def test_a_budget_is_never_exceeded_and_counts_every_step_drawn_and_read(label: str, budget: int, reads: int) -> None:
    tokens, reading = Counter(), Reading(reads)

    def draw(request: SampleRequest) -> Completion:
        completion = drawn(request)
        tokens[request] = len(completion.ids)
        return completion

    attempts, chosen = searched(label, budget, draw=draw, reading=reading)
    assert all(0 < attempt.spent <= attempt.reserved <= attempt.budget for attempt in attempts)
    assert all(attempt.pool or attempt.spent == attempt.reserved for attempt in attempts)  # steps give back the rest
    assert sum(attempt.spent for attempt in attempts) == tokens.total() + reads * reading.tokens
    assert all(0 < len(completion.ids) <= LONGEST for completion in chosen)


@pytest.mark.parametrize("label", ARGS)
def test_the_longest_steps_fit_too_and_an_end_is_drawn(label: str) -> None:
    def longest(request: SampleRequest) -> Completion:
        ends = not request.step
        return Completion([2] * (request.most or LONGEST), "2", ends)

    attempts, chosen = searched(label, 4, draw=longest)
    assert all(attempt.spent <= attempt.budget for attempt in attempts)
    assert all(completion.finished and len(completion.ids) == LONGEST for completion in chosen)


@pytest.mark.parametrize("label", ARGS)
def test_the_same_seed_chooses_the_same_and_problems_beside_it_change_nothing(label: str) -> None:
    alone, among = searched(label, 8, problems=1)[1], searched(label, 8, problems=9)[1]
    assert alone == among[:1] == searched(label, 8, problems=1)[1]
    assert searched(label, 8, problems=1, seed=4)[1] != alone


@pytest.mark.parametrize("label", ARGS)
@pytest.mark.parametrize("budget", [1, 2, 3])  # of 2 and 3, drawn and read, a second response can't be afforded
def test_with_one_sample_every_strategy_is_direct(label: str, budget: int) -> None:
    attempts, chosen = searched(label, budget)
    direct_attempts, direct = searched("direct", 1)
    assert chosen == direct and [each.spent for each in attempts] == [each.spent for each in direct_attempts]


@pytest.mark.parametrize("label", ARGS)
def test_the_order_of_the_responses_changes_nothing(label: str, monkeypatch: pytest.MonkeyPatch) -> None:
    straight, by_steps, rng = searched(label, 16)[1], step_search.by_steps, random.Random(5)

    def shuffling(*words):
        *others, choose = words
        return by_steps(*others, lambda paths: choose(rng.sample(paths, len(paths))))

    monkeypatch.setattr(step_search, "by_steps", shuffling)
    assert searched(label, 16)[1] == straight


@pytest.mark.parametrize("label", ARGS)
def test_the_scorer_leads(label: str) -> None:
    found = sum(map(goodness, searched(label, 16, problems=60)[1])) / 60
    by_chance = sum(map(goodness, searched("direct", 1, problems=60)[1])) / 60
    assert found > by_chance + 0.1


@pytest.mark.parametrize("label", ARGS)
def test_a_response_goes_on_from_the_tokens_that_were_drawn(label: str) -> None:
    known = {()}

    def draw(request: SampleRequest) -> Completion:
        assert request.begun in known and not request.opening
        completion = drawn(request)
        known.add((*request.begun, *completion.ids))
        return completion

    chosen = searched(label, 16, problems=3, draw=draw)[1]
    assert all(tuple(completion.ids) in known for completion in chosen)
    assert all(completion.text == "".join(map(str, completion.ids)) for completion in chosen)


@pytest.mark.parametrize(("label", "families"), [("beam_search", {0}), ("dvts", {0, 1})])
def test_subtrees_go_on_each_and_beams_only_where_the_scores_are_best(label: str, families: set[int]) -> None:
    """The first four of eight steps are liked: both beams are of them, and one of two subtrees isn't."""
    rounds: list[list[SampleRequest]] = []

    def draw(requests: list[SampleRequest]) -> list[Completion]:
        rounds.append(requests)
        if len(rounds) > 1:
            return [Completion([0], "0", True) for _ in requests]
        return [Completion([GOOD if place < 4 else 0, *[2] * place], "", False) for place in range(len(requests))]

    attempt = attempt_at(label, 8, reading=Reading(0))
    run_together([(attempt, find_strategy(label)(attempt, **ARGS[label]))], draw)
    assert len(rounds[1]) == 8 and {(len(each.begun) - 1) // 4 for each in rounds[1]} == families
    assert set(Counter(each.begun for each in rounds[1]).values()) == {4}


def test_a_verdict_is_worth_its_first_word_and_nothing_without_one_or_without_room() -> None:
    attempt = attempt_at("tree_of_thoughts", 8)
    said = ["It is impossible to be sure", "surely not", "LIKELY.", "", "l\u0131kely", "not sure, or"]
    values = {"sure": 20, "Likely": 1, "impossible": 0.001, "not sure": 0.5}
    judge = step_search.by_verdicts(attempt, "Will it do?", 5, values)
    scoring = judge.scores([Completion([n], f"{n}", False) for n in [*range(6), 2]])
    requests = next(scoring)
    assert [request.before[-1] for request in requests] == [("assistant", f"{n}") for n in range(6)]
    assert {(request.question, request.most, request.step) for request in requests} == {("Will it do?", 5, "")}
    with pytest.raises(StopIteration) as end:
        scoring.send([Completion([], text, True) for text in said])
    assert end.value.value == [0.001, 0.0, 1.0, 0.0, 0.0, 0.5, 1.0]
    attempt.fits = lambda request: request.before[-1][1] == "1"
    scoring = judge.scores([Completion([n], f"{n}", False) for n in range(2)])
    assert len(next(scoring)) == 1
    with pytest.raises(StopIteration) as end:
        scoring.send([Completion([], "sure", True)])
    assert end.value.value == [0.0, 20.0]


def test_equal_responses_are_one_so_that_others_go_on_too() -> None:
    rounds: list[list[SampleRequest]] = []

    def draw(requests: list[SampleRequest]) -> list[Completion]:
        rounds.append(requests)
        return [Completion([0 if place == 5 else GOOD], "", len(rounds) > 1) for place in range(len(requests))]

    attempt = attempt_at("beam_search", 8, reading=Reading(0))
    run_together([(attempt, find_strategy("beam_search")(attempt, **ARGS["beam_search"]))], draw)
    assert Counter(each.begun for each in rounds[1]) == {(GOOD,): 4, (0,): 4}


def test_every_share_is_drawn_as_often_as_it_says() -> None:
    rng = random.Random(1)
    for count in (1, 2, 7, 16):
        shares = boltzmann([rng.random() for _ in range(count)], 0.2)
        sums = Counter()
        for place in range(400):
            numbers = resampled(shares, (place + 0.5) / 400)
            assert len(numbers) == count
            drawn_times = Counter(numbers)
            assert all(abs(drawn_times[number] - count * share) < 1 for number, share in enumerate(shares))
            sums += drawn_times
        for number, share in enumerate(shares):
            assert sums[number] / 400 == pytest.approx(count * share, abs=0.02)


def test_a_cold_temperature_keeps_the_best_and_a_hot_one_all() -> None:
    assert boltzmann([0.1, 0.9, 0.5], 1e-3) == pytest.approx([0, 1, 0])
    assert boltzmann([-900.0, 0.0], 1e6) == pytest.approx([0.5, 0.5], abs=1e-3)


@pytest.mark.parametrize(
    ("label", "change", "said"),
    [
        ("beam_search", {"step": "sentense"}, "args.step: there is no rule 'sentense'; did you mean 'sentence'?"),
        ("dvts", {"step": ["line"]}, "args.step: ['line'] isn't of type str; write a value of that type"),
        ("dvts", {"step_tokens": 0}, "args.step_tokens: 0; use a whole number, 1 to 60, which is max_new_tokens"),
        ("dvts", {"step_tokens": 61}, "args.step_tokens: 61; use a whole number, 1 to 60, which is max_new_tokens"),
        ("beam_search", {"expansions": 1.5}, "args.expansions: 1.5 isn't of type int"),
        ("beam_search", {"expansions": True}, "args.expansions: True isn't of type int"),
        ("beam_search", {"expansions": 0}, "args.expansions: 0; use a whole number, 1 or more"),
        ("particle_filtering", {"temperature": 0}, "args.temperature: 0; use a number above 0"),
        ("particle_filtering", {"temperature": "hot"}, "args.temperature: 'hot' isn't of type float"),
        ("tree_of_thoughts", {"value_tokens": 61}, "args.value_tokens: 61; use a whole number, 1 to 60, which is max_"),
        (
            "tree_of_thoughts",
            {"values": {}},
            "args.values: {}; write different words with numbers from 0, as {sure: 20, likely: 1}",
        ),
        ("tree_of_thoughts", {"values": ["sure"]}, "args.values: ['sure'] isn't of type dict[str, float]"),
        (
            "tree_of_thoughts",
            {"values": {"sure": 1, "Sure": 2}},
            "args.values: {'sure': 1, 'Sure': 2}; write different words with numbers from 0",
        ),
        ("tree_of_thoughts", {"value": " "}, "args.value: ' '; write what the model is asked of a response"),
        (
            "tree_of_thoughts",
            {"values": {"sure": -1}},
            "args.values: {'sure': -1}; write different words with numbers from 0",
        ),
        ("particle_filtering", {"expansions": 4}, "args: got an unexpected keyword argument 'expansions'"),
    ],
)
def test_steps_that_there_cant_be_are_refused_in_a_line(label: str, change: dict, said: str) -> None:
    check_strategies({label: {"args": ARGS[label]}}, LONGEST)
    with pytest.raises(UserError) as refusal:
        check_strategies({label: {"args": ARGS[label] | change}}, LONGEST)
    assert said in str(refusal.value) and "\n" not in str(refusal.value)
