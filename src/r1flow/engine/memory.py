"""Refuses a stage whose model can't fit into memory, before its program is loaded.

check_memory("grpo", config, {"model": Path("results/r1_tiny/base/model")}, ranks=2)
"""

import os
import subprocess
from pathlib import Path
from typing import Any

from r1flow.core.errors import UserError
from r1flow.programs.model_sizes import UNKNOWN, model_in
from r1flow.programs.specs import spec_of
from r1flow.training.ranks import strategy_of


def check_memory(program: str, config: dict[str, Any], inputs: dict[str, Path], ranks: int = 1) -> None:
    """Raise UserError for a stage whose model can't fit, whatever the batch, into the memory of its GPUs or machine.

    With strategy ddp every rank holds a whole copy.
    """
    if "model" not in inputs:
        return
    have = memory_of_gpus() if config["device"] == "cuda" else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    reward = model_in(inputs["reward_model"]).parameters if "reward_model" in inputs else 0
    copies = ranks if strategy_of(config) == "ddp" else 1
    need = copies * spec_of(program).memory(config, model_in(inputs["model"]).parameters, reward)[0]
    if need > have:
        what = "its GPUs have" if config["device"] == "cuda" else "the machine has"
        raise UserError(
            f"the model's weights, gradients and optimizer take {need / 1e9:.1f} GB and {what} {have / 1e9:.1f} GB;"
            " share it between GPUs (strategy: fsdp2), take larger ones, or a smaller model (`r1flow plan --cost` says"
            " what fits)"
        )


def memory_of_gpus() -> float:
    """Bytes of all GPUs that this process sees, together; nan if nvidia-smi can't tell."""
    seen = [f"--id={names}"] if (names := os.environ.get("CUDA_VISIBLE_DEVICES")) else []
    command = ["nvidia-smi", *seen, "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return sum(map(int, output.split())) * 2**20
    except (OSError, subprocess.CalledProcessError, ValueError):
        return UNKNOWN
