"""What is wrong with the recipe's table or with a program's spec is said in a line that names the file."""

import shutil
import sys
from dataclasses import make_dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from r1flow.core.errors import UserError
from r1flow.engine.config import check_keys
from r1flow.programs import keys, specs
from r1flow.recipe import stages
from r1flow.recipe.stages import StageRow


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (StageRow("base", "grpo"), "recipe/stages.py: two rows are called 'base'; give one another name"),
        (StageRow("taught", "sftt"), "recipe/stages.py: taught: there is no program 'sftt' in "),
        (StageRow("taught", "sftt"), "; did you mean 'sft'?"),
    ],
)
def test_a_row_that_cannot_be_is_refused(row: StageRow, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    specs.check_recipe()
    monkeypatch.setattr(stages, "ROWS", (*stages.ROWS, row))
    with pytest.raises(UserError) as refusal:
        specs.check_recipe()
    assert said in str(refusal.value) and "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["compute.py", "spec.py"])
def test_a_program_without_one_of_its_modules_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(specs, "HERE", shutil.copytree(specs.HERE, tmp_path / "programs"))
    specs.check_programs()
    missing = tmp_path / "programs/sft" / name
    missing.unlink()
    with pytest.raises(UserError) as refusal:
        specs.check_programs()
    assert str(refusal.value) == f"{missing}: missing; a program is a folder with compute.py and spec.py"


def test_a_spec_without_a_spec_in_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "r1flow.programs.sft.spec", SimpleNamespace())
    with pytest.raises(
        UserError, match=r"^r1flow\.programs\.sft\.spec: .*; write a spec.py that defines SPEC"
    ) as refusal:
        specs.check_programs()
    assert "\n" not in str(refusal.value)


RANGES = {name: kind for name, kind in vars(keys).items() if hasattr(kind, "__metadata__")}


@pytest.mark.parametrize("number", [-1, 0, 1, 2])
@pytest.mark.parametrize("name", RANGES)
def test_a_number_outside_of_its_range_is_refused_with_the_whole_range(name: str, number: int) -> None:
    said = {
        "OneOrMore": (number >= 1, "1 or more"),
        "ZeroOrMore": (number >= 0, "0 or more"),
        "Share": (0 <= number <= 1, "a number from 0 to 1"),
        "ShareAboveZero": (0 < number <= 1, "a number above 0, up to 1"),
        "ShareBelowOne": (0 <= number < 1, "0 or more, but less than 1"),
        "Positive": (number > 0, "more than 0"),
        "NotNegative": (number >= 0, "0 or more"),
    }
    fits, words = said[name]
    block = make_dataclass("Block", [("limits", dict[str, RANGES[name] | None])])
    if fits:
        check_keys("stage", {"limits": {"a": number}}, block)
        return
    with pytest.raises(UserError) as refused:
        check_keys("stage", {"limits": {"a": number}}, block)
    assert str(refused.value) == f"stage.limits.a: {number}; use {words}"
