"""Which Python `make` takes for its environment, on PATHs and machines that are made up."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "workflow/scripts/supported.py"
PRETENDED = """
import platform, runpy, sys
platform.system, platform.machine = lambda: {0[0]!r}, lambda: {0[1]!r}
sys.executable = {1!r}
runpy.run_path({2!r})
"""
LINUX = ("Linux", "x86_64")


def make_python(folder: Path, name: str, version: str) -> str:
    """A stub that answers what a Python of this version would; without a version, as pyenv's do that isn't chosen."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{f'echo {version}' if version else 'echo command not found >&2; exit 127'}\n")
    path.chmod(0o755)
    return str(path)


def ask(folder: Path, own: str, machine: tuple[str, str] = LINUX) -> tuple[int, str, str]:
    """The exit code, the Python and the words of a folder's stubs; `own` is the version of the Python that runs it."""
    code = PRETENDED.format(machine, make_python(folder, "python3", own), str(SCRIPT))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PATH": str(folder)})
    return done.returncode, done.stdout.strip(), done.stderr


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_a_python_that_fits_is_taken_and_no_other_is_looked_for(tmp_path: Path, version: str) -> None:
    make_python(tmp_path, "cc", "")
    make_python(tmp_path, "python3.12", "3.12")
    assert ask(tmp_path, version) == (0, str(tmp_path / "python3"), "")


def test_the_first_that_fits_is_taken_and_named(tmp_path: Path) -> None:
    make_python(tmp_path, "python3.12", "")
    make_python(tmp_path, "python3.11", "3.10")  # a link that leads elsewhere
    make_python(tmp_path, "python3.13", "3.13")
    code, python, said = ask(tmp_path, "3.9")
    assert (code, python) == (0, "python3.13") and f"taking {tmp_path}/python3.13\n" in said


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.15"])
def test_where_none_fits_the_remedy_is_one_line(tmp_path: Path, version: str) -> None:
    make_python(tmp_path, "python3.12", "")
    code, python, said = ask(tmp_path, version)
    assert code == 1 and not python
    assert said.startswith("make: r1flow needs Python 3.11, 3.12, 3.13, 3.14, and") and said.count("\n") == 1
    assert "apt-get install python3" in said and "make PYTHON=" in said


@pytest.mark.parametrize("machine", [("Darwin", "x86_64"), ("Windows", "AMD64"), ("Linux", "ppc64le")])
def test_a_machine_without_packages_is_refused(tmp_path: Path, machine: tuple[str, str]) -> None:
    code, python, said = ask(tmp_path, "3.12", machine)
    assert code == 1 and not python and said.endswith(f"this is {' '.join(machine)}\n")


@pytest.mark.parametrize(
    ("version", "machine", "untried"),
    [
        ("3.14", LINUX, "Python 3.14"),
        ("3.12", ("Linux", "aarch64"), "Linux aarch64"),
        ("3.13", ("Darwin", "arm64"), ""),
    ],
)
def test_what_nobody_has_tried_is_said(tmp_path: Path, version: str, machine: tuple[str, str], untried: str) -> None:
    make_python(tmp_path, "cc", "")
    code, python, said = ask(tmp_path, version, machine)
    assert code == 0 and python and f"make: {untried or 'Darwin arm64'}: all packages are to be had there" in said


def test_a_missing_compiler_is_said_before_pip_meets_it(tmp_path: Path) -> None:
    code, python, said = ask(tmp_path, "3.12")
    assert code == 0 and python and "apt-get install gcc python3-dev" in said
