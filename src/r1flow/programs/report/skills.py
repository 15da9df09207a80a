"""Tables that tell skill from mode: what a stage changed in how well a model reasons, and in how often it does.

Skill is measured with <think> given to every model; docs/claims.md defines the words.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from r1flow.core.metrics import Interval, PerProblem, mean_interval, mean_over
from r1flow.programs.report.collect import RL_STAGES, Results
from r1flow.recipe.claims import (
    NOT_REPRODUCED,
    REPRODUCED,
    SKILL_AT,
    Absent,
    Evidence,
    Part,
    compare,
    compare_modes,
    compare_solved,
    compare_thinking,
    describe_interval,
)

# Each stage and the model it is compared with: what it started from, and what the paper compares it with.
STEPS = (
    ("zero_rl", "base"),
    ("zero_rl_language", "base"),
    ("zero_rl_random", "base"),
    ("zero_rl_format", "base"),
    ("self_sft", "base"),
    ("cold_start", "base"),
    ("cold_start", "zero_rl"),
    ("reasoning_rl", "cold_start"),
    ("sft_mix", "reasoning_rl"),
    ("align_rl", "sft_mix"),
    ("align_rl", "zero_rl"),
    ("align_rl", "base"),
    ("student_rl", "student_base"),
    ("distill", "student_base"),
    ("distill", "student_rl"),
)
STARTS = {
    **dict.fromkeys(("zero_rl", "zero_rl_language", "zero_rl_random", "zero_rl_format"), "base"),
    **{"reasoning_rl": "cold_start", "align_rl": "sft_mix", "student_rl": "student_base"},
}
# The models of the paper's table (journal version, Table 3) and its figures.
DEVELOPMENT = ("zero_rl", "cold_start", "reasoning_rl", "sft_mix", "align_rl")
PAPER_NAMES = ("R1-Zero", "Dev1", "Dev2", "Dev3", "R1")
PAPER_TABLE_3 = (
    ("AIME 2024, pass@1", ("77.9", "59.0", "74.0", "78.1", "79.8")),
    ("MATH-500, pass@1", ("95.9", "94.2", "95.9", "95.4", "97.3")),
    ("LiveCodeBench, pass@1", ("50.0", "57.5", "63.5", "64.6", "65.9")),
    ("IF-Eval", ("46.6", "71.7", "72.0", "78.1", "83.3")),
    ("ArenaHard", ("53.6", "77.0", "73.2", "75.6", "92.3")),
)


def temperatures(results: Results) -> list[float]:
    return sorted({temperature for given in results.thinking.values() for temperature in given})


def skill_rows(results: Results) -> list[dict[str, Any]]:
    """For every model: problems solved as asked and with <think> given, and what its thoughts are like."""
    evidence, rows = results.evidence, []
    for model in results.models:
        asked, given = evidence.scores[model].get("reasoning"), evidence.thinking.get(model, {})
        if asked and SKILL_AT in given:
            thought = {name: over_families(evidence, values).estimate for name, values in given[SKILL_AT].items()}
            rows.append(
                {
                    "model": model,
                    "asked": over_families(evidence, asked["solved"]),
                    "thinks": over_families(evidence, asked["thinking_rate"]).estimate,
                    "skill": [over_families(evidence, given[t]["solved"]) for t in temperatures(results)],
                    **thought,
                }
            )
    return rows


def over_families(evidence: Evidence, values: PerProblem) -> Interval:
    """The mean over families of the means over their problems."""
    members: dict[str, list[float]] = {}
    for problem, value in values.items():
        members.setdefault(evidence.families[problem], []).append(value)
    return mean_over([mean_interval(found) for found in members.values()])


def step_rows(results: Results) -> list[dict[str, Any]]:
    """For every step of the recipe whose models the run has: gain, skill at each temperature, mode, general prompts."""
    evidence, rows = results.evidence, []
    for pair in STEPS:
        gain, mode = compare_solved(evidence, *pair), compare_modes(evidence, *pair)
        skill = {t: compare_thinking(evidence, *pair, temperature=t) for t in temperatures(results)}
        if not any(isinstance(cell, Absent) for cell in (gain, mode, *skill.values())):
            general = compare(evidence, *pair, scope="general")
            rows.append({"pair": pair, "gain": gain, "skill": skill, "mode": mode, "general": general})
    return rows


def summarise_steps(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The steps as summary.json has them: {"zero_rl": {"base": {"gain": {"estimate": …}, "skill": […], …}, …}, …}."""
    found: dict[str, Any] = {}
    for row in rows:
        first, second = row["pair"]
        skill = [{"temperature": t, **describe_interval(each)} for t, each in row["skill"].items()]
        rest = {name: describe_interval(row[name]) for name in ("gain", "mode", "general")}
        found.setdefault(first, {})[second] = {"skill": skill, **rest}
    return found


def sharpened(results: Results) -> list[tuple[str, str, str]]:
    """For each RL stage, the model it started from, and in words what became of its skill."""
    words = {REPRODUCED: "skill rose, so RL sharpened the model", NOT_REPRODUCED: "skill did not rise"}
    found = []
    for stage in RL_STAGES:
        start = STARTS.get(stage)
        if stage in results.samples and start in results.samples:
            part = Part("skill", compare_thinking(results.evidence, stage, start))
            if not isinstance(part.interval, Absent):
                found.append((stage, start, words.get(part.verdict, "this run can’t tell whether skill rose")))
    return found


def development(results: Results) -> dict[str, Any]:
    """The paper's table of its intermediate models, and this run's rows; empty without two of these models."""
    present = [model for model in DEVELOPMENT if model in results.models]
    if len(present) < 2:
        return {}
    rows = [("reasoning, pass@1", pass_at_1(results.summaries, "reasoning"))]
    if skills := {row["model"]: row["skill"][temperatures(results).index(SKILL_AT)] for row in skill_rows(results)}:
        rows.append(("reasoning, skill", {model: each.estimate for model, each in skills.items()}))
    rows.append(("general prompts", pass_at_1(results.summaries, "general")))
    return {
        "names": list(zip(PAPER_NAMES, DEVELOPMENT, strict=True)),
        "rows": [(label, [values.get(model) for model in DEVELOPMENT]) for label, values in rows],
        "paper": PAPER_TABLE_3,
    }


def pass_at_1(summaries: Mapping[str, Mapping[str, Mapping[str, Any]]], task: str) -> dict[str, float | None]:
    return {model: tasks[task]["pass_at_1"] for model, tasks in summaries.items() if task in tasks}
