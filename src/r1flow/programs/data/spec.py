"""Facts about the program that generates a run's data, for plan, checks and report (programs/specs.py)."""

from dataclasses import dataclass, field
from typing import Any, Literal

from r1flow.core.errors import UserError, did_you_mean
from r1flow.core.schema import EXAMS, FILES
from r1flow.data.general import KINDS as GENERAL_KINDS
from r1flow.data.instructions import INSTRUCTIONS
from r1flow.data.leaks import REPORT
from r1flow.data.look_ups import LOOK_UPS
from r1flow.data.pools import RECORD
from r1flow.data.tasks import FAMILIES, check_family, dataset_of, files_unwritten
from r1flow.data.wordings import KNOWN
from r1flow.programs.cost_estimate import cost_of_files
from r1flow.programs.keys import Counting, Decontaminate, OneOrMore, Seeded, Share, ZeroOrMore, check_reported
from r1flow.programs.source_keys import Pool, Source, check_pools, pooled
from r1flow.programs.specs import Spec


@dataclass
class Family:
    draws: OneOrMore
    generator: dict[str, Any] = field(default_factory=dict)
    numbers: list[int] | None = None  # for the families that are solved in steps


@dataclass
class Corpus:
    documents: OneOrMore
    mix: dict[str, ZeroOrMore]
    facts: dict[str, ZeroOrMore]
    languages: dict[str, ZeroOrMore]
    any_words_share: Share
    error_share: Share
    reflection_share: Share
    slip_share: Share
    reflection_steps: Literal["smaller", "same"]
    careful_share: Share
    good_replies: Share
    facts_per_document: ZeroOrMore


@dataclass
class ColdStartShares:
    reflection_share: Share
    slip_share: Share
    careful_share: Share
    tool_share: Share


@dataclass
class Preferences:
    pairs_per_prompt: OneOrMore


@dataclass
class Tokenizer:
    vocabulary: int


@dataclass
class Data(Seeded, Counting):
    template: str | None
    tasks: dict[str, Family]
    wordings: ZeroOrMore
    split_shares: dict[str, ZeroOrMore]
    rows_per_task: dict[str, ZeroOrMore]
    corpus: Corpus | None
    cold_start: ColdStartShares
    general_kinds: list[str]
    general_shares: dict[str, ZeroOrMore]
    rows_per_kind: dict[str, ZeroOrMore]
    preferences: Preferences | None
    decontaminate: Decontaminate
    tokenizer: Tokenizer | None
    # Problems from outside, in the place of generated ones.
    sources: dict[str, Source] = field(default_factory=dict)
    pools: list[Pool] = field(default_factory=list)
    damaged_share: Share = 0


def check_data(config: dict[str, Any]) -> None:
    if not config["tasks"]:
        raise UserError("tasks: there are none; name at least one family of reasoning-gym")
    for name, task in config["tasks"].items():
        check_task(name, task.get("numbers"))
    if config["wordings"] > KNOWN:
        raise UserError(f"wordings: {config['wordings']}; use 0 to {KNOWN}, which is how many there are of each family")
    for kind in config["general_kinds"]:
        if kind not in GENERAL_KINDS:
            raise UserError(f"general_kinds: there is no {kind!r}{did_you_mean(kind, list(GENERAL_KINDS))}")
    check_calls(config)
    check_corpus(config)
    check_reported(config)
    if config.get("pools"):
        check_pools(config, ("rl", "rejection", *EXAMS))


def check_task(name: str, numbers: list[int] | None) -> None:
    """Refuse a family that can't be used, and bounds for numbers that don't fit it."""
    if name not in FAMILIES:
        check_family(name)
        if numbers is not None:
            raise UserError(
                f"tasks.{name}.numbers: they bound worked steps, which this family has none of; leave it out"
            )
    elif numbers is None or len(numbers) != 2 or numbers[0] > numbers[1]:
        raise UserError(f"tasks.{name}.numbers: {numbers}; use two, the least and the greatest, as in [1, 100]")


def check_calls(config: dict[str, Any]) -> None:
    """Refuse a cold start in which a calculator computes and a table is asked: no environment answers both."""
    share = config["cold_start"]["tool_share"]
    if share and LOOK_UPS in config["tasks"]:
        what = f"cold_start.tool_share: {share}: a calculator would compute in examples, and {LOOK_UPS} asks a table"
        remedy = f"set it to 0, and environment to look_up ({LOOK_UPS} has its calls)"
        raise UserError(f"{what}, and no environment answers both; {remedy}")


def check_generators(config: dict[str, Any]) -> None:
    """Refuse options of families that their generators refuse."""
    for name, task in config["tasks"].items():
        dataset_of(name, task.get("generator", {}))


def check_corpus(config: dict[str, Any]) -> None:
    """Refuse a corpus without its tokenizer, template or share of the problems, and preferences between no replies."""
    corpus = config["corpus"]
    for key in ("tokenizer", "template"):
        if bool(corpus) != bool(config[key]):
            what = f"{key}: {'null' if corpus else 'it is set'}, and corpus is {'set' if corpus else 'null'}"
            raise UserError(f"{what}; a base model's corpus, tokenizer and template go together: set all, or none")
    if corpus and (without := sorted(task for task in FAMILIES if task in config["tasks"] and not FAMILIES[task].fact)):
        raise UserError(f"tasks.{without[0]}: a corpus can't be written of it; set corpus to null, or take it out")
    for task, share in corpus["facts"].items() if corpus else ():
        if share and task in FAMILIES and task not in config["tasks"]:
            raise UserError(f"corpus.facts.{task}: {share}, and there are no problems of {task}; set it to 0")
    for key, splits in {"corpus": ("split_shares", "general_shares"), "preferences": ("general_shares",)}.items():
        for shares in splits:
            if bool(config[key]) != bool(config[shares].get(key)):
                raise UserError(
                    f"{shares}.{key}: {config[shares].get(key, 0)}, and {key} is {'set' if config[key] else 'null'};"
                    f" {'give it a share' if config[key] else 'set it to 0'}"
                )
    if config["preferences"] and (without := set(config["general_kinds"]) & set(INSTRUCTIONS)):
        raise UserError(
            f"preferences: prompts of the kind {min(without)} have no reply to prefer; set it to null, or leave that"
            " kind out of general_kinds"
        )


def outputs(config: dict[str, Any]) -> list[str]:
    """All files that the program writes."""
    of_corpus = ["corpus.jsonl", "tokenizer/"] if config["corpus"] else []
    taken = pooled(config) if config.get("pools") else []
    left_out = files_unwritten(config["tasks"], taken) + ([] if config["preferences"] else ["preferences"])
    names = [name for name in FILES if name not in left_out]
    return ["schema.json", REPORT, *(f"{name}.jsonl" for name in names), *of_corpus, *([RECORD] if taken else [])]


SPEC = Spec(
    keys=Data,
    outputs=outputs,
    check=check_data,
    check_anew=check_generators,
    metrics={"rows": dict, "counts": dict},
    cost=cost_of_files,
)
