"""What several processes can't train is refused by its key, before anything is loaded; what they are told fits."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from r1flow.artifacts.fingerprint import libraries_used
from r1flow.core.errors import UserError
from r1flow.engine.config import check_keys
from r1flow.engine.launch import ranks_of
from r1flow.engine.run import Run
from r1flow.model import precision
from r1flow.programs.keys import Lora
from r1flow.programs.trainings import check_lora
from r1flow.training import ranks

ROOT = Path(__file__).parents[2]
LORA = {"r": 8, "alpha": 16, "dropout": 0.0, "target_modules": "all-linear"}
BATCH = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 8}


def config(**changes: Any) -> dict[str, Any]:
    trainer = BATCH | changes.pop("trainer", {})
    return {"device": "cuda", "engine": "transformers", "trainer": trainer} | changes


@pytest.mark.parametrize("strategy", ranks.STRATEGIES)
def test_every_strategy_is_let_through_on_gpus(strategy: str) -> None:
    ranks.check_strategy(config(strategy=strategy))


def test_our_engine_samples_from_adapted_weights() -> None:
    ranks.check_strategy(config(lora=LORA, engine="r1flow"))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"strategy": "fsdp"}, "strategy: there is no 'fsdp'; did you mean 'fsdp2'"),
        ({"strategy": "fsdp2", "device": "cpu"}, "strategy: fsdp2 needs device: cuda"),
        ({"strategy": "zero3", "lora": LORA}, "lora: .*zero3"),
        ({"strategy": "zero3", "engine": "r1flow"}, "engine: r1flow"),
        ({"trainer": {"deepspeed": {"zero_optimization": {"stage": 2}}}}, "trainer.deepspeed: set strategy"),
        ({"trainer": {"fsdp": "full_shard"}}, "trainer.fsdp: set strategy"),
    ],
)
def test_what_no_rank_could_train_with_is_refused(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(UserError, match=f"^{named}"):
        ranks.check_strategy(config(**changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"r": 0}, "lora.r: 0; use 1 or more"),
        ({"alpha": 0}, "lora.alpha: 0; use more than 0"),
        ({"dropout": 1.5}, "lora.dropout: 1.5; use 0 or more, but less than 1"),
        ({"dropout": 1.0}, "lora.dropout"),
        ({"dropout": -0.1}, "lora.dropout: -0.1; use 0 or more, but less than 1"),
        ({"target_modules": []}, "lora.target_modules"),
        ({"target_modules": [1]}, "lora.target_modules"),
        ({"target_modules": None}, "lora.target_modules"),
    ],
)
def test_adapters_that_nothing_can_train_are_refused(changes: dict[str, Any], said: str) -> None:
    for lora in (LORA, LORA | {"target_modules": ["q_proj", "v_proj"]}):
        check_keys("lora", lora, Lora)
        check_lora(lora)
    with pytest.raises(UserError, match=f"^{said}"):
        check_keys("lora", LORA | changes, Lora)
        check_lora(LORA | changes)


def test_the_passes_of_a_step_are_shared_out_and_a_step_stays_what_it_is() -> None:
    trainer = BATCH | {"steps_per_generation": 4, "generation_batch_size": None}
    for count in (1, 2, 4):
        stage = SimpleNamespace(config={"trainer": trainer}, ranks=count, seed=5, snapshots=Path("snapshots"))
        told = ranks.trainer_options(stage)
        assert told["gradient_accumulation_steps"] * count == 8 and told["steps_per_generation"] * count == 4
        assert told["per_device_train_batch_size"] == 4 and told["seed"] == told["data_seed"] == 5
    assert trainer["gradient_accumulation_steps"] == 8


@pytest.mark.parametrize(("device", "dtype"), [("cpu", "bfloat16"), ("cpu", "float32"), ("cuda", "bfloat16")])
def test_a_trainer_computes_in_what_its_device_is_fast_in_unless_told(
    monkeypatch: pytest.MonkeyPatch, device: str, dtype: str
) -> None:
    import torch

    asked: list[str] = []

    def fastest(where: torch.device) -> torch.dtype:
        asked.append(where.type)
        return getattr(torch, dtype)

    monkeypatch.setattr(precision, "fastest_dtype", fastest)
    trainer = BATCH | {"use_cpu": device == "cpu"}
    assert precision.decided(trainer | {"bf16": "native"})["bf16"] is (dtype == "bfloat16")
    assert asked == [device]
    for told in (trainer, trainer | {"bf16": True}, trainer | {"bf16": False}):
        assert precision.decided(told) == told


@pytest.mark.parametrize(
    ("trainer", "key"),
    [
        (BATCH, "gradient_accumulation_steps: 8"),
        (BATCH | {"gradient_accumulation_steps": 3, "steps_per_generation": 4}, "steps_per_generation: 4"),
        (BATCH | {"gradient_accumulation_steps": 3, "generation_batch_size": 16}, "generation_batch_size: 4"),
    ],
)
def test_a_step_that_three_processes_cant_share_is_refused(trainer: dict[str, Any], key: str) -> None:
    with pytest.raises(UserError, match=rf"^trainer\.{key} passes can't be divided among 3 processes"):
        ranks_of("grpo", {"device": "cuda", "trainer": trainer}, gpus=3)


@pytest.mark.parametrize(
    ("program", "device", "gpus", "processes", "count"),
    [
        ("sft", "cuda", 4, None, 4),
        ("sft", "cuda", 0, None, 1),  # it shares what it sees
        ("sft", "cpu", 0, None, 1),
        ("sft", "cpu", 0, 2, 2),
        ("rejection", "cuda", 4, None, 1),  # vLLM's
    ],
)
def test_a_training_has_a_process_for_each_gpu_it_holds(
    program: str, device: str, gpus: int, processes: int | None, count: int
) -> None:
    config = {"device": device} | ({} if program == "rejection" else {"trainer": BATCH})
    assert ranks_of(program, config, gpus, processes) == count


def test_pretraining_from_nothing_holds_one_gpu() -> None:
    with pytest.raises(UserError, match="gpu=2"):
        ranks_of("pretrain", {"device": "cuda", "init_from": None, "trainer": BATCH}, 2)
    assert ranks_of("pretrain", {"device": "cuda", "init_from": "folder", "trainer": BATCH}, 2) == 1


def test_a_run_refuses_gpus_that_a_stages_step_cant_be_shared_out_to() -> None:
    run = Run.compose(ROOT, "r1_qwen2.5_1.5b")
    run.check_gpus({"zero_rl": 8, "rejection": 3, "no_stage": 3})
    with pytest.raises(UserError, match=r"^--set-resources zero_rl:gpu=3: trainer.gradient_accumulation_steps: 256"):
        run.check_gpus({"sft_mix": 1, "zero_rl": 3})


def test_an_extra_counts_in_the_stages_that_use_it_only() -> None:
    assert not any(libraries_used({"engine": "r1flow", "trainer": {}}).values())
    assert [name for name, wanted in libraries_used({"strategy": "zero2", "lora": LORA}).items() if wanted] == [
        "peft",
        "deepspeed",
    ]


def test_experiments_for_gpus_take_a_strategy_adapters_and_long_rows() -> None:
    long = "cold_start.trainer.max_length=32768 cold_start.trainer.packing=true"
    plain = Run.compose(ROOT, "r1_qwen2.5_1.5b", long).slice("cold_start")
    shared = Run.compose(ROOT, "r1_qwen2.5_1.5b", f"{long} cold_start.strategy=fsdp2").slice("cold_start")
    assert plain["trainer"]["max_length"] == 32768 and shared == plain | {"strategy": "fsdp2"}
    adapted = Run.compose(
        ROOT, "r1_qwen2.5_1.5b", "cold_start.lora={r:8,alpha:16,dropout:0.0,target_modules:all-linear}"
    ).slice("cold_start")
    assert adapted["lora"] == LORA
    with pytest.raises(UserError, match=r"cold_start\.lora"):
        Run.compose(ROOT, "r1_qwen2.5_1.5b", "cold_start.lora={rank:8}")


def test_nothing_of_the_default_experiments_configuration_is_about_ranks() -> None:
    run = Run.compose(ROOT)
    assert not any({"strategy", "lora"} & run.slice(stage).keys() for stage in run.stages)
