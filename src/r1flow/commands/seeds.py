"""Runs an experiment once with each of several seeds, one run after the other, and then reports on all of them.

    r1flow seeds r1_tiny --seeds 11 12 13 14 15

    results/r1_tiny-s11 … results/r1_tiny-s15    the runs, as `snakemake` makes them
    results/r1_tiny-seeds/report.html            the claims with intervals over the seeds (programs/report/spread.py)
    results/r1_tiny-seeds/summary.json           its numbers

A finished run has nothing to do, so after a kill the same command goes on where it was.
"""

import argparse
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from r1flow.artifacts.manifest import write_json
from r1flow.artifacts.records import read_file
from r1flow.artifacts.seed_runs import Jobs, read_alike
from r1flow.artifacts.versions import RESULTS
from r1flow.commands.finding import add_json, tell
from r1flow.commands.places import enter_project
from r1flow.core.errors import UserError
from r1flow.core.files import write_whole

if TYPE_CHECKING:
    from r1flow.programs.report.spread import SeedRun


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Makes the runs <experiment>-s<seed> with Snakemake, one after the other, and "
        "results/<experiment>-seeds/report.html: the claims with intervals over the seeds (docs/claims.md). Repeat the "
        "command after an interruption: what is finished isn't computed again."
    )
    parser.add_argument("experiment", metavar="EXPERIMENT", help="for example r1_tiny")
    parser.add_argument(
        "--seeds",
        nargs="+",
        type=int,
        required=True,
        metavar="SEED",
        help="two or more; with fewer than five, no claim is decided",
    )
    parser.add_argument("--overrides", default="", help='of all runs: --overrides "zero_rl.trainer.beta=0.01"')
    parser.add_argument("--run", metavar="NAME", help="the runs' names before -s<seed> (default: the experiment's)")
    parser.add_argument("--report-only", action="store_true", help="run nothing: report on the runs that are there")
    add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Make the runs, unless `report_only`, and their common report; the runs are <name>-s<seed>.

    Raises UserError for too few or repeated seeds, for a run that fails, and for runs that can't be compared.
    """
    enter_project()
    experiment, overrides = arguments.experiment, arguments.overrides
    progress = sys.stderr if arguments.json else sys.stdout
    check_seeds(arguments.seeds, overrides)
    name, seeds = arguments.run or experiment, sorted(arguments.seeds)
    if not arguments.report_only:
        check_seeds_report(experiment, f"seed={seeds[0]} {overrides}", f"{name}-s{seeds[0]}")
        for count, seed in enumerate(seeds, 1):
            print(
                f"seed {seed} ({count} of {len(seeds)}): {RESULTS / seed_run_name(name, seed)}",
                file=progress,
                flush=True,
            )
            make_run(experiment, seed_run_name(name, seed), f"seed={seed} {overrides}".strip(), progress)
    report(name, seeds, arguments.json)


def seed_run_name(name: str, seed: int) -> str:
    return f"{name}-s{seed}"


def check_seeds(seeds: Sequence[int], overrides: str) -> None:
    if repeated := sorted({seed for seed in seeds if seeds.count(seed) > 1}):
        raise UserError(f"--seeds: {repeated[0]} is named twice; a seed makes one run")
    if len(seeds) < 2:
        raise UserError("--seeds: one seed has no spread; name two or more (five decide a claim)")
    if any(word.lstrip("+").startswith("seed=") for word in overrides.split()):
        raise UserError("--overrides: seed= would make all runs alike; name the seeds after --seeds")


def check_seeds_report(experiment: str, overrides: str, run: str) -> None:
    """Compose the first run, so that a mistake is said before anything runs; raises UserError without a report."""
    from r1flow.engine.run import Run

    if "report" not in Run.compose(Path(), experiment, overrides, run).stages:
        raise UserError(f"{experiment}: its stages have no report to compare seeds by; add evaluate and report")


def make_run(experiment: str, run: str, overrides: str, progress: TextIO) -> None:
    """Run Snakemake to its end; what is finished already isn't computed again. Raises UserError if it fails.

    A signal that ends this process ends Snakemake first; then KeyboardInterrupt is raised.
    """
    words = [f"experiment={experiment}", f"run={run}", f"overrides={overrides}"]
    command = [sys.executable, "-m", "snakemake", "--cores", "all", "--config", *words]
    out = 2 if progress is sys.stderr else None  # where the jobs' own lines go
    signals: list[int] = []
    with subprocess.Popen(command, stdout=out) as snakemake:

        def pass_on(number: int, frame: Any) -> None:
            signals.append(number)
            snakemake.send_signal(number)

        # Snakemake ends its stages in an orderly way. In a terminal Ctrl-C reaches it by itself, too.
        before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
        failed = snakemake.wait()
        for number, answer in before.items():
            signal.signal(number, answer)
    if signals:
        print("r1flow: interrupted; the same command goes on where the runs were", file=sys.stderr)
        raise KeyboardInterrupt
    if failed:
        said = f"snakemake --cores all --config {shlex.join(words)}"
        raise UserError(f"{run} isn't finished ({said} failed, as said above); mend that and repeat the command")


def report(name: str, seeds: Sequence[int], as_json: bool) -> None:
    """Write the report over the seeds' finished runs."""
    folders = [RESULTS / seed_run_name(name, seed) for seed in seeds]
    jobs = read_alike(folders, seeds)
    from r1flow.programs.report.ending import tell_verdicts
    from r1flow.programs.report.spread import Seeds, render_seeds, summarise_seeds

    compared = Seeds(name, [read_seed(*each) for each in zip(seeds, folders, jobs, strict=True)])
    out = RESULTS / f"{name}-seeds"
    out.mkdir(exist_ok=True)
    summary = summarise_seeds(compared)
    write_json(out / "summary.json", summary)
    write_whole(out / "report.html", render_seeds(compared))
    claims = []
    for claim, told in summary["claims"].items():
        claims.append({"claim": claim, "verdict": told["verdict"], "text": told["text"]})
    finding = {"runs": [folder.name for folder in folders], "claims": claims, "report": str(out / "report.html")}
    tell(finding, "\n".join([*tell_verdicts(summary), f"report: {out / 'report.html'}"]), as_json)


def read_seed(seed: int, folder: Path, jobs: Jobs) -> "SeedRun":
    """What the report needs of a run; raises UserError for a summary.json that lacks some of it."""
    from r1flow.programs.report.spread import SeedRun

    path = folder / "report/summary.json"
    summary = read_file(path)
    parts = chain.from_iterable(claim["parts"] for claim in summary["claims"].values())
    if "steps" not in summary or not all("ceiling" in part for part in parts):
        raise UserError(f"{path}: an earlier version of the report wrote it; leave out --report-only: it is made again")
    metrics = {job: read_file(record.folder / "metrics.json") for job, record in jobs.items()}
    return SeedRun(seed, folder.name, summary, metrics)
