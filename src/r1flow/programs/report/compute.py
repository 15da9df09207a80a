"""The report of a run: report.html and samples.html for people, and summary.json for programs.

Reads the folders of every evaluated model ("evaluate/<model>") and of every stage ("<stage>"), and computes the paper's
claims from the samples, which samples.html shows (viewer.py). files/ has the report's figures and tables
(page_files.py). All of it depends on the results only, so equal runs give the same bytes; the costs of the run are in
files of their own (making.py). Left out: anything that needs a network or a server to be read.

    summary.json: {"claims": {"C1": {"verdict": "holds here", "estimate": 0.369, "low": 0.33, "high": 0.408, …}, …},
                   "models": {"base": {"chain_sum": {"pass_at_1": 0.213, "se": 0.01, …}, …}, …}, "run": "r1_tiny",
                   "skill": {"base": [{"temperature": 0.6, "estimate": 0.66, …}, …], …},
                   "thoughts": {"base": {"finished_rate": 1.0, "reflection_rate": 0.01, …}, …},
                   "kinds": {"base": {"greeting": 0.9, …}, …}, "starts": {"zero_rl": "base", …},
                   "steps": {"zero_rl": {"base": {"gain": …, "skill": […], "mode": …, "general": …}, …}, …},
                   "families": {"zero_rl": {"products": {"skill": …, "first_pass": …, "later_passes": …}, …}, …},
                   "pass_at_k": {"models": {"base": [{"k": 1, "estimate": …}, …], …}, "differences": {…}},
                   "self_correction": {"base": {"samples": 3712, "several": 7, "corrected": 0, …}, …},
                   "flops": {"training": {"distill": 2.2e12, "student_rl": 2.5e12}, "data": {"base": 1.2e13, …}},
                   "flops_after_base": {"align_rl": 1.8e13, "zero_rl": 6.3e12},
                   "paraphrased": {"base": {"chain_sum": {"pass_at_1": 0.198, …}, …}, …},
                   "left_out": {"data": {"rl.jsonl": {"read": 1200, "kept": 1198, "left_out": {"leak": 2}}, …}, …}}

A part of a claim, or a step, that compares models of which neither solves any problem says so as `why`; the summary of
a toy has "toy": true, `warnings` has the stages that learnt little or nothing, with the reasons, and `reflection`
is there where evaluate.interventions asks for some (reflection.py), `search` where the run has that stage (budgets.py),
`tools` where models could call some (tools.py), `pass_at_k_thinking` where there are forced thoughts enough (tries.py).
"""

from typing import TYPE_CHECKING, Any

from r1flow.artifacts.manifest import write_json
from r1flow.programs.report.budgets import summarise_budgets
from r1flow.programs.report.collect import Results, collect
from r1flow.programs.report.page import draw_all, render_report, shown_in_figures
from r1flow.programs.report.page_files import write_page_files
from r1flow.programs.report.reflection import summarise_reflection
from r1flow.programs.report.rows import counts_by_stage, warnings_of
from r1flow.programs.report.skills import THOUGHT_METRICS, summarise_families, summarise_skills, summarise_steps
from r1flow.programs.report.tools import summarise_tools
from r1flow.programs.report.tries import summarise_tries
from r1flow.programs.report.viewer import render_viewer
from r1flow.recipe.claims import claim_summary, describe_numbers

if TYPE_CHECKING:
    from r1flow.tracking.stage import Stage


def compute(stage: "Stage") -> dict[str, Any]:
    """Write the report; its metrics are the claims' verdicts."""
    results = collect(stage.config["run"], stage.inputs, stage.config["toy"])
    write_json(stage.work / "summary.json", summarise_run(results))
    shown = shown_in_figures(results)
    pictures = draw_all(shown)
    page = render_report(results, pictures, stage.config, stage.seed)
    (stage.work / "report.html").write_text(page, encoding="utf-8")
    write_page_files(stage.work / "files", page, shown, pictures)
    for path, text in render_viewer(results).items():
        (stage.work / path).write_text(text, encoding="utf-8")
    return {"claims": {claim.id: claim.verdict for claim in results.claims}}


def summarise_run(results: Results) -> dict[str, Any]:
    """Every number of the report that a program may use, without times."""
    thoughts = {}
    for row in results.skills:
        thoughts[row["model"]] = {name: row[name] for name in THOUGHT_METRICS}
    summary = {
        "run": results.run,
        "models": describe_numbers(results.summaries),
        "claims": {claim.id: claim_summary(claim) for claim in results.claims},
        "skill": summarise_skills(results.skills, results.evidence.temperatures),
        "thoughts": describe_numbers(thoughts),
        "kinds": describe_numbers(results.kinds),
        "starts": results.starts,
        "steps": summarise_steps(results.steps),
        "families": summarise_families(results.family_steps),
        "pass_at_k": summarise_tries(results.tries.get("tries", {})),
        "self_correction": describe_numbers(results.self_correction),
        "flops": results.spent,
        "flops_after_base": results.after_base,
        "paraphrased": describe_numbers(results.paraphrased),
        "left_out": counts_by_stage(results.metrics),
    }
    if any(results.reflection):
        summary["reflection"] = summarise_reflection(*results.reflection)
    if forced := results.tries.get("tries_thinking"):
        summary["pass_at_k_thinking"] = summarise_tries(forced)
    if results.searched:
        summary["search"] = summarise_budgets(*results.search)
    if results.tools:
        summary["tools"] = summarise_tools(results.tools)
    if warnings := warnings_of(results.metrics):
        summary["warnings"] = warnings
    if results.toy:
        summary["toy"] = True
    return summary
