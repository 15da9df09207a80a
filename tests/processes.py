"""Processes that a test started, looked at from outside."""

import psutil


def below(pid: int) -> list[int]:
    """The processes that descend from a process."""
    return [each.pid for each in psutil.Process(pid).children(recursive=True)]


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has waited for doesn't."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
