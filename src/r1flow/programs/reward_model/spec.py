"""What the neighbours of the program must know that trains a model to tell the better of two replies."""

from dataclasses import dataclass
from typing import Any

from r1flow.programs.keys import Lora, Rows, Seeded
from r1flow.programs.specs import Spec
from r1flow.programs.trainings import STEPS, TRL


@dataclass
class RewardModel(Seeded):
    init_from: str
    attention: str
    data: Rows
    trainer: dict[str, Any]
    strategy: str = "ddp"
    lora: Lora | None = None


SPEC = Spec(
    RewardModel,
    trainer=(*TRL, ("trl", "trainer/reward_config.py")),
    read=(*STEPS, "num_train_epochs", "max_length"),
)
