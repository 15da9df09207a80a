"""How many completions TRL samples at once, and how many passes it makes over them: TRL's rules as arithmetic."""

from typing import Any

# A key of stop_above: the limit of mismatch.py; the other keys limit shares of failed rewards.
MISMATCH = "mismatch"


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


def rollouts(trainer: dict[str, Any]) -> int:
    """Completions of a whole training: each set of them is trained on `num_iterations` times."""
    passes = trainer["max_steps"] * trainer["gradient_accumulation_steps"]
    return -(-passes // (steps_per_generation(trainer) * trainer["num_iterations"])) * generation_size(trainer)


def extra_passes(trainer: dict[str, Any]) -> int:
    """Forward passes over each row besides sampling and training: one for the KL term, one for vLLM's correction."""
    corrected = trainer.get("use_vllm") and trainer.get("vllm_importance_sampling_correction", True)
    return bool(trainer.get("beta")) + bool(corrected)
