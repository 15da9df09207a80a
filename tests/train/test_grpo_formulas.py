"""Losses, gradients, advantages and whole steps of our GRPO trainers are the papers' formulas, as numbers."""

import ast
import inspect
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from formulas import LOSSES, AdamW, Row, advantages, kl, loss, region_clipped, score
from tiny import PROBLEMS, base_with, conf, letters, make_stage, make_tokenizer, weights_hash
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM
from trl import GRPOConfig, GRPOTrainer

from r1flow.model.scoring import CompactGRPOTrainer
from r1flow.programs.grpo import compute as grpo
from r1flow.sampling import SamplingParams
from r1flow.sampling.engine import Engine

CONFIG = conf("grpo/default")
# Everything off its default that could hide behind it; float32, so that the numbers can be compared.
OPTIONS = CONFIG["trainer"] | {
    "bf16": False,
    "loss_type": "grpo",
    "temperature": 0.7,
    "num_generations": 4,
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 2,
    "steps_per_generation": None,  # as many passes as a step has
    "max_completion_length": 9,
    "epsilon": 0.2,
    "epsilon_high": 0.28,
    "sapo_temperature_pos": 1.3,
    "sapo_temperature_neg": 1.7,
    "learning_rate": 1.0e-2,
    "warmup_steps": 0,
    "save_strategy": "no",
}

# One pass of four completions. The ratios π/π_old lie on both sides of both bounds, for both signs of the advantage;
# 1.24 is between ε and epsilon_high. As sequences: 1.31 is clipped above, 0.75 below, 1.4 isn't for its sign.
PROMPTS = [[20, 21, 22], [30, 31, 32, 33, 34], [40, 41], [50, 51, 52, 53]]
COMPLETIONS = [[60, 61, 62, 63, 64, 65], [70, 71, 72], [80, 81, 82, 83, 84], [90, 91, 92, 0]]
RATIOS = [[0.5, 0.9, 1.0, 1.24, 1.5, 6.0], [0.5, 1.1, 5.0], [0.4, 0.9, 1.24, 0.75, 0.7], [1.24, 0.7, 1.1, 1.02]]
REFERENCE = [0.3, -0.5, 0.1, 0.8, -0.2, 0.05]  # log π_ref/π, by position
ADVANTAGES = [1.5, -0.5, -1.0, 0.8]
STEP_TOKENS = 31  # of the step that this pass of 18 is half of
CLIPPED = [[0, 0, 0, 0, 1, 1], [1, 0, 0], [1, 0, 0, 1, 1], [0, 0, 0, 0]]  # too far where the advantage pushes

CASES: dict[str, dict[str, Any]] = {
    **{f"{name} by token": {"loss_type": name, "beta": 0.3} for name in LOSSES},
    **{f"{name} by sequence": {"loss_type": name, "importance_sampling_level": "sequence"} for name in LOSSES},
    "no KL": {},
    "one epsilon": {"epsilon_high": None},
    "delta": {"delta": 4.0},
    "delta by sequence": {"delta": 1.35, "importance_sampling_level": "sequence"},
    "unbiased KL": {"beta": 0.3, "use_bias_correction_kl": True},
    "unbiased KL by sequence": {
        "beta": 0.3,
        "use_bias_correction_kl": True,
        "importance_sampling_level": "sequence",
    },
    "entropy bonus": {"entropy_coef": 0.2, "loss_type": "dapo"},
    "tokens of high entropy": {"top_entropy_quantile": 0.4, "beta": 0.3},
    "rows near the policy": {"off_policy_mask_threshold": 0.2, "beta": 0.3},
    "two steps a generation": {"loss_type": "dapo", "steps_per_generation": 4},
}
BY_TRL = [*(f"{name} by token" for name in LOSSES), "cispo by sequence", "tokens of high entropy", "unbiased KL"]


def characters(prompts: list[str], completions: list[str], **columns: Any) -> list[float]:
    return [float(len(text)) for text in completions]


REWARDS = {
    "letters": {"name": "tiny.letters", "weight": 1.5},
    "characters": {"name": f"{__name__}.characters", "weight": -0.25},
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return base_with(tmp_path_factory.mktemp("formulas"), rl=PROBLEMS)


def stage_of(folder: Path, name: str, engine: str = "r1flow", rewards: Any = REWARDS, **trainer: Any) -> Any:
    config = CONFIG | {
        "engine": engine,
        "rewards": rewards,
        "stop_above": {},
        "dev": None,
        "trainer": OPTIONS | trainer,
    }
    return make_stage(folder, name, config)


class Built(Exception):
    """Carries a trainer out of a stage that is about to train."""


def built(folder: Path, monkeypatch: pytest.MonkeyPatch, engine: str, **options: Any) -> GRPOTrainer:
    """The trainer that the stage makes, in the middle of a step."""

    def train(self: GRPOTrainer, **_: Any) -> None:
        raise Built(self)

    monkeypatch.setattr(GRPOTrainer, "train", train)
    with pytest.raises(Built) as found:
        grpo.compute(stage_of(folder, "built", engine, **options))
    trainer = found.value.args[0]
    assert isinstance(trainer, CompactGRPOTrainer) == (engine == "r1flow")
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
    return trainer


def fresh(folder: Path) -> Any:
    """The starting model, and nothing of TRL's on it."""
    return AutoModelForCausalLM.from_pretrained(folder / "base", dtype=torch.float32)


def fixed_rows(model: Any, ratios_of: list[list[float]] = RATIOS) -> list[Row]:
    rows = []
    for prompt, completion, ratios, advantage in zip(PROMPTS, COMPLETIONS, ratios_of, ADVANTAGES, strict=True):
        logp_T, entropy_T = score(model, prompt, completion, OPTIONS["temperature"])
        old_T = logp_T.detach() - torch.tensor(ratios).log()
        ref_T = logp_T.detach() + torch.tensor(REFERENCE[: len(ratios)])
        rows.append(Row(logp_T, old_T, ref_T, entropy_T, advantage))
    return rows


def padded(rows: list[Row]) -> dict[str, torch.Tensor]:
    """What TRL gets: the same, prompts padded on the left and completions on the right, with what must not be read."""
    left = [torch.tensor(prompt) for prompt in PROMPTS]
    right = [torch.tensor(completion) for completion in COMPLETIONS]
    return {
        "prompt_ids": pad_sequence(left, batch_first=True, padding_value=99, padding_side="left"),
        "prompt_mask": pad_sequence([torch.ones_like(ids) for ids in left], batch_first=True, padding_side="left"),
        "completion_ids": pad_sequence(right, batch_first=True, padding_value=98),
        "completion_mask": pad_sequence([torch.ones_like(ids) for ids in right], batch_first=True),
        "advantages": torch.tensor(ADVANTAGES),
        "old_per_token_logps": pad_sequence([row.old_T for row in rows], batch_first=True, padding_value=-1.0),
        "ref_per_token_logps": pad_sequence([row.ref_T for row in rows], batch_first=True, padding_value=-2.0),
        "sampled_logps": pad_sequence(
            [row.old_T - 1 for row in rows], batch_first=True, padding_value=-3.0
        ),  # a curve's
    }


@pytest.mark.parametrize(
    ("engine", "case"), [*(("r1flow", case) for case in CASES), *(("transformers", case) for case in BY_TRL)]
)
def test_loss_and_gradient_are_the_formulas(
    base: Path, monkeypatch: pytest.MonkeyPatch, engine: str, case: str
) -> None:
    options = OPTIONS | CASES[case]
    model, trainer = fresh(base), built(base, monkeypatch, engine, **CASES[case])
    rows = fixed_rows(model)
    expected = loss(rows, options, passes=2, tokens=STEP_TOKENS)
    expected.backward()
    generation_tokens = torch.tensor(STEP_TOKENS * trainer.args.steps_per_generation / 2)
    found = trainer.compute_loss(trainer.model, padded(rows) | {"num_items_in_batch": generation_tokens})
    found.backward()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)
    check_gradients(trainer.model, model)


def check_gradients(found: Any, expected: Any) -> None:
    for theirs, own in zip(found.parameters(), expected.parameters(), strict=True):
        largest = own.grad.abs().max().item()
        assert largest > 0
        torch.testing.assert_close(theirs.grad, own.grad, rtol=0, atol=1e-5 * largest)


def test_a_token_too_far_where_the_advantage_pushes_has_no_gradient_and_all_others_have(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, seen = built(base, monkeypatch, "r1flow", beta=0.0), []
    scored = trainer._get_per_token_logps_and_entropies

    def watched(*args: Any, **options: Any) -> Any:
        seen.append(scored(*args, **options))
        seen[0][0].retain_grad()
        return seen[0]

    trainer._get_per_token_logps_and_entropies = watched
    rows = fixed_rows(fresh(base))
    trainer.compute_loss(trainer.model, padded(rows)).backward()
    for found_C, row, ratios, clipped in zip(seen[0][0].grad, rows, RATIOS, CLIPPED, strict=True):
        assert region_clipped(row, OPTIONS).tolist() == [bool(c) for c in clipped]
        # By hand: ratio × advantage over the completion's tokens, the pass's four completions and the step's two passes
        slopes = [-r * row.advantage / len(ratios) / 4 / 2 for r in ratios]
        by_hand = [0.0 if c else slope for c, slope in zip(clipped, slopes, strict=True)]
        torch.testing.assert_close(found_C, torch.tensor(by_hand + [0.0] * (6 - len(ratios))), rtol=1e-5, atol=1e-8)


def test_every_word_that_trl_knows_is_tested_here() -> None:
    compared: dict[str, set[str]] = {}  # the words that TRL's trainer compares an attribute with
    for node in ast.walk(ast.parse(inspect.getsource(GRPOTrainer))):
        if isinstance(node, ast.Compare) and ast.unparse(node.left).startswith("self."):
            words = getattr(node.comparators[0], "elts", node.comparators)
            found = {word.value for word in words if isinstance(word, ast.Constant)}
            compared.setdefault(ast.unparse(node.left), set()).update(found)
    assert compared["self.loss_type"] == set(LOSSES)
    assert compared["self.importance_sampling_level"] == {"token", "sequence"}
    assert compared["self.scale_rewards"] == {"group", "batch", "none"}
    told = GRPOConfig.__dataclass_fields__["loss_type"].metadata["help"]
    assert {word for word in told.split("'") if word.isidentifier()} == {*LOSSES, "sequence"}


# Two groups of four: apart, and equal but for one that has no reward.
SCRIPT: list[float | None] = [1.2, 0.2, 0.0, 1.0, 0.2, None, 0.2, 0.2]


def scripted(specs: Any, reward_model: Path | None, stop_above: dict[str, float]) -> Any:
    return lambda prompts, completions, **columns: SCRIPT


@pytest.mark.parametrize(
    ("scale", "means"),
    [("group", "group"), ("batch", "batch"), ("none", "none"), (True, "group"), (False, "none")],
)
def test_advantages_are_the_formulas(
    base: Path, monkeypatch: pytest.MonkeyPatch, scale: str | bool, means: str
) -> None:
    monkeypatch.setattr(grpo, "combine", scripted)
    trainer = built(base, monkeypatch, "r1flow", scale_rewards=scale)
    rows = [dict(row) for row in trainer.train_dataset for _ in range(4)][:8]
    found = trainer._generate_and_score_completions(rows)["advantages"]
    torch.testing.assert_close(found, torch.tensor(advantages(SCRIPT, 4, means)), rtol=1e-5, atol=1e-7)
    assert found[0] > 0 > found[1] and found[5] == 0


OFF = 0.02  # how far the scripted sampler's log-probabilities are from the trainer's


class Script:
    """In place of the engine's sampling: rows of random tokens, unequal in length, every third one ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.random, self.sets, self.asked = random.Random(0), [], []
        monkeypatch.setattr(Engine, "generate", lambda engine, *words, **named: self.of(engine.model, *words, **named))

    def of(
        self,
        model: Any,
        prompts: list[list[int]],
        params: SamplingParams,
        seeds: list[int],
        batch_size: int,
        logps: list[Any],
    ) -> list[list[int]]:
        self.asked.append(params)
        new = [[self.random.randrange(10, 200) for _ in range(3 + row % 5)] for row in range(len(prompts))]
        new = [[*ids[:-1], 0] if row % 3 == 0 else ids for row, ids in enumerate(new)]
        self.sets.append(list(zip(prompts, new, strict=True)))
        scored = [score(model, *row, params.temperature)[0] + OFF for row in self.sets[-1]]
        logps += [logp_T.tolist() for logp_T in scored]
        return new


def weighed(completions: list[list[int]]) -> list[float]:
    """REWARDS of decoded completions, added up."""
    texts = make_tokenizer().batch_decode(completions, skip_special_tokens=True)
    return [
        1.5 * first - 0.25 * second for first, second in zip(letters([], texts), characters([], texts), strict=True)
    ]


def trained_by_formulas(folder: Path, script: Script, options: dict[str, Any]) -> tuple[Any, list[dict[str, float]]]:
    """The model after a training on a script's completions, by torch and the formulas, and its curves."""
    model, reference, curves = fresh(folder), fresh(folder), []
    optimizer = AdamW(list(model.parameters()), options)
    for step in range(options["max_steps"]):
        drawn = script.sets[step // options["num_iterations"]]
        rewards = weighed([completion for _, completion in drawn])
        values = advantages(rewards, options["num_generations"], options["scale_rewards"])
        if step % options["num_iterations"] == 0:
            # π_old is what the sampler said; with one update of a set TRL has none, and π/π_old is 1.
            off = OFF if options["num_iterations"] > 1 else 0.0
            old = [score(model, *row, options["temperature"])[0].detach() + off for row in drawn]
        rows = []
        for row, old_T, value in zip(drawn, old, values, strict=True):
            ref_T = score(reference, *row, options["temperature"])[0].detach()
            logp_T, entropy_T = score(model, *row, options["temperature"])
            if row[1][-1] == 0 or not options["mask_truncated_completions"]:  # else it is as if it weren't there
                rows.append(Row(logp_T, old_T, ref_T, entropy_T, value))
        curves.append(curves_of(rows, drawn, rewards, options))
        loss(rows, options).backward()
        rate = options["learning_rate"] * (1 - step / options["max_steps"])  # linear, to 0
        curves[-1]["grad_norm"] = optimizer.step(rate)
    return model, curves


OF_SAMPLING = ("reward", "length", "truncated", "zero_variance")  # curves that a step without sampling hasn't


def curves_of(rows: list[Row], drawn: Any, rewards: list[float], options: dict[str, Any]) -> dict[str, float]:
    def over_tokens(values: list[torch.Tensor]) -> float:
        return torch.cat(values).float().mean().item()

    return {
        "reward": sum(rewards) / len(rewards),
        "length": sum(len(completion) for _, completion in drawn) / len(drawn),
        "truncated": sum(completion[-1] != 0 for _, completion in drawn) / len(drawn),
        "kl": over_tokens([kl(row, options).detach() for row in rows]),
        "entropy": over_tokens([row.entropy_T.detach() for row in rows]),
        "clipped": over_tokens([region_clipped(row, options) for row in rows]),
        "zero_variance": 0.0,
    }


def test_a_training_is_the_formulas_step_by_step(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sampling aside, which is scripted: rewards' weights, advantages, ratios, clip, KL, gradient's clip, AdamW."""
    script = Script(monkeypatch)
    options = {
        **{"max_steps": 3, "num_iterations": 2, "gradient_accumulation_steps": 1, "per_device_train_batch_size": 8},
        **{"epsilon": 0.1, "epsilon_high": 0.2, "beta": 0.2, "max_grad_norm": 0.3, "learning_rate": 2.0e-3},
        "adam_epsilon": 1.0e-3,  # at 1e-8 a step hardly depends on the gradient's size
        "top_p": 0.9,
    }
    stage = stage_of(base, "stepped", **options)
    metrics = grpo.compute(stage)
    assert script.asked == [SamplingParams(0.7, 0.9, 9)] * 2
    expected, curves = trained_by_formulas(base, script, OPTIONS | options)
    check_weights(stage, base, expected)
    for step, (found, curve) in enumerate(zip(metrics["history"], curves, strict=True)):
        logged = {name: value for name, value in curve.items() if name not in OF_SAMPLING or step % 2 == 0}
        assert {name: found[name] for name in logged} == pytest.approx(logged, rel=1e-4, abs=1e-6)
    assert curves[0]["clipped"] == curves[2]["clipped"] == 0 and 0.1 < curves[1]["clipped"] < 0.9
    assert curves[0]["kl"] == pytest.approx(0, abs=1e-6) and curves[1]["kl"] > 1e-4
    assert curves[0]["grad_norm"] > options["max_grad_norm"]


@pytest.mark.parametrize(
    "options",
    [
        {"loss_type": "grpo", "scale_rewards": "group"},
        {"loss_type": "dr_grpo", "scale_rewards": "none"},
        {"loss_type": "dapo", "scale_rewards": "batch", "mask_truncated_completions": True},
    ],
)
def test_a_step_of_several_passes_is_the_formula_of_them_all(
    base: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    script = Script(monkeypatch)
    options = options | {"max_steps": 1, "gradient_accumulation_steps": 3, "beta": 0.0, "adam_epsilon": 1.0e-3}
    stage = stage_of(base, "passes", **options)
    metrics = grpo.compute(stage)
    expected, curves = trained_by_formulas(base, script, OPTIONS | options)
    check_weights(stage, base, expected)
    assert metrics["history"][0]["grad_norm"] == pytest.approx(curves[0]["grad_norm"], rel=1e-4)


def check_weights(stage: Any, folder: Path, expected: Any) -> None:
    """Every parameter moved as far as expected, to a thousandth of the farthest move."""
    found = AutoModelForCausalLM.from_pretrained(stage.work / "model", dtype=torch.float32)
    for before, theirs, ours in zip(*(model.parameters() for model in (fresh(folder), found, expected)), strict=True):
        farthest = (ours - before).abs().max().item()
        assert farthest > 0
        torch.testing.assert_close(theirs, ours, rtol=0, atol=1e-3 * farthest)


@pytest.mark.parametrize(
    ("options", "acts"),
    [
        ({}, False),
        ({"steps_per_generation": 1}, False),
        ({"steps_per_generation": 2}, False),  # as many passes as a step has
        ({"num_iterations": 2}, True),
        ({"steps_per_generation": 4}, True),
        ({"loss_type": "cispo"}, True),  # whose bound is ε itself, below the ratio of 1
    ],
)
def test_epsilon_acts_only_where_completions_are_trained_on_more_than_once(
    base: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], acts: bool
) -> None:
    made = []
    for epsilon in (0.5, 1.0e-4):
        Script(monkeypatch)
        stage = stage_of(base, "epsilon", max_steps=2, epsilon=epsilon, epsilon_high=None, **options)
        grpo.compute(stage)
        made.append(weights_hash(stage))
    assert (made[0] != made[1]) is acts


@pytest.mark.parametrize("engine", ["r1flow", "transformers"])
@pytest.mark.parametrize(
    ("options", "alike"), [({}, False), ({"top_p": 1.0e-6}, True), ({"temperature": 1.0e-4}, True)]
)
def test_completions_are_drawn_as_the_configuration_says(
    base: Path, monkeypatch: pytest.MonkeyPatch, engine: str, options: dict[str, Any], alike: bool
) -> None:
    """A nucleus of one token, or a temperature of almost 0, leaves one completion a prompt; else no two are alike."""
    trainer = built(base, monkeypatch, engine, beta=0.0, **options)
    drawn = trainer._generate_and_score_completions([{"prompt": prompt} for prompt in "ab" for _ in range(4)])
    groups = [{tuple(ids) for ids in group} for group in drawn["completion_ids"].view(2, 4, -1).tolist()]
    assert [len(group) for group in groups] == ([1, 1] if alike else [4, 4])
    assert drawn["completion_mask"].sum(1).max() == 9


def test_trl_samples_with_all_that_the_configuration_says(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"temperature": 0.7, "top_p": 0.9, "top_k": 5, "min_p": 0.05, "repetition_penalty": 1.2}
    told = built(base, monkeypatch, "transformers", beta=0.0, **said).generation_config
    assert {name: getattr(told, name) for name in said} == said
    assert told.do_sample and told.max_new_tokens == 9


@pytest.mark.parametrize(
    ("rewards", "share"),
    [
        ([1.2] * 16 + [0.0] * 16, 1.0),
        ([1.2] * 16 + [1.2] * 15 + [0.2], 0.5),
        ([None] * 16 + [None, 1.3] * 8, 1.0),
        ([0.0, 1.0] * 16, 0.0),
    ],
)
def test_groups_whose_rewards_are_alike_are_counted(rewards: list[float | None], share: float) -> None:
    assert grpo.share_alike(["a"] * 16 + ["b"] * 16, rewards) == share


CURVES = {
    "reward": "reward",
    "accuracy": "accuracy",
    "rewards/answer_format": "format",
    "rewards/language_consistency": "language",
    "completions/mean_length": "length",
    "completions/clipped_ratio": "truncated",
    "kl": "kl",
    "entropy": "entropy",
    "zero_variance": "zero_variance",
    "clip_ratio/region_mean": "clipped",
    "sampling/sampling_logp_difference/mean": "mismatch",
    "grad_norm": "grad_norm",
    "num_tokens": "tokens",
    "thinking": "thinking",
}


def test_every_step_has_the_curves_that_the_configuration_implies(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[dict[str, float]] = []
    log = GRPOTrainer.log

    def watched(self: GRPOTrainer, logs: dict[str, float], *rest: Any) -> None:
        log(self, logs, *rest)
        logged.append(dict(logs))

    monkeypatch.setattr(GRPOTrainer, "log", watched)
    rewards = {"accuracy": {"weight": 1.0}, "answer_format": {"weight": 0.2}, "language_consistency": {"weight": 0.1}}
    rewards["language_consistency"]["args"] = {"language": "en", "languages": ["en", "de"]}
    metrics = grpo.compute(stage_of(base, "curves", rewards=rewards, max_steps=2, beta=0.1))
    expected = [{name: logs[key] for key, name in CURVES.items()} for logs in logged[:2]]  # the last is a summary
    assert metrics["history"] == [{"step": step, **curves} for step, curves in enumerate(expected, 1)]
