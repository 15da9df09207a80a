"""Comparing two runs that were never computed: where a difference began, why, and how far it moved the results."""

import shutil
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
from documented import as_documented
from test_trace import CONFIG, LIBRARIES, MODELS, make_run

from r1flow.artifacts.manifest import manifest_of_files, read_json, sha256, write_json
from r1flow.commands.diff import NO_CAUSE, diff, paired
from r1flow.core.changes import changes, leaves
from r1flow.core.errors import UserError

FASTER = {"trainer": {"learning_rate": 2.0e-4, "betas": [0.9, 0.99]}}


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Path:
    return make_run(tmp_path_factory.mktemp("a") / "results/tiny")


def compared(capsys, a: Path, b: Path, expect: int = 1) -> list[str]:
    assert diff(a, b, as_json=True) == expect
    assert as_documented("diff", capsys.readouterr().out)["equal"] == (expect == 0)
    assert diff(a, b) == expect
    return capsys.readouterr().out.splitlines()


def other(tmp_path: Path, **changes: dict) -> Path:
    return make_run(tmp_path / "clone/results/tiny", **changes)


def describe_again(folder: Path) -> None:
    """The manifest of what now lies there, as if the stage had computed it."""
    write_json(folder / "manifest.json", manifest_of_files(folder.name, folder))
    provenance = read_json(folder / "provenance.json") | {"outputs": sha256(folder / "manifest.json")}
    write_json(folder / "provenance.json", provenance)


def causes_of(lines: list[str]) -> list[str]:
    return [line.removeprefix("  cause: ") for line in lines if line.startswith("  cause: ")]


# -- equal or not ------------------------------------------------------------------------------------------------


def test_two_clones_runs_are_equal_whatever_they_cost(plain, tmp_path, capsys):
    lines = compared(capsys, plain, other(tmp_path), expect=0)
    assert lines[2:] == ["equal: the same manifest and provenance for each of the 10 stages"]


def test_pinned_data_is_a_stage_of_the_run(tmp_path, capsys):
    a = make_run(tmp_path / "a/results/tiny", pinned=True)
    assert not (a / "data").exists()
    assert "10 stages" in compared(capsys, a, make_run(tmp_path / "b/results/tiny", pinned=True), expect=0)[2]
    b = make_run(tmp_path / "c/results/tiny", pinned=True, data={"bytes": "other"})
    assert compared(capsys, a, b)[2] == "the first stage that differs is data"


def test_the_same_bytes_made_differently_are_not_equal_and_it_is_said(plain, tmp_path, capsys):
    made = read_json(plain / "base/metrics.json")["made"]
    change = {"same_bytes": made, "code": "other", "modules": {"r1flow.programs.pretrain.compute": "other"}}
    lines = compared(capsys, plain, other(tmp_path, base=change))
    assert lines[2:] == [
        "same bytes, made differently: base: code: r1flow.programs.pretrain.compute",
        "the outputs are identical; the runs aren't called equal because how they were made is not the same",
        "results: the same samples of all 4 evaluated models",
    ]


def test_a_stage_that_only_one_run_has_is_named(plain, tmp_path, capsys):
    b = other(tmp_path)
    shutil.rmtree(b / "report")
    words = "(the other run doesn't have it, or isn't finished): report"
    assert compared(capsys, plain, b)[2] == f"only in A {words}"
    assert compared(capsys, b, plain)[2] == f"only in B {words}"


# -- the first stage and its cause -------------------------------------------------------------------------------


def test_the_first_stage_is_named_with_files_cause_and_consequences(plain, tmp_path, capsys):
    lines = compared(capsys, plain, other(tmp_path, base=FASTER))
    assert lines[2:6] == [
        "the first stage that differs is base",
        "  other bytes: metrics.json, model/model.safetensors",
        "  cause: config trainer.learning_rate: 0.0001 → 0.0002",
        "stages after it that differ too: zero_rl, cold_start, reasoning_rl, evaluate/base, evaluate/zero_rl, "
        "evaluate/cold_start, evaluate/reasoning_rl, report",
    ]


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"threads": 2}, "threads: 1 → 2"),
        ({"device": "cuda"}, 'device: "cpu" → "cuda"'),
        ({"seed": 7}, "seed: 1 → 7"),
        ({"python": "3.12"}, 'python: "3.11" → "3.12"'),
        ({"libraries": LIBRARIES | {"torch": "2.14.0"}}, "library torch: 2.13.0 → 2.14.0"),
        ({"libraries": {"torch": "2.13.0"}}, "library trl: 1.16.0 → absent"),
        ({"code": "other", "modules": {"r1flow.programs.grpo.compute": "x"}}, "code: r1flow.programs.grpo.compute"),
        ({"code": "other"}, "code: the same modules, called differently"),
        ({"rewards": {"accuracy": 1.0}}, "config rewards.accuracy: absent → 1.0"),
        ({"accepted": {"torch": "2.14.0"}}, 'accepted.torch: absent → "2.14.0"'),
        ({"bytes": "by chance"}, NO_CAUSE),
    ],
)
def test_every_kind_of_cause_is_named_and_no_other(plain, tmp_path, capsys, change, cause):
    lines = compared(capsys, plain, other(tmp_path, zero_rl=change))
    assert lines[2] == "the first stage that differs is zero_rl"
    assert causes_of(lines) == [cause]


def test_an_input_from_elsewhere_is_a_cause(tmp_path, capsys):
    outside = [{"path": "models/qwen", "sha256": digest * 32} for digest in ("ab", "cd")]
    a, b = (make_run(tmp_path / f"{i}/results/tiny", models={"zero_rl": outside[i]}) for i in (0, 1))
    assert causes_of(compared(capsys, a, b)) == [
        "input model: other content of models/qwen (abababababab → cdcdcdcdcdcd)"
    ]
    c = make_run(tmp_path / "c/results/tiny", models={"base": None, "zero_rl": "base"})
    assert causes_of(compared(capsys, a, c)) == ["input model: models/qwen → base"]
    d = make_run(tmp_path / "d/results/tiny", models={"zero_rl": None})
    assert causes_of(compared(capsys, a, d)) == ["input model: only in A"]


def test_the_first_stage_is_upstream_even_of_one_that_is_usually_earlier(tmp_path, capsys):
    models = {"distill": None, "zero_rl": "distill"}
    a = make_run(tmp_path / "a/results/tiny", models)
    b = make_run(tmp_path / "b/results/tiny", models, distill=FASTER)
    lines = compared(capsys, a, b)
    assert lines[2] == "the first stage that differs is distill"
    assert lines[5].startswith("stages after it that differ too: zero_rl, ")


def test_a_later_stages_own_cause_is_not_hidden_by_the_first(plain, tmp_path, capsys):
    lines = compared(capsys, plain, other(tmp_path, base=FASTER, zero_rl={"threads": 2}))
    assert lines[2] == "the first stage that differs is base"
    assert [line for line in lines if "of its own" in line] == ["  zero_rl has causes of its own: threads: 1 → 2"]


def test_an_upstream_that_was_made_again_is_the_cause_though_it_is_equal_now(plain, tmp_path, capsys):
    b = other(tmp_path, base=FASTER)
    for name in ("base", "evaluate/base"):
        shutil.rmtree(b / name)
        shutil.copytree(plain / name, b / name)
    lines = compared(capsys, plain, b)
    assert lines[2] == "the first stage that differs is zero_rl"
    assert causes_of(lines)[0].startswith("input model: other content of base (")


def test_artifacts_that_one_run_lacks_and_other_contracts_are_named(plain, tmp_path, capsys):
    b = other(tmp_path)
    (b / "zero_rl/model/tokenizer.json").write_text("{}")
    (b / "zero_rl/model/model.safetensors").unlink()
    describe_again(b / "zero_rl")
    lines = compared(capsys, plain, b)
    assert lines[3] == "  other bytes: model/model.safetensors (only in A), model/tokenizer.json (only in B)"
    for run, token in ((plain, 0), (b, 2)):
        folder = Path(shutil.copytree(run / "base", tmp_path / str(token) / "results/tiny/base"))
        write_json(folder / "manifest.json", read_json(folder / "manifest.json") | {"contract": {"eos": token}})
        write_json(
            folder / "provenance.json",
            read_json(folder / "provenance.json") | {"outputs": sha256(folder / "manifest.json")},
        )
    lines = compared(capsys, tmp_path / "0/results/tiny", tmp_path / "2/results/tiny")
    assert lines[3] == "  other bytes: contract.eos (0 → 2)"


def test_every_leaf_counts_and_so_does_its_type():
    a = {"seed": 1, "rate": 1, "empty": [], "list": [{"x": 1}, 2], "none": None}
    b = {"seed": 1, "rate": 1.0, "empty": {}, "list": [{"x": 3}, 2, 4], "none": "null"}
    assert list(changes(leaves(a), leaves(b))) == [
        ("empty", "[]", "{}"),
        ("list.0.x", "1", "3"),
        ("list.2", "absent", "4"),
        ("none", "null", '"null"'),
        ("rate", "1", "1.0"),
    ]
    assert leaves(CONFIG)["trainer.betas.1"] == "0.99"


# -- results -----------------------------------------------------------------------------------------------------


def row(lines: list[str], model: str, task: str) -> list[str]:
    [words] = [line.split() for line in lines if line.split()[:2] == [model, task]]
    return words[2:]


def stored_pass_at_1(folder: Path, task: str) -> dict[str, float]:
    """Of each problem the share of right samples; all of these runs' samples are as asked."""
    rows = parquet.read_table(folder / "samples.parquet").to_pylist()
    found: dict[str, list[bool]] = {}
    for row in rows:
        if (row["task"] == "general") == (task == "general"):
            found.setdefault(row["problem_id"], []).append(row["correct"])
    return {problem: sum(right) / len(right) for problem, right in found.items()}


def test_results_move_by_the_difference_of_the_means_within_the_paired_interval(plain, tmp_path, capsys):
    b = other(tmp_path, zero_rl=FASTER)
    lines = compared(capsys, plain, b)
    for task in ("reasoning", "general"):
        before, after = (
            100 * read_json(run / "evaluate/zero_rl/metrics.json")["tasks"][task]["pass_at_1"] for run in (plain, b)
        )
        interval = paired(*(stored_pass_at_1(run / "evaluate/zero_rl", task) for run in (plain, b)))
        assert 100 * interval.estimate == pytest.approx(after - before) and interval.low <= interval.high
        assert row(lines, "zero_rl", task) == [
            f"{before:.1f}",
            f"{after:.1f}",
            f"{after - before:+.1f}",
            f"[{100 * interval.low:+.1f},",
            f"{100 * interval.high:+.1f}]",
        ]
    assert row(lines, "base", "reasoning")[2:] == ["+0.0", "[+0.0,", "+0.0]"]
    assert [line.split()[0] for line in lines if " general " in line] == list(MODELS)


def test_other_problems_have_no_interval(plain, tmp_path, capsys):
    lines = compared(capsys, plain, other(tmp_path, **{"evaluate/base": {"problems": 9}}))
    assert row(lines, "base", "reasoning")[3:] == ["other", "problems"]


def test_without_samples_there_is_no_interval_and_without_a_task_no_line(plain, tmp_path, capsys):
    b = other(tmp_path, zero_rl=FASTER)
    folder = b / "evaluate/base"
    (folder / "samples.parquet").unlink()
    metrics = read_json(folder / "metrics.json")
    del metrics["tasks"]["general"]
    write_json(folder / "metrics.json", metrics)
    describe_again(folder)
    lines = compared(capsys, plain, b)
    assert row(lines, "base", "reasoning")[3:] == ["other", "problems"]
    assert [line.split()[0] for line in lines if " general " in line] == [name for name in MODELS if name != "base"]


def test_a_task_of_which_nothing_was_graded_has_no_line(plain, tmp_path, capsys):
    b = other(tmp_path, zero_rl=FASTER)
    metrics = read_json(b / "evaluate/base/metrics.json")
    metrics["tasks"]["general"]["pass_at_1"] = None
    write_json(b / "evaluate/base/metrics.json", metrics)
    describe_again(b / "evaluate/base")
    lines = compared(capsys, plain, b)
    assert [line.split()[0] for line in lines if " general " in line] == [name for name in MODELS if name != "base"]


def test_runs_without_a_common_evaluation_have_no_results_to_compare(plain, tmp_path, capsys):
    b = other(tmp_path)
    shutil.rmtree(b / "evaluate")
    assert compared(capsys, plain, b)[-1] == "results: no model was evaluated in both runs"


# -- runs that can't be compared ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["manifest.json", "provenance.json"])
@pytest.mark.parametrize("stage", ["zero_rl", "evaluate/zero_rl"])
def test_a_stage_that_is_not_whole_is_named(plain, tmp_path, stage, name):
    b = other(tmp_path)
    (b / stage / name).unlink()
    with pytest.raises(UserError, match=f"{stage}/{name} is missing; run the stage again, or restore it"):
        diff(plain, b)
    (b / stage / name).write_text("{")
    with pytest.raises(
        UserError, match=f"{stage}/{name} can't be read as a stage's file .*; run the stage again, or restore it"
    ):
        diff(plain, b)


def test_a_run_that_is_not_there_is_named(plain, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"nowhere: there is no such run; in results/: none \(unless /.* change into"):
        diff(plain, tmp_path / "nowhere")
    (tmp_path / "results/empty").mkdir(parents=True)
    with pytest.raises(UserError, match=r"empty: no stage's folder in it; name a run's folder"):
        diff(tmp_path / "results/empty", plain)


def test_a_manifest_that_was_edited_is_not_taken_for_a_stages(plain, tmp_path):
    b = other(tmp_path)
    write_json(b / "base/manifest.json", read_json(b / "base/manifest.json") | {"files": {}})
    with pytest.raises(UserError, match=r"base/manifest\.json isn't what provenance\.json beside it names"):
        diff(plain, b)


def test_a_config_that_is_gone_is_named_when_it_is_needed(plain, tmp_path):
    b = other(tmp_path, base=FASTER)
    (b / "base/config.yaml").unlink()
    with pytest.raises(UserError, match=r"base/config\.yaml is missing"):
        diff(plain, b)


def test_a_config_that_was_edited_does_not_pass_for_the_same(plain, tmp_path, capsys):
    b = other(tmp_path, base=FASTER)
    shutil.copy(plain / "base/config.yaml", b / "base/config.yaml")
    [cause] = causes_of(compared(capsys, plain, b))
    assert cause.startswith("config: ") and cause.endswith("though both config.yaml read the same")
