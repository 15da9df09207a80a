"""The runs in results/: from which experiment, with which seed and overrides, how far they are, and what came out.

    list_runs()[0]
    ListedRun(run="r1_tiny", experiment="r1_tiny", seed=1, overrides="", state="finished", done=22, jobs=22,
              changed=1795745281.0, model="align_rl", pass_at_1=0.745)

A stage's own files say its configuration, but not the names it was composed from. These are in .config/, where the
workflow freezes the configuration of every run that it plans: the one that fits the stages that are there is the run's.
Left out: runs that were removed, which MLflow still has (`make ui`).
"""

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from r1flow.api.stored import EVALUATE, StoredRun
from r1flow.artifacts.frozen import config_digest
from r1flow.artifacts.locks import is_held, live_lock
from r1flow.artifacts.manifest import MANIFEST, PROVENANCE
from r1flow.artifacts.records import absolute_place, read_file
from r1flow.artifacts.versions import RESULTS
from r1flow.core.errors import UserError, error_in_words
from r1flow.core.files import read_yaml
from r1flow.engine.run import FROZEN, Run
from r1flow.recipe.stages import stage_of

RUNNING, FINISHED, UNFINISHED = "running", "finished", "unfinished"


@dataclass(frozen=True)
class ListedRun:
    """One run; what isn't known is None."""

    run: str  # its name
    experiment: str | None
    seed: int | None
    overrides: str | None
    state: str  # running, finished, unfinished
    done: int  # finished jobs
    jobs: int | None  # of so many
    changed: float  # when its last stage ended: seconds since 1970
    model: str | None  # align_rl, or else the last model that was evaluated
    pass_at_1: float | None  # of this model, over the reasoning problems


def list_runs(results: Path | str = RESULTS) -> list[ListedRun]:
    """Every run in the folder, the last changed first; folders that are no run are passed over.

    A run with a damaged stage is left out, and warned of.

    >>> [(each.run, each.state, each.model) for each in r1flow.list_runs()]
    [('faster', 'finished', 'reasoning_rl'), ('r1_tiny', 'finished', 'reasoning_rl')]
    """
    listed, damaged = runs_and_damage(results)
    for fault in damaged:
        warnings.warn(fault, stacklevel=2)
    return listed


def runs_and_damage(results: Path | str = RESULTS) -> tuple[list[ListedRun], list[str]]:
    """Every run that can be read, the last changed first, and of each other one what is damaged."""
    listed, damaged = [], []
    for folder in sorted(path for path in Path(results).glob("*/") if any(path.glob(f"**/{MANIFEST}"))):
        try:
            listed.append(listed_run(StoredRun(folder)))
        except (UserError, OSError, LookupError, TypeError, AttributeError) as error:
            said = error_in_words(error) if isinstance(error, UserError | OSError) else f"its files lack {error}"
            damaged.append(f"{folder}: {said}")
    return sorted(listed, key=lambda each: (-each.changed, each.run)), damaged


def listed_run(run: StoredRun) -> ListedRun:
    project = absolute_place(run.folder).parent.parent
    made = {stage: read_file(run.folder_of(stage) / PROVENANCE) for stage in run.stages}
    facts = facts_of(project / FROZEN, run.name, {stage: each.get("config") for stage, each in made.items()})
    jobs = Run(facts["config"]).jobs if facts else None
    done = run.stages if jobs is None else [job for job in jobs if job in run.stages]
    whole = "report" in done if jobs is None else len(done) == len(jobs)
    state = FINISHED if whole else UNFINISHED
    model = "align_rl" if "align_rl" in run.models else next(reversed(run.models), None)
    scores = read_file(run.folder_of(f"{EVALUATE}{model}") / "metrics.json")["tasks"] if model else {}
    changed = max((run.folder_of(stage) / MANIFEST).stat().st_mtime for stage in run.stages)
    return ListedRun(
        run=run.name,
        experiment=facts and str(facts["config"]["experiment"]),
        # data has a seed of its own, and a pinned one is shared by the runs
        seed=next((each["seed"] for stage, each in made.items() if stage != "data" and "seed" in each), None),
        overrides=facts and facts.get("overrides"),
        state=RUNNING if is_running(project, run.name) else state,
        done=len(done),
        jobs=jobs and len(jobs),
        changed=changed,
        model=model,
        pass_at_1=scores.get("reasoning", {}).get("pass_at_1"),
    )


def is_running(project: Path, run: str) -> bool:
    """Whether the run is live here, or one of its stages; those on another machine of a cluster aren't seen."""
    stages = (project / "scratch" / run).glob("**/lock")
    return any(is_held(lock) for lock in [project / live_lock(run), *stages])


def facts_of(frozen: Path, run: str, configs: dict[str, str | None]) -> dict[str, Any] | None:
    """What was frozen of the run: of all plans with its name the newest of those that fit most of these stages.

    `configs` has the hashes of the stages' configurations, as their provenance says. None where no plan fits any.
    """
    best, most = None, 0
    for facts in plans_of(frozen, run):
        slices = {stage: config_digest(facts["config"].get(stage_of(stage), {})) for stage in configs}
        fitting = sum(slices[stage] == digest for stage, digest in configs.items())
        if fitting > most:
            best, most = facts, fitting
    return best


def plans_of(frozen: Path, run: str) -> Iterator[dict[str, Any]]:
    """The frozen configurations of all plans of a run with this name, the newest first."""
    # To load YAML of 40 kB takes 30 ms.
    named = re.compile(rf"^  run: '?{re.escape(run)}'?$", re.MULTILINE)
    for path in sorted(frozen.glob("run-*.yaml"), key=lambda path: -path.stat().st_mtime):
        if named.search(path.read_text(errors="replace")):
            facts = read_file(path, read_yaml)
            if facts.get("config", {}).get("run") == run:
                yield facts
