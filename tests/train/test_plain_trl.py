"""The training with plain TRL in docs/use.md, as it stands there, on a tiny model and two rows written as GSM8K's."""

import re
from functools import partial
from pathlib import Path

import datasets
import pytest
import trl
from tiny import make_model

PAGE = Path(__file__).parents[2] / "docs/use.md"
ROWS = [
    {"question": "Ann has 2 pens and buys 3. How many?", "answer": "2 + 3 = <<2+3=5>>5 pens.\n#### 5"},
    {"question": "A box has 1,200 nails. How many in 2?", "answer": "2 * 1,200 = 2,400.\n#### 2,400"},
]


def test_the_pages_training_with_plain_trl_is_paid_by_gsm8ks_own_answers(tmp_path, monkeypatch):
    [code] = re.findall(r"```python\n(from datasets.*?)```", PAGE.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    model = tmp_path / "Qwen/Qwen2.5-0.5B-Instruct"  # the hub's names are folders here
    make_model(model)
    asked = []

    def load_dataset(*words: str, split: str) -> datasets.Dataset:
        asked.append((*words, split))
        return datasets.Dataset.from_list(ROWS)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    few = {"max_steps": 1, "max_completion_length": 4, "report_to": "none", "logging_steps": 1}
    monkeypatch.setattr(trl, "GRPOConfig", partial(trl.GRPOConfig, use_cpu=True, bf16=False, **few))
    names: dict[str, object] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    assert asked == [("openai/gsm8k", "main", "train")] and len(code.splitlines()) <= 12
    [logged] = [row for row in names["trainer"].state.log_history if "rewards/accuracy/mean" in row]
    assert logged["rewards/accuracy/mean"] == 0  # known, and not None: the golds were read
    score = names["accuracy"]()(["…"] * 2, ["<answer>5</answer>", "<answer>2400</answer>"], answer=golds())
    assert score == [1.0, 1.0]


def golds() -> list[str]:
    return [row["answer"] for row in ROWS]


def test_a_right_answer_that_cannot_be_read_is_warned_of_once():
    from r1flow.rewards import accuracy

    reward = accuracy()
    with pytest.warns(UserWarning, match=r"the right answer '\\\\frac\{' can't be read by kind='math'") as warned:
        assert reward(["…"] * 2, ["<answer>5</answer>"] * 2, answer=["\\frac{", "5"]) == [None, 1.0]
        assert reward(["…"], ["<answer>5</answer>"], answer=["\\frac{"]) == [None]
    assert len(warned) == 1
