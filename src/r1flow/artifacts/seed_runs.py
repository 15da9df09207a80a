"""Runs of one experiment that differ in their seeds alone, as `r1flow seeds` makes them, and the check that they do."""

from collections.abc import Sequence
from pathlib import Path

from r1flow.artifacts.manifest import MANIFEST
from r1flow.artifacts.records import Record, folder_of, read_file, read_record
from r1flow.core.changes import changes, leaves
from r1flow.core.errors import UserError
from r1flow.core.files import read_yaml

Jobs = dict[str, Record]
REMEDY = "repeat r1flow seeds without --report-only"


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
        raise UserError(f"{folder} has no report; {REMEDY}, which makes the run or ends it")
    made = read_record(folder / "report")
    jobs = {job: read_record(folder_of(folder, job)) for job in made.provenance["inputs"]}
    for job, entry in made.provenance["inputs"].items():
        if jobs[job].sha256 != entry["sha256"]:
            raise UserError(f"{folder}: {job} is newer than the report; {REMEDY}, which makes it again")
    return jobs | {"report": made}


def check_alike(first: Path, ours: dict[str, str], other: Path, theirs: dict[str, str]) -> None:
    """Raise UserError naming what differs between two runs, beside the seed, in configuration or code."""
    for key, before, after in changes(ours, theirs):
        raise UserError(
            f"{other}: {key} is {after}, and in {first} it is {before}; such runs may differ in the seed alone: "
            f"{REMEDY}, with the same overrides"
        )


def job_facts(jobs: Jobs, seed: int) -> dict[str, str]:
    """Every job's configuration, {"zero_rl.trainer.beta": "0.001"}, and its code's hash; without what a seed decides.

    That is the run's name and its seed, wherever a configuration has it: a reward that pays by chance has one, too.
    """
    configs = {}
    for job, record in jobs.items():
        config = read_file(record.folder / "config.yaml", read_yaml)
        configs[job] = config | {"code": record.provenance["code"], "run": None}
    told = leaves(configs)
    return {key: said for key, said in told.items() if (key.rpartition(".")[2], said) != ("seed", str(seed))}
