"""What every stage program shares: its arguments, its log, its scratch folder, and how its outputs appear.

A program is a module of r1flow.stages with one function, `compute(stage) -> metrics`; Snakemake runs

    r1flow-stage grpo zero_rl --run r1_tiny --config .config/zero_rl-3f2a91c07b1d.yaml \
        --out results/r1_tiny/zero_rl/manifest.json --input data=data/manifest.json \
        --input model=results/r1_tiny/base/manifest.json --log logs/r1_tiny/zero_rl.log

and the program's own imports (torch, TRL: 5 s) come after the checks.

The work happens in scratch/<stage>/<identity>/, where identity is a hash of the config and the inputs' content: there a
killed training finds its snapshots again, under a lock that keeps a second process out. Outputs appear in `--out` by
renames, manifest last, so nothing partial is ever taken for whole.
"""

import argparse
import fcntl
import hashlib
import importlib
import os
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from r1flow import manifest
from r1flow.config import digest, load
from r1flow.errors import UserError
from r1flow.progress import Progress
from r1flow.tracking import StageRun

# Libraries whose version can change a result; recorded in provenance.
LIBRARIES = ("torch", "transformers", "trl", "reasoning-gym", "math-verify", "tokenizers", "numpy", "pyarrow")


@dataclass
class Stage:
    """One stage being computed: what it reads, where it writes, and whom it tells."""

    name: str  # "zero_rl", or "evaluate/zero_rl"
    run: str
    config: dict[str, Any]
    inputs: dict[str, Path]
    work: Path  # outputs are written here
    snapshots: Path  # resumable trainer state; outlives a kill
    terminal: Progress
    tracker: StageRun = field(repr=False)

    @property
    def seed(self) -> int:
        """The stage's own seed, 31 bits: from the run's and the stage's name (one name for all evaluations)."""
        name = f"{self.config['seed']}/{self.name.partition('/')[0]}"
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") >> 1

    def progress(self, done: int, total: int, **fields: float | str) -> None:
        self.terminal.update(done, total, **fields)

    def log_metrics(self, step: int, values: dict[str, float]) -> None:
        self.tracker.log_metrics(step, values)

    def log_table(self, name: str, rows: list[dict[str, Any]]) -> None:
        self.tracker.log_table(name, rows)


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compute one stage of a run; Snakemake calls this.")
    parser.add_argument("program", help="the module of r1flow.stages that computes it: grpo")
    parser.add_argument("stage", help="the stage's name, as in the results folder: zero_rl, evaluate/zero_rl")
    parser.add_argument("--config", type=Path, required=True, help="the stage's frozen slice of the configuration")
    parser.add_argument(
        "--out", type=Path, required=True, help="the manifest that appears, beside the outputs, at the end"
    )
    parser.add_argument("--run", required=True, help="the run's name")
    parser.add_argument("--log", type=Path, help="where stdout and stderr go (default: the terminal)")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="a stage's manifest, a file or a folder; repeatable",
    )
    arguments = parser.parse_args(argv)
    named = [item.partition("=") for item in arguments.input]
    arguments.inputs = {name: input_path(name, Path(path)) for name, _, path in named}
    return arguments


def input_path(name: str, path: Path) -> Path:
    """What a program reads for an edge: the stage's folder, or of a model the folder that transformers loads."""
    if name in ("model", "reward_model"):
        return path.parent / "model" if path.name == manifest.MANIFEST else path.parent if path.is_file() else path
    return path.parent if path.name == manifest.MANIFEST else path


def main(argv: list[str] | None = None) -> None:
    """Run one stage as a process: exit 0 with all outputs in place, or 1 with none and the reason on the terminal."""
    arguments = parse_arguments(argv)
    signal.signal(signal.SIGTERM, interrupt)
    terminal = Progress(arguments.stage, redirect_output(arguments.log), log=arguments.log)
    try:
        metrics = execute(arguments, terminal)
    except KeyboardInterrupt:
        terminal.interrupted()
        sys.exit(130)
    except Exception as error:
        if not isinstance(error, UserError):
            traceback.print_exc()
        sys.stderr.flush()
        terminal.failed(str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}")
        sys.exit(1)
    terminal.finished(metrics)


def interrupt(signum: int, frame: Any) -> None:
    raise KeyboardInterrupt


def redirect_output(log: Path | None) -> Any:
    """Send this process's output to the log; return a stream on the terminal that stderr was."""
    terminal = os.fdopen(os.dup(2), "w", buffering=1)
    if log:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
    return terminal


def execute(arguments: argparse.Namespace, terminal: Progress) -> dict[str, Any]:
    """Compute in scratch, then publish; returns the stage's metrics."""
    config = load(arguments.config)
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # before torch: the thread count changes bits
        os.environ[variable] = str(config["threads"])
    if config["device"] == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    manifest.check_inputs(arguments.inputs)
    provenance = describe_inputs(arguments, config)
    scratch = Path("scratch", arguments.run, arguments.stage, identity(provenance))
    terminal.started()
    with locked(scratch.parent), StageRun(arguments.run, arguments.stage, config, provenance) as tracker:
        shutil.rmtree(scratch / "work", ignore_errors=True)
        (scratch / "work").mkdir(parents=True)
        stage = Stage(
            name=arguments.stage,
            run=arguments.run,
            config=config,
            inputs=arguments.inputs,
            work=scratch / "work",
            snapshots=scratch / "snapshots",
            terminal=terminal,
            tracker=tracker,
        )
        metrics = measure(stage, arguments.program)
        shutil.copyfile(arguments.config, stage.work / "config.yaml")
        manifest.write_json(stage.work / "provenance.json", provenance)
        manifest.write_json(stage.work / manifest.MANIFEST, manifest.describe(stage.name, stage.work))
        manifest.publish(stage.work, arguments.out.parent)
        tracker.finish(metrics, arguments.out.parent)
    shutil.rmtree(scratch)
    return metrics


def measure(stage: Stage, program: str) -> dict[str, Any]:
    """Compute; write metrics.json (an output) and cost.json (not one: it has the time in it)."""
    begin = time.perf_counter()
    metrics = importlib.import_module(f"r1flow.stages.{program}").compute(stage)
    manifest.write_json(stage.work / "metrics.json", metrics)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cost = {"seconds": round(time.perf_counter() - begin, 1), "peak_mb": round(peak_mb)}
    if (stage.work / "cost.json").exists():  # the report has collected all the others'
        cost = {**manifest.read_json(stage.work / "cost.json"), stage.name: cost}
    manifest.write_json(stage.work / "cost.json", cost)
    return metrics


def describe_inputs(arguments: argparse.Namespace, config: dict[str, Any]) -> dict[str, Any]:
    """Everything that decides the outputs; the same for two runs that must give the same bytes."""
    return {
        "stage": arguments.stage,
        "config": digest(config),
        "inputs": manifest.input_digests(arguments.inputs),
        "seed": config.get("seed"),
        "threads": config["threads"],
        "device": config["device"],
        "python": ".".join(map(str, sys.version_info[:2])),
        "libraries": {name: installed(name) for name in LIBRARIES},
    }


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def identity(provenance: dict[str, Any]) -> str:
    return hashlib.sha256(repr(sorted(provenance.items())).encode()).hexdigest()[:12]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the stage's scratch folder; wait for a stage that outlived its killed Snakemake."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{folder}: another process is computing this stage; waiting for it", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
