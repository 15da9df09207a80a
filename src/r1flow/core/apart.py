"""Reads what strangers wrote in a process of its own, with limits of memory and time: the caller keeps both.

    for row in read_apart(rows_of_text, path, size=path.stat().st_size, what=path): …

The first argument is a module's generator function, which gets the others; its values come back in batches, pickled,
and so does what it returns or raises. What a file says of its own size decides nothing: the process may take FREE bytes
of memory and GROWTH times `size`, which the caller measured, and `cpu_s` of CPU time between two batches. Whatever a
parser does then, it ends with one line. The process ends with its caller, whose end of the pipe closes.
"""

import os
import pickle
import resource
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any, BinaryIO

from r1flow.core.errors import UserError
from r1flow.core.processes import limit_memory

FREE, GROWTH, MOST = 2**29, 20, 2**34  # bytes; times; bytes. Python and pyarrow alone take 2**27
CPU_S = 300.0
BATCH, BATCH_BYTES = 256, 1 << 20  # values, or bytes of them by a guess
LENGTH = struct.Struct("<Q")


def memory_for(size: int) -> int:
    return min(MOST, FREE + GROWTH * size)


def read_apart(
    function: Callable[..., Iterator[Any]], *arguments: Any, size: int, what: Any, cpu_s: float | None = None
) -> Generator[Any, None, Any]:
    """What the generator function yields, as it comes; `what` is named where reading it takes too much.

    Returns what the function returns, and raises what it raises; UserError if it doesn't keep within its limits.
    """
    cpu_s = cpu_s or CPU_S
    remedy = "it isn't read: leave it out, or repair it"
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path if path)},
        start_new_session=True,  # Ctrl-C reaches the caller only
    )
    try:
        process.stdin.write(pickled((function, arguments, memory_for(size), cpu_s)))
        process.stdin.flush()
        while (frame := receive(process.stdout)) is not None:
            kind, value = frame
            if kind == "values":
                yield from value
            elif kind == "returned":
                return value
            else:
                raise value
        raise UserError(f"{what}: {end_in_words(process.wait(), size, cpu_s)}; {remedy}")
    except MemoryError:
        raise UserError(f"{what}: {end_in_words(0, size, cpu_s)}; {remedy}") from None
    finally:
        process.kill()
        process.stdin.close()
        process.stdout.close()
        process.wait()


def end_in_words(status: int, size: int, cpu_s: float) -> str:
    if status == -signal.SIGPROF:
        return f"reading it took more than {cpu_s:g} s without a result"
    ended = f" (signal {-status})" if status < 0 else ""
    return f"reading its {size} bytes took more than {memory_for(size) >> 20} MB of memory{ended}"


def pickled(value: Any) -> bytes:
    content = pickle.dumps(value)
    return LENGTH.pack(len(content)) + content


def receive(stream: BinaryIO) -> Any:
    """The next value that was sent; None at the end, also in the middle of one."""
    head = stream.read(LENGTH.size)
    content = stream.read(LENGTH.unpack(head)[0]) if len(head) == LENGTH.size else b""
    return pickle.loads(content) if head and len(content) == LENGTH.unpack(head)[0] else None


# In the process apart.


def serve_apart() -> None:
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no value
    make, arguments, memory, cpu_s = receive(sys.stdin.buffer)  # which imports the function's module
    threading.Thread(target=end_with_caller, daemon=True).start()
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit_memory(resource.RLIMIT_DATA, memory)
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    for frame in frames(make, arguments):
        out.write(pickled(frame))
        out.flush()
        signal.setitimer(signal.ITIMER_PROF, cpu_s)


def end_with_caller() -> None:
    os.read(0, 1)
    os._exit(1)


def frames(make: Callable[..., Generator[Any, None, Any]], arguments: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    values = make(*arguments)
    try:
        while True:
            batch: list[Any] = []
            size = 0
            while len(batch) < BATCH and size < BATCH_BYTES:
                try:
                    batch.append(next(values))
                except StopIteration as end:
                    yield "values", batch
                    yield "returned", end.value
                    return
                size += length_of(batch[-1])
            yield "values", batch
    except MemoryError:
        del values, batch
        yield "raised", MemoryError()
    except BaseException as error:  # a panic of a library in Rust is no Exception, and can't be pickled
        yield "values", batch
        yield "raised", error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")


def length_of(value: Any) -> int:
    """The characters of a row's texts, by which batches are cut."""
    texts = value.values() if isinstance(value, dict) else [value]
    return sum(len(text) for text in texts if isinstance(text, str | bytes))


if __name__ == "__main__":
    serve_apart()
