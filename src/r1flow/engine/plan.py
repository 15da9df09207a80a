"""What a run would do and why: compares every job, by content, with what is in its folder and in the store.

A job is kept when its folder is whole and was made from the current config, code, inputs and Python. Otherwise it is
restored (the store has the outputs of this identity) or computed. Changed libraries alone are only noted
(`Step.moved`), unless the user asked to rerun for them. A job whose input is computed first follows: its program starts
only if that input comes out with other bytes. No file's time plays a part, and nothing is changed.

    Step("zero_rl", "compute", ["config: trainer.beta 0.001 → 0.01"], seconds=95.9)
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1flow.artifacts import manifest, provenance, store
from r1flow.artifacts.fingerprint import Code, code_of
from r1flow.core.changes import changes, leaves
from r1flow.core.errors import errors_at, listed
from r1flow.core.files import read_yaml
from r1flow.recipe.stages import program_of, stage_of

if TYPE_CHECKING:
    from r1flow.engine.run import Run

KEEP, RESTORE, COMPUTE, FOLLOW = "keep", "restore", "compute", "follow"


@dataclass
class Step:
    """What happens to one job."""

    job: str
    action: str
    why: list[str] = field(default_factory=list)
    seconds: float | None = None  # how long it took last time
    manifest: str | None = None  # sha256 of its manifest, if that is known before it runs
    moved: dict[str, str] = field(default_factory=dict)  # libraries that changed since: {"torch": "2.13 → 2.14"}

    @property
    def may_compute(self) -> bool:
        """Whether the job's program may start."""
        return self.action in (COMPUTE, FOLLOW)


def plan(run: "Run") -> list[Step]:
    """A step for every job, in dataflow order; raises UserError for an input from outside that isn't there.

    If `run.libraries` is "rerun", a changed library is a reason like any other.
    """
    manifests: dict[str, str | None] = {}
    code = cache(lambda stage: code_of(program_of(stage, run.slice(stage)), run.slice(stage)))
    steps = []
    for job in run.jobs:
        step = step_of(run, job, manifests, code(stage_of(job)))
        manifests[job] = step.manifest
        steps.append(step)
    return steps


def step_of(run: "Run", job: str, manifests: dict[str, str | None], code: Code) -> Step:
    """The step of a job, given its upstream jobs' manifests by hash (None: not known before they run)."""
    config = run.slice(stage_of(job))
    program = program_of(job, config)
    sources = run.inputs(job)
    waiting = [source for source in sources.values() if source in manifests and manifests[source] is None]
    inputs = {name: identified(name, source, manifests) for name, source in sources.items() if source not in waiting}
    now = provenance.describe_provenance(job, program, config, code, inputs)
    folder = Path(run.folder(job))
    with manifest.Hashes(folder) as remembered:
        then, fault = provenance.recorded(folder, remembered)
    if fault:
        why = [fault, *(unlike_usual(run, job, now, config, sources) if fault == provenance.NOT_THERE else [])]
    else:
        why = [*reasons_to_run(then, now, config, folder, sources)]
    moved = {} if why else libraries_moved(then, now)
    if run.libraries == "rerun":
        why, moved = [*why, *(f"library: {name} {change}" for name, change in moved.items())], {}
    seconds = last_cost(folder, job, config)
    # Which bytes come in isn't known yet. Without another reason its job starts, and computes only if they changed.
    if waiting:
        after = "after " + listed(sorted(set(waiting), key=run.jobs.index))
        return Step(job, COMPUTE if why else FOLLOW, why or [after], seconds, None, moved)
    if not why:
        return Step(job, KEEP, [], seconds, manifest.sha256(folder / manifest.MANIFEST), moved)
    stored = store.manifest_of(job, now["identity"])
    return Step(job, RESTORE if stored else COMPUTE, why, seconds, stored)


def identified(name: str, source: str, manifests: dict[str, str | None]) -> dict[str, str]:
    """What identifies an input: the manifest that its stage will have, or the content of what comes from outside."""
    if source in manifests:
        return {"stage": source, "sha256": manifests[source]}
    with errors_at(f"input {name}: "):
        return provenance.identify_input(Path(source))


def reasons_to_run(
    then: dict[str, Any], now: dict[str, Any], config: dict[str, Any], folder: Path, sources: dict[str, str]
) -> Iterator[str]:
    """Everything that decides the outputs and has changed, except libraries; nothing when the stage can be kept."""
    if then["config"] != now["config"]:
        changed = changes(leaves(read_yaml(folder / "config.yaml")), leaves(config))
        yield "config: " + listed([f"{path} {before} → {after}" for path, before, after in changed])
    if then["code"] != now["code"]:
        yield "code: " + listed([name for name, _, _ in changes(then["modules"], now["modules"])] or ["program"])
    for name in sorted(then["inputs"].keys() | now["inputs"].keys()):
        before, after = then["inputs"].get(name), now["inputs"].get(name)
        if after and (not before or before["sha256"] != after["sha256"]):
            yield f"input {name}: {after.get('stage', after.get('path'))} " + (
                "has other bytes" if before else "is new"
            )
    for name in sorted(then["inputs"].keys() - sources.keys()):
        yield f"input {name}: is gone"
    if then["python"] != now["python"]:
        yield f"python {then['python']} → {now['python']}"


def unlike_usual(
    run: "Run", job: str, now: dict[str, Any], config: dict[str, Any], sources: dict[str, str]
) -> Iterator[str]:
    """How a job that isn't there yet differs from that of the experiment's run without a name of its own, if any."""
    usual = Path("results", run.experiment, job)
    if usual == Path(run.folder(job)):
        return
    then, fault = provenance.proof_of(usual)
    if not fault:
        for reason in reasons_to_run(then, now, config, usual, sources):
            yield f"unlike {usual.parts[1]}: {reason}"


def libraries_moved(then: dict[str, Any], now: dict[str, Any]) -> dict[str, str]:
    """Libraries whose version is neither what the stage was computed with nor one that a person accepted for it."""
    known = {**then["libraries"], **then.get("accepted", {})}
    return {
        name: f"{then['libraries'].get(name)} → {version}"
        for name, version in now["libraries"].items()
        if version not in (known.get(name), then["libraries"].get(name))
    }


def last_cost(folder: Path, job: str, config: dict[str, Any]) -> float | None:
    """Seconds of the last computation: of the outputs in the folder, otherwise of the store's last used entry.

    An entry of the store counts if its configuration is this one but for the seed: another experiment's job, of the
    same name, may have a hundredth of the work.
    """
    here = seconds_of(folder)
    if here is not None:
        return here
    for entry in reversed(store.entries(store.STORE / job)):
        made_from = entry / "config.yaml"
        if made_from.is_file() and {**read_yaml(made_from), "seed": None} == {**config, "seed": None}:
            seconds = seconds_of(entry)
            if seconds is not None:
                return seconds
    return None


def seconds_of(folder: Path) -> float | None:
    cost = manifest.read_cost(folder / "cost.json")
    return cost and float(cost["seconds"])


def table(steps: list[Step], everything: bool = False) -> str:
    """The plan for people: what runs, why, and how long that took last time; kept jobs in the last line."""
    shown = [step for step in steps if everything or step.action != KEEP]
    width = max((len(step.job) for step in shown), default=0)
    lines = []
    for step in shown:
        took = "" if step.seconds is None or step.action in (KEEP, RESTORE) else f"{step.seconds:.0f} s"
        first, *more = step.why or [""]
        lines.append(f"{step.action:<8} {step.job:<{width}} {took:>7}  {first}".rstrip())
        lines += [f"{'':8} {'':{width}} {'':7}  {reason}" for reason in more]
    return "\n".join([*lines, counts_in_words(steps)])


def counts_in_words(steps: list[Step]) -> str:
    count = Counter(step.action for step in steps)
    if count[KEEP] == len(steps):
        return f"nothing to do: all {len(steps)} jobs are as they should be"
    known = [step.seconds for step in steps if step.may_compute and step.seconds is not None]
    words = {
        COMPUTE: "to compute",
        FOLLOW: "to compute if what runs before them comes out different",
        RESTORE: "from the store",
        KEEP: "kept",
    }
    parts = [f"{count[action]} {words[action]}" for action in words if count[action]]
    unknown = count[COMPUTE] + count[FOLLOW] - len(known)
    took = f"; at most {sum(known):.0f} s of computing, as last time" if known else ""
    return f"{', '.join(parts)}{took}{f' ({unknown} never run here)' if unknown else ''}"
