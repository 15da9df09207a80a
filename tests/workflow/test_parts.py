"""Shards of a stage sampled by several jobs: the same bytes however many, killed or not, and none without need."""

import json
import re
import shutil
from dataclasses import dataclass

import pytest
from checkout import Checkout
from test_kills import edges

from r1flow.programs.samplings import sampled_stages

# r1_micro has one shard a stage. Here: six to sample from, three to examine, and few stages.
FEW = (
    "stages=[data,base,rejection,evaluate,report] rejection.init_from=base rejection.batch_size=16 "
    "rejection.shard_size=16 evaluate.batch_size=32 evaluate.shard_size=32"
)


@dataclass
class Scattered(Checkout):
    """A checkout whose runs sample every stage in so many parts."""

    parts: int

    def snakemake(self, *arguments: str, **words):
        scatter = [f"{stage}={self.parts}" for stage in sampled_stages()]
        return super().snakemake("--set-scatter", *scatter, *arguments, **words)

    def planned_parts(self, **words) -> list[str]:
        """The parts that a dry-run would start: `rejection 1-of-2`."""
        found = re.findall(r"r1flow-stage \S+ (\S+) .*--part (\S+)", self.commands(**words))
        return sorted(map(" ".join, found))

    def commands(self, *arguments: str, **words) -> str:
        """What a dry-run prints of the commands that it would start."""
        done = self.snakemake("--dry-run", "--quiet", "all", "--printshellcmds", *arguments, **words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def test_only_what_is_computed_has_parts(copy):
    one, two = (Scattered(copy.folder, parts) for parts in (1, 2))
    shutil.rmtree(copy.folder / "results/r1_micro/rejection")
    assert two.planned_parts() == []  # it comes from the store
    shutil.rmtree(copy.folder / ".memo/rejection")
    # Of the models that follow it is known too late whether they come out different.
    jobs = ["evaluate/align_rl", "evaluate/distill", "evaluate/sft_mix", "rejection"]
    assert two.planned_parts() == [f"{job} {part}" for job in jobs for part in ("1-of-2", "2-of-2")]
    assert one.planned_parts() == []


def test_a_part_holds_as_many_gpus_as_its_stage_also_by_an_expression(copy):
    shutil.rmtree(copy.folder / "results/r1_micro/rejection")
    shutil.rmtree(copy.folder / ".memo/rejection")
    said = Scattered(copy.folder, parts=2).commands("--set-resources", "rejection:gpu=3*attempt")
    assert re.findall(r"r1flow-stage \S+ rejection .*--gpus (\S+) --(part|out)", said).count(("3", "part")) == 2


@pytest.mark.slow
def test_a_run_in_parts_is_the_run_in_one_and_what_the_store_has_is_not_sampled_again(copy, micro):
    """Two evaluations and the rejection sampling are lost; what follows the latter starts and finds nothing to do."""
    for job in ("rejection", "evaluate/base", "evaluate/zero_rl"):
        shutil.rmtree(copy.folder / "results/r1_micro" / job)
        shutil.rmtree(copy.folder / ".memo" / job)
    two = Scattered(copy.folder, parts=2)
    done = two.snakemake()
    assert done.returncode == 0, done.stderr
    assert edges(copy.folder) == edges(micro.folder)
    found = re.findall(r"(\S+ \d-of-2)\] nothing to sample: the store has this stage", done.stderr)
    assert sorted(found) == [
        f"evaluate/{model} {n}-of-2" for model in ("align_rl", "distill", "sft_mix") for n in (1, 2)
    ]
    assert two.planned_parts() == [] and two.planned() == set()
    left = [path.name for path in (copy.folder / "scratch/r1_micro").rglob("*") if path.is_file()]
    assert set(left) <= {"lock", "live.lock"}


@pytest.mark.slow
def test_a_part_killed_in_its_second_shard_goes_on_there_to_the_bytes_of_one_job(copy, tmp_path):
    whole = Checkout(shutil.copytree(copy.folder, tmp_path / "whole", symlinks=True))
    assert whole.snakemake(overrides=FEW).returncode == 0
    three = Scattered(copy.folder, parts=3)
    kill = {"stage": "rejection 3-of-3", "event": "save", "n": 2, "victim": "stage", "flag": str(tmp_path / "killed")}
    done = three.snakemake(overrides=FEW, hooks={"HOOK_KILL": json.dumps([kill])})
    assert done.returncode != 0 and (tmp_path / "killed").exists() and "rejection] started" not in done.stderr
    done = three.snakemake(overrides=FEW)
    assert done.returncode == 0, done.stderr
    told = re.findall(r"rejection (\S+)\] (\d+/\d+.*)", done.stderr)
    told = [line for part, line in told if part == "3-of-3"]  # others may not have begun before it was killed
    assert "16/32  step read back" in told
    assert [line for line in told if "read back" not in line] == ["32/32"]
    assert edges(copy.folder) == edges(whole.folder)
    assert three.planned(overrides=FEW) == set()
