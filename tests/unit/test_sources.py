"""Files from outside: pinned, hashed, resumable, never code; against a hub on 127.0.0.1."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hub import Hub

from r1flow.data import sources
from r1flow.data.sources import fetch, here, lock, locked
from r1flow.errors import UserError

ROWS = b'{"question": "2 + 3?", "answer": "#### 5"}\n'
LARGE = ROWS * 200
COMMIT = f"{'c0ffee':0<40}"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub that huggingface_hub takes for the hub, and an empty cache."""
    with Hub() as running:
        running.connect(monkeypatch, tmp_path / "cache")
        yield running


def offline(monkeypatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def dataset(hub: Hub, **more):
    return hub.add("datasets/openai/gsm8k", {"train.jsonl": LARGE, "test.jsonl": ROWS, "README.md": b"hello"}, **more)


def fetched(patterns=("*.jsonl",), **more):
    return fetch("dataset", "openai/gsm8k", COMMIT, patterns, **more)


def test_a_commit_comes_with_the_sha256_of_every_file_and_nothing_else(hub):
    dataset(hub)
    found = fetched()
    assert found.files == {
        "test.jsonl": hashlib.sha256(ROWS).hexdigest(),
        "train.jsonl": hashlib.sha256(LARGE).hexdigest(),
    }
    assert (found.folder / "train.jsonl").read_bytes() == LARGE
    assert not any("README" in request for request in hub.requests)


@pytest.mark.parametrize("revision", ["main", "v1.0", COMMIT[:12], COMMIT.upper()])
def test_what_can_move_is_refused_with_the_command_that_pins_it(revision):
    with pytest.raises(UserError, match=f"r1flow lock openai/gsm8k@{revision}"):
        fetch("dataset", "openai/gsm8k", revision, ["*"])


def test_a_broken_transfer_goes_on_where_it_stopped(hub, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)  # what is lost at a break; 10 MB outside of tests
    dataset(hub)
    hub.breaks["train.jsonl"] = 3000
    told = []
    found = fetched(progress=lambda done, total: told.append((done, total)))
    assert (found.folder / "train.jsonl").read_bytes() == LARGE
    assert "GET /cdn/datasets/openai/gsm8k/train.jsonl bytes=3000-" in hub.requests
    size = len(LARGE) + len(ROWS)
    assert told[-1] == (size, size)


def test_offline_what_was_fetched_is_enough_and_the_hub_isnt_asked(hub, monkeypatch):
    dataset(hub)
    first = fetched()
    offline(monkeypatch)
    hub.requests.clear()
    assert fetched() == first and not hub.requests


def test_offline_what_is_missing_is_said_with_the_remedy(hub, monkeypatch):
    dataset(hub)
    fetched(["test.jsonl"])
    offline(monkeypatch)
    with pytest.raises(UserError, match="not all of it is in the cache"):
        fetched()
    with pytest.raises(UserError, match="HF_HUB_OFFLINE"):
        fetch("dataset", "openai/other", COMMIT, ["*"])


@pytest.mark.parametrize("name", ["train.jsonl", "test.jsonl"])
def test_bytes_that_arent_the_commits_are_refused(hub, name):
    """A mirror that serves something else of the same size: huggingface_hub compares sizes only."""
    repository = dataset(hub)
    repository.served[name] = repository.files[name].replace(b"5", b"6")
    with pytest.raises(UserError, match=rf"{name} has the sha256 .* by the hub's listing"):
        fetched()


@pytest.mark.parametrize("name", ["train.jsonl", "test.jsonl"])
def test_a_file_that_changed_in_the_cache_is_refused_offline_too(hub, monkeypatch, name):
    dataset(hub)
    path = (fetched().folder / name).resolve()
    path.write_bytes(path.read_bytes().replace(b"5", b"6"))
    offline(monkeypatch)
    with pytest.raises(UserError, match=f"{name} has the sha256 .* by its first fetch .* remove {path}"):
        fetched()


def test_a_removed_file_is_fetched_again_as_the_message_promises(hub):
    dataset(hub)
    path = (fetched().folder / "train.jsonl").resolve()
    path.unlink()
    assert (fetched().folder / "train.jsonl").read_bytes() == LARGE


def test_a_hash_in_the_configuration_is_held_against_the_file(hub):
    dataset(hub)
    with pytest.raises(UserError, match="by its pin it should be 000000000000"):
        fetched(hashes={"train.jsonl": "0" * 64})


def test_a_full_disk_is_noticed_before_the_first_byte_with_the_numbers(hub):
    dataset(hub, size_said={"train.jsonl": 10**18})
    with pytest.raises(UserError, match=r"1000000000\.00 GB to fetch and [\d.]+ GB free in .*HF_HUB_CACHE"):
        fetched()
    assert not any("resolve" in request or "cdn" in request for request in hub.requests)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("data.pkl", "a pickle"),
        ("data.PT", "a pickle"),
        ("gsm8k.py", "code"),
        ("data.zip", "an archive"),
        ("data.tar.gz", "an archive"),
        ("data.csv", "not of a kind"),
        ("../../evil.jsonl", "leads out"),
        ("/etc/evil.jsonl", "leads out"),
        ("a\\..\\evil.jsonl", "leads out"),
        ("evil\n.jsonl", "leads out"),
    ],
)
def test_code_pickles_archives_and_ways_out_are_refused_unfetched(hub, name, why):
    hub.add("datasets/openai/gsm8k", {name: ROWS})
    with pytest.raises(UserError, match=why) as refusal:
        fetched(["*"])
    assert "\n" not in str(refusal.value)
    assert not any("resolve" in request for request in hub.requests)


@pytest.mark.parametrize("name", ["data.pkl", "load.py", "data.tar.gz"])
def test_a_folder_is_held_to_the_same_rules(tmp_path, name):
    (tmp_path / name).write_bytes(ROWS)
    with pytest.raises(UserError, match=name):
        here(tmp_path, ["*"])


def test_a_pattern_of_a_folder_leads_nowhere_else(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "secret.jsonl").write_bytes(ROWS)
    with pytest.raises(UserError, match="no file is"):
        here(tmp_path / "in", ["../secret.jsonl"])


def test_what_the_hub_refuses_is_one_line_with_a_remedy(hub):
    dataset(hub)
    with pytest.raises(UserError, match="no such revision"):
        fetch("dataset", "openai/gsm8k", "0" * 40, ["*"])
    with pytest.raises(UserError, match="no such repository"):
        fetch("dataset", "openai/gsm9k", COMMIT, ["*"])
    dataset(hub, gated=True)
    with pytest.raises(UserError, match="HF_TOKEN"):
        fetched()


def test_a_hub_that_cannot_be_reached_is_said_with_the_remedy(hub, tmp_path, monkeypatch):
    with Hub() as gone:
        gone.connect(monkeypatch, tmp_path / "cache")
    with pytest.raises(UserError, match=r"the transfer failed .* run again.* HF_HUB_OFFLINE=1") as refusal:
        fetched()
    assert "\n" not in str(refusal.value)


def test_no_file_that_matches_is_said_with_those_there_are(hub):
    dataset(hub)
    with pytest.raises(UserError, match=r"main/\*\.parquet; it has README.md, test.jsonl, train.jsonl"):
        fetched(["main/*.parquet"])


MODEL = {
    "config.json": b"{}",
    "tokenizer.json": b"{}",
    "merges.txt": b"a b",
    "model.safetensors": b"x" * 5000,
    "pytorch_model.bin": b"\x80\x04K\x01.",
    "modeling.py": b"raise SystemExit",
    "onnx/model.json": b"{}",
    "flax_model.msgpack": b"x",
}


class TestModels:
    def test_of_a_model_only_what_transformers_loads_comes(self, hub):
        hub.add("models/Qwen/small", MODEL)
        found = fetch("model", "Qwen/small", COMMIT)
        assert set(found.files) == {"config.json", "tokenizer.json", "merges.txt", "model.safetensors"}
        assert {path.name for path in found.folder.rglob("*")} == set(found.files)

    def test_a_model_without_safetensors_is_refused(self, hub):
        hub.add("models/Qwen/small", {k: v for k, v in MODEL.items() if "safetensors" not in k})
        with pytest.raises(UserError, match=r"no safetensors .*pytorch_model.bin can run code"):
            fetch("model", "Qwen/small", COMMIT)


class TestLock:
    def test_a_branch_becomes_its_commit_with_hashes(self, hub, tmp_path):
        dataset(hub)
        entry = lock("dataset", "openai/gsm8k", "main", tmp_path / "sources.lock")
        assert entry["revision"] == COMMIT
        assert entry["sha256"] == fetched().files
        run = {"data": {"sources": {"gsm8k": {"repo": "openai/gsm8k", "revision": "main", "sha256": {}}}}}
        locked(run, tmp_path / "sources.lock")
        assert run["data"]["sources"]["gsm8k"] == {"repo": "openai/gsm8k", **entry}

    def test_a_locked_commit_stays_when_the_branch_moves(self, hub, tmp_path):
        repository = dataset(hub)
        lock("dataset", "openai/gsm8k", "main", tmp_path / "sources.lock")
        repository.branches["main"] = "f" * 40
        run = {"data": {}, "base": {"init_from": "openai/gsm8k", "revision": "main"}}
        locked(run, tmp_path / "sources.lock")
        assert run["base"]["revision"] == "main"  # a model of that name isn't the data set
        hub.add("models/openai/gsm8k", MODEL, commit="beef")
        lock("model", "openai/gsm8k", "main", tmp_path / "sources.lock")
        locked(run, tmp_path / "sources.lock")
        assert run["base"]["revision"] == f"{'beef':0<40}"
        assert set(yaml.safe_load((tmp_path / "sources.lock").read_text())) == {
            "dataset openai/gsm8k@main",
            "model openai/gsm8k@main",
        }

    def test_what_a_mirror_alters_is_found_by_the_locks_hashes(self, hub, tmp_path):
        """Even when the mirror's listing agrees with its bytes."""
        dataset(hub)
        entry = lock("dataset", "openai/gsm8k", "main", tmp_path / "sources.lock")
        hub.add("datasets/openai/gsm8k", {"train.jsonl": LARGE.replace(b"5", b"6"), "test.jsonl": ROWS})
        with pytest.raises(UserError, match=r"train.jsonl .* by its pin"):
            fetched(hashes=entry["sha256"])

    def test_the_command_asks_the_endpoint_of_the_environment(self, hub, tmp_path):
        dataset(hub)
        (tmp_path / "Snakefile").touch()
        environment = os.environ | {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "home")}
        command = [sys.executable, "-m", "r1flow.cli", "lock", "openai/gsm8k"]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert COMMIT in done.stdout
        assert (
            yaml.safe_load((tmp_path / "sources.lock").read_text())["dataset openai/gsm8k@main"]["revision"] == COMMIT
        )

    def test_a_damaged_lock_is_named(self, tmp_path):
        (tmp_path / "sources.lock").write_text("a: [")
        with pytest.raises(UserError, match=r"sources.lock: .* lock again"):
            sources.read_lock(tmp_path / "sources.lock")


def test_the_ready_sources_are_pinned_to_commits():
    folder = Path(__file__).parents[2] / "conf/data/source"
    for path in set(folder.glob("*.yaml")) - {folder / "base.yaml"}:
        source = yaml.safe_load(path.read_text())
        assert sources.COMMIT.fullmatch(source["revision"]), path
        assert f"https://huggingface.co/datasets/{source['repo']}" in path.read_text()
