"""Runs model-written code where it can do no harm: without network or the user's files and processes, with limits.

    run(["{python}", "-S", "{code}"], b"print(int(input()) ** 2)", stdin=b"4\\n").stdout       # b"16\\n"

There are two tiers, bubblewrap, and Landlock where namespaces are refused; the first that passes a live self-test is
used. Without either nothing runs, and a UserError says what to install. The result is an exit status and captured
bytes; files or anything else that the code could write are never read. The user's environment variables are hidden,
too. docs/sandbox.md lists what it can do, and tests/abuse has the attacks that were tried.
"""

import os
import pwd
import queue
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from functools import cache
from types import ModuleType

from r1flow.core import processes
from r1flow.core.errors import UserError
from r1flow.sandbox import bubblewrap, cgroup, landlock, leftovers, seccomp
from r1flow.sandbox.process import ENVIRONMENT, Limits, Result, SandboxError, Stop, close, pipes, sealed, supervise

__all__ = ["Limits", "Result", "SandboxError", "Stop", "Tier", "run", "tier", "tiers", "workers"]

FIRST_UID, UIDS = 30_000, 30_000  # below what a container's map of 65,536 uids holds
REMEDY = "install bubblewrap (apt-get install bubblewrap) and allow user namespaces, or run on Linux 6.12 or later"
ELSEWHERE = "both tiers are Linux's (docs/sandbox.md); run this on Linux, or without problems that ask for code"


class Tier(StrEnum):
    """How a model's code is confined, best first; a stage's metrics record the value."""

    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"


MODULES: dict[Tier, ModuleType] = {Tier.BUBBLEWRAP: bubblewrap, Tier.LANDLOCK: landlock}


def workers() -> int:
    """How many solutions run at a time: one per core, but just one in a process of a pool, which shares the cores."""
    return 1 if processes.one_of_many else processes.cores()


SLOTS: queue.SimpleQueue[int] = queue.SimpleQueue()


def make_places() -> None:
    """Create one place per worker; done again in a forked child, since its parent's threads may have held some."""
    global SLOTS
    SLOTS = queue.SimpleQueue()
    for slot in range(workers()):
        SLOTS.put(slot)


make_places()
os.register_at_fork(after_in_child=make_places)


def run(
    command: Sequence[str],
    code: bytes,
    file: str = "main",
    stdin: bytes = b"",
    limits: Limits | None = None,
    tier: Tier | None = None,
) -> Result:
    """Run a command once in a sandbox of its own; waits for a free place, so it can be called from any thread.

    In the command `{code}` stands for the code's path, whose name is `file` where the tier can choose it,
    `{python}` for a Python, and `{report}` for the number of a descriptor whose bytes are returned as the report.
    Raises UserError where there is no sandbox, SandboxError when it failed.
    """
    limits = limits or Limits()
    module = MODULES[tier or available()]
    with (
        place() as uid,
        descriptors(code, stdin, seccomp.allowed()) as (script, source, filter),
        pipes(4) as ends,
        cgroup.group(limits) as group,
    ):
        words = {
            "{code}": module.code_path(script, file),
            "{python}": module.python(uid),
            "{report}": str(ends[1][2]),
        }
        command = [words.get(word, word) for word in command]
        ticket = leftovers.ticket()
        argv = module.argv(command, uid, script, file, filter, ends[1][3], limits, ticket)
        result = supervise(cgroup.entering(group, argv), source, [script, filter], ends, limits, ticket)
        return replace(result, stderr=result.stderr.removeprefix(module.GREETING))


@contextmanager
def place() -> Iterator[int | None]:
    """A free place, and its uid for the code if we run as root; each place has its own, so that limits count apart."""
    slots = SLOTS
    slot = slots.get()
    try:
        yield free_uid(os.getpid() * workers() + slot) if os.geteuid() == 0 else None
    finally:
        slots.put(slot)


@cache
def free_uid(seed: int) -> int:
    """A uid that nobody uses."""
    for step in range(UIDS):
        uid = FIRST_UID + (seed + step) % UIDS
        try:
            pwd.getpwuid(uid)
        except KeyError:
            return uid
    raise UserError(f"no sandbox for model-written code: all uids from {FIRST_UID} to {FIRST_UID + UIDS} are in use")


@contextmanager
def descriptors(*contents: bytes) -> Iterator[list[int]]:
    fds: list[int] = []
    try:
        for content in contents:
            fds.append(sealed(content))
        yield fds
    finally:
        close(fds)


def tier() -> Tier:
    """The best tier that works here, found by trying and cached; raises UserError if none does."""
    return available()


@cache
def available() -> Tier:
    if sys.platform != "linux":
        raise UserError(f"no sandbox for model-written code: {ELSEWHERE}")
    leftovers.end_leftovers()
    faults = {}
    for tier in Tier:
        fault = fault_of(tier)
        if fault is None:
            return tier
        faults[tier] = fault
    why = "; ".join(f"{tier}: {fault}" for tier, fault in faults.items())
    raise UserError(f"no sandbox for model-written code ({why}): {REMEDY}")


def tiers() -> list[Tier]:
    """All tiers that work here."""
    return [tier for tier in Tier if fault_of(tier) is None] if sys.platform == "linux" else []


# Prints every forbidden thing that it can do; in a sandbox that works it prints only the last line.
PROBE = """
import os, _socket
secret, caller, processes, names = eval(input())
def can(deed, *args):
    try:
        return deed(*args) or True
    except OSError:
        return False
for family in range(46):
    for kind in (_socket.SOCK_STREAM, _socket.SOCK_DGRAM, _socket.SOCK_RAW):
        if can(_socket.socket, family, kind):
            print("a socket of family", family)
for path in (secret, "/etc/passwd", "/proc/self/environ", f"/proc/{caller}/environ"):
    if can(open, path):
        print("reading", path)
for path in (os.path.dirname(secret), "/", "/dev/shm", "/usr"):
    if can(os.open, path + "/r1flow-probe", os.O_CREAT | os.O_WRONLY):
        print("writing in", path)
if can(os.kill, caller, 0):
    print("signals to the caller")
if set(os.environ) - set(names):
    print("the environment")
if os.getuid() == 0 or can(os.setuid, 0):
    print("being root")
children, end = 0, os.pipe()
while children <= processes and (child := can(os.fork)):
    if child is True:
        os.close(end[1])
        os.read(end[0], 1)
        os._exit(0)
    children += 1
if children >= processes:
    print("more processes than allowed")
print("end")
"""


def fault_of(tier: Tier) -> str | None:
    """What is wrong with a tier here: it can't start, or it lets code do what it must not."""
    fault = MODULES[tier].why_not()
    if fault:
        return fault
    limits = Limits(processes=4)
    with tempfile.NamedTemporaryFile() as secret:
        os.chmod(secret.name, 0o644)
        told = repr((secret.name, os.getpid(), limits.processes, [*ENVIRONMENT, "PWD", "LC_CTYPE"]))
        try:
            result = run(["{python}", "-S", "{code}"], PROBE.encode(), stdin=told.encode(), limits=limits, tier=tier)
        except SandboxError as error:
            return str(error)
    lines = result.stdout.decode(errors="replace").splitlines()
    if lines == ["end"] and result.status == 0:
        return None
    if lines[-1:] == ["end"]:
        return f"its self-test wasn't kept from: {', '.join(lines[:-1])}"
    return f"its self-test ended with status {result.status}: {result.stderr[-200:].decode(errors='replace').strip()}"
