"""The claims over several runs that differ in their seed alone: the report's page and its summary.json.

A single run's intervals say how far other problems could move a number. Here every run gives one estimate for each
part of a claim, and the intervals are over the runs' seeds. The rule is in docs/claims.md, "Several seeds".

    summary.json: {"claims": {"C1": {"verdict": "holds here", "primary": "pass@1, …", "p": 0.0004, "p_holm": 0.004,
                                     "parts": [{"name": …, "estimate": 0.31, "values": [0.29, 0.33, …], …}, …]}, …},
                   "models": {"base": {"pass@1": {"estimate": 0.27, "low": …, "high": …, "n": 5}, …}, …},
                   "run": "r1_tiny", "seeds": [11, 12, …], "steps": {…}}
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import stdtr

from r1flow.core.metrics import Interval, within_bounds
from r1flow.core.template import GENERAL
from r1flow.programs.report.collect import BASES, curve_of
from r1flow.programs.report.curves import AIMS, HEALTH, Curves, draw_curves
from r1flow.programs.report.figures import GREY, INK, STYLE, canvas, to_svg
from r1flow.programs.report.page import VERDICTS, beside_the_paper, headline, present_claim
from r1flow.programs.report.reflection import (
    lacking_in_a_run,
    present_reflection,
    reflection_over,
    summarise_reflection,
)
from r1flow.programs.report.self_correction import has_several
from r1flow.programs.report.skills import CELLS, comparisons, said_of_skill, summarise_steps
from r1flow.programs.report.templates import difference, fill, scale
from r1flow.recipe.claims import (
    CANT_TELL,
    FIRST_PASS,
    HOLDS,
    MIN_PROBLEMS,
    MIN_SEEDS,
    NO_VERDICT,
    NOT_IN_RUN,
    SKILL_AT,
    TOY,
    Absent,
    Claim,
    Part,
    Unsolved,
    claim_summary,
    claims_in_order,
    describe_numbers,
    over_seeds,
)
from r1flow.recipe.stages import MODELS, RL_STAGES

TOKENS = "tokens"  # the one measure of a model that is no share
SELF_CORRECTION_MEANS = ("corrected_share", "second_try", "difference", "tokens_several", "tokens_one")
# Of Holm's procedure: the chance that any claim holds of which a part's effect isn't above its floor.
LEVEL = 0.05


@dataclass(frozen=True)
class SeedRun:
    """A finished run: its report's summary.json and its stages' metrics.json."""

    seed: int
    name: str
    summary: Mapping[str, Any]
    metrics: Mapping[str, Mapping[str, Any]]  # stage -> metrics


@dataclass(frozen=True)
class Spread:
    """A claim whose intervals are over seeds; `p` and `adjusted` are None where the runs can't test it."""

    claim: Claim
    values: tuple[list[float | None], ...]  # of every part: one estimate a run
    p: float | None = None  # of the part with the largest, among those that count
    adjusted: float | None = None  # by Holm's procedure, over the claims that are tested

    @property
    def primary(self) -> Part:
        return next(part for part in self.claim.parts if part.counts)

    @property
    def verdict(self) -> str:
        """The claim's, but "holds here" only if the adjusted p-value, too, is small enough."""
        uncertain = self.claim.verdict == HOLDS and self.adjusted >= LEVEL
        return CANT_TELL if uncertain else self.claim.verdict


@dataclass(frozen=True)
class Seeds:
    """Runs that differ in their seed alone, and what summary and page tell of them."""

    name: str
    runs: Sequence[SeedRun]

    @property
    def toy(self) -> bool:
        """Whether the experiment is too small for verdicts."""
        return bool(self.runs[0].summary.get("toy"))

    @cached_property
    def claims(self) -> list[Spread]:
        return judge_seeds(self.runs)

    @cached_property
    def models(self) -> dict[str, dict[str, Interval]]:
        """The mean over seeds of each measure of `measures`, for every model; without numbers if a run lacks it."""
        tables = []
        for run in self.runs:
            tables.append({model: measures(run.summary, model) for model in run.summary["models"]})
        return over_rows(tables)

    @cached_property
    def steps(self) -> list[dict[str, Any]]:
        return steps_over(self.runs)

    @cached_property
    def kinds(self) -> dict[str, dict[str, Interval]]:
        """Model -> kind of general prompt -> share of the replies that pass its rule."""
        return over_rows([run.summary["kinds"] for run in self.runs])

    @cached_property
    def self_correction(self) -> dict[str, dict[str, Any]]:
        return self_correction_over(self.runs)

    @cached_property
    def reflection(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The rows of models and families, and of starts that reflect as often as a stage; none if a run has none."""
        told = [run.summary.get("reflection") for run in self.runs]
        return reflection_over(told) if all(told) else ([], [])


def judge_seeds(runs: Sequence[SeedRun]) -> list[Spread]:
    """All claims, C1 first."""
    spreads, p_values = {}, {}
    for name in claims_in_order(runs[0].summary["claims"]):
        spreads[name] = spread_of(name, [run.summary["claims"][name] for run in runs])
        counted = [part for part in spreads[name].claim.parts if part.counts]
        if all(part.verdict != NOT_IN_RUN for part in counted):
            p_values[name] = max(map(p_value, counted))
    adjusted = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    return [replace(spread, p=p_values.get(name), adjusted=adjusted.get(name)) for name, spread in spreads.items()]


def spread_of(name: str, told: Sequence[Mapping[str, Any]]) -> Spread:
    """One claim, as it is told in each run's summary.json."""
    parts, values = [], []
    # One part, once for each run.
    for of_runs in zip(*(claim["parts"] for claim in told), strict=True):
        parts.append(part_over(of_runs))
        values.append([part["estimate"] for part in of_runs])
    claim = Claim(name, told[0]["text"], told[0]["source"], told[0]["how"], tuple(parts))
    return Spread(claim, tuple(values))


def part_over(told: Sequence[Mapping[str, Any]]) -> Part:
    """One part over the runs; its floor and ceiling are the single run's."""
    needs = tuple(dict.fromkeys(chain.from_iterable(part["needs"] for part in told)))
    limits = {key: told[0][key] for key in ("name", "unit", "floor", "ceiling", "counts")}
    interval = Absent(needs) if needs else over_seeds(told)
    return Part(interval=interval, at_least=MIN_SEEDS, toy=told[0]["verdict"] == NO_VERDICT, **limits)


def p_value(part: Part) -> float:
    """Of the one-sided t test that the mean over seeds is above the part's floor; 1 where there is nothing to test."""
    mean, se, n = part.interval.estimate, part.interval.se, part.interval.n
    if se is None or isinstance(part.interval, Unsolved):
        return 1.0
    if se == 0:
        return float(mean <= part.floor)
    return float(stdtr(n - 1, (part.floor - mean) / se))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values adjusted by Holm's procedure, in their order (Scandinavian Journal of Statistics 6, 1979, p. 65)."""
    order = np.argsort(p_values, kind="stable")
    stepped = [p_values[i] * (len(order) - rank) for rank, i in enumerate(order)]
    adjusted = np.minimum(np.maximum.accumulate(stepped), 1)
    return adjusted[np.argsort(order)].tolist()


def over_rows(tables: Sequence[Mapping[str, Mapping[str, float | None]]]) -> dict[str, dict[str, Interval]]:
    """Of every model and column, the mean over the runs' values; without numbers if a run lacks it."""
    rows: dict[str, dict[str, Interval]] = {}
    for model in in_recipe(tables[0]):
        rows[model] = {}
        for name in tables[0][model]:
            mean = over_seeds([{"estimate": table.get(model, {}).get(name)} for table in tables])
            rows[model][name] = mean if name == TOKENS else within_bounds(mean)
    return rows


def in_recipe(models: Collection[str]) -> list[str]:
    """The models in the recipe's order; a summary has them in that of the alphabet."""
    return [stage for stage in MODELS if stage in models]


def measures(summary: Mapping[str, Any], model: str) -> dict[str, float | None]:
    """One model in one run, over its reasoning problems; base models are scored leniently."""
    tasks, lenient = summary["models"][model], "_lenient" if model in BASES else ""
    reasoning, general = (tasks.get(name, {}) for name in ("reasoning", GENERAL))
    skill = {each["temperature"]: each["estimate"] for each in summary["skill"].get(model, [])}
    paraphrased = summary["paraphrased"].get(model, {}).get("reasoning", {})
    return {
        "pass@1": reasoning.get(f"pass_at_1{lenient}"),
        "skill": skill.get(SKILL_AT),
        "first pass": summary["thoughts"].get(model, {}).get(FIRST_PASS),
        "cons@k": reasoning.get(f"cons_at_k{lenient}"),
        "format": reasoning.get("format_rate"),
        "language": reasoning.get("language_rate"),
        "paraphrased": paraphrased.get("pass_at_1_lenient"),
        "self-verification": summary["thoughts"].get(model, {}).get("reflection_rate"),
        "general prompts": general.get("pass_at_1"),
        TOKENS: reasoning.get("mean_length"),
    }


def steps_over(runs: Sequence[SeedRun]) -> list[dict[str, Any]]:
    """The comparisons that all runs have, as skills.step_rows has them, with intervals over seeds."""
    rows, pairs = [], []
    for first, others in runs[0].summary["steps"].items():
        pairs += [(first, second) for second in others]
    for first, second in comparisons(pairs):
        told = [run.summary["steps"].get(first, {}).get(second) for run in runs]
        if None not in told:
            row: dict[str, Any] = {"pair": (first, second), "skill": {}}
            for name in CELLS:
                row[name] = over_seeds([step[name] for step in told])
            # At one temperature, of every run.
            for skills in zip(*(step["skill"] for step in told), strict=True):
                row["skill"][skills[0]["temperature"]] = over_seeds(skills)
            rows.append(row)
    return rows


def self_correction_over(runs: Sequence[SeedRun]) -> dict[str, dict[str, Any]]:
    """For every model, counts of samples in all runs, and the means over seeds of shares and tokens."""
    rows: dict[str, dict[str, Any]] = {}
    for model in in_recipe(runs[0].summary["self_correction"]):
        told = [run.summary["self_correction"][model] for run in runs]
        rows[model] = {}
        for name in told[0]:
            if name in SELF_CORRECTION_MEANS:
                rows[model][name] = over_seeds([each[name] for each in told])
            else:
                rows[model][name] = sum(each[name] for each in told)
    return rows


def few_answers_in_a_run(runs: Sequence[SeedRun]) -> list[str]:
    """The models that have no row of self-correction in the report of at least one of the runs."""
    told = [run.summary["self_correction"] for run in runs]
    few = []
    for model in in_recipe(told[0]):
        if not all(has_several(each[model]) for each in told):
            few.append(model)
    return few


def development(seeds: Seeds) -> dict[str, Any]:
    """The paper's table of its intermediate models, beside these runs' means."""
    columns = {"reasoning, pass@1": "pass@1", "reasoning, skill": "skill", "general prompts": "general prompts"}
    rows = {}
    for label, name in columns.items():
        rows[label] = {model: measured[name].estimate for model, measured in seeds.models.items()}
    return beside_the_paper(rows)


def sharpened_over(seeds: Seeds) -> list[tuple[str, str, str]]:
    """For each RL stage, the model it started from, and in words what became of its skill over the seeds."""
    steps = {row["pair"]: row for row in seeds.steps if SKILL_AT in row["skill"]}
    starts, said = seeds.runs[0].summary["starts"], []
    for stage in in_recipe(starts):
        if row := steps.get((stage, starts[stage])):
            skill = Part("skill", row["skill"][SKILL_AT], at_least=MIN_SEEDS)
            at_first = Part("first pass", row[FIRST_PASS], at_least=MIN_SEEDS)
            said.append((stage, starts[stage], said_of_skill(skill, at_first)))
    return said


def summarise_seeds(seeds: Seeds) -> dict[str, Any]:
    """Every number of the page."""
    summary = {
        "run": seeds.name,
        "seeds": [run.seed for run in seeds.runs],
        "claims": {each.claim.id: describe_spread(each) for each in seeds.claims},
        "models": describe_numbers(seeds.models),
        "kinds": describe_numbers(seeds.kinds),
        "self_correction": describe_numbers(seeds.self_correction),
        "steps": summarise_steps(seeds.steps),
    }
    if any(seeds.reflection):
        summary["reflection"] = summarise_reflection(*seeds.reflection)
    if seeds.toy:
        summary["toy"] = True
    return summary


def describe_spread(spread: Spread) -> dict[str, Any]:
    told = claim_summary(spread.claim)
    parts = [{**part, "values": values} for part, values in zip(told["parts"], spread.values, strict=True)]
    p, adjusted = (None if value is None else round(value, 6) for value in (spread.p, spread.adjusted))
    own = {"verdict": spread.verdict, "primary": spread.primary.name, "p": p, "p_holm": adjusted}
    return told | own | {"parts": parts}


def render_seeds(seeds: Seeds) -> str:
    """The text of the page; equal runs give equal text."""
    names, pictures = [run.seed for run in seeds.runs], []
    for key, drawn in (AIMS | HEALTH).items():
        if curves := curves_over(seeds.runs, key):
            pictures.append((draw_curves(curves, key), drawn.caption))
    return fill(
        "seeds.html.jinja",
        run=seeds.name,
        runs=seeds.runs,
        verdicts=VERDICTS,
        headline=TOY if seeds.toy else headline(seeds.claims),
        toy=seeds.toy,
        min_seeds=MIN_SEEDS,
        level=LEVEL,
        claims=[present_spread(each, names) for each in seeds.claims],
        models=seeds.models,
        tokens=TOKENS,
        skill_at=SKILL_AT,
        steps=seeds.steps,
        sharpened=[] if seeds.toy else sharpened_over(seeds),
        development=development(seeds),
        ours="these runs",
        kinds=seeds.kinds,
        self_correction=seeds.self_correction,
        few_answers=few_answers_in_a_run(seeds.runs),
        min_problems=MIN_PROBLEMS,
        reflection=present_reflection(*seeds.reflection, MIN_SEEDS),
        no_reflection=lacking_in_a_run([run.summary.get("reflection") or {"models": {}} for run in seeds.runs]),
        temperatures=list(seeds.steps[0]["skill"]) if seeds.steps else [],
        figures=pictures,
    )


def present_spread(spread: Spread, seeds: Sequence[int]) -> dict[str, Any]:
    shown, primary = present_claim(spread.claim), spread.primary
    for part, own, values in zip(shown["parts"], spread.claim.parts, spread.values, strict=True):
        part["values"] = [shown_value(value, own.unit) for value in values]
        part["without"] = [seed for seed, value in zip(seeds, values, strict=True) if value is None and not own.needs]
    values = spread.values[spread.claim.parts.index(primary)]
    return {
        **shown,
        "verdict": spread.verdict,
        "primary": primary.name,
        "mean": difference(primary.interval, primary.unit),
        "figure": "" if None in values else draw_seeds(primary, values, f"seeds-{spread.claim.id}"),
        "above": sum(value is not None and value > primary.floor for value in values),
        "p": p_text("p", spread.p),
        "adjusted": p_text("Holm-adjusted p", spread.adjusted),
    }


def shown_value(value: float | None, unit: str) -> str:
    return difference(Interval(value, None, None, None, 1), unit).partition(" ")[0]


def p_text(name: str, p: float | None) -> str:
    if p is None:
        return ""
    return f"{name} < 0.001" if p < 0.001 else f"{name} = {p:.3f}"


def curves_over(runs: Sequence[SeedRun], key: str) -> Curves:
    """Each RL stage's curve in every run, over the steps at which all of them have a value."""
    curves = {}
    for stage in RL_STAGES:
        by_step = [dict(curve_of(run.metrics.get(stage, {}), key)) for run in runs]
        common = sorted(set.intersection(*map(set, by_step)))
        if common:
            curves[stage] = []
            for values in by_step:
                curves[stage].append([(step, values[step]) for step in common])
    return curves


@plt.rc_context(STYLE)
def draw_seeds(part: Part, values: Sequence[float], name: str) -> str:
    """One part: a dot a seed, under them the mean with its interval; the line is the floor."""
    figure, axes = canvas(1.1)
    figure.set_size_inches(3.4, 1.1)  # a card's width
    times, mean = scale(part.unit), part.interval
    axes.axvline(times * part.floor, color=GREY, linewidth=1)
    axes.plot([times * value for value in values], [0] * len(values), "o", color=INK, alpha=0.45, markersize=6)
    axes.plot([times * mean.low, times * mean.high], [1, 1], color=INK, linewidth=2.4)
    axes.plot(times * mean.estimate, 1, "D", color=INK, markersize=6)
    axes.set_yticks([0, 1], ["seeds", "mean"])
    axes.set_ylim(1.6, -0.6)
    axes.set_xlabel(part.unit)
    return to_svg(figure, name, f"{part.name}: every seed, and the mean")
