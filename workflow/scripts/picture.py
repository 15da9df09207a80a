"""Draws the recipe as an SVG, from the rows of its table and from what each stage starts from.

    python workflow/scripts/picture.py > docs/recipe.svg
"""

import sys
from html import escape
from pathlib import Path

from r1flow.engine.run import Run
from r1flow.recipe.stages import RECIPE

ROOT = Path(__file__).parents[2]
WIDTH, HEIGHT, ACROSS, DOWN, EDGE = 118, 40, 158, 66, 14  # of a box, from box to box, and of the margin
GREY, INK = "#7b8794", "#1f2933"
DOES = {
    "data": "problems, texts",
    "pretrain": "pretraining",
    "grpo": "GRPO",
    "sft": "supervised",
    "rejection": "rejection sampling",
    "reward_model": "preferences",
    "evaluate": "every model, test set",
    "report": "claims, intervals",
}


def arrows(run: Run) -> list[tuple[str, str]]:
    """From which stage to which; `data` only to those that read nothing else, as nearly all read it too."""
    found = []
    for stage in run.stages:
        sources = [source for source in run.sources_of(stage).values() if source in run.stages]
        found += [(source, stage) for source in sources if source != "data" or set(sources) == {"data"}]
    last = [stage for stage in run.models if not any(source == stage for source, _ in found)]
    return [*found, *((stage, "evaluate") for stage in last), ("evaluate", "report")]


def places(run: Run, edges: list[tuple[str, str]]) -> dict[str, tuple[float, float]]:
    """Column and line of every stage: a column behind its sources, and in it near the lines of these."""
    column: dict[str, int] = {}
    for stage in (*(stage for stage in run.stages if stage not in ("evaluate", "report")), "evaluate", "report"):
        column[stage] = max((column[source] + 1 for source, target in edges if target == stage), default=0)
    line: dict[str, float] = {}
    for number in range(max(column.values()) + 1):
        here = [stage for stage in column if column[stage] == number]
        wish = {stage: middle([line[source] for source, target in edges if target == stage]) for stage in here}
        for index, stage in enumerate(sorted(here, key=wish.__getitem__)):
            line[stage] = index - (len(here) - 1) / 2
    return {stage: (column[stage], line[stage]) for stage in column}


def middle(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0


def svg(run: Run) -> str:
    edges = arrows(run)
    place = places(run, edges)
    top = min(line for _, line in place.values())
    at = {stage: (EDGE + ACROSS * column, EDGE + DOWN * (line - top)) for stage, (column, line) in place.items()}
    size = (max(x for x, _ in at.values()) + WIDTH + EDGE, max(y for _, y in at.values()) + HEIGHT + EDGE)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]:g} {size[1]:g}" width="{size[0]:g}"'
        ' font-family="sans-serif" role="img">',
        "<title>The stages of the recipe and what each starts from</title>",
        *(arrow(at[source], at[target]) for source, target in edges),
        *(box(stage, *at[stage]) for stage in at),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def arrow(source: tuple[float, float], target: tuple[float, float]) -> str:
    x, y, u, v = source[0] + WIDTH, source[1] + HEIGHT / 2, target[0], target[1] + HEIGHT / 2
    bend = (u - x) / 2
    curve = f"M{x:g} {y:g} C{x + bend:g} {y:g} {u - bend:g} {v:g} {u - 5:g} {v:g}"
    head = f"M{u:g} {v:g} l-7 -4 v8 z"
    return f'<path d="{curve}" fill="none" stroke="{GREY}"/><path d="{head}" fill="{GREY}"/>'


def box(stage: str, x: float, y: float) -> str:
    row = RECIPE[stage]
    colour, centre = row.colour or "#ffffff", x + WIDTH / 2
    ink = INK if row.colour is None or stage.startswith("student_base") else "#ffffff"
    name, does = escape(stage), escape(DOES[row.program])
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{colour}" stroke="{GREY}"/>'
        f'<text x="{centre:g}" y="{y + 18:g}" text-anchor="middle" font-size="13" fill="{ink}">{name}</text>'
        f'<text x="{centre:g}" y="{y + 32:g}" text-anchor="middle" font-size="10" fill="{ink}">{does}</text>'
    )


if __name__ == "__main__":
    sys.stdout.write(svg(Run.compose(ROOT, "r1_tiny")))
