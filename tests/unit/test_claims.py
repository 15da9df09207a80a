"""The verdict rule on intervals, and the seven claims on runs whose effects we made ourselves."""

import numpy as np
import pytest
from fabricated_run import SKILLS, TRAINED, fabricate_history, fabricate_samples

from r1flow.claims import (
    CANT_TELL,
    MIN_PROBLEMS,
    NOT_REPRODUCED,
    NOT_TESTED,
    REPRODUCED,
    Evidence,
    Part,
    c1,
    c2,
    c4,
    c5,
    c7,
    describe,
    judge,
)
from r1flow.metrics import Interval
from r1flow.report.collect import scores_of


def interval(low: float, high: float, n: int = 100) -> Interval:
    return Interval((low + high) / 2, low, high, 0.01, n)


def fabricated(models=tuple(SKILLS), problems: int = 60, same_as: dict[str, str] | None = None) -> Evidence:
    """Evidence in which a model of `same_as` behaves as another one does."""
    made = {model: fabricate_samples((same_as or {}).get(model, model), problems) for model in models}
    accuracy = {s: [row["accuracy"] for row in fabricate_history(s)] for s in TRAINED if s in models}
    return Evidence({model: scores_of(rows) for model, rows in made.items()}, accuracy)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.001, 0.2, REPRODUCED),
        (-0.2, -0.001, NOT_REPRODUCED),
        (-0.004, 0.004, NOT_REPRODUCED),  # an effect worth the name is excluded
        (-0.05, 0.05, CANT_TELL),
        (0.0, 0.02, CANT_TELL),
        (0.0, 0.0, NOT_REPRODUCED),
    ],
)
def test_effect_needs_an_interval_above_zero(low, high, verdict):
    assert Part("effect", interval(low, high)).verdict == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.009, 0.02, REPRODUCED),
        (-0.009, -0.001, REPRODUCED),
        (-0.03, 0.02, CANT_TELL),
        (-0.03, -0.001, NOT_REPRODUCED),
    ],
)
def test_no_worse_needs_a_loss_of_a_point_excluded(low, high, verdict):
    assert Part("no worse", interval(low, high), floor=-0.01, ceiling=0.0).verdict == verdict


def test_few_problems_cannot_tell_however_clear_they_look():
    assert Part("effect", interval(0.5, 0.9, n=MIN_PROBLEMS - 1)).verdict == CANT_TELL
    assert Part("effect", Interval(1.0, None, None, None, 1)).verdict == CANT_TELL
    assert Part("effect", Interval(None, None, None, None, 0)).verdict == CANT_TELL


def test_missing_arm_is_not_tested():
    assert Part("effect", None).verdict == NOT_TESTED


def test_known_effects_come_out():
    verdicts = {claim.id: claim.verdict for claim in judge(fabricated(problems=100))}
    assert verdicts["C5"] == NOT_TESTED
    assert {verdicts[id] for id in ("C1", "C2", "C3", "C6", "C7")} == {REPRODUCED}


def test_base_is_scored_leniently_so_that_format_alone_is_no_gain():
    samples = fabricate_samples("base", 100)
    formatted = [{**row, "correct": row["correct_lenient"], "well_formed": True} for row in samples]
    claim = c1(Evidence({"base": scores_of(samples), "zero_rl": scores_of(formatted)}))
    assert claim.verdict == NOT_REPRODUCED
    assert claim.parts[1].interval.estimate > 0.05  # strictly, it would have looked like one


def test_claim_is_as_good_as_its_weakest_part_and_shows_it():
    samples = fabricate_samples("zero_rl", 60)
    silent = [{**row, "reflections": 0} for row in samples]
    base = [{**row, "reflections": 0} for row in fabricate_samples("base", 60)]
    claim = c2(Evidence({"base": scores_of(base), "zero_rl": scores_of(silent)}))
    assert [part.verdict for part in claim.parts] == [REPRODUCED, NOT_REPRODUCED]
    assert claim.verdict == NOT_REPRODUCED
    assert "reflection" in describe(claim)["measure"]


def test_parts_that_are_only_shown_do_not_decide():
    parts = [part for claim in judge(fabricated(problems=30)) for part in claim.parts if not part.counts]
    assert parts
    assert c1(fabricated(("zero_rl",))).verdict == NOT_TESTED


def test_cold_start_compares_the_first_quarter_of_training():
    rng = np.random.default_rng(3)
    cold, zero = 0.7 + rng.normal(0, 0.01, 40), np.linspace(0.1, 0.9, 40) + rng.normal(0, 0.08, 40)
    scores = fabricated(("base", "zero_rl", "cold_start", "reasoning_rl"), 100).scores
    claim = c4(Evidence(scores, {"reasoning_rl": list(cold), "zero_rl": list(zero)}))
    assert claim.verdict == REPRODUCED
    assert claim.parts[2].interval.n == 10
    assert c4(Evidence(scores)).verdict == NOT_TESTED
    assert c4(Evidence(scores, {"reasoning_rl": list(cold[:4]), "zero_rl": list(zero[:4])})).verdict == CANT_TELL


@pytest.mark.parametrize(
    ("without", "verdict"), [("zero_rl", REPRODUCED), ("reasoning_rl", NOT_REPRODUCED), ("distill", NOT_REPRODUCED)]
)
def test_language_reward_needs_its_ablation_to_read_worse(without, verdict):
    arms = ("reasoning_rl", "reasoning_rl_no_language")
    assert c5(fabricated(arms, 100, {"reasoning_rl_no_language": without})).verdict == verdict


def test_final_model_must_hold_reasoning_and_gain_on_general_prompts():
    forgetful = c7(fabricated(("align_rl", "reasoning_rl"), 100, {"align_rl": "distill"}))
    assert [part.verdict for part in forgetful.parts] == [NOT_REPRODUCED, REPRODUCED]
    unpolished = c7(fabricated(("align_rl", "reasoning_rl"), 100, {"align_rl": "reasoning_rl"}))
    assert unpolished.verdict == NOT_REPRODUCED


def test_no_models_give_seven_untested_claims():
    claims = judge(Evidence({}))
    assert [claim.id for claim in claims] == [f"C{i}" for i in range(1, 8)]
    assert {claim.verdict for claim in claims} == {NOT_TESTED}
    assert describe(claims[0])["estimate"] is None


def test_estimate_lies_in_its_interval_whatever_the_claim():
    for claim in judge(fabricated(problems=30)):
        found = describe(claim)
        assert found["estimate"] is None or found["low"] <= found["estimate"] <= found["high"]
