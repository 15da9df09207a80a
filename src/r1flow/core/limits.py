"""A limit of time on a block of code, such as a stranger's template, a tool that a model calls, or a server's reply."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn


@contextmanager
def time_limit(cpu_s: float = 0, clock_s: float = 0, error: type[BaseException] = TimeoutError) -> Iterator[None]:
    """Raise `error` in the block after so many seconds of CPU time, or by the clock, waiting included; 0 is no limit.

    Without effect in threads, where Python handles no signals. Python can't interrupt a library in the middle of a
    long operation. It takes 10 µs.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> NoReturn:
        raise error(f"it takes more than {cpu_s or clock_s:g} s")

    limits = ((signal.SIGVTALRM, signal.ITIMER_VIRTUAL, cpu_s), (signal.SIGALRM, signal.ITIMER_REAL, clock_s))
    limits = [limit for limit in limits if limit[2]]
    before = [signal.signal(number, stop) for number, _, _ in limits]
    for _, timer, seconds in limits:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(limits, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler or signal.SIG_DFL)
