"""A profile for Slurm has the hours and the memory that its cost estimate says, and Snakemake takes it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from r1flow.engine.run import Run
from r1flow.programs import cost_estimate
from r1flow.programs.cost_estimate import Cost
from r1flow.programs.specs import spec_of
from r1flow.recipe.stages import RECIPE, RL_STAGES

ROOT = Path(__file__).parents[2]
EXPERIMENT = "r1_qwen2.5_7b"
PROFILE = yaml.safe_load((ROOT / "profiles/slurm-7b/config.yaml").read_text())
ASSUMPTIONS = cost_estimate.read_assumptions(ROOT / cost_estimate.ASSUMPTIONS)


def resources(rule: str) -> dict[str, int]:
    own = {"runtime": spec_of("grpo").runtime} if rule in RL_STAGES else {}
    return {"gpu": 1, **PROFILE["default-resources"], **own, **PROFILE["set-resources"].get(rule, {})}


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> list[Cost]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("nothing"))
        patch.setenv("HF_HUB_CACHE", "hub")
        return Run.compose(ROOT, EXPERIMENT).costs


def test_a_jobs_tries_have_twice_the_hours_that_it_costs(costs: list[Cost]) -> None:
    for cost in costs:
        stage = cost.job.partition("/")[0]
        parts = PROFILE["set-scatter"].get(stage, 1)
        have = resources("sample" if parts > 1 else stage)
        spent = cost.gpu_hours(ASSUMPTIONS["gpus"]["H100"]["tflops"], ASSUMPTIONS) / resources(stage)["gpu"] / parts
        assert have["runtime"] / 60 * (PROFILE["retries"] + 1) >= 2 * spent, cost.job
        assert parts <= PROFILE["jobs"]


def test_a_jobs_memory_has_room_for_the_weights_of_all_its_processes(costs: list[Cost]) -> None:
    for cost in costs:
        stage = cost.job.partition("/")[0]
        rules = {stage, "sample"} if stage in PROFILE["set-scatter"] else {stage}
        for rule in rules:
            gpus = resources(stage)["gpu"]
            assert resources(rule)["mem_mb"] * 1e6 >= 1.1 * cost.host_memory(gpus), (cost.job, rule)


def test_what_a_training_shares_out_fits_its_gpus(costs: list[Cost]) -> None:
    for cost in costs:
        gpus = resources(cost.job.partition("/")[0])["gpu"]
        assert cost.gpu_memory(80e9, gpus) < 80e9, cost.job


def dry_run(folder: Path, *words: str) -> str:
    """What Snakemake says of the jobs that it would start; `words` end with those of --config."""
    for name in ("Snakefile", "conf", "workflow", "profiles", "environment.yml", "data.dvc", ".dvc"):
        (folder / name).symlink_to(ROOT / name)
    command = [sys.executable, "-m", "snakemake", "--dry-run", "--printshellcmds", "--quiet", "host", *words]
    paths = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": paths})
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def test_every_stage_of_grpo_has_its_long_runtime_without_a_profile_that_names_it(tmp_path: Path) -> None:
    """On a cluster a stage with too few minutes is ended; --set-resources says otherwise for one of them."""
    profile = yaml.safe_load((ROOT / "profiles/slurm/config.yaml").read_text())
    named, usual = profile["set-resources"], profile["default-resources"]["runtime"]
    words = [f"{rule}:{key}={value}" for rule, each in named.items() for key, value in each.items()]
    first, *others = RL_STAGES
    stages = [row.stage for row in RECIPE.values() if not row.is_optional]  # as in r1_micro
    said = dry_run(
        tmp_path,
        *("--cores", "1", "--default-resources", f"runtime={usual}", "--set-resources", *words, f"{first}:runtime=7"),
        *("--config", "experiment=r1_micro", f"overrides=stages=[{','.join(stages)}]"),
    )
    found = {rule: int(minutes) for rule, minutes in re.findall(r"^rule (\w+):\n.*? runtime=(\d+)", said, re.M | re.S)}
    long = spec_of("grpo").runtime
    assert long > usual and found.keys() - {"all"} == set(stages)
    given = {rule: each["runtime"] for rule, each in named.items() if "runtime" in each}
    assert found == dict.fromkeys(found, usual) | dict.fromkeys(others, long) | given | {first: 7}


def test_a_jobs_priority_is_how_many_must_come_after_it_also_a_parts(tmp_path: Path) -> None:
    few = "overrides=stages=[data,base,rejection,sft_mix,evaluate] rejection.init_from=base"
    said = dry_run(
        tmp_path,
        *("--cores", "1", "--set-scatter", "rejection=2", "evaluate=2"),
        *("--config", "experiment=r1_micro", few),
    )
    jobs = [re.search(r" --log logs/r1_micro/(\S+)\.log ", job) for job in said.split("\nrule ")]
    found = {job[1]: int(re.search(r"\n    priority: (\d+)|\Z", job.string)[1] or 0) for job in jobs if job}
    parts = {"rejection": 3, "evaluate/base": 1, "evaluate/sft_mix": 1}
    assert found == {
        **{"data": 4, "base": 3, "rejection": 2, "sft_mix": 1, "evaluate/base": 0, "evaluate/sft_mix": 0},
        **{f"{job}.{n}-of-2": priority for job, priority in parts.items() for n in (1, 2)},
    }


@pytest.mark.slow
def test_snakemake_takes_the_profile_that_the_experiments_first_lines_name(tmp_path: Path) -> None:
    pytest.importorskip("snakemake_executor_plugin_slurm", reason="needs pip install -e .[slurm]")
    opening = (ROOT / f"conf/experiment/{EXPERIMENT}.yaml").read_text().partition("defaults:")[0]
    (profile,) = re.findall(r"--profile (\S+)", opening)
    said = dry_run(tmp_path, "--profile", profile, "--config", f"experiment={EXPERIMENT}")
    assert re.search(r"r1flow-stage sft sft_mix .* --gpus 8 ", said)
    parts = PROFILE["set-scatter"]["rejection"]
    assert re.search(rf"r1flow-stage rejection rejection .* --part {parts}-of-{parts}", said)
