"""A run that never happened: folders of evaluations and trainings with effects that we know."""

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from r1flow.programs.evaluate.compute import summarise_evaluation
from r1flow.recipe.stages import RECIPE

# model: (chance of being right, of the format, English share, mean length, chance of a reflection word, general score)
SKILLS = {
    "base": (0.20, 0.45, 0.75, 20, 0.02, 0.10),
    "zero_rl": (0.65, 0.99, 0.45, 45, 0.12, 0.05),
    "zero_rl_language": (0.66, 0.99, 0.95, 45, 0.12, 0.05),
    "zero_rl_random": (0.22, 0.40, 0.75, 21, 0.02, 0.10),
    "zero_rl_format": (0.30, 1.00, 0.75, 30, 0.02, 0.05),
    "self_sft": (0.45, 0.95, 0.75, 32, 0.02, 0.05),
    "cold_start": (0.70, 0.98, 1.00, 48, 0.05, 0.15),
    "reasoning_rl": (0.78, 1.00, 1.00, 50, 0.06, 0.15),
    "sft_mix": (0.79, 0.99, 1.00, 50, 0.06, 0.70),
    "align_rl": (0.86, 1.00, 1.00, 50, 0.06, 0.90),
    "student_base": (0.10, 0.40, 0.75, 20, 0.02, 0.05),
    "student_rl": (0.30, 0.99, 0.40, 44, 0.03, 0.02),
    "distill": (0.62, 0.98, 1.00, 50, 0.06, 0.60),
}
GIVEN = {"base": 0.55, "student_base": 0.25}  # chance of being right with <think> given, where it is another
TEMPERATURES = (0.0, 0.6, 1.0)
TASKS = ("basic_arithmetic", "chain_sum", "products")
KINDS = ("greeting", "harmful", "identity", "translation", "writing")
STARTS = {
    **dict.fromkeys(("zero_rl", "zero_rl_language", "zero_rl_random", "zero_rl_format"), "base"),
    **{"reasoning_rl": "cold_start", "align_rl": "sft_mix", "student_rl": "student_base"},
}
TRAINED = tuple(STARTS)
FROM = {**STARTS, **dict.fromkeys(("cold_start", "sft_mix", "reward_model"), "base"), "rejection": "reasoning_rl"}
GRPO = {
    "rewards": {"accuracy": {"weight": 1.0}, "answer_format": {"weight": 0.2}},
    "data": {"general_share": 0.0},
    "dev": {"file": "dev.jsonl", "every": 5, "n_problems": 20},
    "environment": None,
    "trainer": {
        **{"loss_type": "grpo", "beta": 0.001, "logging_steps": 1, "max_steps": 40, "num_iterations": 1},
        **{"num_generations": 4, "per_device_train_batch_size": 16, "gradient_accumulation_steps": 1},
    },
}
COUNTS = {"counts": {"rl.jsonl": {"read": 400, "kept": 400, "left_out": {}}}}
METRICS = {
    "data": {"rows": {"rl": 400}, "families": {"rl.jsonl": {"chain_sum": 400}}, **COUNTS},
    "rejection": {
        **COUNTS,
        **{"sampled": 6400, "kept": 1511, "dropped": {"wrong": 1519, "duplicate": 3000, "mixed language": 370}},
        **{"mix": 2015, "general": 504, "general_share": 504 / 2015, "flops": 0.4e12},
    },
    "grpo": {"steps": 40, "flops": 3.0e12, **COUNTS},
    "sft": {"steps": 40, "flops": 1.0e12, **COUNTS},
    "pretrain": {"flops": 7.0e12},
    "reward_model": {"flops": 0.5e12, **COUNTS},
}


def fabricate_rows(model: str, problems: int = 60, k: int = 4) -> list[dict]:
    """All rows of samples.parquet: as asked, k samples each, with <think> given at every temperature, and paraphrased.

    Paraphrased all are wrong, so that a number changes if they are taken for samples as asked.
    """
    given = [fabricate_samples(model, problems, seed=1 + i, thinking=t) for i, t in enumerate(TEMPERATURES)]
    asked = fabricate_samples(model, problems, k)
    wrong = {
        "paraphrased": True,
        "correct": False,
        "correct_lenient": False,
        "length": 999,
        "question": "in other words",
    }
    again = [row | wrong for row in asked if row["task"] in TASKS]
    return [row for rows in (asked, *given, again) for row in rows]


def fabricate_samples(
    model: str, problems: int = 60, k: int = 4, seed: int = 0, thinking: float | None = None
) -> list[dict]:
    """Rows of samples.parquet for `problems` problems a task: its difficulty is the same for all models."""
    return [dict(row) for row in drawn_samples(model, problems, k, seed, thinking)]  # tests may change theirs


@cache
def drawn_samples(model: str, problems: int, k: int, seed: int, thinking: float | None) -> list[dict]:
    rows = []
    for task in TASKS if thinking is not None else (*TASKS, *KINDS):
        for number in range(problems if task in TASKS else max(2, problems // 4)):
            rng = np.random.default_rng([seed, *map(ord, model + task), number])
            difficulty = np.random.default_rng([1, *map(ord, task), number]).normal(0, 0.15)
            maker = fabricate_reasoning if task in TASKS else fabricate_general
            rows += [maker(model, task, number, index, difficulty, rng, thinking) for index in range(k)]
    return rows


def fabricate_reasoning(
    model: str,
    task: str,
    number: int,
    index: int,
    difficulty: float,
    rng: np.random.Generator,
    thinking: float | None,
) -> dict:
    skill, form, english, length, reflects, _ = SKILLS[model]
    skill = skill if thinking is None else GIVEN.get(model, skill)
    well_formed = bool(rng.random() < form) or thinking is not None
    right = bool(rng.random() < skill + difficulty)
    answer = str(24 + number) if right else str(rng.integers(1, 20))
    reflects_now = bool(rng.random() < reflects)
    thought = f"we start with {number} + 24 = {answer}.{' wait, let me check.' if reflects_now else ''} so {answer}."
    tagged = f"<think>{thought}</think>the result is <answer>{answer}</answer>"
    return {
        "model": model,
        "task": task,
        "kind": None,
        "problem_id": f"{task[:4]}{number:08d}",
        "sample_index": index,
        "question": f"What is {number} + 24?",
        "gold": str(24 + number),
        "completion": tagged if well_formed else f"the answer: {answer}",
        "answer": answer if well_formed else None,
        "answer_lenient": answer,
        "value": None,
        "value_lenient": None,
        "correct": right and well_formed,
        "correct_lenient": right,
        "well_formed": well_formed,
        "language": float(rng.random() < english),
        "length": int(max(1, rng.normal(length, 5))),
        "finished": True,
        "reflections": int(reflects_now),
        "thinks": well_formed,
        "first_correct": right if well_formed else None,
        "several_answers": False,
        "thinking": thinking,
        "paraphrased": False,
        "intervention": None,
    }


def fabricate_general(
    model: str,
    kind: str,
    number: int,
    index: int,
    difficulty: float,
    rng: np.random.Generator,
    thinking: float | None,
) -> dict:
    right = bool(rng.random() < SKILLS[model][5] + difficulty / 3)
    return {
        "model": model,
        "task": "general",
        "kind": kind,
        "problem_id": f"{kind[:4]}{number:08d}",
        "sample_index": index,
        "question": f"{kind} number {number}: hello?",
        "gold": None,
        "completion": "Hello! How can I help you?" if right else "<b onmouseover=alert(1)>24 + 24",
        "answer": None,
        "answer_lenient": None,
        "value": None,
        "value_lenient": None,
        "correct": right,
        "correct_lenient": right,
        "well_formed": right,
        "language": 1.0 if right else None,
        "length": 8,
        "finished": True,
        "reflections": 0,
        "thinks": False,
        "first_correct": None,
        "several_answers": None,
        "thinking": thinking,
        "paraphrased": False,
        "intervention": None,
    }


def fabricate_history(stage: str, steps: int = 40) -> list[dict]:
    skill = SKILLS[stage][0]
    start, rng = (0.15 if "zero" in stage or "student" in stage else skill - 0.1), np.random.default_rng(len(stage))
    rise = 1 - np.exp(-np.arange(1, steps + 1) / (steps / 4))
    dev = {5 * n: {"dev/accuracy": float(start + (skill - start) * n / (steps // 5))} for n in range(steps // 5 + 1)}
    trained = [
        {
            "step": step + 1,
            "reward": float(1.2 * (start + (skill - start) * rise[step])),
            "accuracy": float(np.clip(start + (skill - start) * rise[step] + rng.normal(0, 0.03), 0, 1)),
            "length": float(20 + 28 * rise[step] + rng.normal(0, 1)) if start < 0.2 else float(48 + rng.normal(0, 1)),
            "thinking": float(0.4 + 0.5 * rise[step]),
            "thinking_length": float(30 + 15 * rise[step] + rng.normal(0, 1)),
            **dict.fromkeys(
                ("truncated", "entropy", "zero_variance", "tokens", "grad_norm", "clipped", "kl", "format"), 0.1
            ),
            "mismatch": 0.0031 if step == 7 else 0.0025,
        }
        for step in range(steps)
    ]
    return [row | dev.get(row["step"], {}) for row in [{"step": 0}, *trained]]


def fabricate_run(
    folder: Path, models: Iterable[str] = tuple(SKILLS), problems: int = 60, edit=lambda rows: rows, k: int = 4
) -> dict[str, Path]:
    """Write evaluation and stage folders; returns the report's inputs. `edit` may change each model's rows."""
    inputs = {}
    for model in models:
        inputs[f"evaluate/{model}"] = evaluation(folder / "evaluate" / model, edit(fabricate_rows(model, problems, k)))
    for stage in sorted({*models, "data"} | ({"rejection", "reward_model"} if "sft_mix" in models else set())):
        inputs[stage] = stage_folder(folder / stage, stage)
    return inputs


def evaluation(folder: Path, rows: list[dict]) -> Path:
    folder.mkdir(parents=True)
    parquet.write_table(pa.Table.from_pylist(rows), folder / "samples.parquet")
    paraphrased = int(any(row["paraphrased"] for row in rows))
    config = {"split": "test", "thinking": list(TEMPERATURES), "paraphrased": paraphrased}
    write(folder / "config.yaml", config | {"reflection_words": ["wait", "check"]})
    write(folder / "metrics.json", summarise_evaluation(rows, list(TEMPERATURES)) | COUNTS)
    write(folder / "cost.json", {"seconds": 11.0, "peak_mb": 700})
    return folder


def fabricate_curves(stage: str) -> dict:
    if stage in TRAINED:
        return {"history": fabricate_history(stage)}
    rates = {"loss": 0.5, "learning_rate": 1e-3, "token_accuracy": 0.5, "accuracy": 0.5}
    trained = RECIPE[stage].program in ("pretrain", "sft", "reward_model")
    return {"history": [{"step": 1, **rates}]} if trained else {}


def stage_folder(folder: Path, stage: str) -> Path:
    folder.mkdir(parents=True)
    write(folder / "metrics.json", METRICS.get(RECIPE[stage].program, {}) | fabricate_curves(stage))
    config = GRPO if stage in TRAINED else {"trainer": {"logging_steps": 1}}
    write(folder / "config.yaml", {"init_from": FROM.get(stage), **config})
    write(folder / "cost.json", {"seconds": 5.0 + 17 * len(stage), "peak_mb": 900 + 10 * len(stage)})
    versions = {"torch": "2.13.0", "trl": "1.16.0", "vllm": None}
    config = {
        "stage": stage,
        "config": "0123456789ab",
        "inputs": {"model": {"stage": "base", "sha256": "ff" * 32}},
        "seed": 7,
        "threads": 1,
    }
    write(folder / "provenance.json", {**config, "python": "3.11", "libraries": versions})
    return folder


def write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, sort_keys=True))
