"""Several seeds: the intervals and verdicts over them, what is run for each, and which runs aren't compared."""

import os
import re
import shutil
import signal
import subprocess
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from documented import as_documented
from fabricated_run import TRAINED, fabricate_history
from scipy.stats import ttest_1samp
from test_diff import describe_again
from test_report import Balance
from test_trace import make_run

from r1flow.artifacts.manifest import read_json, write_json
from r1flow.commands import seeds
from r1flow.commands.cli import main
from r1flow.programs.report import curves
from r1flow.programs.report.spread import (
    SELF_CORRECTION_MEANS,
    SeedRun,
    Seeds,
    Spread,
    curves_over,
    holm,
    judge_seeds,
    render_seeds,
    steps_over,
    summarise_seeds,
)
from r1flow.recipe.claims import (
    CANT_TELL,
    DOES_NOT_HOLD,
    HOLDS,
    NO_VERDICT,
    NOT_IN_RUN,
    TOY,
    Evidence,
    claim_summary,
    judge_claims,
)
from r1flow.recipe.stages import RECIPE

SEEDS = (11, 12, 13, 14, 15)
UP, LOSS = (0.30, 0.32, 0.28, 0.35, 0.25), (-0.01, -0.015, -0.005, -0.012, -0.008)
STAGES = [*(stage for model in ("base", "zero_rl") for stage in (model, f"evaluate/{model}")), "data", "report"]


def summary(estimates: dict[str, list[float | None]], gain: float = 0.1) -> dict[str, Any]:
    """A run's summary.json that has estimates for the first parts of some claims; the rest is "not in this run"."""
    claims = {claim.id: claim_summary(claim) for claim in judge_claims(Evidence({}))}
    for name, values in estimates.items():
        for part, value in zip(claims[name]["parts"], values, strict=False):
            part |= {"estimate": value, "verdict": CANT_TELL, "needs": []}
    cell = {"estimate": gain, "low": None, "high": None, "n": 1}
    parts = {name: dict(cell) for name in ("gain", "mode", "general", "first_pass", "later_passes")}
    step = {**parts, "skill": [{"temperature": t, **cell} for t in (0.6, 1.0)]}
    reasoning = {"pass_at_1": gain, "pass_at_1_lenient": 2 * gain, "cons_at_k": gain, "cons_at_k_lenient": gain}
    reasoning |= {"format_rate": 0.5, "language_rate": 0.5, "mean_length": 40 * gain}
    models = {model: {"reasoning": reasoning, "general": {"pass_at_1": gain / 2}} for model in ("base", "zero_rl")}
    found = {"run": "tiny", "models": models, "claims": claims, "steps": {"zero_rl": {"base": step}}}
    difference = {"estimate": -gain, "low": None, "high": None, "n": 1}
    self_correction = {"stated": 90, "several": 30, "wrong": 40, "doubted": 35, "corrected": 20, "broken": 3}
    self_correction |= dict.fromkeys(SELF_CORRECTION_MEANS, difference)
    found |= {
        "self_correction": {"zero_rl": self_correction},
        "kinds": {"zero_rl": {"greeting": gain}},
        "starts": {"zero_rl": "base"},
    }
    found |= {"thoughts": {"zero_rl": {"reflection_rate": gain / 4}}, "paraphrased": {"base": {"reasoning": reasoning}}}
    return found | {"skill": {"zero_rl": step["skill"]}}


def runs_of(**estimates: list[tuple[float | None, ...]]) -> list[SeedRun]:
    """A run for each seed; `estimates` has, by claim, the values of every part by seed."""
    count = len(next(iter(estimates.values()))[0])
    found = [{name: [part[i] for part in parts] for name, parts in estimates.items()} for i in range(count)]
    return [
        SeedRun(seed, f"tiny-s{seed}", summary(values), {})
        for seed, values in zip(range(11, 11 + count), found, strict=True)
    ]


def judged(**estimates: list[tuple[float | None, ...]]) -> dict[str, Spread]:
    return {each.claim.id: each for each in judge_seeds(runs_of(**estimates))}


# -- numbers -----------------------------------------------------------------------------------------------------


def test_the_interval_is_students_over_the_seeds():
    """Mean 3, standard deviation √2.5, t(4) = 2.7764."""
    interval = judged(C6=[(0.01, 0.02, 0.03, 0.04, 0.05)])["C6"].claim.parts[0].interval
    assert (interval.estimate, interval.n) == (pytest.approx(0.03), 5)
    half = 2.776445 * 0.0158113883 / 5**0.5
    assert (interval.low, interval.high) == (pytest.approx(0.03 - half), pytest.approx(0.03 + half))


@pytest.mark.parametrize(("claim", "floor"), [("C6", 0.0), ("C11", -0.02)])
def test_the_p_value_is_that_of_the_one_sided_t_test_against_the_floor(claim, floor):
    values = (0.02, -0.01, 0.03, 0.01, -0.005)
    found = judged(**{claim: [values]})[claim]
    assert found.p == pytest.approx(ttest_1samp(values, floor, alternative="greater").pvalue)


def test_a_claims_p_value_is_that_of_its_weakest_deciding_part():
    weak, strong = (0.02, -0.01, 0.03, 0.01, -0.005), (0.3, 0.31, 0.29, 0.3, 0.32)
    alone = ttest_1samp(weak, 0.0, alternative="greater").pvalue
    assert judged(C8=[weak, strong])["C8"].p == judged(C8=[strong, weak])["C8"].p == pytest.approx(alone)
    assert judged(C9=[strong, weak])["C9"].p < 0.001  # its other parts are only shown


def test_seeds_that_agree_to_the_digit_have_a_p_value_too():
    assert judged(C6=[(0.5,) * 5])["C6"].p == 0.0
    assert judged(C6=[(0.0,) * 5])["C6"].p == 1.0


def test_holm_adjusts_as_by_hand():
    """Of 0.005, 0.01, 0.03, 0.04: times 4, 3, 2 and 1, none smaller than the one before it, none above 1."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.4, 0.5]) == pytest.approx([1, 1, 1])
    assert holm([]) == []


def test_the_steps_have_their_mean_over_seeds():
    runs = [SeedRun(seed, "", summary({}, gain), {}) for seed, gain in ((1, 0.1), (2, 0.2))]
    step = summarise_seeds(Seeds("tiny", runs))["steps"]["zero_rl"]["base"]
    assert step["gain"]["estimate"] == step["skill"][1]["estimate"] == pytest.approx(0.15)


def test_a_step_that_the_paper_does_not_have_follows_if_all_runs_have_it():
    runs = [SeedRun(seed, "", summary({}, 0.1), {}) for seed in (1, 2)]
    step = runs[0].summary["steps"]["zero_rl"]["base"]
    for run in runs:
        run.summary["steps"] |= {"student_rl": {"base": step}, "cold_start": {"student_base": step}}
    runs[0].summary["steps"]["distill"] = {"base": step}
    pairs = [("zero_rl", "base"), ("cold_start", "student_base"), ("student_rl", "base")]
    assert [row["pair"] for row in steps_over(runs)] == pairs
    assert "cold_start − student_base" in render_seeds(Seeds("tiny", runs))


def test_the_models_have_their_means_over_seeds_and_bases_are_scored_leniently():
    runs = [SeedRun(seed, "", summary({}, gain), {}) for seed, gain in ((1, 0.1), (2, 0.2))]
    found = summarise_seeds(Seeds("tiny", runs))["models"]
    means = {model: {name: each["estimate"] for name, each in row.items()} for model, row in found.items()}
    rest = {"cons@k": 0.15, "format": 0.5, "language": 0.5, "general prompts": 0.075, "tokens": 6.0}
    rl = {"pass@1": 0.15, "skill": 0.15, "first pass": None, "paraphrased": None, "self-verification": 0.0375}
    base = {"pass@1": 0.3, "skill": None, "first pass": None, "paraphrased": 0.3, "self-verification": None}
    assert means["zero_rl"] == pytest.approx(rl | rest) and means["base"] == pytest.approx(base | rest)
    page = render_seeds(Seeds("tiny", runs))
    assert re.search(
        r"<th scope=\"row\">zero_rl</th><td class=\"hl\">15\.0 <span class=\"sub\">± 5\.0</span></td>", page
    )


def test_the_models_stand_in_the_recipes_order():
    runs = [SeedRun(seed, "", summary({}), {}) for seed in (1, 2)]
    recipe = ["base", "zero_rl", "cold_start", "align_rl", "student_base"]
    for run in runs:
        run.summary["models"] = {model: run.summary["models"]["base"] for model in sorted(recipe)}
    assert list(summarise_seeds(Seeds("tiny", runs))["models"]) == recipe


# -- verdicts ----------------------------------------------------------------------------------------------------


def test_seeds_that_solve_nothing_cannot_tell_and_one_that_does_can():
    """Else five times 0 against 0 would be "no worse", with a p-value of 0."""
    runs = runs_of(C11=[(0.0,) * 5], C6=[(0.0,) * 5])
    for run in runs:
        for name in ("C6", "C11"):
            run.summary["claims"][name]["parts"][0]["why"] = "neither model solves any"
        for cell in run.summary["steps"]["zero_rl"]["base"]["skill"]:
            cell |= {"estimate": 0.0, "why": "neither model solves any"}
    found = {each.claim.id: each for each in judge_seeds(runs)}
    for name in ("C6", "C11"):
        assert found[name].verdict == CANT_TELL and found[name].p == found[name].adjusted == 1.0
        assert found[name].claim.deciding.why == "neither model solves any"
    page = render_seeds(Seeds("tiny", runs))
    assert '<div class="measure">neither model solves any</div>' in page
    assert "can’t tell whether skill rose" in page and "skill did not rise" not in page
    del runs[0].summary["claims"]["C11"]["parts"][0]["why"]
    assert {each.claim.id: each for each in judge_seeds(runs)}["C11"].verdict == HOLDS


def test_seeds_of_a_toy_have_no_verdicts():
    runs = runs_of(C6=[UP])
    assert "skill rose, and" in render_seeds(Seeds("tiny", runs))
    for run in runs:
        run.summary["toy"] = True
        for part in run.summary["claims"]["C6"]["parts"]:
            part["verdict"] = NO_VERDICT
    told = summarise_seeds(Seeds("tiny", runs))
    assert told["toy"] and told["claims"]["C6"]["verdict"] == NO_VERDICT
    page = render_seeds(Seeds("tiny", runs))
    assert "badge" not in page.partition("</style>")[2] and "skill rose" not in page and TOY[:30] in page


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        ([UP, UP], HOLDS),
        ([UP[:4], UP[:4]], CANT_TELL),  # fewer than five seeds
        ([UP, LOSS], HOLDS),  # of reasoning, the second part: a loss of two points is excluded
        ([UP, [3 * value for value in LOSS]], DOES_NOT_HOLD),
        ([LOSS, UP], DOES_NOT_HOLD),  # of general prompts
        ([UP, (0.3, -0.3, 0.2, -0.2, 0.1)], CANT_TELL),
        ([UP, (0.3, None, 0.2, 0.2, 0.1)], CANT_TELL),
    ],
)
def test_a_claim_is_as_good_as_its_weakest_part(parts, verdict):
    assert judged(C7=parts)["C7"].verdict == verdict


def test_the_more_claims_are_tested_the_smaller_a_p_value_must_be():
    """An interval just above 0, p = 0.02: alone it is reproduced; beside two claims that aren't, 3p is too much."""
    just = (0.01, 0.05, 0.09, 0.02, 0.1)
    alone = judged(C6=[just])["C6"]
    assert 0.01 < alone.p == alone.adjusted < 0.025 and alone.verdict == HOLDS
    unsure = [(0.3, -0.3, 0.2, -0.2, 0.1)]
    among = judged(C6=[just], C9=unsure, C10=unsure)["C6"]
    assert among.claim.verdict == HOLDS and among.adjusted == pytest.approx(3 * alone.p)
    assert among.verdict == CANT_TELL


def test_what_the_runs_have_not_is_not_tested_and_not_counted():
    found = judged(C6=[UP], C7=[UP])  # C7's second part, which counts, isn't in these runs
    assert found["C6"].adjusted == found["C6"].p
    for name in ("C1", "C7"):
        assert (found[name].verdict, found[name].p, found[name].adjusted) == (NOT_IN_RUN, None, None)


def test_what_is_missing_is_named_with_its_seed_or_its_arm():
    runs = runs_of(C6=[(0.3, None, 0.2, 0.3, 0.1)])
    page = render_seeds(Seeds("tiny", runs))
    assert page.count("no estimate from seed 12") == 1
    assert "needs zero_rl_language, zero_rl, which these runs don’t have" in page
    parts = summarise_seeds(Seeds("tiny", runs))["claims"]["C5"]["parts"]
    assert parts[0]["needs"] == ["zero_rl_language", "zero_rl"]


def test_self_corrections_are_counted_over_all_runs_and_compared_over_seeds():
    runs = [SeedRun(seed, "", summary({}, gain), {}) for seed, gain in ((1, 0.1), (2, 0.2))]
    found = summarise_seeds(Seeds("tiny", runs))["self_correction"]["zero_rl"]
    assert (found["wrong"], found["corrected"], found["broken"]) == (80, 40, 6)
    assert found["difference"]["estimate"] == pytest.approx(-0.15) and found["difference"]["n"] == 2


@pytest.mark.parametrize(("several", "has_a_row"), [(20, True), (19, False)])
def test_a_model_with_too_few_self_corrections_in_a_run_has_no_row_over_the_seeds(several, has_a_row):
    runs = [SeedRun(seed, "", summary({}, 0.1), {}) for seed in (1, 2)]
    runs[1].summary["self_correction"]["zero_rl"]["several"] = several
    table = render_seeds(Seeds("tiny", runs)).partition('id="self-correction"')[2].partition("</section>")[0]
    assert ('<th scope="row">zero_rl</th>' in table) is has_a_row
    assert ("samples have several answers: zero_rl." in table) is not has_a_row


def test_a_claim_of_which_a_part_is_missing_says_what_it_needs_and_no_empty_p():
    runs = runs_of(C1=[(0.1, 0.1), (0.2, 0.2)])
    for run in runs:
        run.summary["claims"]["C1"]["parts"][1] |= {"estimate": None, "needs": ["evaluate.thinking"]}
    card = render_seeds(Seeds("tiny", runs)).partition("<span>C1 ")[2].partition("<span>C2 ")[0]
    assert "2 of 2 seeds above the floor; needs evaluate.thinking, which these runs don’t have" in card
    assert "of the weakest part that decides" not in card


@pytest.mark.parametrize(
    ("gains", "said"),
    [
        (UP, "skill rose, and so did the share of right first answers: RL sharpened the model"),
        (LOSS, "skill did not rise"),
        (UP[:4], "can’t tell whether skill"),
    ],
)
def test_rl_is_said_to_sharpen_only_where_skill_rises_over_the_seeds(gains, said):
    runs = [SeedRun(seed, "", summary({}, gain), {}) for seed, gain in enumerate(gains)]
    page = render_seeds(Seeds("tiny", runs))
    assert said in page and page.count("sharpened") == ("sharpened" in said)


@pytest.mark.parametrize(
    ("first_pass", "said"),
    [
        (LOSS, "skill rose, by answering again: first answers aren’t right more often"),
        ((-0.1, 0.1, -0.1, 0.1, 0.0), "whether it just answers again"),
    ],
)
def test_rl_is_not_said_to_sharpen_a_model_that_only_answers_again(first_pass, said):
    runs = [SeedRun(seed, "", summary({}, gain), {}) for seed, gain in enumerate(UP)]
    for run, value in zip(runs, first_pass, strict=True):
        run.summary["steps"]["zero_rl"]["base"]["first_pass"]["estimate"] = value
    page = render_seeds(Seeds("tiny", runs))
    assert said in page and "sharpened" not in page


def test_a_seed_with_an_effect_of_the_other_sign_is_seen_and_counts():
    runs = runs_of(C6=[(0.30, 0.32, 0.28, 0.35, -0.40)])
    claim = summarise_seeds(Seeds("tiny", runs))["claims"]["C6"]
    assert claim["verdict"] == CANT_TELL and claim["parts"][0]["values"][-1] == -0.4
    page = render_seeds(Seeds("tiny", runs))
    assert "<td>−40.0</td>" in page and "4 of 5 seeds above the floor" in page


# -- the page ----------------------------------------------------------------------------------------------------


def trained(seed: int, steps: int = 12) -> dict[str, dict]:
    histories = {stage: fabricate_history(stage, steps) for stage in TRAINED}
    return {
        stage: {"history": [row | {"length": row["length"] + seed} for row in rows if "length" in row]}
        for stage, rows in histories.items()
    }


def test_curves_are_drawn_at_the_steps_that_all_runs_have():
    runs = [SeedRun(seed, "", {}, trained(seed)) for seed in SEEDS]
    runs[1].metrics["zero_rl"]["history"][3]["accuracy"] = None
    found = curves_over(runs, "accuracy")
    assert list(found) == [stage for stage in RECIPE if stage in TRAINED]
    assert {tuple(step for step, _ in curve) for curve in found["zero_rl"]} == {(1, 2, 3, *range(5, 13))}
    assert len(found["align_rl"][0]) == 12 and len(found["align_rl"]) == len(SEEDS)


def test_a_band_goes_from_the_smallest_to_the_largest_run_and_the_line_is_their_mean(monkeypatch):
    drawn = []
    monkeypatch.setattr(curves, "to_svg", lambda figure, *_: drawn.append(figure) or "")
    runs = [[(step, value) for step in range(1, 8)] for value in (0.1, 0.2, 0.6)]
    curves.draw_curves({"zero_rl": runs}, "accuracy")
    (axes,) = drawn[0].axes
    (line,), (band,) = axes.lines, axes.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (pytest.approx(10), pytest.approx(60))
    assert line.get_ydata() == pytest.approx([30] * 7)
    plt.close(drawn[0])


def test_the_page_is_whole_needs_nothing_else_and_is_the_same_twice():
    runs = [SeedRun(each.seed, each.name, each.summary, trained(each.seed)) for each in runs_of(C1=[UP, UP], C6=[UP])]
    page = render_seeds(Seeds("tiny", runs))
    parser = Balance()
    parser.feed(page)
    assert parser.open == [] and all(len(set(table)) == 1 for table in parser.tables)
    assert not re.findall(r"""(?:src|href)=["'](?!#|\.\./tiny-s1\d/report/)[^"']*|@import|url\((?!#)""", page)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids)) and page.count("<svg") == 2 + page.count("<figcaption")  # two claims have one each
    assert "None" not in page and render_seeds(Seeds("tiny", runs)) == page


# -- the command -------------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Snakefile").touch()
    return tmp_path


@pytest.fixture
def started(project, monkeypatch) -> list[list[str]]:
    """The commands that would be run; the configuration isn't composed, and every run is there when it ends."""
    commands = []

    class Recorder(nullcontext):
        def __init__(self, command: list[str], stdout: int | None) -> None:
            super().__init__(self)
            commands.append(command)

        def wait(self) -> int:
            return 0

    monkeypatch.setattr(subprocess, "Popen", Recorder)
    monkeypatch.setattr(seeds, "check_seeds_report", lambda *words: None)
    return commands


def finish(project: Path, name: str, seed: int, told: dict | None = None, **changes: dict[str, Any]) -> Path:
    """results/<name>-s<seed> as if computed; `changes` is by stage, as in make_run."""
    stages = {stage: {"seed": seed} | changes.get(stage, {}) for stage in STAGES}
    models = {"base": None, "zero_rl": "base"}
    run = make_run(project / f"results/{name}-s{seed}", models, **stages)
    write_json(run / "report/summary.json", told or summary({"C1": [seed / 100, 0.2]}))
    describe_again(run / "report")
    return run


def refused(capsys, *words: str) -> str:
    assert main(["seeds", "tiny", *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith("r1flow: ") and said.count("\n") == 1
    return said


def test_snakemake_is_called_for_each_seed_as_a_user_would(project, started, capsys):
    for seed in (11, 12):
        finish(project, "beta", seed)
    words = ["--seeds", "12", "11", "--run", "beta", "--overrides", "zero_rl.trainer.beta=0.01 threads=2"]
    assert main(["seeds", "tiny", *words]) == 0
    assert [command[1:] for command in started] == [
        [
            *("-m", "snakemake", "--cores", "all", "--config", "experiment=tiny", f"run=beta-s{seed}"),
            f"overrides=seed={seed} zero_rl.trainer.beta=0.01 threads=2",
        ]
        for seed in (11, 12)
    ]
    assert main(["seeds", "tiny", *words, "--json"]) == 0
    shown = capsys.readouterr()
    assert as_documented("seeds", shown.out[shown.out.index("{") :])["runs"] == ["beta-s11", "beta-s12"]
    said = shown.out[: shown.out.index("{")].splitlines()
    assert (
        said[:2]
        == shown.err.splitlines()
        == ["seed 11 (1 of 2): results/beta-s11", "seed 12 (2 of 2): results/beta-s12"]
    )
    assert said[-1] == "report: results/beta-seeds/report.html"
    told = read_json(project / "results/beta-seeds/summary.json")
    assert told["seeds"] == [11, 12] and told["claims"]["C1"]["parts"][0]["values"] == [0.11, 0.12]


def test_a_run_that_fails_ends_the_command_and_is_named(project, started, capsys, monkeypatch):
    monkeypatch.setattr(subprocess.Popen, "wait", lambda self: 1)
    said = refused(capsys, "--seeds", "11", "12")
    assert len(started) == 1 and "tiny-s11 isn't finished" in said and "overrides=seed=11 failed" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_snakemake_before_the_command_and_says_how_to_go_on(
    project, started, capsys, monkeypatch, number
):
    told = []

    def wait(self: Any) -> int:
        os.kill(os.getpid(), number)
        assert told == [number]  # and the command still waits for its end
        return 1

    monkeypatch.setattr(subprocess.Popen, "wait", wait)
    monkeypatch.setattr(subprocess.Popen, "send_signal", lambda self, number: told.append(number), raising=False)
    answer = signal.getsignal(number)
    assert main(["seeds", "tiny", "--seeds", "11", "12"]) == 130
    assert len(started) == 1 and signal.getsignal(number) is answer
    assert "the same command goes on" in capsys.readouterr().err


def test_report_only_runs_nothing_and_gives_the_same_bytes_twice(project, started):
    for seed in SEEDS:
        finish(project, "tiny", seed)
    made = []
    for _ in range(2):
        assert main(["seeds", "tiny", "--report-only", "--seeds", *map(str, SEEDS)]) == 0
        made.append({path.name: path.read_bytes() for path in (project / "results/tiny-seeds").iterdir()})
    assert made[0] == made[1] and set(made[0]) == {"report.html", "summary.json"}
    assert started == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seeds", "11"], "two or more"),
        (["--seeds", "11", "12", "11"], "11 is named twice"),
        (["--seeds", "11", "12", "--overrides", "threads=2 seed=3"], "name the seeds after --seeds"),
    ],
)
def test_seeds_that_make_no_comparison_are_refused_before_anything_runs(project, started, capsys, words, said):
    assert said in refused(capsys, *words)
    assert started == []


def test_an_experiment_without_a_report_is_refused_before_anything_runs(project, capsys, monkeypatch):
    (project / "conf").symlink_to(Path(__file__).parents[2] / "conf")
    monkeypatch.setattr(subprocess, "Popen", None)
    assert "there is no experiment 'tiny'" in refused(capsys, "--seeds", "1", "2")
    words = ["seeds", "r1_micro", "--seeds", "1", "2", "--overrides", "stages=[data,base]"]
    assert main(words) == 2 and "have no report" in capsys.readouterr().err


def test_runs_that_are_not_alike_are_refused_naming_run_key_and_remedy(project, capsys):
    finish(project, "tiny", 11)
    words = ["--report-only", "--seeds", "11", "12"]
    assert "results/tiny-s12 has no report; repeat r1flow seeds without --report-only" in refused(capsys, *words)
    for change, said in (
        ({"trainer": {"learning_rate": 0.5, "betas": [0.9, 0.99]}}, "zero_rl.trainer.learning_rate is 0.5"),
        ({"code": "other"}, 'zero_rl.code is "other"'),
    ):
        run = finish(project, "tiny", 12, zero_rl=change)
        assert f"results/tiny-s12: {said}, and in results/tiny-s11 it is" in refused(capsys, *words)
        shutil.rmtree(run)


def test_a_seed_inside_a_stage_is_the_runs_or_a_difference(project, capsys):
    """As the reward that pays by chance has one: the run's, unless somebody names another."""
    words = ["--report-only", "--seeds", "11", "12"]
    for seed, own in ((11, 11), (12, 12)):
        finish(project, "tiny", seed, zero_rl={"rewards": {"chance": {"seed": own}}})
    assert main(["seeds", "tiny", *words]) == 0
    shutil.rmtree(project / "results/tiny-s12")
    finish(project, "tiny", 12, zero_rl={"rewards": {"chance": {"seed": 13}}})
    assert "results/tiny-s12: zero_rl.rewards.chance.seed is 13" in refused(capsys, *words)


def test_a_run_of_another_seed_than_its_name_says_is_refused(project, capsys):
    finish(project, "tiny", 11)
    finish(project, "tiny", 12).rename(project / "results/tiny-s13")
    assert "its seed isn't 13" in refused(capsys, "--report-only", "--seeds", "11", "13")


def test_a_report_of_an_earlier_version_is_refused(project, capsys):
    for key in ("steps", "ceiling"):
        told = summary({"C1": [0.1, 0.2]})
        told.pop("steps") if key == "steps" else told["claims"]["C6"]["parts"][0].pop("ceiling")
        for seed in (11, 12):
            finish(project, key, seed, told)
        said = refused(capsys, "--report-only", "--run", key, "--seeds", "11", "12")
        assert f"results/{key}-s11/report/summary.json: an earlier version" in said


def test_a_stage_that_is_newer_than_the_report_is_refused(project, capsys):
    for seed in (11, 12):
        run = finish(project, "tiny", seed)
    (run / "zero_rl/model/model.safetensors").write_text("trained again")
    describe_again(run / "zero_rl")
    assert "zero_rl is newer than the report" in refused(capsys, "--report-only", "--seeds", "11", "12")
