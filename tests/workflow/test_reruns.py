"""Only what changed runs again: every leaf of the configuration, every kind of damage, and the way back."""

import copy as copies
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from checkout import ROOT, Checkout

from r1flow.artifacts import provenance
from r1flow.core.errors import UserError
from r1flow.core.files import read_yaml
from r1flow.engine.plan import COMPUTE, FOLLOW, KEEP, RESTORE, plan
from r1flow.engine.run import Run
from r1flow.recipe.stages import STAGES, stage_of


def composed(**words: str) -> Run:
    return Run.compose(Path(), "r1_micro", **words)


def actions(**words: str) -> dict[str, str]:
    """What the run in the current folder would do, kept jobs left out."""
    return {step.job: step.action for step in plan(composed(**words)) if step.action != KEEP}


def downstream(run: Run, jobs: set[str]) -> set[str]:
    return {job for job in run.jobs if jobs & ({job} | run.upstream(job))}


def leaves(config: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in config.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key)


# Leaves that a check allows only together.
TIED = {key: ("init_from",) for key in (("revision",), ("file",), ("drop_layers",), ("drop_weights",))}
TIED[("data", "general_file")] = ("data", "general_share")


def flipped(run: Run, stage: str, path: tuple[str, ...]) -> Run:
    """The run with one leaf of one stage's slice changed, and the one it is tied to."""
    changed = Run(copies.deepcopy(run.config))
    flip(changed.config[stage], path)
    if path in TIED:
        flip(changed.config[stage], TIED[path])
    return changed


def flip(block: dict[str, Any], path: tuple[str, ...]) -> None:
    """Another value of the leaf's type; a model to start from becomes another one."""
    for key in path[:-1]:
        block = block[key]
    value = block[path[-1]]
    if path[-1] == "init_from":
        new = "student_base" if value == "base" else "base" if value else "results/r1_micro/base/model"
    else:
        kinds = {bool: lambda: not value, int: lambda: value + 1, float: lambda: value + 0.5, str: lambda: f"{value}x"}
        others = {list: lambda: [*value, "x"], dict: lambda: {"x": 1}, type(None): lambda: 1}
        new = (kinds | others)[type(value)]()
    block[path[-1]] = new


@pytest.fixture(scope="module")
def reads(micro) -> dict[str, set[str]]:
    """The leaves that each stage read while the shared run was computed; evaluations together.

    `init_from` is read as the input `model`: the path that it names, of a stage or from outside.
    """
    found: dict[str, set[str]] = {}
    for file in (micro.folder / "reads").glob("*.json"):
        job, paths = json.loads(file.read_text())
        found.setdefault(stage_of(job), set()).update(paths)
    for stage in found.keys() - {"data", "evaluate", "report"}:
        found[stage].add("init_from")
    return found


@pytest.mark.parametrize("apart", [8, pytest.param(1, marks=pytest.mark.slow)])  # every eighth leaf, or every one
def test_a_flip_of_any_leaf_reruns_the_stages_that_read_it_and_what_follows(micro, reads, monkeypatch, apart):
    monkeypatch.chdir(micro.folder)
    run = composed()
    assert {step.action for step in plan(run)} == {KEEP}
    wrong, count = [], 0
    for stage in STAGES:
        for path in list(leaves(run.slice(stage)))[::apart]:
            names = {".".join(path), ".".join(TIED.get(path, ()))}
            readers = {stage} if names & reads.get(stage, set()) else set()
            expected = downstream(run, {job for job in run.jobs if stage_of(job) in readers})
            planned = {step.job for step in plan(flipped(run, stage, path)) if step.action != KEEP}
            count += 1
            if planned != expected:
                wrong.append((stage, ".".join(path), "read" if readers else "not read", len(planned)))
    assert count > 500 / apart and not wrong, wrong


def test_a_leaf_that_several_stages_read_reruns_all_of_them(micro, reads, monkeypatch):
    monkeypatch.chdir(micro.folder)
    for leaf, overrides in (("seed", "seed=2"), ("threads", "threads=2"), ("device", "device=cuda")):
        run = composed(overrides=overrides)
        read_by = {job for job in run.jobs if leaf in reads[stage_of(job)]}
        assert set(actions(overrides=overrides)) == downstream(run, read_by), leaf


def test_where_a_run_takes_place_reruns_nothing(copy):
    done = copy.snakemake("--dry-run", "--cores", "1", "--quiet", "all", "--printshellcmds", "--keep-incomplete")
    assert done.returncode == 0 and "r1flow-stage" not in done.stdout + done.stderr


def test_an_input_that_is_gone_reruns_what_read_it(copy, monkeypatch):
    monkeypatch.chdir(copy.folder)
    assert actions(overrides="stages=[data,base,zero_rl,evaluate,report]") == {"report": COMPUTE}


def test_a_stage_may_start_from_one_that_stands_later_in_the_recipe(copy, monkeypatch):
    monkeypatch.chdir(copy.folder)
    assert actions(overrides="zero_rl.init_from=cold_start")["zero_rl"] == COMPUTE
    with pytest.raises(UserError, match="start from each other"):
        actions(overrides="zero_rl.init_from=cold_start cold_start.init_from=zero_rl")


def test_snakemake_runs_what_the_plan_says(copy, monkeypatch):
    monkeypatch.chdir(copy.folder)
    for overrides in ("distill.trainer.learning_rate=1.0e-3", "evaluate.k=3", "seed=5"):
        assert copy.planned(overrides=overrides) == set(actions(overrides=overrides)) != set()


def test_the_plan_says_what_why_and_how_long_without_torch(copy):
    options = ["--cores", "2", "-n", "--set-scatter", "rejection=2", "evaluate=2"]
    words = [*options, "--config", "experiment=r1_micro", "overrides=distill.trainer.num_train_epochs=4"]
    script = (
        f"import sys; from r1flow.commands.cli import main; main(['plan', *{words}]); assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=copy.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, second, *_, last, about = done.stdout.splitlines()
    assert re.fullmatch(r"compute  distill +\d+ s  config: trainer.num_train_epochs 8 → 4", first)
    assert re.fullmatch(r"follow   evaluate/distill +\d+ s  after distill", second)
    assert last.startswith("1 to compute, 2 to compute if what runs before them comes out different, 19 kept; at most ")
    assert re.fullmatch(r".*minutes? on \d+ cores of this CPU, if nothing else runs there", about)


def test_what_comes_back_is_not_computed_whatever_the_clock_said_before(copy, monkeypatch):
    """Dated in the future, a kept file would be newer than what is made now, which Snakemake would then delete."""
    monkeypatch.chdir(copy.folder)
    before = {path: path.read_bytes() for path in Path("results").rglob("manifest.json")}
    for gone in ("distill", "evaluate/distill", "report"):
        shutil.rmtree(Path("results/r1_micro", gone))
    assert actions() == dict.fromkeys(("distill", "evaluate/distill", "report"), RESTORE)
    for path in [*Path("results").rglob("*"), *Path(".config").glob("*.yaml")]:
        os.utime(path, (4e9, 4e9))
    (copy.folder / "again").mkdir()
    done = copy.snakemake(hooks={"HOOK_READS": str(copy.folder / "again")})
    assert done.returncode == 0 and computed(copy.folder / "again") == set(), done.stderr
    assert {path: path.read_bytes() for path in Path("results").rglob("manifest.json")} == before


def test_another_run_of_the_same_recipe_comes_from_the_store_but_for_its_report(copy, monkeypatch):
    monkeypatch.chdir(copy.folder)
    found = actions(run="again")
    assert found.pop("report") == COMPUTE and set(found.values()) == {RESTORE} and len(found) == 21


DAMAGE = {
    "edited": lambda path: path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1])),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "deleted": lambda path: path.unlink(),
    "emptied": lambda path: path.write_bytes(b""),
}


DAMAGED = ("cold_start/model/model.safetensors", "rejection/mix.jsonl", "base/provenance.json", "zero_rl/config.yaml")


def harm(name: str, damage: str) -> Path:
    """Damage a file of the run and leave it its times."""
    path = Path("results/r1_micro", name)
    status = path.stat()
    DAMAGE[damage](path)
    if path.exists():
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return path


def test_all_damage_is_named_and_mended_at_once(copy, monkeypatch):
    monkeypatch.chdir(copy.folder)
    before = {name: Path("results/r1_micro", name).read_bytes() for name in DAMAGED}
    paths = {name.split("/")[0]: harm(name, damage) for name, damage in zip(DAMAGED, DAMAGE, strict=True)}
    steps = {step.job: step for step in plan(composed()) if step.action != KEEP}
    assert set(steps) == set(paths)
    assert all(str(path) in steps[stage].why[0] for stage, path in paths.items())
    assert copy.snakemake().returncode == 0 and actions() == {}
    assert before == {name: Path("results/r1_micro", name).read_bytes() for name in DAMAGED}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_named_and_mended_and_reaches_nothing_else(copy, monkeypatch, damage, name):
    monkeypatch.chdir(copy.folder)
    before = Path("results/r1_micro", name).read_bytes()
    path, stage = harm(name, damage), name.split("/")[0]
    steps = {step.job: step for step in plan(composed()) if step.action != KEEP}
    assert set(steps) == {stage} and str(path) in steps[stage].why[0]
    done = copy.snakemake("--until", stage)
    assert done.returncode == 0 and path.read_bytes() == before and actions() == {}


@pytest.mark.slow
def test_without_the_store_a_mended_stage_is_computed_and_what_follows_is_not(copy, monkeypatch):
    monkeypatch.chdir(copy.folder)
    manifest = Path("results/r1_micro/student_base/manifest.json")
    before = manifest.read_bytes()
    shutil.rmtree(".memo")  # what is whole goes back into it before it is replaced
    Path("results/r1_micro/student_base/model/config.json").unlink()
    assert actions() == {
        "student_base": COMPUTE,
        **dict.fromkeys(("distill", "student_rl", "evaluate/student_base", "evaluate/distill", "report"), FOLLOW),
        "evaluate/student_rl": FOLLOW,
    }
    (copy.folder / "again").mkdir()
    done = copy.snakemake(hooks={"HOOK_READS": str(copy.folder / "again")})
    assert done.returncode == 0 and manifest.read_bytes() == before and actions() == {}
    assert computed(copy.folder / "again") == {"student_base"}


def computed(reads: Path) -> set[str]:
    """The jobs whose programs ran: what only came from the store read no more than its threads and its device."""
    found = [json.loads(file.read_text()) for file in reads.iterdir()]
    return {job for job, paths in found if set(paths) - {"threads", "device"}}


def test_old_files_copied_over_new_ones_with_their_times_are_noticed(copy, monkeypatch):
    monkeypatch.chdir(copy.folder)
    old = shutil.copytree("results/r1_micro/student_base", "old")  # copytree keeps times, as cp -p does
    done = copy.snakemake("--until", "student_base", overrides="student_base.trainer.max_steps=4")
    assert done.returncode == 0, done.stderr
    assert set(actions(overrides="student_base.trainer.max_steps=4")) >= {"distill", "student_rl"}
    shutil.rmtree("results/r1_micro/student_base")
    shutil.copytree(old, "results/r1_micro/student_base")
    assert actions(overrides="student_base.trainer.max_steps=4")["student_base"] == RESTORE
    assert actions() == {}


def test_touched_files_a_fresh_clone_and_lost_records_rerun_nothing(copy, monkeypatch):
    monkeypatch.chdir(copy.folder)
    for number, path in enumerate(sorted(Path("results").rglob("*"), reverse=True)):
        os.utime(path, (number * 1e6, number * 1e6))
    for lost in (".snakemake", ".config", "scratch", "logs"):
        shutil.rmtree(lost)
    assert actions() == {} and copy.planned() == set()


def test_another_version_of_a_library_is_refused_until_someone_decides(copy, monkeypatch):
    monkeypatch.chdir(copy.folder)
    path = Path("results/r1_micro/base/provenance.json")
    then = json.loads(path.read_text())
    older = {**then, "libraries": {**then["libraries"], "torch": "2.12.0"}}
    path.write_text(json.dumps({**older, "identity": provenance.identity_of(older)}))
    done = copy.snakemake()
    assert done.returncode != 0 and "torch 2.12.0 → " in done.stderr and "started" not in done.stderr
    rerun = plan(composed(libraries="rerun"))
    assert [step.job for step in rerun if step.action != KEEP] == ["base"]
    assert copy.snakemake(libraries="accept").returncode == 0
    assert json.loads(path.read_text())["accepted"] == {"torch": then["libraries"]["torch"]}
    assert copy.snakemake().returncode == 0 and actions() == {}


def test_a_plan_changes_nothing(copy, monkeypatch):
    monkeypatch.chdir(copy.folder)
    before = {path: path.stat().st_mtime_ns for path in Path("results").rglob("*")}
    copy.planned(overrides="seed=7")
    assert before == {path: path.stat().st_mtime_ns for path in Path("results").rglob("*")}


def test_a_users_reward_module_reruns_its_stage_and_edits_do_not_reach_a_live_run(copy, monkeypatch):
    monkeypatch.chdir(copy.folder)
    rewards = copy.folder / "my_rewards.py"
    rewards.write_text(
        "def brevity():\n    return lambda prompts, completions, **_: [-len(c) / 100 for c in completions]\n"
    )
    overrides = "+zero_rl.rewards.short.name=my_rewards.brevity"
    done = copy.snakemake("--until", "zero_rl", overrides=overrides)
    assert done.returncode == 0, done.stderr
    assert "zero_rl" not in actions(overrides=overrides)
    frozen_run = next(path for path in Path(".config").glob("run-*.yaml") if "brevity" in path.read_text())
    snapshot = Path(read_yaml(frozen_run)["sources"])
    text = (snapshot / "my_rewards.py").read_text()
    rewards.write_text(f"# shorter\n{text}")
    assert "zero_rl" not in actions(overrides=overrides)
    rewards.write_text(text.replace("100", "50"))
    assert actions(overrides=overrides)["zero_rl"] == COMPUTE
    assert (snapshot / "my_rewards.py").read_text() == text


def test_a_published_run_comes_back_in_a_fresh_clone_with_nothing_to_do(copy, tmp_path):
    def done(folder: Path, *command: str) -> None:
        subprocess.run(command, cwd=folder, check=True, capture_output=True)

    r1flow = (sys.executable, "-m", "r1flow.commands.cli")
    shutil.copyfile(ROOT / ".gitignore", copy.folder / ".gitignore")
    for words in ("init -q", "config user.name a", "config user.email a@b.c", "add .", "commit -qm run"):
        done(copy.folder, "git", *words.split())
    done(copy.folder, *r1flow, "publish", "results/r1_micro")
    done(copy.folder, "git", "add", "published/r1_micro")
    done(copy.folder, "git", "commit", "-qm", "publish")
    done(tmp_path, "git", "clone", "-q", str(copy.folder), "fresh")
    shutil.copytree(copy.folder / ".dvc-remote", tmp_path / "fresh/.dvc-remote")
    done(tmp_path / "fresh", *r1flow, "restore")
    fresh = Checkout(tmp_path / "fresh")
    assert fresh.planned() == set()
    done(fresh.folder, *r1flow, "diff", str(copy.folder / "results/r1_micro"), "results/r1_micro")


def test_two_processes_that_compute_one_stage_do_not_meet(copy):
    """As after a kill of Snakemake alone: its stage lives on when the next one starts."""
    shutil.rmtree(copy.folder / "results/r1_micro/data")
    shutil.rmtree(copy.folder / ".memo/data")
    config = next((copy.folder / ".config").glob("data-*.yaml"))
    out = "results/r1_micro/data/manifest.json"
    words = ["data", "data", "--run", "r1_micro", "--config", str(config), "--out", out]
    command = [sys.executable, "-c", "from r1flow.engine.driver import main; main()", *words]
    stages = [subprocess.Popen(command, cwd=copy.folder, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [stage.communicate()[1] for stage in stages]
    assert [stage.returncode for stage in stages] == [0, 0], said
    assert copy.planned() == set()
