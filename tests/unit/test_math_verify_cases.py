"""The benchmark of Math-Verify's cases reads them as data, and fails for right ones refused or wrong ones accepted."""

import sys
from pathlib import Path

import benchmark
import pytest

script = benchmark.load("math_verify_cases")

MADE = """
import pytest
raise SystemExit("not to be run")

@pytest.mark.parametrize("gold,pred,expected", [
    ("7", "so it is $7$", 1), ("7", "so it is $8$", 0), ("7", "so it is $7$", 1)])
def test_one(gold, pred, expected): ...

@pytest.mark.parametrize("gold, pred, result, precision", [
    ("1/3", "0.333333", 1, 5), (f"{math.sqrt(16):.2f}", f"$4$", 1, 5)])
def test_another(gold, pred, result, precision): ...

@pytest.mark.parametrize("pred,expected", [("9", [])])
def test_something_else(pred, expected): ...
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_made.py").write_text(MADE, "utf-8")
    return tmp_path


def run(checkout: Path, *options: str) -> int:
    with pytest.raises(SystemExit) as ended, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["math_verify_cases.py", str(checkout), *options])
        script.main()
    return int(ended.value.code)


def test_cases_are_literals_with_a_gold_a_prediction_and_an_outcome_each_once(checkout):
    found = script.cases(checkout)
    assert [(case.gold, case.prediction, case.right) for case in found] == [
        ("7", "so it is $7$", True),
        ("7", "so it is $8$", False),
        ("1/3", "0.333333", True),
        ("4.00", "$4$", True),
    ]
    assert {case.half for case in found} <= set(script.HALVES)


def test_halves_are_counted_apart_and_too_few_right_ones_fail(checkout, capsys):
    assert run(checkout, "--least", "3") == 0
    assert "right ones accepted:   3 of   3, wrong ones:   0 of   1" in capsys.readouterr().out.splitlines()[-1]
    assert run(checkout, "--least", "4") == 1


def test_a_wrong_one_that_is_accepted_fails(checkout):
    made = checkout / "tests" / "test_made.py"
    made.write_text(MADE.replace('"so it is $8$", 0', '"also $7$", 0').replace("also", "it is"), "utf-8")
    assert run(checkout, "--least", "0") == 1


@pytest.mark.parametrize("computed", ["gold()", 'f"{gold()}"', 'f"{math.sqrt(gold())}"'])
def test_a_case_that_only_running_it_would_tell_is_a_line(checkout, capsys, computed) -> None:
    made = checkout / "tests" / "test_made.py"
    made.write_text(MADE.replace('"1/3"', computed), "utf-8")
    assert run(checkout) == 2
    assert "a case that can't be read without running it" in capsys.readouterr().err


def test_a_folder_that_is_no_checkout_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert run(tmp_path) == 2
    assert "no cases in tests/test_*.py" in capsys.readouterr().err
