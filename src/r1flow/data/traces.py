"""Chains of thought, written from the steps that solve a problem, in English, in German, or in both by turns.

    trace(worked, rng, ("en",))         "first 8 + 16 = 24, then 24 - 19 = 5, so the result is 5."
    trace(worked, rng, ("en", "de"))    "zuerst 8 + 16 = 24, then 24 - 19 = 5, also ist das Ergebnis 5."
    … careful                           "first 8 + 16 = 18 + 6 = 24, then 24 - 19 = 14 - 9 = 5, so the result is 5."
    … with reflection                   "first 8 + 16 = 25, then 25 - 19 = 6, so the result is 6. wait, let me check:
                                        8 + 16 = 18 + 6 = 24, then 24 - 19 = 14 - 9 = 5, so the answer is 5."
    … with a calculator                 "first <tool>8 + 16 - 19</tool><result>5</result>, so the result is 5."

A language identifier must label every phrase between two formulae correctly on its own; a test checks that. Left
out: wording that depends on the family, so that what a model learns on one family helps with the others.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from r1flow.core.template import (
    ANSWER_CLOSE,
    ANSWER_OPEN,
    RESULT_CLOSE,
    RESULT_OPEN,
    THINK_CLOSE,
    THINK_OPEN,
    TOOL_CLOSE,
    TOOL_OPEN,
)
from r1flow.data.tasks import Worked, WorkedStep, apply
from r1flow.grading import countdown
from r1flow.grading.countdown import read_terms


@dataclass(frozen=True)
class Voice:
    """The phrases of one language."""

    openers: tuple[str, ...]
    links: tuple[str, ...]  # between steps
    closers: tuple[str, ...]  # before the answer, inside the reasoning
    doubts: tuple[str, ...]  # before all is computed again
    summaries: tuple[str, ...]  # before the answer, after the reasoning
    empty: tuple[str, ...]  # reasoning without any


VOICES = {
    "en": Voice(
        openers=("first", "we start with", "let me see"),
        links=("then", "then", "next", "and then"),
        closers=("so the result is", "so the answer is"),
        doubts=("wait, let me check", "wait, I check again"),
        summaries=("the result is", "the answer is"),
        empty=("this is easy", "I know this"),
    ),
    "de": Voice(
        openers=("zuerst", "wir beginnen mit", "mal sehen"),
        links=("dann", "dann", "nun", "und dann"),
        closers=("also ist das Ergebnis", "also ist die Antwort"),
        doubts=("ich überprüfe das", "ich prüfe das noch einmal"),
        summaries=("das Ergebnis ist", "die Antwort ist"),
        empty=("das ist leicht", "das weiß ich"),
    ),
}


def written(step: WorkedStep) -> str:
    return f"{step[0]} = {step[1]}"


def in_parts(step: WorkedStep) -> str:
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


def write_chain(
    worked: Worked,
    rng: random.Random,
    languages: Sequence[str],
    reflect: float = 0.0,
    slip: float = 0.0,
    answer: str | None = None,
    careful: float = 0.0,
    again: Callable[[WorkedStep], str] = in_parts,
) -> str:
    """The chain of thought in words; each phrase in one of `languages`.

    `reflect` is the chance of reflection: the chain states its answer, doubts it, and computes all again, each step
    written by `again`; what it states then is right. `slip` is the chance that the answer it doubts is wrong. A chain
    without reflection ends with `answer` (default: the right one), and `careful` is the chance that its steps are those
    of `in_parts`.
    """

    def say(phrases: str) -> str:
        return rng.choice(getattr(VOICES[rng.choice(languages)], phrases))

    def chain(steps: Sequence[WorkedStep], lead: str, write: Callable[[WorkedStep], str], answer: str) -> str:
        clauses = [f"{say('links') if number else lead} {write(step)}" for number, step in enumerate(steps)]
        return f"{', '.join(clauses)}, {say('closers')} {answer}."

    right = worked.problem.answer
    if rng.random() >= reflect:
        at_once = in_parts if careful and rng.random() < careful else written
        return chain(worked.steps, say("openers"), at_once, answer or right)
    first = slipped(worked, rng) if rng.random() < slip else worked
    doubted = chain(first.steps, say("openers"), written, conclusion(first, worked))
    checked = chain(worked.steps, say("doubts") + ":", again, right)
    return f"{doubted} {checked}"


def mistaken(step: WorkedStep, rng: random.Random) -> WorkedStep:
    """The step with a value that is a little wrong."""
    text, value = step
    if value > 1:
        return text, max(0, value + rng.choice((-10, -2, -1, 1, 2, 10)))
    return text, value + rng.choice((1, 2))


def slipped(worked: Worked, rng: random.Random) -> Worked:
    """The same problem with one wrong step, whose value the later steps go on with."""
    slip, steps, wrong = rng.randrange(len(worked.steps)), [], {}
    for number, (text, value) in enumerate(worked.steps):
        left, operator, right = text.split()
        a, b = wrong.get(int(left), int(left)), int(right)
        step = apply(a, operator, wrong.get(b, b) if operator == "+" else b)
        step = mistaken(step, rng) if number == slip else (step[0], max(0, step[1]))
        wrong[value] = step[1]
        steps.append(step)
    return Worked(worked.problem, worked.short, tuple(steps))


def conclusion(worked: Worked, original: Worked) -> str:
    """What a chain with a mistake concludes: its own last value, where the original chain concludes with its last."""
    last, right = worked.steps[-1][1], original.steps[-1][1]
    if last != right and str(right) == original.problem.answer:
        return str(last)
    return original.problem.answer


def tagged(reasoning: str, answer: str, summary: str = "") -> str:
    """A response in the tags of the R1 report; `summary` stands before the answer."""
    return f"{THINK_OPEN}{reasoning}{THINK_CLOSE}{f'{summary} ' if summary else ''}{ANSWER_OPEN}{answer}{ANSWER_CLOSE}"


def calls_for(worked: Worked) -> list[WorkedStep]:
    """What a calculator is asked, with its results: the problem itself where it can read that, else each step.

    Empty where it can't read the steps either.
    """
    texts = [worked.short] if read_terms(worked.short) else [text for text, _ in worked.steps]
    calls = []
    for text in texts:
        terms = read_terms(text, remainders=True)
        if terms is None:
            return []
        calls.append((text, int(countdown.value(terms))))
    return calls


def write_calls(calls: Sequence[WorkedStep], rng: random.Random, answer: str) -> str:
    """The chain of thought, in English, in which a tool is asked: calls, each with its result."""
    voice, clauses = VOICES["en"], []
    for text, result in calls:
        lead = rng.choice(voice.links if clauses else voice.openers)
        clauses.append(f"{lead} {TOOL_OPEN}{text}{TOOL_CLOSE}{RESULT_OPEN}{result}{RESULT_CLOSE}")
    return f"{', '.join(clauses)}, {rng.choice(voice.closers)} {answer}."


def cold_start_response(
    worked: Worked, rng: random.Random, reflect: float, slip: float, careful: float = 0.0, tool_share: float = 0.0
) -> str:
    """A chain of thought in readable English (write_chain), then a summary with the answer.

    `tool_share` is the chance that a calculator computes in it, where that can. What only calls solve always has them.
    """
    calls, in_head = worked.calls, worked.prose
    if not calls:
        calls = calls_for(worked) if tool_share and rng.random() < tool_share else []
        in_head = in_head or write_chain(worked, rng, ("en",), reflect, slip, careful=careful)
    reasoning = write_calls(calls, rng, worked.problem.answer) if calls else in_head
    return tagged(reasoning, worked.problem.answer, rng.choice(VOICES["en"].summaries))
