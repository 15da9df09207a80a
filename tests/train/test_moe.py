"""A mixture of experts as the base: it composes, and every trainer takes a step with it (slow); CPU."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from test_grpo import PROBLEMS, SMALL
from test_reward_model import PAIRS
from tiny import ROWS, SIZE, conf, letters, make_stage, make_tokenizer
from transformers import AutoModelForCausalLM, MixtralConfig, Qwen3MoeConfig

from r1flow.core.schema import write_jsonl
from r1flow.engine.run import Run
from r1flow.programs.grpo import compute as grpo
from r1flow.programs.reward_model import compute as reward_model
from r1flow.programs.sft import compute as sft

EXPERTS = {"num_key_value_heads": 2, "head_dim": 16, "num_experts_per_tok": 2}
KINDS = {
    "qwen3_moe": lambda **size: Qwen3MoeConfig(**size, num_experts=4, moe_intermediate_size=32, decoder_sparse_step=1),
    "mixtral": lambda **size: MixtralConfig(**size, num_local_experts=4),
}
PROGRAMS = {
    "sft": (sft, {"max_steps": 1, "warmup_steps": 0}),
    "grpo": (grpo, SMALL | {"max_steps": 1}),
    "reward_model": (reward_model, {"max_steps": 1, "warmup_steps": 0}),
}


def make_base(folder: Path, kind: str) -> Path:
    tokenizer = make_tokenizer()
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("eos", "pad")}
    torch.manual_seed(0)
    config = KINDS[kind](**SIZE | EXPERTS | ids, vocab_size=len(tokenizer), bos_token_id=None)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def stage_of(folder: Path, program: str, trainer: dict[str, Any]) -> SimpleNamespace:
    config = conf(f"{program}/default")
    if program == "grpo":
        config |= {"engine": "transformers", "dev": None, "rewards": {}, "stop_above": {}}
    return make_stage(folder, program, config | {"trainer": config["trainer"] | trainer})


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_trainer_takes_a_step_and_moves_experts_and_routers(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = make_base(tmp_path / "base", kind)
    (tmp_path / "data").mkdir()
    for name, rows in (("cold_start", ROWS), ("rl", PROBLEMS), ("preferences", PAIRS)):
        write_jsonl(tmp_path / "data" / f"{name}.jsonl", rows)
    monkeypatch.setattr(grpo, "combine", lambda *_: letters)
    before = AutoModelForCausalLM.from_pretrained(base).state_dict()
    for name, (program, trainer) in PROGRAMS.items():
        stage = stage_of(tmp_path, name, trainer)
        found = program.compute(stage)
        assert len(found["history"]) == 1, name
        after = AutoModelForCausalLM.from_pretrained(stage.work / "model").state_dict()
        experts = [key for key in before if "experts" in key or ".gate." in key or "router" in key]
        assert experts and not any(torch.equal(before[key], after[key]) for key in experts), name


def test_a_mixture_composes_as_the_base_of_the_whole_recipe(tmp_path: Path) -> None:
    base = make_base(tmp_path / "moe", "qwen3_moe")
    starts = " ".join(f"{stage}.init_from={base}" for stage in ("base", "student_base"))
    trained = ("zero_rl", "reasoning_rl", "align_rl", "student_rl")
    engines = " ".join(f"{stage}.engine=transformers" for stage in (*trained, "rejection", "evaluate"))
    without = " ".join(f"{stage}.dev=null" for stage in trained)
    run = Run.compose(Path(), overrides=f"{starts} {engines} {without}")
    parameters = sum(value.numel() for value in AutoModelForCausalLM.from_pretrained(base).parameters())
    costs = {cost.job: cost for cost in run.costs}
    assert costs["zero_rl"].parameters == costs["reward_model"].parameters == parameters
