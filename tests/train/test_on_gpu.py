"""The command that measures on a GPU, without one: what it keeps, what it leaves out and why; toy steps on a CPU."""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import benchmark
import psutil
import pytest
import torch

FILE = Path(__file__).parents[2] / "benchmarks/on_gpu.py"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    sys.path.append(str(FILE.parent))
    return benchmark.load("on_gpu")


def called(bench: ModuleType, monkeypatch: pytest.MonkeyPatch, out: Path, steps: dict[str, Any], *words: str) -> dict:
    """What the command keeps when its steps are these functions."""
    monkeypatch.setattr(bench, "STEPS", steps)
    monkeypatch.setattr(bench, "LIMITS", dict.fromkeys(steps, 60))
    monkeypatch.setattr(bench, "describe", lambda device: ["a machine"])
    monkeypatch.setattr(bench, "table", lambda found: "")
    monkeypatch.setattr(sys, "argv", ["on_gpu.py", f"--out={out}", "--device=cpu", *words])
    bench.main()
    return json.loads((out / "on_gpu.json").read_text())["steps"]


def test_a_step_that_fails_loses_no_other_and_is_done_again(bench, monkeypatch, tmp_path) -> None:
    ran: list[str] = []

    def good(options: argparse.Namespace, limit_s: float) -> dict[str, Any]:
        ran.append("good")
        return {"seconds": 1.0}

    def bad(options: argparse.Namespace, limit_s: float) -> dict[str, Any]:
        ran.append("bad")
        raise RuntimeError("out of memory")

    steps = {"bad": bad, "good": good}
    kept = called(bench, monkeypatch, tmp_path, steps)
    assert kept["bad"]["left_out"] == "out of memory" and kept["good"]["seconds"] == 1.0
    assert called(bench, monkeypatch, tmp_path, steps)["good"] == kept["good"]
    assert ran == ["bad", "good", "bad"]


def test_no_step_begins_when_the_time_is_up(bench, monkeypatch, tmp_path) -> None:
    kept = called(bench, monkeypatch, tmp_path, {"never": None}, "--minutes=0.1")
    assert "the same command goes on" in kept["never"]["left_out"]


def test_a_command_that_takes_too_long_is_ended(bench, tmp_path) -> None:
    with pytest.raises(bench.TimeIsUp):
        bench.run([sys.executable, "-c", "input()"], 0.0, tmp_path / "log")


def test_a_killed_command_leaves_no_process(bench) -> None:
    """Nor one that has a session of its own, as Snakemake's jobs have."""
    child = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)"
    code = f"import subprocess, sys, time; print({child}.pid, flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child_process = psutil.Process(int(process.stdout.readline()))
    bench.kill(process)
    child_process.wait()
    assert process.returncode == -9


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_one_line_says_what_to_do(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(FILE), f"--out={tmp_path}"], capture_output=True, text=True)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    for word in ("cuda can't be used: ", "nvidia-smi", "--toy --device cpu"):
        assert word in done.stderr


def test_other_versions_and_missing_libraries_are_named(bench, monkeypatch) -> None:
    def version(name: str) -> str:
        if name == "vllm":
            raise bench.PackageNotFoundError
        return "0.0.1+cu130"

    monkeypatch.setattr(bench, "version", version)
    other, missing = bench.other_versions()
    assert "torch 0.0.1+cu130 (2." in other and missing == "not here: vllm"


def test_the_table_says_what_the_plan_would_have_said(bench) -> None:
    """By hand: 6 · 1.5e9 parameters · 32,768 tokens at 24 % of 989 TFLOP/s take 1.24 s."""
    tokens, parameters = 32768, 1.5e9
    row = {"what": "sft", "shape": "Qwen/Qwen2.5-1.5B", "length": 4096, "who": "r1flow", "engine": None}
    row |= {"seconds": 0.68, "tokens": tokens, "tokens_per_s": tokens / 0.68, "memory_gb": 1.0, "peak_share": 0.5}
    row |= {"flops": 6 * parameters * tokens, "parameters": parameters, "layers": 28}
    left = {**row, "who": "trl", "left_out": "out of memory"}
    del left["seconds"]
    about = {"peak_tflops": 989, "settings": {"pass_tokens": 8192, "prompt": 128}}
    lines = bench.large_lines({"rows": [row, left], **about})
    assert lines[1].split()[-1] == "1.83" and lines[2].endswith("out of memory")
    # In passes of 512 tokens, 64 · 28 layers of 7 ms take 12.5 s.
    about["settings"]["pass_tokens"] = 512
    assert bench.large_lines({"rows": [row], **about})[1].split()[-1] == "18.45"
    # 2 · 1.5e9 parameters · 32,768 tokens at 3 % take 3.31 s; 28 layers of 1 ms for each of 200 tokens 5.6 s.
    flops = 2 * parameters * tokens
    drawn = {**row, "what": "sampling", "engine": "r1flow", "flops": flops, "sampling_flops": flops}
    for length, ratio in ((128 + 100, "4.87"), (128 + 200, "8.24")):
        assert bench.large_lines({"rows": [drawn | {"length": length}], **about})[1].split()[-1] == ratio


@pytest.mark.slow
def test_toy_steps_on_a_cpu(tmp_path) -> None:
    command = [sys.executable, str(FILE), "--toy", "--device=cpu", f"--out={tmp_path}", "--minutes=60"]
    done = subprocess.run([*command, "--steps", "sft", "recipe"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    steps = json.loads((tmp_path / "on_gpu.json").read_text())["steps"]
    assert not any("left_out" in step for step in steps.values()), done.stdout
    assert all(row["seconds"] > 0 for row in steps["sft"]["rows"]) and steps["recipe"]["mismatch"] < 0.02
    for word in ("planned/measured", "dev accuracy", "r1flow", "trl"):
        assert word in done.stdout
