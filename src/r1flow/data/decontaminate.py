"""Finds training texts that leak a benchmark problem: the whole problem, a part of it, or nearly the same text.

    Index([r"find $w$ in the equation \\(11\\cdot w+8=63\\)"]).hits(["Find w in the equation: 11*w + 8 = 63"])
    [Hit(train_index=0, benchmark_index=0, kind=Kind.WHOLE)]

Texts are compared as words: Unicode is folded (NFKC), LaTeX spelt one way, case and punctuation are removed, a sign of
arithmetic belongs to the word that follows it, and in scripts without spaces every character is a word:

    "What is $\\\\frac12 - x$?"  →  what | is | /1 | 2 | -x

The rules, and their sources (a run is a sequence of adjacent words):

- whole: the same words. For texts of fewer than 8 words only this rule and `masked` apply.
- 13-gram: one run of 13 words in common (GPT-3, arXiv 2005.14165, appendix C).
- 8-gram: runs of 8 words in common with one training text cover more than half of the benchmark text's words
  (Tülu 3, arXiv 2411.15124, section 3). One run alone is often a phrase: "how much money does he have left".
- near: at least half of all runs of 3 words are in common (Jaccard). MinHash proposes pairs, the exact value decides;
  MinHash misses a pair at the threshold once in 10^8, so luck has no part in it.
- masked: the same words except for formulas (numbers, their signs, and single letters between these): the same problem
  with other numbers. It is no leak, and the other rules, which would only repeat the match, don't apply to such a pair.

Runs that occur in more than 10 different benchmark texts are common phrases of the benchmark, and are ignored (GPT-3
does this for runs in training texts; but then a leak that is repeated would count as a phrase). Left out: paraphrases
and translations, which need a model.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from rensa import RMinHash, RMinHashLSH

WordSequence = tuple[str, ...]


class Kind(StrEnum):
    """How a training text matches; hits of one pair are listed in this order."""

    WHOLE = "whole"
    GRAM_13 = "13-gram"
    GRAM_8 = "8-gram"
    NEAR = "near"
    MASKED = "masked"
    TEMPLATE = "template"  # leaks.py decides it, by all hits on a benchmark text


@dataclass(frozen=True)
class Hit:
    """A training text that matches a benchmark text."""

    train_index: int
    benchmark_index: int
    kind: Kind


RULE = 1  # increase it when a change alters the hits: reports made by another rule aren't accepted
LONG, SHORT, SHINGLE = 13, 8, 3  # words in a run
# The share of a benchmark text's words that runs of 8 must exceed. One run alone is no leak: 90 of GSM8K's 7,473
# training problems share one with a test problem, and 4 are hits by these rules (docs/decontamination.md).
COVERED = 0.5
NEARNESS = 0.5  # Jaccard
MASK = "0"  # what stands for a formula
COMMON = 10  # most benchmark texts that may share a run
SLOTS, BANDS, SEED = 128, 64, 1  # 64 bands of 2: a pair at 0.5 shares one but for 0.75^64


# How a text is read


SIGNS = r"\-+*/=<>^%!|()\[\]√°±\u2190-\u22ff"
ALONE = (  # scripts without spaces between words
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
NUMBER, LETTER = r"\d+(?:\.\d+)?|\.\d+", rf"[^\W\d_{ALONE}]"
OPERAND = rf"[\s${{}}]*(?:[\d(\[|√∞]|\.\d|{LETTER}(?![^\W_]))"  # a number, a bracket or a single letter
TOKEN = re.compile(rf"[{SIGNS}]++(?:{NUMBER}|[{ALONE}]|{LETTER}+)?|{NUMBER}|[{ALONE}]|{LETTER}+")
SIGN, VARIABLE = re.compile(rf"[{SIGNS}]"), re.compile(LETTER)
FORMULA = re.compile(rf"[{SIGNS}]*(?:{NUMBER})|[{SIGNS}]+{LETTER}?")
AFTER_SIGN = re.compile(rf"(?<=[{SIGNS}])(?:[^\w{SIGNS}.]|_|\.(?!\d))+")
# Punctuation that looks like a sign: hyphens, bullets, bold type, brackets around words, exclamation marks; and marks
# that join two parts of a word, as in 1,000 and don't.
PUNCTUATION = re.compile(
    rf"[-*(\[)\]!,'](?:(?<=[-*])(?!{OPERAND})|(?<=[(\[])(?![-+]?{OPERAND})|(?<={LETTER}{LETTER}[)\]])"
    rf"|(?<=\n[-*])(?=\s)|(?<![\d)\]]!)(?<=!)|(?<=\d,)(?=\d{{3}}(?!\d))|(?<={LETTER}')(?={LETTER}))"
)
COMMAND = re.compile(
    r"\\(?:begin|end)\s*\{[^{}]*\}|\\(?P<frac>[dtc]?frac)(?:\s*(?P<over>\d)(?=\s*\d))?|\\(?P<name>[a-z]+)|\\(?P<sign>.)"
)
LATEX = {"cdot": "*", "times": "*", "div": "/", "le": "≤", "leq": "≤", "leqslant": "≤", "ge": "≥", "geq": "≥"}
LATEX |= {"geqslant": "≥", "ne": "≠", "neq": "≠", "lt": "<", "gt": ">", "pm": "±", "sqrt": "√", "circ": "°", "pi": "π"}
LATEX |= {"infty": "∞", "to": "→", "rightarrow": "→", "in": "∈", "cap": "∩", "cup": "∪", "lbrack": "[", "rbrack": "]"}
UNSAID = """left right big bigl bigr bigg displaystyle text textbf textit mathrm mathbf mbox operatorname quad qquad
ldots dots cdots limits"""
LATEX |= {**dict.fromkeys(UNSAID.split(), ""), "%": "%", "|": "|"}
PIECE = re.compile(r"\S{1,500}")  # normalisation takes quadratic time on a run of combining marks
FOLDED = str.maketrans({"²": "^2", "³": "^3"})
SPELT = str.maketrans(dict(zip("−–·×⋅⁄÷’‘ʼ", "--***//'''", strict=True)))


def words_of(text: str) -> WordSequence:
    """The words of a text; a sign belongs to the word that follows it."""
    if not text.isascii():
        text = PIECE.sub(lambda piece: unicodedata.normalize("NFKC", piece[0]), text.translate(FOLDED)).translate(SPELT)
    text = text.casefold().replace("{,}", ",")
    if "\\" in text:
        text = COMMAND.sub(latex_as_words, text)
    text = PUNCTUATION.sub(lambda mark: "" if mark[0] in ",'" else " ", text)
    words = TOKEN.findall(AFTER_SIGN.sub("", text))
    return tuple(words[:-1] if words[-1:] == ["="] else words)


def latex_as_words(command: re.Match[str]) -> str:
    """A LaTeX command as a sign, a word or nothing."""
    if command["frac"]:
        return f" /{command['over'] or ''} "
    if name := command["name"]:
        return LATEX.get(name, f" {name} ")
    return LATEX.get(command["sign"] or "", " ")


# How texts are compared


class Index:
    """Benchmark texts, indexed for comparison; texts with the same words share one entry."""

    def __init__(self, texts: Iterable[str]) -> None:
        numbers: dict[WordSequence, list[int]] = defaultdict(list)
        for number, text in enumerate(texts):
            if words := words_of(text):  # a text without words matches nothing
                numbers[words].append(number)
        self.entries, self.numbers = list(numbers), list(numbers.values())
        self.entry_of = {words: entry for entry, words in enumerate(self.entries)}
        self.patterns = [pattern_of(words) for words in self.entries]
        self.of_pattern: dict[WordSequence, list[int]] = defaultdict(list)
        for entry, pattern in enumerate(self.patterns):
            self.of_pattern[pattern].append(entry)
        self.unlisted: dict[WordSequence, dict[int, None]] = {}
        self.found: Counter[int] | None = None  # how many training texts are near to an entry; None: all are listed
        self.short, self.long = self.places(SHORT), self.places(LONG)
        self.shingles = {n: set(runs(words, SHINGLE)) for n, words in enumerate(self.entries) if len(words) >= SHORT}
        self.known = set().union(*self.shingles.values())
        self.lsh = RMinHashLSH(NEARNESS, SLOTS, BANDS)
        for entry, shingles in self.shingles.items():
            self.lsh.insert(entry, sketch(shingles))

    def places(self, length: int) -> dict[WordSequence, list[tuple[int, int]]]:
        """The places of each run of `length` words, as (entry, position); none for runs that are common phrases."""
        places: dict[WordSequence, list[tuple[int, int]]] = defaultdict(list)
        for entry, words in enumerate(self.entries):
            for position, run in enumerate(runs(words, length)):
                places[run].append((entry, position))
        for run, of_run in places.items():
            if len({entry for entry, _ in of_run}) > COMMON:
                places[run] = []
        return dict(places)

    def hits(self, texts: Iterable[str], templates: bool = False) -> list[Hit]:
        """Every hit of a training text on a benchmark text, in order of training text, benchmark text and kind.

        A pair has one hit for each kind that applies; `whole` and `masked` exclude others. In large groups only a
        sample of masked pairs is listed, but every matching text appears at least once. Texts are read once and not
        kept. `templates`: of benchmark texts that more than ten training texts are near to, which are of a template
        then, a training text has one at least and needn't have the others: all pairs would be a square of the rows.
        """
        self.found = Counter() if templates else None
        self.unlisted = {pattern: dict.fromkeys(entries) for pattern, entries in self.of_pattern.items()}
        order, hits = list(Kind), []
        for number, text in enumerate(texts):
            matches = sorted(self.matches(text), key=lambda match: (match[0], order.index(match[1])))
            hits += [Hit(number, other, kind) for other, kind in matches]
        return hits

    def matches(self, text: str) -> Iterator[tuple[int, Kind]]:
        """The numbers of the benchmark texts that a training text matches, and how."""
        words = words_of(text)
        if not words:
            return
        same, pattern = self.entry_of.get(words), pattern_of(words)
        if same is not None:
            yield from ((number, Kind.WHOLE) for number in self.numbers[same])
        for entry in self.with_other_numbers(pattern, same):
            yield from ((number, Kind.MASKED) for number in self.numbers[entry])
        if len(words) >= SHORT:
            for entry, kind in {*self.in_runs(words), *self.near(words, pattern)}:
                if entry != same and self.patterns[entry] != pattern:
                    yield from ((number, kind) for number in self.numbers[entry])

    def with_other_numbers(self, pattern: WordSequence, same: int | None) -> list[int]:
        """Entries that differ in numbers only: all that were not listed for an earlier training text, else one."""
        waiting = self.unlisted.get(pattern, {})
        others = [entry for entry in waiting if entry != same]
        for entry in others:
            del waiting[entry]
        return others or [entry for entry in self.of_pattern.get(pattern, ())[:2] if entry != same][:1]

    def in_runs(self, words: WordSequence) -> Iterator[tuple[int, Kind]]:
        """Entries that have a run of 13 words in common, or runs of 8 that cover enough of them."""
        starts = [start for start, run in enumerate(runs(words, SHORT)) if run in self.short]
        covered: dict[int, set[int]] = defaultdict(set)
        for run in {words[start : start + SHORT] for start in starts}:
            for entry, place in self.short[run]:
                covered[entry].update(range(place, place + SHORT))
        yield from ((n, Kind.GRAM_8) for n, places in covered.items() if len(places) > COVERED * len(self.entries[n]))
        for run in {words[start : start + LONG] for start in starts}:
            yield from ((entry, Kind.GRAM_13) for entry, _ in self.long.get(run, ()))

    def near(self, words: WordSequence, pattern: WordSequence) -> Iterator[tuple[int, Kind]]:
        """Entries of other patterns with at least half of all runs of 3 words in common."""
        shingles = set(runs(words, SHINGLE))
        # No entry can reach the threshold.
        if len(shingles & self.known) < NEARNESS * len(shingles):
            return
        shown = False
        for entry in sorted(self.lsh.query(sketch(shingles))):
            full = self.found is not None and self.found[entry] > COMMON
            if full and shown:
                continue
            other = self.shingles[entry]
            if self.patterns[entry] != pattern and len(shingles & other) >= NEARNESS * len(shingles | other):
                if self.found is not None:
                    self.found[entry] += 1
                shown |= full
                yield entry, Kind.NEAR


def runs(words: WordSequence, length: int) -> Iterator[WordSequence]:
    """Every sequence of `length` adjacent words."""
    return zip(*(words[start:] for start in range(length)), strict=False)


def pattern_of(words: WordSequence) -> WordSequence:
    """The words with formulas masked: stretches of numbers, and of single letters with a sign on them or after them."""
    after = (*words[1:], "")
    masked = (MASK if is_formula(word, later) else word for word, later in zip(words, after, strict=True))
    pattern: list[str] = []
    for word, repeated in groupby(masked):
        pattern += [MASK] if word == MASK else repeated
    return tuple(pattern)


def is_formula(word: str, later: str) -> bool:
    """Whether a word belongs to a formula: 12, +12, +x, or x before a sign."""
    if word.isalpha():
        return VARIABLE.fullmatch(word) is not None and SIGN.match(later) is not None
    return FORMULA.fullmatch(word) is not None


def sketch(shingles: set[WordSequence]) -> RMinHash:
    minhash = RMinHash(SLOTS, SEED)
    minhash.update([" ".join(shingle) for shingle in shingles])
    return minhash
