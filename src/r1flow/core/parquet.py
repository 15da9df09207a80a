"""Writes a Parquet file row by row, for tables that may not fit in memory.

    with Table(stage.work / "samples.parquet", SCHEMA, "zstd") as table:
        table.write({"problem_id": "3f0c…", "sample_index": 0, "completion": "<think>…", …})

Rows wait in memory until there are enough for a row group; where it ends depends on the rows only, so the same rows
give the same bytes. If writing is interrupted, there is no file.
"""

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

GROUP_ROWS = 2**16
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
