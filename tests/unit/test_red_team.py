"""The fuzzer against our rewards finds nothing, and would find what it looks for."""

import random

import benchmark
import pytest

red_team = benchmark.load("red_team")


ROUNDS = {
    "accuracy": 512,
    "kinds": 3000,
    "lengths": 256,
    "copies": 256,
    "outputs": 10_000,
    "answer_format": 4000,
    "invisible": 2000,
    "language_consistency": 400,
    "countdown": 4000,
    "names": 20_000,
}


def test_every_attack_is_tried() -> None:
    assert ROUNDS.keys() == red_team.ATTACKS.keys()


@pytest.mark.parametrize(("name", "rounds"), ROUNDS.items())
def test_nothing_wrong_is_paid(name: str, rounds: int) -> None:
    assert [str(find) for find in red_team.finds(name, rounds, seed=1)] == []


def test_a_reward_with_a_hole_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def last_word(gold_column: str = "answer"):
        return lambda prompts, completions, answer, **columns: [
            float(gold in completion) for completion, gold in zip(completions, answer, strict=True)
        ]

    monkeypatch.setattr(red_team, "accuracy", last_word)
    assert red_team.finds("accuracy", 256, seed=1)


def test_a_seed_decides_the_attacks() -> None:
    drawn = [red_team.cooked(*red_team.recipe(red_team.TARGETS[0], random.Random(seed))) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
