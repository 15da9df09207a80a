"""Reads YAML and JSON files, whoever wrote them: what isn't one raises BadFile, and none takes long or much memory.

    read_yaml(Path("results/r1_tiny/base/config.yaml"))         # {"device": "cpu", …}

A file of 341 bytes can stand for 10^9 values, by YAML's aliases. What r1flow writes has none, so they are refused.
Refused is also what no file of ours comes near: more values than MOST_VALUES, nesting that overflows the C stack, and
numbers that take hours to convert, or to find again. A file longer than AT_ONCE is parsed in a process apart first
(core/apart.py). Of 60 kinds of hostile files the worst took 1.3 s and 0.1 GB as YAML, and 3 s and 0.8 GB as JSON. Files
are written by `write_whole`.
"""

import json
import math
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from r1flow.core.errors import UserError

MOST_YAML, MOST_JSON = 16_000_000, 32_000_000  # bytes; of JSON's texts Python's objects are up to 19 times larger
# Most files are shorter: a plan reads dozens, and a process apart takes 0.06 s. Of 26 kinds of hostile texts of this
# length the worst took 0.4 s and 17 MB.
AT_ONCE = 1 << 16
PARSE_S = 30.0  # CPU time in the process apart
# Without this limit YAML took 8 s and 390 MB for each megabyte, and by aliases ten lines stand for 10^9 values.
MOST_VALUES = 100_000
DEEPEST = 100
MOST_BRACKETS = 1_000_000  # in JSON, where lists within lists took 48 bytes for each of the file's
POINTER = b"version https://git-lfs"
# 1:30:00 is a number to YAML, converted in quadratic time. Of numbers beyond 64 bits many can have one hash: as keys,
# 66,000 of them (1.6 MB) took 31 s.
LONG_NUMBER = re.compile(r"[-+\d][\d_:.]{99,}|[-+]?(0x[\da-fA-F_]{17}|0b[01_]{65}|[\d_:]{21,}\Z)")
LONGEST_FAULT = 300  # characters: a name in the file may be as long as the file


class BadFile(UserError, ValueError):
    """A file that can't be read as what it should be."""


def read_yaml(path: Path, aliases: bool = False) -> Any:
    """The file's content of at most MOST_VALUES, `aliases` or none; raises OSError, or BadFile with the line."""
    try:
        return parse_yaml(read_bounded(path, MOST_YAML), aliases)
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{path}: can't be read as YAML ({one_line(error)}); bring it back or make it again") from None


def parse_yaml(text: bytes, aliases: bool = False) -> Any:
    """The value of a YAML text that isn't longer than MOST_YAML; raises ValueError, and RecursionError."""
    return parse_tried(yaml_value, text, aliases)


def parse_bounded(text: bytes) -> Any:
    """The value of a JSON text that isn't longer than MOST_JSON; raises ValueError, and RecursionError."""
    return parse_tried(json_value, text)


def parse_tried(parse: Callable[..., Any], text: bytes, *options: Any) -> Any:
    """What `parse` makes of a text; if that takes a process apart too much time or memory, ValueError."""
    if len(text) > AT_ONCE:
        from r1flow.core.apart import read_apart  # here, as few files are so long

        try:
            list(read_apart(parse_only, parse, text, *options, size=len(text), what="the text", cpu_s=PARSE_S))
        except UserError as error:
            raise ValueError(str(error)) from None
    return parse(text, *options)


def parse_only(parse: Callable[..., Any], text: bytes, *options: Any) -> Iterator[Any]:
    """In the process apart: yields nothing, as the value may be large."""
    parse(text, *options)
    yield from ()


def yaml_value(text: bytes, aliases: bool) -> Any:
    import yaml  # here, as manifests are read without it

    try:
        refuse_growth(text, aliases)
        # libyaml's: ten times faster.
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def refuse_growth(text: bytes, aliases: bool) -> None:
    """Raise ValueError for YAML that takes far more time or memory than its size."""
    import yaml

    # Of each anchor, how many it stands for; anchor and count of what isn't closed.
    values, open_ones = {}, [("", 0)]
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        place, count = f"line {event.start_mark.line + 1}", 0
        if isinstance(event, yaml.DocumentStartEvent):
            count = 1
        if isinstance(event, yaml.CollectionStartEvent):
            open_ones.append((event.anchor, 1))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, count = open_ones.pop()
            values[anchor] = count
        elif isinstance(event, yaml.ScalarEvent):
            values[event.anchor] = count = 1
            if event.implicit[0] and LONG_NUMBER.match(event.value):
                raise ValueError(f"{place}: a number of {len(event.value)} digits")
        elif isinstance(event, yaml.AliasEvent):
            count = values.get(event.anchor, 0)
            if not (aliases and count):  # 0: it stands within itself, or for nothing
                raise ValueError(f"{place}: *{event.anchor} is an alias, which isn't taken: write the value itself")
        open_ones[-1] = (open_ones[-1][0], open_ones[-1][1] + count)
        if len(open_ones) > DEEPEST:
            raise ValueError(f"{place}: more than {DEEPEST} levels")
        if sum(count for _, count in open_ones) > MOST_VALUES:
            raise ValueError(f"{place}: more than {MOST_VALUES} values")


def write_whole(path: Path, text: str, durable: bool = False) -> None:
    """Write a file by a rename: readers see the old one or the new one, and a full disk leaves the old one alone.

    `durable`: a power cut doesn't leave an empty one either.
    """
    writer = f"{os.uname().nodename}-{os.getpid()}-{threading.get_ident()}"  # others may write the same file now
    partial = path.with_name(f"{path.name}.{writer}.partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        partial.replace(path)
    except BaseException as error:
        with suppress(OSError):  # on a disk that can only be read
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)  # a full disk names no file
        raise


def finite_or_null(value: Any) -> Any:
    """The value with null for NaN and infinity, also within dicts and lists: JSON has neither."""
    if isinstance(value, dict):
        return {key: finite_or_null(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite_or_null(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(path: Path) -> Any:
    """The file's content; raises OSError or BadFile."""
    try:
        return parse_bounded(read_bounded(path, MOST_JSON))
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{path}: can't be read as JSON ({one_line(error)}); bring it back or make it again") from None


def json_value(text: bytes) -> Any:
    brackets = text.count(b"[") + text.count(b"{")
    if brackets > MOST_BRACKETS:
        raise ValueError(f"{brackets} brackets, more than {MOST_BRACKETS}")
    return json.loads(text)


def refuse_lfs_pointer(path: Path) -> None:
    """Raise UserError for the small file that Git LFS leaves in the place of one that it hasn't fetched."""
    with path.open("rb") as file:
        if file.read(len(POINTER)) == POINTER:
            raise UserError(
                f"{path} is a Git LFS pointer and not the file itself; run `git lfs pull` in its repository, or"
                " download the file"
            )


def read_bounded(path: Path, most: int) -> bytes:
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"more than {most // 10**6} MB")
    return content


def one_line(error: Exception) -> str:
    """The error in a few words: "while parsing a flow node, line 3, column 5"."""
    if isinstance(error, RecursionError):
        return "too many levels"
    said = re.sub(r'in "<\w+ string>", ', "", str(error))
    return ", ".join(line.strip() for line in said.splitlines() if line.lstrip() != "^")[:LONGEST_FAULT]
