"""r1flow.evaluate and load_sampler with a real, tiny model: their examples, and both engines."""

import doctest
from pathlib import Path

import pytest
from tiny import make_model

import r1flow
from r1flow.api import examination

PROBLEMS = [{"question": f"What is {number} + 1?", "answer": number + 1} for number in range(3)]


@pytest.fixture
def model(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    make_model(Path("model"))
    return Path("model")


def test_every_example_returns_what_it_says(model):
    ran = doctest.testmod(examination, extraglobs={"r1flow": r1flow})
    assert ran.failed == 0 and ran.attempted > 0


def test_an_evaluation_is_the_same_again_in_any_batches_and_by_either_engine(model):
    def completions(**options) -> list[str]:
        found = r1flow.evaluate(model, PROBLEMS, k=2, temperature=0.0, max_new_tokens=6, **options)
        return [row["completion"] for row in found.rows]

    first = completions()
    assert completions() == completions(batch_size=2) == completions(engine="transformers") == first
    assert len(first) == 6 and first[0] == first[1]  # at temperature 0 both samples are the likeliest
    drawn = [r1flow.evaluate(model, PROBLEMS, k=2, seed=seed, max_new_tokens=6).rows for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_an_unknown_engine_is_refused_with_those_there_are(model):
    with pytest.raises(r1flow.api.examination.UserError, match="engine: there is no 'vlm'; known: auto, r1flow, "):
        r1flow.load_sampler(model, engine="vlm")
