"""Facts about the program that trains a model by rewards, for plan, checks and report (programs/specs.py)."""

import ast
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from r1flow.artifacts import fingerprint
from r1flow.core.endpoint import PLAIN_URL
from r1flow.core.errors import UserError, did_you_mean, errors_at
from r1flow.core.rewarding import check_types, reward_names
from r1flow.grading.verdict import Cause
from r1flow.programs.cost_estimate import Cost, Estimator
from r1flow.programs.keys import OneOrMore, Rows, Share, ShareBelowOne, ToolUse, Trained
from r1flow.programs.specs import Spec
from r1flow.programs.trainings import SMOOTHING, STEPS, TRL, check_read, cost_of, curves_of, memory_of
from r1flow.sampling import AUTO, BY_TORCH
from r1flow.sampling.environments import Tools
from r1flow.sandbox import Tier
from r1flow.training.ranks import strategy_of
from r1flow.training.rollout_server import ADDRESS
from r1flow.training.rollouts import MISMATCH, extra_passes, generation_size, rollouts, steps_per_generation


@dataclass
class Prompts(Rows):
    general_file: str | None
    general_share: ShareBelowOne


@dataclass
class RewardPart:
    weight: float = 1.0
    name: str | None = None
    args: dict[str, Any] = field(default_factory=dict)


@dataclass
class Dev:
    file: str
    every: OneOrMore
    n_problems: OneOrMore


@dataclass
class Grpo(Trained):
    template: str | None
    engine: str
    data: Prompts
    rewards: dict[str, RewardPart]
    stop_above: dict[str, Share]  # 1: never
    dev: Dev | None
    environment: ToolUse | None


# Prompts are texts by then, in the stage's order, and nothing is evaluated; tools are r1flow's (environment).
UNREAD = SMOOTHING | {
    "chat_template_kwargs": (None,),
    "max_tool_calling_iterations": (None,),
    "num_generations_eval": (None,),
    "train_sampling_strategy": ("random", None),
}


def check_grpo(config: dict[str, Any]) -> None:
    """Refuse a configuration that GRPO can't train, or that a resumed training can't continue exactly."""
    trainer = config["trainer"]
    if config["engine"] not in BY_TORCH:
        raise UserError(f"engine: there is no {config['engine']!r} for rollouts; known: {', '.join([AUTO, *BY_TORCH])}")
    if not config.get("rewards"):
        raise UserError("rewards: there are none; name at least one")
    check_rewards(config["rewards"])
    check_shares(config)
    check_limits(config["stop_above"])
    check_dev(config)
    check_tool_use(config)
    check_groups(trainer)
    check_read(trainer, UNREAD)
    check_reference(config)
    if trainer["loss_type"] == "cispo" and trainer["epsilon_high"] is None:
        raise UserError(
            "trainer.epsilon_high: null means 0.2, and with it loss_type cispo would clip every weight; set it to 5.0"
        )
    check_snapshots(trainer)
    server = trainer.get("vllm_server_base_url") or ""
    # Without a colon it names a file with the address.
    if ":" in server and not PLAIN_URL.fullmatch(server):
        raise UserError("trainer.vllm_server_base_url: use an address like http://127.0.0.1:8000, without a password")
    if config["engine"] == "r1flow":
        check_engine_options(trainer)
    if trainer.get("use_vllm"):
        check_vllm(config)


# In place of what a reward looks for when it is made, and a plan may lack: a key, a sandbox, a model to be trained.
UNASKED = {
    "judge": {"api_key_env": None, "cache_dir": None},
    "code_tests": {"tier": Tier.LANDLOCK},
    "reward_model": {"model_dir": None},
}


def check_rewards(rewards: Mapping[str, dict[str, Any]]) -> None:
    """Refuse unknown rewards and wrong arguments; a user's own reward is only looked up in its source, not imported."""
    from r1flow.rewards.combine import check_reward_args, factories

    ours = factories()
    for label, name in reward_names(rewards).items():
        if name in ours:
            args = (rewards[label].get("args") or {}) | UNASKED.get(name, {})
            check_reward_args(f"rewards.{label}.args", ours[name], args)
            check_made(f"rewards.{label}.args", ours[name], args)
        elif "." in name:
            check_own(f"rewards.{label}: {name}", *name.rsplit(".", 1))
        else:
            raise UserError(f"rewards.{label}: there is no reward {name!r}{did_you_mean(name, list(ours))}")


def check_made(place: str, factory: Callable[..., Any], args: dict[str, Any]) -> None:
    """Refuse values of a wrong type, and those with which one of our rewards can't be made."""
    check_types(place, factory, args)
    with errors_at(f"{place}: "):
        factory(**args)


def check_own(place: str, module: str, name: str) -> None:
    """Refuse a user's own reward if its module is missing, or if the module's source text doesn't define it."""
    path = fingerprint.file_of(module)
    if path is None:
        file, files = f"{module.replace('.', '/')}.py", sorted(map(str, Path().glob("*.py")))
        hint = did_you_mean(file, files) if files else "; put it there"
        raise UserError(f"{place}: there is no {file} in the project's folder{hint}")
    is_users = fingerprint.users_folder(module.partition(".")[0])  # installed modules aren't read
    known = names_in(path) if is_users else {"*"}
    if name not in known and not known & {"*", "__getattr__"}:
        raise UserError(f"{place}: there is no {name!r} in {path.name}{did_you_mean(name, sorted(known))}")


def names_in(path: Path) -> set[str]:
    """Every name that a module may define; "*" if that can't be known. Syntax errors are left to fingerprint.py."""
    try:
        nodes = list(ast.walk(ast.parse(path.read_bytes()))) if path.suffix == ".py" else []
    except SyntaxError:
        return {"*"}
    names = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    names |= {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}
    names |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return names if nodes else {"*"}


OF_GENERAL = {"reward_model", "judge", "instruction_following"}  # rewards that score general prompts


def check_shares(config: dict[str, Any]) -> None:
    share, file = config["data"]["general_share"], config["data"]["general_file"]
    if bool(share) != bool(file):
        what = f"data.general_share: {share} and data.general_file: {file} belong together"
        raise UserError(f"{what}; set both, or set them to 0 and null")
    rewards = config["rewards"].items()
    others = {label: part for label, part in rewards if not (part.get("args") or {}).get("reasoning")}
    names = set(reward_names(others).values())
    # A user's own reward might, too.
    scored = names & OF_GENERAL or any("." in name for name in names)
    if share and not scored:
        raise UserError(
            f"data.general_share: general prompts need {' or '.join(sorted(OF_GENERAL))} in rewards; add one, or set 0"
        )


def unscored_kinds(rewards: Mapping[str, Mapping[str, Any]], kinds: Sequence[str]) -> list[str]:
    """The kinds of general prompts that no reward scores, and nothing is learnt from; a user's own might score any."""
    left = list(kinds)
    for label, name in reward_names(rewards).items():
        args = rewards[label].get("args") or {}
        if "." in name:
            return []
        if name in OF_GENERAL and not args.get("reasoning") and not args.get("gold_column"):
            scored = args.get("kinds") or kinds
            left = [kind for kind in left if kind not in scored]
    return left


def check_limits(stop_above: dict[str, float]) -> None:
    """Check the limits that stop a training: a share for each cause of missing rewards, and the sampler's mismatch."""
    known = [*(cause.value for cause in Cause if cause != Cause.NOT_APPLICABLE), MISMATCH]
    for cause in stop_above:
        if cause not in known:
            raise UserError(f"stop_above: there is no cause {cause!r}{did_you_mean(cause, known)}")


def check_dev(config: dict[str, Any]) -> None:
    """Refuse a curve on dev problems that can't be measured; only our engine samples from the model in training."""
    dev = config["dev"]
    if dev and config["engine"] != "r1flow":
        raise UserError(f"dev: engine {config['engine']} can't answer dev problems during training; set dev to null")


def check_tool_use(config: dict[str, Any]) -> None:
    """Refuse tools that can't be called, a reward for calls without them, and a sampler that can't go on after one."""
    block = config["environment"]
    if block and Tools(block).pays and "environment" in config["rewards"]:
        raise UserError("rewards.environment: what the environment itself pays has this name; give yours another")
    priced = [
        label for label, name in reward_names(config["rewards"]).items() if name.rpartition(".")[2] == "tool_calls"
    ]
    if priced and not block:
        raise UserError(f"rewards.{priced[0]}: it counts calls of tools; set environment, or take it out")
    if block and config["engine"] != "r1flow":
        raise UserError(
            f"environment: engine {config['engine']} can't answer a call in the middle of a response; use engine:"
            " r1flow, or set environment to null"
        )


def check_groups(trainer: dict[str, Any]) -> None:
    """A group is num_generations completions of one prompt, and a generation must consist of whole groups."""
    group, batch = trainer["num_generations"], trainer["per_device_train_batch_size"]
    if group < 2:
        raise UserError(f"trainer.num_generations: {group}; rewards are compared within a group, so use 2 or more")
    if batch < 1:
        raise UserError(f"trainer.per_device_train_batch_size: {batch} completions can't be trained on; use 1 or more")
    size = generation_size(trainer)
    if size % batch:
        raise UserError(
            f"trainer.generation_batch_size: {size} completions aren't whole passes of {batch}; make it a multiple of"
            " per_device_train_batch_size"
        )
    if size % group:
        raise UserError(
            f"trainer.num_generations: {group} doesn't divide the {size} completions of a generation"
            f" (per_device_train_batch_size × steps_per_generation); make these a multiple of {group}"
        )
    if trainer["max_steps"] < 1:
        raise UserError(
            f"trainer.max_steps: {trainer['max_steps']}; a GRPO stage's length is given in steps, 1 or more"
        )


def check_reference(config: dict[str, Any]) -> None:
    """Refuse a reference that is to follow the policy where there is none: TRL says so after loading the model."""
    trainer = config["trainer"]
    if trainer.get("sync_ref_model") and (config.get("lora") or not trainer["beta"]):
        why = (
            "with lora it is the model without adapters"
            if config.get("lora")
            else "trainer.beta is 0, so there is none"
        )
        raise UserError(f"trainer.sync_ref_model: true, and no reference could follow: {why}; set it to false")


def check_snapshots(trainer: dict[str, Any]) -> None:
    """Refuse snapshots between passes over one set of completions: they don't hold these, so resuming would differ."""
    if trainer.get("save_strategy") != "steps":
        return
    passes = trainer["save_steps"] * trainer["gradient_accumulation_steps"]
    period = steps_per_generation(trainer) * trainer["num_iterations"]
    if passes % period:
        raise UserError(
            f"trainer.save_steps: {trainer['save_steps']} would save between the {period} passes over one set"
            " of completions (steps_per_generation × num_iterations), and a resumed training would differ; make it a"
            f" multiple of {period // math.gcd(period, trainer['gradient_accumulation_steps'])} steps"
        )


def check_engine_options(trainer: dict[str, Any]) -> None:
    """Refuse options of TRL's own generation that our engine doesn't have."""
    plain = {"top_k": (0, None), "min_p": (None,), "repetition_penalty": (1, None), "generation_kwargs": (None,)}
    plain |= {"cache_implementation": (None,), "use_transformers_continuous_batching": (False, None)}
    for key, allowed in plain.items():
        if trainer.get(key) not in allowed:
            raise UserError(
                f"trainer.{key}: {trainer[key]} is more than engine: r1flow can do; use engine: transformers"
            )
    if trainer.get("use_vllm"):
        raise UserError("trainer.use_vllm: true needs engine: transformers (TRL then samples with vLLM)")
    if trainer["temperature"] <= 0:
        raise UserError(
            f"trainer.temperature: {trainer['temperature']}; RL needs samples that differ, so use more than 0"
        )


# Values that leave all tokens to sample from. Otherwise vLLM's probabilities are among the remaining tokens and the
# trainer's among all, so their ratio is a bias, not a correction (huggingface/trl 6789).
ALL_TOKENS = {"top_p": (1,), "top_k": (0, None), "min_p": (0, None)}


def check_vllm(config: dict[str, Any]) -> None:
    """Refuse options that TRL would refuse only after loading the model, or ignore."""
    trainer = config["trainer"]
    mode, longest = trainer.get("vllm_mode", "colocate"), trainer["max_completion_length"]
    if mode == "server" and config["device"] != "cuda":
        raise UserError("trainer.vllm_mode: server gets the weights by NCCL, which needs device: cuda; use colocate")
    for key in ("vllm_server_host", "vllm_server_port"):
        if key in trainer:
            raise UserError(f"trainer.{key}: the whole address goes into {ADDRESS}, or into vllm_server_base_url")
    room = trainer.get("vllm_max_model_length")
    if mode == "colocate" and room is not None and room <= longest:
        raise UserError(
            f"trainer.vllm_max_model_length: {room} has no room for a prompt beside {longest} new tokens, and vLLM"
            " would truncate responses; raise it, or lower max_completion_length"
        )
    check_correction(trainer, config["stop_above"])


def check_correction(trainer: dict[str, Any], stop_above: dict[str, float]) -> None:
    """Check the importance weights that correct for vLLM's numerics, and the mismatch that TRL measures with them."""
    corrected = trainer.get("vllm_importance_sampling_correction", True)
    if corrected and MISMATCH not in stop_above:
        raise UserError(
            f"stop_above.{MISMATCH}: it is missing, and vLLM might sample from another model than the one in training"
            " unnoticed; set it to 0.1 (1: hardly ever stop)"
        )
    if not corrected and MISMATCH in stop_above:
        raise UserError(
            f"stop_above.{MISMATCH}: TRL measures it only with trainer.vllm_importance_sampling_correction: true; set"
            " that, or remove this limit"
        )
    for key, allowed in ALL_TOKENS.items():
        if corrected and trainer.get(key) not in allowed:
            raise UserError(
                f"trainer.{key}: at {trainer[key]} vLLM's probabilities aren't comparable with the trainer's; leave it"
                f" at {allowed[0]}, or set vllm_importance_sampling_correction: false"
            )


def files_read(config: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if config["data"]["general_file"]:
        yield "data.general_file", config["data"]["general_file"]
    if config["dev"]:
        yield "dev.file", config["dev"]["file"]


# The only values that TRL takes for these options. Its config class doesn't list them; a test compares with its source.
WORDS = {
    "loss_type": ["grpo", "bnpo", "dr_grpo", "dapo", "luspo", "cispo", "sapo", "vespo"],
    "scale_rewards": ["group", "batch", "none"],
    "importance_sampling_level": ["token", "sequence"],
    "multi_objective_aggregation": ["sum_then_normalize", "normalize_then_sum"],
    "vllm_mode": ["colocate", "server"],
    "vllm_model_impl": ["vllm", "transformers"],
    "vllm_importance_sampling_mode": ["sequence_mask", "sequence_truncate", "token_mask", "token_truncate"],
    "cache_implementation": ["dynamic", "offloaded", "quantized", "static", "offloaded_static"],
}


CLIPPED = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")  # losses for which TRL logs the share of clipped ratios
BY_RULE = {"answer_format": "format", "language_consistency": "language"}  # rewards that score every reasoning row


def curves(config: dict[str, Any], metrics: dict[str, Any]) -> dict[str, str]:
    """The curves that a training must log, each with the reason; not those of users' own rewards or of rare rows."""
    names = ("reward", "length", "truncated", "entropy", "zero_variance", "tokens")
    trainer, reasons = config["trainer"], curves_of(names, config, metrics)
    if not reasons:
        return {}
    if not strategy_of(config).startswith("zero"):  # DeepSpeed may have none
        reasons["grad_norm"] = "every such training has it"
    if trainer["loss_type"] in CLIPPED:
        reasons["clipped"] = f"trainer.loss_type is {trainer['loss_type']}"
    if trainer["beta"]:
        reasons["kl"] = f"trainer.beta is {trainer['beta']}"
    if trainer.get("use_vllm") and trainer.get("vllm_importance_sampling_correction", True):
        reasons |= dict.fromkeys(("mismatch", "importance_ratio"), "trainer.use_vllm is true")
    if config.get("engine") == "r1flow" and not trainer.get("use_liger_kernel"):
        reasons["mismatch"] = "engine is r1flow"
    if config["dev"]:
        reasons["dev/accuracy"] = "dev is set"
    if config["environment"]:
        reasons |= dict.fromkeys(
            ("calls", "failed_calls", "turns", "result_tokens", "read_again"), "environment is set"
        )
    return reasons | reward_curves(config)


def reward_curves(config: dict[str, Any]) -> dict[str, str]:
    """The curves on reasoning rows, if there are any: thoughts, and rewards, but accuracy only without programs."""
    trainer, share = config["trainer"], config["data"]["general_share"]
    prompts = rollouts(trainer) // trainer["num_generations"]
    if round(prompts * share) == prompts:
        return {}
    names = reward_names(config["rewards"])
    reasons = {BY_RULE[name]: f"rewards.{name} gives one" for name in BY_RULE if names.get(name) == name}
    reasons["thinking"] = "every training on reasoning prompts has it"
    graded = [label for label, name in names.items() if name == "accuracy"]
    if graded and "code_tests" not in names.values():
        reasons["accuracy"] = f"rewards.{graded[0]} gives one"
    return reasons


def cost(estimator: Estimator, job: str, config: dict[str, Any]) -> Cost:
    """The cost of the rollouts: each is trained on `num_iterations` times; KL and correction add forward passes."""
    trainer = config["trainer"]
    longest = trainer["max_completion_length"]
    mean = estimator.prompt + estimator.completion(longest)
    seen = rollouts(trainer) * mean
    # Sets of completions, and of answers to the dev problems.
    drawn = rollouts(trainer) / generation_size(trainer)
    drawn += trainer["max_steps"] // config["dev"]["every"] + 1 if config["dev"] else 0
    return cost_of(
        estimator,
        job,
        config,
        seen * trainer["num_iterations"],
        mean,
        estimator.prompt + longest,
        drawn=seen,
        in_turn=longest * drawn,
        scored=seen * extra_passes(trainer),
        memory=memory,
        engine="vllm" if trainer.get("use_vllm") else config["engine"],
        reserved=vllm_share(trainer),
    )


def memory(config: dict[str, Any], parameters: float, reward: float) -> tuple[float, float]:
    return memory_of(config, parameters, reward, reference=bool(config["trainer"].get("beta")))


def vllm_share(trainer: dict[str, Any]) -> float:
    """The share of a GPU's memory that vLLM takes for its rollouts."""
    here = trainer.get("use_vllm") and trainer.get("vllm_mode", "colocate") == "colocate"
    return trainer.get("vllm_gpu_memory_utilization", 0.3) if here else 0


SPEC = Spec(
    keys=Grpo,
    outputs=lambda config: ["model/"],
    check=check_grpo,
    files_read=files_read,
    trainer=(*TRL, ("trl", "trainer/grpo_config.py")),
    read=(
        *(*STEPS, "num_generations", "num_iterations", "max_completion_length"),
        *("loss_type", "beta", "temperature", "epsilon_high"),
    ),
    words=WORDS,
    metrics={"steps": int, "flops": float, "counts": dict, "history": list},
    curves=curves,
    labels=lambda config: "completion",
    by_ranks=True,
    cost=cost,
    memory=memory,
    on_gpu=True,
    runtime=1440,
)
