"""What the stage `curate` takes for so many long chains of thought: time, CPU time, memory of all its processes.

    R1FLOW_DATASETS=datasets python benchmarks/curation.py 50000 200000 --folder /tmp/curation

Rows are made from the sentences of GSM8K's training problems, with products computed in between: 6 kB each, 800,000 are
5 GB. Planted among them, and compared with what the stage reports: copies with other spacing and case, near copies,
problems of the test sets as questions, rows in German, Chinese and both, unfinished ones, code, long paragraphs, and
rows that are damaged. Two sources have three and one in four of them and shares of 80 and 20 percent. The tokenizer is
a BPE of 32,000 entries that cuts texts as Qwen2.5's does, learnt from such rows.
"""

import argparse
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import yaml

DATASETS = Path(os.environ.get("R1FLOW_DATASETS", "datasets"))
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CHAT = (
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n{{ messages[0]['content'] }}"
    "<|im_end|>\n{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
GERMAN = "Wir rechnen zuerst die Summe der beiden Zahlen aus und ziehen dann den Rest davon ab.\n"
CHINESE = "我们先计算这两个数字的和，然后再减去剩下的部分，最后得到答案。\n"
SHARES = {"traces": 80, "others": 20}
# Of a thousand rows, how many are of each kind, and the reason that the stage must give for them.
PLANTS = {
    "copy": (20, "duplicate"),
    "near": (30, "near duplicate"),
    "leak": (2, "leak"),
    "german": (4, "mixed_language"),
    "chinese": (4, "mixed_language"),
    "mixed": (4, "mixed_language"),
    "unfinished": (10, "malformed"),
    "code": (5, "code_block"),
    "paragraph": (5, "long_paragraph"),
    "damaged": (1, "wrong type in response"),
}


# Rows.


def sentences() -> list[str]:
    texts = []
    for line in (DATASETS / "gsm8k/train.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        texts += [row["question"], re.sub(r"<<.*?>>", "", row["answer"].partition("####")[0])]
    found = {part.strip() for text in texts for part in re.split(r"(?<=[.?])\s|\n", text)}
    return sorted(part for part in found if len(part) > 20)


def tests() -> list[dict[str, str]]:
    rows = []
    for name, key in (("gsm8k", "question"), ("math500", "problem"), ("aime24", "problem")):
        lines = (DATASETS / name / "test.jsonl").read_text(encoding="utf-8").splitlines()
        rows += [{"id": f"{name}/{n}", "question": json.loads(line)[key]} for n, line in enumerate(lines)]
    return rows


class Maker:
    def __init__(self) -> None:
        self.sentences, self.tests = sentences(), [row["question"] for row in tests()]
        self.odd: set[int] = set()  # rows that aren't plain and so have no copies

    def rows(self, count: int, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """So many rows with their kinds; a kind of its own comes after enough plain rows to copy."""
        rng = random.Random(seed)
        kinds = [kind for kind, (share, _) in PLANTS.items() for _ in range(share)]
        for number in range(count):
            kind = rng.choice([*kinds, *["plain"] * (1000 - len(kinds))]) if number >= 1000 else "plain"
            origin = rng.randrange(number) if kind in ("copy", "near") else number
            while kind in ("copy", "near") and origin in self.odd:
                origin = rng.randrange(number)
            yield kind, self.row(kind, seed, origin, number, rng)

    def row(self, kind: str, seed: int, origin: int, number: int, rng: random.Random) -> dict[str, Any]:
        if kind != "plain":
            self.odd.add(number)
        row = self.plain(random.Random(f"{seed}/{origin}"), f"{seed}-{number}")
        return getattr(self, f"as_{kind}")(row, rng)

    def some(self, rng: random.Random) -> str:
        return self.sentences[int(rng.random() * len(self.sentences))]

    def plain(self, rng: random.Random, name: str) -> dict[str, Any]:
        thought = []
        for number in range(max(12, int(rng.lognormvariate(4.2, 0.45)))):
            thought.append(self.some(rng))
            if number % 4 == 0:
                one, other = int(rng.random() * 9999), int(rng.random() * 9999)
                thought.append(f"Let me compute this: ${one} \\cdot {other} = {one * other}$.")
            if number % 7 == 6:
                thought.append("\n\n")
        question = " ".join(self.some(rng) for _ in range(3))
        answer = int(rng.random() * 99999)
        summary = f"{self.some(rng)} <answer>{answer}</answer>"
        return {"id": name, "question": question, "response": f"<think>{' '.join(thought)}</think>{summary}"}

    def as_plain(self, row: dict[str, Any], rng: random.Random) -> dict[str, Any]:
        return row

    def as_copy(self, row: dict[str, Any], rng: random.Random) -> dict[str, Any]:
        return row | {"response": row["response"].replace(" ", "  ", 3), "question": row["question"].upper()}

    def as_near(self, row: dict[str, Any], rng: random.Random) -> dict[str, Any]:
        """Two sentences more, of some seventy."""
        begin, _, end = row["response"].partition(".")
        return row | {"response": f"{begin}. {self.some(rng)} {self.some(rng)}{end}"}

    def as_leak(self, row: dict[str, Any], rng: random.Random) -> dict[str, Any]:
        return row | {"question": rng.choice(self.tests)}

    def as_german(self, row: dict[str, Any], rng: random.Random) -> dict[str, Any]:
        return row | {"response": f"<think>{GERMAN * 60}{row['id']}</think>Also <answer>1</answer>"}

    def as_chinese(self, row: dict[str, Any], rng: random.Random) -> dict[str, Any]:
        return row | {"response": f"<think>{CHINESE * 90}{row['id']}</think>So <answer>1</answer>"}

    def as_mixed(self, row: dict[str, Any], rng: random.Random) -> dict[str, Any]:
        begin, end = row["response"].split(". ", 1)
        return row | {"response": f"{begin}.\n{GERMAN * 20}{CHINESE * 10}{end}"}

    def as_unfinished(self, row: dict[str, Any], rng: random.Random) -> dict[str, Any]:
        return row | {"response": row["response"].partition("</think>")[0]}

    def as_code(self, row: dict[str, Any], rng: random.Random) -> dict[str, Any]:
        return row | {"response": row["response"].replace("</think>", "```\nprint(1)\n```</think>")}

    def as_paragraph(self, row: dict[str, Any], rng: random.Random) -> dict[str, Any]:
        more = " ".join(self.some(rng) for _ in range(60))
        return row | {"response": row["response"].replace("</think>", f"\n{more}</think>")}

    def as_damaged(self, row: dict[str, Any], rng: random.Random) -> dict[str, Any]:
        return row | {"response": [row["response"]]}


def make(folder: Path, count: int) -> dict[str, int]:
    """The folder of a run: data, the two sources and a tokenizer; how many of each reason are planted."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("data", *SHARES):
        (folder / name).mkdir(parents=True)
    planted: Counter[str] = Counter()
    for seed, (name, rows) in enumerate({"traces": count * 3 // 4, "others": count - count * 3 // 4}.items(), 1):
        maker = Maker()
        with (folder / name / "rows.jsonl").open("w", encoding="utf-8") as file:
            for kind, row in maker.rows(rows, seed):
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                if kind != "plain":
                    planted[PLANTS[kind][1]] += 1
    with (folder / "data/test.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in tests())
    return dict(planted)


def make_tokenizer(folder: Path) -> None:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    bytewise = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    split = pre_tokenizers.Split(Regex(QWEN), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, bytewise])
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=32000, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train_from_iterator((row["response"] for _, row in Maker().rows(4000, 3)), trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>", pad_token="<|endoftext|>")
    fast.chat_template = CHAT
    fast.save_pretrained(folder)


# One run, in a process of its own.


class Reporter:
    """A stage's terminal and record: when each step began and ended."""

    def __init__(self) -> None:
        self.begin = time.perf_counter()

    def update(self, done: int, total: int, step: str = "") -> None:
        if done in (0, total):
            print(f"    {step} {done}/{total} at {time.perf_counter() - self.begin:.0f} s", flush=True)


def compute(folder: Path, threads: int) -> None:
    from r1flow.programs.curate import compute as curate
    from r1flow.tracking.stage import Stage

    config = yaml.safe_load(Path("conf/curate/default.yaml").read_text())
    config["sources"] = {
        name: {"of": str(folder / name), "files": ["*.jsonl"], "share": share, "filters": None}
        for name, share in SHARES.items()
    }
    inputs = {"data": folder / "data", "model": folder / "model"}
    inputs |= {f"source_{name}": folder / name for name in SHARES}
    (folder / "work").mkdir()
    stage = Stage(
        name="curate",
        config=config | {"threads": threads, "seed": 1, "device": "cpu"},
        inputs=inputs,
        work=folder / "work",
        snapshots=folder / "snapshots",
        terminal=Reporter(),
        tracker=None,
    )
    curate.compute(stage)
    shutil.rmtree(stage.snapshots)


def measure(folder: Path, threads: int) -> tuple[float, float, float]:
    """Seconds, CPU seconds of all processes, and the most memory (RSS) that they had together, in MB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    process = psutil.Popen([sys.executable, __file__, "--compute", str(folder), "--threads", str(threads)])
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, sum(map(memory, [process, *descendants(process)])))
        time.sleep(0.2)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, "compute")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - begin, cpu, peak


def descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def memory(process: psutil.Process) -> float:
    try:
        return process.memory_info().rss / 2**20
    except psutil.Error:  # it has just ended
        return 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows", type=int, nargs="*", default=[20_000])
    parser.add_argument("--folder", type=Path, default=Path("/tmp/curation"), help="is emptied, filled and removed")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compute", type=Path, help="the part that is measured")
    arguments = parser.parse_args()
    if arguments.compute:
        compute(arguments.compute, arguments.threads)
        return
    if not (DATASETS / "gsm8k/train.jsonl").is_file():
        parser.error(f"{DATASETS} has no gsm8k, math500 and aime24; name their folder in R1FLOW_DATASETS")
    for count in arguments.rows:
        report(arguments.folder, count, arguments.threads)


def report(folder: Path, count: int, threads: int) -> None:
    planted = make(folder, count)
    make_tokenizer(folder / "model")
    size = sum((folder / name / "rows.jsonl").stat().st_size for name in SHARES)
    load = os.getloadavg()[0]
    print(f"{count} rows, {size / 1e9:.2f} GB, load {load:.1f} before")
    seconds, cpu, peak = measure(folder, threads)
    found = json.loads((folder / "work/curation.json").read_text())
    print(
        f"  {seconds:.0f} s, {cpu:.0f} CPU s ({1e6 * cpu / count:.0f} µs a row), {count / seconds:.0f} rows/s, "
        f"{peak:.0f} MB at most, load {os.getloadavg()[0]:.1f} after"
    )
    print(f"  kept {found['kept']}, {found['tokens'] / 1e6:.0f}M tokens, packs filled {found['filled']:.1%}")
    got: Counter[str] = Counter()
    for reason, rows in found["dropped"].items():
        got[reason.partition(":")[0]] += rows
    print(f"  {'reason':<24}{'planted':>9}{'dropped':>9}")
    for reason in sorted({*planted, *got}):
        print(f"  {reason:<24}{planted.get(reason, 0):>9}{got[reason]:>9}")
    print(
        "  " + ", ".join(f"{name} {one['reached']:.2f} % of {one['share']}" for name, one in found["sources"].items())
    )
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
