"""What a run costs before it starts: tokens, FLOPs, GPU-hours, disk and memory of every job, from the configs alone.

The rule is that of `flops` in metrics.json: with N parameters 2N a token forward, 6N forward and backward. Sampling is
a forward pass of prompt and completion, training one forward and backward per iteration, a KL term and the correction
of vLLM's numerics one more forward each. Gradient checkpointing's second forward pass is not counted, as in the usual
meaning of utilisation. All that has to be assumed (lengths, shares of the peak, GPUs, shapes of models on a hub) is in
conf/prices.yaml; a number that can't be known is nan and printed as `?`. Left out: attention's own products, adapters,
loading and saving, the hub's cache.

    Cost("zero_rl", parameters=494e6, sampled=19.6e6, trained=19.6e6, sampling=1.9e16, training=7.8e16, …)
"""

import json
import math
import os
import struct
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from r1flow.artifacts.manifest import read_json
from r1flow.core.errors import UserError, did_you_mean
from r1flow.engine.plan import KEEP
from r1flow.recipe.stages import PACKED, REWARDED_BY, STAGES, program_of, rows_of, stage_of
from r1flow.training.ranks import PROGRAMS, strategy_of
from r1flow.training.rollouts import readings, rollouts

if TYPE_CHECKING:
    from r1flow.engine.run import Run

UNKNOWN = math.nan
PRICES = Path("conf/prices.yaml")
KINDS = 5  # of generated general prompts
F32, BF16 = 4, 2  # bytes
TRAINED = ("pretrain", "sft", "grpo", "reward_model")
TILE = (4096, 32768)  # tokens and vocabulary that TRL has logits of at a time


@dataclass(frozen=True)
class Model:
    """The size of a model."""

    parameters: float
    hidden: float = UNKNOWN
    layers: float = UNKNOWN
    vocabulary: float = UNKNOWN


@dataclass(frozen=True)
class Cost:
    """What one job takes; bytes, tokens and FLOPs."""

    job: str
    parameters: float = 0
    sampled: float = 0  # tokens that are drawn or read in sampling
    trained: float = 0  # tokens of forward and backward passes
    sampling: float = 0  # FLOPs
    training: float = 0  # FLOPs
    engine: str = "transformers"  # that samples
    disk: float = 0  # that stays: the job's folder and its copy in the store
    weights: float = 0  # of the model in the job's folder
    snapshot: float = 0  # one, while it runs
    snapshots: int = 0  # that lie there at once
    states: float = 0  # in memory: weights, gradients, optimizer, reference and reward models
    host: float = 0  # in the machine's memory while each process loads
    processes: bool = False  # whether there is one for each GPU
    is_shared: bool = False  # whether several GPUs share these, or each holds all
    activations: float = 0  # a rough bound
    reserved: float = 0  # share of a GPU's memory that vLLM takes for its rollouts

    @property
    def flops(self) -> float:
        return self.sampling + self.training

    def gpu_hours(self, tflops: float, prices: dict[str, Any]) -> float:
        seconds = self.training / prices["training"] + self.sampling / prices["sampling"][self.engine]
        return seconds / (tflops * 1e12) / 3600


@cache
def read_prices(path: Path = PRICES) -> dict[str, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def price(run: "Run", prices: dict[str, Any]) -> list[Cost]:
    """The cost of every job of a run, kept ones too, in dataflow order."""
    book = Book(run, prices)
    return [book.cost(job) for job in run.jobs]


# Models.


def model_of(config: dict[str, Any]) -> Model:
    """The size of a dense decoder from its config.json; unknown parameters for what isn't built like a Llama."""
    hidden, layers, vocabulary = (
        config.get(key, UNKNOWN) for key in ("hidden_size", "num_hidden_layers", "vocab_size")
    )
    if config.get("model_type", "llama") not in ("llama", "mistral", "qwen2", "qwen3"):
        return Model(UNKNOWN, hidden, layers, vocabulary)
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or hidden // heads
    queries, keys = heads * width, (config.get("num_key_value_heads") or heads) * width
    attention = 2 * hidden * queries + 2 * hidden * keys
    attention += queries + 2 * keys if config["model_type"] == "qwen2" else 0  # biases
    attention += 2 * width if config["model_type"] == "qwen3" else 0  # norms of queries and keys
    layer = attention + 3 * hidden * config["intermediate_size"] + 2 * hidden
    tables = vocabulary * hidden * (1 if config.get("tie_word_embeddings") else 2)
    return Model(layers * layer + hidden + tables, hidden, layers, vocabulary)


def model_in(folder: Path) -> Model:
    """The size of the model in a folder: its parameters counted in the headers of its safetensors files."""
    shape = model_of(read_json(folder / "config.json"))
    counted = sum(map(numbers_in, folder.glob("*.safetensors")))
    return Model(counted or shape.parameters, shape.hidden, shape.layers, shape.vocabulary)


def numbers_in(path: Path) -> float:
    """Numbers in a safetensors file; unknown for what isn't one."""
    try:
        with path.open("rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    except (struct.error, ValueError, OverflowError, MemoryError):
        return UNKNOWN
    return sum(math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")


def model_on_hub(repo: str, revision: str | None, prices: dict[str, Any]) -> Model:
    """The size of a model on a hub, which is not asked: from its config.json, if that was fetched, else the table."""
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(repo, "config.json", revision=revision)
    config = read_json(Path(path)) if isinstance(path, str) else prices["models"].get(repo)
    return model_of(config) if config else Model(UNKNOWN)


def states_of(program: str, config: dict[str, Any], parameters: float, reward: float = 0) -> float:
    """Bytes of what must lie in memory whatever the batch; `reward` is the size of a reward model."""
    if program in ("rejection", "evaluate"):
        said = config["engine_options"].get("dtype", "auto" if config["engine"] == "vllm" else "float32")
        return parameters * (0 if config["engine"] == "openai" else F32 if said == "float32" else BF16)
    if program not in TRAINED or (program == "pretrain" and config["init_from"]):
        return 0
    if config.get("lora"):  # frozen weights, which are the reference too
        return (parameters + reward) * F32
    reference = F32 if program == "grpo" and config["trainer"].get("beta") else 0
    return parameters * (F32 + F32 + optimizer_of(config) + reference) + reward * F32


def host_of(program: str, config: dict[str, Any], parameters: float, reward: float = 0) -> float:
    """Bytes of weights that each process has in the machine's memory before they are on a GPU.

    In shares, too, every rank does: transformers (5.17) can have one load, but the others then fill as much with zeros.
    """
    if program in ("rejection", "evaluate") or (program == "pretrain" and config["init_from"]):
        return parameters * (0 if config.get("engine") == "openai" else F32)
    reference = program == "grpo" and config["trainer"].get("beta") and not config.get("lora")
    return (parameters * (2 if reference else 1) + reward) * F32 if program in TRAINED else 0


def optimizer_of(config: dict[str, Any]) -> float:
    """Bytes a parameter of the optimizer's state: AdamW's two moments, Muon's one."""
    if "muon" in config:
        return F32
    return 2 * F32 if config["trainer"].get("optim", "").startswith("adamw_torch") else UNKNOWN


class Book:
    """A run's configuration, asked for numbers."""

    def __init__(self, run: "Run", prices: dict[str, Any]) -> None:
        self.run, self.prices = run, prices
        self.origin = "outside" if "sources" in run.slice("data") else "generated"
        self.rows = self.counted() or self.expected()

    # Rows and lengths.

    def counted(self) -> dict[str, float]:
        """Rows of the data's files as they lie in its folder; nothing when the run will make others."""
        schema = Path(self.run.folder("data"), "schema.json")
        if not schema.is_file() or self.run.steps[0].action != KEEP:
            return {}
        return {Path(name).stem: about["rows"] for name, about in read_json(schema).items()}

    def expected(self) -> dict[str, float]:
        """Rows of the data's files as the configuration says, at most."""
        config = self.run.slice("data")
        if self.origin == "generated":
            kinds = {f"general_{name}": rows * KINDS for name, rows in config["rows_per_kind"].items()}
            problems = {name: rows * len(config["tasks"]) for name, rows in config["rows_per_task"].items()}
            return {"corpus": config["corpus"]["documents"], **problems, **kinds}
        rows = {}
        for pool in config["pools"]:
            found = sum(self.prices["rows"].get(take, UNKNOWN) for take in pool["take"])
            for file, percent in pool["into"].items():
                rows[file] = rows.get(file, 0) + found * percent / 100
        limits = {file: limit for file, limit in config["rows"].items() if limit is not None}
        return {file: least(count, limits.get(file)) for file, count in rows.items()}

    def response(self, file: str, maker: str = "rejection") -> float:
        """Tokens of a response in a file; `maker` is the stage that made the mix."""
        lengths = self.prices["response"]
        if file == PACKED:
            shares = {name: source["share"] / 100 for name, source in self.run.slice("curate")["sources"].items()}
            return sum(share * self.response(self.curated[name][0]) for name, share in shares.items())
        if file == "mix":
            config = self.run.slice(maker)
            made, share = self.prices["completion_share"] * config["max_new_tokens"], config["general_share"]
            return (1 - share) * made + (share and share * self.response("general_sft"))
        if self.origin == "generated":
            return lengths["generated"]
        return lengths.get("general" if file.startswith("general") else file, UNKNOWN)

    @property
    def curated(self) -> dict[str, list[str]]:
        """The files of each source of curate."""
        sources = self.run.slice("curate")["sources"].items()
        return {name: [Path(file).stem for file in source["files"]] for name, source in sources}

    def rows_of(self, file: str, limit: int | None, maker: str = "rejection") -> float:
        if file == PACKED:
            curate = self.run.slice("curate")
            have = {name: sum(self.rows_of(one, None) for one in files) for name, files in self.curated.items()}
            return least(
                min(have[name] * 100 / one["share"] for name, one in curate["sources"].items()), curate["rows"]
            )
        if file != "mix":
            return least(self.rows.get(file, UNKNOWN), limit)
        config = self.run.slice(maker)
        samples = min(config["samples_per_prompt"] * self.prices["kept_share"][self.origin], config["keep_per_prompt"])
        kept = least(self.rows.get("rejection", UNKNOWN), config["prompts"]) * samples
        general = kept * config["general_share"] / (1 - config["general_share"])
        return least(kept + (general and min(general, self.rows.get("general_sft", UNKNOWN))), limit)

    @property
    def prompt(self) -> float:
        return self.prices["prompt"][self.origin]

    # Models.

    def model(self, job: str) -> Model:
        """The model that a job starts from, or trains from nothing."""
        stage = job.partition("/")[2] or job
        config = self.run.slice(stage)
        source = config.get("init_from")
        if source in STAGES:
            return self.model(source)
        if source:
            folder = Path(source)
            return model_in(folder) if folder.is_dir() else model_on_hub(source, config.get("revision"), self.prices)
        if program_of(stage, config) != "pretrain":
            return Model(0)
        vocabulary = self.run.slice("data").get("tokenizer", {}).get("vocabulary", UNKNOWN)
        return model_of({"model_type": "llama", **config["model"], "vocab_size": vocabulary})

    # Jobs.

    def cost(self, job: str) -> Cost:
        config = self.run.slice(stage_of(job))
        program = program_of(job, config)
        if program in ("data", "fetch"):
            return Cost(job, disk=2 * sum(known(self.text(file, rows) for file, rows in self.rows.items())))
        if program == "report":
            return Cost(job)
        if program == "curate":
            tokens = self.rows_of(PACKED, None) * (self.prompt + self.response(PACKED))
            return Cost(job, disk=2 * self.prices["bytes_per_token"] * tokens)
        if program not in (*TRAINED, "rejection", "evaluate"):  # somebody's own
            return Cost(job, **dict.fromkeys(("parameters", "sampling", "training", "disk", "weights"), UNKNOWN))
        model, reward = self.model(job), self.reward(job)
        samples, trained, scored = self.tokens(job, program, config)
        sampled = samples and samples * (self.prompt + self.completion(config, program))
        saved = model.parameters * self.saved(program, config)
        return Cost(
            job,
            parameters=model.parameters,
            sampled=sampled,
            trained=trained,
            sampling=2 * model.parameters * sampled,
            training=6 * model.parameters * trained + 2 * model.parameters * scored,
            engine=self.engine(program, config),
            disk=2 * saved + (0 if program == "grpo" else 2 * self.prices["bytes_per_token"] * sampled),
            weights=saved,
            snapshot=model.parameters * (F32 + optimizer_of(config)) if trained else 0,
            snapshots=self.snapshots(config) if trained else 0,
            states=states_of(program, config, model.parameters, reward),
            host=host_of(program, config, model.parameters, reward),
            processes=program in PROGRAMS,
            is_shared=strategy_of(config) != "ddp",
            activations=self.activations(program, config, model) if trained else 0,
            reserved=vllm_share(config),
        )

    def text(self, file: str, rows: float) -> float:
        """Bytes of a data file."""
        responses = 0 if file in ("rl", "rejection", "dev", "test") else 1 + (file == "preferences")
        length = self.prompt + (responses and responses * self.response(file if file != "corpus" else "general"))
        return rows * length * self.prices["bytes_per_token"]

    def tokens(self, job: str, program: str, config: dict[str, Any]) -> tuple[float, float, float]:
        """Completions that are drawn, tokens that are trained on, and tokens that are only scored."""
        if program == "pretrain":
            return 0, 0 if config["init_from"] else self.pretrained(config), 0
        if program == "sft":
            maker = rows_of(job, config, self.run.stages)
            response = self.response(Path(config["data"]["file"]).stem, maker)
            return 0, self.taught(config, self.prompt + response, maker), 0
        if program == "reward_model":
            return 0, 2 * self.taught(config, self.prompt + self.response("preferences")), 0
        if program == "rejection":
            return least(self.rows.get("rejection", UNKNOWN), config["prompts"]) * config["samples_per_prompt"], 0, 0
        if program == "evaluate":
            return self.asked(config) * config["k"], 0, 0
        trainer, drawn = config["trainer"], rollouts(config["trainer"])
        seen = drawn * (self.prompt + self.completion(config, program))
        return drawn, seen * trainer["num_iterations"], seen * readings(trainer)

    def pretrained(self, config: dict[str, Any]) -> float:
        trainer = config["trainer"]
        if trainer["max_steps"] > 0:
            return trainer["max_steps"] * batch(trainer) * config["block"]
        return trainer["num_train_epochs"] * self.rows.get("corpus", UNKNOWN) * self.response("corpus")

    def taught(self, config: dict[str, Any], length: float, maker: str = "data") -> float:
        """Tokens of a supervised training on rows of this length."""
        trainer, file = config["trainer"], Path(config["data"]["file"]).stem
        length = min(length, trainer["max_length"])
        if trainer["max_steps"] > 0:
            return trainer["max_steps"] * batch(trainer) * length
        return trainer["num_train_epochs"] * self.rows_of(file, config["data"]["limit"], maker) * length

    def asked(self, config: dict[str, Any]) -> float:
        """Problems and general prompts of an evaluation."""
        split, limit, data = config["split"], config["n_problems"], self.run.slice("data")
        families = len(data["tasks"] if self.origin == "generated" else data["sources"])
        problems = least(self.rows.get(split, UNKNOWN), limit and limit * families)
        return problems + least(self.rows.get(f"general_{split}", 0), limit and limit * KINDS)

    def completion(self, config: dict[str, Any], program: str) -> float:
        """Mean tokens of a completion."""
        longest = config["trainer"]["max_completion_length"] if program == "grpo" else config.get("max_new_tokens", 0)
        return longest * self.prices["completion_share"]

    def engine(self, program: str, config: dict[str, Any]) -> str:
        return "vllm" if config.get("trainer", {}).get("use_vllm") else config.get("engine", "transformers")

    def reward(self, job: str) -> float:
        """The size of the reward model that scores for a job."""
        maker = REWARDED_BY.get(job)
        return self.model(maker).parameters if maker in self.run.stages else 0

    def saved(self, program: str, config: dict[str, Any]) -> float:
        """Bytes a parameter of the model that a job leaves behind."""
        return 0 if program not in TRAINED else BF16 if program == "pretrain" and config["init_from"] else F32

    def snapshots(self, config: dict[str, Any]) -> int:
        """Snapshots that lie there at once: the next one is written before the oldest goes."""
        trainer = config["trainer"]
        return 0 if trainer.get("save_strategy") == "no" else (trainer.get("save_total_limit") or 1) + 1

    def activations(self, program: str, config: dict[str, Any], model: Model) -> float:
        """A rough bound of one pass: every layer's, or with checkpoints each layer's input and one layer's; logits.

        transformers' loss has all logits and their gradients in float32. TRL's (1.16, kernels/chunked_logprob.py) has a
        tile of them at a time, in sft and grpo alike, and the gradients of the head and of its inputs in float32.
        """
        trainer = config["trainer"]
        length = config.get("block") or trainer.get("max_length") or self.prompt + trainer["max_completion_length"]
        tokens = trainer["per_device_train_batch_size"] * length * (2 if program == "reward_model" else 1)
        layer = tokens * model.hidden * self.prices["activation_bytes"]
        kept = tokens * model.hidden * BF16 * model.layers + layer
        tile = BF16 * min(tokens, TILE[0]) * min(model.vocabulary, TILE[1])
        logits = tile + F32 * model.hidden * (model.vocabulary + tokens)
        logits = {"pretrain": 2 * F32 * tokens * model.vocabulary, "reward_model": 0}.get(program, logits)
        return logits + (kept if trainer.get("gradient_checkpointing") else layer * model.layers)


def vllm_share(config: dict[str, Any]) -> float:
    trainer = config.get("trainer", {})
    here = trainer.get("use_vllm") and trainer.get("vllm_mode", "colocate") == "colocate"
    return trainer.get("vllm_gpu_memory_utilization", 0.3) if here else 0


def batch(trainer: dict[str, Any]) -> int:
    return trainer["per_device_train_batch_size"] * trainer["gradient_accumulation_steps"]


def least(count: float, limit: float | None) -> float:
    """The smaller one; with a limit an unknown count is at most that."""
    return count if limit is None else limit if math.isnan(count) else min(count, limit)


def known(values: Iterable[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


# What is there.


def check_memory(program: str, config: dict[str, Any], inputs: dict[str, Path], ranks: int = 1) -> None:
    """Refuse a stage whose model can't fit, whatever the batch, into the memory of its GPUs, or of the machine.

    With strategy ddp each of the ranks holds all of it.
    """
    if "model" not in inputs:
        return
    have = memory_of_gpus() if config["device"] == "cuda" else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    reward = model_in(inputs["reward_model"]).parameters if "reward_model" in inputs else 0
    copies = ranks if strategy_of(config) == "ddp" else 1
    need = copies * states_of(program, config, model_in(inputs["model"]).parameters, reward)
    if need > have:
        what = "its GPUs have" if config["device"] == "cuda" else "the machine has"
        raise UserError(
            f"the model's weights, gradients and optimizer take {need / 1e9:.1f} GB and {what} {have / 1e9:.1f} GB;"
            " share it between GPUs (strategy: fsdp2), take larger ones, or a smaller model (`r1flow plan --price` says"
            " what fits)"
        )


def memory_of_gpus() -> float:
    """Bytes of the GPUs that this process sees, together; nan where nothing says."""
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
    """Bytes that no run can do without: of every model once, and of one snapshot of the largest."""
    snapshots = known(cost.snapshot * bool(cost.snapshots) for cost in costs)
    return sum(known(cost.weights for cost in costs)), max(snapshots, default=0)


def memory_needed(cost: Cost, memory: float, gpus: int) -> float:
    """Bytes on each of some GPUs: states that a training shares are divided, activations are each one's own."""
    return cost.states / (gpus if cost.is_shared else 1) + cost.activations + cost.reserved * memory


def host_needed(cost: Cost, gpus: int) -> float:
    """Bytes of the machine's memory that the weights take while a job on some GPUs loads them."""
    return cost.host * (gpus if cost.processes else 1)


def table(costs: list[Cost], gpu: str, gpus: int, prices: dict[str, Any]) -> str:
    """The price of these jobs on so many GPUs; raises UserError for a GPU that conf/prices.yaml doesn't have."""
    if gpu not in prices["gpus"]:
        raise UserError(f"--gpu {gpu}: {PRICES} has no such one{did_you_mean(gpu, list(prices['gpus']))}")
    if gpus < 1:
        raise UserError(f"--gpus {gpus}: use 1 or more")
    card = prices["gpus"][gpu]
    memory, hours = card["memory_gb"] * 1e9, [cost.gpu_hours(card["tflops"], prices) for cost in costs]
    width = max(len(cost.job) for cost in costs) if costs else 0
    titles = ("model", "sampled", "trained", "FLOPs", "GPU hours", "hours", "disk GB", "GB a GPU", "host GB")
    lines = [f"{'':{width}}" + "".join(f"{title:>10}" for title in titles)]
    for cost, spent in zip(costs, hours, strict=True):
        need = memory_needed(cost, memory, gpus)
        shown = [short(cost.parameters), short(cost.sampled), short(cost.trained), figure(cost.flops, ".1e")]
        shown += [figure(value, ".2f") for value in (spent, spent / gpus, cost.disk / 1e9, need / 1e9)]
        shown += [figure(host_needed(cost, gpus) / 1e9, ".1f")]
        lines.append(f"{cost.job:<{width}}{''.join(f'{text:>10}' for text in shown)}{' !' * (need > memory)}".rstrip())
    return "\n".join([*lines, *summary(costs, hours, gpu, gpus, prices)])


def summary(costs: list[Cost], hours: list[float], gpu: str, gpus: int, prices: dict[str, Any]) -> list[str]:
    card, spent = prices["gpus"][gpu], sum(known(hours))
    flops = sum(known(cost.flops for cost in costs))
    unknown = [cost.job for cost, job_hours in zip(costs, hours, strict=True) if math.isnan(job_hours)]
    tight = [cost.job for cost in costs if memory_needed(cost, card["memory_gb"] * 1e9, gpus) > card["memory_gb"] * 1e9]
    drawn, disk = prices["sampling"], disk_needed(costs) / 1e9
    lines = [
        f"{'at least ' * bool(unknown)}{flops:.1e} FLOPs, {spent:.2f} GPU hours, {spent / gpus:.2f} hours one after "
        f"another on {gpus} × {gpu} ({card['memory_gb']} GB), {disk:.1f} GB of disk at the fullest",
        f"assumed: {card['tflops']} TFLOP/s in bfloat16, {prices['training']:.0%} of it in training, "
        f"{drawn['vllm']:.0%} in sampling with vllm ({drawn['transformers']:.0%} with transformers), shared states "
        f"over the GPUs, completions {prices['completion_share']:.0%} of the longest allowed; {PRICES} says it all",
    ]
    if unknown:
        lines.append(f"? not known for {', '.join(unknown)}: rows before there is data, or a model {PRICES} hasn't")
    if tight:
        lines.append(f"! more than a GPU has: {', '.join(tight)}; more GPUs, smaller batches or checkpoints")
    return lines


def short(count: float) -> str:
    """494M for 494,032,768."""
    scales = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))
    size, letter = next(((size, letter) for size, letter in scales if count >= size), (1, ""))
    return figure(count / size, ".3g") + letter


def figure(value: float, form: str) -> str:
    """A number, nothing for 0, and ? for what isn't known."""
    return "?" if math.isnan(value) else format(value, form) if value else ""
