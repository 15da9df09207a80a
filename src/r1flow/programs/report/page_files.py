"""The report's figures and tables as files, in files/ beside it: SVG and CSV for papers, slides and spreadsheets.

    files/accuracy.svg, files/accuracy.csv      a figure, and its numbers: fractions where the figure shows per cent
    files/accuracy-of-each-model.csv            a table, as the page shows it

Pictures and tables are the page's own: its captions link to these files.
"""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from r1flow.core.files import write_whole
from r1flow.core.metrics import Interval
from r1flow.programs.report.curves import Curves
from r1flow.programs.report.templates import slug
from r1flow.recipe.claims import describe_interval

CsvRows = list[tuple[Any, ...]]  # of a CSV file, the first with the names of the columns
BOUNDS = ("estimate", "low", "high")
OWN = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" font-family="sans-serif"'


def write_page_files(folder: Path, page: str, shown: Mapping[str, Any], pictures: Mapping[str, str]) -> None:
    """Write each figure, what it shows in numbers, and each table of the page."""
    folder.mkdir(exist_ok=True)  # a killed stage may have made it
    for name, svg in pictures.items():
        if svg:
            write_whole(folder / f"{slug(name)}.svg", picture_alone(svg))
            write_rows(folder / f"{slug(name)}.csv", LISTED.get(name, list_curves)(shown[name]))
    tables = Tables()
    tables.feed(page)
    for name, rows in tables.found.items():
        write_rows(folder.parent / name, rows)


def list_curves(curves: Curves) -> CsvRows:
    rows: CsvRows = [("stage", "step", "value")]
    for stage, (curve,) in curves.items():
        rows += [(stage, step, round(value, 6)) for step, value in curve]
    return rows


def list_scores(lines: Iterable[tuple[str, str, Interval, float]]) -> CsvRows:
    rows: CsvRows = [("model", *BOUNDS, "cons_at_k")]
    return rows + [(label, *bounds(interval), round(cons, 6)) for label, _, interval, cons in lines]


def list_forest(lines: Iterable[tuple[str, str, Interval]]) -> CsvRows:
    rows: CsvRows = [("difference", *BOUNDS)]
    return rows + [(label.replace("\n", " "), *bounds(interval)) for label, _, interval in lines]


def list_tries(lines: Mapping[str, Iterable[tuple[int, Interval]]]) -> CsvRows:
    rows: CsvRows = [("model", "k", *BOUNDS)]
    for label, line in lines.items():
        rows += [(label, k, *bounds(interval)) for k, interval in line]
    return rows


def list_search(lines: Iterable[Mapping[str, Any]]) -> CsvRows:
    rows: CsvRows = [("model", "strategy", "budget", "tokens", *BOUNDS)]
    for line in lines:
        rows.append((line["model"], line["strategy"], line["budget"], line["tokens"], *bounds(line["accuracy"])))
    return rows


LISTED = {"scores": list_scores, "forest": list_forest, "search": list_search}
LISTED |= dict.fromkeys(("tries", "tries_thinking"), list_tries)


def bounds(interval: Interval) -> list[Any]:
    described = describe_interval(interval)
    return [described[name] for name in BOUNDS]


def write_rows(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def picture_alone(svg: str) -> str:
    """A figure of the page as a file of its own, which has neither the page's font nor its colours."""
    own = svg.replace("<svg ", f"<svg {OWN} ", 1)
    return re.sub(r"var\(--\w+, (#\w+)\)", r"\1", own) + "\n"


class Tables(HTMLParser):
    """The cells of every table whose caption links to a file, by that link."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, list[list[str]]] = {}
        self.rows: list[list[str]] = []  # of the table that is read
        self.texts: list[str] = []  # of the cell that is read
        self.columns = 1  # that it spans

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "table":
            self.rows = []
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.texts, self.columns = [], int(values.get("colspan") or 1)
        elif tag == "br":
            self.texts.append(" ")
        elif tag == "a" and values.get("class") == "file of-table":
            self.found[str(values["href"])] = self.rows

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self.rows[-1] += [" ".join("".join(self.texts).split()), *[""] * (self.columns - 1)]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
