"""Facts about the program that writes the report, for plan and checks (programs/specs.py)."""

from dataclasses import dataclass

from r1flow.programs.costs import Cost
from r1flow.programs.keys import Place
from r1flow.programs.specs import Spec


@dataclass
class Report(Place):
    run: str


SPEC = Spec(
    keys=Report,
    outputs=lambda config: ["report.html", "summary.json"],
    cost=lambda book, job, config: Cost(job),
)
