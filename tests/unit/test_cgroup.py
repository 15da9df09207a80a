"""Programs run in a control group of their own where one is delegated, and nothing is left of it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from r1flow import sandbox
from r1flow.sandbox import Limits, cgroup

TIERS = sandbox.tiers() or [pytest.param(None, marks=pytest.mark.skip(reason="no sandbox holds on this machine"))]
PYTHON = ["{python}", "-S", "{code}"]
MOUNTS = "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"
every_tier = pytest.mark.parametrize("tier", TIERS)


@pytest.mark.parametrize(
    ("groups", "mounts", "found"),
    [
        ("0::/user.slice/run-u42.service/main\n", MOUNTS, "/sys/fs/cgroup/user.slice/run-u42.service"),
        (
            "4:memory:/x\n0::/a/b\n",
            MOUNTS.replace("/sys/fs/cgroup", "/sys/fs/cgroup/unified"),
            "/sys/fs/cgroup/unified/a",
        ),
        ("0::/\n", MOUNTS, None),
        ("4:memory:/x\n", MOUNTS, None),
        ("0::/a/b\n", "proc /proc proc rw 0 0\n", None),
    ],
)
def test_the_group_that_ours_is_in(groups: str, mounts: str, found: str | None) -> None:
    assert cgroup.above(groups, mounts) == (found and Path(found))


def test_what_is_not_delegated_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "above", lambda groups, mounts: tmp_path)
    assert cgroup.delegated.__wrapped__() is None
    assert not list(tmp_path.iterdir())


@every_tier
def test_limits_are_set_before_the_program_is_let_in(
    tier: sandbox.Tier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a folder that only looks like one: what is written where, and that the program then runs as ever."""
    monkeypatch.setattr(cgroup, "delegated", lambda: tmp_path)
    limits = Limits(memory_mb=300, processes=5)
    result = sandbox.run(PYTHON, b"print(16)", limits=limits, tier=tier)
    assert (result.status, result.stdout) == (0, b"16\n")
    (made,) = tmp_path.iterdir()
    written = {file.name: file.read_text().strip() for file in made.iterdir()}
    assert written == {
        "memory.max": str(300 << 20),
        "memory.swap.max": "0",
        "pids.max": "9",
        "cgroup.procs": "0",
        "cgroup.kill": "1",
    }


# In a real one.

MEMBER = """
import os, sys, threading
from r1flow import sandbox
from r1flow.sandbox import Limits, cgroup
own, controllers = sys.argv[1], sys.argv[2].split()
with open(f"{own}/main/cgroup.procs", "w") as file:
    file.write("0")
kept = [f"{name}." for name in controllers]
settings = cgroup.settings
cgroup.CONTROLLERS = controllers
cgroup.settings = lambda limits: {k: v for k, v in settings(limits).items() if k.startswith(tuple(kept))}
"""
WATCHED = """
def watch():
    while not done.is_set():
        for name in os.listdir(own):
            if name.startswith("r1flow-"):
                try:
                    members.append(len(open(f"{own}/{name}/cgroup.procs").read().split()))
                except OSError:
                    pass
members, done = [0], threading.Event()
watcher = threading.Thread(target=watch)
watcher.start()
for _ in range(100):  # on a busy machine the time of a run may be up before it was looked at
    stopped = sandbox.run(["{python}", "-S", "{code}"], b"while True: pass", limits=Limits(wall_s=1.0)).stopped
    if max(members) > 1:
        break
done.set()
watcher.join()
print(stopped, max(members) > 1, [name for name in os.listdir(own) if name.startswith("r1flow-")])
"""
HUNGRY = """
program = b"import os; os.fork(); os.fork(); x = bytearray(100 << 20); x[::4096] = b'x' * len(x[::4096]); print(16)"
print(sandbox.run(["{python}", "-S", "{code}"], program, limits=Limits(memory_mb=256)).stdout.count(b"16") < 4)
"""


@pytest.fixture
def own_group() -> Iterator[Path]:
    """A group marked as delegated, with a place for us in it, as systemd makes them."""
    roots = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines() if " cgroup2 " in line]
    own = Path(roots[0] if roots else "/nowhere", f"r1flow-test-{os.getpid()}")
    try:
        (own / "main").mkdir(parents=True)
        os.setxattr(own, "user.delegate", b"1")
    except OSError as error:
        pytest.skip(f"no right to make a control group of version 2 here ({error})")
    yield own
    (own / "main").rmdir()
    own.rmdir()


def in_group(own: Path, controllers: str, script: str) -> str:
    command = [sys.executable, "-c", MEMBER + script, str(own), controllers]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_program_and_its_keeper_are_members_and_the_group_is_gone_afterwards(own_group: Path) -> None:
    assert in_group(own_group, "", WATCHED) == "wall True []\n"


def test_memory_is_bounded_as_one_sum(own_group: Path) -> None:
    if "memory" not in (own_group / "cgroup.controllers").read_text().split():
        pytest.skip("version 2 of control groups has no memory controller here")
    assert in_group(own_group, "memory pids", HUNGRY) == "True\n"
