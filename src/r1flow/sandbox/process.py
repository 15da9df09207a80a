"""One run of a command in a sandbox, watched from outside: its limits, its captured output, and how it ends.

    Limits(cpu_s=6, wall_s=12, memory_mb=1024)        Result(status=0, stdout=b"16\\n", stderr=b"", report=b"", …)

The command's keeper (bubblewrap, or cage.py in the Landlock tier) is our child process. On a pipe that the command
can't reach, it reports the pid of its only child, and in the end how that ended, as bubblewrap's --json-status-fd does:

    {"child-pid": 4711}
    {"exit-code": 0}

Killing that child ends everything in the sandbox before the keeper ends, so nothing is left when `supervise` returns.
"""

import contextlib
import fcntl
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from r1flow.sandbox.leftovers import end_leftovers

CHUNK_BYTES = 1 << 16
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
GRACE_S = 10.0  # how long, after a kill, the kernel may take to end everything
STACK_MB = 64  # deep recursion in C; also what a thread reserves, so it counts against memory_mb
# Everything ends with its caller, from the first moment on: the kernel is asked to kill, and then the parent must still
# be the caller. If memory runs out, the solutions are killed, not their caller: what is started inherits that.
FIRST = '[ "$PPID" = "$0" ] || exit; { echo 1000 > /proc/self/oom_score_adj; } 2>/dev/null; exec "$@"'
FIRST_TO_GO = ("/usr/bin/setpriv", "--pdeathsig", "KILL", "--", "/bin/sh", "-c", FIRST)
KILLED = 128 + signal.SIGKILL
# Of the limit: the kernel enforces it in ticks, and accounts more exactly (0.95 s for 1 s).
CPU_SHARE = 0.75


class Stop(StrEnum):
    """Why a run did not end by itself."""

    CPU = "cpu"
    WALL = "wall"
    OUTPUT = "output"


@dataclass(frozen=True)
class Limits:
    """What one run may use. Memory is each process's address space, so the sum is at most processes x memory_mb; if a
    control group is delegated (cgroup.py), memory_mb also limits the sum.

    Nothing is writable unless disk_mb says so, and only under bubblewrap, which then gives a /tmp of that size.
    """

    cpu_s: int = 6  # of each process
    wall_s: float = 12.0
    memory_mb: int = 1024
    processes: int = 8  # threads count
    files: int = 64  # open at once
    output_mb: float = 1.0  # of stdout, of stderr, and of the report
    disk_mb: int = 0


@dataclass(frozen=True)
class Result:
    """How a run ended, and the bytes it gave; a status above 128 is 128 plus the signal that ended it."""

    status: int
    stdout: bytes
    stderr: bytes
    report: bytes
    stopped: Stop | None
    seconds: float


class SandboxError(Exception):
    """The sandbox itself failed; the code in it, if any, can't have caused this."""


def limited(command: Sequence[str], limits: Limits, processes: int) -> list[str]:
    """The command line that sets its own rlimits, last of all: a limit on processes would stop the keeper, too."""
    memory, stack = limits.memory_mb << 20, STACK_MB << 20
    return [
        "/usr/bin/prlimit",
        f"--cpu={limits.cpu_s}:{limits.cpu_s}",
        f"--as={memory}:{memory}",
        f"--stack={stack}:{stack}",
        f"--nproc={processes}:{processes}",
        f"--nofile={limits.files}:{limits.files}",
        f"--fsize={limits.disk_mb << 20}:{limits.disk_mb << 20}",
        "--core=0:0",
        "--memlock=0:0",
        "--msgqueue=0:0",
        "--sigpending=64:64",
        "--",
        *command,
    ]


def sealed(content: bytes) -> int:
    """A descriptor from which `content` is read, and into which nothing can be written."""
    fd = above_standard(os.memfd_create("r1flow", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    with open(fd, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(fd, 0, os.SEEK_SET)
    seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


@contextmanager
def pipes(count: int) -> Iterator[tuple[list[int], list[int]]]:
    """Reading and writing ends of pipes; code that closes one of them must set it to -1."""
    readers, writers = [], []
    try:
        for _ in range(count):
            reader, writer = map(above_standard, os.pipe())
            os.set_blocking(reader, False)
            readers.append(reader)
            writers.append(writer)
        yield readers, writers
    finally:
        close(readers + writers)


def above_standard(fd: int) -> int:
    """The descriptor with a number from 3 on: lower ones, free if a standard stream is closed, are the child's own."""
    if fd > 2:
        return fd
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(fd)


def close(fds: Sequence[int]) -> None:
    for fd in fds:
        if fd >= 0:
            os.close(fd)


def supervise(
    argv: Sequence[str],
    stdin: int,
    inherited: Sequence[int],
    ends: tuple[list[int], list[int]],
    limits: Limits,
    ticket: str,
) -> Result:
    """Run a keeper to its end, or to a limit's; `ends` are those of stdout, stderr, report and status.

    `ticket` is a word of the keeper's command line by which a part of it that was left behind is found.

    Raises SandboxError if the keeper could not start its command.
    """
    readers, writers = ends
    started = time.monotonic()
    process = subprocess.Popen(
        [*FIRST_TO_GO, str(os.getpid()), *argv],
        stdin=stdin,
        stdout=writers[0],
        stderr=writers[1],
        pass_fds=[*inherited, *writers[2:]],
        env=ENVIRONMENT,
        cwd="/",
        start_new_session=True,  # an interrupt at the terminal must reach us only
    )
    close(writers)
    writers[:] = [-1] * len(writers)
    watch = Watch(process, readers, limits, started, ticket)
    try:
        watch.wait()
        cpu_s = watch.reap()
    finally:
        watch.abandon()
    return result(watch, cpu_s, limits)


class Watch:
    """A keeper and its pipes, read until it ends or a limit is passed."""

    def __init__(
        self, process: subprocess.Popen, readers: list[int], limits: Limits, started: float, ticket: str
    ) -> None:
        self.process, self.readers, self.started, self.ticket = process, readers, started, ticket
        # Before the keeper said who its child is, which may be left behind.
        self.killed_early = False
        self.deadline = started + limits.wall_s
        self.most_bytes = int(limits.output_mb * (1 << 20))
        self.got = {fd: bytearray() for fd in readers}
        self.stopped: Stop | None = None
        self.seconds = 0.0

    def wait(self) -> None:
        """Read until the keeper is gone; if a limit is passed meanwhile, end it and record which."""
        ended = os.pidfd_open(self.process.pid)
        try:
            with selectors.DefaultSelector() as selector:
                for fd in (ended, *self.readers):
                    selector.register(fd, selectors.EVENT_READ)
                while not self.over(selector, ended):
                    self.enforce()
        finally:
            os.close(ended)
        self.seconds = time.monotonic() - self.started
        for fd in self.readers:  # every writer is dead: what the pipes hold is all there is
            while self.read(fd):
                pass
        if self.flooded() and self.stopped is None:
            self.stopped = Stop.OUTPUT

    def over(self, selector: selectors.BaseSelector, ended: int) -> bool:
        """Wait for something to happen, and say whether it was the end."""
        ready = {key.fd for key, _ in selector.select(max(0.0, self.deadline - time.monotonic()))}
        for fd in ready - {ended}:
            if not self.read(fd):
                selector.unregister(fd)
        return ended in ready

    def read(self, fd: int) -> bool:
        """Read what a pipe holds; False if there is nothing. Output beyond the limit is discarded."""
        try:
            chunk = os.read(fd, CHUNK_BYTES)
        except BlockingIOError:
            return False
        self.got[fd] += chunk[: max(0, self.most_bytes + 1 - len(self.got[fd]))]
        return bool(chunk)

    def flooded(self) -> bool:
        return any(len(got) > self.most_bytes for got in self.got.values())

    def enforce(self) -> None:
        late = time.monotonic() >= self.deadline
        if late and self.stopped:
            raise SandboxError(f"a sandbox did not end within {GRACE_S:g} s of being killed")
        if self.stopped is None and (late or self.flooded()):
            self.stopped = Stop.WALL if late else Stop.OUTPUT
            self.deadline = time.monotonic() + GRACE_S
            self.kill()

    def kill(self) -> None:
        """End everything in the sandbox: all others end with its first process, and the keeper waits for it."""
        self.read(self.readers[3])
        child = self.told().get("child-pid")
        self.killed_early |= child is None
        with contextlib.suppress(ProcessLookupError):
            os.kill(*((child, signal.SIGKILL) if child else (self.process.pid, signal.SIGTERM)))

    def told(self) -> dict[str, int]:
        """What the keeper has reported so far."""
        status: dict[str, int] = {}
        for line in bytes(self.got[self.readers[3]]).splitlines():
            with contextlib.suppress(ValueError):
                status |= json.loads(line)
        return status

    def reap(self) -> float:
        """CPU seconds of the keeper and of what it waited for."""
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if self.killed_early:
            end_leftovers(self.ticket)
        return usage.ru_utime + usage.ru_stime

    def abandon(self) -> None:
        """Leave no process behind when something failed midway, or we were interrupted."""
        if self.process.returncode is None:
            self.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(GRACE_S)
            self.process.kill()
            self.process.wait()
            end_leftovers(self.ticket)


def result(watch: Watch, cpu_s: float, limits: Limits) -> Result:
    stdout, stderr, report, _ = (bytes(watch.got[fd]) for fd in watch.readers)
    status, stopped = watch.told().get("exit-code"), watch.stopped
    if status is None and stopped is None:
        word = stderr[-300:].decode(errors="replace").strip()
        raise SandboxError(f"a sandbox did not start: {word or 'it did not say why'}")
    if status == KILLED and stopped is None and cpu_s >= CPU_SHARE * limits.cpu_s:
        stopped = Stop.CPU
    return Result(KILLED if status is None else status, stdout, stderr, report, stopped, watch.seconds)
