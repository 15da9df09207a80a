"""What is reflection worth? Thoughts are truncated after their first answer, changed, and continued by their own model.

The model's own sample with <think> given, up to the first answer that it states, becomes the opening of a new one:

    no_reflection      <think>first 8 + 16 = 25, so the result is 25.</think>
    forced_reflection  <think>first 8 + 16 = 25, so the result is 25. wait, let me check
    after_right        <think>first 8 + 16 = 25, so the result is 24. wait, let me check
    after_wrong        <think>first 8 + 16 = 25, so the result is 26. wait, let me check

Reflection that goes by the answer before it solves more after a right one than after a wrong one; to a second try it
makes no difference; without a ritual as many problems are solved. Samples that state no answer in their thought are
left as they are. Left out: steps that are changed too, which takes a parser for each family's.

`no_tools` changes no thought: all reasoning problems are asked again, without the tools of evaluate.environment.
"""

import random
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from r1flow.core.metrics import normalise_answer
from r1flow.core.template import THINK_CLOSE, THINK_OPEN
from r1flow.grading.statements import spans
from r1flow.programs.evaluate.ways import NO_TOOLS
from r1flow.sampling import seed_of

REST = re.compile(r"[}*$]*[.;!?]?")  # what still belongs to a stated answer
# How far a wrong number is from the right one: the slips of our own corpus.
NEAR = (-10, -2, -1, 1, 2, 10)


class Thought(NamedTuple):
    """What a sample with <think> given has between its tags."""

    problem: dict[str, Any]
    index: int
    text: str


def openings(
    thoughts: Iterable[Thought], interventions: Iterable[str], reflection: str, seed: int
) -> dict[str, list[tuple[dict[str, Any], int, str]]]:
    """For each intervention, (problem, sample index, opening) of every thought that states an answer; no code."""
    thoughts = [thought for thought in thoughts if thought.problem["answer"] and spans(thought.text)]
    wrong = dict(wrong_answers([thought.problem for thought in thoughts], seed))
    changed: dict[str, list[tuple[dict[str, Any], int, str]]] = {}
    for name in interventions:
        if name == NO_TOOLS:
            continue
        changed[name] = []
        for problem, index, text in thoughts:
            begun = opening(name, text, problem["answer"], wrong[problem["id"]], reflection)
            changed[name].append((problem, index, begun))
    return changed


def opening(name: str, thought: str, right: str, wrong: str, reflection: str) -> str:
    """The thought up to its first answer, which is changed as the intervention says, and then what it goes on with."""
    start, end = spans(thought)[0]
    stated = {"after_right": right, "after_wrong": wrong}.get(name, thought[start:end])
    begun = f"{THINK_OPEN}{thought[:start]}{stated}{REST.match(thought, end)[0]}"
    return begun + THINK_CLOSE if name == "no_reflection" else f"{begun} {reflection}"


def wrong_answers(problems: Iterable[dict[str, Any]], seed: int) -> Iterator[tuple[str, str]]:
    """A wrong answer by problem id: a number near the right one, or else another problem's answer of its family."""
    unique = {problem["id"]: problem for problem in problems}
    families: dict[str, list[str]] = {}
    for problem in unique.values():
        families.setdefault(problem["task"], []).append(problem["answer"])
    for problem in unique.values():
        rng, right = random.Random(seed_of(seed, problem["id"], 0)), problem["answer"]
        if re.fullmatch(r"-?\d{1,18}", right, re.ASCII):
            yield problem["id"], str(int(right) + rng.choice(NEAR))
            continue
        spelt = normalise_answer(right)
        others = sorted({each for each in families[problem["task"]] if normalise_answer(each) != spelt})
        yield problem["id"], rng.choice(others) if others else "0"
