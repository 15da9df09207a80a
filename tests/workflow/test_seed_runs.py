"""Two seeds of the recipe at micro size, through the command."""

import os
import subprocess
import sys

import pytest
from checkout import Checkout, wait_for_delivery

from r1flow.artifacts.manifest import read_json

SEEDS = (11, 12)


def run_seeds(checkout: Checkout) -> str:
    command = [sys.executable, "-m", "r1flow.commands.cli", "seeds", "r1_micro", "--seeds", *map(str, SEEDS)]
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("MLFLOW", "R1FLOW"))}
    done = subprocess.run(command, cwd=checkout.folder, capture_output=True, text=True, env=clean)
    wait_for_delivery(checkout.folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_seeds_are_ordinary_runs_with_one_report_and_the_second_time_there_is_nothing_to_do(empty_checkout):
    run_seeds(empty_checkout)
    results = empty_checkout.folder / "results"
    runs = [results / f"r1_micro-s{seed}" for seed in SEEDS]
    claims = read_json(results / "r1_micro-seeds/summary.json")["claims"]
    own = [read_json(run / "report/summary.json")["claims"] for run in runs]
    for name, claim in claims.items():
        for i, part in enumerate(claim["parts"]):
            assert part["values"] == [told[name]["parts"][i]["estimate"] for told in own]
    assert claims["C1"]["verdict"] == "no verdict" and claims["C1"]["parts"][0]["n"] == len(SEEDS)
    assert len({(run / "base/manifest.json").read_bytes() for run in runs}) == len(SEEDS)
    assert not (empty_checkout.folder / "data").exists()  # that is the pinned data's place

    before = {path.name: path.read_bytes() for path in (results / "r1_micro-seeds").iterdir()}
    assert run_seeds(empty_checkout).count("Nothing to be done") == len(SEEDS)
    assert {path.name: path.read_bytes() for path in (results / "r1_micro-seeds").iterdir()} == before
