"""What a run says on the terminal beside its stages' own lines: what there is to do, how far it is, what came of it.

results/r1_tiny of the experiment r1_tiny: 22 jobs, about 9 minutes on 2 cores; curves: make ui; Ctrl-C stops it, …
4 of 22 jobs are done, about 7 minutes left
C1 holds here, +42.7 points [39.2, 46.2]: RL alone lifts the base model.
report: results/r1_tiny/report/report.html
next: r1flow chat results/r1_tiny/align_rl/model
"""

from pathlib import Path
from typing import TYPE_CHECKING

from r1flow.core.errors import printable
from r1flow.engine.plan import KEEP, seconds_of
from r1flow.engine.timing import Schedule, in_minutes, schedule
from r1flow.model.precision import multiplies_bfloat16
from r1flow.tracking.spool import shown_addresses

if TYPE_CHECKING:
    from r1flow.engine.run import Run

# Seconds; a run on a CPU that is expected to take longer says why, if the CPU is the reason.
SLOW = 900.0


class Telling:
    """What a run on this machine says at its start and after each of its jobs."""

    def __init__(self, run: "Run") -> None:
        self.run = run
        self.schedule: Schedule | None = None
        self.told = 0  # how many jobs it has said are done

    def opening(self, cores: int) -> str:
        """How much there is to do, about how long it takes, where it goes, how to stop it."""
        self.schedule = schedule(self.run, cores)
        jobs = sum(step.action != KEEP for step in self.run.steps)
        told = f"{jobs} job{'s' if jobs > 1 else ''}"
        if self.schedule:
            seconds = self.schedule.left()
            told += f", {in_minutes(seconds)} on {cores} core{'s' if cores > 1 else ''}"
            if seconds > SLOW and not multiplies_bfloat16():
                told += " (this CPU has no bfloat16 and computes in float32;"
                told += " experiment=r1_micro takes minutes, and gives no verdicts)"
        name = f"results/{self.run.name} of the experiment {self.run.config['experiment']}"
        return f"{name}: {told}; curves: make ui; Ctrl-C stops it, and the same command goes on"

    def progress(self) -> str:
        """How many jobs are done, and about how long the others take; empty if it said so last, or if all are."""
        if not self.schedule:
            return ""
        took = {}
        for job in self.schedule.seconds:
            if self.run.is_written(self.run.path(job)):
                took[job] = seconds_of(Path(self.run.folder(job))) or 0.0
        if len(took) in (self.told, len(self.schedule.seconds)):
            return ""
        self.told = len(took)
        left = self.schedule.left(took, self.schedule.pace(took))
        return f"{len(took)} of {len(self.schedule.seconds)} jobs are done, {in_minutes(left)} left"


def outcome(run: "Run") -> str:
    """What a finished run ends with: its models' scores, its verdicts, where to look, and the next command."""
    scores: list[str] = []
    if run.summary:
        # Imports scipy, and every command would wait for it.
        from r1flow.programs.report.ending import tell_scores

        told = run.summary["models"]
        scores = tell_scores({model: told[model] for model in run.models if model in told})
    made = [model for model in run.models if Path(run.folder(model), "model").is_dir()]
    model = "align_rl" if "align_rl" in made else next(reversed(made), None)
    lines = [*scores, *told_results(run), *shown_addresses(Path())]
    lines += [f"next: r1flow chat {run.folder(model)}/model"] if model else []
    return printable("\n".join(lines))


def told_results(run: "Run") -> list[str]:
    """The verdicts on the claims, and where the report is; nothing without one."""
    if not (summary := run.summary):
        return []
    from r1flow.programs.report.ending import tell_verdicts

    return [*tell_verdicts(summary), f"report: {run.folder('report')}/report.html"]
