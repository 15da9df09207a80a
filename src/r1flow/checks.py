"""What no GRPO stage could run, said when the workflow is parsed: pure functions of a stage's config, without torch.

    check({"engine": "r1flow", "trainer": {"num_generations": 16, "per_device_train_batch_size": 250, …}, …})
    UserError: trainer.num_generations: 16 doesn't divide the 250 completions of a generation (…); …

Values that are wrong whatever the data. Unknown keys are config.py's, missing files the stage's.
"""

from typing import Any

from r1flow.errors import UserError
from r1flow.sampling import ENGINES


def check(config: dict[str, Any]) -> None:
    """Refuse a GRPO stage's config that can't be trained with, or not be resumed exactly; raises UserError."""
    trainer = config["trainer"]
    if config["engine"] not in ENGINES:
        raise UserError(f"engine: there is no {config['engine']!r}; known: {', '.join(ENGINES)}")
    if not config.get("rewards"):
        raise UserError("rewards: the list is empty; name at least one reward")
    check_shares(config)
    check_groups(trainer)
    check_snapshots(trainer)
    if config["engine"] == "r1flow":
        check_engine_options(trainer)


def check_shares(config: dict[str, Any]) -> None:
    share = config["data"]["general_share"]
    if not 0 <= share < 1:
        raise UserError(f"data.general_share: {share} is no share; use 0 (reasoning only) to below 1")
    scored = any(reward.get("name") == "reward_model" for reward in config["rewards"])
    if share and not scored:
        raise UserError("data.general_share: general prompts need a reward_model among the rewards; set it to 0")


def check_groups(trainer: dict[str, Any]) -> None:
    """A group is num_generations completions of one prompt, and a generation is whole groups."""
    group, batch = trainer["num_generations"], trainer["per_device_train_batch_size"]
    if group < 2:
        raise UserError(f"trainer.num_generations: a group of {group} has no spread of rewards; use 2 or more")
    if batch < 1:
        raise UserError(f"trainer.per_device_train_batch_size: {batch} completions can't be trained on; use 1 or more")
    size = generation_size(trainer)
    if size % group:
        raise UserError(
            f"trainer.num_generations: {group} doesn't divide the {size} completions of a generation"
            f" (per_device_train_batch_size × steps_per_generation); make these a multiple of {group}"
        )
    if trainer["max_steps"] < 1:
        raise UserError(f"trainer.max_steps: {trainer['max_steps']}; a GRPO stage's length is given in steps, 1 or more")


def generation_size(trainer: dict[str, Any]) -> int:
    """Completions sampled at once."""
    if trainer.get("generation_batch_size"):
        return trainer["generation_batch_size"]
    return trainer["per_device_train_batch_size"] * steps_per_generation(trainer)


def steps_per_generation(trainer: dict[str, Any]) -> int:
    """Forward-backward passes (not optimiser steps) per set of completions, as TRL counts and defaults it."""
    if trainer.get("generation_batch_size"):
        return max(1, trainer["generation_batch_size"] // trainer["per_device_train_batch_size"])
    return trainer.get("steps_per_generation") or trainer["gradient_accumulation_steps"]


def check_snapshots(trainer: dict[str, Any]) -> None:
    """A snapshot holds no completions: taken while some are still to be trained on, it resumes to other bytes."""
    if trainer.get("save_strategy") != "steps":
        return
    passes = trainer["save_steps"] * trainer["gradient_accumulation_steps"]
    period = steps_per_generation(trainer) * trainer["num_iterations"]
    if passes % period:
        raise UserError(
            f"trainer.save_steps: {trainer['save_steps']} isn't a multiple of the {period} passes over one set of"
            " completions (steps_per_generation × num_iterations ÷ gradient_accumulation_steps); a resumed training"
            " would differ; make it one"
        )


def check_engine_options(trainer: dict[str, Any]) -> None:
    """Options of TRL's own generation that our engine doesn't have."""
    plain = {"top_k": (0, None), "min_p": (None,), "repetition_penalty": (1, None), "generation_kwargs": (None,)}
    for key, allowed in plain.items():
        if trainer.get(key) not in allowed:
            raise UserError(f"trainer.{key}: {trainer[key]} isn't known to engine: r1flow; use engine: transformers")
    if trainer.get("use_vllm"):
        raise UserError("trainer.use_vllm: true needs engine: transformers (TRL then samples with vLLM)")
    if trainer["temperature"] <= 0:
        raise UserError(f"trainer.temperature: {trainer['temperature']}; RL needs samples that differ, above 0")
