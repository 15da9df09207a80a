"""The suite of abuse: what model-written solutions may try, and that none of it pays, lasts, leaks or stays behind.

Every case is a solution. One that tries to get out prints 16, the right answer, only if it succeeds; one that cheats
doesn't know the answer. So a reward above 0 is a hole. Each case runs through the reward that training uses, in every
tier that holds on this machine (the second one with the slow tests), and `judged` looks at the host before and after.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from r1flow import sandbox
from r1flow.rewards import code_tests
from r1flow.sandbox import Limits, Tier
from r1flow.sandbox.process import GRACE_S

QUESTION = [{"input": "4\n", "output": "16\n"}]
TIGHT = Limits(cpu_s=1, wall_s=1.0, memory_mb=256)  # for solutions that go on until they are stopped
ROOMY = Limits(cpu_s=5, wall_s=30)  # for solutions that end by themselves, on a busy machine too
MARK = "r1flow-abuse"  # in the names of all files that a solution tries to make
SMALL_DISK = "r1flow-small-disk"  # the mounts of tests/workflow/test_trouble.py, which may run at the same time
FOLDERS = ("/", "/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", str(Path.home()), ".")

Judge = Callable[..., float | None]


def judged(solution: str, tier: Tier, tests: Any = QUESTION, limits: Limits = ROOMY) -> float | None:
    """The reward of one solution, after which the host must be as it was."""
    with clean_host(), bounded_time(limits):
        return code_tests(limits=limits, tier=tier)(["p"], [f"```python\n{solution}\n```"], tests=[tests])[0]


@contextmanager
def clean_host() -> Iterator[None]:
    before = state()
    yield
    new = {kind: found - before[kind] for kind, found in state().items()}
    assert not any(new.values()), new
    strays = [str(path) for folder in FOLDERS for path in Path(folder).glob(f"*{MARK}*")]
    assert not strays, "a solution wrote files"


def state() -> dict[str, set[Any]]:
    """What a run could leave: processes below us or of the solutions' users, mounts, descriptors, threads, segments."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return {
        "processes": processes(),
        "mounts": {mount for mount in mounts if f" {SMALL_DISK} " not in mount},
        "descriptors": set(os.listdir("/proc/self/fd")),
        "threads": set(threading.enumerate()),
        "segments": segments(),
    }


def uids() -> set[int]:
    """Those that our solutions run as: of their own when we are root, else ours."""
    if os.geteuid():
        return {os.geteuid()}
    return {sandbox.free_uid(os.getpid() * sandbox.workers() + slot) for slot in range(sandbox.workers())}


def segments() -> set[str]:
    """Shared memory, semaphores and queues that our solutions made; a database beside these tests has some, too."""
    found = set()
    for kind in ("shm", "sem", "msg"):
        names, *rows = (line.split() for line in Path(f"/proc/sysvipc/{kind}").read_text().splitlines())
        found |= {f"{kind} {row[1]}" for row in rows if int(row[names.index("cuid")]) in uids()}
    return found


def processes() -> set[int]:
    """Our children and theirs, and all that has a uid which our solutions run as when we are root."""
    parents, found, theirs = {}, {os.getpid()}, uids() if os.geteuid() == 0 else set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit():
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if entry.stat().st_uid in theirs:
                    found.add(int(entry.name))
        except OSError:  # it ended meanwhile
            continue
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


@contextmanager
def bounded_time(limits: Limits) -> Iterator[None]:
    """Two runs, of the compiler and of the solution, the time that a kill may take, and a minute for a busy machine."""
    started = time.monotonic()
    yield
    assert time.monotonic() - started < 2 * (limits.wall_s + GRACE_S) + 60
