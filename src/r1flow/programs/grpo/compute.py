"""Group relative policy optimisation (GRPO): the reinforcement learning of all stages that have one.

For each prompt a step samples G completions o_1 … o_G from the current model, π_old, and scores them by rewards r_i.
It then takes a gradient step with TRL's GRPOTrainer to maximise (DeepSeekMath, equation 3; DeepSeek-R1, section 2.2.1)

    1/G Σ_i 1/|o_i| Σ_t [ min(ρ_it A_i, clip(ρ_it, 1 - ε, 1 + ε) A_i) - β KL_it ]
    A_i = (r_i - mean(r)) / std(r)                   the advantage: better or worse than the others of the same prompt
    ρ_it = π(o_it | q, o_i<t) / π_old(o_it | q, o_i<t)               1 while there is one update for each set of samples
    KL_it = π_ref/π - log(π_ref/π) - 1                     how far the token is from the model that the stage began with

The options under `trainer:` choose among TRL's variants: the mean over tokens (`loss_type`), whether to divide by the
standard deviation (`scale_rewards`), and ratios of tokens or of sequences. docs/grpo.md explains them and compares the
dialects of papers and libraries, which are in conf/dialect/. An example:

    prompt      "User: What is 8 + 16 - 19?\\nAssistant: "
    completion  "<think>8 + 16 = 24. 24 - 19 = 5.</think><answer>5</answer>"      reward 1.2, advantage +0.7

Inputs: `model`, a model directory; `data`, a folder with the files that the config names; `reward_model` where a reward
needs one. Where the config has `dev`, the curves on a fixed set of problems are measured too (training/dev.py).

With `engine: r1flow` our own sampler draws the completions, called by TRL's `rollout_func`; where the config has an
`environment`, they have tool calls (training/episodes.py). With `transformers` TRL draws them itself or, with
`use_vllm`, by vLLM in this process or on a server (training/rollout_server.py). DeepSeek-R1, sections 2.2 (zero RL),
2.3.2, 2.3.4.
"""

import math
import os
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

# rollout_func is experimental; our tests check it, and TRL is pinned.
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

from datasets import Dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PrinterCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
    set_seed,
)
from trl import GRPOConfig, GRPOTrainer

from r1flow.core.errors import UserError
from r1flow.core.flops import forward_flops, training_flops
from r1flow.core.rewarding import reward_names
from r1flow.core.schema import read_jsonl
from r1flow.core.template import GENERAL, Response, opens_thought, prompt_ids, render, unmarked
from r1flow.grading.problems import is_coding, is_gradable
from r1flow.model.llama import has_options
from r1flow.model.mismatch import METRIC, MismatchWatch, with_mismatch
from r1flow.model.pretrained import positions_of, read_model, read_pretrained
from r1flow.model.scoring import CompactGRPOTrainer
from r1flow.rewards.combine import REWARD, combine
from r1flow.rewards.scores import Reward
from r1flow.sampling import AUTO, SamplingParams, seed_of
from r1flow.sampling.environments import Tools
from r1flow.sandbox import tier
from r1flow.tracking.left_out import Count, count_limited, tell_counts
from r1flow.tracking.stage import Stage
from r1flow.training import rollout_server
from r1flow.training.callbacks import History
from r1flow.training.dev import DevCurve
from r1flow.training.episodes import (
    CALLS,
    FAILURES,
    OWN_PAY,
    READ_AGAIN,
    RESULT_TOKENS,
    TURNS,
    log_calls,
    play,
    rollout_columns,
    with_own_pay,
    with_rows,
)
from r1flow.training.learning import obstacles_met, obstacles_now
from r1flow.training.ranks import adapters, parameters_of, save, trainer_options
from r1flow.training.rollouts import MISMATCH, extra_passes, rollouts
from r1flow.training.room import check_room

# The curves: TRL's name of each metric, and ours.
FIELDS = {
    "reward": "reward",
    "accuracy": "accuracy",
    "rewards/answer_format": "format",
    "rewards/language_consistency": "language",
    "rewards/helpful": "helpful",
    "rewards/harmless": "harmless",
    "completions/mean_length": "length",
    "completions/clipped_ratio": "truncated",
    "kl": "kl",
    "entropy": "entropy",
    "zero_variance": "zero_variance",
    "clip_ratio/region_mean": "clipped",
    METRIC: "mismatch",
    "sampling/importance_sampling_ratio/mean": "importance_ratio",
    "grad_norm": "grad_norm",
    "num_tokens": "tokens",
    "thinking": "thinking",
    "thinking_length": "thinking_length",
    "dev/accuracy": "dev/accuracy",
    CALLS: "calls",
    FAILURES: "failed_calls",
    TURNS: "turns",
    RESULT_TOKENS: "result_tokens",
    READ_AGAIN: "read_again",
    OWN_PAY: OWN_PAY,
}
COLUMNS = ("id", "task", "kind", "question", "answer", "entry", "check")  # columns of a row that rewards may use
GROUPS = 2  # prompts whose completions a table of samples has
SAMPLES_EVERY = 10  # steps between tables, or a multiple, so that trainings can be compared, and none has more than
TABLES = 20


def compute(stage: Stage) -> dict[str, Any]:
    """Train work/model; metrics: steps, tokens, an estimate of FLOPs, and the curves."""
    # Before the model: with zero3 it says how that is loaded.
    options = GRPOConfig(**trainer_options(stage))
    if options.use_vllm and options.vllm_mode == "server":
        options.vllm_server_base_url = server_of(options, stage)
    tokenizer = read_pretrained(AutoTokenizer, stage.inputs["model"], padding_side="left")
    tokenizer.chat_template = stage.config["template"] or tokenizer.chat_template
    model = read_model(
        AutoModelForCausalLM, stage.inputs["model"], dtype="float32", attn_implementation=stage.config["attention"]
    )
    tools = Tools(stage.config["environment"]) if stage.config["environment"] else None
    rows, counts = training_rows(stage.config, stage.inputs["data"], tokenizer, tools)
    remedy = "look at the answers in the file, which the reward must be able to grade"
    told = tell_counts(stage, prompts_drawn(stage, rows, counts), stage.name, stage.config, remedy)
    check_prompts(stage, rows, model, tokenizer)
    # A reward that has no name among the curves, such as one of the user's, is a curve by its own.
    own = {f"rewards/{name}": f"rewards/{name}" for name in stage.config["rewards"] if name != "accuracy"}
    history, samples, limits = History(stage, own | FIELDS), Samples(stage), dict(stage.config["stop_above"])
    watch = MismatchWatch(limits.pop(MISMATCH, None))
    curve = [DevCurve(stage, model, tokenizer, tools)] if stage.config["dev"] else []
    reward = with_own_pay(combine(stage.config["rewards"], stage.inputs.get("reward_model"), limits), tools)
    trainer = trainer_of(stage)(
        model=model,
        reward_funcs=samples.watch(reward),
        args=options,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        peft_config=adapters(stage.config),
        callbacks=[history, samples, watch, LearningWatch(history), *curve],
        rollout_func=rollout(model, tokenizer, stage, tools) if is_sampled_by_us(stage) else None,
    )
    samples.trainer = trainer
    trainer.remove_callback(PrinterCallback)  # History reports instead
    # It seeds all generators by the rank alone: runs with different seeds would draw the same.
    if options.use_vllm:
        set_seed(stage.seed + trainer.accelerator.process_index // options.vllm_tensor_parallel_size)
    history.train(trainer)
    check_paid(history.rows)
    warnings = obstacles_met(steps_of(history), stage.config)
    for line in warnings:
        stage.terminal.say(f"warning: {line}")
    save(stage, trainer, tokenizer)
    metrics = {
        "steps": trainer.state.global_step,
        "counts": told,
        **compute_spent(model, trainer, stage.config["trainer"]),
        "mixed_precision": trainer.accelerator.mixed_precision,
        "history": history.rows,
    }
    metrics |= {"warnings": warnings} if warnings else {}
    return metrics | ({"sandbox": tier()} if runs_code(stage.config["rewards"]) else {})


def check_paid(history: list[dict[str, float]]) -> None:
    """Raise UserError for a training of which no completion had a reward: a short one meets no limit of stop_above."""
    if history and all(row.get("reward") is None for row in history):
        raise UserError(
            "rewards: no completion got a score in any step, so nothing was learnt; look at what grades them (the log"
            " has a judge's failures), and at whether it scores such rows"
        )


def server_of(options: GRPOConfig, stage: Stage) -> str:
    """The address of vLLM's server; waits until a server answers that fits this stage."""
    configured, wait_s = options.vllm_server_base_url, options.vllm_server_timeout
    return rollout_server.find_server(stage.inputs["model"], configured, wait_s, stage.terminal.say)


def runs_code(specs: dict[str, dict[str, Any]]) -> bool:
    """Whether a reward runs code that the model writes; the metrics then record the sandbox's tier."""
    return "code_tests" in reward_names(specs).values()


def trainer_of(stage: Stage) -> type[GRPOTrainer]:
    """TRL's trainer; with our engine, one that also measures the mismatch, as TRL does for vLLM only."""
    if not is_sampled_by_us(stage):
        return OwnPromptsTrainer
    ours = with_mismatch(CompactGRPOTrainer if compact(stage) else GRPOTrainer)
    return with_rows(ours) if stage.config["environment"] else ours


class OwnPromptsTrainer(GRPOTrainer):
    """TRL's trainer with the ids of prompts that all other stages have.

    TRL's own call would read the names of special tokens in a row as these tokens, and add a tokenizer's first token
    to a prompt whose template has written it.
    """

    def _tokenize_prompts(self, prompts: list[str]) -> tuple[list[list[int]], None, dict[str, Any]]:
        return prompt_ids(self.processing_class, prompts), None, {}


def compact(stage: Stage) -> bool:
    """Whether our own scoring is used: with our engine (small models), on a CPU, in one process."""
    trainer = stage.config["trainer"]
    return is_sampled_by_us(stage) and bool(trainer["use_cpu"]) and stage.ranks == 1 and has_options(trainer)


def is_sampled_by_us(stage: Stage) -> bool:
    """Whether our engine draws the completions, and not TRL; which of them `auto` is, a plan has decided."""
    if stage.config["engine"] == AUTO:
        raise UserError("engine: auto is decided when a run is planned; a stage by itself takes r1flow or transformers")
    return stage.config["engine"] == "r1flow"


def training_rows(
    config: dict[str, Any], folder: Path, tokenizer: PreTrainedTokenizerBase, tools: Tools | None = None
) -> tuple[list[dict[str, Any]], dict[str, Count]]:
    """The prompts of the whole training in their order: reasoning and, at the config's share, general ones.

    The second value has, by file, how many rows may be drawn, and how many were left out.

    The list has every prompt that the training needs (a used-up file is reshuffled and used again), so there is only
    one epoch: TRL's sampler, resumed in a second epoch, would start again with the order of the first.
    """
    data, order = config["data"], random.Random(config["seed"])
    count = rollouts(config["trainer"]) // config["trainer"]["num_generations"]
    general = round(count * data["general_share"])
    prompts, count_of_prompts = load_prompts(folder / data["file"], data["limit"], graded_by(config["rewards"]))
    rows, counts = cycled(prompts, count - general, order), {data["file"]: count_of_prompts}
    if data["general_file"]:
        prompts, counts[data["general_file"]] = load_prompts(folder / data["general_file"], None)
    if general:
        rows += [{**row, "task": GENERAL} for row in cycled(prompts, general, order)]
        # General prompts stand among the others, not after them.
        order.shuffle(rows)
    prompts = []
    for row in rows:
        columns = {name: row.get(name) for name in COLUMNS}
        question = tools.question(columns) if tools else row["question"]
        prompts.append({"prompt": render(tokenizer, question), **columns})
    return prompts, counts


def of_each_file(stage: Stage, rows: list[dict[str, Any]]) -> Iterator[tuple[Path, list[dict[str, Any]]]]:
    """Each file of prompts, and those of its rows that are drawn."""
    data, folder = stage.config["data"], stage.inputs["data"]
    yield folder / data["file"], [row for row in rows if row["task"] != GENERAL]
    if data["general_file"]:
        yield folder / data["general_file"], [row for row in rows if row["task"] == GENERAL]


def prompts_drawn(stage: Stage, rows: list[dict[str, Any]], counts: dict[str, Count]) -> dict[str, Count]:
    """What becomes of the rows of each file of prompts: a short training doesn't reach all of them."""
    for path, drawn in of_each_file(stage, rows):
        count = counts[path.name]
        count.leave_out("not drawn", rows=count.kept - min(count.kept, len(drawn)))
    return counts


def check_prompts(
    stage: Stage, rows: list[dict[str, Any]], model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    """Refuse a prompt after which the model, or vLLM, has no room for a completion; raises UserError with its row."""
    trainer = stage.config["trainer"]
    room = positions_of(model.config)
    said = f"the model has {room} positions"
    limit = trainer.get("vllm_max_model_length") if trainer.get("use_vllm") else None
    if limit and (room is None or limit < room):
        room, said = limit, f"trainer.vllm_max_model_length is {limit}"
    for path, drawn in of_each_file(stage, rows):
        check_room(path, drawn, tokenizer, trainer["max_completion_length"], room, said)


def cycled(rows: list[dict[str, Any]], count: int, order: random.Random) -> list[dict[str, Any]]:
    """`count` rows: all of them in a random order, then all again in another order, and so on."""
    chosen: list[dict[str, Any]] = []
    while len(chosen) < count:
        chosen += order.sample(rows, len(rows))
    return chosen[:count]


def load_prompts(path: Path, limit: int | None, graded: Collection[str] = ()) -> tuple[list[dict[str, Any]], Count]:
    """The file's first prompts, without those that the rewards `graded` can't grade; and how many there were."""
    count = count_limited(path, limit)
    rows = count.keep(read_jsonl(path)[:limit], partial(can_be_graded, graded), "ungradable")
    if not rows:
        reasons = f": {count}" if count.read else ""
        raise UserError(
            f"{path}: no prompts to train on{reasons}; look at the stage that wrote it, or at data.limit ({limit})"
        )
    return rows, count


def graded_by(rewards: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """The rewards that compare answers, or run code, as `is_gradable` does: not of another kind or column."""
    graders = set()
    for label, name in reward_names(rewards).items():
        if not {"kind", "gold_column"} & set(rewards[label].get("args") or {}):
            graders.add(name)
    return graders & {"accuracy", "code_tests"}


def can_be_graded(graded: Collection[str], row: dict[str, Any]) -> bool:
    """Whether the reward that looks at this row's answer can grade it; true if none does."""
    if not graded:
        return True
    reward = "code_tests" if is_coding(row) else "accuracy"
    return reward not in graded or is_gradable(row)


def rollout(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, stage: Stage, tools: Tools | None = None
) -> Callable[[list[str], GRPOTrainer], dict[str, Any]]:
    """TRL's rollout_func with our engine; row r of step s draws with seed_of(stage seed, "step s.pass", r).

    Rows are numbered over all ranks. The log-probabilities of what was drawn are the loss's π_old (mismatch.py).
    """
    from r1flow.sampling.engine import Engine, eos_ids_of

    engine = Engine(model, eos_ids_of(model, tokenizer))

    def sample(prompts: list[str], trainer: GRPOTrainer) -> dict[str, Any]:
        args = trainer.args
        # One step may have several generations, which need different seeds; each rank samples its share of each.
        within = trainer._step % args.gradient_accumulation_steps * stage.ranks
        first = trainer.accelerator.process_index * len(prompts)
        when = f"step {trainer.state.global_step}.{within}"
        asked = prompt_ids(tokenizer, prompts)
        params = SamplingParams(args.temperature, args.top_p, args.max_completion_length)
        seeds = [seed_of(stage.seed, when, first + row) for row in range(len(prompts))]
        if tools:
            sessions = [tools.begin(row) for row in trainer.asked_rows]
            episodes = play(engine, tokenizer, sessions, asked, params, seeds)
            log_calls(trainer, episodes, asked)
            return {"prompt_ids": asked, **rollout_columns(episodes, sessions)}
        logps: list[list[float]] = []
        completion_ids = engine.generate(asked, params, seeds, batch_size=len(prompts), logps=logps)
        return {"prompt_ids": asked, "completion_ids": completion_ids, "logprobs": logps}

    return sample


class Samples(TrainerCallback):
    """Logs a table with all completions to some prompts of every n-th step, each with its rewards and advantage."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.trainer: GRPOTrainer | None = None  # known when training begins

    def watch(self, reward: Reward) -> Reward:
        """The same reward function; it also hands its values on to the table, and logs what they show."""

        def combined(prompts: list[str], completions: list[str], **columns: Any) -> list[float | None]:
            prompts = [unmarked(prompt) for prompt in prompts]
            responses = [Response.parse(completion) for completion in completions]
            values = reward(prompts=prompts, completions=responses, **columns)
            log_thoughts(prompts, responses, columns)
            columns["log_metric"]("zero_variance", share_alike(prompts, values))
            columns["log_extra"](REWARD, values)
            return values

        return combined

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        every = SAMPLES_EVERY * math.ceil(state.max_steps / (SAMPLES_EVERY * TABLES))
        if state.global_step == 1 or state.global_step % every == 0:
            self.stage.log_table("completions", self.latest(state.global_step, GROUPS * args.num_generations))

    def latest(self, step: int, count: int) -> list[dict[str, Any]]:
        """The first `count` completions of the latest samples, from what TRL keeps of them for its own table.

        MLflow's page that compares runs has a row for each value of the first column, and shows the second.
        """
        logs = self.trainer._logs
        rewards = {name: values for name, values in logs["extra"].items() if name.split("/")[0] == REWARD}
        table = {"completion": logs["completion"], "prompt": map(unmarked, logs["prompt"]), **rewards}
        table["advantage"] = logs["advantages"]
        rows = zip(*table.values(), strict=True)
        return [{"step": step, **dict(zip(table, row, strict=True))} for row in islice(rows, count)]


class LearningWatch(TrainerCallback):
    """Says, once for each obstacle, that the latest steps teach nothing, with the likely cause."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.said: set[str] = set()

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        stage = self.history.stage
        for name, line in obstacles_now(steps_of(self.history), stage.config).items():
            if name not in self.said:
                stage.terminal.say(f"warning: {line}")
                self.said.add(name)


def steps_of(history: History) -> list[dict[str, float]]:
    """The training's logged steps; measurements on dev problems and the totals at the end have entries of their own."""
    return [row for row in history.rows if "zero_variance" in row]


def log_thoughts(prompts: list[str], responses: list[Response], columns: dict[str, Any]) -> None:
    """Log the share of the reasoning responses that think, and the mean length in tokens of those that do."""
    tasks, thinking, lengths = columns.get("task", [None] * len(prompts)), [], []
    for prompt, response, task, ids in zip(prompts, responses, tasks, columns["completion_ids"], strict=True):
        if task != GENERAL:
            thinking.append(Response.parse(response, prefilled=opens_thought(prompt)).thinks)
            if thinking[-1]:
                lengths.append(len(ids))
    for name, values in (("thinking", thinking), ("thinking_length", lengths)):
        if values:
            columns["log_metric"](name, sum(values) / len(values))


def share_alike(prompts: list[str], values: list[float | None]) -> float:
    """The share of prompts whose completions, which stand together, all have the same reward: nothing is learnt there.

    TRL's `frac_reward_zero_std` misses them where a reward isn't a binary fraction: in float32 the standard deviation
    of sixteen rewards of 1.2 comes out as 1e-7, and TRL takes only what is below 1e-8 for 0.
    """
    groups = groupby(zip(prompts, values, strict=True), key=itemgetter(0))
    alike = []
    for _, group in groups:
        rewards = {value for _, value in group if value is not None}
        alike.append(len(rewards) < 2)
    return sum(alike) / len(alike)


def compute_spent(model: PreTrainedModel, trainer: GRPOTrainer, options: dict[str, Any]) -> dict[str, float]:
    """Tokens, and FLOPs (core/flops.py).

    Sampling is a forward pass over prompt and completion, and with tools one over all that is there for each further
    turn; training is one forward and backward pass per iteration, over what tools said, too; the KL term and the
    correction of vLLM's numerics are one more forward pass each.
    """
    parameters = parameters_of(model)
    log = trainer.state.log_history
    # Prompts and completions, each sampled once.
    seen = max((entry.get("num_tokens", 0) for entry in log), default=0)
    config = trainer.args
    drawn = rollouts(options)

    def in_all(name: str) -> float:
        means = [entry[name] for entry in log if name in entry]
        return drawn * sum(means) / max(1, len(means))

    whole = seen + in_all(RESULT_TOKENS)
    read = seen + in_all(READ_AGAIN) + whole * extra_passes(vars(config))
    trained = whole * config.num_iterations
    return {
        "parameters": parameters,
        "rollouts": drawn,
        "rollout_tokens": round(in_all("completions/mean_length")),
        "train_tokens": round(trained),
        "flops": float(forward_flops(parameters, read) + training_flops(parameters, trained)),
    }
