"""What each stage left out of the rows that it read, and which stages warned, for the report and summary.json.

The stages count by themselves (tracking/left_out.py); here their counts are put together:

    [{"stage": "data", "file": "rl.jsonl", "read": 200, "kept": 121, "lost": 0.395, "reasons": {"leak": 79}}, …]
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from r1flow.tracking.left_out import Count

Counts = Mapping[str, Mapping[str, Any]]  # file: read, kept, left_out


def counts_by_stage(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, Counts]:
    """The counts of every job that has some; evaluations that left out the same are one entry, `evaluate`."""
    by_job = {job: each["counts"] for job, each in metrics.items() if "counts" in each}
    examined = {job: counts for job, counts in by_job.items() if job.startswith("evaluate/")}
    first = next(iter(examined.values()), None)
    if len(examined) > 1 and all(counts == first for counts in examined.values()):
        others = {job: counts for job, counts in by_job.items() if job not in examined}
        return others | {"evaluate": first}
    return by_job


def left_out_rows(metrics: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for every file of which a stage left rows out."""
    rows = []
    for stage, counts in counts_by_stage(metrics).items():
        for file, count in counts.items():
            if count["left_out"]:
                share = Count(count["read"], Counter(count["left_out"])).lost_share
                frequent = dict(sorted(count["left_out"].items(), key=lambda reason: (-reason[1], reason[0])))
                rows.append({"stage": stage, "file": file, **count, "lost": share, "reasons": frequent})
    return rows


def warnings_of(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """The stages that learnt little or nothing, with the reasons (training/learning.py)."""
    return {job: each["warnings"] for job, each in metrics.items() if each.get("warnings")}


def whole_files(metrics: Mapping[str, Mapping[str, Any]]) -> int:
    """How many files were read of which nothing was left out."""
    whole = 0
    for counts in counts_by_stage(metrics).values():
        whole += sum(not count["left_out"] for count in counts.values())
    return whole
