"""Manifests: equal contents are an equal edge, a changed byte is seen, and outputs appear whole or not at all."""

import errno
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from r1flow.artifacts import frozen, manifest, provenance
from r1flow.artifacts.records import read_record
from r1flow.core.errors import UserError
from r1flow.core.files import read_yaml


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A stage's folder with a model and its manifest."""
    monkeypatch.chdir(tmp_path.parent)
    (tmp_path / "model").mkdir()
    (tmp_path / "model/weights").write_bytes(b"1234")
    (tmp_path / "metrics.json").write_text("{}")
    manifest.write_json(tmp_path / "manifest.json", manifest.manifest_of_files("base", tmp_path))
    return tmp_path


def test_an_untouched_folder_is_whole(folder):
    assert manifest.broken(folder) is None


@pytest.mark.parametrize("content", [b"1235", b"123", b""])
def test_a_changed_byte_is_named(folder, content):
    (folder / "model/weights").write_bytes(content)
    assert "model/weights" in manifest.broken(folder)


def test_a_file_added_to_a_model_is_named(folder):
    (folder / "model/added_tokens.json").write_text("{}")
    assert "added_tokens.json is not in" in manifest.broken(folder)


def test_a_missing_file_is_named(folder):
    (folder / "metrics.json").unlink()
    assert "metrics.json is missing" in manifest.broken(folder)


SHAPES = [
    *("{", "[]", "{}", "7", '"files"', '{"files": {}}', '{"files": [], "stage": "a"}', '{"files": {}, "stage": 5}'),
    *(f'{{"files": {files}, "stage": "a"}}' for files in ('{"a": 5}', '{"a": {"sha256": 1, "size": 1}}')),
    *(f'{{"files": {{"{name}": {{"sha256": "a", "size": 1}}}}, "stage": "a"}}' for name in ("../a", "/a", "a/../b")),
    *('{"contract": 5, "files": {}, "stage": "a"}', "[" * 100_000),
]


@pytest.mark.parametrize(("text", "said"), [(None, "is missing"), *((text, "can't be read") for text in SHAPES)])
def test_a_manifest_that_says_nothing_is_named(folder, text, said):
    (folder / "manifest.json").unlink()
    if text:
        (folder / "manifest.json").write_text(text)
    assert manifest.broken(folder) == f"{folder / 'manifest.json'} {said}"


def test_what_a_stage_cost_is_not_part_of_its_edge(folder):
    before = manifest.manifest_of_files("base", folder)
    (folder / "cost.json").write_text('{"seconds": 3}')
    (folder / "provenance.json").write_text("{}")
    assert manifest.manifest_of_files("base", folder) == before


PROVENANCE = {
    **{"stage": "a", "program": "p", "config": "c", "code": "d", "python": "3.11", "libraries": {"torch": "2"}},
    **{"inputs": {"model": {"stage": "b", "sha256": "ff"}}, "modules": {}, "identity": "i", "outputs": "o"},
}
MISSHAPEN = [
    *([], 7, None, "x", {}, {**PROVENANCE, "inputs": None}, {**PROVENANCE, "inputs": []}),
    *({**PROVENANCE, "inputs": {"model": entry}} for entry in ("x", [], {}, {"sha256": 5}, {"stage": "b"})),
    *({**PROVENANCE, key: 5} for key in ("stage", "code", "libraries", "modules", "accepted", "outputs")),
]


@pytest.mark.parametrize("found", MISSHAPEN)
def test_a_provenance_of_another_shape_is_named(folder, found):
    manifest.write_json(folder / "provenance.json", PROVENANCE)
    assert "belongs to other outputs" in provenance.recorded(folder)[1]
    manifest.write_json(folder / "provenance.json", found)
    assert provenance.recorded(folder) == ({}, f"{folder / 'provenance.json'} is missing or can't be read")
    with pytest.raises(UserError, match=r"provenance\.json can't be read as a stage's file"):
        read_record(folder)


def test_hashes_that_were_remembered_wrongly_are_forgotten(folder):
    manifest.HASHES.mkdir(parents=True, exist_ok=True)
    for text in ("", "[7]", "7", "{"):
        manifest.Hashes(folder).memory.write_text(text)
        with manifest.Hashes(folder) as remembered:
            assert manifest.broken(folder, remembered) is None


def test_a_stage_refuses_to_compute_from_a_broken_input(folder):
    provenance.identify_input(folder / "model")
    (folder / "model/weights").write_bytes(b"1235")
    with pytest.raises(UserError, match=r"weights is not what"):
        provenance.identify_input(folder / "model")


def test_an_input_has_the_digest_of_its_content_wherever_it_lies(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    shutil.copytree(folder, elsewhere, dirs_exist_ok=True)
    assert provenance.identify_input(folder) == provenance.identify_input(elsewhere)


def test_a_folder_from_outside_counts_by_its_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights").write_text("1")
    same = provenance.identify_input(Path("a"))["sha256"]
    assert same == provenance.identify_input(Path("b"))["sha256"]
    (tmp_path / "a/weights").write_text("2")
    assert same != provenance.identify_input(Path("a"))["sha256"]


def test_of_a_folder_from_outside_every_file_counts_that_is_not_hidden(tmp_path):
    (tmp_path / "problems/.git").mkdir(parents=True)
    (tmp_path / "problems/costs.json").write_text("1")  # a stage's record would be called so
    before = provenance.content(tmp_path / "problems")
    for hidden in (".git/index", ".DS_Store"):
        (tmp_path / "problems" / hidden).write_text("1")
    assert provenance.content(tmp_path / "problems") == before
    (tmp_path / "problems/costs.json").write_text("2")
    assert provenance.content(tmp_path / "problems") != before


def test_an_edit_that_keeps_size_and_time_is_seen(folder):
    weights = folder / "model/weights"
    with manifest.Hashes(folder) as remembered:
        assert manifest.broken(folder, remembered) is None
    before = weights.stat()
    weights.write_bytes(b"4321")
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    with manifest.Hashes(folder) as remembered:
        assert "model/weights" in manifest.broken(folder, remembered)


def test_folders_with_long_paths_are_hashed_once_each_also_where_they_end_alike(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    places = [tmp_path / letter / ("é" * 100) / ("b" * 100) for letter in "xy"]
    for place in places:
        place.mkdir(parents=True)
        (place / "weights").write_text(place.parts[-3])
    first = [provenance.content(place) for place in places]
    monkeypatch.setattr(manifest, "sha256", None)
    assert first[0] != first[1]
    assert [provenance.content(place) for place in places] == first


def test_what_has_not_changed_is_hashed_once(folder, monkeypatch):
    hashed = []
    digest = manifest.sha256
    monkeypatch.setattr(manifest, "sha256", lambda path: (hashed.append(path.name), digest(path))[1])
    for _ in range(2):
        with manifest.Hashes(folder) as remembered:
            manifest.broken(folder, remembered)
    assert sorted(hashed) == ["metrics.json", "weights"]


def test_publishing_replaces_what_was_there_and_puts_the_manifest_last(folder, tmp_path_factory, monkeypatch):
    out = tmp_path_factory.mktemp("out")
    (out / "model").mkdir()
    (out / "model/old").write_text("old")
    (out / "manifest.json").write_text(json.dumps({"files": {}}))
    moved = []
    rename, fsync = os.rename, os.fsync
    monkeypatch.setattr(os, "rename", lambda path, to: (moved.append(Path(path)), rename(path, to))[1])
    monkeypatch.setattr(
        os, "fsync", lambda file: (moved.append(f"sync {os.readlink(f'/proc/self/fd/{file}')}"), fsync(file))
    )
    files = [path for path in folder.rglob("*") if path.is_file()]
    manifest.publish_outputs(folder, out)
    renames = [event for event in moved if isinstance(event, Path)]
    assert renames[-1].name == "manifest.json" and not (out / "model/old").exists()
    assert {f"sync {path}" for path in files} <= set(moved[: moved.index(renames[0])])  # the disk holds all by then
    assert manifest.broken(out) is None


def test_what_has_no_content_is_not_forced_to_disk(folder):
    (folder / "model/link").symlink_to("nowhere")
    manifest.sync(folder)


def test_publishing_reaches_results_on_another_disk(folder, tmp_path_factory, monkeypatch):
    def rename(path, to):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    out = tmp_path_factory.mktemp("out")
    monkeypatch.setattr(os, "rename", rename)
    manifest.publish_outputs(folder, out)
    assert manifest.broken(out) is None and not any(folder.iterdir())


@pytest.mark.parametrize("text", ["", "seed: 2\n", "seed: [", "\0" * 8])
def test_a_frozen_config_that_is_not_what_was_written_is_written_anew(tmp_path, capsys, text):
    path = frozen.freeze("base", {"seed": 1}, tmp_path)
    path.write_text(text)
    assert read_yaml(frozen.freeze("base", {"seed": 1}, tmp_path)) == {"seed": 1}
    assert f"{path}: this file has changed" in capsys.readouterr().err
    frozen.freeze("base", {"seed": 1}, tmp_path)
    assert capsys.readouterr().err == ""


def test_a_commit_is_called_dirty_where_tracked_files_differ_from_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert provenance.revision() is None

    def git(*words: str) -> str:
        own = ("-c", "user.name=a", "-c", "user.email=a@b")
        return subprocess.run(["git", *own, *words], check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "--quiet", "--message", "first")
    git("tag", "v1")  # a tag doesn't stand for its commit
    commit = git("rev-parse", "HEAD")
    (tmp_path / "b").touch()
    assert provenance.revision() == commit
    (tmp_path / "a").write_text("2")
    assert provenance.revision() == f"{commit}-dirty"
