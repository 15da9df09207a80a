"""The command line: quick help, one-line refusals, and nothing written, removed or replaced by mistake."""

import argparse
import io
import itertools
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import time
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from documented import EXAMPLES, as_documented
from jinja2 import TemplateError
from safetensors import SafetensorError
from tiny_weights import write_zeros

from r1flow import sampling
from r1flow.api import examination
from r1flow.api.examination import load_sampler
from r1flow.artifacts import manifest
from r1flow.artifacts.locks import hold
from r1flow.commands import chat, clean, export
from r1flow.commands.cli import COMMANDS, command_module, main
from r1flow.core.errors import UserError
from r1flow.engine import checks
from r1flow.engine.checks import check_place, check_slurm
from r1flow.engine.plan import COMPUTE, KEEP, Step
from r1flow.engine.run import Run
from r1flow.programs import cost_estimate
from r1flow.programs.cost_estimate import Cost

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A project with two runs (the second one newer), scratch and data."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Snakefile").touch()
    for age, run in ((200, "old"), (100, "new")):
        make_stage(tmp_path / "results" / run / "align_rl", age)
        (tmp_path / "logs" / run).mkdir(parents=True)
    for name in ("scratch/zero_rl/f", "data/corpus.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * 1_000_000)
    return tmp_path


def make_stage(stage: Path, age_s: float) -> None:
    (stage / "model").mkdir(parents=True)
    for name in ("config.json", "tokenizer.json"):
        (stage / "model" / name).write_text("{}")
    write_zeros(stage / "model/model.safetensors", a=[3])
    (stage / "config.yaml").write_text("trainer: {learning_rate: 0.001}\n")
    provenance = {
        "stage": stage.name,
        "seed": 5,
        "inputs": {"data": {"stage": "data", "sha256": "9f2c"}},
        "libraries": {"torch": "2.13.0"},
        **dict.fromkeys(("program", "config", "code", "python", "identity", "outputs"), "c0de"),
    }
    manifest.write_json(stage / "provenance.json", provenance)
    manifest.write_json(stage / "metrics.json", {"rows": 10, "history": [{"step": 4, "reward": 0.5}]})
    manifest.write_json(stage / "manifest.json", manifest.manifest_of_files(stage.name, stage))
    os.utime(stage / "manifest.json", (time.time() - age_s,) * 2)


def evaluate(folder: Path, model: str, **more: Any) -> None:
    """An evaluation of the model whose manifest has this hash; `more` metrics."""
    make_stage(folder, 0)
    made = manifest.read_json(folder / "provenance.json")
    inputs = made["inputs"] | {"model": {"stage": folder.name, "sha256": model}}
    manifest.write_json(folder / "provenance.json", made | {"inputs": inputs})
    metrics = {"tasks": {"chain_sum": {"pass_at_1": 0.613, "k": 16}}, **more}
    manifest.write_json(folder / "metrics.json", metrics)
    manifest.write_json(folder / "manifest.json", manifest.manifest_of_files(f"evaluate/{folder.name}", folder))


def answer(monkeypatch, reply: str | None) -> None:
    """Somebody at a terminal who answers so; nobody for None."""
    monkeypatch.setattr(sys.stdin, "isatty", lambda: reply is not None, raising=False)
    monkeypatch.setattr("builtins.input", lambda prompt: reply)


def left(project: Path) -> set[str]:
    folders = [*project.glob("*"), *project.glob("results/*"), *project.glob("logs/*")]
    return {str(path.relative_to(project)) for path in folders} - {"Snakefile", "results", "logs"}


# -- in all ------------------------------------------------------------------------------------------------------


def test_help_teaches_and_imports_nothing_heavy():
    code = """
import sys
from r1flow.commands.cli import main
try:
    main(["--help"])
finally:
    assert not {"torch", "mlflow", "transformers", "snakemake", "hydra", "numpy", "yaml"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(word in done.stdout for word in ("make run", "chat", "export", "clean", "pin", "overrides"))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_and_loads_no_library_for_it(command):
    code = f"""
import sys
from r1flow.commands.cli import main
try:
    main(["{command}", "--help"])
finally:
    assert not {{"torch", "mlflow", "transformers", "snakemake", "hydra"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert not done.stderr and done.stdout.startswith(f"usage: r1flow {command} ") and done.stdout.count("\n\n") >= 2


REFUSED = {
    "chat without a model": ["chat", "results/old/zero_rl/model"],
    "chat with a folder that is no model": ["chat", "data"],
    "chat with a negative temperature": ["chat", "results/old/align_rl/model", "--temperature=-1"],
    "chat with top-p 0": ["chat", "results/old/align_rl/model", "--top-p=0"],
    "chat without room for a reply": ["chat", "results/old/align_rl/model", "--max-new-tokens=0"],
    "export without a model": ["export", "nowhere", "there"],
    "export onto itself": ["export", "results/old/align_rl/model", "results/old", "--force"],
    "export into the model": ["export", "results/old/align_rl/model", "results/old/align_rl/model/sub"],
    "export beside the model": ["export", "results/old/align_rl/model", "results/old/align_rl/mine"],
    "export over data": ["export", "results/old/align_rl/model", "data", "--force"],
    "clean an unknown run": ["clean", "--run", "odl", "--yes"],
    "clean outside": ["clean", "--run", "../data", "--yes"],
    "clean to less than nothing": ["clean", "--store-gb", "-1", "--yes"],
    "clean with nobody to ask": ["clean"],
}


@pytest.mark.parametrize("arguments", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_done_is_one_line_exit_2_and_changes_nothing(project, capsys, monkeypatch, arguments):
    answer(monkeypatch, None)
    before = sorted(project.rglob("*"))
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("r1flow: ") and error.count("\n") == 1
    assert sorted(path for path in project.rglob("*") if path.name != "live.lock") == before


@pytest.mark.parametrize("words", [["compare", "a", "b"], ["grade", "a"], ["export", "a", "b"], ["verify", "a"]])
def test_a_text_in_the_place_of_a_name_is_one_line(project, words, capsys):
    assert main([words[0], *(300 * word for word in words[1:])]) == 2
    said = f"{300 * 'a'}: File name too long; mend that, and give the command again"
    assert capsys.readouterr().err == f"r1flow: {said}\n"


def test_clean_works_from_a_folder_below_and_not_outside_a_project(project, monkeypatch, tmp_path_factory, capsys):
    monkeypatch.chdir(project / "results/old")
    assert main(["clean", "--dry-run"]) == 0 and "results/old" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert main(["clean", "--dry-run"]) == 2


def test_pin_works_in_the_projects_folder(project, monkeypatch):
    pinned = []
    monkeypatch.setattr("r1flow.artifacts.versions.pin", lambda source: pinned.append((Path.cwd(), source)))
    monkeypatch.chdir(project / "results")
    main(["pin", "results/old/data"])
    assert pinned == [(project, Path("results/old/data"))]


def test_pin_says_so_outside_a_project_and_copies_nothing(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["pin", "results/old/data"]) == 2 and not list(tmp_path.iterdir())
    assert (
        "is not in a project (no Snakefile here or above); change into the project's folder" in capsys.readouterr().err
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "safe"), [(Terminal, True), (io.StringIO, False)])
def test_no_record_writes_over_the_terminal_and_programs_get_what_was_there(project, monkeypatch, stream, safe):
    step = Step("zero_rl", COMPUTE, ["config: run.note a\x1b[2J → b"])
    costs = [Cost("zero_rl")]
    run = SimpleNamespace(name="tiny", steps=[step], missing=[], notes=[], check_libraries=list, costs=costs)
    monkeypatch.setattr(Run, "compose", lambda *root, **words: run)
    monkeypatch.setattr(sys, "stdout", stream())
    assert main(["plan"]) == 0
    assert "run.note" in sys.stdout.getvalue() and ("\x1b" not in sys.stdout.getvalue()) == safe


def test_a_plan_in_json_has_its_jobs_and_costs(project, monkeypatch, capsys):
    cost = Cost("zero_rl", parameters=5.0, sampling=float("nan"), activations=7.0, cores=1)
    step = Step("zero_rl", COMPUTE, ["config: trainer.beta 0.001 → 0.01"], seconds=3.5)
    kept = Step("base", KEEP)
    run = SimpleNamespace(
        name="tiny",
        steps=[kept, step],
        missing=["vllm isn't installed"],
        notes=["evaluate.paraphrased is 0"],
        check_libraries=lambda: None,
        costs=[cost],
        inputs=lambda job: {"model": "base"},
        root=ROOT,
    )
    monkeypatch.setattr(Run, "compose", lambda *root, **words: run)
    assumed = cost_estimate.read_assumptions(ROOT / cost_estimate.ASSUMPTIONS)
    monkeypatch.setattr(cost_estimate, "read_assumptions", lambda: assumed)
    assert main(["plan", "--cost", "--json", "--gpu", "H200", "--gpus", "2", "experiment=a"]) == 0
    shown = capsys.readouterr()
    found = as_documented("plan", shown.out)
    assert [job["job"] for job in found["jobs"]] == ["zero_rl"] and found["kept"] == 1
    assert found["expected_seconds"] == 3.5
    row = found["costs"][0]
    assert (row["parameters"], row["flops"], row["hours"]) == (5, None, None)
    assert (row["device"], row["devices"], row["memory"], row["host"]) == ("H200", 2, 7, 0)
    assert "evaluate.paraphrased" in shown.err and "vllm isn't installed" in shown.err and shown.err.count("\n") == 2


def test_the_page_of_commands_has_those_that_take_json_and_no_others():
    takes = {name for name in COMMANDS if "--json" in help_of(name)}
    assert takes == set(EXAMPLES)


def help_of(command: str) -> str:
    module = import_module(f"r1flow.commands.{command_module(command)}")
    parser = argparse.ArgumentParser()
    module.arguments(parser)
    return parser.format_help()


def test_a_refusal_in_json_leaves_standard_output_empty(project, capsys):
    assert main(["verify", "nowhere", "--json"]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("r1flow: nowhere") and shown.err.count("\n") == 1


def test_a_shell_whose_texts_arent_utf8_is_refused_before_anything(project):
    latin = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    words = [sys.executable, "-m", "r1flow.commands.cli", "clean", "--scratch", "--yes"]
    done = subprocess.run(words, env=os.environ | latin, capture_output=True, text=True)
    assert done.returncode == 2 and (project / "scratch/zero_rl/f").exists()
    assert "export PYTHONUTF8=1" in done.stderr and done.stderr.count("\n") == 1


def test_python_told_to_print_in_another_encoding_is_refused_too(project, monkeypatch, capsys):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii:replace")
    assert main(["clean", "--scratch", "--yes"]) == 2 and (project / "scratch/zero_rl/f").exists()
    assert "unset PYTHONIOENCODING" in capsys.readouterr().err
    monkeypatch.setenv("PYTHONIOENCODING", "utf8")
    assert main(["clean", "--scratch", "--yes"]) == 0


def test_jobs_are_told_that_texts_are_utf8(monkeypatch):
    monkeypatch.setattr(os, "environ", {"PATH": ""})
    run = Run({"stages": []})
    run.sources = "copy"
    run.equip_jobs()
    assert os.environ["PYTHONUTF8"] == "1"


@pytest.mark.parametrize("char", "?'{}:")
def test_a_project_below_a_folder_that_others_cannot_read_is_refused(tmp_path, monkeypatch, char):
    folder = tmp_path / f"a{char}b"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(UserError, match=re.escape(f"a{char}b: there is a {char} in it, and ")):
        check_place()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
    with nullcontext() if char in "?'" else pytest.raises(UserError):
        check_place()


@pytest.mark.parametrize(
    ("sinfo", "said"),
    [
        (None, "there is no Slurm here"),
        ("echo first >&2; echo unable to contact >&2; exit 1", r"be reached \(unable to contact\)"),
        ("exit 3", r"be reached \(exit code 3\)"),
        ("exec /bin/sleep 60", "hasn't answered `sinfo` within 1 s"),
        ("echo main", None),
    ],
)
def test_a_slurm_that_does_not_answer_is_one_line(tmp_path, monkeypatch, sinfo, said):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(checks, "SLURM_S", 1)
    if sinfo:
        (tmp_path / "sinfo").write_text(f"#!/bin/sh\n{sinfo}\n")
        (tmp_path / "sinfo").chmod(0o755)
    with pytest.raises(UserError, match=f"{said}.*; run this where") if said else nullcontext():
        check_slurm()


def test_what_is_said_to_make_reaches_r1flow_run_as_it_is(tmp_path):
    said = """a.b='c "d" `touch ran`'; touch ran"""
    lines = subprocess.run(
        ["make", "--no-print-directory", "-n", "run", f"overrides={said}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    shell = f"r1flow() {{ printf '%s\\n' \"$@\"; }}; {lines[-1]}"
    words = subprocess.run(["sh", "-c", shell], cwd=tmp_path, capture_output=True, text=True).stdout.splitlines()
    assert f"overrides={said}" in words and "experiment=r1_tiny" in words and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("--set-scatter rejection=x", "--set-scatter rejection=x: use 1 (one job samples all) or more"),
        ("--set-scatter rejection", "--set-scatter rejection=: use 1"),
        (
            "--cores all --set-scatter evaluate=2 rejction=2 -n",
            "rejction isn't a stage that samples; did you mean 'rejection'",
        ),
        ("--set-resources zer_rl:gpu=2", "--set-resources zer_rl: there is no such rule; did you mean 'zero_rl'?"),
    ],
)
def test_a_plan_refuses_parts_and_resources_that_cannot_be(words, named, monkeypatch, capsys):
    """A number of parts that is none ends Snakemake in a traceback, before it has read a file of ours."""
    monkeypatch.chdir(Path(__file__).parents[2])
    assert main(["plan", *words.split()]) == 2
    error = capsys.readouterr().err
    assert error.startswith("r1flow: ") and named in error and error.count("\n") == 1


# -- clean -------------------------------------------------------------------------------------------------------


CLEANED = {
    "all but the newest run": ([], {"data", "results/new", "logs/new"}),
    "one run": (["--run", "new"], {"data", "scratch", "results/old", "logs/old"}),
    "scratch": (["--scratch"], {"data", "results/old", "results/new", "logs/old", "logs/new"}),
    "one run and scratch": (["--scratch", "--run", "old"], {"data", "results/new", "logs/new"}),
}


@pytest.mark.parametrize(("options", "stays"), CLEANED.values(), ids=CLEANED)
def test_clean_removes_what_it_listed_and_nothing_else(project, capsys, options, stays):
    before = left(project)
    assert main(["clean", "--yes", *options]) == 0
    assert left(project) == stays
    listed = capsys.readouterr().out
    assert all(name in listed for name in before - stays)


@pytest.mark.parametrize("age_s", [0, 1000])
def test_clean_takes_no_folder_without_a_stage_for_a_run(project, age_s):
    """The report of `r1flow seeds` was the newest one, so all runs went, or it was old, and went with them."""
    seeds = project / "results/r1_tiny-seeds"
    seeds.mkdir()
    (seeds / "report.html").touch()
    os.utime(seeds, (time.time() - age_s,) * 2)
    assert main(["clean", "--yes"]) == 0
    assert sorted(path.name for path in (project / "results").iterdir()) == ["new", "r1_tiny-seeds"]
    assert main(["clean", "--yes", "--run", "r1_tiny-seeds"]) == 0 and not seeds.exists()


def test_clean_asks_and_takes_anything_but_yes_as_no(project, monkeypatch):
    before = left(project)
    for reply in ("", "n", "what?"):
        answer(monkeypatch, reply)
        assert main(["clean"]) == 1 and left(project) == before
    answer(monkeypatch, "y")
    assert main(["clean"]) == 0 and left(project) != before


def test_clean_says_how_many_records_would_be_lost(project, capsys):
    (project / "scratch/tracking/a").mkdir(parents=True)
    for file in ("a/execution.jsonl", "a/zero_rl.jsonl", "b.refused.jsonl"):  # under way; set aside by a delivery
        (project / "scratch/tracking" / file).touch()
    assert main(["clean", "--dry-run"]) == 0 and "records of 2 execution(s)" in capsys.readouterr().out


def test_a_dry_run_lists_sizes_and_removes_nothing(project, capsys):
    before = left(project)
    assert main(["clean", "--dry-run"]) == 0
    assert re.search(r"scratch +1\.0 MB", capsys.readouterr().out) and left(project) == before


def test_clean_in_json_asks_nobody(project, monkeypatch, capsys):
    answer(monkeypatch, "y")
    before = left(project)
    assert main(["clean", "--json"]) == 2 and left(project) == before
    assert "--yes" in capsys.readouterr().err
    for option, removed in (
        ("--dry-run", False),
        ("--yes", True),
        ("--yes", False),
    ):  # at last nothing is left to remove
        assert main(["clean", "--json", option]) == 0
        found = as_documented("clean", capsys.readouterr().out)
        assert found["removed"] == removed and found["bytes"] == sum(each["bytes"] for each in found["targets"])


def test_clean_never_follows_a_link(project, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "thesis").touch()
    (project / "results/linked").symlink_to(elsewhere)
    (project / "scratch/linked").symlink_to(elsewhere)
    (project / "results/old/linked").symlink_to(elsewhere)
    assert main(["clean", "--yes"]) == 0
    assert (elsewhere / "thesis").exists() and "linked" not in clean.all_runs(project)


def test_results_and_a_store_on_another_disk_are_cleaned(project, tmp_path_factory, capsys):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (project / ".memo/base/2b").mkdir(parents=True, exist_ok=True)
    (project / ".memo/base/2b/manifest.json").write_text("{}")
    for name in ("results", ".memo"):
        shutil.move(project / name, elsewhere / name)
        (project / name).symlink_to(elsewhere / name)
    assert clean.all_runs(project) == ["new", "old"]
    assert main(["clean", "--yes", "--run", "old"]) == 0 and not (elsewhere / "results/old").exists()
    assert main(["clean", "--yes", "--store-gb", "0"]) == 0 and not (elsewhere / ".memo/base/2b").exists()
    assert (elsewhere / "results/new").exists() and (project / ".memo").is_symlink()


def test_a_scratch_that_is_a_link_stays(project, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (project / "scratch").rename(elsewhere / "scratch")
    (project / "scratch").symlink_to(elsewhere / "scratch")
    assert main(["clean", "--yes", "--scratch"]) == 0 and (elsewhere / "scratch/zero_rl/f").exists()


def test_clean_refuses_while_a_stage_outlives_its_run(project, capsys):
    from r1flow.artifacts.locks import hold

    lock = hold(project / "scratch/odd/zero_rl/lock")
    assert main(["clean", "--yes"]) == 2 and "scratch/odd/zero_rl is being computed" in capsys.readouterr().err
    lock.close()


def test_clean_refuses_while_a_run_is_live(project):
    lock = hold(project / "scratch/live.lock")
    before = left(project)
    assert main(["clean", "--yes"]) == 2 and left(project) == before
    lock.close()
    assert main(["clean", "--yes"]) == 0


# -- export ------------------------------------------------------------------------------------------------------


def test_an_export_is_the_model_and_a_card_made_from_its_stage(project):
    evaluate(project / "results/new/evaluate/align_rl", manifest.sha256(project / "results/new/align_rl/manifest.json"))
    assert main(["export", "results/new/align_rl/model", "mine"]) == 0
    names = {path.name for path in (project / "mine").iterdir()}
    assert names == {"config.json", "model.safetensors", "tokenizer.json", "README.md"}
    card = (project / "mine/README.md").read_text()
    for part in (
        "align_rl of the run new",
        "| chain_sum | 0.613 | 16 |",
        "learning_rate: 0.001",
        "9f2c",
        "torch: 2.13",
    ):
        assert part in card
    assert not list(project.glob(".*partial*"))


def test_an_export_of_a_linked_run_is_of_the_run_and_told_to_its_project(project, tmp_path_factory, monkeypatch):
    disk, told = tmp_path_factory.mktemp("disk") / "abc", []
    (project / "results/new").rename(disk)
    (project / "results/new").symlink_to(disk)
    monkeypatch.setattr("r1flow.tracking.spool.tell_export", lambda root, **exported: told.append(root))
    assert main(["export", "results/new/align_rl/model", "mine"]) == 0
    assert "align_rl of the run new" in (project / "mine/README.md").read_text() and told == [project]


def test_a_model_with_a_weight_that_is_not_finite_is_not_exported(project, capsys):
    model = project / "results/new/align_rl/model"
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + struct.pack("<f", math.nan))
    stage = model.parent
    manifest.write_json(stage / "manifest.json", manifest.manifest_of_files("align_rl", stage))
    provenance = json.loads((stage / "provenance.json").read_text())
    manifest.write_json(stage / "provenance.json", provenance | {"outputs": manifest.sha256(stage / "manifest.json")})
    assert main(["export", "results/new/align_rl/model", "mine"]) == 2
    assert "weights that aren't finite (NaN or infinity): a; nothing was exported" in capsys.readouterr().err
    assert not (project / "mine").exists()


def test_a_model_that_was_not_evaluated_says_so(project):
    stage = project / "results/new/align_rl"
    assert "not evaluated" in export.card(stage, stage)


def test_a_card_shows_how_to_use_what_the_stage_made(project):
    """A reward model, asked as a language model, writes nonsense and no warning."""
    stage = (project / "results/new/align_rl").rename(project / "results/new/process_reward")
    card = export.card(stage, stage)
    assert "AutoModelForSequenceClassification" in card and "CausalLM" not in card
    assert "pipeline_tag: text-classification\n" in card and "<think>" not in card
    card = export.card(stage.rename(stage.with_name("zero_rl")), stage.with_name("zero_rl"))
    assert "AutoModelForCausalLM" in card and "pipeline_tag: text-generation\n" in card and "<think>" in card


def test_a_card_says_that_its_results_were_made_with_tools_and_has_those_without(project):
    stage, evaluation = project / "results/new/align_rl", project / "results/new/evaluate/align_rl"
    model, without = manifest.sha256(stage / "manifest.json"), {"no_tools": {"sums": {"pass_at_1": 0.125, "k": 16}}}
    cards = []
    for more in ({}, {"tools": {}}, {"tools": {}, "interventions": without}):
        evaluate(evaluation, model, **more)
        cards.append(export.card(stage, stage))
        shutil.rmtree(evaluation)
    assert ["could call tools" in card for card in cards] == [False, True, True]
    assert ["| sums | 0.125 | 16 |" in card for card in cards] == [False, False, True]
    assert all("| chain_sum | 0.613 | 16 |" in card for card in cards)


def test_a_card_names_the_models_behind_servers_that_it_was_trained_by(project):
    """Whoever exports a student of a stronger model has to know its terms."""
    taught, stage = project / "results/new/cold_start_stronger", project / "results/new/align_rl"
    assert "behind servers" not in export.card(stage, stage)
    make_stage(taught, 0)
    (taught / "config.yaml").write_text("engine: openai\nengine_options: {model: big-teacher, url: http://h/v1}\n")
    (stage / "config.yaml").write_text("rewards: {judge: {args: {model: big-judge}}}\n")
    made = manifest.read_json(stage / "provenance.json")
    made["inputs"]["data"] = {"stage": taught.name, "sha256": manifest.sha256(taught / "manifest.json")}
    manifest.write_json(stage / "provenance.json", made)
    assert "their terms may reach it: `big-judge`, `big-teacher`.\n" in export.card(stage, stage)
    made["inputs"]["data"]["sha256"] = "0ther"
    manifest.write_json(stage / "provenance.json", made)
    assert "their terms may reach it: `big-judge`.\n" in export.card(stage, stage), "it learnt from others then"


def test_numbers_that_are_not_an_evaluations_of_this_very_model_are_on_no_card(project, capsys):
    evaluation = project / "results/new/evaluate/align_rl"
    evaluate(evaluation, "0ther")
    assert main(["export", "results/new/align_rl", "mine"]) == 2
    assert "evaluated an earlier state of this model" in capsys.readouterr().err
    made = manifest.read_json(evaluation / "provenance.json")
    del made["inputs"]["model"]
    manifest.write_json(evaluation / "provenance.json", made)
    assert main(["export", "results/new/align_rl", "mine"]) == 2
    assert "provenance.json names no model that was evaluated" in capsys.readouterr().err
    manifest.write_json(evaluation / "metrics.json", {"tasks": {"chain_sum": {"pass_at_1": 1.0, "k": 16}}})
    assert main(["export", "results/new/align_rl", "mine"]) == 2
    assert "metrics.json" in capsys.readouterr().err and not (project / "mine").exists()


def test_the_licence_of_the_pretrained_model_goes_with_what_was_trained_from_it(project):
    base, model = project / "results/new/base", project / "results/new/align_rl"
    make_stage(base, 0)
    (base / "model/LICENSE").write_text("Apache License")
    (base / "model/.snakemake_timestamp").touch()
    source = {"package": "some-model==1.0", "files": {}, "license": "Apache-2.0"}
    manifest.write_json(base / "metrics.json", {"source": source, "history": []})
    manifest.write_json(base / "manifest.json", manifest.manifest_of_files("base", base))
    made = manifest.read_json(model / "provenance.json")
    made["inputs"]["model"] = {"stage": "base", "sha256": manifest.sha256(base / "manifest.json")}
    manifest.write_json(model / "provenance.json", made)
    for number, stage in enumerate((base, model)):
        assert main(["export", str(stage / "model"), f"mine{number}"]) == 0
        assert (project / f"mine{number}/LICENSE").read_text() == "Apache License"
        card = (project / f"mine{number}/README.md").read_text()
        assert "from some-model==1.0, under the licence Apache-2.0; its text is in LICENSE." in card
        assert "\nlicense: apache-2.0\n---" in card
        assert not list((project / f"mine{number}").glob(".*"))
    manifest.write_json(base / "metrics.json", {"source": source | {"license": "MIT\n---"}, "history": []})
    manifest.write_json(base / "manifest.json", manifest.manifest_of_files("base", base))
    assert main(["export", str(model), "mine2"]) == 0, "made from another base, of which nothing is known here"
    assert "licence" not in (project / "mine2/README.md").read_text() and not (project / "mine2/LICENSE").exists()
    assert main(["export", str(base / "model"), "mine3"]) == 0
    assert "\nlicense: other\n---" in (project / "mine3/README.md").read_text()


def test_an_exported_model_can_be_read_by_others_also_where_the_run_s_cannot(project):
    (project / "results/new/align_rl/model/model.safetensors").chmod(0o600)
    assert main(["export", "results/new/align_rl", "mine"]) == 0
    assert len({path.stat().st_mode for path in (project / "mine").iterdir()}) == 1


def test_export_replaces_an_older_export_only_when_told(project):
    assert main(["export", "results/old/align_rl", "mine"]) == 0
    assert main(["export", "results/new/align_rl", "mine"]) == 2
    assert "the run old" in (project / "mine/README.md").read_text()
    assert main(["export", "results/new/align_rl", "mine", "--force"]) == 0
    assert "the run new" in (project / "mine/README.md").read_text()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("fails", [1, 2])
def test_an_export_that_fails_loses_neither_model(project, monkeypatch, fails, error):
    """The old one was removed before the new one was in place."""
    assert main(["export", "results/old/align_rl", "mine"]) == 0
    rename, calls = Path.rename, itertools.count(1)

    def failing(self: Path, target: Path) -> Path:
        if next(calls) == fails:
            raise error
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    assert main(["export", "results/new/align_rl", "mine", "--force"]) in (2, 130)
    assert "the run old" in (project / "mine/README.md").read_text() and not list(project.glob(".mine*"))


@pytest.mark.parametrize("deeds", [0, 1, 2, 3])
def test_an_export_that_is_killed_leaves_one_model_whole(tmp_path, deeds):
    """After so many renames and removals; the test after it is that nothing is left when it isn't killed."""
    for name in ("new", "old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(name)
    program = f"""
import os, shutil, sys
from pathlib import Path
from r1flow.commands import export
left = {deeds}
def counted(deed):
    def done(*given, **named):
        global left
        if left == 0: os._exit(9)
        left -= 1
        return deed(*given, **named)
    return done
Path.rename, shutil.rmtree = counted(Path.rename), counted(shutil.rmtree)
export.put_in_place(Path("new"), Path("old"))
"""
    ended = subprocess.run([sys.executable, "-c", program], cwd=tmp_path)
    assert ended.returncode == (9 if deeds < 3 else 0)
    there = {path.name: (path / "config.json").read_text() for path in tmp_path.iterdir()}
    assert there.pop("old", "old" if "old" in there.values() else "") == ("new" if deeds > 1 else "old")
    assert len(there) == (1, 2, 1, 0)[deeds]


@pytest.mark.parametrize("name", ["model/model.safetensors", "provenance.json", "manifest.json"])
def test_a_model_that_is_not_what_its_stage_made_is_not_exported(project, capsys, name):
    (project / "results/new/align_rl" / name).write_text("[7]")
    assert main(["export", "results/new/align_rl", "mine"]) == 2
    assert name in capsys.readouterr().err and not (project / "mine").exists()


def test_what_cannot_be_removed_is_a_line_and_the_rest_goes(project, monkeypatch, capsys):
    rmdir = os.rmdir

    def denied(path: str, **words: int) -> None:
        if str(path).endswith("zero_rl"):
            raise PermissionError(13, "Permission denied", path)
        rmdir(path, **words)

    monkeypatch.setattr(os, "rmdir", denied)
    assert main(["clean", "--yes"]) == 2
    assert re.search(r"could not be removed: .*scratch/zero_rl \(Permission denied\)", capsys.readouterr().err)
    assert not (project / "results/old").exists() and (project / "scratch/zero_rl").exists()


def test_only_a_lock_that_somebody_holds_keeps_things_from_being_removed(project, capsys):
    (project / "scratch/zero_rl/lock").touch()
    lock = hold(project / "scratch/base/lock")
    assert main(["clean", "--scratch", "--yes"]) == 2
    assert "scratch/base is being computed" in capsys.readouterr().err and (project / "scratch/zero_rl").exists()
    lock.close()
    assert main(["clean", "--scratch", "--yes"]) == 0 and not (project / "scratch/zero_rl").exists()


# -- chat --------------------------------------------------------------------------------------------------------


SHOWN = {
    "reasoning apart": ("<think>a\nb</think>it is <answer>5</answer>", "    a\n    b\nit is 5"),
    "a plain reply": ("Hello!", "Hello!"),
    "thinking that never ends": ("<think>hmm", "    hmm"),
    "nothing": ("", "[no reply]"),
    "no reply after thinking": ("<think>a</think>", "    a"),
    "control characters": ("a\x1b[2Jb", "a\N{REPLACEMENT CHARACTER}[2Jb"),
}


@pytest.mark.parametrize(("completion", "text"), SHOWN.values(), ids=SHOWN)
def test_reasoning_is_shown_apart_and_nothing_can_write_over_the_terminal(completion, text):
    assert chat.present_reply(completion, finished=True, dim=False) == text
    assert "\x1b[2J" not in chat.present_reply(completion, finished=True, dim=True)


def test_a_truncated_reply_says_so():
    assert chat.present_reply("<think>a", finished=False, dim=False).endswith(
        "[truncated; --max-new-tokens allows more]"
    )


class Echo:
    """A model that repeats the question, and finds long ones too long."""

    class tokenizer:
        chat_template = "{q}"

        @staticmethod
        def apply_chat_template(messages, **options):
            return messages[0]["content"]

    def sample(self, prompts, params, seeds):
        if len(prompts[0]) > 20:
            raise sampling.UserError("too long")
        return [sampling.Completion([1], f"you said {prompts[0]}", True)]


def test_chat_answers_every_line_and_goes_on_after_one_that_is_too_long(project, monkeypatch, capsys):
    monkeypatch.setattr(chat, "load_chat_sampler", lambda model, engine, batch_size: Echo())
    said = iter(["hello", "", "x" * 30, "bye"])
    answer(monkeypatch, None)
    monkeypatch.setattr("builtins.input", lambda prompt: next_or_end(said))
    assert main(["chat", "results/new/align_rl"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == ["you said hello", "you said bye"] and shown.err == "r1flow: too long\n"
    said = iter(["hello", "x" * 30, "bye"])
    assert main(["chat", "results/new/align_rl", "--json"]) == 0
    shown = capsys.readouterr()
    replies = [as_documented("chat", line) for line in shown.out.splitlines()]
    assert [each["reply"] for each in replies] == ["you said hello", "you said bye"]
    assert shown.err == "r1flow: too long\n"


def test_chat_shows_a_thought_apart_that_the_prompt_opens(project, monkeypatch, capsys):
    class Opened(Echo):
        class tokenizer(Echo.tokenizer):
            @staticmethod
            def apply_chat_template(messages, **options):
                return f"{messages[0]['content']} <think>\n"

        def sample(self, prompts, params, seeds):
            return [sampling.Completion([1], "a bat?</think>a cat", True)]

    monkeypatch.setattr(chat, "load_chat_sampler", lambda model, engine, batch_size: Opened())
    assert main(["chat", "results/new/align_rl", "--prompt", "hi", "--json"]) == 0
    reply = as_documented("chat", capsys.readouterr().out)
    assert (reply["reasoning"], reply["reply"]) == ("a bat?", "a cat")


def next_or_end(said) -> str:
    try:
        return next(said)
    except StopIteration:
        raise EOFError from None


@pytest.mark.parametrize("temperature", ["nan", "inf"])
def test_a_temperature_that_is_no_number_is_refused_before_the_model_is_loaded(
    project, monkeypatch, capsys, temperature
):
    monkeypatch.setattr(chat, "load_chat_sampler", lambda *given, **more: pytest.fail("it was loaded"))
    assert main(["chat", "results/new/align_rl", "--prompt", "hi", "--temperature", temperature]) == 2
    assert f"temperature: {temperature} isn't possible" in capsys.readouterr().err


def test_a_template_that_refuses_a_question_is_a_line(project, monkeypatch, capsys):
    def refuse(messages, **options):
        raise TemplateError("roles \x1b[2J must alternate")

    monkeypatch.setattr(Echo.tokenizer, "apply_chat_template", refuse)
    monkeypatch.setattr(chat, "load_chat_sampler", lambda model, engine, batch_size: Echo())
    assert main(["chat", "results/new/align_rl", "--prompt", "hi"]) == 2
    error = capsys.readouterr().err
    assert "the chat template can't show a question (roles" in error and "\x1b" not in error


def test_a_model_without_a_chat_template_is_a_line_with_the_remedy(project, monkeypatch, capsys):
    monkeypatch.setattr(Echo.tokenizer, "chat_template", None)
    monkeypatch.setattr(examination, "load_sampler", lambda model, engine, batch_size: Echo())
    assert main(["chat", "results/new/align_rl", "--prompt", "hi"]) == 2
    assert "its tokenizer has no chat template; add chat_template.jinja" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "said"),
    [(OSError("no config.json\nsecond line"), "no config.json"), (KeyError(), "KeyError"), (SafetensorError("x"), "x")],
)
def test_what_cannot_be_loaded_is_a_line(monkeypatch, tmp_path, error, said):
    from transformers.utils import logging

    asked, quiet = [], []
    for name in ("disable_progress_bar", "set_verbosity_error"):  # they would hold for all tests after this one
        monkeypatch.setattr(logging, name, lambda name=name: quiet.append(name))

    def load(model, **options):
        asked.append((model.name, options))
        if error:
            raise error
        return "a sampler"

    monkeypatch.setattr(sampling, "load_sampler", load)
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    with pytest.raises(UserError, match=rf"model: can't be loaded as a model: '?{said}'?$"):
        load_sampler(model, "transformers", batch_size=1)
    error = None
    assert load_sampler(model, "transformers", batch_size=1).sampler == "a sampler"
    assert asked == [("model", {"engine": "transformers", "batch_size": 1})] * 2
    assert quiet == ["disable_progress_bar", "set_verbosity_error"] * 2


def test_a_person_is_told_how_it_ends_and_has_a_line_to_type_in(project, monkeypatch, capsys):
    answer(monkeypatch, "")
    prompts, said = [], iter(["hello"])
    monkeypatch.setattr("builtins.input", lambda prompt: prompts.append(prompt) or next_or_end(said))
    assert list(chat.typed_questions(Path("mine"))) == ["hello"] and prompts == ["you> "] * 2
    assert capsys.readouterr().out == "mine: ask one question per line; the model sees no earlier ones. Ctrl-D ends\n\n"


def test_one_prompt_is_answered_and_that_is_all(project, monkeypatch, capsys):
    monkeypatch.setattr(chat, "load_chat_sampler", lambda model, engine, batch_size: Echo())
    assert main(["chat", "results/new/align_rl", "--prompt", "hi"]) == 0
    assert capsys.readouterr().out == "you said hi\n"


def test_metrics_of_the_card_are_json_numbers():
    facts = export.provenance_list({"seed": 1}, json.loads('{"rows": 3, "history": [], "note": "x"}'))
    assert facts == "- seed: 1\n- rows: 3"


@pytest.mark.parametrize(("option", "meant"), [("--costt", "--cost"), ("--al", "--all"), ("--gpuss=2", "--gpus")])
def test_a_mistyped_option_of_plan_is_refused_and_snakemakes_are_not(option, meant):
    from r1flow.commands.planning import check_mistyped

    with pytest.raises(UserError, match=f"there is no option {option.partition('=')[0]}; did you mean {meant}"):
        check_mistyped([option])
    check_mistyped(["--cores", "all", "--jobs=2", "--config", "--configfile", "--forceall", "-n", "--keep-going"])


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(13, "Permission denied", ".config"), ".config: Permission denied"),
        (OSError(30, "Read-only file system", ".config"), ".config: Read-only file system"),
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device"),
        (shutil.Error([("a", "b", "No space left: 'b'"), ("c", "d", "No space left: 'd'")]), "No space left: 'b'"),
    ],
)
def test_a_folder_without_rights_or_room_is_a_line(monkeypatch, capsys, error, said):
    def refuse(*given: object) -> None:
        raise error

    monkeypatch.setattr("r1flow.commands.runs.run", refuse)
    assert main(["runs"]) == 2
    assert capsys.readouterr().err.startswith(
        f"r1flow: {said}; mend that (rights; room on the disk, which `r1flow clean` makes)"
    )
