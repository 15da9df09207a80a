"""Tracking: what stages write, how it reaches MLflow, and that nothing of it can hurt a run."""

import errno
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Any

import pytest
import yaml
from documented import as_documented
from fake_server import FakeServer, Reply
from test_cli import make_stage

from r1flow.artifacts.manifest import sha256
from r1flow.commands import cli
from r1flow.core.errors import UserError
from r1flow.tracking import spool, system_metrics, views
from r1flow.tracking.spool import StageRun

FACTS = {"experiment": "r1_tiny", "seed": "1", "overrides": "zero_rl.trainer.beta=0.01"}
HASH = 64 * "0"
CONFIG = {
    "evaluate/zero_rl": {"split": "test"},
    "seed": 1,
    "zero_rl": {"trainer": {"learning_rate": 1.0e-4, "betas": [0.9, 0.99]}, "note": "x" * 9000},
}


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """An empty project; deliveries are made by the test, not by a process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr(spool, "_warned", set())
    monkeypatch.setattr(spool, "_executions", {})
    monkeypatch.setattr(spool.Execution, "start_delivery", lambda self, root: subprocess.Popen(["true"]))
    return tmp_path


def begin(root: Path) -> Path:
    spool.start_execution("tiny", root, FACTS, CONFIG, headlines={"pass_at_1/zero_rl": None, "pass_at_1/base": 0.2})
    return spool._executions["tiny"].folder


def stage(name: str, inputs: dict[str, str] | None = None, **shown) -> StageRun:
    made_by = {"inputs": inputs or {}, "program": "evaluate" if "/" in name else "grpo"}
    return StageRun("tiny", name, CONFIG.get(name, {}), made_by, **shown)


def publish(name: str, model: bool = True) -> Path:
    """A stage's folder as it is after its end; returns it."""
    out = Path("results/tiny", name)
    (out / "model" if model else out).mkdir(parents=True)
    (out / "manifest.json").write_text(json.dumps({"stage": name}))
    (out / "cost.json").write_text('{"seconds": 1.5, "peak_mb": 800}')
    (out / "config.yaml").write_text("a: 1\n")
    return out


def lines(folder: Path, name: str) -> list[dict]:
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]


# -- the writers -------------------------------------------------------------------------------------------------


def test_importing_tracking_does_not_import_mlflow():
    code = "import sys, r1flow.tracking.spool; assert 'mlflow' not in sys.modules and 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_stage_by_hand_leaves_no_trace(project):
    with stage("zero_rl") as run:
        run.log_metrics(1, {"reward": 0.5})
    assert list(project.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "status"), [(None, "FINISHED"), (ValueError("no rows\nmore"), "FAILED"), (KeyboardInterrupt(), "KILLED")]
)
def test_the_record_ends_with_what_happened_to_the_stage(project, error, status):
    folder = begin(project)
    try:
        with stage("zero_rl"):
            if error:
                raise error
    except (ValueError, KeyboardInterrupt) as caught:
        assert caught is error
    records = lines(folder, "zero_rl")
    assert records[-1]["status"] == status
    assert [record["value"] for record in records if record["kind"] == "tag"] == (
        ["ValueError: no rows"] if status == "FAILED" else []
    )


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"folder": 5}'])
def test_a_pointer_that_a_power_cut_emptied_stops_no_stage(project, text):
    spool.pointer(project, "tiny").parent.mkdir(parents=True)
    spool.pointer(project, "tiny").write_text(text)
    with stage("zero_rl") as run:
        run.log_metrics(1, {"reward": 0.5})


def test_only_numbers_become_metrics():
    import numpy

    values = {"a": 1, "b": numpy.float32(0.5), "c": None, "d": "0.5", "e": [1], "f": True, "g": 10**400}
    assert spool.numbers(values) == {"a": 1.0, "b": 0.5, "f": 1.0}


def test_a_failure_of_tracking_is_said_once_in_each_process_and_stops_nothing(project, capsys):
    (project / "scratch").write_text("a file where a folder should be")
    spool.start_execution("tiny", project, {}, CONFIG)
    [before] = capsys.readouterr().err.splitlines()
    for name in ("base", "zero_rl"):
        with stage(name) as run:
            run.log_metrics(1, {"reward": 0.5})
            run.finish({}, publish(name))
    spool.end_execution("tiny", project, "FINISHED")
    [of_stage] = capsys.readouterr().err.splitlines()
    assert before != of_stage and all(line.endswith("the run itself is not affected") for line in (before, of_stage))


def test_what_json_cannot_hold_is_no_failure(project):
    folder = begin(project)
    with stage("zero_rl") as run:
        run.log_table("samples", [{"path": Path("x"), "value": float("nan")}])
    assert lines(folder, "zero_rl")[1]["rows"][0]["path"] == "x"


def test_half_of_a_surrogate_pair_loses_no_table(project, capsys):
    folder = begin(project)
    with stage("zero_rl") as run:
        run.log_table("samples", [{"completion": "5 \ud800 6"}])
    assert lines(folder, "zero_rl")[1]["rows"] == [{"completion": "5 ? 6"}] and not capsys.readouterr().err


def test_an_empty_name_of_an_experiment_is_none(project, monkeypatch):
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "")
    assert spool.store(project)["experiment"] == "r1flow"


def test_a_record_that_the_disk_has_no_room_for_is_one_line_and_stops_nothing(project, capsys):
    begin(project)
    with stage("zero_rl") as run, open("/dev/full", "w") as full:
        run.log_metrics(1, {"reward": 0.5})
        whole, run.spool.file = run.spool.file, full
        run.log_metrics(2, {"reward": 0.6})
        run.spool.close()
        run.spool.file = whole
    [line] = capsys.readouterr().err.splitlines()
    assert "No space left on device" in line


@pytest.mark.parametrize("is_soon_over", [True, False])
def test_a_delivery_that_looks_whether_a_writer_lives_keeps_no_new_one_from_writing(project, monkeypatch, is_soon_over):
    path = project / "zero_rl.jsonl"
    path.touch()
    with path.open() as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        monkeypatch.setattr(spool.time, "sleep", lambda s: is_soon_over and fcntl.flock(asking, fcntl.LOCK_UN))
        writer = spool.Spool(path)
        writer.append("tag", key="a", value="b")
        fcntl.flock(asking, fcntl.LOCK_UN)
        with suppress(BlockingIOError):
            fcntl.flock(asking, fcntl.LOCK_SH | fcntl.LOCK_NB)
            assert not is_soon_over  # whoever got its lock holds it from then on
    writer.close()
    assert json.loads(path.read_text())["value"] == "b"


# -- the delivery, as a process ----------------------------------------------------------------------------------


def test_a_delivery_that_takes_longer_goes_on_and_it_is_said(project, monkeypatch, capsys):
    endless = subprocess.Popen(["cat"], stdin=subprocess.PIPE)  # ends with its input
    monkeypatch.setattr(spool.Execution, "start_delivery", lambda self, root: endless)
    monkeypatch.setattr(spool, "END_WAIT_S", 0)
    begin(project)
    spool.end_execution("tiny", project, "FINISHED")
    assert "are still being sent to MLflow; `r1flow deliver`" in capsys.readouterr().err and endless.poll() is None
    endless.communicate()


def test_a_delivery_that_failed_is_said_with_the_remedy(project, monkeypatch, capsys):
    monkeypatch.setattr(spool.Execution, "start_delivery", lambda self, root: subprocess.Popen(["false"]))
    begin(project)
    spool.end_execution("tiny", project, "FINISHED")
    [line] = capsys.readouterr().err.splitlines()
    assert "not all records of this run have reached MLflow" in line and "`r1flow deliver` sends the rest" in line


TELL = """
import json, os, pathlib, sys
told = {"words": sys.argv[1:], "uri": os.environ.get("MLFLOW_TRACKING_URI"), "folder": os.getcwd()}
pathlib.Path("told.json").write_text(json.dumps(told))
sys.exit(1)
"""


@pytest.mark.parametrize("to", [None, "https://mlflow.lab"])
def test_the_command_delivers_from_the_project_to_the_address_and_ends_as_the_delivery_does(
    project, monkeypatch, capsys, to
):
    monkeypatch.setattr(spool, "DELIVERY", (sys.executable, "-c", TELL))
    (project / "Snakefile").touch()
    (project / "below").mkdir()
    monkeypatch.chdir(project / "below")
    (project / spool.TRACKING / "tiny-1").mkdir(parents=True)
    (project / spool.TRACKING / "tiny-1/execution.jsonl").touch()
    assert cli.main(["deliver", "--json", *(["--to", to] if to else [])]) == 1
    assert as_documented("deliver", capsys.readouterr().out)["left"] == ["tiny-1"]
    told = json.loads((project / "told.json").read_text())
    assert told == {"words": [spool.REDIRECT] if to else [], "uri": to, "folder": str(project)}


def test_a_folder_of_records_that_cannot_be_written_is_a_line(project, capfd):
    (project / spool.TRACKING / "lock").mkdir(parents=True)  # what root can't write either
    assert spool.deliver(project) == 1
    assert capfd.readouterr().err.startswith("scratch/tracking/lock: Is a directory; mend that, and give the command")


def test_what_is_left_is_delivered_unless_a_live_run_s_delivery_does_that(project, capsys):
    from r1flow.tracking import delivery

    assert delivery.main([str(spool.TRACKING)]) == 0
    with (spool.TRACKING / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert delivery.main([str(spool.TRACKING)]) == 1
    assert "a run is in progress in this folder" in capsys.readouterr().err


LIMITED = """
import resource, runpy, sys
from r1flow.tracking.delivery import MEMORY
assert resource.getrlimit(resource.RLIMIT_DATA)[0] != MEMORY  # no importer of it is limited
sys.argv = ["delivery", "scratch/tracking"]
try:
    runpy.run_module("r1flow.tracking.delivery", run_name="__main__")
except SystemExit as end:
    assert (end.code, resource.getrlimit(resource.RLIMIT_DATA)[0]) == (0, MEMORY)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="macOS has no such limit")
def test_the_process_that_delivers_has_a_limit_of_memory(project):
    subprocess.run([sys.executable, "-W", "ignore", "-c", LIMITED], check=True)


def test_an_execution_that_has_written_nothing_yet_is_left_alone(project):
    from r1flow.tracking import delivery

    folder = spool.TRACKING / "tiny-1"
    folder.mkdir(parents=True)
    writer = spool.Spool(folder / f"{spool.PARENT}.jsonl")
    delivery.Delivery(folder).deliver()
    assert [path.name for path in folder.iterdir()] == [f"{spool.PARENT}.jsonl"]
    writer.close()


def test_a_writer_whose_file_is_gone_is_dead(project):
    from r1flow.tracking import delivery

    assert not delivery.is_being_written(project / "gone.jsonl")


def test_records_that_go_where_they_should_are_not_sent_again(project):
    from r1flow.tracking import delivery

    folder = begin(project)
    delivery.Delivery(folder).redirect()
    assert not (folder / "delivered.json").exists()


# -- the delivery, to a real store -------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def fresh_store(tmp_path_factory) -> Path:
    """An empty SQLite store; making one takes 2 s, copying it none."""
    from r1flow.tracking.mlflow_client import client_of

    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    client_of(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def store(project, fresh_store):
    """The project's store, empty; a function that delivers and returns the runs by name."""
    from r1flow.tracking.delivery import deliver_all
    from r1flow.tracking.mlflow_client import client_of

    (project / "mlflow.db").write_bytes(fresh_store.read_bytes())
    client = client_of(f"sqlite:///{project}/mlflow.db")

    def delivered() -> dict:
        assert deliver_all(spool.TRACKING)
        experiment = client.get_experiment_by_name("r1flow")
        return by_stage(client, client.search_runs(experiment.experiment_id))

    delivered.client = client
    return delivered


def summary(score: float) -> dict[str, Any]:
    return {"pass_at_1": score, "se": 0.01, "mean_length": 42.0, "solved": score, "n_problems": 9}


EVALUATION = {
    "tasks": {"chain_sum": summary(0.7), "reasoning": summary(0.61), "general": summary(0.4)},
    "thinking": [{"temperature": 0.6, "tasks": {"chain_sum": summary(0.8), "reasoning": summary(0.66)}}],
    "paraphrased": {"tasks": {"chain_sum": summary(0.5), "reasoning": summary(0.55)}},
    "counts": {"test.jsonl": {"read": 9, "kept": 7, "left_out": {"leak": 2}}},
}


def by_stage(client: Any, runs: list[Any]) -> dict[str, Any]:
    """The runs by their stage; the parent by its name."""
    return {run.data.tags.get("stage", run.info.run_name): client.get_run(run.info.run_id) for run in runs}


def whole_run() -> None:
    with stage("data") as run:
        run.finish({"rows": 7}, publish("data", model=False))
    data = sha256(Path("results/tiny/data/manifest.json"))
    with stage("zero_rl", {"data": data}) as run:
        for step in range(1, 1203):
            run.log_metrics(step, {"reward": step / 10, "odd@name//x": 0.5})
        run.finish({"rows": 9, "history": []}, publish("zero_rl"))
    with stage("evaluate/zero_rl", {"data": data, "model": sha256(Path("results/tiny/zero_rl/manifest.json"))}) as run:
        run.log_table("samples", [{"question": "8 + 16?", "correct": True}])
        run.finish(EVALUATION, publish("evaluate/zero_rl", model=False))
    with stage("report") as run:
        run.finish({"claims": {"C1": "holds here"}}, publish("report", model=False))


FURTHER = ["files/samples-2.html", "files/samples-10.html"]  # of the viewer of a large run


@dataclass
class Finished:
    """A whole execution in MLflow, brought there by the delivery process."""

    root: Path
    client: Any
    runs: dict[str, Any]


@pytest.fixture(scope="module")
def finished(tmp_path_factory, fresh_store) -> Finished:
    from r1flow.tracking.mlflow_client import client_of

    root = tmp_path_factory.mktemp("finished")
    (root / "mlflow.db").write_bytes(fresh_store.read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.setattr(spool, "END_WAIT_S", 600)  # on a busy machine
        headlines = {"pass_at_1/zero_rl": None, "pass_at_1/base": 0.2, "general/zero_rl": None}
        spool.start_execution(
            "tiny", root, FACTS, CONFIG, overridden={"zero_rl.trainer.beta": "0.01"}, headlines=headlines
        )
        whole_run()
        scores = {"base": {"reasoning": 0.2}, "zero_rl": {"reasoning": 0.61, "general": 0.4}}
        report = Path("results/tiny/report")
        (report / "files").mkdir()
        for page in [*views.PAGES, *FURTHER, "files/length.csv"]:
            (report / page).write_text(page)
        tags = {"verdicts": "1 holds here"}
        spool.end_execution("tiny", root, "FINISHED", "C1 holds here", tags, scores, report)
    client = client_of(f"sqlite:///{root}/mlflow.db")
    found = client.search_runs(client.get_experiment_by_name("r1flow").experiment_id)
    return Finished(root, client, by_stage(client, found))


def test_an_execution_is_a_parent_run_and_its_stages_are_child_runs(finished):
    assert set(finished.runs) == {"tiny", "data", "zero_rl", "evaluate/zero_rl", "report"}
    assert {run.info.status for run in finished.runs.values()} == {"FINISHED"}
    parents = {name: run.data.tags.get("mlflow.parentRunId") for name, run in finished.runs.items()}
    assert parents.pop("tiny") is None and set(parents.values()) == {finished.runs["tiny"].info.run_id}


def test_configuration_becomes_params_and_long_values_are_cut(finished):
    assert finished.runs["zero_rl"].data.params["trainer.learning_rate"] == "0.0001"
    assert finished.runs["zero_rl"].data.params["trainer.betas"] == "[0.9, 0.99]"
    assert len(finished.runs["zero_rl"].data.params["note"]) == 6000


def test_an_execution_has_what_was_asked_of_it_as_params_and_the_rest_as_a_file(finished):
    parent = finished.runs["tiny"]
    assert parent.data.params == FACTS | {"zero_rl.trainer.beta": "0.01"}
    path = finished.client.download_artifacts(parent.info.run_id, "config.yaml")
    assert yaml.safe_load(Path(path).read_text()) == CONFIG


def test_runs_can_be_told_apart_and_found_by_what_was_asked(finished):
    child = finished.runs["zero_rl"]
    assert child.info.run_name == "zero_rl · tiny" and child.data.tags["program"] == "grpo"
    for run in finished.runs.values():
        assert FACTS.items() <= run.data.tags.items() and run.data.tags["mlflow.user"]
    experiment = child.info.experiment_id
    for asked in ("tags.overrides LIKE '%beta%'", "tags.seed = '1'", "tags.run = 'tiny'"):
        assert len(finished.client.search_runs([experiment], f"tags.stage = 'zero_rl' and {asked}")) == 1


def test_the_filters_that_the_documentation_has_are_mlflow_s(finished):
    page = (Path(__file__).parents[2] / "docs/mlflow.md").read_text()
    found = re.findall(r"^(\S.*?)  +(\d+): ", page.partition("## Filters")[2].split("```")[1], re.MULTILINE)
    assert [int(number) for _, number in found] == list(range(1, 13))
    experiment = finished.runs["tiny"].info.experiment_id
    asked = {int(number): words.replace("tags.run = 'r1_tiny'", "tags.run = 'tiny'") for words, number in found}
    hits = {number for number, words in asked.items() if finished.client.search_runs([experiment], words)}
    assert hits == set(asked) - {4, 11, 12}  # nothing failed, nobody is called ann, and no stage took ten minutes


def test_tracking_has_the_counts_of_rows_as_numbers(finished):
    found = {key: value for key, value in finished.runs["evaluate/zero_rl"].data.metrics.items() if "rows" in key}
    assert found == {"rows/test.jsonl": 7, "rows/test.jsonl: leak": 2}


def test_every_step_of_a_curve_arrives(finished):
    history = finished.client.get_metric_history(finished.runs["zero_rl"].info.run_id, "curve/reward")
    assert [(point.step, point.value) for point in history] == [(step, step / 10) for step in range(1, 1203)]
    assert finished.runs["zero_rl"].data.metrics["curve/odd_name/x"] == 0.5
    assert (
        finished.runs["zero_rl"].data.metrics["stage/seconds"] == 1.5
        and finished.runs["zero_rl"].data.metrics["stage/rows"] == 9
    )


def test_data_is_linked_by_a_digest_and_models_by_reference(finished):
    for name, title in (("zero_rl", "data"), ("evaluate/zero_rl", "test")):  # an evaluation reads one split
        [data] = finished.runs[name].inputs.dataset_inputs
        assert data.dataset.name == title and len(data.dataset.digest) == 8
    [model] = finished.client.search_logged_models([finished.runs["zero_rl"].info.experiment_id])
    assert model.name == "tiny-zero_rl" and model.model_type == "grpo" and model.params["seed"] == "1"
    assert model.tags["path"] == "results/tiny/zero_rl/model" and model.tags["mlflow.source.name"] == "r1flow"
    assert model.source_run_id == finished.runs["zero_rl"].info.run_id
    assert [used.model_id for used in finished.runs["evaluate/zero_rl"].inputs.model_inputs] == [model.model_id]


def test_an_evaluation_shows_on_the_model_by_dataset_on_its_stage_and_on_the_execution(finished):
    [model] = finished.client.search_logged_models([finished.runs["zero_rl"].info.experiment_id])
    scores = {(metric.dataset_name, metric.key): metric.value for metric in model.metrics}
    assert scores == {
        ("test", "eval/reasoning/pass_at_1"): 0.61,
        ("test", "eval/thinking_0.6/pass_at_1"): 0.66,
        ("general_test", "eval/general/pass_at_1"): 0.4,
        ("test_paraphrased", "eval/paraphrased/pass_at_1"): 0.55,
    }
    assert {len(metric.dataset_digest) for metric in model.metrics} == {8}
    named = {key for key in finished.runs["zero_rl"].data.metrics if key.startswith("eval/")}
    assert named == {"eval/reasoning/pass_at_1", "eval/general/pass_at_1"}
    evaluated = finished.runs["evaluate/zero_rl"].data.metrics
    assert evaluated["eval/chain_sum/pass_at_1"] == 0.7 and evaluated["eval/reasoning/mean_length"] == 42
    assert "eval/chain_sum/se" not in evaluated and "eval/reasoning/n_problems" not in evaluated
    expected = {"pass_at_1/zero_rl": 0.61, "pass_at_1/base": 0.2, "general/zero_rl": 0.4}
    assert finished.runs["tiny"].data.metrics == expected
    assert finished.runs["tiny"].data.tags["claims.C1"] == "holds here"


def test_an_evaluation_of_a_model_from_elsewhere_shows_on_the_execution(project, store):
    begin(project)
    with stage("evaluate/zero_rl", {"model": HASH}) as run:
        run.finish({"tasks": {"reasoning": summary(0.61)}}, publish("evaluate/zero_rl", model=False))
    assert store()["tiny"].data.metrics == {"pass_at_1/zero_rl": 0.61, "pass_at_1/base": 0.2}


def test_an_execution_has_the_pages_of_its_report_and_links_to_them_and_to_its_stages(finished):
    parent = finished.runs["tiny"]
    files = {file.path for file in finished.client.list_artifacts(parent.info.run_id)}
    assert files == {*views.PAGES, "config.yaml", "files"}
    files = finished.client.list_artifacts(parent.info.run_id, "files")
    assert {file.path for file in files} == set(FURTHER)
    for page in [*views.PAGES, *FURTHER]:
        assert Path(finished.client.download_artifacts(parent.info.run_id, page)).read_text() == page
    here, note = f"(#/experiments/{parent.info.experiment_id}/runs/", parent.data.tags["mlflow.note.content"]
    for name, page in {"report": "report.html", "configuration": "config.yaml"}.items():
        assert f"[{name}]{here}{parent.info.run_id}/artifacts/{page}?" in note.split("\n")[0]
    assert "2 more pages of completions are among the artifacts, in files/" in note.split("\n")[0]
    assert f"[` zero_rl `]{here}{finished.runs['zero_rl'].info.run_id}?" in note and "C1 holds here" in note


def test_a_report_that_was_replaced_before_it_arrived_stays_away(project, store):
    begin(project)
    report = publish("report", model=False)
    (report / "report.html").write_text("ours")
    (report / "making.html").write_text("ours")
    spool.end_execution("tiny", project, "FINISHED", "", {}, {}, report)
    (report / "report.html").write_text("another run's")
    parent = store()["tiny"]
    assert {file.path for file in store.client.list_artifacts(parent.info.run_id)} == {"making.html", "config.yaml"}
    assert "report.html" not in parent.data.tags["mlflow.note.content"]


def test_the_experiment_has_views_that_its_description_links_to(finished):
    experiment = finished.client.get_experiment_by_name("r1flow")
    for key, (name, mode, state) in views.VIEWS.items():
        view = json.loads(experiment.tags[f"mlflow.sharedViewState.{key}"])
        assert view["name"] == name and json.loads(view["state"]) == state and isinstance(view["createdAt"], int)
        link = f"#/experiments/{experiment.experiment_id}/runs?workflowType=machine_learning"
        link += f"&compareRunsMode={mode}&viewStateShareKey={key}"
        assert f"]({link})" in experiment.tags["mlflow.note.content"]
        assert f"http://127.0.0.1:5000/{link}" in "".join(spool.shown_addresses(finished.root))
    assert not spool.shown_addresses(finished.root / "elsewhere")


def test_a_description_that_people_edited_stays_and_a_view_is_made_again(project, store):
    from r1flow.tracking import delivery

    begin(project)
    experiment = store()["tiny"].info.experiment_id
    tag = "mlflow.sharedViewState.r1flow-rl"
    store.client.set_experiment_tag(experiment, "mlflow.note.content", "ours")
    store.client.set_experiment_tag(experiment, tag, "of an earlier version")
    delivery.experiment_of.cache_clear()
    begin(project)
    store()
    found = store.client.get_experiment(experiment).tags
    assert found["mlflow.note.content"] == "ours" and json.loads(found[tag])["name"]


@pytest.fixture
def opened(monkeypatch):
    """`r1flow ui` in a folder; returns the words of the server that it would start, and its store."""
    from r1flow.commands import ui
    from r1flow.commands.cli import main

    def call(folder: Path, *words: str) -> tuple[list[str], str]:
        started = []
        (folder / "Snakefile").touch()
        monkeypatch.chdir(folder)
        monkeypatch.setattr(ui, "serve_until_told", lambda words, settings: started.append((words, settings)))
        assert main(["ui", *words]) == 0
        [(called, settings)] = started
        assert settings["MLFLOW_DISABLE_TELEMETRY"] == "true"
        return called, settings["MLFLOW_BACKEND_STORE_URI"]

    return call


def test_the_addresses_for_the_ui_have_the_experiment_s_own_id(finished, tmp_path, monkeypatch, capsys, opened):
    runs, none = "#/experiments/{}/runs?", "no experiment other"
    for name, has in (("r1flow", runs.format(1)), ("Default", runs.format(0)), ("other", none)):
        monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", name)
        opened(finished.root, "--port", "5123")
        assert has in (told := capsys.readouterr().out) and "http://127.0.0.1:5123" in told
    words, served = opened(tmp_path, "--port", "5123")
    assert served == f"sqlite:///{tmp_path}/mlflow.db"
    assert words[words.index("--host") + 1] == "127.0.0.1" and words[words.index("--port") + 1] == "5123"
    assert "no run" in capsys.readouterr().out and [path.name for path in tmp_path.iterdir()] == ["Snakefile"]
    (tmp_path / "mlflow.db").write_text("no database" * 1000)
    opened(tmp_path, "--port", "5123")
    assert f"{tmp_path}/mlflow.db: no experiment other can be read there" in capsys.readouterr().out


def test_the_ui_serves_the_database_that_the_environment_names_and_shows_its_password_to_nobody(
    finished, tmp_path, monkeypatch, capsys, opened
):
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "")  # as good as none
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{finished.root}/mlflow.db")
    _, served = opened(tmp_path)
    assert served == f"sqlite:///{finished.root}/mlflow.db" and "#/experiments/1/runs?" in capsys.readouterr().out
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://ann:secret@db.lab/mlflow")
    words, served = opened(tmp_path)
    told = capsys.readouterr().out
    assert served == "postgresql://ann:secret@db.lab/mlflow" and "http://127.0.0.1:5000" in told
    assert "secret" not in told + " ".join(words) and "no run" not in told


def test_the_ui_refuses_a_port_that_is_taken_and_names_the_server_that_has_the_runs(tmp_path, monkeypatch, capsys):
    from r1flow.commands.cli import main

    (tmp_path / "Snakefile").touch()
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["ui", "--port", str(port)]) == 2
    assert f"--port {port}: " in capsys.readouterr().err
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://ann:secret@mlflow.lab:5000/x")
    assert main(["ui"]) == 2
    told = capsys.readouterr().err
    assert "MLFLOW_TRACKING_URI: runs are recorded at https://mlflow.lab:5000/x" in told and "secret" not in told


SERVER = """
import subprocess, sys
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
print(worker.pid, flush=True)
worker.wait()
"""


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_ui_leaves_no_process_behind(told):
    """A server that doesn't end its workers, as MLflow's."""
    program = f"import os, sys\nfrom r1flow.commands.ui import serve_until_told\nserver = {SERVER!r}\n"
    program += "serve_until_told([sys.executable, '-c', server], dict(os.environ))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment)
    worker = int(command.stdout.readline())
    command.send_signal(told)
    assert command.wait() == 0
    command.stdout.close()
    while Path(f"/proc/{worker}/cmdline").exists() and Path(f"/proc/{worker}/cmdline").read_bytes():  # not yet a zombie
        sleep(0.01)


def test_a_server_of_the_ui_that_cannot_start_is_one_line():
    from r1flow.commands import ui

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        with pytest.raises(UserError, match="MLflow's server ended with status 3"):
            ui.serve_until_told([sys.executable, "-c", "raise SystemExit(3)"], dict(os.environ))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_store_of_an_earlier_version_gets_the_views_when_it_is_opened(project, store):
    experiment = store.client.create_experiment("old")
    store.client.set_experiment_tag(experiment, "mlflow.note.content", "ours")
    store.client.set_experiment_tag(experiment, "mlflow.sharedViewState.r1flow-rl", "of an earlier version")
    for _ in range(2):
        assert views.renew_views(project / "mlflow.db", "old") == experiment
    found = store.client.get_experiment(experiment).tags
    assert found["mlflow.note.content"] == "ours" and found.keys() >= views.experiment_tags(experiment).keys()
    assert json.loads(found["mlflow.sharedViewState.r1flow-rl"])["name"] == views.VIEWS["r1flow-rl"][0]


def test_an_execution_s_description_says_what_was_asked_and_what_came_out(finished):
    parent = finished.runs["tiny"].data.tags
    assert parent["verdicts"] == "1 holds here"
    for words in ("zero_rl.trainer.beta=0.01", "C1 holds here", "| zero_rl | 61.0% | 40.0% |"):
        assert words in parent["mlflow.note.content"]


def test_a_stage_s_description_has_its_command_and_its_colour_is_the_report_s(project, store):
    begin(project)
    shown = {"about": "RL", "out": "results/tiny/zero_rl", "sources": {"model": "x y/`z`"}, "colour": "#c8102e"}
    with stage("zero_rl", **shown):
        pass
    tags = store()["zero_rl"].data.tags
    assert tags["mlflow.runColor"] == "#c8102e"
    command = "snakemake --cores all results/tiny/zero_rl/manifest.json --config"
    words = ("experiment=r1_tiny", "run=tiny", "overrides=zero_rl.trainer.beta=0.01")
    assert " \\\n  ".join([command, *words]) in tags["mlflow.note.content"]
    assert "RL\n\nFrom model `` x y/`z` ``." in tags["mlflow.note.content"]


@pytest.mark.parametrize(("how", "ticks"), [("raised", "```"), ("refused", "`"), ("killed", "")])
def test_a_failed_stage_s_description_begins_with_the_reason_and_its_log_is_an_artifact(project, store, how, ticks):
    begin(project)
    log = project / "zero_rl.log"
    log.write_text("".join(f"line {number}\n" for number in range(99)) + f"![x](http://x) {ticks} <b>\x1b\u202e\n")
    error = {"raised": ValueError("no rows"), "refused": UserError("no rows"), "killed": KeyboardInterrupt()}[how]
    with suppress(type(error)), stage("zero_rl", about="RL", log=str(log)):
        raise error
    found = store()["zero_rl"]
    note = found.data.tags["mlflow.note.content"]
    assert note.startswith("**KILLED**" if how == "killed" else "**FAILED**") and "\n\nRL" in note
    assert ("no rows" in note) == (how != "killed") and ("Traceback" in note) == (how == "raised")
    assert f"\n{max(3, len(ticks) + 1) * '`'}\n" in note and not set("\x1b\u202e") & set(note)
    assert "line 98" in note and "line 84" not in note
    assert [item.path for item in store.client.list_artifacts(found.info.run_id)] == ["zero_rl.log"]


def test_the_code_in_a_description_ends_however_long_an_error_is(project, store):
    """MLflow takes so many characters; what stands in code whose end is cut off would be Markdown."""
    hostile = f"![x](http://x) {'w' * 1_000_000}"
    begin(project)
    with suppress(ValueError), stage("zero_rl", about="RL", out="results/tiny/zero_rl"):
        raise ValueError(hostile)
    spool.end_execution("tiny", project, "FAILED", f"zero_rl failed: {hostile}")
    for name in ("tiny", "zero_rl"):
        note = store()[name].data.tags["mlflow.note.content"]
        code = re.findall(r"^```\n.*?\n```$", note, re.M | re.S)
        assert "![x]" in "".join(code) and " characters left out) … www" in "".join(code).replace("\n", "")
        outside = re.sub(r"^```\n.*?\n```$", "", note, flags=re.M | re.S)
        assert "![x]" not in outside and "www" not in outside and "overrides" in note  # which comes last


def test_no_line_of_an_execution_s_description_makes_the_page_wide():
    long = f"data.train={'x' * 900}.csv"
    note = views.execution_note({"experiment": "r1_tiny", "overrides": long, "seed": ""})
    assert "experiment ` r1_tiny `" in note and "seed" not in note
    assert max(map(len, note.splitlines())) <= views.WIDTH and long in note.replace("\n", "")


def test_the_log_of_a_later_attempt_is_not_shown(project, store):
    begin(project)
    log = project / "zero_rl.log"
    with suppress(ValueError), stage("zero_rl", log=str(log)):
        raise ValueError("no rows")
    log.write_text("another\n")
    os.utime(log, (2e9, 2e9))
    found = store()["zero_rl"]
    assert "another" not in found.data.tags["mlflow.note.content"]
    assert not store.client.list_artifacts(found.info.run_id)


@pytest.mark.parametrize("is_model", [True, False])
def test_what_is_brought_back_says_from_where_and_a_model_stays_one(project, store, monkeypatch, is_model):
    out = publish("zero_rl", model=is_model)
    for time in (1000, 2000):
        monkeypatch.setattr(spool, "now_ms", lambda time=time: time)
        begin(project)
        with stage("zero_rl") as run:
            run.finish({}, out)
        spool.end_execution("tiny", project, "FINISHED")
    experiment = store()["zero_rl"].info.experiment_id
    ids = [f"tags.stage = 'zero_rl' and attributes.start_time = {time}" for time in (1000, 2000)]
    first, second = (store.client.search_runs([experiment], words)[0] for words in ids)
    assert f"/runs/{first.info.run_id}?" in second.data.tags["mlflow.note.content"]
    assert "mlflow.note.content" not in first.data.tags
    models = store.client.search_logged_models([experiment])
    assert [model.source_run_id for model in models] == [first.info.run_id] * is_model
    outputs = store.client.get_run(second.info.run_id).outputs
    assert [found.model_id for found in outputs.model_outputs] == [model.model_id for model in models]


def test_tables_and_small_files_are_artifacts_in_the_project(finished):
    names = [item.path for item in finished.client.list_artifacts(finished.runs["evaluate/zero_rl"].info.run_id)]
    assert "samples.json" in names
    assert list(finished.root.glob("mlruns/*/artifacts/config.yaml"))


def test_a_project_that_was_copied_and_moved_has_its_artifacts_where_it_is(finished, project):
    """Also those of records that were written before the move; MLflow has absolute paths, and makes old folders again.

    The original keeps what is its own.
    """
    from r1flow.tracking.mlflow_client import client_of
    from r1flow.tracking.moved import path_of

    first, moved = project / "first", project / "my é%41 x"
    of_original = sorted(finished.root.rglob("*"))
    shutil.copytree(finished.root, first)
    os.chdir(first)
    begin(first)
    with stage("zero_rl") as run:
        run.log_table("later", [{"question": "8 + 16?"}])
    spool.end_execution("tiny", first, "FINISHED")
    first.rename(moved)
    os.chdir(moved)
    assert spool.deliver(moved) == 0

    client = client_of(f"sqlite:///{moved}/mlflow.db")
    experiment = client.get_experiment_by_name("r1flow").experiment_id
    found = {}
    for run in client.search_runs([experiment]):
        for item in client.list_artifacts(run.info.run_id):
            assert Path(path_of(run.info.artifact_uri), item.path).is_relative_to(moved)
            found.setdefault(run.data.tags.get("stage"), []).append(item.path)
    assert "samples.json" in found["evaluate/zero_rl"] and "later.json" in found["zero_rl"]
    assert not first.exists() and sorted(finished.root.rglob("*")) == of_original


def test_nothing_is_left_once_all_is_delivered(finished):
    assert not list((finished.root / spool.TRACKING).glob("*/"))


def test_a_run_is_delivered_while_it_goes_on_and_nothing_twice(project, store):
    folder = begin(project)
    with stage("zero_rl") as run:
        run.log_metrics(1, {"reward": 0.5})
        assert store()["zero_rl"].info.status == "RUNNING"
        run.log_metrics(2, {"reward": 0.6})
        runs = store()
    assert len(store.client.get_metric_history(runs["zero_rl"].info.run_id, "curve/reward")) == 2
    assert len(store()) == 2 and folder.exists()
    spool.end_execution("tiny", project, "FAILED")
    assert store()["tiny"].info.status == "FAILED" and not folder.exists()


def test_writers_that_died_without_a_word_are_killed_and_the_living_are_not(project, store):
    begin(project)
    with stage("base"):
        dead = stage("zero_rl").__enter__()
        dead.spool.close()
        runs = store()
        assert (runs["zero_rl"].info.status, runs["base"].info.status) == ("KILLED", "RUNNING")
        spool._executions.pop("tiny").spool.close()  # as after kill -9
        runs = store()
        assert (runs["tiny"].info.status, runs["base"].info.status) == ("KILLED", "RUNNING")
    assert store()["base"].info.status == "FINISHED"


def test_a_second_attempt_of_a_stage_is_a_run_of_its_own(project, store, monkeypatch):
    folder = begin(project)
    for attempt in range(2):
        monkeypatch.setattr(spool, "now_ms", lambda attempt=attempt: attempt)
        stage("zero_rl").__enter__().spool.close()
    assert len([record for record in lines(folder, "zero_rl") if record["kind"] == "start"]) == 2
    store()
    runs = store.client.search_runs(store.client.get_experiment_by_name("r1flow").experiment_id)
    assert sorted(run.info.run_name for run in runs) == ["tiny", "zero_rl · tiny", "zero_rl · tiny"]


@pytest.mark.parametrize("moment", ["create_run", "log_batch", "save"])
def test_a_delivery_killed_between_the_store_and_its_ledger_delivers_nothing_twice(project, store, monkeypatch, moment):
    from r1flow.tracking import delivery

    begin(project)
    with stage("zero_rl") as run:
        run.log_metrics(1, {"reward": 0.5})
    owner = delivery.Delivery if moment == "save" else type(store.client)
    original = getattr(owner, moment)

    def killed(*arguments, **options):
        original(*arguments, **options)
        raise KeyboardInterrupt  # no Exception: nothing of ours runs after it, as after kill -9

    for _ in range(3):
        monkeypatch.setattr(owner, moment, killed)
        with suppress(KeyboardInterrupt):
            delivery.deliver_all(spool.TRACKING)
        monkeypatch.setattr(owner, moment, original)
    runs = store()
    found = store.client.search_runs(store.client.get_experiment_by_name("r1flow").experiment_id)
    assert len(found) == len(runs) == 2 and runs["zero_rl"].info.status == "FINISHED"
    assert len(store.client.get_metric_history(runs["zero_rl"].info.run_id, "curve/reward")) == 1


def test_half_a_line_waits_for_its_other_half(project, store):
    folder = begin(project)
    with stage("zero_rl") as run:
        whole = json.dumps({"kind": "metrics", "time": 1, "step": 1, "values": {"reward": 0.5}}) + "\n"
        run.spool.file.write(whole[:20])
        run.spool.file.flush()
        assert store()["zero_rl"].data.metrics == {}
        run.spool.file.write(whole[20:])
        run.spool.file.flush()
        assert store()["zero_rl"].data.metrics == {"curve/reward": 0.5}
    assert folder.exists()


BROKEN = {
    "no kind": b'{"time": 1}\n',
    "no such kind": b'{"kind": "nope", "time": 1}\n',
    "a kind that is none": b'{"kind": ["tag"], "time": 1}\n',
    "without its fields": b'{"kind": "metrics", "time": 1}\n',
    "a time that is none": b'{"kind": "start", "time": "x", "name": "zero_rl", "tags": {}, "config": {}}\n',
    "deep": b"[" * 100_000 + b"\n",
}


def damage(folder: Path, how: str) -> None:
    """What a full disk or a lost power supply leaves."""
    file = folder / "zero_rl.jsonl"
    records = file.read_bytes().splitlines(keepends=True)
    if how == "ledger":
        (folder / "delivered.json").write_text("[]")
    elif how == "parent":
        (folder / "execution.jsonl").write_text("")
    else:
        bad = {"torn": records[1][:20] + records[0], "zeros": b"\0" * 64 + b"\n", "no record": b"7\n"} | BROKEN
        bad = bad[how]
        file.write_bytes(b"".join([*records[:2], bad, *records[2:]]))


@pytest.mark.parametrize("how", ["torn", "zeros", "no record", "ledger", "parent", *BROKEN])
def test_a_damaged_file_costs_no_more_than_its_damage(project, store, how, capsys):
    folder = begin(project)
    with stage("zero_rl") as run:
        for step in range(3):
            run.log_metrics(step, {"reward": step / 10})
        run.log_table("samples", [{"question": "8 + 16?"}])
    spool.end_execution("tiny", project, "FINISHED")
    damage(folder, how)
    runs = store()
    assert not folder.exists() and set(runs) == {"tiny", "zero_rl"} and runs["zero_rl"].info.status == "FINISHED"
    history = store.client.get_metric_history(runs["zero_rl"].info.run_id, "curve/reward")
    assert [point.step for point in history] == [0, 1, 2]
    assert [item.path for item in store.client.list_artifacts(runs["zero_rl"].info.run_id)] == ["samples.json"]
    said = capsys.readouterr().err
    assert said.count("zero_rl: skipped a line that can't be read") == (how not in ("ledger", "parent"))


def test_a_ledger_that_is_lost_after_a_delivery_brings_nothing_twice(project, store):
    folder = begin(project)
    with stage("zero_rl") as run:
        run.log_metrics(0, {"reward": 0.5})
        store()
        damage(folder, "ledger")
        run.log_metrics(1, {"reward": 0.6})
    runs = store()
    assert len(store.client.search_runs([runs["tiny"].info.experiment_id])) == 2
    assert len(store.client.get_metric_history(runs["zero_rl"].info.run_id, "curve/reward")) == 2


def test_an_attempt_after_one_that_died_within_a_line_begins_a_new_one(project):
    folder = begin(project)
    first = stage("zero_rl").__enter__()
    first.spool.file.write('{"kind": "metr')
    first.spool.close()
    with stage("zero_rl"):
        pass
    written = (folder / "zero_rl.jsonl").read_text().splitlines()
    assert written[1] == '{"kind": "metr' and json.loads(written[2])["kind"] == "start"


BREAKAGES = {
    "a folder for a file": lambda folder: (folder / "zero_rl.jsonl").mkdir(),
    "a folder for its first file": lambda folder: replace_by_folder(folder / "execution.jsonl"),
    "rows that are none": lambda folder: append(folder, '{"kind": "table", "time": 1, "name": "a", "rows": [7]}'),
    "a ledger of others": lambda folder: (folder / "delivered.json").write_text('{"offsets": {}, "runs": {"a": 7}}'),
}


def replace_by_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def append(folder: Path, line: str) -> None:
    with (folder / "execution.jsonl").open("a") as file:
        file.write(f"{line}\n")


@pytest.mark.parametrize("how", BREAKAGES)
def test_what_cannot_be_delivered_of_one_execution_holds_up_no_other(project, store, monkeypatch, capsys, how):
    from r1flow.tracking import delivery

    folders = []
    for number in range(2):
        monkeypatch.setattr(spool, "now_ms", lambda number=number: number)
        folders.append(begin(project))
        spool.end_execution("tiny", project, "FINISHED")
    BREAKAGES[how](folders[0])
    assert not delivery.deliver_all(spool.TRACKING)
    assert [path.name for path in spool.TRACKING.glob("*-*")] == [f"{folders[0].name}.damaged"]
    assert f"renamed to {folders[0].name}.damaged" in capsys.readouterr().err
    assert delivery.deliver_all(spool.TRACKING)
    assert delivery.sweep(spool.TRACKING, redirected=True) == 1 and "repair or delete" in capsys.readouterr().err


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.EACCES])
def test_a_disk_that_takes_nothing_is_no_damage_and_holds_nothing_back_once_it_does_again(
    project, store, monkeypatch, number, capsys
):
    from r1flow.tracking import delivery

    folder = begin(project)
    with stage("zero_rl") as run:
        run.log_metrics(1, {"reward": 0.5})
    spool.end_execution("tiny", project, "FINISHED")
    write = delivery.write_json

    def refuse(path: Path, value: Any) -> None:
        if path.name != "delivered.json":
            return write(path, value)
        raise OSError(number, os.strerror(number), str(path.with_name(f"{path.name}.here-1.partial")))

    monkeypatch.setattr(delivery, "write_json", refuse)
    assert not delivery.deliver_all(spool.TRACKING) and folder.exists()
    assert os.strerror(number) in capsys.readouterr().err
    monkeypatch.setattr(delivery, "write_json", write)
    assert delivery.deliver_all(spool.TRACKING) and not folder.exists()
    assert store()["zero_rl"].data.metrics["curve/reward"] == 0.5


def set_aside(folder: Path) -> list[dict]:
    file = spool.refused_records(folder)
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def particular(store, monkeypatch):
    """Names that the server refuses with BAD_REQUEST whenever they are logged; "tag": any tag."""
    from mlflow.exceptions import BAD_REQUEST, MlflowException

    unwanted: set[str] = set()
    log_batch, set_tag = type(store.client).log_batch, type(store.client).set_tag

    def refuse(names):
        if unwanted & set(names):
            raise MlflowException("value too long", error_code=BAD_REQUEST)

    def batch(self, run_id, metrics=(), params=(), tags=()):
        refuse(metric.key for metric in metrics)
        log_batch(self, run_id, metrics=metrics, params=params, tags=tags)

    def tag(self, run_id, key, value):
        refuse(["tag"])
        set_tag(self, run_id, key, value)

    monkeypatch.setattr(type(store.client), "log_batch", batch)
    monkeypatch.setattr(type(store.client), "set_tag", tag)
    return unwanted


def test_what_mlflow_refuses_is_set_aside_and_the_rest_arrives(project, store, particular, capsys):
    folder = begin(project)
    particular.add("curve/odd")
    with stage("zero_rl") as run:
        for step in range(5):
            run.log_metrics(step, {"reward": step, **({"odd": 1.0} if step == 2 else {})})
        run.finish({"rows": 9}, publish("zero_rl"))
    found = store()["zero_rl"]
    assert found.info.status == "FINISHED" and found.data.metrics["stage/rows"] == 9
    history = store.client.get_metric_history(found.info.run_id, "curve/reward")
    assert [point.step for point in history] == [0, 1, 3, 4]
    [kept] = set_aside(folder)
    assert kept["record"]["values"] == {"reward": 2, "odd": 1} and kept["run_id"] == found.info.run_id
    where = f"{spool.TRACKING}/{folder.name}.refused.jsonl"
    assert f"zero_rl: MLflow refused a record (metrics), kept in {where}: value too long" in capsys.readouterr().err
    spool.end_execution("tiny", project, "FINISHED")
    assert f"MLflow refused some records, which are in {where}" in capsys.readouterr().err
    assert store()["tiny"].info.status == "FINISHED" and not folder.exists() and len(set_aside(folder)) == 1


def test_a_value_that_mlflow_never_takes_is_set_aside(project, store):
    folder = begin(project)
    with stage("zero_rl") as run:
        run.append("metrics", step="first", values={"reward": 0.5})
        run.log_metrics(1, {"reward": 0.5})
        assert store()["zero_rl"].data.metrics == {"curve/reward": 0.5}
    assert [kept["record"]["step"] for kept in set_aside(folder)] == ["first"]


def test_what_a_server_without_its_database_refuses_is_kept_for_later(project, store, particular):
    from r1flow.tracking.delivery import deliver_all

    folder = begin(project)
    with stage("zero_rl") as run:
        store()
        particular |= {"curve/reward", "tag"}
        run.log_metrics(1, {"reward": 0.5})
        assert not deliver_all(spool.TRACKING) and not set_aside(folder)
        particular.clear()
        assert store()["zero_rl"].data.metrics == {"curve/reward": 0.5} and not set_aside(folder)


def test_records_outlive_an_unreachable_store_and_arrive_later(project, store, monkeypatch):
    from r1flow.tracking.delivery import deliver_all

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{project}/away/mlflow.db")
    (project / "away").write_text("not a folder yet")
    folder = begin(project)
    whole_run()
    spool.end_execution("tiny", project, "FINISHED")
    assert not deliver_all(spool.TRACKING) and folder.exists()
    (project / "away").unlink()
    (project / "away").mkdir()
    (project / "away/mlflow.db").write_bytes((project / "mlflow.db").read_bytes())
    assert deliver_all(spool.TRACKING) and not folder.exists()


# -- a server, and the way in ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "stored"),
    [
        ("http://ann:secret@mlflow.lab:5000/x", "http://mlflow.lab:5000/x"),
        ("https://ann:a%2Fsecret%40@mlflow.lab", "https://mlflow.lab"),
        ("https://ann:a/secret?@mlflow.lab", "https://mlflow.lab"),
        ("postgresql://ann:secret@db/mlflow?sslmode=require", "postgresql://db/mlflow"),
        ("postgresql://db/mlflow?user=ann&password=secret", "postgresql://db/mlflow"),
        ("sqlite:////lab/mlflow.db", "sqlite:////lab/mlflow.db"),
        ("sqlite:////lab/a@b#1.db", "sqlite:////lab/a@b#1.db"),
        ("/lab/a@b#1", "/lab/a@b#1"),
        ("ann:secret@mlflow.lab:5000", "mlflow.lab:5000"),
        ("https://mlflow.lab/#token=secret", "https://mlflow.lab/"),
        ("https://ann:#secret@mlflow.lab", "https://mlflow.lab"),
    ],
)
def test_an_address_is_stored_without_its_secrets(project, monkeypatch, uri, stored):
    monkeypatch.setenv(spool.URI, uri)
    folder = begin(project)
    assert lines(folder, "execution")[0]["store"]["uri"] == stored
    assert "secret" not in "".join(path.read_text() for path in project.rglob("*.json*"))


def test_stages_do_not_get_the_credentials(project, monkeypatch):
    for name in (spool.USER, spool.PASSWORD, spool.TOKEN):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv(spool.URI, "http://ann:secret@mlflow.lab")
    given = []

    def start_delivery(self, root):
        given.append(dict(spool.os.environ))
        return subprocess.Popen(["true"])

    monkeypatch.setattr(spool.Execution, "start_delivery", start_delivery)
    begin(project)
    assert "secret" not in str(spool.os.environ.values()) and spool.os.environ[spool.URI] == "http://mlflow.lab"
    assert given[0][spool.TOKEN] == "secret" and "ann:secret" in given[0][spool.URI]


def test_the_user_and_password_of_an_address_become_the_variables_that_mlflow_hides(monkeypatch):
    monkeypatch.setenv(spool.URI, "http://ann:a%2Fsecret@mlflow.lab")
    found = {spool.URI: "http://mlflow.lab", spool.USER: "ann", spool.PASSWORD: "a/secret"}
    assert spool.credentials() == found
    monkeypatch.setenv(spool.URI, "postgresql://ann:secret@db/mlflow")
    assert spool.credentials() == {}


def test_a_servers_words_cannot_write_over_the_terminal(capsys):
    from mlflow.exceptions import MlflowException

    from r1flow.tracking.delivery import complain

    complain(Path("a"), MlflowException("all \x1b[2Jis well"))
    error = capsys.readouterr().err
    assert "is well" in error and "\x1b" not in error


def test_what_goes_wrong_is_said_without_secrets_and_once(project, monkeypatch, capsys):
    from mlflow.exceptions import MlflowException

    from r1flow.tracking.delivery import complain

    monkeypatch.setenv(spool.TOKEN, "t0ken")
    for _ in range(2):
        complain(project / "tiny-1", MlflowException("postgresql://ann:secret@db/x: t0ken refused"))
    said = capsys.readouterr().err
    assert said == f"{project}/tiny-1: postgresql://…@db/x: … refused\n"


@pytest.mark.parametrize("uri", ["ann:secret@mlflow.lab:5000", "https://mlflow.lab/#token=secret", "db?key=secret"])
def test_an_address_that_mlflow_repeats_is_said_without_its_secrets(project, monkeypatch, capsys, uri):
    from mlflow.exceptions import MlflowException

    from r1flow.tracking.delivery import complain

    monkeypatch.setenv(spool.URI, uri)
    complain(project / "tiny-1", MlflowException(f"{uri!r} has no store"))
    said = capsys.readouterr().err
    assert "has no store" in said and "secret" not in said


def test_credentials_go_to_no_server_but_the_one_that_the_environment_names(project, monkeypatch):
    from r1flow.tracking import delivery

    monkeypatch.setenv(spool.URI, "http://mlflow.lab")
    folder = begin(project)
    asked = []
    monkeypatch.setattr(delivery, "client_of", lambda uri: asked.append(uri))
    monkeypatch.setenv(spool.URI, "http://mlflow.another.lab")
    assert delivery.deliver_all(spool.TRACKING) and folder.exists() and not asked
    monkeypatch.setenv(spool.URI, "http://ann:secret@mlflow.lab")
    assert not delivery.deliver_all(spool.TRACKING) and asked


def test_records_for_a_mistyped_address_go_where_they_are_sent_then(project, store, monkeypatch, capsys):
    from r1flow.tracking import delivery

    right = f"sqlite:///{project}/mlflow.db"
    for number, wrong in enumerate(["https://mlfow.lab", f"sqlite:///{project}/nowhere/mlflow.db"]):
        monkeypatch.setattr(spool, "now_ms", lambda number=number: number)
        monkeypatch.setenv(spool.URI, wrong)
        (project / "nowhere").touch()
        folder = begin(project)
        with stage("zero_rl") as run:
            run.log_metrics(1, {"reward": 0.5})
        spool.end_execution("tiny", project, "FINISHED")
        (folder / "delivered.json").write_text(
            json.dumps({"offsets": {"zero_rl": 9}, "runs": {"zero_rl": {"id": "x"}}})
        )
    monkeypatch.setenv(spool.URI, right)
    assert delivery.sweep(spool.TRACKING) == 1 and "with --to" in capsys.readouterr().err
    assert delivery.sweep(spool.TRACKING, redirected=True) == 0
    experiment = store.client.get_experiment_by_name("r1flow").experiment_id
    runs = store.client.search_runs([experiment])
    assert sorted((run.info.run_name, run.info.status) for run in runs) == 2 * [("tiny", "FINISHED")] + 2 * [
        ("zero_rl · tiny", "FINISHED")
    ]


def test_where_records_are_sent_is_kept_for_the_next_delivery(project, store, monkeypatch):
    from r1flow.tracking import delivery

    monkeypatch.setenv(spool.URI, "https://mlfow.lab")
    folder = begin(project)
    spool.end_execution("tiny", project, "FINISHED")
    monkeypatch.setenv(spool.URI, f"sqlite:///{project}/nowhere/mlflow.db")
    (project / "nowhere").touch()
    assert delivery.sweep(spool.TRACKING, redirected=True) == 1
    monkeypatch.delenv(spool.URI)
    assert delivery.Delivery(folder).store["uri"].endswith("/nowhere/mlflow.db")


def test_what_is_no_address_is_refused(project):
    with pytest.raises(UserError, match=r"^--to: mlflow\.lab:5000 isn't an address"):
        spool.deliver(project, "ann:secret@mlflow.lab:5000")


def test_a_model_in_one_store_leaves_the_address_that_the_user_named(project, store, monkeypatch):
    """MLflow writes the address of its last model there, and the records of the user's server would wait for it."""
    from r1flow.tracking import delivery

    begin(project)
    with stage("zero_rl") as run:
        run.finish({}, publish("zero_rl"))
    spool.end_execution("tiny", project, "FINISHED")
    monkeypatch.setenv(spool.URI, "http://127.0.0.1:1")
    assert delivery.deliver_all(spool.TRACKING) and os.environ[spool.URI] == "http://127.0.0.1:1"
    assert len(store.client.search_logged_models(["1"])) == 1


def test_a_dead_server_is_asked_once_in_a_pass_and_the_own_run_comes_first(project, store, monkeypatch):
    from r1flow.tracking import delivery

    folders = []
    for number, uri in enumerate(["http://127.0.0.1:1", "http://127.0.0.1:1", ""]):
        monkeypatch.setattr(spool, "now_ms", lambda number=number: number)
        monkeypatch.setenv(spool.URI, uri)
        folders.append(begin(project))
        spool.end_execution("tiny", project, "FINISHED")
    monkeypatch.setenv(spool.URI, "http://127.0.0.1:1")
    asked = []
    original = delivery.Delivery.deliver
    monkeypatch.setattr(delivery.Delivery, "deliver", lambda self: (asked.append(self.folder), original(self)))
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    assert not delivery.deliver_all(Path(folders[0].parent), folders[2])
    assert asked == [folders[2], folders[0]] and [folder.exists() for folder in folders] == [True, True, False]


ODD: dict[str, Reply] = {  # of what stands where an MLflow server should
    "nothing": Reply(),
    "no experiment": Reply(body=b'{"experiment": null, "experiment_id": null}'),
    "no run": Reply(body=b'{"experiment": {"experiment_id": "1", "name": "r1flow"}, "run": null}'),
    "an id that is a path": Reply(body=b'{"experiment": {"experiment_id": "../../home", "name": "r1flow"}}'),
    "another type": Reply(body=b'{"experiment": 7}'),
    "half a surrogate pair": Reply(body=b'{"experiment": {"experiment_id": "\\ud800"}}'),
    "not a number": Reply(body=b'{"experiment": {"experiment_id": "1", "creation_time": NaN}}'),
    "a long text": Reply(body=b"<" * 100_000),
    "deep": Reply(body=b"[" * 90_000),
    "an error that is none": Reply(400, b'{"error_code": 7, "message": [1]}'),
    "itself": Reply(302, headers={"Location": "/x"}),
    "a file": Reply(302, headers={"Location": "file:///etc/passwd"}),
}


@pytest.mark.parametrize("reply", ODD.values(), ids=ODD)
def test_what_is_no_mlflow_server_gets_no_record_and_is_one_line(project, monkeypatch, capsys, reply):
    """A proxy that answers everything with 200 and nothing would have had all records, and nobody would have them."""
    from r1flow.tracking import delivery

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with FakeServer(answer=lambda body: reply) as server:
        monkeypatch.setenv(spool.URI, server.url.removesuffix("/v1"))
        folder = begin(project)
        with stage("zero_rl") as run:
            run.log_metrics(1, {"reward": 0.5})
        spool.end_execution("tiny", project, "FINISHED")
        assert not delivery.deliver_all(spool.TRACKING)
    assert (folder / "zero_rl.jsonl").exists()
    [said] = [line for line in capsys.readouterr().err.splitlines() if "WARNING mlflow" not in line]
    assert said.startswith(f"{folder.relative_to(project)}: ") and len(said) < 1100


def test_an_evaluation_whose_replies_are_lost_shows_each_score_once(project, store, monkeypatch):
    import mlflow

    from r1flow.tracking import delivery

    begin(project)
    with stage("zero_rl") as run:
        run.finish({}, publish("zero_rl"))
    model = sha256(Path("results/tiny/zero_rl/manifest.json"))
    with stage("evaluate/zero_rl", {"model": model, "data": HASH}) as run:
        run.finish(EVALUATION, publish("evaluate/zero_rl", model=False))
    original, lost = mlflow.MlflowClient.log_batch, set()

    def log_batch(self, run_id, **what):
        original(self, run_id, **what)
        if str(what) not in lost:
            lost.add(str(what))
            raise mlflow.MlflowException("no reply")

    monkeypatch.setattr(mlflow.MlflowClient, "log_batch", log_batch)
    while not delivery.deliver_all(spool.TRACKING):
        pass
    monkeypatch.setattr(mlflow.MlflowClient, "log_batch", original)
    runs = store()
    [model] = store.client.search_logged_models([runs["zero_rl"].info.experiment_id])
    scores = [(metric.dataset_name, metric.key) for metric in model.metrics]
    assert len(lost) > 4 and len(scores) == len(set(scores)) == 4
    history = store.client.get_metric_history(runs["tiny"].info.run_id, "pass_at_1/zero_rl")
    assert [point.value for point in history] == [0.61]


def test_a_table_has_no_number_that_a_browser_can_t_read_and_a_stage_all_of_its_keys(project, store, monkeypatch):
    keys = {f"key_{number}": number for number in range(150)}
    monkeypatch.setitem(CONFIG, "zero_rl", keys)
    begin(project)
    with stage("zero_rl") as run:
        run.log_table("samples", [{"a": float("nan"), "b": 1}, {"a": float("inf"), "b": None}, {"b": 2.5}])
    found = store()["zero_rl"]
    table = Path(store.client.download_artifacts(found.info.run_id, "samples.json")).read_text()
    assert json.loads(table) == {"columns": ["a", "b"], "data": [[None, 1], [None, None], [None, 2.5]]}
    assert {key: int(value) for key, value in found.data.params.items()} == keys


@pytest.mark.parametrize("tag", ["no list", "7", "[" * 9000])
def test_a_tag_that_somebody_else_wrote_holds_up_no_table(project, store, monkeypatch, tag):
    from r1flow.tracking import delivery

    begin(project)
    with stage("zero_rl") as run:
        run.log_table("samples", [{"a": 1}])
    spool.end_execution("tiny", project, "FINISHED")
    before = delivery.Delivery.create_run

    def create(self: delivery.Delivery, name: str, record: dict) -> dict:
        made = before(self, name, record)
        self.client.set_tag(made["id"], "mlflow.loggedArtifacts", tag)
        return made

    monkeypatch.setattr(delivery.Delivery, "create_run", create)
    assert delivery.deliver_all(spool.TRACKING)


def test_a_run_that_cannot_be_made_keeps_its_records(project, store):
    """As when somebody has deleted the experiment: what follows has nowhere to go, so nothing may be dropped."""
    from r1flow.tracking.delivery import deliver_all

    begin(project)
    spool.end_execution("tiny", project, "FINISHED")
    experiment = store.client.get_experiment_by_name("r1flow") if store() else None
    store.client.delete_experiment(experiment.experiment_id)
    folder = begin(project)
    with stage("zero_rl") as run:
        run.log_metrics(1, {"reward": 0.5})
    assert not deliver_all(spool.TRACKING) and folder.exists()
    store.client.restore_experiment(experiment.experiment_id)
    assert store()["zero_rl"].data.metrics["curve/reward"] == 0.5


def traced(root: Path, traces: int) -> Path:
    """An execution whose configuration has the key `traces`."""
    spool.start_execution("tiny", root, FACTS, CONFIG, traces=traces)
    return spool._executions["tiny"].folder


def traces_of(store: Any) -> list[Any]:
    """All traces in the project's store, in the order in which they were written."""
    store()
    experiment = store.client.get_experiment_by_name("r1flow").experiment_id
    found = store.client.search_traces(locations=[experiment], max_results=500, order_by=["timestamp_ms ASC"])
    return sorted(found, key=lambda trace: trace.info.request_preview)


def test_completions_are_traces_with_their_turns_and_assessments_where_the_key_asks_for_it(project, store):
    traced(project, 5)
    called = "<think>I ask.</think><tool>calculate 3 * 4</tool><result>12</result><answer>12</answer>"
    odd = "<script>alert(1)</script>\0 \u202e" + 9000 * "x"
    with stage("evaluate/zero_rl") as run:
        row = {"completion": called, "correct": True, "answer": "12", "gold": "12", "task": "products"}
        run.log_table("samples", [{"question": "3 * 4?", **row}, {"question": odd, **row, "completion": odd}])
        run.log_table("samples", [{"question": "5?", "completion": "<tool>3 * 5</tool>\n<result>15</result>, so"}])
    with stage("zero_rl") as run:
        for step in range(1, 9):
            rows = [{"step": step, "completion": "7", "prompt": f"step {step}", "reward/a": 0.5, "advantage": -0.2}] * 4
            run.log_table("completions", rows)
    products, without_name, hostile, *steps = traces_of(store)
    [run, child] = [store()[name].info.run_id for name in ("evaluate/zero_rl", "zero_rl")]
    assert [trace.info.trace_metadata["mlflow.sourceRun"] for trace in (products, hostile)] == [run] * 2
    assert {trace.info.trace_metadata["mlflow.sourceRun"] for trace in steps} == {child}
    spans = []
    for span in products.data.spans:
        spans.append((span.name, span.span_type, span.inputs["text"]["raw"], span.outputs["text"]["raw"]))
    assert spans == [
        ("completion", "AGENT", "3 * 4?", called),
        ("turn", "LLM", "3 * 4?", "<think>I ask.</think><tool>calculate 3 * 4</tool>"),
        ("calculate", "TOOL", "calculate 3 * 4", "12"),
        ("turn", "LLM", "12", "<answer>12</answer>"),
    ]
    said = {each.name: (each.value, each.rationale) for each in products.info.assessments}
    assert said == {"gold": ("12", None), "correct": (True, "its answer is ` 12 `")}
    [_, _, unnamed, _] = without_name.data.spans
    assert unnamed.name == "tool" and unnamed.inputs == {"text": {"raw": "3 * 5"}}
    assert unnamed.outputs == {"text": {"raw": "15"}}
    assert hostile.data.spans[0].outputs["text"]["raw"] == odd.replace("\0", "\N{REPLACEMENT CHARACTER}")
    # An eighth of five, but one at least, of each of the first tables.
    assert [trace.info.request_preview for trace in steps] == [f"step {step}" for step in range(1, 6)]
    assert {each.name: each.value for each in steps[0].info.assessments} == {"reward/a": 0.5, "advantage": -0.2}
    assert len({trace.info.trace_metadata["mlflow.trace.session"] for trace in steps}) == 5


def test_no_completion_is_a_trace_unless_the_key_asks_for_it(project, store):
    folder = traced(project, 0)
    with stage("evaluate/zero_rl") as run:
        run.log_table("samples", [{"question": "3 * 4?", "completion": "12"}])
    assert "traces" not in {record["kind"] for record in lines(folder, "evaluate.zero_rl")}
    assert traces_of(store) == []


def test_a_trace_whose_reply_is_lost_is_there_once(project, store, monkeypatch):
    from mlflow.exceptions import MlflowException
    from mlflow.tracing.client import TracingClient

    from r1flow.tracking import delivery

    traced(project, 8)
    with stage("evaluate/zero_rl") as run:
        rows = [
            {"question": f"{number} + 1?", "completion": "12", "gold": "12", "correct": True} for number in range(3)
        ]
        run.log_table("samples", rows)
    start = TracingClient.start_trace

    def lost(self, info):
        start(self, info)
        raise MlflowException("no reply")

    monkeypatch.setattr(TracingClient, "start_trace", lost)
    assert not delivery.deliver_all(spool.TRACKING)
    monkeypatch.setattr(TracingClient, "start_trace", start)
    found = traces_of(store)
    assert [trace.info.request_preview for trace in found] == ["0 + 1?", "1 + 1?", "2 + 1?"]
    assert [(len(trace.data.spans), len(trace.info.assessments)) for trace in found] == [(1, 2)] * 3


@pytest.mark.parametrize("moment", ["log_text", "log_model_artifacts", "create_external_model", "create_experiment"])
def test_a_reply_that_is_lost_repeats_nothing(project, store, monkeypatch, moment):
    import mlflow

    from r1flow.tracking import delivery

    begin(project)
    with stage("zero_rl") as run:
        for step in range(3):
            run.log_table("completions", [{"step": step}])
            run.log_metrics(step, {"reward": 0.5})
        run.finish({}, publish("zero_rl"))
    owner = mlflow if moment == "create_external_model" else type(store.client)
    original = getattr(owner, moment)

    def lost(*arguments, **options):
        original(*arguments, **options)
        raise mlflow.MlflowException("no reply")

    delivery.experiment_of.cache_clear()
    monkeypatch.setattr(owner, moment, lost)
    assert not delivery.deliver_all(spool.TRACKING)
    delivery.deliver_all(spool.TRACKING)
    monkeypatch.setattr(owner, moment, original)
    found = store()["zero_rl"]
    path = store.client.download_artifacts(found.info.run_id, "completions.json")
    assert json.loads(Path(path).read_text()) == {"columns": ["step"], "data": [[0], [1], [2]]}
    assert json.loads(found.data.tags["mlflow.loggedArtifacts"]) == [{"path": "completions.json", "type": "table"}]
    [model] = store.client.search_logged_models([found.info.experiment_id])
    assert model.status == "READY"


def test_records_for_what_was_deleted_in_the_ui_wait_and_the_remedy_is_said(project, store, monkeypatch, capsys):
    """A run that is restored gets them; for an experiment, another one that is named gets them all."""
    from r1flow.tracking import delivery

    folder = begin(project)
    store()
    with stage("zero_rl") as run:
        run.log_metrics(1, {"reward": 0.5})
        zero_rl = store()["zero_rl"].info
        store.client.delete_run(zero_rl.run_id)
        run.log_metrics(2, {"reward": 0.6})
        assert not delivery.deliver_all(spool.TRACKING)
    assert "mlflow runs restore --run-id ID" in capsys.readouterr().err
    assert not spool.refused_records(folder).exists()
    store.client.restore_run(zero_rl.run_id)
    assert len(store.client.get_metric_history(store()["zero_rl"].info.run_id, "curve/reward")) == 2

    store.client.delete_experiment(zero_rl.experiment_id)
    spool.end_execution("tiny", project, "FINISHED")
    assert not delivery.deliver_all(spool.TRACKING)
    assert "MLFLOW_EXPERIMENT_NAME=other r1flow deliver" in capsys.readouterr().err
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "other")
    assert delivery.deliver_all(spool.TRACKING) and not folder.exists()
    [other] = [found for found in store.client.search_experiments() if found.name == "other"]
    assert {run.info.run_name for run in store.client.search_runs([other.experiment_id])} == {"tiny", "zero_rl · tiny"}


def test_a_model_whose_run_was_deleted_keeps_no_evaluation_from_its_own_run(project, store):
    begin(project)
    with stage("zero_rl") as run:
        run.finish({}, publish("zero_rl"))
    spool.end_execution("tiny", project, "FINISHED")
    store.client.delete_run(store()["zero_rl"].info.run_id)
    begin(project)
    with stage("evaluate/zero_rl", {"model": sha256(Path("results/tiny/zero_rl/manifest.json"))}) as run:
        run.log_metrics(0, {"eval/reasoning/pass_at_1": 0.61})
    assert store()["evaluate/zero_rl"].data.metrics["eval/reasoning/pass_at_1"] == 0.61


def test_an_exported_model_is_in_the_registry_with_its_card_and_its_alias_moves_to_the_next(
    project, store, capfd, monkeypatch
):
    import mlflow

    from r1flow.tracking import delivery

    monkeypatch.setattr(spool, "tell_export", lambda root, **exported: delivery.register_version(exported))
    begin(project)
    for name in ("zero_rl", "base"):
        make_stage(project / "results/tiny" / name, 0)
        with stage(name) as run:
            run.finish({}, Path("results/tiny", name))
    store()
    # MLflow's own, in a process that has sent nothing: the folder's, with %20 where the path has a blank.
    mlflow.set_tracking_uri(f"sqlite:///{project}/a%20project/mlflow.db")
    os.environ.pop(spool.URI)  # monkeypatch would set it again, and later tests' records would go there
    for number, name in enumerate(("zero_rl", "zero_rl", "base")):
        assert cli.main(["export", f"results/tiny/{name}/model", f"copy{number}"]) == 0
    latest = store.client.get_model_version_by_alias("r1flow", "r1-zero")
    assert int(latest.version) == 2 and latest.description == (project / "copy1/README.md").read_text()[:5000]
    assert latest.run_id == store()["zero_rl"].info.run_id and latest.tags["path"] == f"{project}/copy1"
    assert not (project / "a%20project").exists()
    assert "models:/r1flow@r1-zero\n" in (said := capfd.readouterr().out) and said.endswith("models:/r1flow/3\n")


def test_an_export_that_mlflow_does_not_know_or_that_cannot_reach_it_is_made_all_the_same(project, store, capfd):
    make_stage(project / "results/tiny/zero_rl", 0)
    assert cli.main(["export", "results/tiny/zero_rl/model", "copy"]) == 0
    assert capfd.readouterr().out.endswith("doesn't have this model, so its registry hasn't either\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(spool.URI, "http://ann:secret@127.0.0.1:1")
        assert cli.main(["export", "results/tiny/zero_rl/model", "copy", "--force"]) == 0
    said = capfd.readouterr().err
    assert said.startswith("not in MLflow's registry: ") and "secret" not in said and said.count("\n") == 1


def test_the_view_of_executions_finds_all_of_them_and_no_stage(project, store):
    """MLflow's page has a hundred runs; with stages among them these are four executions of the recipe."""
    begin(project)
    with stage("zero_rl") as run:
        run.log_metrics(1, {"reward": 0.5})
    runs = store()
    view = views.VIEWS["r1flow-scores"][2]["searchFilter"]
    found = store.client.search_runs([runs["tiny"].info.experiment_id], view)
    assert [each.info.run_name for each in found] == ["tiny"] and len(runs) == 2


def test_two_machines_may_make_the_experiment_at_once(project, store, monkeypatch):
    from r1flow.tracking import delivery

    store.client.create_experiment("r1flow")
    original, asked = type(store.client).get_experiment_by_name, []

    def too_early(self, name):
        asked.append(name)
        return original(self, name) if len(asked) > 1 else None

    monkeypatch.setattr(type(store.client), "get_experiment_by_name", too_early)
    delivery.experiment_of.cache_clear()
    begin(project)
    assert store()["tiny"].info.status == "RUNNING"


def test_files_that_a_later_run_has_replaced_are_not_shown_as_an_earlier_ones(project, store):
    begin(project)
    with stage("zero_rl") as run:
        run.finish({}, publish("zero_rl"))
    Path("results/tiny/zero_rl/manifest.json").write_text("another")
    found = store()["zero_rl"]
    assert store.client.list_artifacts(found.info.run_id) == [] and found.data.metrics["stage/seconds"] == 1.5
    assert store.client.search_logged_models([found.info.experiment_id]) == []


def test_an_execution_that_was_interrupted_is_killed_and_not_failed(project, store):
    begin(project)
    spool.end_execution("tiny", project, "KILLED", "interrupted; the same command goes on")
    assert store()["tiny"].info.status == "KILLED"


def test_a_data_set_has_the_rows_and_columns_of_its_files(project, store):
    begin(project)
    Path("data").mkdir()
    counts = {"rl.jsonl": {"read": 9, "kept": 7, "left_out": {"leak": 2}}, "dev.jsonl": {"read": 3, "kept": 3}}
    families = {"rl.jsonl": {"chain_sum": 4, "products": 3}}
    Path("data/metrics.json").write_text(json.dumps({"counts": counts, "families": families}))
    fields = {"question": "str: what the user asks", "rank": "int: from 1"}
    Path("data/schema.json").write_text(json.dumps({"rl.jsonl": {"rows": 7, "fields": fields}}))
    with stage("zero_rl", {"data": "ab" * 32, "other": "cd" * 32}, sources={"data": "data", "other": "nowhere"}):
        pass
    found = {each.dataset.name: each.dataset for each in store()["zero_rl"].inputs.dataset_inputs}
    data, other = found["data"], found["other"]
    of_family = {"rl.jsonl: chain_sum": 4, "rl.jsonl: products": 3}
    assert json.loads(data.profile) == {"num_rows": 10, "rl.jsonl": 7, "dev.jsonl": 3, **of_family}
    columns = [{"name": "rl.jsonl: question", "type": "str"}, {"name": "rl.jsonl: rank", "type": "int"}]
    assert json.loads(data.schema) == {"mlflow_colspec": columns} and not (other.profile or other.schema)


@pytest.mark.parametrize(
    "text",
    ["[1]", '{"counts": [2]}', '{"counts": {"a": 3}}', '{"counts": {}, "families": [1]}', "{", "\ud800", "[" * 9000],
)
def test_files_of_a_model_from_elsewhere_that_are_named_like_ours_stop_no_stage(project, text):
    for name in ("metrics.json", "schema.json"):
        Path(name).write_text(text, errors="surrogatepass")
    begin(project)
    with stage("zero_rl", {"model": "ab" * 32}, sources={"model": "."}) as run:
        assert run.spool


# -- system metrics ----------------------------------------------------------------------------------------------

SMI = """#!/bin/sh
echo "$@" > asked.txt
echo "91, 1000, 4000, 350.25"
echo "0, 10, 4000, [N/A]"
"""


def test_the_system_metrics_of_a_stage_are_those_of_its_own_gpus(project, monkeypatch):
    (project / "bin").mkdir()
    (project / "bin/nvidia-smi").write_text(SMI)
    (project / "bin/nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{project}/bin", prepend=":")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-7")
    found = system_metrics.gpus(timeout=60)
    expected = {
        "gpu_0_utilization_percentage": 91,
        "gpu_0_memory_usage_megabytes": 1048.576,
        "gpu_0_memory_usage_percentage": 25,
        "gpu_0_power_usage_watts": 350.25,
        "gpu_1_utilization_percentage": 0,
        "gpu_1_memory_usage_megabytes": 10.48576,
        "gpu_1_memory_usage_percentage": 0.25,
    }
    assert found == pytest.approx(expected)
    assert "--id=3,GPU-7" in (project / "asked.txt").read_text()
    (project / "asked.txt").unlink()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert system_metrics.gpus(timeout=60) == {} and not (project / "asked.txt").exists()


def test_a_stage_samples_its_machine_until_its_end(project, store, monkeypatch):
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.05")
    folder = begin(project)
    others = set(threading.enumerate())
    with stage("zero_rl") as run:
        while len([record for record in lines(folder, "zero_rl") if record["kind"] == "metrics"]) < 2:
            threading.Event().wait(0.01)
    assert lines(folder, "zero_rl")[-1]["kind"] == "end"
    for thread in set(threading.enumerate()) - others:
        thread.join(300)
        assert not thread.is_alive()
    metrics = store()["zero_rl"].data.metrics
    assert metrics["system/process_memory_megabytes"] > 1 and 0 < metrics["system/system_memory_usage_percentage"] < 100
    monkeypatch.setenv("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", "false")
    with stage("base") as run:
        assert run.sampling is None


@pytest.mark.parametrize(
    ("word", "seconds"), {"2.5": 2.5, "0.001": 0.05, "": 10, "10s": 10, "-1": 10, "0": 10, "nan": 10, "inf": 10}.items()
)
def test_an_interval_that_is_no_number_of_seconds_is_told(monkeypatch, capsys, word, seconds):
    monkeypatch.setenv(system_metrics.INTERVAL, word)
    assert system_metrics.every_s() == seconds
    told = f"{system_metrics.INTERVAL}={word} is no number of seconds; 10 is taken" in capsys.readouterr().err
    assert told == (word in ("10s", "-1", "0", "nan", "inf"))


CHILD = """
import sys, time
ballast = b"x" * (64 * 2**20)
while time.process_time() < 0.3:
    pass
print("done", flush=True)
sys.stdin.read()
"""


def test_what_a_stages_processes_use_counts_as_its_own():
    import psutil

    before = system_metrics.Used.now(psutil)
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"done\n"
        during = system_metrics.Used.now(psutil)
        child.communicate()
    after = system_metrics.Used.now(psutil)
    assert during.memory - before.memory > 60e6 and during.memory - after.memory > 60e6
    assert during.cpu_s - before.cpu_s > 0.25 and after.cpu_s - before.cpu_s > 0.25  # ended, it has used them still
    values = system_metrics.Used(12.0, 5.0, 3_000_000).since(system_metrics.Used(10.0, 2.0, 0))
    assert values == {"process_cpu_percentage": 150.0, "process_memory_megabytes": 3.0}


def test_a_short_stage_has_a_sample_of_its_end(project):
    folder = begin(project)
    with stage("zero_rl"):
        pass
    (sample,) = [record["values"] for record in lines(folder, "zero_rl") if record["kind"] == "metrics"]
    assert sample["system/process_memory_megabytes"] > 1 and sample["system/process_cpu_percentage"] >= 0
    assert "system/cpu_utilization_percentage" not in sample


def test_sampling_imports_neither_torch_nor_mlflow():
    code = "import sys; from r1flow.tracking.system_metrics import Sampling\n"
    code += "Sampling(print, 10).end(); assert not {'mlflow', 'torch'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "process_memory_megabytes" in done.stdout
