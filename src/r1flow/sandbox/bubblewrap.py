"""Tier 1: bubblewrap gives the command its own mounts, network, processes, IPC and host name, and a seccomp filter.

    bwrap --ro-bind /usr/lib /usr/lib … --seccomp 7 -- sh -c … setpriv --reuid=31007 … prlimit … python …

The command sees the system's folders of /usr and the Python that runs the code, read-only, and four devices; no /proc,
no /etc, no home. For an ordinary user, bubblewrap makes a user namespace, in which RLIMIT_NPROC counts from zero. For
root it makes none, and the command drops to a uid of its own instead, because root is exempt from RLIMIT_NPROC (400
forks got through a limit of 64).
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from r1flow.sandbox import interpreter
from r1flow.sandbox.process import Limits, limited

NAMESPACES = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
# A shell is process 1 of the namespace: killing it kills everything. bubblewrap kills it when we die, which it couldn't
# do to a command of another uid. Why not bubblewrap's own process 1: that isn't bubblewrap's child, so it would be left
# to the container's init, and many containers have none. No signal from inside the namespace reaches the shell.
# It starts the command only if our end of its standard error is still open, so never after we have died (leftovers.py).
GREETING = b"\n"  # on standard error, not a part of the result
FIRST = ("/bin/sh", "-c", 'echo >&2 || exit; "$@"; exit $?')
TOOLS = ("bwrap", "prlimit", "setpriv")
LINKS = ("bin", "lib", "lib64", "sbin")
DEVICES = ("null", "zero", "random", "urandom")


def why_not() -> str | None:
    """Why this tier can't be tried here."""
    missing = [tool for tool in TOOLS if not shutil.which(tool, path="/usr/bin")]
    return f"/usr/bin/{missing[0]} is missing" if missing else None


def python(uid: int | None) -> str:
    """The Python for the code: any that we can read, since bubblewrap makes it visible in the sandbox."""
    return interpreter.own()


def code_path(code: int, file: str) -> str:
    """Where the command finds the code."""
    return f"/{file}"


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
    """bubblewrap's command line; `uid` is the one to drop to when we are root, `ticket` a word to find it by."""
    if uid is None:
        user, drop = ["--unshare-user"], []
    else:
        user = ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        drop = ["/usr/bin/setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all", "--"]
    return [
        "/usr/bin/bwrap",
        *NAMESPACES,
        *user,
        *("--die-with-parent", "--new-session", "--as-pid-1"),
        *mounts(interpreter.own(), code, file, limits),
        *("--chdir", "/", "--seccomp", str(filter), "--json-status-fd", str(status), "--"),
        *(*FIRST, ticket),
        *drop,
        # An ordinary user's shell counts.
        *limited(command, limits, limits.processes + (uid is None)),
    ]


def mounts(python: str, code: int, file: str, limits: Limits) -> list[str]:
    """The options for all that the command sees; the root itself becomes read-only last."""
    options = []
    if limits.disk_mb:
        options += ["--perms", "1777", "--size", str(limits.disk_mb << 20), "--tmpfs", "/tmp"]
    lib = interpreter.lib(python)
    shown = [*filter(os.path.isdir, interpreter.SYSTEM_FOLDERS), *([python, str(lib)] if lib else [])]
    folders = {"/dev"}
    for path in shown:
        folders.update(map(str, Path(path).parents))
    for folder in sorted(folders):
        # Else bubblewrap makes them for its own user alone.
        options += ["--perms", "0755", "--dir", folder]
    for path in shown:
        options += ["--ro-bind", path, path]
    for name in LINKS:
        if os.path.islink(f"/{name}"):
            options += ["--symlink", f"usr/{name}", f"/{name}"]
        elif os.path.isdir(f"/{name}"):
            options += ["--ro-bind", f"/{name}", f"/{name}"]
    for path in interpreter.packages(python):
        options += ["--size", "4096", "--tmpfs", path, "--remount-ro", path]
    for device in DEVICES:
        options += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    return [*options, "--perms", "0444", "--file", str(code), f"/{file}", "--remount-ro", "/"]
