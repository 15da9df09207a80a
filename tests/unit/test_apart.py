"""Files of strangers are read in a process apart: what they do there costs a line, not memory or time of the caller."""

import base64
import json
import os
import pickle
import resource
import signal
import subprocess
import sys
import time
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from r1flow.core import apart
from r1flow.core.apart import read_apart
from r1flow.core.errors import UserError
from r1flow.core.files import BadFile
from r1flow.core.parquet import read_rows, stream_rows
from r1flow.core.row_files import rows_of_text
from r1flow.data.loaders import load_apart
from r1flow.tracking.left_out import Count

SOURCE = {"columns": {"question": "question", "answer": "answer"}, "by": {}, "where": {}, "fixed": {"task": "t"}}
SOURCE |= {"max_row_bytes": 200_000_000, "max_field_characters": 200_000_000}


Reader = Callable[..., Iterator[int]]


def numbers(end: int) -> Generator[int, None, str]:
    print("what a library prints is no value")
    yield from range(end)
    return f"{end} numbers"


def greedy() -> Iterator[int]:
    yield 1
    yield len(bytearray(4 * 2**30))


def endless() -> Iterator[int]:
    yield 1
    while True:
        pass


def crashing() -> Iterator[int]:
    yield 1
    os.kill(os.getpid(), signal.SIGSEGV)


def faulty() -> Iterator[int]:
    yield 1
    raise UserError("x.json: no rows")


def sleeping() -> Iterator[int]:
    yield from [os.getpid()] * apart.BATCH
    time.sleep(1000)


def test_values_come_in_order_with_what_is_returned() -> None:
    def all_of(end: int) -> Generator[int, None, None]:
        said.append((yield from read_apart(numbers, end, size=0, what="x")))

    said: list[str] = []
    for end in (0, 1, apart.BATCH, 3 * apart.BATCH + 1):
        assert list(all_of(end)) == list(range(end))
    assert said[-1] == f"{3 * apart.BATCH + 1} numbers"


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (greedy, "x: reading its 7 bytes took more than 512 MB of memory"),
        (endless, "x: reading it took more than 0.5 s without a result"),
        (crashing, r"took more than 512 MB of memory \(signal 11\)"),
        (faulty, r"^x\.json: no rows$"),
    ],
)
def test_whatever_a_reader_does_is_one_line(function: Reader, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "CPU_S", 0.5)
    with pytest.raises(UserError, match=said) as refused:
        list(read_apart(function, size=7, what="x"))
    assert "\n" not in str(refused.value)


def test_the_process_ends_when_nobody_reads_on_or_the_caller_is_killed() -> None:
    values = read_apart(sleeping, size=0, what="x")
    pid = next(values)
    values.close()
    assert not Path(f"/proc/{pid}").exists()
    program = f"""
from {__name__} import sleeping
from r1flow.core.apart import read_apart
values = read_apart(sleeping, size=0, what="x")
print(next(values), flush=True)
import time; time.sleep(1000)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    caller = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment)
    pid = int(caller.stdout.readline())
    caller.kill()
    caller.wait()
    caller.stdout.close()
    while Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes():  # not yet a zombie
        time.sleep(0.01)


# -- files ---------------------------------------------------------------------------------------------------------


def bomb(path: Path, rows: int, characters: int) -> None:
    """One text, which every row refers to: some hundred bytes."""
    text = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * characters]))
    pq.write_table(pa.table({"question": text, "answer": ["1"] * rows}), path, compression="zstd")


@pytest.mark.parametrize(("rows", "characters"), [(1500, 4_000_000), (300_000, 60)])
def test_samples_that_unpack_to_gigabytes_are_refused(tmp_path: Path, rows: int, characters: int) -> None:
    path = tmp_path / "samples.parquet"
    bomb(path, rows, characters)
    assert path.stat().st_size < 40_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError, match=r"samples\.parquet: "):
        read_rows([path])
    with pytest.raises(UserError, match=r"samples\.parquet: "):
        deque(stream_rows(path))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kB


def test_samples_are_read_as_pyarrow_reads_them_and_what_is_none_is_named(tmp_path: Path) -> None:
    table = pa.table({"a": ["x", None, "é"], "b": [1, 2, 3], "c": [[0.5], [], None]})
    for name in ("one", "two"):
        pq.write_table(table, tmp_path / name)
    assert read_rows([tmp_path / "one", tmp_path / "two"]) == [table.to_pylist()] * 2
    assert read_rows([tmp_path / "one"], ["b"]) == [table.select(["b"]).to_pylist()]
    (tmp_path / "two").write_bytes((tmp_path / "one").read_bytes()[:-9])
    with pytest.raises(BadFile, match=r"two can't be read \(.*\); run its stage again, or restore it"):
        read_rows([tmp_path / "one", tmp_path / "two"])
    assert list(stream_rows(tmp_path / "one", ["b"])) == table.select(["b"]).to_pylist()
    with pytest.raises(BadFile, match=r"two can't be read"):
        list(stream_rows(tmp_path / "two"))


def test_a_source_is_read_apart_with_the_same_rows_and_counts(tmp_path: Path) -> None:
    lines = [{"question": f"{number}?", "answer": str(number)} for number in range(1000)] + [{"question": "x"}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    count = Count()
    rows = list(load_apart(tmp_path, ["a.jsonl"], SOURCE, count))
    assert [row["answer"] for row in rows] == [str(number) for number in range(1000)]
    assert count.as_dict() == {"read": 1001, "kept": 1000, "left_out": {"missing": 1}} and count.damaged == 1
    assert count.first == {"missing": "a.jsonl: row 1001: column answer: missing; the row has question"}


def test_private_tests_that_take_gigabytes_are_a_row_too_large(tmp_path: Path) -> None:
    """Empty lists, 64 bytes each in Python, packed a thousandfold."""
    packed = base64.b64encode(zlib.compress(pickle.dumps("[" + ",".join(["[]"] * 10_000_000) + "]"))).decode()
    row = {"question": "q", "public": "[]", "private": packed, "metadata": "{}"}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    columns = {"question": "question", "answer": ["public", "private", "metadata"]}
    count = Count()
    source = {**SOURCE, "columns": columns, "by": {"answer": "contest_tests"}}
    assert list(load_apart(tmp_path, ["a.jsonl"], source, count)) == []
    assert count.left_out == {"row too large": 1}


def test_blank_lines_of_json_lines_are_no_rows(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\n\n{"a": 2}\n  \n')
    assert list(rows_of_text(tmp_path / "rows.jsonl")) == [{"a": 1}, {"a": 2}]
