"""docs/api/ can be read as it is: what may be called from Python, with the first sentence of each docstring."""

import inspect
import re
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import FunctionType

import pytest

import r1flow
from r1flow import rewards
from r1flow.api.comparison import Comparison
from r1flow.api.examination import ModelSampler
from r1flow.api.stored import StoredRun

PAGES = Path(__file__).parents[2] / "docs/api"
HOLDERS = {"run": StoredRun, "found": Comparison, "sampler": ModelSampler}
ROW = re.compile(r"\| `([\w.]+)` \| (.+?) \|(?: `(.+)` \|)?")


def rows(page: Path) -> list[tuple[str, str, str | None]]:
    """The name, the sentence and the example of each row of a page's tables."""
    found = []
    for line in page.read_text(encoding="utf-8").splitlines():
        if match := ROW.fullmatch(line):
            found.append(match.groups())
    return found


def documentation(name: str) -> str:
    """The docstring of what a page calls by this name."""
    holder, _, key = name.rpartition(".")
    held = HOLDERS[holder] if holder in HOLDERS else import_module(holder)
    return inspect.getdoc(inspect.getattr_static(held, key) if holder in HOLDERS else getattr(held, key)) or ""


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_says_what_the_docstrings_say_and_shows_examples_that_they_have(page: Path) -> None:
    for name, sentence, example in rows(page):
        text = documentation(name)
        assert sentence == text.partition("\n\n")[0].replace("\n", " "), name
        assert example is None or example in text, name


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_lists_something_of_every_module_that_it_is_about(page: Path) -> None:
    names = [name for name, _, _ in rows(page)]
    for module in re.findall(r"^::: (r1flow\.(?!api|rewards)\S+)$", page.read_text(encoding="utf-8"), re.M):
        assert any(name.startswith(f"{module}.") for name in names), module


def members(holder: str) -> set[str]:
    """The functions and properties of a class that say what they are, as the page calls them."""
    found = set()
    for name, value in vars(HOLDERS[holder]).items():
        explained = isinstance(value, FunctionType | property | cached_property) and value.__doc__
        if explained and not name.startswith("_"):
            found.add(f"{holder}.{name}")
    return found


def test_all_that_is_public_is_listed() -> None:
    python = {name for name, _, _ in rows(PAGES / "python.md")}
    assert python == {f"r1flow.{name}" for name in r1flow.OFFERED}.union(*map(members, HOLDERS))
    assert {f"r1flow.rewards.{name}" for name in rewards.__all__} <= {name for name, _, _ in rows(PAGES / "rewards.md")}
