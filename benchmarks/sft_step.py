"""A step of supervised fine-tuning by TRL's own head and by ours, side by side in one run on one small model.

    python benchmarks/sft_step.py --steps 40 --threads 1

Off the GPU, TRL's SFTTrainer computes logits of every token; ours only of those that are learnt (model/scoring.py).
The two take turns within one process, so that a noisy machine is noisy for both; the first step of each turn (kernels
are prepared) is left out of the medians. CPU seconds count all threads and hardly notice other processes.
"""

import argparse
import os
import statistics
import tempfile

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import torch
from datasets import Dataset, disable_progress_bars
from grpo_step import OPTIONS, Stopwatch
from small_model import chain, taught
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast, PrinterCallback
from trl import SFTConfig, SFTTrainer

from r1flow.model.scoring import score_labels_only


def steps(
    model: LlamaForCausalLM, words: PreTrainedTokenizerFast, ours: bool, options: argparse.Namespace
) -> list[tuple[float, float]]:
    """Seconds of each step, by the clock and of the CPU."""
    model.__dict__.pop("forward", None)  # what the trainer before has put there
    model.set_attn_implementation("eager")
    watch = Stopwatch()
    with tempfile.TemporaryDirectory() as folder:
        trainer = SFTTrainer(
            model=model,
            args=SFTConfig(
                output_dir=folder,
                per_device_train_batch_size=options.batch,
                max_steps=options.steps + 1,
                completion_only_loss=True,
                **OPTIONS,
            ),
            train_dataset=Dataset.from_list(
                [dict(zip(("prompt", "completion"), chain(i), strict=True)) for i in range(512)]
            ),
            processing_class=words,
            callbacks=[watch],
        )
        trainer.remove_callback(PrinterCallback)
        if ours:
            score_labels_only(model)
        trainer.train()
    return watch.steps[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40, help="timed steps a turn (default 40)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each; more on a noisy machine (3)")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (1, as a stage has)")
    parser.add_argument("--batch", type=int, default=32, help="rows of a step (32)")
    parser.add_argument("--teach", type=int, default=150, help="steps the model is taught for first, 10 s (150)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    disable_progress_bars()
    model, words = taught(options.teach)
    found: dict[str, list[tuple[float, float]]] = {"trl": [], "ours": []}
    for _ in range(options.rounds):
        for name, measured in found.items():
            measured += steps(model, words, name == "ours", options)
    print(
        f"{options.batch} rows a step, {options.threads} thread(s), {options.rounds} × {options.steps} steps; medians"
    )
    plain_cpu = statistics.median(cpu for _, cpu in found["trl"])
    print(f"{'head':8}{'step':>12}{'CPU':>12}{'× trl':>8}")
    for name, pairs in found.items():
        wall, cpu = map(statistics.median, zip(*pairs, strict=True))
        print(f"{name:8}{1000 * wall:9.1f} ms{1000 * cpu:9.1f} ms{plain_cpu / cpu:8.2f}")


if __name__ == "__main__":
    main()
