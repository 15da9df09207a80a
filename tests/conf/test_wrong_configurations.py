"""Each configuration of wrong_configurations.yaml is refused, before anything is computed, in its line there."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from gate_share import one_in

from r1flow.core.errors import UserError
from r1flow.engine.run import Run
from r1flow.recipe.stages import STAGES

ROOT = Path(__file__).parents[2]
WRONG = yaml.safe_load(Path(__file__).with_name("wrong_configurations.yaml").read_text())
PROGRAMS = ("data", "fetch", "pretrain", "sft", "grpo", "rejection", "reward_model", "evaluate", "report")
CASES = [
    pytest.param(case["given"], case["refused"], id=f"{program}: {what}")
    for program, cases in WRONG.items()
    for what, case in cases.items()
]


def refusal(gpus: dict[str, int], **given: Any) -> str:
    """What a run says that is composed from the words of --config, put in order, and given GPUs."""
    with pytest.raises(UserError) as refused:
        run = Run.compose(ROOT, **given)
        assert run.stages
        run.check_gpus(gpus)
    return str(refused.value)


@pytest.mark.parametrize(("given", "line"), one_in(2, CASES))
def test_a_wrong_configuration_is_refused_in_this_line(
    given: dict[str, Any], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some are about files that aren't here
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    said = refusal(**{"gpus": {}} | given)
    assert said == line.replace("{stages}", ", ".join(STAGES))
    assert "\n" not in said


def test_all_mistakes_of_a_configuration_are_said_at_once_a_line_each() -> None:
    """Unknown keys, at which Hydra stops, with wrong values; then wrong options of trainers in several stages."""
    mistyped = "zero_rl.trainer.learnig_rate=1 base.modle=3 +sft_mix.foo=1 align_rl.lora=3 evaluate.k=none"
    lines = refusal({}, overrides=mistyped).split("\n  ")
    assert lines[0] == "5 mistakes:" and len(lines) == 6
    for line, said in zip(
        lines[1:], ("learnig_rate", "base.modle", "sft_mix.foo", "align_rl.lora", "evaluate.k"), strict=True
    ):
        assert said in line
    wrong = "zero_rl.trainer.max_steps=x zero_rl.trainer.optim=adamm +cold_start.trainer.bar=1 evaluate.temperature=-1"
    lines = refusal({}, overrides=wrong).split("\n  ")
    assert len(lines) == 5 and "evaluate.temperature" in lines[-1]
    assert [line.partition(":")[0] for line in lines[1:3]] == ["zero_rl.trainer.max_steps", "zero_rl.trainer.optim"]


def test_a_mistyped_key_is_said_with_whole_overrides_once_and_hides_no_wrong_value() -> None:
    given = "base.modle=3 zero_rl.trainer.betaa=1 +zero_rl.xx=1 zero_rl.trainer.beta=abc data.tasks.maze.drawss=9"
    lines = refusal({}, overrides=given).split("\n  ")[1:]
    keys = (
        "base.modle",
        "zero_rl.trainer.betaa",
        "data.tasks.maze.drawss",
        "zero_rl.xx",
        "zero_rl.trainer.beta: 'abc'",
    )
    for line, key in zip(lines, keys, strict=True):
        assert key in line
    assert lines[0].count(given) == lines[1].count(given) == 1
    assert lines[2] == "data.tasks.maze.drawss: there is no such key; did you mean 'draws'?"


def test_a_mistake_that_is_made_once_is_said_once() -> None:
    assert "\n" not in refusal({}, overrides="base.modle=3 seed=2")


def test_every_program_has_wrong_configurations() -> None:
    assert WRONG.keys() >= set(PROGRAMS) and len(CASES) >= 60
