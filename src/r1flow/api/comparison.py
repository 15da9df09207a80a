"""How two runs' models differ: pass@1, form and length, each with a paired interval, and what the trainings cost.

    print(compare_runs("results/r1_tiny", "results/more_kl"))

    model         measure           A        B    B − A, 95 % interval    verdict
    zero_rl       pass@1 in %    68.8     71.4    +2.6 [-0.3, +5.5]       can't tell; 550 problems might (480 here)
    …

The unit is the problem: both runs' models answered the same ones, and the interval is that of the per-problem
differences (core/metrics.py). Runs that asked other problems are compared without pairs, which tells less. Such an
interval says how far other problems could move the difference, and not how far another training run could: for that,
`compare_seeds` takes the runs of several seeds, and the unit is the seed.

Left out: a correction for the number of rows. Of 20 differences with nothing behind them, one has such an interval.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from r1flow.api.stored import EVALUATE, StoredRun, open_run
from r1flow.artifacts.records import read_file
from r1flow.core.changes import changes, leaves
from r1flow.core.errors import UserError, listed
from r1flow.core.files import read_yaml
from r1flow.core.metrics import (
    PROBLEM_METRICS,
    Interval,
    PerProblem,
    Row,
    as_asked,
    by_problem,
    mean_interval,
    mean_over,
    paired_difference,
)
from r1flow.core.parquet import read_rows
from r1flow.core.template import GENERAL
from r1flow.recipe.claims import MIN_PROBLEMS, MIN_SEEDS, NOTHING_SOLVED

if TYPE_CHECKING:
    import pandas as pd

ScoreTable = Mapping[tuple[str, str], PerProblem]  # (task, metric) -> problem, or seed -> value

# What is compared, with its name, the factor to its unit, and the verdicts on more and on less of it.
MEASURES = {
    ("reasoning", "pass_at_1"): ("pass@1 in %", 100, "better", "worse"),
    ("reasoning", "format_rate"): ("form in %", 100, "better", "worse"),
    ("reasoning", "mean_length"): ("tokens", 1, "longer", "shorter"),
    (GENERAL, "pass_at_1"): ("general in %", 100, "better", "worse"),
}
EQUAL, CANT_SAY = "equal", "can't tell"
LEAST = {"problem": MIN_PROBLEMS, "seed": MIN_SEEDS}  # the claims' rules: with fewer units an interval isn't one
# A difference is found in 4 comparisons of 5 if it is so many standard errors large; the level is 5 %, two-sided.
FOUND_AT = float(ndtri(0.975) + ndtri(0.8))
MOST_TOLD = 100_000  # problems; of a difference next to nothing the estimate runs into millions
# The columns that the measures need.
NEEDED = ["task", "problem_id", "correct", "well_formed", "length", "thinking", "paraphrased", "intervention"]
SHOWN = ("problem_id", "sample_index", "task", "question", "gold")
SHOWN_OF_EACH = ("completion", "answer", "correct", "length", "finished")


@dataclass(frozen=True)
class Difference:
    """One measure of one model in both runs."""

    model: str
    task: str  # reasoning, general
    measure: str  # pass_at_1, format_rate, mean_length
    a: float
    b: float
    interval: Interval  # of B − A
    unit: str  # what the interval is over: problem, seed
    paired: bool  # whether both runs have the same units
    n: int  # units of each run
    left_out: int = 0  # units that only one run has, also of a and b; 0 where they aren't paired

    @property
    def same(self) -> bool:
        """Whether every unit has the same value in both runs."""
        return self.paired and self.interval.estimate == 0 and self.interval.se == 0

    @property
    def nothing_solved(self) -> bool:
        """Whether neither run's model solves any problem, as of two untrained ones: both may be far from equal."""
        return self.measure == "pass_at_1" and self.a == self.b == 0

    @property
    def verdict(self) -> str:
        """better or worse (of lengths: longer or shorter), equal, or can't tell."""
        _, _, more, less = MEASURES[self.task, self.measure]
        if self.nothing_solved:
            return CANT_SAY
        if self.same:
            return EQUAL
        if self.interval.low is None or self.n < LEAST[self.unit] or self.interval.low <= 0 <= self.interval.high:
            return CANT_SAY
        return more if self.interval.low > 0 else less

    @property
    def would_tell(self) -> int | None:
        """How many units each run needs to find a difference this large in 4 comparisons of 5; None: unknown."""
        if not self.interval.se or not self.interval.estimate:
            return None
        spread = self.interval.se * math.sqrt(self.n)  # of one unit's difference
        return max(LEAST[self.unit], math.ceil((FOUND_AT * spread / self.interval.estimate) ** 2))

    @property
    def smallest(self) -> float | None:
        """The smallest difference that these units find in 4 comparisons of 5; None: unknown."""
        return FOUND_AT * self.interval.se if self.interval.se else None


@dataclass(frozen=True)
class TrainingCost:
    """What a training took in both runs; None where it isn't known."""

    stage: str
    flops_a: float | None
    flops_b: float | None
    seconds_a: float | None
    seconds_b: float | None


@dataclass(frozen=True)
class Comparison:
    """Two runs, A and B, or the seeds of two; printed as `r1flow compare` does."""

    a: Sequence[StoredRun]
    b: Sequence[StoredRun]
    differences: list[Difference]

    @property
    def unit(self) -> str:
        """What the intervals are over: problem, seed."""
        return self.differences[0].unit

    @property
    def paired(self) -> bool:
        """Whether both runs have the same units in every measure."""
        return all(each.paired for each in self.differences)

    @property
    def about_intervals(self) -> str:
        """What the intervals are over: whether they are paired, and what is left out for it."""
        unit, same = self.unit, f"Intervals are over the same {self.unit}s, paired"
        unpaired = [
            f"{each.model} {MEASURES[each.task, each.measure][0]}" for each in self.differences if not each.paired
        ]
        alone = f"A and B have other {unit}s, so a difference may be one of the {unit}s alone"
        if len(unpaired) == len(self.differences):
            told = f"Intervals are over {unit}s, not paired. {alone}."
        else:
            told = f"{same}, but for {listed(unpaired)}: there {alone}." if unpaired else f"{same}."
        counts: dict[str, int] = {}
        for each in self.differences:
            counts[each.model] = max(counts.get(each.model, 0), each.left_out)
        if some := [f"{count} of {model}" for model, count in counts.items() if count]:
            told += f" {unit.capitalize()}s that only one run has are left out: {listed(some)}."
        return told

    @cached_property
    def changed(self) -> list[str]:
        """Each value of the configuration that differs, by stage and path; seeds, and stages of one run only, aside."""
        one, two = self.a[0], self.b[0]
        shared = [stage for stage in one.stages if stage in two.stages]
        facts = []
        for run in (one, two):
            facts.append({stage: read_file(run.folder_of(stage) / "config.yaml", read_yaml) for stage in shared})
        return [
            f"{key}: {before} → {after}"
            for key, before, after in changes(*map(leaves, facts))
            if key.rpartition(".")[2] not in ("seed", "run")
        ]

    @cached_property
    def costs(self) -> list[TrainingCost]:
        """What the trainings took that both runs have; of several seeds, the first one's."""
        one, two = self.a[0], self.b[0]
        training_costs = []
        for stage in one.stages:
            if stage in two.stages and "flops" in one.metrics[stage]:
                flops = [run.metrics[stage].get("flops") for run in (one, two)]
                seconds = [read_file(run.folder_of(stage) / "cost.json").get("seconds") for run in (one, two)]
                training_costs.append(TrainingCost(stage, *flops, *seconds))
        return training_costs

    @property
    def table(self) -> "pd.DataFrame":
        """The differences as a DataFrame: model, task, measure, a, b, difference, low, high, n, verdict, would_tell.

        >>> r1flow.compare_runs("results/r1_tiny", "results/faster").table.columns.tolist()[:4]
        ['model', 'task', 'measure', 'a']
        """
        import pandas as pd

        numbers = dict.fromkeys(("low", "high", "smallest"), float) | {"would_tell": "Int64"}
        return pd.DataFrame([row_told(each) for each in self.differences]).astype(numbers)

    def samples(self, model: str, n: int = 5) -> list[dict[str, Any]]:
        """The first samples of up to `n` problems that the model answers rightly in one run and wrongly in the other.

        If there are fewer, problems follow to which it gives another answer, or writes another completion. Problems
        come in the order of their ids, which are hashes. Each row has the problem and, under "a" and "b", completion,
        answer, correct, length and finished. Raises UserError for a model that one of the runs doesn't have.

        >>> found = r1flow.compare_runs("results/r1_tiny", "results/faster").samples("zero_rl", n=2)
        >>> [each["a"]["correct"] is not each["b"]["correct"] for each in found]
        [True, True]
        """
        one, two = first_samples(self.a[0], model), first_samples(self.b[0], model)
        shared = sorted(one.keys() & two.keys())
        alike = {}  # how alike the two are: 0 other verdicts, 1 other answers, 2 other texts
        for problem in shared:
            pair = one[problem], two[problem]
            for rank, column in enumerate(("correct", "answer", "completion")):
                if pair[0][column] != pair[1][column]:
                    alike.setdefault(problem, rank)
        rows = []
        # Sorted is stable, so within a rank the ids' order stays.
        for problem in sorted(alike, key=alike.get)[:n]:
            told = {name: one[problem][name] for name in SHOWN}
            for name, samples in (("a", one), ("b", two)):
                told[name] = {column: samples[problem][column] for column in SHOWN_OF_EACH}
            rows.append(told)
        return rows

    def __str__(self) -> str:
        return "\n".join([*heading(self), "", *table_told(self), *costs_told(self.costs)])


def compare_runs(a: StoredRun | Path | str, b: StoredRun | Path | str) -> Comparison:
    """How the models of run B differ from those of the same names in run A; B − A is above 0 where B has more.

    Raises UserError for a folder that is no run, and for runs without a common model.

    >>> found = r1flow.compare_runs("results/r1_tiny", "results/faster")
    >>> found.changed
    ['zero_rl.trainer.learning_rate: 0.0001 → 0.0002']
    """
    one, two = (run if isinstance(run, StoredRun) else open_run(run) for run in (a, b))
    models = shared_models([one], [two])
    of_a = stored_scores({model: one.samples_of(model) for model in models})
    of_b = stored_scores({model: two.samples_of(model) for model in models})
    return Comparison([one], [two], all_differences(of_a, of_b, "problem"))


def compare_seeds(a: Sequence[StoredRun | Path | str], b: Sequence[StoredRun | Path | str]) -> Comparison:
    """The same for several runs of A and of B that differ in their seeds: the unit is the seed, not the problem.

    Seeds are paired where both have the same ones, because these runs share their random numbers. Raises UserError as
    `compare_runs` does, for two runs of one seed, and where a list is empty or none.

    >>> r1flow.compare_seeds(["results/r1_tiny"], ["results/faster"]).differences[0].verdict
    "can't tell"
    """
    one, two = ([] if isinstance(runs, str | Path | StoredRun) else list(runs) for runs in (a, b))
    if not one or not two:
        raise UserError("compare_seeds: give a list of runs for each of A and B, [run, …]")
    one = [run if isinstance(run, StoredRun) else open_run(run) for run in one]
    two = [run if isinstance(run, StoredRun) else open_run(run) for run in two]
    models = shared_models(one, two)
    return Comparison(one, two, all_differences(scores_by_seed(one, models), scores_by_seed(two, models), "seed"))


def shared_models(a: Sequence[StoredRun], b: Sequence[StoredRun]) -> list[str]:
    """The models that all these runs have evaluated; raises UserError without one."""
    models = set.intersection(*(set(run.models) for run in (*a, *b)))
    if not models:
        told = "; ".join(f"{run.folder} has {', '.join(run.models) or 'none'}" for run in (*a, *b))
        raise UserError(f"no model was evaluated in all of these runs ({told}); add evaluate to their stages")
    return [model for model in a[0].models if model in models]


# -- scores ------------------------------------------------------------------------------------------------------


def stored_scores(paths: Mapping[str, Path]) -> dict[str, ScoreTable]:
    """Of each model's samples.parquet, every measure of every problem that has it, over the samples as asked."""
    stored = read_rows(list(paths.values()), NEEDED)
    return {model: scores_of_rows(rows) for model, rows in zip(paths, stored, strict=True)}


def scores_of_rows(rows: Sequence[Row]) -> ScoreTable:
    asked = [row for row in rows if as_asked(row)]
    scores = {}
    for task, metric in MEASURES:
        problems = by_problem(row for row in asked if (row["task"] == GENERAL) == (task == GENERAL))
        values = {problem: PROBLEM_METRICS[metric](samples) for problem, samples in problems.items()}
        scores[task, metric] = {problem: value for problem, value in values.items() if value is not None}
    return scores


def scores_by_seed(runs: Sequence[StoredRun], models: Sequence[str]) -> dict[str, ScoreTable]:
    """Of each model, every measure's mean over problems, by seed; raises UserError for two runs of one seed."""
    means: dict[str, dict[tuple[str, str], dict[str, float]]] = {}
    for model in models:
        means[model] = {measure: {} for measure in MEASURES}
    seeds: dict[str, Path] = {}
    for run in runs:
        seed = str(read_file(run.folder_of(f"{EVALUATE}{models[0]}") / "provenance.json")["seed"])
        if seed in seeds:
            raise UserError(f"{run.folder} and {seeds[seed]} have the same seed, {seed}; name runs of several seeds")
        seeds[seed] = run.folder
        for model, scores in stored_scores({model: run.samples_of(model) for model in models}).items():
            for measure, values in scores.items():
                if values:
                    means[model][measure][seed] = float(np.mean(list(values.values())))
    return means


def all_differences(a: Mapping[str, ScoreTable], b: Mapping[str, ScoreTable], unit: str) -> list[Difference]:
    """The differences of all models, one model after the other; raises UserError where no measure is in both."""
    differences = []
    for model in a:
        differences += differences_of(model, a[model], b[model], unit)
    if not differences:
        raise UserError(
            f"no score of {', '.join(a)} is in both: one run has no graded answers to problems, the other none to"
            " general prompts; compare runs that asked the same"
        )
    return differences


def differences_of(model: str, a: ScoreTable, b: ScoreTable, unit: str) -> list[Difference]:
    """Every measure that both have, B − A: over the problems that both have if these are most, or the seeds if they are
    the same ones; else over all, unpaired."""
    differences = []
    for measure in MEASURES:
        one, two = a[measure], b[measure]
        shared = one.keys() & two.keys()
        most = max(len(one), len(two))
        paired = len(shared) == most or (unit == "problem" and 2 * len(shared) > most)
        if paired:
            one, two = {each: one[each] for each in shared}, {each: two[each] for each in shared}
        if one and two:
            means = mean_in_order(one), mean_in_order(two)
            interval = paired_difference(two, one) if paired else unpaired_difference(two, one)
            n, left_out = min(len(one), len(two)), len(a[measure].keys() ^ b[measure].keys()) if paired else 0
            differences.append(Difference(model, *measure, *means, interval, unit, paired, n, left_out))
    return differences


def mean_in_order(values: PerProblem) -> float:
    """The mean in the order of the ids, so that its last bits don't depend on how a set was walked through."""
    return float(np.mean([values[each] for each in sorted(values)]))


def unpaired_difference(first: PerProblem, second: PerProblem) -> Interval:
    """Mean of the first minus mean of the second, with a 95 % interval for independent samples (Welch's)."""
    other = mean_interval(-value for value in second.values())
    half = mean_over([mean_interval(first.values()), other])  # of two means, so half their sum
    doubled = {name: None if value is None else 2 * value for name, value in asdict(half).items() if name != "n"}
    return replace(half, **doubled)


def first_samples(run: StoredRun, model: str) -> dict[str, dict[str, Any]]:
    """The first sample of every reasoning problem as asked."""
    first = [row for row in run.rows(model) if row["sample_index"] == 0]
    return {row["problem_id"]: row for row in first if row["task"] != GENERAL}


# -- in words ----------------------------------------------------------------------------------------------------


def row_told(each: Difference) -> dict[str, Any]:
    """A difference as a row of a table, or of JSON."""
    told = {name: getattr(each, name) for name in ("model", "task", "measure", "a", "b")}
    told |= {"difference": each.interval.estimate, "low": each.interval.low, "high": each.interval.high}
    told |= {
        name: getattr(each, name) for name in ("unit", "paired", "n", "left_out", "verdict", "would_tell", "smallest")
    }
    return told


def heading(comparison: Comparison) -> list[str]:
    lines = []
    for name, runs in (("A", comparison.a), ("B", comparison.b)):
        lines.append(f"{name}: {', '.join(str(run.folder) for run in runs)}")
    some, more = comparison.changed[:5], len(comparison.changed) - 5
    lines += [f"changed: {change}" for change in some] or ["changed: nothing in the configuration, but for seeds"]
    return lines + ([f"changed: {more} values more (r1flow diff lists them by stage)"] if more > 0 else [])


def table_told(comparison: Comparison) -> list[str]:
    """The differences, a line each and one for a model without any, and what the intervals say."""
    lines = [f"{'model':<18}{'measure':<14}{'A':>8}{'B':>8}   {'B − A, 95 % interval':<26}verdict"]
    for model in dict.fromkeys(each.model for each in comparison.differences):
        own = [each for each in comparison.differences if each.model == model]
        if all(each.verdict == EQUAL for each in own):
            lines.append(f"{model:<18}equal in all of this")
            continue
        for number, each in enumerate(own):
            lines.append(f"{model if number == 0 else '':<18}{measure_told(each)}")
    lines += [
        "",
        comparison.about_intervals,
        "Of 20 differences with nothing behind them, one on average has an interval without 0.",
    ]
    if comparison.unit == "problem":
        lines += ["They don't say what another training run would give: for that, r1flow seeds, then --seeds here."]
    else:
        lines += ["What changed and what the trainings took is that of the first run of each."]
    return lines


def measure_told(each: Difference) -> str:
    name, scale, _, _ = MEASURES[each.task, each.measure]
    moved = f"{scale * each.interval.estimate:+.1f}"
    if each.interval.low is not None:
        moved += f" [{scale * each.interval.low:+.1f}, {scale * each.interval.high:+.1f}]"
    return f"{name:<14}{scale * each.a:>8.1f}{scale * each.b:>8.1f}   {moved:<26}{verdict_told(each)}"


def verdict_told(each: Difference) -> str:
    if each.verdict != CANT_SAY:
        return each.verdict
    if each.nothing_solved:
        return f"{CANT_SAY}; {NOTHING_SOLVED}"
    if each.n < LEAST[each.unit]:
        return f"{CANT_SAY}; {LEAST[each.unit]} {each.unit}s are the least ({each.n} here)"
    if each.would_tell is None:
        return CANT_SAY
    enough = f"{each.would_tell:,}" if each.would_tell <= MOST_TOLD else f"more than {MOST_TOLD:,}"
    return f"{CANT_SAY}; {enough} {each.unit}s might ({each.n} here)"


def costs_told(rows: Sequence[TrainingCost]) -> list[str]:
    """What the trainings took in all, and each one whose FLOPs differ; FLOPs and seconds, A → B."""
    lines = []
    for row in rows:
        if row.flops_a != row.flops_b:
            lines.append(f"{row.stage:<18}{moved_told(row.flops_a, row.flops_b, '.2e')} FLOPs")
    if rows:
        flops = moved_told(total(rows, "flops_a"), total(rows, "flops_b"), ".2e")
        seconds = moved_told(total(rows, "seconds_a"), total(rows, "seconds_b"), ",.0f")
        lines = ["", *lines, f"{'all trainings':<18}{flops} FLOPs, {seconds} s"]
    return lines


def total(rows: Sequence[TrainingCost], name: str) -> float | None:
    """The sum of one figure; None if a training lacks it."""
    counts = [getattr(row, name) for row in rows]
    return None if None in counts else sum(counts)


def moved_told(before: float | None, after: float | None, how: str) -> str:
    one, two = ("unknown" if count is None else format(count, how) for count in (before, after))
    return f"{one} → {two}" + (f" (× {after / before:.2f})" if before and after else "")
