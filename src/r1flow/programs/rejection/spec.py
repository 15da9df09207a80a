"""Facts about the program that samples responses and keeps the right ones, for plan, checks and report (specs.py)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from r1flow.core.errors import UserError
from r1flow.core.template import Response
from r1flow.programs import filters
from r1flow.programs.cost_estimate import Cost, Estimator, least
from r1flow.programs.keys import Filter, OneOrMore, Sampled, ShareBelowOne
from r1flow.programs.model_sizes import UNKNOWN
from r1flow.programs.samplings import check_sampling, cost_of_sampling, memory_of_sampling
from r1flow.programs.specs import Spec


@dataclass
class Turn:
    role: str
    content: str


@dataclass
class Rejection(Sampled):
    init_from: str
    file: str
    prompts: OneOrMore | None
    preamble: list[Turn]
    samples_per_prompt: OneOrMore
    keep_per_prompt: OneOrMore
    samples_in_mix: OneOrMore | None
    filters: list[Filter]
    closing: str | None
    general_share: ShareBelowOne


def check_rejection(config: dict[str, Any]) -> None:
    check_sampling(config)
    drawn, kept = config["samples_per_prompt"], config["keep_per_prompt"]
    if kept > drawn:
        raise UserError(f"keep_per_prompt: {kept} of {drawn} samples_per_prompt can't be kept; use {drawn} or less")
    check_preamble(config["preamble"])
    filters.check_filters(config["filters"])


def check_preamble(preamble: list[dict[str, str]]) -> None:
    """Allow a system message at the start, then only examples: questions, each with a well-formed response."""
    turns = preamble[1:] if preamble and preamble[0]["role"] == "system" else preamble
    if [turn["role"] for turn in turns] != ["user", "assistant"] * (len(turns) // 2):
        order = "at most one system message first, then user and assistant in turn, and an assistant's last"
        raise UserError(f"preamble: the roles are in the wrong order; write {order}")
    for number, turn in enumerate(turns):
        if number % 2 and not Response.parse(turn["content"]).well_formed:
            raise UserError(
                f"preamble: the response of example {number // 2 + 1} isn't in the form to be learnt; write"
                " <think>…</think>a summary <answer>…</answer>"
            )


def files_read(config: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "file", config["file"]
    if config["general_share"]:
        yield "general_share", "general_sft.jsonl"


def cost(estimator: Estimator, job: str, config: dict[str, Any]) -> Cost:
    prompts = least(estimator.rows.get(Path(config["file"]).stem, UNKNOWN), config["prompts"])
    return cost_of_sampling(estimator, job, config, prompts * config["samples_per_prompt"])


SPEC = Spec(
    keys=Rejection,
    outputs=lambda config: ["samples.parquet", "mix.jsonl"],
    check=check_rejection,
    files_read=files_read,
    metrics={"kept": int, "dropped": dict, "counts": dict},
    cost=cost,
    memory=memory_of_sampling,
    on_gpu=True,
)
