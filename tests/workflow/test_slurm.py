"""The workflow on a real Slurm: its daemons run here, on ports and in folders of their own, for these tests only."""

import getpass
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from checkout import Checkout
from ports import reserved
from test_kills import assert_as_undisturbed, bear, edges

PATH = f"{os.environ['PATH']}:/usr/sbin"
# One node with two GPUs that aren't any. Jobs of the partition `urgent` put others back into the queue.
CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=5
ReturnToService=2
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=16 RealMemory=64000 Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES PriorityTier=1
PartitionName=urgent Nodes=ALL PriorityTier=2
"""
GPUS = "Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n"
# Snakemake's plugin calls srun without SLURM_CONF, as if every cluster had its configuration in /etc.
SRUN = """#!/bin/sh
SLURM_CONF={folder}/slurm.conf exec {srun} "$@"
"""


@dataclass
class Slurm:
    """Its daemons' folder, and how to speak to them."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": f"{self.folder}/bin:{PATH}"}

    def says(self, *command: str) -> str:
        """What a client of Slurm prints; nothing while its daemons can't be reached."""
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | self.environment)
        return done.stdout.strip()

    def start(self, *command: str) -> subprocess.Popen:
        """A daemon that ends with this process, however that ends."""
        words = ["setpriv", "--pdeathsig", "TERM", shutil.which(command[0], path=PATH), *command[1:]]
        with (self.folder / f"{command[0]}.log").open("w") as log:
            return subprocess.Popen(words, stdout=log, stderr=log, env=os.environ | self.environment)

    def until(self, happened: Callable[[], bool]) -> None:
        for _ in range(6000):
            if happened():
                return
            time.sleep(0.1)
        logs = "\n".join(path.read_text()[-2000:] for path in self.folder.glob("*.log"))
        pytest.fail(f"Slurm didn't get there in ten minutes:\n{logs}")


@pytest.fixture(scope="module")
def slurm(tmp_path_factory) -> Iterator[Slurm]:
    pytest.importorskip("snakemake_executor_plugin_slurm", reason="needs pip install -e .[slurm]")
    if missing := [name for name in ("munged", "slurmctld", "slurmd", "setpriv") if not shutil.which(name, path=PATH)]:
        pytest.skip(f"no {', '.join(missing)} here; Debian's packages are slurm-wlm and munge")
    folder = tmp_path_factory.mktemp("slurm")
    found, daemons, ports = Slurm(folder), [], ExitStack()
    try:
        configure(folder, [ports.enter_context(reserved()) for _ in range(2)])
        secret = [f"--key-file={folder}/munge.key", f"--seed-file={folder}/munge.seed"]
        places = [f"--socket={folder}/munge.socket", f"--pid-file={folder}/munge.pid"]
        daemons.append(found.start("munged", "--foreground", "--force", *secret, *places))  # --force: below /tmp
        found.until((folder / "munge.socket").exists)
        daemons += [found.start("slurmctld", "-D"), found.start("slurmd", "-D")]
        found.until(lambda: set(found.says("sinfo", "--noheader", "--format=%T").split()) == {"idle"})
        yield found
    finally:
        found.says("scancel", "--user", getpass.getuser())
        found.until(lambda: not found.says("squeue", "--noheader"))
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(300)
        ports.close()


def configure(folder: Path, ports: list[int]) -> None:
    """slurm.conf and what it names, with a key that only this Slurm has."""
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    (folder / "munge.key").touch(mode=0o600)
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "gres.conf").write_text(GPUS)
    (folder / "bin").mkdir()
    (folder / "bin/srun").write_text(SRUN.format(folder=folder, srun=shutil.which("srun")))
    (folder / "bin/srun").chmod(0o755)
    host = socket.gethostname().partition(".")[0]
    (folder / "slurm.conf").write_text(CONFIG.format(folder=folder, host=host, ports=ports, user=getpass.getuser()))


@dataclass
class OnSlurm(Checkout):
    """A checkout whose runs go through the profile; there is no accounting, and its jobs take seconds, not hours."""

    slurm: Slurm

    def snakemake(self, *arguments: str, hooks: dict[str, str] | None = None, **words):
        quick = ["--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "2", "--jobs", "2"]
        profile = ["--profile", "profiles/slurm", *quick, "--slurm-keep-successful-logs"]
        return super().snakemake(*profile, *arguments, hooks=self.slurm.environment | (hooks or {}), **words)

    def attempts(self, stage: str) -> list[str]:
        """What the stage's jobs told, the latest last."""
        logs = (self.folder / f".snakemake/slurm_logs/rule_{stage}").glob("*.log")
        return [path.read_text() for path in sorted(logs, key=lambda path: int(path.stem))]


@pytest.mark.slow
def test_whatever_slurm_does_to_its_jobs_the_run_ends_as_a_local_one(slurm, micro, empty_checkout):
    """One job cancelled, one preempted, and Snakemake killed while a job lives on."""
    kills = [
        ("zero_rl", "step", 3, "scancel"),
        ("rejection", "step", 1, "snakemake"),
        ("align_rl", "step", 3, "preempt"),
    ]
    run = OnSlurm(empty_checkout.folder, slurm)
    assert len(bear(run, kills)) == len(kills)
    for stage in ("zero_rl", "align_rl"):  # four steps, a snapshot after the second: no job takes all four
        told = run.attempts(stage)
        assert told and not [job for job in told if " 1/4 " in job and " 4/4 " in job]
    assert_as_undisturbed(run, micro)


@pytest.mark.slow
def test_a_job_with_several_gpus_computes_once(slurm, empty_checkout):
    """Earlier versions of the plugin started it once for every GPU."""
    run = OnSlurm(empty_checkout.folder, slurm)
    done = run.snakemake("--set-resources", "data:gpu=2", "--until", "data")
    assert done.returncode == 0, done.stderr
    (told,) = run.attempts("data")
    assert told.count("data] started") == 1 and "gpu=2" in told


@pytest.mark.slow
def test_parts_of_a_stage_are_jobs_of_their_own_with_the_gpus_of_the_stage(slurm, micro, copy):
    for folder in ("results/r1_micro/evaluate/base", ".memo/evaluate/base"):
        shutil.rmtree(copy.folder / folder)
    run = OnSlurm(copy.folder, slurm)
    done = run.snakemake("--set-scatter", "evaluate=2", "--set-resources", "evaluate:gpu=2")
    assert done.returncode == 0, done.stderr
    parts = [log.read_text() for log in (copy.folder / ".snakemake/slurm_logs/rule_sample").glob("*/*.log")]
    assert len(parts) == 2 and all("gpu=2" in log and re.search("base [12]-of-2] done", log) for log in parts), parts
    assert edges(copy.folder) == edges(micro.folder)


HOLDER = """
import os, sys, time
from pathlib import Path
from r1flow.engine import gpus
folder, gpus.SLOTS = Path(sys.argv[1]), Path(sys.argv[2])
with gpus.held(1, print):
    (folder / str(os.getpid())).write_text(os.environ["CUDA_VISIBLE_DEVICES"])
    while len(list(folder.iterdir())) < 2:  # the other one holds its own at the same time
        time.sleep(0.05)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("jobs", "each"), [(1, 2), (2, 1)])
def test_what_slurm_gave_a_job_is_shared_out_among_its_stages_and_left_to_it(slurm, tmp_path, jobs, each):
    """Both devices in one job with two stages; one device in each of two jobs, where no slot is in common."""
    held = tmp_path / "held"
    held.mkdir()
    (tmp_path / "holder.py").write_text(HOLDER)
    stages = " & ".join([f"{sys.executable} {tmp_path}/holder.py {held} {tmp_path}"] * each)
    command = ["sbatch", "--wait", f"--gpus={each}", "--time=20", "--output", f"{tmp_path}/%j.log"]
    run = [slurm.start(*command, "--wrap", f"{stages} & wait") for _ in range(jobs)]
    assert [job.wait(1500) for job in run] == [0] * jobs
    assert sorted(path.read_text() for path in held.iterdir()) == ["0", "1"]


@pytest.mark.slow
def test_a_server_for_rollouts_is_to_be_found_while_its_job_lives(slurm, tmp_path):
    """With a sleeper in the server's place: put back into the queue it comes up again; cancelled, it is gone."""
    command, place = slurm.folder / "bin" / "r1flow", tmp_path / "scratch" / "rollout.url"
    command.write_text('#!/bin/sh\necho "$@" >> served\nexec sleep 600\n')
    command.chmod(0o755)
    few = ["--gpus-per-node=1", "--cpus-per-task=1", "--mem=100M", "--time=60", f"--chdir={tmp_path}"]
    job = slurm.says("sbatch", "--parsable", *few, str(Path("profiles/slurm/rollout-server.sbatch").resolve()), "base")
    served = tmp_path / "served"
    slurm.until(lambda: served.exists() and served.read_text().count("\n") == 1)
    host, port = re.fullmatch(r"http://([0-9.]+):(\d+)\n", place.read_text()).groups()
    assert served.read_text() == f"serve-rollouts base --host {host} --port {port}\n"
    slurm.says("scontrol", "requeue", job)
    slurm.until(lambda: slurm.says("squeue", "--noheader", "--format=%T", "--jobs", job) == "PENDING")
    slurm.says("scontrol", "update", f"jobid={job}", "StartTime=now")  # it would rest for two minutes
    slurm.until(lambda: served.read_text().count("\n") == 2)
    assert place.read_text() == f"http://{host}:{port}\n"
    slurm.says("scancel", job)
    slurm.until(lambda: not slurm.says("squeue", "--noheader"))
    slurm.until(lambda: not place.exists())
