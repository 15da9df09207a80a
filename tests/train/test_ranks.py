"""Several processes train one model as one does, fail together and leave nothing behind; CPU, gloo.

Stages are run by their driver. Distances are of the weights' movement: |a - b| / |a - start|.
"""

import json
import os
import re
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch
import torch.distributed
from safetensors.torch import load_file
from tiny import PROBLEMS, ROWS, base_with, conf
from transformers import AutoModelForCausalLM

from r1flow.artifacts.frozen import freeze
from r1flow.data import leaks
from r1flow.engine import launch
from r1flow.tracking.progress import Progress
from r1flow.tracking.spool import Spool, StageRun
from r1flow.tracking.stage import Stage

CONFIGS = {name: conf(f"{name}/default") for name in ("sft", "grpo", "reward_model")}
SIZES = {"max_steps": 4, "save_steps": 2, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
SFT = SIZES | {"warmup_steps": 0, "bf16": False}
GRPO = SFT | {
    "num_generations": 4,
    "steps_per_generation": None,
    "max_completion_length": 12,
    "learning_rate": 1.0e-3,
    "beta": 0.04,
}
PAIRS = [
    {"kind": kind, "question": f"{kind} {n}", "chosen": f"<think>{n}</think>yes", "rejected": f"<think>{n}</think>no"}
    for kind in ("helpful", "harmless")
    for n in range(100)
]
ASKED = [{"id": "0", "question": "How many pens are left?"}]
REWARD = """
import json, os

def letters(prompts, completions, **columns):
    with open(f"drawn.{os.environ.get('RANK', 0)}", "a") as file:
        file.write(json.dumps([*zip(prompts, completions)]) + "\\n")
    return [float(sum(map(str.islower, text))) for text in completions]

def broken(prompts, completions, **columns):
    if os.environ.get("RANK") == "1":
        raise ZeroDivisionError("the second rank's fault")
    return [0.0 for _ in completions]
"""
LORA = {"r": 4, "alpha": 8, "dropout": 0.0, "target_modules": "all-linear"}


def test_the_ranks_meet_where_no_other_machine_can(monkeypatch) -> None:
    for name in ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, "")  # to be put back
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "")
    process = psutil.Process()
    before = {one.laddr for one in process.net_connections() if one.status == psutil.CONN_LISTEN}
    with launch.meeting_point(2):
        doors = {one.laddr for one in process.net_connections() if one.status == psutil.CONN_LISTEN} - before
        assert doors == {(launch.HOST, int(os.environ["MASTER_PORT"]))}
        other = torch.distributed.TCPStore(launch.HOST, int(os.environ["MASTER_PORT"]), wait_for_workers=False)
        other.set("a", "b")
        assert other.get("a") == b"b"


def make_project(folder: Path) -> Path:
    """A folder with a base model, data and rewards, below which stages are run."""
    base_with(folder, cold_start=ROWS, rl=PROBLEMS, preferences=PAIRS, test=ASKED)
    clean = {"cold_start.jsonl": [], "rl.jsonl": [], "preferences.jsonl": []}
    leaks.write_report(folder / "data", clean, ["test.jsonl"], [], {name: {} for name in clean})
    (folder / "own.py").write_text(REWARD)
    return folder


def job(project: Path, run: str, program: str, ranks: int, trainer: Any = None, **changes: Any) -> dict[str, Any]:
    """A stage in a folder of its own: another's store would have the model already."""
    config = CONFIGS[program] | {"threads": 1, "device": "cpu", "seed": 3}
    if program == "grpo":
        dev = {"file": "rl.jsonl", "every": 2, "n_problems": 4} if "engine" not in changes else None
        config |= {"engine": "r1flow", "rewards": {"letters": {"name": "own.letters", "weight": 1.0}}, "dev": dev}
    config |= {"trainer": config["trainer"] | (GRPO if program == "grpo" else SFT) | (trainer or {})}
    extra = {key: changes.pop(key) for key in ("blow", "as_on_gpus") if key in changes}
    folder = project / run
    folder.mkdir(exist_ok=True)
    frozen = freeze(program, config | changes, folder / ".config")
    words = [program, program, f"--run={run}", f"--config={frozen}", f"--out={folder / 'out' / 'manifest.json'}"]
    words += [f"--processes={ranks}", f"--log={folder / 'log'}"]
    words += [f"--input=model={project / 'base'}", f"--input=data={project / 'data'}"]
    return {"folder": str(folder), "words": words, **extra}


def run(project: Path, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """How each ended."""
    paths = [str(Path("src").resolve()), str(project), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, str(Path(__file__).parent / "forked.py"), str(project / "ends.json")]
    done = subprocess.run(command, input=json.dumps(jobs), env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads((project / "ends.json").read_text())


def moved(project: Path, run: str) -> dict[str, torch.Tensor]:
    before, after = (
        load_file(path / "model.safetensors") for path in (project / "base", project / run / "out" / "model")
    )
    assert before.keys() == after.keys()
    return {name: after[name].float() - before[name] for name in before}


def distance(project: Path, one: str, other: str) -> float:
    a, b = moved(project, one), moved(project, other)
    assert all(value.any() for name, value in a.items() if "_proj" in name or "lora" not in one)
    norms = [
        torch.cat([part.flatten() for part in parts]).norm()
        for parts in ([a[name] - b[name] for name in a], a.values())
    ]
    return float(norms[0] / norms[1])


def metrics(project: Path, run: str) -> dict[str, Any]:
    return json.loads((project / run / "out" / "metrics.json").read_text())


def drawn(project: Path, run: str) -> list[list[list[str]]]:
    """Prompts and completions of each step, those of all ranks."""
    ranks = [path.read_text().splitlines() for path in sorted((project / run).glob("drawn.*"))]
    return [[row for part in parts for row in json.loads(part)] for parts in zip(*ranks, strict=True)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, Any]]]:
    """The project and how its stages ended, by name."""
    project = make_project(tmp_path_factory.mktemp("ranks"))
    broken = {"rewards": {"broken": {"name": "own.broken", "weight": 1.0}}}
    few = {"per_device_train_batch_size": 2}  # of which each of two ranks would have half a group
    jobs = {
        "sft1": job(project, "sft1", "sft", 1),
        "sft2": job(project, "sft2", "sft", 2),
        "grpo1": job(project, "grpo1", "grpo", 1),
        "grpo2": job(project, "grpo2", "grpo", 2),
        "lora1": job(project, "lora1", "grpo", 1, lora=LORA),
        "lora2": job(project, "lora2", "grpo", 2, lora=LORA),
        "reward1": job(project, "reward1", "reward_model", 1),
        "reward2": job(project, "reward2", "reward_model", 2),
        "broken": job(project, "broken", "grpo", 2, **broken),
        "undivided": job(project, "undivided", "sft", 3),
        "half_groups": job(project, "half_groups", "grpo", 2, few),
    }
    return project, dict(zip(jobs, run(project, list(jobs.values())), strict=True))


def test_sft_by_two_ranks_is_sft_by_one(runs) -> None:
    project, ends = runs
    assert [ends["sft1"], ends["sft2"]] == [{"code": 0, "orphans": []}] * 2
    assert distance(project, "sft1", "sft2") < 1e-5
    one, two = (metrics(project, name) for name in ("sft1", "sft2"))
    assert [row["loss"] for row in two["history"]] == pytest.approx([row["loss"] for row in one["history"]], rel=1e-5)
    assert one.keys() == two.keys() and one["flops"] == two["flops"]


@pytest.mark.parametrize("of", ["grpo", "lora"])
def test_grpo_by_two_ranks_draws_the_same_completions_and_learns_the_same(runs, of) -> None:
    project, ends = runs
    pair = (f"{of}1", f"{of}2")
    assert [ends[name] for name in pair] == [{"code": 0, "orphans": []}] * 2
    one, two = (drawn(project, name) for name in pair)
    assert len(one) == 4 and len(one[0]) == 8
    assert one == two
    assert distance(project, *pair) < 1e-3
    spent = ("rollouts", "rollout_tokens", "train_tokens", "flops", "steps")
    assert len({tuple(metrics(project, name)[key] for key in spent) for name in pair}) == 1


def test_two_ranks_score_half_of_the_held_out_pairs_each(runs) -> None:
    project, ends = runs
    assert [ends["reward1"], ends["reward2"]] == [{"code": 0, "orphans": []}] * 2
    one, two = (metrics(project, name) for name in ("reward1", "reward2"))
    counted = ("pairs", "held_out_pairs", "accuracy", "accuracy_by_kind")
    assert [one[key] for key in counted] == [two[key] for key in counted]
    shown = [
        re.findall(r"1/(\d+)  step \w+ pairs held out", (project / name / "terminal").read_text())
        for name in ("reward1", "reward2")
    ]
    assert sum(map(int, shown[0])) == one["held_out_pairs"]
    assert [int(count) for count in shown[1]] == [-(int(count) // -2) for count in shown[0]]


def test_a_stages_device_is_what_its_ranks_computed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compute(stage: Stage) -> dict[str, Any]:
        monkeypatch.setattr(launch, "device", lambda: f"GPU {os.environ['RANK']}")  # in the rank alone
        return {}

    monkeypatch.setitem(sys.modules, "r1flow.programs.fake.compute", SimpleNamespace(compute=compute))
    tracker = StageRun("", "sft", {}, {})
    tracker.spool = Spool(tmp_path / "sft.jsonl")
    terminal = Progress("sft", (tmp_path / "terminal").open("w"))
    stage = Stage("sft", {"device": "cpu"}, {}, tmp_path, tmp_path, terminal, tracker, ranks=2)
    launch.run_ranks("fake", stage)
    tracker.finish({}, tmp_path)
    records = [json.loads(line) for line in (tmp_path / "sft.jsonl").read_text().splitlines()]
    assert [record["value"] for record in records if record.get("key") == "device"] == ["GPU 0"]


def test_a_killed_rank_is_reported_with_what_mostly_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compute(stage: Stage) -> dict[str, Any]:
        if os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        return {}

    monkeypatch.setitem(sys.modules, "r1flow.programs.fake.compute", SimpleNamespace(compute=compute))
    terminal = Progress("sft", (tmp_path / "terminal").open("w"))
    config = {"device": "cpu"}
    stage = Stage("sft", config, {}, tmp_path, tmp_path, terminal, StageRun("", "sft", {}, {}), ranks=2)
    with pytest.raises(launch.RankFailed, match=r"process 1 terminated with signal SIGKILL \(out of memory\?\)"):
        launch.run_ranks("fake", stage)


def test_a_program_that_leaves_without_a_result_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a user's own reward does that calls sys.exit()."""
    monkeypatch.setitem(sys.modules, "r1flow.programs.fake.compute", SimpleNamespace(compute=lambda stage: sys.exit()))
    stage = Stage("sft", {"device": "cpu"}, {}, tmp_path, tmp_path, None, StageRun("", "sft", {}, {}))
    with pytest.raises(launch.RankFailed, match="its first rank ended without a result"):
        launch.run_ranks("fake", stage)


def test_a_rank_that_doesnt_start_is_named_while_the_others_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped where it starts, until that is said."""
    start = launch.know_cpus

    def stop() -> None:
        if os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGSTOP)
        start()

    def say(text: str) -> None:
        said.append(text)
        assert len(said) < 30_000  # five minutes
        if text.startswith("waiting for rank 1 "):
            for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
                os.kill(int(child), signal.SIGCONT)

    said: list[str] = []
    monkeypatch.setattr(launch, "START_S", 0.01)
    monkeypatch.setattr(launch, "know_cpus", stop)
    monkeypatch.setitem(sys.modules, "r1flow.programs.fake.compute", SimpleNamespace(compute=lambda stage: {}))
    terminal = SimpleNamespace(say=say)
    stage = Stage("sft", {"device": "cpu"}, {}, tmp_path, tmp_path, terminal, StageRun("", "sft", {}, {}), ranks=2)
    launch.run_ranks("fake", stage)
    assert said[-1].startswith("waiting for rank 1 to start") and (tmp_path / launch.METRICS).exists()


def test_only_the_first_rank_reports(runs) -> None:
    project, _ = runs
    one, two = ((project / name / "terminal").read_text() for name in ("grpo1", "grpo2"))
    for words in ("] started", "] 1/4 ", "] 4/4 ", "] done in "):
        assert one.count(words) == two.count(words) > 0


def test_a_rank_that_fails_ends_the_stage_in_one_line_with_its_traceback_in_the_log(runs) -> None:
    project, ends = runs
    assert ends["broken"] == {"code": 1, "orphans": []}
    terminal, log = ((project / "broken" / name).read_text() for name in ("terminal", "log"))
    said = "rewards.broken: own.broken raised ZeroDivisionError: the second rank's fault"
    assert f"RankFailed: rank 1: RuntimeError: {said}" in terminal
    assert "Traceback" in log and "own.py" in log
    assert not (project / "broken" / "out").exists()


def test_a_step_that_cant_be_shared_out_is_refused_at_once(runs) -> None:
    project, ends = runs
    assert ends["undivided"]["code"] == 1
    assert (
        "trainer.gradient_accumulation_steps: 2 passes can't be divided among 3"
        in (project / "undivided" / "terminal").read_text()
    )
    assert not (project / "undivided" / "scratch").exists()


def test_ranks_that_would_see_half_a_group_each_are_refused(runs) -> None:
    """kimi_length would rank a completion among those of its rank, and groups might seem to have one reward."""
    project, ends = runs
    assert ends["half_groups"]["code"] == 1
    said = "trainer.num_generations: 4 completions of a prompt would be divided among processes that sample 2 each"
    assert said in (project / "half_groups" / "terminal").read_text()


@pytest.mark.slow
def test_killed_ranks_leave_nothing_behind_and_go_on_to_the_same_bytes(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    blows = {
        "driver": {"rank": 0, "step": 3, "signal": signal.SIGKILL, "whom": "driver"},
        "stop": {"rank": 1, "step": 3, "signal": signal.SIGTERM, "whom": "driver"},
        "rank": {"rank": 1, "step": 3, "signal": signal.SIGKILL, "whom": "self"},
    }
    jobs = [job(project, "whole", "sft", 2)]
    for name, blow in blows.items():
        jobs += [job(project, name, "sft", 2, blow=blow), job(project, name, "sft", 1 if name == "rank" else 2)]
    _, driver, after_driver, stop, after_stop, rank, after_rank = run(project, jobs)
    assert driver == {"code": -signal.SIGKILL, "orphans": [-signal.SIGKILL] * 2}
    assert stop == {"code": 130, "orphans": []}
    assert rank == {"code": 1, "orphans": []}
    assert [end["code"] for end in (after_driver, after_stop, after_rank)] == [0, 0, 0]
    for name in ("driver", "stop"):
        assert distance(project, "whole", name) == 0
        assert metrics(project, name) == metrics(project, "whole")
    assert distance(project, "whole", "rank") < 1e-5  # begun by two, ended by one


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["fsdp2", "zero2", "zero3"])
def test_weights_in_shares_are_trained_and_saved_whole(tmp_path: Path, strategy: str) -> None:
    if strategy != "fsdp2" and not find_spec("deepspeed"):
        pytest.skip("DeepSpeed isn't installed: pip install -c constraints.txt -e .[deepspeed]")
    project = make_project(tmp_path)
    shares = {"strategy": strategy, "as_on_gpus": True}
    blow = {"rank": 0, "step": 3, "signal": signal.SIGKILL, "whom": "driver"}
    jobs = {
        "sft": job(project, "sft", "sft", 1),
        "shared": job(project, "shared", "sft", 2, **shares),
        "killed": job(project, "killed", "sft", 2, **shares, blow=blow),
        "resumed": job(project, "killed", "sft", 2, **shares),
        "grpo": job(project, "grpo", "grpo", 2, engine="transformers"),
        "grpo_shared": job(project, "grpo_shared", "grpo", 2, engine="transformers", **shares),
    }
    ends = dict(zip(jobs, run(project, list(jobs.values())), strict=True))
    assert {name for name, end in ends.items() if end["code"]} == {"killed"}
    assert distance(project, "sft", "shared") < 1e-5
    assert distance(project, "shared", "killed") < 1e-5
    assert distance(project, "grpo", "grpo_shared") < 1e-4
    AutoModelForCausalLM.from_pretrained(project / "shared" / "out" / "model")
