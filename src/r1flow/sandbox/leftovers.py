"""Ends sandboxes whose caller is gone: the moments in which a kill of the caller leaves one behind.

bubblewrap asks the kernel to die with its parent only after it has made its namespaces, and its first process inside
only when all is ready. Of 200 callers that were killed while bubblewrap started, 50 left a sandbox, and in many the
solution ran on. So the kernel is asked before bubblewrap starts (process.py), and nothing runs inside if the caller is
gone by then (bubblewrap.py). What remains is a first process that waits for ever for its bubblewrap, which was killed.
It is found by the ticket of its run in its command line, and killed at the next start of a sandbox in any process, or
at once if the caller lives.

    r1flow-4026531836-4711-12030199-3      the caller's process namespace, its number and start, the number of its run
"""

import contextlib
import itertools
import os
import re
import signal
from pathlib import Path

TICKET = re.compile(r"(r1flow-(\d+)-(\d+)-(\d+))-\d+")
KEEPERS = (b"/usr/bin/bwrap", b"/bin/sh")
runs = itertools.count()


def ticket() -> str:
    """A word for one run's command line."""
    return f"{caller(os.getpid())}-{next(runs)}"


def caller(pid: int) -> str | None:
    """The words of a ticket that name a process; None if it has ended."""
    try:
        # A number in another namespace is another process.
        namespace = os.stat("/proc/self/ns/pid").st_ino
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else f"r1flow-{namespace}-{pid}-{fields[18]}"


def end_leftovers(run: str | None = None) -> None:
    """Kill what is left of a run of ours; without a ticket, of all runs whose callers have ended."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended meanwhile, or isn't ours
                end_if_left(int(process.name), run)


def end_if_left(pid: int, run: str | None) -> None:
    # The number may become another process's between the look and the signal.
    handle = os.pidfd_open(pid)
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        tickets = [word.decode() for word in words if TICKET.fullmatch(word.decode(errors="replace"))]
        if words[0] in KEEPERS and tickets and (tickets[0] == run if run else is_orphan(tickets[0])):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        os.close(handle)


def is_orphan(ticket: str) -> bool:
    """Whether the caller has ended; of another namespace's callers that can't be told."""
    name, namespace, pid, _ = TICKET.fullmatch(ticket).groups()
    return int(namespace) == os.stat("/proc/self/ns/pid").st_ino and caller(int(pid)) != name
