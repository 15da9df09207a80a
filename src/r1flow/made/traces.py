"""Chains of thought in words and arithmetic, in English and in German, written from a problem's steps.

    english  "we start with 84 - 29 = 55, then 55 + 3 = 58, so the result is 58"
    german   "wir beginnen mit 84 - 29 = 55, dann haben wir 55 + 3 = 58, also ist das ergebnis 58"

Every clause has words whose language can be told. `mixed` changes language from clause to clause, as R1-Zero does. Some
traces make a slip and correct it ("wait, ..."), some have one wrong number: the base model's texts are not all true.
"""

from random import Random

from r1flow.made.tasks import Step
from r1flow.template import ANSWER_CLOSE, ANSWER_OPEN, THINK_CLOSE, THINK_OPEN

FIRST = {"en": ["we start with", "first we compute"], "de": ["wir beginnen mit", "zuerst rechnen wir"]}
NEXT = {"en": ["then we get", "after that we have"], "de": ["dann haben wir", "danach ergibt sich"]}
LAST = {"en": ["so the result is"], "de": ["also ist das ergebnis"]}
SLIP = {"en": "wait, that is not right, it is", "de": "warte, das ist nicht richtig, es ist"}
SUMMARY = {"en": "the result is", "de": "das ergebnis ist"}


def reasoning(steps: list[Step], random: Random, language: str = "en", slip: float = 0.0, wrong: float = 0.0) -> str:
    """The steps as prose. `slip`: probability of a slip that is corrected; `wrong`: of a last number that is off."""

    def say(words: dict[str, list[str]]) -> str:
        return random.choice(words[random.choice(["en", "de"]) if language == "mixed" else language])

    clauses = []
    slipped = random.randrange(len(steps)) if random.random() < slip else -1
    for number, (expression, value) in enumerate(steps):
        lead = say(NEXT if number else FIRST)
        if number == slipped:
            correction = SLIP["de" if language == "de" else "en"]
            clauses.append(f"{lead} {expression} = {off(value, random)}, {correction} {value}")
        else:
            clauses.append(f"{lead} {expression} = {value}")
    result = steps[-1][1]
    clauses.append(f"{say(LAST)} {off(result, random) if random.random() < wrong else result}")
    return ", ".join(clauses)


def off(value: int, random: Random) -> int:
    """A number near `value` that isn't it."""
    return value + random.choice([-10, -2, -1, 1, 2, 10])


def tagged(thought: str, answer: str, summary: str = "") -> str:
    """Reasoning and answer between their tags; `summary` are the words before the answer."""
    return f"{THINK_OPEN}{thought}{THINK_CLOSE}{summary}{ANSWER_OPEN}{answer}{ANSWER_CLOSE}"


def cold_start(steps: list[Step], random: Random) -> str:
    """The readable pattern of section 2.3.1: English reasoning, then a summary that carries the answer."""
    return tagged(reasoning(steps, random), str(steps[-1][1]), f"{SUMMARY['en']} ")
