"""What a run would cost, for people: the table of `r1flow plan --cost`, and its rows for `--json`.

The numbers are estimated in programs/cost_estimate.py; one that can't be known is nan there and `?` here.
"""

import math
from typing import Any

from r1flow.core.errors import UserError, did_you_mean
from r1flow.programs.cost_estimate import ASSUMPTIONS, Cost, disk_needed, known
from r1flow.programs.model_sizes import UNKNOWN


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
        memory, host = cost.gpu_memory(card["memory_gb"] * 1e9, gpus), cost.host_memory(gpus)
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
        lines.append(f"{line} !" if row["job"] in tight else line)
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
    at_least = "at least " if any(map(math.isnan, flops)) else ""
    work = f"{at_least}{sum(known(flops)):.1e} FLOPs"
    spent, hours = sum(known(row["device_hours"] for row in rows)), sum(known(row["hours"] for row in rows))
    disk = f"{disk_needed(costs) / 1e9:.1f} GB of disk at the fullest"
    lengths = f"completions {assumed['completion_share']:.0%} of the longest allowed; {ASSUMPTIONS} has the rest"
    if gpu is None:
        speeds = assumed["core_gflops"].values()
        return [
            f"{work}, {spent:.2f} hours of a core, {hours:.2f} hours one after another, {disk}",
            f"assumed: {min(speeds)} to {max(speeds)} GFLOP/s a core, by the model's size, as in bfloat16, {lengths}; "
            "--gpu estimates the same work on a GPU",
        ]
    card, drawn, reached = assumed["gpus"][gpu], assumed["sampling"], assumed["training"].values()
    return [
        f"{work}, {spent:.2f} GPU hours, {spent / gpus:.2f} hours one after another on {gpus} × {gpu} "
        f"({card['memory_gb']} GB), {disk}",
        f"assumed: {card['tflops']} TFLOP/s in bfloat16, {min(reached):.0%} to {max(reached):.0%} of it in "
        f"training, by the model's size, {drawn['vllm']:.0%} in sampling with vllm ({drawn['transformers']:.0%} with "
        "transformers), never less than it takes to start a small model's kernels, shared states over the GPUs, "
        f"{lengths}",
    ]


def short(count: float) -> str:
    """494M for 494,032,768."""
    scales = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))
    size, letter = next(((size, letter) for size, letter in scales if count >= size), (1, ""))
    return figure(count / size, ".3g") + letter


def figure(value: float, form: str) -> str:
    """A number, nothing for 0, and ? for what isn't known."""
    if math.isnan(value):
        return "?"
    return format(value, form) if value else ""
