"""One run as the workflow sees it: its name, its stages' frozen configs, folders and inputs, and what must be done.

The rules ask a `Run` for arguments and paths; it knows nothing of Snakemake. `begin` is called when the first job is
about to start (not for a dry-run or a run with nothing to do), `end` when the run has finished or failed.
"""

import os
import shlex
import shutil
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from r1flow.artifacts import frozen, manifest, store, versions
from r1flow.artifacts.fingerprint import snapshot
from r1flow.artifacts.locks import PINNED, hold, hold_run, is_held, live_lock
from r1flow.core.errors import UserError, errors_at
from r1flow.core.files import read_yaml
from r1flow.engine import config as conf
from r1flow.engine import extras
from r1flow.engine.launch import ranks_of
from r1flow.engine.plan import COMPUTE, KEEP, Step, plan
from r1flow.engine.telling import told_results
from r1flow.programs import cost_estimate
from r1flow.programs.report.making import write_making
from r1flow.programs.specs import spec_of
from r1flow.recipe.stages import MODELS, STAGES, downloads_model, program_of, sources_of, stage_of
from r1flow.tracking import spool
from r1flow.tracking.progress import FAILED
from r1flow.tracking.views import headline_metrics

FROZEN = Path(".config")
WORDS = ("experiment", "overrides", "run", "libraries")


@dataclass
class Run:
    config: dict[str, Any]  # the whole composed configuration
    # Or rerun, accept: what to do if results were computed with other versions.
    libraries: str = "refuse"
    root: Path = Path()  # where conf/ is
    overrides: str = ""  # as they were typed

    @classmethod
    def compose(
        cls,
        root: Path,
        /,
        experiment: str | int = "r1_tiny",
        overrides: str | None = "",
        run: str | int | None = "",
        libraries: str = "refuse",
        **unknown: Any,
    ) -> Self:
        """Compose and check the configuration of a run; raises UserError before anything is computed."""
        for key in unknown:
            raise UserError(f'--config {key}: use {", ".join(WORDS)}; keys of conf/ go into overrides="{key}=…"')
        if libraries not in ("refuse", "rerun", "accept"):
            raise UserError(f"--config libraries={libraries}: use rerun or accept (default: refuse)")
        if not isinstance(overrides, str | None):
            raise UserError(f'--config overrides: {overrides!r} is no text; write overrides: "a.b=1 a.c=2"')
        named = None if run in ("", "null") else run
        composed = conf.compose(root / "conf", str(experiment), overrides or "", named)
        conf.check_run(composed)
        return cls(composed, libraries, root, overrides or "")

    @classmethod
    def thaw(cls, path: str) -> Self:
        """The run that another process composed: jobs on other machines must neither compose nor plan again."""
        facts = read_yaml(Path(path))
        run = cls(facts["config"], overrides=facts["overrides"])
        run.sources, run.data_is_pinned = facts["sources"], facts["data_is_pinned"]
        run.steps = []
        return run

    def freeze(self) -> str:
        """Write every stage's slice, and the whole run for jobs on other machines; returns the path of the latter."""
        for stage in STAGES:  # before Snakemake looks up which files exist
            self.frozen(stage)
        facts = {
            "config": self.config,
            "sources": self.sources,
            "data_is_pinned": self.data_is_pinned,
            "overrides": self.overrides,  # for `r1flow runs`
        }
        return str(frozen.freeze("run", facts, FROZEN))

    @property
    def notes(self) -> list[str]:
        """What was set in this run because of something else, a line each."""
        return self.config.get("notes", [])

    @property
    def name(self) -> str:
        return self.config["run"]

    @property
    def experiment(self) -> str:
        return self.config["experiment"]

    @cached_property
    def stages(self) -> list[str]:
        """The stages this experiment asks for, in dataflow order; raises UserError for a circle."""
        waiting = [stage for stage in STAGES if stage in self.config["stages"]]
        ordered: list[str] = []
        while waiting:
            ready = [stage for stage in waiting if not set(self.sources_of(stage).values()) & set(waiting)]
            if not ready:
                raise UserError(f"{waiting[0]}.init_from: {', '.join(waiting)} start from each other; break the circle")
            ordered.append(ready[0])
            waiting.remove(ready[0])
        return ordered

    @property
    def models(self) -> list[str]:
        """The stages that make a language model: the ones that are evaluated."""
        return [stage for stage in self.stages if stage in MODELS]

    @property
    def jobs(self) -> list[str]:
        """Every job of the run in dataflow order; evaluate is one job per model."""
        before = [stage for stage in self.stages if stage not in ("evaluate", "report")]
        evaluations = [f"evaluate/{model}" for model in self.models] if "evaluate" in self.stages else []
        return [*before, *evaluations, *(["report"] if "report" in self.stages else [])]

    def slice(self, stage: str) -> dict[str, Any]:
        return self.config[stage]

    def frozen(self, stage: str) -> str:
        """The content-addressed file of the stage's slice."""
        return self.slices[stage]

    @cached_property
    def slices(self) -> dict[str, str]:
        """The slices' files of all stages, written once and compared if they are there already."""
        return {stage: str(frozen.freeze(stage, self.slice(stage), FROZEN)) for stage in STAGES}

    def folder(self, stage: str) -> str:
        """Where the stage's outputs are; data that data.dvc pins has a place of its own, shared by all runs."""
        return "data" if stage == "data" and self.data_is_pinned else f"results/{self.name}/{stage}"

    @cached_property
    def data_is_pinned(self) -> bool:
        """Whether data.dvc pins exactly this run's data: it names the hash of the slice that the data was made from."""
        return versions.pinned().get("config") == frozen.config_digest(self.slice("data"))

    def inputs(self, job: str) -> dict[str, str]:
        """What a job reads, by name: the job that makes it, or a path from outside."""
        stage = stage_of(job)
        if stage == "report":
            return {other: other for other in self.jobs if other != "report"}
        if stage == "evaluate":
            return {"data": "data", "model": job.partition("/")[2]}
        return self.sources_of(stage)

    def sources_of(self, stage: str) -> dict[str, str]:
        """`inputs` of the stages whose outputs others compute from: all but evaluate and report."""
        if stage in ("evaluate", "report"):
            return {}
        if stage == "data":
            outside = self.slice("data").get("sources", {}).items()
            folders = {f"source_{name}": source["repo"] for name, source in outside if not source["revision"]}
            return folders | ({"pin": str(versions.POINTER)} if self.data_is_pinned else {})
        return sources_of(stage, self.slice(stage), self.config["stages"])

    def path(self, source: str) -> str:
        """The file or folder to give a stage for an input: a job's manifest, or the path itself."""
        return f"{self.folder(source)}/{manifest.MANIFEST}" if self.is_job(source) else source

    def is_job(self, source: str) -> bool:
        return source in STAGES or source.startswith("evaluate/")

    def arguments(self, job: str) -> str:
        """The inputs of a job as r1flow-stage's arguments, quoted: a folder's name may contain a space or a quote."""
        words = []
        for name, source in self.inputs(job).items():
            words += ["--input", f"{name}={self.path(source)}"]
        return shlex.join(words)

    @cached_property
    def steps(self) -> list[Step]:
        """What this run would do; raises UserError for a job to compute that couldn't run."""
        steps = plan(self)
        for stage in dict.fromkeys(stage_of(step.job) for step in steps if step.action == COMPUTE):
            spec_of(program_of(stage, self.slice(stage))).check_anew(self.slice(stage))
        return steps

    def check_libraries(self) -> None:
        """Raise UserError if libraries changed since kept jobs were computed, unless the user said rerun or accept."""
        moved = {step.job: step.moved for step in self.steps if step.moved}
        if moved and self.libraries == "refuse":
            changed: set[str] = set()
            for libraries in moved.values():
                changed.update(f"{name} {change}" for name, change in libraries.items())
            changes = ", ".join(sorted(changed))
            raise UserError(
                f"{changes}: these versions have changed since finished jobs were computed "
                f"({', '.join(moved)}); add libraries=rerun after --config to compute them again, or libraries=accept "
                "to keep them, which is noted in their provenance"
            )

    def check_gpus(self, given: Mapping[str, int]) -> None:
        """Refuse numbers of GPUs, given by stage, that a stage's step can't be divided among; raises UserError."""
        for stage in filter(given.__contains__, self.stages):
            config, count = self.slice(stage), given[stage]
            with errors_at(f"--set-resources {stage}:gpu={count}: "):
                ranks_of(program_of(stage, config), config, count)

    @property
    def missing(self) -> list[str]:
        """What the jobs to compute need and this machine lacks, a line each: libraries, a sandbox, servers."""
        stages = dict.fromkeys(stage_of(step.job) for step in self.steps if step.may_compute)
        if stages:  # its problems may ask for code, which other stages run
            stages = {"data": None} | stages
        return extras.missing({stage: self.slice(stage) for stage in stages})

    def is_computed(self, job: str) -> bool:
        """Whether the job's program may start: it is neither kept nor in the store."""
        return any(step.job == job and step.may_compute for step in self.steps)

    def first(self, job: str) -> list[str]:
        """All upstream jobs that this plan runs, transitively: Snakemake doesn't look behind a kept job."""
        runs = [step.job for step in self.steps if step.action != KEEP]
        above = self.upstream(job) if job in runs else set()
        return [other for other in runs if other in above]

    def chain(self, stage: str) -> int:
        """Length of the longest chain below; used as priority, so that the critical path starts first."""
        next_ones = [other for other in self.stages if stage in self.sources_of(other).values()]
        # A stage with a model has its evaluation below it, also where no other stage reads it.
        return max((1 + self.chain(other) for other in next_ones), default=int(stage in MODELS))

    def priority(self, stage: str) -> int:
        """Snakemake's: what is downloaded comes first, as it may fail; then what the longest chain waits for."""
        config = self.slice(stage)
        return self.chain(stage) + len(self.stages) * ("sources" in config or downloads_model(config))

    def upstream(self, job: str) -> set[str]:
        direct = {source for source in self.inputs(job).values() if self.is_job(source)}
        return direct.union(*map(self.upstream, direct))

    def reason(self, job: str) -> list[str]:
        """Write a file, newer than the job's outputs, that says why the job runs; empty for a job that is kept.

        Snakemake sees it as an updated input and runs the job. The outputs' own times and Snakemake's records decide
        nothing: every other input is ancient(), unless this run computes it anew.
        """
        step = next(step for step in self.steps if step.job == job)
        if step.action == KEEP:
            return []
        text = "\n".join([f"{job}: {step.action}", *step.why])
        path = FROZEN / "reasons" / self.name / f"{job.replace('/', '.')}-{frozen.config_digest({'text': text})}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        # Snakemake compares dates, and contents too: the file must be newer than all outputs, and unlike any before it.
        path.write_text(f"{text}\n{time.time_ns()}\n")  # unlike any content that Snakemake has seen
        newest = max((file.stat().st_mtime for file in Path(self.folder(job)).rglob("*")), default=0.0)
        os.utime(path, (max(time.time(), newest + 0.001),) * 2)
        return [str(path)]

    @cached_property
    def sources(self) -> str:
        """The copy of the code that this run's stages import: edits during a live run don't reach it."""
        return str(snapshot([self.slice(stage) for stage in self.stages], FROZEN))

    def equip_jobs(self) -> None:
        """Set the jobs' environment: where `r1flow-stage` is (activated or not), the run's code, the order of jobs."""
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        others = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(self.sources).resolve()), others]))
        os.environ["R1FLOW_JOBS"] = " ".join(self.jobs)
        os.environ["PYTHONUTF8"] = "1"

    def begin(self) -> None:
        """Refuse a run that is live already or can't finish, store what is replaced, open the MLflow record."""
        self.locks = hold_run(self.name)
        if missing := self.missing:
            raise UserError("; ".join(missing))
        self.check_disk()
        kept = [step.job for step in self.steps if step.action == KEEP]
        if self.data_is_pinned:
            self.locks.append(hold(PINNED, shared="data" in kept, what="another run reads or makes data/"))
        if orphan := next((job for job in kept if is_held(Path("scratch", self.name, job, "lock"))), None):
            raise UserError(f"{orphan} is still being computed by a stage whose run was killed; wait for it or stop it")
        for job in self.jobs:
            if job not in kept:
                store.keep_whole(job, Path(self.folder(job)))
        facts = {"experiment": self.experiment, "seed": str(self.config["seed"]), "overrides": self.overrides}
        evaluated = self.models if "evaluate" in self.stages else []
        headlines = headline_metrics(evaluated, self.scores(kept))
        shown = {"overridden": self.overridden, "headlines": headlines, "traces": self.config["traces"]}
        spool.start_execution(self.name, Path.cwd(), facts, self.config, **shown)

    @property
    def overridden(self) -> dict[str, str]:
        """The keys that the overrides name, with their values as typed."""
        words = [word.lstrip("+~").partition("=") for word in shlex.split(self.overrides)]
        return {key: value for key, _, value in words}

    def is_current(self, job: str) -> bool:
        """Whether the job's outputs are this run's: it kept them, or they were written since it began."""
        kept = any(step.job == job and step.action == KEEP for step in self.steps)
        return Path(self.path(job)).exists() if kept else self.is_written(self.path(job))

    def is_written(self, path: str | Path) -> bool:
        """Whether a file was written since the run began, by ctime: what comes from the store has its older mtime."""
        return Path(path).exists() and Path(path).stat().st_ctime >= live_lock(self.name).stat().st_mtime

    def scores(self, jobs: list[str]) -> dict[str, dict[str, float]]:
        """pass@1 on reasoning and on general problems, by model, of the evaluations among these jobs."""
        scores = {}
        for job in filter(lambda job: job.startswith("evaluate/"), jobs):
            tasks = manifest.read_json(Path(self.folder(job), "metrics.json"))["tasks"]
            names = [name for name in ("reasoning", "general") if name in tasks]
            scores[job.partition("/")[2]] = {name: tasks[name]["pass_at_1"] for name in names}
        return scores

    def check_disk(self) -> None:
        """Refuse a run that a disk has no room for; what a killed run left in scratch/ counts as room."""
        computed = [step.job for step in self.steps if step.may_compute]
        models, snapshot = cost_estimate.disk_certain([cost for cost in self.costs if cost.job in computed])
        there = sum(file.stat().st_size for file in Path("scratch", self.name).rglob("*") if file.is_file())
        # Models are counted twice: the store keeps copies.
        needs = {"results": models, "scratch": snapshot - there, str(store.STORE): models}
        disks: dict[int, list[Path]] = {}
        for path in map(Path, needs):  # each may be a link
            disks.setdefault((path if path.is_dir() else Path()).stat().st_dev, []).append(path)
        for paths in disks.values():
            need = sum(needs[str(path)] for path in paths)
            have = shutil.disk_usage(paths[0] if paths[0].is_dir() else Path()).free
            if need > have and paths != [store.STORE]:  # a full store costs only a warning
                raise UserError(
                    f"{', '.join(map(str, paths))}: the run's models, their copies in the store and snapshots take"
                    f" {need / 1e9:.2f} GB and {have / 1e9:.2f} GB are free; make room (`r1flow clean --dry-run` lists"
                    " what can go)"
                )

    def clamp_times(self) -> None:
        """Set future times of files that jobs read to now: Snakemake would find jobs' outputs older and delete them.

        After each job it compares the outputs with all inputs, ancient() or not.
        """
        now = time.time()
        folders = [Path("scratch", self.name, "parts"), *(Path(self.folder(job)) for job in self.jobs)]
        files = [versions.POINTER, *FROZEN.glob("*.yaml")]
        for folder in folders:
            files += folder.rglob("*")
        for path in files:
            with suppress(OSError):  # gone, or somebody else's
                if path.stat().st_mtime > now:
                    os.utime(path)

    @cached_property
    def costs(self) -> list[cost_estimate.Cost]:
        """What each job would cost; rows of the data files are counted if the data is there, and else estimated."""
        counted, schema = {}, Path(self.folder("data"), "schema.json")
        if schema.is_file() and self.steps[0].action == KEEP:
            counted = {Path(name).stem: about["rows"] for name, about in manifest.read_json(schema).items()}
        assumed = cost_estimate.read_assumptions(self.root / cost_estimate.ASSUMPTIONS)
        return cost_estimate.estimate(self, assumed, counted)

    def end(self, status: str, reasons: Sequence[str] = ()) -> None:
        """Close the run's record, with what it came to or, if it failed, why."""
        current = [job for job in self.jobs if self.is_current(job)]
        told, tags = list(reasons), {}
        if "report" in current:
            told += told_results(self)
            verdicts = Counter(claim["verdict"] for claim in self.summary["claims"].values())
            tags["verdicts"] = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
        report = Path(self.folder("report"))
        if Path(self.path("report")).exists():
            write_making(self.name, {job: Path(self.folder(job)) for job in self.jobs}, report)
        pages = report if "report" in current else None
        spool.end_execution(self.name, Path.cwd(), status, "\n".join(told), tags, self.scores(current), pages)

    def failures(self) -> list[str]:
        """The jobs and parts that have failed since this run began, each with its reason and where its log is."""
        failed = []
        for log in sorted(Path("logs", self.name).rglob("*.log")):
            lines = log.read_text(errors="replace").splitlines() if self.is_written(log) else []
            if lines and lines[-1].startswith(FAILED):
                job = log.relative_to(Path("logs", self.name)).with_suffix("")
                failed.append(f"{job} failed: {lines[-1].removeprefix(FAILED)} ({log})")
        return failed

    @property
    def summary(self) -> dict[str, Any]:
        """What the report says, for programs; empty without one."""
        path = Path(self.folder("report"), "summary.json")
        return manifest.read_json(path) if "report" in self.jobs and path.is_file() else {}

    def accept(self) -> None:
        """Write into the provenance of kept jobs that other library versions were accepted for them."""
        moved = [step for step in self.steps if step.moved and step.action == KEEP]
        if moved:
            locks = hold_run(self.name)
            for step in moved:
                path = Path(self.folder(step.job), manifest.PROVENANCE)
                then = manifest.read_json(path)
                now = {name: change.partition(" → ")[2] for name, change in step.moved.items()}
                manifest.write_json(path, {**then, "accepted": {**then.get("accepted", {}), **now}})
            for lock in locks:
                lock.close()
