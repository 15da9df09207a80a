"""Strategies of search: within their budget, the same again, direct with one sample, in any order, without the gold."""

import inspect
import random
import re
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest

from r1flow.artifacts.fingerprint import user_modules
from r1flow.core.errors import UserError
from r1flow.sampling import Completion, strategies
from r1flow.sampling.strategies import (
    Attempt,
    SampleRequest,
    Scorer,
    best_scored,
    check_strategies,
    equal_answers,
    find_strategy,
    most_voted,
    run_together,
)

ROOT = Path(__file__).parents[2]
LONGEST = 50
ARGS = {
    "direct": {},
    "self_consistency": {},
    "best_of_n": {"scorer": "by_length"},
    "weighted_best_of_n": {"scorer": "by_length"},
    "budget_forcing": {"wait": "wait"},
    "revision": {"critique": "Where is it wrong?", "revise": "Again."},
}
SCORERS = {"by_length": Scorer(lambda question, samples: [float(len(each.ids)) for each in samples], reads=1)}


def drawn(request: SampleRequest) -> Completion:
    """A completion of a length and with an answer that depend on the request alone, as a model's do."""
    rng = random.Random(f"{request}")
    ids = list(range(rng.randint(1, LONGEST)))
    start = "" if request.opening else "<think>"
    return Completion(
        ids, f"{start}so {rng.random()}</think><answer>{rng.choice(['7', '7.0', '8', ''])}</answer>", True
    )


def attempt_at(label: str, budget: int, problem: int = 0, **changes) -> Attempt:
    return Attempt(
        f"What is {problem}?", str(problem), label, budget * LONGEST, LONGEST, seed=3, scorers=SCORERS, **changes
    )


def searched(
    label: str, budget: int, problems: int = 20, draw: Callable = drawn
) -> tuple[list[Attempt], list[Completion]]:
    attempts = [attempt_at(label, budget, number) for number in range(problems)]
    begun = [(attempt, find_strategy(label)(attempt, **ARGS[label])) for attempt in attempts]
    return attempts, run_together(begun, lambda requests: [draw(request) for request in requests])


@pytest.mark.parametrize("label", ARGS)
@pytest.mark.parametrize("budget", [1, 4, 16])
def test_a_budget_is_never_exceeded_and_counts_all_that_was_drawn_and_read(label: str, budget: int) -> None:
    tokens = {}

    def draw(request: SampleRequest) -> Completion:
        completion = drawn(request)
        tokens[request] = len(completion.ids)
        return completion

    attempts, _ = searched(label, budget, draw=draw)
    assert all(0 < attempt.spent <= attempt.budget for attempt in attempts)
    read = 2 if "scorer" in ARGS[label] and budget > 1 else 1  # drawn, and where there is a choice read
    assert sum(attempt.spent for attempt in attempts) == read * sum(tokens.values())


@pytest.mark.parametrize("label", ARGS)
def test_the_longest_completions_fit_too(label: str) -> None:
    attempts, _ = searched(label, 7, draw=lambda request: Completion([1] * LONGEST, drawn(request).text, False))
    assert all(attempt.spent <= attempt.budget for attempt in attempts)


@pytest.mark.parametrize("label", ARGS)
def test_the_same_seed_chooses_the_same_and_problems_beside_it_change_nothing(label: str) -> None:
    alone, among = searched(label, 8, problems=1)[1], searched(label, 8, problems=9)[1]
    assert alone == among[:1] == searched(label, 8, problems=1)[1]
    other = attempt_at(label, 8)
    other.seed = 4
    assert (
        run_together([(other, find_strategy(label)(other, **ARGS[label]))], lambda asked: [*map(drawn, asked)]) != alone
    )


@pytest.mark.parametrize("label", ARGS)
def test_with_one_sample_every_strategy_is_direct(label: str) -> None:
    assert searched(label, 1)[1] == searched("direct", 1)[1]
    attempts, _ = searched(label, 1)
    assert [attempt.spent for attempt in attempts] == [attempt.spent for attempt in searched("direct", 16)[0]]


def test_scores_below_0_would_vote_for_the_rarest_answer() -> None:
    """So plans refuse them as weights (programs/search/scorers.py)."""
    samples = [Completion([1], f"<think>{n}</think><answer>{answer}</answer>", True) for n, answer in enumerate("7778")]
    attempt, scores = attempt_at("weighted_best_of_n", 16), [-0.1, -0.1, -0.1, -0.2]
    assert most_voted(attempt, samples, scores) is samples[3]
    assert best_scored(attempt, samples, scores) is not samples[3]


@pytest.mark.parametrize("scores", [lambda n: [1.0] * n, lambda n: [float(i % 3) for i in range(n)]])
@pytest.mark.parametrize("choose", [most_voted, best_scored])
def test_the_order_of_samples_changes_nothing(choose: Callable, scores: Callable) -> None:
    attempt = attempt_at("self_consistency", 16)
    pairs = list(zip([drawn(request) for request in attempt.samples(12)], scores(12), strict=True))
    chosen = set()
    for seed in range(30):
        random.Random(seed).shuffle(pairs)
        chosen.add(choose(attempt, *zip(*pairs, strict=True)).text)
    assert len(chosen) == 1


def test_the_answer_of_most_samples_wins_however_it_is_spelt() -> None:
    attempt = attempt_at("self_consistency", 16)
    answers = ["1/2", "0.5", r"\frac{1}{2}", "8", "8", ""]
    samples = [
        Completion([1], f"<think>{i}</think><answer>{answer}</answer>", True) for i, answer in enumerate(answers)
    ]
    assert attempt.answer(most_voted(attempt, samples, [1.0] * 6)) in answers[:3]
    assert attempt.answer(most_voted(attempt, samples, [1.0, 1.0, 1.0, 2.0, 2.0, 9.0])) == "8"
    assert sorted(map(len, equal_answers(answers[:4]))) == [1, 3]


def test_a_tie_is_worth_as_much_as_chance() -> None:
    first = 0
    for problem in range(400):
        attempt = attempt_at("self_consistency", 2, problem)
        samples = [Completion([1], f"<think>x</think><answer>{answer}</answer>", True) for answer in ("7", "8")]
        first += attempt.answer(most_voted(attempt, samples, [1.0, 1.0])) == "7"
    assert 150 < first < 250


def test_strategies_choose_among_the_same_samples_which_are_drawn_once() -> None:
    labels = ["direct", "self_consistency", "best_of_n"]
    begun, asked = [], []
    for label in labels:
        attempt = attempt_at(label, 8)
        begun.append((attempt, find_strategy(label)(attempt, **ARGS[label])))

    def draw(requests: list[SampleRequest]) -> list[Completion]:
        asked.extend(requests)
        return [drawn(request) for request in requests]

    run_together(begun, draw)
    pools = [attempt.pool for attempt, _ in begun]
    assert len(set(asked)) == len(asked) == max(map(len, pools))
    assert all(pool == max(pools, key=len)[: len(pool)] for pool in pools)


def test_a_strategy_sees_nothing_of_the_right_answer() -> None:
    known = {each.name for each in fields(Attempt)}
    assert known == {
        *("question", "problem_id", "label", "budget", "longest", "seed", "is_generated", "scorers", "fits"),
        *("reserved", "spent", "pool", "dependent"),
    }
    assert "gold" not in inspect.getsource(Attempt)


def test_a_thought_is_made_to_go_on_and_what_was_cut_off_counts() -> None:
    attempts, chosen = searched("budget_forcing", 4)
    assert all("wait" in completion.text for completion in chosen)
    assert all(
        attempt.dependent >= 3 and completion.text.startswith("<think>")
        for attempt, completion in zip(attempts, chosen, strict=True)
    )
    assert all(attempt.spent > len(completion.ids) for attempt, completion in zip(attempts, chosen, strict=True))


@pytest.mark.parametrize("label", ["budget_forcing", "revision"])
def test_what_the_model_has_no_positions_for_isnt_asked(label: str) -> None:
    attempt = attempt_at(label, 8, fits=lambda request: False)
    strategy = find_strategy(label)(attempt, **ARGS[label])
    [chosen] = run_together([(attempt, strategy)], lambda asked: [*map(drawn, asked)])
    assert [chosen] == searched("direct", 1, problems=1)[1] and attempt.spent == len(chosen.ids)


def test_a_request_with_a_limit_of_its_own_needs_room_for_that_alone(monkeypatch) -> None:
    monkeypatch.setattr(strategies, "prompt_of", lambda sampler, request: "")
    monkeypatch.setattr(strategies, "encode", lambda tokenizer, prompts, openings: [[0] * 496])
    fits = strategies.fits_in(SimpleNamespace(tokenizer=None, positions=512), LONGEST)
    assert [fits(SampleRequest("", 1, most=most)) for most in (0, 16, 17)] == [False, True, False]
    monkeypatch.setattr(strategies, "encode", None)  # a server's chat has no tokenizer, and no limit that we know
    assert strategies.fits_in(SimpleNamespace(tokenizer=None, positions=None), LONGEST)(SampleRequest("", 1))


def test_the_strategy_of_the_documentation_works_from_a_file_of_ones_own(tmp_path: Path, monkeypatch) -> None:
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "docs/strategies.md").read_text(), re.DOTALL)
    (tmp_path / "my_strategies.py").write_text(code)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    check_strategies({"patient": {"name": "my_strategies.patient", "args": {"most": 8}}}, LONGEST)
    patient = find_strategy("my_strategies.patient")
    for number in range(30):
        attempt = attempt_at("patient", 16, number)
        [chosen] = run_together([(attempt, patient(attempt, most=8))], lambda asked: [*map(drawn, asked)])
        answers = [attempt.answer(drawn(request)) for request in attempt.pool]
        read = [answer for answer in answers[:-1] if answer is not None]
        assert len(set(read)) == len(read) and chosen.text == drawn(attempt.pool[-1]).text
        assert answers[-1] in read or len(answers) == 8
    assert user_modules({"strategies": {"patient": {"name": "my_strategies.patient"}}}) == {"my_strategies"}
    del sys.modules["my_strategies"]


def greedy_for_samples(attempt: Attempt):
    yield attempt.samples(3)


def asks_for_nothing(attempt: Attempt):
    yield []


def gives_text(attempt: Attempt):
    yield attempt.samples(1)
    return "7"


def ends_at_once(attempt: Attempt):
    if attempt.affords(9):
        yield attempt.samples(9)


def asks_without_a_list(attempt: Attempt):
    yield attempt.again(opening="so")


def asks_for_texts(attempt: Attempt):
    yield [attempt.question]


def asks_for_a_step_of_no_rule(attempt: Attempt):
    yield [attempt.again(step="claus", most=4)]


def asks_a_scorer_that_is_not_there(attempt: Attempt):
    attempt.score("by_lenght", (yield attempt.samples(1)))


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        (ends_at_once, "strategies.mine: it asks for nothing"),
        (asks_without_a_list, "strategies.mine: it asks for something else than a list of requests"),
        (asks_for_texts, "strategies.mine: it asks for something else than a list of requests"),
        (asks_for_a_step_of_no_rule, "strategies.mine: it asks for a step by the rule 'claus'; did you mean 'clause'?"),
        (
            asks_a_scorer_that_is_not_there,
            "strategies.mine: there is no scorer 'by_lenght' here; did you mean 'by_length'?",
        ),
        (greedy_for_samples, "strategies.mine: what it asks for may take 150 tokens, and 100 of 100 are left"),
        (asks_for_nothing, "strategies.mine: it asks for nothing"),
        (gives_text, "strategies.mine: it returned str; return the completion that it chose"),
    ],
)
def test_a_strategy_that_breaks_the_rules_is_named_in_a_line(strategy: Callable, said: str) -> None:
    attempt = attempt_at("mine", 2)
    with pytest.raises(UserError) as refusal:
        run_together([(attempt, strategy(attempt))], lambda asked: [*map(drawn, asked)])
    assert str(refusal.value).startswith(said) and "\n" not in str(refusal.value)


def test_a_request_may_be_made_of_lists_as_completions_have_them() -> None:
    """`begun` of a sample's ids, and turns before as lists."""

    def mine(attempt: Attempt):
        [sample] = yield attempt.samples(1)
        before = [["user", attempt.question], ["assistant", sample.text]]
        [more] = yield [attempt.again("Again.", before=before, begun=sample.ids, most=4)]
        return more

    attempt = attempt_at("mine", 2)
    asked = []
    run_together([(attempt, mine(attempt))], lambda requests: asked.extend(requests) or [*map(drawn, requests)])
    assert asked[1].begun == tuple(drawn(asked[0]).ids) and asked[1].before[0] == ("user", attempt.question)


@pytest.mark.parametrize(
    ("strategies", "said"),
    [
        ({}, "strategies: there are none"),
        ({"self_consistancy": {}}, "there is no strategy 'self_consistancy'; did you mean 'self_consistency'?"),
        ({"mine": {"name": "no_such_module.mine"}}, "put the strategy into no_such_module.py in the project's folder"),
        ({"mine": {"name": "json.dumps"}}, "strategies: json.dumps is no generator function"),
        (
            {"direct": {"args": {"k": 3}}},
            "strategies.direct.args: got an unexpected keyword argument 'k' (its args: none)",
        ),
        ({"best_of_n": {}}, "strategies.best_of_n.args: missing a required argument: 'scorer' (its args: scorer)"),
        ({"direct": {"weight": 1}}, "strategies.direct: {'weight': 1}; write it with the keys name and args"),
    ],
)
def test_strategies_that_there_cant_be_are_refused_in_a_line(strategies: dict, said: str) -> None:
    with pytest.raises(UserError) as refusal:
        check_strategies(strategies, LONGEST)
    assert said in str(refusal.value) and "\n" not in str(refusal.value)
