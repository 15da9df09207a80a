"""GRPO with TRL's colocated vLLM, and vLLM's server as it is started here; vLLM's build for CPUs (docs/scaling.md).

A server's weights go by NCCL, so training with one needs GPUs; here it is only started, recognised and refused.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm", reason="vllm isn't installed; docs/scaling.md says how")

import test_mismatch
import tiny
import torch
from ports import reserved
from tiny import PROBLEMS, base_with, letters

from r1flow.core.errors import UserError
from r1flow.programs.grpo import compute as grpo
from r1flow.sampling import SamplingParams, load_sampler
from r1flow.training import rollout_server

pytestmark = pytest.mark.slow
SMALL = {
    "max_steps": 4,
    "num_generations": 4,
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 2,
    "steps_per_generation": None,
    "max_completion_length": 12,
    "learning_rate": 1.0e-2,
    "warmup_steps": 0,
    "save_steps": 2,
    "bf16": False,
    "vllm_gpu_memory_utilization": 0.1,  # of the machine's memory
    "vllm_max_model_length": 64,
}
stage_of = partial(test_mismatch.stage_of, small=SMALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose shape vLLM's CPU kernels know, and prompts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny, "SIZE", tiny.SIZE | {"hidden_size": 64, "initializer_range": 0.1})
        return base_with(tmp_path_factory.mktemp("colocated"), rl=PROBLEMS)


@pytest.fixture(autouse=True)
def on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two things that a GPU doesn't need: TRL leaves the dtype to vLLM, which would be bfloat16, and vLLM packs linear
    layers on a CPU so that no later weights can be loaded into them.
    """
    from trl.generation import vllm_generation
    from vllm import _custom_ops

    monkeypatch.setattr(vllm_generation, "LLM", partial(vllm_generation.LLM, dtype="float32"))
    monkeypatch.setattr(_custom_ops, "_supports_onednn", False)
    monkeypatch.setattr(grpo, "combine", lambda *_: letters)


def drawn(stage: SimpleNamespace) -> list[dict[str, Any]]:
    """The first step's completions, after the training."""
    rows: list[dict[str, Any]] = []
    stage.log_table = lambda name, table: rows.extend(table)
    grpo.compute(stage)
    return rows


def test_what_is_sampled_is_the_model_that_is_trained(folder: Path) -> None:
    metrics = grpo.compute(stage_of(folder, "healthy"))
    assert max(row["mismatch"] for row in metrics["history"]) < 1e-4
    before, after = (
        load_sampler(path, "transformers", 8) for path in (folder / "base", folder / "healthy" / "work" / "model")
    )
    assert not all(map(torch.equal, before.model.parameters(), after.model.parameters()))


def test_a_sampler_that_keeps_the_old_weights_is_stopped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trl.generation.vllm_generation.VLLMGeneration.sync_weights", lambda self: None)
    with pytest.raises(UserError, match=r"stop_above\.mismatch"):
        grpo.compute(stage_of(folder, "stale", max_steps=12, learning_rate=0.05))


def test_greedy_completions_are_those_of_the_other_engines(folder: Path) -> None:
    rows = drawn(stage_of(folder, "greedy", max_steps=1, generation_kwargs={"temperature": 0.0}))
    prompts = [row["prompt"] for row in rows]
    expected = load_sampler(folder / "base", "transformers", 8).sample(
        prompts, SamplingParams(0, 1.0, 12), [0] * len(prompts)
    )
    assert [row["completion"] for row in rows] == [row.text for row in expected]


def test_another_seed_draws_other_completions_and_the_same_the_same(folder: Path) -> None:
    stages = [stage_of(folder, f"seed{number}", max_steps=1) for number in (3, 4, 5)]
    for stage, seed in zip(stages, (3, 4, 3), strict=True):
        stage.seed = seed
    first, other, again = ([row["completion"] for row in drawn(stage)] for stage in stages)
    assert first == again != other


def test_resumed_equals_uninterrupted(folder: Path) -> None:
    tiny.check_resume(grpo.compute, lambda name: stage_of(folder, name), at=3, snapshot=2)


@pytest.fixture(scope="module")
def url(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The server that `r1flow serve-rollouts` starts; stopped in the end."""
    command = [sys.executable, "-m", "r1flow.commands.cli", "serve-rollouts", str(folder / "base")]
    options = ["--dtype", "float32", "--gpu-memory-utilization", "0.1"]
    with reserved() as port:
        with (tmp_path_factory.mktemp("log") / "server.log").open("w") as file:
            words = [*command, "--port", str(port), *options]
            process = subprocess.Popen(words, stdout=file, stderr=file, env=os.environ)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(300)


def test_the_server_is_recognised_and_another_models_refused(folder: Path, url: str, tmp_path: Path) -> None:
    assert rollout_server.find_server(folder / "base", url, 600, print) == url
    shutil.copytree(folder / "base", tmp_path / "other")
    assert rollout_server.find_server(tmp_path / "other", url, 0, print) == url
    text = (tmp_path / "other/config.json").read_text()
    (tmp_path / "other/config.json").write_text(text.replace('"num_hidden_layers": 2', '"num_hidden_layers": 3'))
    with pytest.raises(UserError, match=f"serves {folder / 'base'}, .*serve-rollouts {tmp_path / 'other'}"):
        rollout_server.find_server(tmp_path / "other", url, 0, print)
