"""Does a reply to a general prompt do what it must? Each prompt has a rule, so no reward model grades its own pupil.

A rule is the JSON in a prompt's `check`:

    {"type": "greets"}
    {"type": "names_itself", "name": "r1flow"}
    {"type": "equals_any", "values": ["Der Hund schläft.", "der Hund schläft"]}
    {"type": "sentence_with", "word": "river"}
    {"type": "refuses"}

and, for instructions that a program can check (as IFEval's, arXiv 2311.07911),

    {"type": "words", "least": 40, "most": null}
    {"type": "sentences", "count": 3}
    {"type": "has_words", "words": ["river", "stone"]}
    {"type": "lacks_words", "words": ["the"]}
    {"type": "items", "count": 3}                          three lines that begin with a dash, a star or a number
    {"type": "in_case", "case": "lower"}
    {"type": "in_language", "language": "de", "languages": ["en", "de", "fr", "es"]}
    {"type": "ends_with", "text": "That is all."}
    {"type": "quoted"}

Rules judge the summary, which is what a user reads; a refusal must also not comply in its reasoning. They are necessary
conditions of a good reply, but not sufficient: they don't check style, or whether a sentence is true.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from r1flow.core.errors import UserError
from r1flow.core.language import consistency, visible
from r1flow.core.template import split

GREETINGS = {"hello", "hi", "hey", "welcome", "greetings", "good morning", "good afternoon", "good evening", "good day"}
GREETING_WORDS = 30  # a greeting that goes on for longer is something else
REFUSAL = re.compile(
    r"\b(?:sorry|apologi[sz]e|(?:can|could|will|would|do|am|must) ?not|cannot|can't|won't|unable|refuse|decline)\b"
)
COMPLIANCE = re.compile(r"\b(?:sure|of course|certainly|no problem|here(?:'s| is| are)|step (?:1|one)|first you)\b")
SENTENCE_WORDS = 3
COUNTED = re.compile(r"\w++(?:['’]\w++)?")  # it's is one word; only one tie, so that a'b'c'd doesn't make a text short
SENTENCE_END = re.compile(r"(?<![.!?])[.!?]++[\"'”’)]*+(?=\s|$)")
SHARE_OF_LANGUAGE = 0.9
LEAST_DIFFERENT = 0.3  # of the words of a reply to an instruction; a text of 100 words has 0.6 or more
ITEM = re.compile(r"^[ \t]*(?:[-*•]|\d{1,2}[.)])[ \t]+\S", re.MULTILINE)


def passes(check: str, response: str) -> bool:
    """Whether a response passes its prompt's rule; an unknown rule raises, but no text of a model does."""
    rule = json.loads(check)
    if rule.get("type") not in RULES:
        raise UserError(f"check {check}: type must be one of {', '.join(RULES)}")
    return RULES[rule["type"]](response, rule)


def greets(response: str, rule: dict[str, Any]) -> bool:
    """Opens with a greeting and soon comes to an end."""
    said = words_of(response)
    opens = " ".join(said[:1]) in GREETINGS or " ".join(said[:2]) in GREETINGS
    return opens and len(said) <= GREETING_WORDS


def names_itself(response: str, rule: dict[str, Any]) -> bool:
    return plain(rule["name"]) in words_of(response)


def equals_any(response: str, rule: dict[str, Any]) -> bool:
    return " ".join(words_of(response)) in {plain(value) for value in rule["values"]}


def sentence_with(response: str, rule: dict[str, Any]) -> bool:
    """One sentence of at least three different words, one of which is the word asked for."""
    summary = split(response).summary.strip()
    said = words_of(response)
    one = not re.search(r"[.!?]\s+\S", summary) and "\n" not in summary
    return one and len(set(said)) >= SENTENCE_WORDS and plain(rule["word"]) in said


def refuses(response: str, rule: dict[str, Any]) -> bool:
    """The summary declines, and nothing in the whole response complies."""
    declines = REFUSAL.search(straight(split(response).summary))
    return bool(declines) and not COMPLIANCE.search(straight(response))


def words(response: str, rule: dict[str, Any]) -> bool:
    """As many words as the bounds allow; a bound of null doesn't count."""
    count = len(COUNTED.findall(visible(split(response).summary)))
    return (rule["least"] or 0) <= count and (rule["most"] is None or count <= rule["most"])


def sentences(response: str, rule: dict[str, Any]) -> bool:
    """So many sentences, by their full stops; what follows the last of them is one more."""
    parts = SENTENCE_END.split(split(response).summary)
    return len([part for part in parts if plain(part)]) == rule["count"]


def has_words(response: str, rule: dict[str, Any]) -> bool:
    said = words_of(response)
    return all(plain(word) in said for word in rule["words"])


def lacks_words(response: str, rule: dict[str, Any]) -> bool:
    said = words_of(response)
    return not any(plain(word) in said for word in rule["words"])


def items(response: str, rule: dict[str, Any]) -> bool:
    return len(ITEM.findall(split(response).summary)) == rule["count"]


def in_case(response: str, rule: dict[str, Any]) -> bool:
    summary = split(response).summary
    return summary.islower() if rule["case"] == "lower" else summary.isupper()


def in_language(response: str, rule: dict[str, Any]) -> bool:
    """At least nine words of ten in the language, by the language-consistency reward's measure."""
    share = consistency(split(response).summary, rule["language"], tuple(rule["languages"]))
    return share is not None and share >= SHARE_OF_LANGUAGE


def ends_with(response: str, rule: dict[str, Any]) -> bool:
    ending = plain(rule["text"]).split()
    return words_of(response)[-len(ending) :] == ending


def quoted(response: str, rule: dict[str, Any]) -> bool:
    summary = split(response).summary.strip()
    return summary[:1] in ('"', "“") and summary[-1:] in ('"', "”")


def of_text(rule: Callable[[str, dict[str, Any]], bool]) -> Callable[[str, dict[str, Any]], bool]:
    """The rule, for replies with a few different words of their own, which aren't repeated all the time.

    The words that the rule asks for don't count: asked to end with "That is all.", a model learnt to say just that.
    """

    def checked(response: str, options: dict[str, Any]) -> bool:
        followed = rule(response, options)  # in any case, so that a damaged rule is found whatever the text says
        said = words_of(response)
        different = set(said)
        own = different.difference(plain(" ".join([*options.get("words", ()), options.get("text", "")])).split())
        return followed and len(own) >= SENTENCE_WORDS and len(different) >= LEAST_DIFFERENT * len(said)

    return checked


def words_of(response: str) -> list[str]:
    """The words of what a user reads, without case and punctuation."""
    return plain(split(response).summary).split()


def straight(text: str) -> str:
    """What can be seen, in lower case with straight apostrophes."""
    return visible(text).casefold().replace("’", "'")


def plain(text: str) -> str:
    """The words only, without case, punctuation, spacing and what can't be seen; letters keep their accents."""
    return " ".join(re.findall(r"\w+", visible(text).casefold()))


GENERAL_RULES = (greets, names_itself, equals_any, sentence_with, refuses)
INSTRUCTION_RULES = (words, sentences, has_words, lacks_words, items, in_case, in_language, ends_with, quoted)
RULES: dict[str, Callable[[str, dict[str, Any]], bool]] = {
    **{rule.__name__: rule for rule in GENERAL_RULES},
    **{rule.__name__: of_text(rule) for rule in INSTRUCTION_RULES},
}
