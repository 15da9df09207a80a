"""A control group for each run, if systemd has delegated one to us: limits the run's memory and processes in sum.

    systemd-run --user --pty --same-dir -E PATH -p Delegate=yes -p DelegateSubgroup=main snakemake --cores all

puts us into …/run-u42.service/main and leaves …/run-u42.service to us, which systemd marks with the extended attribute
user.delegate. Groups of runs are made in it, beside `main`, since a group with processes of its own can't have any
(kernel documentation: admin-guide/cgroup-v2, "No Internal Process Constraint"; systemd: CGROUP_DELEGATION). Anywhere
else there is no group, and the limits are those of each process. Version 1 of control groups is left out.
"""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from r1flow.sandbox.process import Limits

CONTROLLERS = ("memory", "pids")
KEEPERS = 4  # processes of the sandbox itself, beside the command's
ENTER = ("/bin/sh", "-c", 'echo 0 > "$0" && exec "$@"')


@contextmanager
def group(limits: Limits) -> Iterator[Path | None]:
    """A new group with these limits, which is emptied and removed at the end; None if none is delegated."""
    parent = delegated()
    if parent is None:
        yield None
        return
    made = parent / f"r1flow-{os.getpid()}-{threading.get_native_id()}"
    made.mkdir()
    try:
        for name, value in settings(limits).items():
            (made / name).write_text(str(value))
        yield made
    finally:
        (made / "cgroup.kill").write_text("1")
        with suppress(OSError):  # something in it won't die: that is the error that the caller gets
            made.rmdir()


def settings(limits: Limits) -> dict[str, int]:
    """The group's files, and what to write into each."""
    return {
        "memory.max": (limits.memory_mb + limits.disk_mb) << 20,
        "memory.swap.max": 0,
        "pids.max": limits.processes + KEEPERS,
    }


def entering(group: Path | None, argv: Sequence[str]) -> list[str]:
    """The command line, changed to put itself into the group first, so that all it starts is in the group."""
    return [*ENTER, str(group / "cgroup.procs"), *argv] if group else list(argv)


@cache
def delegated() -> Path | None:
    """The folder in which we may make groups, its controllers switched on."""
    parent = above(Path("/proc/self/cgroup").read_text(), Path("/proc/self/mounts").read_text())
    try:
        if parent is None or os.getxattr(parent, "user.delegate") != b"1" or not (parent / "cgroup.kill").exists():
            return None
        (parent / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in CONTROLLERS))
    except OSError:  # not marked, not ours, or without a controller
        return None
    return parent


def above(groups: str, mounts: str) -> Path | None:
    """The folder of the group that ours is in, from the texts of /proc/self/cgroup and /proc/self/mounts."""
    own = [line.removeprefix("0::") for line in groups.splitlines() if line.startswith("0::")]
    roots = [words[1] for line in mounts.splitlines() if (words := line.split())[2] == "cgroup2"]
    if not own or not roots or own[0] == "/":
        return None
    return Path(roots[0] + own[0]).parent
