"""The recipe as a table: a row for every stage, in dataflow order, with the program that computes it and what it reads.

The words are used for rules, folders, logs and tags alike, and whoever needs to know of stages (rules, report, checks)
asks the rows. Which model a stage starts from is in its configuration (`init_from`); the rest of the arrows are here.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One stage."""

    program: str  # the folder of r1flow.programs that computes it
    colour: str | None = None  # in the report, of a stage that makes a language model; these are evaluated
    rows_of: str = "data"  # the stage whose rows it learns from, or which problems it asks
    rewarded_by: str | None = None  # the stage whose model is one of its rewards
    is_optional: bool = False  # in a run that hasn't it, `data` has the rows


RECIPE = {
    "data": Row("data"),
    "base": Row("pretrain", "#7b8794"),
    "zero_rl": Row("grpo", "#c8102e"),
    "cold_start_data": Row("rejection", is_optional=True),
    "cold_start": Row("sft", "#5c9e31", rows_of="cold_start_data"),
    "reasoning_rl": Row("grpo", "#1f6fb2"),
    "reasoning_rl_no_language": Row("grpo", "#79b4e0"),
    "rejection": Row("rejection"),
    "curate": Row("curate"),
    "sft_mix": Row("sft", "#8a5fbf", rows_of="rejection"),
    "reward_model": Row("reward_model"),
    "align_rl": Row("grpo", "#0b3c5d", rewarded_by="reward_model"),
    "student_base": Row("pretrain", "#a9b4c0"),
    "student_rl": Row("grpo", "#d9822b"),
    "distill": Row("sft", "#0f8b8d", rows_of="rejection"),
    "evaluate": Row("evaluate"),
    "report": Row("report"),
}
STAGES = tuple(RECIPE)
MODELS = tuple(stage for stage, row in RECIPE.items() if row.colour)  # that are evaluated
SAMPLED = tuple(stage for stage, row in RECIPE.items() if row.program in ("rejection", "evaluate"))  # in shards
RULES = ("all", *STAGES, "sample")  # Snakemake's; `sample` is a part of the shards
MIX = "mix.jsonl"  # the file with the rows that rejection sampling made
PACKED = "packed"  # the `data.file` of any SFT that learns from `curate`


def stage_of(job: str) -> str:
    """The stage that a job belongs to: `evaluate` for evaluate/zero_rl, else itself."""
    return job.partition("/")[0]


def rows_of(stage: str, config: dict[str, Any], stages: Collection[str]) -> str:
    """The stage whose folder is a stage's input `data`, in a run of these stages."""
    if (config.get("data") or {}).get("file") == PACKED:
        return "curate"
    source = RECIPE[stage].rows_of
    return "data" if RECIPE[source].is_optional and source not in stages else source


def sources_of(stage: str, config: dict[str, Any], stages: Collection[str]) -> dict[str, str]:
    """What a stage of such a run computes from, by the input's name: other stages, and paths from outside."""
    found = {"data": rows_of(stage, config, stages)}
    if stage == "curate":
        found |= curated_from(config)
    if config.get("init_from") and not config.get("revision"):  # else the hub's, which the revision pins
        found["model"] = config["init_from"]
    if maker := RECIPE[stage].rewarded_by:
        found["reward_model"] = maker
    return found


def curated_from(config: dict[str, Any]) -> dict[str, str]:
    """What a curate stage's sources are of, by the input's name: stages and folders."""
    return {input_of(name, source["of"]): source["of"] for name, source in config["sources"].items()}


def input_of(source: str, of: str) -> str:
    """The input of a curate stage that a source's files are in: a stage's, or the source's own."""
    return of if of in ("data", "rejection") else f"source_{source}"


def program_of(job: str, config: dict[str, Any]) -> str:
    """The program that computes a job with this slice: data is generated, or, where the slice has sources, fetched."""
    stage = stage_of(job)
    return "fetch" if stage == "data" and "sources" in config else RECIPE[stage].program
