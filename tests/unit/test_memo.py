"""The store: what comes out is what went in, verified; it is bounded; and it never costs a training."""

import os
import shutil
from pathlib import Path

import pytest

from r1flow.artifacts import frozen, manifest, provenance, store
from r1flow.artifacts.fingerprint import Code
from r1flow.commands import clean
from r1flow.engine.plan import seconds_of


@pytest.fixture
def computed(tmp_path, monkeypatch):
    """A stage's folder, kept in the store."""
    monkeypatch.chdir(tmp_path)
    folder = Path("work")
    (folder / "model").mkdir(parents=True)
    (folder / "model/weights").write_bytes(b"1234")
    return kept(folder, 1)


def kept(folder: Path, seed: int) -> Path:
    """The folder as a stage with this seed would have left it, and in the store."""
    config = {"seed": seed, "threads": 1, "device": "cpu"}
    (folder / "config.yaml").write_text(frozen.dump(config))
    manifest.write_json(folder / "cost.json", {"seconds": 1.5, "peak_mb": 800})
    manifest.write_json(folder / "manifest.json", manifest.manifest_of_files("base", folder))
    made = provenance.describe_provenance("base", "pretrain", config, Code({}, {}), {})
    outputs = manifest.sha256(folder / "manifest.json")
    manifest.write_json(folder / "provenance.json", {**made, "outputs": outputs})
    store.store_outputs("base", made["identity"], folder)
    return folder


def identity(folder: Path) -> str:
    return manifest.read_json(folder / "provenance.json")["identity"]


def empty(name: str) -> Path:
    Path(name).mkdir()
    return Path(name)


def test_what_was_kept_comes_back(computed):
    back = empty("back")
    assert store.take_outputs("base", identity(computed), back) and manifest.broken(back) is None
    assert store.manifest_of("base", identity(computed)) == manifest.sha256(computed / "manifest.json")


def test_another_identity_or_stage_is_not_there(computed):
    assert not store.take_outputs("base", "2b", empty("a")) and not store.take_outputs(
        "student_base", identity(computed), empty("b")
    )
    assert store.manifest_of("base", "2b") is None


def asked(engine: str, batch_size: int = 8, **options: object) -> str:
    config = {"engine": engine, "engine_options": options, "batch_size": batch_size, "shard_size": 64}
    return provenance.describe_provenance("evaluate/base", "evaluate", config, Code({}, {}), {})["identity"]


def test_how_a_server_is_asked_is_no_part_of_the_identity_and_what_it_is_asked_is():
    assert asked("openai") == asked("openai", 64, timeout_s=9.0, attempts=9, api_key_env="KEY")
    assert len({asked("openai", **options) for options in ({}, {"url": "http://a/v1"}, {"plain": True})}) == 3
    assert asked("openai", model="a") != asked("openai", model="b")
    assert asked("vllm", 8) != asked("vllm", 64) != asked("openai", 64)


def judged(name: str = "judge", **args: object) -> str:
    rewards = {"accuracy": {"weight": 1.0}, "helpful": {"name": name, "weight": 1.0, "args": {"model": "a"} | args}}
    return provenance.describe_provenance("align_rl", "grpo", {"rewards": rewards}, Code({}, {}), {})["identity"]


def test_nor_is_how_a_judge_is_asked():
    more = {"attempts": 9, "timeout_s": 9.0, "concurrency": 4, "backoff_s": 2.0, "cache_dir": "scratch/judge"}
    assert judged() == judged(**more, api_key_env="KEY")
    assert len({judged(), judged(model="b"), judged(sees="response"), judged("my_judge.score", attempts=9)}) == 4
    assert judged("my_judge.score") != judged("my_judge.score", attempts=9)  # it may mean something else there


def test_a_stage_that_was_asked_for_with_less_patience_is_taken_from_the_store(computed):
    config = {"engine": "openai", "engine_options": {"attempts": 2}, "batch_size": 8}
    (computed / "config.yaml").write_text(frozen.dump(config))
    made = provenance.describe_provenance("base", "pretrain", config, Code({}, {}), {})
    outputs = manifest.sha256(computed / "manifest.json")
    manifest.write_json(computed / "provenance.json", {**made, "outputs": outputs})
    assert provenance.recorded(computed) == ({**made, "outputs": outputs}, None)
    more = provenance.describe_provenance("base", "pretrain", config | {"batch_size": 64}, Code({}, {}), {})
    store.store_outputs("base", made["identity"], computed)
    assert store.take_outputs("base", more["identity"], empty("back"))


def test_an_edit_of_the_outputs_does_not_reach_the_store(computed):
    (computed / "model/weights").write_bytes(b"5678")
    back = empty("back")
    assert store.take_outputs("base", identity(computed), back) and (back / "model/weights").read_bytes() == b"1234"


@pytest.mark.parametrize("name", ["model/weights", "provenance.json", "config.yaml", "manifest.json", "cost.json"])
def test_a_damaged_entry_is_thrown_away_and_not_served(computed, capsys, name):
    (store.entry("base", identity(computed)) / name).write_bytes(b"")
    back = empty("back")
    assert not store.take_outputs("base", identity(computed), back) and not any(back.iterdir())
    assert "damaged" in capsys.readouterr().err and store.manifest_of("base", identity(computed)) is None


def test_what_is_about_to_be_replaced_is_kept_if_it_is_whole(computed):
    shutil.rmtree(store.STORE)
    store.keep_whole("base", computed)
    assert store.manifest_of("base", identity(computed))
    shutil.rmtree(store.STORE)
    (computed / "model/weights").write_bytes(b"1235")
    store.keep_whole("base", computed)
    store.keep_whole("base", Path("nowhere"))
    assert not store.STORE.exists()


def test_a_full_disk_costs_a_line_and_no_entry(computed, monkeypatch, capsys):
    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.shutil, "copyfile", full)
    store.store_outputs("base", "2b", computed)
    assert "No space left" in capsys.readouterr().err
    assert [path.name for path in (store.STORE / "base").iterdir()] == [identity(computed)]


def test_a_store_that_cannot_be_written_costs_a_line(computed, capsys):
    shutil.rmtree(store.STORE)
    store.STORE.write_text("a file where the store should be")
    store.store_outputs("base", "2b", computed)
    assert "no copy was kept in the store" in capsys.readouterr().err


def test_what_is_kept_replaces_an_entry_and_what_a_kill_left_of_one(computed, capsys):
    name = identity(computed)
    (store.entry("base", name) / "stray").write_text("")
    cut_off = store.entry("base", f"{name}.{os.getpid()}.partial")
    cut_off.mkdir()
    (cut_off / "stray").write_text("")
    store.store_outputs("base", name, computed)
    assert manifest.broken(store.entry("base", name)) is None and not (store.entry("base", name) / "stray").exists()
    assert not cut_off.exists() and capsys.readouterr().err == ""


def test_the_store_is_trimmed_from_the_longest_unused_and_of_what_a_kill_cut_off(computed):
    first = identity(computed)
    names = [first, *(identity(kept(computed, seed)) for seed in (2, 3))]
    for number, name in enumerate(names):
        os.utime(store.entry("base", name), (number, number))
    assert store.take_outputs("base", first, empty("used"))
    size = clean.size(store.entry("base", first))
    assert [path.name for path in clean.surplus(store.STORE, 2 * size)] == [names[1]]
    assert clean.surplus(store.STORE, 3 * size) == []
    assert [path.name for path in clean.surplus(store.STORE, 0)] == [names[1], names[2], first]
    (store.STORE / "base/4d.17.partial/model").mkdir(parents=True)
    assert [path.name for path in clean.surplus(store.STORE, 3 * size)] == ["4d.17.partial"]


ODD = {
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "a link to itself": lambda path: (path.unlink(), path.symlink_to(path.name)),
    "a link out": lambda path: (path.rename("out"), path.symlink_to(Path("out").absolute())),
}


@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("name", ["model/weights", "cost.json", "provenance.json", "manifest.json"])
def test_what_no_stage_leaves_in_the_store_is_not_served_and_stops_nothing(computed, capsys, what, name):
    source = store.entry("base", identity(computed))
    ODD[what](source / name)
    store.manifest_of("base", identity(computed))
    seconds_of(source)
    back = empty("back")
    assert not store.take_outputs("base", identity(computed), back) and not any(back.iterdir())
    unread = name == "manifest.json" and what != "a link out"
    assert ("has no manifest that can be read" if unread else "damaged") in capsys.readouterr().err
    store.store_outputs("base", identity(computed), computed)
    assert store.take_outputs("base", identity(computed), empty("again"))


def test_a_folder_that_leads_back_to_itself_is_not_copied_again_and_again(computed):
    (store.entry("base", identity(computed)) / "model/loop").symlink_to("..")
    back = empty("back")
    assert store.take_outputs("base", identity(computed), back) and {p.name for p in (back / "model").iterdir()} == {
        "weights"
    }


def denied(*words: object, **more: object) -> None:
    raise PermissionError(13, "Permission denied", "theirs")


def test_an_entry_that_somebody_else_owns_is_served(computed, monkeypatch):
    utime, source = os.utime, store.entry("base", identity(computed))
    monkeypatch.setattr(
        os, "utime", lambda path, *words, **more: (denied if path == source else utime)(path, *words, **more)
    )
    assert store.take_outputs("base", identity(computed), empty("back"))


@pytest.mark.parametrize("call", ["shutil.copyfile", "manifest.sha256"])
def test_a_store_that_cannot_be_read_costs_a_line(computed, monkeypatch, capsys, call):
    back = empty("back")
    monkeypatch.setattr(f"r1flow.artifacts.store.{call}", denied)
    assert not store.take_outputs("base", identity(computed), back) and not any(back.iterdir())
    said = {"shutil.copyfile": "Permission denied", "manifest.sha256": "no manifest that can be read"}[call]
    assert said in capsys.readouterr().err
    assert (store.entry("base", identity(computed)) / "model/weights").exists()  # not ours to throw away
