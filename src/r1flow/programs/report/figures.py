"""The report's pictures as inline SVG: pass@1 of every model, pass@k, paired differences.

Text stays text (the browser's font, selectable, small), ids get the figure's name in front (several SVGs share a page),
colours are the page's variables where it has them, and nothing in a picture depends on the time or the machine: equal
data give equal bytes.
"""

import html
import io
import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from r1flow.core.metrics import Interval
from r1flow.programs.report.templates import difference
from r1flow.programs.report.tries import GUESSING
from r1flow.recipe.claims import MARGIN
from r1flow.recipe.stages import RECIPE

WIDTH_IN = 4.9  # inches: two figures side by side on a desktop, one on a phone
INK, GREY, RULE, GRID, BAND, PAGE = "#1f2933", "#5f6c79", "#d9dee4", "#eef1f4", "#e4e9ee", "#ffffff"
COLOURS = {stage: row.colour for stage, row in RECIPE.items() if row.colour}
# Colours that the page's style has, too, with others in the dark (layout.html.jinja).
VARIABLES = {INK: "ink", GREY: "faint", RULE: "rule", GRID: "grid", BAND: "band", PAGE: "page", "#0b3c5d": "r1"}
STYLE = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a $ in a name is a $
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": RULE,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": RULE,
    "xtick.labelcolor": GREY,
    "ytick.color": RULE,
    "ytick.labelcolor": GREY,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}


def to_svg(figure: Figure, name: str, title: str) -> str:
    """A figure as an `<svg>` element that scales with its column; `title` is for screen readers."""
    buffer = io.StringIO()
    with plt.rc_context({"svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    # The page chooses the font family.
    svg = re.sub(r"font: (?:[\w ]+ )?([\d.]+)px [^;\"]+", r"font-size: \1px", svg)
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, f"var(--{variable}, {colour})")
    box = re.search(r'viewBox="[^"]+"', svg).group()
    head = f'<svg {box} role="img" aria-label="{html.escape(title)}">'
    return (head + svg[svg.index(">") + 1 :]).strip()


def canvas(height_in: float) -> tuple[Figure, Axes]:
    return plt.subplots(figsize=(WIDTH_IN, height_in), layout="constrained")


@plt.rc_context(STYLE)
def draw_scores(rows: Sequence[tuple[str, str, Interval, float]], name: str) -> str:
    """One line per (label, model, pass@1 with interval, cons@k), first row on top; fractions, drawn in per cent."""
    figure, axes = canvas(0.6 + 0.3 * len(rows))
    for y, (_, model, interval, cons) in enumerate(rows):
        colour = COLOURS.get(model, INK)
        axes.plot([0, 100 * interval.estimate], [y, y], color=colour, linewidth=6, alpha=0.18, solid_capstyle="butt")
        if interval.low is not None:
            axes.plot([100 * interval.low, 100 * interval.high], [y, y], color=colour, linewidth=2)
        axes.plot(100 * interval.estimate, y, "o", color=colour, markersize=6)
        axes.plot(100 * cons, y, "D", color=PAGE, markeredgecolor=colour, markersize=5, markeredgewidth=1.3)
    axes.set_yticks(range(len(rows)), [label for label, *_ in rows], color=INK)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, 100)
    axes.set_xlabel("per cent of the reasoning test problems")
    axes.grid(axis="y", visible=False)
    axes.tick_params(length=0)
    return to_svg(figure, name, "pass@1 and cons@k of every model")


@plt.rc_context(STYLE)
def draw_tries(lines: Mapping[str, Sequence[tuple[int, Interval]]], name: str) -> str:
    """pass@k of every model by k, with bands of its 95 % intervals; what is no model is grey: guessing dashed, a start
    that reflects as often as its stage dotted."""
    figure, axes = canvas(3.1)
    for label, line in lines.items():
        ks, intervals = zip(*line, strict=True)
        dashes = "-" if label in COLOURS else ":"
        if label == GUESSING:
            dashes = "--"
        estimates = [100 * interval.estimate for interval in intervals]
        axes.plot(ks, estimates, dashes, label=label, color=COLOURS.get(label, GREY))
        if label in COLOURS and all(interval.low is not None for interval in intervals):
            low, high = [100 * interval.low for interval in intervals], [100 * interval.high for interval in intervals]
            axes.fill_between(ks, low, high, color=COLOURS[label], alpha=0.15, linewidth=0)
    axes.set_xscale("log", base=2)
    axes.set_xticks(ks, map(str, ks))
    axes.set_ylim(0, 100)
    axes.set_xlabel("k, tries at a problem")
    axes.set_ylabel("problems solved in k tries, %")
    figure.legend(loc="outside lower center", ncols=min(4, len(lines)), handlelength=1.6, columnspacing=1.2)
    return to_svg(figure, name, "pass@k by the number of tries")


@plt.rc_context(STYLE)
def draw_search(lines: Sequence[Mapping[str, Any]], name: str) -> str:
    """A panel for each model: accuracy against tokens by strategy, with bands of the paired difference from chance."""
    models = list(dict.fromkeys(line["model"] for line in lines))
    strategies = list(dict.fromkeys(line["strategy"] for line in lines))
    rows = -(-len(models) // 2)
    figure, panels = plt.subplots(
        rows, 2, figsize=(2 * WIDTH_IN, 0.6 + 2.6 * rows), layout="constrained", sharex=True, sharey=True, squeeze=False
    )
    for axes, model in zip_longest(panels.flat, models):
        if model is None:
            axes.set_visible(False)
            continue
        for number, strategy in enumerate(strategies):
            own = [line for line in lines if (line["model"], line["strategy"]) == (model, strategy)]
            tokens = [line["tokens"] for line in own]
            shares = np.array([100 * line["accuracy"].estimate for line in own])
            style = ".-" if number < 10 else ".:"  # there are ten colours
            axes.plot(tokens, shares, style, color=f"C{number}", label=strategy)
            if len(own) > 1 and all(line["gain"] and line["gain"].se is not None for line in own):
                half = np.array([50 * (line["gain"].high - line["gain"].low) for line in own])
                axes.fill_between(tokens, shares - half, shares + half, color=f"C{number}", alpha=0.1, linewidth=0)
        axes.set_xscale("log", base=2)
        axes.set_title(model, fontsize=9)
    for axes in panels[-1]:
        axes.set_xlabel("tokens generated and read for a problem")
    for axes in panels[:, 0]:
        axes.set_ylabel("problems solved, %")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)), handlelength=1.6)
    return to_svg(figure, name, "Accuracy by generated tokens, for each model and strategy")


@plt.rc_context(STYLE)
def draw_forest(rows: Sequence[tuple[str, str, Interval]], name: str) -> str:
    """Paired differences of pass@1: one line per (label, first model, interval); the band is ±1 point."""
    figure, axes = canvas(0.6 + 0.27 * len(rows))
    axes.axvspan(-100 * MARGIN, 100 * MARGIN, color=BAND, zorder=0, linewidth=0)
    axes.axvline(0, color=GREY, linewidth=1)
    for y, (_, model, interval) in enumerate(rows):
        colour = COLOURS.get(model, INK)
        if interval.low is not None:
            axes.plot([100 * interval.low, 100 * interval.high], [y, y], color=colour, linewidth=2.4)
        axes.plot(100 * interval.estimate, y, "o", color=colour, markersize=6)
    names, differences = [label for label, *_ in rows], [difference(interval) for *_, interval in rows]
    for side, labels in ((axes, names), (axes.twinx(), differences)):
        side.set_yticks(range(len(rows)), labels, color=INK)
        side.set_ylim(len(rows) - 0.4, -0.6)
        side.grid(axis="y", visible=False)
        side.spines[["left", "right"]].set_visible(False)
        side.tick_params(axis="y", length=0)
    axes.set_xlabel("difference of pass@1, points")
    return to_svg(figure, name, "Paired differences of pass@1")
