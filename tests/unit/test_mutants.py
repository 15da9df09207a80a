"""Faults that tests should notice: each is still where the table says; the program tells noticed from unnoticed."""

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import benchmark
import pytest

ROOT = Path(__file__).parents[2]
FILE = ROOT / "benchmarks/mutants.py"


@pytest.fixture(scope="module")
def program() -> ModuleType:
    return benchmark.load("mutants")


def test_every_fault_can_be_made_and_its_tests_exist(program: ModuleType) -> None:
    mutants = program.read(program.TABLE)
    assert len({mutant.name for mutant in mutants}) == len(mutants) > 100
    for mutant in mutants:
        ast.parse(mutant.applied(ROOT))  # ends the program unless the old text is there once
        assert mutant.tests and mutant.old != mutant.new, mutant.name
        for test in mutant.tests:
            file, _, name = test.partition("::")
            assert re.search(rf"^def {name or 'test_.*'}\(", (ROOT / "tests" / file).read_text(), re.MULTILINE), test


TABLE = """
["sums.py".sign]
breaks = "a sum is a difference"
old = 'a + b'
new = 'a - b'
tests = ["test_sums.py::test_sum"]

["sums.py".order]
breaks = "the other way round"
old = 'chosen = a'
new = 'chosen = b'
tests = ["test_sums.py"]
"""
Toy = Callable[..., tuple[int | str | None, str]]


@pytest.fixture
def toy(program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Toy:
    """A checkout with one module; returns what the program returns or ends with, and prints there."""

    def write(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    write("src/r1flow/sums.py", "def add(a, b):\n    chosen = a\n    return chosen * 0 + a + b\n")
    write("src/r1flow/__init__.py", "")

    def run(*words: str, tests: str = "assert add(2, 3) == 5", table: str = TABLE) -> tuple[int | str | None, str]:
        write("tests/test_sums.py", f"from r1flow.sums import add\n\n\ndef test_sum():\n    {tests}\n")
        write("benchmarks/mutants.toml", table)
        monkeypatch.setattr(program, "ROOT", tmp_path)
        monkeypatch.setattr(program, "TABLE", tmp_path / "benchmarks/mutants.toml")
        try:
            return program.main(list(words)), capsys.readouterr().out
        except SystemExit as end:
            return end.code, capsys.readouterr().out

    return run


def test_what_a_test_notices_is_killed_and_the_rest_survives(toy: Toy, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.py")}
    code, said = toy()
    killed, survived, score = said.splitlines()
    assert re.fullmatch(r"killed    sums\.sign +\d+ s  test_sums\.py::test_sum", killed)
    assert re.fullmatch(r"SURVIVED  sums\.order +\d+ s  the other way round", survived)
    assert (code, score) == (1, "1 of 2 killed")
    assert {path: path.read_bytes() for path in before} == before  # the checkout is left alone


def test_faults_are_listed_and_chosen_by_name_or_file(toy: Toy) -> None:
    assert [line.split()[0] for line in toy("--list")[1].splitlines()] == ["sums.sign", "sums.order"]
    assert [line.split()[0] for line in toy("--list", "--only", "sums.order")[1].splitlines()] == ["sums.order"]
    assert toy("--list", "--only", "sums.py") == toy("--list")
    assert toy("--only", "sums.sing")[0] == "--only: there is no mutant and no file 'sums.sing'; --list shows them"


@pytest.mark.parametrize("old", ["a * b", "a"])
def test_a_text_that_is_not_there_once_is_refused(toy: Toy, old: str) -> None:
    code, said = toy(table=TABLE.replace("a + b", old))
    assert re.fullmatch(r"mutants\.toml: sums\.sign: its `old` is \d+ times in src/r1flow/sums\.py; .*", code)
    assert said == ""


def test_a_test_that_fails_anyway_notices_nothing(toy: Toy) -> None:
    code, said = toy(tests="assert add(2, 3) == 6")
    assert "without any mutant a test fails already" in code and "test_sums.py::test_sum" in code and said == ""


def test_a_test_that_waits_for_ever_has_noticed(program: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_waits.py").write_text("def test_it():\n    while True:\n        pass\n")
    assert program.run_tests(tmp_path, ["test_waits.py"], patience_s=0.5) == "out of patience after 0.5 s"


def test_help_teaches() -> None:
    done = subprocess.run([sys.executable, str(FILE), "--help"], capture_output=True, text=True, check=True)
    assert "--only programs/sft/compute.py grpo.no_kl" in done.stdout
