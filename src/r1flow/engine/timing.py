"""About how long a run takes on this CPU: said before it starts, and while it goes on.

    22 jobs, about 9 minutes on 2 cores

A job that ran here before counts with the seconds that it took last. Any other counts with its FLOPs
(programs/cost_estimate.py) at the speed of this CPU's cores, and with the start of its process. The speed in
conf/costs.yaml is that of one CPU; how fast another one is, a product of two matrices tells within a second. Left out:
GPUs and clusters, whose speed nobody can measure before a job holds them; other work on this machine.
"""

import math
import os
import subprocess
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from r1flow.model.precision import multiplies_bfloat16
from r1flow.programs.cost_estimate import ASSUMPTIONS, Cost, read_assumptions

if TYPE_CHECKING:
    from r1flow.engine.run import Run

# In a process of its own, since the number of threads is fixed when numpy is imported: GFLOP/s of a core in float32.
MULTIPLY = """
import time
import numpy as np

matrix, best, end = np.ones((256, 256), np.float32), float("inf"), time.perf_counter() + 0.5
while time.perf_counter() < end:  # the best of hundreds, since something else may run beside it
    begin = time.perf_counter()
    matrix @ matrix
    best = min(best, time.perf_counter() - begin)
print(2 * 256**3 / best / 1e9)
"""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "VECLIB_MAXIMUM_THREADS": "1"}
ENOUGH = 0.2  # of the expected seconds: before that, what has been done says little about the pace


@dataclass(frozen=True)
class Schedule:
    """The jobs that a run computes, in dataflow order, with the seconds that are expected of each."""

    seconds: Mapping[str, float]
    reads: Mapping[str, Collection[str]]  # which other jobs a job reads
    threads: Mapping[str, int]  # how many cores each job holds
    cores: int

    def left(self, done: Collection[str] = (), pace: float = 1.0) -> float:
        """Seconds until all is done: of the longest chain of jobs, or of all jobs over the cores if that is more."""
        ends: dict[str, float] = {}
        for job, seconds in self.seconds.items():
            if job not in done:
                ends[job] = seconds + max((ends.get(other, 0) for other in self.reads[job]), default=0)
        # In core-seconds, so that jobs of several threads count as often.
        held = sum(self.seconds[job] * min(self.threads[job], self.cores) for job in ends)
        return pace * max(max(ends.values(), default=0), held / self.cores)

    def pace(self, took: Mapping[str, float]) -> float:
        """How much longer the finished jobs took than was expected; 1 while they are too few to tell."""
        expected = sum(self.seconds[job] for job in took)
        return sum(took.values()) / expected if expected > ENOUGH * sum(self.seconds.values()) else 1.0


def schedule(run: "Run", cores: int | None = None) -> Schedule | None:
    """The run's schedule on so many cores of this machine (default: all).

    None if a GPU computes any of its jobs, or if the speed of this CPU can't be measured.
    """
    steps = [step for step in run.steps if step.may_compute]
    costs = {cost.job: cost for cost in run.costs}
    if any(costs[step.job].cores == 0 for step in steps):
        return None
    assumed = read_assumptions(run.root / ASSUMPTIONS)
    speed = measured_speed(assumed) if any(step.seconds is None for step in steps) else 1.0
    if speed is None:
        return None
    seconds = {}
    for step in steps:
        seconds[step.job] = step.seconds or estimated_seconds(costs[step.job], assumed, speed)
    reads = {job: run.inputs(job).values() for job in seconds}
    threads = {job: costs[job].cores for job in seconds}
    return Schedule(seconds, reads, threads, cores or os.cpu_count() or 1)


def estimated_seconds(cost: Cost, assumed: dict[str, Any], speed: float) -> float:
    """Seconds of a job that never ran here, if the cores have `speed` times the speed that is assumed."""
    computing = 3600 * cost.cpu_hours(assumed) / cost.cores
    return (assumed["start_seconds"] + (0.0 if math.isnan(computing) else computing)) / speed


def measured_speed(assumed: dict[str, Any]) -> float | None:
    """How fast a core is, as a multiple of the one of conf/costs.yaml; None if that can't be measured."""
    command = [sys.executable, "-c", MULTIPLY]
    try:
        done = subprocess.run(command, env=os.environ | ONE_THREAD, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):  # no memory for it, or numpy can't start: nothing that stops a run
        return None
    speed = float(done.stdout) / assumed["float32_gflops"]
    return speed if multiplies_bfloat16() else speed * assumed["float32_share"]


def in_minutes(seconds: float) -> str:
    """less than a minute, about 9 minutes, about 2.5 hours."""
    if seconds < 60:
        return "less than a minute"
    if seconds < 90:
        return "about a minute"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} minutes"
    return f"about {seconds / 3600:.1f} hours"
