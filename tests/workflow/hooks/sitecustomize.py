"""What the tests put into a stage's process, by being first on its PYTHONPATH: the program itself knows nothing of it.

HOOK_READS=<folder>: notes which leaves of its configuration each stage reads while it runs, one JSON file a process.
HOOK_FAIL=<words>: every stage fails with a user's mistake, whose message these are.
HOOK_KILL=<JSON>: kills when something happens the n-th time in a stage, each entry of the list once; counted over all
of the stage's processes, as another stage's kill may have ended the first of them:

    [{"stage": "zero_rl", "event": "save", "n": 2, "victim": "tree", "flag": "<file that says it was done>"}, …]

stages: by name, or one of its parts, "rejection 3-of-3".
events: start (before anything), step (a line of progress), save (a file of a snapshot or a shard is opened to be
written), rename (an output moves to its place), store (a copy is put into the store), end (the record is closed).
victims: stage, or by another signal than SIGKILL its name; snakemake (its stages live on); tree (both; not the delivery
to MLflow, which has its own session); in a job of Slurm that job, by scancel or, preempt, by one that needs its node
and goes before it.
"""

import atexit
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path


class Recorded(dict):
    """A configuration that notes the paths of the leaves that are read from it; a list is a leaf."""

    def __init__(self, content, seen, path=""):
        super().__init__(content)
        self.seen, self.path = seen, path

    def __getitem__(self, key):
        value, path = super().__getitem__(key), f"{self.path}.{key}".strip(".")
        if isinstance(value, dict) and value:
            return Recorded(value, self.seen, path)
        self.seen.add(path)
        return value

    def __iter__(self):  # with it, `**config` and dict(config) go through __getitem__
        return super().__iter__()

    def get(self, key, default=None):
        return self[key] if key in self.keys() else default

    def items(self):
        return [(key, self[key]) for key in self]

    def values(self):
        return [self[key] for key in self]

    def __or__(self, other):
        return dict(self.items()) | other

    def __ror__(self, other):
        return other | dict(self.items())


def fail(words):
    from r1flow.core.errors import UserError
    from r1flow.engine import launch

    def compute(program, stage):
        raise UserError(words)

    launch.compute = compute


def record_reads(folder):
    from r1flow.engine import driver

    seen = set()
    prepare, init = driver.prepare_process, driver.Stage.__init__

    def begin(stage, *arguments, **fields):
        init(stage, *arguments, **{**fields, "config": Recorded(fields["config"], seen)})
        atexit.register(lambda: Path(folder, f"{os.getpid()}.json").write_text(json.dumps([stage.name, sorted(seen)])))

    driver.prepare_process = lambda config: prepare(Recorded(config, seen))
    driver.Stage.__init__ = begin


def kill_when(kills):
    from r1flow.engine import driver

    mine = [kill for kill in kills if set(kill["stage"].split()) <= set(sys.orig_argv)]
    armed = [kill for kill in mine if not Path(kill["flag"]).exists()]

    def happened(event):
        for kill in [kill for kill in armed if kill["event"] == event]:
            if times(kill["flag"]) >= kill["n"]:
                armed.remove(kill)
                strike(**kill)

    def heard(name, arguments):
        if name == "open" and "/snapshots/" in str(arguments[0]) and str(arguments[1])[:1] in ("w", "x", "a"):
            happened("save")
        if name == "os.rename" and str(arguments[0]).startswith("scratch") and is_output(str(arguments[1])):
            happened("rename")
        if name == "os.rename" and str(arguments[1]).startswith(".memo"):
            happened("store")

    if armed:
        sys.addaudithook(heard)
    for owner, name, event in (
        (driver, "prepare_process", "start"),
        (driver.Progress, "update", "step"),
        (driver.StageRun, "finish", "end"),
    ):
        wrap(owner, name, lambda event=event: happened(event))


def is_output(path):
    return path.startswith(("results", "data"))


def times(flag):
    """How often this was called for the flag, by whichever process."""
    with open(f"{flag}.times", "a") as times:
        times.write(".")
        return times.tell()


BY_SLURM = {
    "scancel": "scancel {job}",
    "preempt": "sbatch --partition urgent --exclusive --output /dev/null --wrap true",
}


def strike(stage, event, n, victim, flag):
    Path(flag).write_text(f"{stage} {event} {n} {victim}")
    if victim in BY_SLURM:
        subprocess.run(shlex.split(BY_SLURM[victim].format(job=os.environ["SLURM_JOB_ID"])), check=True)
        signal.pause()  # until it is Slurm's turn
    if victim.startswith("SIG"):
        signal.raise_signal(signal.Signals[victim])
    leader = os.getpgrp()  # Snakemake: the tests start it in a group of its own
    if "SLURM_JOB_ID" in os.environ:
        leader = int(next(Path("scratch").glob("*/live.lock")).read_text().split()[-1])
    if victim == "tree":
        os.killpg(leader, signal.SIGKILL)
    os.kill(leader if victim == "snakemake" else os.getpid(), signal.SIGKILL)


def wrap(owner, name, before):
    original = getattr(owner, name)

    def wrapped(*arguments, **options):
        before()
        return original(*arguments, **options)

    setattr(owner, name, wrapped)


if any(word.endswith("r1flow-stage") for word in sys.orig_argv):
    if "HOOK_READS" in os.environ:
        record_reads(os.environ["HOOK_READS"])
    if "HOOK_FAIL" in os.environ:
        fail(os.environ["HOOK_FAIL"])
    if "HOOK_KILL" in os.environ:
        kill_when(json.loads(os.environ["HOOK_KILL"]))
