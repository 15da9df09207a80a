"""Tier 2, where namespaces are refused (many containers): Landlock, the same seccomp filter, rlimits, another user.

    python -I -S cage.py 4711 31007 7 12 /usr/bin:/usr/lib:… /opt/lib prlimit … -- python …

cage.py confines the command. If we are root, the command gets a uid of its own. Otherwise it keeps ours, and the limit
on processes is the number that the user has now plus limits.processes, since RLIMIT_NPROC counts all of them. This is
weaker than tier 1: names, sizes and owners of files are visible (not their contents), and so are process numbers; there
is no writable folder at all.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from r1flow.core.errors import UserError
from r1flow.sandbox import cage, interpreter
from r1flow.sandbox.process import Limits, limited

GREETING = b""
TOOLS = ("prlimit", "setpriv")
LINKS, DEVICES = ("/bin", "/sbin", "/lib", "/lib64"), ("/dev/zero", "/dev/random", "/dev/urandom")
PATHS = (*interpreter.SYSTEM_FOLDERS, *LINKS, *DEVICES, "/etc/ld.so.cache")


def why_not() -> str | None:
    """Why this tier can't be tried here."""
    if cage.abi() < cage.ABI:
        return f"this kernel has Landlock ABI {max(0, cage.abi())}, and {cage.ABI} is needed (Linux 6.12)"
    missing = [tool for tool in TOOLS if not shutil.which(tool, path="/usr/bin")]
    return f"/usr/bin/{missing[0]} is missing" if missing else None


def python(uid: int | None) -> str:
    """The Python for the code, which must be open to the uid that it gets."""
    return interpreter.own() if uid is None else interpreter.public()


def code_path(code: int, file: str) -> str:
    """Where the command finds the code: it inherits the descriptor, and nothing is written anywhere."""
    return f"/proc/self/fd/{code}"


def argv(
    command: Sequence[str],
    uid: int | None,
    code: int,
    file: str,
    filter: int,
    status: int,
    limits: Limits,
    ticket: str,
) -> list[str]:
    """The cage's command line; `uid` is the one to drop to when we are root. Nothing outlives it, so no ticket."""
    if limits.disk_mb:
        raise UserError("limits.disk_mb: the Landlock tier has no writable folder; set it to 0, or install bubblewrap")
    paths = [path for path in PATHS if os.path.exists(path)] + interpreter.parts(python(uid))
    processes = limits.processes if uid is not None else limits.processes + tasks(os.getuid())
    folders = interpreter.folders(python(uid))
    words = (os.getpid(), -1 if uid is None else uid, filter, status, ":".join(paths), ":".join(folders))
    return [sys.executable, "-I", "-S", cage.__file__, *map(str, words), *limited(command, limits, processes)]


def tasks(uid: int) -> int:
    """How many threads a user has."""
    threads = 0
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and process.stat().st_uid == uid:
                threads += len(os.listdir(process / "task"))
        except OSError:  # it ended meanwhile
            continue
    return threads
