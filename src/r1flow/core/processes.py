"""Parallel worker processes, which end when the process that started them ends, even if it is killed.

    with ordered_map() as each:
        for row in each(grade, samples): ...    # as map(grade, samples): in order, and samples may come one by one

Results must not depend on the number of processes. Work and items are pickled. What only Linux can do for a process is
asked for here, too, and left out on macOS.
"""

import ctypes
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import chain
from multiprocessing.connection import wait
from typing import TypeVar

# Work in this process before others help: starting one takes seconds, for its imports alone. With two of them 12,400
# samples were graded in about 10 s of CPU time, and without in 1.0 (docs/history).
PATIENCE_S = 5.0
MOST = 16  # one process reads and writes what all of them grade
AHEAD = 256  # items under way: the model samples its next shard while these are graded

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of mallopt(3)
PR_SET_PDEATHSIG = 1  # of prctl(2)

one_of_many = False  # whether this process is one of a pool

Item = TypeVar("Item")
Found = TypeVar("Found")


def cores() -> int:
    """How many cores this process may use; on macOS all that there are."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def limit_memory(kind: int, size: int) -> None:
    """Limit this process's memory to so many bytes; `kind` is RLIMIT_AS or RLIMIT_DATA, which macOS refuses."""
    if sys.platform == "linux":
        resource.setrlimit(kind, (size, size))


def end_with_parent() -> None:
    """Have the kernel kill this process when its parent dies; macOS can't, and leaves it to the parent."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def keep_freed_memory() -> None:
    """Let this process keep the memory of freed tensors for its next ones, where the C library is glibc.

    glibc gives back every block above 32 MB at once, and the kernel clears each page of the next one. A training of
    135M parameters spent a third to a half of its time on that (docs/history). No result changes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt and mallopt(M_MMAP_THRESHOLD, 2**30):
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def keep_few_kernels() -> None:
    """Let oneDNN keep the kernels of the last 256 shapes, not of 1,024, unless the environment says otherwise.

    Every batch of texts has its own number of tokens, so few kernels are used again after their pass, and those that
    are kept lie between the blocks of freed tensors, which then can't be joined: a training of 135M parameters grew
    from 5 to 11 GB within 114 steps (docs/history). To be called before torch multiplies anything. No result changes.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")


@contextmanager
def ordered_map() -> Iterator[Callable[[Callable[[Item], Found], Iterable[Item]], Iterator[Found]]]:
    """Like `map`; work that takes longer than PATIENCE_S is shared with a process for each core."""
    with pool(min(cores(), MOST)) as processes:
        yield partial(shared, processes)


@contextmanager
def pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of processes, started when first needed; after an error in the caller, tasks that have begun finish."""
    spawn = multiprocessing.get_context("spawn")  # torch's threads don't survive a fork
    with ProcessPoolExecutor(workers, mp_context=spawn, initializer=begin) as processes:
        try:
            yield processes
        except BaseException:
            processes.shutdown(cancel_futures=True)
            raise


def begin() -> None:
    """Set up a worker process: it ends when the stage's process ends, even if killed; only the stage handles Ctrl-C."""
    global one_of_many
    one_of_many = True
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    threading.Thread(target=lambda: (wait([parent.sentinel]), os._exit(1)), daemon=True).start()


def shared(processes: ProcessPoolExecutor, work: Callable[[Item], Found], items: Iterable[Item]) -> Iterator[Found]:
    """`work` of every item, in order: done here until it has taken PATIENCE_S, and then by the processes."""
    items, spent = iter(items), 0.0
    for item in items:
        if spent > PATIENCE_S:
            yield from in_order(processes, work, chain([item], items))
            return
        start = time.perf_counter()
        result = work(item)
        spent += time.perf_counter() - start
        yield result


def in_order(
    processes: ProcessPoolExecutor, work: Callable[[Item], Found], items: Iterable[Item], ahead: int = AHEAD
) -> Iterator[Found]:
    """`work` of every item, in the items' order; no more than `ahead` of them are under way or waited for."""
    waiting: deque[Future[Found]] = deque()
    for item in items:
        waiting.append(processes.submit(work, item))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    for task in waiting:
        yield task.result()
