"""Manifests: equal contents are an equal edge, a changed byte is seen, and outputs appear whole or not at all."""

import json

import pytest

from r1flow import manifest
from r1flow.errors import UserError


@pytest.fixture
def folder(tmp_path):
    """A stage's folder with a model and its manifest."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model/weights").write_bytes(b"1234")
    (tmp_path / "metrics.json").write_text("{}")
    manifest.write_json(tmp_path / "manifest.json", manifest.describe("base", tmp_path))
    return tmp_path


def test_an_untouched_folder_is_whole(folder):
    assert manifest.broken(folder) is None


@pytest.mark.parametrize("content", [b"1235", b"123", b""])
def test_a_changed_byte_is_named(folder, content):
    (folder / "model/weights").write_bytes(content)
    assert "model/weights" in manifest.broken(folder)


def test_a_missing_file_is_named(folder):
    (folder / "metrics.json").unlink()
    assert "metrics.json is missing" in manifest.broken(folder)


def test_what_a_stage_cost_is_not_part_of_its_edge(folder):
    before = manifest.describe("base", folder)
    (folder / "cost.json").write_text('{"seconds": 3}')
    (folder / "provenance.json").write_text("{}")
    assert manifest.describe("base", folder) == before


def test_a_stage_refuses_to_compute_from_a_broken_input(folder):
    manifest.check_inputs({"model": folder / "model"})
    (folder / "model/weights").write_bytes(b"1235")
    with pytest.raises(UserError, match=r"input model: .*weights is not what"):
        manifest.check_inputs({"model": folder / "model"})


def test_an_input_has_the_digest_of_its_content_wherever_it_lies(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for name in ("manifest.json", "metrics.json"):
        (elsewhere / name).write_bytes((folder / name).read_bytes())
    assert manifest.input_digests({"data": folder}) == manifest.input_digests({"data": elsewhere})


def test_publishing_replaces_what_was_there_and_puts_the_manifest_last(folder, tmp_path_factory, monkeypatch):
    out = tmp_path_factory.mktemp("out")
    (out / "model").mkdir()
    (out / "model/old").write_text("old")
    (out / "manifest.json").write_text(json.dumps({"files": {}}))
    moved = []
    replace = type(out).replace
    monkeypatch.setattr(type(out), "replace", lambda self, to: (moved.append(self.name), replace(self, to))[1])
    manifest.publish(folder, out)
    assert moved[-1] == "manifest.json" and not (out / "model/old").exists()
    assert manifest.broken(out) is None
