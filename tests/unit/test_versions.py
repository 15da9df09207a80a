"""data.dvc as a contract: the pinned data passes, and what differs is named."""

from pathlib import Path

import pytest
import yaml

from r1flow.artifacts import frozen, manifest, versions
from r1flow.artifacts.locks import hold
from r1flow.commands.cli import main
from r1flow.core.errors import UserError

OUTS = [{"md5": f"{'0' * 32}.dir", "hash": "md5", "path": "data"}]


@pytest.fixture
def data(tmp_path):
    """A folder of data and the pointer that pins it."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "rl.jsonl").write_text('{"id": "1"}\n')
    pointer = {"outs": OUTS, "meta": {"config": "abc", "files": versions.contents(folder)}}
    (tmp_path / "data.dvc").write_text(yaml.safe_dump(pointer))
    return folder


def test_pinned_data_passes_with_or_without_what_the_stage_says_about_it(data):
    versions.check_pinned(data, data.parent / "data.dvc")
    (data / "metrics.json").write_text("{}")
    versions.check_pinned(data, data.parent / "data.dvc")


@pytest.mark.parametrize("change", [lambda d: (d / "rl.jsonl").write_text(""), lambda d: (d / "new.jsonl").touch()])
def test_data_that_differs_is_named(data, change):
    change(data)
    with pytest.raises(UserError, match=r"(rl|new)\.jsonl differ"):
        versions.check_pinned(data, data.parent / "data.dvc")


@pytest.fixture
def bring(data, tmp_path, monkeypatch):
    """Brings or makes the pinned data, where DVC has `cached` for rl.jsonl: its folder, and how often it was made."""

    def bring(cached: str) -> tuple[Path, int]:
        def get(*words):
            if words[0] == "get":
                target = Path(words[-1])
                target.mkdir()
                (target / "rl.jsonl").write_text(cached)

        def make():
            made.append((work / "rl.jsonl").write_text((data / "rl.jsonl").read_text()))

        monkeypatch.setattr(versions, "dvc", get)
        work, made = tmp_path / "work", []
        work.mkdir()
        versions.bring_or_make(work, Path("data.dvc"), make)
        return work, len(made)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(versions, "check_pointer", lambda pointer: "md5")
    monkeypatch.setattr(versions, "unlisted", lambda pointers: None)
    return bring


def test_data_that_dvc_has_is_brought_and_not_made(data, bring, capsys):
    work, made = bring(cached=(data / "rl.jsonl").read_text())
    assert made == 0 and versions.contents(work) == versions.contents(data)
    assert [path.name for path in work.iterdir()] == ["rl.jsonl"] and capsys.readouterr().err == ""


def test_data_that_a_power_cut_left_in_dvcs_cache_is_made_again(data, bring, capsys):
    work, made = bring(cached="")
    assert made == 1 and versions.contents(work) == versions.contents(data)
    assert "this data (rl.jsonl differ there); it is made again" in capsys.readouterr().err


NO_POINTERS = ["[]", "7", "a: [", "meta: {}", "outs: []", yaml.safe_dump({"outs": OUTS, "meta": 5})]


@pytest.mark.parametrize("text", NO_POINTERS)
def test_a_pointer_that_is_none_is_one_line(tmp_path, text):
    (tmp_path / "data.dvc").write_text(text)
    with pytest.raises(UserError, match=r"data\.dvc: is no pointer to .*data/, .*: bring it back"):
        versions.pinned(tmp_path / "data.dvc")


def test_without_a_pointer_nothing_is_pinned(tmp_path):
    assert versions.pinned(tmp_path / "data.dvc") == {}


def test_data_that_dvc_does_not_have_is_not_fetched(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("data.dvc").write_text(yaml.safe_dump({"outs": OUTS}))
    assert versions.fetch_pinned(tmp_path) and [path.name for path in tmp_path.iterdir()] == ["data.dvc"]


def test_nothing_is_pinned_under_a_live_run(tmp_path, monkeypatch, data, capsys):
    monkeypatch.chdir(tmp_path)
    Path("Snakefile").touch()
    before = sorted(path.read_bytes() for path in data.iterdir())
    lock = hold(Path("scratch/live.lock"))
    assert main(["pin", str(data)]) == 2 and "a run is live" in capsys.readouterr().err
    lock.close()
    assert sorted(path.read_bytes() for path in data.iterdir()) == before


@pytest.fixture
def made(data, monkeypatch):
    """A data stage's folder in a run, beside the pinned data; goes to their project."""
    monkeypatch.chdir(data.parent)
    folder = Path("results/new/data")
    folder.mkdir(parents=True)
    (folder / "dev.jsonl").write_text('{"id": "2"}\n')
    (folder / "config.yaml").write_text("seed: 1\n")
    manifest.write_json(folder / "manifest.json", manifest.manifest_of_files("data", folder))
    (folder / ".snakemake_timestamp").touch()
    return folder


def test_a_stages_folder_becomes_the_pinned_data_without_what_was_there_and_snakemakes_mark(made, monkeypatch):
    def add(*words):
        Path("data.dvc").write_text(yaml.safe_dump({"outs": OUTS}))

    monkeypatch.setattr(versions, "dvc", add)
    versions.pin(made)
    assert {path.name for path in Path("data").iterdir()} == {"dev.jsonl", "config.yaml", "manifest.json"}
    assert versions.pinned() == {"config": frozen.config_digest({"seed": 1}), "files": versions.contents(made)}


def test_a_pointer_with_a_conflict_is_named_before_the_data_is_replaced(made, data):
    pointer = Path("data.dvc").read_text()
    Path("data.dvc").write_text(f"<<<<<<< HEAD\n{pointer}=======\n{pointer}>>>>>>> other\n")
    before = sorted(path.read_bytes() for path in data.iterdir())
    with pytest.raises(
        UserError, match=r"^data\.dvc: is no .*\(git checkout HEAD -- data\.dvc\) or remove it and make a"
    ):
        versions.pin(made)
    assert sorted(path.read_bytes() for path in data.iterdir()) == before


def test_data_behind_a_link_is_refused_and_stays(made, data):
    elsewhere = data.rename(data.parent / "elsewhere")
    data.symlink_to(elsewhere)
    with pytest.raises(UserError, match=r"^data: is a link, through which files would be written; nothing was touched"):
        versions.pin(made)
    assert any(elsewhere.iterdir())


def test_data_that_dvc_cannot_add_keeps_the_pin_and_is_said(made, monkeypatch):
    before = Path("data.dvc").read_bytes()
    monkeypatch.setattr(versions, "dvc", lambda *words: "locked")
    with pytest.raises(UserError, match=r"^data: DVC can't add it: locked$"):
        versions.pin(made)
    assert Path("data.dvc").read_bytes() == before


def test_the_folder_of_another_stage_is_refused_and_the_pinned_data_stays(made, data):
    manifest.write_json(made / "manifest.json", manifest.manifest_of_files("zero_rl", made))
    before = sorted(path.read_bytes() for path in data.iterdir())
    with pytest.raises(UserError, match=r"^results/new/data: is the stage zero_rl; name a data stage's folder"):
        versions.pin(made)
    assert sorted(path.read_bytes() for path in data.iterdir()) == before
