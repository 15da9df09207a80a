"""The store: what comes out is what went in, verified; it is bounded; and it never costs a training."""

import os
from pathlib import Path

import pytest

from r1flow import clean, manifest, memo


@pytest.fixture
def computed(tmp_path, monkeypatch):
    """A stage's folder, kept in the store as identity 1a."""
    monkeypatch.chdir(tmp_path)
    folder = Path("work")
    (folder / "model").mkdir(parents=True)
    (folder / "model/weights").write_bytes(b"1234")
    manifest.write_json(folder / "manifest.json", manifest.describe("base", folder))
    memo.keep("base", "1a", folder)
    return folder


def empty(name: str) -> Path:
    Path(name).mkdir()
    return Path(name)


def test_what_was_kept_comes_back(computed):
    back = empty("back")
    assert memo.take("base", "1a", back) and manifest.broken(back) is None
    assert memo.manifest_of("base", "1a") == manifest.sha256(computed / "manifest.json")


def test_another_identity_or_stage_is_not_there(computed):
    assert not memo.take("base", "2b", empty("a")) and not memo.take("student_base", "1a", empty("b"))
    assert memo.manifest_of("base", "2b") is None


def test_an_edit_of_the_outputs_does_not_reach_the_store(computed):
    (computed / "model/weights").write_bytes(b"5678")
    back = empty("back")
    assert memo.take("base", "1a", back) and (back / "model/weights").read_bytes() == b"1234"


def test_a_damaged_entry_is_thrown_away_and_not_served(computed, capsys):
    (memo.entry("base", "1a") / "model/weights").write_bytes(b"1235")
    back = empty("back")
    assert not memo.take("base", "1a", back) and not any(back.iterdir())
    assert "damaged" in capsys.readouterr().err and memo.manifest_of("base", "1a") is None


def test_a_full_disk_costs_a_line_and_no_entry(computed, monkeypatch, capsys):
    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(memo.shutil, "copyfile", full)
    memo.keep("base", "2b", computed)
    assert "No space left" in capsys.readouterr().err
    assert [path.name for path in (memo.STORE / "base").iterdir()] == ["1a"]


def test_the_store_is_trimmed_from_the_longest_unused(computed):
    for number, identity in enumerate(("1a", "2b", "3c")):
        memo.keep("base", identity, computed)
        os.utime(memo.entry("base", identity), (number, number))
    assert memo.take("base", "1a", empty("used"))
    size = clean.size(memo.entry("base", "1a"))
    assert [path.name for path in clean.surplus(memo.STORE, 2 * size)] == ["2b"]
    assert clean.surplus(memo.STORE, 3 * size) == []
    assert [path.name for path in clean.surplus(memo.STORE, 0)] == ["2b", "3c", "1a"]
