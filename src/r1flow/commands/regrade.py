"""Grades a run's stored samples again, with the graders that are installed now, and lists what changed.

    r1flow regrade results/r1_tiny

    evaluate/zero_rl: 1 of 5760 samples is graded otherwise
      chain_sum 3f0c5d21aa90 sample 2, gold '5', answer '5,0': correct False → True
      chain_sum pass_at_1: 0.571 → 0.573
    rejection: all 6400 samples are graded as they were

The graders are the stages' own functions, with the config that is frozen beside the samples and the data that the stage
read. Nothing is written. A problem whose gold answer can't be graded any more would not be asked today, so its samples
are listed with None and no number counts them. Left out: rewards during training, whose completions aren't kept.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path
from reprlib import repr as brief  # an answer may be enormous; --json has all of it
from typing import Any

from r1flow.artifacts.folders import run_folder
from r1flow.artifacts.manifest import MANIFEST, PROVENANCE, read_json
from r1flow.artifacts.provenance import content, recorded
from r1flow.artifacts.records import Record, absolute_place, folder_of, read_record
from r1flow.commands.finding import add_json, tell
from r1flow.commands.places import enter_project
from r1flow.core.errors import UserError
from r1flow.core.files import read_yaml
from r1flow.core.parquet import read_rows
from r1flow.programs import filters
from r1flow.programs.evaluate import compute as evaluate
from r1flow.programs.rejection import compute as rejection
from r1flow.programs.samplings import sampled_stages
from r1flow.sampling import Completion

SampleRow = dict[str, Any]
Number = tuple[str | None, str]  # task, name
# Rows and numbers, then and now.
Graded = tuple[list[SampleRow], list[SampleRow | None], dict[Number, Any], dict[Number, Any]]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Grade the samples of every evaluation and of the rejection sampling again. Exit code 0: every "
        "verdict is the same. Exit code 1: the verdicts that changed are listed, with the numbers they change. Writes "
        "nothing."
    )
    parser.add_argument("run", type=Path, metavar="RUN_DIR", help="for example results/r1_tiny")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    enter_project()
    return regrade(run_folder(arguments.run), arguments.json)


def regrade(run: Path, as_json: bool = False) -> int:
    """Print every verdict that changed and what it does to the numbers; 0 when none did, else 1.

    Raises UserError for a run without samples, and for files that aren't what their stage wrote or read.
    """
    verdicts: list[SampleRow] = []
    numbers: list[SampleRow] = []
    words: list[str] = []
    for record in graded_stages(run):
        before, after, then, now = GRADERS[record.provenance["program"]](record)
        verdicts += changed_verdicts(record, before, after)
        numbers += changed_numbers(record, then, now)
        words += told(record.stage, len(before), verdicts, numbers)
    tell({"run": str(run), "verdicts": verdicts, "numbers": numbers}, "\n".join(words), as_json)
    return int(bool(verdicts or numbers))


def graded_stages(run: Path) -> list[Record]:
    """The run's stages with graded samples, each as it was written."""
    # The evaluations first: theirs are the numbers of the report.
    stages = reversed(sampled_stages())
    folders: list[Path] = []
    for stage in stages:
        folders += [run / stage, *sorted((run / stage).glob("*/"))]
    whole = [absolute_place(folder) for folder in folders if (folder / MANIFEST).is_file()]
    if not whole:
        raise UserError(f"{run}: no graded samples in it; name a run's folder, for example results/r1_tiny")
    return [whole_record(folder) for folder in whole]


def whole_record(folder: Path) -> Record:
    _, fault = recorded(folder)
    if fault:
        raise UserError(f"{fault}; run the stage again, or restore it")
    return read_record(folder)


def data_of(record: Record) -> Path:
    """The folder with the problems; raises UserError unless its content is what the stage read."""
    entry = record.provenance["inputs"].get("data")
    if entry is None:
        raise UserError(f"{record.folder / PROVENANCE} names no data that was read; run the stage again, or restore it")
    if "stage" not in entry:  # from outside
        folder = record.project / entry["path"]
        now = None
        if folder.is_dir():
            with chdir(record.project):  # the cache of hashes is there
                now = content(Path(entry["path"]))
    else:
        folder = folder_of(record.run, entry["stage"])
        now = whole_record(folder).sha256 if folder.is_dir() else None
    if now != entry["sha256"]:
        raise UserError(f"{folder} isn't the data that {record.stage} read; run the stage again, or restore its data")
    return folder


# -- grading again -----------------------------------------------------------------------------------------------


def evaluation(record: Record) -> Graded:
    """An evaluation's samples and the means of its tasks, as stored and as graded now."""
    config, rows = read_yaml(record.folder / "config.yaml"), read_stored_samples(record)
    gradable, counts = evaluate.load_problems(data_of(record), config["split"], None)
    ungradable = sum(count.left_out["ungradable"] for count in counts.values())
    problems = {(problem["task"], problem["id"]): problem for problem in gradable}
    grade = evaluate.grader(config["language"], config["languages"], config["reflection_words"])
    after = [regraded_row(row, problems.get((row["task"], row["problem_id"])), grade) for row in rows]
    then = read_json(record.folder / "metrics.json").get("ungradable", ungradable)
    now, temperatures = [row for row in after if row is not None], config["thinking"]
    return rows, after, means(rows, temperatures, then), means(now, temperatures, ungradable)


def regraded_row(
    row: SampleRow, problem: SampleRow | None, grade: Callable[[SampleRow, Completion], SampleRow]
) -> SampleRow | None:
    """The row as it would be written now; None when its problem can't be graded."""
    if problem is None:
        return None
    asked = {**problem, "question": row["question"]}  # it may have been another wording
    verdict = grade(asked, Completion([0] * row["length"], row["completion"], row["finished"]))
    return {name: verdict.get(name, value) for name, value in row.items()}


def means(rows: list[SampleRow], temperatures: list[float], ungradable: int) -> dict[Number, Any]:
    summary = evaluate.summarise_evaluation(rows, temperatures)
    lines = dict(summary["tasks"])
    for each in summary["thinking"]:
        lines |= {f"{task} (thinking given, {each['temperature']})": line for task, line in each["tasks"].items()}
    lines |= {f"{task} (paraphrased)": line for task, line in summary.get("paraphrased", {}).get("tasks", {}).items()}
    for name, tasks in summary.get("interventions", {}).items():
        lines |= {f"{task} ({name})": line for task, line in tasks.items()}
    numbers: dict[Number, Any] = {(None, "ungradable"): ungradable}
    for task, line in lines.items():
        numbers |= {(task, name): mean for name, mean in line.items()}
    return numbers


def rejected(record: Record) -> Graded:
    """The rejection sampling's samples with why each was dropped, and its counts, as stored and as graded now."""
    config, rows = read_yaml(record.folder / "config.yaml"), read_stored_samples(record)
    known = rejection.prompts_to_sample(data_of(record) / config["file"], config["prompts"])
    problems = {problem.id: problem for problem in known}
    samples = [
        rejection.Sample(
            problems[row["problem_id"]], row["sample_index"], row["completion"], row["length"], row["finished"]
        )
        for row in rows
    ]
    filters.check_filters(config["filters"])  # other filters may be installed now
    judged = rejection.judged(samples, rejection.build_filters(config["filters"]), config["keep_per_prompt"])
    after = [{**row, "dropped": reason} for row, (_, reason) in zip(rows, judged, strict=True)]
    return rows, after, counts(rows), counts(after)


def counts(rows: list[SampleRow]) -> dict[Number, Any]:
    kept = [row for row in rows if row["dropped"] is None]
    dropped = Counter(row["dropped"] for row in rows if row["dropped"] is not None)
    numbers = {
        "kept": len(kept),
        "acceptance": len(kept) / len(rows),
        "prompts_with_a_kept_sample": len({row["problem_id"] for row in kept}),
        **{f"dropped.{reason}": count for reason, count in sorted(dropped.items())},
    }
    return {(None, name): number for name, number in numbers.items()}


def read_stored_samples(record: Record) -> list[SampleRow]:
    [rows] = read_rows([record.folder / "samples.parquet"])
    return rows


GRADERS: dict[str, Callable[[Record], Graded]] = {
    "evaluate": evaluation,
    "rejection": rejected,
}


NAME = ("task", "problem_id", "sample_index", "thinking", "paraphrased", "intervention")  # what names a sample


def sample_name(row: SampleRow) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in NAME)


SAMPLE = (*NAME, "gold", "answer")


# -- what changed ------------------------------------------------------------------------------------------------


def changed_verdicts(record: Record, before: list[SampleRow], after: list[SampleRow | None]) -> Iterator[SampleRow]:
    """One entry for each verdict of a sample that isn't what it was: {"verdict": "correct", "before": False, …}."""
    model = record.stage.partition("/")[2] or record.provenance["inputs"].get("model", {}).get("stage")
    for row, now in zip(before, after, strict=True):
        sample = {name: row[name] for name in SAMPLE if name in row}
        changed = ["correct"] if now is None else [name for name in row if now[name] != row[name]]
        for name in changed:
            verdict = {"verdict": name, "before": row[name], "after": now and now[name]}
            yield {"stage": record.stage, "model": model, **sample, **verdict}


def changed_numbers(record: Record, then: dict[Number, Any], now: dict[Number, Any]) -> Iterator[SampleRow]:
    for task, name in dict.fromkeys([*then, *now]):
        before, after = then.get((task, name)), now.get((task, name))
        if before != after:
            yield {"stage": record.stage, "task": task, "number": name, "before": before, "after": after}


def told(stage: str, rows: int, verdicts: list[SampleRow], numbers: list[SampleRow]) -> Iterator[str]:
    """A stage's changes in words."""
    here = [change for change in verdicts if change["stage"] == stage]
    samples = {sample_name(change) for change in here}
    if here:
        yield f"{stage}: {len(samples)} of {rows} samples {'is' if len(samples) == 1 else 'are'} graded otherwise"
    else:
        yield f"{stage}: all {rows} samples are graded as they were"
    for change in here:
        given = f" (thinking given, {change['thinking']})" if change.get("thinking") is not None else ""
        given += " (paraphrased)" if change.get("paraphrased") else ""
        given += f" ({change['intervention']})" if change.get("intervention") else ""
        which = f"{change['task']} {change['problem_id']} sample {change['sample_index']}{given}"
        answered = f"gold {brief(change['gold'])}, answer {brief(change['answer'])}"
        moved = f"{cell_text(change['before'])} → {cell_text(change['after'])}"
        yield f"  {which}, {answered}: {change['verdict']} {moved}"
    for change in numbers:
        if change["stage"] == stage:
            name = " ".join(filter(None, [change["task"], change["number"]]))
            yield f"  {name}: {cell_text(change['before'])} → {cell_text(change['after'])}"


def cell_text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return brief(value) if isinstance(value, str) else str(value)
