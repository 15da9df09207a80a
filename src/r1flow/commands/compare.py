"""Whether a change helped: two runs' models side by side, with paired intervals, and samples that differ.

    r1flow compare r1_tiny longer

    A: results/r1_tiny
    B: results/longer
    changed: zero_rl.trainer.max_steps: 160 → 320

    model             measure              A       B   B − A, 95 % interval      verdict
    zero_rl           pass@1 in %       68.8    72.1   +3.3 [+0.4, +6.2]         better
    …

api/comparison.py says what is compared and how. Left out: whether the runs are equal to the byte (`r1flow diff`).
"""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1flow.artifacts.folders import run_folder
from r1flow.artifacts.seed_runs import read_alike
from r1flow.artifacts.versions import RESULTS
from r1flow.commands.finding import add_json, sample_told, tell
from r1flow.core.errors import UserError
from r1flow.core.files import write_whole

if TYPE_CHECKING:
    from r1flow.api.comparison import Comparison

LONGEST = 600  # characters of a text that is shown; --json has all of it


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Tell whether run B's models are better than run A's: pass@1, form, length and the trainings' cost, each "
        "difference with a 95 % interval paired by problem, and how many problems would tell where these can't. Then "
        "samples of one model that differ, side by side. To see whether two runs are equal to the byte, "
        "use `r1flow diff`."
    )
    parser.add_argument("runs", nargs=2, type=Path, metavar="RUN", help="A, then B: a run's name or folder")
    parser.add_argument(
        "--seeds",
        action="store_true",
        help="each RUN stands for the runs RUN-s1, RUN-s2, … of `r1flow seeds`, with their reports; intervals are over"
        " seeds",
    )
    parser.add_argument("--model", help="whose samples to show (default: the last model that differs)")
    parser.add_argument("-n", type=int, default=5, metavar="N", help="how many problems to show (default: 5)")
    parser.add_argument("--report", type=Path, metavar="FILE", help="also write it as a page, with figures: FILE.html")
    add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    if arguments.n < 0:
        raise UserError(f"-n: {arguments.n} problems can't be shown; use 0 or more")
    if arguments.report and arguments.report.suffix != ".html":
        raise UserError(f"--report: {arguments.report} is to be a page; give it a name that ends with .html")
    groups = [seed_runs(name) if arguments.seeds else [run_folder(name)] for name in arguments.runs]
    if arguments.seeds:
        for folders in groups:
            read_alike(folders, [int(folder.name.rpartition("-s")[2]) for folder in folders])
    from r1flow.api.comparison import compare_runs, compare_seeds, row_told

    comparison = compare_seeds(*groups) if arguments.seeds else compare_runs(groups[0][0], groups[1][0])
    model = arguments.model or last_that_differs(comparison)
    samples = comparison.samples(model, arguments.n) if model else []
    told = {
        "a": [str(run.folder) for run in comparison.a],
        "b": [str(run.folder) for run in comparison.b],
        "changed": comparison.changed,
        "differences": [row_told(each) for each in comparison.differences],
        "costs": [asdict(each) for each in comparison.costs],
        "model": model,
        "samples": samples,
    }
    lines = [str(comparison)]
    if samples:
        lines += ["", f"{model}: {len(samples)} problems, the first sample in each run"]
    for sample in samples:
        lines += ["", *side_by_side_told(sample)]
    if arguments.report:
        from r1flow.api.comparison_page import render_comparison

        try:
            write_whole(arguments.report, render_comparison(comparison, model, samples))
        except OSError as error:
            raise UserError(f"--report: {arguments.report} can't be written: {error.strerror}") from error
        lines += ["", f"as a page: {arguments.report}"]
    tell(told, "\n".join(lines), arguments.json)


def seed_runs(name: Path) -> list[Path]:
    """results/r1_tiny-s11, results/r1_tiny-s12, …; raises UserError where there is none."""
    for folder in (name.parent, RESULTS / name.parent):
        folders = sorted(path for path in folder.glob(f"{name.name}-s*") if path.name[len(name.name) + 2 :].isdigit())
        if folders:
            return folders
    raise UserError(f"--seeds: there is no run {name}-s1, {name}-s2, …; make them with r1flow seeds, or leave it out")


def last_that_differs(comparison: "Comparison") -> str | None:
    differing = [each.model for each in comparison.differences if not each.same]
    return differing[-1] if differing else None


def side_by_side_told(sample: dict[str, Any]) -> list[str]:
    lines = [f"{sample['task']} {sample['problem_id']}: {sample['question']}", f"right answer: {sample['gold']}"]
    for name in ("a", "b"):
        lines += [f"{name.upper()}:", *(f"  {line}" for line in sample_told(sample[name], LONGEST))]
    return lines
