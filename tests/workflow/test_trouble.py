"""A full disk, a folder that can't be written: a line that says so, nothing half-written, and the run goes on."""

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkout import ROOT, Checkout, checkout
from gate_share import one_in
from test_kills import edges

from r1flow.artifacts import manifest
from r1flow.engine.run import Run
from r1flow.programs import cost_estimate

SMALL_DISK = "r1flow-small-disk"  # by this name the tests of the sandbox know a mount that isn't theirs


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of its own with little room."""
    folder = tmp_path / "disk"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=14m", SMALL_DISK, str(folder)]
    if subprocess.run(words, capture_output=True).returncode:
        pytest.skip("no right to mount a small file system here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def resize(disk: Path, size: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True)


@pytest.mark.slow
def test_a_full_disk_is_a_line_and_the_same_command_goes_on_once_there_is_room(small_disk, micro):
    """Too small for the models alone is refused; room for those and not for the rest fills up midway."""
    run: Checkout = checkout(small_disk)
    models, snapshot = cost_estimate.disk_certain(Run.compose(ROOT, "r1_micro").costs)
    need = 2 * models + snapshot  # the store has a copy
    done = run.snakemake()
    assert done.returncode != 0 and f"take {need / 1e9:.2f} GB and 0.01 GB are free; make room" in done.stderr
    assert not (small_disk / "results").exists()

    resize(small_disk, shutil.disk_usage(small_disk).used + int(need) + 1_000_000)
    done = run.snakemake()
    assert done.returncode != 0 and "No space left on device" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr.replace("    | Traceback", "")  # but in a failed stage's log
    for folder in {path.parent for path in small_disk.glob("results/**/manifest.json")}:
        assert manifest.broken(folder) is None

    resize(small_disk, 1_000_000_000)
    done = run.snakemake()
    assert done.returncode == 0, done.stderr
    assert edges(small_disk) == edges(micro.folder)


def test_a_results_folder_that_cannot_be_made_is_a_line_and_nothing_is_lost(copy):
    """A file in the folder's place: what root can't write either."""
    (copy.folder / "results/r1_micro/report").rename(copy.folder / "kept")
    (copy.folder / "results/r1_micro/report").write_text("in the way")
    done = copy.snakemake()
    assert done.returncode != 0 and "results/r1_micro/report" in done.stderr
    (copy.folder / "results/r1_micro/report").unlink()
    done = copy.snakemake()
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    verdicts = next(number for number, line in enumerate(lines) if line.startswith("No verdicts: "))
    assert lines[verdicts - 1].startswith("distill ") and "C1 " not in done.stderr  # below the models' scores
    assert lines[verdicts + 1] == "report: results/r1_micro/report/report.html"
    assert lines[-1] == "next: r1flow chat results/r1_micro/align_rl/model"
    assert (
        edges(copy.folder)["results/r1_micro/report/manifest.json"] == (copy.folder / "kept/manifest.json").read_bytes()
    )


def test_a_place_where_a_run_would_fail_at_its_end_is_refused_at_its_start(tmp_path):
    run = checkout(tmp_path / "a?b")
    done = run.snakemake("--dry-run")
    assert done.returncode != 0 and "a?b: there is a ? in it, and MLflow's database can't be" in done.stderr
    done = run.snakemake("--dry-run", hooks={"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"})
    assert done.returncode != 0 and "export PYTHONUTF8=1" in done.stderr and "Traceback" not in done.stderr


def test_a_run_that_fails_ends_with_the_reason_alone(empty_checkout):
    """And not with what Snakemake says of it: a rule's line, a command of 300 characters, where to look above."""
    done = empty_checkout.snakemake("--until", "data", hooks={"HOOK_FAIL": "data.seed: 2;\nuse 1"})
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "r1flow: data failed: data.seed: 2; use 1 (logs/r1_micro/data.log)"
    assert not re.search("Traceback|Exception|WorkflowError|non-zero", done.stderr)

    with (empty_checkout.folder / "scratch/live.lock").open("a") as live:
        fcntl.flock(live, fcntl.LOCK_EX)
        done = empty_checkout.snakemake("--until", "data")
    assert done.stderr.splitlines()[-1].startswith("r1flow: a command is changing this folder's results")
    assert not re.search("Traceback|UserError", done.stderr)


def test_what_slurm_says_of_a_job_that_it_does_not_take_is_said(empty_checkout, tmp_path):
    """Most clusters want a partition or an account; Snakemake's words on it are left out by `quiet: rules`."""
    pytest.importorskip("snakemake_executor_plugin_slurm", reason="needs pip install -e .[slurm]")
    refusal = "sbatch: error: Batch job submission failed: Invalid partition name specified"
    for name, script in {"sinfo": "exit 0", "sacct": "exit 1", "sbatch": f"echo '{refusal}' >&2; exit 1"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    slurm = ("--profile", "profiles/slurm", "--retries", "1", "--until", "data")
    done = empty_checkout.snakemake(*slurm, hooks={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert done.returncode == 1 and "WorkflowError" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if refusal in line]
    assert len(lines) == 3 and lines[-1] == done.stderr.splitlines()[-1]
    assert lines[-1].startswith("r1flow: data: SLURM sbatch failed.") and "sbatch call" not in done.stderr


def test_a_home_that_cannot_be_written_is_not_needed(empty_checkout):
    """In a container whose user is nobody's; Snakemake would keep a cache of sources there."""
    done = empty_checkout.snakemake("--dry-run", hooks={"HOME": "/proc/nohome", "XDG_CACHE_HOME": ""})
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "22 to compute (22 never run here)", done.stderr


@pytest.mark.parametrize("run", one_in(4, ["007", "1e3", "3.10", "nan"]))
def test_a_run_s_name_that_looks_like_a_number_is_that_text(empty_checkout, run):
    """As in `r1flow plan`; Snakemake reads 7, 1000.0, 3.1 and no number, and cuts the overrides at the #."""
    words = {"run": run, "overrides": "stages=[data,base] base.init_from=/m/a #b={c: d}"}
    done = empty_checkout.snakemake("--dry-run", **words)
    assert done.returncode != 0 and "'#b={c:' isn't KEY=VALUE" in done.stderr

    shown = ("--dry-run", "--quiet", "all", "--printshellcmds")
    done = empty_checkout.snakemake(*shown, run=run, overrides="stages=[data]")
    assert done.returncode == 0 and f" --run {run} " in done.stdout, done.stderr


@pytest.mark.parametrize("run", one_in(2, ["2026-11-27", "007"]))
def test_a_run_s_name_in_a_configfile_is_the_text_that_stands_there(empty_checkout, tmp_path, run):
    """YAML reads 7 and a date."""
    (tmp_path / "run.yaml").write_text(f"run: {run}\noverrides: stages=[data]\n")
    shown = ("--dry-run", "--quiet", "all", "--printshellcmds", "--configfile", str(tmp_path / "run.yaml"))
    done = empty_checkout.snakemake(*shown)
    assert done.returncode == 0 and f" --run {run} " in done.stdout, done.stderr


def test_a_dry_run_ends_with_the_plan_and_its_commands_hold_any_name(copy, tmp_path):
    name = "my (model) {y} {{z}} $(touch ran); `touch ran`"
    shutil.copytree(copy.folder / "results/r1_micro/base/model", copy.folder / name)
    words = f"seed=1 \"zero_rl.init_from='{name}'\" stages=[data,zero_rl,evaluate,report]"
    done = copy.snakemake("--dry-run", "--quiet", "all", "--printshellcmds", overrides=words)
    assert done.returncode == 0, done.stderr
    assert re.match(r"\d to compute, \d .*; at most \d+ s of computing", done.stdout.splitlines()[-1])

    (tmp_path / "r1flow-stage").write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    (tmp_path / "r1flow-stage").chmod(0o755)
    [command] = re.findall(r"r1flow-stage grpo .*", done.stdout)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    said = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=path, capture_output=True, text=True).stdout
    assert f"model={name}" in said.splitlines() and not (tmp_path / "ran").exists()


def test_a_number_of_gpus_that_a_step_cant_be_shared_out_to_is_refused_when_planned(empty_checkout):
    """An expression isn't known before the job is."""
    gpus = ("--dry-run", "--set-resources", "sft_mix:gpu=2*attempt", "zero_rl:gpu=3")
    done = empty_checkout.snakemake(*gpus, experiment="r1_qwen2.5_1.5b")
    assert done.returncode != 0 and "\nr1flow: --set-resources zero_rl:gpu=3: trainer.gradient_acc" in done.stderr
    assert "Traceback" not in done.stderr
