# The words of the rules. The configuration is composed here, once, by the process that plans.

import os
import sys
from pathlib import Path

from r1flow.errors import UserError
from r1flow.run import Run
from snakemake.logging import logger

# What Snakemake says again and again between the stages' own lines.
CHATTER = ("Select jobs to execute", "Execute ", "Conda environments: ignored", "Using shell")
logger.addFilter(lambda record: not str(record.msg).startswith(CHATTER))

# A job finds `r1flow-stage` next to the Python that plans, whether its environment is activated or not.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

try:
    if workflow.is_main_process:
        RUN = Run.compose(Path(workflow.basedir), **config)
        workflow.config_settings.config_args = [f"frozen={RUN.freeze()}"]
        os.environ["R1FLOW_JOBS"] = " ".join(RUN.jobs)
    else:  # a job on another machine must see what was planned, not compose again
        RUN = Run.thaw(config["frozen"])
except UserError as error:
    sys.exit(f"r1flow: {error}")

SIDECARS = (
    "manifest.json",
    "metrics.json",
    "config.yaml",
    "provenance.json",
    "cost.json",
)


def edge(stage):
    """What the next stage waits for: the manifest, which changes when and only when an output does."""
    return f"{RUN.folder(stage)}/manifest.json"


def start(stage):
    """The edge of the model that `stage` starts from: a stage's manifest, or the files of a directory from outside."""
    source = RUN.slice(stage)["init_from"]
    return (
        edge(source)
        if RUN.starts_from_stage(stage)
        else sorted(map(str, Path(source).glob("*")))
    )


def model(stage):
    """The directory of the model that `stage` starts from."""
    source = RUN.slice(stage)["init_from"]
    return f"{RUN.folder(source)}/model" if RUN.starts_from_stage(stage) else source


def outputs(stage, *names):
    return [f"{RUN.folder(stage)}/{name}" for name in (*names, *SIDECARS)]


def targets():
    """Every output of every stage: a missing one in the middle must not go unseen."""
    models = [f"{RUN.folder(stage)}/model" for stage in RUN.models]
    return [*map(edge, RUN.jobs), *models]


wildcard_constraints:
    model="[a-z_]+",


onstart:
    RUN.begin()


onsuccess:
    RUN.end("FINISHED")


onerror:
    RUN.end("FAILED")
