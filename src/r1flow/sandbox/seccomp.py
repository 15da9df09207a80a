"""The system calls that sandboxed code may make, as a seccomp filter.

It lists what is allowed, not what is forbidden: a future kernel's new calls stay closed until somebody adds them
here. Everything else fails with ENOSYS, "no such call", at which C libraries fall back (clone3 to clone). Allowed is
what interpreters and compiled code need to compute, read files, start threads and processes, and wait. Left out are
sockets of every family, other processes' memory (ptrace, process_vm_*), mounts and namespaces, io_uring, bpf, keys,
System V and POSIX queues and segments (they outlive their makers), memfd_create (memory that no limit counts), owners
and modes of files (Landlock doesn't watch those), process groups and sessions (by which the Landlock tier kills), and
locks: all sandboxes see the same files of Python, and what one locks, another can tell.
"""

import errno
import os
from functools import cache

from r1flow.core.errors import UserError

FILES = """
    access chdir close close_range copy_file_range dup dup2 dup3 faccessat faccessat2 fadvise64 fallocate fchdir
    fdatasync fstat fstatfs fsync ftruncate getcwd getdents getdents64 link linkat lseek lstat mkdir mkdirat
    newfstatat open openat openat2 pipe pipe2 pread64 preadv preadv2 pwrite64 pwritev pwritev2 read readahead readlink
    readlinkat readv rename renameat renameat2 rmdir sendfile stat statfs statx symlink symlinkat truncate umask unlink
    unlinkat write writev
"""
MEMORY = "brk madvise mincore mmap mprotect mremap msync munmap"
PROCESSES = """
    arch_prctl capget capset execve exit exit_group fork futex futex_waitv get_thread_area getegid geteuid getgid
    getgroups getpgid getpgrp getpid getppid getpriority getresgid getresuid getrlimit getrusage getsid gettid getuid
    membarrier rseq sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getparam sched_getscheduler
    sched_yield set_robust_list set_tid_address setgid setgroups setregid setresgid setresuid setreuid setrlimit setuid
    vfork wait4 waitid
"""
SIGNALS = """
    alarm getitimer kill pause restart_syscall rt_sigaction rt_sigpending rt_sigprocmask rt_sigreturn rt_sigsuspend
    rt_sigtimedwait setitimer sigaltstack signalfd signalfd4 tgkill tkill
"""
WAITING = """
    clock_getres clock_gettime clock_nanosleep epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait
    eventfd eventfd2 gettimeofday nanosleep poll ppoll pselect6 select time timer_create timer_delete timer_getoverrun
    timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime times
"""
SYSTEM = "getcpu getrandom sysinfo uname"

NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW* flag that clone takes
# prctl: what setpriv and Python's start use; not PR_SET_PDEATHSIG, by which a process could avoid ending with us.
PRCTL = {"PR_SET_KEEPCAPS": 8, "PR_SET_NAME": 15, "PR_GET_NAME": 16, "PR_CAPBSET_READ": 23, "PR_SET_NO_NEW_PRIVS": 38}
# ioctl: is this a terminal, how much can be read, don't block, close on exec.
IOCTL = {"TCGETS": 0x5401, "TIOCGWINSZ": 0x5413, "FIONREAD": 0x541B, "FIONBIO": 0x5421, "FIOCLEX": 0x5451}
# fcntl: descriptors and their flags, and the size of a pipe.
FCNTL = {
    **{"F_DUPFD": 0, "F_GETFD": 1, "F_SETFD": 2, "F_GETFL": 3, "F_SETFL": 4},
    **{"F_DUPFD_CLOEXEC": 1030, "F_SETPIPE_SZ": 1031, "F_GETPIPE_SZ": 1032},
}


@cache
def allowed() -> bytes:
    """The filter as BPF instructions, as bubblewrap's --seccomp and prctl(PR_SET_SECCOMP) take them."""
    try:
        import pyseccomp as seccomp
    except (ImportError, OSError, RuntimeError) as error:
        raise UserError(f"no seccomp filter ({error}); install it: apt-get install libseccomp2") from error
    filter = seccomp.SyscallFilter(seccomp.ERRNO(errno.ENOSYS))
    for name in " ".join((FILES, MEMORY, PROCESSES, SIGNALS, WAITING, SYSTEM)).split():
        filter.add_rule(seccomp.ALLOW, name)
    equal, masked = seccomp.EQ, seccomp.MASKED_EQ
    filter.add_rule(seccomp.ALLOW, "clone", seccomp.Arg(0, masked, NEW_NAMESPACES, 0))
    # Nobody's limits but its own.
    filter.add_rule(seccomp.ALLOW, "prlimit64", seccomp.Arg(0, equal, 0))
    for option in PRCTL.values():
        filter.add_rule(seccomp.ALLOW, "prctl", seccomp.Arg(0, equal, option))
    for request in IOCTL.values():
        filter.add_rule(seccomp.ALLOW, "ioctl", seccomp.Arg(1, equal, request))
    for command in FCNTL.values():
        filter.add_rule(seccomp.ALLOW, "fcntl", seccomp.Arg(1, equal, command))
    fd = os.memfd_create("filter")
    with open(fd, "r+b") as file:
        filter.export_bpf(file)
        file.seek(0)
        return file.read()
