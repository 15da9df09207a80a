"""Writes a Parquet file row by row, for tables that may not fit in memory; reads the rows of samples.parquet.

    with Table(stage.work / "samples.parquet", SCHEMA, "zstd") as table:
        table.write({"problem_id": "3f0c…", "sample_index": 0, "completion": "<think>…", …})

Rows wait in memory until there are enough for a row group; where it ends depends on the rows only, so the same rows
give the same bytes. If writing is interrupted, there is no file.
"""

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from r1flow.core.apart import length_of, read_apart
from r1flow.core.errors import UserError
from r1flow.core.files import BadFile
from r1flow.core.row_files import check_no_column_twice

# Rows of a group that is written, and rows that are in memory at once when it is read.
GROUP_ROWS = 2**16
READ_ROWS = 2**10
VALUE_BYTES = 64  # of memory for a number or an empty text
# Of the rows of files together: so many, and times their size.
MOST_CHARACTERS, MOST_UNPACKED = 2**25, 1000
GROUP_CHARACTERS = 2**24  # 16 MB of text, or more where it isn't ASCII


class Table:
    def __init__(self, path: Path, schema: pa.Schema, compression: str = "snappy") -> None:
        self.path, self.schema = path, schema
        self.writer = pq.ParquetWriter(path, schema, compression=compression)
        self.rows: list[dict[str, Any]] = []
        self.characters = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.end_group()
        self.writer.close()
        if error is not None:
            self.path.unlink(missing_ok=True)

    def write(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        self.characters += sum(len(value) for value in row.values() if isinstance(value, str))
        if len(self.rows) >= GROUP_ROWS or self.characters >= GROUP_CHARACTERS:
            self.end_group()

    def end_group(self) -> None:
        if self.rows:
            self.writer.write_table(pa.Table.from_pylist(self.rows, schema=self.schema))
        self.rows, self.characters = [], 0


def read_rows(paths: list[Path], columns: list[str] | None = None) -> list[list[dict[str, Any]]]:
    """The rows of each file, read in a process apart, since a published run may be a stranger's.

    Raises BadFile, and UserError for files that unpack to far more than samples do.
    """
    tables: list[list[dict[str, Any]]] = [[]]
    for row in stream_tables(paths, columns):
        if row is None:
            tables.append([])
        else:
            tables[-1].append(row)
    return tables[:-1]


def stream_rows(path: Path, columns: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of one file as `read_rows` reads them, one after another: a large run has a million samples."""
    for row in stream_tables([path], columns):
        if row is not None:
            yield row


def stream_tables(paths: list[Path], columns: list[str] | None) -> Iterator[dict[str, Any] | None]:
    """What `rows_of_tables` yields in a process apart, as it comes, within a limit on all rows together."""
    size = sum(path.stat().st_size for path in paths if path.is_file())
    room = MOST_CHARACTERS + MOST_UNPACKED * size
    names = ", ".join(map(str, paths))
    for row in read_apart(rows_of_tables, paths, columns, size=size, what=names):
        if row is not None:
            room -= length_of(row) + VALUE_BYTES * len(row)
        if room < 0:
            raise UserError(f"{names}: {size} bytes unpack to more than {MOST_UNPACKED} times as much; that isn't read")
        yield row


def shortest_floats(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with float32 values as the shortest decimals that give them: 0.1, not 0.10000000149011612."""
    as_text = [field.with_type(of_other_floats(field.type, pa.string())) for field in batch.schema]
    if as_text == list(batch.schema):
        return batch
    wide = [field.with_type(of_other_floats(field.type, pa.float64())) for field in batch.schema]
    return batch.cast(pa.schema(as_text)).cast(pa.schema(wide))


def of_other_floats(kind: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The type, with `other` in the place of float32, also within lists and structs."""
    if pa.types.is_float32(kind):
        return other
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(of_other_floats(field.type, other)) for field in kind])
    for is_list, make in ((pa.types.is_list, pa.list_), (pa.types.is_large_list, pa.large_list)):
        if is_list(kind):
            return make(kind.value_field.with_type(of_other_floats(kind.value_type, other)))
    return kind


def rows_of_tables(paths: list[Path], columns: list[str] | None) -> Iterator[dict[str, Any] | None]:
    """The rows of one file after another, and None at the end of each."""
    for path in paths:
        try:
            with pq.ParquetFile(path) as file:
                check_no_column_twice(path, file.schema_arrow.names)
                for batch in file.iter_batches(READ_ROWS, columns=columns):
                    yield from shortest_floats(batch).to_pylist()
        except (MemoryError, BadFile):
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            said = str(error).splitlines()[0]
            raise BadFile(f"{path} can't be read ({said}); run its stage again, or restore it") from None
        yield None
