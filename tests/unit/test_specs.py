"""What is wrong with the recipe's table or with a program's spec is said in a line that names the file."""

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from r1flow.core.errors import UserError
from r1flow.programs import specs
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
