"""The benchmark of large steps at toy size: both sides do the same work; what isn't measured says why; 30 s, CPU."""

import json
import os
import subprocess
import sys
from argparse import Namespace
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import benchmark
import pytest
import torch

FILE = Path(__file__).parents[2] / "benchmarks/large_step.py"
ENGINE_ROWS, NEW_TOKENS, ROWS = 16, 16, 8  # --toy


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """The command as a user gives it, and what it left."""
    out = tmp_path_factory.mktemp("large") / "step"
    command = [sys.executable, str(FILE), "--toy", "--device", "cpu", "--lengths", "32", "--peak-tflops", "10"]
    command += ["--grpo-steps", "2", "--minutes", "60"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("R1FLOW")}

    def run() -> SimpleNamespace:
        done = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        rows = json.loads((out / "large_step.json").read_text())["rows"]
        return SimpleNamespace(table=done.stdout, rows=rows, svg=(out / "large_step.svg").read_text(), again=run)

    return run()


def row_of(ended: SimpleNamespace, **case: Any) -> dict[str, Any]:
    [row] = [row for row in ended.rows if case.items() <= row.items()]
    return row


@pytest.mark.slow
@pytest.mark.parametrize("case", [{"what": "sft"}, {"what": "grpo", "engine": "transformers"}])
def test_both_sides_train_on_the_same_tokens_at_the_same_price(ended, case) -> None:
    ours, plain = (row_of(ended, who=side, **case) for side in ("r1flow", "trl"))
    assert "left_out" not in ours | plain
    assert ours["tokens"] == plain["tokens"] == (256 if case["what"] == "sft" else ROWS * 32)
    assert ours["flops"] == pytest.approx(plain["flops"], rel=1e-9)
    for row in (ours, plain):
        assert row["tokens_per_s"] == pytest.approx(row["tokens"] / row["seconds"])
        assert row["steps"] >= 1 and row["memory_gb"] > 0
        assert 0 < row["peak_share"] < 1 and 0 < row["training_peak_share"] < 1
        if case["what"] == "grpo":
            assert 0 < row["sampling_share"] < 1 and 0 < row["sampling_flops"] < row["flops"]


@pytest.mark.slow
def test_an_engine_that_is_there_is_measured_and_the_others_named_with_the_reason(ended) -> None:
    for engine in ("r1flow", "transformers"):
        assert 0 < row_of(ended, what="sampling", engine=engine)["tokens"] <= ENGINE_ROWS * NEW_TOKENS
    reasons = {"openai": "R1FLOW_SAMPLING_URL"} | ({} if find_spec("vllm") else {"vllm": "vllm"})
    missing = [row for row in ended.rows if row["engine"] in reasons]
    assert len(missing) == (4 if "vllm" in reasons else 1)
    for row in missing:
        assert row["left_out"] in ended.table and "seconds" not in row
        assert reasons[row["engine"]] in row["left_out"]


@pytest.mark.slow
def test_the_figure_shows_both_sides(ended) -> None:
    for label in (
        "toy_r1flow",
        "sft toy trl",
        "grpo toy r1flow transformers",
        "toy 32 trl transformers",
        "seconds of a",
    ):
        assert label.replace("_", " ") in ended.svg


@pytest.mark.slow
def test_the_same_command_keeps_what_was_measured(ended) -> None:
    assert ended.again().rows == ended.rows


# -- What is measured when the time is short --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return benchmark.load("large_step")


OPTIONS = Namespace(what=["sft"], shapes=["toy"], lengths=[32, 64], device="cpu", peak_tflops=None)


def schedule(bench: ModuleType, left_s: float, kept: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[Any]]:
    """The rows that come of it, and which functions ran."""
    ran: list[Any] = []

    def run(function: Any, *arguments: Any) -> dict[str, Any]:
        ran.append(arguments[0] if isinstance(arguments[0], bench.Case) else "model")
        return {"seconds": 1.0, "tokens": 10.0, "flops": 1.0, "memory_gb": 1.0}

    [*_, rows] = bench.all_of(OPTIONS, SimpleNamespace(left_s=left_s, run=run), kept)
    return rows, ran


def done(bench: ModuleType, length: int, who: str, **more: Any) -> dict[str, Any]:
    return asdict(bench.Case("sft", "toy", length, who)) | {"seconds": 2.0, "took_s": 100.0} | more


def test_what_was_measured_stays_and_what_was_left_out_for_time_is_measured(bench) -> None:
    kept = [done(bench, 32, side) for side in ("r1flow", "trl")]
    late = {**asdict(bench.Case("sft", "toy", 64, "trl")), "left_out": f"the time was up; {bench.AGAIN}"}
    rows, ran = schedule(bench, 9e9, [*kept, done(bench, 64, "r1flow"), late])
    assert rows[:2] == kept
    assert ran == [
        "model",
        *(bench.Case("sft", "toy", 64, side) for side in ("trl", "r1flow")),
    ]  # both, in one run


def test_a_pair_that_would_not_end_in_time_is_left_out_with_the_reason(bench) -> None:
    rows, ran = schedule(bench, 399, [done(bench, 32, side) for side in ("r1flow", "trl")])
    assert not ran
    assert all(
        "takes about 400 s, 399 s are left" in row["left_out"] and bench.AGAIN in row["left_out"] for row in rows[2:]
    )


@pytest.mark.parametrize(
    ("name", "tflops"),
    [("NVIDIA H200", 989), ("NVIDIA A100-SXM4-80GB", 312), ("NVIDIA L40S", 362), ("NVIDIA L40", None)],
)
def test_a_gpu_is_known_by_its_whole_name(bench, name, tflops) -> None:
    assert bench.peak_of(name) == tflops


@pytest.mark.parametrize(("who", "returned", "kept"), [("r1flow", False, 1), ("r1flow", True, 0), ("trl", False, 0)])
def test_freed_memory_is_kept_as_in_a_stage_unless_asked_otherwise(bench, monkeypatch, who, returned, kept) -> None:
    calls: list[str] = []

    def install() -> None:
        raise InterruptedError  # what comes after isn't wanted here

    monkeypatch.setattr(bench, "Clock", lambda: SimpleNamespace(install=install))
    monkeypatch.setattr(bench, "stage_config", lambda *_: {"threads": torch.get_num_threads()})
    monkeypatch.setattr(bench, "keep_freed_memory", lambda: calls.append("kept"))
    monkeypatch.setattr(bench, "keep_few_kernels", lambda: None)
    with pytest.raises(InterruptedError):
        bench.train(bench.Case("sft", "toy", 32, who), Namespace(return_freed=returned, prompts_apart=False), Path())
    assert len(calls) == kept
