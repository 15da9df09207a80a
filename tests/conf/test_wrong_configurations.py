"""Each configuration of wrong_configurations.yaml is refused, before anything is computed, in its line there."""

from pathlib import Path
from typing import Any

import pytest
import yaml

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


@pytest.mark.parametrize(("given", "line"), CASES)
def test_a_wrong_configuration_is_refused_in_this_line(
    given: dict[str, Any], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some are about files that aren't here
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    said = refusal(**{"gpus": {}} | given)
    assert said == line.replace("{stages}", ", ".join(STAGES))
    assert "\n" not in said


def test_every_program_has_wrong_configurations() -> None:
    assert WRONG.keys() >= set(PROGRAMS) and len(CASES) >= 60
