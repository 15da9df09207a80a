"""What a stage's metrics.json owes to the report: by the stage's configuration, whatever the program writes.

A program that stops writing a curve would make a claim that rests on it look like one that nobody meant to test. So
what is owed is said here, apart from the programs; the driver looks before a stage's outputs appear, and the report
when it reads them.

    fault("grpo", {"rewards": {"accuracy": {…}, …}, …}, {"history": [{"step": 1, "reward": 0.4, …}, …], …})
    "history: no step has accuracy, and rewards.accuracy gives one"

Left out: the curves of rewards that are for some kinds of rows only (helpful, harmless), as a short training may meet
none of these, and those of the user's own.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from r1flow.core.template import GENERAL
from r1flow.training.ranks import strategy_of
from r1flow.training.rollouts import rollouts

# What the report, or a person, looks for at the top, by program.
KEYS: dict[str, dict[str, type]] = {
    "pretrain": {"history": list},
    "sft": {"steps": int, "flops": float, "history": list},
    "grpo": {"steps": int, "flops": float, "history": list},
    "reward_model": {"history": list},
    "rejection": {"kept": int, "dropped": dict},
    "evaluate": {"tasks": dict},
}
# What it looks for in every task that a model was examined in; null where it has no value.
MEASURES = (
    *("pass_at_1", "se", "cons_at_k", "pass_at_1_lenient", "se_lenient", "cons_at_k_lenient", "pass_at_k"),
    *("format_rate", "language_rate", "mean_length", "finished_rate", "reflection_rate", "n_problems", "k"),
)
ALWAYS = {
    "pretrain": ("loss", "learning_rate"),
    "sft": ("loss", "learning_rate", "token_accuracy"),
    "grpo": ("reward", "length", "cut", "entropy", "zero_variance", "tokens"),
    "reward_model": ("loss", "learning_rate", "accuracy"),
}
CLIPPED = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")  # losses that TRL counts the clipped ratios of
BY_RULE = {"answer_format": "format", "language_consistency": "language"}  # rewards of every reasoning row


class BrokenPromise(Exception):
    """A program left out what its stage's configuration promises: its fault, and nobody's data's."""


def fault(program: str, config: Mapping[str, Any], metrics: Any) -> str | None:
    """What a stage's metrics lack first, in words that begin with the key; None: nothing."""
    return next(faults(program, config, metrics), None)


def faults(program: str, config: Mapping[str, Any], metrics: Any) -> Iterator[str]:
    keys = KEYS.get(program, {})
    for key, kind in keys.items():
        if not isinstance(metrics, dict) or key not in metrics:
            yield f"{key} is missing"
            return
        if not isinstance(metrics[key], kind):
            yield f"{key} is no {kind.__name__} but {str(metrics[key])[:40]!r}"
            return
    if "history" in keys:
        yield from curve_faults(curves(program, config, metrics), metrics["history"])
    if "tasks" in keys:
        yield from task_faults(metrics["tasks"])


def curve_faults(promised: Mapping[str, str], history: list[Any]) -> Iterator[str]:
    for number, row in enumerate(history):
        if not isinstance(row, dict) or not is_number(row.get("step")):
            yield f"history.{number}: {str(row)[:40]!r} is no step"
            return
    for curve, why in promised.items():
        if not any(is_number(row.get(curve)) for row in history):
            yield f"history: no step has {curve}, and {why}"


def task_faults(tasks: dict[str, Any]) -> Iterator[str]:
    if set(tasks) - {GENERAL} and "reasoning" not in tasks:
        yield "tasks: reasoning is missing"
    for task, summary in tasks.items():
        for measure in MEASURES:
            if not isinstance(summary, dict) or measure not in summary:
                yield f"tasks.{task}: {measure} is missing"
            elif summary[measure] is not None and not is_number(summary[measure]):
                yield f"tasks.{task}.{measure}: {str(summary[measure])[:40]!r} is no number"


def curves(program: str, config: Mapping[str, Any], metrics: Mapping[str, Any]) -> dict[str, str]:
    """The curves that a training of this configuration has, each with what gives it."""
    if (program == "pretrain" and config["init_from"]) or not logs(config["trainer"], metrics.get("steps", 1)):
        return {}
    found = dict.fromkeys(ALWAYS[program], "every such training has it")
    return found | grpo_curves(config) if program == "grpo" else found


def logs(trainer: Mapping[str, Any], steps: int) -> bool:
    """Whether so many steps reach one that is logged."""
    return trainer.get("logging_strategy", "steps") == "steps" and steps >= trainer.get("logging_steps", 500)


def grpo_curves(config: Mapping[str, Any]) -> dict[str, str]:
    trainer, found = config["trainer"], {}
    if not strategy_of(config).startswith("zero"):  # DeepSpeed may have none
        found["grad_norm"] = "every such training has it"
    if trainer["loss_type"] in CLIPPED:
        found["clipped"] = f"trainer.loss_type is {trainer['loss_type']}"
    if trainer["beta"]:
        found["kl"] = f"trainer.beta is {trainer['beta']}"
    if trainer.get("use_vllm") and trainer.get("vllm_importance_sampling_correction", True):
        found |= dict.fromkeys(("mismatch", "importance_ratio"), "trainer.use_vllm is true")
    if config.get("engine") == "r1flow" and not trainer.get("use_liger_kernel"):
        found["mismatch"] = "engine is r1flow"
    return found | reward_curves(config)


def reward_curves(config: Mapping[str, Any]) -> dict[str, str]:
    """Those of the rewards of reasoning rows, if any such row is asked; programs have no answer to compare."""
    trainer, share = config["trainer"], config["data"]["general_share"]
    prompts = rollouts(trainer) // trainer["num_generations"]
    if round(prompts * share) == prompts:
        return {}
    names = {label: part.get("name") or label for label, part in config["rewards"].items()}
    found = {BY_RULE[name]: f"rewards.{name} gives one" for name in BY_RULE if names.get(name) == name}
    graded = [label for label, name in names.items() if name == "accuracy"]
    if graded and "code_tests" not in names.values():
        found["accuracy"] = f"rewards.{graded[0]} gives one"
    return found


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
