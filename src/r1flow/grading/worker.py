r"""Grades mathematics in processes that may be killed: a text that takes for ever costs its own time limit only.

    with worker() as grading:
        grading.verdicts([("1/2", "0.5"), ("9", "9^{9^{9}}")])    # [Verdict(True), Verdict(False)]

A worker is two processes, started by `python -m r1flow.grading.worker` (no fork of the caller, who may have threads,
and no second import of its program). The outer one imports the mathematics once and forks the inner one, which grades.
For each pair the inner one sets two timers whose signals end it: ITIMER_PROF limits its CPU time, so it is the answer's
own fault, and ITIMER_REAL, much longer, ends it if the machine starves it. The kernel kills it even in the middle of
one long addition; the outer one reports the signal and forks the next. The caller blames the pair that was being graded
and goes on with the rest. When the caller ends, even if killed, the pipe closes, and the worker ends.

Protocol on the pipes: in goes a line of JSON with a list of pairs; out comes one line per pair: 1, 0 or ? (the gold
can't be read), or ! and the number of the signal that ended the process.
"""

import atexit
import json
import logging
import os
import queue
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from r1flow.core.processes import limit_memory
from r1flow.grading.verdict import Cause, Verdict

CPU_S = 2.0  # of one pair; real ones take 1 to 50 ms
# 30 times CPU_S, which only a machine that is busy with other things takes.
WALL_S = 60.0
MEMORY = 2**30  # bytes of address space; sympy takes 2**27
WORKERS = 2
LETTERS = {True: b"1\n", False: b"0\n", None: b"?\n"}
VERDICTS = {b"1\n": Verdict(True), b"0\n": Verdict(False), b"?\n": Verdict(None, Cause.UNGRADABLE)}
TIMERS = {signal.SIGPROF, signal.SIGALRM}
OWN_FAULT = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
PROBE = "0"  # an answer that takes no time: if grading it does, the gold is at fault
# One pair of each kind, so that the parser builds its tables (20 to 200 ms per kind) before the first fork.
WARM_UP = (
    (r"\frac{1}{2}", r"\sqrt{x^2+1}"), (r"\{1,2\}", r"\left(1, \frac{\pi}{2}\right]"), ("x=1", r"y \le 2x+1"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1\\3\end{pmatrix}"), (r"2^{10}-3!", r"1+2i"),
    (r"\sin 30^\circ", r"\log_2 x"), (r"(-\infty,2) \cup [3,4)", r"x \in [1,2]"), (r"\text{even}", "a_1+f(x)"),
    (r"|x|", r"\binom{5}{2}"), (r"\pm 3", r"2\sqrt[3]{5} \cdot 1,234"), ("3/4", "x^2-x=0"),
    ("x^4 - 2x^3 + 5x - 7", r"\left[ \frac{9 \pi^2}{4}, 1 \right]"), ("(a+5)(b+2)", "5x - 2y + z + 4 = 0"),
    ("(3,-4,5)", "2n^2 + 4n"),
)  # fmt: skip


# In the caller.


class Died(Exception):
    """The worker's process was ended by this signal while it graded a pair, or is gone (0)."""

    def __init__(self, by: int) -> None:
        self.by = by


class Worker:
    """A pair of processes, started when first needed; one caller at a time."""

    def __init__(self, cpu_s: float = CPU_S) -> None:
        self.cpu_s = cpu_s
        self.process: subprocess.Popen[bytes] | None = None

    def verdicts(self, pairs: list[tuple[Any, ...]]) -> list[Verdict]:
        """One verdict per (gold, answer) or (gold, answer, rules), whatever becomes of the worker.

        Raises RuntimeError if the worker's own program is broken.
        """
        decided: list[Verdict] = []
        deaths = 0
        while len(decided) < len(pairs):
            known = len(decided)
            try:
                for letter in self.ask(pairs[known:]):
                    decided.append(VERDICTS[letter])
            except Died as died:
                deaths = deaths + 1 if len(decided) == known else 1
                blamed = blame(died.by, deaths)
                if blamed:
                    decided.append(self.unless_gold(pairs[len(decided)][0], blamed))
                    deaths = 0
        return decided

    def unless_gold(self, gold: str, blamed: Verdict) -> Verdict:
        """The verdict on a pair that ended the worker; the gold is at fault if it does so with any answer."""
        if blamed.correct is None:
            return blamed
        try:
            (letter,) = list(self.ask([(gold, PROBE)]))
        except Died:
            letter = LETTERS[None]
        return VERDICTS[letter] if letter == LETTERS[None] else blamed

    def ask(self, pairs: list[tuple[Any, ...]]) -> Iterator[bytes]:
        """The worker's letters, one per pair; raises Died for a pair without one. The iterator must be exhausted."""
        process = self.running()
        try:
            process.stdin.write(json.dumps(pairs).encode() + b"\n")
            process.stdin.flush()
            for _ in pairs:
                line = process.stdout.readline()
                if line.startswith(b"!") and line.endswith(b"\n"):
                    raise Died(int(line[1:]))
                if line not in VERDICTS:
                    raise BrokenPipeError
                yield line
        except Died as died:
            # Perhaps between two questions, and the next inner one answers this.
            if died.by not in TIMERS | OWN_FAULT:
                self.stop()
            raise
        except BrokenPipeError:
            self.stop()
            raise Died(0) from None
        except BaseException:  # interrupted: what is still to come would be taken for the next answer's
            self.stop()
            raise

    def running(self) -> "subprocess.Popen[bytes]":
        if self.process is None or self.process.poll() is not None:
            self.stop()
            try:
                self.process = start_worker(self.cpu_s)
            except OSError:  # no process or memory is available
                raise Died(0) from None
        return self.process

    def stop(self) -> None:
        """End both processes; the worker can be used again."""
        process, self.process = self.process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        with suppress(BrokenPipeError):
            process.stdin.close()


def blame(by: int, deaths: int) -> Verdict | None:
    """The verdict on the pair in flight when a worker was ended by a signal; None: try the pair once more."""
    if by == signal.SIGPROF:
        return Verdict(False, Cause.TIMEOUT)
    if by == signal.SIGALRM:
        return Verdict(None, Cause.INFRASTRUCTURE)
    if deaths < 2:
        return None
    return Verdict(False) if by in OWN_FAULT else Verdict(None, Cause.INFRASTRUCTURE)


def start_worker(cpu_s: float) -> "subprocess.Popen[bytes]":
    """A worker that is ready, in its own process group: Ctrl-C then reaches the caller only, which ends the worker."""
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path if path)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", __name__, str(cpu_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "0"},
        start_new_session=True,
    )
    if process.stdout.readline() != b"ready\n":
        process.kill()
        process.wait()
        raise RuntimeError("the grading worker did not start; its own message is above")
    return process


# A caller's workers: checked out, so that any thread may ask.

idle: "queue.LifoQueue[Worker]" = queue.LifoQueue()


@contextmanager
def worker() -> Iterator[Worker]:
    """A free worker, for as long as it is needed; waits until there is one."""
    mine = idle
    chosen = mine.get()
    try:
        yield chosen
    finally:
        mine.put(chosen)


def create_workers() -> None:
    """Create this process's workers; a forked child needs new ones, since the old pipes belong to its parent."""
    global idle
    idle = queue.LifoQueue()
    for _ in range(WORKERS):
        idle.put(Worker())


def stop_all() -> None:
    while True:
        try:
            idle.get_nowait().stop()
        except queue.Empty:
            return


# In the worker.


def serve(cpu_s: float) -> None:
    """The outer process: import, warm up, then one inner process after another until one finds the pipe's end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)  # takes the place of a standard error that is closed
    out = os.dup(1)
    os.dup2(2, 1)  # what libraries print is not an answer
    for needed in (*TIMERS, signal.SIGABRT, signal.SIGCHLD):
        # A caller may ignore or block them, which is inherited.
        signal.signal(needed, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    logging.disable()  # math-verify warns that it has no time limit of its own
    from r1flow.grading.closed_forms import matches

    for gold, answer in WARM_UP:
        matches(gold, answer)
    limit_memory(resource.RLIMIT_AS, MEMORY)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.write(out, b"ready\n")
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    while True:
        inner = os.fork()
        if inner == 0:
            answer_lines(matches, out, cpu_s)
        _, status = os.waitpid(inner, 0)
        if not os.WIFSIGNALED(status):
            os._exit(os.WEXITSTATUS(status))
        os.write(out, b"!%d\n" % os.WTERMSIG(status))


def answer_lines(matches: Callable[..., bool | None], out: int, cpu_s: float) -> NoReturn:
    """The inner process: a letter per pair until the pipe ends; never returns."""
    status = 1
    try:
        with os.fdopen(0, "rb") as requests:
            for line in requests:
                for question in json.loads(line):
                    limit(cpu_s, WALL_S)
                    letter = LETTERS[grade(matches, question)]
                    limit(0, 0)  # before the letter is out: a timer must not end what has answered
                    os.write(out, letter)
        status = 0
    finally:
        os._exit(status)


def limit(cpu_s: float, wall_s: float) -> None:
    """From now on; 0 lifts it. The signals' default action ends the process, whatever it is doing."""
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    signal.setitimer(signal.ITIMER_REAL, wall_s)


def grade(matches: Callable[..., bool | None], question: list[Any]) -> bool | None:
    try:
        return matches(*question)
    except (RecursionError, MemoryError):  # may have left the parser's tables half made: start afresh, try again
        os.kill(os.getpid(), signal.SIGABRT)
    except Exception:  # sympy raises anything on odd expressions; a gold that can't be read raises nothing
        return False


create_workers()
os.register_at_fork(after_in_child=create_workers)
atexit.register(stop_all)

if __name__ == "__main__":
    serve(float(sys.argv[1]))
