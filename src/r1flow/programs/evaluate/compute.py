"""One model's examination: k samples for every test problem, graded; the paper's "Evaluation setup" at our scale.

Inputs: `model`, a model directory, and `data`, the folder with <split>.jsonl (problems with a checkable answer) and
general_<split>.jsonl (prompts with a rule). Outputs: samples.parquet, one row per sample, and the means in
metrics.json. Reasoning problems are asked again with <think> given, so that a model's skill can be told from its habit
of thinking (docs/claims.md), and in wordings that no training row has; these samples are rows of the same file, with
the temperature in `thinking`, and with `paraphrased` true. Samples with <think> given may be changed after their first
answer and continued (interventions.py), to find out what reflection is worth.

A sample's random numbers depend only on the seed, its problem and its index: models that are evaluated with the same
seed answer the same problems with the same random numbers. A problem whose scorer refuses the problem's own gold answer
is left out before sampling, and counted. Programs are graded by their tests in the sandbox. If the sandbox fails, the
sample is neither right nor wrong: no metric counts it, and `ungraded` says how many there were. With an `environment`
the model may call tools in all of its answers (sampling/turns.py), which then have calls and results; with the
intervention `no_tools` it answers the reasoning problems once more without them, with the same random numbers.

Left out: few-shot prompts and greedy decoding (the paper finds that both hurt), judges.

    {"model": "zero_rl", "task": "chain_sum", "kind": None, "problem_id": "3f0c…", "sample_index": 0, "correct": True,
     "answer": "5", "answer_lenient": "5", "completion": "<think>…</think><answer>5</answer>", "length": 41, …}
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from r1flow import sandbox
from r1flow.core.errors import UserError
from r1flow.core.language import any_of
from r1flow.core.metrics import as_asked, is_own_thought, normalise_answer, per_problem, rows_by, summarise_tasks
from r1flow.core.parquet import Table
from r1flow.core.processes import ordered_map
from r1flow.core.schema import PARAPHRASED, read_jsonl
from r1flow.core.template import GENERAL, TAGS, THINK_OPEN, Response
from r1flow.grading import code, generated, replies
from r1flow.grading.math import number_in
from r1flow.grading.problems import first_of_each, is_coding, is_gradable
from r1flow.grading.statements import graded_statements
from r1flow.grading.verdict import Cause
from r1flow.programs.evaluate.interventions import Thought, openings
from r1flow.programs.evaluate.ways import NO_TOOLS, samples_given
from r1flow.sampling import Completion, SamplingParams, seed_of, shards
from r1flow.sampling.environments import Tools
from r1flow.sampling.turns import calls_in
from r1flow.tracking.left_out import Count, tell_counts

if TYPE_CHECKING:
    from r1flow.tracking.stage import Stage

SCHEMA = pa.schema(
    {
        "model": pa.string(),
        "task": pa.string(),
        "kind": pa.string(),  # the kind of a general prompt
        "problem_id": pa.string(),
        "sample_index": pa.int32(),
        "question": pa.string(),
        "gold": pa.string(),
        "completion": pa.string(),
        # By the strict rule, as the reward grades it; the solution where code is asked for.
        "answer": pa.string(),
        # By the lenient rule: else what is in a box, else the last number.
        "answer_lenient": pa.string(),
        # The numbers that these are, as which they vote; null: they vote as they are spelt.
        "value": pa.string(),
        "value_lenient": pa.string(),
        "correct": pa.bool_(),  # null: not graded
        "correct_lenient": pa.bool_(),
        "well_formed": pa.bool_(),
        "language": pa.float64(),  # share of the target language, null without words
        "length": pa.int32(),  # tokens, the end of sequence included
        "finished": pa.bool_(),
        "reflections": pa.int32(),
        "thinks": pa.bool_(),  # begins with a thought that isn't empty
        # The first answer that the thought states; null: it states none.
        "first_correct": pa.bool_(),
        # These and the final one aren't all spelt alike; null: not looked for.
        "several_answers": pa.bool_(),
        # The temperature at which <think> was given, which `completion` then begins with.
        "thinking": pa.float64(),
        "paraphrased": pa.bool_(),  # asked in a wording that no training row has
        # How the thought was changed (interventions.py), or no_tools; null: neither.
        "intervention": pa.string(),
    }
)
GradeSample = Callable[[dict[str, Any], Completion], dict[str, Any]]
# A problem, the sample's index, and what its completion begins with.
Question = tuple[dict[str, Any], int, str]
Map = Callable[[Callable, Iterable], Iterator]  # ordered_map's
# The folder of their shards, which can't be sampled before the samples that they change.
CHANGED = "interventions"
WITHOUT = 0.5  # of a problem's samples without tools: if so many are right, a call for it is needless
TABLE_ROWS = 40  # sample completions shown in tracking: the first ones of evenly spaced problems
TEXTS = ("question", "gold", "completion")  # columns that metrics don't need


class Way(NamedTuple):
    """A way of asking; the names are columns of samples.parquet."""

    params: SamplingParams
    thinking: float | None = None
    paraphrased: bool = False
    intervention: str | None = None


def compute(stage: "Stage") -> dict[str, Any]:
    """Sample, grade, summarise; metrics are {"tasks": {task: …}, "reasoning": …, "general": …, "ungradable": count}.

    `thinking` has the tasks' metrics with <think> forced, [{"temperature": 0.6, "tasks": {task: …}}, …],
    `paraphrased` those in held-out wordings, {"tasks": {task: …}}, if they were asked, and `interventions` those of
    thoughts that were changed, {"forced_reflection": {task: …}, …}, and of answers without tools. If problems ask for
    code, also `sandbox` (its tier), and `ungraded`: samples on which it failed, by cause. With tools `tools` has their
    calls.
    """
    config = stage.config
    problems, counts = load_problems(stage.inputs["data"], config["split"], config["n_problems"])
    told = tell_counts(
        stage, counts, "evaluate", config, "look at the answers in the file, which the grader must accept"
    )
    ungradable = sum(count.left_out["ungradable"] for count in counts.values())
    verdicts, shown = examine(stage, problems)
    metrics = {**summarise_evaluation(verdicts, config["thinking"]), "ungradable": ungradable, "counts": told}
    track(stage, shown)
    if config["environment"]:
        metrics["tools"] = summarise_calls(verdicts)
    if any(is_coding(problem) for problem in problems):
        metrics["sandbox"] = sandbox.tier()
    if unknown := sum(row["correct"] is None for row in verdicts):
        metrics["ungraded"] = {Cause.INFRASTRUCTURE: unknown}
        count = Count(len(verdicts))
        count.leave_out(Cause.INFRASTRUCTURE, rows=unknown)
        remedy = "see docs/sandbox.md, and the stage's log"
        told |= tell_counts(stage, {"samples.parquet": count}, "evaluate", config, remedy)
    return metrics


def summarise_evaluation(rows: list[dict[str, Any]], temperatures: list[float]) -> dict[str, Any]:
    """The means of the samples as asked, by task and overall; with <think> given, by temperature; and paraphrased."""
    summaries = summarise_tasks([row for row in rows if as_asked(row)])
    summary = {"tasks": summaries, "thinking": []}
    for name in ("reasoning", GENERAL):
        if name in summaries:
            summary[name] = summaries[name]
    for temperature in temperatures:
        given = [row for row in rows if row["thinking"] == temperature and is_own_thought(row)]
        summary["thinking"].append({"temperature": temperature, "tasks": summarise_tasks(given)})
    if again := [row for row in rows if row["paraphrased"]]:
        summary["paraphrased"] = {"tasks": summarise_tasks(again)}
    if changed := rows_by((row for row in rows if not is_own_thought(row)), "intervention"):
        summary["interventions"] = {name: summarise_tasks(samples) for name, samples in changed.items()}
    return summary


def summarise_calls(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """By task: calls of a sample as asked, the share of calls that failed, and the share of samples that call.

    Where problems were answered without tools, too, also `needless`: of the samples that call, if there are any, the
    share of those whose problem the model solves without tools, in WITHOUT of its samples or more.
    """
    without = per_problem([row for row in rows if row["intervention"] == NO_TOOLS])["solved"]
    summary = {}
    for task, samples in rows_by(filter(as_asked, rows), "task").items():
        calls, failed = sum(row["calls"][0] for row in samples), sum(row["calls"][1] for row in samples)
        calling = [row["problem_id"] for row in samples if row["calls"][0]]
        summary[task] = {
            "calls": calls / len(samples),
            "failed_calls": failed / max(1, calls),
            "calling": len(calling) / len(samples),
        }
        known = [without[problem] >= WITHOUT for problem in calling if problem in without]
        if known:
            summary[task]["needless"] = sum(known) / len(known)
    return summary


def sample_part(stage: "Stage", part: shards.ShardPart) -> Iterator[Completion]:
    """Sample a part of the shards, which `compute` reads back later."""
    problems, _ = load_problems(stage.inputs["data"], stage.config["split"], stage.config["n_problems"])
    return answer(stage, groups(stage, problems), part)


def examine(stage: "Stage", problems: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Write samples.parquet; returns the columns of each row that metrics need, and some rows for tracking's table."""
    config = stage.config
    apart = max(1, len(problems) // TABLE_ROWS) * config["k"]
    given = Way(shards.params_of(config), config["temperature"])
    verdicts, shown, thoughts = [], [], []
    samples = Table(stage.work / "samples.parquet", SCHEMA, compression="zstd")
    with samples as table, ordered_map() as each:
        for number, (way, question, row) in enumerate(grade_all(stage, each, groups(stage, problems))):
            table.write(row)
            verdicts.append(brief(row))
            if config["environment"]:
                verdicts[-1]["calls"] = calls_in(row["completion"])
            if number % apart == 0:
                shown.append(row)
            if way == given and config["interventions"]:
                thoughts.append(Thought(*question[:2], Response.parse(row["completion"]).thought))
        again = [(changed(stage, thoughts), CHANGED), (without_tools(config, problems), NO_TOOLS)]
        for asked, name in again:
            for _, _, row in grade_all(stage, each, asked, name):
                table.write(row)
                verdicts.append(brief(row))
    return verdicts, shown


def grade_all(
    stage: "Stage", each: Map, asked: list[tuple[Way, list[Question]]], name: str = "shards"
) -> Iterator[tuple[Way, Question, dict[str, Any]]]:
    """Every question with the way of asking it and its sample's row."""
    config, model = stage.config, stage.name.removeprefix("evaluate/")
    grade = grader(config["language"], config["languages"], config["reflection_words"])
    questions = []
    for way, group in asked:
        questions += [(way, question) for question in group]
    pairs = zip(questions, answer(stage, asked, name=name), strict=True)
    for (way, question), row in zip(questions, each(partial(row_of, model, grade), pairs), strict=True):
        yield way, question, row


def row_of(
    model: str, grade: GradeSample, asked_and_answered: tuple[tuple[Way, Question], Completion]
) -> dict[str, Any]:
    (way, (problem, index, opening)), completion = asked_and_answered
    row = grade(problem, replace(completion, text=opening + completion.text))
    columns = {name: value for name, value in way._asdict().items() if name != "params"}
    return {"model": model, "sample_index": index, **row, **columns}


def brief(row: dict[str, Any]) -> dict[str, Any]:
    """A row without texts, its answers replaced by ballots: rows stay in memory, and an answer may have any length."""
    # 24,000 samples with answers of 4,000 characters took 364 MB whole, and take 196 (docs/history).
    short = {key: value for key, value in row.items() if key not in TEXTS}
    return short | {key: ballot(row[key]) for key in ("answer", "answer_lenient", "value", "value_lenient")}


def ballot(answer: str | None) -> str | None:
    """A short hash that is equal for answers that count as one in the majority vote; None for no answer."""
    if answer is None or not answer.strip():
        return None
    return "x" + blake2b(normalise_answer(answer).encode(errors="surrogatepass"), digest_size=16).hexdigest()


def load_problems(data: Path, name: str, limit: int | None) -> tuple[list[dict[str, Any]], dict[str, Count]]:
    """The split's gradable problems and general prompts, at most `limit` of each family and kind.

    The second value says, for each file, how many rows were left out. Rows keep the files' order; general prompts get
    task "general". Raises UserError when there is nothing to ask.
    """
    paths = [data / f"{name}.jsonl", data / f"general_{name}.jsonl"]
    problems, counts = [], {}
    for path in filter(Path.is_file, paths):
        rows = [row if "task" in row else {**row, "task": GENERAL} for row in read_jsonl(path)]
        count = Count(len(rows))
        gradable = count.keep(rows, is_gradable, "ungradable")
        chosen = list(first_of_each(gradable, limit))  # no family or kind is in both files
        count.leave_out("limit", rows=len(gradable) - len(chosen))
        counts[path.name] = count
        problems += chosen
    if not problems:
        raise UserError(f"{paths[0]}: no problem to evaluate; look at evaluate.split ({name}) and at the data stage")
    return problems, counts


def groups(stage: "Stage", problems: list[dict[str, Any]]) -> list[tuple[Way, list[Question]]]:
    """Every way of asking, with its problems and sample indices: as asked, with <think> given, and paraphrased."""
    config, plain = stage.config, shards.params_of(stage.config)
    ways = [(Way(plain), problems, config["k"])]
    reasoning = [problem for problem in problems if problem["task"] != GENERAL]
    for temperature in config["thinking"]:
        given = Way(replace(plain, temperature=temperature), temperature)
        ways.append((given, reasoning, samples_given(config, temperature)))
    if config["paraphrased"]:
        others = paraphrased(stage.inputs["data"], config["split"], reasoning)
        ways.append((Way(plain, paraphrased=True), others, config["paraphrased"]))
    with_questions = []
    for way, asked, samples in ways:
        opening = "" if way.thinking is None else THINK_OPEN
        with_questions.append((way, list(product(asked, range(samples), [opening]))))
    return with_questions


def changed(stage: "Stage", thoughts: list[Thought]) -> list[tuple[Way, list[Question]]]:
    """Every intervention, with the thoughts that it changes (interventions.py)."""
    config = stage.config
    by_intervention = openings(thoughts, config["interventions"], config["reflection_opening"], config["seed"])
    way = Way(shards.params_of(config), config["temperature"])
    return [(way._replace(intervention=name), questions) for name, questions in by_intervention.items()]


def without_tools(config: dict[str, Any], problems: list[dict[str, Any]]) -> list[tuple[Way, list[Question]]]:
    """The reasoning problems as asked, if they are to be answered without tools."""
    if NO_TOOLS not in config["interventions"]:
        return []
    reasoning = [problem for problem in problems if problem["task"] != GENERAL]
    way = Way(shards.params_of(config), intervention=NO_TOOLS)
    return [(way, list(product(reasoning, range(config["k"]), [""])))]


def paraphrased(data: Path, name: str, problems: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same problems in wordings that no training row has. Raises UserError if the data doesn't have them."""
    path = data / f"{PARAPHRASED.format(name)}.jsonl"
    questions = {row["id"]: row["question"] for row in read_jsonl(path)} if path.is_file() else {}
    if missing := sum(problem["id"] not in questions for problem in problems):
        what = (
            f"{path}: it lacks {missing} of the {len(problems)} problems that evaluate.paraphrased asks in other words"
        )
        raise UserError(f"{what}; run the data stage again, or set evaluate.paraphrased=0")
    return [{**problem, "question": questions[problem["id"]]} for problem in problems]


def answer(
    stage: "Stage",
    asked: list[tuple[Way, list[Question]]],
    part: shards.ShardPart = shards.WHOLE,
    name: str = "shards",
) -> Iterator[Completion]:
    """One completion for every question of every group, or for those in `part`, in order."""
    rows, environment = [], stage.config["environment"]
    tools = Tools(environment) if environment and name != NO_TOOLS else None
    for way, questions in asked:
        group = []
        for problem, index, opening in questions:
            # What an opening was drawn with can't be used again: after it, these numbers are no longer random.
            drawn = f"{problem['id']}/intervention" if name == CHANGED else problem["id"]
            question = tools.question(problem) if tools else problem["question"]
            group.append(shards.Draw(question, seed_of(stage.config["seed"], drawn, index), opening, problem))
        rows.append((way.params, group))
    return shards.sample_shards(stage, rows, part, name=name, tools=tools)


def grader(language: str, languages: Sequence[str], reflection_words: Sequence[str]) -> GradeSample:
    """A function from (problem, completion) to the sample's row, without model and index."""
    return partial(grade_sample, language, languages, any_of(reflection_words))


def grade_sample(
    language: str,
    languages: Sequence[str],
    reflects: re.Pattern[str],
    problem: dict[str, Any],
    completion: Completion,
) -> dict[str, Any]:
    """A sample's row of samples.parquet, without model and index."""
    grade = grade_code if is_coding(problem) else grade_reasoning
    verdict = grade_general if problem["task"] == GENERAL else grade
    response = Response.parse(completion.text)
    return {
        "task": problem["task"],
        "kind": problem.get("kind"),
        "problem_id": problem["id"],
        "question": problem["question"],
        "completion": completion.text,
        "language": response.consistency(problem["task"], language, languages),
        "length": len(completion.ids),
        "finished": completion.finished,
        "reflections": len(reflects.findall(response)),
        "thinks": response.thinks,
        "value": None,
        "value_lenient": None,
        "first_correct": None,
        "several_answers": None,
        **verdict(problem, response, completion.finished),
    }


def grade_reasoning(problem: dict[str, Any], response: Response, finished: bool) -> dict[str, Any]:
    """Strictly, as the training's reward does (`generated.answer_of`), and leniently."""
    strict_text = generated.answer_of(response, problem["entry"])
    lenient_text = generated.lenient_answer_of(response, problem["entry"])

    @cache
    def correct(text: str | None) -> bool:
        return bool(generated.correct(problem["task"], text, problem["answer"], problem["entry"]))

    stated = graded_statements(response.thought, problem["entry"])
    final = [lenient_text] if finished and lenient_text is not None else []
    by_value = problem["entry"] is None  # else a scorer wants exact text
    return {
        "gold": problem["answer"],
        "answer": strict_text,
        "answer_lenient": lenient_text,
        "value": number_in(strict_text) if by_value else None,
        "value_lenient": number_in(lenient_text) if by_value else None,
        "correct": correct(strict_text),
        "correct_lenient": correct(lenient_text),
        "well_formed": response.well_formed,
        "first_correct": correct(stated[0]) if stated else None,
        "several_answers": bool(stated) and len(set(map(normalise_answer, stated + final))) > 1,
    }


def grade_code(problem: dict[str, Any], response: Response, finished: bool) -> dict[str, Any]:
    """Strictly (the code that the reward code_tests would run) and leniently (else the last code block anywhere)."""
    strict = code.code_in(response)
    lenient = code.last_block(response) if strict is None else strict
    correct = code.passes_tests(strict, problem["entry"]).correct
    correct_lenient = correct if lenient == strict else code.passes_tests(lenient, problem["entry"]).correct
    graded = None not in (correct, correct_lenient)
    return {
        "gold": problem["answer"],
        "answer": strict,
        "answer_lenient": lenient,
        "correct": correct if graded else None,
        "correct_lenient": correct_lenient if graded else None,
        "well_formed": response.well_formed,
    }


def grade_general(problem: dict[str, Any], response: Response, finished: bool) -> dict[str, Any]:
    """By the prompt's rule; a finished reply without stray tags is well formed, with or without a reasoning block."""
    passed = replies.passes(problem["check"], response)
    visible = response.strip().removeprefix(f"<think>{response.reasoning}</think>")
    return {
        "gold": None,
        "answer": None,
        "answer_lenient": None,
        "correct": passed,
        "correct_lenient": passed,
        "well_formed": finished and not any(tag in visible for tag in TAGS),
    }


def track(stage: "Stage", rows: list[dict[str, Any]]) -> None:
    """Send rows to tracking as a table: MLflow's comparison groups by the first column and shows the second."""
    shown = []
    for row in rows:
        shown.append({key: row[key] for key in ("question", "completion", "correct", "answer", "gold", "task")})
    stage.log_table("samples", shown)
