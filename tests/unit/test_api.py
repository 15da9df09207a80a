"""`import r1flow`: light, its examples true, and the numbers of a comparison those that statistics say."""

import ast
import doctest
import inspect
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from fabricated_run import fabricate_samples
from scipy import stats
from test_diff import FASTER
from test_trace import make_run

import r1flow
from r1flow.api import comparison
from r1flow.api.comparison import CANT_SAY, Difference, compare_runs, compare_seeds, unpaired_difference, verdict_told
from r1flow.api.comparison_page import render_comparison
from r1flow.api.stored import open_run
from r1flow.artifacts.manifest import read_json, write_json
from r1flow.commands.diff import diff
from r1flow.core.errors import UserError
from r1flow.core.metrics import mean_interval, paired_difference
from r1flow.programs.evaluate.compute import SCHEMA

MODULES = sorted({f"r1flow.api.{module}" for module in r1flow.OFFERED.values()} - {"r1flow.api.examination"})
HOW = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """A project with two runs, of which the second one's zero_rl was trained with another learning rate."""
    folder = tmp_path_factory.mktemp("project")
    make_run(folder / "results/r1_tiny")
    make_run(folder / "results/faster", zero_rl=FASTER)
    return folder


@pytest.fixture
def here(runs, monkeypatch) -> Path:
    monkeypatch.chdir(runs)
    return runs


# -- the package -------------------------------------------------------------------------------------------------


def docstrings(module: str) -> dict[str, str]:
    """Every docstring with an example; doctest's own finder passes over cached properties.

    Those of r1flow.api.examination need torch: tests/train/test_api_examination.py runs them.
    """
    tree = ast.parse(Path(import_module(module).__file__).read_text())
    documented = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    texts = {node.name: ast.get_docstring(node) or "" for node in documented}
    return {name: text for name, text in texts.items() if ">>>" in text}


@pytest.mark.parametrize(("module", "name"), [(module, name) for module in MODULES for name in docstrings(module)])
def test_every_example_of_a_docstring_returns_what_it_says(module, name, here):
    example = doctest.DocTestParser().get_doctest(docstrings(module)[name], {"r1flow": r1flow}, name, module, 0)
    ran = doctest.DocTestRunner(optionflags=HOW).run(example)
    assert ran.failed == 0 and ran.attempted > 0


PAGE = Path(__file__).parents[2] / "docs/notebook.md"


def test_the_notebooks_page_does_what_it_says(here, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    blocks = re.findall(r"```pycon\n(.*?)```", PAGE.read_text(), re.DOTALL)
    example = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, PAGE.name, str(PAGE), 0)
    ran = doctest.DocTestRunner(optionflags=HOW).run(example)
    assert ran.failed == 0 and ran.attempted == PAGE.read_text().count("\n>>> ")
    assert Path("reward.png").stat().st_size


def test_the_notebooks_page_has_every_column_of_the_samples():
    assert re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE) == SCHEMA.names


@pytest.mark.parametrize("name", r1flow.OFFERED)
def test_what_is_offered_is_typed_and_has_an_example(name):
    offered = getattr(r1flow, name)
    assert offered.__module__ == f"r1flow.api.{r1flow.OFFERED[name]}"
    assert re.search(rf">>> .*r1flow\.{name}\(", offered.__doc__)
    signature = inspect.signature(offered)
    hints = [each.annotation for each in signature.parameters.values()] + [signature.return_annotation]
    assert inspect.Signature.empty not in hints


def test_type_checkers_see_what_is_offered():
    source = Path(r1flow.__file__).read_text()
    for name, module in r1flow.OFFERED.items():
        assert f"from r1flow.api.{module} import {name} as {name}" in source
    assert set(r1flow.OFFERED) <= set(dir(r1flow))


def test_another_name_is_no_attribute():
    with pytest.raises(AttributeError, match="module 'r1flow' has no attribute 'open_runs'"):
        _ = r1flow.open_runs


def loaded_by(code: str, folder: Path) -> set[str]:
    """The libraries that running this in a new process imports."""
    lines = f"import sys\n{code}\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", lines], cwd=folder, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


HEAVY = {"torch", "transformers", "trl", "mlflow", "matplotlib", "snakemake", "hydra", "sympy"}


def test_the_import_is_light_and_so_are_a_runs_metrics(runs):
    assert not (HEAVY | {"numpy", "pandas", "pyarrow", "yaml"}) & loaded_by("import r1flow", runs)
    opened = loaded_by("import r1flow; r1flow.open_run('r1_tiny').metrics", runs)
    assert "yaml" in opened and not (HEAVY | {"pandas"}) & opened


def test_tables_and_comparisons_need_no_torch(runs):
    code = "import r1flow; run = r1flow.open_run('r1_tiny'); run.samples('base'); str(run.compare('faster'))"
    assert "pandas" in (found := loaded_by(code, runs)) and not HEAVY & found


# -- a run -------------------------------------------------------------------------------------------------------


def test_samples_are_those_as_asked_unless_all_are_wanted(tmp_path):
    run = make_run(tmp_path / "results/tiny")
    rows = [*fabricate_samples("base"), *fabricate_samples("base", thinking=0.6)]
    rows[0] |= {"correct": None}
    parquet.write_table(pa.Table.from_pylist(rows), run / "evaluate/base/samples.parquet")
    samples, everything = (open_run(run).samples("base", all_ways=each) for each in (False, True))
    assert samples.thinking.isna().all() and len(samples) + everything.thinking.notna().sum() == len(everything)
    assert samples.correct.isna().sum() == 1 and samples.correct.dtype == "boolean"
    assert not samples.paraphrased.any() and samples.gold.dtype == everything.gold.dtype == "string"


def test_a_tasks_mean_is_the_pass_at_1_of_its_metrics(here):
    run = open_run("r1_tiny")
    samples = run.samples("reasoning_rl")
    for task, mean in samples.groupby("task").correct.mean().items():
        assert mean == pytest.approx(run.scores.loc[("reasoning_rl", task), "pass_at_1"])


def test_pinned_data_belongs_to_a_run_and_unfinished_stages_do_not(tmp_path):
    run = make_run(tmp_path / "results/tiny", pinned=True)
    (run / "zero_rl/manifest.json").unlink()
    found = open_run(run)
    assert found.stages[:3] == ["data", "base", "cold_start"] and "zero_rl" not in found.metrics
    assert found.folder_of("data") == tmp_path / "data"


def test_the_evaluation_of_an_earlier_state_of_a_model_is_not_shown_as_the_models(tmp_path):
    run, faster = make_run(tmp_path / "results/tiny"), make_run(tmp_path / "results/faster", zero_rl=FASTER)
    shutil.rmtree(run / "zero_rl")
    shutil.copytree(faster / "zero_rl", run / "zero_rl")  # trained anew, and killed before the evaluation
    found = open_run(run)
    assert "evaluate/zero_rl" not in found.stages and found.models == ["base", "cold_start", "reasoning_rl"]
    assert "zero_rl" not in found.scores.index and "zero_rl" not in str(found.compare(faster).table.model)
    with pytest.raises(UserError, match="evaluate/zero_rl: evaluated an earlier state of this model; run it again"):
        found.samples("zero_rl")
    shutil.rmtree(run / "zero_rl")
    assert "zero_rl" in open_run(run).models


def test_a_run_behind_a_link_has_the_links_name(tmp_path, monkeypatch):
    make_run(tmp_path / "disk/results/abc").rename(tmp_path / "abc")
    (tmp_path / "project/results").mkdir(parents=True)
    (tmp_path / "project/results/tiny").symlink_to(tmp_path / "abc")
    monkeypatch.chdir(tmp_path / "project")
    assert open_run("tiny").name == "tiny" and [each.run for each in r1flow.list_runs()] == ["tiny"]


def test_what_a_run_lacks_is_named_with_what_it_has(here, tmp_path):
    run = open_run("r1_tiny")
    with pytest.raises(UserError, match=r"results/r1_tiny: no samples of 'zero_lr'; did you mean 'zero_rl'\?"):
        run.samples("zero_lr")
    with pytest.raises(UserError, match=r"r1_tiny: no curve of 'data'; known: base, zero_rl, cold_start, reasoning_rl"):
        run.curve("data")
    with pytest.raises(UserError, match="r1_tinny: there is no such run; in results/: faster, r1_tiny"):
        open_run("r1_tinny")
    with pytest.raises(UserError, match="no finished stage in it; name a run's folder"):
        open_run(tmp_path)


@pytest.mark.parametrize("given", ["results", ".", "", "results/r1_tiny/zero_rl", "results/r1_tiny/evaluate/zero_rl"])
def test_a_folder_above_or_below_a_run_is_none(here, given):
    with pytest.raises(UserError, match=r"is the folder of the runs; name one.*: faster, r1_tiny|is a stage's folder"):
        open_run(given)
    with pytest.raises(UserError, match=r"is the folder of the runs|is a stage's folder"):
        diff(Path("r1_tiny"), Path(given))


def test_a_folder_that_is_called_as_a_run_does_not_hide_it(here, tmp_path):
    (tmp_path / "r1_tiny").mkdir()
    assert open_run("r1_tiny").stages == open_run("results/r1_tiny").stages


def test_a_training_too_short_to_log_a_step_has_no_curve(tmp_path):
    run = make_run(tmp_path / "results/tiny")
    write_json(run / "base/metrics.json", {"history": []})
    with pytest.raises(UserError, match="no curve of 'base'; known: zero_rl, cold_start, reasoning_rl"):
        open_run(run).curve("base")


def test_a_file_that_is_not_whole_is_named(tmp_path):
    run = make_run(tmp_path / "results/tiny")
    (run / "zero_rl/metrics.json").write_text("{")
    with pytest.raises(UserError, match=r"zero_rl/metrics\.json can't be read as a stage's file"):
        _ = open_run(run).metrics
    parquet.write_table(pa.table({"task": ["products"]}), run / "evaluate/base/samples.parquet")
    with pytest.raises(UserError, match=r"evaluate/base/samples\.parquet: no column answer"):
        open_run(run).samples("base")


# -- a comparison ------------------------------------------------------------------------------------------------


def test_what_differs_is_compared_by_problem(here):
    found = compare_runs("r1_tiny", "faster")
    values = [found.a[0].samples("zero_rl"), found.b[0].samples("zero_rl")]
    by_problem = [v[v.task != "general"].groupby("problem_id").correct.mean().astype(float).to_dict() for v in values]
    [row] = [r for r in found.differences if (r.model, r.task, r.measure) == ("zero_rl", "reasoning", "pass_at_1")]
    assert row.interval == paired_difference(by_problem[1], by_problem[0]) and row.paired and row.n == 24
    assert row.b - row.a == pytest.approx(row.interval.estimate)
    assert {r.verdict for r in found.differences if r.model != "zero_rl"} == {"equal"}
    assert "zero_rl " in str(found) and "cold_start        equal in all of this" in str(found)


def test_runs_with_other_problems_are_compared_without_pairs(tmp_path):
    run, other = (make_run(tmp_path / f"results/{name}") for name in ("a", "b"))
    path = other / "evaluate/base/samples.parquet"
    rows = [row | {"problem_id": f"x{row['problem_id']}"} for row in parquet.read_table(path).to_pylist()]
    parquet.write_table(pa.Table.from_pylist(rows), path)
    found = compare_runs(run, other)
    row = found.differences[0]
    assert (row.model, row.paired, row.interval.estimate) == ("base", False, 0.0) and row.interval.low < 0
    assert row.verdict == CANT_SAY and "A and B have other problems" in str(found)


def test_a_few_lost_problems_leave_the_others_paired(tmp_path):
    run, other = (make_run(tmp_path / f"results/{name}") for name in ("a", "b"))
    path = other / "evaluate/base/samples.parquet"
    rows = parquet.read_table(path).to_pylist()
    parquet.write_table(pa.Table.from_pylist(rows[2:]), path)  # a problem's two samples
    found = compare_runs(run, other)
    row = found.differences[0]
    assert row.paired and (row.n, row.left_out) == (23, 1) and row.verdict == "equal"
    assert found.table.left_out.tolist()[:5] == [1, 1, 1, 0, 0]
    assert "paired. Problems that only one run has are left out: 1 of base.\n" in str(found)


def test_what_is_not_paired_is_named_and_the_rest_is_paired(tmp_path):
    run, other = (make_run(tmp_path / f"results/{name}") for name in ("a", "b"))
    path = other / "evaluate/zero_rl/samples.parquet"
    rows = parquet.read_table(path).to_pylist()
    for row in rows:
        row["problem_id"] = f"x{row['problem_id']}" if row["task"] == "general" else row["problem_id"]
    parquet.write_table(pa.Table.from_pylist(rows), path)
    found = compare_runs(run, other)
    assert [row.measure for row in found.differences if not row.paired] == ["pass_at_1"] and not found.paired
    told = (
        "Intervals are over the same problems, paired, but for zero_rl general in %: there A and B have other problems,"
    )
    assert told in str(found) and "left out" not in str(found)
    assert told in render_comparison(found, None, [])


@pytest.mark.parametrize("column", ["low", "high", "smallest"])
def test_numbers_of_a_table_are_numbers_where_none_is_known(here, column):
    assert compare_seeds(["r1_tiny"], ["faster"]).table[column].dtype == float


def test_an_unpaired_interval_is_welchs():
    rng = np.random.default_rng(1)
    one, two = rng.normal(0.6, 0.3, 30), rng.normal(0.5, 0.1, 50)
    found = unpaired_difference(dict(enumerate(one)), dict(enumerate(two)))
    welch = stats.ttest_ind(one, two, equal_var=False).confidence_interval()
    assert (found.low, found.high) == pytest.approx((welch.low, welch.high))
    assert found.estimate == pytest.approx(one.mean() - two.mean())


def difference(values: np.ndarray, **changes) -> Difference:
    row = Difference("zero_rl", "reasoning", "pass_at_1", 0.5, 0.6, mean_interval(values), "problem", True, len(values))
    return replace(row, **changes)


def test_so_many_problems_as_are_said_find_the_difference_in_four_of_five_comparisons():
    rng = np.random.default_rng(1)
    spread, effect = 0.4, 0.05
    pilot = spread * stats.zscore(rng.normal(size=100), ddof=1) + effect
    n = difference(pilot).would_tell
    assert n == pytest.approx(7.85 * (spread / effect) ** 2, rel=0.01)
    told = [difference(rng.normal(effect, spread, n)).verdict for _ in range(500)]
    assert told.count("better") / 500 == pytest.approx(0.8, abs=0.05) and told.count("worse") == 0
    assert difference(rng.normal(effect, spread, n)).smallest == pytest.approx(effect, rel=0.1)


@pytest.mark.parametrize(
    ("values", "changes", "verdict"),
    [
        (np.full(30, 0.1), {}, "better"),
        (np.full(30, -0.1), {}, "worse"),
        (np.full(30, 0.1), {"measure": "mean_length"}, "longer"),
        (np.zeros(30), {}, "equal"),
        (np.zeros(30), {"paired": False}, CANT_SAY),
        (np.tile([0.5, -0.5], 15), {}, CANT_SAY),
        (np.full(19, 0.1), {}, CANT_SAY),
        (np.full(5, 0.1), {"unit": "seed"}, "better"),
        (np.full(1, 0.1), {"unit": "seed"}, CANT_SAY),
    ],
)
def test_a_verdict_is_its_interval(values, changes, verdict):
    assert difference(values, **changes).verdict == verdict


@pytest.mark.parametrize("task", ["reasoning", "general"])
@pytest.mark.parametrize("paired", [True, False])
def test_models_that_solve_nothing_are_not_called_equal(task: str, paired: bool) -> None:
    row = difference(np.zeros(30), task=task, a=0.0, b=0.0, paired=paired)
    assert row.verdict == CANT_SAY and verdict_told(row) == "can't tell; neither model solves any"
    assert row.same is paired  # so its samples aren't what differs
    assert difference(np.zeros(30), a=0.0, b=0.0, measure="format_rate").verdict == "equal"


def test_side_by_side_come_first_the_samples_with_other_verdicts(here):
    found = compare_runs("r1_tiny", "faster")
    rows = found.samples("zero_rl", n=100)
    other = [row["a"]["correct"] != row["b"]["correct"] for row in rows]
    assert other == sorted(other, reverse=True) and any(other) and not all(other)
    differing = [row["problem_id"] for row, differs in zip(rows, other, strict=True) if differs]
    assert differing == sorted(differing) and len(found.samples("zero_rl")) == 5
    assert found.samples("base") == []  # the same samples
    assert all(row["task"] != "general" for row in rows)


def seeded(run: Path, seed: int) -> Path:
    """The run as one of another seed; its samples are other ones too."""
    for path in run.rglob("provenance.json"):
        write_json(path, read_json(path) | {"seed": seed})
    return run


def test_several_seeds_are_compared_over_seeds(tmp_path):
    a = [seeded(make_run(tmp_path / f"results/a-s{n}", base={"bytes": f"a{n}"}), n) for n in range(2)]
    b = [seeded(make_run(tmp_path / f"results/b-s{n}", base={"bytes": f"b{n}"}), n) for n in range(2)]
    found = compare_seeds(a, b)
    row = found.differences[0]
    pairs = [
        (open_run(two).scores.pass_at_1 - open_run(one).scores.pass_at_1)["base", "reasoning"]
        for one, two in zip(a, b, strict=True)
    ]
    assert (row.unit, row.n, row.paired) == ("seed", 2, True)
    assert row.interval.estimate == pytest.approx(mean_interval(pairs).estimate)
    assert row.interval.se == pytest.approx(mean_interval(pairs).se)
    assert "What changed and what the trainings took is that of the first run of each." in str(found)
    assert "over the same seeds, paired" in str(found) and "can't tell; 5 seeds are the least (2 here)" in str(found)
    others = [seeded(Path(shutil.copytree(run, tmp_path / f"results/c-s{n}")), n + 10) for n, run in enumerate(b)]
    assert not compare_seeds(a, others).differences[0].paired
    with pytest.raises(UserError, match=r"c-s0 and .*c-s0 have the same seed, 10; name runs of several seeds"):
        compare_seeds(a, [others[0], others[0]])


@pytest.mark.parametrize("given", ["faster", Path("faster"), []])
def test_seeds_are_lists_of_runs(here, given):
    with pytest.raises(UserError, match=r"compare_seeds: give a list of runs for each of A and B, \[run, …\]"):
        compare_seeds(["r1_tiny"], given)
    with pytest.raises(UserError, match="compare_seeds: give a list of runs"):
        compare_seeds(given, ["r1_tiny"])


def test_runs_without_a_common_model_are_refused_with_what_they_have(here, tmp_path):
    other = make_run(tmp_path / "results/other", {"distill": None})
    with pytest.raises(UserError, match=r"no model was evaluated in all of these runs .*other has distill"):
        compare_runs("r1_tiny", other)


def test_costs_are_told_where_they_differ(tmp_path):
    run, other = (make_run(tmp_path / f"results/{name}") for name in ("a", "b"))
    for folder, flops in ((run, 2e12), (other, 4e12)):
        for stage in ("base", "zero_rl"):
            made = read_json(folder / stage / "metrics.json")
            write_json(folder / stage / "metrics.json", made | {"flops": 1e12 if stage == "base" else flops})
    lines = comparison.costs_told(compare_runs(run, other).costs)
    assert lines[1].split() == ["zero_rl", "2.00e+12", "→", "4.00e+12", "(×", "2.00)", "FLOPs"]
    assert lines[2].startswith("all trainings     3.00e+12 → 5.00e+12 (× 1.67) FLOPs, ") and len(lines) == 3
    assert comparison.moved_told(None, 3.0, ".1f") == "unknown → 3.0"
