"""`r1flow watch`: what a live run's stages have told, as lines with curves and as JSON."""

import json
from pathlib import Path

import pytest
from documented import as_documented

from r1flow.artifacts.locks import hold, live_lock
from r1flow.commands import watch
from r1flow.commands.cli import main
from r1flow.tracking.followed import follow_stages
from r1flow.tracking.spool import pointer

SHARES = {"format": 0.5, "truncated": 0.25, "zero_variance": 1.0}


def lines_of(stage: str, began: int, *steps: dict[str, float]) -> list[dict]:
    start = {"kind": "start", "time": began, "tags": {"stage": stage}}
    values = [{f"curve/{name}": value for name, value in step.items()} for step in steps]
    return [start, *({"kind": "metrics", "step": 2 * i + 2, "values": each} for i, each in enumerate(values))]


def write(folder: Path, stage: str, records: list[dict], cut: str = "") -> None:
    text = "".join(f"{json.dumps(record)}\n" for record in records)
    (folder / f"{stage.replace('/', '.')}.jsonl").write_text(text + cut)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run at work on zero_rl; its folder of records."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Snakefile").touch()
    folder = tmp_path / "scratch/tracking/mine-1"
    folder.mkdir(parents=True)
    pointer(tmp_path, "mine").write_text(json.dumps({"folder": "scratch/tracking/mine-1"}))
    write(folder, "execution", [{"kind": "start", "time": 1, "tags": {}}])
    ended = {"kind": "end", "status": "FINISHED"}
    write(
        folder, "zero_rl", lines_of("zero_rl", 9, {"reward": 0.0, **SHARES}, {"reward": 1.0, **SHARES}), '{"kind": "met'
    )
    write(folder, "base", [*lines_of("base", 5, {"loss": 4.0}, {"loss": 1.0}), ended])
    write(folder, "data", [*lines_of("data", 2), ended])
    return folder


def test_stages_come_as_they_began_with_their_last_values_and_curves(project: Path) -> None:
    assert [watch.line_of(stage) for stage in follow_stages("mine")] == [
        "[data] finished",
        "[base] finished  step 4  loss 1 █▃",
        "[zero_rl] step 4  reward 1 ▁█  format 0.5 ▅▅  truncated 0.25 ▃▃  zero_variance 1 ██",
    ]


def test_a_stage_that_begins_again_is_shown_anew(project: Path) -> None:
    killed = [*lines_of("zero_rl", 9, {"reward": 0.5}), {"kind": "end", "status": "KILLED"}]
    write(project, "zero_rl", [*killed, *lines_of("zero_rl", 12, {"reward": 0.25})])
    stage = follow_stages("mine")[-1]
    assert (stage.state, stage.step, stage.curves) == ("running", 2, {"reward": [0.25]})


def test_the_live_run_that_began_last_is_followed_to_its_end(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = hold(live_lock("mine"))

    def go_on(seconds: float) -> None:
        """The run's next five seconds: another step, and its end."""
        write(project, "zero_rl", lines_of("zero_rl", 9, {"reward": 0.0}, {"reward": 1.0}, {"reward": 0.5}))
        lock.close()

    monkeypatch.setattr(watch.time, "sleep", go_on)
    assert main(["watch"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["[data]", "[base]", "[zero_rl]", "[zero_rl]", "the"]
    assert "step 6" in lines[3] and lines[4].startswith("the run mine has ended")


def test_a_run_whose_record_is_gone_meanwhile_has_ended(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run removes it when it ends, just before it frees its lock."""
    lock = hold(live_lock("mine"))  # noqa: F841
    monkeypatch.setattr(watch.time, "sleep", lambda seconds: pointer(Path(), "mine").unlink())
    assert main(["watch", "mine"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("the run mine has ended")


def test_the_json_is_as_documented_and_printed_once(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "mine", "--json"]) == 0
    found = as_documented("watch", capsys.readouterr().out)
    assert not found["live"] and [stage["step"] for stage in found["stages"]] == [None, 4, 4]


@pytest.mark.parametrize("words", [[], ["other"]])
def test_where_no_run_goes_on_the_line_names_those_that_there_are(
    project: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", *words]) == 2
    assert "`r1flow runs` lists those that there are" in capsys.readouterr().err
