"""What a run costs before it starts: tokens, FLOPs, hours, disk and memory of every job, from the configs alone.

FLOPs are counted as for `flops` in metrics.json (core/flops.py). Sampling is one forward pass over prompt and
completion. Training is one forward and backward pass per iteration; a KL term and the correction of vLLM's numerics add
one forward pass each. All assumptions (lengths, shares of the peak, GPUs,
shapes of models on a hub) are in conf/costs.yaml; a number that can't be known is nan and printed as `?`. How many
tokens a program samples and trains on, and what it keeps in memory, is in its spec.py. Left out: adapters, loading
and saving, the hub's cache.
"""

import math
import os
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1flow.artifacts.manifest import read_json
from r1flow.core.errors import UserError, did_you_mean
from r1flow.core.files import read_yaml
from r1flow.engine.plan import KEEP
from r1flow.programs.costs import UNKNOWN, Cost, Estimator, model_in
from r1flow.programs.specs import spec_of
from r1flow.recipe.stages import program_of, stage_of
from r1flow.training.ranks import strategy_of

if TYPE_CHECKING:
    from r1flow.engine.run import Run

ASSUMPTIONS = Path("conf/costs.yaml")


@cache
def read_assumptions(path: Path = ASSUMPTIONS) -> dict[str, Any]:
    return read_yaml(path)


def estimate(run: "Run", assumed: dict[str, Any]) -> list[Cost]:
    """The cost of every job of a run, kept ones too, in dataflow order."""
    estimator = Estimator(run, assumed, counted(run))
    configs = {job: run.slice(stage_of(job)) for job in run.jobs}
    specs = {job: spec_of(program_of(job, config)) for job, config in configs.items()}
    costs = [(spec.cost or unknown)(estimator, job, configs[job]) for job, spec in specs.items()]
    cores = {job: config["threads"] if config["device"] == "cpu" else 0 for job, config in configs.items()}
    return [replace(cost, processes=specs[cost.job].by_ranks, cores=cores[cost.job]) for cost in costs]


def unknown(estimator: Estimator, job: str, config: dict[str, Any]) -> Cost:
    """The cost of a program whose spec.py gives none: every number is nan."""
    return Cost(job, **dict.fromkeys(("parameters", "sampling", "training", "disk", "weights"), UNKNOWN))


def counted(run: "Run") -> dict[str, float]:
    """Rows of each file in the data folder, by the file's name; empty if the run will make other data."""
    schema = Path(run.folder("data"), "schema.json")
    if not schema.is_file() or run.steps[0].action != KEEP:
        return {}
    return {Path(name).stem: about["rows"] for name, about in read_json(schema).items()}


def known(values: Iterable[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


# What this machine has.


def check_memory(program: str, config: dict[str, Any], inputs: dict[str, Path], ranks: int = 1) -> None:
    """Raise UserError for a stage whose model can't fit, whatever the batch, into the memory of its GPUs or machine.

    With strategy ddp every rank holds a whole copy.
    """
    if "model" not in inputs:
        return
    have = memory_of_gpus() if config["device"] == "cuda" else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    reward = model_in(inputs["reward_model"]).parameters if "reward_model" in inputs else 0
    copies = ranks if strategy_of(config) == "ddp" else 1
    need = copies * spec_of(program).memory(config, model_in(inputs["model"]).parameters, reward)[0]
    if need > have:
        what = "its GPUs have" if config["device"] == "cuda" else "the machine has"
        raise UserError(
            f"the model's weights, gradients and optimizer take {need / 1e9:.1f} GB and {what} {have / 1e9:.1f} GB;"
            " share it between GPUs (strategy: fsdp2), take larger ones, or a smaller model (`r1flow plan --cost` says"
            " what fits)"
        )


def memory_of_gpus() -> float:
    """Bytes of all GPUs that this process sees, together; nan if nvidia-smi can't tell."""
    seen = [f"--id={names}"] if (names := os.environ.get("CUDA_VISIBLE_DEVICES")) else []
    command = ["nvidia-smi", *seen, "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return sum(map(int, output.split())) * 2**20
    except (OSError, subprocess.CalledProcessError, ValueError):
        return UNKNOWN


# For people.


def disk_needed(costs: list[Cost]) -> float:
    """Bytes at the fullest moment: all that stays, and the largest training's snapshots; unknown ones left out."""
    snapshots = known(cost.snapshots * cost.snapshot for cost in costs)
    return sum(known(cost.disk for cost in costs)) + max(snapshots, default=0)


def disk_certain(costs: list[Cost]) -> tuple[float, float]:
    """Bytes that the run needs in any case: of every model once, and of one snapshot of the largest training."""
    snapshots = known(cost.snapshot * bool(cost.snapshots) for cost in costs)
    return sum(known(cost.weights for cost in costs)), max(snapshots, default=0)


def memory_needed(cost: Cost, memory: float, gpus: int) -> float:
    """Bytes on each GPU: states that a training shares are divided between them; each has activations of its own."""
    return cost.states / (gpus if cost.is_shared else 1) + cost.activations + cost.reserved * memory


def host_needed(cost: Cost, gpus: int) -> float:
    """Bytes of the machine's memory that the weights take while a job on some GPUs loads them."""
    return cost.host * (gpus if cost.processes else 1)


def hardware(costs: list[Cost], gpu: str | None, gpus: int | None, assumed: dict[str, Any]) -> tuple[str | None, int]:
    """The GPU and the number of them; no GPU if neither is said and a CPU computes all these jobs.

    Raises UserError for a GPU that conf/costs.yaml doesn't have.
    """
    if gpu is None and gpus is None and costs and all(cost.cores for cost in costs):
        return None, 0
    gpu, gpus = gpu or "H100", 1 if gpus is None else gpus
    if gpu not in assumed["gpus"]:
        raise UserError(f"--gpu {gpu}: {ASSUMPTIONS} has no such GPU{did_you_mean(gpu, list(assumed['gpus']))}")
    if gpus < 1:
        raise UserError(f"--gpus {gpus}: use 1 or more")
    return gpu, gpus


def cost_row(cost: Cost, gpu: str | None, gpus: int, assumed: dict[str, Any]) -> dict[str, Any]:
    """What a job costs on all of these GPUs, or on as many cores as its stage has threads; docs/commands.md has it.

    `memory` is of each GPU, `host` of the machine; for jobs on a CPU nobody has estimated them.
    """
    row = {name: getattr(cost, name) for name in ("job", "parameters", "sampled", "trained", "flops", "disk")}
    if gpu is None:
        spent, devices, memory, host = cost.cpu_hours(assumed), cost.cores, UNKNOWN, UNKNOWN
    else:
        card = assumed["gpus"][gpu]
        spent, devices = cost.gpu_hours(card["tflops"], assumed), gpus
        memory, host = memory_needed(cost, card["memory_gb"] * 1e9, gpus), host_needed(cost, gpus)
    row |= {"device": gpu or "cpu", "devices": devices, "device_hours": spent, "hours": spent / devices}
    return row | {"memory": memory, "host": host}


def cost_table(costs: list[Cost], gpu: str | None, gpus: int | None, assumed: dict[str, Any]) -> str:
    """The rows of these jobs for people, and what they take together; jobs that don't fit on a GPU are marked."""
    gpu, gpus = hardware(costs, gpu, gpus, assumed)
    rows = [cost_row(cost, gpu, gpus, assumed) for cost in costs]
    digits = ".2f" if gpu else ".3f"
    columns = {
        "model": [short(row["parameters"]) for row in rows],
        "sampled": [short(row["sampled"]) for row in rows],
        "trained": [short(row["trained"]) for row in rows],
        "FLOPs": [figure(row["flops"], ".1e") for row in rows],
        f"{'GPU' if gpu else 'CPU'} hours": [figure(row["device_hours"], digits) for row in rows],
        "hours": [figure(row["hours"], digits) for row in rows],
        "disk GB": [figure(row["disk"] / 1e9, ".2f") for row in rows],
    }
    tight: list[str] = []
    if gpu:
        columns["GB a GPU"] = [figure(row["memory"] / 1e9, ".2f") for row in rows]
        columns["host GB"] = [figure(row["host"] / 1e9, ".1f") for row in rows]
        tight = [row["job"] for row in rows if row["memory"] > assumed["gpus"][gpu]["memory_gb"] * 1e9]
    width = max((len(row["job"]) for row in rows), default=0)
    lines = [f"{'':<{width}}{''.join(f'{title:>10}' for title in columns)}"]
    for row, *cells in zip(rows, *columns.values(), strict=True):
        line = f"{row['job']:<{width}}{''.join(f'{cell:>10}' for cell in cells)}".rstrip()
        lines.append(line + " !" * (row["job"] in tight))
    lines += totals(costs, rows, gpu, gpus, assumed)
    if tight:
        remedy = "use more GPUs, smaller batches or gradient checkpointing"
        lines.append(f"! more memory than a GPU has: {', '.join(tight)}; {remedy}")
    if jobs := ", ".join(cost.job for cost in costs if math.isnan(cost.flops)):
        lines.append(f"? not known for {jobs}: the data isn't there yet, or {ASSUMPTIONS} hasn't the model")
    return "\n".join(lines)


def totals(
    costs: list[Cost], rows: list[dict[str, Any]], gpu: str | None, gpus: int, assumed: dict[str, Any]
) -> list[str]:
    """What all jobs take together, and what was assumed."""
    flops = [cost.flops for cost in costs]
    work = f"{'at least ' * any(map(math.isnan, flops))}{sum(known(flops)):.1e} FLOPs"
    spent, hours = (sum(known(row[key] for row in rows)) for key in ("device_hours", "hours"))
    disk = f"{disk_needed(costs) / 1e9:.1f} GB of disk at the fullest"
    lengths = f"completions {assumed['completion_share']:.0%} of the longest allowed; {ASSUMPTIONS} has the rest"
    if gpu is None:
        return [
            f"{work}, {spent:.2f} hours of a core, {hours:.2f} hours one after another, {disk}",
            f"assumed: {assumed['core_gflops']} GFLOP/s a core, as r1_smol reaches in bfloat16 (models of a few "
            f"million parameters half of it or less), {lengths}; --gpu estimates the same work on a GPU",
        ]
    card, drawn, reached = assumed["gpus"][gpu], assumed["sampling"], assumed["training"].values()
    return [
        f"{work}, {spent:.2f} GPU hours, {spent / gpus:.2f} hours one after another on {gpus} × {gpu} "
        f"({card['memory_gb']} GB), {disk}",
        f"assumed: {card['tflops']} TFLOP/s in bfloat16, {min(reached):.0%} to {max(reached):.0%} of it in "
        f"training, by the model's size, {drawn['vllm']:.0%} in sampling with vllm ({drawn['transformers']:.0%} with "
        f"transformers), shared states over the GPUs, {lengths}",
    ]


def short(count: float) -> str:
    """494M for 494,032,768."""
    scales = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))
    size, letter = next(((size, letter) for size, letter in scales if count >= size), (1, ""))
    return figure(count / size, ".3g") + letter


def figure(value: float, form: str) -> str:
    """A number, nothing for 0, and ? for what isn't known."""
    return "?" if math.isnan(value) else format(value, form) if value else ""
