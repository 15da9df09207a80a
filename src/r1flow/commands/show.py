"""Reads a model's stored completions in the terminal, one after the other.

    r1flow show r1_tiny zero_rl --wrong

    zero_rl, 706 samples are wrong; the first 5

    products 02a40114135b, sample 0: How much is 23 * 32?
        let me see 32 * 20 = 640, and then 32 * 3 = 96, then 640 + 96 = 740, so the answer is 740.
    740
    → wrong: answer 740, 61 tokens
    right answer: 736

From Python: open_run("r1_tiny").samples("zero_rl"), a table. Left out: samples with <think> given, or in other words.
"""

import argparse
import pydoc
import sys
from pathlib import Path
from typing import Any

from r1flow.commands.finding import add_json, sample_told, tell
from r1flow.core.errors import UserError, did_you_mean, printable

VERDICTS = {"wrong": False, "right": True}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show a model's stored completions: prompt, reasoning (indented), reply, verdict, answer and right answer. On "
        "a terminal they are shown by the pager (the program that PAGER names). The problems' first samples come first."
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="its name or folder, for example r1_tiny")
    parser.add_argument("model", metavar="MODEL", help="for example zero_rl")
    verdict = parser.add_mutually_exclusive_group()
    verdict.add_argument("--wrong", dest="verdict", action="store_const", const="wrong", help="only wrong ones")
    verdict.add_argument("--right", dest="verdict", action="store_const", const="right", help="only right ones")
    parser.add_argument("--task", help="only this family of problems, for example products; general: general prompts")
    parser.add_argument("-n", type=int, default=5, metavar="N", help="how many; 0: all of them (default: 5)")
    add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    if arguments.n < 0:
        raise UserError(f"-n: {arguments.n} samples can't be shown; use 1 or more, or 0 for all")
    from r1flow.api.stored import open_run

    opened = open_run(arguments.run)
    rows = opened.rows(arguments.model)
    tasks = sorted({row["task"] for row in rows})
    if arguments.task is not None and arguments.task not in tasks:
        raise UserError(
            f"--task: {arguments.model} has no samples of {arguments.task!r}{did_you_mean(arguments.task, tasks)}"
        )
    wanted = [row for row in rows if is_wanted(row, arguments)]
    # Ids are hashes, so tasks are mixed.
    wanted.sort(key=lambda row: (row["sample_index"], row["problem_id"]))
    shown = wanted[: arguments.n or None]
    told = {"run": str(opened.folder), "model": arguments.model, "found": len(wanted), "samples": shown}
    which = f"{len(wanted)} samples{f' are {arguments.verdict}' if arguments.verdict else ''}"
    lines = [f"{arguments.model}, {which}{f'; the first {len(shown)}' if len(shown) < len(wanted) else ''}"]
    for row in shown:
        lines += ["", *stored_sample_told(row)]
    text = "\n".join(lines)
    if sys.stdout.isatty() and not arguments.json:
        pydoc.pager(printable(text))
    else:
        tell(told, text, arguments.json)


def is_wanted(row: dict[str, Any], arguments: argparse.Namespace) -> bool:
    if arguments.task is not None and row["task"] != arguments.task:
        return False
    return arguments.verdict is None or row["correct"] is VERDICTS[arguments.verdict]


def stored_sample_told(row: dict[str, Any]) -> list[str]:
    head = f"{row['kind'] or row['task']} {row['problem_id']}, sample {row['sample_index']}: {row['question']}"
    gold = [] if row["gold"] is None else [f"right answer: {row['gold']}"]
    return [head, *sample_told(row), *gold]
