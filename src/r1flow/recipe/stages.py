"""The recipe as a table: a row for every stage, with the program that computes it and what it reads.

A stage's name here is also its name in rules, folders, logs and tags; rules, report and checks all read this table.
Which model a stage starts from is in its configuration (`init_from`); all other dependencies are here. The rows are in
the order of the report; a run sorts its stages by their dependencies, and otherwise in this order.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from r1flow.core.rewarding import reward_names
from r1flow.data.packages import PACKAGE


@dataclass(frozen=True)
class StageRow:
    """One stage."""

    stage: str
    program: str  # the folder of r1flow.programs that computes it
    # Its colour in the report; None: it makes no language model to evaluate.
    colour: str | None = None
    rows_of: str = "data"  # the stage that makes the rows it learns from, or the problems it asks
    # The stage that trains the reward model, where `rewards` names one.
    rewarded_by: str | None = None
    # The stage that makes the general rows it mixes in, where the run has that stage.
    general_of: str | None = None
    is_optional: bool = False  # in a run without this stage, `data` provides the rows
    # The stage it is an ablation or control of: both draw the same random numbers.
    ablation_of: str | None = None


ROWS = (
    StageRow("data", "data"),
    StageRow("base", "pretrain", "#7b8794"),
    StageRow("zero_rl", "grpo", "#c8102e"),
    StageRow("zero_rl_language", "grpo", "#79b4e0", ablation_of="zero_rl"),
    StageRow("zero_rl_random", "grpo", "#e58a9a", ablation_of="zero_rl"),
    StageRow("zero_rl_format", "grpo", "#8f5a3c", ablation_of="zero_rl"),
    StageRow("zero_rl_process", "grpo", "#b5762a", rewarded_by="process_reward", ablation_of="zero_rl"),
    StageRow("self_data", "rejection"),
    StageRow("self_sft", "sft", "#d1499b", rows_of="self_data"),
    StageRow("tree_data", "search"),
    StageRow("tree_sft", "sft", "#8c6d1f", rows_of="tree_data", ablation_of="self_sft"),
    StageRow("general_data", "rejection", is_optional=True),
    StageRow("cold_start_data", "rejection", general_of="general_data", is_optional=True),
    StageRow("cold_start", "sft", "#5c9e31", rows_of="cold_start_data", general_of="general_data"),
    StageRow("reasoning_rl", "grpo", "#1f6fb2"),
    StageRow("rejection", "rejection", general_of="general_data"),
    StageRow("sft_mix", "sft", "#8a5fbf", rows_of="rejection"),
    StageRow("reward_model", "reward_model"),
    StageRow("align_rl", "grpo", "#0b3c5d", rewarded_by="reward_model"),
    StageRow("student_base", "pretrain", "#a9b4c0"),
    StageRow("student_rl", "grpo", "#d9822b"),
    StageRow("distill", "sft", "#0f8b8d", rows_of="rejection"),
    StageRow("process_reward", "step_scorer", rows_of="rejection"),
    StageRow("value_model", "step_scorer", rows_of="rejection"),
    StageRow("search", "search"),
    StageRow("evaluate", "evaluate"),
    StageRow("report", "report"),
)
# What a stage does, as MLflow shows it, and the section of the DeepSeek-R1 report that it follows.
ABOUT = {
    "data": "makes the problems and texts of all stages",
    "base": "pretrains the base model, or takes an existing one",
    "zero_rl": "RL with rewards by rules, straight from the base model: R1-Zero (section 2.2)",
    "zero_rl_language": "zero_rl with the reward for one language as well, to compare the two (section 2.3.2)",
    "zero_rl_random": "zero_rl with random rewards: what RL does without a signal",
    "zero_rl_format": "zero_rl with the format reward alone: what the form of a response is worth",
    "zero_rl_process": "zero_rl paid by the process reward model, an attempt that failed in the paper (section 4.2)",
    "self_data": "samples the base model and keeps what is right, for self_sft",
    "self_sft": "SFT of the base model on its own right answers, to compare zero_rl with",
    "tree_data": "answers training problems by search over steps, and keeps what is right, for tree_sft",
    "tree_sft": "self_sft on answers that search over steps found, an attempt that failed in the paper (section 4.2)",
    "general_data": "samples a model's replies to general prompts, and keeps those that do what was asked",
    "cold_start_data": "samples the cold start's examples, from R1-Zero or a stronger model (section 2.3.1)",
    "cold_start": "SFT on a few examples of long reasoning (section 2.3.1)",
    "reasoning_rl": "RL on reasoning problems after the cold start (section 2.3.2)",
    "rejection": "samples a trained model, keeps what is right and readable, and adds general rows (section 2.3.3)",
    "sft_mix": "SFT of the base model on the mix that rejection made (section 2.3.3)",
    "reward_model": "trains the reward model on pairs of replies (section 2.3.4)",
    "align_rl": "RL on reasoning problems and general prompts: R1 (section 2.3.4)",
    "student_base": "pretrains the small model, or takes an existing one",
    "student_rl": "RL of the small model, to compare distillation with (section 4.1)",
    "distill": "SFT of the small model on the mix that rejection made, without RL (section 2.4)",
    "process_reward": "trains a scorer of steps on true labels: whether every step so far is right",
    "value_model": "trains a scorer of steps on outcomes: whether the sample's answer is right",
    "search": "answers test problems by several samples each: what search at test time buys",
    "evaluate": "examines a model on test problems",
    "report": "decides which of the paper's claims hold in this run, and writes the report",
}
RECIPE = {row.stage: row for row in ROWS}
STAGES = tuple(RECIPE)
MODELS = tuple(stage for stage, row in RECIPE.items() if row.colour)  # models to evaluate
CONTROLS = ("zero_rl_random", "zero_rl_format", "self_sft")  # what zero_rl is held against (claim C12)
ATTEMPTS = ("zero_rl_process", "tree_sft")  # what failed in the paper (claims C13 to C15)
# Stages that make a sequence classifier, which scores responses.
JUDGES = tuple(stage for stage, row in RECIPE.items() if row.program in ("reward_model", "step_scorer"))
# A search's scorer that reads with two models: one that RL trained, and the one that it began with.
PROGRESS_ADVANTAGE, PROGRESS_MODELS = "progress_advantage", ("zero_rl", "base")
RL_STAGES = tuple(stage for stage, row in RECIPE.items() if row.program == "grpo")
RULES = ("all", *STAGES, "sample")  # Snakemake's rules; `sample` draws a part of a stage's shards


def stage_of(job: str) -> str:
    """The stage that a job belongs to: `evaluate` for evaluate/zero_rl, else itself."""
    return job.partition("/")[0]


def compared_with(stage: str) -> str | None:
    """The stage without which an ablation or a control says nothing; None for all others."""
    return "zero_rl" if stage in CONTROLS else RECIPE[stage].ablation_of


def rows_of(stage: str, stages: Collection[str]) -> str:
    """The stage whose folder is the input `data` of `stage`, in a run of `stages`."""
    source = RECIPE[stage].rows_of
    return "data" if RECIPE[source].is_optional and source not in stages else source


def sources_of(stage: str, config: dict[str, Any], stages: Collection[str]) -> dict[str, str]:
    """What a stage of such a run reads, by the input's name: other stages, or a model's folder from outside."""
    sources = {"data": rows_of(stage, stages)}
    source = config.get("init_from")
    if source and not downloads_model(config):
        sources["model"] = source
    if (maker := RECIPE[stage].rewarded_by) and "reward_model" in reward_names(config["rewards"]).values():
        sources["reward_model"] = maker
    if RECIPE[stage].program == "search":
        sources |= {model: model for model in config["models"]}
        named = [(part.get("args") or {}).get("scorer") for part in config["strategies"].values()]
        sources |= {judge: judge for judge in JUDGES if judge in named}
        if PROGRESS_ADVANTAGE in named:
            sources |= {model: model for model in PROGRESS_MODELS}
    if (maker := RECIPE[stage].general_of) in stages and general_share(config):
        sources["general"] = maker
    return sources


def downloads_model(config: dict[str, Any]) -> bool:
    """Whether the model that a stage starts from comes from a hub or a package; then it is no input."""
    return bool(config.get("revision") or (config.get("init_from") or "").startswith(PACKAGE))


def general_share(config: dict[str, Any]) -> float:
    """The share of general rows that a stage mixes in."""
    return config.get("general_share") or (config.get("data") or {}).get("general_share") or 0


def program_of(job: str, config: dict[str, Any]) -> str:
    """The program that computes a job with this config: `data` is generated if it names tasks, else fetched."""
    stage = stage_of(job)
    return "fetch" if stage == "data" and "tasks" not in config else RECIPE[stage].program


def position(stage: str) -> tuple[list[float], str]:
    """Sorts stages in dataflow order; one that the recipe doesn't have comes after the trainings."""
    unknown = STAGES.index("evaluate") - 0.5
    return [STAGES.index(word) if word in STAGES else unknown for word in stage.split("/")], stage
