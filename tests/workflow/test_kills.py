"""Kills at any moment: the same command goes on, and the run ends with the bytes of one that nothing disturbed."""

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest
from checkout import Checkout, wait_for_delivery
from gate_share import one_in

from r1flow.artifacts import manifest

# Every stage's worst moment, and what can happen in every stage.
TRAINED = ("base", "student_base", "zero_rl", "cold_start", "reasoning_rl", "sft_mix", "reward_model", "align_rl")
TRAINED += ("distill", "student_rl")
SAMPLED = ("rejection", "evaluate/base", "evaluate/align_rl")
ANYWHERE = [("start", 1), ("rename", 1), ("rename", 3), ("store", 1), ("end", 1)]
EVENTS = {
    "data": ANYWHERE,
    **{stage: [*ANYWHERE, ("step", 2), ("step", 3), ("save", 1), ("save", 3), ("save", 5)] for stage in TRAINED},
    **{stage: [*ANYWHERE, ("step", 1), ("save", 1)] for stage in SAMPLED},
    "report": [("start", 1), ("rename", 2), ("store", 1), ("end", 1)],
}
WORST = [
    *((stage, "save", 5, "tree") for stage in TRAINED),
    *((stage, "save", 1, "tree") for stage in SAMPLED),
    ("data", "rename", 4, "tree"),
    ("report", "rename", 2, "tree"),
]
VICTIMS = ("stage", "snakemake", "tree")
COMMAND = [sys.executable, "-m", "snakemake", "--cores", "2", "--config", "experiment=r1_micro"]
PIPED = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}


def drawn(count: int, seed: int) -> list[tuple[str, str, int, str]]:
    chooser = random.Random(seed)
    stages = chooser.sample(sorted(EVENTS), min(count, len(EVENTS)))
    stages += chooser.choices(sorted(EVENTS), k=count - len(stages))
    return [(stage, *chooser.choice(EVENTS[stage]), chooser.choice(VICTIMS)) for stage in stages]


def bear(checkout: Checkout, kills: list[tuple[str, str, int, str]], *arguments: str) -> list[str]:
    """The same command again and again until no kill is left that can happen; the words of those that did."""
    keys = ("stage", "event", "n", "victim", "flag")
    flags = [checkout.folder / f"kill-{number}" for number in range(len(kills))]
    armed = [dict(zip(keys, (*kill, str(flag)), strict=True)) for kill, flag in zip(kills, flags, strict=True)]
    for _ in range(2 * len(kills)):
        if checkout.snakemake(*arguments, hooks={"HOOK_KILL": json.dumps(armed)}).returncode == 0:
            break
    return [flag.read_text() for flag in flags if flag.exists()]


def edges(folder: Path) -> dict[str, bytes]:
    """Every manifest and provenance of a run, by its path."""
    found = folder.glob("results/r1_micro/**/*.json")
    return {str(p.relative_to(folder)): p.read_bytes() for p in found if p.name in ("manifest.json", "provenance.json")}


def assert_as_undisturbed(killed: Checkout, micro: Checkout) -> None:
    done = killed.snakemake()
    assert done.returncode == 0, done.stderr
    assert edges(killed.folder) == edges(micro.folder)
    assert_nothing_broken_or_left(killed)


def assert_nothing_broken_or_left(killed: Checkout) -> None:
    wait_for_delivery(killed.folder)
    for folder in {path.parent for path in killed.folder.glob("results/**/manifest.json")}:
        assert manifest.broken(folder) is None
    left = [p for p in (killed.folder / "scratch").rglob("*") if p.is_file() and "tracking" not in p.parts]
    assert all(path.name in ("lock", "live.lock") for path in left), left


@pytest.mark.parametrize(
    ("victim", "said"),
    [
        ("stage", "r1flow: data was killed. SIGKILL mostly comes from the kernel, when memory"),
        ("SIGTERM", "r1flow: data was ended by a signal; the same command goes on where it was"),
        ("SIGSEGV", "r1flow: data was ended by SIGSEGV; the same command goes on where it was"),
    ],
)
def test_a_stage_that_is_killed_alone_is_explained(empty_checkout, victim, said):
    kill = dict(stage="data", event="start", n=1, victim=victim, flag=str(empty_checkout.folder / "killed"))
    done = empty_checkout.snakemake("--until", "data", hooks={"HOOK_KILL": json.dumps([kill])})
    assert done.returncode == 1 and "WorkflowError" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(said)


MOMENTS = [("data] started", {"r1_micro"}), ("Building DAG", set())]


@pytest.mark.parametrize(("when", "killed"), one_in(2, MOMENTS))
def test_ctrl_c_twice_ends_with_a_line_and_what_had_begun_is_killed_and_not_failed(empty_checkout, when, killed):
    """Snakemake would end with tracebacks of 70 lines: the second one interrupts its waiting for the stages."""
    with subprocess.Popen(COMMAND, cwd=empty_checkout.folder, start_new_session=True, **PIPED) as run:
        said = ""
        while when not in said and (line := run.stderr.readline()):
            said += line
        for _ in range(2):
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGINT)
        said += run.stderr.read()
    assert run.returncode == 1 and "Traceback" not in said
    assert said.splitlines()[-1].startswith("r1flow: interrupted")
    wait_for_delivery(empty_checkout.folder)
    found = statuses(empty_checkout.folder)
    assert killed <= found.keys() and set(found.values()) <= {"KILLED"}


def test_sigterm_finishes_the_stages_at_work_and_nothing_is_called_failed(empty_checkout):
    """As `systemctl stop`, a container's end or Slurm's time limit sends it; Snakemake would say that a job failed."""
    with subprocess.Popen(COMMAND, cwd=empty_checkout.folder, **PIPED) as run:
        said = ""
        while "data] started" not in said and (line := run.stderr.readline()):
            said += line
        run.terminate()
        said += run.stderr.read()
    assert run.returncode == 1 and "WorkflowError" not in said
    assert said.count("SIGTERM: the stages at work are finished") == 1
    assert said.splitlines()[-1].startswith("r1flow: stopped by SIGTERM; the same command goes on")
    wait_for_delivery(empty_checkout.folder)
    assert statuses(empty_checkout.folder) == {"r1_micro": "KILLED", "data · r1_micro": "FINISHED"}


def statuses(folder: Path) -> dict[str, str]:
    """How the runs ended that MLflow has, by name; none where no run had begun."""
    if not (folder / "mlflow.db").exists():
        return {}
    with closing(sqlite3.connect(folder / "mlflow.db")) as store:
        return dict(store.execute("SELECT name, status FROM runs").fetchall())


@pytest.mark.slow
def test_a_training_killed_at_its_worst_moment_ends_as_an_undisturbed_one_in_another_folder(micro, copy):
    """The slow suite kills every stage."""
    for place in ("results/r1_micro", ".memo"):
        shutil.rmtree(copy.folder / place / "student_base")
    happened = bear(copy, [("student_base", "save", 5, "tree")], "--until", "student_base")
    assert len(happened) == 1 and edges(copy.folder) == edges(micro.folder)
    assert_nothing_broken_or_left(copy)


@pytest.mark.slow
def test_twenty_drawn_kills(micro, empty_checkout):
    happened = bear(empty_checkout, drawn(20, seed=7))
    assert len(happened) >= 15, happened  # what comes after the kill of a stage's end can't happen any more
    assert_as_undisturbed(empty_checkout, micro)


@pytest.mark.slow
def test_killed_after_so_many_lines(micro, empty_checkout):
    for lines in (1, 10, 30):  # wherever the stages are then
        kill_after(empty_checkout, lines)
    assert_as_undisturbed(empty_checkout, micro)


@pytest.mark.slow
def test_one_kill_in_every_stage_at_its_worst_moment(micro, empty_checkout):
    order = list(EVENTS)
    kills = sorted(WORST, key=lambda kill: order.index(kill[0]))
    happened = bear(empty_checkout, kills)
    assert sorted(happened) == sorted(" ".join(map(str, kill)) for kill in kills)
    assert_as_undisturbed(empty_checkout, micro)


def kill_after(checkout: Checkout, lines: int) -> None:
    """Kill the run and its stages when it has said so many lines; returns when the last of them is gone."""
    pipe = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = subprocess.Popen(COMMAND, cwd=checkout.folder, start_new_session=True, **pipe)
    for _ in range(lines):
        process.stderr.readline()
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()  # to the end of what they all write to
