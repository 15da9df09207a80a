"""Locks on files: one live run of each name, one process for each stage of it, and one for each result.

A lock is an flock, so a kill frees it.

    scratch/live.lock                        shared by live runs; what removes or replaces results has it alone
    scratch/r1_tiny/live.lock                the run's: another of the same name is refused
    scratch/data.lock                        of the pinned data/: shared by runs that read it; who makes it is alone
    scratch/r1_tiny/zero_rl/lock             the stage's, which survives the kill of its Snakemake
    scratch/.computing/zero_rl/8a1f…/lock    the result's: a second run waits, and then takes it from the store
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from r1flow.core.errors import UserError

LIVE, PINNED = Path("scratch/live.lock"), Path("scratch/data.lock")
COMPUTING = Path("scratch/.computing")  # no run has a name that begins with a dot


def live_lock(run: str) -> Path:
    """The lock of the live run of this name, written when it began."""
    return Path("scratch", run, "live.lock")


def took(file: IO[str], how: int = fcntl.LOCK_EX) -> bool:
    """Whether the lock could be taken without waiting."""
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_held(path: Path) -> bool:
    """Whether a process has the lock."""
    if not path.is_file():  # a folder is a run's of this name
        return False
    # Somebody else's file, or one on a disk that can only be read; NFS has no exclusive locks on these.
    mode, how = ("a", fcntl.LOCK_EX) if os.access(path, os.W_OK) else ("r", fcntl.LOCK_SH)
    with path.open(mode) as file:
        return not took(file, how)


def hold(path: Path, shared: bool = False, what: str = "a run is live in this folder already") -> IO[str]:
    """Take the lock for as long as this process lives (a kill frees it); raises UserError when another has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not "w": who has the lock has written into the file, and a refusal shows it.
    file = path.open("a+")
    if not took(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX):
        file.seek(0)
        raise UserError(f"{what} ({file.read().strip()}); wait for it or stop it")
    file.truncate(0)
    with suppress(OSError):  # the disk is full, which `r1flow clean` is there for
        os.write(file.fileno(), f"process {os.getpid()}".encode())
    return file


def hold_run(run: str) -> list[IO[str]]:
    """A run's locks: beside it others may be live, but none of its name, and nothing that removes results."""
    return [
        hold(LIVE, shared=True, what="a command is changing this folder's results"),
        hold(live_lock(run), what=f"the run {run} is live already; give this one another name, run=…"),
    ]


def refuse_live(root: Path) -> IO[str] | None:
    """Raise UserError when a run or an orphaned stage is live here; returns the lock that keeps a new run out."""
    for path in (root / "scratch").glob("*/live.lock"):
        if is_held(path):
            holder = path.read_text().strip()
            raise UserError(f"the run {path.parent.name} is live in this folder ({holder}); wait for it or stop it")
    for path in (root / "scratch").rglob("lock"):
        if is_held(path):
            raise UserError(f"{path.parent.relative_to(root)} is being computed; wait for it or stop it")
    return hold(root / LIVE) if (root / "scratch").is_dir() else None


@contextmanager
def waited_for(folder: Path, say: Callable[[str], None], shared: bool = False) -> Iterator[None]:
    """Hold a folder in scratch, alone or shared; wait for another run, or a stage that outlived its Snakemake."""
    folder.mkdir(parents=True, exist_ok=True)
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    with (folder / "lock").open("a+") as file:  # on NFS a shared lock needs a file open for reading
        if not took(file, how):
            say(f"waiting for another process that is computing this ({folder})")
            fcntl.flock(file, how)
        yield
