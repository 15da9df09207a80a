"""The seven claims of the paper that a reproduction can test (C1–C7), each a pure function of samples and histories.

Every claim is one or more *parts*; a part is a difference between two models on the same problems (or two training
curves) with a 95 % interval, in the direction the claim gives it: a positive difference speaks for the claim.

The rule, for every part and stated before any run was looked at:

    reproduced      the whole interval is above `floor`
    not reproduced  the whole interval is below `ceiling`
    can't tell      neither, or fewer than MIN_PROBLEMS problems (MIN_STEPS steps)
    not in this run the run's experiment lacks something that the part compares, such as a stage, which is named

For an effect ("A beats B") floor is 0 and ceiling MARGIN, one point: the interval excludes 0, or it excludes every
effect worth the name. For "no worse" floor is −MARGIN and ceiling 0: a loss of a whole point is excluded, or there is
a loss. A claim is as good as its weakest part and shows the estimate of that part; all parts are kept beside it.

If the run has a stage but its numbers are missing, that is an error and raises, so it can't be taken for "not in this
run".

Left out: differences between training seeds (each arm is one training run), and corrections for testing seven claims.

A result: {"verdict": "reproduced", "estimate": 0.369, "low": 0.330, "high": 0.408, "text": "…", "how": "…"}
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from r1flow.core.metrics import Interval, PerProblem, paired_difference, welch_difference

REPRODUCED, NOT_REPRODUCED = "reproduced", "not reproduced"
CANT_TELL, NOT_IN_RUN = "can't tell", "not in this run"
_STRENGTH = (NOT_REPRODUCED, NOT_IN_RUN, CANT_TELL, REPRODUCED)  # weakest first

MARGIN = 0.01  # one point of a rate, one token of length: the smallest difference worth the name
MARGIN_TOKENS = 1.0
SMALL_COST = 0.03  # C5: "a small cost in accuracy" is at most three points
MIN_PROBLEMS = 20  # with fewer, t intervals of rates that are mostly 0 or 1 don't have their nominal coverage
MIN_STEPS = 5
RL_START = 0.25  # C4: the start of RL is the first quarter of its steps

# scope ("reasoning" or "general") -> metric of metrics.PROBLEM_METRICS -> problem -> value
Scores = Mapping[str, Mapping[str, PerProblem]]
SCOPES = {"reasoning": "reasoning problems", "general": "general prompts"}


@dataclass(frozen=True)
class Evidence:
    """The data for the claims: every model's scores per problem, and every RL stage's accuracy per training step.

    `stages` are those of the run. A scope without scores had no prompts; a stage without accuracies has no reward that
    gives one.
    """

    scores: Mapping[str, Scores]
    accuracy: Mapping[str, Sequence[float]] = field(default_factory=dict)
    stages: Collection[str] = ()


@dataclass(frozen=True)
class Absent:
    """What a comparison needs and the run doesn't have, for instance ("reasoning_rl_no_language",)."""

    needs: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """One difference in the claim's direction; `unit` is "points" (a fraction, 0.01 is one point) or "tokens"."""

    name: str
    interval: Interval | Absent
    unit: str = "points"
    floor: float = 0.0
    ceiling: float = MARGIN
    at_least: int = MIN_PROBLEMS
    counts: bool = True  # False: shown, but the verdict doesn't rest on it

    @property
    def verdict(self) -> str:
        if isinstance(self.interval, Absent):
            return NOT_IN_RUN
        if self.interval.n < self.at_least or self.interval.low is None:
            return CANT_TELL
        if self.interval.low > self.floor:
            return REPRODUCED
        return NOT_REPRODUCED if self.interval.high < self.ceiling else CANT_TELL

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

    @property
    def deciding(self) -> Part:
        """The weakest part that counts, the first if several are: its estimate and interval are the claim's."""
        return min((part for part in self.parts if part.counts), key=lambda part: _STRENGTH.index(part.verdict))

    @property
    def verdict(self) -> str:
        return self.deciding.verdict


def lacking(found: Mapping[str, object], stages: Collection[str], *names: str) -> tuple[str, ...]:
    """The names that `found` lacks; raises LookupError if one of them is a stage of the run."""
    missing = tuple(name for name in dict.fromkeys(names) if name not in found)
    for name in missing:
        if name in stages:
            raise LookupError(f"claims: {name} is a stage of this run, and nothing of it reached the claims")
    return missing


def compare(
    evidence: Evidence,
    first: str,
    second: str,
    metric: str = "pass_at_1",
    second_metric: str | None = None,
    scope: str = "reasoning",
) -> Interval | Absent:
    """The first model's metric minus the second's, over the problems that both answered."""
    if models := lacking(evidence.scores, evidence.stages, first, second):
        return Absent(models)
    one, other = evidence.scores[first].get(scope), evidence.scores[second].get(scope)
    if not one or not other:
        return Absent((SCOPES[scope],))
    return paired_difference(one[metric], other[second_metric or metric])


def start_of(values: Sequence[float]) -> list[float]:
    """The first quarter of a training curve, at least one step."""
    return list(values[: max(1, round(len(values) * RL_START))])


def compare_starts(
    evidence: Evidence, first: str, second: str, of: Callable[[Sequence[float]], Sequence[float]]
) -> Interval | Absent:
    """Mean over the first quarter's steps of `of(accuracies)`, first stage − second; steps are taken as independent."""
    if stages := lacking(evidence.accuracy, evidence.stages, first, second):
        return Absent(stages)
    if ungraded := [stage for stage in (first, second) if not evidence.accuracy[stage]]:
        return Absent(tuple(f"the reward accuracy in {stage}" for stage in ungraded))
    return welch_difference(of(start_of(evidence.accuracy[first])), of(start_of(evidence.accuracy[second])))


def step_changes(values: Sequence[float]) -> list[float]:
    """The absolute change from each training step to the next."""
    return [float(change) for change in np.abs(np.diff(np.asarray(values, dtype=float)))]


def negated(interval: Interval | Absent) -> Interval | Absent:
    """The difference the other way round."""
    if isinstance(interval, Absent) or interval.low is None:
        return interval
    return Interval(-interval.estimate, -interval.high, -interval.low, interval.se, interval.n)


def c1(evidence: Evidence) -> Claim:
    return Claim(
        id="C1",
        text="RL alone lifts the base model.",
        source="Fig. 2",
        how="pass@1 of zero_rl minus pass@1 of base, paired over the reasoning test problems; the base model is scored "
        "leniently (without an <answer> its last box or number counts), so that learning the format isn't the gain.",
        parts=(
            Part(
                "pass@1, zero_rl − base (lenient)",
                compare(evidence, "zero_rl", "base", second_metric="pass_at_1_lenient"),
            ),
            Part("pass@1, zero_rl − base (strict)", compare(evidence, "zero_rl", "base"), counts=False),
        ),
    )


def c2(evidence: Evidence) -> Claim:
    length = compare(evidence, "zero_rl", "base", "mean_length")
    return Claim(
        id="C2",
        text="Responses grow longer during zero RL, and reflection words appear.",
        source="Fig. 3, Table 3",
        how="Response length in tokens, and share of responses with a reflection word (wait, hmm, recheck, …), zero_rl "
        "minus base, paired over the reasoning test problems; both must rise.",
        parts=(
            Part("length, zero_rl − base", length, unit="tokens", ceiling=MARGIN_TOKENS),
            Part(
                "responses with a reflection word, zero_rl − base",
                compare(evidence, "zero_rl", "base", "reflection_rate"),
            ),
        ),
    )


def c3(evidence: Evidence) -> Claim:
    return Claim(
        id="C3",
        text="Majority vote beats pass@1.",
        source="Table 2",
        how="cons@k minus pass@1 of zero_rl over the same samples, paired over the reasoning test problems; zero_rl "
        "decides, as in the paper, and base (lenient) is shown beside it.",
        parts=(
            Part("cons@k − pass@1, zero_rl", compare(evidence, "zero_rl", "zero_rl", "cons_at_k", "pass_at_1")),
            Part(
                "cons@k − pass@1, base (lenient)",
                compare(evidence, "base", "base", "cons_at_k_lenient", "pass_at_1_lenient"),
                counts=False,
            ),
        ),
    )


def c4(evidence: Evidence) -> Claim:
    faster = compare_starts(evidence, "reasoning_rl", "zero_rl", of=list)
    steadier = negated(compare_starts(evidence, "reasoning_rl", "zero_rl", of=step_changes))
    return Claim(
        id="C4",
        text="A cold start gives readable output and a faster, steadier start of RL than zero.",
        source="§2.3.1",
        how="Readable: language consistency of cold_start minus zero_rl and format rate of cold_start minus base, "
        "paired over problems; faster and steadier: training accuracy and its step-to-step change over the first "
        "quarter of the steps, reasoning_rl against zero_rl (Welch's interval over steps); all four must hold.",
        parts=(
            Part(
                "language consistency, cold_start − zero_rl",
                compare(evidence, "cold_start", "zero_rl", "language_rate"),
            ),
            Part("format rate, cold_start − base", compare(evidence, "cold_start", "base", "format_rate")),
            Part("training accuracy in the first quarter, reasoning_rl − zero_rl", faster, at_least=MIN_STEPS),
            Part("step-to-step change in the first quarter, zero_rl − reasoning_rl", steadier, at_least=MIN_STEPS - 1),
            Part(
                "format rate, cold_start − zero_rl",
                compare(evidence, "cold_start", "zero_rl", "format_rate"),
                counts=False,
            ),
        ),
    )


def c5(evidence: Evidence) -> Claim:
    arms = ("reasoning_rl", "reasoning_rl_no_language")
    return Claim(
        id="C5",
        text="The language-consistency reward makes output readable at a small cost in accuracy.",
        source="§2.3.2",
        how="Language consistency of reasoning_rl minus the same training without the language reward must be above 0, "
        "and the loss of pass@1 smaller than three points; paired over the reasoning test problems.",
        parts=(
            Part("language consistency, with − without", compare(evidence, *arms, "language_rate")),
            Part("pass@1, with − without", compare(evidence, *arms), floor=-SMALL_COST, ceiling=-SMALL_COST),
        ),
    )


def c6(evidence: Evidence) -> Claim:
    return Claim(
        id="C6",
        text="Distilling the big model beats RL on the small one.",
        source="Table 6",
        how="pass@1 of distill minus pass@1 of student_rl, paired over the reasoning test problems; both start from "
        "student_base.",
        parts=(
            Part("pass@1, distill − student_rl", compare(evidence, "distill", "student_rl")),
            Part(
                "pass@1 (lenient), distill − student_rl",
                compare(evidence, "distill", "student_rl", "pass_at_1_lenient"),
                counts=False,
            ),
        ),
    )


def c7(evidence: Evidence) -> Claim:
    arms = ("align_rl", "reasoning_rl")
    return Claim(
        id="C7",
        text="The final model is no worse than the stage-2 checkpoint on reasoning and better on general prompts.",
        source="§2.3.4, Table 4",
        how="align_rl minus reasoning_rl: the loss of pass@1 on reasoning smaller than one point (the interval above "
        "−1), and the rule-checked score on general prompts above 0; paired over problems.",
        parts=(
            Part("pass@1 on reasoning, align_rl − reasoning_rl", compare(evidence, *arms), floor=-MARGIN, ceiling=0.0),
            Part("general prompts, align_rl − reasoning_rl", compare(evidence, *arms, scope="general")),
        ),
    )


CLAIMS: tuple[Callable[[Evidence], Claim], ...] = (c1, c2, c3, c4, c5, c6, c7)


def judge(evidence: Evidence) -> list[Claim]:
    """All seven claims, C1 first."""
    return [claim(evidence) for claim in CLAIMS]


def describe_interval(interval: Interval | Absent) -> dict[str, float | int | None]:
    """JSON's view of an interval, rounded to 1e-6 so that equal runs give equal text."""
    if isinstance(interval, Absent):
        return {"estimate": None, "low": None, "high": None, "n": 0}
    values = {name: getattr(interval, name) for name in ("estimate", "low", "high")}
    return {name: None if value is None else round(value, 6) for name, value in values.items()} | {"n": interval.n}


def describe_part(part: Part) -> dict[str, object]:
    return {
        "name": part.name,
        "unit": part.unit,
        "verdict": part.verdict,
        "counts": part.counts,
        "floor": part.floor,
        **describe_interval(part.interval),
    }


def describe(claim: Claim) -> dict[str, object]:
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
