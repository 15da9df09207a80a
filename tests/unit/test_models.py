"""A folder that holds no reward model is refused before training, from its config.json alone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from r1flow.core.errors import UserError
from r1flow.rewards import models, reward_model
from r1flow.rewards.models import asked, concerns

CONFIG = {"architectures": ["LlamaForSequenceClassification"], "id2label": {"0": "LABEL_0"}}


def folder(tmp_path: Path, weights: str = "model.safetensors", **changes: object) -> Path:
    config = {name: value for name, value in {**CONFIG, **changes}.items() if value is not None}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / weights).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": "pytorch_model.bin"}, "no \\*.safetensors; pickled"),
        ({"architectures": ["LlamaForCausalLM"]}, "architectures is LlamaForCausalLM"),
        ({"architectures": None}, "architectures is nothing"),
        ({"id2label": {"0": "no", "1": "yes"}}, "has 2 outputs"),
        ({"id2label": None}, "has 2 outputs"),  # transformers' default
        ({"id2label": None, "num_labels": 5}, "has 5 outputs"),
    ],
)
def test_what_is_no_reward_model_is_one_line_at_the_start(tmp_path: Path, changes: dict, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        reward_model(folder(tmp_path, **changes))
    assert "\n" not in str(caught.value) and str(tmp_path) in str(caught.value)


def test_a_config_that_is_no_json_is_one_line(tmp_path: Path) -> None:
    folder(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match="can't be read as JSON"):
        reward_model(tmp_path)


def test_making_one_reads_no_weights_and_imports_no_torch(tmp_path: Path) -> None:
    program = "import sys, r1flow.rewards as r; r.reward_model(sys.argv[1]); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program, folder(tmp_path)], check=True)


def test_rows_without_a_task_and_general_ones_are_scored() -> None:
    rows = [(None, None), ("general", None), ("chain_sum", None), ("general", "harmful"), ("general", "greeting")]
    assert [concerns(*row, kinds=None) for row in rows] == [True, True, False, True, True]
    assert [concerns(*row, kinds=["harmful"]) for row in rows] == [False, False, False, True, False]


def test_a_model_of_reasoning_scores_all_rows_but_general_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "classify", lambda folder, rows, sees: [0.5] * len(rows))
    scores = reward_model(folder(tmp_path), sees="response", reasoning=True)
    assert scores(["2 + 2"] * 3, ["4", "Hello!", "4"], task=[None, "general", "chain_sum"]) == [0.5, None, 0.5]
    for given in ({"sees": "response", "kinds": ["harmful"]}, {}):
        with pytest.raises(UserError, match="with reasoning, set sees to response, and leave out kinds"):
            reward_model(folder(tmp_path), reasoning=True, **given)


def test_a_prompt_stands_in_for_a_question_that_is_missing() -> None:
    chat = [{"role": "user", "content": "c"}]
    assert asked(["a", "b", chat], ["x", None, None]) == ["x", "b", "c"]
    assert asked(["a"], None) == ["a"]
