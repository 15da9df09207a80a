"""The price of a run goes by the trainer's own count of rollouts."""

from pathlib import Path

import pytest
import yaml

pytest.importorskip("trl")

from r1flow.pricing import rollouts
from r1flow.stages.grpo import prompts_needed

TRAINER = yaml.safe_load(Path("conf/grpo/default.yaml").read_text())["trainer"]


@pytest.mark.parametrize(
    "options", [{}, {"num_iterations": 2}, {"steps_per_generation": 8}, {"max_steps": 3, "num_iterations": 2}]
)
def test_rollouts_are_those_that_are_drawn(options):
    trainer = TRAINER | options
    assert rollouts(trainer) == prompts_needed(trainer) * trainer["num_generations"]
