"""One set of pins: conda's environment, pip's constraints and pyproject.toml can't drift apart."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest
import yaml

from r1flow.artifacts import fingerprint

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def name_and_version(line: str) -> tuple[str, str]:
    name, _, version = line.partition(";")[0].partition("==")
    return re.sub(r"[-_.]+", "-", re.sub(r"\[.*\]", "", name)).lower(), version


def test_conda_installs_this_project_with_these_constraints_and_no_pins_of_its_own():
    dependencies = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    plain = {entry for entry in dependencies if isinstance(entry, str)}
    assert plain == {"python=3.11", "c-compiler", "pip", "git", "make"}
    assert dependencies[-1] == {"pip": ["--constraint constraints.txt", "--editable ."]}


def test_the_lock_has_every_dependency_at_the_version_that_pyproject_pins():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    locked = dict(name_and_version(line) for line in lines if line and not line.startswith("#"))
    for dependency in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]]:
        name, version = name_and_version(dependency)
        assert version and locked[name] == version, dependency


def test_the_supported_pythons_are_the_same_everywhere():
    assert PROJECT["requires-python"] == ">=3.11,<3.15"
    script = (ROOT / "workflow/scripts/supported.py").read_text()
    assert 'PYTHONS = ["3.12", "3.11", "3.13", "3.14"]' in script
    assert "Python 3.11 to 3.13" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("words", [["run", "experment=r1_micro"], ["seeds", "overides=seed=2"], ["run", "r1_micro"]])
def test_a_mistyped_word_starts_no_run(words):
    # As from a shell: `make test` hands its own flags on.
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    said = subprocess.run(["make", "-n", *words], cwd=ROOT, env=plain, capture_output=True, text=True)
    assert said.returncode == 2 and f"{words[1].partition('=')[0]} isn't known here" in said.stderr and not said.stdout


def test_make_help_is_short():
    targets = re.findall(r"^[a-z-]+:.*## ", (ROOT / "Makefile").read_text(), re.M)
    assert 0 < len(targets) <= 12


# The rooms of src/r1flow/, the lowest first: a module imports from its own and from those before it.
LAYERS = [
    "core",
    "model",
    "artifacts",
    "tracking",
    "sandbox",
    "grading",
    "data",
    "rewards",
    "sampling",
    "training",
    "recipe",
    "programs",
    "engine",
    "api",
    "commands",
]


def test_imports_go_one_way():
    source = ROOT / "src/r1flow"
    assert {path.name for path in source.iterdir() if path.is_dir() and path.name != "__pycache__"} == set(LAYERS)
    upward = [
        f"{path.relative_to(source)} imports {name}"
        for path in source.glob("*/**/*.py")
        for name in fingerprint.read_source(f"r1flow.{path.stem}", path).imports
        if name.startswith("r1flow.")
        and LAYERS.index(name.split(".")[1]) > LAYERS.index(path.relative_to(source).parts[0])
    ]
    assert upward == []


def test_a_command_is_used_by_no_other():
    """What several commands need is below them; publishing and restoring verify first."""
    used = {
        (path.stem, name.split(".")[2])
        for path in (ROOT / "src/r1flow/commands").glob("*.py")
        for name in fingerprint.read_source(f"r1flow.commands.{path.stem}", path).imports
        if name.startswith("r1flow.commands.") and name.split(".")[2] not in ("finding", "places", "words")
    }
    assert used == {("publish", "verify"), ("restore", "verify")}


def test_a_module_has_a_name_of_its_own():
    modules = Counter(path.stem for path in (ROOT / "src/r1flow").rglob("*.py"))
    programs = sum(1 for _ in (ROOT / "src/r1flow/programs").glob("*/spec.py"))
    assert {name for name, count in modules.items() if count > 1} == {"__init__", "compute", "spec"}
    assert modules["compute"] == modules["spec"] == programs


def test_programs_do_not_import_one_another_and_a_slow_library_has_its_own_users():
    programs = {path.parent.name: path for path in (ROOT / "src/r1flow/programs").glob("*/compute.py")}
    for program, path in programs.items():
        others = "|".join(programs.keys() - {program})
        assert not re.search(rf"r1flow\.programs\.({others})\b", path.read_text()), path
    mlflows = {"delivery.py", "mlflow_client.py", "mlflow_traces.py"}
    for module, owners in {"mlflow": mlflows, "hydra": {"config.py"}}.items():
        users = {
            path.name
            for path in (ROOT / "src/r1flow").rglob("*.py")
            if re.search(rf"^\s*(import|from) {module}\b", path.read_text(), re.M)
        }
        assert users == owners


def run(command: list[str], **changes: str) -> tuple[int, str]:
    """A command's exit code and what it says, as if nobody had called pytest or make around it."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "MAKE", "MFLAGS"))}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment | changes)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "options",
    ["-k no_test_is_called_so tests/unit/test_gpus.py", "tests/nowhere"],
    ids=["an expression", "a folder"],
)
def test_options_that_select_no_test_are_said_in_a_line_and_make_fails(options):
    installed = ("-o", "setup", "-o", ".venv/.tests-ready")
    code, said = run(["make", *installed, "test", f"options={options}"])
    assert code == 2
    assert f"{options}\n" in said and re.search("^(no test is selected by: pytest|ERROR: .*not found: ).*", said, re.M)


def test_a_missing_system_package_is_said_in_a_line(tmp_path):
    stubs = {"id": "echo 0", "apt-get": "exit 1", "make": "echo the tests run"}
    for name, line in stubs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "dirname").symlink_to(shutil.which("dirname"))
    code, said = run([shutil.which("bash"), ".ci/run"], PATH=str(tmp_path))
    assert code == 0 and said.splitlines()[-1] == "the tests run"
    assert ".ci/run: bubblewrap or Chromium can't be installed here; the tests that need them are skipped" in said
    code, said = run([sys.executable, "-m", "pytest", "--collect-only", "-q", __file__], PATH=str(tmp_path))
    assert "bubblewrap isn't installed, and tests that need it were skipped; apt-get install bubblewrap" in said


@pytest.mark.parametrize(
    "words",
    [
        ["reward_check.py", "--parts", "no_such"],
        ["red_team.py", "--only", "no_such"],
        pytest.param(["large_step.py", "--shapes", "no_such"], marks=pytest.mark.slow),  # 5 s of imports
    ],
)
def test_an_unknown_name_of_a_benchmark_is_a_line_with_the_known_ones(words):
    code, said = run([sys.executable, f"benchmarks/{words[0]}", *words[1:]])
    assert code == 2
    assert re.search(rf"error: argument {words[1]}: invalid choice: 'no_such' \(choose from '[\w./-]+'", said)


def test_the_picture_in_the_readme_is_that_of_the_recipe():
    script = [sys.executable, str(ROOT / "workflow/scripts/picture.py")]
    drawn = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    assert drawn == (ROOT / "docs/recipe.svg").read_text(), "python workflow/scripts/picture.py > docs/recipe.svg"
