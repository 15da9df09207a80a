"""One self-contained HTML page of a run's results: tables and pictures are made here, the words are in the template.

Text that a model wrote is hostile: jinja2 escapes it, and what could still deceive a reader (control characters, text
direction overrides) or bloat the page (enormous completions) is made visible or cut first.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from r1flow.core.metrics import Interval, Row, paired_difference, share_interval
from r1flow.core.template import GENERAL, Response
from r1flow.programs.report import figures
from r1flow.programs.report.collect import BASES, Results
from r1flow.programs.report.curves import AIMS, HEALTH, REWARDS, Curves, curve_figure, draw_curves
from r1flow.programs.report.reflection import present_reflection
from r1flow.programs.report.rows import left_out_rows, warnings_of, whole_files
from r1flow.programs.report.self_correction import has_several, worth
from r1flow.programs.report.skills import sharpened
from r1flow.programs.report.templates import difference, fill
from r1flow.programs.report.tries import GUESSING, KS, reach, said_of_bins
from r1flow.recipe.claims import (
    CANT_TELL,
    DOES_NOT_HOLD,
    HOLDS,
    MARGIN,
    MIN_PROBLEMS,
    NO_VERDICT,
    NO_WORSE,
    NOT_IN_RUN,
    SKILL_AT,
    TOY,
    Claim,
    Part,
)
from r1flow.recipe.stages import RL_STAGES, STAGES
from r1flow.tracking.left_out import LOST, REASONS, WARN_ABOVE

VERDICTS = {
    HOLDS: ("yes", "✓"),
    DOES_NOT_HOLD: ("no", "✗"),
    CANT_TELL: ("open", "?"),
    NO_VERDICT: ("none", "–"),
    NOT_IN_RUN: ("none", "–"),
}

COUNTED = {  # one claim, and more than one
    HOLDS: ("holds here", "hold here"),
    DOES_NOT_HOLD: ("doesn’t", "don’t"),
    CANT_TELL: ("can’t be told", "can’t be told"),
    NOT_IN_RUN: ("isn’t in this run", "aren’t in this run"),
}

# Numbers of the paper's report (arXiv 2501.12948v1), in its own order; Codeforces is a rating, the others are per cent.
PAPER_COLUMNS = ("AIME 2024, pass@1", "AIME 2024, cons@64", "MATH-500", "GPQA Diamond", "LiveCodeBench", "Codeforces")
PAPER_TABLES = {
    2: (
        ("OpenAI-o1-0912", "74.4", "83.3", "94.8", "77.3", "63.4", "1843"),
        ("R1-Zero (zero_rl)", "71.0", "86.7", "95.9", "73.3", "50.0", "1444"),
    ),
    5: (
        ("QwQ-32B-Preview", "50.0", "60.0", "90.6", "54.5", "41.9", "1316"),
        ("R1-Distill-Qwen-1.5B (distill)", "28.9", "52.7", "83.9", "33.8", "16.9", "954"),
        ("R1-Distill-Qwen-7B (distill)", "55.5", "83.3", "92.8", "49.1", "37.6", "1189"),
        ("R1-Distill-Qwen-14B (distill)", "69.7", "80.0", "93.9", "59.1", "53.1", "1481"),
        ("R1-Distill-Qwen-32B (distill)", "72.6", "83.3", "94.3", "62.1", "57.2", "1691"),
        ("R1-Distill-Llama-8B (distill)", "50.4", "80.0", "89.1", "49.0", "39.6", "1205"),
        ("R1-Distill-Llama-70B (distill)", "70.0", "86.7", "94.5", "65.2", "57.5", "1633"),
    ),
    6: (
        ("QwQ-32B-Preview", "50.0", "60.0", "90.6", "54.5", "41.9", "–"),
        ("R1-Zero’s recipe on Qwen-32B (student_rl)", "47.0", "60.0", "91.6", "55.0", "40.2", "–"),
        ("R1-Distill-Qwen-32B (distill)", "72.6", "83.3", "94.3", "62.1", "57.2", "–"),
    ),
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

# What a model is, for a reader who knows the paper and not our names.
MODEL_WORDS = {
    "base": "the base model",
    "zero_rl": "R1-Zero: RL alone, from the base model",
    "cold_start": "Dev1: the base model after the cold start (SFT)",
    "reasoning_rl": "Dev2: reasoning RL after the cold start",
    "sft_mix": "Dev3: SFT on reasoning and general data",
    "align_rl": "R1: RL for all scenarios",
    "student_base": "the small base model",
    "student_rl": "RL on the small base model",
    "distill": "distilled: the small model, SFT on the big model’s samples",
    "zero_rl_language": "R1-Zero with the language reward (ablation)",
    "zero_rl_random": "R1-Zero with a random reward (control)",
    "zero_rl_format": "R1-Zero with a reward for the form alone (control)",
    "zero_rl_process": "R1-Zero paid by a process reward model (an attempt that failed in the paper)",
    "tree_sft": "SFT on what the base model got right by search over steps (an attempt that failed in the paper)",
    "self_sft": "SFT on the base model’s own right samples (control)",
}

DRAWN = {
    "scores": figures.draw_scores,
    "forest": figures.draw_forest,
    "tries": figures.draw_tries,
    "tries_thinking": figures.draw_tries,
    "search": figures.draw_search,
}


def render_report(results: Results, pictures: Mapping[str, str], config: Mapping[str, Any], seed: int) -> str:
    """The text of report.html: results only, so that a rerun of the same recipe gives the same page."""
    left_out, corrections = left_out_rows(results.metrics), results.self_correction
    given = set().union(*(row["reasons"] for row in left_out))
    claims = [present_claim(claim) for claim in results.claims]
    return fill(
        "report.html.jinja",
        run=results.run,
        results=results,
        verdicts=VERDICTS,
        margin=MARGIN,
        no_worse=NO_WORSE,
        min_problems=MIN_PROBLEMS,
        headline=TOY if results.toy else headline(results.claims),
        toy=results.toy,
        stages=stage_rows(results),
        parameters=results.metrics.get("base", {}).get("parameters"),
        claims=claims,
        told=[claim for claim in claims if claim["verdict"] != NOT_IN_RUN],
        untold=[claim for claim in claims if claim["verdict"] == NOT_IN_RUN],
        scores=score_rows(results),
        shapes=shape_rows(results),
        figures=pictures,
        has_files=True,
        aims=AIMS,
        curves=[name for name in pictures if name not in DRAWN],
        curve_figure=curve_figure,
        table_6=table_6(results),
        paper_columns=PAPER_COLUMNS,
        paper_tables=PAPER_TABLES,
        kinds=kind_rows(results),
        temperatures=results.evidence.temperatures,
        skill_at=SKILL_AT,
        steps=results.steps,
        sharpened=[] if results.toy else sharpened(results.evidence, results.starts),
        development=development_of_run(results),
        ours="this run",
        ks=KS,
        guessing=GUESSING,
        reach=reach,
        said_of_bins=said_of_bins,
        self_correction={model: each for model, each in corrections.items() if has_several(each)},
        few_answers={model: each for model, each in corrections.items() if not has_several(each)},
        worth=worth,
        search_lines=results.search[0],
        search_claims=[present_claim(claim) for claim in results.search[1]],
        reflection=present_reflection(*results.reflection, MIN_PROBLEMS),
        paraphrased=paraphrased_shares(results),
        rejections=rejections(results),
        left_out=left_out,
        warnings=warnings_of(results.metrics),
        whole_files=whole_files(results.metrics),
        reasons={reason: why for reason, why in REASONS.items() if reason in given},
        lost_reasons=LOST,
        warn_above=WARN_ABOVE,
        examples=example_responses(results),
        caveats=config["caveats"],
        beside=side_by_side(results, **config["side_by_side"], chooser=random.Random(seed)),
    )


def headline(claims: Sequence[Claim]) -> str:
    """ "Of 12 claims, 8 hold here, 1 doesn’t, 1 can’t be told, 2 aren’t in this run." """
    counts = Counter(claim.verdict for claim in claims)
    if counts[NOT_IN_RUN] == len(claims):
        return f"Of {len(claims)} claims, none can be tested on these models."
    told = []
    for verdict, (one, several) in COUNTED.items():
        if count := counts[verdict]:
            told.append(f"{count} {several if count > 1 else one}")
    return f"Of {len(claims)} claims, {', '.join(told)}."


def stage_rows(results: Results) -> list[dict[str, Any]]:
    """The table at the top: what each model is, and its scores with 95 % intervals; base models leniently."""
    rows, skills = [], deciding_skills(results)
    for model, scopes in results.evidence.scores.items():
        reasoning, general = scopes.get("reasoning", {}), scopes.get("general", {})
        metric = f"pass_at_1{scorings(model)[-1][1]}"
        rows.append(
            {
                "model": model,
                "is": MODEL_WORDS.get(model, ""),
                "pass": share_interval(reasoning.get(metric, {}).values()),
                "leniently": model in BASES,
                "skill": skills.get(model),
                "general": share_interval(general.get("pass_at_1", {}).values()),
            }
        )
    return rows


def deciding_skills(results: Results) -> dict[str, Interval]:
    """Every model's skill at SKILL_AT, if it was measured there."""
    return {row["model"]: row["skill"][results.evidence.temperatures.index(SKILL_AT)] for row in results.skills}


def present_claim(claim: Claim) -> dict[str, Any]:
    return {
        "id": claim.id,
        "text": claim.text,
        "source": claim.source,
        "how": claim.how,
        "verdict": claim.verdict,
        "estimate": difference(claim.deciding.interval, claim.deciding.unit),
        "held": count_held(claim),
        "measure": claim.deciding.name,
        "needs": claim.deciding.needs,
        "why": claim.deciding.why,
        "parts": [present_part(part) for part in claim.parts],
    }


def present_part(part: Part) -> dict[str, Any]:
    return {
        "name": part.name,
        "verdict": part.verdict,
        "counts": part.counts,
        "needs": part.needs,
        "why": part.why,
        "estimate": difference(part.interval, part.unit),
    }


def count_held(claim: Claim) -> str:
    """ "3 of 4 parts hold", for a claim of several tested parts."""
    parts = [part.verdict for part in claim.parts if part.counts]
    tested = len(parts) > 1 and any(verdict != NOT_IN_RUN for verdict in parts)
    return f"{parts.count(HOLDS)} of {len(parts)} parts hold" if tested else ""


def scorings(model: str) -> list[tuple[str, str]]:
    """(label, suffix of the metric): base models are scored strictly and leniently, the others strictly."""
    return [(f"{model} (strict)", ""), (f"{model} (lenient)", "_lenient")] if model in BASES else [(model, "")]


def score_rows(results: Results) -> list[dict[str, Any]]:
    """Model × task: pass@1 ± SE and cons@k; base models have two rows, strict and lenient."""
    rows = []
    for model in results.models:
        for label, suffix in scorings(model):
            cells = []
            for task in results.tasks:
                summary = results.summaries[model].get(task, {})
                keys = (f"pass_at_1{suffix}", f"se{suffix}", f"cons_at_k{suffix}")
                cells.append(dict(zip(("pass", "se", "cons"), map(summary.get, keys), strict=True)))
            rows.append({"label": label, "model": model, "cells": cells})
    return rows


def shape_rows(results: Results) -> list[dict[str, Any]]:
    """Format, language, length and reflection of every model over all reasoning problems."""
    reasoning = {model: tasks.get("reasoning") for model, tasks in results.summaries.items()}
    return [{"model": model, **summary} for model, summary in reasoning.items() if summary]


def paraphrased_shares(results: Results) -> dict[str, tuple[float, float | None]]:
    """Accuracy in wordings never trained on, and its share of that in the wordings of training."""
    shares = {}
    for model, tasks in results.paraphrased.items():
        paraphrased = tasks["reasoning"]["pass_at_1_lenient"]
        as_trained = results.summaries[model]["reasoning"]["pass_at_1_lenient"]
        shares[model] = (paraphrased, paraphrased / as_trained if as_trained else None)
    return shares


def shown_in_figures(results: Results) -> dict[str, Any]:
    """What each picture shows, by the picture's name; empty where there is nothing to show."""
    return {
        **training_curves(results),
        "scores": score_lines(results.evidence.scores),
        "forest": forest_lines(results.evidence.scores, results.pairs),
        "tries": tries_lines(results, "tries"),
        "tries_thinking": tries_lines(results, "tries_thinking"),
        "search": results.search[0],
    }


def draw_all(shown: Mapping[str, Any]) -> dict[str, str]:
    """The pictures by name; an empty string where there is nothing to draw."""
    return {name: DRAWN.get(name, draw_curves)(data, name) if data else "" for name, data in shown.items()}


def training_curves(results: Results) -> dict[str, Curves]:
    """By the value's key, its curve of every stage of RL that has one; the experiment's own rewards come last."""
    keys = set()
    for stage in RL_STAGES:
        for row in results.metrics.get(stage, {}).get("history", []):
            keys |= row.keys()
    curves: dict[str, Curves] = {}
    for key in (*AIMS, *HEALTH, *sorted(key for key in keys if key.startswith(REWARDS))):
        by_stage = {stage: results.history(stage, key) for stage in RL_STAGES}
        curves[key] = {stage: [curve] for stage, curve in by_stage.items() if curve}
    return {key: by_stage for key, by_stage in curves.items() if by_stage}


def tries_lines(results: Results, way: str) -> dict[str, list[tuple[int, Interval]]]:
    """pass@k by k, of every model and of guessing."""
    lines = results.tries.get(way, {}).get("lines", {})
    return {name: list(zip(KS, line, strict=True)) for name, line in lines.items()}


def reasoning_of(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Every model's scores on reasoning problems."""
    return {model: scopes["reasoning"] for model, scopes in scores.items() if "reasoning" in scopes}


def score_lines(scores: Mapping[str, Any]) -> list[tuple[str, str, Interval, float]]:
    lines = []
    for model, table in reasoning_of(scores).items():
        label, suffix = scorings(model)[-1]
        if table["pass_at_1"]:
            cons = float(np.mean(list(table[f"cons_at_k{suffix}"].values())))
            lines.append((label, model, share_interval(table[f"pass_at_1{suffix}"].values()), cons))
    return lines


def forest_lines(scores: Mapping[str, Any], pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str, Interval]]:
    """Differences of pass@1 between the models of each pair; a base model is scored leniently, as in C1."""
    lines, tables = [], reasoning_of(scores)
    for first, second in pairs:
        if first in tables and second in tables:
            suffix = "_lenient" if second in BASES else ""
            difference = paired_difference(tables[first]["pass_at_1"], tables[second][f"pass_at_1{suffix}"])
            if difference.n:
                label = f"{first} − {second}"
                lines.append((label if len(label) <= 30 else label.replace(" − ", " −\n"), first, difference))
    return lines


def table_6(results: Results) -> list[dict[str, Any]]:
    """The rows of the paper's Table 6: the student before, after RL, after distillation, and its teacher."""
    teacher = results.configs.get("rejection", {}).get("init_from")
    roles = {
        "student_base": "the small base model, lenient",
        "student_rl": "RL on the small model",
        "distill": "SFT on the big model's traces",
        teacher: "the big model the traces come from",
    }
    rows = []
    for model, role in roles.items():
        summary = results.summaries.get(model, {}).get("reasoning")
        if summary:
            _, suffix = scorings(model)[-1]
            keys = {"pass": f"pass_at_1{suffix}", "se": f"se{suffix}", "cons": f"cons_at_k{suffix}"}
            flops = results.metrics.get(model, {}).get("flops")
            rows.append({"model": model, "role": role, "flops": flops, **{k: summary.get(v) for k, v in keys.items()}})
    return rows if {"student_rl", "distill"} & {row["model"] for row in rows} else []


def development_of_run(results: Results) -> dict[str, Any]:
    """The paper's table of its intermediate models, and this run's rows; empty without two of these models."""
    return beside_the_paper(
        {
            "reasoning, pass@1": pass_at_1_of(results.summaries, "reasoning"),
            "reasoning, skill": {model: skill.estimate for model, skill in deciding_skills(results).items()},
            "general prompts": pass_at_1_of(results.summaries, GENERAL),
        }
    )


def beside_the_paper(rows: Mapping[str, Mapping[str, float | None]]) -> dict[str, Any]:
    """Rows of values by model as a table of the paper's models; empty without two of these models."""
    table, models = [], set()
    for label, values in rows.items():
        if any(value is not None for value in values.values()):
            table.append((label, [values.get(model) for model in DEVELOPMENT]))
            models |= values.keys()
    if len(models.intersection(DEVELOPMENT)) < 2:
        return {}
    return {"names": list(zip(PAPER_NAMES, DEVELOPMENT, strict=True)), "rows": table, "paper": PAPER_TABLE_3}


def pass_at_1_of(summaries: Mapping[str, Mapping[str, Mapping[str, Any]]], task: str) -> dict[str, float | None]:
    return {model: tasks[task]["pass_at_1"] for model, tasks in summaries.items() if task in tasks}


def kind_rows(results: Results) -> dict[str, Any]:
    """General prompts: score of every model by kind of prompt, with the number of prompts of the kind."""
    kind_of: dict[str, str] = {}  # of every prompt that a model was asked
    for samples in results.samples.values():
        kind_of |= {row["problem_id"]: row["kind"] for row in samples if row["task"] == GENERAL}
    prompts = Counter(kind_of.values())
    kinds = sorted(prompts)
    rows = []
    for model, shares in results.kinds.items():
        over_all = results.summaries[model].get(GENERAL, {}).get("pass_at_1")
        rows.append({"model": model, "cells": [shares.get(kind) for kind in kinds], "all": over_all})
    return {"kinds": [(kind, prompts[kind]) for kind in kinds], "rows": rows}


def rejections(results: Results) -> list[tuple[str, str, list[dict[str, Any]], Mapping[str, Any]]]:
    """(stage, title, what became of its samples, metrics) of each stage that makes rows of samples and dropped some."""
    sections = []
    for stage in STAGES:
        if rows := fates(results, stage):
            sections.append((stage, stage.replace("_", " ").capitalize(), rows, results.metrics[stage]))
    return sections


def fates(results: Results, stage: str) -> list[dict[str, Any]]:
    """Why a stage's samples were dropped, most frequent reason first; empty when the run had no such stage."""
    metrics = results.metrics.get(stage, {})
    if not metrics.get("dropped"):
        return []
    counts = {"kept": metrics["kept"], **metrics["dropped"]}
    total = sum(counts.values())
    ordered = sorted(counts.items(), key=lambda fate: (fate[0] != "kept", -fate[1], fate[0]))
    return [{"fate": fate, "count": count, "share": count / total} for fate, count in ordered]


def example_responses(results: Results) -> list[dict[str, Any]]:
    """For every model a right and a wrong response to a reasoning problem, and one to a general prompt."""
    right = pick(results.samples, lambda row: row["task"] != GENERAL and row["correct"])
    wrong = pick(results.samples, lambda row: row["task"] != GENERAL and row["correct"] is False)
    chat = pick(results.samples, lambda row: row["task"] == GENERAL)
    examples = []
    for model in results.models:
        rows = [present(picked[model]) for picked in (right, wrong, chat) if model in picked]
        examples.append({"model": model, "rows": rows})
    return examples


def pick(samples: Mapping[str, list[Row]], wanted: Callable[[Row], bool]) -> dict[str, Row]:
    """One matching sample per model, on the same problem for as many models as possible (on ties the smallest id)."""
    candidates: dict[str, dict[str, Row]] = {}
    for model, rows in samples.items():
        for row in rows:
            if wanted(row):
                candidates.setdefault(row["problem_id"], {}).setdefault(model, row)
    chosen: dict[str, Row] = {}
    for problem in sorted(candidates, key=lambda problem: (-len(candidates[problem]), problem)):
        for model, row in candidates[problem].items():
            chosen.setdefault(model, row)
    return chosen


def side_by_side(
    results: Results, models: Sequence[str], problems: int, chooser: random.Random
) -> list[dict[str, Row]]:
    """Some problems and general prompts, drawn among those that all these models answered: each one's first response.

    Models that the run doesn't have are left out. If the last one is among these, the run's own last model stands in
    its place, beside its first one where none of the others is there, either. A single model has nobody beside it.
    """
    chosen = [model for model in models if model in results.samples]
    if models and results.models and models[-1] not in chosen:
        chosen = [*(chosen or results.models[:1]), results.models[-1]]
    first = {model: {} for model in chosen}
    if len(first) < 2:
        return []
    for model, by_problem in first.items():
        for row in results.samples[model]:
            by_problem.setdefault(row["problem_id"], row)
    common = sorted(set.intersection(*map(set, first.values())))
    rows = []
    for problem in chooser.sample(common, min(problems, len(common))):
        rows.append({model: present(by_problem[problem]) for model, by_problem in first.items()})
    return rows


def present(row: Row) -> dict[str, Any]:
    """A sample as the page shows it: the reasoning, and separately what a user reads."""
    response = Response.parse(row["completion"])
    parts = {"reasoning": response.reasoning, "summary": response.summary}
    return row | {"problem": row["problem_id"], "task": row["kind"] or row["task"]} | parts
