"""`r1flow compare`: what it prints, its JSON, its samples side by side, and what it refuses."""

import shutil
from pathlib import Path

import pytest
from documented import as_documented
from test_api import seeded
from test_diff import FASTER
from test_trace import make_run

from r1flow.api.comparison import MEASURES, all_differences, compare_runs, differences_of
from r1flow.api.comparison_page import render_comparison
from r1flow.artifacts.manifest import read_json, write_json
from r1flow.commands.cli import main
from r1flow.commands.compare import LONGEST
from r1flow.commands.finding import cut
from r1flow.core.errors import UserError


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    make_run(folder / "results/plain")
    make_run(folder / "results/faster", zero_rl=FASTER)
    return folder


@pytest.fixture
def project(made, monkeypatch) -> Path:
    monkeypatch.chdir(made)
    return made


def printed(capsys, *words: str) -> str:
    assert main(["compare", *words]) == 0
    return capsys.readouterr().out


def test_runs_are_compared_and_the_last_model_that_differs_is_shown(project, capsys):
    lines = printed(capsys, "plain", "results/faster", "-n", "2").splitlines()
    assert lines[:3] == [
        "A: results/plain",
        "B: results/faster",
        "changed: zero_rl.trainer.learning_rate: 0.0001 → 0.0002",
    ]
    shown = lines[lines.index("zero_rl: 2 problems, the first sample in each run") :]
    assert [line for line in shown if line in ("A:", "B:")] == ["A:", "B:"] * 2
    verdicts = [line.split()[1] for line in shown if line.startswith("  → ")]
    assert {frozenset(verdicts[:2]), frozenset(verdicts[2:])} == {frozenset({"right:", "wrong:"})}


def test_the_json_is_as_documented(project, capsys):
    found = as_documented("compare", printed(capsys, "plain", "faster", "--json"))
    assert found["model"] == "zero_rl" and len(found["samples"]) == 5
    assert {row["verdict"] for row in found["differences"] if row["model"] == "base"} == {"equal"}


def test_the_page_has_what_changed_the_figures_the_table_and_samples_as_text(project, capsys, tmp_path):
    file = tmp_path / "faster.html"
    assert printed(capsys, "plain", "faster", "--report", str(file)).endswith(f"as a page: {file}\n")
    page = file.read_text()
    assert "zero_rl.trainer.learning_rate: 0.0001 → 0.0002" in page and page.count("<svg") >= 3
    assert "Paired differences of pass@1" in page and "zero_rl, A" in page and "zero_rl, B" in page
    assert page.count('<div class="sample">') == 10 and "<script" not in page and "✓ right" in page
    assert main(["compare", "plain", "faster", "--report", str(file)]) == 0
    assert file.read_text() == page
    equal = tmp_path / "equal.html"
    printed(capsys, "plain", "plain", "--report", str(equal))
    assert "Nothing in the configuration" in equal.read_text() and '<div class="sample">' not in equal.read_text()


def test_a_model_s_text_and_a_run_s_name_are_text_on_the_page(made, capsys, tmp_path):
    found = compare_runs(made / "results/plain", made / "results/faster")
    [sample] = found.samples("zero_rl", 1)
    sample["a"]["completion"] = "<img src=x onerror=alert(1)>"
    sample["question"] = "</section><script>alert(2)</script>"
    page = render_comparison(found, "zero_rl", [sample])
    assert "<img" not in page and "<script" not in page and "&lt;img" in page


@pytest.mark.parametrize(
    ("name", "told"), [("page.txt", "ends with .html"), ("nowhere/x/page.html", "can't be written")]
)
def test_a_page_that_cannot_be_written_is_one_line(project, capsys, name, told):
    (project / "none").write_text("a file")
    assert main(["compare", "plain", "faster", "--report", name]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"r1flow: --report: {name}") and told in err and err.count("\n") == 1


def test_equal_runs_show_no_samples(project, capsys):
    found = as_documented("compare", printed(capsys, "plain", "plain", "--json"))
    assert found["model"] is None and found["samples"] == [] and found["changed"] == []
    assert "changed: nothing in the configuration" in printed(capsys, "plain", "plain")


def test_costs_are_in_the_json_and_unknown_ones_are_null(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run = make_run(tmp_path / "results/plain")
    write_json(run / "base/metrics.json", read_json(run / "base/metrics.json") | {"flops": 3e12})
    found = as_documented("compare", printed(capsys, "plain", "plain", "--json", "-n", "0"))
    assert [(row["stage"], row["flops_a"]) for row in found["costs"]] == [("base", 3e12)]
    write_json(run / "base/metrics.json", read_json(run / "base/metrics.json") | {"flops": None})
    assert "unknown → unknown FLOPs" in printed(capsys, "plain", "plain")


def test_the_folders_of_a_seeds_run_are_found_by_their_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for seed in (9, 10):
        for name, change in (("plain", {}), ("faster", {"zero_rl": FASTER})):
            seeded(make_run(tmp_path / f"results/{name}-s{seed}", **change), seed)
    shutil.copytree(tmp_path / "results/plain-s9", tmp_path / "results/plain-seeds")
    found = as_documented("compare", printed(capsys, "plain", "results/faster", "--seeds", "--json"))
    assert sorted(found["a"]) == ["results/plain-s10", "results/plain-s9"] and len(found["b"]) == 2
    assert {(row["unit"], row["n"]) for row in found["differences"]} == {("seed", 2)}
    assert main(["compare", "plain", "nothing", "--seeds"]) == 2
    assert capsys.readouterr().err == (
        "r1flow: --seeds: there is no run nothing-s1, nothing-s2, …; make them with r1flow seeds, or leave it out\n"
    )


def test_runs_of_other_seeds_are_not_paired_and_no_seed_is_lost():
    one, two = ({str(seed): seed / 10 for seed in seeds} for seeds in (range(1, 6), range(3, 8)))
    none = {measure: {} for measure in MEASURES}
    first, *_ = MEASURES
    [unlike] = differences_of("base", none | {first: one}, none | {first: two}, "seed")
    assert not unlike.paired and unlike.n == 5 and unlike.b - unlike.a == pytest.approx(0.2)
    [alike] = differences_of("base", none | {first: one}, none | {first: one}, "seed")
    assert alike.paired and alike.n == 5
    [problems] = differences_of("base", none | {first: one}, none | {first: two}, "problem")
    assert problems.paired and problems.n == 3


def test_runs_without_a_common_score_are_one_line():
    first, *_, last = MEASURES
    of_a, of_b = {measure: {} for measure in MEASURES}, {measure: {} for measure in MEASURES}
    of_a[first], of_b[last] = {"a": 1.0}, {"b": 1.0}
    with pytest.raises(UserError, match="no score of base is in both"):
        all_differences({"base": of_a}, {"base": of_b}, "problem")


def test_a_run_of_other_settings_among_the_seeds_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for seed, change in ((9, {}), (10, {"zero_rl": FASTER})):
        seeded(make_run(tmp_path / f"results/plain-s{seed}", **change), seed)
    assert main(["compare", "plain", "plain", "--seeds"]) == 2
    said = capsys.readouterr().err
    assert "zero_rl.trainer.learning_rate is" in said and "such runs may differ in the seed alone" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["plain", "nowhere"], "nowhere: there is no such run; in results/: faster, plain"),
        (["plain", "faster", "-n", "-1"], "-n: -1 problems can't be shown; use 0 or more"),
        (["plain", "faster", "--model", "zero"], "results/plain: no samples of 'zero'; did you mean 'zero_rl'?"),
    ],
)
def test_what_cannot_be_compared_is_said_in_a_line(project, capsys, words, said):
    assert main(["compare", *words]) == 2
    shown = capsys.readouterr()
    assert shown.err == f"r1flow: {said}\n" and not shown.out


def test_enormous_texts_are_cut_and_say_so():
    assert cut("a" * LONGEST, LONGEST) == "a" * LONGEST
    assert cut("a" * 10_000, LONGEST) == f"{'a' * LONGEST} … (10,000 characters)"
    assert cut("a" * 10_000, None) == "a" * 10_000
