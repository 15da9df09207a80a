"""Draws the recipe as an SVG, from the rows of its table and from what each stage starts from.

python workflow/scripts/picture.py > docs/recipe.svg
"""

import sys
from html import escape
from itertools import pairwise
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
    "step_scorer": "steps",
    "evaluate": "every model, test set",
    "report": "claims, intervals",
}


Place = str | tuple[str, str, int]  # a stage, or where an arrow passes a column


def arrows(run: Run) -> list[tuple[str, str]]:
    """From which stage to which; `data` only to those that read nothing else, as nearly all read it too."""
    found = []
    for stage in run.stages:
        sources = [source for source in run.sources_of(stage).values() if source in run.stages]
        found += [(source, stage) for source in sources if source != "data" or set(sources) == {"data"}]
    return [*found, (deepest(run.models, found), "evaluate"), ("evaluate", "report")]


def deepest(stages: list[str], edges: list[tuple[str, str]]) -> str:
    return max(stages, key=lambda stage: depth(stage, edges))


def depth(stage: str, edges: list[tuple[str, str]]) -> int:
    """The longest way to it."""
    return max((depth(source, edges) + 1 for source, target in edges if target == stage), default=0)


def way(edge: tuple[str, str], column: dict[str, int]) -> list[Place]:
    """An arrow's places: its two ends, and one in every column between."""
    source, target = edge
    return [source, *((*edge, number) for number in range(column[source] + 1, column[target])), target]


def layout(ways: list[list[Place]], column: dict[str, int]) -> dict[Place, tuple[int, float]]:
    """Column and height of every place, near those that lead to it (Sugiyama's method, without its last steps)."""
    before: dict[Place, list[Place]] = {}
    for places in ways:
        for one, other in pairwise(places):
            before.setdefault(other, []).append(one)
    height: dict[Place, float] = {}
    found = {}
    for number in range(max(column.values()) + 1):
        here = [place for place in {*column, *before} if (column[place] if place in column else place[2]) == number]
        here.sort(key=lambda place: (middle([height[one] for one in before.get(place, [])]), str(place)))
        sizes = [1 if place in column else 0.45 for place in here]
        at = -sum(sizes) / 2
        for place, size in zip(here, sizes, strict=True):
            height[place], at = at + size / 2, at + size
            found[place] = (number, height[place])
    return found


def middle(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0


def svg(run: Run) -> str:
    edges = arrows(run)
    column = {stage: depth(stage, edges) for edge in edges for stage in edge}
    ways = [way(edge, column) for edge in edges]
    places = layout(ways, column)
    top = min(height for _, height in places.values())
    at = {place: (EDGE + ACROSS * x, EDGE + DOWN * (y - top)) for place, (x, y) in places.items()}
    size = (max(x for x, _ in at.values()) + WIDTH + EDGE, max(y for _, y in at.values()) + HEIGHT + EDGE)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]:g} {size[1]:g}" width="{size[0]:g}"'
        ' font-family="sans-serif" role="img">',
        "<title>The stages of the recipe and what each starts from</title>",
        *(arrow([at[place] for place in places]) for places in ways),
        *(box(stage, *at[stage]) for stage in column),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def arrow(corners: list[tuple[float, float]]) -> str:
    """A line from the right side of the first box to the left side of the last, level where it passes a column."""
    begin = f"M{corners[0][0] + WIDTH:g} {corners[0][1] + HEIGHT / 2:g}"
    bends = []
    for (x, y), (u, v) in pairwise(corners):
        bend, y, v = (u - x - WIDTH) / 2, y + HEIGHT / 2, v + HEIGHT / 2
        bends.append(f"C{x + WIDTH + bend:g} {y:g} {u - bend:g} {v:g} {u:g} {v:g} h{WIDTH}")
    curve = " ".join(bends).removesuffix(f" h{WIDTH}")
    head = f"M{corners[-1][0]:g} {corners[-1][1] + HEIGHT / 2:g} l-7 -4 v8 z"
    return f'<path d="{begin} {curve}" fill="none" stroke="{GREY}"/><path d="{head}" fill="{GREY}"/>'


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
