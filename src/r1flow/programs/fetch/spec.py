"""Facts about the program that fetches data from a hub or folders, for plan, checks and report (programs/specs.py)."""

import dataclasses
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from r1flow.core.errors import UserError, did_you_mean
from r1flow.core.schema import EXAMS, FILES, REWORDED
from r1flow.data.leaks import EVALUATION, REPORT
from r1flow.data.loaders import FUNCTIONS
from r1flow.programs.cost_estimate import cost_of_files
from r1flow.programs.keys import Decontaminate, Place, Share, check_reported
from r1flow.programs.specs import Spec
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


@dataclass
class Fetch(Place):
    sources: dict[str, Source]
    pools: list[Pool]
    rows: dict[str, int | None]
    damaged_share: float
    decontaminate: Decontaminate
    lost_share: Share = MOST_LOST


# General prompts of evaluation sets are judged by rules, and prompts from outside have no rules. Our wordings don't fit
# problems from outside.
UNFETCHED = {form.format(split) for form in ("general_{}", REWORDED) for split in EXAMS}
FETCHED = [file for file in FILES if file not in UNFETCHED]


def check_fetch(config: dict[str, Any]) -> None:
    """Refuse sources that aren't pinned or can't be converted, and pools that use what isn't there."""
    for name, source in config["sources"].items():
        try:
            check_source(source)
        except UserError as error:
            raise UserError(f"sources.{name}.{error}") from None
    for number, pool in enumerate(config["pools"]):
        try:
            check_pool(pool, config["sources"])
        except UserError as error:
            raise UserError(f"pools[{number}].{error}") from None
    files = files_of_pools(config)
    for file in config["rows"]:
        if file not in files:
            raise UserError(f"rows.{file}: no pool makes it{did_you_mean(file, files)}")
    if not {f"{file}.jsonl" for file in files} & set(EVALUATION):
        raise UserError("pools: none makes dev or test; training data is compared with at least one of them")
    check_reported(config)


def check_source(source: dict[str, Any]) -> None:
    """Refuse a source without a commit or folder, and unknown functions or columns."""
    repo, revision = source["repo"], source["revision"]
    if revision is not None:
        check_revision("dataset", repo, revision)
    elif not Path(repo).is_dir():
        raise UserError(f"repo: {repo!r} is no folder here; name one, or give a hub id its revision")
    for ours, function in source["by"].items():
        if function not in FUNCTIONS:
            raise UserError(f"by.{ours}: there is no {function!r}{did_you_mean(function, list(FUNCTIONS))}")
        if ours not in source["columns"]:
            raise UserError(f"by.{ours}: columns doesn't say which column that is")


def check_pool(pool: dict[str, Any], sources: dict[str, Any]) -> None:
    for take in pool["take"]:
        name, _, split = take.partition(".")
        if split not in sources.get(name, {}).get("files", {}):
            known = []
            for source in sources:
                known += [f"{source}.{split}" for split in sources[source]["files"]]
            raise UserError(f"take: there is no {take!r}{did_you_mean(take, known)}")
        have = {"id", *sources[name]["columns"], *sources[name]["fixed"]}
        for file in pool["into"]:
            if file not in FETCHED:
                raise UserError(f"into.{file}: no such file can be fetched{did_you_mean(file, list(FETCHED))}")
            for field in dataclasses.fields(FILES[file]):
                if field.name not in have:
                    raise UserError(f"into.{file}: it needs {field.name}, which sources.{name} doesn't give")
    if sum(pool["into"].values()) != 100:
        raise UserError(f"into: {pool['into']} must sum to 100 percent")


def outputs(config: dict[str, Any]) -> list[str]:
    """The pools' files, and the record of what they were made from."""
    names = sorted(set(files_of_pools(config)))
    return ["schema.json", REPORT, "sources.json", *(f"{name}.jsonl" for name in names)]


def files_of_pools(config: dict[str, Any]) -> list[str]:
    return list(chain.from_iterable(pool["into"] for pool in config["pools"]))


SPEC = Spec(
    keys=Fetch,
    outputs=outputs,
    check=check_fetch,
    metrics={"rows": dict, "counts": dict},
    cost=cost_of_files,
)
