"""Tracing a number or a model back to its sources, over folders of runs that were never computed."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import yaml
from documented import as_documented
from fabricated_run import fabricate_curves, fabricate_samples

from r1flow.artifacts.frozen import config_digest
from r1flow.artifacts.manifest import manifest_of_files, read_json, sha256, write_json
from r1flow.artifacts.records import read_record
from r1flow.commands.trace import mlflow_run, print_trace, stages_of_claim
from r1flow.core.errors import UserError
from r1flow.core.metrics import summarise_tasks
from r1flow.recipe.stages import RECIPE
from r1flow.tracking import spool

MODELS = {"base": None, "zero_rl": "base", "cold_start": "base", "reasoning_rl": "cold_start"}  # each from which
LIBRARIES = {"torch": "2.13.0", "trl": "1.16.0"}
CONFIG = {"seed": 1, "threads": 1, "device": "cpu", "trainer": {"learning_rate": 1.0e-4, "betas": [0.9, 0.99]}}
ASKS = ("rewards", "engine_options")
NUMBER = "models.zero_rl.reasoning.pass_at_1"


def make_run(run: Path, models: dict[str, Any] = MODELS, pinned: bool = False, **changes: dict[str, Any]) -> Path:
    """results/<run> as if computed: a stage's bytes follow from its provenance, so that a change travels downwards.

    `changes` is by stage: {"zero_rl": {"trainer": {…}}} changes its config, "code", "modules", "libraries", "threads"…
    its provenance, and "bytes" what it computes without a word in its provenance.
    """
    make_stage(run, "data", {}, changes, folder=run.parent.parent / "data" if pinned else None)
    data = run.parent.parent / "data" if pinned else run / "data"
    for model, start in models.items():
        source = {} if start is None else {"model": start if isinstance(start, dict) else edge(run / start)}
        make_stage(run, model, {"data": edge(data), **source}, changes)
    for model in models:
        make_stage(run, f"evaluate/{model}", {"data": edge(data), "model": edge(run / model)}, changes)
    stages = [*models, *(f"evaluate/{model}" for model in models)]
    make_stage(run, "report", {stage: edge(run / stage) for stage in stages}, changes)
    return run


def edge(folder: Path) -> dict[str, str]:
    return {"stage": read_json(folder / "manifest.json")["stage"], "sha256": sha256(folder / "manifest.json")}


def make_stage(run: Path, stage: str, inputs: dict, changes: dict, folder: Path | None = None) -> Path:
    folder, change = folder or run / stage, changes.get(stage, {})
    (folder / "model").mkdir(parents=True)
    config = CONFIG | {"note": stage} | {key: change[key] for key in change if key in (*CONFIG, *ASKS)}
    program = RECIPE[stage.partition("/")[0]].program
    provenance = {
        "stage": stage,
        "program": program,
        "config": config_digest(config),
        "code": f"{program:0<16}"[:16],
        "modules": {f"r1flow.programs.{program}.compute": "c0de"},
        "inputs": inputs,
        **{key: config[key] for key in ("seed", "threads", "device")},
        "python": "3.11",
        "libraries": LIBRARIES,
    } | {key: change[key] for key in change if key in ("code", "modules", "libraries", "python", "accepted", "inputs")}
    made = hashlib.sha256(json.dumps([provenance, change.get("bytes")]).encode()).hexdigest()
    write_outputs(folder, run, stage, change.get("same_bytes") or made, problems=change.get("problems", 8))
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    write_json(folder / "cost.json", {"seconds": len(str(run)), "peak_mb": 9, "revision": f"{stage:r<40}"})
    write_json(folder / "manifest.json", manifest_of_files(stage, folder))
    outputs = sha256(folder / "manifest.json")
    write_json(folder / "provenance.json", provenance | {"identity": made[:16], "outputs": outputs})
    return folder


def write_outputs(folder: Path, run: Path, stage: str, made: str, problems: int) -> None:
    """What a stage leaves, different whenever `made` is."""
    metrics: dict[str, Any] = {"made": made}
    if stage.startswith("evaluate/"):
        rows = fabricate_samples(stage.removeprefix("evaluate/"), problems=problems, k=2, seed=int(made[:6], 16))
        parquet.write_table(pa.Table.from_pylist(rows), folder / "samples.parquet")
        metrics["tasks"] = summarise_tasks(rows)
    elif stage == "report":
        models = {path.parent.name: read_json(path)["tasks"] for path in run.glob("evaluate/*/metrics.json")}
        claim = {"verdict": "holds here", "estimate": 0.4, "parts": [{"name": "pass@1"}]}
        claims = {f"C{number}": claim for number in range(1, 8)}
        write_json(folder / "summary.json", {"run": run.name, "models": models, "claims": claims})
    else:
        (folder / "model/model.safetensors").write_text(made)
        metrics |= fabricate_curves(stage)
    write_json(folder / "metrics.json", metrics)


@pytest.fixture
def run(tmp_path, monkeypatch) -> Path:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    return make_run(tmp_path / "results/tiny")


def traced(capsys, target: str, expect: int = 0) -> dict[str, Any]:
    assert print_trace(target, as_json=True) == expect
    return as_documented("trace", capsys.readouterr().out)


def names(found: dict[str, Any]) -> list[str]:
    return [link["stage"] for link in found["stages"]]


# -- which stages ------------------------------------------------------------------------------------------------


def test_a_number_has_the_stages_behind_it_and_no_others_sources_first(run, capsys):
    found = traced(capsys, f"results/tiny/report/summary.json#{NUMBER}")
    assert names(found) == ["data", "base", "zero_rl", "evaluate/zero_rl", "report"]
    assert found["value"] == read_json(run / "evaluate/zero_rl/metrics.json")["tasks"]["reasoning"]["pass_at_1"]


def test_a_claim_has_the_evaluations_that_it_compares(run, capsys):
    found = traced(capsys, "results/tiny/report/summary.json#claims.C1.estimate")
    assert found["value"] == 0.4
    assert [name for name in names(found) if "/" in name] == ["evaluate/base", "evaluate/zero_rl"]


def test_the_stages_of_a_claim_are_the_evaluations_and_trainings_that_it_reads():
    assert stages_of_claim("C5") == {"evaluate/zero_rl_language", "evaluate/zero_rl"}
    assert stages_of_claim("C2") == {"evaluate/base", "evaluate/zero_rl", "zero_rl"}
    assert stages_of_claim("C14") == {"zero_rl_process"}
    assert stages_of_claim("C16") is None


@pytest.mark.parametrize("target", ["reasoning_rl/model", "reasoning_rl", "reasoning_rl/model/model.safetensors"])
def test_a_model_is_traced_by_its_folder_its_stage_or_its_weights(run, capsys, target):
    found = traced(capsys, f"results/tiny/{target}")
    assert names(found) == ["data", "base", "cold_start", "reasoning_rl"] and found["value"] is None


def test_a_number_of_a_stage_is_traced_from_that_stage(run, capsys):
    found = traced(capsys, "results/tiny/evaluate/base/metrics.json#tasks.general.k")
    assert found["value"] == 2 and names(found) == ["data", "base", "evaluate/base"]


def test_pinned_data_and_a_model_from_outside_are_sources(tmp_path, capsys):
    outside = {"path": "models/qwen", "sha256": "beef" * 16}
    make_run(tmp_path / "results/tiny", models={"zero_rl": outside}, pinned=True)
    found = traced(capsys, str(tmp_path / "results/tiny/zero_rl"))
    assert [link["folder"] for link in found["stages"]] == ["data", "results/tiny/zero_rl"]
    assert {"name": "model", **outside} in found["stages"][-1]["inputs"]
    assert print_trace(str(tmp_path / "results/tiny/zero_rl")) == 0
    assert "  models/qwen (model): sha256 beefbeefbeef\n" in capsys.readouterr().out


# -- what is said of each ----------------------------------------------------------------------------------------


def point_to(stage: Path, text: str) -> None:
    """Publish a stage, as far as its pointer goes."""
    pointer = Path("published", stage.parent.name, f"{stage.name}.dvc")
    pointer.parent.mkdir(parents=True, exist_ok=True)
    pointer.write_text(text)


def test_a_link_has_everything_that_decided_the_stage(run, capsys):
    hashes = {stage: f"{sha256(run / stage / 'manifest.json')[:32]}.dir" for stage in ("zero_rl", "data")}
    for stage, md5 in hashes.items():
        point_to(run / stage, f"outs: [{{md5: {md5}, hash: md5, path: {stage}}}]\nwdir: ../../results/tiny")
    data, _, link, evaluation, _ = traced(capsys, f"results/tiny/report/summary.json#{NUMBER}")["stages"]
    provenance = read_json(run / "zero_rl/provenance.json")
    for key in ("program", "config", "code", "seed", "threads", "device"):
        assert link[key] == provenance[key]
    assert link["manifest"] == sha256(run / "zero_rl/manifest.json")
    assert link["outputs"] == {"model/model.safetensors": sha256(run / "zero_rl/model/model.safetensors")}
    assert evaluation["outputs"] == {"samples.parquet": sha256(run / "evaluate/zero_rl/samples.parquet")}
    assert link["git"] == f"{'zero_rl':r<40}" and link["mlflow"] == "unknown"
    assert (link["dvc"], data["dvc"], evaluation["dvc"]) == (*({stage: md5} for stage, md5 in hashes.items()), {})
    assert data["generator"]["note"] == "data" and link["generator"] is None


def test_the_tree_goes_from_the_number_to_the_sources(run, capsys):
    assert print_trace(f"results/tiny/report/summary.json#{NUMBER}") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"results/tiny/report/summary.json#{NUMBER} = 0.")
    stages = [line.split(": ")[0] for line in lines if "program " in line or "see above" in line]
    assert stages == [
        "report",
        "  evaluate/zero_rl",
        "    zero_rl (model)",
        "      base (model)",
        "        data",
        "      data",
        "    data",
    ]
    assert [line.strip() for line in lines if "see above" in line] == ["data: see above"] * 2


def test_a_model_behind_a_server_that_wrote_or_judged_samples_is_named(tmp_path, capsys):
    """Without it the samples seem to be those of the input model, whose tokenizer only counts them."""
    judge = {"name": "judge", "args": {"model": "big-judge", "url": "http://h/v1"}}
    own = {"name": "my_rewards.near", "args": {"model": "a-folder"}}
    options = {"engine_options": {"model": "big-teacher", "chat": True}, "rewards": {"helpful": judge, "near": own}}
    make_run(tmp_path / "results/tiny", reasoning_rl=options)
    assert print_trace(str(tmp_path / "results/tiny/reasoning_rl")) == 0
    said = [line.strip() for line in capsys.readouterr().out.splitlines() if "asked" in line]
    assert said == ["asked big-teacher at the address in R1FLOW_SAMPLING_URL", "asked big-judge at http://h/v1"]
    *others, link = traced(capsys, str(tmp_path / "results/tiny/reasoning_rl"))["stages"]
    assert link["servers"][1] == {"model": "big-judge", "url": "http://h/v1"}
    assert not any(other["servers"] for other in others)


# -- links that don't hold ---------------------------------------------------------------------------------------


def test_a_stage_made_again_since_is_said_where_it_was_read(run, capsys):
    for name in ("model/model.safetensors", "metrics.json"):
        (run / "base" / name).write_text("{}")
    write_json(run / "base/manifest.json", manifest_of_files("base", run / "base"))
    provenance = read_json(run / "base/provenance.json") | {"outputs": sha256(run / "base/manifest.json")}
    write_json(run / "base/provenance.json", provenance)
    assert print_trace("results/tiny/zero_rl") == 1
    assert "\n  base (model) (this run's base has changed since): program" in capsys.readouterr().out
    assert print_trace("results/tiny/base") == 0


def test_a_stage_that_is_gone_is_said_where_it_was_read(run, capsys):
    (run / "base/manifest.json").unlink()
    assert print_trace("results/tiny/zero_rl") == 1
    assert "\n  base (model) (this run's base is missing): sha256" in capsys.readouterr().out


def test_a_number_edited_by_hand_is_not_the_stages(run, capsys):
    file = run / "report/summary.json"
    file.write_text(file.read_text().replace("0.4", "0.9"))
    assert print_trace("results/tiny/report/summary.json#claims.C1.estimate") == 1
    assert "= 0.9 (summary.json has changed since report wrote it)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("results/tiny/report/summary.json#models.zero_rk.reasoning", "did you mean 'zero_rl'?"),
        ("results/tiny/report/summary.json#nothing.here", "summary.json#: there is no 'nothing' in it; known: claims,"),
        ("results/tiny/report/summary.json#claims.C1.parts.7", "claims.C1.parts: there is no '7' in it; known: 0"),
        ("results/tiny/report/summary.json#models.zero_rl", "zero_rl: that is many numbers; name one of them: "),
        (
            "results/tiny/report/summary.json#run.x",
            "#run is \"tiny\", with nothing below it; leave out 'x'",
        ),
        ("results/tiny/zero_rl#loss", "results/tiny/zero_rl isn't a file; name the one"),
        ("results/tiny/zero_rl/model/model.safetensors#loss", "model.safetensors can't be read as a stage's file"),
        ("results/tiny/align_rl", "results/tiny/align_rl doesn't exist"),
        (
            "results/tiny",
            "results/tiny belongs to no stage (no provenance.json); name a stage's folder or file: results/tiny/base",
        ),
        ("tiny/zero_rk", "tiny/zero_rk doesn't exist"),
    ],
)
def test_a_target_that_is_not_there_is_one_line_with_the_remedy(run, target, words):
    with pytest.raises(UserError) as caught:
        print_trace(target)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_folder_below_results_needs_no_results_before_it(run, capsys):
    assert print_trace("tiny/zero_rl") == 0
    assert "zero_rl: program" in capsys.readouterr().out


def test_a_manifest_edited_by_hand_is_refused(run):
    (run / "base/manifest.json").write_text((run / "base/manifest.json").read_text() + "\n")
    with pytest.raises(UserError, match=r"base/manifest\.json isn't what provenance\.json beside it names"):
        print_trace("results/tiny/zero_rl")


@pytest.mark.parametrize("text", ["[7]", "outs: 7", "outs: [{path: model}]", "{", "outs: ["])
def test_a_pointer_that_is_none_is_named(run, text):
    point_to(run / "zero_rl", text)
    with pytest.raises(UserError, match=r"published/tiny/zero_rl\.dvc: is no pointer to .*/results/tiny/zero_rl/"):
        print_trace("results/tiny/zero_rl")


# -- MLflow ------------------------------------------------------------------------------------------------------


def record_in_mlflow(run: Path, stage: str, monkeypatch) -> None:
    """The record of an execution that computed the stage as it now lies there."""
    monkeypatch.setattr(spool.Execution, "start_delivery", lambda self, root: subprocess.Popen(["true"]))
    spool.start_execution(run.name, Path.cwd(), {"experiment": "r1_tiny"}, {})
    with spool.StageRun(run.name, stage, {}, {"inputs": {}}) as tracker:
        tracker.finish({}, Path("results", run.name, stage))
    spool.end_execution(run.name, Path.cwd(), "FINISHED")


def test_the_mlflow_run_is_the_one_that_made_these_very_outputs(run, tmp_path, monkeypatch):
    from r1flow.tracking.delivery import deliver_all

    other = make_run(tmp_path / "results/other", zero_rl={"bytes": "other"})
    for made in (run, other):
        record_in_mlflow(made, "zero_rl", monkeypatch)
    assert deliver_all(spool.TRACKING)
    found = [mlflow_run(read_record(folder / "zero_rl")) for folder in (run, other)]
    logged = [read_json(Path("mlruns", id, "artifacts/provenance.json"))["outputs"] for id in found]
    assert logged == [sha256(folder / "zero_rl/manifest.json") for folder in (run, other)]
    copy = make_run(tmp_path / "results/copy")  # the same bytes under another name: brought back, not computed
    assert mlflow_run(read_record(copy / "zero_rl")) == found[0]
    same = read_json(run / "zero_rl/metrics.json")["made"]
    by_other_code = make_run(tmp_path / "results/recoded", zero_rl={"code": "0ther", "same_bytes": same})
    assert sha256(by_other_code / "zero_rl/manifest.json") == sha256(run / "zero_rl/manifest.json")
    assert mlflow_run(read_record(by_other_code / "zero_rl")) == "unknown"
    assert mlflow_run(read_record(run / "base")) == "unknown"  # no run has made it
    Path("mlruns", found[0], "artifacts/provenance.json").write_text("{")
    assert mlflow_run(read_record(run / "zero_rl")) == "unknown"
    assert mlflow_run(read_record(other / "zero_rl")) == found[1]
    Path("mlruns", found[0], "artifacts/provenance.json").unlink()
    assert mlflow_run(read_record(run / "zero_rl")) == "unknown"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    assert mlflow_run(read_record(other / "zero_rl")) == "unknown"


def test_a_store_that_cannot_be_read_is_unknown_not_an_error(run):
    Path("mlflow.db").write_text("not a database, and longer than the hundred bytes of SQLite's header " * 9)
    assert mlflow_run(read_record(run / "zero_rl")) == "unknown"
    assert Path("mlflow.db").read_text().startswith("not a database")


def test_tracing_imports_no_library_that_is_slow(run):
    code = "import sys; from r1flow.commands.trace import print_trace; print_trace('results/tiny/report')\n"
    code += "assert not {'torch', 'mlflow', 'hydra', 'pyarrow', 'numpy', 'snakemake'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
