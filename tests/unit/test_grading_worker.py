"""A worker ends what takes too long, blames whose fault it was, goes on with the next, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import alive, below

from r1flow.grading import worker as workers
from r1flow.grading.verdict import Cause, Verdict
from r1flow.grading.worker import Worker, blame, worker

RIGHT, WRONG = Verdict(True), Verdict(False)
ENDLESS = r"\prod_{n=1}^{10^{7}} \sin(n)"  # for sympy
SHORT = r"\prod_{n=1}^{2} \sin(n)"  # a gold that has what its answer has: it is worked out
QUICK = Worker(cpu_s=0.3)
SURD = (r"\sqrt{8}", r"2\sqrt{2}")


@pytest.fixture(autouse=True, scope="module")
def stop_the_quick_one() -> Iterator[None]:
    yield
    QUICK.stop()


def test_an_endless_answer_is_wrong_and_the_next_is_graded() -> None:
    found = QUICK.verdicts([SURD, (SHORT, ENDLESS), SURD])
    assert found == [RIGHT, Verdict(False, Cause.TIMEOUT), RIGHT]


def test_an_endless_gold_is_its_own_fault() -> None:
    assert QUICK.verdicts([(ENDLESS, "7"), SURD]) == [Verdict(None, Cause.UNGRADABLE), RIGHT]


@pytest.mark.parametrize(
    ("by", "first", "second"),
    [
        (signal.SIGPROF, Verdict(False, Cause.TIMEOUT), None),
        (signal.SIGALRM, Verdict(None, Cause.INFRASTRUCTURE), None),
        (signal.SIGSEGV, None, WRONG),
        (signal.SIGABRT, None, WRONG),
        (signal.SIGKILL, None, Verdict(None, Cause.INFRASTRUCTURE)),
        (0, None, Verdict(None, Cause.INFRASTRUCTURE)),
    ],
)
def test_whose_fault_a_death_is(by: int, first: Verdict | None, second: Verdict | None) -> None:
    assert blame(by, 1) == first
    if second:
        assert blame(by, 2) == second


def test_what_sympy_raises_is_a_wrong_answer() -> None:
    def odd(gold: str, answer: str) -> bool:
        raise NotImplementedError("no solution in closed form")

    assert workers.grade(odd, ["7", "8"]) is False


def test_a_worker_killed_from_outside_is_replaced() -> None:
    with worker() as grading:
        assert grading.verdicts([SURD]) == [RIGHT]
        (inner,) = below(grading.process.pid)
        os.kill(inner, signal.SIGKILL)
        assert grading.verdicts([SURD]) == [RIGHT]
        os.killpg(grading.process.pid, signal.SIGKILL)
        assert grading.verdicts([SURD, SURD]) == [RIGHT, RIGHT]


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_one_killed_between_two_questions_does_not_shift_the_next_answers(by: int) -> None:
    with worker() as grading:
        assert grading.verdicts([SURD]) == [RIGHT]
        (inner,) = below(grading.process.pid)
        os.kill(inner, by)
        while alive(inner):
            time.sleep(0.001)
        assert grading.verdicts([SURD]) == [RIGHT]
        assert grading.verdicts([("1", r"\sqrt{2}"), SURD]) == [WRONG, RIGHT]


def test_a_worker_that_dies_on_every_pair_knows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "start_worker", gone)
    assert Worker().verdicts([SURD, SURD]) == [Verdict(None, Cause.INFRASTRUCTURE)] * 2


def gone(cpu_s: float) -> "subprocess.Popen[bytes]":
    """A process that ends without an answer."""
    return subprocess.Popen(["cat", "/dev/null"], stdin=-1, stdout=-1, start_new_session=True)


def test_one_that_does_not_start_is_our_own_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(RuntimeError, match="did not start"):
        Worker().verdicts([SURD])


def test_a_machine_with_no_process_left_knows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*words: object, **options: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refused)
    assert Worker().verdicts([SURD, SURD]) == [Verdict(None, Cause.INFRASTRUCTURE)] * 2


def test_many_threads_get_their_own_answers() -> None:
    pairs = [(rf"\sqrt{{{n}}}", rf"\sqrt{{{n + n % 2}}}") for n in range(2, 30)]
    found: dict[int, list[Verdict]] = {}

    def ask(name: int) -> None:
        with worker() as grading:
            found[name] = grading.verdicts(pairs[name:])

    threads = [threading.Thread(target=ask, args=(name,)) for name in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {name: [Verdict(n % 2 == 0) for n in range(2 + name, 30)] for name in range(6)}


def test_an_interrupted_question_does_not_shift_the_next_answers() -> None:
    with worker() as grading:
        letters = grading.ask([SURD, ("1", r"\sqrt{2}"), SURD])
        assert next(letters) == b"1\n"
        letters.close()
        assert grading.verdicts([("1", r"\sqrt{2}"), SURD]) == [WRONG, RIGHT]


def test_a_forked_child_has_workers_of_its_own() -> None:
    with worker() as grading:
        assert grading.verdicts([SURD]) == [RIGHT]
    child = os.fork()
    if child == 0:
        with worker() as grading:
            os._exit(grading.process is not None)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


ODD_CALLER = r"""
import os, signal
signals = (signal.SIGPROF, signal.SIGALRM, signal.SIGABRT, signal.SIGCHLD)
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
for number in signals:
    signal.signal(number, signal.SIG_IGN)
os.close(0)
os.close(2)
from r1flow.grading.worker import Worker
grading = Worker(cpu_s=0.3)
print(grading.verdicts([(r"\prod_{n=1}^{2} \sin(n)", r"\prod_{n=1}^{10^{7}} \sin(n)"), (r"\sqrt{8}", r"2\sqrt{2}")]))
grading.stop()
"""


def test_limits_hold_for_a_caller_that_ignores_signals_and_has_closed_its_standard_streams() -> None:
    done = subprocess.run([sys.executable, "-c", ODD_CALLER], capture_output=True, text=True, check=True)
    assert done.stdout == f"{[Verdict(False, Cause.TIMEOUT), RIGHT]}\n"


PROGRAM = """
import os, signal, sys
from r1flow.grading.worker import worker
with worker() as grading:
    print(grading.verdicts([(r"\\sqrt{8}", r"2\\sqrt{2}")])[0].correct, grading.process.pid, flush=True)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("end", ["ended", "killed"])
def test_workers_end_with_their_caller(end: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, end], capture_output=True, text=True, check=False)
    verdict, pid = done.stdout.split()
    assert verdict == "True"
    until = time.monotonic() + 60
    while alive(int(pid)) and time.monotonic() < until:
        time.sleep(0.01)
    assert not alive(int(pid))


def test_a_program_that_shadows_modules_is_left_alone(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(workers.__file__).parents[2])}
    (tmp_path / "random.py").write_text("raise SystemExit('imported')")
    program = r"from r1flow.grading.math import equal; print(equal(r'\sqrt{8}', r'2\sqrt{2}'))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"


def test_text_is_never_evaluated() -> None:
    program = (
        "import sympy\nfrom r1flow.grading.closed_forms import UnreadableError, compare_exactly\ncompare_exactly()\n"
        "for text in ('7', '__import__(\"os\").abort()'):\n"
        "    try:\n        sympy.sympify(text)\n    except UnreadableError:\n        continue\n"
        "    raise SystemExit(text)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
