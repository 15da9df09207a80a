"""Examines a model on problems of yours, without the workflow: k samples of each, graded as evaluations are.

    print(evaluate("results/r1_tiny/zero_rl/model", [{"question": "What is 8 + 16 - 19?", "answer": "5"}, …]))

    results/r1_tiny/zero_rl/model: pass@1 68.8 % [65.4, 72.3] over 480 problems, 4 samples each
    in form 99.9 %, finished 100.0 %, 72 tokens; pass@4 84.6 %, majority of 4 72.3 %

It is programs/evaluate's grader over sampling/'s samplers, so a sample's row has the same columns as in a run's
samples.parquet. Random numbers depend on seed, problem and index alone, as in a stage. With a strategy of search at
test time each of the k answers is chosen from several samples (by_strategy.py). Left out: what a stage has beside that
(shards that survive a kill, <think> given, paraphrases), and everything that is written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1flow.artifacts.folders import model_folder
from r1flow.core.errors import UserError
from r1flow.core.template import family_name
from r1flow.sampling import (
    AUTO,
    TEMPERATURE,
    TOP_P,
    Completion,
    OnProgress,
    Sampler,
    SamplingParams,
    encode,
    seed_of,
    with_opened_thought,
)

if TYPE_CHECKING:
    import pandas as pd

    from r1flow.core.metrics import Interval

TASK = "problems"  # the family of problems that have none
MOST_NEW_TOKENS = 1024  # of a response, where the caller doesn't say and the model has room
REFLECTION_WORDS = ("wait", "mistake", "however", "but", "retry", "error", "verify", "wrong", "evaluate", "check")


@dataclass(frozen=True)
class Evaluation:
    """What `evaluate` found; printed, its means."""

    model: str
    k: int
    rows: list[dict[str, Any]] = field(repr=False)  # a row a sample, with the columns of samples.parquet
    # pass_at_1, pass_at_k, cons_at_k, format_rate, mean_length, finished_rate, n_problems, ….
    metrics: dict[str, Any]
    interval: "Interval"  # of pass@1, over problems
    left_out: dict[str, int]  # problems by reason: repeated, answered otherwise, ungradable
    strategy: str | None = None  # by which each answer was chosen; None: it is a single sample
    spent: float | None = None  # the mean number of tokens that the strategy took for an answer

    @property
    def samples(self) -> "pd.DataFrame":
        """The samples as a table."""
        from r1flow.api.stored import frame_of

        return frame_of(self.rows)

    def __str__(self) -> str:
        from r1flow.recipe.claims import MIN_PROBLEMS

        ungraded = sum(row["correct"] is None for row in self.rows)
        lost = f"{ungraded} of {len(self.rows)} samples weren't graded, because the grader or sandbox failed; try again"
        if ungraded == len(self.rows):
            return f"{self.model}: {lost}"
        mean, low, high = self.interval.estimate, self.interval.low, self.interval.high
        told = self.interval.n >= MIN_PROBLEMS  # of fewer an interval says nothing
        spread = f" [{100 * low:.1f}, {100 * high:.1f}]" if told else ", too few problems for an interval,"
        shares = {name: f"{100 * value:.1f} %" for name, value in self.metrics.items() if isinstance(value, float)}
        form = f"in form {shares['format_rate']}, finished {shares['finished_rate']}"
        length = f"{self.metrics['mean_length']:.0f} tokens"
        each = f"{self.k} answers each by {self.strategy}" if self.strategy else f"{self.k} samples each"
        if self.spent is not None:
            length += f" ({self.spent:.0f} spent on an answer)"
        lines = [
            f"{self.model}: pass@1 {100 * mean:.1f} %{spread} over {self.interval.n} problems, {each}",
            f"{form}, {length}; pass@{self.k} {shares['pass_at_k']}, majority of {self.k} {shares['cons_at_k']}",
        ]
        if ungraded:
            lines.append(lost)
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.left_out.items() if count)
        return "\n".join([*lines, *([f"problems left out: {reasons}"] if reasons else [])])


@dataclass(frozen=True)
class ModelSampler:
    """A sampler with usual settings, and with a line for what is given to it wrongly; `load_sampler` makes it."""

    folder: Path
    sampler: Sampler

    @property
    def tokenizer(self) -> Any:
        return self.sampler.tokenizer

    @property
    def positions(self) -> int | None:
        """The most tokens of a prompt and its completion; None: no limit is known."""
        return self.sampler.positions

    def sample(
        self,
        prompts: Sequence[str],
        params: SamplingParams | None = None,
        seeds: Sequence[int] | None = None,
        on_progress: OnProgress | None = None,
        openings: Sequence[str] | None = None,
    ) -> list[Completion]:
        """One completion for each prompt, in their order; raises UserError without a seed for each of them.

        Without `params` the temperature is 0.6 and top-p 0.95, and a response may be as long as the model has room, up
        to 1,024 tokens.
        `openings` are the texts that the responses begin with, one for each prompt; completions don't repeat them.
        """
        if isinstance(prompts, str):
            raise UserError("prompts: one text was given; give a list of them, [text]")
        for name, given in {"seeds": seeds, "openings": openings}.items():
            if given is not None and len(given) != len(prompts):
                raise UserError(f"{name}: {len(given)} were given for {len(prompts)} prompts; give one for each")
        if seeds is None:
            raise UserError("seeds: none were given; give a number for each prompt, [1, 2, …]")
        if not prompts:
            return []
        texts = list(prompts)
        params = params or SamplingParams(TEMPERATURE, TOP_P, room_for(self.folder, self.sampler, texts))
        return self.sampler.sample(texts, params, list(seeds), on_progress, openings)


def load_sampler(model: Path | str, engine: str = AUTO, batch_size: int = 64) -> ModelSampler:
    """A sampler of the model in a folder; `batch_size` rows are decoded together.

    `auto` is our own engine where it can sample the model, else vLLM on a GPU where it is installed, else
    transformers. Progress bars and warnings of transformers are switched off. Raises UserError for a folder that can't
    be loaded.

    >>> from r1flow.sampling import SamplingParams
    >>> sampler = r1flow.load_sampler("model")
    >>> prompt = sampler.tokenizer.apply_chat_template(
    ...     [{"role": "user", "content": "What is 2 + 3?"}], tokenize=False, add_generation_prompt=True
    ... )
    >>> params = SamplingParams(temperature=0.6, top_p=0.95, max_new_tokens=8)
    >>> [completion] = sampler.sample([prompt], params, seeds=[1])
    >>> len(completion.ids) <= 8
    True
    """
    folder = model_folder(Path(model))
    from safetensors import SafetensorError
    from transformers.utils import logging

    from r1flow import sampling
    from r1flow.artifacts.contract import try_apart

    try_apart(folder)
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        return ModelSampler(folder, sampling.load_sampler(folder, engine=engine, batch_size=batch_size))
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(f"{folder}: can't be loaded as a model: {reason}") from error


def evaluate(
    model: Path | str,
    problems: Path | str | Sequence[Mapping[str, Any]],
    k: int = 4,
    *,
    question: str = "question",
    answer: str = "answer",
    temperature: float = TEMPERATURE,
    top_p: float = TOP_P,
    max_new_tokens: int | None = None,
    seed: int = 1,
    engine: str = AUTO,
    batch_size: int = 64,
    strategy: str | Mapping[str, Any] | None = None,
    budget: int = 8,
    on_progress: OnProgress | None = None,
) -> Evaluation:
    """Ask a model every problem `k` times, and grade what it says.

    `problems` are rows, or a file of rows (JSON lines, a JSON list, CSV, Parquet), with the columns `question` and
    `answer`: a value, a box or GSM8K's solution. Rows of a data stage are graded by their family's scorer. Without
    `max_new_tokens` a response may be as long as the model has room, up to 1,024 tokens. Raises UserError for what
    can't be read, asked or sampled.

    With a `strategy` each of the k answers is made of several samples, within `budget` times `max_new_tokens` tokens:
    the name of a file of conf/strategy/ in this folder, or of a function without arguments, or {"name": …, "args": …}.
    The only scorer is own_logprob; others are models of a run (docs/strategies.md).

    >>> found = r1flow.evaluate("model", [{"question": "What is 2 + 3?", "answer": 5}], k=2, max_new_tokens=8)
    >>> found.interval.n, len(found.rows), found.metrics["pass_at_1"]
    (1, 2, 0.0)
    """
    from r1flow.api.by_strategy import answers_by, strategy_given
    from r1flow.core.metrics import per_problem, share_interval, summarise
    from r1flow.core.processes import ordered_map
    from r1flow.programs.evaluate.compute import grader

    if k < 1:
        raise UserError(f"k: {k} samples tell nothing; use 1 or more")
    params = SamplingParams(temperature, top_p, MOST_NEW_TOKENS if max_new_tokens is None else max_new_tokens)
    folder = model_folder(Path(model))
    asked, left_out = problems_to_ask(problems, question, answer)
    sampler = load_chat_sampler(folder, engine, batch_size)
    prompts = {problem["id"]: prompt_in_template(folder, sampler, problem["question"]) for problem in asked}
    if max_new_tokens is None:
        params = replace(params, max_new_tokens=room_for(folder, sampler, list(prompts.values())))
    questions = list(product(asked, range(k)))
    if strategy is None:
        texts = [prompts[problem["id"]] for problem, _ in questions]
        seeds = [seed_of(seed, problem["id"], index) for problem, index in questions]
        label, spent, completions = None, None, sampler.sample(texts, params, seeds, on_progress)
    else:
        label, part = strategy_given(strategy)
        completions, spent = answers_by(label, part, budget, folder, sampler, questions, params, seed, on_progress)
    grade = grader("en", ["en"], REFLECTION_WORDS)
    whole = []
    for (problem, _), completion in zip(questions, completions, strict=True):
        whole.append(with_opened_thought(prompts[problem["id"]], completion))
    with ordered_map() as each:
        rows = list(each(partial(sample_row, folder.name, grade), zip(questions, whole, strict=True)))
    interval = share_interval(per_problem(rows)["pass_at_1"].values())
    return Evaluation(str(folder), k, rows, summarise(rows), interval, left_out, label, spent)


def sample_row(model: str, grade: Any, answered: tuple[tuple[dict[str, Any], int], Completion]) -> dict[str, Any]:
    (problem, index), completion = answered
    drawn = {"model": model, "sample_index": index, "thinking": None, "paraphrased": False, "intervention": None}
    return {**drawn, **grade(problem, completion)}


def problems_to_ask(
    problems: Path | str | Sequence[Mapping[str, Any]], question: str, answer: str
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The problems as evaluations have them, and how many were left out; raises UserError if none is left."""
    from r1flow.api.grades import gold_of
    from r1flow.api.tables import check_has_columns, read_table
    from r1flow.data.loaders import row_id
    from r1flow.grading.problems import is_gradable

    from_file = isinstance(problems, Path | str)
    where = str(problems) if from_file else "problems"
    columns = {"question": question, "answer": answer}
    rows = read_table(Path(problems), columns) if from_file else list(problems)
    by_id: dict[str, dict[str, Any]] = {}
    left_out = {"repeated": 0, "answered otherwise": 0, "ungradable": 0}
    for number, row in enumerate(rows, 1):
        if not hasattr(row, "keys"):
            raise UserError(
                f"{where}: row {number} has no named columns; give a list of dictionaries (of a table of pandas"
                " to_dict('records'), of Arrow to_pylist())"
            )
        check_has_columns(f"{where}: row {number}", row, columns)
        asked = question_in(row, question, f"{where}: row {number}")
        # Columns of these names may be anything in a table, and pandas has NaN for what a row lacks.
        task, entry = row.get("task"), row.get("entry")
        task = family_name(task if task and isinstance(task, str) else TASK)
        problem = {"task": task, "entry": entry if entry and isinstance(entry, str | dict) else None, "question": asked}
        problem |= {"id": row_id(problem), "answer": gold_of(row[answer]) or ""}
        if earlier := by_id.get(problem["id"]):
            left_out["repeated" if problem["answer"] == earlier["answer"] else "answered otherwise"] += 1
        elif not is_gradable(problem):
            left_out["ungradable"] += 1
        else:
            by_id[problem["id"]] = problem
    if not rows:
        raise UserError(f"{where}: no rows in it; give a question and its answer at least")
    if not by_id:
        raise UserError(f"{where}: none of {len(rows)} answers can be graded; name the column of the right answers")
    return list(by_id.values()), left_out


def load_chat_sampler(folder: Path, engine: str, batch_size: int) -> Sampler:
    """`load_sampler` of a model that can be asked questions; raises UserError for one without a chat template."""
    sampler = load_sampler(folder, engine, batch_size)
    if not sampler.tokenizer.chat_template:
        raise UserError(f"{folder}: its tokenizer has no chat template; add chat_template.jinja to the folder")
    return sampler


def question_in(row: Mapping[str, Any], column: str, place: str) -> str:
    """What a row asks: a text, or what the user says in a conversation. Raises UserError for anything else."""
    from r1flow.data.loaders import Damaged, Unusable, question_asked

    try:
        asked = question_asked(row[column])
    except (Damaged, Unusable, TypeError, KeyError, AttributeError):
        asked = ""
    if not asked.strip():
        is_none = "is neither a text nor a conversation with one question"
        raise UserError(f"{place}: {column} {is_none}; name the column of the questions")
    check_unicode(f"{place}: {column}", asked)
    return asked


def prompt_in_template(folder: Path, sampler: Sampler, question: str, before: Sequence[dict[str, str]] = ()) -> str:
    """The turns before and the question in the model's chat template; a UserError names the model's folder."""
    from r1flow.core.template import render

    for text in (question, *(turn["content"] for turn in before)):
        check_unicode("the question", text)
    try:
        return render(sampler.tokenizer, question, before)
    except UserError as error:
        raise UserError(f"{folder}: {error}") from error


def check_unicode(place: str, text: str) -> None:
    """Raise UserError for a text that isn't Unicode: JSON's escapes and a terminal's bytes may be such."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError(f"{place}: it has half a surrogate pair, or bytes that aren't UTF-8; correct it") from None


def room_for(folder: Path, sampler: Sampler, prompts: list[str], most: int = MOST_NEW_TOKENS) -> int:
    """How many tokens each response may have after the longest prompt, up to `most`; raises UserError if none."""
    lengths = list(map(len, encode(sampler.tokenizer, prompts)))
    longest = max(lengths)
    if sampler.positions and longest >= sampler.positions:
        end = prompts[lengths.index(longest)][-80:]
        raise UserError(
            f"{folder}: it has {sampler.positions} positions, and a prompt has {longest} tokens; leave it out: it ends"
            f" with {end!r}"
        )
    return min(most, (sampler.positions or most + longest) - longest)
