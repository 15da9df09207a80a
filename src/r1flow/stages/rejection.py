"""Rejection sampling: what the reasoning RL checkpoint does well becomes training data for the next models.

Inputs: `model`, the checkpoint, and `data`, a folder with rejection.jsonl (prompts) and general_sft.jsonl. Outputs:
samples.parquet, every sample with the reason why it was dropped (null: kept), and mix.jsonl, the kept samples mixed
with general data in a declared share and shuffled:

    {"id": "4be0c1d2a3f4-2", "source": "rejection", "question": "8 + 16 - 19 = ?", "response": "<think>…</answer>"}

DeepSeek-R1, section 2.3.3: several samples a prompt; only correct ones; no chains of thought that mix languages, no
long paragraphs, no code blocks. Left out: the judge model for answers that rules can't grade, and chains of thought
generated for general prompts.
"""

import inspect
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from r1flow.errors import UserError
from r1flow.grading import tasks
from r1flow.language import consistency
from r1flow.sampling import load, seed_of, shards
from r1flow.schema import Problem, read_jsonl, write_jsonl
from r1flow.stage import Stage
from r1flow.template import Parts, render, split

DUPLICATE, SURPLUS = "duplicate", "surplus"  # these two look at a prompt's other samples
SAMPLE_SCHEMA = pa.schema(
    [
        ("problem_id", pa.string()),
        ("task", pa.string()),
        ("sample_index", pa.int32()),
        ("question", pa.string()),
        ("gold", pa.string()),
        ("completion", pa.string()),
        ("answer", pa.string()),
        ("length", pa.int32()),  # tokens
        ("finished", pa.bool_()),
        ("dropped", pa.string()),  # why; null: kept
    ]
)


@dataclass(frozen=True)
class Sample:
    """One completion of a problem."""

    problem: Problem
    index: int
    text: str
    length: int  # tokens
    finished: bool

    @property
    def parts(self) -> Parts:
        return split(self.text)


Filter = Callable[[Sample], bool]  # True: drop


def compute(stage: Stage) -> dict[str, Any]:
    """Sample, filter and mix; metrics: counts by reason, acceptance, and the share of general rows in the mix."""
    config = stage.config
    problems = load_problems(stage.inputs["data"] / "rejection.jsonl", config["prompts"])
    chain = build_filters(config["filters"])
    samples = draw(stage, problems)
    reasons = judge(samples, chain, config["keep_per_prompt"])
    write_samples(stage.work / "samples.parquet", samples, reasons)
    kept = [sample for sample, reason in zip(samples, reasons, strict=True) if reason is None]
    if not kept:
        raise UserError(f"rejection.filters: none of the {len(samples)} samples was kept ({dict(Counter(reasons))})")
    share = config["general_share"]
    general = read_jsonl(stage.inputs["data"] / "general_sft.jsonl") if share else []
    mix = mixed(kept, general, share, stage.seed)
    write_jsonl(stage.work / "mix.jsonl", mix)
    stage.log_table("rejection", [record(*pair) for pair in zip(samples[:100], reasons[:100], strict=True)])
    return summary(samples, reasons, mix)


def load_problems(path: Path, limit: int | None) -> list[Problem]:
    """The prompts to sample from, the first `limit` of the file; raises UserError when it has none."""
    problems = [Problem(**row) for row in read_jsonl(path)[:limit]]
    if not problems:
        raise UserError(f"{path}: no prompts to sample from; look at the data stage")
    return problems


def draw(stage: Stage, problems: list[Problem]) -> list[Sample]:
    """k samples of every problem, those of a problem side by side."""
    config = stage.config
    sampler = load(stage.inputs["model"], config["engine"], config["batch_size"], config["engine_options"])
    rows = [(problem, index) for problem in problems for index in range(config["samples_per_prompt"])]
    completions = shards.sample(
        stage,
        sampler,
        [render(sampler.tokenizer, problem.question) for problem, _ in rows],
        [seed_of(stage.seed, problem.id, index) for problem, index in rows],
    )
    return [
        Sample(problem, index, completion.text, len(completion.ids), completion.finished)
        for (problem, index), completion in zip(rows, completions, strict=True)
    ]


# Filters: True drops a sample. A config names them in order; the first that says so is the reason.


def unfinished(sample: Sample) -> bool:
    """Cut off by the limit on new tokens."""
    return not sample.finished


def empty(sample: Sample) -> bool:
    return not sample.text.strip()


def malformed(sample: Sample) -> bool:
    """Not one reasoning block followed by text with one answer at its end."""
    return not sample.parts.well_formed


def no_summary(sample: Sample) -> bool:
    """Nothing for a reader between the reasoning and the answer."""
    return sample.parts.summary == (sample.parts.answer or "")


def wrong(sample: Sample) -> bool:
    """Not the right answer, or not gradable."""
    problem = sample.problem
    return tasks.correct(problem.task, sample.parts.answer, problem.answer, problem.entry) is not True


def mixed_language(sample: Sample, language: str, languages: list[str], share: float) -> bool:
    """Less than `share` of the words, in reasoning and summary, are in `language`; no words at all is not mixed."""
    parts = sample.parts
    found = consistency(f"{parts.reasoning or ''}\n{parts.summary}", language, languages)
    return found is not None and found < share


def long_paragraph(sample: Sample, max_words: int) -> bool:
    return any(len(paragraph.split()) > max_words for paragraph in sample.text.split("\n"))


def code_block(sample: Sample) -> bool:
    return bool(re.search(r"```|~~~|<code>", sample.text))


FILTERS = {
    f.__name__: f for f in (unfinished, empty, malformed, no_summary, wrong, mixed_language, long_paragraph, code_block)
}


def build_filters(specs: list[dict[str, Any]]) -> list[tuple[str, Filter | None]]:
    """The filters of a config, in order; `duplicate` has no function of one sample. Raises UserError for a bad spec."""
    return [(spec.get("name"), build_filter(spec.get("name"), spec.get("args") or {})) for spec in specs]


def build_filter(name: str, args: dict[str, Any]) -> Filter | None:
    if name == DUPLICATE:
        return None
    if name not in FILTERS:
        raise UserError(f"rejection.filters: there is no filter {name!r}; known: {', '.join([*FILTERS, DUPLICATE])}")
    try:
        inspect.signature(FILTERS[name]).bind(None, **args)
    except TypeError as error:
        raise UserError(f"rejection.filters: {name}: args: {error}") from error
    return partial(FILTERS[name], **args)


def judge(samples: list[Sample], chain: list[tuple[str, Filter | None]], keep_per_prompt: int) -> list[str | None]:
    """For each sample the name of the first filter that drops it, `surplus` for what is too much, or None: kept.

    The samples of a problem stand side by side, and the earlier ones win.
    """
    reasons: list[str | None] = []
    for _, group in groupby(samples, key=lambda sample: sample.problem.id):
        seen: set[str] = set()
        kept = 0
        for sample in group:
            reason = first_reason(sample, chain, seen)
            if reason is None and kept == keep_per_prompt:
                reason = SURPLUS
            kept += reason is None
            seen.add(canonical(sample.text))
            reasons.append(reason)
    return reasons


def first_reason(sample: Sample, chain: list[tuple[str, Filter | None]], seen: set[str]) -> str | None:
    for name, drops in chain:
        if drops(sample) if drops else canonical(sample.text) in seen:
            return name
    return None


def canonical(text: str) -> str:
    """What two samples must share to be the same: spacing and case aside."""
    return " ".join(text.split()).casefold()


def mixed(kept: list[Sample], general: list[dict[str, Any]], general_share: float, seed: int) -> list[dict[str, str]]:
    """Kept samples and, if there are enough, as many general rows as make up `general_share` of all; shuffled."""
    chooser = random.Random(seed)
    wanted = round(len(kept) * general_share / (1 - general_share))
    chosen = chooser.sample(general, min(wanted, len(general)))
    rows = [mix_row(f"{s.problem.id}-{s.index}", "rejection", s.problem.question, s.text.strip()) for s in kept]
    rows += [mix_row(g["id"], "general", g["question"], g["response"]) for g in chosen]
    chooser.shuffle(rows)
    return rows


def mix_row(identity: str, source: str, question: str, response: str) -> dict[str, str]:
    return {"id": identity, "source": source, "question": question, "response": response}


def record(sample: Sample, reason: str | None) -> dict[str, Any]:
    """A sample as a row of samples.parquet."""
    return {
        "problem_id": sample.problem.id,
        "task": sample.problem.task,
        "sample_index": sample.index,
        "question": sample.problem.question,
        "gold": sample.problem.answer,
        "completion": sample.text,
        "answer": sample.parts.answer,
        "length": sample.length,
        "finished": sample.finished,
        "dropped": reason,
    }


def write_samples(path: Path, samples: list[Sample], reasons: list[str | None]) -> None:
    rows = [record(sample, reason) for sample, reason in zip(samples, reasons, strict=True)]
    pq.write_table(pa.Table.from_pylist(rows, schema=SAMPLE_SCHEMA), path)


def summary(samples: list[Sample], reasons: list[str | None], mix: list[dict[str, str]]) -> dict[str, Any]:
    kept = reasons.count(None)
    general = sum(row["source"] == "general" for row in mix)
    with_one = {s.problem.id for s, reason in zip(samples, reasons, strict=True) if reason is None}
    return {
        "samples": len(samples),
        "kept": kept,
        "acceptance": kept / len(samples),
        "dropped": dict(sorted(Counter(filter(None, reasons)).items())),
        "prompts": len({sample.problem.id for sample in samples}),
        "prompts_with_a_kept_sample": len(with_one),
        "mix": len(mix),
        "general": general,
        "general_share": general / len(mix),
    }
