"""The benchmarks of whole runs, at toy size: they run to their end and print their figures."""

import shutil
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


@pytest.mark.slow
def test_mlflow_s_tables_are_there_as_fast_with_more_runs_than_a_page_has():
    """It reads a page's worth; what grows with all runs would be felt at hundreds. Curves do, of each that is shown."""
    pytest.importorskip("playwright", reason="playwright isn't installed; pip install -c constraints.txt -e .[test]")
    if not shutil.which("chromium"):
        pytest.skip("Chromium isn't installed; apt-get install chromium")
    said = printed("many_runs", "--executions=12", "--keys=2", "--steps=50")
    ratios = {line[:12].strip(): float(line.split()[-2]) for line in said.splitlines() if line.endswith("×")}
    assert ratios.keys() == {"search", "all runs", "Executions", "Stages", "RL", "Models", "ten runs"}
    assert max(ratios[page] for page in ("all runs", "Executions", "Stages", "Models", "ten runs")) < 5
