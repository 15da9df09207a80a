"""A file of rows, in any of the formats that people keep them in: JSON lines, a JSON list, CSV, Parquet.

    read_table(Path("answers.csv"), {"answer": "gold"})     # [{"completion": "so \\boxed{5}", "gold": "5"}, …]

The name's ending decides. CSV has texts only, so 5 and "5" are the same there. Every file is read in a process apart
(core/apart.py), whose start takes 0.2 s. Left out: files too large for memory, and archives.
"""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from r1flow.core.apart import read_apart
from r1flow.core.errors import UserError, listed
from r1flow.core.files import one_line, write_whole
from r1flow.core.row_files import rows_of_text
from r1flow.core.schema import write_jsonl

TableRow = dict[str, Any]


def read_table(path: Path, columns: Mapping[str, str]) -> list[TableRow]:
    """The file's rows; raises UserError where it can't be read, has no rows, or a row lacks a column of these.

    `columns`: by what it holds, which is also the name of the option that says it.
    """
    if not path.is_file():
        raise UserError(f"{path}: there is no such file")
    rows = READERS[ending_of(path)](path)
    if not rows:
        raise UserError(f"{path}: no rows in it")
    for number, row in enumerate(rows, 1):
        check_has_columns(f"{path}: row {number}", row, columns)
    return rows


def check_has_columns(place: str, row: Mapping[str, Any], columns: Mapping[str, str]) -> None:
    """Raise UserError for a row without a column of these."""
    for what, name in columns.items():
        if name not in row:
            has = listed(list(map(str, row)), 20)
            raise UserError(
                f"{place} has no column {name!r}; it has {has}: say which has the {what}, by --{what} or {what}=…"
            )


def write_table(path: Path, rows: Sequence[TableRow]) -> None:
    """Write rows in the format that the name's ending says: the whole file or none; raises UserError."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        WRITERS[ending_of(path)](partial, rows)
        partial.replace(path)
    except OSError as error:
        raise UserError(f"{path}: can't be written ({error}); make room, or name another file") from None
    except (ValueError, TypeError) as error:  # half of a surrogate pair; values of several types in one column
        raise UserError(
            f"{path}: a row can't be written as {path.suffix} ({one_line(error)}); mend that row, or name a file of"
            " another format"
        ) from None
    finally:
        partial.unlink(missing_ok=True)


def check_new_file(option: str, path: Path) -> None:
    """Refuse a file to write that is there, has no folder or an unknown ending; raises UserError with the option."""
    ending_of(path)
    if path.exists():
        raise UserError(f"{option}: {path} is there already; name a new file, or remove it")
    if not path.parent.is_dir():
        raise UserError(f"{option}: there is no folder {path.parent}; make it, or name another")


def ending_of(path: Path) -> str:
    if path.suffix not in READERS:
        raise UserError(f"{path}: what format is this? Name it by its ending: {', '.join(READERS)}")
    return path.suffix


def read_text_file(path: Path) -> list[TableRow]:
    return list(read_apart(rows_of_text, path, size=path.stat().st_size, what=path))


def read_parquet(path: Path) -> list[TableRow]:
    from r1flow.core.parquet import read_rows

    return read_rows([path])[0]


def write_list(path: Path, rows: Sequence[TableRow]) -> None:
    write_whole(path, json.dumps(rows, ensure_ascii=False, indent=1) + "\n")


def write_csv(path: Path, rows: Sequence[TableRow]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, column_names_in(rows))
        writer.writeheader()
        writer.writerows(rows)


def write_parquet(path: Path, rows: Sequence[TableRow]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    columns = {}
    for name in column_names_in(rows):
        columns[name] = [row.get(name) for row in rows]
    parquet.write_table(pa.table(columns), path)


def column_names_in(rows: Sequence[TableRow]) -> list[str]:
    """The columns of all rows: later ones may have more than the first."""
    return list(dict.fromkeys(name for row in rows for name in row))


READERS: dict[str, Callable[[Path], list[TableRow]]] = {
    ".jsonl": read_text_file,
    ".json": read_text_file,
    ".csv": read_text_file,
    ".parquet": read_parquet,
}
WRITERS: dict[str, Callable[[Path, Sequence[TableRow]], None]] = {
    ".jsonl": write_jsonl,
    ".json": write_list,
    ".csv": write_csv,
    ".parquet": write_parquet,
}
