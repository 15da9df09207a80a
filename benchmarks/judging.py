"""How long rejection sampling's filters take for a sample of long reasoning: in one process, and in several.

    R1FLOW_DATASETS=datasets python benchmarks/judging.py --samples 1600 --characters 16000

Each of MATH-500's problems gets eight samples: texts of GSM8K's training set as reasoning, and as the answer its own
or, in three of eight, another problem's. The filters are those of conf/rejection/gpu.yaml. Processes are started and
warm before the clock is, as they are within seconds of hours of work.
"""

import argparse
import itertools
import os
import random
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, wait
from functools import partial
from pathlib import Path

import yaml

from r1flow.core.processes import MOST, cores, in_order, pool
from r1flow.core.schema import Problem, read_jsonl
from r1flow.programs.rejection.compute import Sample, build_filters, judge_group, judged

DATASETS = Path(os.environ.get("R1FLOW_DATASETS", "datasets"))
FILTERS = Path(__file__).parents[1] / "conf/rejection/gpu.yaml"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1600)
    parser.add_argument("--characters", type=int, default=16_000, help="of a sample's reasoning: 4 a token")
    arguments = parser.parse_args()
    if not DATASETS.is_dir():
        parser.error(f"{DATASETS} is no folder; set R1FLOW_DATASETS to the one with gsm8k and math500")
    chain = build_filters(yaml.safe_load(FILTERS.read_text())["filters"])
    made = samples(arguments.samples, arguments.characters)
    base = 0.0
    for count in dict.fromkeys((1, 2, min(cores(), MOST))):
        with pool(count) as processes:
            warm_up(processes, count, made, chain)
            begin = time.perf_counter()
            reasons = Counter(reason for _, reason in judged(made, chain, 4, partial(in_order, processes)))
            seconds = time.perf_counter() - begin
        base = base or seconds
        print(f"{count:3} processes  {seconds / len(made) * 1000:6.2f} ms a sample  {base / seconds:5.2f} times one")
    print("; ".join(f"{reason or 'kept'} {number}" for reason, number in reasons.most_common()))


def warm_up(processes: ProcessPoolExecutor, count: int, made: list[Sample], chain: list) -> None:
    wait([processes.submit(judge_group, chain, 4, made[n * 8 : n * 8 + 8]) for n in range(4 * count)])


def samples(count: int, characters: int) -> list[Sample]:
    chooser = random.Random(0)
    rows = read_jsonl(DATASETS / "math500/test.jsonl")
    texts = [f"{row['question']} {row['answer']}\n\n" for row in read_jsonl(DATASETS / "gsm8k/train.jsonl")]
    endless = itertools.chain.from_iterable(chooser.sample(texts, len(texts)) for _ in itertools.count())
    made = []
    for number in range(count):
        row = rows[number // 8 % len(rows)]
        answer = row["answer"] if number % 8 < 5 else chooser.choice(rows)["answer"]
        reasoning = ""
        while len(reasoning) < characters:
            reasoning += next(endless)
        text = f"<think>{reasoning}</think>so the result is <answer>{answer}</answer>"
        problem = Problem(f"p{number // 8}", "math", row["problem"], row["answer"], None)
        made.append(Sample(problem, number % 8, text, characters // 4, finished=True))
    return made


if __name__ == "__main__":
    main()
