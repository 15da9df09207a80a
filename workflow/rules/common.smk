# What the rules share: the run, and functions for their inputs, outputs and parameters. The process that plans
# composes the configuration here, once.

import atexit
import os
import re
import signal
import sys
import threading
from pathlib import Path

import yaml


def on_interrupt(answer):
    """Have Ctrl-C answered by this function."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, answer)


def give_up(*_):
    """End at once, as nothing is there to be stopped; sys.exit is lost where other code catches it."""
    os.write(2, b"r1flow: interrupted before anything was started\n")
    os._exit(1)


on_interrupt(give_up)

from r1flow.engine.checks import check_parts, check_place, check_rules, check_slurm
from r1flow.core.errors import UserError, error_in_words, printable
from r1flow.engine.plan import table
from r1flow.programs.samplings import sampled_stages
from r1flow.programs.specs import check_programs, check_recipe, spec_of
from r1flow.recipe.stages import MODELS, RECIPE, program_of, stage_of
from r1flow.engine.run import Run
from r1flow.engine.telling import Telling, outcome
from snakemake.logging import logger
from snakemake_interface_logger_plugins.common import LogEvent

# Messages that Snakemake repeats between the stages' own lines; they are left out, and so is what says no more than
# that a stage has failed: the run ends with the reason (`endings`).
CHATTER = (
    "Select jobs to execute",
    "Execute ",
    "Conda environments: ignored",
    "Using shell",
    "Touching output file",
    "Missing metadata for file",  # in an archive, whose folders and pages are no outputs of a run
    "Exiting because a job execution failed",
)
STAGE_FAILED = re.compile(
    r"RuleException:\nCalledProcessError.*\nCommand '.*r1flow-stage \S+ (\S+) .*"
    r"(returned non-zero exit status 1(?:30)?\.|died with <Signals\.(\w+))",
    re.S,
)
FAILED_BY_ITSELF = "returned non-zero exit status 1."
KILLED = (
    "SIGKILL mostly comes from the kernel, when memory runs out (`dmesg` tells). The same command goes on where the"
    " stage was; with a smaller batch_size or trainer.per_device_train_batch_size it needs less memory, and begins again."
)
INTERRUPTED = "interrupted; the same command goes on where the stages were"
STOPPING = "Will exit after finishing currently running jobs (scheduler)"  # what Snakemake says at SIGTERM, repeatedly
STOPPED = "stopped by SIGTERM; the same command goes on with the stages that are left"
endings = []  # what a run that failed or was interrupted says last
lost = {}  # of a job on a cluster that ended, or wasn't taken: what the cluster said of it
stopped = []  # and what it says of stages that a signal ended, unless the run itself was interrupted


def say(line):
    """Print a line of the run's own, whole, between those of its stages."""
    os.write(2, f"r1flow: {printable(line)}\n".encode())


def note_lost(record):
    """Say why a cluster's job failed: Snakemake says nothing of it, and tries the job again."""
    job = str(Path(record.log[0]).relative_to(f"logs/{RUN.name}").with_suffix(""))
    words = re.split(r"\n *sbatch call:|For further error details", record.rule_msg)[0]
    lost[job] = " ".join([f"{job}:", *words.split(), *(f"({log})" for log in record.log[1:])])
    say(lost[job])


def is_told(record):
    """Whether Snakemake's message is shown; what it says of a stage's end, the stage or the run's last lines say."""
    if getattr(record, "event", None) == LogEvent.JOB_STARTED and (line := TELLING.progress()):
        say(line)
    if getattr(record, "event", None) == LogEvent.JOB_ERROR and record.rule_msg:  # None of a job on this machine
        note_lost(record)
    text = str(record.msg)
    if found := STAGE_FAILED.match(text):
        if found[3] == "SIGKILL":
            endings.append(f"{found[1]} was killed. {KILLED}")
        elif found[2] != FAILED_BY_ITSELF:
            stopped.append(f"{found[1]} was ended by {found[3] or 'a signal'}; the same command goes on where it was")
        return False
    if text.startswith(STOPPING):
        if STOPPED not in endings:
            endings.append(STOPPED)
            say("SIGTERM: the stages at work are finished, and no other begins")
        return False
    if text.startswith("WorkflowError:\nAt least one job did not complete"):
        return not (endings or stopped or lost)
    return not text.startswith(CHATTER)


logger.addFilter(is_told)


def interrupt(signum, frame):
    """Stop at the first Ctrl-C, once; Snakemake would end with tracebacks at the second."""
    on_interrupt(lambda *_: os.write(2, b"r1flow: the stages are being stopped; wait a moment\n"))
    endings.append(INTERRUPTED)
    raise KeyboardInterrupt


def gpus_given():
    """The GPUs that --set-resources or a profile gives to rules, except expressions (2*attempt), which need the job."""
    given = workflow.resource_settings.overwrite_resources.items()
    counts = {rule: resources["gpu"] for rule, resources in given if "gpu" in resources}
    return {rule: gpu.value for rule, gpu in counts.items() if not gpu.is_evaluable()}


def as_typed():
    """The words after --config and in files after --configfile as they were typed, and as `r1flow plan` reads them.

    Snakemake makes 7 of run=007 and cuts text at a #; YAML makes 7 of run: 007 and a date of run: 2026-11-27.
    """
    typed = dict(config)
    for path in workflow.config_settings.configfiles or []:
        written = yaml.load(Path(path).read_text(), Loader=yaml.BaseLoader)  # every value as text
        typed |= {key: text for key, text in written.items() if config.get(key) is not None}
    pairs = (word.split("=", 1) for word in workflow.config_settings.config_args or [])
    return {**typed, **dict(pairs)}


try:
    if workflow.is_main_process:
        check_place()
        check_programs()
        check_recipe()
        check_parts(workflow.resource_settings.overwrite_scatter)
        check_rules(workflow.resource_settings.overwrite_resources)
        RUN = Run.compose(Path(workflow.basedir), **as_typed())
        RUN.check_gpus(gpus_given())
        RUN.check_libraries()
        for line in RUN.notes:
            logger.info(f"r1flow: {printable(line)}")
        if not workflow.output_settings.dryrun:
            RUN.accept()
            RUN.clamp_times()
        else:
            for line in RUN.missing:
                logger.warning(f"r1flow: a run would be refused on this machine: {printable(line)}")
            atexit.register(print, printable(table(RUN.steps)))  # comes after Snakemake's last line
        workflow.config_settings.config_args = [f"frozen={RUN.freeze()}"]
        REASONS = {job: RUN.reason(job) for job in RUN.jobs}
    else:  # a job on another machine must see what was planned, not compose and plan again
        RUN = Run.thaw(config["frozen"])
        REASONS = {}
    RUN.equip_jobs()
except (UserError, OSError) as error:
    sys.exit(f"r1flow: {printable(error_in_words(error))}")
TELLING = Telling(RUN)


# How many jobs sample a stage's shards at once: --set-scatter rejection=8 evaluate=2, or set-scatter in a profile.
scattergather:
    **dict.fromkeys(sampled_stages(), 1),


# Every rule runs this; what differs is in the recipe's table (src/r1flow/recipe/stages.py) and in the stage's config.
STAGE = (
    "r1flow-stage {params.program:q} {params.stage:q} --run {params.run:q} --config {input.config:q} "
    "{params.inputs} --log {log:q} --gpus {resources.gpu}"
)
COMMAND = f"{STAGE} --out {{output.manifest:q}}"
STAMPS = f"scratch/{RUN.name}/parts"


def manifest_of(job):
    """What the next stage waits for: the manifest, which changes when and only when an output does."""
    return RUN.path(job)


def inputs(job):
    """The job's config and what it reads, by name; `reason` and `after` are there when the plan says that it must run.

    Snakemake must ignore file times, because the plan has already compared contents (src/r1flow/engine/plan.py). So
    every input is ancient(), except what this run computes anew, for the jobs that wait for it.
    """
    first = RUN.first(job)
    sources = {
        name: source
        for name, source in RUN.inputs(job).items()
        if RUN.is_job(source) or name == "pin"
    }
    reads = {
        name: manifest_of(source) if source in first else ancient(manifest_of(source))
        for name, source in sources.items()
    }
    return {
        "config": ancient(RUN.frozen(stage_of(job))),
        **reads,
        "reason": REASONS.get(job, []),
        "after": [manifest_of(other) for other in first if other not in sources.values()],
    }


def facts(job):
    """The parameters of the job's command line, beside its input and output."""
    program, arguments = program_of(job, RUN.slice(stage_of(job))), RUN.arguments(job)
    return {
        "run": RUN.name,
        "stage": lambda wildcards: job,  # as plain text, `data` looks to the linter like part of the path data/rl.jsonl
        "program": lambda wildcards: program,
        "inputs": lambda wildcards: arguments,  # in plain text, the braces of a path would be Snakemake's wildcards
    }


def parts(job):
    """Marker files of jobs that sample a part of its shards; empty if one job samples all, or nothing is computed."""
    if stage_of(job) not in sampled_stages():
        return []
    stamps = getattr(gather, stage_of(job))(f"{STAMPS}/{job}.{{scatteritem}}")
    return stamps if len(stamps) > 1 and RUN.is_computed(job) else []


def gpus(stage):
    """How many devices the stage holds, unless a profile or --set-resources says otherwise."""
    config = RUN.slice(stage)
    return int(config["device"] == "cuda" and spec_of(program_of(stage, config)).on_gpu)


def resources_of(stage):
    """The devices that the stage holds and, for a program whose jobs are long, the minutes that a cluster gives it.

    A profile's set-resources or --set-resources replace them. On this machine nothing limits a job's minutes.
    """
    minutes = spec_of(program_of(stage, RUN.slice(stage))).runtime
    return {"gpu": gpus(stage)} | ({"runtime": minutes} if minutes else {})


def gpus_of_rule(stage, wildcards, **given):
    """How many devices a part of the stage holds: as many as the stage's own job, whatever that was set to.

    An expression (2*attempt) is evaluated for the part, from what Snakemake gives to a resource's function.
    """
    gpu = workflow.get_rule(stage).resources["gpu"]
    return gpu.evaluate(wildcards, **given).value


# Whether `snakemake --report` writes an archive (run.zip), or all in one page (run.html); neither in a run.
IS_REPORT = any(word.partition("=")[0] == "--report" for word in sys.argv)
IS_ARCHIVE = IS_REPORT and any(word.endswith(".zip") for word in sys.argv)
# What it shows: of a stage, a file and what the list calls it; workflow/report/ has their captions.
PAGES = {
    ("report", "report.html"): {"page": "report"},
    ("report", "samples.html"): {"page": "all completions"},
    ("report", "making.html"): {"page": "cost and provenance"},
    ("evaluate", "metrics.json"): {"scores of": "{model}"},
}


def outputs(job):
    """The job's own files and folders, and the files that every stage writes beside its manifest."""
    stage, folder = stage_of(job), RUN.folder(job)
    own = spec_of(program_of(stage, RUN.slice(stage))).outputs(RUN.slice(stage))
    common = ["metrics.json", "config.yaml", "provenance.json", "cost.json"]
    # It has times, so it is made when a run ends, and is no output but for Snakemake's report.
    if stage == "report" and IS_REPORT and Path(folder, "making.html").is_file():
        common.append("making.html")
    files = [flagged(stage, name, f"{folder}/{name}") for name in [*own, *common]]
    # Whole, since an archive has files one by one in folders of their own, where no link leads to another.
    if stage == "report" and IS_ARCHIVE:
        shown = {"htmlindex": "report.html", "category": "Report", "labels": PAGES["report", "report.html"]}
        files.append(report(directory(folder), caption="../report/report-report.rst", **shown))
    return files


def flagged(stage, name, path):
    category = "Evaluations" if stage == "evaluate" else "Report"
    is_shown = IS_REPORT and not (IS_ARCHIVE and stage == "report")
    if is_shown and (stage, name) == ("report", "files/"):  # it has the viewer's pages after the first, too
        shown = {"patterns": ["samples-{number}.html"], "caption": "../report/report-samples.rst"}
        labels = {"page": "all completions, page {number}"}
        return report(directory(path.removesuffix("/")), category=category, labels=labels, **shown)
    if name.endswith("/"):
        return directory(path.removesuffix("/"))
    if is_shown and (stage, name) in PAGES:
        caption = f"../report/{stage}-{Path(name).stem}.rst"
        return report(path, caption=caption, category=category, labels=PAGES[stage, name])
    return path


def targets():
    """The manifest of every job and the folder of every model, so that a missing one in the middle is noticed."""
    models = [f"{RUN.folder(stage)}/model" for stage in RUN.models]
    return [*map(manifest_of, RUN.jobs), *models]


wildcard_constraints:
    model="|".join(MODELS),


onstart:
    try:
        if workflow.executor_plugin.name == "slurm":
            check_slurm()
        RUN.begin()
    except (UserError, OSError) as error:
        sys.exit(f"r1flow: {printable(error_in_words(error))}")
    if workflow.local_exec:
        say(TELLING.opening(workflow.cores))
    on_interrupt(interrupt)


onsuccess:
    RUN.end("FINISHED")
    atexit.register(print, outcome(RUN), file=sys.stderr)


onerror:
    failures = RUN.failures()
    endings.extend(failures)
    was_ended = bool({INTERRUPTED, STOPPED} & {*endings})
    if not was_ended:
        said = {failure.partition(" failed: ")[0] for failure in failures}
        endings.extend([*stopped, *(lost[job] for job in lost if job not in said and not RUN.is_current(job))])
    RUN.end("KILLED" if was_ended else "FAILED", endings)
    lines = [f"r1flow: {printable(ending)}" for ending in endings]
    atexit.register(print, "\n".join(lines), file=sys.stderr)
