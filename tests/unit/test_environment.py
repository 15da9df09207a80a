"""One set of pins: conda's environment, pip's constraints and pyproject.toml can't drift apart."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def name_and_version(line: str) -> tuple[str, str]:
    name, _, version = line.partition("==")
    return re.sub(r"[-_.]+", "-", re.sub(r"\[.*\]", "", name)).lower(), version


def test_conda_installs_this_project_with_these_constraints_and_no_pins_of_its_own():
    dependencies = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    plain = {entry for entry in dependencies if isinstance(entry, str)}
    assert plain == {"python=3.11", "pip", "git", "make"}
    assert dependencies[-1] == {"pip": ["--constraint constraints.txt", "--editable ."]}


def test_the_lock_has_every_dependency_at_the_version_that_pyproject_pins():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    locked = dict(name_and_version(line) for line in lines if line and not line.startswith("#"))
    for dependency in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]]:
        name, version = name_and_version(dependency)
        assert version and locked[name] == version, dependency


def test_the_supported_pythons_are_the_same_everywhere():
    assert PROJECT["requires-python"] == ">=3.11,<3.13"
    assert "[(3, 11), (3, 12)]" in (ROOT / "workflow/scripts/supported.py").read_text()


def test_make_help_lists_at_most_ten_targets():
    targets = re.findall(r"^[a-z-]+:.*## ", (ROOT / "Makefile").read_text(), re.M)
    assert 0 < len(targets) <= 10


def test_imports_go_one_way_and_stages_never_import_stages():
    for path in (ROOT / "src/r1flow/stages").glob("*.py"):
        assert not re.search(r"from r1flow\.stages|import r1flow\.stages", path.read_text()), path
    for module, owner in {"mlflow": "delivery.py", "hydra": "config.py"}.items():
        users = {
            path.name
            for path in (ROOT / "src/r1flow").rglob("*.py")
            if re.search(rf"^\s*(import|from) {module}\b", path.read_text(), re.M)
        }
        assert users == {owner}
