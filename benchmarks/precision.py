"""Seconds of a pretraining step in bfloat16 and in float32, side by side in one run: which does this processor prefer?

    python benchmarks/precision.py --threads 1

Three ways take turns on the default base model and random tokens: all in bfloat16; float32 with torch's Muon, which
always multiplies in bfloat16; all in float32. `bf16: native` takes the first or the last, as this processor can.
"""

import argparse
import statistics
import time
from typing import Any
from unittest.mock import patch

import torch
import yaml
from small_model import BASE, taught

from r1flow.core.precision import fastest_dtype
from r1flow.programs.pretrain import compute as pretrain

# What a step computes in, and its optimizer.
WAYS = {
    "bfloat16": (torch.bfloat16, torch.bfloat16),
    "float32, Muon as torch has it": (torch.float32, torch.bfloat16),
    "float32": (torch.float32, torch.float32),
}


def step(model: Any, optimizer: Any, ids_BT: torch.Tensor, dtype: torch.dtype, of_muon: torch.dtype) -> float:
    begin = time.perf_counter()
    with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        loss = model(input_ids=ids_BT, labels=ids_BT).loss
    loss.backward()
    with patch.object(pretrain, "fastest_dtype", lambda device: of_muon):
        optimizer.step()
    model.zero_grad()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="timed turns of each; more on a noisy machine (5)")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (1, as a stage has)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    config = yaml.safe_load(BASE.read_text())
    model, words = taught(0)
    ids_BT = torch.randint(len(words), (config["trainer"]["per_device_train_batch_size"], config["block"]))
    optimizer = pretrain.MuonAndAdamW(model, config["muon"], config["adamw"])
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    for turn in range(options.rounds + 1):
        for name, dtypes in WAYS.items():
            measured = step(model, optimizer, ids_BT, *dtypes)
            if turn:  # the first prepares kernels
                seconds[name].append(measured)
    print(f"this processor prefers {fastest_dtype(model.device)}; {options.threads} thread(s), seconds a step")
    for name, values in seconds.items():
        print(f"{name:32}{statistics.median(values):8.3f}{min(values):8.3f}")


if __name__ == "__main__":
    main()
