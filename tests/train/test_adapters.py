"""LoRA trains adapters only, and what a stage leaves behind is a plain model with them in it; CPU."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from test_grpo import PROBLEMS, SMALL
from test_reward_model import PAIRS
from tiny import ROWS, base_with, check_resume, conf, letters, make_stage
from transformers import AutoModelForCausalLM

from r1flow.programs.grpo import compute as grpo
from r1flow.programs.reward_model import compute as reward_model
from r1flow.programs.sft import compute as sft

LORA = {"r": 2, "alpha": 16, "dropout": 0.1, "target_modules": ["q_proj", "down_proj"]}
CONFIGS = {name: conf(f"{name}/default") for name in ("sft", "grpo", "reward_model")}


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(grpo, "combine", lambda *_: letters)
    return base_with(tmp_path, cold_start=ROWS, rl=PROBLEMS, preferences=PAIRS)


def stage_of(folder: Path, program: str, name: str = "lora", **trainer: Any) -> SimpleNamespace:
    config = CONFIGS[program] | {"lora": LORA}
    return make_stage(folder, name, config | {"trainer": config["trainer"] | {"bf16": False} | trainer})


def grpo_stage(folder: Path, name: str = "lora", **trainer: Any) -> SimpleNamespace:
    stage = stage_of(folder, "grpo", name, **SMALL | trainer)
    stage.config |= {"dev": None, "rewards": {}, "stop_above": {}, "engine": "r1flow"}
    return stage


def changes(folder: Path, stage: SimpleNamespace) -> dict[str, torch.Tensor]:
    before, after = (load_file(path / "model.safetensors") for path in (folder / "base", stage.work / "model"))
    return {name: after[name] - before[name] for name in before}


def assert_adapted(found: dict[str, torch.Tensor]) -> None:
    """The matrices that LORA names moved, by as many ranks as it says, and nothing else did."""
    for name, change in found.items():
        targeted = any(module in name for module in LORA["target_modules"])
        assert change.any() == targeted, name
        assert not targeted or torch.linalg.matrix_rank(change, rtol=1e-4) == LORA["r"], name


def test_sft_learns_by_adapters_and_leaves_a_plain_model(base: Path) -> None:
    stage = stage_of(base, "sft", max_steps=12, learning_rate=3.0e-2, lr_scheduler_type="constant", warmup_steps=0)
    losses = [row["loss"] for row in sft.compute(stage)["history"]]
    assert losses[-1] < losses[0] - 0.2
    assert_adapted(changes(base, stage))
    names = {path.name for path in (stage.work / "model").iterdir()}
    assert names == {path.name for path in (base / "base").iterdir()} | {"chat_template.jinja"}
    _, loaded = AutoModelForCausalLM.from_pretrained(stage.work / "model", output_loading_info=True)
    assert not loaded["missing_keys"] and not loaded["unexpected_keys"]


@pytest.mark.slow
def test_resumed_equals_uninterrupted(base: Path) -> None:
    check_resume(sft.compute, lambda name: stage_of(base, "sft", name, max_steps=5, save_steps=3), at=5, snapshot=3)


@pytest.mark.slow
def test_resumed_rl_equals_uninterrupted(base: Path) -> None:
    check_resume(grpo.compute, lambda name: grpo_stage(base, name, max_steps=5, save_steps=3), at=5, snapshot=3)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("engine", ["r1flow", pytest.param("transformers", marks=pytest.mark.slow)])
def test_grpo_learns_by_adapters(base: Path, engine: str, dropout: float) -> None:
    """By our engine with dropout, too: the sampler leaves it out, and the training takes transformers' pass."""
    stage = grpo_stage(base, max_steps=2, beta=0.04)
    stage.config |= {"engine": engine, "lora": LORA | {"dropout": dropout}}
    assert grpo.compute(stage)["parameters"] == sum(value.numel() for value in changes(base, stage).values())
    assert_adapted(changes(base, stage))


@pytest.mark.slow
def test_a_reward_model_learns_by_adapters_and_a_whole_head(base: Path) -> None:
    stage = stage_of(base, "reward_model", max_steps=12, learning_rate=3.0e-3)
    assert reward_model.compute(stage)["accuracy"] > 0.9
    after = load_file(stage.work / "model" / "model.safetensors")
    before = load_file(base / "base" / "model.safetensors")
    assert after.keys() - before.keys() == {"score.weight"}
    assert_adapted({name: after[name] - before[name] for name in before.keys() & after.keys()})
