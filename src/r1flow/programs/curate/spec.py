"""Facts about the program that mixes and packs rows, for plan, checks and report (programs/specs.py)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from r1flow.core.errors import UserError
from r1flow.programs import filters
from r1flow.programs.costs import Book, Cost
from r1flow.programs.keys import Filter, Seeded
from r1flow.programs.specs import Spec
from r1flow.recipe.stages import PACKED, curated_from


@dataclass
class Taken:
    of: str
    files: list[str]
    share: int
    filters: list[Filter] | None


@dataclass
class Curate(Seeded):
    init_from: str
    sources: dict[str, Taken]
    filters: list[Filter]
    benchmarks: list[str]
    nearness: float
    rows: int | None
    max_length: int
    shard_bytes: int
    max_row_bytes: int
    max_field_characters: int


def check_curate(config: dict[str, Any]) -> None:
    """Refuse impossible shares, missing sources, and filters that can't work; raises UserError."""
    filters.check_filters("curate", config["filters"])
    for name, source in config["sources"].items():
        if source["of"] not in curated_from(config) and not Path(source["of"]).is_dir():
            raise UserError(
                f"sources.{name}.of: {source['of']!r} is no folder; name one, or the stage data or rejection"
            )
        if source["share"] < 1:
            raise UserError(f"sources.{name}.share: {source['share']}; use 1 to 100 (percent)")
        try:
            filters.check_filters("curate", source["filters"] or [])
        except UserError as error:
            raise UserError(f"sources.{name}.{error}") from None
    if (total := sum(source["share"] for source in config["sources"].values())) != 100:
        raise UserError(f"sources: the shares sum to {total}; they are percents of the mix and must sum to 100")
    if not 0 < config["nearness"] <= 1:
        raise UserError(f"nearness: {config['nearness']}; use a number above 0, up to 1")
    for key in ("rows", "max_length", "shard_bytes", "max_row_bytes", "max_field_characters"):
        if config[key] is not None and config[key] < 1:
            raise UserError(f"{key}: {config[key]}; use 1 or more")


def files_read(config: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield from (("benchmarks", file) for file in config["benchmarks"])
    ours = {name: source["files"] for name, source in config["sources"].items() if source["of"] == "data"}
    yield from ((f"sources.{name}.files", file) for name, files in ours.items() for file in files)


def cost(book: Book, job: str, config: dict[str, Any]) -> Cost:
    tokens = book.rows_of(PACKED, None) * (book.prompt + book.response(PACKED))
    return Cost(job, disk=2 * book.prices["bytes_per_token"] * tokens)


SPEC = Spec(
    keys=Curate,
    outputs=lambda config: ["rows.parquet", "curation.json", "packed/", "tokenizer/"],
    check=check_curate,
    files_read=files_read,
    cost=cost,
)
