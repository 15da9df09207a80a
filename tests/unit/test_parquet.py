"""Tables written row by row have the bytes of tables written at once, and are whole or not there."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from r1flow.core import parquet
from r1flow.core.parquet import Table

SCHEMA = pa.schema({"id": pa.string(), "n": pa.int32(), "x": pa.float64()})
ROWS = [{"id": f"é{i % 7}", "n": i, "x": None if i % 3 else i / 2} for i in range(1000)]


def written(path: Path, rows: list[dict]) -> bytes:
    with Table(path, SCHEMA, "zstd") as table:
        for row in rows:
            table.write(row)
    return path.read_bytes()


def test_a_table_that_fits_one_group_has_the_bytes_of_one_written_at_once(tmp_path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS, SCHEMA), tmp_path / "once", compression="zstd")
    assert written(tmp_path / "rows", ROWS) == (tmp_path / "once").read_bytes()


@pytest.mark.parametrize(("limit", "groups"), [("GROUP_ROWS", 10), ("GROUP_CHARACTERS", 20)])
def test_a_longer_one_is_cut_into_groups_and_no_row_is_lost(tmp_path, monkeypatch, limit, groups) -> None:
    monkeypatch.setattr(parquet, limit, 100)
    assert written(tmp_path / "a", ROWS) == written(tmp_path / "b", ROWS)
    assert pq.read_table(tmp_path / "a").to_pylist() == ROWS
    assert pq.ParquetFile(tmp_path / "a").num_row_groups == groups


def test_a_broken_off_table_is_not_there(tmp_path) -> None:
    with pytest.raises(KeyboardInterrupt), Table(tmp_path / "a", SCHEMA) as table:
        table.write(ROWS[0])
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
