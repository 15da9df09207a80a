"""Each dialect of GRPO in conf/dialect/ is its paper's or library's: its numbers in TRL, its loss, its advantages."""

import math
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from formulas import Row
from test_grpo_formulas import (
    COMPLETIONS,
    OPTIONS,
    STEP_TOKENS,
    Script,
    base,
    built,
    check_gradients,
    fixed_rows,
    fresh,
    padded,
    stage_of,
)
from test_mismatch import Sampler
from torch import Tensor
from trl import GRPOConfig

from r1flow.engine import config
from r1flow.programs.grpo import compute as grpo

CONF = Path(__file__).parents[2] / "conf"
DIALECTS = {path.stem: yaml.safe_load(path.read_text())["trainer"] for path in sorted(CONF.glob("dialect/*.yaml"))}
__all__ = ["base"]  # a fixture

# π/π_old of four completions whose advantages are 1.5, -0.5, -1.0 and 0.8. Some lie beyond the bounds of each dialect:
# 12 beyond R1's 11, 6 beyond CISPO's 5, 5 beyond verl's 3, and 1.275 is between open-instruct's 1.272 and DAPO's 1.28.
# As geometric means: too high for GSPO's clip, too high but pulled back, too low, and 1.0002, between its bounds.
WITHIN = math.exp(4 * 2.0e-4) / (1.275 * 0.7 * 1.1)
RATIOS = [[0.5, 0.9, 1.0, 1.24, 1.5, 12.0], [0.5, 1.1, 5.0], [0.4, 0.9, 6.0, 0.75, 0.1], [1.275, 0.7, 1.1, WITHIN]]


# -- the formulas, with their papers' numbers, as losses of a token -----------------------------------------------


def ratio(row: Row) -> Tensor:
    return (row.logp_T - row.old_T).exp()


def sequence_ratio(row: Row) -> Tensor:
    return (row.logp_T.sum() - row.old_T.sum()).div(len(row.logp_T)).exp().expand(len(row.logp_T))


def surrogate(row: Row, ratio_T: Tensor, low: float, high: float, most: float = math.inf) -> Tensor:
    """min(ρA, clip(ρ)A); where A < 0, no ratio counts as more than `most` (dual clip, arXiv 1912.09729)."""
    inside_T = ratio_T.clamp(low, high)
    if row.advantage > 0:
        return -row.advantage * torch.minimum(ratio_T, inside_T)
    return -row.advantage * torch.maximum(ratio_T, inside_T).clamp(max=most)


def k3(row: Row) -> Tensor:
    return (row.ref_T - row.logp_T).exp() - (row.ref_T - row.logp_T) - 1


def token_of(dialect: str, row: Row) -> Tensor:
    """The loss of each token, with the numbers that docs/grpo.md's table has for the dialect."""
    ratio_T = ratio(row)
    match dialect:
        case "deepseekmath":
            return surrogate(row, ratio_T, 0.8, 1.2) + 0.04 * k3(row)
        case "r1":
            return surrogate(row, ratio_T, -9, 11) + 0.001 * k3(row)
        case "dr_grpo":
            return surrogate(row, ratio_T, 0.8, 1.2)
        case "dapo":
            return surrogate(row, ratio_T, 0.8, 1.28)
        case "gspo":
            return surrogate(row, sequence_ratio(row), 0.9997, 1.0004)
        case "cispo":
            return -ratio_T.clamp(max=5).detach() * row.advantage * row.logp_T
        case "trl":
            return surrogate(row, ratio_T, 0.8, 1.2)
        case "verl":
            return surrogate(row, ratio_T, 0.8, 1.2, most=3) + 0.001 * k3(row)
        case "open_instruct":
            return surrogate(row, ratio_T, 0.8, 1.272) + 0.05 * k3(row)
    raise AssertionError(f"conf/dialect/{dialect}.yaml has no formula here")


# The loss of half a step: a pass of four completions of 18 tokens, where the step has eight of STEP_TOKENS. A
# completion has at most 9 tokens.
OF_COMPLETIONS = ("deepseekmath", "r1", "gspo")
OF_A_CONSTANT = ("dr_grpo",)
OF_ALL_TOKENS = ("dapo", "cispo", "trl", "verl", "open_instruct")


def loss(dialect: str, rows: list[Row]) -> Tensor:
    tokens = [token_of(dialect, row) for row in rows]
    if dialect in OF_COMPLETIONS:
        return sum(token_T.sum() / len(token_T) for token_T in tokens) / 8
    return sum(token_T.sum() for token_T in tokens) / (8 * 9 if dialect in OF_A_CONSTANT else STEP_TOKENS)


# -- what TRL is given and computes -------------------------------------------------------------------------------


@cache
def composed(dialect: str) -> dict[str, Any]:
    """zero_rl's trainer options, as a run with this dialect has them."""
    return config.compose(CONF, "r1_zero", f"dialect@zero_rl={dialect}")["zero_rl"]["trainer"]


def loss_of(dialect: str) -> dict[str, Any]:
    """The composed options that the dialect decides; lengths and batches are the tests'."""
    return {key: composed(dialect)[key] for key in DIALECTS[dialect]}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_dialects_values_are_what_trl_is_given(base: Path, monkeypatch: pytest.MonkeyPatch, dialect: str) -> None:
    said = DIALECTS[dialect]
    options = composed(dialect) | {"max_completion_length": OPTIONS["max_completion_length"]}  # the model is small
    trainer = built(base, monkeypatch, "r1flow", **options)
    found = {key: getattr(trainer.args, key) for key in said}
    assert found == said


def test_every_dialect_says_all_that_another_says_of_the_loss() -> None:
    """So that a value of conf/grpo/default.yaml, edited or not, is in no dialect."""
    shared = set.intersection(*(set(said) for said in DIALECTS.values()))
    more = {key for said in DIALECTS.values() for key in said} - shared
    assert {"loss_type", "beta", "epsilon", "scale_rewards", "mask_truncated_completions"} <= shared
    assert {key for key in more if not key.startswith(("vllm_", "ref_model_"))} == {"save_strategy"}


def test_the_dialect_trl_is_trls_own_defaults() -> None:
    default = {field.name: field.default for field in fields(GRPOConfig)}
    assert DIALECTS["trl"] == {key: default[key] for key in DIALECTS["trl"]}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_loss_and_gradient_are_the_dialects_formula(base: Path, monkeypatch: pytest.MonkeyPatch, dialect: str) -> None:
    model, trainer = fresh(base), built(base, monkeypatch, "r1flow", **loss_of(dialect))
    rows = fixed_rows(model, RATIOS)
    expected = loss(dialect, rows)
    expected.backward()
    found = trainer.compute_loss(trainer.model, padded(rows) | {"num_items_in_batch": torch.tensor(STEP_TOKENS)})
    found.backward()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)
    check_gradients(trainer.model, model)


# Two groups of four, of unequal spread. The standard deviations (n - 1) are √0.35 and 0.1.
REWARDS = [1.2, 0.2, 0.0, 1.0, 0.2, 0.2, 0.2, 0.4]
CENTRED = [0.6, -0.4, -0.6, 0.4, -0.05, -0.05, -0.05, 0.15]
SPREAD = [0.5887841] * 4 + [0.1] * 4
WITHOUT_SPREAD = {"dr_grpo", "open_instruct"}
MASKING = {"dapo"}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_advantages_and_cut_completions_are_the_dialects(
    base: Path, monkeypatch: pytest.MonkeyPatch, dialect: str
) -> None:
    monkeypatch.setattr(grpo, "combine", lambda *_: lambda prompts, completions, **columns: REWARDS)
    trainer, script = built(base, monkeypatch, "r1flow", **loss_of(dialect)), Script(monkeypatch)
    found = trainer._generate_and_score_completions([dict(trainer.train_dataset[n // 4]) for n in range(8)])
    divisors = [1.0] * 8 if dialect in WITHOUT_SPREAD else [spread + 1e-4 for spread in SPREAD]
    expected = [reward / divisor for reward, divisor in zip(CENTRED, divisors, strict=True)]
    torch.testing.assert_close(found["advantages"], torch.tensor(expected), rtol=1e-4, atol=1e-6)
    drawn = [completion for _, completion in script.sets[0]]
    trained = [0 if dialect in MASKING and ids[-1] != 0 else len(ids) for ids in drawn]
    assert found["completion_mask"].sum(1).tolist() == trained
    assert found["num_items_in_batch"] == sum(trained)
    assert {ids[-1] == 0 for ids in drawn} == {True, False}
    assert ("ref_per_token_logps" in found) == (dialect in {"deepseekmath", "r1", "verl", "open_instruct"})


@pytest.mark.parametrize(
    ("dialect", "off", "weight"),
    [
        ("trl", 0.1, math.exp(9 * 0.1)),  # the product over a completion's nine tokens
        ("trl", 0.2, 0.0),  # above 3, so the completion doesn't count
        ("open_instruct", 0.1, math.exp(0.1)),  # of each token
        ("open_instruct", 1.0, 2.0),  # bounded
    ],
)
def test_the_correction_of_vllms_numerics_is_the_dialects(
    base: Path, monkeypatch: pytest.MonkeyPatch, dialect: str, off: float, weight: float
) -> None:
    """The weights of completions whose tokens the trainer finds e^off times as likely as the sampler said."""
    monkeypatch.setattr("trl.trainer.grpo_trainer.VLLMGeneration", Sampler)
    monkeypatch.setattr(Sampler, "off", [-off])
    trainer = built(base, monkeypatch, "transformers", use_vllm=True, temperature=1.0, **loss_of(dialect))
    found = trainer._generate_and_score_completions([{"prompt": "a"} for _ in range(4)])
    weights = found["importance_sampling_ratio"][:, : found["completion_mask"].sum(1).max()]
    torch.testing.assert_close(weights, torch.full_like(weights, weight), rtol=1e-4, atol=0)


# -- what docs/grpo.md says of them in practice -------------------------------------------------------------------

SAME_AT_ONE = [("gspo", "deepseekmath"), ("r1", "deepseekmath"), ("cispo", "dapo"), ("trl", "dapo"), ("verl", "dapo")]


@pytest.mark.parametrize(("one", "other"), SAME_AT_ONE)
def test_with_one_update_for_each_set_of_completions_clip_and_level_change_nothing(
    base: Path, monkeypatch: pytest.MonkeyPatch, one: str, other: str
) -> None:
    """Without the KL term, which isn't compared here; the ratio is 1 as in training, where TRL has no old ones."""
    models = []
    for dialect in (one, other):
        trainer = built(base, monkeypatch, "r1flow", **loss_of(dialect) | {"beta": 0.0, "sync_ref_model": False})
        inputs = padded(fixed_rows(fresh(base))) | {"num_items_in_batch": torch.tensor(STEP_TOKENS)}
        del inputs["old_per_token_logps"]
        trainer.compute_loss(trainer.model, inputs).backward()
        models.append(trainer.model)
    check_gradients(*models)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_masked_completions_still_count_as_rows_where_the_mean_is_over_rows(
    base: Path, monkeypatch: pytest.MonkeyPatch, dialect: str
) -> None:
    """TRL leaves their tokens out. The mean is then over the tokens that remain, or over all rows, with zeros."""
    trainer = built(base, monkeypatch, "r1flow", **loss_of(dialect))
    rows = fixed_rows(fresh(base), RATIOS)
    inputs = padded(rows)
    inputs["completion_mask"][0] = 0
    remaining = STEP_TOKENS - len(COMPLETIONS[0])
    found = trainer.compute_loss(trainer.model, inputs | {"num_items_in_batch": torch.tensor(remaining)})
    expected = loss(dialect, rows[1:])  # divided by all eight completions of the step, or by all their tokens
    if dialect in OF_ALL_TOKENS:
        expected = expected * STEP_TOKENS / remaining
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("steps", "replaced"), [(2, True), (3, False)])
def test_r1s_reference_is_replaced_by_the_policy(
    base: Path, monkeypatch: pytest.MonkeyPatch, steps: int, replaced: bool
) -> None:
    """After two updates, where r1.yaml's number of updates is 2 or 3 instead of 400."""
    trained: list[Any] = []
    monkeypatch.setattr(grpo, "save", lambda stage, trainer, tokenizer: trained.append(trainer))
    Script(monkeypatch)
    options = loss_of("r1") | {"ref_model_sync_steps": steps, "max_steps": 2}
    grpo.compute(stage_of(base, f"reference {steps}", **options))
    (trainer,) = trained
    policy, reference, start = (list(model.parameters()) for model in (trainer.model, trainer.ref_model, fresh(base)))
    assert not any(torch.equal(*pair) for pair in zip(policy, start, strict=True))
    expected = policy if replaced else start
    assert all(torch.equal(*pair) for pair in zip(reference, expected, strict=True))
