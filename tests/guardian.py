"""Ends what a session of tests started, also in sessions of its own, once pytest has ended or was killed.

    python tests/guardian.py PID MARK

pytest has MARK in the environment of all that it starts (conftest.py). Left out: children that it forks and that run no
program of their own, whose environment is pytest's first one.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

NAME = "SESSION_OF_TESTS"  # the variable; a session within another one adds its own mark to it
POLL_S = 0.5
ATTEMPTS = 100  # a process that is killed may have started another one


def marked(mark: str) -> list[int]:
    """The processes that have the mark in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended, or is another user's
            words = dict(word.partition(b"=")[::2] for word in path.read_bytes().split(b"\0"))
            if mark.encode() in words.get(NAME.encode(), b"").split():
                found.append(int(path.parent.name))
    return found


def end_after(parent: int, mark: str) -> None:
    """Wait for the end of the parent, then kill what is left."""
    while os.getppid() == parent:
        time.sleep(POLL_S)
    for _ in range(ATTEMPTS):
        for pid in (left := marked(mark)):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            return
        time.sleep(0.05)


if __name__ == "__main__":
    end_after(int(sys.argv[1]), sys.argv[2])
