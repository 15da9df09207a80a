"""Runs one stage as a process: checks its inputs, looks in the store, runs the program, moves its outputs into place.

Snakemake runs

    r1flow-stage grpo zero_rl --run r1_tiny --config .config/zero_rl-3f2a91c07b1d.yaml \
        --out results/r1_tiny/zero_rl/manifest.json --input data=data/manifest.json \
        --input model=results/r1_tiny/base/manifest.json --log logs/r1_tiny/zero_rl.log

First the driver computes the stage's identity: a hash of its config, code, libraries, Python and its inputs' contents.
If the store has outputs of this identity, they are copied from there. Otherwise the program is imported (torch, TRL:
5 s) and works in scratch/<run>/<stage>/<identity>/, where a killed training finds its snapshots again. A lock keeps a
second process out. Outputs are moved beside `--out` by renames, the manifest last, so that a partial result is never
mistaken for a complete one.

With `--part 2-of-4` in place of `--out` it samples only that part of the stage's shards into the folder in scratch,
where the stage's own process finds them. A part has no outputs and no record; its cost is added to the stage's.
"""

import argparse
import errno
import importlib
import os
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from r1flow.artifacts import contract, manifest, provenance, store
from r1flow.artifacts.fingerprint import code_of, compute_module
from r1flow.artifacts.locks import COMPUTING, waited_for
from r1flow.core.errors import UserError, error_in_words, errors_at, printable
from r1flow.core.files import read_yaml
from r1flow.core.processes import keep_few_kernels, keep_freed_memory
from r1flow.core.rewarding import find_modules_here
from r1flow.engine import gate, gpus, launch, memory
from r1flow.programs import metrics_schema
from r1flow.programs.specs import spec_of
from r1flow.recipe.stages import ABOUT, JUDGES, MODELS, RECIPE, stage_of
from r1flow.sampling.shards import ShardPart
from r1flow.tracking.progress import FAILED, Progress
from r1flow.tracking.spool import StageRun
from r1flow.tracking.stage import Stage

# A disk with less free space counts as full: the write that failed may have left a little.
FULL_BYTES = 1_000_000


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compute one stage of a run; Snakemake calls this.")
    parser.add_argument("program", help="the program that computes it, a folder of r1flow.programs, such as grpo")
    parser.add_argument("stage", help="the stage's name, as in the results folder, such as zero_rl or evaluate/zero_rl")
    parser.add_argument(
        "--config",
        type=Path,
        required=True,
        help="the file with the stage's configuration, such as .config/zero_rl-3f2a91c07b1d.yaml",
    )
    result = parser.add_mutually_exclusive_group(required=True)
    result.add_argument("--out", type=Path, help="the manifest to write last, beside the outputs")
    result.add_argument("--part", type=parse_part, metavar="2-of-4", help="only sample this part of the stage's shards")
    parser.add_argument("--run", required=True, help="the run's name")
    parser.add_argument("--log", type=Path, help="where stdout and stderr go (default: the terminal)")
    parser.add_argument(
        "--gpus",
        type=int,
        default=1,
        help="how many GPUs to reserve for a stage with device: cuda; 0: share all visible ones (default: 1)",
    )
    parser.add_argument("--processes", type=int, help="how many processes train a stage on a CPU (default: 1)")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="an input by its name: a stage's manifest, a file or a folder; may be repeated",
    )
    arguments = parser.parse_args(argv)
    named = [item.partition("=") for item in arguments.input]
    arguments.inputs = {name: input_path(arguments.program, name, Path(path)) for name, _, path in named}
    return arguments


def parse_part(text: str) -> ShardPart:
    """Read the name that Snakemake gives to one item of a scatter, such as 2-of-4; raises ArgumentTypeError."""
    number, _, count = text.partition("-of-")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} isn't a part; write it like 2-of-4")
    return ShardPart(int(number), int(count))


def input_path(program: str, name: str, path: Path) -> Path:
    """The folder that a program reads for an input: a stage's, or for a model the one that transformers loads."""
    folder = path.parent if path.name == manifest.MANIFEST else path
    names = ("model", *JUDGES, *(MODELS if program == "search" else ()))
    # Its inputs are named by their stages, as a search's models are.
    is_model = name in names and program != "report"
    return folder / "model" if is_model and folder != path else folder


def main(argv: list[str] | None = None) -> None:
    """Run one stage as a process: exit 0 with all outputs in place, or 1 with none and the reason on the terminal.

    A part of a stage ends the same way, with its shards in scratch.
    """
    arguments = parse_arguments(argv)
    signal.signal(signal.SIGTERM, interrupt)
    with open(os.devnull) as nothing:  # empty input, so that no library waits for an answer
        os.dup2(nothing.fileno(), 0)
    what = f"{arguments.stage} {arguments.part}" if arguments.part else arguments.stage
    terminal = Progress(what, redirect_output(arguments.log), log=arguments.log)
    try:
        if arguments.part:
            metrics, how = sample_part(arguments, terminal), "done"
        else:
            metrics, how = execute(arguments, terminal)
    except KeyboardInterrupt:
        terminal.interrupted()
        sys.exit(130)
    except Exception as error:
        if not isinstance(error, UserError | launch.RankFailed | metrics_schema.IncompleteMetrics):
            print(printable(traceback.format_exc()), file=sys.stderr)
        sys.stderr.flush()
        words = in_words(error)
        terminal.failed(words)
        if arguments.log:  # where the run's last lines have it from
            print(f"{FAILED}{' '.join(words.split())}", file=sys.stderr)
        sys.exit(1)
    terminal.finished(metrics, how)


def in_words(error: Exception) -> str:
    """The error in words. A full disk is named too, because torch.save says only `unexpected pos 576 vs 534` then."""
    is_plain = isinstance(error, UserError | OSError)
    words = error_in_words(error) if is_plain else f"{type(error).__name__}: {error}"
    full = os.strerror(errno.ENOSPC)
    scratch = Path("scratch")
    if full not in words and scratch.exists() and shutil.disk_usage(scratch).free < FULL_BYTES:
        words += f" ({full}: scratch/)"
    return words


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


def execute(arguments: argparse.Namespace, terminal: Progress) -> tuple[dict[str, Any], str]:
    """Compute in scratch, or copy from the store, then publish; returns the metrics, and which of both it was."""
    stage, made_by = prepare(arguments, terminal)
    scratch = stage.work.parent
    # Of other runs too, which then take it from the store.
    result = COMPUTING / stage.name / made_by["identity"]
    # In this order everywhere: first what only this run wants, then what another run may wait for as well.
    with waited_for(scratch.parent, terminal.say), waited_for(result, terminal.say), stage.tracker:
        # What a kill left half written. Snapshots are beside it, and stay.
        shutil.rmtree(stage.work, ignore_errors=True)
        stage.work.mkdir(parents=True)
        if store.take_outputs(stage.name, made_by["identity"], stage.work):
            how = "from the store"
            stage.tracker.tag("restored", how)
            if stage_of(stage.name) == "evaluate":
                track_restored(stage)
        else:
            how = "done"
            compute(stage, arguments, made_by)
        metrics = manifest.read_json(stage.work / "metrics.json")
        manifest.publish_outputs(stage.work, arguments.out.parent)
        stage.tracker.finish(metrics, arguments.out.parent)
        # Still under the lock: another process may be waiting for this folder.
        shutil.rmtree(scratch)
    return metrics, how


def track_restored(stage: Stage) -> None:
    """Send samples of an evaluation from the store to tracking: those of evenly spaced problems, as when computed."""
    from r1flow.core.parquet import read_rows
    from r1flow.programs.evaluate.compute import TABLE_ROWS, as_asked, track

    [rows] = read_rows([stage.work / "samples.parquet"])
    first = [row for row in rows if row["sample_index"] == 0 and as_asked(row)]
    track(stage, first[:: max(1, len(first) // TABLE_ROWS)])


def sample_part(arguments: argparse.Namespace, terminal: Progress) -> dict[str, Any]:
    """Sample a part of the stage's shards into its scratch folder, unless the store has the stage's outputs."""
    stage, made_by = prepare(arguments, terminal)
    scratch = stage.work.parent
    # Other parts may hold it too, the stage itself not.
    with waited_for(scratch.parent, terminal.say, shared=True):
        if store.manifest_of(stage.name, made_by["identity"]):
            terminal.say("nothing to sample: the store has this stage")
            return {}
        folder = scratch / "parts" / str(arguments.part)
        with waited_for(folder, terminal.say), working(stage, arguments, made_by):
            begin = time.perf_counter()
            launch.check_device(arguments.program, stage.config)
            program = importlib.import_module(compute_module(arguments.program))
            rows = sum(1 for _ in program.sample_part(stage, arguments.part))
            manifest.write_json(folder / "cost.json", cost_record(begin, folder.glob("cost.json")))
    return {"rows": rows}


def prepare(arguments: argparse.Namespace, terminal: Progress) -> tuple[Stage, dict[str, Any]]:
    """The stage in its scratch folder, and what decides its outputs; raises UserError for inputs that don't fit."""
    config = read_yaml(arguments.config)
    prepare_process(config)
    ranks = launch.ranks_of(arguments.program, config, arguments.gpus, arguments.processes)
    terminal.started()
    inputs = inputs_of(arguments)
    # All refusals come before the program is imported, which takes 5 s.
    contract.check_contracts(arguments.stage, arguments.program, config, contract.of_inputs(arguments.inputs))
    gate.check_leaks(arguments.stage, arguments.program, arguments.inputs)
    made_by = provenance.describe_provenance(
        arguments.stage, arguments.program, config, code_of(arguments.program, config), inputs
    )
    scratch = Path("scratch", arguments.run, arguments.stage, made_by["identity"])
    digests = {name: entry["sha256"] for name, entry in inputs.items()}
    stage = Stage(
        name=arguments.stage,
        config=config,
        inputs=arguments.inputs,
        work=scratch / "work",
        snapshots=scratch / "snapshots",
        terminal=terminal,
        tracker=StageRun(arguments.run, arguments.stage, config, {**made_by, "inputs": digests}, **shown(arguments)),
        ranks=ranks,
    )
    return stage, made_by


def shown(arguments: argparse.Namespace) -> dict[str, Any]:
    """What MLflow shows of the stage to people; an evaluation has the colour of its model."""
    stage, _, model = arguments.stage.partition("/")
    row = RECIPE.get(model or stage)
    return {
        "about": ": ".join(filter(None, [ABOUT.get(stage, ""), model])),
        "colour": row.colour if row else None,
        "out": str(arguments.out.parent) if arguments.out else "",
        "sources": {name: str(path) for name, path in arguments.inputs.items()},
        "log": str(arguments.log) if arguments.log else None,
    }


@contextmanager
def working(stage: Stage, arguments: argparse.Namespace, made_by: dict[str, Any]) -> Iterator[None]:
    """Hold the stage's devices; raises UserError if its model can't fit, or if an input changed in the meantime."""
    import_less(made_by["libraries"])
    on_gpu = stage.config["device"] == "cuda"
    with gpus.held(arguments.gpus if on_gpu else 0, stage.terminal.say, trains=on_gpu and "trainer" in stage.config):
        memory.check_memory(arguments.program, stage.config, stage.inputs, stage.ranks)
        yield
    # Hashed a second time: else results of other bytes would be recorded, and reused, as made from these.
    now = inputs_of(arguments)
    if changed := [str(path) for name, path in arguments.inputs.items() if now[name] != made_by["inputs"][name]]:
        raise UserError(f"{', '.join(changed)} changed while the stage was computed from it; run again")


def compute(stage: Stage, arguments: argparse.Namespace, made_by: dict[str, Any]) -> None:
    """Run the program, write the provenance of its outputs beside them, and copy everything into the store."""
    with working(stage, arguments, made_by):
        measure(stage, arguments.program)
    shutil.copyfile(arguments.config, stage.work / "config.yaml")
    for weights in stage.work.rglob("*.safetensors"):  # which the library leaves to their owner alone
        shutil.copymode(stage.work / "config.yaml", weights)
    # Last of all: the manifest has the hash of every other file.
    seal(stage, made_by)
    store.store_outputs(stage.name, made_by["identity"], stage.work)


def prepare_process(config: dict[str, Any]) -> None:
    """Set what must be set before torch is imported, and let Python find a user's own reward modules."""
    # The number of threads changes results in their last bits.
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(config["threads"])
    if config["device"] == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    find_modules_here()
    keep_freed_memory()
    keep_few_kernels()


def import_less(libraries: Collection[str]) -> None:
    """Save a stage that uses them 1 to 2 s: TRL would import MLflow, and transformers scikit-learn, for nothing.

    transformers looks for it only once, so a user's own reward can still import scikit-learn afterwards.
    """
    os.environ["DISABLE_MLFLOW_INTEGRATION"] = "TRUE"
    if "transformers" not in libraries or "sklearn" in sys.modules:
        return
    sys.modules["sklearn"] = None  # imports fail, as if it weren't installed
    importlib.import_module("transformers.utils").is_sklearn_available()
    del sys.modules["sklearn"]


def inputs_of(arguments: argparse.Namespace) -> dict[str, dict[str, str]]:
    """Every input with its content's hash; raises UserError for one that is missing or isn't what its manifest says."""
    inputs = {}
    for name, path in sorted(arguments.inputs.items()):
        with errors_at(f"input {name}: "):
            inputs[name] = provenance.identify_input(path)
    return inputs


def measure(stage: Stage, program: str) -> None:
    """Compute; write metrics.json, which is an output, and cost.json, which is none because it contains times.

    Raises IncompleteMetrics if the program's metrics lack something that the metrics schema requires.
    """
    begin = time.perf_counter()
    metrics = launch.compute(program, stage)
    if fault := metrics_schema.first_fault(program, stage.config, metrics):
        raise metrics_schema.IncompleteMetrics(
            f"metrics.json: {fault}; look at {compute_module(program)}, which has to write it"
        )
    manifest.write_json(stage.work / "metrics.json", metrics)
    parts = stage.work.parent.glob("parts/*/cost.json")
    manifest.write_json(stage.work / "cost.json", {**cost_record(begin, parts), "revision": provenance.revision()})


def cost_record(begin: float, others: Iterable[Path]) -> dict[str, Any]:
    """Seconds summed over this process, since `begin`, and its parts; memory is that of the largest."""
    spent = [of_part for of_part in map(manifest.read_cost, others) if of_part]
    of_self, of_children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    unit = 1024 if sys.platform == "linux" else 1  # in bytes on macOS
    peak_mb = max(of_self.ru_maxrss, of_children.ru_maxrss) * unit / 2**20
    return {
        "seconds": round(sum((other["seconds"] for other in spent), time.perf_counter() - begin), 1),
        "peak_mb": max([round(peak_mb), *(other["peak_mb"] for other in spent)]),
    }


def seal(stage: Stage, made_by: dict[str, Any]) -> None:
    """Write the manifest of what was computed, and the provenance that names it."""
    agreed = contract.contract_of(stage.work, spec_of(made_by["program"]).labels(stage.config))
    described = manifest.manifest_of_files(stage.name, stage.work) | ({"contract": agreed} if agreed else {})
    manifest.write_json(stage.work / manifest.MANIFEST, described)
    outputs = manifest.sha256(stage.work / manifest.MANIFEST)
    manifest.write_json(stage.work / manifest.PROVENANCE, {**made_by, "outputs": outputs})
