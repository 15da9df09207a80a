"""Tokens per second of our rollout engine and of transformers' generate, side by side in one run on one small model.

    python benchmarks/sampling.py --rows 256 --threads 1

Both sample the same prompts, 16 rows each, with real ends of text; only tokens up to the end count. `generate` is
called as TRL calls it (temperature 1), without our per-row random numbers. The two take turns, and medians are printed.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from small_model import chain, taught

from r1flow.sampling import SamplingParams
from r1flow.sampling.engine import Engine
from r1flow.sampling.hf import until

EOS = 0


def generated(model: Any, words: Any, prompts: list[str], limit: int, dtype: torch.dtype) -> int:
    """Tokens that `generate` sampled."""
    inputs = words(prompts, padding=True, padding_side="left", return_tensors="pt")
    inputs = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad(), torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        out = model.generate(**inputs, max_new_tokens=limit, do_sample=True, top_k=0, eos_token_id=EOS, pad_token_id=1)
    return sum(len(until(row, [EOS])) for row in out[:, inputs["input_ids"].shape[1] :].tolist())


def engined(model: Any, words: Any, prompts: list[str], limit: int, dtype: torch.dtype) -> int:
    """Tokens that our engine sampled."""
    params, seeds = SamplingParams(1.0, 1.0, limit), list(range(len(prompts)))
    ids = words(prompts)["input_ids"]
    return sum(map(len, Engine(model, [EOS], dtype).generate(ids, params, seeds, len(prompts))))


def speed(sample: Callable[..., int], *arguments: Any) -> float:
    begin = time.perf_counter()
    return sample(*arguments) / (time.perf_counter() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=256, help="completions sampled at once (256)")
    parser.add_argument("--rounds", type=int, default=5, help="timed turns of each; more on a noisy machine (5)")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (1, as a stage has)")
    parser.add_argument("--max-new-tokens", type=int, default=96, help="limit of a completion (96)")
    parser.add_argument("--teach", type=int, default=150, help="steps the model is taught for first, 10 s (150)")
    parser.add_argument("--kind", default="llama", help="llama, qwen2 or qwen3, all of one shape (llama)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model, words = taught(options.teach, kind=options.kind)
    prompts = [chain(row // 16)[0] for row in range(options.rows)]
    ways = {
        "generate fp32": (generated, torch.float32),
        "generate bf16": (generated, torch.bfloat16),
        "engine fp32": (engined, torch.float32),
        "engine bf16": (engined, torch.bfloat16),
    }
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(options.rounds + 1):
        for name, (sample, dtype) in ways.items():
            measured = speed(sample, model, words, prompts, options.max_new_tokens, dtype)
            if turn:  # the first prepares kernels
                speeds[name].append(measured)
    plain = statistics.median(speeds["generate bf16"])
    print(f"{options.kind}: {options.rows} rows, up to {options.max_new_tokens} new tokens, {options.threads} threads")
    print(f"{'':16}{'tokens/s':>10}{'fastest':>10}{'× generate bf16':>18}")
    for name, values in speeds.items():
        median = statistics.median(values)
        print(f"{name:16}{median:10.0f}{max(values):10.0f}{median / plain:18.2f}")


if __name__ == "__main__":
    main()
