"""Every benchmark at toy size: it runs to its end and prints its figures. Others have tests of their own."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from r1flow import sandbox
from r1flow.core.schema import write_jsonl

ROOT = Path(__file__).parents[2]
TOY = {
    "grpo_step": ("--steps=1 --rounds=1 --teach=1 --max-new-tokens=4", "scoring"),
    "sft_step": ("--steps=1 --rounds=1 --teach=1 --batch=4", "ours"),
    "pretrain_step": ("--rounds=1", "ours, torch.float32"),
    "sampling": ("--rows=4 --rounds=1 --teach=1 --max-new-tokens=4", "tokens"),
    "reading": ("--rows=4 --lengths 3 9 --rounds=1 --layers=1", "ratio"),
    "sandbox": ("2", "programs/s"),
    "judging": ("--samples=16 --characters=200", "ms a sample"),
    "decontamination": ("--times=1 --processes=1", "rows a second"),
    "reward_check": ("--rows=20 --least-numbers=0 --least-latex=0", "solutions that pass"),
}
# By test files of their own, those of a whole run in workflow/; small_model is a part of two.
ELSEWHERE = {
    "red_team",
    "mutants",
    "large_step",
    "on_gpu",
    "math_verify_cases",
    "spellings",
    "bookkeeping",
    "whole_run",
    "small_model",
    "many_runs",
}


@pytest.fixture
def datasets(tmp_path: Path) -> Path:
    """A few problems, in the files and columns of the benchmarks' own."""
    numbers = range(40)
    asked = [f"Ann has {n} red apples and buys {n + 7} green ones. How many apples has Ann got now?" for n in numbers]
    train = [{"question": text, "answer": f"She has both of them.\n#### {2 * n + 7}"} for n, text in enumerate(asked)]
    test = [
        {"question": f"Tom reads {n} books in {n + 3} weeks, how many a year?", "answer": "#### 9"} for n in numbers
    ]
    maths = [
        {"problem": f"What is the value of ${n}^2 + x$ where $x = {n}$?", "answer": rf"\sqrt{{{n + 2}}} + \pi"}
        for n in numbers
    ]
    for name, rows in {"gsm8k/train": train, "gsm8k/test": test, "math500/test": maths, "aime24/test": maths}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write_jsonl(tmp_path / f"{name}.jsonl", rows)
    (tmp_path / "humaneval").mkdir()
    with gzip.open(tmp_path / "humaneval/HumanEval.jsonl.gz", "wt") as file:
        for n in range(20):
            print(json.dumps(program(n)), file=file)
    return tmp_path


def program(number: int) -> dict[str, str]:
    """A problem of HumanEval's kind."""
    return {
        "task_id": f"HumanEval/{number}",
        "entry_point": "add",
        "prompt": f'def add(x):\n    """x and {number}"""\n',
        "canonical_solution": f"    return x + {number}\n",
        "test": f"def check(candidate):\n    assert candidate(2) == {number + 2}\n",
    }


def test_every_benchmark_is_run_somewhere() -> None:
    assert {path.stem for path in (ROOT / "benchmarks").glob("*.py")} == TOY.keys() | ELSEWHERE


@pytest.mark.slow
@pytest.mark.parametrize("name", TOY)
def test_a_benchmark_runs_at_toy_size(name: str, datasets: Path) -> None:
    if name in ("sandbox", "reward_check") and not sandbox.tiers():
        pytest.skip("no sandbox holds on this machine")
    words, said = TOY[name]
    done = subprocess.run(
        [sys.executable, f"benchmarks/{name}.py", *words.split()],
        cwd=ROOT,
        env=os.environ | {"R1FLOW_DATASETS": str(datasets)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert said in done.stdout
