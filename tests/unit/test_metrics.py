"""Means, votes and intervals: checked against closed forms, simulation and degenerate samples."""

import math
from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import binomtest

from r1flow.core.metrics import (
    Interval,
    cons_at_k,
    guess_at_k,
    mean_interval,
    mean_over,
    normalise_answer,
    paired_difference,
    pass_at_k,
    per_problem,
    residuals,
    share_interval,
    slope_interval,
    standard_error,
    summarise,
    summarise_tasks,
    t_quantile,
)


def row(problem: str, correct: bool, answer: str | None = "5", task: str = "chain_sum", **changes) -> dict:
    return {
        "task": task,
        "problem_id": problem,
        "correct": correct,
        "correct_lenient": correct,
        "answer": answer,
        "answer_lenient": answer,
        "well_formed": True,
        "language": 1.0,
        "length": 10,
        "finished": True,
        "reflections": 0,
        "thinks": True,
        **changes,
    }


@pytest.mark.parametrize(
    ("df", "expected"), [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (30, 2.0423), (479, 1.9649)]
)
def test_t_quantile_is_that_of_the_tables(df, expected):
    assert t_quantile(df) == pytest.approx(expected, rel=0.002)


def test_t_interval_covers_the_mean_95_times_in_100():
    rng = np.random.default_rng(1)
    intervals = [mean_interval(rng.normal(size=8)) for _ in range(4000)]
    assert np.mean([interval.low <= 0 <= interval.high for interval in intervals]) == pytest.approx(0.95, abs=0.012)


def test_intervals_are_those_of_the_textbook():
    """Worked by hand: t's quantiles of 1 and 3 degrees of freedom, n − 1 in every variance."""
    interval = mean_interval([0.0, 1.0])
    assert (interval.estimate, interval.se, interval.n) == (0.5, 0.5, 2)
    assert (interval.low, interval.high) == pytest.approx((0.5 - 12.7062 * 0.5, 0.5 + 12.7062 * 0.5), rel=1e-5)
    both = mean_over([mean_interval([10.0, 20.0, 30.0, 40.0]), mean_interval([20.0, 40.0, 60.0])])
    assert (both.estimate, both.se, both.n) == (32.5, pytest.approx(175**0.5 / 2), 7)  # variances 500/3/4 and 400/3
    halves = [both.high - both.estimate, both.estimate - both.low]
    assert halves == pytest.approx([3.05571 * 175**0.5 / 2] * 2, rel=1e-5)  # Satterthwaite's 3.2347 degrees of freedom
    line = slope_interval([1.0, 2.0, 4.0])  # residuals 1/6, −1/3, 1/6: s² = 1/6, and the steps' spread is 2
    assert (line.estimate, line.se, line.n) == (pytest.approx(1.5), pytest.approx((1 / 12) ** 0.5), 3)
    assert line.high - line.estimate == pytest.approx(12.7062 * line.se, rel=1e-5)
    assert residuals([1.0, 2.0, 4.0]) == pytest.approx([1 / 6, -1 / 3, 1 / 6])


def test_pass_at_k_is_the_share_of_k_subsets_with_a_right_sample():
    correct = [True, False, False, True, False, False]
    for k in range(1, 7):
        subsets = [any(subset) for subset in combinations(correct, k)]
        assert pass_at_k(correct, k) == pytest.approx(np.mean(subsets))


@pytest.mark.parametrize("k", [0, 3])
def test_pass_at_k_refuses_a_k_that_cannot_be_drawn(k):
    with pytest.raises(ValueError, match="pass@k"):
        pass_at_k([True, False], k)


def test_guessing_is_the_share_of_k_draws_from_the_others_with_the_right_answer():
    golds = ["5", "7", "5.0", " 7", "9", "05"]
    value = {"5": 5, "7": 7, "5.0": 5, " 7": 7, "9": 9, "05": 5}
    for k in (1, 2, 3):
        for number, chance in enumerate(guess_at_k(golds, k)):
            others = [value[gold] for gold in golds[:number] + golds[number + 1 :]]
            draws = [value[golds[number]] in draw for draw in product(others, repeat=k)]
            assert chance == pytest.approx(np.mean(draws))


def test_nobody_guesses_an_answer_that_no_other_problem_has():
    assert guess_at_k(["5", "6", "7"], 64) == [0.0] * 3
    assert guess_at_k(["5"], 64) == [0.0] and guess_at_k([], 1) == []


@pytest.mark.parametrize(
    ("answers", "correct", "expected"),
    [
        (["5", "5", "7"], [True, True, False], 1.0),
        (["7", "7", "5"], [False, False, True], 0.0),
        (["5", "7"], [True, False], 0.5),
        (["5", "7", "8"], [True, False, False], 1 / 3),
        (["5.0", " 5", "7", "7"], [True, True, False, False], 0.5),
        ([None, None, "5"], [False, False, True], 1.0),
        ([None, None], [False, False], 0.0),
        (["", "  "], [False, False], 0.0),
        ([], [], 0.0),
        (["5"], [True], 1.0),
    ],
)
def test_vote_is_worth_the_mean_over_tied_answers_and_silence_abstains(answers, correct, expected):
    assert cons_at_k(answers, correct) == pytest.approx(expected)


def test_vote_does_not_depend_on_the_order_of_samples():
    answers, correct = ["5", "7", "7", "5", None, "9"], [True, False, False, True, False, False]
    rng = np.random.default_rng(0)
    orders = [rng.permutation(6) for _ in range(20)]
    assert {cons_at_k([answers[i] for i in order], [correct[i] for i in order]) for order in orders} == {0.5}


@pytest.mark.parametrize(
    ("spellings", "expected"),
    [
        (["5", " 5 ", "5.0", "+5", "05", "5.", "5.00"], "5"),
        (["-3", "-3.0", "-03"], "-3"),
        (["0", "-0", "0.0", "00"], "0"),
        (["1000", "1,000", "1,000.0"], "1000"),
        (["Yes", "yes.", " YES "], "yes"),
        (["1/2"], "1/2"),
        (["٣"], "٣"),
        (["1e999999999"], "1e999999999"),
    ],
)
def test_spellings_of_one_answer_vote_together(spellings, expected):
    assert {normalise_answer(spelling) for spelling in spellings} == {expected}


def test_enormous_answer_is_normalised_in_no_time():
    assert normalise_answer("0" * 200_000 + "7") == "7"
    assert len(normalise_answer("1," * 100_000)) > 0


def test_standard_error_is_over_problems_not_samples():
    once = [row("a", True), row("b", False), row("c", True)]
    assert summarise(once)["se"] == summarise(once * 16)["se"] == pytest.approx(standard_error([1, 0, 1]))


def test_an_interval_of_shares_ends_at_0_and_1_and_is_else_that_of_the_mean():
    few, mean = share_interval([0.4, 0.0, 0.0, 0.0]), mean_interval([0.4, 0.0, 0.0, 0.0])
    assert mean.low < 0 == few.low and few.high == mean.high and few.estimate == 0.1
    assert share_interval([1.0, 0.9, 1.0]).high == 1.0 < mean_interval([1.0, 0.9, 1.0]).high
    assert share_interval([0.4, 0.5, 0.6]) == mean_interval([0.4, 0.5, 0.6])
    assert share_interval([0.5]).low is None


def test_none_of_the_problems_solved_or_all_is_no_certainty() -> None:
    """The bound is Clopper and Pearson's, as scipy has it; more problems say more."""
    for n in (2, 24, 480):
        exact = binomtest(0, n).proportion_ci(0.95, "exact")
        none, every = share_interval([0.0] * n), share_interval([1.0] * n)
        assert (none.low, none.high) == pytest.approx((exact.low, exact.high))
        assert (every.low, every.high) == pytest.approx((1 - exact.high, 1))
    assert share_interval([0.5, 0.5]).high == 0.5


def test_one_problem_has_a_mean_and_no_error():
    summary = summarise([row("a", True), row("a", False)])
    assert (summary["pass_at_1"], summary["se"], summary["n_problems"], summary["k"]) == (0.5, None, 1, 2)
    assert mean_interval([0.5]).low is None
    assert mean_interval([]).estimate is None


def test_zero_variance_gives_a_point_and_not_nan():
    interval = paired_difference({"a": 1.0, "b": 1.0}, {"a": 0.0, "b": 0.0})
    assert (interval.estimate, interval.low, interval.high, interval.se) == (1.0, 1.0, 1.0, 0.0)


def test_pairing_uses_shared_problems_only():
    interval = paired_difference({"a": 1.0, "b": 1.0, "c": 0.0}, {"b": 0.0, "c": 0.0, "d": 1.0})
    assert (interval.estimate, interval.n) == (0.5, 2)
    assert paired_difference({"a": 1.0}, {"b": 1.0}).n == 0


def test_pairing_is_tighter_than_two_samples_when_problems_differ_in_difficulty():
    rng = np.random.default_rng(2)
    difficulty = rng.uniform(0, 1, 200)
    first, second = difficulty + 0.05 + rng.normal(0, 0.02, 200), difficulty + rng.normal(0, 0.02, 200)
    names = [f"p{i}" for i in range(200)]
    paired = paired_difference(dict(zip(names, first, strict=True)), dict(zip(names, second, strict=True)))
    spread = [mean_interval(values).se for values in (first, second)]
    assert paired.low > 0 > paired.estimate - 1.96 * math.hypot(*spread)


def test_means_of_families_weigh_alike_and_miss_no_bound_that_there_is():
    large, small = mean_interval([1.0] * 50 + [0.0] * 50), mean_interval([0.0] * 5 + [0.2] * 5)
    both = mean_over([large, small])
    assert both.estimate == pytest.approx((0.5 + 0.1) / 2) and both.n == 110
    assert both.se == pytest.approx(math.hypot(large.se, small.se) / 2)
    assert vars(mean_over([large])) == pytest.approx(vars(large))
    assert mean_over([mean_interval([1.0] * 3), mean_interval([0.0] * 3)]) == Interval(0.5, 0.5, 0.5, 0.0, 6)
    assert mean_over([large, mean_interval([1.0])]).low is None
    assert mean_over([large, mean_interval([])]).estimate is mean_over([]).estimate is None


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 3.0], [2.0, 2.0, 2.0]])
def test_a_slope_of_few_or_equal_values_is_no_nan(values):
    found = slope_interval(values)
    assert found.n == len(values)
    assert all(number is None or math.isfinite(number) for number in vars(found).values())
    assert (found.low is None) == (len(values) < 3)


def test_slopes_have_their_nominal_coverage():
    rng = np.random.default_rng(4)
    intervals = [slope_interval(list(0.3 * np.arange(10) + rng.normal(size=10))) for _ in range(2000)]
    assert np.mean([found.low <= 0.3 <= found.high for found in intervals]) == pytest.approx(0.95, abs=0.015)


def test_solved_wants_an_end_and_reflections_count_by_tokens():
    rows = [row("a", True), row("a", True, finished=False), row("a", False), row("a", False, reflections=4, length=70)]
    found = per_problem(rows)
    assert found["solved"] == {"a": 0.25}
    assert found["reflection_density"] == {"a": 4 / 100}
    assert found["thinking_rate"] == {"a": 1.0}


def test_language_without_words_is_left_out_not_counted_as_zero():
    rows = [row("a", True, language=None), row("a", True, language=1.0), row("b", True, language=None)]
    assert per_problem(rows)["language_rate"] == {"a": 1.0}
    assert summarise([row("b", True, language=None)])["language_rate"] is None


def test_lenient_and_strict_scores_stay_apart():
    summary = summarise([row("a", False, answer=None, correct_lenient=True, answer_lenient="5")])
    assert (summary["pass_at_1"], summary["pass_at_k"], summary["cons_at_k"]) == (0.0, 0.0, 0.0)
    assert [summary[f"{name}_lenient"] for name in ("pass_at_1", "pass_at_k", "cons_at_k")] == [1.0, 1.0, 1.0]
    rows = [row("a", False, correct_lenient=True), row("b", False), row("c", False, correct_lenient=True)]
    assert (summarise(rows)["se"], summarise(rows)["se_lenient"]) == (0.0, standard_error([1, 0, 1]))


def test_reasoning_is_all_families_and_general_stays_out_of_it():
    rows = [row("a", True), row("b", False, task="products"), row("c", False, task="general", answer=None)]
    summaries = summarise_tasks(rows)
    assert set(summaries) == {"chain_sum", "products", "general", "reasoning"}
    assert (summaries["reasoning"]["pass_at_1"], summaries["reasoning"]["n_problems"]) == (0.5, 2)
    assert summaries["general"]["cons_at_k"] is None
