"""What a person sees of a run: one line per event, readable when two stages run at once and in a log file.

    [ 5/22 reasoning_rl] started
    [ 5/22 reasoning_rl] 12/40  reward 0.61 ▂▃▄▅  length 42  1:10 left
    [ 5/22 reasoning_rl] done in 1:32  reward 0.84  length 44
    [ 6/22 rejection] failed after 0:04: samples.parquet: no space left on device
        | the last lines of its log
        the whole log: logs/r1_tiny/rejection.log

Every line is written whole, with its line break, and without cursor movements or colours. (tqdm and rich redraw a line,
which is garbled when two stages share a terminal, and in a cluster's log.) A stage's place among the run's jobs comes
from the workflow, which lists them all in order in $R1FLOW_JOBS; a stage started by hand shows only [rejection].
"""

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from r1flow.core.errors import printable

EVERY_S = 5.0
FAILED = "failed: "  # how the last line of a failed stage's log begins; its reason follows
LOG_LINES = 15
HEADLINES = 3
# Shown first when a stage ends, in this order; then whatever else its metrics begin with.
FAVOURITES = ("reward", "accuracy", "loss", "length", "kept", "rows")
# Of a training that reports more numbers than a line has room for, those that are shown; MLflow has them all.
ON_A_LINE, MANY = ("reward", "accuracy", "format", "length", "truncated", "zero_variance", "mismatch"), 5
# Shown with a small curve of all values so far, from 0 to 1, or to the largest value if that is more.
CURVED, BARS, WIDTH = ("reward", "format", "truncated", "zero_variance", "loss"), "▁▂▃▄▅▆▇█", 8
# Numbers that say nothing about how a stage went.
DULL = {"step", "epoch", "learning_rate", "steps", "seconds"}


class Progress:
    """The status lines of one stage; `clock` gives seconds and only its differences count."""

    def __init__(
        self, stage: str, stream: TextIO, log: Path | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.label, self.stream, self.log, self.clock = stage_label(stage), stream, log, clock
        self.begin = clock()
        self.shown: float | None = None  # when the last update was
        self.phase: tuple[int, Any] | None = None  # total, and the step if the stage has several
        self.first: tuple[int, float] = (0, 0.0)  # the phase's first update: done, and when
        self.curves: dict[str, list[float]] = {}  # the phase's values, by field

    def started(self) -> None:
        self.begin = self.clock()
        self.say("started")

    def update(self, done: int, total: int, **fields: float | str) -> None:
        """Show that `done` of `total` is reached: at once for a phase's first and last, else at most every EVERY_S."""
        now, phase = self.clock(), (total, fields.get("step"))
        if phase != self.phase or done < self.first[0]:
            self.phase, self.first, self.shown, self.curves = phase, (done, now), None, {}
        for name in CURVED:
            if is_number(fields.get(name)):
                self.curves.setdefault(name, []).append(fields[name])
        if self.shown is not None and done < total and now - self.shown < EVERY_S:
            return
        self.shown = now
        if len(fields) > MANY and "reward" in fields:
            fields = {name: fields[name] for name in ON_A_LINE if name in fields}
        self.say("  ".join([f"{done}/{total}", *shown_fields(fields, self.curves), *self.left(done, total, now)]))

    def left(self, done: int, total: int, now: float) -> list[str]:
        """The time left at the pace since this phase's first update; empty while no pace is known."""
        before, since = self.first
        if done == before or done >= total:
            return []
        return [f"{clock_time((now - since) / (done - before) * (total - done))} left"]

    def finished(self, metrics: dict[str, Any], how: str = "done") -> None:
        self.say("  ".join([f"{how} in {self.took()}", *headlines(metrics)]))

    def interrupted(self) -> None:
        self.say(f"interrupted after {self.took()}; the same command goes on with it")

    def failed(self, error: str) -> None:
        """The error, the last lines of the log and where the rest is, as one block."""
        lines = [f"failed after {self.took()}: {error}"]
        if self.log:
            lines += [f"    | {line}" for line in last_lines(self.log)]
            lines += [f"    the whole log: {self.log}"]
        self.say("\n".join(lines))

    def took(self) -> str:
        return clock_time(self.clock() - self.begin)

    def say(self, text: str) -> None:
        """One write, so that lines of two stages don't mix; a closed terminal doesn't stop a stage."""
        try:
            self.stream.write(f"{self.label} {printable(text)}\n")
            self.stream.flush()
        except (OSError, ValueError):
            pass


def stage_label(stage: str) -> str:
    """The stage's name with its place among the run's jobs: `[ 5/22 reasoning_rl]`, `[ 6/22 rejection 2-of-4]`."""
    jobs = os.environ.get("R1FLOW_JOBS", "").split()
    job = stage.partition(" ")[0]
    if job not in jobs:
        return f"[{stage}]"
    place, width = jobs.index(job) + 1, len(str(len(jobs)))
    return f"[{place:{width}}/{len(jobs)} {stage}]"


def headlines(metrics: dict[str, Any]) -> list[str]:
    """Two or three numbers that say how a stage went, from its metrics.json."""
    if "tasks" in metrics:
        tasks = {name: metrics["tasks"][name] for name in ("reasoning", "general") if name in metrics["tasks"]}
        return [f"{name} {task['pass_at_1']:.1%} pass@1" for name, task in tasks.items()]
    last = metrics["history"][-1] if metrics.get("history") else {}
    values = {key: value for key, value in {**metrics, **last}.items() if is_number(value) and key not in DULL}
    names = [name for name in FAVOURITES if name in values] + [name for name in values if name not in FAVOURITES]
    return shown_fields({name: values[name] for name in names[:HEADLINES]})


def shown_fields(fields: dict[str, float | str], curves: Mapping[str, Sequence[float]] = {}) -> list[str]:
    """Each field's name and value, and the curve of its values where it has one."""
    shown = []
    for name, value in fields.items():
        words = f"{name} {short_number(value) if is_number(value) else value}"
        drawn = bars(curves.get(name, ()))
        shown.append(f"{words} {drawn}" if drawn else words)
    return shown


def bars(values: Sequence[float]) -> str:
    """A curve of at most WIDTH characters, each the mean of as many values; nothing for less than two.

    >>> bars([0.1, 0.2, 0.4, 0.8])
    '▂▂▄▇'
    """
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return ""
    top, count = max(1.0, *values), min(WIDTH, len(values))
    drawn = ""
    for place in range(count):
        part = values[place * len(values) // count : (place + 1) * len(values) // count]
        height = max(0.0, sum(part) / len(part) / top)
        drawn += BARS[round(height * (len(BARS) - 1))]
    return drawn


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def short_number(value: float) -> str:
    """Three digits that matter: 0.61, 42.3, 1234, 5e-05."""
    if isinstance(value, int) or 1000 <= abs(value) < 1e12:
        return str(round(value))
    return f"{value:.3g}"


def clock_time(seconds: float) -> str:
    """0:04, 1:32, 2:03:20."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def last_lines(log: Path) -> list[str]:
    """The log's last lines; what a progress bar overwrote with carriage returns is left out."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 20_000))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    lines = [line.rpartition("\r")[2] for line in text.split("\n")]
    return [line[:300] for line in lines if line.strip()][-LOG_LINES:]
