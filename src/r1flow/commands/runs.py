"""Lists the runs in results/.

    run               experiment    seed  state              changed       pass@1            overrides
    r1_tiny           r1_tiny       1     finished           2 hours ago   74.5 align_rl
    more_kl           r1_tiny       1     12 of 22 stages    3 days ago    68.8 zero_rl      zero_rl.trainer.beta=0.01

api/listing.py says where each of these comes from.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from r1flow.commands.finding import add_json, ago, tell
from r1flow.commands.places import enter_project
from r1flow.core.errors import printable

if TYPE_CHECKING:
    from r1flow.api.listing import ListedRun

SORTED_BY = ("changed", "run", "experiment", "seed", "state", "pass_at_1")
HIGHEST_FIRST = ("changed", "pass_at_1")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List the runs in results/: the experiment, seed and overrides they were made with, how far they are, when "
        "their last stage ended, and the pass@1 of their last model. `r1flow compare A B` tells two of them apart."
    )
    parser.add_argument(
        "--sort", choices=SORTED_BY, default="changed", help="what decides the order (default: changed, newest first)"
    )
    parser.add_argument(
        "--filter",
        action="append",
        default=[],
        metavar="WORD",
        help="only runs that have this word in their name, experiment, overrides or state; may be repeated",
    )
    add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    enter_project()
    from r1flow.api.listing import runs_and_damage

    found, damaged = runs_and_damage()
    listed_runs = runs_in_order([each for each in found if fits(each, arguments.filter)], arguments.sort)
    lines = [cells_of_run(each, time.time()) for each in listed_runs]
    header = ("run", "experiment", "seed", "state", "changed", "pass@1", "overrides")
    none = "no run in results/ has this" if arguments.filter else "no run in results/"
    words = columns_told([header, *lines]) if lines else none
    tell({"runs": [asdict(each) for each in listed_runs]}, words, arguments.json)
    for fault in damaged:
        print(f"r1flow: not listed: {printable(fault)}", file=sys.stderr)


def fits(each: "ListedRun", words: Sequence[str]) -> bool:
    """Whether all of these words are in the run's name, experiment, overrides or state."""
    text = " ".join(filter(None, [each.run, each.experiment, each.overrides, each.state])).casefold()
    return all(word.casefold() in text for word in words)


def runs_in_order(listed_runs: Sequence["ListedRun"], key: str) -> list["ListedRun"]:
    """Sorted by a column: times and pass@1 with the highest first, and runs that lack it at the end."""
    known = [each for each in listed_runs if getattr(each, key) is not None]
    unknown = [each for each in listed_runs if getattr(each, key) is None]
    return sorted(known, key=lambda each: getattr(each, key), reverse=key in HIGHEST_FIRST) + unknown


def cells_of_run(each: "ListedRun", now: float) -> tuple[str, ...]:
    state = f"{each.done} of {each.jobs} stages" if each.jobs and each.state == "unfinished" else each.state
    score = "" if each.pass_at_1 is None else f"{100 * each.pass_at_1:.1f} {each.model}"
    known = [each.run, each.experiment, each.seed, state, ago(now - each.changed), score, each.overrides]
    return tuple("–" if value is None else str(value) for value in known)


def columns_told(rows: Sequence[Sequence[Any]]) -> str:
    """The rows as a table, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
