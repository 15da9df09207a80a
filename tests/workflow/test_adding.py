"""The steps of docs/use.md for adding a stage or a program are enough: a run has it, examines its model, reports it."""

import json
import shutil
from pathlib import Path

import pytest
from checkout import Checkout

PACKAGE = Path(__file__).parents[2] / "src/r1flow"
STAGES = "stages=[data,base,{},evaluate,report]"
COMPUTE = '''"""Copies a model."""

import shutil


def compute(stage):
    shutil.copytree(stage.inputs["model"], stage.work / "model")
    return {"copies": 1}
'''
SPEC = '''"""What the neighbours of the program must know of it that copies a model."""

from dataclasses import dataclass

from r1flow.programs.keys import Place
from r1flow.programs.specs import Spec


@dataclass
class Copy(Place):
    init_from: str


SPEC = Spec(keys=Copy, outputs=lambda config: ["model/"])
'''


@pytest.fixture
def project(copy: Checkout, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """A finished run in a folder with its own copy of the package."""
    return with_package(copy, monkeypatch)


def with_package(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    shutil.copytree(PACKAGE, checkout.folder / "src/r1flow", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("PYTHONPATH", str(checkout.folder / "src"))
    return checkout


def insert(path: Path, before: str, line: str) -> None:
    text = path.read_text()
    assert text.count(before) == 1, f"{path} has changed; adapt this test"
    path.write_text(text.replace(before, line + before))


def add_stage(project: Checkout, stage: str, program: str, colour: str) -> None:
    insert(
        project.folder / "src/r1flow/recipe/stages.py",
        '    StageRow("evaluate", ',
        f'    StageRow("{stage}", "{program}", "{colour}"),\n',
    )
    groups = f"  - {program}@{stage}: default\n"
    groups += f"  - reward@{stage}.rewards: zero\n" if program == "grpo" else ""
    insert(project.folder / "conf/config.yaml", "  - evaluate: default\n", groups)
    insert(project.folder / "conf/config.yaml", "report:\n  caveats", f"{stage}: {{init_from: base}}\n")


def assert_reported(project: Checkout, stage: str, colour: str) -> None:
    folder = project.folder / "results/added"
    assert (folder / stage / "model/model.safetensors").is_file()
    summary = json.loads((folder / "report/summary.json").read_text())
    assert set(summary["models"]) == {"base", stage}
    assert set(summary["steps"][stage]) == {"base"}  # which it starts from
    page = (folder / "report/report.html").read_text()
    assert stage in page and colour in page


@pytest.mark.slow
@pytest.mark.parametrize("program", ["sft", "grpo"])
def test_a_stage_of_a_program_that_there_is_takes_a_row_and_a_block(project: Checkout, program: str) -> None:
    add_stage(project, "taught_2", program, "#0a0b0c")
    short = {"sft": "", "grpo": " taught_2.trainer.max_completion_length=16 taught_2.trainer.logging_steps=1"}
    steps = "taught_2.trainer.max_steps=4 taught_2.trainer.save_steps=4"
    done = project.snakemake(run="added", overrides=f"{STAGES.format('taught_2')} {steps}{short[program]}")
    assert done.returncode == 0, done.stderr
    assert_reported(project, "taught_2", "#0a0b0c")


@pytest.mark.slow
def test_a_program_takes_a_folder_and_a_group_of_conf(project: Checkout) -> None:
    folder, group = project.folder / "src/r1flow/programs/copy", project.folder / "conf/copy"
    folder.mkdir()
    group.mkdir()
    (folder / "compute.py").write_text(COMPUTE)
    done = project.snakemake("--dry-run")
    assert done.returncode == 1 and "programs/copy/spec.py: missing; a program is a folder with" in done.stderr
    (folder / "spec.py").write_text("import torch\n" + SPEC)
    done = project.snakemake("--dry-run")
    assert done.returncode == 1 and "programs/copy/spec.py: it imports torch" in done.stderr
    (folder / "spec.py").write_text(SPEC)
    (group / "default.yaml").write_text("init_from: ???\n")
    add_stage(project, "copied", "copy", "#0c0b0a")
    done = project.snakemake(run="added", overrides=STAGES.format("copied"))
    assert done.returncode == 0, done.stderr
    assert_reported(project, "copied", "#0c0b0a")


@pytest.mark.parametrize(
    ("stage", "program", "said"),
    [
        ("taught", "sftt", "taught: there is no program 'sftt' in {}/programs; did you mean 'sft'?"),
        ("cold_start", "sft", "two rows are called 'cold_start'; give one another name"),
    ],
)
def test_a_row_that_cannot_be_is_refused_in_a_line_when_the_workflow_is_read(
    stage: str, program: str, said: str, empty_checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = with_package(empty_checkout, monkeypatch)
    package = project.folder / "src/r1flow"
    insert(
        package / "recipe/stages.py", '    StageRow("evaluate", ', f'    StageRow("{stage}", "{program}", "#0a0b0c"),\n'
    )
    done = project.snakemake("--dry-run")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    line = f"r1flow: {package}/recipe/stages.py: {said.format(package)}"
    assert [each for each in done.stderr.splitlines() if each.startswith("r1flow: ")] == [line]
    assert not (project.folder / "results").exists()
