"""The keys of sources and pools (data/pools.py), and their checks, for the programs that make data."""

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from r1flow.core.errors import UserError, did_you_mean, errors_at
from r1flow.core.schema import BEFORE, CONVERSATIONS, FILES
from r1flow.core.template import family_name
from r1flow.data.loaders import FUNCTIONS
from r1flow.programs.keys import Share
from r1flow.programs.trainings import check_revision
from r1flow.tracking.left_out import MOST_LOST


@dataclass
class Source:
    repo: str
    revision: str | None
    sha256: dict[str, str]
    files: dict[str, list[str]]
    columns: dict[str, Any]
    by: dict[str, str]
    fixed: dict[str, str | None]
    where: dict[str, list[Any]]
    max_row_bytes: int
    max_field_characters: int
    lost_share: Share = MOST_LOST


@dataclass
class Pool:
    take: list[str]
    into: dict[str, int]


def check_pools(config: dict[str, Any], files: Collection[str]) -> None:
    """Refuse sources that aren't pinned or can't be converted, and pools that use or make what they can't.

    `files`: those that a pool may make.
    """
    for name, source in config["sources"].items():
        with errors_at(f"sources.{name}."):
            check_source(source)
    for number, pool in enumerate(config["pools"]):
        with errors_at(f"pools[{number}]."):
            check_pool(pool, config["sources"], files)


def pooled(config: dict[str, Any]) -> list[str]:
    """The names of the files that the pools make."""
    return sorted(set(chain.from_iterable(pool["into"] for pool in config["pools"])))


def check_source(source: dict[str, Any]) -> None:
    """Refuse a source without a commit or folder, and unknown functions or columns."""
    repo, revision = source["repo"], source["revision"]
    if revision is not None:
        check_revision("dataset", repo, revision)
    elif not Path(repo).exists():
        raise UserError(f"repo: {repo!r} is no folder or file here; name one, or give a hub id its revision")
    task = source["fixed"].get("task") or ""
    if (named := family_name(task)) != task:
        raise UserError(f"fixed.task: {task!r} stands for all problems of a kind in results; use {named!r}")
    for ours, function in source["by"].items():
        if function not in FUNCTIONS:
            raise UserError(f"by.{ours}: there is no {function!r}{did_you_mean(function, list(FUNCTIONS))}")
        if ours not in source["columns"]:
            raise UserError(f"by.{ours}: columns doesn't say which column that is")


def check_pool(pool: dict[str, Any], sources: dict[str, Any], files: Collection[str]) -> None:
    for take in pool["take"]:
        name, _, split = take.partition(".")
        if split not in sources.get(name, {}).get("files", {}):
            known = []
            for source in sources:
                known += [f"{source}.{split}" for split in sources[source]["files"]]
            raise UserError(f"take: there is no {take!r}{did_you_mean(take, known)}")
        have = {"id", *sources[name]["columns"], *sources[name]["fixed"]}
        for file in pool["into"]:
            if file not in files:
                raise UserError(f"into.{file}: no such file can be fetched{did_you_mean(file, list(files))}")
            if BEFORE in have and file not in CONVERSATIONS:
                raise UserError(
                    f"into.{file}: sources.{name} has conversations, for {' and '.join(CONVERSATIONS)} alone"
                )
            for field in dataclasses.fields(FILES[file]):
                if field.name not in have:
                    raise UserError(f"into.{file}: it needs {field.name}, which sources.{name} doesn't give")
    if sum(pool["into"].values()) != 100:
        raise UserError(f"into: {pool['into']} must sum to 100 percent")
