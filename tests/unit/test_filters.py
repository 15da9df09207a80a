"""A filter that can't filter is refused when the run is planned; what the check knows is what the programs have."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from r1flow.core.errors import UserError
from r1flow.core.language import LANGUAGES, detector
from r1flow.engine.run import Run
from r1flow.programs import filters
from r1flow.programs.rejection import compute as rejection

ROOT = Path(__file__).parents[2]
MIXED = {"language": "en", "languages": ["en", "zh"], "share": 0.95}


def test_the_filters_and_their_arguments_are_those_of_the_program() -> None:
    """`duplicate` compares samples, so no function of one sample defines it."""
    assert filters.FILTERS.keys() - {"duplicate"} == rejection.FILTERS.keys()
    for name, function in rejection.FILTERS.items():
        parameters = list(inspect.signature(function).parameters.values())[1:]  # the first one is the sample
        assert {each.name: inspect.formatannotation(each.annotation) for each in parameters} == filters.FILTERS[name]
        assert filters.RULES.keys() >= filters.FILTERS[name].keys()


REFUSED = {
    "no such filter": ({"name": "mixd_language"}, "filters[1].name: there is no 'mixd_language'; did you mean"),
    "a language that nobody finds": (MIXED | {"language": "klingon"}, "args.language: 'klingon' isn't allowed"),
    "one of several": (MIXED | {"languages": ["en", "klingon"]}, "args.languages"),
    "a target that is no candidate": (MIXED | {"languages": ["zh"]}, "args.languages: en isn't in this list"),
    "no candidates": (MIXED | {"languages": []}, "args.languages"),
    "a list for a text": (MIXED | {"languages": "en"}, "args.languages: 'en' isn't of type list[str]"),
    "numbers for texts": (MIXED | {"languages": [1]}, "args.languages: [1] isn't of type list[str]"),
    "percent": (MIXED | {"share": 95}, "args.share: 95 isn't allowed; use a number from 0 to 1"),
    "text for a number": (MIXED | {"share": "x"}, "args.share: 'x' isn't of type float"),
    "null": (MIXED | {"language": None}, "args.language: None isn't of type str"),
    "a fraction of a word": ({"name": "long_paragraph", "args": {"max_words": 2.5}}, "2.5 isn't of type int"),
    "no words": (
        {"name": "long_paragraph", "args": {"max_words": 0}},
        "args.max_words: 0 isn't allowed; use 1 or more",
    ),
    "yes": ({"name": "long_paragraph", "args": {"max_words": True}}, "args.max_words: True isn't of type int"),
    "a missing argument": ({"name": "long_paragraph"}, "args: it takes max_words, and max_words is missing"),
    "an argument that it hasn't": (
        {"name": "code_block", "args": {"max_words": 1}},
        "args: it takes none, and max_words is unknown",
    ),
}


@pytest.mark.parametrize(("spec", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_filter_is_refused_by_place_and_key(spec: dict[str, Any], said: str) -> None:
    spec = spec if "name" in spec else {"name": "mixed_language", "args": spec}
    with pytest.raises(UserError, match=re.escape(said)):
        filters.check_filters([{"name": "malformed"}, spec])


@pytest.mark.parametrize("share", [0, 0.5, 1, 1.0])
def test_what_can_filter_is_let_through(share: float) -> None:
    filters.check_filters([{"name": "mixed_language", "args": MIXED | {"share": share}}, {"name": "code_block"}])


def test_a_plan_refuses_them_with_their_stage() -> None:
    with pytest.raises(UserError, match=r"^rejection\.filters\[0\]\.name: there is no 'nope'"):
        Run.compose(ROOT, overrides="rejection.filters=[{name:nope}]")


def test_the_languages_are_those_that_can_be_found() -> None:
    texts = (3 * chr(code) for code in range(0x21, 0x3000, 50))
    found = {item["lang"] for text in texts for item in detector().detect(text, k=200)}
    assert found == filters.LANGUAGES >= set(LANGUAGES)
