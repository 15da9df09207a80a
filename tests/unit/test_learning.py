"""What is said of a training that learns nothing: why, which key to change, and nothing of one that learns."""

from typing import Any

import pytest

from r1flow.training.learning import WINDOW, obstacles_met, obstacles_now

CONFIG = {
    "data": {"file": "rl.jsonl"},
    "trainer": {"max_completion_length": 32, "num_generations": 4, "temperature": 0.6, "learning_rate": 0.001},
}
GOOD = {"zero_variance": 0.66, "truncated": 0.5, "grad_norm": 0.09, "accuracy": 0.3}


def rows(*changes: dict[str, float]) -> list[dict[str, Any]]:
    return [{"step": step, **GOOD, **change} for step, change in enumerate(changes, 1)]


ALIKE = {"zero_variance": 1.0, "grad_norm": 0.0}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (ALIKE | {"accuracy": 0.0}, "no completion is right; use easier problems (data.file: rl.jsonl)"),
        (ALIKE | {"accuracy": 1.0}, "every completion is right; use harder problems (data.file: rl.jsonl)"),
        (ALIKE, "raise trainer.num_generations (4) or trainer.temperature (0.6)"),
        ({"grad_norm": 0.0}, "the gradient was 0 although rewards differed"),
        ({"grad_norm": 0.0}, "look at trainer.learning_rate (0.001), which breaks a model if it is too high"),
        ({"truncated": 0.83}, "83% of the completions were truncated, without an answer"),
    ],
)
def test_an_obstacle_is_said_while_it_runs_and_at_the_end_with_what_to_change(change, said):
    met = rows(*[change] * WINDOW)
    [now], [whole] = obstacles_now(met, CONFIG).values(), obstacles_met(met, CONFIG)
    assert now.startswith(f"in the last {WINDOW} logged steps ") and said in now
    assert whole.startswith(f"in {WINDOW} of {WINDOW} logged steps ") and said in whole
    assert obstacles_now(met[1:], CONFIG) == {} and len(obstacles_met(met[:1], CONFIG)) == 1  # a short training
    assert obstacles_now([*met, *rows({})], CONFIG) == {}


def test_equal_rewards_of_truncated_completions_have_that_cause():
    lines = obstacles_met(rows(*[ALIKE | {"accuracy": 0.0, "truncated": 1.0}] * 3), CONFIG)
    assert len(lines) == 2 and all("raise trainer.max_completion_length (32)" in line for line in lines)


def test_a_loss_without_truncated_completions_has_that_cause():
    masked = CONFIG | {"trainer": CONFIG["trainer"] | {"mask_truncated_completions": True}}
    assert "trainer.mask_truncated_completions to false" in obstacles_met(rows({"grad_norm": 0.0}), masked)[0]


def test_at_the_end_half_of_the_steps_or_five_in_a_row_count():
    def met(pattern: str) -> int:
        return len(obstacles_met(rows(*[ALIKE if mark == "x" else {} for mark in pattern]), CONFIG))

    assert [met(pattern) for pattern in ("x.", "x..", "..xxxxx......", "..xxxx.xxxx......x...")] == [1, 0, 1, 0]


def test_a_training_that_learns_or_logs_less_is_left_alone():
    assert obstacles_met(rows(*[{}] * 40), CONFIG) == [] and obstacles_now(rows(*[{}] * 40), CONFIG) == {}
    assert obstacles_met([{"step": 1}, {"step": 2, "grad_norm": None}], CONFIG) == [] == obstacles_met([], CONFIG)
