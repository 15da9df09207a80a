"""Evaluates a model on a file of problems, without the workflow.

    r1flow evaluate results/r1_tiny/zero_rl/model --data problems.csv --k 4 --wrong wrong.jsonl

    results/r1_tiny/zero_rl/model: pass@1 68.8 % [65.4, 72.3] over 480 problems, 4 samples each
    in form 99.9 %, finished 100.0 %, 72 tokens; pass@4 84.6 %, majority of 4 72.3 %
    wrong.jsonl: 599 samples that are wrong

api/examination.py says what is asked and how it is graded. Left out: everything of a run but these numbers.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from r1flow.commands.finding import add_json, add_sampling, tell
from r1flow.core.errors import UserError

SHOWN = ("problem_id", "sample_index", "question", "gold", "answer", "completion", "length", "finished")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Ask a model every problem of a file k times, and grade its answers: pass@1 with a 95 % interval over "
        "problems, form and length. The file is JSON lines, a JSON list, CSV or Parquet, by its ending. A question may "
        "be a text, or a conversation in which the user asks one thing. A right answer may be a value, \\boxed{…}, or "
        "GSM8K's '#### 72'; a problem with another one is left out, and counted."
    )
    parser.add_argument("model", type=Path, metavar="MODEL_DIR", help="for example results/r1_tiny/align_rl/model")
    parser.add_argument("--data", type=Path, required=True, metavar="FILE", help="the problems")
    parser.add_argument("--question", default="question", metavar="COLUMN", help="(default: question)")
    parser.add_argument(
        "--gold", "--answer", default="answer", metavar="COLUMN", help="the right answers (default: answer)"
    )
    parser.add_argument("-k", "--k", type=int, default=4, help="samples of each problem (default: 4)")
    parser.add_argument(
        "--strategy",
        metavar="NAME",
        help="make each answer of several samples: the name of a file of conf/strategy/, such as self_consistency",
    )
    parser.add_argument(
        "--budget",
        type=int,
        help="with --strategy: how many samples' worth of tokens an answer may take (default: 8)",
    )
    parser.add_argument("--wrong", type=Path, metavar="FILE", help="write the wrong samples there, by its ending")
    add_sampling(parser)
    parser.add_argument("--max-new-tokens", type=int, help="(default: what the model has room for, up to 1,024)")
    parser.add_argument("--batch-size", type=int, default=64, help="samples that are drawn together (default: 64)")
    add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    from r1flow.api.examination import evaluate
    from r1flow.api.tables import check_new_file, write_table

    if arguments.budget is not None and arguments.strategy is None:
        raise UserError("--budget: it is a strategy's; name one with --strategy, or leave it out (-k is for samples)")
    if arguments.wrong is not None:
        check_new_file("--wrong", arguments.wrong)
    evaluation = evaluate(
        arguments.model,
        arguments.data,
        arguments.k,
        question=arguments.question,
        answer=arguments.gold,
        temperature=arguments.temperature,
        top_p=arguments.top_p,
        max_new_tokens=arguments.max_new_tokens,
        seed=arguments.seed,
        engine=arguments.engine,
        batch_size=arguments.batch_size,
        strategy=arguments.strategy,
        budget=8 if arguments.budget is None else arguments.budget,
        on_progress=say_progress if sys.stderr.isatty() else None,
    )
    wrong = []
    for row in evaluation.rows:
        if row["correct"] is False:
            wrong.append({name: row[name] for name in SHOWN})
    lines = [str(evaluation)]
    if arguments.wrong is not None:
        write_table(arguments.wrong, wrong)
        lines.append(f"{arguments.wrong}: {len(wrong)} samples that are wrong")
    told: dict[str, Any] = {
        "model": evaluation.model,
        "k": evaluation.k,
        "pass_at_1": {name: getattr(evaluation.interval, name) for name in ("estimate", "low", "high")},
        "metrics": evaluation.metrics,
        "strategy": evaluation.strategy,
        "spent": evaluation.spent,
        "left_out": evaluation.left_out,
        "wrong": len(wrong),
    }
    tell(told, "\n".join(lines), arguments.json)


def say_progress(done: int, total: int) -> None:
    print(f"{done} of {total} samples", file=sys.stderr)
