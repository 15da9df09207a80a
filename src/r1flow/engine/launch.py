"""Starts a training's ranks: one process of the program for each GPU that the stage holds, all on this machine.

The driver has prepared everything: inputs are checked, the scratch folder and the GPUs are held. Ranks are forks of
the driver, as in accelerate's own launchers, so they inherit the log, the stage's settings, and the locks, which hold
until the last rank is gone. The first rank reports, tracks and writes outputs; the others only print to the log. If
one rank fails, all are ended: the terminal gets one line, and the log the traceback:

    [ 4/22 zero_rl] failed after 1:12: RankFailed: rank 1: OutOfMemoryError: CUDA out of memory. …

One process with strategy ddp needs no fork: the program runs in the driver's own process. Left out: several nodes.
"""

import importlib
import os
import signal
import socket
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from mmap import mmap
from typing import Any

from r1flow import sampling
from r1flow.artifacts import manifest
from r1flow.artifacts.fingerprint import compute_module
from r1flow.core.errors import UserError, printable
from r1flow.core.processes import end_with_parent
from r1flow.programs.specs import spec_of
from r1flow.tracking.progress import Progress
from r1flow.tracking.spool import StageRun, device
from r1flow.tracking.stage import Stage
from r1flow.training.ranks import check_batches, strategy_of

HOST = "127.0.0.1"
START_S = 60.0  # after which the terminal names the ranks that haven't started
METRICS, FAILURE = "metrics.json", "failure.json"


class RankFailed(Exception):
    """A rank ended without its metrics; its traceback is in the log already."""


def ranks_of(program: str, config: dict[str, Any], gpus: int, processes: int | None = None) -> int:
    """How many processes compute a stage that holds so many GPUs; raises UserError if a step can't be split so."""
    if not spec_of(program).by_ranks:
        if "trainer" in config and gpus > 1 and not (program == "pretrain" and config["init_from"]):
            raise UserError(f"gpu={gpus}: the program {program} trains in one process, which uses one GPU; set gpu=1")
        return 1
    ranks = processes or (gpus if config["device"] == "cuda" else 1) or 1
    check_batches(config["trainer"], ranks)
    return ranks


def compute(program: str, stage: Stage) -> dict[str, Any]:
    """Compute a stage by its program, in as many processes as it has ranks; its metrics are the first rank's."""
    # The other strategies need torch.distributed even for one process.
    if stage.ranks == 1 and strategy_of(stage.config) == "ddp":
        return computed(program, stage)
    with meeting_point(stage.ranks):
        run_ranks(program, stage)
    return manifest.read_json(stage.work / METRICS)


def computed(program: str, stage: Stage) -> dict[str, Any]:
    """Run the program in this process and return its metrics; only this process knows the device it computed on."""
    check_device(program, stage.config)
    metrics = importlib.import_module(compute_module(program)).compute(stage)
    stage.tracker.tag("device", device())
    return metrics


def check_device(program: str, config: dict[str, Any]) -> None:
    """Refuse to compute on a CPU what was to be computed on a GPU; raises UserError where torch sees none."""
    by_torch = config.get("engine") in sampling.BY_TORCH or "trainer" in config
    if config["device"] != "cuda" or not by_torch or (program == "pretrain" and config["init_from"]):
        return
    # Otherwise asking starts CUDA, and no fork can use it.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    import torch

    if not torch.cuda.is_available():
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "not set")
        raise UserError(
            f"device: cuda, but torch {torch.__version__} sees no GPU (CUDA_VISIBLE_DEVICES: {visible}); set device:"
            " cpu, or install torch's build for CUDA (docs/scaling.md)"
        )


@contextmanager
def meeting_point(ranks: int) -> Iterator[None]:
    """Set what torch.distributed and accelerate look for; this process holds the store where ranks find each other."""
    from torch.distributed import TCPStore

    # A socket that torch opens would listen on every interface.
    door = socket.create_server((HOST, 0))
    port = door.getsockname()[1]
    store = TCPStore(HOST, port, is_master=True, wait_for_workers=False, master_listen_fd=door.detach())
    os.environ |= {
        **{"MASTER_ADDR": HOST, "MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "True"},
        **{"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)},
        "GLOO_SOCKET_IFNAME": "lo",  # gloo would ask a name server for this machine's own address
    }
    yield
    del store


def run_ranks(program: str, stage: Stage) -> None:
    """Fork the ranks, wait for them, leave none behind; raises what the first failed rank recorded, or RankFailed."""
    from torch.multiprocessing import ProcessExitedException, ProcessRaisedException, start_processes

    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # else every rank prints what is still in the buffer
    # One byte for each rank, shared with its fork: 1 once it has started.
    here = mmap(-1, stage.ranks)
    words = (program, stage, os.getpid(), here)
    context = start_processes(run_rank, words, nprocs=stage.ranks, join=False, start_method="fork")
    try:
        while not context.join(None if all(here[:]) else START_S):
            if late := ", ".join(str(index) for index, is_here in enumerate(here[:]) if not is_here):
                stage.terminal.say(f"waiting for rank {late} to start; the others wait at most trainer.ddp_timeout")
    except (ProcessExitedException, ProcessRaisedException) as error:
        raise recorded_failure(stage, ended(error)) from None
    finally:
        # All of them: a rank whose neighbour died would wait for it until trainer.ddp_timeout.
        for process in context.processes:
            process.kill()
            process.join()
    if not (stage.work / METRICS).exists():
        raise RankFailed("its first rank ended without a result")


def ended(error: Exception) -> str:
    """How a process ended that recorded no failure; SIGKILL is mostly the kernel's or Slurm's, for lack of memory."""
    said = str(error).strip()
    return f"{said} (out of memory?)" if getattr(error, "signal_name", None) == "SIGKILL" else said


def run_rank(index: int, program: str, stage: Stage, parent: int, here: mmap) -> None:
    """What one rank's process does."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver handles Ctrl-C and ends its ranks
    end_with_parent()
    if os.getppid() != parent:  # the driver died before the kernel was asked to end us with it
        os._exit(1)
    os.environ |= {"RANK": str(index), "LOCAL_RANK": str(index)}
    if index:
        silent = Progress(stage.name, open(os.devnull, "w"))  # noqa: SIM115
        stage = replace(stage, terminal=silent, tracker=StageRun("", stage.name, {}, {}))
    try:
        know_cpus()
        importlib.import_module(compute_module(program))
        here[index] = 1
        metrics = computed(program, stage)
        if index == 0:
            manifest.write_json(stage.work / METRICS, metrics)
    except Exception as error:
        record_failure(index, stage, error)
        sys.exit(1)


def know_cpus() -> None:
    """Teach torch.load the device "cpu:0": accelerate calls a rank's CPU that, and snapshots are loaded to it."""
    from torch.serialization import register_package

    register_package(0, lambda storage: None, lambda storage, place: storage if place.startswith("cpu:") else None)


def record_failure(index: int, stage: Stage, error: Exception) -> None:
    """Record the first rank's failure; the later ones are consequences of it."""
    known = isinstance(error, UserError)
    if not known:
        print(printable(traceback.format_exc()), file=sys.stderr)
    reason = str(error) if known else f"rank {index}: {type(error).__name__}: {error}"
    whole = stage.work / f"{FAILURE}.{index}"
    manifest.write_json(whole, {"reason": reason, "user": known})
    # A link can be made only once: of ranks that fail together, one was the first.
    with suppress(FileExistsError):
        os.link(whole, stage.work / FAILURE)


def recorded_failure(stage: Stage, otherwise: str) -> Exception:
    """What the first rank that failed recorded; `otherwise` if it recorded nothing, because a signal ended it."""
    try:
        recorded = manifest.read_json(stage.work / FAILURE)
    except FileNotFoundError:
        return RankFailed(otherwise)
    return (UserError if recorded["user"] else RankFailed)(recorded["reason"])
