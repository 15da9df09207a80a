"""Looks at a file of your own problems before anything is trained on it: columns, answers, lengths, splits, leaks.

r1flow data check words.csv
"""

import argparse
import json
import shlex
import statistics
from glob import escape
from itertools import chain
from pathlib import Path
from typing import Any

from r1flow.artifacts.folders import model_folder
from r1flow.commands.finding import add_json, tell
from r1flow.core.errors import UserError, listed
from r1flow.core.row_files import column_of
from r1flow.data import leaks, pools
from r1flow.data.decontaminate import Kind
from r1flow.data.sources import here, names_here
from r1flow.engine.config import override_of
from r1flow.engine.own_data import DAMAGED_SHARE, SHARES, columns_of, own_source
from r1flow.grading.problems import is_gradable
from r1flow.model.weights import read_object
from r1flow.tracking.left_out import Count

# How columns with the question and the right answer are called, the most certain names first.
QUESTION = ("question", "problem", "prompt", "query", "input", "instruction", "messages", "conversations")
ANSWER = ("answer", "final_answer", "solution", "target", "gold", "label", "output", "response")
SAID = {"question": "question", "gold": "answer"}  # the options, as docs/your-data.md has them
SHOWN = 3  # rows
# What an experiment on the file says (docs/your-data.md).
EXPERIMENT = "# @package _global_\ndefaults: [r1_smol, _self_]\ndata: {data}\n"
WIDTH = 70  # characters of a question that is shown

DESCRIPTION = """\
Look at a file of problems (.jsonl, .json, .csv or .parquet) as RL and evaluation would use it: which columns have the
question and the right answer, which answers can be graded, how long the questions are, how the problems are split, and
which of them give a test problem away. Nothing is changed. Ends with the words that train on the file.
For example: r1flow data check words.csv --question problem --gold solution --model results/r1_tiny/base/model
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("what", choices=["check"])
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--question", metavar="COLUMN", help="the column with the question (default: by its name)")
    parser.add_argument(
        "--gold", "--answer", metavar="COLUMN", help="the column with the right answer (default: by its name)"
    )
    parser.add_argument("--model", type=Path, metavar="DIR", help="show prompts and count tokens as this model does")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    file, model = arguments.file, arguments.model and model_folder(arguments.model)
    if file.is_dir():
        raise UserError(f"{file}: a folder; name one of its files, such as that with the word train in its name")
    if not file.is_file():
        raise UserError(f"{file}: there is no such file; name one with your problems")
    names_here(file, [escape(file.name)])  # it refuses what is of another kind
    [names] = columns_of([file])
    columns = {
        "question": column_for("question", arguments.question, QUESTION, names, file),
        "answer": column_for("gold", arguments.gold, ANSWER, names, file),
    }
    rows, count = split_rows(file, columns)
    problems = list(chain.from_iterable(rows.values()))
    ungradable = [row for row in problems if not is_gradable(row)]
    told: dict[str, Any] = {"file": str(file), "columns": names, **columns, **count.as_dict()}
    told["first_left_out"] = count.first
    told["ungradable"] = [row["answer"] for row in ungradable]
    told["splits"] = {split: len(of_split) for split, of_split in rows.items()}
    told["stops"] = reasons_to_stop(count, told["splits"])
    told |= resemblance(rows)
    prompts = prompts_of(problems, model)
    told["lengths"] = length_range([length for _, length in prompts], model)
    told["examples"] = []
    for row, (prompt, length) in zip(problems[:SHOWN], prompts, strict=False):
        tokens = length if model else None
        told["examples"].append(
            {"question": row["question"], "answer": row["answer"], "prompt": prompt, "tokens": tokens}
        )
    values = {"train": str(file)} | {ours: name for ours, name in columns.items() if ours != name}
    told["overrides"] = shlex.join(override_of(f"data.{key}", value) for key, value in values.items())
    told["experiment"] = EXPERIMENT.format(data=json.dumps(values, ensure_ascii=False))
    tell(told, told_in_words(told, names), arguments.json)
    return 1 if count.lost or ungradable or told["leaks"] or told["stops"] else 0


def column_for(option: str, given: str | None, usual: tuple[str, ...], names: list[str], file: Path) -> str:
    """The column that the user named, or the first usual name that the file has; raises UserError without one."""
    if given and column_of(given, names) not in names:
        raise UserError(f"--{SAID[option]} {given}: {file} has no such column; it has {listed(names, 20)}")
    called = {name.strip().casefold(): name for name in reversed(names)}
    if name := given or next((called[name] for name in usual if name in called), None):
        return name
    what, chats = {"gold": "right answer"}.get(option, option), ""
    if option == "gold" and {"messages", "conversations"} & set(names):
        chats = "; chats without one are worked examples for a cold start (docs/your-data.md)"
    raise UserError(
        f"{file}: no column ({listed(names, 20)}) is named like the {what}; name it: --{SAID[option]}{chats}"
    )


def split_rows(file: Path, columns: dict[str, str]) -> tuple[dict[str, list[dict[str, Any]]], Count]:
    """The problems by split, as a run of RL would share them out, and how many rows were left out and why."""
    shares = {**SHARES, "rl": SHARES["rl"] + SHARES["rejection"]}
    del shares["rejection"]
    rows: dict[str, list[dict[str, Any]]] = {split: [] for split in shares}
    source = own_source("train", str(file), None, columns)
    count = pools.share_split(here(file, source["files"]["train"]), source, "train", shares, {}, rows)
    if not count.kept:
        raise UserError(f"{file}: no row can be used: {'; '.join(count.first.values()) or 'it has none'}")
    return rows, count


def reasons_to_stop(count: Count, splits: dict[str, int]) -> list[str]:
    """Why a run on the file would stop; `splits`: how many problems each has."""
    reasons = []
    try:
        pools.check_count("data.train", "train", count, DAMAGED_SHARE)
    except UserError as error:
        reasons.append(str(error))
    if empty := [split for split, rows in splits.items() if not rows]:
        reasons.append(f"no problem is left for {' and '.join(empty)}; give more problems")
    return reasons


def resemblance(rows: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """How many problems for RL give a problem of an evaluation set away, and how many only share its template."""
    asked = {}
    for name, of_split in rows.items():
        asked[f"{name}.jsonl"] = [(row["id"], row["question"]) for row in of_split]
    training = {"rl.jsonl": asked.pop("rl.jsonl")}
    matches = leaks.matches_by_file(training, asked, templates=True)["rl.jsonl"]
    leaking = leaks.leaking_rows(matches, ())
    first = next((match for match in matches if match.id in leaking and match.is_leak(())), None)
    alike = {match.id for match in matches if match.kind in (Kind.MASKED, Kind.TEMPLATE)} - set(leaking)
    example = [first.question, first.other_question] if first else []
    return {"leaks": len(leaking), "first_leak": example, "alike": len(alike)}


def prompts_of(problems: list[dict[str, Any]], model: Path | None) -> list[tuple[str | None, int]]:
    """Each question as a prompt, as the model is given it, with its tokens; without a model None, and its words."""
    if model is None:
        return [(None, len(row["question"].split())) for row in problems]
    from transformers import AutoTokenizer

    from r1flow.artifacts.contract import try_apart
    from r1flow.core.template import prompt_ids, render
    from r1flow.model.pretrained import read_pretrained

    try_apart(model)
    tokenizer = read_pretrained(AutoTokenizer, model)
    prompts = [render(tokenizer, row["question"]) for row in problems]
    return [(prompt, len(ids)) for prompt, ids in zip(prompts, prompt_ids(tokenizer, prompts), strict=True)]


def length_range(counts: list[int], model: Path | None) -> dict[str, Any]:
    """The least, median and greatest length of the questions: tokens of whole prompts, or words without a model.

    `positions` is how many tokens of a prompt and its response the model has room for; null where that isn't known.
    """
    unit, positions = ("tokens of the prompt", positions_in_config(model)) if model else ("words", None)
    size = {"least": min(counts), "median": statistics.median(counts), "most": max(counts)}
    return {"unit": unit, **size, "positions": positions}


def positions_in_config(model: Path) -> int | None:
    positions = read_object(model / "config.json").get("max_position_embeddings")
    return positions if isinstance(positions, int) else None


def told_in_words(told: dict[str, Any], names: list[str]) -> str:
    """The same for people."""
    lines = [
        f"{told['file']}: {told['read']} rows; columns: {listed(names, 20)}",
        f"question: {told['question']}; right answer: {told['answer']}",
    ]
    if others := [name for name in names if name not in (told["question"], told["answer"])]:
        lines[-1] += f"; a model sees nothing of {listed(others, 20)}"
    for row in told["examples"]:
        question = " ".join(row["question"].split())
        shown = question if len(question) <= WIDTH else f"{question[: WIDTH - 1]}…"
        lines.append(f"  {shown:<{WIDTH}}  {' '.join(row['answer'].split())[:WIDTH]}")
        if row["prompt"] is not None:
            lines.append(f"    as a prompt of {row['tokens']} tokens: {row['prompt']!r}")
    for reason, rows in told["left_out"].items():
        lines.append(f"left out: {rows} rows, {reason}; first: {told['first_left_out'][reason]}")
    if wrong := told["ungradable"]:
        lines.append(f"answers that can't be graded: {len(wrong)} of {told['kept']}, such as {wrong[0][:WIDTH]!r}")
    else:
        lines.append(f"answers: all of {told['kept']} can be graded")
    lines.append(f"splits: {', '.join(f'{name} {rows}' for name, rows in told['splits'].items())}")
    lines += [f"a run stops: {reason}" for reason in told["stops"]]
    lines.append(
        f"leaks: {told['leaks']} problems for RL give one of dev, test or final away; {told['alike']} only share a"
        " template with one, in other numbers or words"
    )
    if told["first_leak"]:
        lines.append("  such as {!r} and {!r}".format(*told["first_leak"]))
    size = told["lengths"]
    lines.append(f"lengths: {size['least']} to {size['most']} {size['unit']}, median {size['median']:g}")
    if size["positions"]:
        room = size["positions"] - size["most"]
        lines[-1] += f"; the model has {size['positions']} positions, so the longest leaves {room} to its response"
    lines.append("as an experiment of yours, conf/experiment/NAME.yaml:")
    lines += [f"  {line}" for line in told["experiment"].splitlines()]
    lines.append(f"to train on it: r1flow run r1_smol {told['overrides']} run=NAME")
    lines.append("problems for the test in a file of their own: add data.test=FILE, with the same columns")
    return "\n".join(lines)
