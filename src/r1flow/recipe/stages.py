"""The recipe as a table: every stage in dataflow order, the program that computes it, and what it reads.

The words are used for rules, folders, logs and tags alike. Which model a stage starts from is in its configuration
(`init_from`); the rest of the arrows are here, for the rules and for the plan.
"""

from collections.abc import Collection
from typing import Any

PROGRAMS = {
    "data": "data",
    "base": "pretrain",
    "student_base": "pretrain",
    "zero_rl": "grpo",
    "cold_start_data": "rejection",
    "cold_start": "sft",
    "reasoning_rl": "grpo",
    "reasoning_rl_no_language": "grpo",
    "rejection": "rejection",
    "curate": "curate",
    "sft_mix": "sft",
    "reward_model": "reward_model",
    "align_rl": "grpo",
    "distill": "sft",
    "student_rl": "grpo",
    "evaluate": "evaluate",
    "report": "report",
}
STAGES = tuple(PROGRAMS)
NOT_MODELS = {"data", "cold_start_data", "rejection", "curate", "reward_model", "evaluate", "report"}
# Whose rows a stage learns from, where it isn't `data`; `rows_of` asks.
ROWS_OF = {"cold_start": "cold_start_data", "sft_mix": "rejection", "distill": "rejection"}
OPTIONAL = {"cold_start_data"}  # in a run that hasn't it, `data` has the rows
MIX = "mix.jsonl"  # the file with the rows of all these
PACKED = "packed"  # the `data.file` of any SFT that learns from `curate`
# Stages whose rewards include a trained one.
REWARDED_BY = {"align_rl": "reward_model"}

# Stages that sample in shards, which several jobs can share.
SAMPLED = ("cold_start_data", "rejection", "evaluate")
RULES = ("all", *STAGES, "sample")  # Snakemake's; `sample` is a part of the shards


def stage_of(job: str) -> str:
    """The stage that a job belongs to: `evaluate` for evaluate/zero_rl, else itself."""
    return job.partition("/")[0]


def rows_of(stage: str, config: dict[str, Any], stages: Collection[str]) -> str:
    """The stage whose folder is a stage's input `data`, in a run of these stages."""
    if (config.get("data") or {}).get("file") == PACKED:
        return "curate"
    source = ROWS_OF.get(stage, "data")
    return "data" if source in OPTIONAL and source not in stages else source


def sources_of(stage: str, config: dict[str, Any], stages: Collection[str]) -> dict[str, str]:
    """What a stage of such a run computes from, by the input's name: other stages, and paths from outside."""
    found = {"data": rows_of(stage, config, stages)}
    if stage == "curate":
        found |= curated_from(config)
    if config.get("init_from") and not config.get("revision"):  # else the hub's, which the revision pins
        found["model"] = config["init_from"]
    if stage in REWARDED_BY:
        found["reward_model"] = REWARDED_BY[stage]
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
    return "fetch" if stage == "data" and "sources" in config else PROGRAMS[stage]
