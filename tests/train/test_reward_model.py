"""The reward model learns its pairs, to the same bytes even if killed, and RL shows it what training did; 10 s, CPU."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from tiny import END, base_with, check_resume, conf, make_stage, make_tokenizer, weights_hash

from r1flow import rewards
from r1flow.core.errors import UserError
from r1flow.core.schema import write_jsonl
from r1flow.programs.reward_model import compute as reward_model
from r1flow.rewards.classifier import judged_ids

CONFIG = conf("reward_model/default")
PAIRS = [
    {"id": f"{i}", "kind": kind, "question": f"question {i}", "chosen": f"<think>{i}</think>{good}", "rejected": bad}
    for i in range(60)
    for kind, good, bad in [("helpful", "Hello!", "no"), ("harmless", "I can't help with that.", "sure, here is how")]
]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return base_with(tmp_path, preferences=PAIRS)


def stage_of(folder: Path, name: str, **trainer: object) -> SimpleNamespace:
    trainer = CONFIG["trainer"] | {"max_steps": 12, "learning_rate": 3.0e-3, **trainer}
    return make_stage(folder, name, CONFIG | {"trainer": trainer})


def test_held_out_pairs_are_told_apart_and_the_same_seed_gives_the_same_bytes(base: Path) -> None:
    one, two = stage_of(base, "one"), stage_of(base, "two")
    metrics = reward_model.compute(one)
    assert metrics["accuracy"] > 0.9
    assert metrics["pairs"] + metrics["held_out_pairs"] == len(PAIRS)
    assert metrics["flops"] > 0
    assert reward_model.compute(two) == metrics
    half = reward_model.compute(stage_of(base, "half", max_steps=6))["flops"]
    assert half == pytest.approx(metrics["flops"] / 2)
    assert weights_hash(one) == weights_hash(two)


@pytest.mark.parametrize("at", [8, END])
def test_resumed_equals_uninterrupted(base: Path, at: int) -> None:
    # an epoch is four steps: from within the second one
    check_resume(reward_model.compute, lambda name: stage_of(base, name, max_steps=9, save_steps=3), at, snapshot=6)


def test_scores_in_rl_are_bounded_ordered_and_for_the_right_rows(base: Path) -> None:
    stage = stage_of(base, "rm")
    reward_model.compute(stage)
    reward = rewards.reward_model(stage.work / "model", sees="summary", kinds=["greeting"])
    columns = {
        "task": ["general", "general", "general", "chain_sum"],
        "kind": ["greeting", "greeting", "harmful", None],
        "question": ["question 3"] * 4,
    }
    good, bad, other, reasoning = reward(["p"] * 4, ["<think>no</think>Hello!", "no", "no", "no"], **columns)
    assert 0 <= bad < good <= 1
    assert other is None and reasoning is None
    alone = reward(["p"], ["no"], task=["general"], kind=["greeting"], question=["question 3"])
    assert alone == [pytest.approx(bad, abs=1e-6)]


def test_helpful_sees_the_summary_and_harmless_the_whole_response() -> None:
    tokenizer = make_tokenizer()
    response = "<think>secret</think>Hello!"
    summary = judged_ids(tokenizer, "hi", response, "summary")
    whole = judged_ids(tokenizer, "hi", response, "response")
    assert tokenizer.decode(summary) == "User: hi\nAssistant: Hello!<|endoftext|>"
    assert tokenizer.decode(whole) == f"User: hi\nAssistant: {response}<|endoftext|>"
    row = {"question": "hi", "chosen": response, "rejected": "no", "kind": "helpful"}
    assert reward_model.pair(tokenizer, row)["chosen_ids"] == summary
    assert reward_model.pair(tokenizer, row | {"kind": "harmless"})["chosen_ids"] == whole


def test_an_enormous_response_is_scored(base: Path) -> None:
    stage = stage_of(base, "rm")
    reward_model.compute(stage)
    (score,) = rewards.reward_model(stage.work / "model")(["p"], ["a" * 10_000], task=["general"])
    assert 0 <= score <= 1


def test_no_pairs_is_the_users_to_mend(base: Path) -> None:
    write_jsonl(base / "data" / "preferences.jsonl", [])
    with pytest.raises(UserError, match="no preference pairs"):
        reward_model.compute(stage_of(base, "rm"))


def test_pairs_that_are_too_long_are_counted_and_refused_above_a_share(base: Path) -> None:
    count = reward_model.compute(stage_of(base, "short", max_steps=1))["counts"]["preferences.jsonl"]
    assert count["read"] == 120 and count["left_out"].keys() == {"held out"}
    long = [PAIRS[n] | {"chosen": "<think></think>" + "x" * 200} for n in range(0, 40, 2)]
    write_jsonl(base / "data" / "preferences.jsonl", [*long, *PAIRS[40:]])
    metrics = reward_model.compute(stage_of(base, "some", max_steps=1, max_length=100))
    found = metrics["counts"]["preferences.jsonl"]
    assert 0 < found["left_out"]["too long"] <= 20 and found["kept"] == 100 - sum(found["left_out"].values())
    write_jsonl(base / "data" / "preferences.jsonl", PAIRS[40:])  # the others cost nothing
    assert reward_model.compute(stage_of(base, "others", max_steps=1, max_length=100))["flops"] == metrics["flops"]
    write_jsonl(base / "data" / "preferences.jsonl", [*long, *PAIRS[40:]])
    with pytest.raises(UserError, match=r"^many\.lost_share: 0\.5, and 100\.0% of preferences\.jsonl is lost"):
        reward_model.compute(stage_of(base, "many", max_steps=1, max_length=5))
