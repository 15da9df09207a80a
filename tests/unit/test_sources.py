"""Files from outside: pinned, hashed, resumable, never code; against a hub on 127.0.0.1."""

import hashlib
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from documented import as_documented
from hub import Hub

from r1flow.core.errors import UserError
from r1flow.data import sources
from r1flow.data.sources import fetch_files, fill_in_locked, here, lock

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
    return fetch_files("dataset", "openai/gsm8k", COMMIT, patterns, **more)


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
        fetch_files("dataset", "openai/gsm8k", revision, ["*"])


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


KILLED = """
import os, signal, sys
from huggingface_hub import constants
from r1flow.data.sources import fetch_files

constants.DOWNLOAD_CHUNK_SIZE = 100_000
stop = lambda done, total: done >= 300_000 and os.kill(os.getpid(), signal.SIGKILL)
fetch_files("dataset", "openai/gsm8k", sys.argv[1], ["*.jsonl"], progress=stop)
"""


def test_a_killed_run_is_gone_on_with_by_the_next_one(hub, tmp_path):
    content = os.urandom(500_000)
    hub.add("datasets/openai/gsm8k", {"train.jsonl": content})
    environment = os.environ | {"HF_ENDPOINT": hub.address, "HF_HUB_CACHE": str(tmp_path / "cache")}
    assert subprocess.run([sys.executable, "-c", KILLED, COMMIT], env=environment).returncode == -signal.SIGKILL
    (part,) = (tmp_path / "cache").rglob("*.incomplete")
    have = part.stat().st_size
    assert 200_000 <= have < 300_000  # the last piece was told of and not yet written
    hub.requests.clear()
    told = []
    found = fetched(progress=lambda done, total: told.append((done, total)))
    assert (found.folder / "train.jsonl").read_bytes() == content
    assert [one for one in hub.requests if "GET /cdn" in one] == [
        f"GET /cdn/datasets/openai/gsm8k/train.jsonl bytes={have}-"
    ]
    assert told[0] == (have, 500_000) and told[-1] == (500_000, 500_000)
    assert not list((tmp_path / "cache").rglob("*.incomplete"))


@pytest.mark.parametrize("part", [LARGE[:3000].replace(b"5", b"6"), LARGE.replace(b"5", b"6"), LARGE + b"more"])
def test_a_part_that_isnt_of_the_file_is_fetched_anew(hub, tmp_path, part):
    dataset(hub)
    blobs = tmp_path / "cache/datasets--openai--gsm8k/blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{hashlib.sha256(LARGE).hexdigest()}.part.incomplete").write_bytes(part)
    assert (fetched().folder / "train.jsonl").read_bytes() == LARGE
    assert not list(blobs.glob("*.incomplete"))


def test_what_another_process_fetches_meanwhile_is_not_fetched_again(hub, monkeypatch):
    from huggingface_hub import utils

    dataset(hub)

    @contextmanager
    def wait(path):
        blob = path.parents[2] / path.parent.name / "blobs" / path.stem
        blob.write_bytes(LARGE)
        yield

    monkeypatch.setattr(utils, "WeakFileLock", wait)
    assert (fetched().folder / "train.jsonl").read_bytes() == LARGE
    assert [request.split()[1] for request in hub.requests if "/cdn/" in request] == []


def test_room_is_needed_only_for_what_is_not_here_yet(hub, tmp_path, monkeypatch):
    dataset(hub)
    blobs = tmp_path / "cache/datasets--openai--gsm8k/blobs"
    blobs.mkdir(parents=True)
    free = len(LARGE) - 3000 + len(ROWS)
    monkeypatch.setattr(sources.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    with pytest.raises(UserError, match="GB must be fetched"):
        fetched()
    (blobs / f"{hashlib.sha256(LARGE).hexdigest()}.part.incomplete").write_bytes(LARGE[:3000])
    assert fetched().files


def test_a_listing_whose_hash_is_a_path_writes_nowhere_else():
    from huggingface_hub import RepoFile

    escaping = {"oid": "../../../../evil", "size": len(LARGE), "pointerSize": 100}
    entry = RepoFile(path="train.jsonl", size=len(LARGE), oid="0" * 40, lfs=escaping)
    assert sources.partial_file("dataset", "openai/gsm8k", entry) is None


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
    with pytest.raises(UserError, match="the cache hasn't all of it"):
        fetched()
    with pytest.raises(UserError, match="HF_HUB_OFFLINE"):
        fetch_files("dataset", "openai/other", COMMIT, ["*"])


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


def test_a_hash_of_a_file_that_isnt_there_is_refused_before_the_transfer(hub):
    """A misspelt name would be held against nothing."""
    dataset(hub)
    with pytest.raises(
        UserError, match=r"sha256 has a hash of tarin.jsonl, which isn't there; the repository has README.md, test"
    ):
        fetched(hashes={"tarin.jsonl": "0" * 64})
    assert not any("resolve" in request for request in hub.requests)


@pytest.mark.parametrize("content", ['{"train.jsonl": "ee', "[]", "\0"])
def test_a_damaged_memory_of_the_first_fetch_is_named_with_the_remedy(hub, content):
    dataset(hub)
    memory = fetched().folder.parents[1] / f"r1flow/{COMMIT}.json"
    memory.write_text(content)
    with pytest.raises(UserError, match=f"{memory}: this record of hashes is damaged; remove it"):
        fetched()
    memory.unlink()
    assert fetched().files


def test_a_full_disk_is_noticed_before_the_first_byte_with_the_numbers(hub):
    dataset(hub, size_said={"train.jsonl": 10**18})
    with pytest.raises(UserError, match=r"1000000000\.00 GB must be fetched, and [\d.]+ GB are free in .*HF_HUB_CACHE"):
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
        ("data.tsv", "not of a kind"),
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


def test_a_linked_folder_in_a_folder_is_refused_and_linked_files_are_read(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/train.jsonl").write_bytes(ROWS)
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "train.jsonl").symlink_to(tmp_path / "elsewhere/train.jsonl")
    assert here(folder, ["*"]).files.keys() == {"train.jsonl"}
    (folder / "more").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=r"set/more: is a link to a folder, whose files aren't read; put the folder"):
        here(folder, ["*"])


def test_a_pattern_of_a_folder_leads_nowhere_else(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "secret.jsonl").write_bytes(ROWS)
    with pytest.raises(UserError, match="no file matches"):
        here(tmp_path / "in", ["../secret.jsonl"])


def test_what_the_hub_refuses_is_one_line_with_a_remedy(hub):
    dataset(hub)
    with pytest.raises(UserError, match="no such revision"):
        fetch_files("dataset", "openai/gsm8k", "0" * 40, ["*"])
    with pytest.raises(UserError, match="no such repository"):
        fetch_files("dataset", "openai/gsm9k", COMMIT, ["*"])
    dataset(hub, gated=True)
    with pytest.raises(UserError, match="HF_TOKEN"):
        fetched()


def test_a_hub_that_cannot_be_reached_is_said_with_the_remedy(hub, tmp_path, monkeypatch):
    with Hub() as gone:
        gone.connect(monkeypatch, tmp_path / "cache")
    with pytest.raises(UserError, match=r"the transfer failed .* run again.* HF_HUB_OFFLINE=1") as refusal:
        fetched()
    assert "\n" not in str(refusal.value)
    with pytest.raises(UserError, match=r"the transfer failed .* run again") as refusal:
        lock("dataset", "openai/gsm8k", "main", tmp_path / "sources.lock")
    assert "HF_HUB_OFFLINE" not in str(refusal.value), "what a branch is now, no cache knows"


def test_a_cache_that_cannot_be_written_is_said_with_the_remedy(hub, tmp_path, monkeypatch):
    """As in a container whose user has no HOME; another transfer wouldn't help. Here a file is in the way."""
    dataset(hub)
    (tmp_path / "home").touch()
    hub.connect(monkeypatch, tmp_path / "home/hub")
    with pytest.raises(UserError, match=r"home/hub.*, and huggingface_hub's cache is there; set HF_HUB_CACHE to a"):
        fetched()


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
        found = fetch_files("model", "Qwen/small", COMMIT)
        assert set(found.files) == {"config.json", "tokenizer.json", "merges.txt", "model.safetensors"}
        assert {path.name for path in found.folder.rglob("*")} == set(found.files)

    def test_a_model_without_safetensors_is_refused(self, hub):
        hub.add("models/Qwen/small", {k: v for k, v in MODEL.items() if "safetensors" not in k})
        with pytest.raises(UserError, match=r"no .*safetensors, only weights that can run code .*pytorch_model.bin"):
            fetch_files("model", "Qwen/small", COMMIT)


class TestLock:
    def test_a_branch_becomes_its_commit_with_hashes(self, hub, tmp_path):
        dataset(hub)
        entry = lock("dataset", "openai/gsm8k", "main", tmp_path / "sources.lock")
        assert entry["revision"] == COMMIT
        assert entry["sha256"] == fetched().files
        run = {"data": {"sources": {"gsm8k": {"repo": "openai/gsm8k", "revision": "main", "sha256": {}}}}}
        fill_in_locked(run, tmp_path / "sources.lock")
        assert run["data"]["sources"]["gsm8k"] == {"repo": "openai/gsm8k", **entry}

    def test_a_locked_commit_stays_when_the_branch_moves(self, hub, tmp_path):
        repository = dataset(hub)
        lock("dataset", "openai/gsm8k", "main", tmp_path / "sources.lock")
        repository.branches["main"] = "f" * 40
        run = {"data": {}, "base": {"init_from": "openai/gsm8k", "revision": "main"}}
        fill_in_locked(run, tmp_path / "sources.lock")
        assert run["base"]["revision"] == "main"  # a model of that name isn't the data set
        hub.add("models/openai/gsm8k", MODEL, commit="beef")
        lock("model", "openai/gsm8k", "main", tmp_path / "sources.lock")
        fill_in_locked(run, tmp_path / "sources.lock")
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

    def test_a_models_altered_weights_are_found_by_the_locks_hashes(self, hub, tmp_path):
        hub.add("models/Qwen/small", MODEL)
        lock("model", "Qwen/small", "main", tmp_path / "sources.lock")
        run = {"data": {}, "base": {"init_from": "Qwen/small", "revision": "main"}}
        fill_in_locked(run, tmp_path / "sources.lock")
        hub.add("models/Qwen/small", MODEL | {"model.safetensors": b"y" * 5000})
        with pytest.raises(UserError, match=r"model.safetensors .* by its pin"):
            fetch_files("model", "Qwen/small", run["base"]["revision"], hashes=run["base"]["sha256"])

    def test_a_configurations_own_hash_wins_over_the_locks(self, hub, tmp_path):
        hub.add("models/Qwen/small", MODEL)
        lock("model", "Qwen/small", COMMIT, tmp_path / "sources.lock")
        run = {"data": {}, "base": {"init_from": "Qwen/small", "revision": COMMIT, "sha256": {"config.json": "0" * 64}}}
        fill_in_locked(run, tmp_path / "sources.lock")
        assert run["base"]["sha256"]["config.json"] == "0" * 64 and len(run["base"]["sha256"]) == 4

    @pytest.mark.parametrize("name", ["../../evil.jsonl", "/etc/evil.jsonl"])
    def test_names_that_lead_out_are_not_locked(self, hub, tmp_path, name):
        hub.add("datasets/openai/gsm8k", {name: ROWS, "train.jsonl": ROWS})
        with pytest.raises(UserError, match="leads out of the folder"):
            lock("dataset", "openai/gsm8k", "main", tmp_path / "sources.lock")
        assert not (tmp_path / "sources.lock").exists()

    def test_the_command_asks_the_endpoint_of_the_environment(self, hub, tmp_path):
        dataset(hub)
        (tmp_path / "Snakefile").touch()
        environment = os.environ | {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "home")}
        command = [sys.executable, "-m", "r1flow.commands.cli", "lock", "openai/gsm8k", "--json"]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert as_documented("lock", done.stdout)["commit"] == COMMIT
        assert (
            yaml.safe_load((tmp_path / "sources.lock").read_text())["dataset openai/gsm8k@main"]["revision"] == COMMIT
        )

    @pytest.mark.parametrize(
        "content",
        [
            b"a: [",
            b"\xff",
            b"- a",
            b"hello",
            b"dataset a/b@main: null",
            b"dataset a/b@main: c0ffee",
            b"dataset a/b@main: {sha256: {}}",
            b"dataset a/b@main: {revision: main, sha256: {}}",
            b"dataset a/b@main: {revision: %s}" % COMMIT.encode(),
            b"dataset a/b@main: {revision: %s, sha256: [a]}" % COMMIT.encode(),
            b"dataset a/b@main: {revision: %s, sha256: {train.jsonl: 5}}" % COMMIT.encode(),
        ],
    )
    def test_a_damaged_lock_is_named(self, tmp_path, content):
        (tmp_path / "sources.lock").write_bytes(content)
        with pytest.raises(UserError, match=r"sources.lock: .* `r1flow lock` again") as refusal:
            sources.read_lock(tmp_path / "sources.lock")
        assert "\n" not in str(refusal.value)


def test_the_ready_sources_are_pinned_to_commits():
    folder = Path(__file__).parents[2] / "conf/data/source"
    for path in set(folder.glob("*.yaml")) - {folder / "base.yaml"}:
        source = yaml.safe_load(path.read_text())
        assert sources.COMMIT.fullmatch(source["revision"]), path
        assert f"https://huggingface.co/datasets/{source['repo']}" in path.read_text()
