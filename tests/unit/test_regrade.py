"""Regrading finds nothing where no grader changed, and all of it where one did; the run is read and never written."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import yaml
from documented import as_documented

from r1flow.artifacts import provenance
from r1flow.artifacts.frozen import config_digest
from r1flow.artifacts.manifest import manifest_of_files, read_json, sha256, write_json
from r1flow.commands.cli import main
from r1flow.commands.regrade import regrade
from r1flow.core.errors import UserError
from r1flow.core.schema import write_jsonl
from r1flow.grading import generated, replies
from r1flow.programs.evaluate import compute as evaluate
from r1flow.programs.rejection import compute as rejection
from r1flow.sampling import Completion, shards

CONF = {name: yaml.safe_load(Path(f"conf/{name}/default.yaml").read_text()) for name in ("evaluate", "rejection")}
CONF["evaluate"] |= {"thinking": [0.6, 1.0], "paraphrased": 3}
# Of the samples of a problem: right, right for a lenient grader, wrong. At temperature 1 there are the first two only.
ANSWERS = ("5", "five", "6")
CODE = SimpleNamespace(digest="c0de", modules={}, libraries={})
Change = Callable[[pytest.MonkeyPatch], None]


def problem(name: str, answer: str = "5") -> dict[str, str]:
    question = f"{name}: 4 + 1 ="
    entry = json.dumps({"question": question, "answer": answer, "metadata": {}})
    return {"id": name, "task": "chain_sum", "question": question, "answer": answer, "entry": entry}


class Scripted:
    """Every problem gets three completions, greetings too."""

    positions = None
    tokenizer = SimpleNamespace(apply_chat_template=lambda messages, **_: messages[0]["content"])

    def sample(
        self, prompts: list[str], params: Any, seeds: Any, on_progress: Any = None, openings: Any = None
    ) -> list[Completion]:
        nth = [prompts[:i].count(prompt) for i, prompt in enumerate(prompts)]
        texts = [
            "Hello there!" if prompt == "hi" else f"<think>we add {i}</think>it is <answer>{ANSWERS[nth[i]]}</answer>"
            for i, prompt in enumerate(prompts)
        ]
        return [Completion([1] * (len(text) // 4), text, True) for text in texts]


@pytest.fixture(params=["results/tiny/data", "data"], ids=["own data", "pinned data"])
def run(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with two evaluations and a rejection sampling, computed by the stages with a scripted sampler."""
    data, run = tmp_path / request.param, tmp_path / "results/tiny"
    data.mkdir(parents=True)
    greeting = {"id": "g", "kind": "greeting", "question": "hi", "response": "Hello!", "check": '{"type": "greets"}'}
    write_jsonl(data / "test.jsonl", [problem("a"), problem("b"), problem("x")])
    worded = [{**problem(name), "question": f"what is 4 + 1 of {name}?"} for name in "abx"]
    write_jsonl(data / "test_paraphrased.jsonl", worded)
    write_jsonl(data / "general_test.jsonl", [greeting])
    write_jsonl(data / "rejection.jsonl", [problem("c"), problem("d")])
    write_jsonl(data / "general_sft.jsonl", [greeting])
    finish(data, "data", {}, {}, {})
    monkeypatch.setattr(shards, "load_sampler", lambda *arguments: Scripted())
    for stage in ("evaluate/base", "evaluate/zero_rl", "rejection"):
        compute(run / stage, stage, data)
    return run


def compute(folder: Path, name: str, data: Path) -> None:
    program = name.partition("/")[0]
    config = {**CONF[program], "seed": 1, "k": 3, "samples_per_prompt": 3, "keep_per_prompt": 1}
    folder.mkdir(parents=True)
    stage = SimpleNamespace(
        name=name,
        config=config,
        seed=1,
        inputs={"model": folder, "data": data},
        work=folder,
        snapshots=data.parent / "snapshots" / name,
        progress=lambda *arguments: None,
        log_metrics=lambda *arguments: None,
        log_table=lambda *arguments: None,
        terminal=SimpleNamespace(say=print),
    )
    metrics = {"evaluate": evaluate, "rejection": rejection}[program].compute(stage)
    model = {"stage": name.partition("/")[2] or "reasoning_rl", "sha256": "ff" * 32}
    finish(folder, name, config, {"data": provenance.identify_input(data), "model": model}, metrics)


def finish(folder: Path, stage: str, config: dict, inputs: dict, metrics: dict) -> None:
    """Write what the driver writes beside a stage's outputs."""
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    write_json(folder / "metrics.json", metrics)
    write_json(folder / "manifest.json", manifest_of_files(stage, folder))
    made_by = provenance.describe_provenance(stage, stage.partition("/")[0], config, CODE, inputs)
    assert made_by["config"] == config_digest(config)
    write_json(folder / "provenance.json", {**made_by, "outputs": sha256(folder / "manifest.json")})


def lenient(patch: pytest.MonkeyPatch) -> None:
    """A grader that takes "five" for "5"."""
    before = generated.correct

    def correct(task: str, text: str | None, answer: str, entry: str) -> bool | None:
        return before(task, text and text.replace("five", "5"), answer, entry)

    patch.setattr(generated, "correct", correct)


def pickier(patch: pytest.MonkeyPatch) -> None:
    """A grader that can't grade the problem x any more."""
    before = generated.correct
    patch.setattr(
        generated,
        "correct",
        lambda task, text, answer, entry: None if "x:" in entry else before(task, text, answer, entry),
    )


def regraded(run: Path, capsys: pytest.CaptureFixture[str], status: int) -> dict[str, Any]:
    capsys.readouterr()
    assert regrade(run, as_json=True) == status
    return as_documented("regrade", capsys.readouterr().out)


def contents(folder: Path) -> dict[str, tuple[str, int]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) for path in files}


# -- what changed ------------------------------------------------------------------------------------------------


def test_the_same_graders_say_the_same_and_nothing_is_written(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(run.parents[1])
    assert regraded(run, capsys, 0) == {"run": str(run), "verdicts": [], "numbers": []}
    assert main(["regrade", str(run)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "evaluate/base: all 36 samples are graded as they were",
        "evaluate/zero_rl: all 36 samples are graded as they were",
        "rejection: all 6 samples are graded as they were",
    ]
    assert contents(run.parents[1]) == before


def test_a_more_lenient_grader_s_verdicts_are_all_there_with_their_numbers(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lenient(monkeypatch)
    found = regraded(run, capsys, 1)
    first = found["verdicts"][0]
    assert first == {
        "stage": "evaluate/base",
        "model": "base",
        "task": "chain_sum",
        "problem_id": "a",
        "sample_index": 1,
        "thinking": None,
        "intervention": None,
        "paraphrased": False,
        "gold": "5",
        "answer": "five",
        "verdict": "correct",
        "before": False,
        "after": True,
    }
    keys = ("stage", "thinking", "paraphrased", "problem_id", "sample_index", "verdict")
    changed, both = [tuple(v.get(key) for key in keys) for v in found["verdicts"]], ("correct", "correct_lenient")
    asked = ((None, False), (0.6, False), (1.0, False), (None, True))
    ways = [(f"evaluate/{m}", *way) for m in ("base", "zero_rl") for way in asked]
    assert changed[:48] == [(*way, p, 1, v) for way in ways for p in "abx" for v in both]
    numbers = {(n["stage"], n["task"], n["number"]): (n["before"], n["after"]) for n in found["numbers"]}
    assert numbers["evaluate/base", "chain_sum", "pass_at_1"] == pytest.approx((1 / 3, 2 / 3))
    assert numbers["evaluate/base", "reasoning", "pass_at_1_lenient"] == pytest.approx((1 / 3, 2 / 3))
    assert numbers["evaluate/base", "reasoning (thinking given, 1.0)", "solved"] == pytest.approx((1 / 2, 1))
    assert numbers["evaluate/base", "chain_sum (paraphrased)", "pass_at_1"] == pytest.approx((1 / 3, 2 / 3))
    assert not any(task == "general" or "length" in name for _, task, name in numbers)


def test_the_rejection_s_kept_set_is_followed(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lenient(monkeypatch)
    found = regraded(run, capsys, 1)
    changes = [v for v in found["verdicts"] if v["stage"] == "rejection"]
    assert [(v["model"], v["problem_id"], v["sample_index"], v["verdict"]) for v in changes] == [
        ("reasoning_rl", "c", 1, "dropped"),
        ("reasoning_rl", "d", 1, "dropped"),
    ]
    assert {(v["before"], v["after"]) for v in changes} == {("wrong", "surplus")}  # one a prompt is kept, the first
    numbers = {n["number"]: (n["before"], n["after"]) for n in found["numbers"] if n["stage"] == "rejection"}
    assert numbers == {"dropped.wrong": (4, 2), "dropped.surplus": (None, 2)}


def test_a_problem_that_can_not_be_graded_any_more_is_listed_and_not_counted(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pickier(monkeypatch)
    found = regraded(run, capsys, 1)
    changes = [v for v in found["verdicts"] if v["stage"] == "evaluate/base"]
    assert [(v["problem_id"], v["sample_index"], v["before"], v["after"]) for v in changes[:3]] == [
        ("x", 0, True, None),
        ("x", 1, False, None),
        ("x", 2, False, None),
    ]
    assert [v["thinking"] for v in changes] == [
        t for t, k in ((None, 3), (0.6, 3), (1.0, 2), (None, 3)) for _ in range(k)
    ]
    assert [v["paraphrased"] for v in changes] == [False] * 8 + [True] * 3
    numbers = {(n["task"], n["number"]): (n["before"], n["after"]) for n in found["numbers"]}
    assert numbers[None, "ungradable"] == (0, 1) and numbers["chain_sum", "n_problems"] == (3, 2)


def test_rules_of_general_prompts_are_graders_too(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies, "passes", lambda check, text: False)
    found = regraded(run, capsys, 1)
    assert {(v["task"], v["gold"], v["before"], v["after"]) for v in found["verdicts"]} == {
        ("general", None, True, False)
    }
    assert {n["task"] for n in found["numbers"]} == {"general"}


def test_in_words_each_change_is_a_line(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lenient(monkeypatch)
    assert main(["regrade", str(run)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "evaluate/base: 12 of 36 samples are graded otherwise"
    assert "  chain_sum a sample 1 (thinking given, 0.6), gold '5', answer 'five': correct False → True" in lines
    assert "  chain_sum a sample 1, gold '5', answer 'five': correct False → True" in lines
    assert "  chain_sum a sample 1 (paraphrased), gold '5', answer 'five': correct False → True" in lines
    assert "  chain_sum pass_at_1: 0.3333 → 0.6667" in lines
    assert "  dropped.surplus: None → 2" in lines
    assert "  chain_sum d sample 1, gold '5', answer 'five': dropped 'wrong' → 'surplus'" in lines


# -- what isn't whole --------------------------------------------------------------------------------------------


def forge_sample(run: Path) -> None:
    path = run / "evaluate/base/samples.parquet"
    rows = parquet.read_table(path).to_pylist()
    parquet.write_table(
        pa.Table.from_pylist([{**rows[0], "correct": not rows[0]["correct"]}, *rows[1:]], evaluate.SCHEMA), path
    )


def change_config(run: Path) -> None:
    (run / "evaluate/base/config.yaml").write_text("split: dev\n")


def change_data(run: Path) -> None:
    folder = run / "data" if (run / "data").is_dir() else run.parents[1] / "data"
    write_jsonl(folder / "test.jsonl", [problem("a", answer="6")])
    finish(folder, "data", {}, {}, {})


def lose_data(run: Path) -> None:
    folder = run / "data" if (run / "data").is_dir() else run.parents[1] / "data"
    folder.rename(folder.with_name("elsewhere"))


def forget_data(run: Path) -> None:
    read_instead(run, None)


def read_instead(run: Path, edge: dict[str, str] | None) -> None:
    """Let the evaluation of base have read other data, or none."""
    path = run / "evaluate/base/provenance.json"
    made = read_json(path)
    del made["inputs"]["data"]
    made["inputs"] |= {"data": edge} if edge else {}
    write_json(path, made | {"identity": provenance.identity_of(made)})


def from_outside(run: Path) -> Path:
    """Let the evaluation of base have read a folder that no stage made; returns the folder."""
    folder, project = run / "data" if (run / "data").is_dir() else run.parents[1] / "data", run.parents[1]
    mine = project / "mine"
    mine.mkdir()
    for path in folder.glob("*.jsonl"):
        (mine / path.name).write_bytes(path.read_bytes())
    read_instead(run, {"path": "mine", "sha256": provenance.content(mine)})
    return mine


def change_data_from_outside(run: Path) -> None:
    write_jsonl(from_outside(run) / "test.jsonl", [problem("a", answer="6")])


def lose_data_from_outside(run: Path) -> None:
    mine = from_outside(run)
    mine.rename(mine.with_name("elsewhere"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (forget_data, "provenance.json names no data that was read"),
        (forge_sample, "samples.parquet"),
        (change_config, "config.yaml"),
        (change_data, "isn't the data that evaluate/base read"),
        (lose_data, "isn't the data that evaluate/base read"),
        (change_data_from_outside, "mine isn't the data that evaluate/base read"),
        (lose_data_from_outside, "mine isn't the data that evaluate/base read"),
    ],
)
def test_what_is_not_as_it_was_made_is_not_graded(run: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(run)
    with pytest.raises(UserError, match=message) as caught:
        regrade(run)
    assert "\n" not in str(caught.value)


def test_data_that_no_stage_made_is_read_where_it_lay(
    run: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from_outside(run)
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))  # its path is relative to the project
    assert regrade(run) == 0


def test_a_folder_without_samples_is_one_line_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    for folder, named in ((tmp_path, "no graded samples"), (tmp_path / "nowhere", "there is no such run; in results/")):
        assert main(["regrade", str(folder)]) == 2
        assert named in capsys.readouterr().err


def test_it_works_below_the_projects_folder_and_says_so_outside_one(
    run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture
) -> None:
    (run.parents[1] / "Snakefile").touch()
    monkeypatch.chdir(run / "evaluate")
    for name in (run.name, f"results/{run.name}"):
        assert main(["regrade", name]) == 0 and "are graded as they were" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert main(["regrade", str(run)]) == 2
    assert (
        "is not in a project (no Snakefile here or above); change into the project's folder" in capsys.readouterr().err
    )


def test_results_may_lie_on_another_disk(
    run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture
) -> None:
    disk, results = tmp_path_factory.mktemp("disk") / "results", run.parent
    results.rename(disk)
    results.symlink_to(disk)
    (run.parents[1] / "Snakefile").touch()
    monkeypatch.chdir(run.parents[1])
    assert main(["regrade", run.name]) == 0 and "are graded as they were" in capsys.readouterr().out


def test_no_torch_is_imported() -> None:
    program = "import sys, r1flow.commands.regrade; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_run_under_test_has_what_a_real_one_has(run: Path) -> None:
    assert read_json(run / "evaluate/base/metrics.json")["reasoning"]["pass_at_1"] == pytest.approx(1 / 3)
