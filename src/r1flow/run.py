"""One run as the workflow sees it: its name, its stages' frozen configs, its folders, and that only one is live.

The rules ask a `Run` for words and paths; it knows nothing of Snakemake. `begin` is called when the first job is about
to start (not for a dry-run or a run with nothing to do), `end` when the last one has.
"""

import fcntl
import os
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from r1flow import config as conf
from r1flow import tracking, versions
from r1flow.errors import UserError

FROZEN = Path(".config")


@dataclass
class Run:
    config: dict[str, Any]  # the whole composed configuration

    @classmethod
    def compose(
        cls, root: Path, experiment: str = "r1_tiny", overrides: str | None = "", run: str | None = "", **unknown: Any
    ) -> Self:
        """Compose and check the configuration of a run; raises UserError before anything is computed."""
        for key in unknown:
            raise UserError(
                f"--config {key}: the words are experiment, overrides and run; keys of conf/ go in overrides"
            )
        words = overrides or ""  # Snakemake reads `overrides=` as None
        if run:
            words += f" run={run}"
        composed = conf.compose(root / "conf", experiment, words)
        conf.check(composed)
        return cls(composed)

    @classmethod
    def thaw(cls, path: str) -> Self:
        """The run that another process composed: jobs on other machines must not compose again."""
        return cls(conf.load(Path(path)))

    def freeze(self) -> str:
        return str(conf.freeze("run", self.config, FROZEN))

    @property
    def name(self) -> str:
        return self.config["run"]

    @property
    def stages(self) -> list[str]:
        """The stages this experiment asks for, in dataflow order."""
        return [stage for stage in conf.STAGES if stage in self.config["stages"]]

    @property
    def models(self) -> list[str]:
        """The stages that make a language model: the ones that are evaluated."""
        return [stage for stage in self.stages if stage not in conf.NOT_MODELS]

    @property
    def jobs(self) -> list[str]:
        """Every job of the run in dataflow order; evaluate is one job per model."""
        before = [stage for stage in self.stages if stage not in ("evaluate", "report")]
        return [*before, *(f"evaluate/{model}" for model in self.models), "report"]

    def slice(self, stage: str) -> dict[str, Any]:
        return self.config[stage]

    def frozen(self, stage: str) -> str:
        """The content-addressed file of the stage's slice."""
        return str(conf.freeze(stage, self.slice(stage), FROZEN))

    def folder(self, stage: str) -> str:
        """Where the stage's outputs are; data that data.dvc pins has a place of its own, shared by all runs."""
        return "data" if stage == "data" and self.data_is_pinned else f"results/{self.name}/{stage}"

    @cached_property
    def data_is_pinned(self) -> bool:
        """Whether data.dvc is the contract on just this data: it names the hash of the slice it was made from."""
        return versions.pinned().get("config") == conf.digest(self.slice("data"))

    def starts_from_stage(self, stage: str) -> bool:
        return self.slice(stage)["init_from"] in conf.STAGES

    def weights(self, source: str) -> str:
        """The file to watch of a model directory: its weights, or the index of their shards."""
        names = [f"{source}/model.safetensors", f"{source}/model.safetensors.index.json"]
        return next((name for name in names if Path(name).exists()), names[0])

    def equip_jobs(self) -> None:
        """What this process's jobs find in their environment: `r1flow-stage`, activated or not, and their place."""
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        os.environ["R1FLOW_JOBS"] = " ".join(self.jobs)

    def begin(self) -> None:
        """Refuse a second live run in this folder, then open the run's record in MLflow."""
        self.lock = hold(Path("scratch/live.lock"))
        tracking.start_execution(self.name, Path.cwd(), {"experiment": self.config["experiment"]}, self.config)

    def end(self, status: str) -> None:
        tracking.end_execution(self.name, Path.cwd(), status)


def hold(path: Path) -> Any:
    """Take the lock for as long as this process lives (a kill frees it); raises UserError when another has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        raise UserError(
            f"a run is live in this folder already ({file.read().strip()}); wait for it or stop it"
        ) from None
    file.truncate(0)
    file.write(f"process {os.getpid()}")
    file.flush()
    return file
