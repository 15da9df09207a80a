"""Status lines: what is shown, when, and how a failure reads."""

import io

import pytest

from r1flow.tracking import progress
from r1flow.tracking.progress import Progress


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def terminal(clock, monkeypatch):
    monkeypatch.setenv("R1FLOW_JOBS", "data base zero_rl cold_start reasoning_rl rejection a b c d evaluate/base")
    return Progress("reasoning_rl", io.StringIO(), clock=clock)


def lines(terminal: Progress) -> list[str]:
    return terminal.stream.getvalue().splitlines()


def test_a_line_says_which_stage_of_how_many_what_is_reached_and_the_time_left(terminal, clock):
    terminal.update(10, 40, reward=0.1)
    clock.now += 20
    terminal.update(12, 40, reward=0.61234, length=42)
    assert lines(terminal)[-1] == "[ 5/11 reasoning_rl] 12/40  reward 0.612 ▂▅  length 42  4:40 left"


def test_a_training_shows_what_matters_with_curves_of_all_its_steps(terminal, clock):
    others = {"entropy": 0.3, "clipped": 0.0, "grad_norm": 1.0, "tokens": 11013.0}
    for step in range(17):  # sixteen values and the first, of which only two lines are shown
        reward = 0.0 if step < 8 else 1.0
        terminal.update(step, 40, reward=reward, accuracy=0.5, format=1.0, truncated=0.0, zero_variance=0.5, **others)
    clock.now += 9
    terminal.update(17, 40, reward=1.0, accuracy=0.5, format=1.0, truncated=0.0, zero_variance=0.5, **others)
    shown = lines(terminal)[-1].partition("] ")[2].split("  ")
    assert shown[:3] == ["17/40", "reward 1 ▁▁▁▃████", "accuracy 0.5"]
    assert shown[3:6] == ["format 1 ████████", "truncated 0 ▁▁▁▁▁▁▁▁", "zero_variance 0.5 ▅▅▅▅▅▅▅▅"]
    assert len(shown) == 7 and shown[6].endswith(" left")


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ([], ""),
        ([0.4], ""),
        ([0.0, 1.0], "▁█"),
        ([6.0, 3.0, 0.6], "█▅▂"),  # a loss: from 0 to its largest value
        ([-2.0, 0.0, 1.0], "▁▁█"),  # a penalty
        ([1e9, 0.0], "█▁"),
        ([float("nan"), 1.0], ""),
        ([float("inf"), 1.0], ""),
    ],
)
def test_a_curve_goes_from_nothing_to_one_or_to_its_largest_value(values, drawn):
    assert progress.bars(values) == drawn


def test_a_new_phase_begins_a_new_curve(terminal, clock):
    terminal.update(1, 4, loss=1.0)
    terminal.update(1, 9, loss=0.5)
    assert lines(terminal)[-1] == "[ 5/11 reasoning_rl] 1/9  loss 0.5"


def test_a_stage_outside_the_workflow_has_a_name_and_no_place(monkeypatch):
    monkeypatch.setenv("R1FLOW_JOBS", "data rejection evaluate/base")
    assert progress.stage_label("evaluate/base 2-of-4") == "[3/3 evaluate/base 2-of-4]"
    monkeypatch.delenv("R1FLOW_JOBS", raising=False)
    assert progress.stage_label("evaluate/base") == "[evaluate/base]"


def test_updates_are_limited_but_the_first_and_the_last_always_show(terminal, clock):
    for step in range(1, 41):
        terminal.update(step, 40)
        clock.now += 1
    steps = [line.partition("] ")[2].partition("/")[0] for line in lines(terminal)]
    assert steps == ["1", "6", "11", "16", "21", "26", "31", "36", "40"]


def test_a_new_phase_shows_at_once_and_has_a_pace_of_its_own(terminal, clock):
    terminal.update(1, 4)
    clock.now += 1
    terminal.update(0, 100, phase="grading")
    assert lines(terminal)[-1] == "[ 5/11 reasoning_rl] 0/100  phase grading"
    clock.now += 10
    terminal.update(50, 100)
    assert lines(terminal)[-1].endswith("0:10 left")


def test_what_was_kept_is_read_back_at_another_pace_than_the_rest_is_made(terminal, clock):
    terminal.update(10, 100, step="read back")
    clock.now += 1
    terminal.update(80, 100, step="read back")
    terminal.update(81, 100)
    clock.now += 10
    terminal.update(82, 100)
    assert lines(terminal)[-2].endswith("] 81/100") and lines(terminal)[-1].endswith("3:00 left")


def test_time_left_counts_only_steps_done_here_when_a_training_resumed(terminal, clock):
    terminal.update(30, 40)
    clock.now += 50
    terminal.update(35, 40)
    assert lines(terminal)[-1].endswith("0:50 left")


def test_two_stages_never_share_a_line():
    stream = io.StringIO()
    writes = []
    stream.write = writes.append
    for stage in ("zero_rl", "cold_start"):
        Progress(stage, stream).update(1, 2, reward=0.5)
    assert all(text.endswith("\n") and text.count("\n") == 1 for text in writes)


METRICS = {
    "training": ({"rows": 9, "steps": 40, "history": [{"step": 40, "loss": 0.4, "reward": 0.75}]}, "reward 0.75"),
    "evaluation": ({"tasks": {"reasoning": {"pass_at_1": 0.613}, "general": {"pass_at_1": 0.9}}}, "reasoning 61.3%"),
    "empty": ({}, "done in 1:32"),
    "not numbers": ({"claims": {"C1": "holds here"}, "history": [], "ok": True, "note": None}, "done in 1:32"),
}


@pytest.mark.parametrize(("metrics", "part"), METRICS.values(), ids=METRICS)
def test_the_last_line_has_the_duration_and_two_or_three_numbers(terminal, clock, metrics, part):
    terminal.started()
    clock.now += 92
    terminal.finished(metrics)
    last = lines(terminal)[-1]
    assert last.startswith("[ 5/11 reasoning_rl] done in 1:32") and part in last and len(last.split("  ")) <= 4


def test_what_comes_from_the_store_says_so(terminal):
    terminal.finished({}, "from the store")
    assert lines(terminal)[-1] == "[ 5/11 reasoning_rl] from the store in 0:00"


def test_a_failure_shows_the_error_the_end_of_the_log_and_its_path(clock, tmp_path):
    log = tmp_path / "rl.log"
    log.write_text("".join(f"line {i}\n" for i in range(100)) + "10%\r50%\r100%\n\nTraceback\n")
    terminal = Progress("rl", io.StringIO(), log=log, clock=clock)
    terminal.failed("ValueError: no rows")
    shown = lines(terminal)
    assert shown[0] == "[rl] failed after 0:00: ValueError: no rows"
    assert shown[-1].endswith(str(log)) and shown[-2].endswith("| Traceback") and shown[-3].endswith("| 100%")
    assert len(shown) == 2 + progress.LOG_LINES


def test_no_error_and_no_log_can_write_over_the_terminal(clock, tmp_path):
    log = tmp_path / "rl.log"
    log.write_text("line\x1b[2Jone\n")
    terminal = Progress("rl", io.StringIO(), log=log, clock=clock)
    terminal.failed("UserError: a\x1b]0;title\x07b")
    assert all(line.isprintable() for line in lines(terminal)) and len(lines(terminal)) == 3


def test_a_log_that_is_missing_enormous_or_not_text_is_no_second_failure(clock, tmp_path):
    for content in (None, b"\xff\xfe" * 10_000_000, b""):
        log = tmp_path / "x.log"
        log.unlink(missing_ok=True)
        if content is not None:
            log.write_bytes(content)
        terminal = Progress("x", io.StringIO(), log=log, clock=clock)
        terminal.failed("E")
        assert len(terminal.stream.getvalue()) < 20_000


def test_a_closed_terminal_does_not_stop_a_stage(clock):
    stream = io.StringIO()
    stream.close()
    Progress("x", stream, clock=clock).update(1, 2)


@pytest.mark.parametrize(
    ("value", "text"), [(0.61234, "0.612"), (42, "42"), (1234.5, "1234"), (5e-5, "5e-05"), (float("nan"), "nan")]
)
def test_numbers_have_three_digits_that_matter(value, text):
    assert progress.short_number(value) == text


@pytest.mark.parametrize(("seconds", "text"), [(3.6, "0:04"), (59.7, "1:00"), (92, "1:32"), (7400, "2:03:20")])
def test_durations(seconds, text):
    assert progress.clock_time(seconds) == text
