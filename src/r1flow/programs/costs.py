"""What a job costs, in tokens, FLOPs and bytes: the type `Cost`, and what programs look up about a run to estimate it.

    Cost("zero_rl", parameters=494e6, sampled=19.6e6, trained=19.6e6, sampling=1.9e16, training=7.8e16, …)

The estimates serve the plan, before anything runs. A number that can't be known is nan.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from r1flow.artifacts.manifest import read_json
from r1flow.core.errors import UserError
from r1flow.data.gguf import is_gguf, read_header
from r1flow.model.pretrained import DECODERS, check_dropped
from r1flow.model.weights import parameters_in
from r1flow.recipe.stages import RECIPE, STAGES, stage_of

UNKNOWN = math.nan
F32, BF16 = 4, 2  # bytes


@dataclass(frozen=True)
class Model:
    """The size of a model."""

    parameters: float
    hidden: float = UNKNOWN
    layers: float = UNKNOWN
    vocabulary: float = UNKNOWN


@dataclass(frozen=True)
class Cost:
    """What one job needs, in tokens, FLOPs and bytes."""

    job: str
    parameters: float = 0
    sampled: float = 0  # tokens that are drawn or read in sampling
    trained: float = 0  # tokens of forward and backward passes
    sampling: float = 0  # FLOPs
    training: float = 0  # FLOPs
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
        shares = assumed["training"]
        reached = shares[max((size for size in shares if size <= self.parameters), default=0)]
        seconds = self.training / reached + self.sampling / assumed["sampling"][self.engine]
        return seconds / (tflops * 1e12) / 3600

    def cpu_hours(self, assumed: dict[str, Any]) -> float:
        """Hours of one core."""
        return self.flops / (assumed["core_gflops"] * 1e9) / 3600


def model_of(config: dict[str, Any]) -> Model:
    """The size of a dense decoder, from its config.json; if it isn't built like a Llama, `parameters` is unknown."""
    hidden, layers, vocabulary = (
        config.get(key, UNKNOWN) for key in ("hidden_size", "num_hidden_layers", "vocab_size")
    )
    kind = config.get("model_type", "llama")
    if kind not in DECODERS:
        return Model(UNKNOWN, hidden, layers, vocabulary)
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or hidden // heads
    queries, keys = heads * width, (config.get("num_key_value_heads") or heads) * width
    attention = 2 * hidden * queries + 2 * hidden * keys
    attention += queries + 2 * keys if kind == "qwen2" else 0  # biases
    attention += 2 * width if kind == "qwen3" else 0  # norms of queries and keys
    layer = attention + 3 * hidden * config["intermediate_size"] + 2 * hidden
    tables = vocabulary * hidden * (1 if config.get("tie_word_embeddings") else 2)
    return Model(layers * layer + hidden + tables, hidden, layers, vocabulary)


def without_layers(model: Model, dropped: list[int], stage: str) -> Model:
    """The size without these layers, if all but one table of embeddings is in the layers."""
    if not math.isnan(model.layers):
        try:
            check_dropped(dropped, int(model.layers))
        except UserError as error:
            raise UserError(f"{stage}.{error}") from None
    table, left = model.vocabulary * model.hidden, model.layers - len(dropped)
    return replace(model, parameters=table + (model.parameters - table) * left / model.layers, layers=left)


def model_in(folder: Path) -> Model:
    """The size of the model in a folder or GGUF file: its parameters counted in the headers of its files."""
    if is_gguf(str(folder)):
        header = read_header(folder)
        vocabulary, hidden = header.tensors["token_embd.weight"].shape
        counted = sum(math.prod(tensor.shape) for tensor in header.tensors.values())
        return Model(counted, hidden, header.values["llama.block_count"], vocabulary)
    try:
        shape = model_of(read_json(folder / "config.json"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{folder}/config.json: no sizes of a model can be read from it ({error!r})") from None
    return Model(parameters_in(folder) or shape.parameters, shape.hidden, shape.layers, shape.vocabulary)


def model_outside(source: str, revision: str | None, assumed: dict[str, Any]) -> Model:
    """The size of a model on a hub or in a package, without network: from a cached config.json, else from the table."""
    from huggingface_hub import try_to_load_from_cache

    path = None if is_gguf(source) else try_to_load_from_cache(source, "config.json", revision=revision)
    config = read_json(Path(path)) if isinstance(path, str) else assumed["models"].get(source)
    return model_of(config) if config else Model(UNKNOWN)


class EstimatedRun(Protocol):
    """What a `Estimator` needs to know about a run."""

    stages: list[str]

    def slice(self, stage: str) -> dict[str, Any]: ...


class Estimator:
    """Estimates of rows, lengths and model sizes, from a run's configuration."""

    def __init__(self, run: EstimatedRun, assumed: dict[str, Any], counted: dict[str, float]) -> None:
        """`counted`: rows of the data files that exist already; if empty, they are estimated from the configuration."""
        self.run, self.assumed = run, assumed
        self.origin = "outside" if "sources" in run.slice("data") else "generated"
        self.rows = counted or self.expected()

    # Rows and lengths.

    def expected(self) -> dict[str, float]:
        """The most rows that each data file can have by the configuration."""
        config = self.run.slice("data")
        if self.origin == "generated":
            kinds = {
                f"general_{name}": rows * len(config["general_kinds"]) for name, rows in config["rows_per_kind"].items()
            }
            problems = {name: rows * len(config["tasks"]) for name, rows in config["rows_per_task"].items()}
            return {"corpus": config["corpus"]["documents"] if config["corpus"] else 0, **problems, **kinds}
        rows = {}
        for pool in config["pools"]:
            found = sum(self.assumed["rows"].get(take, UNKNOWN) for take in pool["take"])
            for file, percent in pool["into"].items():
                rows[file] = rows.get(file, 0) + found * percent / 100
        limits = {file: limit for file, limit in config["rows"].items() if limit is not None}
        return {file: least(count, limits.get(file)) for file, count in rows.items()}

    def response(self, file: str, maker: str = "rejection") -> float:
        """Mean tokens of a response in a file; `maker` is the stage that made the mix."""
        lengths = self.assumed["response"]
        if file == "mix":
            config = self.run.slice(maker)
            made, share = self.assumed["completion_share"] * config["max_new_tokens"], config["general_share"]
            return (1 - share) * made + (share and share * self.response("general_sft"))
        if self.origin == "generated":
            return lengths["generated"]
        return lengths.get("general" if file.startswith("general") else file, UNKNOWN)

    def rows_of(self, file: str, limit: int | None, maker: str = "rejection") -> float:
        if file != "mix":
            return least(self.rows.get(file, UNKNOWN), limit)
        config = self.run.slice(maker)
        samples = min(config["samples_per_prompt"] * self.assumed["kept_share"][self.origin], config["keep_per_prompt"])
        kept = least(least(self.rows.get("rejection", UNKNOWN), config["prompts"]) * samples, config["samples_in_mix"])
        general = kept * config["general_share"] / (1 - config["general_share"])
        return least(kept + (general and min(general, self.rows.get("general_sft", UNKNOWN))), limit)

    @property
    def prompt(self) -> float:
        return self.assumed["prompt"][self.origin]

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
            found = self.model(source)
        elif Path(source).exists():
            found = model_in(Path(source))
        else:
            found = model_outside(source, config.get("revision"), self.assumed)
        return found if not (dropped := config.get("drop_layers")) else without_layers(found, dropped, stage)

    def reward(self, job: str) -> float:
        """Parameters of the reward model that scores for a job; 0 without one."""
        maker = RECIPE[stage_of(job)].rewarded_by
        return self.model(maker).parameters if maker in self.run.stages else 0

    def text(self, file: str, rows: float) -> float:
        """Bytes of a data file."""
        responses = 0 if file in ("rl", "rejection", "dev", "test") else 1 + (file == "preferences")
        length = self.prompt + (responses and responses * self.response(file if file != "corpus" else "general"))
        return rows * length * self.assumed["bytes_per_token"]

    def completion(self, longest: int) -> float:
        """Mean tokens of a completion that may have at most `longest`."""
        return longest * self.assumed["completion_share"]


def least(count: float, limit: float | None) -> float:
    """The smaller of both; if the count is unknown and there is a limit, the limit."""
    return count if limit is None else limit if math.isnan(count) else min(count, limit)


def cost_of_files(estimator: Estimator, job: str, config: dict[str, Any]) -> Cost:
    """The cost of a job that writes data files; files with an unknown number of rows are left out."""
    sizes = (estimator.text(file, rows) for file, rows in estimator.rows.items())
    return Cost(job, disk=2 * sum(size for size in sizes if not math.isnan(size)))
