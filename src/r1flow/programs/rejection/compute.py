"""Rejection sampling: a model's good samples become training data for the next models.

Two stages use it: `rejection` samples from the reasoning RL checkpoint, and `cold_start_data` from R1-Zero or from a
stronger model. For each prompt it draws several samples and drops those that a filter rejects.

Inputs: `model`, the checkpoint, and `data`, a folder with rejection.jsonl (prompts) and general_sft.jsonl. Outputs:
samples.parquet, every sample with the reason why it was dropped (null: kept), and mix.jsonl, the kept samples (at most
`samples_in_mix` of them) mixed with general data in a declared share and shuffled:

    {"id": "4be0c1d2a3f4-2", "source": "rejection", "question": "8 + 16 - 19 = ?", "response": "<think>…</answer>"}

DeepSeek-R1, section 2.3.3: several samples per prompt; only correct ones; no chains of thought that mix languages, no
long paragraphs, no code blocks. Section 2.3.1, for a cold start: a model that is shown examples of long reasoning, or
asked for it (`preamble`), and R1-Zero's outputs in a readable form (the same filters; the text `closing` replaces the
annotators who write a missing summary). Left out: the judge model for answers that rules can't grade, and chains of
thought generated for general prompts.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby, product
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as columns
import pyarrow.parquet as parquet

from r1flow.core.errors import UserError
from r1flow.core.flops import forward_flops
from r1flow.core.language import consistency
from r1flow.core.parquet import Table
from r1flow.core.processes import ordered_map
from r1flow.core.schema import BEFORE, MIX, Problem, read_jsonl, write_jsonl
from r1flow.core.template import ANSWER_OPEN, GENERAL, Response
from r1flow.data.mixing import general_rows, mix_in
from r1flow.grading import code, generated, replies
from r1flow.grading.problems import is_coding, is_gradable
from r1flow.grading.verdict import Cause
from r1flow.model.weights import parameters_in
from r1flow.sampling import Completion, seed_of, shards
from r1flow.tracking.left_out import Count, count_limited, tell_counts
from r1flow.tracking.stage import Stage

TABLE_ROWS = 100  # samples shown in tracking
DUPLICATE, SURPLUS = "duplicate", "surplus"  # these two reasons depend on a prompt's other samples
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

    @cached_property
    def response(self) -> Response:
        return Response.parse(self.text)


@dataclass(frozen=True)
class Kept:
    """A kept sample, whose text is in a temporary file: `size` bytes from `start` on."""

    problem: Problem
    index: int
    start: int
    size: int


DropRule = Callable[[Sample], bool | Cause]  # True: drop; a cause: drop, with the cause as the reason


def compute(stage: Stage) -> dict[str, Any]:
    """Sample, filter and mix; metrics: counts by reason, acceptance, the general rows' share of the mix, FLOPs."""
    config = stage.config
    path = stage.inputs["data"] / config["file"]
    problems, count = gradable_prompts(path, config)
    remedy = "look at the answers in the file, which the grader must accept"
    told = tell_counts(stage, {path.name: count}, stage.name, config, remedy)
    chain = build_filters(config["filters"])
    with TemporaryFile(dir=stage.work) as texts, ordered_map() as each:
        samples = judged(draw(stage, problems), chain, config["keep_per_prompt"], each)
        reasons, kept, shown = sift(stage, samples, texts, config["closing"])
        if not kept:
            dropped = f"none of the {reasons.total()} samples was kept ({dict(reasons)})"
            raise UserError(f"{stage.name}.filters: {dropped}; relax the filters, or take a better model")
        share = config["general_share"]
        general = general_rows(stage.inputs) if share else []
        mix = mixed(kept, general, share, stage.seed, config["samples_in_mix"])
        write_jsonl(stage.work / MIX, (mix_row(entry, texts) for entry in mix))
    stage.log_table("rejection", shown)
    remedy = "see docs/sandbox.md, and the stage's log"
    told |= tell_counts(stage, {"samples.parquet": count_samples(reasons)}, stage.name, config, remedy)
    return summary(reasons, kept, mix, problems) | {"counts": told} | sampling_spent(stage)


def sample_part(stage: Stage, part: shards.ShardPart) -> Iterator[Completion]:
    """Sample a part of the shards, which `compute` reads back later."""
    problems, _ = gradable_prompts(stage.inputs["data"] / stage.config["file"], stage.config)
    return sample_problems(stage, problems, part)


def gradable_prompts(path: Path, config: dict[str, Any]) -> tuple[list[Problem], Count]:
    """The prompts to sample from; without those of which the filter `wrong` would drop every sample as ungradable."""
    problems = prompts_to_sample(path, config["prompts"])
    count = count_limited(path, config["prompts"])
    if not any(each["name"] == "wrong" for each in config["filters"]):
        return problems, count
    gradable = count.keep(map(vars, problems), is_gradable, "ungradable")
    return [Problem(**row) for row in gradable], count


def prompts_to_sample(path: Path, limit: int | None) -> list[Problem]:
    """The prompts to sample from, the first `limit` of the file.

    Raises UserError when there are none, and when they ask for code but no sandbox works here.
    """
    rows = read_jsonl(path)[:limit]
    if any(row.get(BEFORE, "[]") != "[]" for row in rows):
        raise UserError(
            f"{path}: it has conversations (`before`), which SFT alone can read; name another file (prompts)"
        )
    problems = [problem_of(row) for row in rows]
    if not problems:
        raise UserError(f"{path}: no prompts to sample from; look at the data stage")
    tests = [problem.entry for problem in problems if is_coding(vars(problem))]
    any(map(code.can_be_run, tests))  # raises without a sandbox
    return problems


def problem_of(row: dict[str, Any]) -> Problem:
    """A row as a problem; a general prompt's entry is the rule for its replies."""
    return Problem(row["id"], GENERAL, row["question"], "", row["check"]) if "check" in row else Problem(**row)


def draw(stage: Stage, problems: list[Problem]) -> Iterator[Sample]:
    """`samples_per_prompt` samples of every problem; those of one problem follow each other."""
    asked = questions(stage, problems)
    for (problem, index), completion in zip(asked, sample_problems(stage, problems), strict=True):
        yield Sample(problem, index, completion.text, len(completion.ids), completion.finished)


def questions(stage: Stage, problems: list[Problem]) -> list[tuple[Problem, int]]:
    """Every problem with every sample index."""
    return list(product(problems, range(stage.config["samples_per_prompt"])))


def sample_problems(
    stage: Stage, problems: list[Problem], part: shards.ShardPart = shards.WHOLE
) -> Iterator[Completion]:
    """One completion for every question, or for those in `part`, in order."""
    rows = []
    for problem, index in questions(stage, problems):
        rows.append(shards.Draw(problem.question, seed_of(stage.seed, problem.id, index)))
    group = shards.params_of(stage.config), rows
    return shards.sample_shards(stage, [group], part, stage.config["preamble"])


def sift(
    stage: Stage, samples: Iterator[tuple[Sample, str | None]], texts: BinaryIO, closing: str | None = None
) -> tuple[Counter[str | None], list[Kept], list[dict[str, Any]]]:
    """Write samples.parquet, and kept texts to `texts`; returns counts by reason, the kept samples, and some rows."""
    reasons: Counter[str | None] = Counter()
    kept, shown = [], []
    with Table(stage.work / "samples.parquet", SAMPLE_SCHEMA) as table:
        for sample, reason in samples:
            row = record(sample, reason)
            table.write(row)
            reasons[reason] += 1
            if reason is None:
                text = readable(sample, closing).encode()
                kept.append(Kept(sample.problem, sample.index, texts.tell(), len(text)))
                texts.write(text)
            if len(shown) < TABLE_ROWS:
                shown.append(row)
    return reasons, kept, shown


def readable(sample: Sample, closing: str | None) -> str:
    """The text as the next model will learn it: where a summary is missing, `closing` is put before the answer."""
    text = sample.text.strip()
    if not closing or not sample.response.well_formed or not no_summary(sample):
        return text
    before, tag, answer = text.rpartition(ANSWER_OPEN)
    return f"{before}{closing}{tag}{answer}"


# Filters: True drops a sample. A config names them in order; the first one that drops a sample is the reason.


def unfinished(sample: Sample) -> bool:
    """Cut off by the limit on new tokens."""
    return not sample.finished


def empty(sample: Sample) -> bool:
    return not sample.text.strip()


def malformed(sample: Sample) -> bool:
    """Not one reasoning block followed by text with one answer at its end."""
    return not sample.response.well_formed


def no_summary(sample: Sample) -> bool:
    """There is no text for a reader between the reasoning and the answer."""
    return sample.response.summary == (sample.response.answer or "")


def wrong(sample: Sample) -> bool | Cause:
    """Not the right answer, or not gradable; of a solution that can't be run or has no tests, the cause of that.

    A reply to a general prompt that fails the prompt's rule.
    """
    problem = sample.problem
    if problem.task == GENERAL:
        return not replies.passes(problem.entry, sample.response)
    if is_coding(vars(problem)):
        correct, cause = code.passes_tests(answer_text(sample), problem.entry)
        return cause or not correct
    return generated.correct(problem.task, answer_text(sample), problem.answer, problem.entry) is not True


def mixed_language(sample: Sample, language: str, languages: list[str], share: float) -> bool:
    """Less than `share` of the words, in reasoning and summary, are in `language`; a text without words passes."""
    response = sample.response
    measured = consistency(f"{response.reasoning or ''}\n{response.summary}", language, languages)
    return measured is not None and measured < share


def long_paragraph(sample: Sample, max_words: int) -> bool:
    return any(len(paragraph.split()) > max_words for paragraph in sample.text.split("\n"))


def code_block(sample: Sample) -> bool:
    """The text has a code block; where code is asked for, only the reasoning is looked at."""
    text = sample.response.reasoning or "" if is_coding(vars(sample.problem)) else sample.text
    return bool(re.search(r"```|~~~|<code>", text))


FILTERS = {
    f.__name__: f for f in (unfinished, empty, malformed, no_summary, wrong, mixed_language, long_paragraph, code_block)
}


def build_filters(specs: list[dict[str, Any]]) -> list[tuple[str, DropRule | None]]:
    """A config's filters in order (filters.py has checked them); None for `duplicate`, which compares samples."""
    return [(spec["name"], build_filter(spec["name"], spec.get("args") or {})) for spec in specs]


def build_filter(name: str, args: dict[str, Any]) -> DropRule | None:
    return None if name == DUPLICATE else partial(FILTERS[name], **args)


def judged(
    samples: Iterable[Sample],
    chain: list[tuple[str, DropRule | None]],
    keep_per_prompt: int,
    each: Callable[..., Iterator[Any]] = map,
) -> Iterator[tuple[Sample, str | None]]:
    """Every sample with the name of the first filter that drops it, `surplus` beyond the limit, or None if it is kept.

    The samples of one problem must follow each other; `each` maps a function over the problems in order.
    """
    by_problem = groupby(samples, key=lambda sample: sample.problem.id)
    groups = (list(group) for _, group in by_problem)
    judge = partial(judge_group, chain, keep_per_prompt)
    for group in each(judge, groups):
        yield from group


def judge_group(
    chain: list[tuple[str, DropRule | None]], keep_per_prompt: int, group: list[Sample]
) -> list[tuple[Sample, str | None]]:
    """`judged` for the samples of one problem; of duplicates, and beyond the limit, the earlier samples are kept."""
    with_reasons: list[tuple[Sample, str | None]] = []
    seen: set[str] = set()
    kept = 0
    for sample in group:
        reason = first_reason(sample, chain, seen)
        if reason is None and kept == keep_per_prompt:
            reason = SURPLUS
        kept += reason is None
        seen.add(canonical(sample.text))
        with_reasons.append((sample, reason))
    return with_reasons


def first_reason(sample: Sample, chain: list[tuple[str, DropRule | None]], seen: set[str]) -> str | None:
    for name, drops in chain:
        dropped = drops(sample) if drops else canonical(sample.text) in seen
        if dropped:
            return dropped.value if isinstance(dropped, Cause) else name
    return None


def answer_text(sample: Sample) -> str | None:
    """The part of a sample that is graded: the same part as for the training's reward."""
    problem = sample.problem
    if is_coding(vars(problem)):
        return code.code_in(sample.text)
    return generated.answer_of(sample.response, problem.entry)


def canonical(text: str) -> str:
    """The text without differences of spacing and case; samples with equal results are duplicates."""
    return " ".join(text.split()).casefold()


def mixed(
    kept: list[Kept], general: list[dict[str, Any]], general_share: float, seed: int, at_most: int | None = None
) -> list[Kept | dict[str, Any]]:
    """Kept samples, a random choice of `at_most`, and the share of general rows among them, shuffled."""
    chooser = random.Random(seed)
    if at_most is not None and len(kept) > at_most:
        kept = chooser.sample(kept, at_most)
    return mix_in(general, kept, general_share, chooser)


def mix_row(entry: Kept | dict[str, Any], texts: BinaryIO) -> dict[str, str]:
    """A row of mix.jsonl."""
    if not isinstance(entry, Kept):
        kept = ("question", BEFORE, "response")
        return {"id": entry["id"], "source": "general"} | {name: entry[name] for name in kept if name in entry}
    texts.seek(entry.start)
    return {
        "id": f"{entry.problem.id}-{entry.index}",
        "source": "rejection",
        "question": entry.problem.question,
        "response": texts.read(entry.size).decode(),
    }


def record(sample: Sample, reason: str | None) -> dict[str, Any]:
    """A sample as a row of samples.parquet."""
    return {
        "problem_id": sample.problem.id,
        "task": sample.problem.task,
        "sample_index": sample.index,
        "question": sample.problem.question,
        "gold": sample.problem.answer,
        "completion": sample.text,
        "answer": answer_text(sample),
        "length": sample.length,
        "finished": sample.finished,
        "dropped": reason,
    }


def summary(
    reasons: Counter[str | None], kept: list[Kept], mix: list[Kept | dict[str, Any]], problems: list[Problem]
) -> dict[str, Any]:
    general = sum(not isinstance(entry, Kept) for entry in mix)
    return {
        "samples": reasons.total(),
        "kept": len(kept),
        "acceptance": len(kept) / reasons.total(),
        "dropped": dict(sorted((reason, count) for reason, count in reasons.items() if reason is not None)),
        "prompts": len({problem.id for problem in problems}),
        "prompts_with_a_kept_sample": len({sample.problem.id for sample in kept}),
        "mix": len(mix),
        "general": general,
        "general_share": general / len(mix),
    }


def count_samples(reasons: Counter[str | None]) -> Count:
    """What became of the samples: a failure of the sandbox loses one, everything else is what the filters are for."""
    count = Count(reasons.total())
    for reason, samples in reasons.items():
        if reason is not None:
            count.leave_out(reason if reason == Cause.INFRASTRUCTURE else "filter", rows=samples)
    return count


def sampling_spent(stage: Stage) -> dict[str, Any]:
    """Sampled tokens, and FLOPs; None if a server's own model was asked."""
    lengths = parquet.read_table(stage.work / "samples.parquet", columns=["length"])["length"]
    tokens, parameters = columns.sum(lengths).as_py(), parameters_in(stage.inputs["model"])
    is_known = parameters > 0 and not stage.config["engine_options"].get("model")
    return {"sampled_tokens": tokens, "flops": float(forward_flops(parameters, tokens)) if is_known else None}
