# The words of the rules. The configuration is composed here, once, by the process that plans.

import sys
from pathlib import Path

from r1flow.errors import UserError
from r1flow.run import Run
from snakemake.logging import logger

# What Snakemake says again and again between the stages' own lines.
CHATTER = (
    "Select jobs to execute",
    "Execute ",
    "Conda environments: ignored",
    "Using shell",
)
logger.addFilter(lambda record: not str(record.msg).startswith(CHATTER))

try:
    if workflow.is_main_process:
        RUN = Run.compose(Path(workflow.basedir), **config)
        workflow.config_settings.config_args = [f"frozen={RUN.freeze()}"]
        RUN.equip_jobs()
    else:  # a job on another machine must see what was planned, not compose again
        RUN = Run.thaw(config["frozen"])
except UserError as error:
    sys.exit(f"r1flow: {error}")


def edge(stage):
    """What the next stage waits for: the manifest, which changes when and only when an output does."""
    return f"{RUN.folder(stage)}/manifest.json"


def start(stage):
    """The edge of the model that `stage` starts from: a stage's manifest, or the weights of a directory from outside."""
    source = RUN.slice(stage)["init_from"]
    if source is None:  # from scratch
        return []
    return edge(source) if RUN.starts_from_stage(stage) else RUN.weights(source)


def outputs(stage, *names):
    """A stage's own files, and those that every stage writes beside its manifest."""
    common = ("metrics.json", "config.yaml", "provenance.json", "cost.json")
    return [f"{RUN.folder(stage)}/{name}" for name in (*names, *common)]


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
