"""Runs an experiment once with each of several seeds, one run after the other, and then reports on all of them.

    r1flow seeds r1_tiny --seeds 11 12 13 14 15

    results/r1_tiny-s11 … results/r1_tiny-s15    the runs, as `snakemake` makes them
    results/r1_tiny-seeds/report.html            the claims with intervals over the seeds (programs/report/spread.py)
    results/r1_tiny-seeds/summary.json           its numbers

A finished run has nothing to do, so after a kill the same command goes on where it was.
"""

import argparse
import shlex
import subprocess
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from r1flow.artifacts.frozen import load_frozen
from r1flow.artifacts.manifest import MANIFEST, write_json
from r1flow.artifacts.records import Record, folder_of, read_file, read_record
from r1flow.artifacts.versions import RESULTS
from r1flow.commands.finding import add_json, tell
from r1flow.commands.places import enter_project
from r1flow.core.changes import changes, leaves
from r1flow.core.errors import UserError
from r1flow.core.files import write_whole

if TYPE_CHECKING:
    from r1flow.programs.report.spread import SeedRun

Jobs = dict[str, Record]


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
    """Run Snakemake to its end; what is finished already isn't computed again. Raises UserError if it fails."""
    words = [f"experiment={experiment}", f"run={run}", f"overrides={overrides}"]
    command = [sys.executable, "-m", "snakemake", "--cores", "all", "--config", *words]
    out = 2 if progress is sys.stderr else None  # where the jobs' own lines go
    # subprocess.run would kill it at Ctrl-C, which it handles itself
    with subprocess.Popen(command, stdout=out) as snakemake:
        if snakemake.wait():
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


def read_alike(folders: Sequence[Path], seeds: Sequence[int]) -> list[Jobs]:
    """The jobs of runs that differ in their seeds alone; raises UserError for others."""
    jobs = [read_jobs(folder) for folder in folders]
    for folder, records, seed in zip(folders, jobs, seeds, strict=True):
        if seed not in {record.provenance["seed"] for record in records.values()}:
            raise UserError(f"{folder}: its seed isn't {seed}; remove it (r1flow clean --run {folder.name}) and run it")
        check_alike(folders[0], job_facts(jobs[0], seeds[0]), folder, job_facts(records, seed))
    return jobs


def read_jobs(folder: Path) -> Jobs:
    """The records of a run's report and of all that it reports on; raises UserError if there is no such report."""
    if not (folder / "report" / MANIFEST).is_file():
        raise UserError(f"{folder} has no report; leave out --report-only, which makes the run or ends it")
    made = read_record(folder / "report")
    jobs = {job: read_record(folder_of(folder, job)) for job in made.provenance["inputs"]}
    for job, entry in made.provenance["inputs"].items():
        if jobs[job].sha256 != entry["sha256"]:
            raise UserError(f"{folder}: {job} is newer than the report; leave out --report-only, which makes it again")
    return jobs | {"report": made}


def check_alike(first: Path, ours: dict[str, str], other: Path, theirs: dict[str, str]) -> None:
    """Raise UserError naming what differs between two runs, beside the seed, in configuration or code."""
    for key, before, after in changes(ours, theirs):
        raise UserError(
            f"{other}: {key} is {after}, and in {first} it is {before}; such runs may differ in the seed alone: "
            "repeat r1flow seeds with the same overrides, without --report-only"
        )


def job_facts(jobs: Jobs, seed: int) -> dict[str, str]:
    """Every job's configuration, {"zero_rl.trainer.beta": "0.001"}, and its code's hash; without what a seed decides.

    That is the run's name and its seed, wherever a configuration has it: a reward that pays by chance has one, too.
    """
    configs = {}
    for job, record in jobs.items():
        config = read_file(record.folder / "config.yaml", load_frozen)
        configs[job] = config | {"code": record.provenance["code"], "run": None}
    told = leaves(configs)
    return {key: said for key, said in told.items() if (key.rpartition(".")[2], said) != ("seed", str(seed))}


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
