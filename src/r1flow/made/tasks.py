"""Reasoning problems from reasoning-gym: drawn with its generators, split by what they are, solved step by step.

A problem's id is a hash of what is asked, not of how it is worded, so the same sum in other words is one problem. The split is a
function of the id: no problem can be in two of them. Steps come from the generator's own metadata, e.g. for
`84 - 29 + 3`

    [("84 - 29", 55), ("55 + 3", 58)]

Left out: reasoning-gym's other families. Most have texts too long for a tiny model, or no solution that can be written as
arithmetic steps; a family needs one entry in FAMILIES, nothing else.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from r1flow.errors import UserError
from r1flow.schema import Problem

Step = tuple[str, int]  # what is computed, and what it gives

# Hundredths of all ids; `corpus` is for pretraining, and every other split is kept out of it.
SPLITS = {"test": range(0, 14), "dev": range(14, 20), "rl": range(20, 45), "rejection": range(45, 60)}
SPLITS |= {"cold_start": range(60, 68), "corpus": range(68, 100)}
SPLIT_OF = {bucket: split for split, buckets in SPLITS.items() for bucket in buckets}


@dataclass(frozen=True)
class Family:
    """How problems of one family are identified and solved; None: not a problem for us."""

    canonical: Callable[[dict[str, Any]], str | None]
    steps: Callable[[dict[str, Any]], list[Step]]


def chain_steps(metadata: dict[str, Any]) -> list[Step]:
    """Left to right: 84 - 29 + 3."""
    first, *rest = metadata["expression"].split(" ")
    total, steps = int(first), []
    for operator, term in zip(rest[::2], rest[1::2], strict=True):
        result = total + int(term) if operator == "+" else total - int(term)
        steps.append((f"{total} {operator} {term}", result))
        total = result
    return steps


def arithmetic_canonical(metadata: dict[str, Any]) -> str | None:
    """Sums and differences of numbers and of products of two: a longer product is more than one step can say."""
    expression = metadata["expression"]
    plain = re.fullmatch(r"\d+( [-+*] \d+)+", expression)
    return expression if plain and not re.search(r"\* \d+ \*", expression) else None


def arithmetic_steps(metadata: dict[str, Any]) -> list[Step]:
    """Products first, then left to right: 7 + 8 * 5."""
    steps = []

    def multiply(product: re.Match[str]) -> str:
        steps.append((product[0], int(product[1]) * int(product[2])))
        return str(steps[-1][1])

    sums = re.sub(r"(\d+) \* (\d+)", multiply, metadata["expression"])
    return steps + chain_steps({"expression": sums})


def equation(metadata: dict[str, Any]) -> tuple[int, str, int, int] | None:
    """(a, sign, b, c) of a*x + b = c; None for other forms."""
    form = re.fullmatch(r"(?:(\d+)\*)?[a-z] ([+-]) (\d+) = (\d+)", metadata["equation"])
    return (int(form[1] or 1), form[2], int(form[3]), int(form[4])) if form else None


def equation_canonical(metadata: dict[str, Any]) -> str | None:
    parts = equation(metadata)
    return "{}*x {} {} = {}".format(*parts) if parts else None


def equation_steps(metadata: dict[str, Any]) -> list[Step]:
    """10*x + 12 = 82: take the 12 to the other side, then divide by 10."""
    a, sign, b, c = equation(metadata)
    moved = c - b if sign == "+" else c + b
    steps = [(f"{c} {'-' if sign == '+' else '+'} {b}", moved)]
    return steps if a == 1 else [*steps, (f"{moved} / {a}", moved // a)]


FAMILIES = {
    "chain_sum": Family(lambda metadata: metadata["expression"], chain_steps),
    "basic_arithmetic": Family(arithmetic_canonical, arithmetic_steps),
    "simple_equations": Family(equation_canonical, equation_steps),
}


def problem_id(task: str, canonical: str) -> str:
    return hashlib.sha256(f"{task}: {canonical}".encode()).hexdigest()[:12]


def split_of(identifier: str) -> str:
    return SPLIT_OF[int(identifier, 16) % 100]


def generate(task: str, options: dict[str, Any], size: int, seed: int) -> Iterator[Problem]:
    """Distinct problems of one family among `size` draws, in the generator's order."""
    import reasoning_gym

    if task not in FAMILIES:
        raise UserError(f"data.families.{task}: no such family here; known: {', '.join(FAMILIES)}")
    family, seen = FAMILIES[task], set()
    for entry in reasoning_gym.create_dataset(task, size=size, seed=seed, **options):
        canonical = family.canonical(entry["metadata"])
        if canonical is None or canonical in seen:
            continue
        seen.add(canonical)
        # basic_arithmetic's own answer to 10 + 2 * 3 - 4 is 32: a gold that the solution contradicts is no gold.
        if str(family.steps(entry["metadata"])[-1][1]) == str(entry["answer"]):
            scored = json.dumps(entry, sort_keys=True)
            yield Problem(problem_id(task, canonical), task, entry["question"], str(entry["answer"]), scored)


def steps_of(problem: Problem) -> list[Step]:
    """The solution of a problem; the last step gives the answer."""
    return FAMILIES[problem.task].steps(json.loads(problem.entry)["metadata"])
