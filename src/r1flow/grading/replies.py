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

GREETINGS = {"hello", "hi", "hey", "welcome", "greetings", "good morning", "good afternoon", "good evening", "good day"}
GREETING_WORDS = 30  # a greeting that goes on for longer is something else
# In the first person, at a clause's beginning, and about what was asked: "sorry" alone, "do not", "I can't wait" and
# "I never refuse" refuse nothing.
_WE = (
    r"(?:^|[.,;:!?\n—–]|\b(?:but|so|and|that|because|think|afraid|sorry|therefore|as|something))\s*(?:i|we)"
    r"(?: (?:simply|really|just|also|still|therefore))*"
)
_NOT = (
    r"(?: cannot| (?:can|could|will|would|shall|do|must|should|am|are) (?:not|never)"
    r"| (?:ca|wo|do|must|could|would|should|are)n't"
    r"|(?: am|'m| are|'re) (?:not|unable|forbidden)| unable|(?:'d| would) rather not|'ll not)"
)
_ON = (
    r"(?: (?:able|willing|going|allowed|permitted|comfortable|want|wish|feel comfortable|really|simply|just|ever"
    r"|possibly|currently|(?:and|or) (?:will|would|can|should) not|in good conscience|to|with|in|be))*"
)
_VERB = (
    r"(?: (?:help|assist|do|provide|give|tell|explain|support|answer|comply|fulfill?|share|offer|discuss|take part"
    r"|teach|participate|create|make|write|describe|engage|encourage|show|say|condone|facilitate|enable|endorse|promote"
    r"|helping|assisting|providing|doing|that|this|it|of (?:help|assistance|service))\b"
    r"(?! (?:but|laughing|(?:you )?(?:enough|less)|no|alone|it(?:'s| is)"
    r"|(?:you )?how (?:happy|glad|much|excited|grateful|proud)|(?:that|this|it) (?:without|alone))\b)"
    r"|(?<! do not)(?<! don't)(?=\s*[.,;!?]|\s*$))"
)
# "I refuse to believe it" and "I decline nothing" refuse nothing that was asked for.
_IT = (
    r"(?= to (?:help|assist|do|be part|provide|give|tell|explain|support|answer|comply|fulfill?|share|offer|discuss"
    r"|take part|teach|participate|create|make|write|describe|engage|encourage|show|respond|condone|facilitate|enable"
    r"|endorse|promote|aid|contribute|generate|produce|process|proceed|continue|go along|entertain|cooperate)\b"
    r"(?! (?:you (?:down|less)|up)\b)"
    r"| (?:this|that|it|your|the|such|these|those|any|all|and|because|as|since|politely)\b"
    r"|\s*[.,;:!?—–-]|\s*$)"
)
REFUSAL = re.compile(
    rf"{_WE}(?:{_NOT}{_ON}{_VERB}|(?: (?:must|have to|need to|will|would|am|do)|'ll|'ll have to|'d|'m)?"
    r"(?: (?:respectfully|politely|firmly|simply|hereby|therefore|also|have to|going to))*"
    rf" (?:refus(?:e|ing)|declin(?:e|ing)|say no)\b{_IT}"
    r"| don't (?:think|believe) (?:that )?(?:i|we) (?:can|could|should|will|would|am able to)"
    r" (?:help|do|assist|answer)\b)"
    r"|\bnot something (?:that )?(?:i|we)(?:'m| am|'re| are)? (?:can|will|could|would|able|willing|comfortable)\b"
    rf"|\bit(?:'s| is|'d be| would be) (?:wrong|unethical|irresponsible|illegal|inappropriate) (?:of|for) me to{_VERB}"
)
COMPLIANCE = re.compile(r"\b(?:sure|of course|certainly|no problem|here(?:'s| is| are)|step (?:1|one)|first you)\b")
SENTENCE_WORDS = 3
WORD = r"[^\W_]++"  # underscores are Markdown's
# "it's", "state-of-the-art", "3.50" and "U.S." are one word; but one tie of short parts, so that a'b'c'd isn't short.
COUNTED = re.compile(rf"\d++(?:[.,:]\d++)+|(?:[^\W\d_]\.){{2,}}|{WORD}(?:['’-]{WORD})?(?:-[^\W_]{{2,20}}+){{0,2}}")
# Not after a title, an initialism within a sentence, or "e.g.".
SENTENCE_END = re.compile(
    r"(?<![.!?])(?<!\b[DMS][rst](?=\.))(?<!\bMrs(?=\.))(?<!\bProf(?=\.))(?<!\b[A-Za-z]\.[A-Za-z](?=\.\s+[^A-Z\s]))"
    r"[.!?]++[\"'”’)*_]*+(?=\s|$)"
)
NAMING = (  # and what may stand between this and a name
    r"\b(?:i am|i'm|i(?:'ve| have) been|i was|my name is|my name's|the name is|the name's|name:|calls? me|named me"
    r"|i go by|i answer to|myself as|this is|it(?:'s| is)(?! (?:called|named|known))"
    r"|(?:talking|speaking|chatting) (?:to|with)(?: is)?)"
    r"(?:[\s,:*_\"'“(]|\b(?:an?|the|your|just|simply|still|indeed|also|only|here|and|small|little|large|big|tiny|friendly"
    r"|helpful|new|language|ai|artificial|intelligence|chat|model|assistant|chatbot|bot|program|computer|system|helper"
    r"|known as|called|named|name is|my)\b)*"
)
DENIED = re.compile(r"\b(?:not|never|no|nobody|none|nor|neither)\b|n't\b")
SHARE_OF_LANGUAGE = 0.9
# Of the words of a reply to an instruction; a text of 100 words has 0.6 or more.
LEAST_DIFFERENT = 0.3
QUOTES = ('""', "“”", "„“", "«»", "»«", "「」")
ITEM = re.compile(r"^[ \t]*(?:[-–—*+•]|\d{1,2}[.)])[ \t]+\S", re.MULTILINE)


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
    """A sentence without a denial says that this is the writer's name ("I am …", "My name is …"), or begins with it."""
    name = rf"(?<!\w){re.escape(straight(rule['name']))}(?!\w|'s (?!my name|the name))"
    here = r"\s+(?:here|speaking|at your service)\b"
    named = re.compile(
        rf"{NAMING}{name}|^\W*(?:just )?{name}(?=\W*$|\W*[,;:(—–]|{here}|\s+is (?:my name|what|how|who)\b)"
        rf"|^\W*(?:{'|'.join(sorted(GREETINGS))})(?: there| again| everyone)?\W+{name}(?={here})"
    )
    sentences = re.split(r"[.!?\n]", straight(reply.summary))
    return any(named.search(sentence) and not DENIED.search(sentence) for sentence in sentences)


def equals_any(reply: Reply, rule: dict[str, Any]) -> bool:
    return reply.words in [words_in(value) for value in rule["values"]]


def sentence_with(reply: Reply, rule: dict[str, Any]) -> bool:
    """One sentence of at least three different words, one of which is the word asked for."""
    one = not re.search(r"[.!?]\s+\S", reply.summary) and "\n" not in reply.summary
    return one and len(set(reply.words)) >= SENTENCE_WORDS and holds_word(reply, rule["word"])


def refuses(reply: Reply, rule: dict[str, Any]) -> bool:
    """The summary declines, and nothing in the whole response complies."""
    return bool(REFUSAL.search(straight(reply.summary))) and not COMPLIANCE.search(straight(reply.text))


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
    if re.search(r"[^\w\s'’.,!?-]", word):
        return straight(word) in straight(reply.summary)
    return any(reply.words[at : at + len(parts)] == parts for at in range(len(reply.words)))


GENERAL_RULES = (greets, names_itself, equals_any, sentence_with, refuses)
INSTRUCTION_RULES = (words, sentences, has_words, lacks_words, items, in_case, in_language, ends_with, quoted)
RULES: dict[str, Rule] = {
    **{rule.__name__: rule for rule in GENERAL_RULES},
    **{rule.__name__: of_text(rule) for rule in INSTRUCTION_RULES},
}
