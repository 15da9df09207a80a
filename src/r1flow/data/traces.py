"""Chains of thought, written from the steps that solve a problem, in English, in German, or in both by turns.

    trace(worked, rng, ("en",))         "first 8 + 16 = 24, then 24 - 19 = 5, so the result is 5."
    trace(worked, rng, ("en", "de"))    "zuerst 8 + 16 = 24, then 24 - 19 = 5, also ist das Ergebnis 5."

A language identifier must label every phrase between two formulae correctly on its own; a test checks that. Left
out: wording that depends on the family, so that what a model learns on one family helps with the others.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from r1flow.core.template import ANSWER_CLOSE, ANSWER_OPEN, THINK_CLOSE, THINK_OPEN
from r1flow.data.tasks import Step, Worked, apply


@dataclass(frozen=True)
class Voice:
    """The phrases of one language."""

    openers: tuple[str, ...]
    careful: tuple[str, ...]  # openers of a chain that splits its hard steps
    links: tuple[str, ...]  # between steps
    closers: tuple[str, ...]  # before the answer, inside the reasoning
    doubts: tuple[str, ...]  # before a step is computed again
    relief: tuple[str, ...]  # when it was right
    regret: tuple[str, ...]  # when it was wrong
    summaries: tuple[str, ...]  # before the answer, after the reasoning
    empty: tuple[str, ...]  # reasoning without any


VOICES = {
    "en": Voice(
        openers=("first", "we start with", "let me see"),
        careful=("step by step", "slowly, first"),
        links=("then", "then", "next", "and then"),
        closers=("so the result is", "so the answer is"),
        doubts=("wait, let me check", "wait, I check again"),
        relief=("that is right", "it is right"),
        regret=("wait, that is wrong", "no, that is wrong"),
        summaries=("the result is", "the answer is"),
        empty=("this is easy", "I know this"),
    ),
    "de": Voice(
        openers=("zuerst", "wir beginnen mit", "mal sehen"),
        careful=("Schritt für Schritt", "langsam, zuerst"),
        links=("dann", "dann", "nun", "und dann"),
        closers=("also ist das Ergebnis", "also ist die Antwort"),
        doubts=("stimmt das", "ich prüfe das noch einmal"),
        relief=("das stimmt", "ja, das stimmt"),
        regret=("nein, das ist falsch", "das ist falsch"),
        summaries=("das Ergebnis ist", "die Antwort ist"),
        empty=("das ist leicht", "das weiß ich"),
    ),
}


def trace(
    worked: Worked,
    rng: random.Random,
    languages: Sequence[str],
    reflect: float = 0.0,
    careful: float = 0.0,
    answer: str | None = None,
) -> str:
    """The chain of thought in words; each phrase in one of `languages`.

    `reflect` is the chance of one reflection: a step is computed again, or found wrong and put right. `careful` is the
    chance that hard steps are split, which the chain says first: "step by step 59 * 8 = 400 + 72 = 472". `answer` is
    what the chain says at its end (default: the right one).
    """
    is_careful = rng.random() < careful
    write = in_parts if is_careful else written

    def say(phrases: str) -> str:
        return rng.choice(getattr(VOICES[rng.choice(languages)], phrases))

    looked_at = rng.randrange(len(worked.steps)) if rng.random() < reflect else None
    clauses = []
    for number, step in enumerate(worked.steps):
        lead = say("links" if number else "careful" if is_careful else "openers")
        if number != looked_at:
            clauses.append(f"{lead} {write(step)}")
        elif rng.random() < 0.5:
            clauses += [f"{lead} {write(step)}", f"{say('doubts')}: {write(step)}", say("relief")]
        else:
            clauses += [f"{lead} {write(mistaken(step, rng))}", f"{say('regret')}: {write(step)}"]
    return f"{', '.join(clauses)}, {say('closers')} {answer or worked.problem.answer}."


def written(step: Step) -> str:
    return f"{step[0]} = {step[1]}"


def in_parts(step: Step) -> str:
    """A step by way of easier ones, "59 * 8 = 400 + 72 = 472" and "83 - 47 = 43 - 7 = 36"; an easy one as it is.

    A product is that of the tens and that of the ones; sums and differences take the second number digit by digit.
    """
    text, value = step
    left, operator, right = text.split()
    a, b = int(left), int(right)
    between = []
    if operator == "*" and a > 9 and a % 10 and b > 1:
        between = [f"{a // 10 * 10 * b} + {a % 10 * b}"]
    elif operator in "+-":
        places = [place for place in (1000, 100, 10) if b >= place and b % place]
        between = [f"{apply(a, operator, b - b % place)[1]} {operator} {b % place}" for place in places]
    return " = ".join((text, *dict.fromkeys(between), str(value)))


def mistaken(step: Step, rng: random.Random) -> Step:
    """The step with a value that is a little wrong."""
    text, value = step
    return text, max(0, value + rng.choice((-10, -2, -1, 1, 2, 10))) if value > 1 else value + rng.choice((1, 2))


def with_error(worked: Worked, rng: random.Random) -> Worked:
    """The same problem with one wrong step; if it is the last step, the answer is wrong accordingly."""
    index = rng.randrange(len(worked.steps))
    steps = list(worked.steps)
    steps[index] = mistaken(steps[index], rng)
    return Worked(worked.problem, worked.short, tuple(steps))


def conclusion(worked: Worked, original: Worked) -> str:
    """The answer of a chain with an error: its last value, if the right answer is the last value of the right chain."""
    last, right = worked.steps[-1][1], original.steps[-1][1]
    return str(last) if last != right and str(right) == original.problem.answer else original.problem.answer


def tagged(reasoning: str, answer: str, summary: str = "") -> str:
    """A response in the tags of the R1 report; `summary` stands before the answer."""
    return f"{THINK_OPEN}{reasoning}{THINK_CLOSE}{f'{summary} ' if summary else ''}{ANSWER_OPEN}{answer}{ANSWER_CLOSE}"


def cold_start_response(worked: Worked, rng: random.Random, reflect: float, careful: float) -> str:
    """A long chain of thought in readable English, then a summary with the answer."""
    reasoning = trace(worked, rng, ("en",), reflect, careful)
    return tagged(reasoning, worked.problem.answer, rng.choice(VOICES["en"].summaries))
