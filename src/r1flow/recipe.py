"""The recipe as a table: every stage in dataflow order, the program that computes it, and what it reads.

The words are used for rules, folders, logs and tags alike. Which model a stage starts from is in its configuration
(`init_from`); the rest of the arrows are here, for the rules and for the plan.
"""

from typing import Any

PROGRAMS = {
    "data": "data",
    "base": "pretrain",
    "student_base": "pretrain",
    "zero_rl": "grpo",
    "cold_start": "sft",
    "reasoning_rl": "grpo",
    "reasoning_rl_no_language": "grpo",
    "rejection": "rejection",
    "sft_mix": "sft",
    "reward_model": "reward_model",
    "align_rl": "grpo",
    "distill": "sft",
    "student_rl": "grpo",
    "evaluate": "evaluate",
    "report": "report",
}
STAGES = tuple(PROGRAMS)
NOT_MODELS = {"data", "rejection", "reward_model", "evaluate", "report"}
# Whose rows a stage learns from, where it isn't `data`.
ROWS_OF = {"sft_mix": "rejection", "distill": "rejection"}
# Stages whose rewards include a trained one.
REWARDED_BY = {"align_rl": "reward_model"}

# Stages that sample in shards, which several jobs can share.
SAMPLED = ("rejection", "evaluate")


def stage_of(job: str) -> str:
    """The stage that a job belongs to: `evaluate` for evaluate/zero_rl, else itself."""
    return job.partition("/")[0]


def program_of(job: str, config: dict[str, Any]) -> str:
    """The program that computes a job with this slice: data is generated, or, where the slice has sources, fetched."""
    stage = stage_of(job)
    return "fetch" if stage == "data" and "sources" in config else PROGRAMS[stage]
