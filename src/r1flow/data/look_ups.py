"""Look-ups: problems that no model can know the answer to, as each has a table of its own, which only a tool can read.

    {"question": "Box 4821 has the number of another box. What is in that box?", "answer": "93",
     "metadata": {"table": {"1707": "93", "3390": "48", "4821": "1707", …}}, "calls": [("4821", 1707), ("1707", 93)]}

reasoning-gym has no such family; these rows are like its own, and have the calls that solve them besides. The
environment LookUp answers them (sampling/environments.py). Left out: other wordings, and tables with words.
"""

import random
from typing import Any

from r1flow.core.errors import UserError, did_you_mean

LOOK_UPS = "look_ups"
# Digits alone: each is a token of our tokenizer, so a tiny model copies a name token by token; and two questions are
# one text with other numbers, which is no leak. Four digits: 18,000 questions, of which a run draws some 3,600. What
# isn't the number of a box has two, so no result can be taken for one.
NAMES = range(1000, 10_000)
VALUES = range(10, 100)
QUESTIONS = {1: "What is in box {}?", 2: "Box {} has the number of another box. What is in that box?"}  # by hops
DEFAULTS = {"min_hops": 1, "max_hops": 2, "boxes": 8}


def draw_look_ups(options: dict[str, Any], seed: int, size: int) -> list[dict[str, Any]]:
    """So many rows; each depends on its place and the seed alone. `options`: those of DEFAULTS that are others.

    Raises UserError for an option that there isn't, and for a value out of its bounds.
    """
    chosen = DEFAULTS | options
    bounds = {
        "min_hops": (1, max(QUESTIONS)),
        "max_hops": (chosen["min_hops"], max(QUESTIONS)),
        "boxes": (chosen["max_hops"], len(VALUES)),
    }
    for name, value in chosen.items():
        where = f"data.tasks.{LOOK_UPS}.generator.{name}"
        if name not in bounds:
            raise UserError(f"{where}: there is no such option{did_you_mean(name, list(bounds))}")
        least, most = bounds[name]
        if type(value) is not int or not least <= value <= most:
            raise UserError(f"{where}: {value!r}; use a whole number from {least} to {most}")
    return [look_up_row(random.Random(seed + place), **chosen) for place in range(size)]


def look_up_row(rng: random.Random, min_hops: int, max_hops: int, boxes: int) -> dict[str, Any]:
    """A row: each of the first boxes has the number of the next one, and the last of them the answer."""
    hops = rng.randint(min_hops, max_hops)
    names = rng.sample(NAMES, boxes)
    values = names[1:hops] + rng.sample(VALUES, boxes - hops + 1)
    opened = [(str(name), value) for name, value in zip(names, values, strict=True)]
    return {
        "question": QUESTIONS[hops].format(names[0]),
        "answer": str(values[hops - 1]),
        "metadata": {"table": {name: str(value) for name, value in opened}},
        "calls": opened[:hops],
    }
