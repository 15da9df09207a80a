"""Facts about the program that generates a run's data, for plan, checks and report (programs/specs.py)."""

from dataclasses import dataclass
from typing import Any

from r1flow.core.errors import UserError
from r1flow.core.schema import FILES
from r1flow.data.leaks import REPORT
from r1flow.data.wordings import KNOWN
from r1flow.programs.costs import cost_of_files
from r1flow.programs.keys import Decontaminate, Seeded, check_reported
from r1flow.programs.specs import Spec


@dataclass
class Family:
    generator: dict[str, Any]
    numbers: list[int]
    draws: int


@dataclass
class Corpus:
    documents: int
    mix: dict[str, int]
    facts: dict[str, int]
    languages: dict[str, int]
    any_words_share: float
    error_share: float
    reflection_share: float
    slip_share: float
    good_replies: float
    facts_per_document: int


@dataclass
class ColdStart:
    reflection_share: float
    slip_share: float


@dataclass
class Preferences:
    pairs_per_prompt: int


@dataclass
class Tokenizer:
    vocabulary: int


@dataclass
class Data(Seeded):
    template: str
    tasks: dict[str, Family]
    wordings: int
    split_shares: dict[str, int]
    rows_per_task: dict[str, int]
    corpus: Corpus
    cold_start: ColdStart
    general_shares: dict[str, int]
    rows_per_kind: dict[str, int]
    preferences: Preferences
    decontaminate: Decontaminate
    tokenizer: Tokenizer


SHARES = {
    "corpus": ("any_words_share", "error_share", "reflection_share", "slip_share", "good_replies"),
    "cold_start": ("reflection_share", "slip_share"),
}


def check_data(config: dict[str, Any]) -> None:
    if not config["tasks"]:
        raise UserError("tasks: there are none; name at least one family of reasoning-gym")
    for name, task in config["tasks"].items():
        if len(task["numbers"]) != 2 or task["numbers"][0] > task["numbers"][1]:
            raise UserError(f"tasks.{name}.numbers: {task['numbers']}; use two, the least and the greatest")
    if not 0 <= config["wordings"] <= KNOWN:
        raise UserError(f"wordings: {config['wordings']}; use 0 to {KNOWN}, which is how many there are of each family")
    for part, keys in SHARES.items():
        for key in keys:
            if not 0 <= config[part][key] <= 1:
                raise UserError(f"{part}.{key}: {config[part][key]}; use 0 to 1, where 1 is all")
    if config["corpus"]["documents"] < 1:
        raise UserError(f"corpus.documents: {config['corpus']['documents']}; use 1 or more")
    check_reported(config)


def outputs(config: dict[str, Any]) -> list[str]:
    """All files that the program writes."""
    return ["schema.json", REPORT, "corpus.jsonl", *(f"{name}.jsonl" for name in FILES), "tokenizer/"]


SPEC = Spec(
    keys=Data,
    outputs=outputs,
    check=check_data,
    cost=cost_of_files,
)
