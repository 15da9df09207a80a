"""Facts about the program that writes the report, for plan and checks (programs/specs.py)."""

from dataclasses import dataclass
from typing import Any

from r1flow.core.errors import UserError, did_you_mean
from r1flow.programs.cost_estimate import Cost
from r1flow.programs.keys import Seeded, ZeroOrMore
from r1flow.programs.specs import Spec
from r1flow.recipe.stages import MODELS


@dataclass
class SideBySide:
    models: list[str]
    problems: ZeroOrMore


@dataclass
class Report(Seeded):
    run: str
    caveats: dict[str, str]
    toy: bool
    side_by_side: SideBySide


def check_report(config: dict[str, Any]) -> None:
    if config["caveats"]:
        from r1flow.recipe.claims import CLAIMS  # imports scipy, and every plan would wait for it

        known = ["run", *(claim.__name__.upper() for claim in CLAIMS)]
        for name in config["caveats"]:
            if name not in known:
                raise UserError(f"caveats: there is no claim {name!r}; use {', '.join(known)}")
    for model in config["side_by_side"]["models"]:
        if model not in MODELS:
            raise UserError(f"side_by_side.models: there is no model {model!r}{did_you_mean(model, MODELS)}")


SPEC = Spec(
    keys=Report,
    check=check_report,
    outputs=lambda config: ["files/", "report.html", "samples.html", "summary.json"],
    cost=lambda estimator, job, config: Cost(job),
)
