"""The whole recipe at micro size, run once as a user would: what it leaves, and what runs again."""

import json
import re
import resource
import shutil
import sqlite3
import zipfile
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from checkout import Checkout

MODELS = [
    "base",
    "student_base",
    "zero_rl",
    "cold_start",
    "reasoning_rl",
    "sft_mix",
    "align_rl",
    "distill",
    "student_rl",
]


def results(micro: Checkout) -> Path:
    return micro.folder / "results/r1_micro"


def test_every_model_loads_with_transformers_and_keeps_its_chat_template(micro):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    for model in MODELS:
        folder = results(micro) / model / "model"
        assert (folder / "model.safetensors").exists()
        AutoModelForCausalLM.from_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        prompt = tokenizer.apply_chat_template(
            [{"role": "user", "content": "hi"}], tokenize=False, add_generation_prompt=True
        )
        assert "hi" in prompt and tokenizer.eos_token_id is not None


def test_the_summary_has_all_models_and_all_claims(micro):
    summary = json.loads((results(micro) / "report/summary.json").read_text())
    assert set(summary["models"]) == set(MODELS)
    assert set(summary["claims"]) == {f"C{number}" for number in range(1, 13)}
    assert {claim["verdict"] for claim in summary["claims"].values()} == {"no verdict", "not in this run"}
    assert {"zero_rl", "student_rl"} <= set(summary["warnings"])  # no completion is right
    assert "teaches nothing" in summary["warnings"]["zero_rl"][0]
    keys = {"pass_at_1", "se", "cons_at_k", "format_rate", "language_rate", "mean_length", "n_problems", "k"}
    for tasks in summary["models"].values():
        assert {"reasoning", "general", "chain_sum"} <= set(tasks)
        assert all(keys <= set(task) for task in tasks.values())


def test_every_stage_says_what_it_cost(micro):
    costs = json.loads((results(micro) / "report/costs.json").read_text())
    assert set(MODELS) | {"data", "rejection", "reward_model", "evaluate/base"} <= set(costs)
    assert all(cost["seconds"] >= 0 and cost["peak_mb"] > 0 for cost in costs.values())


def test_manifests_are_true_and_know_no_time_host_or_absolute_path(micro):
    from r1flow.artifacts import manifest

    folders = [path.parent for path in results(micro).rglob("manifest.json")]
    assert len(folders) == len(MODELS) * 2 + 4
    for folder in folders:
        assert manifest.broken(folder) is None
        text = (folder / "manifest.json").read_text() + (folder / "provenance.json").read_text()
        assert '"/' not in text and "time" not in text


def test_mlflow_has_few_metrics_and_params_and_a_description_of_everything(micro):
    """A chart for every metric: with 200 nobody finds one. MLflow shows the machine's on a page of their own."""
    with closing(sqlite3.connect(micro.folder / "mlflow.db")) as store:
        found = store.execute("SELECT run_uuid, key FROM latest_metrics WHERE key NOT LIKE 'system/%'").fetchall()
        tags = store.execute("SELECT run_uuid, key, value FROM tags").fetchall()
        params = Counter(run for (run,) in store.execute("SELECT run_uuid FROM params"))
        experiment = dict(store.execute("SELECT key, value FROM experiment_tags WHERE experiment_id = 1").fetchall())
    assert len({key for _, key in found}) <= 150
    by_run = {run: {key: value for other, key, value in tags if other == run} for run, _, _ in tags}
    assert {"mlflow.note.content", "mlflow.sharedViewState.r1flow-rl"} <= experiment.keys()
    for run, about in by_run.items():
        keys = {key for other, key in found if other == run}
        assert about["mlflow.note.content"] and about["seed"] == "1"
        if "stage" not in about:
            assert len(keys) == 12 and params[run] == 3 and "No verdicts" in about["mlflow.note.content"]
            assert {f"pass_at_1/{model}" for model in MODELS} <= keys
        elif about["stage"] in MODELS:
            assert len(keys) <= 40 and about["mlflow.runColor"]
            evaluations = {key for key in keys if key.startswith("eval/")}
            assert evaluations == {"eval/reasoning/pass_at_1", "eval/general/pass_at_1"}
    colours = {about["stage"]: about.get("mlflow.runColor") for about in by_run.values() if "stage" in about}
    assert colours["zero_rl"] == colours["evaluate/zero_rl"] != colours["reasoning_rl"]


def test_nothing_is_left_in_scratch_but_locks(micro):
    left = [p for p in (micro.folder / "scratch").rglob("*") if p.is_file() and "tracking" not in p.parts]
    assert all(path.name in ("lock", "live.lock") for path in left), left


def test_a_second_run_has_nothing_to_do(copy):
    done = copy.snakemake()
    assert done.returncode == 0 and "started" not in done.stderr, done.stderr


def test_the_archive_of_a_run_has_its_pages_and_a_run_still_has_nothing_to_do(copy):
    """making.html has times, and is no output of any rule but in the archive."""
    further = copy.folder / "results/r1_micro/report/files/samples-2.html"
    further.write_text("the viewer's next page, which a large run has")
    done = copy.snakemake("--report=run.zip")
    assert done.returncode == 0 and "Missing metadata" not in done.stderr, done.stderr
    with zipfile.ZipFile(copy.folder / "run.zip") as archive:
        names, shown = archive.namelist(), archive.read("run/report.html").decode()
        [page] = [name for name in names if name.endswith("/report.html") and name != "run/report.html"]
        folder = page.removesuffix("/report.html")
        links = {*re.findall(r'href="([^"#:]+)', archive.read(f"{folder}/report.html").decode())}
        assert {"samples.html", "making.html"} <= links and {f"{folder}/{link}" for link in links} <= {*names}
        assert f"{folder}/files/{further.name}" in names
    assert [model for model in MODELS if f'"labels": {{"scores of": "{model}"}}' not in shown] == []
    assert shown.count("scores on the test problems") == len(MODELS)
    done = copy.snakemake("--report=run.html")
    assert done.returncode == 0, done.stderr
    shown = (copy.folder / "run.html").read_text()
    for page in ("report", "all completions", "all completions, page 2", "cost and provenance"):
        assert f'"labels": {{"page": "{page}"}}' in shown
    further.unlink()
    assert copy.planned() == set()


def test_a_changed_key_reruns_its_stage_and_what_follows_and_nothing_else(micro):
    planned = micro.planned(overrides="reasoning_rl.trainer.learning_rate=1.0e-5")
    follows = {"rejection", "sft_mix", "align_rl", "distill", "report"}
    evaluated = {f"evaluate/{model}" for model in ("reasoning_rl", "sft_mix", "align_rl", "distill")}
    assert planned == {"reasoning_rl"} | follows | evaluated


def test_a_dry_run_with_other_settings_changes_nothing(copy):
    before = {p: p.read_bytes() for p in copy.folder.glob("results/**/*.json")}
    copy.planned(overrides="seed=7")
    assert copy.planned() == set()
    assert before == {p: p.read_bytes() for p in copy.folder.glob("results/**/*.json")}


def test_an_experiment_with_fewer_stages_plans_only_those(empty_checkout):
    planned = empty_checkout.planned(experiment="r1_zero")
    assert planned == {"data", "base", "zero_rl", "evaluate/base", "evaluate/zero_rl", "report"}


@pytest.mark.slow
def test_the_arm_with_the_language_reward_tests_claim_c5(copy):
    stages = "data,base,zero_rl,zero_rl_language,evaluate,report"
    done = copy.snakemake(overrides=f"stages=[{stages}]")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("] started") == 3  # the arm, its evaluation, the report
    claim = json.loads((results(copy) / "report/summary.json").read_text())["claims"]["C5"]
    assert claim["verdict"] != "not in this run"


@pytest.mark.slow
def test_a_student_can_be_distilled_from_a_model_directory(copy):
    teacher = shutil.copytree(results(copy) / "reasoning_rl/model", copy.folder / "teacher")
    stages = "stages=[data,student_base,rejection,distill,evaluate,report]"
    done = copy.snakemake(overrides=f"{stages} rejection.init_from={teacher}")
    assert done.returncode == 0, done.stderr
    summary = json.loads((results(copy) / "report/summary.json").read_text())
    assert set(summary["models"]) == {"student_base", "distill"}
    assert summary["claims"]["C1"]["verdict"] == "not in this run"


def test_a_second_live_run_of_the_name_is_refused_in_one_line(copy):
    from r1flow.artifacts.locks import hold

    lock = hold(copy.folder / "scratch/r1_micro/live.lock")
    done = copy.snakemake("--forcerun", "report")
    lock.close()
    assert done.returncode != 0
    assert len([line for line in done.stderr.splitlines() if "the run r1_micro is live already" in line]) == 1
    assert "Traceback" not in done.stderr


def test_a_mistake_is_one_line_before_anything_is_computed(empty_checkout):
    done = empty_checkout.snakemake(overrides="reasoning_rl.trainer.learnin_rate=1.0e-5")
    assert done.returncode != 0 and not (empty_checkout.folder / "results").exists()
    lines = [line for line in done.stderr.splitlines() if not line.startswith("Using workflow specific profile")]
    assert len(lines) == 1 and "learnin_rate" in lines[0]


@pytest.mark.parametrize("experiment", ["r1_micro", "r1_tiny"])
def test_snakemake_finds_nothing_to_complain_about(empty_checkout, experiment):
    done = empty_checkout.snakemake("--lint", experiment=experiment)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_run_with_nothing_to_do_takes_seconds(copy):
    """Of processors, whoever else wants them: 3 on a quiet machine. What takes longest to import is not imported."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = copy.snakemake(hooks={"PYTHONPROFILEIMPORTTIME": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert done.returncode == 0 and "r1flow.engine.run" in imported, done.stderr
    assert not imported & {"torch", "transformers", "trl"}
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 15
