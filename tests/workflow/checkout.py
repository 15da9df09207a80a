"""A copy of the workflow in a folder of its own, where Snakemake is run as a user would."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
HOOKS = Path(__file__).parent / "hooks"
PARTS = ("Snakefile", "conf", "workflow", "profiles", "environment.yml", "data.dvc", ".dvc/config", ".dvcignore")


@dataclass
class Checkout:
    """Such a folder."""

    folder: Path

    def snakemake(self, *arguments: str, experiment: str = "r1_micro", hooks: dict[str, str] | None = None, **words):
        """Run it to its end; `hooks` are variables of hooks/sitecustomize.py, `words` those of --config."""
        config = [f"experiment={experiment}", *(f"{key}={value}" for key, value in words.items())]
        command = [sys.executable, "-m", "snakemake", "--cores", "2", *arguments, "--config", *config]
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("MLFLOW", "R1FLOW"))}
        if hooks:
            paths = [str(HOOKS), *filter(None, [environment.get("PYTHONPATH")])]
            environment |= hooks | {"PYTHONPATH": os.pathsep.join(paths)}
        return subprocess.run(
            command,
            cwd=self.folder,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )

    def planned(self, **arguments) -> set[str]:
        """The jobs that a dry-run would start, by rule."""
        done = self.snakemake("--dry-run", "--quiet", "all", "--printshellcmds", **arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return {
            line.split("r1flow-stage ")[1].split()[1]
            for line in (done.stdout + done.stderr).splitlines()
            if "r1flow-stage" in line
        }


def checkout(folder: Path) -> Checkout:
    for part in PARTS:
        source, target = ROOT / part, folder / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        elif source.exists():
            shutil.copyfile(source, target)
    return Checkout(folder)


def wait_for_delivery(folder: Path) -> None:
    """On a busy machine it goes on after the run, and writes and removes files below the folder."""
    for process in psutil.process_iter(["cmdline", "cwd"]):
        if "r1flow.tracking.delivery" in (process.info["cmdline"] or ()) and process.info["cwd"] == str(
            folder.resolve()
        ):
            process.wait(600)
