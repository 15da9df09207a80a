"""The claims of the paper that a reproduction can test, each a pure function of samples and training curves.

C1–C7 are claims in the paper's text, C8–C11 the steps of its table of intermediate models; C12 compares zero RL with
controls that other papers tried. C13 to C15 are about the paper's unsuccessful attempts, and are judged in runs that
have one of them. docs/claims.md has every measure and rule with the papers' figures.

Every claim is one or more *parts*; a part is a difference between two models on the same problems (or two training
curves) with a 95 % interval, in the direction the claim gives it: a positive difference speaks for the claim.

The rule, for every part (docs/claims.md says what was changed after runs had been looked at):

    holds here         the whole interval is above `floor`
    doesn't hold here  the whole interval is below `ceiling`
    can't tell         neither, or fewer than MIN_PROBLEMS problems (MIN_STEPS steps), or no problem that is solved
    not in this run    the run's experiment lacks something that the part compares, such as a stage, which is named
    no verdict         the run is a toy (`report.toy`): its numbers are shown, and nothing is concluded from them

A difference between two models that solve nothing is 0 and says nothing: not that a claim fails, nor that one model is
no worse than the other.

For an effect ("A beats B") floor is 0 and ceiling MARGIN, one point: the interval excludes 0, or it excludes every
effect worth the name. For "no worse" floor is −NO_WORSE and ceiling 0: a loss of two points is excluded, or there is
a loss. A claim is as good as its weakest part and shows the estimate of that part; all parts are kept beside it.

If the run has a stage but its numbers are missing, that is an error and raises, so it can't be taken for "not in this
run".

Left out: differences between training seeds (each model was trained once), and a correction for testing many claims;
the report over several seeds has both (programs/report/spread.py).

A result: {"verdict": "holds here", "estimate": 0.369, "low": 0.330, "high": 0.408, "text": "…", "how": "…"}
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from r1flow.core.metrics import (
    Interval,
    PerProblem,
    mean_interval,
    mean_over,
    paired_difference,
    residuals,
    slope_interval,
)
from r1flow.recipe.stages import ATTEMPTS, CONTROLS

HOLDS, DOES_NOT_HOLD = "holds here", "doesn't hold here"
CANT_TELL, NOT_IN_RUN, NO_VERDICT = "can't tell", "not in this run", "no verdict"
_STRENGTH = (DOES_NOT_HOLD, NOT_IN_RUN, NO_VERDICT, CANT_TELL, HOLDS)  # weakest first
NOTHING_SOLVED = "neither model solves any"
TOY = "No verdicts: this experiment is too small to say anything about the paper's claims (report.toy is true)."

MARGIN = 0.01  # one point of a rate, one token of length: the smallest difference worth the name
MARGIN_TOKENS = 1.0
MARGIN_REFLECTIONS = 0.0005  # words per token: 0.05 per 100 tokens
NO_WORSE = 0.02  # "no worse" excludes a loss of two points, which about 500 problems can show
SMALL_COST = 0.03  # C5: "a small cost in accuracy" is at most three points
# With fewer, t intervals of rates that are mostly 0 or 1 don't have their nominal coverage.
MIN_PROBLEMS = 20
MIN_STEPS = 5
MIN_SEEDS = 5
MIN_VOTES = 3  # C3: of two votes a tie is worth their mean, which is pass@1
QUARTER = 0.25  # C14: the last quarter of the sets of rollouts against the first
RL_START = 0.25  # C4: the start of RL is the first quarter of its steps
DEV_START = 0.5  # … and of its dev curve the first half: of nine measurements, the MIN_STEPS that a verdict needs
# The metric beside those of PROBLEM_METRICS that only forced thoughts have.
FIRST_PASS = "first_pass"
SKILL_AT = 0.6  # the temperature that decides; the others in evaluate.thinking are shown

# Metrics that say how much is solved. Of the others, such as lengths, a difference needs a problem solved leniently.
ACCURACIES = ("pass_at_1", "pass_at_1_lenient", "cons_at_k", "cons_at_k_lenient", "solved")

# scope ("reasoning" or "general") -> metric of metrics.PROBLEM_METRICS -> problem -> value
ModelScores = Mapping[str, Mapping[str, PerProblem]]
SCOPES = {"reasoning": "reasoning problems", "general": "general prompts"}


@dataclass(frozen=True)
class Evidence:
    """The data for the claims: every model's scores per problem, and every RL stage's curves by training step.

    `thinking` has the scores of the reasoning problems with <think> forced, by model and temperature; `families` the
    family of each problem. `stages` are those of the run. A scope without scores had no prompts; a stage without
    accuracies has no reward that gives one; a temperature that is missing wasn't asked for. `lengths` are those of the
    rollouts that think, in tokens. `dev` has the accuracies on the dev problems by step (empty: not measured).
    """

    scores: Mapping[str, ModelScores]
    accuracy: Mapping[str, Sequence[float]] = field(default_factory=dict)
    stages: Collection[str] = ()
    thinking: Mapping[str, Mapping[float, Mapping[str, PerProblem]]] = field(default_factory=dict)
    families: Mapping[str, str] = field(default_factory=dict)
    lengths: Mapping[str, Sequence[float]] = field(default_factory=dict)
    dev: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    # By stage, by how much the mean process reward of each step's completions exceeds the share that is right.
    excess: Mapping[str, Sequence[float]] = field(default_factory=dict)
    # Samples of a problem as asked, of the model with the fewest; None: not known.
    k: int | None = None

    @property
    def temperatures(self) -> list[float]:
        """Those at which <think> was forced, lowest first."""
        return sorted(set().union(*self.thinking.values()))


@dataclass(frozen=True)
class Absent:
    """What a comparison needs and the run doesn't have, for instance ("zero_rl_language",)."""

    needs: tuple[str, ...]


@dataclass(frozen=True)
class Unsolved(Interval):
    """A difference between models, or trainings, that solve none of the problems."""


@dataclass(frozen=True)
class Part:
    """One difference in the claim's direction; `unit` is "tokens", or of fractions ("points": 0.01 is one point)."""

    name: str
    interval: Interval | Absent
    unit: str = "points"
    floor: float = 0.0
    ceiling: float = MARGIN
    at_least: int = MIN_PROBLEMS
    counts: bool = True  # False: shown, but the verdict doesn't rest on it
    toy: bool = False  # of a run without verdicts

    @property
    def verdict(self) -> str:
        if isinstance(self.interval, Absent):
            return NOT_IN_RUN
        if self.toy:
            return NO_VERDICT
        if self.interval.n < self.at_least or self.interval.low is None or isinstance(self.interval, Unsolved):
            return CANT_TELL
        if self.interval.low > self.floor:
            return HOLDS
        return DOES_NOT_HOLD if self.interval.high < self.ceiling else CANT_TELL

    @property
    def distance(self) -> float:
        """How far the estimate is above the floor, in widths of the interval; 0 where nothing was measured."""
        interval = self.interval
        if isinstance(interval, Absent) or interval.low is None:
            return 0.0
        width = interval.high - interval.low
        return (interval.estimate - self.floor) / width if width else math.inf

    @property
    def why(self) -> str:
        """Why there is no verdict however many problems there are; empty if there is one."""
        return NOTHING_SOLVED if isinstance(self.interval, Unsolved) else ""

    @property
    def needs(self) -> str:
        """What is missing in the run to test this part; empty if nothing is."""
        return ", ".join(self.interval.needs) if isinstance(self.interval, Absent) else ""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and this run's evidence on it."""

    id: str
    text: str  # the claim
    source: str  # where the paper makes it
    how: str  # one sentence: what was measured
    parts: tuple[Part, ...]
    models: tuple[str, ...] = ()  # the models whose samples the parts compare
    curves: tuple[str, ...] = ()  # the stages whose training curves the parts look at

    @property
    def deciding(self) -> Part:
        """The weakest part that counts: its estimate and interval are the claim's.

        Of several with the same verdict, it is the one whose estimate is lowest against its floor, in widths of its
        interval: that with the largest p-value.
        """
        counting = [part for part in self.parts if part.counts]
        return min(counting, key=lambda part: (_STRENGTH.index(part.verdict), part.distance))

    @property
    def verdict(self) -> str:
        return self.deciding.verdict


def lacking(results: Mapping[str, object], stages: Collection[str], *names: str) -> tuple[str, ...]:
    """The names that `results` lacks; raises LookupError if one of them is a stage of the run."""
    missing = tuple(name for name in dict.fromkeys(names) if name not in results)
    for name in missing:
        if name in stages:
            raise LookupError(f"claims: {name} is a stage of this run, but no claim received its results")
    return missing


def in_scope(evidence: Evidence, scope: str, *models: str) -> list[Mapping[str, PerProblem]] | Absent:
    """Every model's scores in a scope, as asked."""
    if missing := lacking(evidence.scores, evidence.stages, *models):
        return Absent(missing)
    scores = [evidence.scores[model].get(scope) for model in models]
    return scores if all(scores) else Absent((SCOPES[scope],))


def compare(
    evidence: Evidence,
    first: str,
    second: str,
    metric: str = "pass_at_1",
    second_metric: str | None = None,
    scope: str = "reasoning",
) -> Interval | Absent:
    """The first model's metric minus the second's, over the problems that both answered."""
    scores = in_scope(evidence, scope, first, second)
    if isinstance(scores, Absent):
        return scores
    one, other = scores
    names = (metric, second_metric or metric)
    difference = paired_difference(one[names[0]], other[names[1]])
    by = names if metric in ACCURACIES else ("pass_at_1_lenient",) * 2
    return if_solved(difference, one[by[0]].values(), other[by[1]].values())


def if_solved(difference: Interval, *solved: Iterable[float]) -> Interval:
    """The difference, which is Unsolved where all of these shares, one for each problem or step, are 0."""
    nothing = difference.n > 0 and not any(any(shares) for shares in solved)
    return Unsolved(**vars(difference)) if nothing else difference


def over_seeds(told: Sequence[Mapping[str, Any]]) -> Interval:
    """The mean of the estimates that runs of several seeds tell, with a 95 % t interval.

    Without numbers if a run has no estimate; Unsolved where no run has a model that solves anything.
    """
    estimates = [each["estimate"] for each in told]
    interval = Interval(None, None, None, None, 0) if None in estimates else mean_interval(estimates)
    return Unsolved(**vars(interval)) if all("why" in each for each in told) else interval


def compare_solved(evidence: Evidence, first: str, second: str) -> Interval | Absent:
    """The gain: problems that the first model solved as asked, minus those of the second, as a mean over families."""
    scores = in_scope(evidence, "reasoning", first, second)
    if isinstance(scores, Absent):
        return scores
    one, other = (each["solved"] for each in scores)
    return if_solved(compare_families(evidence, one, other), one.values(), other.values())


def compare_thinking(
    evidence: Evidence,
    first: str,
    second: str,
    metric: str = "solved",
    temperature: float = SKILL_AT,
    second_temperature: float | None = None,
) -> Interval | Absent:
    """The first model's forced-think metric minus the second's, as a mean over families; of `solved`: skill."""
    if models := lacking(evidence.scores, evidence.stages, first, second):
        return Absent(models)
    asked = ((first, temperature), (second, temperature if second_temperature is None else second_temperature))
    if missing := [t for model, t in asked if t not in evidence.thinking.get(model, {})]:
        return Absent(tuple(f"{t} in evaluate.thinking" for t in dict.fromkeys(missing)))
    one, other = (evidence.thinking[model][t] for model, t in asked)
    difference = compare_families(evidence, one[metric], other[metric])
    return if_solved(difference, one["solved"].values(), other["solved"].values())


def compare_best(evidence: Evidence, first: str, second: str) -> Interval | Absent:
    """The difference in skill with each model at the temperature at which it solves most, on these same problems."""
    if isinstance(skilled := compare_thinking(evidence, first, second), Absent):
        return skilled
    best = [best_temperature(evidence, model) for model in (first, second)]
    return compare_thinking(evidence, first, second, temperature=best[0], second_temperature=best[1])


def best_temperature(evidence: Evidence, model: str) -> float:
    """The one at which the model solves most with <think> forced; the lowest of several."""
    solved = {t: over_families(evidence, metrics["solved"]).estimate for t, metrics in evidence.thinking[model].items()}
    return min(solved, key=lambda temperature: (-solved[temperature], temperature))


def compare_later_passes(evidence: Evidence, first: str, second: str) -> Interval | Absent:
    """What is left of a difference in skill without the first pass: what answering again adds, or spoils."""
    skilled = compare_thinking(evidence, first, second)
    if isinstance(skilled, Absent):
        return skilled
    given = [evidence.thinking[model][SKILL_AT] for model in (first, second)]
    solved = [metrics["solved"] for metrics in given]
    return compare_remainders(evidence, solved, [metrics[FIRST_PASS] for metrics in given])


def of_family(evidence: Evidence, family: str) -> Evidence:
    """The evidence with the forced-think scores of one family's problems alone."""
    thinking: dict[str, dict[float, dict[str, PerProblem]]] = {}
    for model, given in evidence.thinking.items():
        for temperature, metrics in given.items():
            kept = thinking.setdefault(model, {}).setdefault(temperature, {})
            for metric, values in metrics.items():
                kept[metric] = {p: value for p, value in values.items() if evidence.families[p] == family}
    return replace(evidence, thinking=thinking)


def compare_modes(evidence: Evidence, first: str, second: str) -> Interval | Absent:
    """What is left of a gain without the skill: for each problem, the difference as asked minus that given <think>."""
    gained, skilled = compare_solved(evidence, first, second), compare_thinking(evidence, first, second)
    for missing in (gained, skilled):
        if isinstance(missing, Absent):
            return missing
    asked = [evidence.scores[model]["reasoning"]["solved"] for model in (first, second)]
    given = [evidence.thinking[model][SKILL_AT]["solved"] for model in (first, second)]
    return compare_remainders(evidence, asked, given)


def compare_remainders(
    evidence: Evidence, wholes: Sequence[PerProblem], parts: Sequence[PerProblem]
) -> Interval | Absent:
    """What is left of the difference between two models' `wholes` without that between their `parts`, by problem."""
    remainders = []
    for whole, part in zip(wholes, parts, strict=True):
        remainders.append({problem: whole[problem] - part[problem] for problem in whole.keys() & part.keys()})
    return if_solved(compare_families(evidence, *remainders), *(each.values() for each in (*wholes, *parts)))


def compare_families(evidence: Evidence, first: PerProblem, second: PerProblem) -> Interval:
    """The mean over families of the paired differences within each."""
    differences = {problem: first[problem] - second[problem] for problem in first.keys() & second.keys()}
    return over_families(evidence, differences)


def over_families(evidence: Evidence, values: PerProblem) -> Interval:
    """The mean over families of the means over their problems."""
    members: dict[str, list[float]] = {}
    for problem, value in sorted(values.items()):
        members.setdefault(evidence.families[problem], []).append(value)
    return mean_over([mean_interval(within) for within in members.values()])


def compare_starts(
    evidence: Evidence, first: str, second: str, of: Callable[[list[float], list[float]], Interval]
) -> Interval | Absent:
    """`of` both stages' accuracies in the first quarter of the sets of rollouts, paired: they see the same prompts."""
    if stages := lacking(evidence.accuracy, evidence.stages, first, second):
        return Absent(stages)
    if ungraded := [stage for stage in (first, second) if not evidence.accuracy[stage]]:
        return Absent(tuple(f"the reward accuracy in {stage}" for stage in ungraded))
    steps = round(min(len(evidence.accuracy[stage]) for stage in (first, second)) * RL_START)
    one, other = (list(evidence.accuracy[stage][: max(1, steps)]) for stage in (first, second))
    return if_solved(of(one, other), one, other)


def compare_dev(
    evidence: Evidence, first: str, second: str, of: Callable[[list[float], list[float]], Interval]
) -> Interval | Absent:
    """`of` both stages' accuracies on the dev problems, in the first half of the steps at which both were measured."""
    if stages := lacking(evidence.dev, evidence.stages, first, second):
        return Absent(stages)
    if unmeasured := [stage for stage in (first, second) if not evidence.dev[stage]]:
        return Absent(tuple(f"{stage}.dev" for stage in unmeasured))
    steps = sorted(evidence.dev[first].keys() & evidence.dev[second].keys())
    start = steps[: math.ceil(len(steps) * DEV_START)]
    one = [evidence.dev[first][step] for step in start]
    other = [evidence.dev[second][step] for step in start]
    return if_solved(of(one, other), one, other)


def rise_of_length(evidence: Evidence, stage: str) -> Interval | Absent:
    """How much longer the rollouts that think become from one set to the next, over the whole training."""
    if missing := lacking(evidence.lengths, evidence.stages, stage):
        return Absent(missing)
    rise = slope_interval(evidence.lengths[stage])
    accuracy = evidence.accuracy.get(stage)  # without the reward accuracy there is none
    return if_solved(rise, accuracy) if accuracy else rise


def rise_of_excess(evidence: Evidence, stage: str) -> Interval | Absent:
    """By how much more the process reward exceeds the accuracy in the last quarter of the sets than in the first."""
    if missing := lacking(evidence.excess, evidence.stages, stage):
        return Absent(missing)
    excess = list(evidence.excess[stage])
    if not excess:
        return Absent((f"the rewards process_reward and accuracy in {stage}",))
    quarter = max(1, round(len(excess) * QUARTER))
    return difference_in_level(excess[-quarter:], excess[:quarter])


def difference_in_level(first: list[float], second: list[float]) -> Interval:
    return mean_interval(np.subtract(first, second))


def difference_in_speed(first: list[float], second: list[float]) -> Interval:
    """How much faster the first rises, from one value to the next."""
    return slope_interval(list(np.subtract(first, second)))


def difference_in_steadiness(first: list[float], second: list[float]) -> Interval:
    """How much nearer the first's steps lie to the straight line through them."""
    if len(first) < MIN_STEPS:
        return Interval(None, None, None, None, len(first))
    return mean_interval(np.subtract(np.abs(residuals(second)), np.abs(residuals(first))))


def skill_parts(evidence: Evidence, first: str, second: str) -> tuple[Part, ...]:
    """Skill (forced-think accuracy) and mode, shown beside a difference as asked."""
    name = f"{first} − {second}"
    skill = {t: compare_thinking(evidence, first, second, temperature=t) for t in (SKILL_AT, 1.0)}
    return (
        *(Part(f"skill (forced-think accuracy, T = {t:g}), {name}", each, counts=False) for t, each in skill.items()),
        Part(f"mode (gain without the skill), {name}", compare_modes(evidence, first, second), counts=False),
    )


def lenient_part(evidence: Evidence, first: str, second: str, counts: bool = True) -> Part:
    """The first model's pass@1 minus the second's, where both are scored leniently."""
    difference = compare(evidence, first, second, "pass_at_1_lenient")
    return Part(f"pass@1 (lenient), {first} − {second}", difference, counts=counts)


def c1(evidence: Evidence) -> Claim:
    pair = ("zero_rl", "base")
    skill, *shown = skill_parts(evidence, *pair)
    return Claim(
        id="C1",
        text="RL alone lifts the base model.",
        source="Fig. 2",
        how="pass@1 of zero_rl minus pass@1 of base, paired over the reasoning test problems; the base model is scored "
        "leniently (without an <answer> its last box, number or block of code counts), so that learning the format "
        "isn't the gain. Skill, too, must rise: the problems solved when both models are made to think, at the same "
        "temperature and with each model at the one of evaluate.thinking that suits it best.",
        models=pair,
        parts=(
            Part("pass@1, zero_rl − base (lenient)", compare(evidence, *pair, second_metric="pass_at_1_lenient")),
            replace(skill, counts=True),
            Part("skill, each at its best temperature, zero_rl − base", compare_best(evidence, *pair)),
            *shown,
            Part("pass@1, zero_rl − base (strict)", compare(evidence, *pair), counts=False),
        ),
    )


def c2(evidence: Evidence) -> Claim:
    pair = ("zero_rl", "base")
    rise = rise_of_length(evidence, "zero_rl")
    steps = 1 if isinstance(rise, Absent) else max(1, rise.n - 1)
    return Claim(
        id="C2",
        text="Responses grow longer during zero RL, and reflection words appear.",
        source="Fig. 3, Table 3",
        how="Response length in tokens, and the words of evaluate.reflection_words per 100 tokens (by default the "
        "paper's ten and their German translations), zero_rl minus base, when both must begin with <think> (a model "
        "that thinks more often writes longer responses without any longer thought); both must rise, and so must the "
        "length of the rollouts that think, in training.",
        models=pair,
        curves=("zero_rl",),
        parts=(
            Part(
                "forced-think length, zero_rl − base",
                compare_thinking(evidence, *pair, "mean_length"),
                unit="tokens",
                ceiling=MARGIN_TOKENS,
            ),
            Part(
                "forced-think reflection words, zero_rl − base",
                compare_thinking(evidence, *pair, "reflection_density"),
                unit="per 100 tokens",
                ceiling=MARGIN_REFLECTIONS,
            ),
            Part(
                "rise of length over the training of zero_rl, rollouts that think",
                rise,
                unit="tokens per set of rollouts",
                ceiling=MARGIN_TOKENS / steps,  # one token over the training
                at_least=MIN_STEPS,
            ),
            Part(
                "length as asked, zero_rl − base",
                compare(evidence, *pair, "mean_length"),
                unit="tokens",
                ceiling=MARGIN_TOKENS,
                counts=False,
            ),
        ),
    )


def c3(evidence: Evidence) -> Claim:
    votes = compare(evidence, "zero_rl", "zero_rl", "cons_at_k", "pass_at_1")
    few = not isinstance(votes, Absent) and evidence.k is not None and evidence.k < MIN_VOTES
    return Claim(
        id="C3",
        text="Majority vote beats pass@1.",
        source="Table 2",
        how="cons@k minus pass@1 of zero_rl over the same samples, paired over the reasoning test problems; zero_rl "
        "decides, as in the paper, and base (lenient) is shown beside it. Fewer than three votes have no majority.",
        models=("zero_rl", "base"),
        parts=(
            Part("cons@k − pass@1, zero_rl", Absent((f"evaluate.k: {MIN_VOTES} or more",)) if few else votes),
            Part(
                "cons@k − pass@1, base (lenient)",
                compare(evidence, "base", "base", "cons_at_k_lenient", "pass_at_1_lenient"),
                counts=False,
            ),
        ),
    )


def c4(evidence: Evidence) -> Claim:
    pair = ("reasoning_rl", "zero_rl")
    faster = compare_starts(evidence, *pair, difference_in_speed)
    steps = 1 if isinstance(faster, Absent) else max(1, faster.n - 1)
    return Claim(
        id="C4",
        text="A cold start gives readable output and a faster start of RL than zero.",
        source="§2.3.1",
        how="Readable: language consistency of cold_start minus zero_rl and format rate of cold_start minus base, "
        "paired over problems. Faster: how much more training accuracy rises from one set of rollouts to the next in "
        "the first quarter of the training, reasoning_rl against zero_rl, paired by step. All three must hold. The "
        "paper also says steadier: how much nearer accuracy on the same dev problems, answered greedily, lies to its "
        "straight line in the first half of its measurements is shown and doesn't decide, since in the default "
        "experiment R1-Zero's leap into the form of answers, before its second measurement, would decide it alone.",
        models=("cold_start", "zero_rl", "base"),
        curves=pair,
        parts=(
            Part(
                "language consistency, cold_start − zero_rl",
                compare(evidence, "cold_start", "zero_rl", "language_rate"),
            ),
            Part("format rate, cold_start − base", compare(evidence, "cold_start", "base", "format_rate")),
            Part(
                "rise of training accuracy in the first quarter, reasoning_rl − zero_rl",
                faster,
                unit="points per set of rollouts",
                ceiling=MARGIN / steps,  # one point over the quarter
                at_least=MIN_STEPS,
            ),
            Part(
                "distance of dev accuracy from its straight line in the first half, zero_rl − reasoning_rl",
                compare_dev(evidence, *pair, difference_in_steadiness),
                at_least=MIN_STEPS,
                counts=False,
            ),
            Part(
                "level of training accuracy in the first quarter, reasoning_rl − zero_rl",
                compare_starts(evidence, *pair, difference_in_level),
                at_least=MIN_STEPS,
                counts=False,
            ),
            Part(
                "rise of dev accuracy in the first half, reasoning_rl − zero_rl",
                compare_dev(evidence, *pair, difference_in_speed),
                unit="points per measurement",
                at_least=MIN_STEPS,
                counts=False,
            ),
            Part(
                "format rate, cold_start − zero_rl",
                compare(evidence, "cold_start", "zero_rl", "format_rate"),
                counts=False,
            ),
        ),
    )


def c5(evidence: Evidence) -> Claim:
    pair = ("zero_rl_language", "zero_rl")
    return Claim(
        id="C5",
        text="The language-consistency reward makes output readable at a small cost in accuracy.",
        source="§2.3.2",
        how="Language consistency of zero_rl_language minus that of zero_rl, the same training without the language "
        "reward, must be above 0, and the loss of pass@1 smaller than three points; paired over the reasoning test "
        "problems. Both start from base, which in the default experiment often answers in another "
        "language.",
        models=pair,
        parts=(
            Part("language consistency, with − without", compare(evidence, *pair, "language_rate")),
            Part("pass@1, with − without", compare(evidence, *pair), floor=-SMALL_COST, ceiling=-SMALL_COST),
        ),
    )


def c6(evidence: Evidence) -> Claim:
    return Claim(
        id="C6",
        text="Distilling the big model beats RL on the small one.",
        source="Table 6",
        how="pass@1 of distill minus pass@1 of student_rl, paired over the reasoning test problems; both start from "
        "student_base.",
        models=("distill", "student_rl"),
        parts=(
            Part("pass@1, distill − student_rl", compare(evidence, "distill", "student_rl")),
            lenient_part(evidence, "distill", "student_rl", counts=False),
        ),
    )


def no_worse(name: str, interval: Interval | Absent, counts: bool = True) -> Part:
    """A part that holds when a loss of NO_WORSE is excluded."""
    return Part(name, interval, floor=-NO_WORSE, ceiling=0.0, counts=counts)


def c7(evidence: Evidence) -> Claim:
    pair, earlier = ("align_rl", "sft_mix"), ("align_rl", "reasoning_rl")
    return Claim(
        id="C7",
        text="RL for all scenarios gains on general prompts and loses no reasoning.",
        source="§2.3.4, Table 4",
        how="align_rl minus sft_mix, which it starts from: the rule-checked score on general prompts above 0, and the "
        "loss of pass@1 on reasoning smaller than two points (the interval above −2); paired over problems. The second "
        "stage's checkpoint is shown too: against it the last RL would get the credit for what SFT on the mix did.",
        models=("align_rl", "sft_mix", "reasoning_rl"),
        parts=(
            Part("general prompts, align_rl − sft_mix", compare(evidence, *pair, scope="general")),
            no_worse("pass@1 on reasoning, align_rl − sft_mix", compare(evidence, *pair)),
            *skill_parts(evidence, *pair),
            no_worse("pass@1 on reasoning, align_rl − reasoning_rl", compare(evidence, *earlier), counts=False),
            Part(
                "general prompts, align_rl − reasoning_rl",
                compare(evidence, *earlier, scope="general"),
                counts=False,
            ),
        ),
    )


def c8(evidence: Evidence) -> Claim:
    return Claim(
        id="C8",
        text="The cold start costs reasoning against R1-Zero and gains on general prompts.",
        source="journal version, Table 3",
        how="pass@1 on reasoning of zero_rl minus cold_start and the score on general prompts of cold_start minus "
        "zero_rl, both above 0; paired over problems.",
        models=("zero_rl", "cold_start", "base"),
        parts=(
            Part("pass@1 on reasoning, zero_rl − cold_start", compare(evidence, "zero_rl", "cold_start")),
            Part("general prompts, cold_start − zero_rl", compare(evidence, "cold_start", "zero_rl", scope="general")),
            *skill_parts(evidence, "cold_start", "base"),
        ),
    )


def c9(evidence: Evidence) -> Claim:
    pair = ("reasoning_rl", "cold_start")
    return Claim(
        id="C9",
        text="RL after the cold start brings reasoning back.",
        source="journal version, Table 3",
        how="pass@1 of reasoning_rl minus cold_start above 0, paired over the reasoning test problems.",
        models=pair,
        parts=(
            Part("pass@1, reasoning_rl − cold_start", compare(evidence, *pair)),
            *skill_parts(evidence, *pair),
        ),
    )


def c10(evidence: Evidence) -> Claim:
    pair = ("sft_mix", "reasoning_rl")
    return Claim(
        id="C10",
        text="SFT on the mix gains on general prompts.",
        source="journal version, Table 3",
        how="The rule-checked score on general prompts of sft_mix minus reasoning_rl above 0, paired over prompts.",
        models=pair,
        parts=(
            Part("general prompts, sft_mix − reasoning_rl", compare(evidence, *pair, scope="general")),
            Part("pass@1 on reasoning, sft_mix − reasoning_rl", compare(evidence, *pair), counts=False),
        ),
    )


def c11(evidence: Evidence) -> Claim:
    pair = ("align_rl", "zero_rl")
    return Claim(
        id="C11",
        text="R1 is not below R1-Zero at reasoning.",
        source="journal version, Table 3",
        how="The loss of pass@1 of align_rl against zero_rl smaller than two points (the interval above −2), paired "
        "over the reasoning test problems.",
        models=pair,
        parts=(
            no_worse("pass@1, align_rl − zero_rl", compare(evidence, *pair)),
            *skill_parts(evidence, *pair),
        ),
    )


def c12(evidence: Evidence) -> Claim:
    return Claim(
        id="C12",
        text="The true reward beats each control.",
        source="arXiv 2506.10947, 2504.11343",
        how="pass@1 of zero_rl minus that of the same training with a random reward, with a reward for the form alone, "
        "and of SFT on the base model's own right samples; all are scored leniently and paired over the reasoning test "
        "problems, and all three must be above 0. What each control gained over base is shown.",
        models=("zero_rl", "base", *CONTROLS),
        parts=(
            *(lenient_part(evidence, "zero_rl", control) for control in CONTROLS),
            *(lenient_part(evidence, control, "base", counts=False) for control in CONTROLS),
        ),
    )


def c13(evidence: Evidence) -> Claim:
    return Claim(
        id="C13",
        text="RL that a process reward model pays solves less than RL that the rule pays.",
        source="§4.2",
        how="pass@1 of zero_rl minus that of zero_rl_process, the same training paid by a process reward model in the "
        "place of the rule that compares answers; both are scored leniently and paired over the reasoning test "
        "problems. The difference must be above 0. What the process reward gained over base is shown.",
        models=("zero_rl", "zero_rl_process", "base"),
        parts=(
            lenient_part(evidence, "zero_rl", "zero_rl_process"),
            lenient_part(evidence, "zero_rl_process", "base", counts=False),
        ),
    )


def c14(evidence: Evidence) -> Claim:
    return Claim(
        id="C14",
        text="RL hacks a process reward model: what it is paid rises beyond what it solves.",
        source="§4.2",
        how="The process reward of zero_rl_process's completions minus the share of them that are right, in the last "
        "quarter of the sets of rollouts against the first, paired in their order. This must be above 0.",
        curves=("zero_rl_process",),
        parts=(
            Part(
                "process reward minus training accuracy, last quarter − first",
                rise_of_excess(evidence, "zero_rl_process"),
                at_least=MIN_STEPS,
            ),
        ),
    )


def c15(evidence: Evidence) -> Claim:
    found = compare(evidence, "self_sft", "tree_sft", "pass_at_1_lenient")
    return Claim(
        id="C15",
        text="What search over steps finds teaches no more than what plain samples find.",
        source="§4.2",
        how="pass@1 of self_sft, SFT on the base model's own right samples, minus that of tree_sft, SFT on its right "
        "answers by search over steps with a value model, which had the same limit of tokens for each prompt; both are "
        "scored leniently and paired over the reasoning test problems. It must be above −2 points. What R1-Zero has "
        "before tree_sft is shown.",
        models=("self_sft", "tree_sft", "zero_rl", "base"),
        parts=(
            no_worse("pass@1 (lenient), self_sft − tree_sft", found),
            lenient_part(evidence, "zero_rl", "tree_sft", counts=False),
            lenient_part(evidence, "tree_sft", "base", counts=False),
        ),
    )


FAILED_ATTEMPTS = (c13, c14, c15)
CLAIMS: tuple[Callable[[Evidence], Claim], ...] = (c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, *FAILED_ATTEMPTS)


def claims_in_order(names: Iterable[str]) -> list[str]:
    """The ids of claims: C2 before C10."""
    return sorted(names, key=lambda name: (len(name), name))


def judge_claims(evidence: Evidence, toy: bool = False) -> list[Claim]:
    """All claims, C1 first; those of failed attempts only if the run has one. Those of a toy have no verdict."""
    claims = []
    tried = any(stage in evidence.stages for stage in ATTEMPTS)
    for judge in CLAIMS:
        if judge in FAILED_ATTEMPTS and not tried:
            continue
        claim = judge(evidence)
        parts = tuple(replace(part, toy=toy) for part in claim.parts)
        claims.append(replace(claim, parts=parts))
    return claims


def describe_interval(interval: Interval | Absent) -> dict[str, float | int | str | None]:
    """JSON's view of an interval, rounded to 1e-6 so that equal runs give equal text; `why` where nothing is solved."""
    if isinstance(interval, Absent):
        return {"estimate": None, "low": None, "high": None, "n": 0}
    described: dict[str, float | int | str | None] = {"n": interval.n}
    for name in ("estimate", "low", "high"):
        value = getattr(interval, name)
        described[name] = None if value is None else round(value, 6)
    if isinstance(interval, Unsolved):
        described["why"] = NOTHING_SOLVED
    return described


def describe_numbers(value: Any) -> Any:
    """JSON's view of numbers and intervals in nested dicts, rounded to 1e-6."""
    if isinstance(value, dict):
        return {key: describe_numbers(inner) for key, inner in value.items()}
    if isinstance(value, Interval | Absent):
        return describe_interval(value)
    return round(value, 6) if isinstance(value, float) else value


def describe_part(part: Part) -> dict[str, object]:
    return {
        "name": part.name,
        "unit": part.unit,
        "verdict": part.verdict,
        "counts": part.counts,
        "floor": part.floor,
        "ceiling": part.ceiling,
        "needs": list(part.interval.needs) if isinstance(part.interval, Absent) else [],
        **describe_interval(part.interval),
    }


def claim_summary(claim: Claim) -> dict[str, object]:
    """A claim as summary.json has it: the deciding part's estimate and interval, and every part."""
    return {
        "verdict": claim.verdict,
        **describe_interval(claim.deciding.interval),
        "unit": claim.deciding.unit,
        "measure": claim.deciding.name,
        "text": claim.text,
        "source": claim.source,
        "how": claim.how,
        "parts": [describe_part(part) for part in claim.parts],
    }
