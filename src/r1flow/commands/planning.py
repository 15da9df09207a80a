"""Shows what a run would compute, why, and on request what that costs; changes nothing.

    r1flow plan r1_zero zero_rl.trainer.beta=0.01

    compute  zero_rl              96 s  config: trainer.beta 0.001 → 0.01
    follow   evaluate/zero_rl      3 s  after zero_rl
    1 to compute, 1 to compute if what runs before them comes out different, 4 kept; at most 99 s of computing

What it says is decided in engine/plan.py; the words that it takes are read in words.py.
"""

import argparse
import difflib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from r1flow.commands.finding import add_json, tell
from r1flow.commands.places import enter_project
from r1flow.commands.words import add_words, split_words
from r1flow.core.errors import UserError

if TYPE_CHECKING:
    from r1flow.engine.run import Run
    from r1flow.programs.cost_estimate import Cost

DESCRIPTION = """\
List the jobs of a run that would not simply be kept, with the reason. The first word says what would happen:
  compute   the configuration, code or inputs are new, so the job runs
  restore   the same was computed before, so the result is copied from the store (.memo/)
  follow    the job runs only if an earlier job that it reads comes out different
For example: r1flow plan r1_zero zero_rl.trainer.beta=0.01
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.set_defaults(takes_unknown=True)  # Snakemake's
    parser.add_argument("--all", action="store_true", help="also list the jobs that are kept")
    parser.add_argument("--cost", action="store_true", help="also estimate the cost: tokens, FLOPs, hours, memory")
    parser.add_argument(
        "--gpu", help="GPU for --cost, from conf/costs.yaml (default: H100, or the CPU that computes it)"
    )
    parser.add_argument("--gpus", type=int, metavar="N", help="number of GPUs for --cost (default: 1)")
    add_json(parser)
    add_words(parser, "--set-scatter and --set-resources are checked and others are ignored")


def run(arguments: argparse.Namespace) -> None:
    from r1flow.engine.checks import check_parts, check_place, check_rules
    from r1flow.engine.cost_table import cost_row, cost_table, hardware
    from r1flow.engine.plan import KEEP, table
    from r1flow.engine.run import Run
    from r1flow.engine.timing import in_minutes, schedule
    from r1flow.programs.cost_estimate import read_assumptions

    check_mistyped(arguments.unknown)
    enter_project()
    check_place()
    words = arguments.typed  # in their order, with Snakemake's options between
    scattered = [word.partition("=") for word in given(words, "scatter")]
    check_parts({name: count for name, _, count in scattered})
    check_rules(word.partition(":")[0] for word in given(words, "resources"))
    run = Run.compose(Path(), **split_words(words).config)
    jobs = [step for step in run.steps if arguments.all or step.action != KEEP]
    finding = {
        "run": run.name,
        "jobs": [{"job": step.job, "action": step.action, "why": step.why, "seconds": step.seconds} for step in jobs],
        "kept": sum(step.action == KEEP for step in run.steps),
        "missing": run.missing,
        "notes": run.notes,
    }
    words = table(run.steps, arguments.all)
    expected = schedule(run)
    finding["expected_seconds"] = expected and expected.left()
    if expected and expected.seconds:
        words += f"\n{in_minutes(expected.left())} on {expected.cores} cores of this CPU, if nothing else runs there"
    if arguments.cost:
        costs, assumed = costs_of(run, arguments.all), read_assumptions()
        gpu, gpus = hardware(costs, arguments.gpu, arguments.gpus, assumed)
        finding["costs"] = [cost_row(cost, gpu, gpus, assumed) for cost in costs]
        words += "\n\n" + cost_table(costs, arguments.gpu, arguments.gpus, assumed)
    tell(finding, words, arguments.json)
    for line in run.notes:
        print(f"r1flow: {line}", file=sys.stderr)
    for line in run.missing:
        print(f"r1flow: warning: a run would be refused on this machine: {line}", file=sys.stderr)
    run.check_libraries()


def check_mistyped(unknown: Sequence[str]) -> None:
    """Refuse what is nearly an option of ours, since Snakemake's options are ignored here."""
    for word in unknown:
        option = word.partition("=")[0]
        if near := difflib.get_close_matches(option, ("--all", "--cost", "--gpu", "--gpus", "--json"), 1, 0.8):
            raise UserError(f"there is no option {option}; did you mean {near[0]}?")


def given(words: Sequence[str], what: str) -> list[str]:
    """The values of Snakemake's option --set-<what>: NAME=2 for "scatter", RULE:gpu=2 for "resources"."""
    values, option = [], ""
    for word in words:
        if word.startswith("-"):
            option, _, word = word.partition("=")
        if option == f"--set-{what}" and word:
            values.append(word)
    return values


def costs_of(run: "Run", everything: bool) -> list["Cost"]:
    """The estimated costs of the jobs that the plan shows."""
    shown = [step.job for step in run.steps if everything or step.may_compute]
    return [cost for cost in run.costs if cost.job in shown]
