"""Runs stages by their driver, each in a fork of this process, which has imported TRL: that saves 6 s of CPU for each.

    python forked.py ends.json < jobs.json

A job is {"folder", "words"} and may have a "blow": {"rank": 0, "step": 3, "signal": 9, "whom": "driver"} (or "self") is
sent by that rank when it reports that step. `as_on_gpus` has accelerate share weights out, which it does on GPUs only.
An end is {"code": of the driver, "orphans": [what became of processes that outlived it, one code each]}.
"""

import ctypes
import importlib
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch

from r1flow.engine import driver
from r1flow.sampling import engine as sampler
from r1flow.tracking import progress

PR_SET_CHILD_SUBREAPER = 36


def run(job: dict[str, Any]) -> dict[str, Any]:
    child = os.fork()
    if child == 0:
        begin(job)
    _, status = os.waitpid(child, 0)
    return {"code": os.waitstatus_to_exitcode(status), "orphans": list(orphans())}


def orphans():
    """Processes come to us when the driver that forked them dies; waits for each."""
    while True:
        try:
            yield os.waitstatus_to_exitcode(os.waitpid(-1, 0)[1])
        except ChildProcessError:
            return


def begin(job: dict[str, Any]) -> None:
    os.chdir(job["folder"])
    os.dup2(os.open("terminal", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    if "blow" in job:
        arm(os.getpid(), **job["blow"])
    if job.get("as_on_gpus"):
        share_out()
    code = 1
    try:
        driver.main(job["words"])
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    os._exit(code)


def arm(own: int, rank: int, step: int, signal: int, whom: str) -> None:
    update = progress.Progress.update

    def struck(self: Any, done: int, total: int, **fields: Any) -> None:
        if os.environ.get("RANK", "0") == str(rank) and done == step:
            os.kill(own if whom == "driver" else os.getpid(), signal)
            while Path(f"/proc/{own}").exists():  # what its end does to us, it does before it is gone
                time.sleep(0.01)
        update(self, done, total, **fields)

    progress.Progress.update = struck


def share_out() -> None:
    """What accelerate and DeepSpeed do by themselves where the ranks have GPUs."""
    from accelerate.state import AcceleratorState, PartialState
    from accelerate.utils import DistributedType

    init = AcceleratorState.__init__

    def told(self: Any, *arguments: Any, **options: Any) -> None:
        init(self, *arguments, **options)
        if plugin := options.get("fsdp_plugin"):
            plugin.set_mixed_precision(self.mixed_precision if self.mixed_precision != "no" else "fp32")
            self.distributed_type, self.fsdp_plugin = DistributedType.FSDP, plugin
            PartialState._shared_state["distributed_type"] = DistributedType.FSDP

    AcceleratorState.__init__ = told
    for name in ("sft", "grpo"):
        if program := sys.modules.get(f"r1flow.programs.{name}.compute"):
            program.trainer_options = with_deepspeed(program.trainer_options)


def with_deepspeed(trainer_options: Any) -> Any:
    def told(stage: Any) -> dict[str, Any]:
        options = trainer_options(stage)
        if "deepspeed" in options:
            import deepspeed

            deepspeed.init_distributed(dist_backend="gloo", auto_mpi_discovery=False)
        return options

    return told


def main() -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    jobs = json.load(sys.stdin)
    for program in sorted({job["words"][0] for job in jobs}):
        importlib.import_module(f"r1flow.programs.{program}.compute")
    sampler.fastest_dtype = lambda device: torch.float32  # in bfloat16 the weights' last bits decide what is drawn
    ends = [run(job) for job in jobs]
    Path(sys.argv[1]).write_text(json.dumps(ends))


if __name__ == "__main__":
    main()
