"""Work side by side: in order, no more of it held than is said; errors come back."""

import os
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from pathlib import Path

import psutil
import pytest

from r1flow.core import processes
from r1flow.core.processes import MOST, in_order, ordered_map, shared


class Lazy:
    """An executor that does its tasks at once and remembers how many it was given."""

    def __init__(self) -> None:
        self.given = 0

    def submit(self, work, item) -> Future:
        self.given += 1
        done: Future = Future()
        done.set_result(work(item))
        return done


def test_items_are_taken_as_they_are_needed_and_results_keep_their_order() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    lazy = Lazy()
    found = in_order(lazy, str, items(), ahead=7)
    assert not taken
    assert [next(found) for _ in range(20)] == [str(number) for number in range(20)]
    assert lazy.given == len(taken) == 27
    assert list(found) == [str(number) for number in range(20, 100)]


@pytest.mark.parametrize("patience", [-1, 1000])
def test_an_error_in_any_process_is_the_callers(patience: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PATIENCE_S", patience)
    with pytest.raises(ValueError, match="invalid literal"), ordered_map() as each:
        list(each(int, ["1", "2", "x", "4"]))


def test_work_is_shared_once_it_has_taken_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that moves by a second for each item."""
    seconds = [0.0]
    monkeypatch.setattr(processes.time, "perf_counter", lambda: seconds[0])

    def work(item: int) -> str:
        seconds[0] += 1
        return str(item)

    lazy = Lazy()
    assert list(shared(lazy, work, range(100))) == [str(number) for number in range(100)]
    assert lazy.given == 100 - int(processes.PATIENCE_S) - 1
    quick = Lazy()
    assert list(shared(quick, str, range(100))) == [str(number) for number in range(100)]
    assert quick.given == 0


def test_as_many_processes_as_cores_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(processes, "pool", lambda workers: asked.append(workers) or nullcontext(Lazy()))
    for cores in ({5, 7}, set(range(64))):
        monkeypatch.setattr("os.sched_getaffinity", lambda _, cores=cores: cores)
        with ordered_map() as each:
            assert list(each(str, range(3))) == ["0", "1", "2"]
    assert asked == [2, MOST]


def faults(prepare: str) -> int:
    """Pages that the kernel hands to a process while it fills 64 MB ten times, after it has done so three times."""
    code = f"""
import resource
from r1flow.core.processes import keep_freed_memory
{prepare}
def fill(times):
    for _ in range(times):
        bytearray(2**26)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
print(-fill(3) + fill(10))
"""
    return int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library isn't glibc, which has mallopt")
def test_freed_memory_is_used_again() -> None:
    """A page is 4 to 64 kB."""
    assert faults("keep_freed_memory()") < 50 < 10 * 2**26 // 2**16 // 2 < faults("")


def first_shape_again(prepare: str) -> str:
    """What oneDNN says of the kernel of the first shape after 300 others: create:cache_hit or …_miss."""
    code = f"""
from r1flow.core.processes import keep_few_kernels
{prepare}
import torch
for rows in (32, *range(100, 400), 32):
    torch.ones(rows, 64, dtype=torch.bfloat16) @ torch.ones(64, 64, dtype=torch.bfloat16)
"""
    settings = {key: value for key, value in os.environ.items() if key != "ONEDNN_PRIMITIVE_CACHE_CAPACITY"}
    command, verbose = [sys.executable, "-c", code], settings | {"ONEDNN_VERBOSE": "2"}
    printed = subprocess.run(command, env=verbose, check=True, capture_output=True, text=True).stdout
    made = re.findall(r"create:cache_\w+", printed)
    return made[-1] if made else pytest.skip("oneDNN multiplies no bfloat16 on this processor")


def test_kernels_of_shapes_that_are_long_past_are_not_kept() -> None:
    assert first_shape_again("keep_few_kernels()") == "create:cache_miss"
    assert first_shape_again("") == "create:cache_hit"


KILLED = """
import os, signal
from concurrent.futures import wait

from r1flow.core.processes import pool

if __name__ == "__main__":
    with pool(2) as processes:
        wait([processes.submit(os.getpid) for _ in range(4)])
        print(*processes._processes, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_stage_takes_its_processes_along(tmp_path: Path) -> None:
    (tmp_path / "killed.py").write_text(KILLED)
    found = subprocess.run([sys.executable, str(tmp_path / "killed.py")], capture_output=True, text=True)
    assert found.returncode == -signal.SIGKILL and found.stdout.split(), found.stderr
    workers = []
    for pid in found.stdout.split():
        with suppress(psutil.NoSuchProcess):
            workers.append(psutil.Process(int(pid)))
    assert psutil.wait_procs(workers, timeout=60)[1] == []
