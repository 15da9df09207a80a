"""What a run costs: exact where it can be computed by hand, growing with the model, refused where there is no room."""

import json
import math
import os
import shutil
import subprocess
import sys
import time
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tiny_weights import write_zeros

from r1flow.core.errors import UserError
from r1flow.engine import driver, memory
from r1flow.engine.cost_table import cost_table
from r1flow.engine.run import Run
from r1flow.engine.timing import estimated_seconds
from r1flow.programs import cost_estimate
from r1flow.programs.cost_estimate import Cost
from r1flow.programs.model_sizes import model_in, model_of, model_outside
from r1flow.programs.specs import Spec, spec_of
from r1flow.programs.trainings import memory_of

ROOT = Path(__file__).parents[2]
ASSUMPTIONS = cost_estimate.read_assumptions(ROOT / cost_estimate.ASSUMPTIONS)
ZERO = "r1_zero_qwen2.5_0.5b_gsm8k"
# Parameters as the models' cards and loaders count them.
COUNTED = {
    "Qwen/Qwen2.5-0.5B": 494_032_768,
    "Qwen/Qwen2.5-1.5B": 1_543_714_304,
    "Qwen/Qwen2.5-7B": 7_615_616_512,
    "meta-llama/Llama-3.1-8B": 8_030_261_248,
}


@pytest.fixture(autouse=True)
def nothing_computed(tmp_path, monkeypatch):
    """A folder without results, and a hub's cache without models."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))


@cache
def costs(experiment: str, overrides: str = "") -> dict[str, Cost]:
    run = Run.compose(ROOT, experiment, overrides)
    return {cost.job: cost for cost in run.costs}


def test_a_file_of_problems_has_no_responses_whatever_its_split_is():
    estimator = cost_estimate.Estimator(Run.compose(ROOT, "r1_tiny"), ASSUMPTIONS, {})
    sizes = {name: estimator.text(name, 100) for name in ("rl", "test", "final", "final_paraphrased", "cold_start")}
    assert sizes["rl"] == sizes["test"] == sizes["final"] == sizes["final_paraphrased"] < sizes["cold_start"]


def model_folder(folder: Path, **shapes: list[int]) -> Path:
    """A model of which only the sizes matter."""
    folder.mkdir()
    write_zeros(folder / "model.safetensors", **shapes)
    (folder / "config.json").write_text(json.dumps({"model_type": "odd", "hidden_size": 8, "num_hidden_layers": 2}))
    return folder


def test_a_program_that_nobody_estimated_costs_what_isnt_known(monkeypatch):
    """A run with a program of somebody's own is planned and its disk looked at like any other."""
    known = cost_estimate.program_of
    run = Run.compose(ROOT, "r1_tiny")
    monkeypatch.setattr(
        cost_estimate, "program_of", lambda job, config: "dpo" if job == "sft_mix" else known(job, config)
    )
    spec = SimpleNamespace(SPEC=Spec(keys=dict, outputs=lambda config: []))
    monkeypatch.setitem(sys.modules, "r1flow.programs.dpo.spec", spec)
    found = run.costs
    assert "? not known for sft_mix" in cost_table(found, "H100", 1, ASSUMPTIONS)
    assert 0 < sum(cost_estimate.disk_certain(found)) < cost_estimate.disk_needed(found)


# Models.


@pytest.mark.parametrize("name", COUNTED)
def test_parameters_follow_from_the_shape(name):
    assert model_of(ASSUMPTIONS["models"][name]).parameters == COUNTED[name]


def test_a_model_in_a_folder_is_counted_whatever_its_architecture(tmp_path):
    assert model_in(model_folder(tmp_path / "m", a=[3, 4], b=[5])).parameters == 17


def test_a_damaged_or_unlisted_model_is_unknown_and_not_nothing(tmp_path):
    folder = model_folder(tmp_path / "m", a=[3])
    (folder / "model.safetensors").write_bytes(b"\xff" * 8 + b"{")
    assert math.isnan(model_in(folder).parameters)
    assert math.isnan(model_outside("some/model", "0" * 40, ASSUMPTIONS).parameters)
    assert math.isnan(model_of({"model_type": "mixtral", "num_local_experts": 8}).parameters)


# Tokens and FLOPs.


def test_zero_rl_by_hand():
    """220 steps of 512 completions, each of 200 tokens and half of 1,024: 2N + 2N (KL) + 2N (vLLM's) + 6N."""
    cost, n = costs(ZERO)["zero_rl"], COUNTED["Qwen/Qwen2.5-0.5B"]
    tokens = 220 * 512 * (200 + 512)
    assert (cost.sampled, cost.trained) == (tokens, tokens)
    assert cost.sampling == 2 * n * tokens and cost.training == (2 + 2 + 6) * n * tokens
    seconds = (cost.training / ASSUMPTIONS["training"][0] + cost.sampling / ASSUMPTIONS["sampling"]["vllm"]) / 989e12
    assert cost.gpu_hours(989, ASSUMPTIONS) == pytest.approx(seconds / 3600)
    assert cost.states == n * (4 + 4 + 8 + 4)  # weights, gradients, moments, reference
    assert cost.weights == 4 * n and cost.snapshot == 12 * n


def test_a_small_model_waits_for_its_kernels_and_a_large_one_for_its_arithmetic():
    """40 sets of 192 tokens through four layers, which 160 passes train; Qwen2.5-1.5B in rows of 16,384 tokens."""
    cost, each = costs("r1_tiny", "device=cuda")["zero_rl"], ASSUMPTIONS["layer_seconds"]
    assert (cost.layer_tokens, cost.layer_passes) == (4 * (40 + 9) * 192, 4 * 160)  # and nine measurements on dev
    assert cost.gpu_hours(989, ASSUMPTIONS) * 3600 == pytest.approx(
        cost.layer_tokens * each["r1flow"] + cost.layer_passes * each["training"]
    )
    large = costs("distill_qwen2.5_1.5b")["cold_start"]
    assert large.gpu_hours(989, ASSUMPTIONS) * 3600 == pytest.approx(large.training / 0.24 / 989e12)
    kernels = costs(ZERO, "evaluate.engine=transformers evaluate.batch_size=256")["evaluate/base"]
    assert kernels.layer_tokens == 24 * 2048 * 29  # 1,819 problems, 4 samples of each, 256 a batch
    ways = costs("r1_tiny", "device=cuda evaluate.n_problems=5")["evaluate/base"]
    assert ways.layer_tokens == 4 * 192 * 5  # as asked, at three temperatures and paraphrased: a batch each


@pytest.mark.parametrize(("experiment", "overrides", "stage", "passes"), [
    (ZERO, "", "zero_rl", 24 * 220 * 32 * (1 + 2 / 3)),  # KL and vLLM's correction: a forward pass each
    (ZERO, "zero_rl.trainer.beta=0 zero_rl.trainer.num_iterations=2", "zero_rl", 24 * 220 * 32 * (1 + 1 / 6)),
    ("distill_qwen2.5_1.5b", "cold_start.trainer.max_steps=100", "cold_start", 28 * 100 * 20),  # packed rows are full
    ("distill_qwen2.5_1.5b", "", "cold_start", 28 * 2 * 93733 * 5200 / 16384),
    ("r1_tiny", "reward_model.trainer.max_steps=7", "reward_model", 4 * 7),
    ("r1_tiny", "sft_mix.trainer.padding_free=true sft_mix.trainer.max_length=null", "sft_mix", 4 * 2 * 2400 / 32),
])  # fmt: skip
def test_passes_through_the_layers_by_hand(experiment, overrides, stage, passes):
    assert costs(experiment, overrides)[stage].layer_passes == pytest.approx(passes)


def test_a_search_draws_in_rounds_of_whole_batches():
    cost = costs("search_tiny", "device=cuda search.n_problems=1 search.models=[zero_rl] search.budgets=[2]")["search"]
    assert cost.layer_tokens == 4 * Run.compose(ROOT, "search_tiny").slice("search")["max_new_tokens"]


def test_what_gpus_showed_is_estimated_within_one_and_a_half_times():
    """One step of each kind that docs/scaling.md has, on an H200: the layers' passes and tokens, as there."""
    half, more = COUNTED["Qwen/Qwen2.5-0.5B"], COUNTED["Qwen/Qwen2.5-1.5B"]
    rows, drawn = 128 * 1024, 2 * half * 256 * 384
    sampled = {"sampling": drawn, "layer_tokens": 24 * 256}
    grpo = {"training": 8 * half * rows, "layer_passes": 24 * 16, "sampling": 2 * half * rows, "layer_tokens": 24 * 896}
    showed = [
        (Cost("sft", half, training=6 * half * 32768, layer_passes=24 * 4), 0.66),
        (Cost("sft", more, training=6 * more * 32768, layer_passes=28 * 4), 1.18),
        (Cost("grpo", half, **grpo, engine="transformers"), 56.6),
        (Cost("evaluate", half, **sampled, engine="transformers"), 9.7),
        (Cost("evaluate", half, **sampled, engine="r1flow"), 6.3),
    ]
    for cost, seconds in showed:
        assert 1 / 1.5 < cost.gpu_hours(989, ASSUMPTIONS) * 3600 / seconds < 1.5, cost
    tiny = costs("r1_tiny", "device=cuda")
    for stage, seconds in (("base", 38), ("zero_rl", 48)):
        estimated = tiny[stage].gpu_hours(989, ASSUMPTIONS) * 3600 + ASSUMPTIONS["start_seconds"]
        assert 1 / 1.5 < estimated / seconds < 1.5, stage


def test_trl_holds_a_tile_of_the_logits_and_transformers_all():
    """Sixteen rows of 200 + 1,024 tokens through 24 layers with checkpoints; r1_tiny's blocks, without."""
    tokens, hidden, vocabulary = 16 * (200 + 1024), 896, 151936
    layers = tokens * hidden * (2 * 24 + 34)
    gradients = 4 * hidden * (tokens + vocabulary)  # of the head and of its inputs
    assert costs(ZERO)["zero_rl"].activations == layers + 2 * 4096 * 32768 + gradients
    config = Run.compose(ROOT, "r1_tiny").slice("base")
    tokens, shape = config["trainer"]["per_device_train_batch_size"] * config["block"], config["model"]
    layers = tokens * shape["hidden_size"] * 34 * shape["num_hidden_layers"]
    assert costs("r1_tiny")["base"].activations == layers + 2 * 4 * tokens * 512


def test_supervised_training_by_hand():
    cost, n = costs("distill_qwen2.5_1.5b")["cold_start"], COUNTED["Qwen/Qwen2.5-1.5B"]
    assert cost.trained == 2 * 93733 * (200 + 5000)
    assert cost.training == 6 * n * cost.trained and cost.states == 16 * n


def test_evaluation_by_hand():
    cost = costs(ZERO)["evaluate/base"]
    assert cost.sampled == (1319 + 500) * 4 * (200 + 1024) and cost.states == 2 * COUNTED["Qwen/Qwen2.5-0.5B"]


@pytest.mark.parametrize(("words", "each"), [
    ("engine=transformers", 4),
    ("engine=transformers +evaluate.engine_options.dtype=bfloat16", 2),
    ("engine=vllm +evaluate.engine_options.dtype=float32", 4),
    ("engine=openai", 0),
])  # fmt: skip
def test_a_sampled_model_takes_the_bytes_of_its_dtype(words, each):
    cost = costs(ZERO, f"evaluate.{words}")["evaluate/base"]
    assert cost.states == each * COUNTED["Qwen/Qwen2.5-0.5B"]


@pytest.mark.parametrize(("overrides", "factor"), [
    ("zero_rl.trainer.max_steps=440", 2),
    ("zero_rl.trainer.num_iterations=2", (2 + 2 + 2 + 12) / 2 / 12),  # half of the rollouts, each trained on twice
    ("zero_rl.trainer.beta=0", 10 / 12),
    ("zero_rl.trainer.vllm_importance_sampling_correction=false ~zero_rl.stop_above.mismatch", 10 / 12),
])  # fmt: skip
def test_steps_iterations_and_the_kl_term_count(overrides, factor):
    plain, other = (costs(ZERO, words)["zero_rl"].flops for words in ("", overrides))
    assert other / plain == pytest.approx(factor)


def test_every_part_grows_with_the_model():
    runs = [costs(ZERO, f"base.init_from={name} base.revision={'0' * 40}")["zero_rl"] for name in COUNTED]
    for part in ("parameters", "sampling", "training", "weights", "snapshot", "states", "activations"):
        values = [getattr(cost, part) for cost in runs]
        if part != "activations":  # Llama's vocabulary is smaller
            assert values == sorted(set(values)), part
    assert runs[0].activations < runs[2].activations


# `flops` in metrics.json of every training stage of a finished run of r1_tiny.
MEASURED = {
    "zero_rl": 6.16e12,
    "cold_start": 1.13e12,
    "reasoning_rl": 7.46e12,
    "sft_mix": 2.84e12,
    "align_rl": 3.34e12,
    "distill": 2.39e12,
    "student_rl": 2.47e12,
}


def test_the_default_run_is_within_a_factor_of_two_of_what_was_measured():
    found = costs("r1_tiny")
    for stage, flops in MEASURED.items():
        assert 0.5 < found[stage].flops / flops < 2, stage


def test_what_cannot_be_known_is_printed_as_such_and_not_as_nothing():
    found = list(costs(ZERO, f"base.init_from=some/model base.revision={'0' * 40}").values())
    text = cost_table(found, "H100", 1, ASSUMPTIONS)
    assert "at least 0.0e+00 FLOPs" in text and "? not known for zero_rl, evaluate/base, evaluate/zero_rl" in text


# For people.


def test_more_gpus_divide_the_hours_and_the_states():
    cost = costs("r1_qwen2.5_7b")["sft_mix"]
    alone, together = (cost.gpu_memory(80e9, gpus) for gpus in (1, 8))
    assert alone - together == pytest.approx(cost.states * 7 / 8)
    texts = [cost_table([cost], "H100", gpus, ASSUMPTIONS) for gpus in (1, 8)]
    assert "! more memory than a GPU has: sft_mix" in texts[0] and "!" not in texts[1]


def test_what_a_cpu_computes_is_priced_in_hours_of_its_cores_unless_a_gpu_is_asked_for():
    cost = costs("r1_smol")["reasoning_rl"]  # 2 threads, so 2 cores
    hours = cost.flops / (ASSUMPTIONS["core_gflops"][5e7] * 1e9) / 3600
    text = cost_table([cost], None, None, ASSUMPTIONS)
    assert f"{hours:.2f} hours of a core, {hours / 2:.2f} hours one after another" in text and "GPU hours" not in text
    for gpu, gpus in (("H200", None), (None, 1)):
        assert "GPU hours" in cost_table([cost], gpu, gpus, ASSUMPTIONS)
    assert "GPU hours" in cost_table([cost, costs(ZERO)["zero_rl"]], None, None, ASSUMPTIONS)


# Seconds of r1_smol's trainings on 2 cores of a Xeon with AMX (docs/history); costs.yaml's rate is fitted to them.
SECONDS = {"cold_start": 224, "reasoning_rl": 1066, "sft_mix": 519, "align_rl": 423, "distill": 457, "zero_rl": 481}
SECONDS |= {"student_rl": 428}


def test_trainings_on_a_cpu_are_within_a_factor_of_one_and_a_half_of_what_was_measured():
    found = costs("r1_smol")
    for stage, measured in SECONDS.items():
        assert 1 / 1.5 < found[stage].cpu_hours(ASSUMPTIONS) / found[stage].cores * 3600 / measured < 1.5, stage


# Seconds of r1_tiny's jobs, two at a time on the same two cores (docs/history).
TINY = {"base": 156, "zero_rl": 150, "cold_start": 28, "reasoning_rl": 189, "rejection": 42, "sft_mix": 66}
TINY |= {"reward_model": 36, "align_rl": 88, "student_base": 53, "student_rl": 165, "distill": 153}
TINY |= {"evaluate/base": 28, "evaluate/zero_rl": 38, "evaluate/align_rl": 41, "evaluate/distill": 24}


def test_the_default_run_takes_about_as_long_as_is_said_before_it_starts():
    found = costs("r1_tiny")
    expected = {job: estimated_seconds(found[job], ASSUMPTIONS, 1.0) for job in TINY}
    assert 0.85 < sum(expected.values()) / sum(TINY.values()) < 1.15
    assert [job for job in TINY if not 1 / 2 < expected[job] / TINY[job] < 2] == []


def test_pairs_without_a_limit_of_prompts_cost_what_isnt_known():
    counted, unlimited = costs("r1_tiny"), costs("r1_tiny", "~data.rows_per_kind.preferences")
    assert counted["reward_model"].flops > 0 and math.isnan(unlimited["reward_model"].flops)
    assert unlimited["zero_rl"] == counted["zero_rl"]


def test_an_unknown_gpu_is_refused_with_the_closest():
    with pytest.raises(UserError, match="did you mean 'H100'"):
        cost_table([], "H10", 1, ASSUMPTIONS)


def test_costs_print_without_torch_and_the_plan_itself_is_unchanged():
    program = "import sys; from r1flow.commands.cli import main; main(sys.argv[1:])"
    program += "; assert not {'torch', 'transformers', 'trl', 'pyarrow', 'scipy'} & set(sys.modules)"

    def plan(*options: str) -> str:
        command = [sys.executable, "-c", program, "plan", *options, f"experiment={ZERO}"]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    plain, estimated = plan("--all"), plan("--all", "--cost", "--gpu", "H200", "--gpus", "2")
    assert estimated.startswith(plain) and "2 × H200" in estimated and "FLOPs" not in plain


# Refused.


def test_a_disk_too_small_is_refused_with_the_numbers_when_the_run_begins(monkeypatch):
    usage = type("Usage", (), {"free": 10e9})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    monkeypatch.setattr("r1flow.engine.extras.find_spec", lambda name: name)  # vLLM
    with pytest.raises(UserError, match=r"^results, scratch, \.memo: .* take 11\.86 GB and 10\.00 GB are free"):
        Run.compose(ROOT, ZERO).begin()  # twice 2 bytes for base and 4 for zero_rl, once 12: 24 × 494M
    Run.compose(ROOT, "r1_tiny").check_disk()


@pytest.mark.parametrize(
    ("elsewhere", "others"),
    [(".memo", r"^results, scratch: .* 8\.89 GB"), ("results", r"^scratch, \.memo: .* 8\.89 GB")],
)
def test_a_store_or_results_on_another_disk_are_counted_there(tmp_path, monkeypatch, elsewhere, others):
    """2.96 GB of models in each, 5.93 GB of a snapshot in scratch/."""
    free, stat = {elsewhere: 3e9}, Path.stat
    (tmp_path / elsewhere).mkdir()
    run = Run.compose(ROOT, ZERO)
    assert run.steps  # planned with the disks as they are
    device = {elsewhere: SimpleNamespace(st_dev=-1)}
    monkeypatch.setattr(Path, "stat", lambda path, **words: device.get(str(path)) or stat(path, **words))
    monkeypatch.setattr(Path, "is_dir", lambda path: str(path) == elsewhere)
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free.get(str(path), 5e9)))
    with pytest.raises(UserError, match=others):
        run.check_disk()
    free["."] = 9e9
    run.check_disk()
    free[elsewhere] = 1e9
    with pytest.raises(UserError, match=r"^results: ") if elsewhere == "results" else nullcontext():
        run.check_disk()  # a store that is full costs a line


def test_what_is_dated_in_the_future_is_dated_now(tmp_path):
    run = Run.compose(ROOT, "r1_tiny")
    read = [Path("results/r1_tiny/base/manifest.json"), Path("scratch/r1_tiny/parts/rejection.1-of-2")]
    kept = Path("results/r1_tiny/base/metrics.json")
    for path in (*read, kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    shutil.copyfile(ROOT / "data.dvc", "data.dvc")
    read += [Path("data.dvc"), Path(run.frozen("base"))]
    for path in read:
        os.utime(path, (4e9, 4e9))
    os.utime(kept, (1e9, 1e9))
    run.clamp_times()
    assert all(path.stat().st_mtime <= time.time() for path in read) and kept.stat().st_mtime == 1e9


def test_snapshots_that_a_killed_run_left_are_not_asked_for_again(tmp_path, monkeypatch):
    usage = type("Usage", (), {"free": 10e9})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    left = tmp_path / "scratch" / ZERO / "zero_rl" / "weights"
    left.parent.mkdir(parents=True)
    with left.open("wb") as file:
        file.truncate(4_500_000_000)
    Run.compose(ROOT, ZERO).check_disk()


def test_memory_smaller_than_the_states_is_refused_with_the_numbers(tmp_path, monkeypatch):
    inputs = {"model": model_folder(tmp_path / "m", a=[1000, 1_000_000])}
    config = Run.compose(ROOT, ZERO).slice("zero_rl")
    monkeypatch.setattr(memory, "memory_of_gpus", lambda: 15e9)
    with pytest.raises(UserError, match=r"take 20\.0 GB and its GPUs have 15\.0 GB"):
        memory.check_memory("grpo", config, inputs)
    monkeypatch.setattr(memory, "memory_of_gpus", lambda: 25e9)
    memory.check_memory("grpo", config, inputs)


def test_a_stage_looks_at_memory_before_its_program_is_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "memory_of_gpus", lambda: 15e9)
    inputs = {"model": model_folder(tmp_path / "m", a=[1000, 1_000_000])}
    config, terminal = Run.compose(ROOT, ZERO).slice("zero_rl"), SimpleNamespace(say=print)
    stage = SimpleNamespace(config=config, inputs=inputs, terminal=terminal, ranks=1)
    with pytest.raises(UserError, match="its GPUs have"):
        driver.compute(stage, SimpleNamespace(gpus=0, program="grpo"), {"libraries": {}})


@pytest.mark.parametrize("unsure", [
    {"optim": "adafactor"},  # how large its states are is not known
    {"beta": 0.0, "optim": "paged_adamw_8bit"},
])  # fmt: skip
def test_what_is_not_certain_is_not_refused(tmp_path, monkeypatch, unsure):
    monkeypatch.setattr(memory, "memory_of_gpus", lambda: 1)
    config: dict[str, Any] = Run.compose(ROOT, ZERO).slice("zero_rl")
    config = config | {"trainer": config["trainer"] | unsure}
    memory.check_memory("grpo", config, {"model": model_folder(tmp_path / "m", a=[1000, 1_000_000])})


def test_memory_that_is_certain_is_that_of_what_is_trained():
    states = {"trainer": {"optim": "adamw_torch"}}  # weights, gradients and two moments of four bytes each
    assert memory_of(states, 1000) == (16_000, 4_000)
    assert memory_of(states | {"lora": {"r": 8}}, 1000, reference=True) == (4_000, 4_000)  # frozen: the reference too
    pretrain = spec_of("pretrain")
    assert pretrain.memory(states | {"init_from": None}, 1000, 0) == (16_000, 4_000)
    assert pretrain.memory(states | {"init_from": "somewhere"}, 1000, 0) == (0, 4_000)  # it is copied, and not trained


def test_the_memory_of_gpus_is_that_of_those_that_a_stage_sees(tmp_path, monkeypatch):
    script = tmp_path / "nvidia-smi"
    script.write_text('#!/bin/sh\ncase "$1" in --id=3) echo 40960;; --query*) printf "81920\\n81920\\n";; esac\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert memory.memory_of_gpus() == 160 * 2**30
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert memory.memory_of_gpus() == 40 * 2**30


def test_gpus_that_nobody_can_ask_about_refuse_nothing(tmp_path, monkeypatch):
    config = Run.compose(ROOT, ZERO).slice("zero_rl")
    monkeypatch.setenv("PATH", "/nowhere")
    assert math.isnan(memory.memory_of_gpus())
    memory.check_memory("grpo", config, {"model": model_folder(tmp_path / "m", a=[10**6, 10**5])})
