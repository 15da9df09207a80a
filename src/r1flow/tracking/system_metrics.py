"""How busy the machine is while a stage computes: CPU, memory and the stage's GPUs, as lines of its tracking record.

Its process and all processes below it, such as the ranks of a training, count as the stage's:

    {"kind": "metrics", "time": 1795240531177, "step": 3, "values": {"system/cpu_utilization_percentage": 97.1,
     "system/process_memory_megabytes": 812.4, "system/gpu_0_utilization_percentage": 88.0, …}}

The names are those of MLflow's own system metrics, so its UI shows them on a page of their own; MLflow isn't imported
for it (2 s and 100 MB a stage). GPUs are read through nvidia-smi, a part of the driver. MLflow's variables apply:
MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING=false turns it off, MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL is in seconds. A stage
that ends before its first sample has one of its end. Left out: disks, networks, other makers' GPUs.
"""

import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import NamedTuple, Self

INTERVAL = "MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL"
EVERY_S, SHORTEST_S = 10.0, 0.05  # the first is MLflow's own default
END_WAIT_S = 2.0  # for a sample that is being taken; nvidia-smi may hang
SMI = ("nvidia-smi", "--query-gpu=utilization.gpu,memory.used,memory.total,power.draw", "--format=csv,noheader,nounits")
MIB = 2**20 / 1e6  # nvidia-smi's unit, in megabytes


def start_sampling(record: Callable[[int, dict[str, float]], None]) -> "Sampling | None":
    """Call `record(step, values)` every so often, in a thread, until `end()`; None when it is turned off."""
    if os.environ.get("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", "").lower() in ("false", "0"):
        return None
    return Sampling(record, every_s())


def every_s() -> float:
    word = os.environ.get(INTERVAL) or str(EVERY_S)
    with suppress(ValueError):
        if 0 < (seconds := float(word)) <= threading.TIMEOUT_MAX:
            return max(SHORTEST_S, seconds)
    print(f"r1flow: tracking: {INTERVAL}={word} is no number of seconds; {EVERY_S:g} is taken", file=sys.stderr)
    return EVERY_S


class Sampling:
    """A thread that samples the machine; the first sample is of the time since the beginning."""

    def __init__(self, record: Callable[[int, dict[str, float]], None], every: float) -> None:
        self.record, self.every, self.ended = record, every, threading.Event()
        self.begun = Used(time.monotonic(), sum(os.times()[:4]), 0)
        self.thread = threading.Thread(target=self.sample, name="system metrics", daemon=True)
        self.thread.start()

    def sample(self) -> None:
        step, used = 0, self.begun
        while not (is_over := self.ended.wait(self.every)) or step == 0:
            import psutil  # 30 ms, which a stage pays after its beginning

            step += 1
            before, used = used, Used.now(psutil)
            values = machine(psutil) | used.since(before) | gpus(timeout=self.every)
            if step == 1:
                del values["cpu_utilization_percentage"]  # psutil counts it from its first call
            self.record(step, {f"system/{name}": round(value, 1) for name, value in values.items()})
            if is_over:
                break

    def end(self) -> None:
        self.ended.set()
        self.thread.join(END_WAIT_S)


def machine(psutil: ModuleType) -> dict[str, float]:
    memory = psutil.virtual_memory()
    return {
        "cpu_utilization_percentage": psutil.cpu_percent(),
        "system_memory_usage_megabytes": memory.used / 1e6,
        "system_memory_usage_percentage": memory.percent,
    }


class Used(NamedTuple):
    """What this process and all below it (ranks, workers, sandboxes) had used at one moment."""

    at_s: float
    cpu_s: float  # including that of processes that have ended
    memory: int  # resident bytes; a page that several processes share counts in each

    @classmethod
    def now(cls, psutil: ModuleType) -> Self:
        cpu_s, memory, process = 0.0, 0, psutil.Process()
        for one in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):  # it has just ended, and its parent has its seconds
                memory += one.memory_info().rss
                # Its own and its ended children's, user and system.
                cpu_s += sum(one.cpu_times()[:4])
        return cls(time.monotonic(), cpu_s, memory)

    def since(self, before: Self) -> dict[str, float]:
        """The use since then, as metrics; 100 % is one core."""
        share = (self.cpu_s - before.cpu_s) / (self.at_s - before.at_s)
        return {"process_cpu_percentage": 100 * max(0.0, share), "process_memory_megabytes": self.memory / 1e6}


def gpus(timeout: float) -> dict[str, float]:
    """The devices that this process sees, numbered as in torch; empty without any, or if nvidia-smi can't tell."""
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if seen == "":  # a stage on the CPU
        return {}
    try:
        command = [*SMI, f"--id={seen}"] if seen else SMI
        output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=timeout).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    lines = [list(map(device_number, line.split(", "))) for line in output.splitlines()]
    metrics = {}
    for number, line in enumerate(lines):
        for name, value in gpu(*line).items():
            if not math.isnan(value):
                metrics[f"gpu_{number}_{name}"] = value
    return metrics


def gpu(utilization: float, used: float, total: float, power: float) -> dict[str, float]:
    return {
        "utilization_percentage": utilization,
        "memory_usage_megabytes": used * MIB,
        "memory_usage_percentage": 100 * used / total,
        "power_usage_watts": power,
    }


def device_number(word: str) -> float:
    """NaN for what a device doesn't report: [N/A]."""
    try:
        return float(word)
    except ValueError:
        return float("nan")
