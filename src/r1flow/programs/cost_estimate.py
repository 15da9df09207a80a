"""What the jobs of a run cost, before anything runs: tokens, FLOPs and bytes, estimated from the configs alone.

    Cost("zero_rl", parameters=494e6, sampled=19.6e6, trained=19.6e6, sampling=1.9e16, training=7.8e16, …)

FLOPs are counted as for `flops` in metrics.json (core/flops.py). All assumptions (lengths, shares of the peak, GPUs,
shapes of models on a hub) are in conf/costs.yaml. How many tokens a program samples and trains on, and what it keeps in
memory, is in its spec.py, which asks an `Estimator` about the run. A number that can't be known is nan. Left out:
adapters, loading and saving, the hub's cache.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from r1flow.core.files import read_yaml
from r1flow.core.schema import FILES, Problem
from r1flow.programs.model_sizes import UNKNOWN, Model, model_in, model_of, model_outside, without_layers
from r1flow.programs.specs import spec_of
from r1flow.recipe.stages import RECIPE, STAGES, program_of, stage_of

ASSUMPTIONS = Path("conf/costs.yaml")
F32, BF16 = 4, 2  # bytes


@dataclass(frozen=True)
class Cost:
    """What one job needs, in tokens, FLOPs and bytes."""

    job: str
    parameters: float = 0
    sampled: float = 0  # tokens that are drawn or read in sampling
    trained: float = 0  # tokens of forward and backward passes
    sampling: float = 0  # FLOPs
    training: float = 0  # FLOPs
    layer_tokens: float = 0  # layers × tokens that are drawn one after another, one for all rows of a batch at once
    layer_passes: float = 0  # layers × forward and backward passes
    engine: str = "transformers"  # the engine that samples
    disk: float = 0  # bytes that stay on disk: the job's folder and its copy in the store
    weights: float = 0  # bytes of the model in the job's folder
    snapshot: float = 0  # bytes of one snapshot, while the job runs
    snapshots: int = 0  # the most snapshots on disk at once
    states: float = 0  # in memory: weights, gradients, optimizer, reference and reward models
    host: float = 0  # bytes in the machine's memory while a process loads the model
    processes: bool = False  # whether each GPU has a process of its own
    is_shared: bool = False  # whether several GPUs share the states, or each holds all of them
    activations: float = 0  # in memory: a rough upper bound
    reserved: float = 0  # share of a GPU's memory that vLLM takes for its rollouts
    cores: int = 0  # of the CPU that computes it; 0: GPUs do

    @property
    def flops(self) -> float:
        return self.sampling + self.training

    def gpu_hours(self, tflops: float, assumed: dict[str, Any]) -> float:
        """Hours of one GPU: by the arithmetic or, where that takes longer, by the start of each layer's kernels."""
        peak, starts = tflops * 1e12, assumed["layer_seconds"]
        reached = of_size(assumed["training"], self.parameters) * peak
        # `max` keeps its first argument where either is unknown (nan): the layers may be, and the FLOPs not.
        training = max(self.training / reached, self.layer_passes * starts["training"])
        sampling = max(
            self.sampling / (assumed["sampling"][self.engine] * peak), self.layer_tokens * starts[self.engine]
        )
        return (training + sampling) / 3600

    def cpu_hours(self, assumed: dict[str, Any]) -> float:
        """Hours of one core."""
        return self.flops / (of_size(assumed["core_gflops"], self.parameters) * 1e9) / 3600

    def gpu_memory(self, memory: float, gpus: int) -> float:
        """Bytes on each GPU, which has so much memory; each has activations of its own, and may share the states."""
        return self.states / (gpus if self.is_shared else 1) + self.activations + self.reserved * memory

    def host_memory(self, gpus: int) -> float:
        """Bytes of the machine's memory that the weights take while the job loads them, on some GPUs."""
        return self.host * (gpus if self.processes else 1)


def of_size(rows: dict[float, float], parameters: float) -> float:
    """The row for a model of so many parameters: each is for models of that many and more."""
    return rows[max((size for size in rows if size <= parameters), default=0)]


def known(values: Iterable[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def least(count: float, limit: float | None) -> float:
    """The smaller of both; if the count is unknown and there is a limit, the limit."""
    if limit is None:
        return count
    return limit if math.isnan(count) else min(count, limit)


class PlannedRun(Protocol):
    """What an estimate needs to know about a run: engine/run.py's `Run` has it."""

    stages: list[str]
    jobs: list[str]

    def slice(self, stage: str) -> dict[str, Any]: ...


@cache
def read_assumptions(path: Path = ASSUMPTIONS) -> dict[str, Any]:
    return read_yaml(path)


def estimate(run: PlannedRun, assumed: dict[str, Any], counted: dict[str, float]) -> list[Cost]:
    """The cost of every job of a run, kept ones too, in dataflow order; `counted` as for `Estimator`."""
    estimator = Estimator(run, assumed, counted)
    costs = []
    for job in run.jobs:
        config = run.slice(stage_of(job))
        spec = spec_of(program_of(job, config))
        cost = (spec.cost or unknown_cost)(estimator, job, config)
        costs.append(replace(cost, processes=spec.by_ranks, cores=config["threads"] * (config["device"] == "cpu")))
    return costs


def unknown_cost(estimator: "Estimator", job: str, config: dict[str, Any]) -> Cost:
    """The cost of a program whose spec.py gives none: every number is nan."""
    return Cost(job, **dict.fromkeys(("parameters", "sampling", "training", "disk", "weights"), UNKNOWN))


def cost_of_files(estimator: "Estimator", job: str, config: dict[str, Any]) -> Cost:
    """The cost of a job that writes data files; files with an unknown number of rows are left out."""
    return Cost(job, disk=2 * sum(known(estimator.text(file, rows) for file, rows in estimator.rows.items())))


def disk_needed(costs: list[Cost]) -> float:
    """Bytes at the fullest moment: all that stays, and the largest training's snapshots; unknown ones left out."""
    snapshots = known(cost.snapshots * cost.snapshot for cost in costs)
    return sum(known(cost.disk for cost in costs)) + max(snapshots, default=0)


def disk_certain(costs: list[Cost]) -> tuple[float, float]:
    """Bytes that the run needs in any case: of every model once, and of one snapshot of the largest training."""
    snapshots = known(cost.snapshot * bool(cost.snapshots) for cost in costs)
    return sum(known(cost.weights for cost in costs)), max(snapshots, default=0)


class Estimator:
    """Estimates of rows, lengths and model sizes, from a run's configuration."""

    def __init__(self, run: PlannedRun, assumed: dict[str, Any], counted: dict[str, float]) -> None:
        """`counted`: rows of the data files that exist already; if empty, they are estimated from the configuration."""
        self.run, self.assumed = run, assumed
        self.origin = "generated" if "tasks" in run.slice("data") else "outside"
        self.prompt = assumed["prompt"][self.origin]
        self.rows = counted or (self.rows_generated() if self.origin == "generated" else self.rows_taken())

    # Rows of each data file.

    def rows_generated(self) -> dict[str, float]:
        """The most rows that each file can have, where problems are generated."""
        config = self.run.slice("data")
        rows = {"corpus": config["corpus"]["documents"] if config["corpus"] else 0}
        for file, each in config["rows_per_task"].items():
            rows[file] = each * len(config["tasks"])
        for file, each in config["rows_per_kind"].items():
            rows[f"general_{file}"] = each * len(config["general_kinds"])
        if config["preferences"]:
            # Without a limit all prompts are used, and how many there are isn't known before they are fetched.
            prompts = rows.pop("general_preferences", UNKNOWN)
            rows["preferences"] = prompts * config["preferences"]["pairs_per_prompt"]
        for pool in config.get("pools", ()):
            rows |= dict.fromkeys(pool["into"], UNKNOWN)
        return rows

    def rows_taken(self) -> dict[str, float]:
        """The most rows that each file can have, where they come from outside; conf/costs.yaml counts the sources'."""
        config, rows = self.run.slice("data"), {}
        for pool in config["pools"]:
            held = sum(self.assumed["rows"].get(source, UNKNOWN) for source in pool["take"])
            for file, percent in pool["into"].items():
                rows[file] = rows.get(file, 0) + held * percent / 100
        return {file: least(count, config["rows"].get(file)) for file, count in rows.items()}

    def rows_of(self, file: str, limit: int | None, maker: str = "rejection") -> float:
        """The rows of a file that a stage reads; `maker` is the stage that made the mix."""
        if file != "mix":
            return least(self.rows.get(file, UNKNOWN), limit)
        config = self.run.slice(maker)
        if RECIPE[maker].program == "search":
            answers = len(config["models"]) * len(config["strategies"]) * len(config["budgets"])
            right = self.rows.get(config["split"], UNKNOWN) * answers * self.assumed["kept_share"][self.origin]
            return least(right, limit)
        samples = min(config["samples_per_prompt"] * self.assumed["kept_share"][self.origin], config["keep_per_prompt"])
        kept = least(least(self.rows.get("rejection", UNKNOWN), config["prompts"]) * samples, config["samples_in_mix"])
        general = kept * config["general_share"] / (1 - config["general_share"])
        return least(kept + (general and min(general, self.rows.get("general_sft", UNKNOWN))), limit)

    # Lengths in tokens, and bytes.

    def response(self, file: str, maker: str = "rejection") -> float:
        """Mean tokens of a response in a file; `maker` is the stage that made the mix."""
        lengths = self.assumed["response"]
        if file == "mix":
            config = self.run.slice(maker)
            share = config.get("general_share", 0)  # a search mixes nothing in
            general = share * self.response("general_sft") if share else 0
            return (1 - share) * self.completion(config["max_new_tokens"]) + general
        if self.origin == "generated":
            return lengths["generated"]
        return lengths.get("general" if file.startswith("general") else file, UNKNOWN)

    def completion(self, longest: int) -> float:
        """Mean tokens of a completion that may have at most `longest`."""
        return longest * self.assumed["completion_share"]

    def text(self, file: str, rows: float) -> float:
        """Bytes of a data file."""
        responses = 0 if FILES.get(file) is Problem else 1 + (file == "preferences")
        length = self.prompt + (responses and responses * self.response(file if file != "corpus" else "general"))
        return rows * length * self.assumed["bytes_per_token"]

    # Models.

    def model(self, job: str) -> Model:
        """The size of the model that a job starts from, or trains from scratch."""
        stage = job.partition("/")[2] or job
        config = self.run.slice(stage)
        source = config.get("init_from")
        if not source:
            vocabulary = (self.run.slice("data").get("tokenizer") or {}).get("vocabulary", UNKNOWN)
            return model_of({"model_type": "llama", **config["model"], "vocab_size": vocabulary})
        if source in STAGES:
            model = self.model(source)
        elif Path(source).exists():
            model = model_in(Path(source))
        else:
            model = model_outside(source, config.get("revision"), self.assumed)
        dropped = config.get("drop_layers")
        return without_layers(model, dropped, stage) if dropped else model

    def reward(self, job: str) -> float:
        """Parameters of the reward model that scores for a job; 0 without one."""
        maker = RECIPE[stage_of(job)].rewarded_by
        return self.model(maker).parameters if maker in self.run.stages else 0
