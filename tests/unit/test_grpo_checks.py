"""What no GRPO stage could run is refused by key, before anything is computed."""

import copy
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml

from r1flow.core.errors import UserError
from r1flow.programs.grpo.spec import check_grpo, check_rewards
from r1flow.programs.trainings import check_ranges
from r1flow.training.rollouts import extra_passes, generation_size, rollouts, steps_per_generation

DEFAULT = yaml.safe_load(Path("conf/grpo/default.yaml").read_text()) | {
    "rewards": {"accuracy": {"weight": 1.0}, "answer_format": {"weight": 0.2}},
    "engine": "r1flow",
}


GPU = yaml.safe_load(Path("conf/grpo/gpu.yaml").read_text())
VLLM = DEFAULT | GPU | {"device": "cuda"} | {key: DEFAULT[key] | GPU[key] for key in ("stop_above", "trainer")}


def config(base: dict[str, Any] = DEFAULT, **changes: Any) -> dict[str, Any]:
    """The default with `engine=…` or, for keys of the trainer, `num_generations=…` changed."""
    changed = copy.deepcopy(base)
    for key, value in changes.items():
        (changed if key in changed else changed["trainer"])[key] = value
    return changed


def test_the_default_can_be_run() -> None:
    check_grpo(config())


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"num_generations": 24}, "trainer.num_generations: 24 doesn't divide the 256"),
        ({"num_generations": 1}, "trainer.num_generations"),
        ({"per_device_train_batch_size": 0}, "trainer.per_device_train_batch_size"),
        ({"max_steps": 0}, "trainer.max_steps"),
        ({"save_steps": 3, "num_iterations": 2}, "trainer.save_steps: 3 .* make it a multiple of 8 steps"),
        ({"save_steps": 10, "steps_per_generation": 12}, "trainer.save_steps"),
        ({"engine": "vllm"}, "engine: there is no 'vllm'"),
        ({"top_k": 50}, "trainer.top_k: 50 .* engine: transformers"),
        ({"repetition_penalty": 1.1}, "trainer.repetition_penalty"),
        ({"use_vllm": True}, "trainer.use_vllm"),
        ({"temperature": 0.0}, "trainer.temperature"),
        ({"engine": "transformers"}, "dev: engine transformers can't answer .*; set dev to null"),
        ({"loss_type": "cispo"}, "trainer.epsilon_high: .* set it to 5.0"),
        ({"rewards": {}}, "rewards: there are none"),
        ({"data": DEFAULT["data"] | {"general_share": 1.5}}, "data.general_share: 1.5"),
        ({"data": DEFAULT["data"] | {"general_share": 0.2}}, "data.general_share: .* belong together"),
        ({"data": DEFAULT["data"] | {"general_file": "a.jsonl"}}, "data.general_share: .* belong together"),
        (
            {"data": DEFAULT["data"] | {"general_file": "a.jsonl", "general_share": 0.2}},
            "general_share: .* reward_model",
        ),
        (
            {
                "data": DEFAULT["data"] | {"general_file": "a.jsonl", "general_share": 0.2},
                "rewards": {"steps": {"name": "reward_model", "args": {"sees": "response", "reasoning": True}}},
            },
            "general_share: .* reward_model",
        ),
    ],
)
def test_what_cannot_run_is_refused_by_key(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(UserError, match=named):
        check_grpo(config(**changes))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"vllm_mode": "server", "device": "cpu"}, "trainer.vllm_mode: server .* device: cuda"),
        ({"vllm_server_host": "0.0.0.0"}, "trainer.vllm_server_host: .*R1FLOW_ROLLOUT_URL"),
        ({"vllm_server_port": 8000}, "trainer.vllm_server_port"),
        ({"vllm_max_model_length": 4096}, "trainer.vllm_max_model_length: 4096 has no room for a prompt beside 4096"),
        ({"top_p": 0.95}, "trainer.top_p: at 0.95 .* leave it at 1"),
        ({"top_k": 20}, "trainer.top_k: at 20"),
        ({"min_p": 0.1}, "trainer.min_p: at 0.1"),
        ({"vllm_importance_sampling_correction": False}, "stop_above.mismatch: .*vllm_importance_sampling_correction"),
        ({"stop_above": {}}, "stop_above.mismatch: it is missing, .* set it to 0.1"),
        ({"stop_above": {"mismach": 0.1}}, "stop_above: .*'mismach'.*'mismatch'"),
    ],
)
def test_rollouts_by_vllm_that_cannot_be_are_refused_by_key(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(UserError, match=named):
        check_grpo(config(VLLM, **changes))


@pytest.mark.parametrize("use_vllm", [True, False])
@pytest.mark.parametrize(
    "url", ["http://ann:secret@h:8000", "ann:secret@h:8000", "http://h:8000/?key=secret", "http://h#:secret"]
)
def test_a_server_s_address_with_a_secret_is_refused_without_repeating_it(url: str, use_vllm: bool) -> None:
    with pytest.raises(UserError, match="vllm_server_base_url: use an address") as refusal:
        check_grpo(config(VLLM, vllm_server_base_url=url, use_vllm=use_vllm))
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"vllm_server_base_url": "http://127.0.0.1:8000"},
        {"vllm_server_base_url": "scratch/address"},
        {"vllm_mode": "server", "max_completion_length": 16384},
        {"vllm_max_model_length": None, "top_p": 1},
        {"use_vllm": False, "vllm_importance_sampling_correction": False},
        {"stop_above": {}, "vllm_importance_sampling_correction": False, "top_p": 0.95},
    ],
)
def test_rollouts_by_vllm_that_can_be_are_let_through(changes: dict[str, Any]) -> None:
    check_grpo(config(VLLM, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"save_steps": 8, "num_iterations": 2},
        {"save_steps": 4, "num_iterations": 2, "steps_per_generation": 2},
        {"save_steps": 3, "num_iterations": 2, "save_strategy": "no"},
        {"steps_per_generation": 2},
        {"engine": "transformers", "dev": None, "top_k": 50},
        {"num_generations": 8},
    ],
)
def test_what_can_run_is_let_through(changes: dict[str, Any]) -> None:
    check_grpo(config(**changes))


def test_a_generation_is_counted_as_trl_counts_it() -> None:
    trainer = DEFAULT["trainer"]
    assert (generation_size(trainer), steps_per_generation(trainer)) == (256, 4)
    assert generation_size(trainer | {"steps_per_generation": 8}) == 512
    assert steps_per_generation(trainer | {"generation_batch_size": 128}) == 2


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 48),  # 3 steps of 2 passes of 8
        ({"num_iterations": 2}, 32),  # two sets of 16, each gone over twice; the second one only once
        ({"steps_per_generation": 4}, 64),  # 6 passes need two sets of 4 passes
        ({"generation_batch_size": 8}, 48),  # a set a pass
    ],
)
def test_completions_of_a_whole_training(options: dict[str, int], count: int) -> None:
    trainer = {"max_steps": 3, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 2, "num_iterations": 1}
    assert rollouts(trainer | options) == count


def test_rows_are_read_for_the_kl_term_and_for_vllms_correction() -> None:
    plain, vllm = DEFAULT["trainer"], VLLM["trainer"]
    with_kl = plain | {"beta": 0.001}
    assert [extra_passes(trainer) for trainer in (plain, with_kl, vllm | {"beta": 0.0}, vllm)] == [0, 1, 1, 2]
    assert extra_passes(vllm | {"vllm_importance_sampling_correction": False}) == 1


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("my_reward.brevity", "there is no my_reward.py in the project's folder; did you mean 'my_rewards.py'?"),
        ("my_rewards.brevty", "there is no 'brevty' in my_rewards.py; did you mean 'brevity'?"),
        ("my_rewards.brevity", None),
        ("my_rewards.imported", None),
        ("my_rewards.assigned", None),
        ("open.anything", None),  # its names can't be known
        ("wrong.anything", None),  # the plan names the line, when it reads the code
        ("json.no_such", None),  # installed
    ],
)
def test_a_reward_of_ones_own_is_looked_for_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, named: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "from os import path as imported\nassigned = 3\ndef brevity(words): return None\n"
    (tmp_path / "my_rewards.py").write_text(text)
    (tmp_path / "open.py").write_text("from os import *\n")
    (tmp_path / "wrong.py").write_text("def\n")
    with pytest.raises(UserError, match=re.escape(f"rewards.short: {name}: {named}")) if named else nullcontext():
        check_rewards({"short": {"name": name}})


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"fp16": True}, "^trainer.fp16: True and bf16: native .* only one"),
        ({"generation_batch_size": 64, "steps_per_generation": 1}, "^trainer.generation_batch_size: 64 and steps_per_"),
    ],
)
def test_options_that_exclude_each_other_are_refused(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(UserError, match=named):
        check_ranges(DEFAULT["trainer"] | changes)
