"""Facts about the program that trains a reward model, for plan, checks and report (programs/specs.py)."""

from dataclasses import dataclass
from typing import Any

from r1flow.programs.cost_estimate import Cost, Estimator, least
from r1flow.programs.keys import Rows, Trained
from r1flow.programs.specs import Spec
from r1flow.programs.trainings import SMOOTHING, STEPS, TRL, check_read, cost_of, curves_of, memory_of, taught


@dataclass
class RewardModel(Trained):
    data: Rows


def curves(config: dict[str, Any], metrics: dict[str, Any]) -> dict[str, str]:
    return curves_of(("loss", "learning_rate", "accuracy"), config, metrics)


def cost(estimator: Estimator, job: str, config: dict[str, Any]) -> Cost:
    """The cost of training on both sides of every pair; the output is one score per text, so no logits count."""
    longest = config["trainer"]["max_length"]
    mean = least(estimator.prompt + estimator.response("preferences"), longest)
    trained, pair = 2 * taught(estimator, config, mean), 2 * (longest or mean)
    return cost_of(estimator, job, config, trained, 2 * mean, pair, logits=lambda tokens, model: 0)


SPEC = Spec(
    keys=RewardModel,
    outputs=lambda config: ["model/"],
    check=lambda config: check_read(config["trainer"], SMOOTHING),
    trainer=(*TRL, ("trl", "trainer/reward_config.py")),
    read=(*STEPS, "num_train_epochs", "max_length"),
    metrics={"flops": float, "counts": dict, "history": list},
    curves=curves,
    labels=lambda config: "pairs",
    by_ranks=True,
    cost=cost,
    memory=memory_of,
    on_gpu=True,
)
