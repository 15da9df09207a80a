"""`engine: auto`: ours where it knows the model, vLLM on a GPU, else transformers; decided when the run is planned."""

import subprocess
import sys
from pathlib import Path

import pytest
from gate_share import one_in
from hub import Hub
from tiny_weights import write_folder

from r1flow import sampling
from r1flow.artifacts.frozen import config_digest
from r1flow.engine import samplers
from r1flow.engine.run import Run
from r1flow.recipe.stages import RL_STAGES

ROOT = Path(__file__).parents[2]
EXPERIMENTS = sorted(path.stem for path in (ROOT / "conf/experiment").glob("*.yaml"))
NEEDS = {"benchmarks": "base", "distill_only": "rejection"}


@pytest.fixture(params=[False, True], ids=["without vLLM", "with vLLM"])
def vllm(request, monkeypatch) -> bool:
    monkeypatch.setattr(samplers, "find_spec", lambda name: request.param)
    return request.param


def engines(run: Run) -> dict[str, str]:
    return {stage: run.slice(stage)["engine"] for stage in run.stages if "engine" in run.slice(stage)}


@pytest.mark.parametrize("experiment", one_in(4, [name for name in EXPERIMENTS if name != "cold_start_stronger"]))
def test_an_experiment_samples_as_it_did_before_there_was_auto(experiment, tmp_path, monkeypatch):
    """Its slices have the engines that conf/ named, so nothing of it is computed again; vLLM may come and go."""
    monkeypatch.setattr(samplers, "find_spec", lambda name: True)
    folder = write_folder(tmp_path / "model", "{{ messages }}", model_type="llama")
    words = f"{NEEDS[experiment]}.init_from={folder}" if experiment in NEEDS else ""
    on_gpus = "qwen" in experiment or "llama" in experiment
    for stage, engine in engines(Run.compose(ROOT, experiment, words)).items():
        named = ("transformers" if stage in RL_STAGES else "vllm") if on_gpus else "r1flow"
        assert engine == named, stage


@pytest.mark.parametrize(("kind", "engine"), [("llama", "r1flow"), ("gpt2", "transformers")])
def test_a_model_from_outside_is_sampled_by_ours_if_it_can_and_it_is_said(kind, engine, tmp_path, vllm):
    folder = write_folder(tmp_path / "model", "{{ messages }}", model_type=kind)
    run = Run.compose(ROOT, "r1_zero", f"base.init_from={folder} template@base=own")
    assert engines(run) == {"zero_rl": engine, "evaluate": engine}
    assert run.notes[0] == f"engine: auto is {engine} for zero_rl, evaluate"
    assert bool(run.slice("zero_rl")["dev"]) == (engine == "r1flow")  # transformers can't answer them
    assert [line for line in run.notes if "dev is null for zero_rl" in line] == run.notes[1:]


def test_on_a_gpu_vllm_samples_models_from_outside_where_it_is_installed(tmp_path, vllm):
    folder = write_folder(tmp_path / "model", "{{ messages }}", model_type="llama")
    outside = f"base.init_from={folder} template@base=own"
    for words, engine in ((outside, "vllm" if vllm else "r1flow"), ("", "r1flow")):  # what it trains itself is tiny
        run = Run.compose(ROOT, "r1_zero", f"device=cuda {words}")
        assert engines(run) == {"zero_rl": "r1flow", "evaluate": engine}
    for engine in sampling.ENGINES:  # what is named stays
        run = Run.compose(ROOT, "r1_zero", f"device=cuda {outside} evaluate.engine={engine}")
        assert engines(run)["evaluate"] == engine


@pytest.mark.parametrize(
    "words",
    [
        "zero_rl.trainer.use_vllm=true +zero_rl.trainer.vllm_importance_sampling_correction=true",
        "device=cuda +zero_rl.strategy=fsdp2",
    ],
)
def test_rl_has_trls_sampler_where_ours_cant_serve_the_training(words):
    run = Run.compose(ROOT, "r1_zero", words)
    assert engines(run)["zero_rl"] == "transformers" and run.slice("zero_rl")["dev"] is None


def test_another_choice_is_another_identity_and_the_same_one_the_same(tmp_path):
    folder = write_folder(tmp_path / "model", "{{ messages }}", model_type="llama")
    words = f"base.init_from={folder} template@base=own evaluate.engine="
    chosen, named, other = (
        config_digest(Run.compose(ROOT, "r1_zero", words + engine).slice("evaluate"))
        for engine in ("auto", "r1flow", "transformers")
    )
    assert chosen == named != other


def test_a_hubs_model_is_known_by_its_settings_which_are_fetched_once(tmp_path, monkeypatch):
    folder, commit = write_folder(tmp_path / "model", "{{ messages }}", model_type="llama"), "c0ffee".ljust(40, "0")
    words = f"base.init_from=acme/small base.revision={commit} template@base=own"
    with Hub() as hub:
        hub.connect(monkeypatch, tmp_path / "cache")
        hub.add("models/acme/small", {path.name: path.read_bytes() for path in folder.iterdir()})
        assert set(engines(Run.compose(ROOT, "r1_zero", words)).values()) == {"r1flow"}
        assert not [line for line in hub.requests if "safetensors" in line]
        asked = len(hub.requests)
        run = Run.compose(ROOT, "r1_zero", words)
        assert set(engines(run).values()) == {"r1flow"} and len(hub.requests) == asked
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "empty"))
    run = Run.compose(ROOT, "r1_zero", words)
    assert set(engines(run).values()) == {"transformers"}
    assert run.notes[0].startswith("engine: what kind of model acme/small is can't be seen here: acme/small@c0ffee")


def test_the_choice_imports_no_torch(tmp_path):
    folder = write_folder(tmp_path / "model", "{{ messages }}", model_type="gpt2")
    code = (
        "import sys; from pathlib import Path; from r1flow.engine.run import Run\n"
        f"run = Run.compose(Path({str(ROOT)!r}), 'r1_zero', 'base.init_from={folder} template@base=own')\n"
        "assert run.notes and not {'torch', 'transformers', 'trl'} & sys.modules.keys(), run.notes"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_sampler_without_a_run_chooses_by_its_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sampling, "find_spec", lambda name: None)
    for kind, engine in (("llama", "r1flow"), ("gpt2", "transformers")):
        assert sampling.engine_for(write_folder(tmp_path / kind, model_type=kind)) == engine
