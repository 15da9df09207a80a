"""The keeper of a run in the Landlock tier: a script of its own, which knows nothing of r1flow.

    python -I -S cage.py CALLER UID FILTER_FD STATUS_FD /usr/bin:/usr/lib:… /opt/lib/python3.11 command …

It starts the command in a process group of its own, under Landlock and the seccomp filter, as UID (-1: as who we are).
The filter forbids new process groups and sessions, so one signal to the group reaches all its processes. The keeper
adopts processes that the command leaves behind (subreaper), kills them, waits for them, and reports how the command
ended, as bubblewrap does: {"child-pid": 4711} and {"exit-code": 0} on STATUS_FD, which the command can't reach. If the
keeper's caller dies, everything ends. The Landlock rules: reading and running below the first paths, seeing names below
the second ones, and nothing else; no TCP, and no signal or abstract socket to the outside. Kernel documentation:
userspace-api/landlock; ABI 6 is Linux 6.12.
"""

# And no contextlib: what signal and contextlib import takes longer than all of this.
import _signal as signal
import ctypes
import os
import sys

ABI = 6  # the first version with scopes, which restrict signals and abstract sockets
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
ALL_FILE_ACCESS, ALL_NETWORK, ALL_SCOPES = (1 << 16) - 1, 3, 3
PATH_BENEATH = 1
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 22, 36, 38
SECCOMP_MODE_FILTER = 2
NULL = "/dev/null"  # the one file that can be written

libc = ctypes.CDLL(None, use_errno=True)


class Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64)]


class PathBeneath(ctypes.Structure):
    _pack_, _layout_ = 1, "ms"  # from Python 3.14 on, the one without the other warns
    _fields_ = [("access", ctypes.c_uint64), ("fd", ctypes.c_int32)]


class BpfProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def prctl(option: int, value: object, more: object = 0) -> None:
    checked(libc.prctl(option, ctypes.c_ulong(value), more, 0, 0))


def abi() -> int:
    """Landlock's version here; -1 without it."""
    return libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1)


def ruleset(paths: list[str], folders: list[str]) -> int:
    """A descriptor of the rules. Made before the uid changes: some paths can't be reached after it."""
    rules = Ruleset(ALL_FILE_ACCESS, ALL_NETWORK, ALL_SCOPES)
    fd = checked(libc.syscall(CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(ctypes.sizeof(rules)), 0))
    for path in [*paths, *folders, NULL]:
        access = READ_DIR if os.path.isdir(path) else 0
        access |= 0 if path in folders else READ_FILE | EXECUTE
        beneath = os.open(path, os.O_PATH)
        rule = PathBeneath(access | (WRITE_FILE if path == NULL else 0), beneath)
        checked(libc.syscall(ADD_RULE, fd, PATH_BENEATH, ctypes.byref(rule), 0))
        os.close(beneath)
    return fd


def confine(uid: int, rules: int, instructions: bytes) -> None:
    """Give up everything that the command must not have; the filter comes last, it allows none of this."""
    os.setsid()
    if uid >= 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    checked(libc.syscall(RESTRICT_SELF, rules, 0))
    program = BpfProgram(len(instructions) // 8, instructions)
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program))


def start(command: list[str], uid: int, rules: int, instructions: bytes) -> int:
    """The command's process, confined; raises OSError, from either side of the fork, where that failed."""
    reader, writer = os.pipe()  # closes by itself when the command starts
    child = os.fork()
    if child == 0:
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            confine(uid, rules, instructions)
            os.execv(command[0], command)
        except BaseException as error:
            os.write(writer, str(error).encode())
        os._exit(126)
    os.close(writer)
    if fault := os.read(reader, 1000):
        raise OSError(f"{command[0]}: {fault.decode()}")
    os.close(reader)
    return child


def end(child: int) -> None:
    """Kill the command and all that it left; until it is reaped, both are there, and no others can get their number."""
    os.kill(child, signal.SIGKILL)
    os.killpg(child, signal.SIGKILL)


def main() -> None:
    caller, uid, filter, status = map(int, sys.argv[1:5])
    paths = list(filter(None, sys.argv[5].split(":")))
    folders = list(filter(None, sys.argv[6].split(":")))
    command = sys.argv[7:]
    instructions = os.pread(filter, 1 << 20, 0)
    os.set_inheritable(filter, False)
    os.set_inheritable(status, False)
    rules = ruleset(paths, folders)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != caller:  # it died before we asked for the signal
        return
    child = start(command, uid, rules, instructions)
    signal.signal(signal.SIGTERM, lambda *_: end(child))
    os.write(status, b'{"child-pid": %d}\n' % child)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    end(child)
    _, ended = os.waitpid(child, 0)
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        pass
    code = os.waitstatus_to_exitcode(ended)
    os.write(status, b'{"exit-code": %d}\n' % (code if code >= 0 else 128 - code))


if __name__ == "__main__":
    main()
