"""Every benchmark at toy size: it runs to its end and prints its figures. Others have tests of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from r1flow import sandbox
from r1flow.schema import write_jsonl

ROOT = Path(__file__).parents[2]
TOY = {
    "grpo_step": ("--steps=1 --rounds=1 --teach=1 --max-new-tokens=4", "scoring"),
    "sampling": ("--rows=4 --rounds=1 --teach=1 --max-new-tokens=4", "tokens"),
    "sandbox": ("2", "programs/s"),
    "judging": ("--samples=16 --characters=200", "ms a sample"),
    "decontamination": ("--times=1 --processes=1", "rows a second"),
    "curation": ("60 --threads=1", "rows"),
}
# By test files of their own. The others want a whole run (bookkeeping, whole_run) or whole benchmarks (reward_check);
# small_model is a part of two.
ELSEWHERE = {"red_team", "mutants", "large_step", "math_verify_cases"}
ELSEWHERE |= {"bookkeeping", "whole_run", "reward_check", "small_model"}


@pytest.fixture
def datasets(tmp_path: Path) -> Path:
    """A few problems, in the files and columns of the benchmarks' own."""
    numbers = range(40)
    asked = [f"Ann has {n} red apples and buys {n + 7} green ones. How many apples has Ann got now?" for n in numbers]
    train = [{"question": text, "answer": f"She has both of them.\n#### {2 * n + 7}"} for n, text in enumerate(asked)]
    test = [
        {"question": f"Tom reads {n} books in {n + 3} weeks, how many a year?", "answer": "#### 9"} for n in numbers
    ]
    maths = [{"problem": f"What is the value of ${n}^2 + x$ where $x = {n}$?", "answer": str(n)} for n in numbers]
    for name, rows in {"gsm8k/train": train, "gsm8k/test": test, "math500/test": maths, "aime24/test": maths}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write_jsonl(tmp_path / f"{name}.jsonl", rows)
    return tmp_path


def test_every_benchmark_is_run_somewhere() -> None:
    assert {path.stem for path in (ROOT / "benchmarks").glob("*.py")} == TOY.keys() | ELSEWHERE


@pytest.mark.slow
@pytest.mark.parametrize("name", TOY)
def test_a_benchmark_runs_at_toy_size(name: str, datasets: Path, tmp_path: Path) -> None:
    if name == "sandbox" and not sandbox.tiers():
        pytest.skip("no sandbox holds on this machine")
    words, said = TOY[name]
    more = [f"--folder={tmp_path / 'made'}"] if name == "curation" else []
    done = subprocess.run(
        [sys.executable, f"benchmarks/{name}.py", *words.split(), *more],
        cwd=ROOT,
        env=os.environ | {"R1FLOW_DATASETS": str(datasets)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert said in done.stdout
