"""A pretraining step in the plain way and in ours, in bfloat16 and in float32, side by side in one run.

    python benchmarks/pretrain_step.py --threads 1

Four ways take turns on the default base model and random tokens. `plain` has transformers' forward pass and
torch.optim.Muon, which multiplies in bfloat16 whatever the rest does; `ours` has our pass (model/llama.py) and our Muon
(model/muon.py). `bf16: native` chooses the dtype that this processor is fast in.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
import yaml
from small_model import BASE, taught

from r1flow.model.precision import fastest_dtype
from r1flow.programs.pretrain import compute as pretrain

WAYS = {f"{way}, {dtype}": (way, dtype) for way in ("plain", "ours") for dtype in (torch.bfloat16, torch.float32)}


def make(config: dict[str, Any], way: str, dtype: torch.dtype) -> Callable[[dict[str, Any]], None]:
    """One step on a batch, of a model of its own."""
    model, _ = taught(0)
    with patch.object(pretrain, "fastest_dtype", lambda device: dtype):
        optimizer = pretrain.MuonAndAdamW(model, config["muon"], config["adamw"])
    if way == "ours":
        pretrain.use_own_pass(model)
    else:
        optimizer.parts[0] = torch.optim.Muon(optimizer.parts[0].param_groups[0]["params"], **config["muon"])

    def step(batch: dict[str, Any]) -> None:
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        model.zero_grad()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="timed turns of each; more on a noisy machine (5)")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (1, as a stage has)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    config = yaml.safe_load(BASE.read_text())
    model, words = taught(0)
    blocks = pretrain.Blocks(
        [torch.randint(2, len(words), (config["block"],)).tolist()] * config["trainer"]["per_device_train_batch_size"],
        config["block"],
        words.pad_token_id,
    )
    batch = torch.utils.data.default_collate(list(blocks))
    ways = {name: make(config, *way) for name, way in WAYS.items()}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(options.rounds + 1):
        for name, step in ways.items():
            begin = time.perf_counter()
            step(batch)
            if turn:  # the first prepares kernels
                seconds[name].append(time.perf_counter() - begin)
    print(f"this processor prefers {fastest_dtype(model.device)}; {options.threads} thread(s), seconds a step")
    print(f"{'':24}{'median':>8}{'fastest':>9}")
    for name, values in seconds.items():
        print(f"{name:24}{statistics.median(values):8.3f}{min(values):9.3f}")


if __name__ == "__main__":
    main()
