"""Metrics of graded samples: pass@1, pass@k, cons@k and rates, with standard errors and intervals.

The unit is the problem, never the sample: k samples of one problem are averaged first, and every standard error and
interval is over problems (samples of a problem are correlated; counting each one would make intervals too narrow).
Two models are compared on the problems they share, by the mean of the per-problem differences.

Left out: the spread between training seeds. An interval here says how far other *problems* could move the number,
not how far another training run could.

Paper: "Evaluation setup" (pass@1 as the mean over k samples; cons@64 as the majority vote over 64).
A row of data: {"task": "chain_sum", "problem_id": "3f0c…", "answer": "5", "correct": True, "length": 41, …}.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np

Row = Mapping[str, object]
PerProblem = dict[str, float]  # problem id -> value

_NUMBER = re.compile(r"([+-]?)(\d+)(?:\.(\d*))?", re.ASCII)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))", re.ASCII)


@dataclass(frozen=True)
class Interval:
    """A mean over n problems with its standard error and 95 % interval; `None` where n is too small to say."""

    estimate: float | None
    low: float | None
    high: float | None
    se: float | None
    n: int


def t_quantile(df: float) -> float:
    """The 97.5 % quantile of Student's t, for 1 degree of freedom or more."""
    from scipy.special import stdtrit  # takes 0.15 s, for which every plan would wait

    return float(stdtrit(df, 0.975))


def standard_error(values: Iterable[float]) -> float | None:
    """Standard deviation over √n (n − 1 in the variance); `None` for fewer than two values."""
    values = np.asarray(list(values), dtype=float)
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None


def mean_interval(values: Iterable[float]) -> Interval:
    """Mean of per-problem values with a 95 % t interval; one value gives no interval, and no values give no mean."""
    values = [float(value) for value in values]
    if not values:
        return Interval(None, None, None, None, 0)
    mean, se = float(np.mean(values)), standard_error(values)
    if se is None:
        return Interval(mean, None, None, None, 1)
    half = t_quantile(len(values) - 1) * se
    return Interval(mean, mean - half, mean + half, se, len(values))


def share_interval(shares: Iterable[float]) -> Interval:
    """`mean_interval` of values in 0…1, one a problem, such as how much of it is solved; bounds as of `as_share`."""
    return as_share(mean_interval(shares))


def as_share(interval: Interval) -> Interval:
    """The interval of a share of n problems, whose bounds end at 0 and 1.

    None of n, or all of them, have no spread, which would make the interval a point; then the other bound is the exact
    one (Clopper and Pearson 1934): of 24 problems of which none is solved, 0 to 14 %.
    """
    if interval.se == 0 and interval.estimate in (0, 1):
        reach = 1 - 0.025 ** (1 / interval.n)
        return replace(interval, low=interval.estimate * (1 - reach), high=max(interval.estimate, reach))
    return within_bounds(interval)


def within_bounds(interval: Interval) -> Interval:
    """The interval of a mean of shares, which can't be below 0 or above 1: a t interval of few values may be."""
    if interval.low is None:
        return interval
    return replace(interval, low=max(0.0, interval.low), high=min(1.0, interval.high))


def paired_difference(first: PerProblem, second: PerProblem) -> Interval:
    """Mean of first − second over the problems both have, with a 95 % t interval of the per-problem differences."""
    # Sorted: a sum of floats depends on its order, and a set of texts has another order in each process.
    return mean_interval(first[problem] - second[problem] for problem in sorted(first.keys() & second.keys()))


def mean_over(intervals: Sequence[Interval]) -> Interval:
    """The mean of independent means, such as those of families of problems, with equal weights.

    Its 95 % t interval has Satterthwaite's degrees of freedom; `n` counts all values. Without a bound in one of the
    means there is none in theirs.
    """
    n, estimates = sum(each.n for each in intervals), [each.estimate for each in intervals]
    if not intervals or None in estimates:
        return Interval(None, None, None, None, n)
    mean = float(np.mean(estimates))
    if any(each.se is None for each in intervals):
        return Interval(mean, None, None, None, n)
    variances = [(each.se / len(intervals)) ** 2 for each in intervals]
    se = math.sqrt(sum(variances))
    if se == 0:
        return Interval(mean, mean, mean, 0.0, n)
    freedom = sum(variances) ** 2 / sum(v**2 / (each.n - 1) for v, each in zip(variances, intervals, strict=True))
    half = t_quantile(freedom) * se
    return Interval(mean, mean - half, mean + half, se, n)


def slope_interval(values: Sequence[float]) -> Interval:
    """The slope per step of the straight line through the values (least squares), with a 95 % t interval.

    The values' distances from the line are taken as independent; `n` is the number of values, and at least 3 are needed
    for an interval.
    """
    n = len(values)
    if n < 2:
        return Interval(None, None, None, None, n)
    if n == 2:
        return Interval(float(values[1] - values[0]), None, None, None, n)
    (slope, _), covariance = np.polyfit(np.arange(n), np.asarray(values, dtype=float), 1, cov=True)
    slope, se = float(slope), float(np.sqrt(covariance[0, 0]))
    half = t_quantile(n - 2) * se
    return Interval(slope, slope - half, slope + half, se, n)


def residuals(values: Sequence[float]) -> list[float]:
    """How far each value lies from the straight line through them (least squares); needs two values or more."""
    steps = np.arange(len(values))
    return [float(r) for r in np.asarray(values, dtype=float) - np.polyval(np.polyfit(steps, values, 1), steps)]


def pass_at_k(correct: Sequence[bool], k: int) -> float:
    """Chance that k of these n samples, drawn without replacement, hold a right one: 1 − C(n−c, k) / C(n, k).

    Unbiased for any k ≤ n (Chen et al. 2021, arXiv 2107.03374). Raises ValueError for k outside 1…n.
    """
    n, c = len(correct), sum(map(bool, correct))
    if not 1 <= k <= n:
        raise ValueError(f"pass@k needs 1 ≤ k ≤ the {n} samples there are, not k = {k}")
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def guess_at_k(golds: Sequence[str], k: int) -> list[float]:
    """For each of a family's right answers, the chance that k guesses drawn from the *others* hold it.

    They are drawn with replacement, so it is 1 − (1 − a / (N − 1))^k where a of the N − 1 others are the same; an only
    one gives 0. Who guesses like this knows what answers look like, and doesn't read the question.
    """
    spelt = [normalise_answer(gold) for gold in golds]
    same, others = Counter(spelt), max(1, len(golds) - 1)
    return [1.0 - (1.0 - (same[gold] - 1) / others) ** k for gold in spelt]


def normalise_answer(answer: str) -> str:
    """One spelling per answer for the vote: no case or spaces; "+05", "5." and "5.0" are "5", "1,000" is "1000"."""
    text = _THOUSANDS.sub("", " ".join(answer.split()).casefold())
    number = _NUMBER.fullmatch(text)
    if not number:
        return text.rstrip(".")
    whole, fraction = number[2].lstrip("0") or "0", (number[3] or "").rstrip("0")
    value = f"{whole}.{fraction}" if fraction else whole
    return f"-{value}" if number[1] == "-" and value != "0" else value


def cons_at_k(answers: Sequence[str | None], correct: Sequence[bool]) -> float:
    """Correctness of the majority answer of one problem's samples, in 0…1.

    Samples without an answer don't vote; a problem without any answer is wrong. A tie is worth the mean over the tied
    answers: the expected value of drawing one of them, so that no order of samples or spelling decides.
    """
    votes: dict[str, list[bool]] = defaultdict(list)
    for answer, right in zip(answers, correct, strict=True):
        if answer is not None and answer.strip():
            votes[normalise_answer(answer)].append(bool(right))
    if not votes:
        return 0.0
    most = max(map(len, votes.values()))
    return float(np.mean([np.mean(rights) for rights in votes.values() if len(rights) == most]))


def _mean_of(column: str) -> Callable[[list[Row]], float | None]:
    def mean(samples: list[Row]) -> float | None:
        values = [float(row[column]) for row in samples if row[column] is not None]
        return float(np.mean(values)) if values else None

    return mean


def _total(samples: list[Row], column: str) -> int:
    return sum(row[column] for row in samples)


def _voted(answer: str, value: str, correct: str) -> Callable[[list[Row]], float | None]:
    def vote(samples: list[Row]) -> float | None:
        if samples[0]["task"] == "general":  # free text has no majority
            return None
        # $18 and 18 dollars are one number, where the evaluation read it (`value`).
        return cons_at_k([row.get(value) or row[answer] for row in samples], [row[correct] for row in samples])

    return vote


def _any_right(correct: str) -> Callable[[list[Row]], float]:
    return lambda samples: pass_at_k([row[correct] for row in samples], len(samples))


def is_solved(row: Row) -> bool:
    """Right by the lenient rule, and ended by itself: docs/claims.md calls this solved."""
    return bool(row["correct_lenient"] and row["finished"])


# metric -> its value for one problem, given the problem's samples (`None`: it has none, e.g. language without words)
PROBLEM_METRICS: dict[str, Callable[[list[Row]], float | None]] = {
    "pass_at_1": _mean_of("correct"),
    "pass_at_k": _any_right("correct"),
    "cons_at_k": _voted("answer", "value", "correct"),
    "pass_at_1_lenient": _mean_of("correct_lenient"),
    "pass_at_k_lenient": _any_right("correct_lenient"),
    "cons_at_k_lenient": _voted("answer_lenient", "value_lenient", "correct_lenient"),
    "format_rate": _mean_of("well_formed"),
    "language_rate": _mean_of("language"),
    "mean_length": _mean_of("length"),
    "finished_rate": _mean_of("finished"),
    "reflection_rate": lambda samples: float(np.mean([row["reflections"] > 0 for row in samples])),
    # Reflection words per token; per 100 tokens where people read it.
    "reflection_density": lambda samples: _total(samples, "reflections") / max(1, _total(samples, "length")),
    "solved": lambda samples: float(np.mean([is_solved(row) for row in samples])),
    "thinking_rate": _mean_of("thinks"),
}


def rows_by(rows: Iterable[Row], *columns: str) -> dict[Any, list[Row]]:
    """The rows by their value in a column, or by the tuple of those in several, in the order in which they come."""
    groups: dict[Any, list[Row]] = defaultdict(list)
    value_of = itemgetter(*columns)
    for row in rows:
        groups[value_of(row)].append(row)
    return dict(groups)


def by_problem(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The graded samples of each problem, in order of problem id."""
    graded = (row for row in rows if row["correct"] is not None)
    return dict(sorted(rows_by(graded, "problem_id").items()))


def per_problem(rows: Iterable[Row]) -> dict[str, PerProblem]:
    """Every metric of PROBLEM_METRICS for every problem that has it: {metric: {problem id: value}}."""
    problems = by_problem(rows)
    table: dict[str, PerProblem] = {}
    for metric, measure in PROBLEM_METRICS.items():
        values = {problem: measure(samples) for problem, samples in problems.items()}
        table[metric] = {problem: value for problem, value in values.items() if value is not None}
    return table


def first_pass(rows: Iterable[Row]) -> PerProblem:
    """For each problem, the share of its samples whose first answer is right: the first one that the thought states.

    Of a thought that states none, the final answer is the first. docs/claims.md ("First pass") says what it is for.
    """
    shares = {}
    for problem, samples in by_problem(rows).items():
        right = [is_solved(row) if row["first_correct"] is None else bool(row["first_correct"]) for row in samples]
        shares[problem] = float(np.mean(right))
    return shares


def summarise(rows: Sequence[Row]) -> dict[str, float | int | None]:
    """One task's line of metrics.json: means over problems, `se` of pass@1 over problems, `None` where undefined.

    `k` is the number of samples of a problem (the smallest, should they differ).
    """
    table = per_problem(rows)
    summary: dict[str, float | int | None] = {
        metric: float(np.mean(list(values.values()))) if values else None for metric, values in table.items()
    }
    summary["se"] = standard_error(table["pass_at_1"].values())
    summary["se_lenient"] = standard_error(table["pass_at_1_lenient"].values())
    counts = [len(samples) for samples in by_problem(rows).values()]
    summary["n_problems"], summary["k"] = len(counts), min(counts, default=0)
    return summary


def as_asked(row: Row) -> bool:
    """Whether a sample was drawn as the data asks: without <think> given, in the data's words, and unchanged."""
    return row["thinking"] is None and not row["paraphrased"] and is_own_thought(row)


def is_own_thought(row: Row) -> bool:
    """Whether a sample's text is all the model's: no intervention has changed its beginning."""
    return row.get("intervention") is None


def summarise_tasks(rows: Sequence[Row]) -> dict[str, dict[str, float | int | None]]:
    """`summarise` for every task, and for all reasoning problems together under "reasoning"."""
    summaries = {task: summarise(samples) for task, samples in sorted(rows_by(rows, "task").items())}
    reasoning = [row for row in rows if row["task"] != "general"]
    if reasoning:
        summaries["reasoning"] = summarise(reasoning)
    return summaries
