"""Facts about the program that trains a scorer of steps, for plan, checks and report (programs/specs.py)."""

from dataclasses import dataclass
from typing import Any, Literal

from r1flow.core.errors import UserError, did_you_mean
from r1flow.core.steps import STEP_MARKS
from r1flow.programs.cost_estimate import Cost, Estimator, least
from r1flow.programs.keys import Counting, OneOrMore, Seeded, ZeroOrMore
from r1flow.programs.model_sizes import UNKNOWN
from r1flow.programs.specs import Spec
from r1flow.programs.trainings import SMOOTHING, STEPS, TRANSFORMERS, batch, check_read, cost_of, curves_of, memory_of
from r1flow.recipe.stages import RECIPE


@dataclass
class StepScorer(Seeded, Counting):
    init_from: str
    labels: Literal["steps", "outcome", "both"]
    samples: OneOrMore | None
    prefixes: ZeroOrMore
    step: str
    max_length: OneOrMore
    attention: str
    trainer: dict[str, Any]
    strategy: str = "ddp"


def check_step_scorer(config: dict[str, Any]) -> None:
    if config["step"] not in STEP_MARKS:
        hint = did_you_mean(config["step"], list(STEP_MARKS))
        raise UserError(f"step: there is no rule {config['step']!r}{hint}")
    check_read(config["trainer"], SMOOTHING)


def curves(config: dict[str, Any], metrics: dict[str, Any]) -> dict[str, str]:
    return curves_of(("loss", "learning_rate"), config, metrics)


def cost(estimator: Estimator, job: str, config: dict[str, Any]) -> Cost:
    """The cost of training on every sample once and on its beginnings, which are half as long; no logits count."""
    maker, trainer = estimator.run.slice(RECIPE[job].rows_of), config["trainer"]
    prompts = least(estimator.rows.get("rejection", UNKNOWN), maker["prompts"])
    samples = least(prompts * maker["samples_per_prompt"], config["samples"])
    response = estimator.completion(maker["max_new_tokens"])
    whole, begun = (min(estimator.prompt + length, config["max_length"]) for length in (response, response / 2))
    rows, tokens = samples * (1 + config["prefixes"]), samples * (whole + config["prefixes"] * begun)
    steps = trainer["max_steps"]
    trained = steps * batch(trainer) * tokens / rows if steps > 0 else trainer["num_train_epochs"] * tokens
    return cost_of(estimator, job, config, trained, tokens / rows, config["max_length"], logits=lambda tokens, model: 0)


SPEC = Spec(
    keys=StepScorer,
    outputs=lambda config: ["model/"],
    check=check_step_scorer,
    trainer=TRANSFORMERS,
    read=(*STEPS, "num_train_epochs"),
    metrics={"rows": int, "flops": float, "counts": dict, "history": list},
    curves=curves,
    labels=lambda config: "prefixes",
    by_ranks=True,
    cost=cost,
    memory=memory_of,
    on_gpu=True,
)
