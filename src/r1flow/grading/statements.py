"""Answers on the way: every answer that a thought states, in English or German, not only its final one.

    statements("8 + 6 = 15, so the answer is 15, wait, that is wrong, also ist das Ergebnis 14.")    # ["15", "14"]

docs/claims.md ("Self-correction") says what is measured with them. final.py chooses the one answer that a reward
grades; it doesn't need this module, so an edit here reruns no training. Left out: answers in words without a box.
"""

import re

from r1flow.grading.answers import plain_number
from r1flow.grading.final import BOX, UNSURE, boxes, candidate
from r1flow.grading.math import NAME

NOUN = r"(?:answer|result|solution|antwort|ergebnis|lösung)"
SAYS = re.compile(
    rf"\b(?:ist|lautet|is)\s(?:das|die|the)\s{NOUN}\b(?!\s(?:is|ist|lautet)\b)"  # also ist das Ergebnis 14
    rf"|\b{NOUN}\b(?:\s(?:to|of|for|der|des|auf)\b[^.,;:!?=\n]{{1,60}}?)?"
    r"[\s*]*(?:[:=]|\b(?:is|ist|lautet|equals|(?:must|should|would|will) be)\b)",
    re.IGNORECASE,
)
SAID = re.compile(  # to the clause's end
    r"[\s:=*]*(?:(?:therefore|thus|then|now|also|hence)\s)?([^<\n]{1,200}?)"
    r"(?:[.;!?](?=\s|$)|,(?=\s+[^\W\d]|$)|\s(?=(?:because|since|which|so|then|but|weil|denn|aber)\b)|[<\n]|$)"
)
FORMULA = re.compile(r"^\$([^$]*)\$$|^\\\((.*)\\\)$")
UNDECIDED = re.compile(rf"{UNSURE.pattern}|\b(?:nicht|kein|oder|falsch|vielleicht)\b|\?", re.IGNORECASE)


def statements(text: str) -> list[str]:
    r"""Every answer that a text states, first one first: what is in a box, or said after "the answer is", "result =".

    What is denied, asked or left open is no answer, nor are words outside of a box without a digit or formula.
    """
    return [text[start:end] for start, end in spans(text)]


def spans(text: str) -> list[tuple[int, int]]:
    """Where each answer that `statements` finds begins and ends."""
    places = [(box.end - 1 - len(box.inside), box.end - 1) for box in boxes(text)]
    for match in SAYS.finditer(text):
        said = SAID.match(text, match.end())
        if said and re.search(r"[\d$\\]", said[1]) and not any(p.search(said[0]) for p in (BOX, SAYS, UNDECIDED)):
            places.append((said.start(1), said.start(1) + len(said[1].rstrip(" *"))))
    return sorted(places)


def graded_statements(thought: str, entry_json: str | None) -> list[str]:
    """The texts that are graded as the answers which a thought states; as in generated.answer_of, by the row's kind."""
    read = candidate if entry_json is None else number_stated
    return [read(answer) for answer in statements(thought)]


def number_stated(text: str) -> str:
    """The number of a statement that is one with its name or as a formula, 13 of $x = 13$; else all of the statement.

    Scorers want exact text, which an answer on the way needn't be.
    """
    unnamed = NAME.sub("", FORMULA.sub(r"\1\2", text).strip())
    bare = FORMULA.sub(r"\1\2", unnamed).strip()
    return bare if plain_number(bare) else text
