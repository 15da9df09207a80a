"""Tracking: what stages write, how it reaches MLflow, and that nothing of it can hurt a run."""

import json
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from r1flow import tracking
from r1flow.manifest import sha256
from r1flow.tracking import StageRun

CONFIG = {"seed": 1, "zero_rl": {"trainer": {"learning_rate": 1.0e-4, "betas": [0.9, 0.99]}, "note": "x" * 9000}}


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """An empty project; deliveries are made by the test, not by a process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr(tracking, "_warned", False)
    monkeypatch.setattr(tracking.Execution, "start_delivery", lambda self, root: subprocess.Popen(["true"]))
    return tmp_path


def begin(root: Path) -> Path:
    tracking.start_execution("tiny", root, {"experiment": "r1_tiny"}, CONFIG)
    return tracking._executions["tiny"].folder


def stage(name: str, inputs: dict[str, str] | None = None) -> StageRun:
    return StageRun("tiny", name, CONFIG.get(name, {}), {"inputs": inputs or {}})


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
    code = "import sys, r1flow.tracking; assert 'mlflow' not in sys.modules and 'torch' not in sys.modules"
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


def test_only_numbers_become_metrics():
    numpy = pytest.importorskip("numpy")
    values = {"a": 1, "b": numpy.float32(0.5), "c": None, "d": "0.5", "e": [1], "f": True}
    assert tracking.numbers(values) == {"a": 1.0, "b": 0.5, "f": 1.0}


def test_a_failure_of_tracking_is_one_line_and_stops_nothing(project, capsys):
    (project / "scratch").write_text("a file where a folder should be")
    tracking.start_execution("tiny", project, {}, CONFIG)
    with stage("zero_rl") as run:
        run.log_metrics(1, {"reward": 0.5})
        run.finish({}, publish("zero_rl"))
    tracking.end_execution("tiny", project, "FINISHED")
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_what_json_cannot_hold_is_no_failure(project):
    folder = begin(project)
    with stage("zero_rl") as run:
        run.log_table("samples", [{"path": Path("x"), "value": float("nan")}])
    assert lines(folder, "zero_rl")[1]["rows"][0]["path"] == "x"


# -- the delivery, to a real store -------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def fresh_store(tmp_path_factory) -> Path:
    """An empty SQLite store; making one takes 2 s, copying it none."""
    from r1flow.delivery import client_of

    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    client_of(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def store(project, fresh_store):
    """The project's store, empty; a function that delivers and returns the runs by name."""
    from r1flow.delivery import client_of, deliver_all

    (project / "mlflow.db").write_bytes(fresh_store.read_bytes())
    client = client_of(f"sqlite:///{project}/mlflow.db")

    def delivered() -> dict:
        assert deliver_all(tracking.TRACKING)
        experiment = client.get_experiment_by_name("r1flow")
        return {
            run.info.run_name: client.get_run(run.info.run_id) for run in client.search_runs(experiment.experiment_id)
        }

    delivered.client = client
    return delivered


def whole_run() -> None:
    with stage("data") as run:
        run.finish({"rows": 7}, publish("data", model=False))
    data = sha256(Path("results/tiny/data/manifest.json"))
    with stage("zero_rl", {"data": data}) as run:
        for step in range(1, 1203):
            run.log_metrics(step, {"reward": step / 10, "odd@name//x": 0.5})
        run.finish({"rows": 9, "history": []}, publish("zero_rl"))
    with stage("evaluate/zero_rl", {"data": data, "model": sha256(Path("results/tiny/zero_rl/manifest.json"))}) as run:
        run.log_metrics(0, {"eval/reasoning/pass_at_1": 0.61, "eval/chain_sum/se": 0.01})
        run.log_table("samples", [{"question": "8 + 16?", "correct": True}])
    with stage("report") as run:
        run.finish({"claims": {"C1": "reproduced"}}, publish("report", model=False))


@dataclass
class Finished:
    """A whole execution in MLflow, brought there by the delivery process."""

    root: Path
    client: Any
    runs: dict[str, Any]


@pytest.fixture(scope="module")
def finished(tmp_path_factory, fresh_store) -> Finished:
    from r1flow.delivery import client_of

    root = tmp_path_factory.mktemp("finished")
    (root / "mlflow.db").write_bytes(fresh_store.read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.setattr(tracking, "END_WAIT_S", 60)
        tracking.start_execution("tiny", root, {"experiment": "r1_tiny"}, CONFIG)
        whole_run()
        tracking.end_execution("tiny", root, "FINISHED")
    client = client_of(f"sqlite:///{root}/mlflow.db")
    found = client.search_runs(client.get_experiment_by_name("r1flow").experiment_id)
    return Finished(root, client, {run.info.run_name: client.get_run(run.info.run_id) for run in found})


def test_an_execution_is_a_parent_run_and_its_stages_are_child_runs(finished):
    assert set(finished.runs) == {"tiny", "data", "zero_rl", "evaluate/zero_rl", "report"}
    assert {run.info.status for run in finished.runs.values()} == {"FINISHED"}
    parents = {name: run.data.tags.get("mlflow.parentRunId") for name, run in finished.runs.items()}
    assert parents.pop("tiny") is None and set(parents.values()) == {finished.runs["tiny"].info.run_id}


def test_configuration_becomes_params_and_long_values_are_cut(finished):
    assert finished.runs["zero_rl"].data.params["trainer.learning_rate"] == "0.0001"
    assert finished.runs["tiny"].data.params["zero_rl.trainer.learning_rate"] == "0.0001"
    assert finished.runs["zero_rl"].data.params["trainer.betas"] == "[0.9, 0.99]"
    assert len(finished.runs["zero_rl"].data.params["note"]) == 6000


def test_every_step_of_a_curve_arrives(finished):
    history = finished.client.get_metric_history(finished.runs["zero_rl"].info.run_id, "curve/reward")
    assert [(point.step, point.value) for point in history] == [(step, step / 10) for step in range(1, 1203)]
    assert finished.runs["zero_rl"].data.metrics["curve/odd_name/x"] == 0.5
    assert (
        finished.runs["zero_rl"].data.metrics["stage/seconds"] == 1.5
        and finished.runs["zero_rl"].data.metrics["stage/rows"] == 9
    )


def test_data_is_linked_by_a_digest_and_models_by_reference(finished):
    [data] = finished.runs["zero_rl"].inputs.dataset_inputs
    assert data.dataset.name == "data" and len(data.dataset.digest) == 36
    [model] = finished.client.search_logged_models([finished.runs["zero_rl"].info.experiment_id])
    assert (
        model.tags["path"] == "results/tiny/zero_rl/model"
        and model.source_run_id == finished.runs["zero_rl"].info.run_id
    )
    assert [used.model_id for used in finished.runs["evaluate/zero_rl"].inputs.model_inputs] == [model.model_id]


def test_an_evaluation_shows_on_the_model_on_its_stage_and_on_the_execution(finished):
    [model] = finished.client.search_logged_models([finished.runs["zero_rl"].info.experiment_id])
    assert {metric.key: metric.value for metric in model.metrics}["eval/reasoning/pass_at_1"] == 0.61
    for name in ("zero_rl", "evaluate/zero_rl"):
        assert finished.runs[name].data.metrics["eval/reasoning/pass_at_1"] == 0.61
    assert finished.runs["tiny"].data.metrics["eval/zero_rl/reasoning/pass_at_1"] == 0.61
    assert finished.runs["tiny"].data.tags["claims.C1"] == "reproduced"


def test_tables_and_small_files_are_artifacts_in_the_project(finished):
    names = [item.path for item in finished.client.list_artifacts(finished.runs["evaluate/zero_rl"].info.run_id)]
    assert names == ["samples.json"]
    assert list(finished.root.glob("mlruns/*/artifacts/config.yaml"))


def test_nothing_is_left_once_all_is_delivered(finished):
    assert not list((finished.root / tracking.TRACKING).glob("*/"))


def test_a_run_is_delivered_while_it_goes_on_and_nothing_twice(project, store):
    folder = begin(project)
    with stage("zero_rl") as run:
        run.log_metrics(1, {"reward": 0.5})
        assert store()["zero_rl"].info.status == "RUNNING"
        run.log_metrics(2, {"reward": 0.6})
        runs = store()
    assert len(store.client.get_metric_history(runs["zero_rl"].info.run_id, "curve/reward")) == 2
    assert len(store()) == 2 and folder.exists()
    tracking.end_execution("tiny", project, "FAILED")
    assert store()["tiny"].info.status == "FAILED" and not folder.exists()


def test_writers_that_died_without_a_word_are_killed_and_the_living_are_not(project, store):
    begin(project)
    with stage("base"):
        dead = stage("zero_rl").__enter__()
        dead.spool.close()
        runs = store()
        assert (runs["zero_rl"].info.status, runs["base"].info.status) == ("KILLED", "RUNNING")
        tracking._executions.pop("tiny").spool.close()  # as after kill -9
        runs = store()
        assert (runs["tiny"].info.status, runs["base"].info.status) == ("KILLED", "RUNNING")
    assert store()["base"].info.status == "FINISHED"


def test_a_second_attempt_of_a_stage_is_a_run_of_its_own(project, store, monkeypatch):
    folder = begin(project)
    for attempt in range(2):
        monkeypatch.setattr(tracking, "now_ms", lambda attempt=attempt: attempt)
        stage("zero_rl").__enter__().spool.close()
    assert len([record for record in lines(folder, "zero_rl") if record["kind"] == "start"]) == 2
    store()
    runs = store.client.search_runs(store.client.get_experiment_by_name("r1flow").experiment_id)
    assert sorted(run.info.run_name for run in runs) == ["tiny", "zero_rl", "zero_rl"]


@pytest.mark.parametrize("moment", ["create_run", "log_batch", "save"])
def test_a_delivery_killed_between_the_store_and_its_ledger_delivers_nothing_twice(project, store, monkeypatch, moment):
    from r1flow import delivery

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
            delivery.deliver_all(tracking.TRACKING)
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


def test_what_mlflow_refuses_is_dropped_and_the_rest_arrives(project, store):
    begin(project)
    with stage("zero_rl") as run:
        run.append("tag", key="", value="x" * 100_000)
        run.log_metrics(1, {"reward": 0.5})
        assert store()["zero_rl"].data.metrics == {"curve/reward": 0.5}


def test_records_outlive_an_unreachable_store_and_arrive_later(project, store, monkeypatch):
    from r1flow.delivery import deliver_all

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{project}/away/mlflow.db")
    (project / "away").write_text("not a folder yet")
    folder = begin(project)
    whole_run()
    tracking.end_execution("tiny", project, "FINISHED")
    assert not deliver_all(tracking.TRACKING) and folder.exists()
    (project / "away").unlink()
    (project / "away").mkdir()
    (project / "away/mlflow.db").write_bytes((project / "mlflow.db").read_bytes())
    assert deliver_all(tracking.TRACKING) and not folder.exists()
