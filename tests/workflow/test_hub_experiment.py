"""An experiment for a pretrained model, run at toy size: a random Qwen2, data sets in the hub's layout, a CPU."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from random_model import make_random_model

EXPERIMENT = "r1_zero_qwen2.5_0.5b_gsm8k"
# The same experiment; only sizes, places and the device are others.
TOY = {
    "device": "cpu",
    "base.revision": "null",
    "data.sources.gsm8k.revision": "null",
    "data.sources.math500.revision": "null",
    "zero_rl.trainer.use_vllm": "false",
    "zero_rl.trainer.max_steps": 2,
    "zero_rl.trainer.num_generations": 2,
    "zero_rl.trainer.per_device_train_batch_size": 2,
    "zero_rl.trainer.gradient_accumulation_steps": 2,
    "zero_rl.trainer.max_completion_length": 8,
    "evaluate.engine": "transformers",
    "evaluate.k": 2,
    "evaluate.max_new_tokens": 8,
    "evaluate.batch_size": 8,
    "evaluate.shard_size": 8,
}


def make_gsm8k(folder: Path) -> None:
    (folder / "main").mkdir(parents=True)
    for split, numbers in (("train", range(100, 160)), ("test", range(200, 206))):
        rows = [
            {
                "question": f"Ann has {n} apples and eats {n // 7}. How many are left?",
                "answer": f"So.\n#### {n - n // 7}",
            }
            for n in numbers
        ]
        pq.write_table(pa.Table.from_pylist(rows), folder / f"main/{split}-00000-of-00001.parquet")


def make_math500(folder: Path) -> None:
    folder.mkdir()
    rows = [{"problem": f"What is $\\sqrt{{{n * n}}}$?", "solution": "", "answer": str(n)} for n in range(11, 15)]
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.slow
def test_r1_zero_on_a_qwen_from_outside_runs_from_data_to_report(empty_checkout, tmp_path):
    outside = tmp_path / "outside"
    make_random_model(outside / "qwen")
    make_gsm8k(outside / "gsm8k")
    make_math500(outside / "math500")
    places = {"base.init_from": outside / "qwen"}
    places |= {f"data.sources.{name}.repo": outside / name for name in ("gsm8k", "math500")}
    words = " ".join(f"{key}={value}" for key, value in (TOY | places).items())
    done = empty_checkout.snakemake(experiment=EXPERIMENT, overrides=words)
    assert done.returncode == 0, done.stdout + done.stderr
    results = empty_checkout.folder / "results" / EXPERIMENT
    summary = json.loads((results / "report/summary.json").read_text())
    assert set(summary["models"]) == {"base", "zero_rl"}
    assert {"gsm8k", "math500"} <= set(summary["models"]["zero_rl"])
    assert json.loads((results / "zero_rl/model/config.json").read_text())["architectures"] == ["Qwen2ForCausalLM"]
    template = (results / "base/model/chat_template.jinja").read_text()
    assert template.startswith("{%- set preamble") and "<|im_start|>" not in template
    spent = json.loads((results / "zero_rl/metrics.json").read_text())
    assert spent["rollouts"] == 8 and spent["flops"] > 0
