"""What conf/ says is what TRL's trainers are given: every key under `trainer:` and beside it, by value."""

from collections.abc import Callable
from dataclasses import fields
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from datasets import Dataset
from test_grpo_formulas import Built
from tiny import TEMPLATE, base_with, conf, make_stage
from trl import GRPOConfig, RewardConfig, SFTConfig

from r1flow.engine import config
from r1flow.model.mismatch import MismatchWatch
from r1flow.model.precision import fastest_dtype
from r1flow.model.pretrained import read_model
from r1flow.programs.grpo import compute as grpo
from r1flow.programs.reward_model import compute as reward_model
from r1flow.programs.sft import compute as sft
from r1flow.recipe.stages import program_of
from r1flow.training import scorer

CONF = Path(__file__).parents[2] / "conf"
EXPERIMENTS = sorted(path.stem for path in (CONF / "experiment").glob("*.yaml"))
LEFT_OPEN = {
    "benchmarks": f"base.init_from=any/model base.revision={'0' * 40}",
    "cold_start_stronger": "cold_start_data.engine_options.model=any",
}
CONFIGS = {"grpo": GRPOConfig, "sft": SFTConfig, "reward_model": RewardConfig}
NO_GPU = {"use_cpu": True}  # the one value that isn't conf/'s here: bf16 is refused where there is no GPU
DERIVED: dict[str, Callable[[dict[str, Any]], Any]] = {  # what becomes of null, of "none" and of "native"
    "bf16": lambda trainer: fastest_dtype(torch.device("cpu")) == torch.bfloat16,
    "report_to": lambda trainer: [],
    "steps_per_generation": lambda trainer: trainer["gradient_accumulation_steps"],
    "generation_batch_size": lambda trainer: (
        trainer["per_device_train_batch_size"]
        * (trainer["steps_per_generation"] or trainer["gradient_accumulation_steps"])
    ),
}
# Other values than the defaults, beside all numbers: words and switches that a trainer takes together.
CHANGED: dict[str, dict[str, Any]] = {
    "grpo": {
        **{"loss_type": "dr_grpo", "scale_rewards": "batch", "importance_sampling_level": "sequence", "beta": 0.04},
        **{"epsilon_high": 0.3, "delta": 2.0, "min_p": 0.1, "steps_per_generation": 16, "entropy_coef": 0.1},
        **{"multi_objective_aggregation": "normalize_then_sum", "mask_truncated_completions": True},
        **{"use_bias_correction_kl": True, "sync_ref_model": True, "shuffle_dataset": True, "top_k": 20},
    },
    "sft": {"loss_type": "dft", "packing": True, "packing_strategy": "wrapped"},
    "reward_model": {"disable_dropout": False},
}
CHANGED_ALL = {"bf16": False, "gradient_checkpointing": True, "lr_scheduler_type": "constant", "optim": "adamw_torch"}
Trained = tuple[str, str, dict[str, Any]]  # a stage, its program, its configuration


class Standin:
    """In place of a trainer: keeps what it is given, and gives itself out when it should train."""

    accelerator = SimpleNamespace(process_index=0)

    def __init__(self, **given: Any) -> None:
        self.given = given

    def remove_callback(self, _: Any) -> None:
        pass

    def train(self, **_: Any) -> None:
        raise Built(self)


class CompactStandin(Standin):
    pass


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return base_with(tmp_path_factory.mktemp("conf"))


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    """The tiny model as it was read, by what was asked for."""
    return {}


@pytest.fixture
def combined(monkeypatch: pytest.MonkeyPatch, models: dict[str, Any]) -> list[Any]:
    """Trainers, data and rewards are stand-ins; the list has what the rewards were made from."""
    given: list[Any] = []

    def read(auto: Any, folder: Path, **options: Any) -> Any:
        wanted = f"{auto.__name__} {options}"
        if wanted not in models:
            models[wanted] = read_model(auto, folder, **options)
        return models[wanted]

    for program in (grpo, sft, scorer):
        monkeypatch.setattr(program, "read_model", read)
    monkeypatch.setattr(grpo, "combine", lambda *specs: given.append(specs))
    monkeypatch.setattr(grpo, "training_rows", lambda *_: ([{"prompt": "1+1"}], {}))
    for program, count_rows in ((grpo, "prompts_drawn"), (grpo, "check_prompts"), (sft, "rows_truncated")):
        monkeypatch.setattr(program, count_rows, lambda *_: {})
    monkeypatch.setattr(reward_model, "pairs_left_out", lambda *_: ({}, 0))
    monkeypatch.setattr(grpo, "DevCurve", lambda *_: None)
    for trainer in ("GRPOTrainer", "OwnPromptsTrainer"):
        monkeypatch.setattr(grpo, trainer, Standin)
    monkeypatch.setattr(grpo, "CompactGRPOTrainer", CompactStandin)
    monkeypatch.setattr(sft, "training_data", lambda *_: (Dataset.from_list([{"input_ids": [1]}]), {}))
    monkeypatch.setattr(sft, "SFTTrainer", Standin)
    monkeypatch.setattr(reward_model, "RewardTrainer", Standin)
    return given


def trained(experiment: str) -> list[Trained]:
    """The experiment's stages that TRL trains."""
    run = config.compose(CONF, experiment, LEFT_OPEN.get(experiment, ""))
    found = [(stage, program_of(stage, run[stage]), run[stage]) for stage in run["stages"]]
    return [entry for entry in found if entry[1] in CONFIGS]


def trainer_of(base: Path, stage: str, program: str, own: dict[str, Any]) -> Standin:
    # In one process: what another strategy adds is test_strategy.py's
    made = make_stage(base, stage, own | {"strategy": "ddp", "trainer": own["trainer"] | NO_GPU})
    made.inputs["reward_model"] = base / "judge"
    run = {"grpo": grpo.compute, "sft": sft.compute, "reward_model": lambda stage: reward_model.fit(stage, [])}
    with pytest.raises(Built) as found:
        run[program](made)
    trainer = found.value.args[0]
    assert list(vars(trainer)) == ["given"], "something was set on the trainer after it was made"
    return trainer


def check_adapters(given: Any, own: dict[str, Any] | None) -> None:
    """peft makes a set of a list of modules, and leaves the words "all-linear" as they are."""
    if own is None:
        assert given is None
        return
    modules = own["target_modules"]
    assert (given.r, given.lora_alpha, given.lora_dropout) == (own["r"], own["alpha"], own["dropout"])
    assert given.target_modules == (modules if isinstance(modules, str) else set(modules))


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_value_of_an_experiment_is_what_its_trainers_are_given(
    experiment: str, base: Path, combined: list[Any]
) -> None:
    for stage, program, own in trained(experiment):
        trainer = trainer_of(base, stage, program, own)
        check_options(trainer.given["args"], own["trainer"] | NO_GPU, stage)
        model, tokenizer = trainer.given["model"], trainer.given["processing_class"]
        assert model.config._attn_implementation == own["attention"], stage
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}, stage
        assert tokenizer.chat_template == (own.get("template") or TEMPLATE), stage
        check_adapters(trainer.given["peft_config"], own.get("lora"))
        if program == "grpo":
            check_grpo(trainer, own, combined.pop(), base)


@pytest.mark.parametrize("program", CONFIGS)
def test_a_value_of_ones_own_is_what_the_trainer_is_given(program: str, base: Path, combined: list[Any]) -> None:
    """Every number is another than conf/'s: one written into the code would show, even where it is the default."""
    own = conf(f"{program}/default") | {"rewards": {}}
    own |= {"engine": "r1flow"} if "engine" in own else {}
    numbers = {key: another(value) for key, value in own["trainer"].items() if type(value) in (int, float)}
    changed = own["trainer"] | numbers | CHANGED_ALL | CHANGED[program]
    assert set(changed) == set(own["trainer"])
    trainer = trainer_of(base, program, program, own | {"trainer": changed})
    check_options(trainer.given["args"], changed | NO_GPU, program)


def another(value: float) -> float:
    return 2 * value if type(value) is int else value / 2 + 0.01


def check_options(options: Any, said: dict[str, Any], stage: str) -> None:
    """All that is said, and the trainer's defaults for the rest."""
    for key, value in said.items():
        expected = DERIVED[key](said) if key in DERIVED and value in (None, "none", "native") else value
        found = getattr(options, key)
        assert (found.value if isinstance(found, Enum) else found) == expected, f"{stage}.trainer.{key}"
    plain = type(options)(output_dir=options.output_dir, **NO_GPU)
    made = {"seed", "data_seed", "logging_dir", "run_name", "dataset_kwargs", "logging_nan_inf_filter"}
    for field in fields(options):
        if field.name not in {*said, *made}:
            assert getattr(options, field.name) == getattr(plain, field.name), f"{stage}.trainer.{field.name}"
    assert options.seed == options.data_seed == 3 and not options.logging_nan_inf_filter, stage


def check_grpo(trainer: Standin, own: dict[str, Any], combined: Any, base: Path) -> None:
    """Who samples and scores, and what the rewards are made from."""
    ours = own["engine"] == "r1flow"
    assert isinstance(trainer, CompactStandin) == ours
    assert (trainer.given["rollout_func"] is not None) == ours
    limits = {name: share for name, share in own["stop_above"].items() if name != "mismatch"}
    assert combined == (own["rewards"], base / "judge", limits)
    (watch,) = (callback for callback in trainer.given["callbacks"] if isinstance(callback, MismatchWatch))
    assert watch.limit == own["stop_above"].get("mismatch")
