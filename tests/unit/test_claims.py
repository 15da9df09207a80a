"""The verdict rule on intervals, and the claims on runs whose effects we made ourselves."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from fabricated_run import SKILLS, TEMPERATURES, TRAINED, fabricate_history, fabricate_samples

from r1flow.core.metrics import PROBLEM_METRICS, Interval, per_problem, residuals
from r1flow.programs.report.collect import scores_of
from r1flow.recipe.claims import (
    ACCURACIES,
    CANT_TELL,
    CLAIMS,
    DOES_NOT_HOLD,
    HOLDS,
    MIN_PROBLEMS,
    NO_VERDICT,
    NOT_IN_RUN,
    Absent,
    Claim,
    Evidence,
    Part,
    c1,
    c2,
    c3,
    c4,
    c5,
    c6,
    c7,
    c8,
    c9,
    c10,
    c11,
    c12,
    c13,
    c14,
    c15,
    claim_summary,
    compare_modes,
    compare_solved,
    compare_thinking,
    judge_claims,
)
from r1flow.recipe.stages import ATTEMPTS

DEV = "dev/accuracy"


@dataclass
class Noting(Mapping[str, object]):
    """A mapping that has every key, all with one value, and notes which were asked for."""

    value: object
    keys_read: set[str] = field(default_factory=set)

    def __getitem__(self, key: str) -> object:
        self.keys_read.add(key)
        return self.value

    __iter__ = __len__ = None


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.__name__)
def test_a_claim_names_what_it_reads(claim):
    scores, thinking = Noting({}), Noting({})
    accuracy, lengths, dev, excess = Noting([0.0]), Noting([0.0]), Noting({0: 0.0}), Noting([0.0])
    named = claim(Evidence(scores, accuracy, (), thinking, {}, lengths, dev, excess))
    assert set(named.models) == scores.keys_read | thinking.keys_read
    assert set(named.curves) == accuracy.keys_read | lengths.keys_read | dev.keys_read | excess.keys_read


def interval(low: float, high: float, n: int = 100) -> Interval:
    return Interval((low + high) / 2, low, high, 0.01, n)


def fabricated(models=tuple(SKILLS), problems: int = 60, same_as: dict[str, str] | None = None) -> Evidence:
    """Evidence in which a model of `same_as` behaves as another one does."""
    behaving = {model: (same_as or {}).get(model, model) for model in models}
    made = {model: fabricate_samples(like, problems) for model, like in behaving.items()}
    curves = {stage: fabricate_history(stage) for stage in TRAINED if stage in models}
    accuracy, lengths = (
        {stage: [row[key] for row in rows if key in row] for stage, rows in curves.items()}
        for key in ("accuracy", "thinking_length")
    )
    dev = {stage: {row["step"]: row[DEV] for row in rows if DEV in row} for stage, rows in curves.items()}
    thinking = {
        model: {t: fabricate_samples(like, problems, seed=1, thinking=t) for t in TEMPERATURES}
        for model, like in behaving.items()
    }
    return evidence_of(made, accuracy, thinking, lengths, dev)


def evidence_of(samples, accuracy=None, thinking=None, lengths=None, dev=None) -> Evidence:
    """Evidence from rows as asked, training curves, and rows with <think> given by model and temperature."""
    families = {row["problem_id"]: row["task"] for rows in samples.values() for row in rows}
    given = {model: {t: per_problem(rows) for t, rows in found.items()} for model, found in (thinking or {}).items()}
    scores = {model: scores_of(rows) for model, rows in samples.items()}
    return Evidence(scores, accuracy or {}, (), given, families, lengths or {}, dev or {})


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.001, 0.2, HOLDS),
        (-0.2, -0.001, DOES_NOT_HOLD),
        (-0.004, 0.004, DOES_NOT_HOLD),  # an effect worth the name is excluded
        (-0.05, 0.05, CANT_TELL),
        (0.0, 0.02, CANT_TELL),
        (0.0, 0.0, DOES_NOT_HOLD),
    ],
)
def test_effect_needs_an_interval_above_zero(low, high, verdict):
    assert Part("effect", interval(low, high)).verdict == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.009, 0.02, HOLDS),
        (-0.009, -0.001, HOLDS),
        (-0.03, 0.02, CANT_TELL),
        (-0.03, -0.001, DOES_NOT_HOLD),
    ],
)
def test_no_worse_needs_a_loss_of_a_point_excluded(low, high, verdict):
    assert Part("no worse", interval(low, high), floor=-0.01, ceiling=0.0).verdict == verdict


def test_few_problems_cannot_tell_however_clear_they_look():
    assert Part("effect", interval(0.5, 0.9, n=MIN_PROBLEMS - 1)).verdict == CANT_TELL
    assert Part("effect", Interval(1.0, None, None, None, 1)).verdict == CANT_TELL
    assert Part("effect", Interval(None, None, None, None, 0)).verdict == CANT_TELL


def unsolved(evidence: Evidence, *models: str) -> Evidence:
    """The evidence if these models solved no problem, whether as asked or made to think."""

    def nothing(table: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
        return {name: dict.fromkeys(found, 0.0) if name in ACCURACIES else found for name, found in table.items()}

    scores, thinking = dict(evidence.scores), dict(evidence.thinking)
    for model in models:
        scores[model] = {scope: nothing(table) for scope, table in evidence.scores[model].items()}
        thinking[model] = {t: nothing(table) for t, table in evidence.thinking[model].items()}
    return replace(evidence, scores=scores, thinking=thinking)


@pytest.mark.parametrize("claim", [c1, c2, c3, c5, c6, c7, c8, c9, c10, c11, c12], ids=lambda claim: claim.__name__)
def test_a_verdict_needs_a_problem_that_one_of_the_compared_models_solves(claim):
    """Of 0 against 0 the interval is [0, 0]: neither "doesn't hold", nor "no worse"."""
    whole = fabricated(problems=30)
    curves = {stage: [0.0] * 40 for stage in whole.accuracy}
    evidence = replace(unsolved(whole, *SKILLS), accuracy=curves)
    found = claim(evidence)
    assert found.verdict == CANT_TELL and claim_summary(found)["why"] == "neither model solves any"
    assert {part.verdict for part in found.parts} == {CANT_TELL}


@pytest.mark.parametrize(("claim", "pair"), [(c6, ("distill", "student_rl")), (c11, ("align_rl", "zero_rl"))])
def test_one_model_that_solves_something_is_enough(claim, pair):
    ahead, behind = (claim(unsolved(fabricated(pair, 30), other)) for other in reversed(pair))
    assert (ahead.verdict, behind.verdict) == (HOLDS, DOES_NOT_HOLD)


def test_trainings_that_solve_nothing_are_not_compared():
    whole = fabricated(("base", "zero_rl", "cold_start", "reasoning_rl"), 30)
    nothing = {stage: [0.0] * 40 for stage in whole.accuracy}
    dev = {stage: dict.fromkeys(curve, 0.0) for stage, curve in whole.dev.items()}
    speed, steady, level, rise = c4(replace(whole, accuracy=nothing, dev=dev)).parts[2:6]
    assert {part.why for part in (speed, steady, level, rise)} == {"neither model solves any"}
    assert {part.verdict for part in (speed, steady)} == {CANT_TELL} and not steady.counts
    one = {"reasoning_rl": whole.dev["reasoning_rl"], "zero_rl": dev["zero_rl"]}
    assert c4(replace(whole, dev=one)).parts[3].why == ""
    assert c2(replace(whole, accuracy=nothing)).parts[2].verdict == CANT_TELL
    assert c2(replace(whole, accuracy={"zero_rl": []})).parts[2].verdict == HOLDS  # no reward that says what is right


def test_a_toy_has_no_verdicts():
    claims = judge_claims(fabricated(("base", "zero_rl"), 30), toy=True)
    assert {claim.verdict for claim in claims} == {NO_VERDICT, NOT_IN_RUN}
    assert claims[0].verdict == NO_VERDICT and claims[0].parts[0].interval.estimate > 0.2


def test_an_arm_that_the_run_has_not_is_named():
    assert Part("effect", Absent(("distill",))).verdict == NOT_IN_RUN
    without = fabricated(("base", "zero_rl", "reasoning_rl"), 30)
    needed = {claim.id: [part.needs for part in claim.parts] for claim in judge_claims(without)}
    assert set(needed["C1"]) == {""} and needed["C6"] == ["distill, student_rl"] * 2
    assert needed["C5"] == ["zero_rl_language"] * 2
    assert needed["C4"] == ["cold_start", "cold_start", "", "", "", "", "cold_start"]
    assert set(needed["C11"]) == {"align_rl"}


def test_of_parts_with_one_verdict_the_claim_shows_the_one_nearest_to_its_floor():
    wide, narrow = Part("wide", interval(0.10, 0.60)), Part("narrow", interval(0.05, 0.07))
    no_loss = Part("no worse", interval(-0.01, 0.05), floor=-0.02, ceiling=0.0)
    for parts, weakest in (((wide, narrow), wide), ((narrow, wide), wide), ((wide, no_loss), no_loss)):
        claim = Claim("C0", "text", "source", "how", parts)
        assert claim.deciding == weakest and claim.verdict == HOLDS
    unsure = Part("unsure", interval(-0.5, 0.5))
    assert Claim("C0", "text", "source", "how", (wide, unsure)).deciding == unsure
    constant = Part("constant", Interval(0.3, 0.3, 0.3, 0.0, 40))
    assert Claim("C0", "text", "source", "how", (constant, wide)).deciding == wide


def test_an_arm_that_the_run_has_and_that_is_missing_is_a_fault():
    evidence = fabricated(("base", "zero_rl", "cold_start", "reasoning_rl"), 30)
    stages = ("base", "zero_rl", "cold_start", "reasoning_rl")
    whole = replace(evidence, stages=stages)
    judge_claims(whole)
    for model in ("base", "zero_rl"):
        scores = {name: found for name, found in evidence.scores.items() if name != model}
        with pytest.raises(LookupError, match=f"{model} is a stage of this run"):
            judge_claims(replace(whole, scores=scores))
    for curves in ("accuracy", "dev"):
        with pytest.raises(LookupError, match="reasoning_rl is a stage of this run"):
            judge_claims(replace(whole, **{curves: {"zero_rl": getattr(evidence, curves)["zero_rl"]}}))


def test_what_the_runs_data_or_rewards_have_not_is_named():
    models = ("base", "zero_rl", "cold_start", "reasoning_rl", "sft_mix", "align_rl")
    scores = {model: {"reasoning": found["reasoning"]} for model, found in fabricated(models, 30).scores.items()}
    curves = {"zero_rl": [0.5] * 40, "reasoning_rl": [], "align_rl": []}
    dev = {"zero_rl": {0: 0.5}, "reasoning_rl": {}, "align_rl": {}}
    evidence = Evidence(scores, curves, models, {}, Everything(), curves, dev)
    assert c7(evidence).parts[0].needs == "general prompts"
    assert c1(evidence).parts[1].needs == "0.6 in evaluate.thinking"
    assert c1(evidence).verdict == NOT_IN_RUN
    assert c4(evidence).parts[2].needs == "the reward accuracy in reasoning_rl"
    assert c4(evidence).parts[3].needs == "reasoning_rl.dev"


def test_known_effects_come_out():
    verdicts = {claim.id: claim.verdict for claim in judge_claims(fabricated(problems=100))}
    assert {verdicts[id] for id in ("C1", "C2", "C3", "C5", "C6", "C7", "C9", "C10", "C11", "C12")} == {HOLDS}
    assert verdicts["C8"] == DOES_NOT_HOLD  # this cold start is better than zero_rl


def test_base_is_scored_leniently_so_that_format_alone_is_no_gain():
    samples = fabricate_samples("base", 100)
    formatted = [{**row, "correct": row["correct_lenient"], "well_formed": True} for row in samples]
    claim = c1(evidence_of({"base": samples, "zero_rl": formatted}))
    assert claim.parts[0].verdict == DOES_NOT_HOLD
    assert claim.parts[-1].interval.estimate > 0.05  # strictly, it would have looked like one


def test_claim_is_as_good_as_its_weakest_part_and_shows_it():
    models = ("base", "zero_rl")
    asked = {model: fabricate_samples(model, 60) for model in models}
    silent = {
        model: {0.6: [{**row, "reflections": 0} for row in fabricate_samples(model, 60, thinking=0.6)]}
        for model in models
    }
    claim = c2(evidence_of(asked, thinking=silent))
    assert [part.verdict for part in claim.parts] == [HOLDS, DOES_NOT_HOLD, NOT_IN_RUN, HOLDS]
    assert claim.verdict == DOES_NOT_HOLD
    assert "reflection" in claim_summary(claim)["measure"]


def test_parts_that_are_only_shown_do_not_decide():
    parts = [part for claim in judge_claims(fabricated(problems=30)) for part in claim.parts if not part.counts]
    assert parts
    assert c1(fabricated(("zero_rl",))).verdict == NOT_IN_RUN


def test_cold_start_compares_the_first_quarter_of_training():
    rng = np.random.default_rng(3)
    cold, zero = 0.7 + rng.normal(0, 0.01, 40), np.linspace(0.1, 0.9, 40) + rng.normal(0, 0.08, 40)
    evidence = fabricated(("base", "zero_rl", "cold_start", "reasoning_rl"), 100)
    claim = c4(replace(evidence, accuracy={"reasoning_rl": list(cold), "zero_rl": list(zero)}))
    speed, level = claim.parts[2], claim.parts[4]
    assert [part.verdict for part in (speed, level)] == [DOES_NOT_HOLD, HOLDS]
    assert not level.counts and claim.verdict == DOES_NOT_HOLD  # it begins higher, and rises more slowly
    assert {part.interval.n for part in (speed, level)} == {10}
    assert c4(Evidence(evidence.scores)).verdict == NOT_IN_RUN
    short = {"reasoning_rl": list(cold[:4]), "zero_rl": list(zero[:4])}
    assert c4(replace(evidence, accuracy=short)).parts[2].verdict == CANT_TELL


def dev_curve(values: Sequence[float], every: int = 5) -> dict[int, float]:
    return {every * number: value for number, value in enumerate(values)}


def test_a_start_is_steadier_where_the_same_problems_are_solved_along_a_straight_line():
    """Of nine measurements the first five; a steep line is as steady as a flat one, and the level tells nothing."""
    line, zigzag = [0.1, 0.2, 0.3, 0.4, 0.5], [0.6, 0.7, 0.5, 0.7, 0.5]
    late = [0.0, 0.9, 0.1, 0.8]  # in the second half, which doesn't count

    def steadiness(cold: list[float], zero: list[float]) -> Part:
        return c4(Evidence({}, dev={"reasoning_rl": dev_curve(cold + late), "zero_rl": dev_curve(zero)})).parts[3]

    part, swapped = steadiness(line, zigzag + line[:4]), steadiness(zigzag, line + line[:4])
    off = np.abs(residuals(zigzag))
    assert part.interval.estimate == pytest.approx(off.mean()) == pytest.approx(-swapped.interval.estimate)
    assert part.at_least == part.interval.n == 5 and (part.floor, part.ceiling) == (0.0, 0.01)
    assert steadiness(line, [0.7] * 9).interval.estimate == pytest.approx(0.0)
    assert steadiness(line, zigzag[:4]).verdict == CANT_TELL  # four have no verdict


def test_dev_curves_are_paired_by_the_steps_at_which_both_were_measured():
    often, seldom = [0.5, 0.9, 0.6, 0.9, 0.7, 0.9, 0.8, 0.9, 0.9], [0.1, 0.3, 0.5, 0.7, 0.9]
    dev = {"reasoning_rl": dev_curve(often, every=5), "zero_rl": dev_curve(seldom, every=10)}
    speed = next(part for part in c4(Evidence({}, dev=dev)).parts if part.name.startswith("rise of dev accuracy"))
    assert speed.interval.n == 3 and not speed.counts and speed.unit == "points per measurement"
    assert speed.interval.estimate == pytest.approx(0.1 - 0.2)


@pytest.mark.parametrize(
    ("without", "verdict"),
    [("zero_rl", HOLDS), ("zero_rl_language", DOES_NOT_HOLD), ("align_rl", DOES_NOT_HOLD)],
)
def test_language_reward_needs_its_ablation_to_read_worse(without, verdict):
    arms = ("zero_rl_language", "zero_rl")
    assert c5(fabricated(arms, 100, {"zero_rl": without})).verdict == verdict


def test_final_model_must_hold_reasoning_and_gain_on_general_prompts():
    forgetful = c7(fabricated(("align_rl", "sft_mix"), 100, {"align_rl": "distill", "sft_mix": "reasoning_rl"}))
    assert [part.verdict for part in forgetful.parts[:2]] == [HOLDS, DOES_NOT_HOLD]
    unpolished = c7(fabricated(("align_rl", "sft_mix"), 100, {"align_rl": "sft_mix"}))
    assert unpolished.verdict == DOES_NOT_HOLD


def test_what_sft_did_is_not_credited_to_the_last_rl():
    models = ("reasoning_rl", "sft_mix", "align_rl")
    claim = c7(fabricated(models, 100, {"align_rl": "sft_mix"}))
    against_second_stage = claim.parts[-1]
    assert against_second_stage.verdict == HOLDS and not against_second_stage.counts
    assert claim.verdict == DOES_NOT_HOLD


@pytest.mark.parametrize("control", ["zero_rl_random", "zero_rl_format", "self_sft"])
def test_a_control_that_does_as_well_as_the_true_reward_takes_its_claim(control):
    models = ("base", "zero_rl", "zero_rl_random", "zero_rl_format", "self_sft")
    claim = c12(fabricated(models, 100, {control: "zero_rl"}))
    assert [part.name for part in claim.parts if part.counts and part.verdict != HOLDS] == [claim.deciding.name]
    assert control in claim.deciding.name and claim.verdict == DOES_NOT_HOLD
    missing = c12(fabricated([model for model in models if model != control], 30))
    assert missing.verdict == NOT_IN_RUN and missing.deciding.needs == control


def claims_of(evidence: Evidence) -> dict[str, str]:
    return {claim.id: claim.verdict for claim in judge_claims(evidence)}


def test_a_failed_attempt_is_judged_only_where_it_was_made():
    evidence = fabricated(("base", "zero_rl", "zero_rl_random"), 100)
    scores = {**evidence.scores, "zero_rl_process": evidence.scores["zero_rl_random"]}
    tried = replace(evidence, scores=scores, stages={"zero_rl_process"}, excess={"zero_rl_process": [0.0] * 20})
    assert "C13" not in claims_of(replace(tried, stages=()))
    with pytest.raises(LookupError):
        judge_claims(replace(tried, excess={}))
    assert c13(tried).verdict == HOLDS
    assert c13(replace(tried, scores={**scores, "zero_rl_process": scores["zero_rl"]})).verdict == DOES_NOT_HOLD
    assert claims_of(tried)["C15"] == NOT_IN_RUN
    gained = c13(tried).parts[1]
    assert gained.name.endswith("zero_rl_process − base") and not gained.counts


@pytest.mark.parametrize(("searched", "verdict"), [("base", HOLDS), ("self_sft", HOLDS), ("zero_rl", DOES_NOT_HOLD)])
def test_search_that_finds_better_lessons_takes_its_claim(searched, verdict):
    evidence = fabricated(("base", "zero_rl", "self_sft"), 100)
    scores = {**evidence.scores, "tree_sft": evidence.scores[searched]}
    claim = c15(replace(evidence, scores=scores, stages={"tree_sft"}))
    assert claim.verdict == verdict and [part.counts for part in claim.parts] == [True, False, False]


@pytest.mark.parametrize(("first", "last", "verdict"), [(0.1, 0.4, HOLDS), (0.4, 0.1, DOES_NOT_HOLD)])
def test_a_reward_is_hacked_if_it_grows_beyond_what_is_solved(first, last, verdict):
    """The two middle quarters, which count for nothing, are the other way round."""
    noise = [0.02, -0.03, 0.01, -0.01, 0.03, -0.02]
    curve = [mean + each for mean in (first, 1 - first, 1 - last, last) for each in noise]
    claim = c14(Evidence({}, excess={"zero_rl_process": curve}))
    [part] = claim.parts
    assert part.interval.estimate == pytest.approx(last - first) and part.interval.n == 6
    assert claim.verdict == verdict
    unpaid = c14(Evidence({}, stages={"zero_rl_process"}, excess={"zero_rl_process": []}))
    assert unpaid.deciding.needs == "the rewards process_reward and accuracy in zero_rl_process"


def test_a_control_is_not_beaten_by_the_form_of_its_answers():
    """All are scored leniently: the same answers without tags are as good."""
    tagged = fabricate_samples("zero_rl", 100)
    bare = [{**row, "correct": False, "well_formed": False} for row in tagged]
    claim = c12(evidence_of({"base": bare, "zero_rl": tagged, **dict.fromkeys(CONTROLS, bare)}))
    assert {part.interval.estimate for part in claim.parts} == {0.0}


def test_a_gain_that_is_only_a_habit_is_mode_and_no_skill():
    """The second model solves the same problems when it thinks, and thinks only half of the time."""
    always = [row for row in fabricate_samples("zero_rl", 200) if row["task"] != "general"]
    lazy = [{**row, "correct_lenient": row["correct_lenient"] and row["sample_index"] % 2 == 0} for row in always]
    given = {"zero_rl": {0.6: always}, "base": {0.6: always}}
    evidence = evidence_of({"zero_rl": always, "base": lazy}, thinking=given)
    gain, skill, mode = (compare(evidence, "zero_rl", "base") for compare in MEASURES)
    assert gain.low > 0.2 and mode == gain
    assert (skill.estimate, skill.low, skill.high) == (0.0, 0.0, 0.0)
    assert c1(evidence).verdict == DOES_NOT_HOLD


MEASURES = (compare_solved, compare_thinking, compare_modes)


def test_what_was_cut_off_is_not_solved():
    rows = fabricate_samples("zero_rl", 60, thinking=0.6)
    cut = [{**row, "finished": row["sample_index"] > 0} for row in rows]
    evidence = evidence_of({"a": rows, "b": rows}, thinking={"a": {0.6: rows}, "b": {0.6: cut}})
    assert compare_thinking(evidence, "a", "b").low > 0.1
    assert compare_solved(evidence, "a", "b").estimate == 0


def test_a_large_family_decides_no_more_than_a_small_one():
    def rows(task: str, problems: int, right: bool) -> list[dict]:
        made = [row for row in fabricate_samples("base", problems) if row["task"] == task]
        return [{**row, "correct_lenient": right} for row in made]

    first = rows("chain_sum", 300, True) + rows("products", 30, False)
    second = rows("chain_sum", 300, False) + rows("products", 30, True)
    assert compare_solved(evidence_of({"a": first, "b": second}), "a", "b").estimate == 0


def test_no_models_give_the_claims_of_other_runs():
    claims = judge_claims(Evidence({}))
    assert [claim.id for claim in claims] == [f"C{i}" for i in range(1, 13)]
    assert {claim.verdict for claim in claims} == {NOT_IN_RUN}
    assert claim_summary(claims[0])["estimate"] is None


def test_estimate_lies_in_its_interval_whatever_the_claim():
    for claim in judge_claims(fabricated(problems=30)):
        found = claim_summary(claim)
        assert found["estimate"] is None or found["low"] <= found["estimate"] <= found["high"]


# Every part as docs/claims.md has it: what is taken from what, the floor and ceiling of its verdict, and its weight.
STRICT, LENIENT, VOTE = "pass_at_1", "pass_at_1_lenient", "cons_at_k"
CONTROLS = ("zero_rl_random", "zero_rl_format", "self_sft")
EFFECT, LOSS, TOKENS = (0.0, 0.01), (-0.02, 0.0), (0.0, 1.0)
MADE_OF = {
    "C1": [
        ("zero_rl", STRICT, "base", LENIENT, "reasoning", EFFECT, True),
        ("zero_rl", "solved", "base", "solved", 0.6, EFFECT, True),
        ("zero_rl", "solved", "base", "solved", "best", EFFECT, True),
        ("zero_rl", "solved", "base", "solved", 1.0, EFFECT, False),
        ("zero_rl", "solved", "base", "solved", "mode", EFFECT, False),
        ("zero_rl", STRICT, "base", STRICT, "reasoning", EFFECT, False),
    ],
    "C2": [
        ("zero_rl", "mean_length", "base", "mean_length", 0.6, TOKENS, True),
        ("zero_rl", "reflection_density", "base", "reflection_density", 0.6, (0.0, 0.0005), True),
        ("zero_rl", "mean_length", "base", "mean_length", "reasoning", TOKENS, False),
    ],
    "C3": [
        ("zero_rl", VOTE, "zero_rl", STRICT, "reasoning", EFFECT, True),
        ("base", "cons_at_k_lenient", "base", LENIENT, "reasoning", EFFECT, False),
    ],
    "C4": [
        ("cold_start", "language_rate", "zero_rl", "language_rate", "reasoning", EFFECT, True),
        ("cold_start", "format_rate", "base", "format_rate", "reasoning", EFFECT, True),
        ("cold_start", "format_rate", "zero_rl", "format_rate", "reasoning", EFFECT, False),
    ],
    "C5": [
        ("zero_rl_language", "language_rate", "zero_rl", "language_rate", "reasoning", EFFECT, True),
        ("zero_rl_language", STRICT, "zero_rl", STRICT, "reasoning", (-0.03, -0.03), True),
    ],
    "C6": [
        ("distill", STRICT, "student_rl", STRICT, "reasoning", EFFECT, True),
        ("distill", LENIENT, "student_rl", LENIENT, "reasoning", EFFECT, False),
    ],
    "C7": [
        ("align_rl", STRICT, "sft_mix", STRICT, "general", EFFECT, True),
        ("align_rl", STRICT, "sft_mix", STRICT, "reasoning", LOSS, True),
        *(("align_rl", "solved", "sft_mix", "solved", way, EFFECT, False) for way in (0.6, 1.0, "mode")),
        ("align_rl", STRICT, "reasoning_rl", STRICT, "reasoning", LOSS, False),
        ("align_rl", STRICT, "reasoning_rl", STRICT, "general", EFFECT, False),
    ],
    "C8": [
        ("zero_rl", STRICT, "cold_start", STRICT, "reasoning", EFFECT, True),
        ("cold_start", STRICT, "zero_rl", STRICT, "general", EFFECT, True),
        *(("cold_start", "solved", "base", "solved", way, EFFECT, False) for way in (0.6, 1.0, "mode")),
    ],
    "C9": [
        ("reasoning_rl", STRICT, "cold_start", STRICT, "reasoning", EFFECT, True),
        *(("reasoning_rl", "solved", "cold_start", "solved", way, EFFECT, False) for way in (0.6, 1.0, "mode")),
    ],
    "C10": [
        ("sft_mix", STRICT, "reasoning_rl", STRICT, "general", EFFECT, True),
        ("sft_mix", STRICT, "reasoning_rl", STRICT, "reasoning", EFFECT, False),
    ],
    "C11": [
        ("align_rl", STRICT, "zero_rl", STRICT, "reasoning", LOSS, True),
        *(("align_rl", "solved", "zero_rl", "solved", way, EFFECT, False) for way in (0.6, 1.0, "mode")),
    ],
    "C12": [
        *(("zero_rl", LENIENT, control, LENIENT, "reasoning", EFFECT, True) for control in CONTROLS),
        *((control, LENIENT, "base", LENIENT, "reasoning", EFFECT, False) for control in CONTROLS),
    ],
    "C13": [
        ("zero_rl", LENIENT, "zero_rl_process", LENIENT, "reasoning", EFFECT, True),
        ("zero_rl_process", LENIENT, "base", LENIENT, "reasoning", EFFECT, False),
    ],
    "C14": [],
    "C15": [
        ("self_sft", LENIENT, "tree_sft", LENIENT, "reasoning", LOSS, True),
        ("zero_rl", LENIENT, "tree_sft", LENIENT, "reasoning", EFFECT, False),
        ("tree_sft", LENIENT, "base", LENIENT, "reasoning", EFFECT, False),
    ],
}
CURVES = ("quarter", "dev accuracy", "over the training")  # parts that are no difference between models
UNITS = {"mean_length": "tokens", "reflection_density": "per 100 tokens"}


class Everything(dict):
    """The family of any problem."""

    def __missing__(self, problem: str) -> str:
        return "chain_sum"


def value(model: str, way: object, metric: str) -> float:
    """Another number for every model, metric and scope, or temperature with <think> given; mode is a difference."""
    if way == "mode":
        return value(model, "reasoning", metric) - value(model, 0.6, metric)
    if way == "best":
        return max(value(model, temperature, metric) for temperature in TEMPERATURES)
    return random.Random(f"{model} {way} {metric}").random()


def test_every_part_is_the_difference_that_the_claim_is_about():
    models = {model for parts in MADE_OF.values() for part in parts for model in (part[0], part[2])}

    def tables(model: str, ways: tuple) -> dict:
        return {way: {metric: {"p": value(model, way, metric), "q": 1.0} for metric in PROBLEM_METRICS} for way in ways}

    scores = {model: tables(model, ("reasoning", "general")) for model in models}
    thinking = {model: tables(model, TEMPERATURES) for model in models}
    excess = {"zero_rl_process": [0.0] * 20}
    for claim in judge_claims(Evidence(scores, {}, set(ATTEMPTS), thinking, Everything(), excess=excess)):
        assert len({str(part.name) for part in claim.parts} - {"None"}) == len(claim.parts)
        of_models = [part for part in claim.parts if not any(word in part.name for word in CURVES)]
        for part, made in zip(of_models, MADE_OF[claim.id], strict=True):
            first, metric, second, other, way, limits, counts = made
            ways = way if isinstance(way, tuple) else (way, way)
            expected = (value(first, ways[0], metric) - value(second, ways[1], other)) / 2  # q tells nothing
            assert part.interval.estimate == pytest.approx(expected), part.name
            assert ((part.floor, part.ceiling), part.counts, part.at_least) == (limits, counts, MIN_PROBLEMS), part.name
            assert part.unit == UNITS.get(metric, "points"), part.name


@pytest.mark.parametrize(("curve", "verdict"), [((20, 40), HOLDS), ((40, 20), DOES_NOT_HOLD), ((30, 30), None)])
def test_thoughts_must_grow_longer_over_the_whole_training(curve, verdict):
    lengths = np.linspace(*curve, 40) + np.random.default_rng(1).normal(0, 0.5, 40)
    part = next(part for part in c2(Evidence({}, lengths={"zero_rl": list(lengths)})).parts if "training" in part.name)
    assert part.counts and part.unit == "tokens per set of rollouts" and part.interval.n == 40
    assert part.interval.estimate == pytest.approx((curve[1] - curve[0]) / 39, abs=0.02)
    assert part.verdict == (verdict or part.verdict) and part.ceiling == pytest.approx(1 / 39)


def test_skill_rises_only_where_each_model_at_its_own_best_temperature_does_better_too():
    """The base model is as good, if it may choose: at 0 it solves what R1-Zero solves at 0.6."""
    problems = [f"p{number}" for number in range(40)]
    solved = {"base": {0.0: 30, 0.6: 10}, "zero_rl": {0.0: 20, 0.6: 30}}
    scores, thinking = {}, {}
    for model, counts in solved.items():
        given = {t: {p: float(n < count) for n, p in enumerate(problems)} for t, count in counts.items()}
        thinking[model] = {t: {"solved": values} for t, values in given.items()}
        scores[model] = {"reasoning": dict.fromkeys(PROBLEM_METRICS, given[0.6])}
    claim = c1(Evidence(scores, thinking=thinking, families=Everything()))
    same, best = claim.parts[1:3]
    assert (same.verdict, best.verdict, claim.verdict) == (HOLDS, DOES_NOT_HOLD, DOES_NOT_HOLD)
    assert best.interval.estimate == 0.0 and same.interval.estimate == 0.5


@pytest.mark.parametrize(("k", "needs"), [(1, True), (2, True), (3, False), (4, False), (None, False)])
def test_fewer_than_three_votes_are_no_majority(k, needs):
    claim = c3(replace(fabricated(("base", "zero_rl"), 30), k=k))
    assert claim.parts[0].needs == ("evaluate.k: 3 or more" if needs else "")
    assert (claim.verdict == NOT_IN_RUN) == needs


def test_the_start_of_training_is_compared_step_by_step():
    curves = {"reasoning_rl": [0.5, 0.6, 0.8, 0.0] * 10, "zero_rl": [0.1, 0.9, 0.1, 0.0] * 10}
    speed, level = (part for part in c4(Evidence({}, curves)).parts if "quarter" in part.name)
    steps, start = np.arange(10), {name: np.array(curve[:10]) for name, curve in curves.items()}
    lines = {name: np.polyfit(steps, curve, 1) for name, curve in start.items()}
    assert speed.interval.estimate == pytest.approx(lines["reasoning_rl"][0] - lines["zero_rl"][0])
    assert level.interval.estimate == pytest.approx((start["reasoning_rl"] - start["zero_rl"]).mean())
    assert [part.counts for part in (speed, level)] == [True, False]
    assert (speed.unit, speed.floor, speed.ceiling) == ("points per set of rollouts", 0.0, pytest.approx(0.01 / 9))
    assert {part.at_least for part in (speed, level)} == {5}


def test_every_claim_is_quoted_with_its_place_in_the_paper():
    claims = judge_claims(Evidence({}))
    places = ["Fig. 2", "Fig. 3, Table 3", "Table 2", "§2.3.1", "§2.3.2", "Table 6", "§2.3.4, Table 4"]
    places += [*["journal version, Table 3"] * 4, "arXiv 2506.10947, 2504.11343"]
    assert [claim.source for claim in claims] == places
    assert all(len(claim.text) > 20 and len(claim.how) > 20 for claim in claims)


def test_a_claim_is_told_with_its_words_its_numbers_and_all_its_parts():
    scores = {model: {"reasoning": {STRICT: {"p": 0.5, "q": 0.7}}} for model in ("distill", "student_rl")}
    scores["student_rl"] = {"reasoning": {STRICT: {"p": 0.1234567, "q": 0.1234567}, LENIENT: {}}}
    scores["distill"]["reasoning"][LENIENT] = {}
    claim = c6(Evidence(scores))
    low, high = (round(0.4765433 + sign * 12.7062047 * 0.1, 6) for sign in (-1, 1))
    numbers = {"estimate": 0.476543, "low": low, "high": high, "n": 2}
    nothing = {"estimate": None, "low": None, "high": None, "n": 0}
    names = ("pass@1, distill − student_rl", "pass@1 (lenient), distill − student_rl")
    part = {"unit": "points", "verdict": CANT_TELL, "counts": True, "floor": 0.0, "ceiling": 0.01, "needs": []}
    told = claim_summary(claim)
    assert told == {
        **{"verdict": CANT_TELL, "measure": names[0], "unit": "points", **numbers},
        **{"text": claim.text, "source": "Table 6", "how": claim.how},
        "parts": [{"name": names[0], **part, **numbers}, {"name": names[1], **part, "counts": False, **nothing}],
    }
    assert claim_summary(c6(Evidence({})))["parts"][0]["needs"] == ["distill", "student_rl"]
