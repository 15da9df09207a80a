"""The gate: data without a report, with another's, or with leaks in it, trains and examines no model."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from test_data import config

from r1flow.artifacts import frozen, manifest
from r1flow.artifacts.fingerprint import compute_module
from r1flow.core.errors import UserError
from r1flow.core.schema import read_jsonl
from r1flow.data import leaks
from r1flow.data.decontaminate import RULE
from r1flow.data.leaks import EVALUATION, REPORT
from r1flow.engine import driver, gate
from r1flow.programs.data import compute as data

LEARNERS = ("pretrain", "sft", "grpo", "rejection", "reward_model", "step_scorer", "evaluate")
LEAK = "Tom has 12 red pens and 30 blue ones, and he gives a third of all his pens to Ann. How many pens are left?"


def make(folder: Path, monkeypatch, *, leak: str | None = None, split: str = "rl", **settings: Any) -> Path:
    """A data folder; with `leak`, one test problem asks LEAK and one of `split` that."""
    wanted = config()
    wanted["decontaminate"] |= settings
    wanted["corpus"]["documents"] = 200
    draw = data.draw_problems

    def planted(*arguments: Any) -> data.Problems:
        problems = draw(*arguments)
        for name, question in (("test", LEAK), (split, leak)):
            if leak:
                rows = problems[name]["chain_sum"]
                problem = rows[0].problem
                rows[0] = type(rows[0])(
                    type(problem)(**{**vars(problem), "question": question}), rows[0].short, rows[0].steps
                )
        return problems

    with monkeypatch.context() as patch:
        patch.setattr(data, "draw_problems", planted)
        data.generate(wanted, 3, folder, lambda *counts: None)
    return folder


@pytest.fixture(scope="module")
def clean(tmp_path_factory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        return make(tmp_path_factory.mktemp("clean") / "data", patch)


@pytest.fixture
def folder(clean, tmp_path) -> Path:
    return shutil.copytree(clean, tmp_path / "data")


def report(folder: Path) -> dict[str, Any]:
    return json.loads((folder / REPORT).read_text())


def edit(folder: Path, **values: Any) -> None:
    (folder / REPORT).write_text(json.dumps(report(folder) | values))


def ids(folder: Path, name: str) -> set[str]:
    return {row["id"] for row in read_jsonl(folder / f"{name}.jsonl")}


# What the data stage writes


def test_every_training_file_is_compared_with_every_evaluation_set_and_hashed(clean):
    found = report(clean)
    files = {path.name for path in clean.glob("*.jsonl")}
    assert set(found["evaluation"]) == set(EVALUATION) and set(found["training"]) == files - set(EVALUATION)
    for name, entry in (found["training"] | found["evaluation"]).items():
        assert entry["sha256"] == manifest.sha256(clean / name)
    assert all(set(entry["hits"]) == set(EVALUATION) for entry in found["training"].values())


def test_problems_of_one_pattern_are_reported_and_are_no_leak(clean):
    found = report(clean)["training"]["rl.jsonl"]
    masked = found["hits"]["test.jsonl"]["masked"]
    assert masked["rows"] > 10 and masked["leak"] is False and 0 < len(masked["examples"]) <= leaks.EXAMPLES
    assert found["dropped"] == {} and gate.report_fault(clean) is None


@pytest.mark.parametrize(
    ("split", "leak"),
    [
        ("corpus", LEAK),
        ("cold_start", LEAK.upper()),
        ("rl", f"Solve this! {LEAK}"),
        ("rejection", LEAK.replace("red pens", "red pencils")),
    ],
)
def test_a_leak_is_left_out_and_named(tmp_path, monkeypatch, split, leak):
    made = make(tmp_path / "made", monkeypatch, leak=leak, split=split)
    entry = report(made)["training"][f"{split}.jsonl"]
    (gone,) = entry["dropped"]
    assert "test.jsonl" in entry["dropped"][gone] and gate.report_fault(made) is None
    if split != "corpus":
        assert gone not in ids(made, split)
    assert leak not in "".join((made / f"{split}.jsonl").read_text())


def test_a_leak_takes_no_other_row_with_it(tmp_path, monkeypatch, clean):
    made = make(tmp_path / "made", monkeypatch, leak=LEAK)
    (gone,) = report(made)["training"]["rl.jsonl"]["dropped"]
    assert ids(clean, "rl") - ids(made, "rl") == {gone}
    assert (made / "corpus.jsonl").read_bytes() == (clean / "corpus.jsonl").read_bytes()


def test_a_leak_that_is_kept_is_named_and_refused(tmp_path, monkeypatch):
    made = make(tmp_path / "made", monkeypatch, leak=LEAK, drop=False)
    assert report(made)["training"]["rl.jsonl"]["dropped"] == {}
    said = gate.report_fault(made)
    assert "lists leaks: rl.jsonl gives test.jsonl away (whole, rows: 1)" in said and "decontaminate.drop=true" in said
    assert "\n" not in said


def test_hits_on_a_set_that_is_only_reported_on_are_counted_and_let_through(tmp_path, monkeypatch):
    made = make(tmp_path / "made", monkeypatch, leak=LEAK, reported_only=["test.jsonl"])
    hits = report(made)["training"]["rl.jsonl"]["hits"]["test.jsonl"]
    assert hits["whole"]["rows"] == 1 and gate.report_fault(made) is None


def test_the_same_data_has_the_same_report(tmp_path, monkeypatch, clean):
    assert (make(tmp_path / "again", monkeypatch) / REPORT).read_bytes() == (clean / REPORT).read_bytes()


# What the gate refuses


@pytest.mark.parametrize("program", LEARNERS)
def test_data_without_a_report_is_refused_by_whatever_learns_or_examines(folder, program):
    gate.check_leaks("zero_rl", program, {"data": folder})
    (folder / REPORT).unlink()
    with pytest.raises(UserError, match=r"^zero_rl: .*decontamination.json is missing.*run the data stage again$"):
        gate.check_leaks("zero_rl", program, {"data": folder})


def test_the_data_stage_and_the_report_page_are_not_held_to_it(folder):
    (folder / REPORT).unlink()
    gate.check_leaks("data", "data", {})
    gate.check_leaks("report", "report", {"data": folder})


@pytest.mark.parametrize("name", ["rl.jsonl", "test.jsonl", "corpus.jsonl", "general_test.jsonl"])
def test_a_report_of_other_files_is_refused(folder, name):
    with (folder / name).open("a") as file:
        file.write("{}\n")
    assert f"was made for another version of {name}" in gate.report_fault(folder)


def test_a_file_that_the_report_does_not_know_is_refused(folder):
    shutil.copyfile(folder / "test.jsonl", folder / "more.jsonl")
    assert "doesn't mention more.jsonl" in gate.report_fault(folder)


def test_a_report_that_compares_nothing_is_refused(folder):
    full = report(folder)
    edit(folder, evaluation={})
    assert "compares with no evaluation set" in gate.report_fault(folder)
    hits = {name: {**entry, "hits": {}} for name, entry in full["training"].items()}
    edit(folder, evaluation=full["evaluation"], training=hits)
    assert "doesn't compare cold_start.jsonl with dev.jsonl" in gate.report_fault(folder)


def test_a_report_by_another_rule_is_refused(folder):
    edit(folder, rule=RULE - 1)
    assert f"was made by version {RULE - 1} of the rule, and the current one is {RULE}" in gate.report_fault(folder)


HOSTILE = ["", "null", "[]", "{}", '{"rule": 1, "training": 3, "evaluation": 4}', "\0", "[" * 100_000]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_report_that_cannot_be_read_is_refused(folder, text):
    (folder / REPORT).write_text(text)
    assert "can't be read; run the data stage again" in gate.report_fault(folder)


def test_a_mix_made_by_a_stage_that_was_held_to_it_needs_no_report(tmp_path):
    (tmp_path / "mix.jsonl").write_text("{}\n")
    with pytest.raises(UserError, match="is missing"):
        gate.check_leaks("distill", "sft", {"data": tmp_path})
    manifest.write_json(tmp_path / "manifest.json", {"stage": "rejection", "files": {}})
    gate.check_leaks("distill", "sft", {"data": tmp_path})
    with pytest.raises(UserError, match="is missing"):
        gate.check_leaks("cold_start", "sft", {"data": tmp_path})


def test_a_stage_is_refused_in_one_line_before_its_program_is_imported(folder, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(driver.signal, "signal", lambda *_: None)
    monkeypatch.setattr(driver, "redirect_output", lambda log: sys.stderr)
    for program in LEARNERS:  # an import of None fails
        monkeypatch.setitem(sys.modules, compute_module(program), None)
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(variable, "1")
    (folder / REPORT).unlink()
    manifest.write_json(folder / "manifest.json", manifest.manifest_of_files("data", folder))
    values = {"seed": 1, "threads": 1, "device": "cpu", "init_from": "model", "template": ""}
    slice_file = frozen.freeze("base", values, Path(".config"))
    words = ["--config", str(slice_file), "--out", "results/r/base/manifest.json"]
    with pytest.raises(SystemExit) as leaving:
        driver.main(["pretrain", "base", "--run", "r", *words, "--input", f"data={folder}/manifest.json"])
    said = capfd.readouterr().err
    assert leaving.value.code == 1 and not Path("results").exists() and not Path("scratch").exists()
    assert len([line for line in said.splitlines() if f"{REPORT} is missing" in line]) == 1 and "Traceback" not in said
