"""Runs on several machines and one tracking server: a real MLflow server on PostgreSQL, its protections on.

A "machine" is a process in a project folder of its own, with its delivery; its stages are processes, too.
"""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from ports import reserved

from r1flow.artifacts.manifest import sha256
from r1flow.tracking import spool

pytestmark = pytest.mark.slow
USER, PASSWORD = "admin", "p@ss/w0rd of the server"
STAGES = ("base", "zero_rl")
STEPS, KEYS = 400, 5
PATIENT = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "600"}  # with a server on a busy machine
SPAWN = multiprocessing.get_context("spawn")
AUTH = """[mlflow]
default_permission = READ
database_uri = {database}
admin_username = admin
auth_cache_ttl_seconds = 60
authorization_function = mlflow.server.auth:authenticate_request_basic_auth
"""


def until(happened: Callable[[], Any], what: str) -> None:
    for _ in range(6000):
        if happened():
            return
        time.sleep(0.1)
    pytest.fail(f"not in ten minutes: {what}")


# -- the server --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """The address of an empty PostgreSQL, reached through a socket in a folder that others can't enter."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs or not shutil.which("setpriv"):
        pytest.skip("no PostgreSQL here; Debian's package is postgresql")
    pytest.importorskip("psycopg2", reason="needs pip install -e .[test]")
    pytest.importorskip("flask_wtf", reason="needs pip install -e .[test]")
    folder = Path(tempfile.mkdtemp(prefix="r1flow-pg-"))
    other = []
    if os.getuid() == 0:  # which PostgreSQL refuses
        shutil.chown(folder, "nobody")
        other = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
    make = [programs[-1] / "initdb", "--username=mlflow", "--auth=trust", "--no-sync", "--pgdata", folder / "db"]
    subprocess.run([*other, *make], check=True, capture_output=True, cwd="/")
    serve = [programs[-1] / "postgres", "-D", folder / "db", "-c", "listen_addresses=", "-c", "fsync=off"]
    with (folder / "log").open("w") as log:
        words = [*(other or ["setpriv"]), "--pdeathsig=INT", *serve, "-c", f"unix_socket_directories={folder}"]
        server = subprocess.Popen(words, stdout=log, stderr=log, cwd="/")
    try:
        until(lambda: "ready to accept" in (folder / "log").read_text(), "PostgreSQL is ready")
        subprocess.run([programs[-1] / "createdb", "-h", folder, "-U", "mlflow", "users"], check=True)
        yield f"postgresql://mlflow@/postgres?host={folder}"
    finally:
        server.send_signal(signal.SIGINT)  # "fast": clients are cut off
        server.wait(300)
        shutil.rmtree(folder)


@dataclass
class Server:
    """mlflow server as a lab would start it: basic authentication, allowed hosts and origins as they come."""

    folder: Path
    database: str
    port: int
    process: subprocess.Popen | None = None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def uri_with_password(self) -> str:
        return f"http://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}"

    def start(self) -> None:
        (self.folder / "auth.ini").write_text(AUTH.format(database=self.database.replace("/postgres?", "/users?")))
        own = {
            "MLFLOW_AUTH_CONFIG_PATH": str(self.folder / "auth.ini"),
            "MLFLOW_AUTH_ADMIN_PASSWORD": PASSWORD,
            "MLFLOW_FLASK_SERVER_SECRET_KEY": "any",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_DISABLE_TELEMETRY": "true",
        }
        words = f"-m mlflow server --app-name basic-auth --host 127.0.0.1 --port {self.port} --workers 2"
        stores = ["--backend-store-uri", self.database, "--artifacts-destination", self.folder / "artifacts"]
        stores += ["--uvicorn-opts", "--timeout-worker-healthcheck 600 --timeout-keep-alive 600"]  # it cuts nobody off
        others = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW")}
        with (self.folder / "server.log").open("a") as log:
            command = ["setpriv", "--pdeathsig=TERM", sys.executable, *words.split(), *stores]
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.folder, env=others | own, start_new_session=True
            )
        until(self.is_up, f"the server answers; {self.folder}/server.log")

    def is_up(self) -> bool:
        try:
            return httpx.get(f"{self.uri}/health", trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        """As when its machine loses power."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def runs(self) -> dict[str, list[Any]]:
        """All runs on it, by name."""
        found: dict[str, list[Any]] = {}
        experiment = self.client.get_experiment_by_name("r1flow")  # there is none before the first run
        for run in self.client.search_runs([experiment.experiment_id]) if experiment else ():
            found.setdefault(run.info.run_name, []).append(run)
        return found

    @property
    def client(self) -> Any:
        import mlflow

        return mlflow.MlflowClient(self.uri)


@pytest.fixture(scope="module")
def server(database, tmp_path_factory) -> Iterator[Server]:
    with reserved() as port, pytest.MonkeyPatch.context() as patch:  # for this process's own questions
        found = Server(tmp_path_factory.mktemp("server"), database, port)
        patch.setenv(spool.USER, USER)
        patch.setenv(spool.PASSWORD, PASSWORD)
        for name, value in {**PATIENT, "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}.items():
            patch.setenv(name, value)
        found.start()
        yield found
        found.kill()


# -- the machines ------------------------------------------------------------------------------------------------


def stage(name: str, which: str) -> None:
    """Half of its records, then, when the test says so, the other half."""
    out = Path("results", name, which)
    (out / "model").mkdir(parents=True)
    (out / "manifest.json").write_text(json.dumps({"stage": which, "run": name}))
    (out / "environment.txt").write_text(repr(os.environ))
    config = {"seed": 1, "trainer": {"learning_rate": 1.0e-4}}
    with spool.StageRun(name, which, config, {"inputs": {"data": sha256(out / "manifest.json")}}) as run:
        for step in range(STEPS):
            if step == STEPS // 2:
                until(Path("go").exists, "the test says go")
            run.log_metrics(step, {f"key_{key}": step + key / 10 for key in range(KEYS)})
            if step % 100 == 99:
                run.log_table("completions", [{"step": step, "text": f"{which} says {step}"}])
        until(lambda: '"system/' in Path(run.spool.file.name).read_text(), "a system metric")
        run.finish({"rows": STEPS}, out)


def machine(folder: Path, name: str, environment: dict[str, str], wait_s: float) -> None:
    os.chdir(folder)
    os.environ |= environment | PATIENT | {"MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL": "0.1"}
    spool.END_WAIT_S = wait_s
    spool.start_execution(name, folder, {"experiment": "r1_tiny"}, {"seed": 1, "run": name})
    delivery = spool._executions[name].delivery
    stages = [SPAWN.Process(target=stage, args=(name, which)) for which in STAGES]
    for process in stages:
        process.start()
    for process in stages:
        process.join()
    good = all(process.exitcode == 0 for process in stages)
    spool.end_execution(name, folder, "FINISHED" if good else "FAILED")
    delivery.wait()  # what the run leaves to it in the background; while it is there, no other delivers


@contextmanager
def machines(folders: list[Path], environment: dict[str, str], wait_s: float = 120) -> Iterator[None]:
    """Both at work until their stages ask to go on; what happens in the block happens before that."""
    clean = {name: "" for name in (spool.URI, spool.USER, spool.PASSWORD, spool.TOKEN)}
    started = []
    for folder in folders:
        folder.mkdir()
        words = (folder, folder.name, clean | environment, wait_s)
        started.append(SPAWN.Process(target=machine, args=words))
        started[-1].start()
    try:
        yield
    finally:
        for folder in folders:
            (folder / "go").touch()
        for process in started:
            process.join()
    assert not any(process.exitcode for process in started)


def delivered_bytes(folder: Path) -> int:
    """How far the records of the stages were brought to the server by now."""
    ledgers = list((folder / spool.TRACKING).glob("*/delivered.json"))
    return sum(json.loads(path.read_text())["offsets"].get(which, 0) for path in ledgers for which in STAGES)


def left(folder: Path) -> list[Path]:
    return list((folder / spool.TRACKING).glob("*/"))


def deliver(folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """`r1flow deliver` there: its exit code and what it says."""
    (folder / "Snakefile").touch()
    command = [sys.executable, "-m", "r1flow.commands.cli", "deliver"]
    others = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW")}
    done = subprocess.run(command, cwd=folder, env=others | environment | PATIENT, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def assert_whole_and_once(server: Server, names: list[str]) -> None:
    """A parent run and a run of each stage for every machine, with each record of theirs once."""
    client, runs = server.client, server.runs()
    parents = {name: runs[name] for name in names}
    assert [len(found) for found in parents.values()] == [1] * len(names)
    for name, [parent] in parents.items():
        everyone = [run for found in runs.values() for run in found]
        children = [run for run in everyone if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
        assert sorted(run.info.run_name for run in children) == sorted(f"{stage} · {name}" for stage in STAGES)
        assert {run.info.status for run in [parent, *children]} == {"FINISHED"}
        assert parent.data.params == {"experiment": "r1_tiny"} and parent.data.tags["run"] == name
        for run in children:
            assert_stage_is_whole(client, run)


def assert_stage_is_whole(client: Any, run: Any) -> None:
    for key in range(KEYS):
        history = client.get_metric_history(run.info.run_id, f"curve/key_{key}")
        points = sorted((point.step, point.value) for point in history)
        assert points == [(step, step + key / 10) for step in range(STEPS)]
    assert run.data.params == {"seed": "1", "trainer.learning_rate": "0.0001"}
    assert run.data.metrics["stage/rows"] == STEPS
    assert run.data.metrics["system/system_memory_usage_megabytes"] > 0
    assert [used.dataset.name for used in run.inputs.dataset_inputs] == ["data"]
    path = client.download_artifacts(run.info.run_id, "completions.json")
    rows = json.loads(Path(path).read_text())["data"]
    assert rows == [[step, f"{run.data.tags['stage']} says {step}"] for step in range(99, STEPS, 100)]
    models = client.search_logged_models([run.info.experiment_id], f"source_run_id = '{run.info.run_id}'")
    assert [model.name for model in models] == [f"{run.data.tags['run']}-{run.data.tags['stage']}"]


def files_with(folder: Path, word: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]


# -- what holds --------------------------------------------------------------------------------------------------


def test_the_server_refuses_strangers(server):
    """What the other tests show, they show with this on."""
    url, known = f"{server.uri}/api/2.0/mlflow/experiments/search?max_results=1", (USER, PASSWORD)
    ask = httpx.Client(trust_env=False, timeout=600)
    assert ask.get(url, auth=known).status_code == 200
    assert ask.get(url).status_code == 401
    assert ask.get(url, auth=known, headers={"Host": "elsewhere.example"}).status_code == 403
    make, origin = f"{server.uri}/api/2.0/mlflow/experiments/create", {"Origin": "http://elsewhere.example"}
    assert ask.post(make, auth=known, headers=origin, json={"name": "x"}).status_code == 403


def test_two_runs_of_two_stages_log_at_once_and_each_record_arrives_once(server, tmp_path):
    folders = [tmp_path / "lab-1", tmp_path / "lab-2"]
    with machines(folders, {spool.URI: server.uri_with_password}):
        for folder in folders:
            until(lambda folder=folder: delivered_bytes(folder), "records arrive while the run goes on")
    assert not [path for folder in folders for path in left(folder)]
    assert_whole_and_once(server, ["lab-1", "lab-2"])
    for secret in (PASSWORD, quote(PASSWORD, safe="")):
        assert not files_with(tmp_path, secret) and not files_with(server.folder / "artifacts", secret)


def test_a_server_that_dies_under_its_load_gets_the_rest_later_and_nothing_twice(server, tmp_path):
    folders = [tmp_path / "away-1", tmp_path / "away-2"]
    environment = {spool.URI: server.uri, spool.USER: USER, spool.PASSWORD: PASSWORD}
    try:
        with machines(folders, environment, wait_s=1):
            until(lambda: all(map(delivered_bytes, folders)), "both have begun to deliver")
            server.kill()
        assert all(len(left(folder)) == 1 for folder in folders)
    finally:
        server.start()
    with ThreadPoolExecutor() as both:
        assert list(both.map(lambda folder: deliver(folder, environment), folders)) == [(0, "")] * 2
    assert not [path for folder in folders for path in left(folder)]
    assert_whole_and_once(server, ["away-1", "away-2"])
    assert not files_with(tmp_path, PASSWORD)


def test_records_wait_for_the_right_password_and_for_their_own_server(server, tmp_path):
    wrong = "not the passw0rd"
    folder, [secret, guess] = tmp_path / "door", [quote(PASSWORD, safe=""), quote(wrong)]
    with machines([folder], {spool.URI: server.uri_with_password.replace(secret, guess)}, wait_s=1):
        pass
    assert "door" not in server.runs()
    other = {spool.URI: "http://127.0.0.1:1", spool.USER: USER, spool.PASSWORD: PASSWORD}
    code, message = deliver(folder, other)
    assert code == 1 and "set MLFLOW_TRACKING_URI to that address" in message
    code, message = deliver(folder, {spool.URI: server.uri_with_password.replace(secret, guess)})
    assert code == 1 and "401" in message and wrong not in message and guess not in message
    assert deliver(folder, {spool.URI: server.uri_with_password}) == (0, "")
    assert_whole_and_once(server, ["door"])
    assert not [path for word in (wrong, guess, PASSWORD, secret) for path in files_with(tmp_path, word)]
