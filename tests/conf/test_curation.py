"""What no curate stage, and no training on its rows, could do is refused when the run is planned."""

import copy
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from r1flow.artifacts.provenance import input_of
from r1flow.core.errors import UserError
from r1flow.engine import config
from r1flow.engine.run import Run
from r1flow.programs.curate.spec import Curate

ROOT = Path(__file__).parents[2]
OTHER = {"of": "data", "files": ["a.jsonl"], "share": 1, "filters": None}
STAGES = ["data", "base", "curate", "cold_start", "evaluate", "report"]


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    words = f"stages=[{','.join(STAGES)}] cold_start.data={{file:packed,general_share:0}}"
    words += " cold_start.trainer.packing=true"
    run = Run.compose(ROOT, overrides=f"{words} cold_start.trainer.max_length=16384").config
    config.check_run(run)
    return run


def changed(run: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The run with other values at some dotted keys."""
    run = copy.deepcopy(run)
    for path, value in changes.items():
        *parents, key = path.split(".")
        block = run
        for parent in parents:
            block = block[parent]
        block[key] = value
    return run


REFUSED = {
    "packed again": ({"cold_start.trainer.packing": False}, "cold_start.trainer.packing: False"),
    "cut": ({"curate.max_length": 512}, "cold_start.trainer.max_length: 16384.*set it to 512"),
    "general rows beside them": (
        {"cold_start.data.general_share": 0.1},
        "cold_start.data.general_share: the rows of packed are mixed already",
    ),
    "some of them": ({"cold_start.data.limit": 9}, "cold_start.data.limit"),
    "another template": ({"cold_start.template": "x"}, "cold_start.template"),
    "not by SFT": ({"stages": [*STAGES, "zero_rl"], "zero_rl.data.file": "packed"}, "zero_rl.data.file"),
    "no curate": ({"stages": ["data", "base", "cold_start"]}, "cold_start reads curate, which isn't in the list"),
    "evaluated on what nobody compared": ({"curate.benchmarks": ["dev.jsonl"]}, "curate.benchmarks: test.jsonl"),
    "a benchmark that isn't there": (
        {"curate.benchmarks": ["test.jsonl", "tset.jsonl"]},
        "curate.benchmarks: it reads tset.jsonl, which the data stage doesn't make; did you mean 'test.jsonl'",
    ),
    "shares": ({"curate.sources.traces.share": 90}, "curate.sources: the shares sum to 90"),
    "a share of nothing": ({"curate.sources.other": OTHER | {"share": 0}}, "curate.sources.other.share: 0"),
    "no folder": ({"curate.sources.other": OTHER | {"of": "/nowhere"}}, "'/nowhere' is no folder"),
    "a stage that isn't there": ({"curate.sources.traces.of": "rejection"}, "curate reads rejection"),
    "nearness": ({"curate.nearness": 1.5}, "curate.nearness: 1.5"),
    "no rows": ({"curate.rows": 0}, "curate.rows: 0"),
}


@pytest.mark.parametrize(("changes", "said"), REFUSED.values(), ids=REFUSED)
def test_it_is_refused_in_one_line(plain: dict[str, Any], changes: dict[str, Any], said: str):
    with pytest.raises(UserError, match=said) as refusal:
        config.check_run(changed(plain, changes))
    assert "\n" not in str(refusal.value)


def test_a_key_that_isnt_known_is_refused(plain: dict[str, Any]):
    with pytest.raises(UserError, match=r"^curate\.rowss"):
        config.check_keys("curate", plain["curate"] | {"rowss": 1}, Curate)


def test_a_file_that_nothing_fetches_is_refused():
    run = Run.compose(ROOT, "distill_qwen2.5_1.5b").config
    for files, refused in ((["cold_*.jsonl"], False), (["rl.jsonl"], True)):
        run["curate"]["sources"]["traces"]["files"] = files
        if refused:
            with pytest.raises(UserError, match=re.escape("curate.sources.traces.files: it reads rl.jsonl")):
                config.check_run(run)
        else:
            config.check_run(run)


def test_curate_stands_between_what_it_reads_and_what_learns_from_it():
    run = Run.compose(ROOT, "r1_qwen2.5_7b")
    assert run.stages.index("rejection") < run.stages.index("curate") < run.stages.index("sft_mix")
    assert run.inputs("curate") == {"data": "data", "rejection": "rejection", "model": "base"}
    assert run.inputs("sft_mix")["data"] == run.inputs("distill")["data"] == "curate"
    assert run.inputs("cold_start")["data"] == "data"


def test_a_folder_from_outside_is_an_input_by_its_content(plain: dict[str, Any], tmp_path: Path):
    run = Run(changed(plain, {"curate.sources.traces.of": str(tmp_path)}))
    config.check_run(run.config)
    assert run.inputs("curate") == {"data": "data", "source_traces": str(tmp_path), "model": "base"}


def test_a_folder_s_name_reaches_the_stage_as_it_is(plain: dict[str, Any], tmp_path: Path):
    folder = tmp_path / "my 'own' traces; touch x $(touch y)"
    folder.mkdir()
    run = Run(changed(plain, {"curate.sources.traces.of": str(folder)}))
    config.check_run(run.config)
    words = subprocess.run(["sh", "-c", f"printf '%s\\n' {run.arguments('curate')}"], capture_output=True, text=True)
    assert f"source_traces={folder}" in words.stdout.splitlines()


def test_a_source_with_a_manifest_of_another_program_is_a_folder_from_outside(tmp_path: Path):
    (tmp_path / "a.jsonl").write_text("{}")
    (tmp_path / "manifest.json").write_text('{"name": "traces"}')
    assert input_of(tmp_path).keys() == {"path", "sha256"}
    (tmp_path / "manifest.json").write_text('{"stage": "data"')
    with pytest.raises(UserError, match="can't be read"):
        input_of(tmp_path)


def test_the_default_run_knows_nothing_of_it():
    run = Run.compose(ROOT)
    assert "curate" not in run.jobs and all("curate" not in run.inputs(job).values() for job in run.jobs)
