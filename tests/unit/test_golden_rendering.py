"""What training and sampling feed a model for one conversation, as text and as token ids, for every template in conf/.

A change of a template, of rendering or of the tokenizer shows here as a difference to golden/<template>.json.
When that is meant, write the files again and look at what changed:

    python tests/unit/test_golden_rendering.py
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from r1flow.core.template import render
from r1flow.data.tokenizer import train_tokenizer
from r1flow.rewards.classifier import judged_ids

TEMPLATES = Path(__file__).parents[2] / "conf/template"
GOLDEN = Path(__file__).parent / "golden"
QUESTION = "What is 8 + 16 - 19?"
RESPONSE = "<think>8 + 16 = 24. wait, 24 - 19 = 5 — ja, schläft!</think>the result is <answer>5</answer>"
CORPUS = [f"User: What is {n} + {n + 8}?\nAssistant: we start with {n} + {n + 8}, so it is <answer>" for n in range(40)]


@cache
def tokenizer_of(template: str) -> Any:
    """A tokenizer as the data stage makes one, from a small fixed corpus."""
    return train_tokenizer(CORPUS, 300, template)


def rendering(name: str) -> dict[str, Any]:
    """The prompt as it is sampled from, and the ids that SFT and the reward model see: prompt, response, end."""
    tokenizer = tokenizer_of(yaml.safe_load((TEMPLATES / f"{name}.yaml").read_text())["template"])
    prompt = render(tokenizer, QUESTION)
    return {
        "question": QUESTION,
        "response": RESPONSE,
        "prompt": prompt,
        "prompt_ids": tokenizer(prompt, add_special_tokens=False)["input_ids"],
        "ids": judged_ids(tokenizer, QUESTION, RESPONSE, "response"),
    }


def names(folder: Path, suffix: str) -> list[str]:
    return sorted(path.stem for path in folder.glob(f"*{suffix}"))


def templates() -> list[str]:
    """Ours; `own` is whatever a model came with."""
    return [name for name in names(TEMPLATES, ".yaml") if name != "own"]


def test_every_template_has_a_golden_rendering_and_no_other_has():
    assert templates() == names(GOLDEN, ".json")


@pytest.mark.parametrize("name", templates())
def test_a_template_is_rendered_and_tokenised_as_ever(name):
    assert rendering(name) == json.loads((GOLDEN / f"{name}.json").read_text())


@pytest.mark.parametrize("name", names(GOLDEN, ".json"))
def test_a_golden_rendering_reads_back_as_what_was_said(name):
    golden = json.loads((GOLDEN / f"{name}.json").read_text())
    decoded = tokenizer_of(yaml.safe_load((TEMPLATES / f"{name}.yaml").read_text())["template"]).decode(golden["ids"])
    assert decoded == f"{golden['prompt']}{RESPONSE}<|endoftext|>"
    assert QUESTION in golden["prompt"] and golden["prompt"].endswith(("Assistant: ", "<|im_start|>assistant\n"))
    assert golden["ids"][: len(golden["prompt_ids"])] == golden["prompt_ids"]


if __name__ == "__main__":
    for template in templates():
        lines = [f' "{key}": {json.dumps(value, ensure_ascii=False)}' for key, value in rendering(template).items()]
        (GOLDEN / f"{template}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
