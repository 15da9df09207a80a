"""The plan of three toy jobs: what is kept, restored, computed or waits, for which reasons, and how that is said."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from r1flow.artifacts import frozen, manifest, provenance, store
from r1flow.artifacts.fingerprint import Code
from r1flow.artifacts.locks import hold, live_lock
from r1flow.commands import planning
from r1flow.core.errors import UserError
from r1flow.engine import plan
from r1flow.engine.plan import COMPUTE, FOLLOW, KEEP, RESTORE, Step, counts_in_words, table
from r1flow.engine.run import Run
from r1flow.engine.telling import outcome
from r1flow.tracking.views import headline_metrics

ROOT = Path(__file__).parents[2]
LAST = "evaluate/zero_rl"
INPUTS = {"base": {"corpus": "corpus"}, "zero_rl": {"model": "base"}, LAST: {"model": "zero_rl", "student": "base"}}
SECONDS = {"base": 10.4, "zero_rl": 95.9, LAST: 3.0}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A finished run in the current folder, as plan.py sees one; a test may change its configs and its codes."""
    monkeypatch.chdir(tmp_path)
    Path("corpus").write_text("1 + 1 = 2")
    configs: dict[str, Any] = {stage: {"seed": 1, "trainer": {"beta": 0.001}} for stage in ("base", "zero_rl")}
    made = SimpleNamespace(
        jobs=list(INPUTS),
        libraries="refuse",
        experiment="toy",
        configs=configs | {"evaluate": {"seed": 1}},
        codes={
            program: Code({"r1flow.tracking.stage": "a", f"r1flow.{program}": "b"}, {"torch": "2.13"})
            for program in PROGRAMS
        },
        sources={job: dict(sources) for job, sources in INPUTS.items()},
        slice=lambda stage: made.configs[stage],
        inputs=lambda job: made.sources[job],
        folder=lambda job: f"results/toy/{job}",
    )
    monkeypatch.setattr(plan, "code_of", lambda program, config: made.codes[program])
    for job in made.jobs:
        compute(made, job, job)
    return made


PROGRAMS = {"pretrain": "base", "grpo": "zero_rl", "evaluate": "evaluate"}


def compute(run: SimpleNamespace, job: str, content: str) -> None:
    """Leave what the job leaves, in its folder and in the store."""
    folder = Path(run.folder(job))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model").write_text(content)
    config = run.slice(job.partition("/")[0])
    (folder / "config.yaml").write_text(frozen.dump(config))
    manifest.write_json(folder / "manifest.json", manifest.manifest_of_files(job, folder))
    inputs = {name: found(run, source) for name, source in run.inputs(job).items()}
    program = plan.program_of(job, config)
    then = provenance.describe_provenance(job, program, config, run.codes[program], inputs)
    outputs = {"outputs": manifest.sha256(folder / "manifest.json")}
    manifest.write_json(folder / "provenance.json", then | outputs)
    manifest.write_json(folder / "cost.json", {"seconds": SECONDS[job], "peak_mb": 9})
    store.store_outputs(job, then["identity"], folder)


def found(run: SimpleNamespace, source: str) -> dict[str, str]:
    return provenance.identify_input(Path(run.folder(source) if source in run.jobs else source))


def edge(run: SimpleNamespace, job: str) -> str:
    return manifest.sha256(Path(run.folder(job)) / "manifest.json")


def planned(run: SimpleNamespace) -> dict[str, Step]:
    return {step.job: step for step in plan.plan(run)}


def first(run: SimpleNamespace, job: str = "zero_rl") -> tuple[str, list[str]]:
    step = planned(run)[job]
    return step.action, step.why


def test_what_is_as_it_should_be_is_kept_with_what_it_took_and_leaves(run):
    steps = plan.plan(run)
    assert [(step.job, step.action, step.why, step.moved) for step in steps] == [
        (job, KEEP, [], {}) for job in run.jobs
    ]
    assert {step.job: step.seconds for step in steps} == SECONDS
    assert [step.manifest for step in steps] == [edge(run, job) for job in run.jobs]
    assert table(steps) == "nothing to do: all 3 jobs are as they should be"


def test_a_changed_leaf_is_named_and_what_reads_the_stage_waits_for_its_bytes(run):
    run.configs["zero_rl"] = {"seed": 1, "trainer": {"beta": 0.01}}
    steps = planned(run)
    assert steps["base"].action == KEEP
    assert (steps["zero_rl"].action, steps["zero_rl"].why) == (COMPUTE, ["config: trainer.beta 0.001 → 0.01"])
    assert (steps[LAST].action, steps[LAST].why) == (FOLLOW, ["after zero_rl"])
    assert steps["zero_rl"].manifest is steps[LAST].manifest is None
    assert table(list(steps.values())).splitlines() == [
        "compute  zero_rl             96 s  config: trainer.beta 0.001 → 0.01",
        "follow   evaluate/zero_rl     3 s  after zero_rl",
        "1 to compute, 1 to compute if what runs before them comes out different, 1 kept;"
        " at most 99 s of computing, as last time",
    ]


def test_a_job_that_waits_and_has_a_reason_of_its_own_is_computed(run):
    run.configs = {stage: config | {"seed": 2} for stage, config in run.configs.items()}
    del run.configs["zero_rl"]["trainer"]
    steps = planned(run)
    assert {step.action for step in steps.values()} == {COMPUTE}
    assert steps["zero_rl"].why == ["config: seed 1 → 2, trainer.beta 0.001 → absent"]


def test_all_that_a_job_waits_for_is_said_in_the_runs_order(run):
    run.configs |= {stage: run.configs[stage] | {"seed": 2} for stage in ("base", "zero_rl")}
    assert first(run, LAST) == (FOLLOW, ["after base, zero_rl"])


def test_an_earlier_configuration_is_restored_and_what_follows_is_known(run):
    before = edge(run, "zero_rl")
    run.configs["zero_rl"] = {"seed": 2, "trainer": {"beta": 0.001}}
    compute(run, "zero_rl", "another model")
    run.configs["zero_rl"] = {"seed": 1, "trainer": {"beta": 0.001}}
    steps = planned(run)
    assert (steps["zero_rl"].action, steps["zero_rl"].manifest) == (RESTORE, before)
    assert steps["zero_rl"].why == ["config: seed 2 → 1"] and steps[LAST].action == KEEP
    assert table(list(steps.values())).splitlines() == [
        "restore  zero_rl          config: seed 2 → 1",
        "1 from the store, 2 kept",
    ]


def test_a_stage_that_came_out_otherwise_is_an_input_with_other_bytes(run):
    compute(run, "base", "another model")
    assert first(run) == (COMPUTE, ["input model: base has other bytes"])
    assert first(run, LAST) == (COMPUTE, ["input student: base has other bytes"])


def test_an_input_from_outside_counts_by_its_bytes_and_must_be_there(run):
    Path("corpus").write_text("1 + 1 = 3")
    assert first(run, "base") == (COMPUTE, ["input corpus: corpus has other bytes"])
    Path("corpus").unlink()
    with pytest.raises(UserError, match=r"^input corpus: corpus is missing; check the path"):
        plan.plan(run)


def test_an_input_more_or_less_is_named(run):
    run.sources["zero_rl"] = {"data": "corpus"}
    assert first(run) == (COMPUTE, ["input data: corpus is new", "input model: is gone"])


def test_the_modules_that_changed_are_named(run):
    run.codes["grpo"] = Code(
        {"r1flow.tracking.stage": "a", "r1flow.grpo": "c", "r1flow.model.scoring": "d"}, {"torch": "2.13"}
    )
    assert first(run) == (COMPUTE, ["code: r1flow.grpo, r1flow.model.scoring"])
    run.codes["grpo"] = Code({"r1flow.grpo": "b"}, {"torch": "2.13"})
    assert first(run) == (COMPUTE, ["code: r1flow.tracking.stage"])


def test_another_python_is_a_reason(run, monkeypatch):
    now = provenance.describe_provenance
    monkeypatch.setattr(provenance, "describe_provenance", lambda *words: now(*words) | {"python": "3.99"})
    assert first(run)[1][0].startswith("python 3.") and first(run)[1][0].endswith(" → 3.99")


def test_a_moved_library_is_shown_and_a_reason_only_where_that_is_asked_for(run):
    run.codes["grpo"] = Code(run.codes["grpo"].modules, {"torch": "2.14", "peft": "0.21"})
    step = planned(run)["zero_rl"]
    assert (step.action, step.moved) == (KEEP, {"torch": "2.13 → 2.14", "peft": "None → 0.21"})
    run.libraries = "rerun"
    step = planned(run)["zero_rl"]
    assert (step.action, step.why, step.moved) == (
        COMPUTE,
        ["library: torch 2.13 → 2.14", "library: peft None → 0.21"],
        {},
    )
    then = manifest.read_json(Path(run.folder("zero_rl")) / "provenance.json")
    accepted = {**then, "accepted": {"torch": "2.14", "peft": "0.21"}}
    manifest.write_json(Path(run.folder("zero_rl")) / "provenance.json", accepted)
    assert first(run) == (KEEP, [])
    run.codes["grpo"] = Code(run.codes["grpo"].modules, {"torch": "2.13"})
    assert first(run) == (KEEP, [])  # what it was computed with needs nobody's consent


def test_a_folder_that_is_gone_is_restored_and_priced_as_the_store_remembers(run):
    shutil.rmtree(run.folder("zero_rl"))
    step = planned(run)["zero_rl"]
    assert (step.action, step.why, step.seconds) == (RESTORE, [provenance.NOT_THERE], 95.9)
    for entry in store.entries(store.STORE / "zero_rl"):
        (entry / "cost.json").write_text("{")
    assert planned(run)["zero_rl"].seconds is None
    shutil.rmtree(store.STORE)
    assert first(run) == (COMPUTE, [provenance.NOT_THERE])


def test_a_job_of_a_named_run_says_how_it_differs_from_the_usual_one(run):
    run.folder = lambda job: f"results/{'toy' if job == 'base' else 'named'}/{job}"
    assert first(run) == (RESTORE, [provenance.NOT_THERE])
    run.configs["zero_rl"] = {"seed": 1, "trainer": {"beta": 0.01}}
    assert first(run) == (COMPUTE, [provenance.NOT_THERE, "unlike toy: config: trainer.beta 0.001 → 0.01"])
    assert first(run, LAST) == (COMPUTE, [provenance.NOT_THERE])
    (Path("results/toy/zero_rl") / "provenance.json").unlink()
    assert first(run) == (COMPUTE, [provenance.NOT_THERE])


def test_a_damaged_folder_says_what_is_damaged_and_nothing_else(run):
    (Path(run.folder("zero_rl")) / "model").write_text("?")
    run.configs["zero_rl"] = {"seed": 2}
    run.codes["grpo"] = Code({}, {"torch": "2.14"})
    step = planned(run)["zero_rl"]
    assert step.moved == {} and len(step.why) == 1 and step.why[0].startswith("results/toy/zero_rl/model is not what")


def test_every_reason_has_a_line_and_kept_jobs_only_when_asked_for():
    steps = [
        Step("base", KEEP, seconds=10.0),
        Step("zero_rl", COMPUTE, ["one", "two"]),
        Step("data", FOLLOW, ["three"], 1.5),
    ]
    shown = [
        "compute  zero_rl          one",
        "                          two",
        "follow   data        2 s  three",
        "1 to compute, 1 to compute if what runs before them comes out different, 1 kept;"
        " at most 2 s of computing, as last time (1 never run here)",
    ]
    assert table(steps).splitlines() == shown
    assert table(steps, everything=True).splitlines() == ["keep     base", *shown]


def test_the_last_line_counts_and_adds_up():
    assert counts_in_words([]) == "nothing to do: all 0 jobs are as they should be"
    assert counts_in_words([Step("a", COMPUTE), Step("b", COMPUTE)]) == "2 to compute (2 never run here)"
    timed = [Step("a", COMPUTE, seconds=1.0), Step("b", FOLLOW, seconds=2.0), Step("c", RESTORE, seconds=4.0)]
    assert counts_in_words(timed) == (
        "1 to compute, 1 to compute if what runs before them comes out different, 1 from the store;"
        " at most 3 s of computing, as last time"
    )


def test_a_run_does_not_begin_beside_a_stage_whose_own_run_was_killed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    steps = [Step("base", KEEP), Step("zero_rl", KEEP)]
    run = SimpleNamespace(missing=[], check_disk=list, steps=steps, name="toy", data_is_pinned=True)
    orphan = hold(Path("scratch/toy/zero_rl/lock"))
    with pytest.raises(UserError, match=r"^zero_rl is still being computed by a stage whose run was killed"):
        Run.begin(run)
    orphan.close()


def test_a_run_without_a_report_ends_with_the_next_command_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = Run.compose(ROOT, "r1_tiny", "stages=[data,base]")
    run.end("FAILED")
    assert outcome(run) == ""  # no model is there yet
    Path("results/r1_tiny/base/model").mkdir(parents=True)
    assert outcome(run) == "next: r1flow chat results/r1_tiny/base/model" and not list(tmp_path.rglob("*.html"))


def test_the_headlines_of_a_run_are_few_and_have_what_kept_evaluations_found(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = Run.compose(ROOT, "r1_tiny", "++zero_rl.trainer.beta=0.01 seed=2")
    assert run.overridden == {"zero_rl.trainer.beta": "0.01", "seed": "2"}
    for job in ("evaluate/zero_rl", "evaluate/align_rl"):
        Path(run.folder(job)).mkdir(parents=True)
        tasks = {"reasoning": {"pass_at_1": 0.6}, "general": {"pass_at_1": 0.7}, "sums": {"pass_at_1": 0.1}}
        manifest.write_json(Path(run.folder(job), "metrics.json"), {"tasks": tasks})
    found = headline_metrics(run.models, run.scores(["base", "evaluate/zero_rl"]))
    assert list(found)[:3] == ["pass_at_1/base", "pass_at_1/zero_rl", "pass_at_1/cold_start"]
    assert list(found)[-3:] == ["general/align_rl", "general/sft_mix", "general/reasoning_rl"] and len(found) == 12
    assert {name: value for name, value in found.items() if value is not None} == {"pass_at_1/zero_rl": 0.6}


def test_only_what_a_run_kept_or_wrote_counts_as_its_own(tmp_path, monkeypatch) -> None:
    """Of `snakemake zero_rl` with another configuration, the evaluations that lie there say nothing."""
    monkeypatch.chdir(tmp_path)
    run, told = Run.compose(ROOT, "r1_zero"), []
    run.steps = [Step("base", KEEP), Step("zero_rl", COMPUTE), Step(LAST, COMPUTE), Step("report", COMPUTE)]
    for job in (LAST, "report"):
        Path(run.folder(job)).mkdir(parents=True)
        Path(run.path(job)).write_text("{}")
    manifest.write_json(Path(run.folder(LAST), "metrics.json"), {"tasks": {"reasoning": {"pass_at_1": 0.6}}})
    claims = {"C1": {"verdict": "holds here", "text": "it learns"}}
    manifest.write_json(Path(run.folder("report"), "summary.json"), {"claims": claims})
    live = live_lock(run.name)
    hold(live).close()
    os.utime(live, (2e9, 2e9))
    monkeypatch.setattr("r1flow.tracking.spool.end_execution", lambda *words: told.append(words[2:]))
    monkeypatch.setattr("r1flow.engine.run.write_making", lambda *words: None)
    run.end("FAILED", ["zero_rl failed: no rows"])
    os.utime(live, (0, 0))
    run.end("FINISHED")
    assert told[0] == ("FAILED", "zero_rl failed: no rows", {}, {}, None)
    words = "C1 holds here: it learns\nreport: results/r1_zero/report/report.html"
    report = Path(run.folder("report"))
    assert told[1] == ("FINISHED", words, {"verdicts": "1 holds here"}, {"zero_rl": {"reasoning": 0.6}}, report)


def test_a_stage_that_more_stages_wait_for_goes_first() -> None:
    run = Run.compose(ROOT)
    for stage in run.stages:
        for source in filter(run.is_job, run.sources_of(stage).values()):
            assert run.chain(source) > run.chain(stage), (source, stage)
    assert run.priority("base") == run.chain("base")
    assert run.chain("cold_start") > run.chain("reward_model") > run.chain("zero_rl") > run.chain("evaluate") == 0


@pytest.mark.parametrize(
    ("experiment", "downloads"), [("r1_smol", {"base"}), ("r1_zero_qwen2.5_0.5b_gsm8k", {"base", "data"})]
)
def test_what_is_downloaded_comes_before_all_that_is_computed(experiment, downloads):
    run = Run.compose(ROOT, experiment)
    assert min(map(run.priority, downloads)) > max(run.priority(stage) for stage in {*run.stages} - downloads)


@pytest.mark.parametrize("name", ["a{b}", "a:b", "a?b"])
def test_a_folder_in_which_a_run_is_refused_is_refused_by_a_plan(tmp_path, monkeypatch, name):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / name).mkdir()
    (tmp_path / name / "Snakefile").touch()
    monkeypatch.chdir(tmp_path / name)
    with pytest.raises(UserError, match=r"there is a [{:?] in it, and .*; rename the folder"):
        planning.run(SimpleNamespace(typed=[], unknown=[]))


@pytest.mark.parametrize(("experiment", "more", "said"), [
    ("r1_tiny", "data.tasks.chain_sum.generator.max_terms=1",
     r"\.generator: reasoning-gym refuses it: max_terms must be >="),
    ("r1_tiny", "data.tasks.maze={draws:9,generator:{min_dst:5}}",
     r"\.min_dst: .* no such option; did you mean 'min_dist'\?"),
    ("r1_tiny", "data.tasks.maze={draws:9,generator:{seed:5}}", r"\.generator\.seed: reasoning-gym has no such option"),
    ("agent_look_up", "data.tasks.look_ups.generator.boxes=1", r"\.boxes: 1; use a whole number from 2 to 90"),
])  # fmt: skip
def test_options_that_a_generator_refuses_are_refused_in_the_plan_of_data_to_compute(
    experiment, more, said, monkeypatch
):
    run = Run.compose(ROOT, experiment, more)
    monkeypatch.setattr("r1flow.engine.run.plan", lambda run: [Step("data", COMPUTE)])
    with pytest.raises(UserError, match=said):
        _ = run.steps
    monkeypatch.setattr("r1flow.engine.run.plan", lambda run: [Step("data", KEEP)])
    assert run.steps, "data that is there was made with these options; a plan that computes nothing loads no generator"
