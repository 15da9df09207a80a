"""The server that vLLM's rollouts come from: its address, what is refused before training, and its command."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from fake_server import BUSY, DRIPPING, FakeServer, Reply
from tiny_weights import write_zeros

from r1flow.commands import cli
from r1flow.core.errors import UserError
from r1flow.core.servers import LARGEST_REPLY
from r1flow.training import rollout_server
from r1flow.training.rollout_server import ADDRESS, find_server

SCRIPT = Path("profiles/slurm/rollout-server.sbatch").resolve()
SHAPE = {"architectures": ["Qwen2ForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2, "eos_token_id": 7}


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ADDRESS, raising=False)
    monkeypatch.setenv("VLLM_HOST_IP", "")  # so that what `find` sets is undone
    monkeypatch.delenv("VLLM_HOST_IP")
    monkeypatch.setattr(rollout_server, "PAUSE_S", 0.0)
    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", requests.adapters.HTTPAdapter.send)  # is put back
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def model(folder: Path, **changes: Any) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(SHAPE | changes))
    write_zeros(folder / "model.safetensors", a=[64], b=[1])
    return folder


def served(folder: Path, **changes: Any) -> Callable[[Any], Reply]:
    """What vLLM says of itself with this model loaded (0.31), as far as it is read."""
    about = {
        "model_config": {"model": str(folder), "logprobs_mode": "processed_logprobs"},
        "weight_transfer_config": {"backend": "nccl"},
    }
    body = json.dumps({"vllm_config": about | changes}).encode()
    return lambda request: Reply(body=body)


def root(server: FakeServer) -> str:
    return server.url.removesuffix("/v1")


def test_a_server_with_the_stages_model_is_taken_and_the_weights_stay_on_this_machine(tmp_path, monkeypatch) -> None:
    folder = model(tmp_path / "model")
    with FakeServer(answer=served(folder)) as server:
        monkeypatch.setenv(ADDRESS, f"{root(server)}/")
        assert find_server(folder, None, 0, print) == root(server)
        assert [path for path, _ in server.requests] == ["/health", "/server_info?config_format=json"]
    assert os.environ["VLLM_HOST_IP"] == "127.0.0.1"


def test_a_stage_waits_for_a_server_that_is_loading_and_says_so_once(tmp_path) -> None:
    folder, said = model(tmp_path / "model"), []
    with FakeServer(script=[BUSY, BUSY], answer=served(folder)) as server:
        assert find_server(folder, root(server), 600, said.append) == root(server)
        assert said == [f"waiting for vLLM's server at {root(server)}"]


def test_an_address_in_a_file_is_read_when_it_is_there(tmp_path, monkeypatch) -> None:
    folder, place = model(tmp_path / "model"), tmp_path / "rollout.url"
    monkeypatch.setenv(ADDRESS, str(place))
    with FakeServer(answer=served(folder)) as server:
        assert find_server(folder, None, 600, lambda line: place.write_text(f"{root(server)}\n")) == root(server)


def test_the_configs_address_wins(tmp_path, monkeypatch) -> None:
    folder = model(tmp_path / "model")
    monkeypatch.setenv(ADDRESS, "http://127.0.0.1:1")
    with FakeServer(answer=served(folder)) as server:
        assert find_server(folder, root(server), 0, print) == root(server)


@pytest.mark.parametrize(
    ("address", "named"),
    [
        ("", f"no server is named; set {ADDRESS}"),
        ("127.0.0.1:8000", "isn't an address"),
        ("http://[::1", "isn't an address"),
        ("http://127.0.0.1:abc", "isn't an address"),
        ("http://127.0.0.1:99999", "isn't an address"),
        ("http://127.0.0.1:8000/v1", r"isn't an address .*without /v1"),
        ("http://me:hunter2@127.0.0.1:8000", rf"^{ADDRESS}: its value isn't an address .*without .* user or key"),
        ("http://127.0.0.1:8000?api_key=hunter2", rf"^{ADDRESS}: its value isn't an address"),
        ("http://127.0.0.1:1", r"no vLLM server answers at http://127.0.0.1:1 after 0 s; start it with"),
        ("nowhere.url", "no vLLM server answers at nowhere.url"),
    ],
)
def test_without_a_server_a_stage_ends_in_one_line(tmp_path, monkeypatch, address, named) -> None:
    monkeypatch.setenv(ADDRESS, address)
    with pytest.raises(UserError, match=named):
        find_server(model(tmp_path / "model"), None, 0, lambda line: None)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"weight_transfer_config": None}, "can't receive new weights"),
        ({"weight_transfer_config": {"backend": "ipc"}}, "can't receive new weights"),
        ({"model_config": {"logprobs_mode": "raw_logprobs"}}, "returns raw_logprobs"),
        ({"model_config": None}, "isn't a server for rollouts"),
        ({"weight_transfer_config": ["nccl"]}, "can't receive new weights"),
        ({"model_config": {"logprobs_mode": "a\nb" * 9000}}, r"returns (a|b| )+, not processed"),
        ({"model_config": {"logprobs_mode": "processed_logprobs", "model": "\0"}}, "whose shape"),
        ({"model_config": {"logprobs_mode": "processed_logprobs", "model": "\ud800"}}, "whose shape"),
        ({"model_config": {"logprobs_mode": "processed_logprobs", "model": "a" * 10**6}}, "serves a+, whose shape"),
    ],
)
def test_a_server_that_was_started_otherwise_is_refused(tmp_path, changes, named) -> None:
    folder = model(tmp_path / "model")
    with FakeServer(answer=served(folder, **changes)) as server, pytest.raises(UserError, match=named) as refused:
        find_server(folder, root(server), 0, print)
    assert len(str(refused.value)) < 1000 and "\n" not in str(refused.value)


@pytest.mark.parametrize("file", ["[]", "[" * 9000, '{"eos_token_id": [1, "a"]}'])
def test_a_servers_model_whose_settings_are_odd_is_another(tmp_path, file) -> None:
    ours, theirs = model(tmp_path / "ours"), model(tmp_path / "theirs")
    (theirs / "generation_config.json").write_text(file)
    (theirs / "config.json").write_text(file)
    with FakeServer(answer=served(theirs)) as server, pytest.raises(UserError, match="whose shape"):
        find_server(ours, root(server), 0, print)


@pytest.mark.parametrize("reply", [Reply(404), Reply(body=b"[]"), Reply(body=b"<html>")])
def test_what_is_no_server_of_vllms_is_refused(tmp_path, reply) -> None:
    """A server without vLLM's development mode answers 404."""
    refused = pytest.raises(UserError, match="isn't a server for rollouts; start one with")
    with FakeServer(script=[Reply()], answer=lambda request: reply) as server, refused:  # the script: /health's
        find_server(model(tmp_path / "model"), root(server), 0, print)


def test_a_reply_of_no_bounds_is_not_read_to_its_end(tmp_path) -> None:
    folder = model(tmp_path / "model")
    answer = served(folder)(None)
    padded = Reply(body=answer.body + b" " * LARGEST_REPLY)  # JSON still
    refused = pytest.raises(UserError, match="isn't a server for rollouts; start one with")
    with FakeServer(script=[Reply()], answer=lambda request: padded) as server, refused:
        find_server(folder, root(server), 0, print)
    with FakeServer(answer=lambda request: DRIPPING) as server:
        assert rollout_server.reply(root(server), 0.2) is None


def test_trls_client_reads_no_more_than_what_it_asked_for_can_take(tmp_path, monkeypatch) -> None:
    """It asks through requests; the completions of a step come in one reply."""
    folder = model(tmp_path / "model")
    with FakeServer(answer=served(folder)) as server:
        find_server(folder, root(server), 0, print)
    asked = {"model": "m", "prompt": [[1], [2]], "n": 8, "max_tokens": 100}
    with FakeServer(answer=lambda request: Reply(body=bytes(LARGEST_REPLY + 100_000))) as server:
        assert len(requests.post(server.url, json=asked).content) == LARGEST_REPLY + 100_000
        for smaller in (asked | {"max_tokens": 10}, asked | {"n": 1, "prompt": [[1]]}, {}):
            with pytest.raises(requests.exceptions.ContentDecodingError, match="a reply of more than 16"):
                requests.post(server.url, json=smaller)
    monkeypatch.setattr(rollout_server, "REPLY_S", 0.2)
    with FakeServer(answer=lambda request: DRIPPING) as server, pytest.raises(requests.exceptions.Timeout):
        requests.get(server.url)


def test_another_models_server_is_refused_and_one_of_the_same_shape_is_not(tmp_path) -> None:
    """Weights are sent before anything is sampled: a run's later stages can use the first one's server."""
    ours = model(tmp_path / "ours", dtype="float32")
    for name, fits in {
        "later": {"dtype": "bfloat16"},
        "longer": {"eos_token_id": [7]},
    }.items():
        with FakeServer(answer=served(model(tmp_path / name, **fits))) as server:
            assert find_server(ours, root(server), 0, print) == root(server)
    for name, misfits in {
        "wider": {"hidden_size": 128},
        "other": {"architectures": ["LlamaForCausalLM"]},
        "ends": {"eos_token_id": 8},
    }.items():
        refused = pytest.raises(UserError, match=f"serves {tmp_path / name}, .*serve-rollouts {ours}")
        with FakeServer(answer=served(model(tmp_path / name, **misfits))) as server, refused:
            find_server(ours, root(server), 0, print)
    with FakeServer(answer=served(Path("Qwen/Qwen2.5-7B"))) as server, pytest.raises(UserError, match="serves Qwen"):
        find_server(ours, root(server), 0, print)


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []
    monkeypatch.setattr(os, "execve", lambda *words: calls.append(words))
    return calls


def test_the_command_binds_to_this_machine_unless_told_and_passes_vllms_options_on(tmp_path, executed) -> None:
    folder = str(model(tmp_path / "model"))
    assert cli.main(["serve-rollouts", folder, "--tensor-parallel-size", "4"]) == 0
    [(program, words, environment)] = executed
    assert program == sys.executable and environment["VLLM_SERVER_DEV_MODE"] == "1"
    options = dict(zip(words[3::2], words[4::2], strict=True))
    assert options["--model"] == folder and (options["--host"], options["--port"]) == ("127.0.0.1", "8000")
    assert json.loads(options["--weight-transfer-config"]) == {"backend": "nccl"}
    assert options["--logprobs-mode"] == "processed_logprobs" and options["--tensor-parallel-size"] == "4"
    cli.main(["serve-rollouts", folder, "--host", "10.0.0.3", "--port", "9000"])
    assert executed[1][1][5:9] == ["--host", "10.0.0.3", "--port", "9000"]


@pytest.mark.parametrize("word", ["--trust-remote-code", "--trust_remote_code=true", "--trust-remote"])
def test_remote_code_cannot_be_trusted(tmp_path, executed, capsys, word) -> None:
    assert cli.main(["serve-rollouts", str(model(tmp_path / "model")), word]) == 2
    assert not executed and "leave it out" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--config", "x.yaml"], ["--config=x.yaml"]])
def test_a_file_of_options_is_refused_and_another_option_is_not(tmp_path, executed, capsys, words) -> None:
    folder = str(model(tmp_path / "model"))
    assert cli.main(["serve-rollouts", folder, *words]) == 2
    assert not executed and "--config" in capsys.readouterr().err
    cli.main(["serve-rollouts", folder, "--config-format", "hf"])
    assert executed


def test_a_server_of_pickled_weights_is_not_started(tmp_path, executed, capsys) -> None:
    (model(tmp_path / "model") / "model.safetensors").unlink()
    assert cli.main(["serve-rollouts", str(tmp_path / "model")]) == 2
    assert not executed and "save_pretrained" in capsys.readouterr().err


def test_a_server_of_sizes_that_the_weights_have_not_is_not_started(tmp_path, executed, capsys) -> None:
    assert cli.main(["serve-rollouts", str(model(tmp_path / "model", vocab_size=10**9))]) == 2
    assert not executed and "vocab_size is 1000000000, and the weights have at most 64" in capsys.readouterr().err


def test_a_server_of_slurms_writes_the_address_it_binds_to_while_it_runs(tmp_path) -> None:
    command = tmp_path / "bin" / "r1flow"
    command.parent.mkdir()
    command.write_text('#!/bin/sh\necho "$(cat scratch/rollout.url) $VLLM_HOST_IP $*"\nls scratch\nexit 3\n')
    command.chmod(0o755)
    environment = {
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "SLURMD_NODENAME": "localhost",
        "SLURM_JOB_ID": "7",
    }
    words = ["bash", str(SCRIPT), "results/r1/base/model", "--tensor-parallel-size", "4"]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    expected = "serve-rollouts results/r1/base/model --tensor-parallel-size 4 --host 127.0.0.1 --port 20007"
    assert done.stdout.splitlines() == [f"http://127.0.0.1:20007 127.0.0.1 {expected}", "rollout.url"]
    assert done.returncode == 3 and not list((tmp_path / "scratch").iterdir())
