"""YAML and JSON that small files blow up, or that overflow a stack, are refused in a line; our own files never are."""

import shutil
from pathlib import Path

import pytest

from r1flow.artifacts import provenance
from r1flow.artifacts.frozen import config_digest, dump, freeze, load_frozen
from r1flow.artifacts.manifest import read_manifest
from r1flow.commands.trace import read_file
from r1flow.core import files
from r1flow.core.errors import UserError
from r1flow.core.files import BadFile, read_json, read_yaml
from r1flow.data.sources import read_lock
from r1flow.engine.config import compose

LAUGHS = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
LAUGHS += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 7)]  # 10^7 values
BAD_YAML = {
    "aliases": ("\n".join(LAUGHS), "line 2: *a0 is an alias"),
    "an alias of itself": ("a: &a [*a]", "line 1: *a is an alias"),
    "an alias by a merge": ("a: &a {b: 1}\nc: {<<: *a}", "line 2: *a is an alias"),
    "brackets": ("[" * 300_000, "line 1: more than 100 levels"),  # read as it is, it ends Python (signal 11)
    "dashes": ("- " * 60_000 + "x", "line 1: more than 100 levels"),
    "a time of many parts": ("a: 1" + ":1" * 50_000, "line 1: a number of 100001 digits"),
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
    with pytest.raises(UserError):
        read_file(path, load_frozen)  # trace, diff, regrade, seeds
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
    with pytest.raises(BadFile, match=r"conf/sft/default\.yaml: .* more than 100000 values, by aliases"):
        compose(tmp_path / "conf", "r1_micro")


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a": ' * 200_000, "{", "\udcff", '{"a": ' + "9" * 5000 + "}"])
def test_json_that_is_none_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "metrics.json"
    path.write_text(text, errors="surrogateescape")
    with pytest.raises(BadFile, match=r"metrics\.json: can't be read as JSON"):
        read_json(path)
    with pytest.raises(ValueError):
        read_manifest(path)


def test_files_larger_than_any_of_ours_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_text("1" + " " * 2_000_000)
    for most, read in (("MOST_JSON", read_json), ("MOST_YAML", read_yaml)):
        assert read(path) == 1
        monkeypatch.setattr(files, most, 1_000_000)
        with pytest.raises(BadFile, match="more than 1 MB"):
            read(path)
