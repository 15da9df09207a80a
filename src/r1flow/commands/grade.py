"""Grades a file of completions, with the graders of the rewards and the evaluation.

    r1flow grade answers.jsonl --gold answer --out graded.jsonl

    answers.jsonl: 812 of 998 are right (81.4 %)
    no answer is marked in 40, which count as wrong; --lenient takes the last number
    2 can't be graded, because of the right answer: row 17 '', row 630 'see figure 3 ('
    graded.jsonl: every row, with graded_answer and correct

A terminal sees how far it is. Left out: a file's problems are not asked again (`r1flow evaluate` does that).
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from reprlib import repr as brief
from typing import TYPE_CHECKING, Any

from r1flow.commands.finding import add_json, tell
from r1flow.core.errors import UserError, errors_at, listed
from r1flow.grading.verdict import Cause

if TYPE_CHECKING:
    from r1flow.api.grades import GradedAnswer

ADDED = ("graded_answer", "correct")
AT_ONCE = 5000  # rows between two lines of progress: a few seconds at most


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Grade completions against right answers, exactly and without a model (docs/rewards/accuracy.md). FILE is JSON "
        "lines, a JSON list, CSV or Parquet, by its ending. The answer of a completion is between its answer tags, or "
        "in its last box. A right answer may be a value, \\boxed{…}, or GSM8K's '#### 72'. Exit code 1: some can't be "
        "read."
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="for example answers.jsonl")
    parser.add_argument(
        "--gold", "--answer", default="answer", metavar="COLUMN", help="the right answers (default: answer)"
    )
    parser.add_argument("--completion", default="completion", metavar="COLUMN", help="(default: completion)")
    parser.add_argument("--lenient", action="store_true", help="take the last number where no answer is marked")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write every row there, with graded_answer and correct"
    )
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    from r1flow.api.grades import graded_answers
    from r1flow.api.tables import read_table, write_table

    rows = read_table(arguments.file, {"completion": arguments.completion, "answer": arguments.gold})
    if arguments.out is not None:
        check_out(arguments.out, arguments.file, rows[0])
    completions = [row[arguments.completion] for row in rows]
    golds = [row[arguments.gold] for row in rows]
    grades: list[GradedAnswer] = []
    for begin in range(0, len(rows), AT_ONCE):
        piece = slice(begin, begin + AT_ONCE)
        with errors_at(f"{arguments.file}: "):
            grades += graded_answers(completions[piece], golds[piece], arguments.lenient)
        if sys.stderr.isatty() and len(grades) < len(rows):
            print(f"{len(grades)} of {len(rows)} rows", file=sys.stderr)
    if arguments.out is not None:
        graded = [
            {**row, ADDED[0]: each.answer, ADDED[1]: each.correct} for row, each in zip(rows, grades, strict=True)
        ]
        write_table(arguments.out, graded)
    told = grades_counted(grades, golds) | {"out": arguments.out and str(arguments.out)}
    tell(told, "\n".join(grades_in_words(arguments.file, told, arguments.lenient)), arguments.json)
    return int(bool(told["ungraded"]))


def check_out(out: Path, file: Path, row: dict[str, Any]) -> None:
    """Refuse an output before anything is graded; raises UserError."""
    from r1flow.api.tables import check_new_file

    check_new_file("--out", out)
    if taken := [name for name in ADDED if name in row]:
        raise UserError(f"{file} has a column {taken[0]!r} already, which --out would replace; rename it")


def grades_counted(grades: Sequence["GradedAnswer"], golds: Sequence[Any]) -> dict[str, Any]:
    verdicts = [each.correct for each in grades]
    right, wrong = verdicts.count(True), verdicts.count(False)
    ungraded = []
    for number, (each, gold) in enumerate(zip(grades, golds, strict=True), 1):
        if each.correct is None:
            ungraded.append({"row": number, "gold": None if gold is None else str(gold), "cause": str(each.cause)})
    return {
        "rows": len(grades),
        "right": right,
        "wrong": wrong,
        "unmarked": sum(each.answer is None and each.correct is False for each in grades),
        "share": right / (right + wrong) if right + wrong else None,
        "ungraded": ungraded,
    }


def grades_in_words(file: Path, told: dict[str, Any], lenient: bool) -> Iterator[str]:
    share = "" if told["share"] is None else f" ({100 * told['share']:.1f} %)"
    yield f"{file}: {told['right']} of {told['right'] + told['wrong']} are right{share}"
    if told["unmarked"]:
        remedy = "" if lenient else "; --lenient takes the last number"
        yield f"no answer is marked in {told['unmarked']}, which count as wrong{remedy}"
    causes = {
        Cause.UNGRADABLE: "can't be graded, because of the right answer",
        Cause.INFRASTRUCTURE: "weren't graded, because the grader failed; try again",
    }
    for cause, why in causes.items():
        if rows := [f"row {row['row']} {brief(row['gold'])}" for row in told["ungraded"] if row["cause"] == cause]:
            yield f"{len(rows)} {why}: {listed(rows)}"
    if told["out"]:
        yield f"{told['out']}: every row, with {' and '.join(ADDED)}"
