"""Two runs at once in one folder: their bytes are those of one after the other, and what both need is computed once."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from checkout import Checkout, checkout, wait_for_delivery

from r1flow.artifacts.manifest import MANIFEST

STAGES = "stages=[data,base,zero_rl]"
OVERRIDES = {
    "two": f"{STAGES} zero_rl.trainer.learning_rate=1e-4",
    "three": f"{STAGES} zero_rl.trainer.learning_rate=2e-4",
}


def run(folder: Checkout, name: str) -> None:
    done = folder.snakemake(run=name, overrides=OVERRIDES[name])
    assert done.returncode == 0, done.stdout + done.stderr


def manifests(folder: Checkout) -> dict[str, bytes]:
    results = folder.folder / "results"
    return {str(path.relative_to(results)): path.read_bytes() for path in results.rglob(MANIFEST)}


@pytest.mark.slow
def test_two_runs_at_once_end_as_one_after_the_other(tmp_path):
    together, apart = checkout(tmp_path / "together"), checkout(tmp_path / "apart")
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(partial(run, together), OVERRIDES))
    for name in OVERRIDES:
        run(apart, name)
    wait_for_delivery(together.folder)
    wait_for_delivery(apart.folder)
    assert manifests(together) == manifests(apart)
    stored = [path.parts[-3] for path in together.folder.glob(f".memo/*/*/{MANIFEST}")]
    assert Counter(stored) == {"data": 1, "base": 1, "zero_rl": 2}
    made = [(together.folder / f"results/{name}/base/cost.json").read_bytes() for name in OVERRIDES]
    assert made[0] == made[1], "it was computed twice"
