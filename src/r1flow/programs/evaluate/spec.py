"""Facts about the program that evaluates a model, for plan, checks and report (programs/specs.py)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from r1flow.core.errors import UserError
from r1flow.core.schema import PARAPHRASED
from r1flow.programs.cost_estimate import Cost, Estimator, least
from r1flow.programs.evaluate.ways import NO_TOOLS, samples_given
from r1flow.programs.keys import NotNegative, OneOrMore, Sampled, ToolUse, ZeroOrMore
from r1flow.programs.model_sizes import UNKNOWN
from r1flow.programs.samplings import check_sampling, cost_of_sampling, memory_of_sampling
from r1flow.programs.specs import Spec
from r1flow.sampling.environments import Tools


@dataclass
class Evaluate(Sampled):
    split: str
    n_problems: OneOrMore | None
    k: OneOrMore
    language: str
    languages: list[str]
    reflection_words: list[str]
    thinking: list[NotNegative]
    paraphrased: ZeroOrMore  # 0: not asked
    interventions: list[Literal["no_reflection", "forced_reflection", "after_right", "after_wrong", "no_tools"]]
    reflection_opening: str
    environment: ToolUse | None


def check_evaluate(config: dict[str, Any]) -> None:
    """Refuse options with which the run's models can't be examined."""
    check_sampling(config)
    if config["environment"]:
        Tools(config["environment"])
    for number, temperature in enumerate(config["thinking"]):
        if temperature in config["thinking"][:number]:  # temperatures name metrics
            raise UserError(f"thinking: {config['thinking']}; use each temperature once")
    if NO_TOOLS in config["interventions"] and not config["environment"]:
        raise UserError(f"interventions: {NO_TOOLS} takes tools away; set evaluate.environment, or leave it out")
    if set(config["interventions"]) - {NO_TOOLS} and config["temperature"] not in config["thinking"]:
        raise UserError(
            f"interventions: they change samples with <think> given at temperature {config['temperature']}, and"
            f" thinking: {config['thinking']} has none; add {config['temperature']} to it"
        )
    if config["engine_options"].get("model"):
        raise UserError(
            "engine_options.model: evaluate examines several models, and this is one name for all; leave it out, and"
            " the folder that the server has loaded is compared with each model's"
        )
    if config["engine_options"].get("chat"):
        raise UserError(
            "engine_options.chat: the server would use its own chat template, not the model's; leave it out"
        )


def files_read(config: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "split", f"{config['split']}.jsonl"
    if config["paraphrased"]:
        yield "paraphrased", f"{PARAPHRASED.format(config['split'])}.jsonl"


def cost(estimator: Estimator, job: str, config: dict[str, Any]) -> Cost:
    """The cost of sampling answers to all problems and general prompts."""
    split, limit, data = config["split"], config["n_problems"], estimator.run.slice("data")
    families = len(data["tasks"] if estimator.origin == "generated" else data["sources"])
    problems = least(estimator.rows.get(split, UNKNOWN), limit and limit * families)
    prompts = least(estimator.rows.get(f"general_{split}", 0), limit and limit * len(data.get("general_kinds", ())))
    ways = [(problems + prompts) * config["k"], problems * config["paraphrased"]]
    ways += [problems * samples_given(config, temperature) for temperature in config["thinking"]]
    # At most: not every thought states an answer.
    ways += [problems * config["k"]] * len(config["interventions"])
    return cost_of_sampling(estimator, job, config, *ways)


SPEC = Spec(
    keys=Evaluate,
    outputs=lambda config: ["samples.parquet"],
    check=check_evaluate,
    files_read=files_read,
    metrics={"tasks": dict, "thinking": list, "counts": dict},
    cost=cost,
    memory=memory_of_sampling,
    on_gpu=True,
)
