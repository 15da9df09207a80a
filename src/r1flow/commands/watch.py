"""Follows a run that goes on, from another terminal: a line whenever a stage has a new step, with small curves.

    [base] finished  step 120  loss 1.31 █▆▄▃▂▂▂▁
    [zero_rl] step 12  reward 0.61 ▂▃▄▅  format 0.98 ▅▇██  length 42  truncated 0.02 █▅▂▁  zero_variance 0.3 ▅▄▃▃

It reads what the stages write for MLflow, so it works whatever MLflow does, and changes nothing.
"""

import argparse
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from r1flow.commands.finding import add_json, tell
from r1flow.commands.places import enter_project
from r1flow.core.errors import UserError

if TYPE_CHECKING:
    from r1flow.tracking.followed import Followed

EVERY_S = 5.0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Follow a run that goes on in this folder: each training's reward, format, truncated and zero-variance shares "
        "(or its loss) as small curves, a line whenever there is a new step. Ends with the run; Ctrl-C ends only this."
    )
    parser.add_argument("run", nargs="?", metavar="RUN", help="the run's name (default: the one that began last)")
    add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    enter_project()
    from r1flow.artifacts.locks import is_held, live_lock
    from r1flow.tracking.followed import follow_stages

    name, shown = arguments.run or latest_live(), {}
    live, stages = is_held(live_lock(name)), follow_stages(name)
    if stages is None:
        raise UserError(f"{name}: no run of this name goes on here; `r1flow runs` lists those that there are")
    if arguments.json:
        return tell({"run": name, "live": live, "stages": [asdict(stage) for stage in stages]}, "", True)
    while stages is not None:  # the record is gone once the run has ended
        for stage in stages:
            line = line_of(stage)
            if shown.get(stage.stage) != line:
                print(line, flush=True)
            shown[stage.stage] = line
        if not live:
            break
        time.sleep(EVERY_S)
        live, stages = is_held(live_lock(name)), follow_stages(name)
    print(f"the run {name} has ended; r1flow runs says how far it came")


def latest_live() -> str:
    """The run that began last of those that go on here; raises UserError if none does."""
    from r1flow.artifacts.locks import is_held

    locks = sorted(Path("scratch").glob("*/live.lock"), key=lambda path: path.stat().st_mtime, reverse=True)
    for lock in locks:
        if is_held(lock):
            return lock.parent.name
    raise UserError("no run goes on in this folder; `r1flow runs` lists those that there are")


def line_of(stage: "Followed") -> str:
    """The stage's state and, of a training, its last step's values with their curves."""
    from r1flow.tracking.followed import RUNNING
    from r1flow.tracking.progress import CURVED, ON_A_LINE, shown_fields

    names = ON_A_LINE if "reward" in stage.curves else ("loss",)
    fields = {name: stage.curves[name][-1] for name in names if name in stage.curves}
    curves = {name: stage.curves[name] for name in CURVED if name in stage.curves}
    words = [stage.state] if stage.state != RUNNING or not fields else []
    words += [f"step {stage.step}"] if fields else []
    return f"[{stage.stage}] " + "  ".join([*words, *shown_fields(fields, curves)])
