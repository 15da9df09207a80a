"""The sandbox says truly how a solution ended, refuses to be absent, and keeps nothing."""

import os
import select
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from abuse.judging import state
from processes import below

from r1flow import sandbox
from r1flow.core.errors import UserError
from r1flow.sandbox import Limits, SandboxError, Stop, Tier, bubblewrap, interpreter, landlock, process, seccomp

TIERS = sandbox.tiers() or [pytest.param(None, marks=pytest.mark.skip(reason="no sandbox holds on this machine"))]
PYTHON = ["{python}", "-S", "{code}"]
LEAK_RUNS = 10_000  # in the best tier; a fifth of that in the other

every_tier = pytest.mark.parametrize("tier", TIERS)


@every_tier
def test_status_and_bytes_come_back(tier: Tier) -> None:
    solution = (
        b"import os, sys\nprint(input())\nprint('e', file=sys.stderr)\nos.write(int(sys.argv[1]), b'r')\nsys.exit(3)"
    )
    result = sandbox.run([*PYTHON, "{report}"], solution, stdin=b"in\n", tier=tier)
    assert (result.status, result.stdout, result.stderr, result.report) == (3, b"in\n", b"e\n", b"r")
    assert result.stopped is None


@every_tier
def test_a_signal_is_a_status(tier: Tier) -> None:
    result = sandbox.run(PYTHON, b"import os, signal\nos.kill(os.getpid(), signal.SIGTERM)", tier=tier)
    assert (result.status, result.stopped) == (128 + 15, None)


@every_tier
@pytest.mark.parametrize(
    ("solution", "limits", "stopped"),
    [
        (b"while True: pass", Limits(cpu_s=1, wall_s=60), Stop.CPU),
        (b"import time\ntime.sleep(1000)", Limits(wall_s=0.5), Stop.WALL),
        (b"while True: print('x' * 1000)", Limits(wall_s=60), Stop.OUTPUT),
        (b"print('x' * 2000000)", Limits(), Stop.OUTPUT),
    ],
)
def test_limits_say_which(tier: Tier, solution: bytes, limits: Limits, stopped: Stop) -> None:
    assert sandbox.run(PYTHON, solution, limits=limits, tier=tier).stopped is stopped


@every_tier
def test_hash_order_is_the_same_every_time(tier: Tier) -> None:
    solution = b"print({str(n) for n in range(100)}, hash('x'))"
    assert len({sandbox.run(PYTHON, solution, tier=tier).stdout for _ in range(3)}) == 1


@every_tier
def test_solutions_see_the_standard_library_only(tier: Tier) -> None:
    solution = b"import json, re, ctypes, ssl, sqlite3\ntry:\n    import pip\nexcept ImportError:\n    print('none')"
    result = sandbox.run(PYTHON, solution, tier=tier)
    assert (result.stdout, result.stderr) == (b"none\n", b"")


@every_tier
def test_threads_may_share_it(tier: Tier) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: sandbox.run(PYTHON, b"print(%d)" % n, tier=tier).stdout, range(16)))
    assert found == [b"%d\n" % n for n in range(16)]


@every_tier
def test_a_forked_caller_has_places_of_its_own(tier: Tier) -> None:
    """Even if all of its parent's were taken when it forked."""
    code = """
import os
from r1flow import sandbox
taken = [sandbox.SLOTS.get() for _ in range(sandbox.workers())]
child = os.fork()
if child == 0:
    status = sandbox.run(["{python}", "-S", "{code}"], b"raise SystemExit(7)", tier=sandbox.Tier(TIER)).status
    os._exit(status)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    command = [sys.executable, "-c", code.replace("TIER", repr(str(tier)))]
    assert subprocess.run(command, timeout=60).returncode == 7


@every_tier
def test_a_caller_without_standard_streams_is_served(tier: Tier) -> None:
    code = """
import os
from r1flow import sandbox
for stream in range(3):
    os.close(stream)
solution = b"raise SystemExit(int(input()))"
os._exit(sandbox.run(["{python}", "-S", "{code}"], solution, stdin=b"7", tier=sandbox.Tier(TIER)).status)
"""
    command = [sys.executable, "-c", code.replace("TIER", repr(str(tier)))]
    assert subprocess.run(command, timeout=60).returncode == 7


@every_tier
def test_solutions_go_first_when_memory_runs_out(tier: Tier, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that was started for a solution, however slow we are to look after it."""
    scores: list[str] = []
    supervise, start, wait = process.supervise, subprocess.Popen, process.Watch.wait

    def watched(argv, stdin, inherited, ends, limits, ticket):
        def started(*arguments, **options):
            keeper = start(*arguments, **options)
            select.select([ends[0][0]], [], [], 60)  # until the solution has written
            return keeper

        monkeypatch.setattr(process.subprocess, "Popen", started)
        return supervise(argv, stdin, inherited, ends, limits, ticket)

    def look(watch: process.Watch) -> None:
        scores.extend((folder / "oom_score_adj").read_text() for folder in family(watch.process.pid))
        watch.kill()
        wait(watch)

    monkeypatch.setattr(sandbox, "supervise", watched)
    monkeypatch.setattr(process.Watch, "wait", look)
    sandbox.run(PYTHON, b"import time; print(1, flush=True); time.sleep(60)", tier=tier)
    assert len(scores) >= 2
    assert set(scores) == {"1000\n"}


def family(pid: int) -> list[Path]:
    """The folders in /proc of a process and of all that descend from it."""
    return [Path(f"/proc/{each}") for each in (pid, *below(pid))]


def test_a_writable_folder_has_its_size() -> None:
    if Tier.BUBBLEWRAP not in sandbox.tiers():
        pytest.skip("bubblewrap doesn't hold on this machine")
    fill = b"""
try:
    for n in range(9): open(f"/tmp/{n}", "wb", 0).write(bytes(2 ** 20))
except OSError as error: print(n, error.errno)
"""
    result = sandbox.run(PYTHON, fill, limits=Limits(disk_mb=4), tier=Tier.BUBBLEWRAP)
    assert result.stdout == b"4 28\n"


def test_landlock_refuses_a_writable_folder() -> None:
    with pytest.raises(UserError, match="disk_mb"):
        sandbox.run(PYTHON, b"", limits=Limits(disk_mb=4), tier=Tier.LANDLOCK)


def test_without_a_tier_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox.available.cache_clear()
    monkeypatch.setattr(sandbox.bubblewrap, "why_not", lambda: "/usr/bin/bwrap is missing")
    monkeypatch.setattr(sandbox.landlock, "why_not", lambda: "this kernel has Landlock ABI 4, and 6 is needed")
    with pytest.raises(UserError, match=r"bwrap is missing.*ABI 4.*apt-get install bubblewrap"):
        sandbox.run(PYTHON, b"print(1)")
    assert sandbox.tiers() == []
    sandbox.available.cache_clear()


@every_tier
def test_the_self_test_notices_what_does_not_hold(tier: Tier, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter that allows everything opens sockets, in either tier."""
    import pyseccomp

    open_filter = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    with open(os.memfd_create("filter"), "r+b") as file:
        open_filter.export_bpf(file)
        file.seek(0)
        content = file.read()
    monkeypatch.setattr(seccomp, "allowed", lambda: content)
    assert "a socket of family" in (sandbox.fault_of(tier) or "")


@every_tier
def test_a_self_test_that_does_not_come_to_its_end_is_a_fault(tier: Tier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "PROBE", "raise SystemExit('no such module')")
    assert sandbox.fault_of(tier) == "its self-test ended with status 1: no such module"


@every_tier
def test_the_self_test_notices_fork_bombs(tier: Tier, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sandbox.MODULES[tier]
    monkeypatch.setattr(module, "limited", lambda command, limits, processes: list(command))
    assert "more processes than allowed" in (sandbox.fault_of(tier) or "")


@every_tier
def test_a_keeper_that_fails_is_not_the_solutions_fault(tier: Tier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "allowed", lambda: b"not a filter")
    with pytest.raises(SandboxError, match="did not start"):
        sandbox.run(PYTHON, b"print(1)", tier=tier)
    assert "did not start" in (sandbox.fault_of(tier) or "")


def test_a_cage_whose_caller_is_dead_starts_nothing() -> None:
    if Tier.LANDLOCK not in sandbox.tiers():
        pytest.skip("Landlock doesn't hold on this machine")
    with process.pipes(2) as ([told, printed], [status, output]), sandbox.descriptors(seccomp.allowed()) as [filter]:
        words = [sys.executable, "-I", "-S", landlock.cage.__file__, "0", "-1", str(filter), str(status), "/usr", ""]
        keeper = subprocess.run([*words, "/usr/bin/echo", "started"], pass_fds=[filter, status], stdout=output)
        assert keeper.returncode == 0
        for pipe in (told, printed):
            with pytest.raises(BlockingIOError):
                os.read(pipe, 1)


def ended(output: bytes, limits: Limits) -> process.Watch:
    """A watched keeper that has ended and left this output in its pipe."""
    with process.pipes(1) as (readers, writers):
        keeper = subprocess.Popen(["true"])
        os.waitid(os.P_PID, keeper.pid, os.WEXITED | os.WNOWAIT)
        os.write(writers[0], output)
        watch = process.Watch(keeper, readers, limits, 0, "")
        watch.wait()
        keeper.wait()
    return watch


def test_what_is_still_in_the_pipe_at_the_end_is_read_and_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "CHUNK_BYTES", 10)
    whole, cut = (ended(b"x" * 100, Limits(output_mb=size / 2**20)) for size in (100, 50))
    assert ([*whole.got.values()], whole.stopped) == ([b"x" * 100], None)
    assert ([*cut.got.values()], cut.stopped) == ([b"x" * 51], Stop.OUTPUT)


def test_a_sandbox_that_outlives_its_kill_is_an_error() -> None:
    watch = process.Watch(None, [], Limits(wall_s=0), 0, "")
    watch.stopped = Stop.WALL
    with pytest.raises(SandboxError, match=r"did not end within \d+ s of being killed"):
        watch.enforce()


@every_tier
def test_an_interrupted_run_leaves_nothing(tier: Tier, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def interrupted(watch: process.Watch) -> None:
        seen.append(watch.process.pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(process.Watch, "enforce", interrupted)
    before = sorted(os.listdir("/proc/self/fd"))
    with pytest.raises(KeyboardInterrupt):
        sandbox.run(PYTHON, b"import os, time\nos.fork()\nprint(1, flush=True)\ntime.sleep(1000)", tier=tier)
    assert seen and not Path(f"/proc/{seen[0]}").exists()
    assert sorted(os.listdir("/proc/self/fd")) == before


# -- other machines ----------------------------------------------------------------------------------------------


def test_root_s_solutions_get_a_uid_of_their_own_and_others_a_namespace_of_users() -> None:
    root, other = (bubblewrap.argv(["x"], uid, 5, "main", 6, 7, Limits(processes=4), "t") for uid in (30_007, None))
    assert "--reuid=30007" in root and "--unshare-user" not in root and "--nproc=4:4" in root
    assert "--unshare-user" in other and "/usr/bin/setpriv" not in other and "--nproc=5:5" in other  # and the shell


def test_without_root_a_cage_keeps_the_uid_and_counts_from_what_its_user_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "tasks", lambda uid: 100)
    root, other = (landlock.argv(["x"], uid, 5, "main", 6, 7, Limits(processes=4), "t") for uid in (30_007, None))
    assert root[5] == "30007" and "--nproc=4:4" in root
    assert other[5] == "-1" and "--nproc=104:104" in other


def test_a_user_s_tasks_are_threads_and_those_that_end_meanwhile_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    with ThreadPoolExecutor(5) as pool:
        for _ in range(5):
            pool.submit(over.wait)
        found = landlock.tasks(os.getuid())
        over.set()
    assert found >= 6 and landlock.tasks(2**32 - 2) == 0  # the latter is nobody's

    listdir = os.listdir

    def gone(folder: Path) -> list[str]:
        if Path(folder).name == "task":
            raise ProcessLookupError(3, "No such process", str(folder))
        return listdir(folder)

    monkeypatch.setattr(os, "listdir", gone)
    assert landlock.tasks(os.getuid()) == 0


def test_folders_that_are_no_links_into_usr_are_shown_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap.os.path, "islink", lambda path: False)
    words = " ".join(bubblewrap.mounts(interpreter.own(), 5, "main", Limits()))
    assert "--ro-bind /bin /bin " in words and "--symlink" not in words


def test_of_a_python_that_is_elsewhere_all_but_its_packages_is_shown(tmp_path: Path) -> None:
    for name in ("python3.11/json", "python3.11/site-packages/torch", "tcl"):
        (tmp_path / "lib" / name).mkdir(parents=True)
    (tmp_path / "lib/python3.11/os.py").touch()
    python, lib = str(tmp_path / "bin/python3.11"), tmp_path / "lib"
    shown = [str(lib / name) for name in ("python3.11/json", "python3.11/os.py", "tcl")]
    assert interpreter.parts(python) == [python, *shown]
    assert interpreter.packages(python) == [str(lib / "python3.11/site-packages")]


@pytest.mark.parametrize(("abi", "said"), [(4, "has Landlock ABI 4, and 6 is needed"), (-1, "has Landlock ABI 0, and")])
def test_an_older_kernel_is_named_with_what_is_needed(abi: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock.cage, "abi", lambda: abi)
    assert said in (landlock.why_not() or "")


def test_without_libseccomp_there_is_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyseccomp", None)
    with pytest.raises(UserError, match=r"^no seccomp filter \(.*\); install it: apt-get install libseccomp2"):
        seccomp.allowed.__wrapped__()


def test_where_somebody_has_every_uid_there_is_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.pwd, "getpwuid", lambda uid: "somebody")
    with pytest.raises(UserError, match="all uids from 30000 to 60000 are in use"):
        sandbox.free_uid.__wrapped__(7)


def test_importing_it_is_light() -> None:
    code = "import sys, r1flow.grading.code, r1flow.sandbox; print({'torch', 'pyseccomp'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


@pytest.mark.slow
@every_tier
def test_ten_thousand_runs_leak_nothing(tier: Tier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No process, thread, descriptor, mount, file; every fifth solution is one that leaves children."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # others have files in the usual one
    tail, mark = b"\nimport os, time\nif os.fork() == 0: time.sleep(1000)\n", f"r1flow-leak-{os.getpid()}"

    def once(number: int) -> bool:
        solution = b"print(%d)" % number + (tail if number % 5 == 0 else b"")
        return sandbox.run(PYTHON, solution, mark, tier=tier, limits=Limits(wall_s=60)).stdout == b"%d\n" % number

    def held() -> dict[str, set]:
        named = {file for folder in ("/tmp", "/dev/shm") for file in Path(folder).glob(f"*{mark}*")}
        return state() | {"files": {*tmp_path.iterdir(), *named}}

    before = held()
    with ThreadPoolExecutor(sandbox.workers()) as pool:
        assert all(pool.map(once, range(LEAK_RUNS if tier == sandbox.tier() else LEAK_RUNS // 5)))
    new = {kind: found - before[kind] for kind, found in held().items()}
    assert not any(new.values()), new


# Python as it is on macOS, where these names don't exist.
ELSEWHERE = """
import os, sys
sys.platform = "darwin"
sys.modules["pyseccomp"] = None
for name in ("sched_getaffinity", "pidfd_open", "memfd_create", "setresuid", "O_PATH", "MFD_CLOEXEC"):
    delattr(os, name)
import r1flow.engine.run, r1flow.grading.code, r1flow.grading.worker, r1flow.sandbox as sandbox
from r1flow.core import processes
assert sandbox.tiers() == [] and processes.cores() == os.cpu_count() and sandbox.workers() == os.cpu_count()
processes.end_with_parent()
try:
    sandbox.run(["{python}", "{code}"], b"print(1)")
except sandbox.UserError as error:
    print(error)
"""


def test_where_there_is_no_linux_all_is_imported_and_no_solution_runs() -> None:
    done = subprocess.run([sys.executable, "-c", ELSEWHERE], capture_output=True, text=True)
    assert done.stdout.startswith("no sandbox for model-written code: both tiers are Linux's"), done.stderr
