"""The rows of the data files, and how JSONL is read and written.

rl.jsonl           {"id": "5f0c1d…", "task": "chain_sum", "question": "… 4 + 3 - 2 =", "answer": "5", "entry": "{…}"}
general_rl.jsonl   {"id": "91aa…", "kind": "greeting", "question": "hello", "response": "Hello!…", "check": "{…}"}
preferences.jsonl  {"id": "0b7e…", "kind": "harmless", "question": "…", "chosen": "…", "rejected": "…"}
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from r1flow.core.errors import UserError


@dataclass(frozen=True)
class Problem:
    """A prompt with a checkable answer."""

    id: str  # 12 hex digits of the canonical problem: two spellings of one problem share it
    task: str  # the family's name in reasoning-gym, or the data set's
    question: str
    answer: str  # "": code is asked for
    # What reasoning-gym's scorer wants, or a solution's tests, as JSON; None: graded as mathematics.
    entry: str | None


@dataclass(frozen=True)
class General:
    """A prompt without one right answer, and a rule that good replies follow."""

    id: str
    kind: str  # greeting, identity, translation, writing, harmful; length, keyword, form, language
    question: str
    response: str  # a good one; "": there is none
    check: str  # the rule, as JSON: {"type": "greets"}


@dataclass(frozen=True)
class Preference:
    """Two responses to one prompt; the chosen one is better."""

    id: str
    kind: str  # helpful, harmless
    question: str
    chosen: str
    rejected: str


@dataclass(frozen=True)
class ColdStart:
    """A problem with a long chain of thought in the readable pattern: reasoning, then a summary with the answer."""

    id: str
    task: str
    question: str
    answer: str
    response: str


MIX = "mix.jsonl"  # the file with the rows that rejection sampling, or a search, made for SFT
TO_LEARN = "rejection"  # the file of problems, without .jsonl, whose right answers become a mix
MASKED = -100  # the label of a token that isn't learnt, as in all of transformers
EXAMS = ("dev", "test", "final")  # splits that no stage trains on
# Of a row of a conversation: the turns before its question, as JSON; only SFT reads it.
BEFORE = "before"
CONVERSATIONS = ("cold_start", "general_sft")  # the files that may have such rows
PARAPHRASED = "{}_paraphrased"  # the file with a split's problems in wordings that no training row has
# The files of problems, traces, prompts and pairs, and the rows that each has.
FILES = {
    **dict.fromkeys(("rl", "rejection", *EXAMS, *map(PARAPHRASED.format, EXAMS)), Problem),
    "cold_start": ColdStart,
    **dict.fromkeys((f"general_{split}" for split in ("sft", "rl", *EXAMS)), General),
    "preferences": Preference,
}
FIELDS = {
    "text": "str: a document, without the end-of-text token",
    "id": "str: 12 hex digits of the canonical problem or prompt",
    "task": "str: the family's name in reasoning-gym",
    "kind": "str: of general prompts, what they ask for, such as translation; of preferences: helpful or harmless",
    "question": "str: what the user asks",
    BEFORE: "str: JSON list of the turns before the question, each with role and content; they aren't learnt",
    "answer": "str: the right answer",
    "entry": "str: JSON that reasoning-gym's scorer of the family reads",
    "response": "str: a good response",
    "check": "str: JSON rule that a good response obeys",
    "chosen": "str: the better response",
    "rejected": "str: the worse response",
}


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """The rows of a file; raises UserError naming the line that isn't a JSON object."""
    rows = []
    text = path.read_text(encoding="utf-8").removesuffix("\n")
    for number, line in enumerate(text.split("\n") if text else [], 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}: line {number} isn't JSON ({error}); make the file again") from None
        if not isinstance(row, dict):
            raise UserError(f"{path}: line {number} isn't a JSON object with named fields; make the file again")
        for name, value in row.items():
            if name in FIELDS and not isinstance(value, str | None):
                kind = type(value).__name__
                raise UserError(f"{path}: line {number}: {name} is of type {kind}, and not a text; make the file again")
        rows.append(row)
    return rows


def write_jsonl(path: Path, rows: Iterable[Any]) -> None:
    """Write dataclass rows or dicts, one a line, keys in their own order."""
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row if isinstance(row, dict) else asdict(row), ensure_ascii=False) + "\n")
