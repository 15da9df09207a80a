"""Publishing and restoring a run with real git and DVC: what comes back is what was there, or is named."""

import contextlib
import hashlib
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from documented import as_documented
from gate_share import one_in
from test_cli import Terminal
from tiny_weights import write_zeros

from r1flow.artifacts import frozen, manifest, versions
from r1flow.artifacts.locks import hold
from r1flow.artifacts.provenance import identity_of
from r1flow.commands.publish import drop_pointers_without_a_stage, keep_contract, publish
from r1flow.commands.restore import bring_what_was_beside_data, find_pointers, pull, restore
from r1flow.commands.trace import print_trace
from r1flow.commands.verify import verify
from r1flow.core.errors import UserError

ROOT = Path(__file__).parents[2]
RUN, POINTERS = Path("results/tiny"), Path("published/tiny")
PARENTS = {"base": ["data"], "zero_rl": ["data", "base"], "evaluate/zero_rl": ["data", "zero_rl"]}
STAGES = sorted(PARENTS)
WEIGHTS = Path("results/tiny/base/model/model.safetensors")


def make_stage(folder: Path, stage: str, parents: list[str]) -> None:
    """A stage's folder as a run leaves it: outputs, manifest and provenance."""
    (folder / "model").mkdir(parents=True)
    write_zeros(folder / "model/model.safetensors", made_by=stage, a=[1])
    (folder / "metrics.json").write_text("{}")
    (folder / "config.yaml").write_text(f"seed: 1\nname: {stage}\n")
    (folder / "cost.json").write_text('{"seconds": 1.5}')
    seal(folder, stage, parents)


def seal(folder: Path, stage: str, parents: list[str]) -> None:
    """Write the manifest of what lies in the folder, and the provenance that goes with it and the parents on disk."""
    manifest.write_json(folder / "manifest.json", manifest.manifest_of_files(stage, folder))
    edges = {name: ("data" if name == "data" else RUN / name) for name in parents}
    inputs = {name: {"stage": name, "sha256": edge(Path(path))} for name, path in edges.items()}
    config = {"stage": stage}
    (folder / "config.yaml").write_text(frozen.dump(config))
    made = {"stage": stage, "program": "fake", "code": "c0de", "libraries": {}, "python": "3.11", "inputs": inputs}
    made |= {"config": frozen.config_digest(config), "outputs": edge(folder)}
    manifest.write_json(folder / "provenance.json", made | {"identity": identity_of(made)})


def edge(folder: Path) -> str:
    return manifest.sha256(folder / "manifest.json")


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def make_project(root: Path) -> None:
    """A git repository with our own ignore files and DVC settings, pinned data and a finished run; goes there."""
    git("init", "--quiet", str(root))
    os.chdir(root)
    Path(".dvc").mkdir()
    for name in (".gitignore", ".dvcignore", ".dvc/config"):
        shutil.copyfile(ROOT / name, name)
    git("config", "user.name", "Ann")
    git("config", "user.email", "ann@example.org")
    make_stage(Path("data"), "data", [])
    versions.pin(Path("data"))
    for stage, parents in PARENTS.items():
        make_stage(RUN / stage, stage, parents)
    (RUN / "base/.snakemake_timestamp").touch()
    git("add", ".")
    git("commit", "--quiet", "-m", "Begin")


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A project whose run was published and committed by the printed command, under the tag v1."""
    root, settings = tmp_path_factory.mktemp("ours") / "project", tmp_path_factory.mktemp("settings")
    (settings / "config").write_text("[cache]\n    type = symlink\n")  # the user's own, which the project's overrides
    with contextlib.chdir(tmp_path_factory.getbasetemp()), pytest.MonkeyPatch.context() as patch:
        patch.setenv("DVC_GLOBAL_CONFIG_DIR", str(settings))
        make_project(root)
        with (root / "printed").open("w") as file, contextlib.redirect_stdout(file):
            publish(RUN)
        printed = Path("printed").read_text()
        Path("printed").unlink()
        command = next(line for line in printed.splitlines() if "git add" in line)
        subprocess.run(command, shell=True, check=True, capture_output=True)
        git("tag", "v1")
        yield root


@pytest.fixture
def clone(published, tmp_path, monkeypatch):
    """A fresh clone of it as the current folder; its remote is a copy of the published one."""
    root = tmp_path / "clone"
    git("clone", "--quiet", str(published), str(root))
    shutil.copytree(published / ".dvc-remote", root / ".dvc-remote")
    monkeypatch.chdir(root)
    return root


def in_remote(path: Path) -> Path:
    """Where the clone's remote has a published file."""
    listing = next(p for p in Path(".dvc-remote").rglob("*.dir") if path.name in p.read_text() and is_of(p, path))
    md5 = next(item["md5"] for item in json.loads(listing.read_text()) if path.name in item["relpath"])
    return Path(".dvc-remote/files/md5", md5[:2], md5[2:])


def is_of(listing: Path, path: Path) -> bool:
    pointer = yaml.safe_load(POINTERS.joinpath(f"{path.parts[2]}.dvc").read_text())
    return pointer["outs"][0]["md5"] == f"{listing.parent.name}{listing.name}"


def contents(root: Path, *tops: str) -> dict[str, bytes]:
    """Every file of these folders, or else of the run, its pointers and its data."""
    tops = tops or ("results", "published", "data")
    paths = [path for top in tops for path in (root / top).rglob("*") if path.is_file()]
    skipped = (".snakemake_timestamp", ".gitignore")
    return {str(path.relative_to(root)): path.read_bytes() for path in paths if path.name not in skipped}


def test_a_published_run_comes_back_whole_and_proved(published, clone, capsys):
    Path("data.dvc").write_text("outs: []\n")
    git("-c", "user.name=Ann", "-c", "user.email=a@example.org", "commit", "--quiet", "-am", "Later, with other data")
    restore("v1", None)
    assert "4 stages are restored and verified" in capsys.readouterr().out
    restore("v1", None, as_json=True)
    assert as_documented("restore", capsys.readouterr().out)["runs"] == ["tiny"]
    assert contents(clone) == contents(published)
    assert verify(None) == 0


def test_snakemakes_marks_are_not_published(published):
    listings = [path.read_text() for path in (published / ".dvc-remote").rglob("*.dir")]
    assert len(listings) == 4 and not any("snakemake" in text for text in listings)


def test_publishing_leaves_outputs_as_they_were_whatever_the_users_cache_type_is(published):
    for path in [published / WEIGHTS, published / "data/model/model.safetensors"]:
        assert not path.is_symlink() and path.stat().st_nlink == 1 and os.stat(path).st_mode & 0o200


def test_the_printed_command_commits_every_pointer_and_nothing_else_of_the_run(published):
    tracked = git("-C", str(published), "ls-files", "results", "published", "data*").split()
    pointers = [f"published/tiny/{stage}.dvc" for stage in STAGES]
    assert sorted(tracked) == sorted(["data.cost.json", "data.dvc", "data.provenance.json", *pointers])
    assert git("-C", str(published), "status", "--porcelain") == ""


def test_publishing_does_not_touch_the_contract_on_the_data(published):
    assert git("-C", str(published), "diff", "--stat", "v1~", "v1", "--", "data.dvc") == ""


def test_data_that_is_not_byte_for_byte_as_pinned_keeps_its_contract_and_is_refused(project):
    contract = Path("data.dvc").read_bytes()
    Path("data.dvc").write_text("outs:\n- md5: ff.dir\n  path: data\n")
    with pytest.raises(UserError, match=r"^data\.dvc: pins another"):
        keep_contract(contract)
    assert Path("data.dvc").read_bytes() == contract


def test_a_record_that_data_lacks_is_not_kept_beside_its_pin(project):
    for path in ("data/cost.json", *versions.BESIDE.values()):
        Path(path).unlink()
    keep_contract(Path("data.dvc").read_bytes())
    assert Path("data.provenance.json").read_bytes() == Path("data/provenance.json").read_bytes()
    assert not Path("data.cost.json").exists()


def test_stages_that_dvc_cannot_add_are_said_and_not_pushed(project, monkeypatch):
    called = []
    monkeypatch.setattr(versions, "dvc", lambda word, *rest, **more: called.append(word) or "locked")
    with pytest.raises(UserError, match=r"^results/tiny: DVC can't add its stages: locked$"):
        publish(RUN)
    assert called == ["commit"]


def test_a_stage_that_the_run_no_longer_has_does_not_come_back_with_it(project):
    shutil.rmtree(RUN / "evaluate/zero_rl")
    drop_pointers_without_a_stage(RUN)
    assert find_pointers("tiny") == [POINTERS / "base.dvc", POINTERS / "zero_rl.dvc", Path("data.dvc")]


def test_pinned_data_is_not_asked_of_a_remote_for_a_run_with_data_of_its_own(project):
    Path("published/more").mkdir()
    Path("published/more/data.dvc").touch()
    assert find_pointers("more") == [Path("published/more/data.dvc")]


@pytest.mark.parametrize("damage", [lambda path: path.write_text("other"), lambda path: path.unlink()])
def test_a_file_that_is_wrong_or_missing_in_the_remote_is_named_and_not_served(clone, damage):
    stored = in_remote(WEIGHTS)
    stored.chmod(0o644)
    damage(stored)
    with pytest.raises(
        UserError, match=r"results/tiny/base/model/model\.safetensors of published/tiny/base\.dvc"
    ) as error:
        restore(None, "tiny")
    assert "remote local" in str(error.value) and "\n" not in str(error.value)
    assert not WEIGHTS.exists()


def test_a_wrong_file_from_a_remote_that_dvc_does_not_check_is_named_and_removed(clone):
    Path(".dvc/config.local").write_text("['remote \"local\"']\n    verify = false\n")
    stored = in_remote(WEIGHTS)
    stored.chmod(0o644)
    stored.write_text("other")
    with pytest.raises(UserError, match=r"base/model/model\.safetensors is not what its manifest says"):
        restore(None, "tiny")
    assert not WEIGHTS.exists() and Path("results/tiny/zero_rl/model/model.safetensors").exists()


def test_a_remote_that_is_away_is_one_line(clone):
    shutil.rmtree(".dvc-remote")
    with pytest.raises(UserError, match=r"^remote local \(.*\.dvc-remote\).* results/tiny/base of published/tiny/b"):
        restore(None, "tiny")


def test_what_dvc_fails_at_with_nothing_missing_or_changed_is_said_in_its_words(project, monkeypatch):
    settings = "core.remote=local\nremote.local.url=/mnt/runs\n"
    monkeypatch.setattr(versions, "dvc_output", lambda word, *rest: settings if word == "config" else "")
    monkeypatch.setattr(versions, "dvc", lambda *words: "disk is full")
    with pytest.raises(UserError, match=r"^remote local \(/mnt/runs\): disk is full$"):
        pull([POINTERS / "base.dvc"], None)


@pytest.fixture
def restored(project):
    """The project as DVC has brought data/ back: without the records that git keeps beside it."""
    for name in versions.BESIDE:
        Path("data", name).unlink()


def test_a_record_of_other_data_is_not_taken_for_this_ones(restored):
    Path("data/manifest.json").write_text(Path("data/manifest.json").read_text() + "\n")
    bring_what_was_beside_data()
    assert not any(Path("data", name).exists() for name in versions.BESIDE)


def test_a_record_that_git_lacks_is_done_without(restored):
    Path("data.cost.json").unlink()
    bring_what_was_beside_data()
    assert Path("data/provenance.json").read_bytes() == Path("data.provenance.json").read_bytes()
    assert not Path("data/cost.json").exists()


def test_outputs_that_were_never_published_are_not_overwritten(clone):
    WEIGHTS.parent.mkdir(parents=True)
    WEIGHTS.write_text("a week of training")
    with pytest.raises(UserError, match=r"base/model/model\.safetensors of .*never published"):
        restore(None, "tiny")
    assert WEIGHTS.read_text() == "a week of training"


def test_a_remote_that_is_away_leaves_the_pointers_and_the_push_can_be_repeated(clone):
    make_stage(Path("results/more/data"), "data", [])
    shutil.rmtree(".dvc-remote")
    Path(".dvc-remote").touch()
    with pytest.raises(UserError, match=r"^remote local \(.*the pointers are made, `r1flow publish results/more`"):
        publish(Path("more"))
    Path(".dvc-remote").unlink()
    publish(Path("more"))
    assert Path("published/more/data.dvc").exists() and list(Path(".dvc-remote").rglob("*.dir"))


def test_an_s3_remote_by_configuration(clone, monkeypatch):
    server = pytest.importorskip("moto.server", reason="moto[server] is not installed").ThreadedMotoServer(port=0)
    pytest.importorskip("dvc_s3", reason="dvc-s3 is not installed: pip install r1flow[s3]")
    import boto3

    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "x")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    server.start()
    url = "http://{}:{}".format(*server.get_host_and_port())
    boto3.client("s3", endpoint_url=url).create_bucket(Bucket="runs")
    Path(".dvc/config.local").write_text(f"['remote \"s3\"']\n    url = s3://runs/dvc\n    endpointurl = {url}\n")
    make_stage(Path("results/more/data"), "data", [])
    publish(Path("more"), remote="s3")
    before = contents(clone)
    shutil.rmtree(".dvc/cache")
    shutil.rmtree("results/more/data")
    restore(None, "more", remote="s3")
    assert contents(clone) == before
    server.stop()
    with pytest.raises(UserError, match=r"^remote s3 \(s3://runs/dvc\)"):
        publish(Path("more"), remote="s3")


@pytest.fixture
def project(published, tmp_path, monkeypatch):
    """A copy of the project, to break; DVC is not to be called."""
    shutil.copytree(published, tmp_path / "copy", ignore=shutil.ignore_patterns("cache", ".dvc-remote"))
    monkeypatch.chdir(tmp_path / "copy")
    monkeypatch.setattr(versions, "dvc", lambda *arguments: pytest.fail(f"dvc {arguments} was called"))


def retrain() -> None:
    """Another base, whole in itself, beside what was made from the one before."""
    WEIGHTS.write_text("retrained")
    seal(RUN / "base", "base", PARENTS["base"])


def test_a_model_with_a_weight_that_is_not_finite_is_not_published(project):
    WEIGHTS.write_bytes(WEIGHTS.read_bytes()[:-4] + struct.pack("<f", math.inf))
    for stage, parents in PARENTS.items():
        seal(RUN / stage, stage, parents)
    with pytest.raises(UserError, match=r"base/model: weights that aren't finite .*: a; nothing was published"):
        publish(RUN)


BREAKAGES = {
    "model/model.safetensors is not what its manifest says": lambda: WEIGHTS.write_text("edited"),
    "model/model.safetensors is missing": WEIGHTS.unlink,
    "model/adapter_config.json is not in its manifest": WEIGHTS.with_name("adapter_config.json").touch,
    "base/config.yaml isn't the configuration that these outputs were made with": lambda: (
        RUN / "base/config.yaml"
    ).write_text("seed: 2"),
    "manifest.json is missing": (RUN / "base/manifest.json").unlink,
    "base/manifest.json can't be read": lambda: (RUN / "base/manifest.json").write_text("{"),
    "base/provenance.json is missing": (RUN / "base/provenance.json").unlink,
    "base/provenance.json belongs to other outputs": lambda: seal_without_provenance(RUN / "base"),
    "zero_rl/provenance.json belongs to other outputs": lambda: rewrite_provenance(RUN / "zero_rl"),
    "zero_rl/provenance.json says that base (input base) was another one": retrain,
    "zero_rl/provenance.json says that base (input base) was there": lambda: shutil.rmtree(RUN / "base"),
    "data/metrics.json is not what its manifest says": lambda: Path("data/metrics.json").write_text("edited"),
    "data/config.json is not what data.dvc pins": lambda: repin("config.json"),
}


def seal_without_provenance(folder: Path) -> None:
    (folder / "metrics.json").write_text('{"loss": 1}')
    manifest.write_json(folder / "manifest.json", manifest.manifest_of_files("base", folder))


def rewrite_provenance(folder: Path) -> None:
    """Other code than the identity is of; the plan computes such a stage again."""
    then = manifest.read_json(folder / "provenance.json")
    manifest.write_json(folder / "provenance.json", {**then, "code": "0ther"})


def repin(name: str) -> None:
    contract = yaml.safe_load(Path("data.dvc").read_text())
    contract["meta"]["files"][name] = "ff"
    Path("data.dvc").write_text(yaml.safe_dump(contract))


@pytest.mark.parametrize("line", BREAKAGES)
def test_verify_names_what_is_wrong_and_publish_refuses_it(project, capsys, line):
    BREAKAGES[line]()
    assert verify(RUN) == 1
    assert line in capsys.readouterr().out
    assert verify(RUN, as_json=True) == 1
    assert as_documented("verify", capsys.readouterr().out)["problems"]
    with pytest.raises(UserError, match="nothing was published"):
        publish(RUN)


@pytest.mark.parametrize("line", [line for line in BREAKAGES if "not in its manifest" in line or "made with" in line])
def test_restore_finds_what_the_plan_finds(project, monkeypatch, line):
    """Brought back from a remote by a DVC that compares nothing."""
    monkeypatch.setattr("r1flow.commands.restore.pull", lambda pointers, remote: BREAKAGES[line]())
    with pytest.raises(UserError, match=re.escape(line)):
        restore(None, "tiny")
    assert not list((RUN / "base").rglob(Path(line.split()[0]).name))  # and isn't served


@pytest.mark.parametrize("links", one_in(2, [["results/tiny/base", "results/tiny"], ["results", "data"]]))
def test_a_run_behind_a_link_is_published_and_comes_back_in_a_clone(published, tmp_path, monkeypatch, capsys, links):
    project, clone, disk = (tmp_path / name for name in ("project", "clone", "disk"))
    shutil.copytree(published, project)
    monkeypatch.chdir(project)
    git("checkout", "--quiet", "-b", "linked", "v1~")
    disk.mkdir()
    for link in map(Path, links):
        link.rename(disk / link.name)
        link.symlink_to(disk / link.name)
    publish(RUN, as_json=True)
    subprocess.run(as_documented("publish", capsys.readouterr().out)["commit"], shell=True, check=True)
    assert git("status", "--porcelain") == "" and git("diff", "--stat", "v1", "linked") == ""  # the pointers are equal
    assert {path.name for path in disk.rglob("*")} & {".gitignore", "base.dvc"} == set()
    git("clone", "--quiet", str(project), str(clone))
    shutil.copytree(".dvc-remote", clone / ".dvc-remote")
    assert print_trace("results/tiny/base/metrics.json") == 0
    assert re.search(r"DVC base [0-9a-f]{32}\.dir", capsys.readouterr().out)
    monkeypatch.chdir(clone)
    restore(None, None)
    assert contents(clone) == contents(published) and verify(None) == 0


def test_a_run_of_another_project_is_not_published(project, tmp_path):
    for name in ("tiny", "more"):
        make_stage(tmp_path / "other/results" / name / "data", "data", [])
        with pytest.raises(UserError, match=rf"other/results/{name}: isn't a run in this project's results/"):
            publish(tmp_path / "other/results" / name)


def test_no_pointer_is_written_through_a_link(project):
    Path("published").rename("elsewhere")
    Path("published").symlink_to("elsewhere")
    before = contents(Path(), "elsewhere")
    with pytest.raises(UserError, match=r"^published: is a link"):
        publish(RUN)
    assert before and contents(Path(), "elsewhere") == before


@pytest.mark.parametrize("run", [None, "tiny"])
def test_what_an_earlier_version_published_is_said_to_be_for_its_code(project, run):
    POINTERS.joinpath("base.dvc").rename(RUN / "base.dvc")
    shutil.rmtree("published")
    with pytest.raises(UserError, match=r"^results/tiny/base\.dvc: was published by an earlier version") as error:
        restore(None, run)
    assert "\n" not in str(error.value)


def test_verify_counts_what_it_hashed_and_passes_a_whole_run(project, capsys):
    (RUN / "rejection").mkdir()  # Snakemake makes the folder before the stage runs
    assert verify(None) == 0
    assert capsys.readouterr().out == "4 stages, 8 files, 0.0 MB hashed: everything is as its manifest says\n"


def test_verify_takes_a_stage_too_and_passes_no_folder_without_one(project, capsys):
    assert verify(RUN / "base") == 0
    assert capsys.readouterr().out.startswith("1 stages, 2 files")
    WEIGHTS.write_text("edited")
    assert verify(RUN / "base") == 1
    (RUN / "report").mkdir()
    with pytest.raises(UserError, match=r"^results/tiny/report: no finished stage in it; name a run's folder"):
        verify(RUN / "report")


def test_a_pointer_that_dvc_alone_has_written_pins_no_files(project):
    contract = yaml.safe_load(Path("data.dvc").read_text())
    Path("data.dvc").write_text(yaml.safe_dump({"outs": contract["outs"]}))
    assert verify(None) == 0


def test_on_a_terminal_verify_says_how_far_it_is(project, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert verify(RUN) == 0
    first, *_, last = sys.stderr.getvalue().splitlines()
    assert (first, last) == ("[verify] 1/8  read 0.0 MB", "[verify] 8/8  read 0.0 MB")


def test_verify_hashes_contents_also_when_size_and_time_are_the_same(project):
    status = WEIGHTS.stat()
    WEIGHTS.write_text(WEIGHTS.read_text()[::-1])
    os.utime(WEIGHTS, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert verify(RUN) == 1


def test_stages_that_were_not_published_together_are_restored_and_said_to_be_none_of_one_run(project, monkeypatch):
    retrain()
    monkeypatch.setattr("r1flow.commands.restore.pull", lambda pointers, remote: None)
    with pytest.raises(
        UserError,
        match=r"zero_rl/provenance\.json says that base \(input base\) was another one; all is restored as it was",
    ):
        restore(None, None)
    assert WEIGHTS.read_text() == "retrained"


def test_changes_that_are_not_committed_are_named_and_kept(project):
    Path("data.dvc").write_text("mine")
    with pytest.raises(UserError, match=r"data\.dvc: has changes that are not committed"):
        restore("v1", None)
    assert Path("data.dvc").read_text() == "mine"


def test_a_machine_without_git_is_told_so_in_a_line(project, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match=r"^git isn't installed here; install it \(apt-get install git\)$"):
        restore("v1", None)


LEADING_OUT = ["../../../victim.txt", "/victim.txt", "model/../../../../victim.txt", "", "./a", 5]


@pytest.fixture
def fetched(project, monkeypatch):
    """The project with what DVC has fetched for base: its listing, and its manifest as a publisher wrote it."""
    Path("victim.txt").write_text("mine")
    monkeypatch.setattr(versions, "dvc", lambda word, *rest: pytest.fail("dvc pull") if word == "pull" else None)
    monkeypatch.setattr(versions, "dvc_output", lambda *words: ".dvc/cache\n")

    def cache(listed: object, of: object, named: object) -> None:
        files = {named: {"sha256": "ff", "size": 1}} if isinstance(named, str) else named
        edge = stored(json.dumps({"stage": "base", "files": files}).encode())
        listing = [{"relpath": "manifest.json", "md5": edge}, {"relpath": listed, "md5": of}]
        point(md5=f"{stored(json.dumps(listing).encode(), '.dir')}.dir")

    return cache


def stored(content: bytes, suffix: str = "", root: str = ".dvc/cache") -> str:
    """Put content into DVC's cache or remote; its hash."""
    md5 = hashlib.md5(content).hexdigest()
    path = Path(root, "files/md5", md5[:2], f"{md5[2:]}{suffix}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return md5


def point(top: dict[str, Any] = {}, **out: object) -> None:  # noqa: B006
    """Rewrite base's pointer."""
    found = yaml.safe_load((POINTERS / "base.dvc").read_text())
    found["outs"][0] |= out
    (POINTERS / "base.dvc").write_text(yaml.safe_dump(found | top))


@pytest.mark.parametrize("name", LEADING_OUT)
@pytest.mark.parametrize("whose", ["manifest", "listing"])
def test_names_that_lead_out_of_a_stages_folder_are_refused_before_anything_is_touched(fetched, whose, name):
    before = contents(Path())
    fetched(*(("a", "0" * 32, name) if whose == "manifest" else (name, "0" * 32, {})))
    where = r"^published/tiny/base\.dvc: names files outside results/tiny/base/, or .* is damaged"
    with pytest.raises(UserError, match=f"{where}; nothing was touched"):
        pull([POINTERS / "base.dvc"], None)
    (POINTERS / "base.dvc").unlink()
    assert Path("victim.txt").read_text() == "mine"
    assert contents(Path()) == {path: text for path, text in before.items() if not path.endswith("base.dvc")}


def test_a_hash_that_leads_out_of_the_cache_is_refused(fetched):
    fetched("a", "ab/../../../victim.txt", {})
    with pytest.raises(UserError, match="names files outside"):
        pull([POINTERS / "base.dvc"], None)


def test_a_listing_that_is_damaged_in_dvcs_cache_is_named(fetched):
    point(md5=f"{stored(b'[{', '.dir')}.dir")
    with pytest.raises(UserError, match=r"or \.dvc/cache/files/md5/\w\w/\w{30}\.dir is damaged; .*: remove that file"):
        pull([POINTERS / "base.dvc"], None)


@pytest.mark.parametrize("name", [name for name in LEADING_OUT if name != 5])
def test_a_manifest_on_disk_that_names_files_outside_costs_none_of_them(project, monkeypatch, name):
    Path("victim.txt").write_text("mine")
    manifest.write_json(RUN / "base/manifest.json", {"stage": "base", "files": {name: {"sha256": "ff", "size": 1}}})
    monkeypatch.setattr("r1flow.commands.restore.pull", lambda pointers, remote: None)
    with pytest.raises(UserError, match=r"base/manifest\.json can't be read"):
        restore(None, "tiny")
    assert Path("victim.txt").read_text() == "mine"


HOSTILE = {
    "another folder": lambda: point(path="../../src"),
    "an absolute path": lambda: point(path="/tmp/victim"),
    "another place to begin": lambda: point({"wdir": "../../src"}),
    "another run": lambda: point({"wdir": "../../results/other"}),
    "the folder beside it": lambda: point({"wdir": "."}),
    "an absolute place": lambda: point({"wdir": str(RUN.absolute())}),
    "a place that leads out": lambda: point({"wdir": "../../results/tiny/../../src"}),
    "pinned data elsewhere": lambda: Path("data.dvc").write_text(f"{Path('data.dvc').read_text()}wdir: src\n"),
    "more than one folder": lambda: point({"outs": [{"path": "base"}, {"path": "../../src"}]}),
    "a hash that is a path": lambda: point(md5="ab/../../../victim.txt"),
    "another remote": lambda: point(remote="theirs"),
    "an import": lambda: point({"deps": [{"path": "x", "repo": {"url": "https://evil.example/x"}}]}),
    "no mapping": lambda: (POINTERS / "base.dvc").write_text("[]"),
    "a link": lambda: (POINTERS / "base.dvc").rename("b.dvc") and (POINTERS / "base.dvc").symlink_to("../../b.dvc"),
    "pointers behind a link": lambda: POINTERS.rename("src") and POINTERS.symlink_to("../src"),
    "results behind a link": lambda: Path("results").rename("src") and Path("results").symlink_to("src"),
    "a stage that is a link": lambda: (RUN / "base").rename("src") and (RUN / "base").symlink_to("../../src"),
    "a run that is a link": lambda: RUN.rename("src") and RUN.symlink_to("../src"),
    "a link in a stage": lambda: (RUN / "base/tokenizer").symlink_to("../../../src"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_pointer_to_anything_but_its_own_folder_is_refused_before_dvc_is_called(project, what):
    HOSTILE[what]()
    with pytest.raises(UserError, match=r"(is no pointer to|is a link).*nothing was touched"):
        restore(None, "tiny")


def test_nothing_is_planted_beside_the_stages_by_a_publisher_and_a_remote_that_agree(clone):
    pointer = yaml.safe_load((POINTERS / "base.dvc").read_text())["outs"][0]["md5"]
    listing = json.loads(Path(".dvc-remote/files/md5", pointer[:2], pointer[2:]).read_text())
    listing.append({"relpath": "../../../src/evil.py", "md5": stored(b"evil", root=".dvc-remote")})
    point(md5=f"{stored(json.dumps(listing).encode(), '.dir', '.dvc-remote')}.dir")
    with pytest.raises(UserError, match="names files outside"):
        restore(None, "tiny")
    assert not Path("src").exists() and not Path("data").exists() and not (RUN / "base").exists()


def test_an_unknown_revision_or_run_is_one_line(project):
    with pytest.raises(UserError, match="nowhere"):
        restore("nowhere", None)
    with pytest.raises(UserError, match="runs published in this revision: tiny"):
        restore(None, "other")
    with pytest.raises(UserError, match=r"other: there is no such run; in results/: tiny"):
        publish(Path("other"))


def test_nothing_is_restored_or_published_under_a_live_run(project):
    lock = hold(Path("scratch/live.lock"))
    with pytest.raises(UserError, match="a run is live"):
        restore(None, "tiny")
    with pytest.raises(UserError, match="a run is live"):
        publish(RUN)
    lock.close()
