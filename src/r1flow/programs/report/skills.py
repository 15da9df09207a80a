"""Tables that tell skill from mode: what a stage changed in how well a model reasons, and in how often it does.

Skill is forced-think accuracy: every completion must begin with <think>. docs/claims.md defines the words.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from r1flow.core.metrics import Interval, as_share
from r1flow.core.template import GENERAL
from r1flow.recipe.claims import (
    CANT_TELL,
    DOES_NOT_HOLD,
    FIRST_PASS,
    HOLDS,
    SKILL_AT,
    Absent,
    Evidence,
    Part,
    compare,
    compare_later_passes,
    compare_modes,
    compare_solved,
    compare_thinking,
    describe_interval,
    of_family,
    over_families,
)
from r1flow.recipe.stages import CONTROLS, MODELS

# The comparisons of the paper and of the claims: a stage, and a model it started from or is held against.
STEPS = (
    ("zero_rl", "base"),
    ("zero_rl_language", "base"),
    ("zero_rl_language", "zero_rl"),
    *((control, "base") for control in CONTROLS),
    ("zero_rl_process", "base"),
    ("zero_rl_process", "zero_rl"),
    ("tree_sft", "base"),
    ("tree_sft", "self_sft"),
    ("cold_start", "base"),
    ("cold_start", "zero_rl"),
    ("reasoning_rl", "cold_start"),
    ("reasoning_rl", "zero_rl"),
    ("sft_mix", "base"),
    ("sft_mix", "reasoning_rl"),
    ("align_rl", "sft_mix"),
    ("align_rl", "reasoning_rl"),
    ("align_rl", "cold_start"),
    ("align_rl", "zero_rl"),
    ("align_rl", "base"),
    ("student_rl", "student_base"),
    ("distill", "student_base"),
    ("distill", "student_rl"),
)
# Of a model's thoughts, with <think> forced at SKILL_AT, as means over the families.
THOUGHT_METRICS = (
    "finished_rate",
    "thinking_rate",
    "language_rate",
    "mean_length",
    "reflection_rate",
    "reflection_density",
    FIRST_PASS,
)
LATER_PASSES = "later_passes"
CELLS = ("gain", "mode", FIRST_PASS, LATER_PASSES, "general")  # of a step, besides its skill at each temperature
SHARPENED = {  # what a difference in skill to the model that an RL stage started from says
    HOLDS: "skill rose",
    DOES_NOT_HOLD: "skill did not rise",
    CANT_TELL: "we can’t tell whether skill rose",
}
AT_FIRST = {  # … and of a skill that rose, the difference in first passes
    HOLDS: "and so did the share of right first answers: RL sharpened the model",
    DOES_NOT_HOLD: "by answering again: first answers aren’t right more often",
    CANT_TELL: "and we can’t tell whether first answers are right more often, or whether it just answers again",
}


def comparisons(pairs: Collection[tuple[str, str]]) -> list[tuple[str, str]]:
    """STEPS, then the pairs that aren't among them: stages in the recipe's order, each with a model to compare with."""
    further = [(stage, other) for stage, other in pairs if stage in MODELS and (stage, other) not in STEPS]
    return [*STEPS, *sorted(further, key=lambda pair: MODELS.index(pair[0]))]


def skill_rows(evidence: Evidence) -> list[dict[str, Any]]:
    """For every model: problems solved as asked and with <think> forced, and what its thoughts are like."""
    rows = []
    for model, scores in evidence.scores.items():
        asked, given = scores.get("reasoning"), evidence.thinking.get(model, {})
        if asked and SKILL_AT in given:
            thought = {name: over_families(evidence, values).estimate for name, values in given[SKILL_AT].items()}
            rows.append(
                {
                    "model": model,
                    "asked": as_share(over_families(evidence, asked["solved"])),
                    "thinks": over_families(evidence, asked["thinking_rate"]).estimate,
                    "skill": [as_share(over_families(evidence, given[t]["solved"])) for t in evidence.temperatures],
                    **thought,
                }
            )
    return rows


def summarise_skills(rows: Iterable[Mapping[str, Any]], temperatures: Sequence[float]) -> dict[str, Any]:
    """The models' skill as summary.json has it: {"base": [{"temperature": 0.6, "estimate": …}, …], …}."""
    return {row["model"]: describe_skill(dict(zip(temperatures, row["skill"], strict=True))) for row in rows}


def describe_skill(by_temperature: Mapping[float, Interval]) -> list[dict[str, Any]]:
    return [{"temperature": t, **describe_interval(interval)} for t, interval in by_temperature.items()]


def step_rows(evidence: Evidence, pairs: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """For every pair of models that the run has: gain, skill at each temperature, mode, general prompts."""
    rows = []
    for pair in pairs:
        gain, mode = compare_solved(evidence, *pair), compare_modes(evidence, *pair)
        skill = {t: compare_thinking(evidence, *pair, temperature=t) for t in evidence.temperatures}
        if not any(isinstance(cell, Absent) for cell in (gain, mode, *skill.values())):
            general = compare(evidence, *pair, scope="general")
            row = {"pair": pair, "gain": gain, "skill": skill, "mode": mode, "general": general}
            rows.append(row | parts_of_skill(evidence, *pair))
    return rows


def parts_of_skill(evidence: Evidence, first: str, second: str) -> dict[str, Interval | Absent]:
    """A difference in skill in two parts that add up to it: first answers, and what later ones change."""
    return {
        FIRST_PASS: compare_thinking(evidence, first, second, FIRST_PASS),
        LATER_PASSES: compare_later_passes(evidence, first, second),
    }


def family_rows(evidence: Evidence, starts: Mapping[str, str]) -> list[dict[str, Any]]:
    """For each RL stage and the model it started from, by family: skill, its two parts, and how many thoughts doubt."""
    parts = {family: of_family(evidence, family) for family in sorted(set(evidence.families.values()) - {GENERAL})}
    rows = []
    for stage, start in starts.items():
        for family, part in parts.items():
            skill = compare_thinking(part, stage, start)
            if not isinstance(skill, Absent) and skill.n:
                row = {"pair": (stage, start), "family": family, "skill": skill}
                row["doubts"] = [share_of_doubts(part, start), share_of_doubts(part, stage)]
                rows.append(row | parts_of_skill(part, stage, start))
    return rows


def share_of_doubts(evidence: Evidence, model: str) -> float | None:
    """How many of a model's thoughts have reflection words."""
    return over_families(evidence, evidence.thinking[model][SKILL_AT]["reflection_rate"]).estimate


def summarise_steps(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The steps as summary.json has them: {"zero_rl": {"base": {"gain": {"estimate": …}, "skill": […], …}, …}, …}."""
    steps: dict[str, Any] = {}
    for row in rows:
        first, second = row["pair"]
        cells = {name: describe_interval(row[name]) for name in CELLS}
        steps.setdefault(first, {})[second] = {"skill": describe_skill(row["skill"]), **cells}
    return steps


def summarise_families(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """As summary.json has them: {"zero_rl": {"products": {"skill": {"estimate": …}, "first_pass": …, …}, …}, …}."""
    stages: dict[str, Any] = {}
    for row in rows:
        cells = {name: describe_interval(row[name]) for name in ("skill", FIRST_PASS, LATER_PASSES)}
        stages.setdefault(row["pair"][0], {})[row["family"]] = cells
    return stages


def sharpened(evidence: Evidence, starts: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """For each RL stage, the model it started from, and in words what became of its skill."""
    said = []
    for stage, start in starts.items():
        if {stage, start} <= evidence.scores.keys():
            skill = Part("skill", compare_thinking(evidence, stage, start))
            if not isinstance(skill.interval, Absent):
                at_first = Part("first pass", compare_thinking(evidence, stage, start, FIRST_PASS))
                said.append((stage, start, said_of_skill(skill, at_first)))
    return said


def said_of_skill(skill: Part, at_first: Part) -> str:
    """In words what became of the skill, and if it rose, of the first answers."""
    word = SHARPENED[skill.verdict]
    return f"{word}, {AT_FIRST[at_first.verdict]}" if skill.verdict == HOLDS else word
