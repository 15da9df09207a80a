"""YAML and JSON that small files blow up, or that overflow a stack, are refused in a line; our own files never are."""

import re
import resource
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from r1flow.artifacts import manifest, provenance
from r1flow.artifacts.frozen import config_digest, dump, freeze
from r1flow.artifacts.manifest import read_manifest
from r1flow.artifacts.records import read_file
from r1flow.core import apart, files
from r1flow.core.errors import UserError
from r1flow.core.files import BadFile, read_json, read_yaml
from r1flow.data.sources import read_lock
from r1flow.engine.config import compose
from r1flow.sampling import Completion, shards
from r1flow.tracking.delivery import record_of_line
from r1flow.tracking.spool import Spool

LAUGHS = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
LAUGHS += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 7)]  # 10^7 values
BAD_YAML = {
    "aliases": ("\n".join(LAUGHS), "line 2: *a0 is an alias"),
    "an alias of itself": ("a: &a [*a]", "line 1: *a is an alias"),
    "an alias by a merge": ("a: &a {b: 1}\nc: {<<: *a}", "line 2: *a is an alias"),
    "brackets": ("[" * 300_000, "line 1: more than 100 levels"),  # read as it is, it ends Python (signal 11)
    "dashes": ("- " * 60_000 + "x", "line 1: more than 100 levels"),
    "a time of many parts": ("a: 1" + ":1" * 50_000, "line 1: a number of 100001 digits"),
    "many values": ("[" + "a: ," * 40_000 + "]", "line 1: more than 100000 values"),  # 1.6 MB of them took 12 s
    "many documents": ("---\n" * 100_000, "line 50001: more than 100000 values"),  # each has an empty value
    "keys of one hash": (f"? {10 * (2**61 - 1)}\n: 1\n? {100 * (2**61 - 1)}\n: 1", "line 3: a number of 21 digits"),
    "keys of one hash, base 16": (f"0x{16 * (2**61 - 1):x}1: 1", "line 1: a number of 20 digits"),
    "an alias of a long name": ("a: *" + "a" * 10**6, "aaaaa"),
    "many digits": ("a: " + "9" * 5000, "line 1: a number of 5000 digits"),
    "no date": ("a: 2001-99-99", "month must be in 1..12"),
    "half a list": ("a: [1\nb: 2", "line 2, column 2"),
    "an object": ("!!python/object/apply:os.system [id]", "could not determine a constructor"),
    "a list as a key": ("? [1]\n: 2", "unhashable key"),
    "NUL": ("a: \0", "control characters are not allowed"),
}


@pytest.mark.parametrize(("text", "said"), BAD_YAML.values(), ids=BAD_YAML)
def test_yaml_that_is_not_as_we_write_it_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(BadFile) as refused:
        read_yaml(path)
    assert str(path) in str(refused.value) and said in str(refused.value) and "\n" not in str(refused.value)
    assert len(str(refused.value)) < len(str(path)) + 400
    with pytest.raises(UserError):
        read_file(path, read_yaml)  # trace, diff, regrade, seeds
    with pytest.raises(UserError, match="run `r1flow lock` again"):
        read_lock(path)


def test_a_config_with_aliases_is_a_fault_of_its_stage_for_verify_and_plan(tmp_path: Path) -> None:
    """Reading it took no time, but its digest would have been of 10^7 values."""
    (tmp_path / "config.yaml").write_text("\n".join(LAUGHS))
    assert not provenance.made_with(tmp_path / "config.yaml", {"config": config_digest({})})


def test_a_frozen_slice_has_no_aliases_though_its_values_are_shared(tmp_path: Path) -> None:
    shared = [1, {"a": 2}]
    config = {"one": shared, "two": shared, "three": {"a": shared}}
    assert "&" not in dump(config) and read_yaml(freeze("base", config, tmp_path)) == config
    freeze("base", config, tmp_path).write_text("\n".join(LAUGHS))
    assert read_yaml(freeze("base", config, tmp_path)) == config


def test_a_configuration_that_aliases_blow_up_is_refused_before_hydra_reads_it(tmp_path: Path) -> None:
    shutil.copytree("conf", tmp_path / "conf")
    with (tmp_path / "conf/sft/default.yaml").open("a") as file:
        file.write("\n" + "\n".join(LAUGHS))
    with pytest.raises(BadFile, match=r"conf/sft/default\.yaml: .* more than 100000 values"):
        compose(tmp_path / "conf", "r1_micro")


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a": ' * 200_000, "{", "\udcff", '{"a": ' + "9" * 5000 + "}"])
def test_json_that_is_none_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "metrics.json"
    path.write_text(text, errors="surrogateescape")
    with pytest.raises(BadFile, match=r"metrics\.json: can't be read as JSON"):
        read_json(path)
    with pytest.raises(ValueError):
        read_manifest(path)


def test_json_of_more_lists_than_any_of_ours_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text("[" + "[]," * 1_000_000 + "[]]")
    with pytest.raises(BadFile, match="1000002 brackets, more than 1000000"):
        read_json(path)
    with pytest.raises(ValueError, match="brackets"):
        read_manifest(path)


def test_long_numbers_that_mean_themselves_are_read(tmp_path: Path) -> None:
    values = {"seed": 2**64 - 1, "low": -(2**63), "eps": 1.1920928955078125e-07, "sha256": "3" * 64, "of": "3f" * 32}
    (tmp_path / "a.yaml").write_text(dump(values))
    assert read_yaml(tmp_path / "a.yaml") == values


def test_files_larger_than_any_of_ours_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_text("1" + " " * 2_000_000)
    for most, read in (("MOST_JSON", read_json), ("MOST_YAML", read_yaml)):
        assert read(path) == 1
        monkeypatch.setattr(files, most, 1_000_000)
        with pytest.raises(BadFile, match="more than 1 MB"):
            read(path)


@pytest.mark.parametrize("read", [read_json, read_yaml, read_manifest])
def test_a_long_file_is_parsed_in_a_process_apart_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read) -> None:
    def refuse(*arguments: object, what: str, **limits: object) -> None:
        raise UserError(f"{what}: reading it took more than 30 s")

    monkeypatch.setattr(apart, "read_apart", refuse)
    entries = {f"{number:064}": {"sha256": "", "size": 0} for number in range(1000)}
    manifest.write_json(tmp_path / "short", {"stage": "base", "files": {}})
    manifest.write_json(tmp_path / "long", {"stage": "base", "files": entries})
    assert read(tmp_path / "short") == {"stage": "base", "files": {}}
    with pytest.raises(ValueError, match="the text: reading it took more than 30 s"):
        read(tmp_path / "long")


# What a disk that is full in the middle of a write leaves.


@contextmanager
def full_disk() -> Iterator[None]:
    """Files can't grow beyond 100 bytes meanwhile: a longer one fails halfway, as on a full disk.

    Not a fixture: pytest writes its report before one ends, and that may go to a file.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


LONG = {"a": "long " * 9000}


WRITERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "metrics, manifests, costs": ("metrics.json", lambda path: manifest.write_json(path, LONG)),
    "samples": ("0.json", lambda path: shards.write(path, [Completion([1], "long " * 9000, True)])),
    "reports, pins, locks": ("report.html", lambda path: files.write_whole(path, "long " * 9000)),
}


@pytest.mark.parametrize(("name", "write"), WRITERS.values(), ids=WRITERS)
def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path: Path, name: str, write) -> None:
    (tmp_path / name).write_text("the old one")
    with full_disk(), pytest.raises(OSError, match=re.escape(str(tmp_path / name))):
        write(tmp_path / name)
    assert (tmp_path / name).read_text() == "the old one"
    assert not [path for path in tmp_path.rglob("*") if "partial" in path.name]


def test_threads_that_write_one_file_at_the_same_time_each_write_it_whole(tmp_path: Path, monkeypatch) -> None:
    both_wrote = threading.Barrier(2, timeout=60)
    monkeypatch.setattr(files.os, "fsync", lambda number: both_wrote.wait())  # nobody renames before that
    texts = ["one", "the other, longer"]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda text: files.write_whole(tmp_path / "reply.json", text, durable=True), texts))
    assert [path.name for path in tmp_path.iterdir()] == ["reply.json"]
    assert (tmp_path / "reply.json").read_text() in texts


def test_a_full_disk_leaves_no_half_configuration(tmp_path: Path) -> None:
    with full_disk(), pytest.raises(OSError):
        freeze("base", LONG, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_record_for_mlflow_that_was_cut_takes_no_other_with_it(tmp_path: Path, capsys) -> None:
    spool = Spool(tmp_path / "base.jsonl")
    spool.append("tag", key="a", value="short")
    with full_disk():
        spool.append("tag", key="b", value="long " * 9000)
    spool.append("tag", key="c", value="short")
    spool.close()
    records = [record_of_line(line) for line in spool.path.read_bytes().splitlines()]
    assert [record.get("key", record["kind"]) for record in records] == ["a", "damaged", "c"]
    assert "File too large; the run itself is not affected" in capsys.readouterr().err


# What writes into a folder that is emptied at the next start (a stage's work), or removes what it has begun.
INTO_WORK = {"commands/export", "data/packages", "programs/data/compute", "programs/report/compute"}
INTO_WORK |= {"artifacts/fingerprint", "programs/pretrain/compute"}
TOUCHES = {"engine/run"}  # a few bytes, read by nobody


def test_every_other_writer_goes_through_the_one_that_leaves_no_half_file() -> None:
    package = Path(files.__file__).parents[1]
    names = {str(path.relative_to(package).with_suffix("")): path.read_text() for path in package.rglob("*.py")}
    direct = {name for name, text in names.items() if re.search(r"\.write_(text|bytes)\(", text)}
    assert {name for name in direct if not name.startswith("sandbox/")} == INTO_WORK | TOUCHES
