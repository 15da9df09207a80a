"""The page that `r1flow compare A B --report FILE` writes: what changed, what that moved, curves, samples side by side.

One file without scripts that loads nothing, in the report's style. Left out: what the terminal's table hasn't either.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from r1flow.api.comparison import MEASURES, Comparison, Difference, total, verdict_told
from r1flow.core.metrics import Interval
from r1flow.core.template import GENERAL
from r1flow.programs.report.collect import curve_of
from r1flow.programs.report.curves import AIMS, Curve, curve_figure, smoothed
from r1flow.programs.report.figures import COLOURS, INK, STYLE, canvas, draw_forest, to_svg
from r1flow.programs.report.templates import fill, slug

STYLES = ("--", "-")  # of A and of B


def render_comparison(comparison: Comparison, model: str | None, samples: Sequence[Mapping[str, Any]]) -> str:
    """The page's text; equal runs give equal text, but for the seconds that they took. `samples` are of `model`."""
    figures = [draw_forest(rows, task) for task, rows in forests(comparison.differences).items()]
    for key in ("reward", *AIMS):
        if curves := pairs_of_curves(comparison, key):
            figures.append(draw_pairs(curves, key))
    costs = comparison.costs
    whole = {name: total(costs, name) for name in ("flops_a", "flops_b", "seconds_a", "seconds_b")} if costs else None
    return fill(
        "comparison.html.jinja",
        run=" and ".join(dict.fromkeys([comparison.a[0].name, comparison.b[0].name])),
        a=[str(run.folder) for run in comparison.a],
        b=[str(run.folder) for run in comparison.b],
        changed=comparison.changed,
        rows=[row_shown(each) for each in comparison.differences],
        unit=comparison.unit,
        about_intervals=comparison.about_intervals,
        figures=figures,
        costs=costs,
        whole=whole,
        model=model,
        samples=samples,
    )


def row_shown(each: Difference) -> dict[str, Any]:
    """A row of the page's table, in the measure's unit; longer isn't better, so lengths have no colour."""
    name, scale, _, _ = MEASURES[each.task, each.measure]
    row: dict[str, Any] = {"model": each.model, "measure": name, "a": scale * each.a, "b": scale * each.b}
    for key, value in {"moved": each.interval.estimate, "low": each.interval.low, "high": each.interval.high}.items():
        row[key] = None if value is None else scale * value
    row["colour"] = {"better": "yes", "worse": "no"}.get(each.verdict, "none")
    row["why"] = verdict_told(each).removeprefix(each.verdict).lstrip("; ")
    return row | {"verdict": each.verdict}


def forests(differences: Sequence[Difference]) -> dict[str, list[tuple[str, str, Interval]]]:
    """The lines of a figure for each task, reasoning problems and general prompts: pass@1 of each model."""
    lines: dict[str, list[tuple[str, str, Interval]]] = {}
    for each in differences:
        if each.measure == "pass_at_1":
            label = f"{each.model}, general" if each.task == GENERAL else each.model
            lines.setdefault(each.task, []).append((label, each.model, each.interval))
    return lines


def pairs_of_curves(comparison: Comparison, key: str) -> dict[str, list[Curve]]:
    """Of each training that both runs have, the curve in A and in B; of several seeds, the first one's."""
    curves = {}
    for stage in comparison.a[0].stages:
        if stage in comparison.b[0].stages:
            pair = [curve_of(run.metrics[stage], key) for run in (comparison.a[0], comparison.b[0])]
            if all(pair):
                curves[stage] = pair
    return curves


@plt.rc_context(STYLE)
def draw_pairs(curves: Mapping[str, Sequence[Curve]], key: str) -> str:
    """A line for each training in A, dashed, and in B: moving means."""
    drawn = curve_figure(key)
    figure, axes = canvas(3.1)
    for stage, pair in curves.items():
        for curve, run, style in zip(pair, ("A", "B"), STYLES, strict=True):
            steps, values = np.array(curve, dtype=float).T
            axes.plot(
                steps,
                drawn.times * smoothed(values, drawn.window),
                style,
                color=COLOURS.get(stage, INK),
                linewidth=1.8,
                label=f"{stage}, {run}",
            )
    axes.set_xlabel("training step")
    axes.set_ylabel(drawn.y_label)
    figure.legend(loc="outside lower center", ncols=2, handlelength=2, columnspacing=1.2)
    return to_svg(figure, slug(key), drawn.aria_label)
