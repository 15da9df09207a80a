"""What to run first on a machine with GPUs: `pytest -m gpu tests/gpu`; docs/scaling.md says where it ran.

With `R1FLOW_GPU_TESTS=cpu` the same tests run on a CPU, to see that they themselves work before a GPU is paid for.
Stages are those of tests/train and tests/workflow, on another device. Left out: training with `r1flow serve-rollouts`,
whose weights go by NCCL: those tests' server is one for a CPU.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.append(str(Path(__file__).parents[1] / "train"))
import tiny
from test_ranks import distance, job, make_project, run
from tiny import PROBLEMS, base_with, letters, make_model
from workflow.checkout import Checkout, checkout

from r1flow.programs.grpo import compute as grpo
from r1flow.recipe.stages import RECIPE
from r1flow.sampling import SamplingParams, load_sampler

DEVICE = os.environ.get("R1FLOW_GPU_TESTS", "cuda")
MISSING = DEVICE == "cuda" and not torch.cuda.is_available()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(MISSING, reason="there is no CUDA device; R1FLOW_GPU_TESTS=cpu tries these tests on a CPU"),
]
two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there are no two CUDA devices")


def on_gpus(project: Path, name: str, program: str, count: int = 1, **changes: Any) -> dict[str, Any]:
    made = job(project, name, program, count, {"use_cpu": DEVICE == "cpu"}, device=DEVICE, **changes)
    if DEVICE == "cuda":  # with 0 the stage shares the GPU, so that tests can run side by side
        made["words"] += [f"--gpus={count if count > 1 else 0}"]
    return made


def test_the_whole_recipe_runs_on_a_gpu(tmp_path: Path) -> None:
    made: Checkout = checkout(tmp_path)
    shared = [f"{stage}:gpu=0" for stage in RECIPE]
    done = made.snakemake("--cores", "all", "--set-resources", *shared, overrides=f"device={DEVICE}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "results/r1_micro/report/summary.json").is_file()


@pytest.mark.parametrize("program", ["sft", "grpo"])
def test_a_stage_computed_twice_gives_the_same_weights(tmp_path: Path, program: str) -> None:
    project = make_project(tmp_path)
    ends = run(project, [on_gpus(project, name, program) for name in ("once", "again")])
    assert [end["code"] for end in ends] == [0, 0]
    assert distance(project, "once", "again") == 0


@pytest.mark.parametrize("program", ["sft", "grpo"])
def test_a_killed_training_goes_on_to_the_same_weights(tmp_path: Path, program: str) -> None:
    project = make_project(tmp_path)
    blow = {"rank": 0, "step": 3, "signal": signal.SIGKILL, "whom": "driver"}
    jobs = [on_gpus(project, "whole", program), on_gpus(project, "killed", program, blow=blow)]
    ends = run(project, [*jobs, on_gpus(project, "killed", program)])
    assert [end["code"] for end in ends] == [0, -signal.SIGKILL, 0]
    assert distance(project, "whole", "killed") == 0


def test_engines_give_the_same_tokens_at_temperature_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny, "SIZE", tiny.SIZE | {"initializer_range": 0.3})
    make_model(tmp_path / "base")
    ours, theirs = (load_sampler(tmp_path / "base", name, batch_size=16) for name in ("r1flow", "transformers"))
    ours.engine.dtype = torch.float32
    prompts, params = [f"{n}+{n * n}" for n in range(40)], SamplingParams(0, 1.0, 48)
    said = ours.sample(prompts, params, [0] * 40)
    assert said == theirs.sample(prompts, params, [0] * 40)
    assert ours.engine.model.device.type == DEVICE and len({row.text for row in said}) > 20


def test_sft_on_a_gpu_learns_what_it_learns_on_a_cpu(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    ends = run(project, [job(project, "cpu", "sft", 1), on_gpus(project, "gpu", "sft")])
    assert [end["code"] for end in ends] == [0, 0]
    assert distance(project, "cpu", "gpu") < 1e-3


@two_gpus
@pytest.mark.parametrize("program", ["sft", "grpo"])
def test_weights_in_shares_learn_what_whole_ones_do(tmp_path: Path, program: str) -> None:
    project = make_project(tmp_path)
    engine = {"engine": "transformers"} if program == "grpo" else {}  # r1flow's needs whole weights
    jobs = [on_gpus(project, strategy, program, 2, strategy=strategy, **engine) for strategy in ("ddp", "fsdp2")]
    assert [end["code"] for end in run(project, jobs)] == [0, 0]
    assert distance(project, "ddp", "fsdp2") < 1e-3


@two_gpus
def test_two_gpus_learn_what_one_does(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    ends = run(project, [on_gpus(project, "one", "sft"), on_gpus(project, "two", "sft", 2)])
    assert [end["code"] for end in ends] == [0, 0]
    assert distance(project, "one", "two") < 1e-3


def test_colocated_vllm_samples_from_the_model_that_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("vllm", reason="vllm isn't installed; docs/scaling.md says how")
    from test_vllm_rollouts import stage_of

    monkeypatch.setattr(grpo, "combine", lambda *_: letters)
    monkeypatch.setattr(tiny, "SIZE", tiny.SIZE | {"hidden_size": 64, "initializer_range": 0.1})
    base_with(tmp_path, rl=PROBLEMS)
    metrics = grpo.compute(stage_of(tmp_path, "rollouts", use_cpu=DEVICE == "cpu", bf16=DEVICE == "cuda"))
    assert max(row["mismatch"] for row in metrics["history"]) < 0.1
