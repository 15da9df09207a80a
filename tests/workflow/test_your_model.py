"""A model of one's own goes through the whole recipe by nothing but `model=`: tiny, random ones of two kinds.

They are bfloat16 in one file, as most are; one has a chat template without our tags, the other none.
"""

import json

import pytest
from random_model import CHATML, make_random_model

TRAINED = {"base", "zero_rl", "cold_start", "reasoning_rl", "sft_mix", "align_rl"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "template", "said", "begins"),
    [
        ("qwen2", CHATML, "with its own chat template", "{% for message"),
        (
            "llama",
            None,
            "with R1-Zero's chat template (conf/template/r1_zero.yaml), since its own is missing",
            "{%- set",
        ),
    ],
)
def test_a_folder_becomes_a_trained_model_by_one_word(kind, template, said, begins, empty_checkout, tmp_path):
    make_random_model(tmp_path / "mine", kind, template)
    words = f"model={tmp_path / 'mine'}"
    done = empty_checkout.snakemake(overrides=words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"r1flow: model: base is {tmp_path / 'mine'} ({kind}), {said}\n" in done.stderr
    assert "r1flow: engine: auto is r1flow for zero_rl, reasoning_rl, rejection, align_rl, evaluate\n" in done.stderr
    results = empty_checkout.folder / "results/r1_micro"
    assert set(json.loads((results / "report/summary.json").read_text())["models"]) == TRAINED
    for stage in TRAINED:
        assert json.loads((results / stage / "model/config.json").read_text())["model_type"] == kind
    assert (results / "base/model/chat_template.jinja").read_text().startswith(begins)
    assert (results / "zero_rl/model/chat_template.jinja").read_text().startswith("{%- set preamble")
    assert not (results / "data/corpus.jsonl").exists()
    assert empty_checkout.planned(overrides=words) == set()
