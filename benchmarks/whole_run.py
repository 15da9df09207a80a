"""The whole workflow with our rollout engine and with plain TRL, one after the other: seconds of each stage.

Plain TRL is `engine: transformers` everywhere (generate in rollouts, rejection and evaluation), sdpa attention, one
pass per update and no curve on dev problems, which only our engine draws. Both runs are made in a copy of the
workflow, so nothing of the checkout's results is touched.
"""

import argparse
import json
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
PARTS = ("Snakefile", "conf", "workflow", "profiles", "environment.yml")
RL = ("zero_rl", "reasoning_rl", "align_rl", "student_rl")


def copy_workflow(folder: Path) -> None:
    """What a run needs, into a folder where its results can be."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copyfile
        copy(ROOT / part, folder / part)


def plain(batch: int) -> str:
    """The overrides that turn everything of ours off; `batch` completions in one pass."""
    engines = [f"{stage}.engine=transformers" for stage in (*RL, "rejection", "evaluate")]
    passes = [f"{stage}.trainer.gradient_accumulation_steps=1" for stage in RL]
    batches = [f"{stage}.trainer.per_device_train_batch_size={batch}" for stage in RL]
    rest = [f"{stage}.{word}" for stage in RL for word in ("attention=sdpa", "dev=null")]
    return " ".join([*engines, *passes, *batches, *rest])


def cpu_seconds() -> float:
    """What the finished processes under this one have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(folder: Path, name: str, experiment: str, overrides: str) -> tuple[dict[str, float], dict[str, float]]:
    """Wall and CPU seconds of a run, and the wall seconds of each of its stages."""
    begin, used = time.perf_counter(), cpu_seconds()
    words = [f"experiment={experiment}", f"overrides={overrides}", f"run={name}"]
    subprocess.run(["snakemake", "--cores", "all", "--config", *words], cwd=folder, check=True)
    costs = json.loads((folder / f"results/{name}/report/costs.json").read_text())
    whole = {"whole run": time.perf_counter() - begin, "whole run, CPU": cpu_seconds() - used}
    return whole, {stage: cost["seconds"] for stage, cost in costs.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--experiment", default="r1_tiny", help="which experiment (r1_micro: 4 minutes; r1_tiny: half an hour)"
    )
    parser.add_argument("--batch", type=int, default=64, help="completions an update of that experiment (r1_micro: 16)")
    parser.add_argument("--overrides", default="", help="of both runs: stages=[data,base,zero_rl,evaluate,report]")
    arguments = parser.parse_args()
    both = arguments.overrides
    with tempfile.TemporaryDirectory() as folder:
        copy_workflow(Path(folder))
        ours, our_stages = run(Path(folder), "ours", arguments.experiment, both)
        shutil.rmtree(Path(folder) / ".memo")  # else the second run takes the stages that both share from the store
        theirs, their_stages = run(Path(folder), "plain", arguments.experiment, f"{both} {plain(arguments.batch)}")
    print(f"{'stage':32}{'ours, s':>10}{'plain TRL, s':>14}{'ratio':>8}")
    for name, seconds in (our_stages | ours).items():
        other = (their_stages | theirs)[name]
        print(f"{name:32}{seconds:10.1f}{other:14.1f}{other / max(seconds, 0.1):8.2f}")


if __name__ == "__main__":
    main()
