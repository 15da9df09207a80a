"""Facts about the program that fetches data from a hub or folders, for plan, checks and report (programs/specs.py)."""

from dataclasses import dataclass
from itertools import product
from typing import Any

from r1flow.core.errors import UserError, did_you_mean
from r1flow.core.schema import EXAMS, FILES, PARAPHRASED
from r1flow.data.leaks import EVALUATION, REPORT
from r1flow.data.pools import RECORD
from r1flow.programs.cost_estimate import cost_of_files
from r1flow.programs.keys import Counting, Decontaminate, Share, check_reported
from r1flow.programs.source_keys import Pool, Source, check_pools, pooled
from r1flow.programs.specs import Spec


@dataclass
class Fetch(Counting):
    sources: dict[str, Source]
    pools: list[Pool]
    rows: dict[str, int | None]
    damaged_share: Share
    decontaminate: Decontaminate


# General prompts of evaluation sets are judged by rules, and prompts from outside have no rules. Our wordings don't fit
# problems from outside.
UNFETCHED = {form.format(split) for form, split in product(("general_{}", PARAPHRASED), EXAMS)}
FETCHED = [file for file in FILES if file not in UNFETCHED]


def check_fetch(config: dict[str, Any]) -> None:
    """Refuse sources that aren't pinned or can't be converted, and pools that use what isn't there."""
    check_pools(config, FETCHED)
    files = pooled(config)
    for file in config["rows"]:
        if file not in files:
            raise UserError(f"rows.{file}: no pool makes it{did_you_mean(file, files)}")
    if not {f"{file}.jsonl" for file in files} & set(EVALUATION):
        raise UserError("pools: none makes dev or test; training data is compared with at least one of them")
    check_reported(config)


def outputs(config: dict[str, Any]) -> list[str]:
    """The pools' files, and the record of what they were made from."""
    return ["schema.json", REPORT, RECORD, *(f"{name}.jsonl" for name in pooled(config))]


SPEC = Spec(
    keys=Fetch,
    outputs=outputs,
    check=check_fetch,
    metrics={"rows": dict, "counts": dict},
    cost=cost_of_files,
)
