"""Reads the rows of files that people have: JSON lines, a JSON list, CSV. For a process apart, so it imports little.

    for row in read_apart(rows_of_text, path, size=path.stat().st_size, what=path): …

CSV has texts only. A whole number of thousands of digits, which Python doesn't convert, stays a text.
"""

import csv
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from r1flow.core.errors import UserError, listed
from r1flow.core.files import BadFile, refuse_lfs_pointer

LONGEST_FIELD = 2**27  # characters of a field of CSV; Python's limit is 2**17, which a long completion exceeds
LONGEST_INTEGER = 4000  # digits; Python's limit is 4,300


def rows_of_text(path: Path) -> Iterator[dict[str, Any]]:
    """The file's rows; raises BadFile for what can't be read, or isn't a row."""
    refuse_lfs_pointer(path)
    try:
        yield from BY_ENDING[path.suffix](path)
    except BadFile:
        raise
    except (OSError, ValueError, csv.Error, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        said = "lists within lists, too many" if isinstance(error, RecursionError) else error
        raise BadFile(f"{path}: can't be read as {path.suffix} ({said}); write it again, in UTF-8") from None


def rows_of_lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = parse_json(line)
            except ValueError as error:
                raise ValueError(f"line {number} isn't JSON: {error}") from None
            if not isinstance(row, dict):
                raise ValueError(f"line {number} isn't a JSON object with named fields")
            yield row


def rows_of_list(path: Path) -> Iterator[dict[str, Any]]:
    rows = parse_json(path.read_bytes())
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("it isn't a list of objects")
    yield from rows


def rows_of_csv(path: Path) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(csv_records(path, []), 1):
        if row is None:
            raise ValueError(f"row {number} has the wrong number of values; put quotes around texts")
        yield row


def csv_records(path: Path, columns: list[str]) -> Iterator[dict[str, str] | None]:
    """One row per record, whose values are texts; the first line names the columns. None: more or fewer values.

    Raises csv.Error with the line.
    """
    csv.field_size_limit(LONGEST_FIELD)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        try:
            names = reader.fieldnames or []
            if not any(names):
                raise BadFile(f"{path}: its first line names no columns; begin the file with their names")
            check_commas(path, names)
            check_no_column_twice(path, names)
            for column in columns:
                if column_of(column, names) not in names:
                    raise UserError(f"{path}: no column {column}; its first line has {listed(names, 20)}")
            for row in reader:  # a record of more values has them under None, and of fewer ones None in their place
                yield None if None in row or None in row.values() else row
        except csv.Error as error:
            raise csv.Error(f"line {reader.reader.line_num}: {error}") from None


def check_commas(path: Path, names: Sequence[str]) -> None:
    """Refuse a table whose columns another mark separates, as those of spreadsheets in many languages."""
    if len(names) == 1 and any(mark in names[0] for mark in ";\t"):
        raise BadFile(
            f"{path}: its only column is {names[0]!r}; columns are to be separated by commas, so save it again as CSV"
            " with commas"
        )


def column_of(name: str, names: Collection[str]) -> str:
    """The column that `name` stands for: one of this name, or for a.b column a, which has a field b."""
    return name if name in names else name.partition(".")[0]


def check_no_column_twice(path: Path, names: Sequence[str]) -> None:
    """Refuse two columns of one name, of which only one could be read; raises BadFile. Unnamed ones are never read."""
    for name, count in Counter(names).items():
        if name and count > 1:
            raise BadFile(
                f"{path}: {count} columns are called {name!r}, and it can't be told which is meant; rename them"
            )


class KeyTwice(ValueError):
    """An object of a JSON text has a key twice, and it can't be told which of the values is meant."""


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; raises ValueError, and KeyTwice for an object with two values of one name."""
    return json.loads(text, parse_int=number_or_text, object_pairs_hook=object_of)


def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        [(name, _)] = Counter([name for name, _ in pairs]).most_common(1)
        raise KeyTwice(f"an object has {name!r} twice")
    return made


def number_or_text(digits: str) -> int | str:
    return int(digits) if len(digits) <= LONGEST_INTEGER else digits


BY_ENDING: dict[str, Callable[[Path], Iterator[dict[str, Any]]]] = {
    ".jsonl": rows_of_lines,
    ".json": rows_of_list,
    ".csv": rows_of_csv,
}
