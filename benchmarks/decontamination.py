"""What `r1flow.data.decontaminate` finds of leaks planted on purpose, what it finds where none was, and how fast.

    R1FLOW_DATASETS=datasets python benchmarks/decontamination.py --show

Every problem of GSM8K test, MATH-500 and AIME 2024 is planted in eight spellings among training problems of GSM8K. A
plant is found when it is a hit on its own problem, of any kind but `masked`; with other numbers, when it is `masked`.
Then GSM8K's real training problems against the three sets, with --show the pairs to look at, and the speed.
"""

import argparse
import os
import re
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from r1flow.core.schema import read_jsonl
from r1flow.data.decontaminate import Index, Kind

SETS = {"gsm8k": "question", "math500": "problem", "aime24": "problem"}
PREFIX = "Here is something to think about before the lesson ends."


def problems(name: str, split: str = "test") -> list[str]:
    return [row[SETS[name]] for row in read_jsonl(Path(os.environ["R1FLOW_DATASETS"], name, f"{split}.jsonl"))]


# The spellings of a leak


def verbatim(text: str) -> str:
    return text


def in_capitals(text: str) -> str:
    return re.sub(r"(?<!\\)\b[a-z]+\b", lambda word: word[0].upper(), text)  # not LaTeX's commands


def other_punctuation(text: str) -> str:
    """Words as they were, no commas and full stops between them, curly apostrophes, other spaces."""
    return re.sub(r"(?<=[a-z])[,.;:] ", "  ", text).replace("'", "’").replace("\n", " ").rstrip("?.") + " ?"


def other_latex(text: str) -> str:
    for pattern, spelling in (
        (r"\\[dt]?frac\b", r"\\tfrac "),
        (r"(?<!\\)\$([^$\\]*(?:\\.[^$\\]*)*)(?<!\\)\$", r"\\( \1 \\)"),
        (r"\\left|\\right", ""),
        (r"\\(le|ge)q?\b", r"\\\1qslant "),
        (r"\^(\w)", r"^{\1}"),
        (r"\\cdot\b", r"\\times "),
        (r"\\ldots|\\dots", "…"),
        (r"(?<=\d),(?=\d{3})", "{,}"),
    ):
        text = re.sub(pattern, spelling, text)
    return text


def one_more_word(text: str) -> str:
    """A word in the middle, where it hurts most."""
    words = text.split(" ")
    return " ".join([*words[: len(words) // 2], "actually", *words[len(words) // 2 :]])


def another_tail(text: str) -> str:
    """The last quarter of the words said otherwise."""
    words = text.split(" ")
    return " ".join(words[: len(words) * 3 // 4]) + " so tell us which value comes out at the end of it all"


def inside(text: str) -> str:
    return f"{PREFIX} {text} {PREFIX}"


def other_numbers(text: str) -> str:
    return re.sub(r"\d+", lambda number: str(int(number[0]) + 3), text)


Spelling = Callable[[str], str]
LEAKS = (verbatim, in_capitals, other_punctuation, other_latex, one_more_word, another_tail, inside)


def plant(texts: list[str], spell: Spelling, background: list[str]) -> tuple[int, int, Counter[str]]:
    """How many plants there are (spelt otherwise, if at all), how many of them are found, and the kinds of hits."""
    plants = [(number, spell(text)) for number, text in enumerate(texts)]
    masked = spell is other_numbers
    plants = [(number, spelt) for number, spelt in plants if not masked or spelt != texts[number]]
    hits = Index(texts).hits([*(spelt for _, spelt in plants), *background])
    own = [hit for hit in hits if hit.train_index < len(plants) and hit.benchmark_index == plants[hit.train_index][0]]
    # In large groups only a sample of masked pairs is listed, so a masked plant may be found beside another problem.
    telling = hits if masked else own
    found = {
        hit.train_index for hit in telling if (hit.kind == Kind.MASKED) == masked and hit.train_index < len(plants)
    }
    return len(plants), len(found), Counter(hit.kind.value for hit in own)


def show_recall(background: list[str]) -> None:
    print("| planted as | " + " | ".join(f"{name} found" for name in SETS) + " | kinds, of all three |")
    print("|---" * (len(SETS) + 2) + "|")
    for spell in (*LEAKS, other_numbers):
        cells, kinds = [], Counter()
        for name in SETS:
            plants, found, of_set = plant(problems(name), spell, background)
            cells.append(f"{found} of {plants}")
            kinds += of_set
        print(f"| {spell.__name__} | {' | '.join(cells)} | {', '.join(f'{k} {n}' for k, n in kinds.most_common())} |")


def show_hits(training: list[str], pairs: bool) -> None:
    """Hits where nothing was planted."""
    for name in SETS:
        texts = problems(name)
        hits = Index(texts).hits(training)
        rows = {hit.train_index for hit in hits if hit.kind != Kind.MASKED}
        kinds = Counter(hit.kind.value for hit in hits)
        print(f"{name}: {len(rows)} of {len(training)} training problems, {dict(kinds)}")
        for row in sorted(rows) if pairs else ():
            for other in sorted({hit.benchmark_index for hit in hits if hit.train_index == row}):
                print(f"  train {row}: {training[row]}\n  test {other}: {texts[other]}\n")


def cpu_seconds(training: list[str], texts: list[str]) -> float:
    begin = time.process_time()
    Index(texts).hits(training)
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true", help="print the pairs that were found without a plant")
    parser.add_argument("--processes", type=int, default=2, help="that share the rows when speed is measured (2)")
    parser.add_argument("--times", type=int, default=10, help="how many times GSM8K's training problems (10)")
    options = parser.parse_args()
    training = problems("gsm8k", "train")
    show_recall(training[:1000])
    show_hits(training, options.show)
    everything = [text for name in SETS for text in problems(name)]
    rows, begin = len(training) * options.times, time.perf_counter()
    with ProcessPoolExecutor(options.processes) as pool:
        shares = [training * options.times] * options.processes
        seconds = sum(pool.map(cpu_seconds, shares, [everything] * options.processes))
    wall, all_rows = time.perf_counter() - begin, rows * options.processes
    print(
        f"{all_rows / wall:,.0f} rows a second in {options.processes} processes, {all_rows / seconds:,.0f} of CPU time"
    )


if __name__ == "__main__":
    main()
