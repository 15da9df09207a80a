"""The Python that runs a model's code: the same as ours, without the packages that are installed for us.

A virtual environment's Python is a link to another Python, which may be anywhere, for instance in somebody's home. A
solution needs only the executable and the lib folder of that one: solutions have the standard library only.
"""

import os
import stat
import sys
from functools import cache
from pathlib import Path

SYSTEM = "/usr/bin/python3"
# What all code sees; not /usr/src and /usr/local, where people keep their own (/usr/src/app in many containers).
SYSTEM_FOLDERS = tuple(f"/usr/{name}" for name in ("bin", "lib", "lib32", "lib64", "libexec", "sbin", "share"))


def own() -> str:
    """The executable behind any virtual environment."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


@cache
def public() -> str:
    """A Python that every user may run: ours, or the system's if ours is in a closed home."""
    ours = Path(own())
    open_to_all = all(folder.stat().st_mode & stat.S_IXOTH for folder in (ours, *ours.parents))
    return str(ours) if open_to_all else os.path.realpath(SYSTEM)


def lib(python: str) -> Path | None:
    """The folder of this Python's libraries; None if all code sees it anyway."""
    folder = Path(python).parent.parent / "lib"
    return None if str(folder) in SYSTEM_FOLDERS else folder


def packages(python: str) -> list[str]:
    """The folders of installed packages, which stay hidden."""
    folder = lib(python)
    return sorted(map(str, folder.glob("python*/site-packages"))) if folder else []


def folders(python: str) -> list[str]:
    """The folders of its modules, whose names it lists to find them."""
    folder = lib(python)
    return sorted(map(str, folder.glob("python3*"))) if folder else []


@cache
def parts(python: str) -> list[str]:
    """Everything that must be readable for this Python, without installed packages."""
    folder = lib(python)
    if folder is None:
        return []
    paths = [path for path in folder.iterdir() if not path.match("python3*")]
    paths += [path for path in folder.glob("python3*/*") if path.name != "site-packages"]
    return [python, *sorted(str(path) for path in paths if path.exists())]
