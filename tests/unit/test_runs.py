"""`r1flow runs` and `r1flow show`: which runs there are, and what a model wrote."""

import os
import shutil
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from documented import as_documented
from test_trace import CONFIG, make_run

from r1flow.api.listing import ListedRun, list_runs
from r1flow.api.stored import open_run
from r1flow.artifacts.frozen import freeze
from r1flow.artifacts.locks import hold
from r1flow.commands import show
from r1flow.commands.cli import main
from r1flow.commands.diff import read_run
from r1flow.commands.runs import SORTED_BY, runs_in_order
from r1flow.engine.run import Run

ROOT = Path(__file__).parents[2]
STAGES = ["data", "base", "zero_rl", "cold_start", "reasoning_rl", "evaluate", "report"]


def frozen_plan(project: Path, run: str, experiment: str, overrides: str, **changes: dict) -> Path:
    """A plan of the run as the workflow freezes it: `changes` are other configurations of stages."""
    slices = {stage: CONFIG | {"note": stage} | changes.get(stage, {}) for stage in STAGES}
    config = slices | {"run": run, "experiment": experiment, "stages": STAGES}
    return freeze(
        "run", {"config": config, "sources": "", "data_is_pinned": False, "overrides": overrides}, project / ".config"
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Three runs: one whole, one without a report, and one whose configuration nobody has any more."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "Snakefile").touch()
    for age, name in ((300, "restored"), (200, "plain"), (100, "part")):
        run = make_run(folder / "results" / name, zero_rl={"seed": 1})
        for path in run.rglob("manifest.json"):
            os.utime(path, (time.time() - age,) * 2)
    shutil.rmtree(folder / "results/part/report")
    for name in ("plain", "part"):
        config = {f"evaluate/{model}": {"note": f"evaluate/{model}"} for model in ("base", "zero_rl")}
        frozen_plan(folder, name, f"r1_{name}", "zero_rl.trainer.beta=0.01", **config)
    (folder / "results/notes").mkdir()
    return folder


@pytest.fixture
def project(made, monkeypatch) -> Path:
    monkeypatch.chdir(made)
    return made


def printed(capsys, *words: str) -> str:
    assert main(list(words)) == 0
    return capsys.readouterr().out


# -- runs --------------------------------------------------------------------------------------------------------


def test_runs_are_listed_with_where_they_come_from_the_newest_first(project, capsys):
    lines = printed(capsys, "runs").splitlines()
    assert [line.split()[0] for line in lines] == ["run", "part", "plain", "restored"]
    assert lines[1].split()[1:6] == ["r1_part", "1", "9", "of", "10"] and "zero_rl.trainer.beta=0.01" in lines[1]
    assert lines[2].split()[1:4] == ["r1_plain", "1", "finished"] and "reasoning_rl" in lines[2]
    assert lines[3].split()[1:4] == ["–", "1", "finished"] and lines[3].endswith("–")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("zero_rl/provenance.json", None), ("zero_rl/provenance.json", "{"), ("zero_rl/provenance.json", "[]"),
        ("evaluate/*/metrics.json", None), ("evaluate/*/metrics.json", "{}"), ("evaluate/*/metrics.json", "[]"),
    ],
)  # fmt: skip
def test_a_damaged_run_is_named_and_the_others_are_listed(made, tmp_path, monkeypatch, capsys, file, content):
    shutil.copytree(made, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    for path in Path("results/part").glob(file):
        path.unlink()
        if content is not None:
            path.write_text(content)
    assert main(["runs"]) == 0
    out, err = capsys.readouterr()
    assert "plain" in out and "restored" in out and "part" not in out
    assert err.startswith("r1flow: not listed: results/part") and len(err.splitlines()) == 1
    assert main(["runs", "--json"]) == 0
    with pytest.warns(UserWarning, match="results/part"):
        assert sorted(each.run for each in list_runs()) == ["plain", "restored"]


def test_the_json_is_as_documented(project, capsys):
    found = as_documented("runs", printed(capsys, "runs", "--json"))["runs"]
    assert [row["state"] for row in found] == ["unfinished", "finished", "finished"]
    assert [row["jobs"] for row in found] == [10, 10, None] and found[0]["done"] == 9


def test_a_filter_looks_at_names_and_overrides_and_a_sort_at_one_column(project, capsys):
    names = [line.split()[0] for line in printed(capsys, "runs", "--filter", "BETA=", "--sort", "run").splitlines()]
    assert names == ["run", "part", "plain"]
    assert "plain" not in printed(capsys, "runs", "--filter", "beta", "--filter", "unfinished")
    assert printed(capsys, "runs", "--filter", "kl") == "no run in results/ has this\n"


@pytest.mark.parametrize("key", SORTED_BY)
def test_runs_are_in_order_of_any_column_and_what_is_unknown_comes_last(key):
    def run(value):
        facts = dict.fromkeys(ListedRun.__dataclass_fields__) | {key: value}
        return ListedRun(**facts)

    values = [getattr(each, key) for each in runs_in_order([run(None), run(2), run(3), run(1)], key)]
    assert values == ([3, 2, 1, None] if key in ("changed", "pass_at_1") else [1, 2, 3, None])


def test_results_on_another_disk_are_those_of_the_project_that_the_link_is_in(made, tmp_path, monkeypatch):
    project = tmp_path / "project"
    shutil.copytree(made, project)
    (project / "results").rename(tmp_path / "disk")
    (project / "results").symlink_to(tmp_path / "disk")
    (project / "results/part/data").rename(project / "data")  # which is pinned
    monkeypatch.chdir(made)
    there = {each.run: each for each in list_runs()}
    monkeypatch.chdir(project)
    assert {each.run: each for each in list_runs()} == there
    assert open_run("results/part").stages == open_run(made / "results/part").stages
    assert read_run(Path("results/part")).keys() == read_run(made / "results/part").keys()


def test_a_plan_that_was_only_tried_is_not_taken_for_the_runs(project, monkeypatch):
    tried = frozen_plan(project, "plain", "r1_plain", "base.seed=9", base={"seed": 9})
    try:
        [listed] = [each for each in list_runs() if each.run == "plain"]
        assert listed.overrides == "zero_rl.trainer.beta=0.01"
    finally:
        tried.unlink()


@pytest.mark.parametrize("lock", ["report/lock", "live.lock"])  # a stage's, which outlives its run, and the run's
def test_who_holds_a_lock_makes_a_run_live(project, lock):
    lock = hold(project / "scratch/part" / lock)
    try:
        assert [each.state for each in list_runs()] == ["running", "finished", "finished"]
    finally:
        lock.close()
        shutil.rmtree(project / "scratch")


def test_a_run_freezes_the_overrides_it_was_called_with(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    monkeypatch.chdir(tmp_path)
    run = Run.compose(Path(), "r1_micro", "seed=4", "tried")
    monkeypatch.setattr(Run, "sources", "", raising=False)
    path = run.freeze()
    assert "overrides: seed=4" in Path(path).read_text() and Run.thaw(path).name == "tried"


def test_without_a_run_it_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["runs"]) == 2 and "is not in a project" in capsys.readouterr().err
    (tmp_path / "Snakefile").touch()
    assert printed(capsys, "runs") == "no run in results/\n"


# -- show --------------------------------------------------------------------------------------------------------


def test_completions_are_shown_with_prompt_reasoning_answers_and_verdict(project, capsys):
    lines = printed(capsys, "show", "plain", "zero_rl", "--wrong", "--task", "products", "-n", "1").splitlines()
    assert lines[0].startswith("zero_rl, ") and lines[0].endswith(" samples are wrong; the first 1")
    assert lines[2].startswith("products prod") and ", sample 0: What is " in lines[2]
    assert lines[3].startswith("    we start with ") and lines[4].startswith("the result is ")
    assert lines[5].startswith("→ wrong: answer ") and lines[6].startswith("right answer: ")


def test_the_json_has_whole_rows_and_counts_what_was_found(project, capsys):
    found = as_documented("show", printed(capsys, "show", "plain", "zero_rl", "--right", "-n", "0", "--json"))
    assert len(found["samples"]) == found["found"] and {row["correct"] for row in found["samples"]} == {True}
    everything = as_documented("show", printed(capsys, "show", "plain", "zero_rl", "--json"))
    assert len(everything["samples"]) == 5 and everything["found"] > found["found"]


def test_general_prompts_have_no_right_answer(project, capsys):
    shown = printed(capsys, "show", "plain", "zero_rl", "--task", "general", "-n", "0")
    assert "right answer: " not in shown and "→ wrong: 8 tokens\n" in shown


def test_a_sample_that_was_not_graded_is_neither_right_nor_wrong(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = make_run(tmp_path / "results/plain") / "evaluate/base/samples.parquet"
    rows = [row | {"correct": None, "finished": False} for row in parquet.read_table(path).to_pylist()]
    parquet.write_table(pa.Table.from_pylist(rows[:2], schema=parquet.read_schema(path)), path)
    assert printed(capsys, "show", "plain", "base", "--wrong").startswith("base, 0 samples are wrong")
    assert printed(capsys, "show", "plain", "base").count("→ not graded: ") == 2
    assert printed(capsys, "show", "plain", "base").count(" tokens, truncated") == 2


def test_on_a_terminal_the_pager_shows_it_without_control_codes(project, monkeypatch, capsys):
    paged = []
    monkeypatch.setattr(show.pydoc, "pager", paged.append)
    monkeypatch.setattr(show, "stored_sample_told", lambda row: ["\x1b[2Jgone"])
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["show", "plain", "zero_rl"]) == 0
    assert len(paged) == 1 and "gone" in paged[0] and "\x1b" not in paged[0] and not capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere", "zero_rl"], "nowhere: there is no such run; in results/: notes, part, plain, restored"),
        (["plain", "zero"], "results/plain: no samples of 'zero'; did you mean 'zero_rl'?"),
        (
            ["plain", "zero_rl", "--task", "product"],
            "--task: zero_rl has no samples of 'product'; did you mean 'products'?",
        ),
        (["plain", "zero_rl", "-n", "-2"], "-n: -2 samples can't be shown; use 1 or more, or 0 for all"),
    ],
)
def test_what_cannot_be_shown_is_said_in_a_line(project, capsys, words, said):
    assert main(["show", *words]) == 2
    assert capsys.readouterr().err == f"r1flow: {said}\n"


def test_a_run_none_of_whose_models_is_evaluated_says_so(made, tmp_path, monkeypatch, capsys):
    shutil.copytree(made / "results/plain/base", tmp_path / "results/plain/base")
    monkeypatch.chdir(tmp_path)
    assert main(["show", "plain", "base"]) == 2
    assert "results/plain: none of its models is evaluated yet; finish the run" in capsys.readouterr().err
