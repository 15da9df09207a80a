"""Does a reply to a general prompt do what it must? Each prompt has a rule, so no reward model grades its own pupil.

A rule is the JSON in a prompt's `check`:

    {"type": "greets"}
    {"type": "names_itself", "name": "r1flow"}
    {"type": "equals_any", "values": ["Der Hund schläft.", "der Hund schläft"]}
    {"type": "sentence_with", "word": "river"}
    {"type": "refuses"}

and, for instructions that a rule can check (as IFEval's, arXiv 2311.07911),

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
from typing import Any, NamedTuple

from r1flow.core.errors import UserError
from r1flow.core.language import consistency, visible
from r1flow.core.template import Response
from r1flow.grading.introductions import introduces
from r1flow.grading.refusals import is_refusal

GREETINGS = {"hello", "hi", "hey", "welcome", "greetings", "good morning", "good afternoon", "good evening", "good day"}
GREETING_WORDS = 30  # a greeting that goes on for longer is something else
COMPLIANCE = re.compile(r"\b(?:sure|of course|certainly|no problem|here(?:'s| is| are)|step (?:1|one)|first you)\b")
SENTENCE_WORDS = 3
WORD = r"[^\W_]++"  # underscores are Markdown's
# "it's", "state-of-the-art", "3.50" and "U.S." are one word; but one tie of short parts, so that a'b'c'd isn't short.
COUNTED = re.compile(
    rf"\d++(?:[.,:]\d++)+|(?:[^\W\d_]\.){{2,}}|{WORD}(?:['’-]{WORD})?(?:['’]s\b)?(?:-[^\W_]{{2,20}}+){{0,2}}"
)
# Not after a title, an initial, "e.g.", "vs." or a list's number, nor after "etc." or "No." within a sentence.
SENTENCE_END = re.compile(
    r"(?<![.!?])(?<!^\d(?=\.))(?<!\b[A-HJ-Z](?=\.))(?<!\bvs(?=\.))(?<!\betc(?=\.\s+[a-z]))(?<!\bNo(?=\.\s+\d))"
    r"(?<!\b[DMS][rst](?=\.))(?<!\bMrs(?=\.))(?<!\bProf(?=\.))(?<!\b[A-Za-z]\.[A-Za-z](?=\.\s+[^A-Z\s]))"
    r"[.!?]++[\"'”’)*_]*+(?=\s|$)",
    re.MULTILINE,
)
STYLE_MARKS = re.compile(r"[*`]|(?<!\w)_|_(?!\w)")  # Markdown's, around words
SHARE_OF_LANGUAGE = 0.9
# Of the words of a reply to an instruction; a text of 100 words has 0.6 or more.
LEAST_DIFFERENT = 0.3
QUOTES = ('""', "“”", "„“", "«»", "»«", "「」")
ITEM = re.compile(r"^[ \t]*(?:[-–—*+•]|(?:\*\*)?\d{1,2}[.)](?:\*\*)?)[ \t]+\S", re.MULTILINE)


class Reply(NamedTuple):
    """A response as the rules see it."""

    text: str  # all of it
    summary: str  # what a user reads
    words: list[str]  # the summary's, without case and punctuation


Rule = Callable[[Reply, dict[str, Any]], bool]


def passes(check: str, response: str) -> bool:
    """Whether a response passes its prompt's rule; an unknown rule raises, but no text of a model does."""
    rule = json.loads(check)
    if rule.get("type") not in RULES:
        raise UserError(f"check {check}: type must be one of {', '.join(RULES)}")
    summary = Response.parse(response).summary
    return RULES[rule["type"]](Reply(response, summary, words_in(summary)), rule)


def greets(reply: Reply, rule: dict[str, Any]) -> bool:
    """Opens with a greeting and soon comes to an end."""
    opens = " ".join(reply.words[:1]) in GREETINGS or " ".join(reply.words[:2]) in GREETINGS
    return opens and len(reply.words) <= GREETING_WORDS


def names_itself(reply: Reply, rule: dict[str, Any]) -> bool:
    """A sentence says that this is the writer's name ("I am …", "My name is …"), or begins with it."""
    return introduces(straight(reply.summary), straight(rule["name"]))


def equals_any(reply: Reply, rule: dict[str, Any]) -> bool:
    return reply.words in [words_in(value) for value in rule["values"]]


def sentence_with(reply: Reply, rule: dict[str, Any]) -> bool:
    """One sentence of at least three different words, one of which is the word asked for."""
    holds = holds_word(reply, rule["word"])
    one = not re.search(r"[.!?]\s+\S", reply.summary) and "\n" not in reply.summary
    return one and len(set(reply.words)) >= SENTENCE_WORDS and holds


def refuses(reply: Reply, rule: dict[str, Any]) -> bool:
    """The summary declines, and nothing in the whole response complies."""
    return is_refusal(STYLE_MARKS.sub("", straight(reply.summary))) and not COMPLIANCE.search(straight(reply.text))


def words(reply: Reply, rule: dict[str, Any]) -> bool:
    """As many words as the bounds allow; a bound of null doesn't count."""
    count = len(COUNTED.findall(visible(reply.summary)))
    return (rule["least"] or 0) <= count and (rule["most"] is None or count <= rule["most"])


def sentences(reply: Reply, rule: dict[str, Any]) -> bool:
    """So many sentences, by their full stops; what follows the last of them is one more."""
    with_words = [part for part in SENTENCE_END.split(reply.summary) if words_in(part)]
    return len(with_words) == rule["count"]


def has_words(reply: Reply, rule: dict[str, Any]) -> bool:
    return all(holds_word(reply, word) for word in rule["words"])


def lacks_words(reply: Reply, rule: dict[str, Any]) -> bool:
    return not any(holds_word(reply, word) for word in rule["words"])


def items(reply: Reply, rule: dict[str, Any]) -> bool:
    return len(ITEM.findall(reply.summary)) == rule["count"]


def in_case(reply: Reply, rule: dict[str, Any]) -> bool:
    return reply.summary.islower() if rule["case"] == "lower" else reply.summary.isupper()


def in_language(reply: Reply, rule: dict[str, Any]) -> bool:
    """At least nine words of ten in the language, by the language-consistency reward's measure."""
    if rule["language"] not in rule["languages"]:
        raise UserError(f"languages: {rule['language']} isn't among them")
    share = consistency(reply.summary, rule["language"], tuple(rule["languages"]))
    return share is not None and share >= SHARE_OF_LANGUAGE


def ends_with(reply: Reply, rule: dict[str, Any]) -> bool:
    ending = words_in(rule["text"])
    return reply.words[-len(ending) :] == ending


def quoted(reply: Reply, rule: dict[str, Any]) -> bool:
    summary = reply.summary.strip("*_ \n")
    return summary[:1] + summary[-1:] in QUOTES


def of_text(rule: Rule) -> Rule:
    """The rule, for replies with a few different words of their own, which aren't repeated all the time.

    The words that the rule asks for don't count: asked to end with "That is all.", a model learnt to say just that.
    """

    def checked(reply: Reply, options: dict[str, Any]) -> bool:
        # In any case, so that a damaged rule is found whatever the text says.
        followed = rule(reply, options)
        asked_for = words_in(" ".join([*options.get("words", ()), options.get("text", "")]))
        different = set(reply.words)
        own = different.difference(asked_for)
        return followed and len(own) >= SENTENCE_WORDS and len(different) >= LEAST_DIFFERENT * len(reply.words)

    return checked


def straight(text: str) -> str:
    """What can be seen, in lower case with straight apostrophes."""
    return visible(text).casefold().replace("’", "'")


def words_in(text: str) -> list[str]:
    """The words, without case, punctuation, spacing and what can't be seen; letters keep their accents."""
    return re.findall(WORD, visible(text).casefold())


def holds_word(reply: Reply, word: str) -> bool:
    """Whether a word is in a reply; one with spaces, hyphens or apostrophes if its parts follow each other.

    One with other signs ("C++") must stand there as it is.
    """
    parts = words_in(word)
    if re.search(r"[^\w\s'’.,!?-]|\w_\w", word):
        return straight(word) in straight(reply.summary)
    if not parts:
        raise UserError(f"word: {word!r} has no letter and no digit")
    return any(reply.words[at : at + len(parts)] == parts for at in range(len(reply.words)))


GENERAL_RULES = (greets, names_itself, equals_any, sentence_with, refuses)
INSTRUCTION_RULES = (words, sentences, has_words, lacks_words, items, in_case, in_language, ends_with, quoted)
RULES: dict[str, Rule] = {
    **{rule.__name__: rule for rule in GENERAL_RULES},
    **{rule.__name__: of_text(rule) for rule in INSTRUCTION_RULES},
}
