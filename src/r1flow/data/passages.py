"""Passages of a folder's texts, found by their words: the look-up tool of models that research.

    passages = Passages(Path("notes"))
    passages.find("capital of France", most=3)      # [Passage(file="france.md", line=3, text="Paris has been …"), …]

A passage is a paragraph, or a piece of a long one. Texts are files that end in .txt, .md or .rst, and rows of .jsonl
files with the key "text", such as a data stage's corpus. The index is SQLite's full-text search (FTS5) in memory, and
passages come in the order of its score, BM25: the same folder and query give the same passages. A query is words and no
syntax; in scripts without spaces, two neighbouring characters are a word. Links that lead out of the folder aren't
followed. Left out: other formats, and search by meaning.
"""

import json
import re
import sqlite3
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from r1flow.core.errors import UserError
from r1flow.core.files import read_bounded
from r1flow.data.decontaminate import ALONE

ENDINGS = (".txt", ".md", ".rst", ".jsonl")
MOST_OF_A_FILE, MOST_OF_ALL = 50_000_000, 500_000_000  # bytes
LONGEST = 1000  # characters of a passage
# FTS5 takes a run of Chinese for one word: a space beside each character of such scripts makes it a word of its own.
ALONE_RE, WORD_RE = re.compile(rf"[{ALONE}]"), re.compile(rf"[{ALONE}]+|[^\W{ALONE}]+")


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
        self.database.execute("CREATE TABLE passages (text, file, line)")
        # Of the same rows, the words alone; content='': they aren't stored as a text once more.
        self.database.execute("CREATE VIRTUAL TABLE found USING fts5(words, content='')")
        total = 0
        for path in texts_in(folder):
            total += path.stat().st_size
            if total > MOST_OF_ALL:
                raise UserError(f"{folder}: more than {MOST_OF_ALL // 10**6} MB of text; name a part of it")
            name = str(path.relative_to(folder))
            rows = [(passage, name, line) for line, passage in passages_in(path)]
            self.database.executemany("INSERT INTO passages VALUES (?, ?, ?)", rows)
        for number, text in self.database.execute("SELECT rowid, text FROM passages"):
            row = number, ALONE_RE.sub(r" \g<0> ", text)
            self.database.execute("INSERT INTO found (rowid, words) VALUES (?, ?)", row)
        [(self.count,)] = self.database.execute("SELECT count(*) FROM passages")
        if not self.count:
            raise UserError(f"{folder}: there is no text in it; texts are files that end in {', '.join(ENDINGS)}")

    def find(self, query: str, most: int) -> list[Passage]:
        """The passages that fit the query's words best; none where it has no word that any passage has."""
        terms = terms_of(query)[:64]
        if not terms:
            return []
        any_of_them = " OR ".join(f'"{term}"' for term in terms)
        asked = (
            "SELECT file, line, text FROM found JOIN passages ON passages.rowid = found.rowid"
            " WHERE found MATCH ? ORDER BY rank, found.rowid LIMIT ?"
        )
        return [Passage(*row) for row in self.database.execute(asked, (any_of_them, most))]


def terms_of(query: str) -> list[str]:
    """What is looked for: words, and of a script without spaces each two characters that stand side by side.

    法国首都 asks for 法 国, 国 首 and 首 都, so it finds 法国的首都, too.
    """
    terms = []
    for word in WORD_RE.findall(query):
        if len(word) > 1 and ALONE_RE.match(word):
            terms += [f"{one} {other}" for one, other in pairwise(word)]
        else:
            terms.append(word)
    return terms


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
        lines = re.split(r"\r\n?|\n", read_bounded(path, MOST_OF_A_FILE).decode("utf-8-sig"))
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
