"""What a server sends is bounded, whichever client reads it; a server doesn't choose where files are written here."""

import gzip
import json
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from fake_server import FakeServer, Reply, says

from r1flow.core import servers
from r1flow.core.endpoint import Endpoint
from r1flow.training import rollout_server

BOMB = bytes(servers.LARGEST_REPLY + 1)
TOO_MUCH = {
    "plain": Reply(body=BOMB),
    "gzip": Reply(body=gzip.compress(BOMB), headers={"Content-Encoding": "gzip"}),
    "two layers": Reply(body=gzip.compress(gzip.compress(BOMB)), headers={"Content-Encoding": "gzip, gzip"}),
    "not asked for": Reply(body=zlib.compress(b"{}"), headers={"Content-Encoding": "deflate"}),
    "no gzip": Reply(body=b"{}", headers={"Content-Encoding": "gzip"}),
}
FOREIGN = "text/html; charset=utf-16"  # there are charsets that take minutes to decode (idna)


@contextmanager
def dripping(start: bytes) -> Iterator[str]:
    """The address of a server that sends `start`, and then a byte now and then for ever: a time limit starts again."""
    over, listening = threading.Event(), socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            connection, _ = listening.accept()
            connection.sendall(start)
            while not over.wait(0.02):
                connection.sendall(b"x")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        over.set()
        listening.close()
        thread.join()


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch):
    """The library with which MLflow's client asks, as the delivery has it."""
    requests = pytest.importorskip("requests")
    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", requests.adapters.HTTPAdapter.send)  # is put back
    servers.bound_requests()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return requests


@pytest.mark.parametrize("reply", TOO_MUCH.values(), ids=TOO_MUCH)
def test_no_client_reads_more_than_its_bytes_or_unpacks_what_it_did_not_ask_for(reply: Reply, requests) -> None:
    with FakeServer(answer=lambda body: reply) as server:
        assert Endpoint(server.url, attempts=1).ask([{}], read=len) == [None]
        assert rollout_server.reply(server.url, 60) is None
        with pytest.raises(requests.exceptions.ContentDecodingError):
            requests.get(server.url)
    assert {headers["Accept-Encoding"] for _, headers in server.requests} == {"gzip"}


def test_a_verdict_may_have_a_megabyte_and_a_sample_more() -> None:
    long = says("x" * (servers.LARGEST_VERDICT + 1))
    with FakeServer(answer=lambda body: long) as server:
        assert Endpoint(server.url, attempts=1, most_bytes=servers.LARGEST_VERDICT).ask([{}], read=len) == [None]
        assert Endpoint(server.url, attempts=1).ask([{}], read=len) == [servers.LARGEST_VERDICT + 1]


def test_an_honest_reply_is_read_whatever_charset_it_names(requests) -> None:
    packed = gzip.compress(says("é" * 1000).body)
    reply = Reply(body=packed, headers={"Content-Encoding": "gzip", "Content-Type": FOREIGN})
    with FakeServer(answer=lambda body: reply) as server:
        assert Endpoint(server.url).ask([{}], read=len) == [1000]
        assert json.loads(rollout_server.reply(server.url, 60)[1])["object"] == "chat.completion"
        assert json.loads(requests.get(server.url).text)["object"] == "chat.completion"


@pytest.mark.parametrize("start", [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n"])
def test_time_is_counted_by_the_clock_and_not_from_byte_to_byte(start: bytes, requests, monkeypatch) -> None:
    monkeypatch.setattr(servers, "PATIENCE", 0.05)
    began = time.monotonic()
    with dripping(start) as url:
        assert Endpoint(url, timeout_s=0.5, attempts=1).ask([{}], read=len) == [None]
    with dripping(start) as url:
        assert rollout_server.reply(url, 0.5) is None
    with dripping(start) as url, pytest.raises(requests.exceptions.Timeout):
        requests.get(url, timeout=10)
    assert time.monotonic() - began < 30


# -- where a server's artifacts go ---------------------------------------------------------------------------------

SERVER = "https://mlflow.lab:5000"


@pytest.mark.parametrize(
    ("artifacts", "key", "refused"),
    [
        ("mlflow-artifacts:/1/run/artifacts", "k", False),
        ("mlflow-artifacts://mlflow.lab:5001/1", "k", False),
        ("https://mlflow.lab/artifacts", "k", False),
        ("http://artifacts.lab/1", "", False),
        ("http://artifacts.lab/1", "k", True),
        ("mlflow-artifacts://artifacts.lab:80/1", "k", True),
        ("file:///home/ann", "", True),
        ("/home/ann", "", True),
        ("home/ann", "", True),
        ("FILE:///home/ann", "", True),
        ("s3://bucket/1", "", True),
        ("ftp://host/1", "", True),
        ("runs:/1/a", "", True),
    ],
)
def test_a_server_names_servers_only(artifacts: str, key: str, refused: bool, monkeypatch) -> None:
    mlflow_client = pytest.importorskip("r1flow.tracking.mlflow_client")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", key)
    mlflow_client.check_artifacts(artifacts, "sqlite:///mlflow.db")
    if refused:
        with pytest.raises(mlflow_client.MlflowException, match=r"^https://mlflow\.lab:5000 keeps its artifacts at"):
            mlflow_client.check_artifacts(artifacts, SERVER)
    else:
        mlflow_client.check_artifacts(artifacts, SERVER)


def test_nothing_is_written_where_a_server_says_that_artifacts_are(tmp_path, monkeypatch) -> None:
    mlflow_client = pytest.importorskip("r1flow.tracking.mlflow_client")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    info = {"run_id": "1", "run_uuid": "1", "experiment_id": "1", "status": "RUNNING"}
    info |= {"artifact_uri": (tmp_path / "home").as_uri(), "lifecycle_stage": "active"}
    location = {"info": {"model_id": "m-1", "artifact_uri": info["artifact_uri"], "status": "LOGGED_MODEL_READY"}}
    said = json.dumps({"run": {"info": info, "data": {}}, "model": location}).encode()
    with FakeServer(answer=lambda body: Reply(body=said)) as server:
        client = mlflow_client.client_of(server.url.removesuffix("/v1"))
        with pytest.raises(mlflow_client.MlflowException, match="keeps its artifacts at file:///"):
            client.log_text("1", "ssh-rsa AAAA", "authorized_keys")
        (tmp_path / "MLmodel").touch()
        with pytest.raises(mlflow_client.MlflowException, match="keeps its artifacts at file:///"):
            client.log_model_artifacts("m-1", str(tmp_path))
    assert not (tmp_path / "home").exists()
