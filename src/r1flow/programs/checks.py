"""What no stage could run, said when the workflow is parsed: pure functions of a stage's config, without torch.

    check("zero_rl", "grpo", {"trainer": {"num_generations": 16, "per_device_train_batch_size": 250, …}, …})
    UserError: zero_rl.trainer.num_generations: 16 doesn't divide the 250 completions of a generation (…); …

Values that are wrong whatever the data. Unknown keys are config.py's, missing files the stage's.
"""

import ast
import codecs
import dataclasses
import fnmatch
import locale
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from r1flow.artifacts import fingerprint
from r1flow.artifacts.manifest import read_json
from r1flow.core.errors import UserError, did_you_mean
from r1flow.core.optional import check_attention
from r1flow.core.pretrained import check_weights
from r1flow.core.schema import FILES
from r1flow.core.template import TAGS, split
from r1flow.data.leaks import EVALUATION
from r1flow.data.loaders import FUNCTIONS
from r1flow.data.sources import COMMIT, lock_command
from r1flow.grading.verdict import Cause
from r1flow.programs import filters
from r1flow.recipe.stages import (
    MIX,
    NOT_MODELS,
    PACKED,
    PROGRAMS,
    ROWS_OF,
    RULES,
    SAMPLED,
    STAGES,
    curated_from,
    rows_of,
)
from r1flow.sampling import check_engine, is_plain_llama
from r1flow.training import ranks
from r1flow.training.rollout_server import ADDRESS
from r1flow.training.rollouts import MISMATCH, generation_size, steps_per_generation


def check(stage: str, program: str, config: dict[str, Any], stages: Collection[str]) -> None:
    """Refuse a stage's config that its program couldn't run; raises UserError, the key with its stage first."""
    try:
        if config["threads"] < 1:
            raise UserError(f"threads: {config['threads']}; use 1 or more")
        if config["device"] not in ("cpu", "cuda"):
            raise UserError(f"device: {config['device']!r}; use cpu or cuda")
        if config.get("revision") and not config["init_from"]:
            raise UserError("revision: it is of a hub id; name that in init_from")
        if config.get("init_from"):
            check_start(config["init_from"], config.get("revision"), stages)
        if "trainer" in config:
            check_there(config["trainer"], READ[program])
            check_counts(config["trainer"])
            check_resume(config["trainer"])
        if config.get("lora"):
            check_lora(config["lora"])
        if program in ranks.PROGRAMS:
            ranks.check(config)
            check_attention(config["attention"], config["device"])
        if program in CHECKS:
            CHECKS[program](config)
    except UserError as error:
        raise UserError(f"{stage}.{error}") from None


def check_place() -> None:
    """Refuse a shell in which texts fail, hours later, and a folder that records can't be kept in; for a run."""
    check_encoding()
    if "?" in str(Path.cwd()) and not os.environ.get("MLFLOW_TRACKING_URI"):
        raise UserError(f"{Path.cwd()}: MLflow's database can't be below a folder with a ? in its name; rename that")


def check_encoding() -> None:
    """Refuse a shell whose texts aren't UTF-8, as all files here are; a run's jobs are told (PYTHONUTF8)."""
    encoding = locale.getpreferredencoding(False)
    if codecs.lookup(encoding).name != "utf-8":
        raise UserError(f"the locale's encoding is {encoding}, and files here are UTF-8; export PYTHONUTF8=1 first")


# Of the trainers' options, which have defaults of their own, those that checks, prices and resumes read too.
STEPS = ("max_steps", "per_device_train_batch_size", "gradient_accumulation_steps")
STEPS += ("save_strategy", "save_steps", "logging_steps")
READ = {
    "pretrain": (*STEPS, "num_train_epochs"),
    "sft": (*STEPS, "num_train_epochs", "max_length"),
    "reward_model": (*STEPS, "num_train_epochs", "max_length"),
    "grpo": (
        *(*STEPS, "num_generations", "num_iterations", "max_completion_length"),
        *("loss_type", "beta", "temperature", "epsilon_high"),
    ),
}


def check_there(trainer: dict[str, Any], keys: Iterable[str]) -> None:
    for key in keys:
        if key not in trainer:
            raise UserError(f"trainer.{key}: missing; every key is written in conf/, so put it there")


COUNTS = (
    *("per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation", "generation_batch_size"),
    *("num_iterations", "max_length", "max_completion_length"),
)


def check_counts(trainer: dict[str, Any]) -> None:
    """What a trainer divides by or cuts to; null where it may be left open."""
    for key in COUNTS:
        if trainer.get(key) is not None and trainer[key] < 1:
            raise UserError(f"trainer.{key}: {trainer[key]}; use 1 or more")
    for one, other in (("fp16", "bf16"), ("generation_batch_size", "steps_per_generation")):
        if trainer.get(one) and trainer.get(other):
            raise UserError(f"trainer.{one}: {trainer[one]} and {other}: {trainer[other]}; choose one of them")


def check_lora(lora: dict[str, Any]) -> None:
    """Whether the model has modules of these names is known when it is loaded."""
    if lora["r"] < 1:
        raise UserError(f"lora.r: {lora['r']}; use 1 or more")
    if lora["alpha"] <= 0:
        raise UserError(f"lora.alpha: {lora['alpha']} would switch the adapters off; use more than 0")
    if not 0 <= lora["dropout"] < 1:
        raise UserError(f"lora.dropout: {lora['dropout']} is no share; use 0 to below 1")
    names = lora["target_modules"]
    listed = names if isinstance(names, list) else [names]
    if not listed or not all(isinstance(name, str) and name for name in listed):
        raise UserError(f"lora.target_modules: {names!r}; use all-linear or a list of names, like [q_proj, v_proj]")


# At any other value a resumed training lacks something: the reference model that follows the policy, the place in the
# data, the optimizer, the losses since the last logged step. No snapshot holds these.
RESUMABLE = {"sync_ref_model": False, "ignore_data_skip": False, "save_only_model": False, "logging_strategy": "steps"}


def check_resume(trainer: dict[str, Any]) -> None:
    """Refuse a training that, killed and resumed, ends with other weights or another curve than an undisturbed one."""
    save, log = trainer["save_steps"], trainer["logging_steps"]
    if trainer["save_strategy"] == "no":
        return
    for key, value in RESUMABLE.items():
        if trainer.get(key, value) != value:
            raise UserError(
                f"trainer.{key}: {trainer[key]}: a resumed training would differ; leave it at {str(value).lower()},"
                ' or set save_strategy: "no"'
            )
    if log != 1 and (log < 1 or save % log or trainer["save_strategy"] != "steps"):
        raise UserError(
            f"trainer.save_steps: {save} isn't a multiple of logging_steps, {log}; a resumed training's curve would"
            " differ; make it one"
        )


def check_pretrain(config: dict[str, Any]) -> None:
    if not config["init_from"] and not config["template"]:
        raise UserError("template: a model from nothing has none of its own; choose one of conf/template/")


def check_sft(config: dict[str, Any]) -> None:
    """Packed examples are kept apart by their positions; cut at any place, nothing tells them apart."""
    trainer = config["trainer"]
    if trainer.get("padding_free") and not trainer.get("packing") and trainer.get("max_length"):
        raise UserError("trainer.padding_free: without packing nothing is cut to max_length; set that to null, or pack")
    if trainer.get("packing") and trainer.get("packing_strategy", "bfd") == "wrapped":
        raise UserError("trainer.packing_strategy: wrapped lets examples see each other; use bfd or bfd_split")


ROLLOUT_ENGINES = ("r1flow", "transformers")
PLAIN_URL = re.compile(r"https?://[^\s/@?#]+(/[^\s@?#]*)?")  # configs are written to results and to MLflow: no password


def check_grpo(config: dict[str, Any]) -> None:
    """Refuse what can't be trained with GRPO, or not be resumed exactly."""
    trainer = config["trainer"]
    if config["engine"] not in ROLLOUT_ENGINES:
        raise UserError(f"engine: there is no {config['engine']!r} for rollouts; known: {', '.join(ROLLOUT_ENGINES)}")
    if not config.get("rewards"):
        raise UserError("rewards: there are none; name at least one")
    check_rewards(config["rewards"])
    check_shares(config)
    check_limits(config["stop_above"])
    check_groups(trainer)
    if trainer["loss_type"] == "cispo" and trainer["epsilon_high"] is None:
        raise UserError(
            "trainer.epsilon_high: cispo bounds every weight by it, and null is 0.2, which cuts them all; set it to 5.0"
        )
    check_snapshots(trainer)
    server = trainer.get("vllm_server_base_url") or ""
    if ":" in server and not PLAIN_URL.fullmatch(server):  # without one it is a file that has the address
        raise UserError("trainer.vllm_server_base_url: use an address like http://127.0.0.1:8000, without a password")
    if config["engine"] == "r1flow":
        check_engine_options(trainer)
    if trainer.get("use_vllm"):
        check_vllm(config)


def check_rewards(rewards: Mapping[str, dict[str, Any]]) -> None:
    """Refuse a reward that there isn't, or not with these arguments; a user's own is looked for and not imported."""
    from r1flow.rewards.combine import check_args, factories

    ours = factories()
    for label, part in rewards.items():
        name, args = part.get("name") or label, part.get("args") or {}
        if name in ours:
            given = {"model_dir": None} if name == "reward_model" else {}  # the stage's own
            check_args(f"rewards.{label}.args", ours[name], given | args)
        elif "." in name:
            check_own(f"rewards.{label}: {name}", *name.rsplit(".", 1))
        else:
            raise UserError(f"rewards.{label}: there is no reward {name!r}{did_you_mean(name, list(ours))}")


def check_own(place: str, module: str, name: str) -> None:
    """Refuse a reward of the user's own whose module isn't there, or doesn't define it, as far as its text says."""
    path = fingerprint.file_of(module)
    if path is None:
        file, files = f"{module.replace('.', '/')}.py", sorted(map(str, Path().glob("*.py")))
        hint = did_you_mean(file, files) if files else "; put it there"
        raise UserError(f"{place}: there is no {file} in the project's folder{hint}")
    known = names_in(path) if fingerprint.folder_of(module.partition(".")[0]) else {"*"}  # installed: not ours to read
    if name not in known and not known & {"*", "__getattr__"}:
        raise UserError(f"{place}: there is no {name!r} in {path.name}{did_you_mean(name, sorted(known))}")


def names_in(path: Path) -> set[str]:
    """Every name that a module may define, "*" for what can't be known; a mistake in its syntax is fingerprint.py's."""
    try:
        nodes = list(ast.walk(ast.parse(path.read_bytes()))) if path.suffix == ".py" else []
    except SyntaxError:
        return {"*"}
    found = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    found |= {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}
    found |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return found if nodes else {"*"}


def check_shares(config: dict[str, Any]) -> None:
    share, file = config["data"]["general_share"], config["data"]["general_file"]
    if not 0 <= share < 1:
        raise UserError(f"data.general_share: {share} is no share; use 0 (reasoning only) to below 1")
    if bool(share) != bool(file):
        raise UserError(f"data.general_share: {share} and data.general_file: {file} go together: both, or 0 and null")
    names = {part.get("name") or label for label, part in config["rewards"].items()}
    scored = names & {"reward_model", "judge"} or any("." in name for name in names)  # the user's own might
    if share and not scored:
        raise UserError("data.general_share: general prompts need a reward_model or judge in rewards; set it to 0")


def check_limits(stop_above: dict[str, float]) -> None:
    """The causes and shares at which rewards stop a training, and the mismatch at which its sampler does."""
    known = [*(cause.value for cause in Cause if cause != Cause.NOT_APPLICABLE), MISMATCH]
    for cause, share in stop_above.items():
        if cause not in known:
            raise UserError(f"stop_above: {cause!r} is no cause{did_you_mean(cause, known)}")
        if not 0 <= share <= 1:
            raise UserError(f"stop_above.{cause}: {share} is no share; use 0 to 1 (never)")


def check_groups(trainer: dict[str, Any]) -> None:
    """A group is num_generations completions of one prompt, and a generation is whole groups."""
    group, batch = trainer["num_generations"], trainer["per_device_train_batch_size"]
    if group < 2:
        raise UserError(f"trainer.num_generations: a group of {group} has no spread of rewards; use 2 or more")
    if batch < 1:
        raise UserError(f"trainer.per_device_train_batch_size: {batch} completions can't be trained on; use 1 or more")
    size = generation_size(trainer)
    if size % group:
        raise UserError(
            f"trainer.num_generations: {group} doesn't divide the {size} completions of a generation"
            f" (per_device_train_batch_size × steps_per_generation); make these a multiple of {group}"
        )
    if trainer["max_steps"] < 1:
        raise UserError(
            f"trainer.max_steps: {trainer['max_steps']}; a GRPO stage's length is given in steps, 1 or more"
        )


def check_snapshots(trainer: dict[str, Any]) -> None:
    """A snapshot holds no completions: taken while some are still to be trained on, it resumes to other bytes."""
    if trainer.get("save_strategy") != "steps":
        return
    passes = trainer["save_steps"] * trainer["gradient_accumulation_steps"]
    period = steps_per_generation(trainer) * trainer["num_iterations"]
    if passes % period:
        raise UserError(
            f"trainer.save_steps: {trainer['save_steps']} isn't a multiple of the {period} passes over one set of"
            " completions (steps_per_generation × num_iterations ÷ gradient_accumulation_steps); a resumed training"
            " would differ; make it one"
        )


def check_engine_options(trainer: dict[str, Any]) -> None:
    """Options of TRL's own generation that our engine doesn't have."""
    plain = {"top_k": (0, None), "min_p": (None,), "repetition_penalty": (1, None), "generation_kwargs": (None,)}
    for key, allowed in plain.items():
        if trainer.get(key) not in allowed:
            raise UserError(f"trainer.{key}: {trainer[key]} isn't known to engine: r1flow; use engine: transformers")
    if trainer.get("use_vllm"):
        raise UserError("trainer.use_vllm: true needs engine: transformers (TRL then samples with vLLM)")
    if trainer["temperature"] <= 0:
        raise UserError(f"trainer.temperature: {trainer['temperature']}; RL needs samples that differ, above 0")


# Sampling from all tokens. vLLM gives probabilities among those that are left, the trainer among all, and the quotient
# is then no correction but a bias (huggingface/trl 6789).
ALL_TOKENS = {"top_p": (1,), "top_k": (0, None), "min_p": (0, None)}


def check_vllm(config: dict[str, Any]) -> None:
    """What TRL would refuse when the model is loaded, or pass over."""
    trainer = config["trainer"]
    mode, longest = trainer.get("vllm_mode", "colocate"), trainer["max_completion_length"]
    if mode == "server" and config["device"] != "cuda":
        raise UserError("trainer.vllm_mode: server takes the weights by NCCL, which needs device: cuda; use colocate")
    for key in ("vllm_server_host", "vllm_server_port"):
        if key in trainer:
            raise UserError(f"trainer.{key}: the whole address goes into {ADDRESS}, or into vllm_server_base_url")
    room = trainer.get("vllm_max_model_length")
    if mode == "colocate" and room is not None and room <= longest:
        raise UserError(
            f"trainer.vllm_max_model_length: {room} holds no prompt beside {longest} new tokens, and vLLM would cut"
            " them short; make it longer, or lower max_completion_length"
        )
    check_correction(trainer, config["stop_above"])


def check_correction(trainer: dict[str, Any], stop_above: dict[str, float]) -> None:
    """The weights that correct for vLLM's numerics, and the measure that TRL takes with them."""
    corrected = trainer.get("vllm_importance_sampling_correction", True)
    if corrected and MISMATCH not in stop_above:
        raise UserError(
            f"stop_above.{MISMATCH}: there is none, and vLLM may sample from another model than is trained; set 0.1 (1:"
            " hardly ever)"
        )
    if not corrected and MISMATCH in stop_above:
        raise UserError(
            f"stop_above.{MISMATCH}: TRL measures it only with trainer.vllm_importance_sampling_correction: true; set"
            " that, or take the limit out"
        )
    for key, allowed in ALL_TOKENS.items():
        if corrected and trainer.get(key) not in allowed:
            raise UserError(
                f"trainer.{key}: at {trainer[key]} vLLM's probabilities aren't comparable with the trainer's; leave it"
                f" at {allowed[0]}, or set vllm_importance_sampling_correction: false"
            )


def check_start(source: str, revision: str | None, stages: Collection[str]) -> None:
    """A model to start from is a stage, a directory with a model in it, or a hub id with a pinned revision."""
    if source in stages:
        return
    folder = Path(source)
    if revision is not None:
        check_revision("model", source, revision)
    elif not (folder / "config.json").is_file():
        raise UserError(
            f"init_from: {source!r} is no stage ({', '.join(stages)}) and no model directory (no config.json in it)"
        )
    else:
        check_weights(folder)
        check_tags(folder)


def check_revision(kind: str, repo: str, revision: str) -> None:
    """What comes from a hub is named by a commit, which can't move."""
    if Path(repo).exists():
        raise UserError(f"revision: {repo} is a folder here, which has none; set it to null")
    if not COMMIT.fullmatch(revision):
        raise UserError(f"revision: {revision!r} can move; pin it: {lock_command(kind, repo, revision)}")


def check_tags(folder: Path) -> None:
    """The rewards read the tags in decoded text: they may be several tokens, but must come back as they were."""
    if not (folder / "tokenizer.json").is_file():
        raise UserError(f"init_from: {folder} has no tokenizer.json; save the model's tokenizer there")
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # tokenizers has no exceptions of its own
        raise UserError(f"init_from: {folder}/tokenizer.json can't be read ({error}); save it again") from error
    text = "".join(f"{tag}1" for tag in TAGS)
    back = tokenizer.decode(tokenizer.encode(text, add_special_tokens=False).ids, skip_special_tokens=True)
    if back != text:
        raise UserError(
            f"init_from: the tokenizer in {folder} turns {text!r} into {back!r}; add the tags to it as ordinary tokens"
        )


def check_sampling(config: dict[str, Any]) -> None:
    """What rejection and evaluate ask of a sampler."""
    check_engine(config["engine"], config["engine_options"])
    check_option_values(config["engine_options"])
    if "k" in config and config["engine_options"].get("model"):
        raise UserError(
            "engine_options.model: one server's model would be taken for each of the run's; leave it out, and the"
            " folder that the server has loaded is compared"
        )
    if "k" in config and config["engine_options"].get("chat"):
        raise UserError("engine_options.chat: the server's template would be examined, not the model's; leave it out")
    for key in ("k", "samples_per_prompt", "keep_per_prompt", "batch_size", "shard_size", "max_new_tokens"):
        if key in config and config[key] < 1:
            raise UserError(f"{key}: {config[key]}; use 1 or more")
    for key in ("n_problems", "prompts"):
        if config.get(key) is not None and config[key] < 1:
            raise UserError(f"{key}: {config[key]}; use 1 or more, or null for all")
    if not 0 < config["top_p"] <= 1:
        raise UserError(f"top_p: {config['top_p']} is no share; use above 0 to 1")
    if config["temperature"] < 0:
        raise UserError(f"temperature: {config['temperature']}; use 0 (greedy) or more")
    if not 0 <= config.get("general_share", 0) < 1:
        raise UserError(f"general_share: {config['general_share']} is no share; use 0 to below 1")
    check_preamble(config.get("preamble", []))


def check_rejection(config: dict[str, Any]) -> None:
    check_sampling(config)
    filters.check("rejection", config["filters"])


def check_preamble(preamble: list[dict[str, str]]) -> None:
    """A system message or none, then examples: questions, each with a response in the pattern that the filters ask."""
    turns = preamble[1:] if preamble and preamble[0]["role"] == "system" else preamble
    if [turn["role"] for turn in turns] != ["user", "assistant"] * (len(turns) // 2):
        raise UserError("preamble: system first, if at all, then user and assistant in turn, assistant last")
    for number, turn in enumerate(turns):
        if number % 2 and not split(turn["content"]).well_formed:
            raise UserError(
                f"preamble: example {number // 2 + 1} isn't what is to be learnt; write"
                " <think>…</think>a summary <answer>…</answer>"
            )


# Of engine options: what a value must be.
OPTION_RULES = {
    "tensor_parallel_size": (lambda size: size >= 1, "use 1 or more"),
    "gpu_memory_utilization": (lambda share: 0 < share <= 1, "use a share, above 0 to 1"),
    "max_model_len": (lambda length: length >= 1, "use 1 or more"),
    "dtype": (("auto", "float32", "bfloat16", "float16").__contains__, "use auto, float32, bfloat16 or float16"),
    "url": (PLAIN_URL.fullmatch, "use an address like http://127.0.0.1:8000/v1, without a password"),
    "api_key_env": (
        lambda name: re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name),
        "name the environment variable that holds the key",
    ),
    "timeout_s": (lambda seconds: seconds > 0, "use more than 0"),
    "attempts": (lambda attempts: attempts >= 1, "use 1 or more"),
}


def check_option_values(options: dict[str, Any]) -> None:
    for name, value in options.items():
        holds, remedy = OPTION_RULES.get(name, (lambda _: True, ""))
        if not holds(value):
            shown = "that" if name in ("url", "api_key_env") else value  # may be a secret in the wrong place
            raise UserError(f"engine_options.{name}: {shown} can't be; {remedy}")


def check_data(config: dict[str, Any]) -> None:
    if not config["tasks"]:
        raise UserError("tasks: there are none; name at least one family of reasoning-gym")
    for name, task in config["tasks"].items():
        if len(task["numbers"]) != 2 or task["numbers"][0] > task["numbers"][1]:
            raise UserError(f"tasks.{name}.numbers: {task['numbers']}; use two, the least and the greatest")
    if config["corpus"]["documents"] < 1:
        raise UserError(f"corpus.documents: {config['corpus']['documents']}; use 1 or more")
    check_reported(config)


def check_reported(config: dict[str, Any]) -> None:
    for name in config["decontaminate"]["reported_only"]:
        if name not in EVALUATION:
            raise UserError(f"decontaminate.reported_only: {name!r} is no set{did_you_mean(name, list(EVALUATION))}")


def check_fetch(config: dict[str, Any]) -> None:
    """Sources that are pinned and can be mapped, and pools that share out what there is."""
    for name, source in config["sources"].items():
        try:
            check_source(source)
        except UserError as error:
            raise UserError(f"sources.{name}.{error}") from None
    for number, pool in enumerate(config["pools"]):
        try:
            check_pool(pool, config["sources"])
        except UserError as error:
            raise UserError(f"pools[{number}].{error}") from None
    files = [file for pool in config["pools"] for file in pool["into"]]
    for file in config["rows"]:
        if file not in files:
            raise UserError(f"rows.{file}: no pool makes it{did_you_mean(file, files)}")
    if not {f"{file}.jsonl" for file in files} & set(EVALUATION):
        raise UserError("pools: none makes dev or test; training data is compared with at least one of them")
    check_reported(config)


def check_source(source: dict[str, Any]) -> None:
    """A commit or a folder, and known functions of columns that there are."""
    repo, revision = source["repo"], source["revision"]
    if revision is not None:
        check_revision("dataset", repo, revision)
    elif not Path(repo).is_dir():
        raise UserError(f"repo: {repo!r} is no folder here; name one, or give a hub id its revision")
    for ours, function in source["by"].items():
        if function not in FUNCTIONS:
            raise UserError(f"by.{ours}: there is no {function!r}{did_you_mean(function, list(FUNCTIONS))}")
        if ours not in source["columns"]:
            raise UserError(f"by.{ours}: columns doesn't say which column that is")


def check_pool(pool: dict[str, Any], sources: dict[str, Any]) -> None:
    for take in pool["take"]:
        name, _, split = take.partition(".")
        if split not in sources.get(name, {}).get("files", {}):
            known = [f"{name}.{split}" for name, source in sources.items() for split in source["files"]]
            raise UserError(f"take: there is no {take!r}{did_you_mean(take, known)}")
        have = {"id", *sources[name]["columns"], *sources[name]["fixed"]}
        for file in pool["into"]:
            if file not in FETCHED:
                raise UserError(f"into.{file}: no such file can be fetched{did_you_mean(file, list(FETCHED))}")
            for field in dataclasses.fields(FILES[file]):
                if field.name not in have:
                    raise UserError(f"into.{file}: it needs {field.name}, which sources.{name} doesn't give")
    if sum(pool["into"].values()) != 100:
        raise UserError(f"into: {pool['into']} must sum to 100 percent")


def check_curate(config: dict[str, Any]) -> None:
    """Shares that are shares, sources that are there, and filters that can filter."""
    filters.check("curate", config["filters"])
    for name, source in config["sources"].items():
        if source["of"] not in curated_from(config) and not Path(source["of"]).is_dir():
            raise UserError(f"sources.{name}.of: {source['of']!r} is no folder here; name one, or data or rejection")
        if source["share"] < 1:
            raise UserError(f"sources.{name}.share: {source['share']}; use 1 to 100 (percent)")
        try:
            filters.check("curate", source["filters"] or [])
        except UserError as error:
            raise UserError(f"sources.{name}.{error}") from None
    if (total := sum(source["share"] for source in config["sources"].values())) != 100:
        raise UserError(f"sources: the shares sum to {total}; they are percents of the mix and must sum to 100")
    if not 0 < config["nearness"] <= 1:
        raise UserError(f"nearness: {config['nearness']} is no share; use above 0 to 1")
    for key in ("rows", "max_length", "shard_bytes", "max_row_bytes", "max_field_characters"):
        if config[key] is not None and config[key] < 1:
            raise UserError(f"{key}: {config[key]}; use 1 or more")


def check_packed(run: dict[str, Any]) -> None:
    """Refuse trainings on packed rows that would pack or cut them again, or that an evaluation isn't apart from."""
    curate, split = run["curate"], f"{run['evaluate']['split']}.jsonl"
    if "curate" in run["stages"] and "evaluate" in run["stages"] and split not in curate["benchmarks"]:
        raise UserError(f"curate.benchmarks: {split}, which evaluate asks, is not among them; add it")
    for stage in run["stages"]:
        if (run[stage].get("data") or {}).get("file") != PACKED:
            continue
        if PROGRAMS[stage] != "sft":
            raise UserError(f"{stage}.data.file: packed rows are for SFT; name a JSONL file")
        trainer = run[stage]["trainer"]
        if run[stage]["data"]["limit"] is not None:
            raise UserError(
                f"{stage}.data.limit: {run[stage]['data']['limit']} of packed rows; set curate.rows instead"
            )
        if run[stage]["template"]:
            raise UserError(f"{stage}.template: rows are packed with that of curate.init_from; set it to null here")
        for key, value in {"packing": True, "packing_strategy": "bfd", "max_length": curate["max_length"]}.items():
            if trainer.get(key) != value:
                what = f"{stage}.trainer.{key}: {trainer.get(key)}, and the rows that it learns from are packed already"
                raise UserError(f"{what}; set it to {str(value).lower()}, as curate does")


# Rules judge general prompts in dev and test, and foreign prompts have none.
FETCHED = [file for file in FILES if file not in ("general_dev", "general_test")]


def check_rows(run: dict[str, Any]) -> None:
    """Refuse a training that names the file of another stage than the one whose rows it gets."""
    for stage in run["stages"]:
        if PROGRAMS[stage] != "sft":
            continue
        file = run[stage]["data"]["file"]
        source = rows_of(stage, run[stage], run["stages"])
        if source in ROWS_OF.values() and file != MIX:
            raise UserError(f"{stage}.data.file: {file}: {source} writes {MIX}; name that")
        if source == "data" and file == MIX:
            raise UserError(f"{stage}.data.file: {file}: no stage of this run writes it; add cold_start_data to stages")


def check_files(run: dict[str, Any]) -> None:
    """Refuse a run whose stages read a file that its data hasn't; generated data has all that there can be."""
    pools = run["data"].get("pools", [{"into": ["corpus", *FILES]}])
    made = {f"{file}.jsonl" for pool in pools for file in pool["into"]}
    for stage in run["stages"]:
        rows_are_data = rows_of(stage, run[stage], run["stages"]) == "data"
        for key, file in files_read(stage, run[stage], rows_are_data):
            if not fnmatch.filter(made, file):
                remedy = "; or add it to a pool" if "pools" in run["data"] else ""
                remedy = "; or name a model directory" if key == "init_from" else remedy
                hint = did_you_mean(file, sorted(made))
                raise UserError(f"{stage}.{key}: it reads {file}, which data doesn't make{hint}{remedy}")


def files_read(stage: str, config: dict[str, Any], rows_are_data: bool) -> Iterator[tuple[str, str]]:
    """The key that has a stage read a file of the data, and the file."""
    rows = config.get("data") or {}
    if "file" in rows and rows_are_data:
        yield "data.file", rows["file"]
    if PROGRAMS[stage] == "curate":
        yield from (("benchmarks", file) for file in config["benchmarks"])
        ours = {name: source["files"] for name, source in config["sources"].items() if source["of"] == "data"}
        yield from ((f"sources.{name}.files", file) for name, files in ours.items() for file in files)
    if rows.get("general_file"):
        yield "data.general_file", rows["general_file"]
    if PROGRAMS[stage] == "pretrain" and not config["init_from"]:
        yield "init_from", "corpus.jsonl"
    if PROGRAMS[stage] == "rejection":
        yield "prompts", "rejection.jsonl"
        if config["general_share"]:
            yield "general_share", "general_sft.jsonl"
    if PROGRAMS[stage] == "evaluate":
        yield "split", f"{config['split']}.jsonl"


def check_engines(run: dict[str, Any]) -> None:
    """Refuse our engine for a model from outside that it can't sample; of one on the hub, once that was fetched."""
    trained = [stage for stage in run["stages"] if stage not in NOT_MODELS]
    for stage in run["stages"]:
        if run[stage].get("engine") != "r1flow":
            continue
        for source, revision in {origin(run, model): None for model in (trained if stage == "evaluate" else [stage])}:
            config = config_of(source, revision)
            if config and not is_plain_llama(config):
                kind = f"{source} is {config.get('model_type')!r}; set {stage}.engine=transformers"
                raise UserError(f"{stage}.engine: r1flow samples Llama models without biases, and {kind}")


def origin(run: dict[str, Any], stage: str) -> tuple[str | None, str | None]:
    """Where a stage's model comes from in the end, and its revision; no source: it is made from nothing, a Llama."""
    seen: list[str] = []
    while stage in STAGES and stage not in seen:
        seen.append(stage)
        stage = run[stage]["init_from"]
    return (None, None) if stage in seen else (stage, run[seen[-1]].get("revision"))


def config_of(source: str | None, revision: str | None) -> dict[str, Any] | None:
    """The config.json of a model from outside; None where there is none, or it isn't known without the network."""
    path: Any = Path(source or "", "config.json")
    if revision:
        from huggingface_hub import try_to_load_from_cache

        path = try_to_load_from_cache(source, "config.json", revision=revision)
    if not source or not isinstance(path, str | Path):
        return None
    try:
        return read_json(Path(path))
    except ValueError as error:
        raise UserError(f"{path} is no JSON ({error}); save the model again") from error


def check_parts(parts: Mapping[str, int | str]) -> None:
    """Refuse a number of parts (Snakemake's --set-scatter) for what isn't sampled in shards, or of none."""
    for name, count in parts.items():
        if name not in SAMPLED:
            hint = did_you_mean(name, list(SAMPLED))
            raise UserError(f"--set-scatter {name}={count}: {name} is no stage that samples{hint}")
        if not str(count).isdecimal() or int(count) < 1:
            raise UserError(f"--set-scatter {name}={count}: use 1 (one job samples all) or more")


def check_rules(names: Iterable[str]) -> None:
    """Refuse resources (Snakemake's --set-resources) of a rule that there isn't: Snakemake would pass over them."""
    for name in names:
        if name not in RULES:
            raise UserError(f"--set-resources {name}: there is no such rule{did_you_mean(name, list(RULES))}")


CHECKS = {
    "pretrain": check_pretrain,
    "sft": check_sft,
    "grpo": check_grpo,
    "rejection": check_rejection,
    "curate": check_curate,
    "evaluate": check_sampling,
    "data": check_data,
    "fetch": check_fetch,
}
