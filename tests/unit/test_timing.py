"""About how long a run takes: the longest chain or the cores decide, other CPUs are slower in proportion."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from r1flow.engine import telling, timing
from r1flow.engine.plan import COMPUTE, FOLLOW, KEEP, RESTORE, Step
from r1flow.engine.run import Run
from r1flow.engine.telling import Telling
from r1flow.engine.timing import Schedule, estimated_seconds, in_minutes, measured_speed, schedule
from r1flow.model.precision import multiplies_bfloat16
from r1flow.programs.cost_estimate import ASSUMPTIONS, Cost, read_assumptions

ROOT = Path(__file__).parents[2]
ASSUMED = read_assumptions(ROOT / ASSUMPTIONS)
# data → base → zero_rl, and a student that reads data alone
READS = {"data": [], "base": ["data"], "zero_rl": ["base", "data"], "student": ["data"]}
SECONDS = {"data": 10.0, "base": 100.0, "zero_rl": 60.0, "student": 30.0}
ALONE = dict.fromkeys(READS, 1)


@pytest.mark.parametrize(
    ("cores", "threads", "done", "seconds"),
    [
        (8, ALONE, (), 170),  # data, base and zero_rl, one after the other
        (2, ALONE, (), 170),
        (1, ALONE, (), 200),  # all of them
        (2, {**ALONE, "base": 2, "zero_rl": 2}, (), 180),  # both cores for base and zero_rl, one for the others
        (1, {**ALONE, "base": 2}, (), 200),  # a job never holds more cores than there are
        (8, ALONE, ("data", "base"), 60),
        (1, ALONE, ("data", "base"), 90),
        (8, ALONE, tuple(READS), 0),
    ],
)
def test_a_run_takes_its_longest_chain_or_all_its_work_over_the_cores(cores, threads, done, seconds):
    assert Schedule(SECONDS, READS, threads, cores).left(done) == seconds


def test_the_rest_goes_at_the_pace_of_what_is_done_once_that_is_enough_to_tell():
    plan = Schedule(SECONDS, READS, ALONE, 8)
    assert plan.pace({}) == 1 and plan.pace({"data": 50.0}) == 1  # 10 of 200 seconds
    assert plan.pace({"data": 20.0, "base": 200.0}) == 2
    assert plan.left(("data", "base"), pace=2) == 120


def made_run(steps: list[Step], cores: int = 1) -> SimpleNamespace:
    flops = 50 * ASSUMED["core_gflops"][5e5] * 1e9  # what takes a core 50 seconds
    costs = [Cost(step.job, parameters=1e6, training=flops, cores=cores) for step in steps]
    return SimpleNamespace(root=ROOT, steps=steps, costs=costs, inputs=lambda job: {"data": "data"})


def test_what_ran_here_counts_with_its_time_and_the_rest_is_estimated_by_this_cpus_speed(monkeypatch):
    monkeypatch.setattr(timing, "measured_speed", lambda assumed: 0.5)
    steps = [Step("data", KEEP), Step("base", COMPUTE, seconds=7.0), Step("zero_rl", FOLLOW), Step("distill", RESTORE)]
    found = schedule(made_run(steps), 2)
    assert found.seconds == {"base": 7.0, "zero_rl": 2 * (50 + ASSUMED["start_seconds"])}
    assert found.cores == 2 and found.threads == {"base": 1, "zero_rl": 1}


def test_the_cpus_speed_is_measured_only_for_a_job_that_never_ran_here(monkeypatch):
    monkeypatch.setattr(timing, "measured_speed", lambda assumed: pytest.fail("it was measured"))
    assert schedule(made_run([Step("base", COMPUTE, seconds=7.0), Step("zero_rl", KEEP)]), 2).seconds == {"base": 7.0}


def test_nothing_is_said_of_jobs_that_a_gpu_computes():
    assert schedule(made_run([Step("base", COMPUTE)], cores=0)) is None


def test_a_job_of_unknown_work_counts_with_its_start_and_more_threads_divide_the_work():
    unknown = Cost("reward_model", parameters=1e6, training=float("nan"), cores=1)
    assert estimated_seconds(unknown, ASSUMED, 1.0) == ASSUMED["start_seconds"]
    work = Cost("base", parameters=1e8, training=150e9 * 100, cores=2)
    assert estimated_seconds(work, ASSUMED, 1.0) == pytest.approx(ASSUMED["start_seconds"] + 50)


def test_a_core_of_this_machine_multiplies_matrices_and_without_bfloat16_counts_for_less(monkeypatch):
    monkeypatch.setattr(timing, "multiplies_bfloat16", lambda: True)
    fast = measured_speed(ASSUMED | {"float32_gflops": 1.0})  # so the speed is this core's GFLOP/s
    assert 0.1 < fast < 10_000
    monkeypatch.setattr(timing, "multiplies_bfloat16", lambda: False)
    assert measured_speed(ASSUMED | {"float32_gflops": 1.0, "float32_share": 1e-6}) < fast / 1000


def test_where_the_speed_cannot_be_measured_no_minutes_are_said_and_nothing_fails(monkeypatch, tmp_path):
    monkeypatch.setattr(timing, "MULTIPLY", "import nothing_of_this_name")
    assert measured_speed(ASSUMED) is None and schedule(made_run([Step("base", COMPUTE)])) is None
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    assert measured_speed(ASSUMED) is None


def test_torch_and_a_plan_without_torch_say_the_same_of_bfloat16():
    assert multiplies_bfloat16() == torch.cpu._is_avx512_bf16_supported()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(20, "less than a minute"), (80, "about a minute"), (500, "about 8 minutes"), (9000, "about 2.5 hours")],
)
def test_seconds_are_told_in_round_words(seconds, words):
    assert in_minutes(seconds) == words


@pytest.fixture
def telling_of(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def made(steps: list[Step], planned: dict[str, float] | None) -> Telling:
        run = Run.compose(ROOT, "r1_tiny", "stages=[data,base]", "mine")
        run.steps = steps
        plan = Schedule(planned, READS, ALONE, 2) if planned else None
        monkeypatch.setattr(telling, "schedule", lambda run, cores: plan)
        return Telling(run)

    return made


def test_a_run_begins_with_what_there_is_to_do(telling_of, monkeypatch):
    steps = [Step("data", COMPUTE), Step("base", COMPUTE), Step("report", RESTORE)]
    said = telling_of(steps, {"data": 1e3, "base": 2e3})
    monkeypatch.setattr(telling, "multiplies_bfloat16", lambda: True)
    first = said.opening(2)
    assert first.startswith("results/mine of the experiment r1_tiny: 3 jobs, about 50 minutes on 2 cores; curves: ")
    monkeypatch.setattr(telling, "multiplies_bfloat16", lambda: False)
    assert "computes in float32; experiment=r1_micro takes minutes, and gives no verdicts" in said.opening(1)


def test_a_run_says_how_far_it_is_once_each_time(telling_of, tmp_path, monkeypatch):
    said = telling_of([Step("data", COMPUTE), Step("base", COMPUTE)], {"data": 1e3, "base": 2e3})
    said.opening(2)
    live = tmp_path / "lock"
    live.touch()
    monkeypatch.setattr("r1flow.engine.run.live_lock", lambda run: live)
    folder = tmp_path / "results/mine"
    (folder / "base").mkdir(parents=True)
    (folder / "base/manifest.json").touch()  # of an earlier run
    os.utime(live, (time.time() + 60,) * 2)
    assert said.progress() == ""
    os.utime(live, (0, 0))
    (folder / "base/manifest.json").unlink()
    assert said.progress() == ""
    (folder / "data").mkdir()
    (folder / "data/cost.json").write_text('{"seconds": 2000.0, "peak_mb": 1}')
    (folder / "data/manifest.json").touch()
    assert said.progress() == "1 of 2 jobs are done, about 67 minutes left" and said.progress() == ""
    (folder / "base/manifest.json").touch()
    assert said.progress() == ""


def test_a_run_on_gpus_begins_without_minutes(telling_of):
    said = telling_of([Step("base", COMPUTE)], None)
    assert said.opening(4).startswith("results/mine of the experiment r1_tiny: 1 job; curves: ")
    assert said.progress() == ""
