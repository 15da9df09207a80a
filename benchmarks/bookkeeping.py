"""What exact reruns cost: fingerprints, manifests and the store, as a share of a finished run's computing.

    python benchmarks/bookkeeping.py results/r1_tiny

For every stage of the run it does again what the driver does around the program (hash the inputs, fingerprint the
code, describe the outputs, copy them into a store), in one process and from cold caches, and compares the
time with the seconds that the stages took (cost.json). Then it times a plan.
"""

import os
import shutil
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from r1flow.artifacts import contract, fingerprint, manifest, provenance, store
from r1flow.core.files import read_yaml
from r1flow.engine.plan import plan
from r1flow.engine.run import Run


def folders(run: Path) -> list[Path]:
    data = [] if (run / "data").is_dir() else [run.parent.parent / "data"]
    return data + sorted(path.parent for path in run.rglob(manifest.MANIFEST))


def keep_books(run: Path, folder: Path) -> None:
    """What the driver does for a stage beside running its program."""
    made = manifest.read_json(folder / manifest.PROVENANCE)
    fingerprint.code_of(made["program"], read_yaml(folder / "config.yaml"))
    for entry in made["inputs"].values():
        if "stage" in entry:
            own = run / entry["stage"]
            provenance.identify_input(own if own.is_dir() else run.parent.parent / "data")
    contract.contract_of(folder)
    manifest.manifest_of_files(made["stage"], folder)
    store.store_outputs(made["stage"], made["identity"], folder)


def main() -> None:
    run = Path(sys.argv[1]).resolve()
    stages = folders(run)
    computing = sum(manifest.read_json(folder / "cost.json")["seconds"] for folder in stages)
    with TemporaryDirectory() as empty:
        os.chdir(empty)
        begin = time.perf_counter()
        for folder in stages:
            keep_books(run, folder)
        books = time.perf_counter() - begin
    os.chdir(run.parent.parent)
    shutil.rmtree(manifest.HASHES, ignore_errors=True)
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        plan(Run.compose(Path(), experiment_of(run)))
        times.append(time.perf_counter() - begin)
    print(f"{len(stages)} stages, {computing:.0f} s of computing; bookkeeping {books:.2f} s: {books / computing:.2%}")
    print(f"a plan: {times[0]:.2f} s with nothing remembered, then median {sorted(times)[2]:.2f} s")


def experiment_of(run: Path) -> str:
    """A run has its experiment's name unless it was named; then say which: EXPERIMENT=r1_tiny."""
    return os.environ.get("EXPERIMENT", run.name)


if __name__ == "__main__":
    main()
