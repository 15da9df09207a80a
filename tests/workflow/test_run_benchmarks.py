"""The benchmarks of whole runs, at toy size: they run to their end and print their figures."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def printed(name: str, *words: str) -> str:
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_what_exact_reruns_cost(copy):
    assert printed("bookkeeping", str(copy.folder / "results/r1_micro")).startswith("22 stages, ")


@pytest.mark.slow
def test_a_whole_run_beside_one_of_plain_trl():
    stages = "stages=[data,base,zero_rl,evaluate,report]"
    said = printed("whole_run", "--experiment=r1_micro", "--batch=16", f"--overrides={stages}")
    rows = {line.rpartition("  ")[0].split()[0] for line in said.splitlines()}
    assert {"data", "base", "zero_rl", "evaluate/zero_rl", "whole"} <= rows
