"""samples.html: every completion of a run, with filters, for a browser alone.

The completions are in the page itself, as JSON that is deflated and written in base64: the 55,000 of r1_tiny are
1.4 MB. The page's script (samples.html.jinja) shows them as text and never as markup, and requests nothing. What is
more than MOST_CHARACTERS is in further pages, files/samples-2.html and so on, each with all of its problems' samples.

    {"problems": [["3f0c…", "chain_sum", "What is 4 + 5?", "9"], …],      the id, the family, the question, the answer
     "rows": [["zero_rl", 0, "as asked", 0, "right", 41, true, "9", ["<think>4 + 5 = 8. ", "wait", ", 9.…"]], …]}

A row has its model, its problem's place in `problems`, how it was asked, the sample's number, the verdict, the length
in tokens, whether it is finished, the answer, and the text in pieces: by turns plain text and words of reflection.
"""

import json
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import compress

from r1flow.core.language import any_of
from r1flow.core.metrics import Row
from r1flow.programs.report.collect import Results
from r1flow.programs.report.templates import fill, safe_text, spell_out

MOST_CHARACTERS = 32_000_000  # of a page's completions together: 4 to 9 MB of page
SHOWN_OF_ONE = 20_000  # characters of one completion
SHOWN_OF_ANSWER = 80  # as in the report


def render_viewer(results: Results) -> dict[str, str]:
    """The text of each page, by its path in the report's folder: samples.html, and files/samples-2.html, …"""
    parts = pages_of(results.drawn)
    links = [("samples.html" if n == 1 else f"files/samples-{n}.html", first) for n, first in enumerate(parts, 1)]
    families, ways = offered(results.drawn)
    same = {"run": results.run, "models": results.models, "families": families, "ways": ways, "links": links}
    pages = {}
    for number, ((path, _), problems) in enumerate(zip(links, parts.values(), strict=True), 1):
        kept, shown = set(problems), {}
        for model, rows in results.drawn.items():
            shown[model] = [row for row in rows if row["problem_id"] in kept]
        packed = b64encode(compress(json.dumps(viewer_data(results, shown)).encode())).decode()
        root = "../" * path.count("/")
        pages[path] = fill("samples.html.jinja", **same, number=number, root=root, packed=packed)
    return pages


def offered(drawn: Mapping[str, Sequence[Row]]) -> tuple[list[str], list[str]]:
    """The families and the ways of asking that a filter may name: those of all pages, as the address keeps filters."""
    families, ways = set(), set()
    for rows in drawn.values():
        for row in rows:
            families.add(row["kind"] or row["task"])
            ways.add(way_of(row))
    return sorted(map(safe_text, families)), sorted(ways)


def pages_of(drawn: Mapping[str, Sequence[Row]], most: int = MOST_CHARACTERS) -> dict[str, list[str]]:
    """The problems of each page, by the first one's id: in order, as many as fit into `most` characters, at least one.

    All completions of a problem are in one page, so that models and samples can be compared there.
    """
    characters: Counter[str] = Counter()
    for rows in drawn.values():
        for row in rows:
            characters[row["problem_id"]] += min(len(row["completion"]), SHOWN_OF_ONE)
    parts: dict[str, list[str]] = {}
    room = -1
    for problem in sorted(characters, key=as_browsers_sort):
        room -= characters[problem]
        if room < 0:
            parts[problem] = []
            room = most - characters[problem]
        parts[next(reversed(parts))].append(problem)
    return parts


def as_browsers_sort(text: str) -> bytes:
    """A text's place in the order of JavaScript's <."""
    return text.encode("utf-16-be", "surrogatepass")


def viewer_data(results: Results, kept: Mapping[str, Sequence[Row]]) -> dict[str, list[Any]]:
    """What the page's script reads: sorted by problem, way of asking and sample, so that models stand side by side."""
    places: dict[tuple[str, ...], int] = {}
    ways: dict[str, int] = {}
    rows = []
    for model, samples in kept.items():
        reflects = re.compile(f"({any_of(results.configs[f'evaluate/{model}']['reflection_words']).pattern})", re.I)
        for row in samples:
            place = places.setdefault(told_problem(row), len(places))
            ways.setdefault(way_of(row), len(ways))
            rows.append([model, place, way_of(row), row["sample_index"], *told_of(row), pieces_of(row, reflects)])
    rows.sort(key=lambda row: (row[1], ways[row[2]], row[3]))
    return {"problems": [list(map(safe_text, problem)) for problem in places], "rows": rows}


def told_problem(row: Row) -> tuple[str, ...]:
    return row["problem_id"], row["kind"] or row["task"], row["question"], row["gold"] or ""


def way_of(row: Row) -> str:
    """How a sample was asked for."""
    if row["intervention"] is not None:
        return row["intervention"].replace("_", " ")
    if row["thinking"] is not None:
        return f"<think> forced, T = {row['thinking']}"
    return "paraphrased" if row["paraphrased"] else "as asked"


def told_of(row: Row) -> tuple[str, int, bool, str]:
    """Verdict, length, whether it is finished, and answer."""
    return verdict_of(row), row["length"], row["finished"], safe_text(row["answer"], SHOWN_OF_ANSWER)


def verdict_of(row: Row) -> str:
    if row["correct"] is None:
        return "not graded"
    if row["correct"]:
        return "right"
    return "right leniently" if row["correct_lenient"] else "wrong"


def pieces_of(row: Row, reflects: re.Pattern[str]) -> list[str]:
    """The completion as it can be shown, cut before and after each reflection."""
    text = row["completion"]
    shown = text[:SHOWN_OF_ONE]
    pieces = [spell_out(piece) for piece in (reflects.split(shown) if row["reflections"] else [shown])]
    if len(text) > SHOWN_OF_ONE:
        pieces[-1] += f" … ({len(text) - SHOWN_OF_ONE:,} characters more)"
    return pieces
