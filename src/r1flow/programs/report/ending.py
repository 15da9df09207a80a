"""What a finished run says on the terminal: the accuracy of each model, and each claim's verdict with its number.

               pass@1 in %           general prompts
base           26.1 [23.7, 28.5]     3.5 [1.2, 5.8]
zero_rl        68.8 [65.4, 72.2]     4.0 [1.5, 6.5]
C1 holds here, +42.7 points [39.2, 46.2]: RL alone lifts the base model.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Any

from r1flow.core.metrics import Interval, as_share, t_quantile
from r1flow.core.template import GENERAL
from r1flow.programs.report.collect import BASES
from r1flow.programs.report.templates import difference
from r1flow.recipe.claims import TOY, claims_in_order

COLUMNS = {"reasoning": "pass@1 in %", GENERAL: "general prompts"}


def tell_scores(scores: Mapping[str, Any]) -> list[str]:
    """A line for each model: the share of the problems it solves, with a 95 % interval; base models leniently."""
    evaluated = set().union(*scores.values())
    columns = {task: title for task, title in COLUMNS.items() if task in evaluated}
    labels = {model: f"{model} (lenient)" if model in BASES else model for model in scores}
    width = max(map(len, labels.values()), default=0)
    lines = [f"{'':<{width}}" + "".join(f"  {title:<20}" for title in columns.values())]
    for model, tasks in scores.items():
        leniently = {"reasoning": "_lenient" if model in BASES else "", GENERAL: ""}
        cells = [share(tasks.get(task), leniently[task]) for task in columns]
        lines.append(f"{labels[model]:<{width}}" + "".join(f"  {cell:<20}" for cell in cells))
    return [line.rstrip() for line in lines] if columns else []


def share(score: Mapping[str, Any] | None, scoring: str) -> str:
    """26.1 [23.7, 28.5]: pass@1 with the report's interval, from the mean over problems and its standard error."""
    mean, se = (score or {}).get(f"pass_at_1{scoring}"), (score or {}).get(f"se{scoring}")
    if mean is None:
        return "–"
    if se is None:
        return f"{100 * mean:.1f}"
    n = score["n_problems"]
    half = t_quantile(n - 1) * se
    interval = as_share(Interval(mean, mean - half, mean + half, se, n))
    return f"{100 * mean:.1f} [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"


def tell_verdicts(summary: Mapping[str, Any]) -> list[str]:
    """A line for each claim of a summary.json, of a run or of several seeds; for a toy one line."""
    if summary.get("toy"):
        return [TOY]
    lines = []
    claims = [(name, summary["claims"][name]) for name in claims_in_order(summary["claims"])]
    for name, claim in chain(claims, summary.get("search", {}).get("claims", {}).items()):
        why = f" ({claim['why']})" if "why" in claim else ""
        lines.append(f"{name} {claim['verdict']}{why}{number_of(claim)}: {claim['text']}")
    return lines


def number_of(claim: Mapping[str, Any]) -> str:
    """, +42.7 points [39.2, 46.2]: of the part that decides; empty where there is none."""
    if claim.get("estimate") is None or "why" in claim:
        return ""
    interval = Interval(claim["estimate"], claim["low"], claim["high"], None, claim["n"])
    return f", {difference(interval, claim['unit'])}"
