"""Passages of a folder's texts, found by their words: the look-up tool of models that research.

    passages = Passages(Path("notes"))
    passages.find("capital of France", most=3)      # [Passage(file="france.md", line=3, text="Paris has been …"), …]

A passage is a paragraph, or a piece of a long one. Texts are files that end in .txt, .md or .rst, and rows of .jsonl
files with the key "text", such as a data stage's corpus. The index is SQLite's full-text search (FTS5) in memory, and
passages come in the order of its score, BM25: the same folder and query give the same passages. A query is words and no
syntax. Links that lead out of the folder aren't followed. Left out: other formats, and search by meaning.
"""

import json
import re
import sqlite3
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from r1flow.core.errors import UserError
from r1flow.core.files import read_bounded

ENDINGS = (".txt", ".md", ".rst", ".jsonl")
MOST_OF_A_FILE, MOST_OF_ALL = 50_000_000, 500_000_000  # bytes
LONGEST = 1000  # characters of a passage


@dataclass(frozen=True)
class Passage:
    """A piece of a text; `file` is relative to the folder, `line` is where it begins."""

    file: str
    line: int
    text: str


class Passages:
    """The passages of all texts in a folder; raises UserError for a folder without text and a file that isn't one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Passages are found in the thread that reads them alone, or by several that take turns, as a server's do.
        self.database = sqlite3.connect(":memory:", check_same_thread=False)
        self.database.execute("CREATE VIRTUAL TABLE passages USING fts5(text, file UNINDEXED, line UNINDEXED)")
        total = 0
        for path in texts_in(folder):
            total += path.stat().st_size
            if total > MOST_OF_ALL:
                raise UserError(f"{folder}: more than {MOST_OF_ALL // 10**6} MB of text; name a part of it")
            name = str(path.relative_to(folder))
            rows = [(passage, name, line) for line, passage in passages_in(path)]
            self.database.executemany("INSERT INTO passages VALUES (?, ?, ?)", rows)
        [(self.count,)] = self.database.execute("SELECT count(*) FROM passages")
        if not self.count:
            raise UserError(f"{folder}: there is no text in it; texts are files that end in {', '.join(ENDINGS)}")

    def find(self, query: str, most: int) -> list[Passage]:
        """The passages that fit the query's words best; none where it has no word that any passage has."""
        words = re.findall(r"\w+", query)[:64]
        if not words:
            return []
        any_of_them = " OR ".join(f'"{word}"' for word in words)
        asked = "SELECT file, line, text FROM passages WHERE passages MATCH ? ORDER BY rank, rowid LIMIT ?"
        return [Passage(*row) for row in self.database.execute(asked, (any_of_them, most))]


def texts_in(folder: Path) -> Iterator[Path]:
    """The folder's texts in the order of their names; what a link shows outside of it is none of them."""
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder; name one with texts ({', '.join(ENDINGS)})")
    inside = folder.resolve()
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in ENDINGS and path.is_file() and path.resolve().is_relative_to(inside):
            yield path


def passages_in(path: Path) -> Iterator[tuple[int, str]]:
    """The line of each passage of a file, and its text; raises UserError."""
    try:
        # Not at U+2028 and the like, where splitlines would cut a row of JSON in two.
        lines = re.split(r"\r\n?|\n", read_bounded(path, MOST_OF_A_FILE).decode())
    except (OSError, ValueError) as error:  # ValueError: it is too large, or no UTF-8
        raise UserError(f"{path}: can't be read as text ({error}); take it out of the folder") from None
    begin, paragraph = 1, []
    for number, line in enumerate([*lines, ""], 1):
        if path.suffix.lower() == ".jsonl":
            paragraph, begin = [text_of_row(path, number, line)] if line.strip() else [], number
        elif line.strip():
            begin = begin if paragraph else number
            paragraph.append(line.strip())
            continue
        for piece in textwrap.wrap(" ".join(paragraph), LONGEST, break_long_words=True):
            yield begin, piece
        paragraph = []


def text_of_row(path: Path, number: int, line: str) -> str:
    try:
        text = json.loads(line)["text"]
    except (ValueError, LookupError, TypeError, RecursionError):
        text = None
    if not isinstance(text, str):
        raise UserError(f'{path}: line {number} is no row {{"text": …}}; take the file out of the folder')
    return text
