"""A GRPO step in the plain TRL way and in ours, side by side in one run on one small model.

    python benchmarks/grpo_step.py --steps 6 --threads 1

Variants, each adding to the one before: `trl` samples with generate and trains on 256 rows with sdpa attention, as TRL
does when left alone; `attention` computes attention eagerly, 64 rows at a time; `engine` samples with r1flow's engine;
`scoring` skips padding and prompts in the training passes; `shared` computes each prompt once for all its completions
in a pass, which a stage does only for longer prompts than these. They take turns within one process, so that a noisy
machine is noisy for all of them; the first step of each (kernels are prepared) is left out of the medians. CPU seconds
count all threads and hardly notice other processes.
"""

import argparse
import os
import statistics
import tempfile
import time
from types import SimpleNamespace
from typing import Any

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import torch
from datasets import Dataset
from small_model import chain, taught
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from r1flow.model import scoring
from r1flow.programs.grpo.compute import rollout

WHOLE = {"attention": "sdpa", "rows": 256, "engine": False, "trainer": GRPOTrainer, "shared": scoring.SHARED}
SMALL = {"attention": "eager", "rows": 64}
VARIANTS: dict[str, dict[str, Any]] = {
    "trl": WHOLE,
    "attention": WHOLE | SMALL,
    "engine": WHOLE | SMALL | {"engine": True},
    "scoring": WHOLE | SMALL | {"engine": True, "trainer": scoring.CompactGRPOTrainer},
    "shared": WHOLE | SMALL | {"engine": True, "trainer": scoring.CompactGRPOTrainer, "shared": 0},
}
# Options of TRL's trainers, here and in sft_step.py: bfloat16 on a CPU, no files, no progress bars.
OPTIONS = {
    "learning_rate": 1e-6,
    "bf16": True,
    "use_cpu": True,
    "gradient_checkpointing": False,
    "save_strategy": "no",
    "disable_tqdm": True,
    "dataloader_pin_memory": False,
}


class Stopwatch(TrainerCallback):
    """Seconds of each step, by the clock and of the CPU."""

    def __init__(self) -> None:
        self.steps: list[tuple[float, float]] = []

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        self.begin = time.perf_counter(), time.process_time()

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        self.steps.append((time.perf_counter() - self.begin[0], time.process_time() - self.begin[1]))


def distinct_digits(prompts: list[str], completions: list[str], **columns: Any) -> list[float]:
    """A reward that varies within groups and costs nothing."""
    return [float(len(set(text))) for text in completions]


def steps(
    weights: dict[str, Any], words: Any, model: Any, variant: dict[str, Any], options: Any
) -> list[tuple[float, float]]:
    """Seconds of each of a variant's steps, from the same weights."""
    model.load_state_dict(weights)
    model.set_attn_implementation(variant["attention"])
    model.__dict__.pop("forward", None)  # what the trainer before has put there
    scoring.SHARED = variant["shared"]
    watch = Stopwatch()
    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=variant["rows"],
            gradient_accumulation_steps=256 // variant["rows"],
            num_generations=16,
            max_completion_length=options.max_new_tokens,
            max_steps=options.steps + 1,
            loss_type="grpo",
            beta=0.0,
            **OPTIONS,
        )
        trainer = variant["trainer"](
            model=model,
            reward_funcs=distinct_digits,
            args=config,
            train_dataset=Dataset.from_list([{"prompt": chain(i)[0]} for i in range(512)]),
            processing_class=words,
            callbacks=[watch],
            rollout_func=rollout(model, words, SimpleNamespace(seed=0, ranks=1)) if variant["engine"] else None,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return watch.steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=6, help="timed steps per variant (default 6)")
    parser.add_argument("--rounds", type=int, default=2, help="turns of each variant; more on a noisy machine (2)")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (1, as a stage has)")
    parser.add_argument("--max-new-tokens", type=int, default=64, help="limit of a completion (64)")
    parser.add_argument("--teach", type=int, default=150, help="steps the model is taught for first, 10 s (150)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model, words = taught(options.teach)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    first: dict[str, float] = {}
    later: dict[str, list[tuple[float, float]]] = {name: [] for name in VARIANTS}
    for _ in range(options.rounds):
        for name, variant in VARIANTS.items():
            measured = steps(weights, words, model, variant, options)
            first.setdefault(name, measured[0][0])
            later[name] += measured[1:]
    print(
        f"256 completions a step, G 16, {options.threads} thread(s), {options.rounds} × {options.steps} steps; medians"
    )
    print(f"{'variant':12}{'first step':>12}{'step':>10}{'fastest':>10}{'× trl':>8}{'CPU':>10}{'× trl':>8}")
    plain, plain_cpu = (statistics.median(column) for column in zip(*later["trl"], strict=True))
    for name, pairs in later.items():
        clock, cpu = zip(*pairs, strict=True)
        wall, busy = statistics.median(clock), statistics.median(cpu)
        print(
            f"{name:12}{first[name]:10.2f} s{wall:8.2f} s{min(clock):8.2f} s{plain / wall:8.2f}"
            f"{busy:8.2f} s{plain_cpu / busy:8.2f}"
        )


if __name__ == "__main__":
    main()
