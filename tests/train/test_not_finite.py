"""A training whose numbers are no longer finite says so at that step, and no model of it is ever saved; 20 s, CPU."""

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import test_grpo
import test_pretrain
import test_reward_model
import test_sft
from safetensors.numpy import load_file, save_file
from tiny import ROWS, base_with, letters, make_model, make_stage, make_tokenizer
from transformers import TrainerControl, TrainerState, TrainingArguments

from r1flow.core.errors import UserError
from r1flow.engine.checks import check_stage
from r1flow.programs.grpo import compute as grpo
from r1flow.programs.pretrain import compute as pretrain
from r1flow.programs.reward_model import compute as reward_model
from r1flow.programs.sft import compute as sft
from r1flow.sampling import SamplingParams, load_sampler
from r1flow.training.callbacks import SKIPPED, History

WILD = {"learning_rate": 1e30, "max_grad_norm": 0.0, "warmup_steps": 0}
Program = Callable[[Any], dict[str, Any]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A base model, and the data of all trainings."""
    files = {
        "corpus": [{"text": text} for text in test_pretrain.TEXTS],
        "cold_start": ROWS,
        "rl": test_grpo.PROBLEMS,
        "general_rl": test_grpo.GENERAL,
        "preferences": test_reward_model.PAIRS,
    }
    monkeypatch.setattr(grpo, "combine", lambda *_: letters)
    base_with(tmp_path, **files)
    make_tokenizer().save_pretrained(tmp_path / "data" / "tokenizer")
    return tmp_path


def of_pretrain(folder: Path, name: str, **trainer: Any) -> SimpleNamespace:
    rate = trainer.pop("learning_rate")
    stage = test_pretrain.stage_of(folder, name, **trainer)
    stage.config |= {kind: stage.config[kind] | {"lr": rate} for kind in ("muon", "adamw")}
    return stage


def of_grpo(engine: str) -> Callable[..., SimpleNamespace]:
    return lambda folder, name, **trainer: test_grpo.stage_of(folder, name, engine, **trainer)


TRAININGS = {
    "pretrain": (pretrain.compute, of_pretrain, "muon.lr and adamw.lr"),
    "sft": (sft.compute, test_sft.stage_of, "trainer.learning_rate"),
    "reward_model": (reward_model.compute, test_reward_model.stage_of, "trainer.learning_rate"),
    "grpo": (grpo.compute, of_grpo("r1flow"), "trainer.learning_rate"),
    "grpo by generate": (grpo.compute, of_grpo("transformers"), "trainer.learning_rate"),
}


@pytest.mark.parametrize("training", TRAININGS)
def test_a_training_that_diverges_stops_with_step_last_values_and_remedy(folder: Path, training: str) -> None:
    compute, make, key = TRAININGS[training]
    stage = make(folder, "wild", **WILD)
    said = r"step \d+: .*the last finite values: loss [-\d].*, grad_norm .* at step \d+; "
    with pytest.raises(UserError, match=rf"{said}lower {key}.* trainer\.max_grad_norm \(0"):
        compute(stage)
    assert not (stage.work / "model").exists()


@pytest.mark.parametrize("training", ["sft", "grpo"])
def test_a_last_step_that_breaks_the_weights_is_noticed_when_they_are_saved(folder, training, monkeypatch) -> None:
    compute, make, _ = TRAININGS[training]
    stage = make(folder, "last", max_steps=1, save_strategy="no")

    def spoil(self: History, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        kwargs["model"].get_input_embeddings().weight.data[0, 0] = math.inf

    monkeypatch.setattr(History, "on_train_end", spoil)
    with pytest.raises(UserError, match=r"aren't finite .*: model\.embed_tokens\.weight; .*lower trainer\.learn"):
        compute(stage)


def test_a_snapshot_with_such_weights_is_never_resumed_from(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = test_sft.stage_of(folder, "snapshot")

    def spoil(self: History, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 3:
            kwargs["model"].get_input_embeddings().weight.data[5] = math.nan

    monkeypatch.setattr(History, "on_step_end", spoil)
    with pytest.raises(UserError, match=r"checkpoint-3: weights that aren't finite"):
        sft.compute(stage)
    assert not (stage.snapshots / "checkpoint-3" / "manifest.json").exists()


INNER = "model.layers.1.mlp.up_proj.weight"


def spoilt(folder: Path, value: float, *names: str) -> Path:
    """The folder of a model in which one number of each of these tensors is `value`."""
    make_model(folder)
    weights = {name: tensor.copy() for name, tensor in load_file(folder / "model.safetensors").items()}
    for name in names:
        weights[name].flat[11] = value
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_no_stage_starts_from_such_a_model_and_nobody_samples_from_it(folder: Path, value: float) -> None:
    bad = spoilt(folder / "bad", value, INNER)
    config = test_pretrain.CONFIG | {"init_from": str(bad), "template": None, "drop_layers": []}
    starts: list[tuple[Program, SimpleNamespace]] = [(pretrain.compute, make_stage(folder, "adopted", config))]
    for name in ("sft", "reward_model", "grpo"):
        compute, make, _ = TRAININGS[name]
        starts.append((compute, make(folder, f"from_{name}")))
    for _, stage in starts:
        stage.inputs["model"] = bad
    loads = [lambda compute=compute, stage=stage: compute(stage) for compute, stage in starts]
    loads += [lambda engine=engine: load_sampler(bad, engine, 4) for engine in ("r1flow", "transformers")]
    for load in loads:
        with pytest.raises(UserError, match=r"aren't finite .*: model\.layers\.1\.mlp\.up_proj\.weight; choose"):
            load()


@pytest.mark.parametrize("engine", ["r1flow", "transformers"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_finite_weights_that_overflow_are_not_sampled_from(folder: Path, engine: str, temperature: float) -> None:
    sampler = load_sampler(spoilt(folder / "huge", 1e30, "model.norm.weight", "model.embed_tokens.weight"), engine, 4)
    with pytest.raises(UserError, match="logits aren't finite"):
        sampler.sample(["User: 1+1"], SamplingParams(temperature, 1.0, 4), [7])


def test_a_filter_that_would_hide_it_is_refused_and_a_user_may_write_that_it_is_off(folder: Path) -> None:
    config = test_sft.CONFIG | {"init_from": "base", "revision": None, "threads": 1, "device": "cpu"}
    config["trainer"] = config["trainer"] | {"logging_nan_inf_filter": True}
    with pytest.raises(UserError, match=r"trainer\.logging_nan_inf_filter"):
        check_stage("cold_start", "sft", config, ["base"])
    for training in ("pretrain", "sft"):
        compute, make, _ = TRAININGS[training]
        compute(make(folder, training, max_steps=1, logging_nan_inf_filter=False, learning_rate=1e-3))


def logged(rows: list[dict[str, float | None]], **options: Any) -> None:
    """A training's log, row by row."""
    stage = SimpleNamespace(config={}, log_metrics=lambda *args: None, progress=lambda *args, **fields: None)
    history, args = History(stage, {"loss": "loss", "kl": "kl"}), TrainingArguments(use_cpu=True, **options)
    for step in range(len(rows)):
        state = TrainerState(log_history=[{"step": n, **row} for n, row in enumerate(rows[: step + 1], 1)])
        state.global_step = step + 1
        history.on_log(args, state, TrainerControl(), logs=rows[step])


@pytest.mark.parametrize("name", ["loss", "grad_norm", "kl", "train_loss"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_every_number_that_a_training_logs_is_looked_at(name: str, value: float) -> None:
    fine = {"loss": 0.5, "grad_norm": 2.0, "learning_rate": 0.01}
    said = rf"step 3: {name} is {value}.*: loss 0\.5, grad_norm 2, learning_rate 0\.01 at step 2; lower trainer"
    with pytest.raises(UserError, match=said):
        logged([fine, fine, {**fine, name: value}, fine])
    with pytest.raises(UserError, match="there were none: look at the model that it starts from"):
        logged([{name: value}])


def test_no_value_and_a_users_own_metrics_stop_nothing() -> None:
    logged([{"loss": 0.5, "kl": None, "my_own": math.inf}] * 3)


def test_in_fp16_a_few_infinite_gradients_in_a_row_are_how_it_finds_its_scale() -> None:
    rows = [{"loss": 0.5, "grad_norm": math.inf}] * (SKIPPED - 1)
    logged([*rows, {"loss": 0.5, "grad_norm": 1.0}, *rows], fp16=True)
    with pytest.raises(UserError, match="use bf16 in place of fp16"):
        logged([*rows, rows[0]], fp16=True)
    with pytest.raises(UserError, match=f"step {len(rows) + 1}: loss is nan"):
        logged([*rows, {"loss": math.nan, "grad_norm": math.inf}], fp16=True)
