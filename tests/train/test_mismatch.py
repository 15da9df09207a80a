"""A sampler that isn't the trained model is seen and stopped; TRL's own measure, with a stand-in for vLLM."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from tiny import PROBLEMS, base_with, conf, letters, make_stage, weights_hash
from transformers import TrainerControl, TrainerState
from trl import GRPOTrainer

from r1flow.core.errors import UserError
from r1flow.model.mismatch import IN_A_ROW, METRIC, MismatchWatch
from r1flow.model.scoring import CompactGRPOTrainer
from r1flow.programs.grpo import compute as grpo
from r1flow.sampling.engine import Weights
from r1flow.training.callbacks import last_snapshot

DEFAULT, GPU = conf("grpo/default"), conf("grpo/gpu")
OPTIONS = {name: value for name, value in GPU["trainer"].items() if "vllm" in name}
SMALL = {
    "max_steps": 6,
    "num_generations": 4,
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "steps_per_generation": None,
    "max_completion_length": 6,
    "temperature": 1.0,  # the stand-in's
    "learning_rate": 1.0e-2,
    "warmup_steps": 0,
    "beta": 0.001,
    "save_steps": 3,
    "bf16": False,
}


class Sampler:
    """In place of TRL's VLLMGeneration: random tokens with the model's log-probabilities, but for `off` of each step.

    Seeds all generators when it starts, as vLLM does.
    """

    off: ClassVar[list[float]] = []

    def __init__(self, model: Any, max_completion_length: int, **_: Any) -> None:
        self.model, self.length, self.asked = model, max_completion_length, 0
        torch.manual_seed(0)

    def sync_weights(self) -> None:
        pass

    @torch.no_grad()
    def generate(self, prompts: list[list[int]], **_: Any) -> tuple[Any, ...]:
        off = self.off[self.asked] if self.asked < len(self.off) else 0.0
        self.asked += 1
        new = torch.randint(10, 200, (len(prompts), self.length)).tolist()
        logps = [self.score(prompt, ids) + off for prompt, ids in zip(prompts, new, strict=True)]
        return prompts, new, [[[value] for value in row.tolist()] for row in logps], None

    def score(self, prompt: list[int], new: list[int]) -> torch.Tensor:
        logits = self.model(torch.tensor([prompt + new])).logits[0, len(prompt) - 1 : -1]
        return logits.log_softmax(-1).gather(1, torch.tensor(new)[:, None])[:, 0]


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("trl.trainer.grpo_trainer.VLLMGeneration", Sampler)
    monkeypatch.setattr(Sampler, "off", [])
    monkeypatch.setattr(grpo, "combine", combine)
    return base_with(tmp_path, rl=PROBLEMS)


def combine(specs: Any, reward_model: Any, limits: dict[str, float]) -> Any:
    assert "mismatch" not in limits  # isn't a share of failed rewards
    return letters


def stage_of(folder: Path, name: str, small: dict[str, Any] = SMALL, **trainer: Any) -> SimpleNamespace:
    limits = {"stop_above": {"mismatch": 0.1}, "rewards": {}, "engine": "transformers", "dev": None}
    return make_stage(folder, name, DEFAULT | limits | {"trainer": DEFAULT["trainer"] | OPTIONS | small | trainer})


def test_the_mismatch_is_a_curve_and_a_small_one_stops_nothing(base: Path) -> None:
    metrics = grpo.compute(stage_of(base, "healthy"))
    rows = metrics["history"]
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert max(row["mismatch"] for row in rows) < 1e-5
    assert [row["importance_ratio"] for row in rows] == pytest.approx([1.0] * 6, abs=1e-4)
    # 2 sampling, 2 KL, 2 the correction, 6 training
    assert metrics["flops"] == 12 * metrics["parameters"] * metrics["train_tokens"]


def test_a_broken_sampler_stops_the_training_and_the_last_snapshot_is_kept(base: Path, monkeypatch) -> None:
    monkeypatch.setattr(Sampler, "off", [0.0] * 3 + [0.5] * 3)
    stage = stage_of(base, "broken")
    with pytest.raises(UserError, match=rf"stop_above\.mismatch: {METRIC} is 0\.5, 0\.5, 0\.5 .* above 0\.1: .*dtype"):
        grpo.compute(stage)
    assert Path(last_snapshot(stage.snapshots)).name == "checkpoint-3"
    monkeypatch.setattr(Sampler, "off", [])  # mended: the same stage goes on
    rows = grpo.compute(stage)["history"]
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6] and rows[-1]["mismatch"] < 1e-5


def test_runs_with_other_seeds_draw_other_completions(base: Path) -> None:
    """Although vLLM starts every run with the same random numbers."""
    drawn = []
    for seed in (3, 4):
        stage = stage_of(base, f"seed{seed}", max_steps=1)
        stage.seed = seed
        stage.log_table = lambda name, rows: drawn.append([row["completion"] for row in rows])
        grpo.compute(stage)
    assert drawn[0] != drawn[1]


def ours(folder: Path, name: str, **trainer: Any) -> SimpleNamespace:
    stage = stage_of(folder, name, **trainer)
    stage.config |= {"engine": "r1flow", "trainer": DEFAULT["trainer"] | SMALL | {"max_steps": 3} | trainer}
    return stage


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_our_engine_is_measured_and_training_is_what_it_was(base: Path, monkeypatch, dtype: torch.dtype) -> None:
    """Also where a stale sampler's completions would be masked by its numbers."""
    monkeypatch.setattr("r1flow.sampling.engine.fastest_dtype", lambda device: dtype)
    measured, plain = ours(base, "measured", off_policy_mask_threshold=1e-9), ours(base, "plain")
    rows = grpo.compute(measured)["history"]
    low, high = (0.0, 1e-5) if dtype == torch.float32 else (1e-5, 0.1)
    assert len(rows) == 3 and all(low < row["mismatch"] < high for row in rows)
    monkeypatch.setattr(grpo, "with_mismatch", unmeasured)
    plain.config["trainer"]["off_policy_mask_threshold"] = 1e-9
    assert "mismatch" not in grpo.compute(plain)["history"][0]
    assert weights_hash(measured) == weights_hash(plain)


def unmeasured(trainer: type) -> type:
    """The trainer as it is, that hears nothing of the sampler's numbers."""

    class Unmeasured(trainer):
        def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
            found = super()._generate_and_score_completions(inputs)
            found.pop("sampling_per_token_logps")
            return found

    return Unmeasured


@pytest.mark.parametrize("beta", [0.0, 0.001])
def test_the_old_policy_is_what_the_sampler_said(base: Path, monkeypatch, beta: float) -> None:
    """With two updates of a set, TRL would read each completion once more; the KL's reference is read in any case."""
    read, used = [], []
    scored, looked_up = CompactGRPOTrainer._get_per_token_logps_and_entropies, GRPOTrainer._compute_loss

    def reading(self: Any, model: Any, *rest: Any, **options: Any) -> Any:
        read.append((model is self.ref_model, torch.is_grad_enabled()))
        return scored(self, model, *rest, **options)

    def using(self: Any, model: Any, inputs: dict[str, Any]) -> Any:
        used.append(torch.equal(inputs["old_per_token_logps"], inputs["sampled_logps"]))
        return looked_up(self, model, inputs)

    monkeypatch.setattr(CompactGRPOTrainer, "_get_per_token_logps_and_entropies", reading)
    monkeypatch.setattr(GRPOTrainer, "_compute_loss", using)
    stage = ours(base, "two_updates", steps_per_generation=2, max_steps=4, beta=beta)
    rows = grpo.compute(stage)["history"]
    assert used == [True] * 4
    update, reference = (False, True), (True, False)
    assert read == [*([reference] if beta else []), update, update] * 2
    # Where the model has moved on, a difference would be learning and not a mismatch.
    assert [row["step"] for row in rows if row.get("mismatch") is not None] == [1, 3]


def test_what_a_set_of_completions_learns_from_itself_is_no_mismatch_of_the_sampler(base: Path) -> None:
    """Of sets of 6 passes, updates of 4 read the second one in halves, before and after a step."""
    half = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4, "steps_per_generation": 6}
    rows = grpo.compute(ours(base, "halves", learning_rate=0.05, save_strategy="no", max_steps=3, **half))["history"]
    assert max(row["mismatch"] for row in rows if row.get("mismatch") is not None) < 1e-5
    assert rows[2].get("mismatch") is None  # it has passes of the second set's rest alone


def test_an_engine_that_samples_from_another_model_stops_the_training(base: Path, monkeypatch) -> None:
    real = Weights.of

    def sharper(cls: type[Weights], *given: Any, **also: Any) -> Weights:
        weights = real(*given, **also)
        return weights if weights.head is None else replace(weights, head=8 * weights.head)

    monkeypatch.setattr(Weights, "of", classmethod(sharper))
    with pytest.raises(UserError, match=r"stop_above\.mismatch: .* above 0\.1: .*our engine"):
        grpo.compute(ours(base, "broken"))


def log(watch: MismatchWatch, values: list[float | None]) -> None:
    history = [{"step": step} | ({METRIC: value} if value is not None else {}) for step, value in enumerate(values)]
    watch.on_log(None, TrainerState(log_history=history), TrainerControl())


@pytest.mark.parametrize(
    "values",
    [[], [9.0] * (IN_A_ROW - 1), [9.0, 9.0, 0.1, 9.0, 9.0], [9.0] * IN_A_ROW + [0.01], [None] * 9, [0.1] * 9],
)
def test_fewer_bad_steps_in_a_row_stop_nothing(values: list[float | None]) -> None:
    log(MismatchWatch(0.1), values)


def test_a_step_whose_values_are_all_nan_counts_as_bad() -> None:
    """TRL writes None for it, which JSON has."""
    history = [{"step": step, METRIC: value} for step, value in enumerate([0.2, None, 0.2])]
    with pytest.raises(UserError, match=r"0\.2, nan, 0\.2 in the latest"):
        MismatchWatch(0.1).on_log(None, TrainerState(log_history=history), TrainerControl())


@pytest.mark.parametrize("values", [[0.01] * 5 + [0.2] * IN_A_ROW, [0.2, None, 0.2, 0.2, None], [float("nan")] * 3])
def test_bad_steps_in_a_row_stop(values: list[float | None]) -> None:
    with pytest.raises(UserError, match=r"above 0\.1"):
        log(MismatchWatch(0.1), values)
    log(MismatchWatch(None), values)
