"""Refuses, when the workflow is parsed, what no stage could run: functions of a run's config, without torch.

    check_stage("zero_rl", "grpo", {"trainer": {"num_generations": 16, "per_device_train_batch_size": 250, …}, …}, …)
    UserError: zero_rl.trainer.num_generations: 16 doesn't divide the 250 completions of a generation (…); …

These values are wrong whatever the data is. config.py refuses unknown keys, and the stage itself missing files.
"""

import codecs
import fnmatch
import locale
import os
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from r1flow.core.errors import UserError, did_you_mean, errors_at, listed
from r1flow.core.optional import check_attention
from r1flow.core.schema import FILES, MIX, General, Problem
from r1flow.data.gguf import is_gguf
from r1flow.data.leaks import EVALUATION
from r1flow.data.look_ups import LOOK_UPS
from r1flow.programs.grpo.spec import unscored_kinds
from r1flow.programs.samplings import sampled_stages
from r1flow.programs.specs import spec_of
from r1flow.programs.trainings import check_decided, check_lora, check_ranges, check_resume, check_start, check_there
from r1flow.recipe.stages import RECIPE, RULES, program_of, rows_of
from r1flow.sampling.environments import ENVIRONMENTS
from r1flow.training import ranks

SLURM_S = 60  # how long Slurm may take to answer


def check_stage(stage: str, program: str, config: dict[str, Any], stages: Collection[str]) -> None:
    """Refuse a stage's config that its program couldn't run; raises UserError that begins with stage and key."""
    with errors_at(f"{stage}."):
        if config.get("revision") and not config["init_from"]:
            raise UserError("revision: it belongs to a model on the hub; name that model in init_from")
        if config.get("init_from") and not (program == "pretrain" and is_gguf(config["init_from"])):
            check_start(config["init_from"], config.get("revision"), stages)
        check_template(config.get("template"))
        if "trainer" in config:
            check_there(config["trainer"], spec_of(program).read)
            check_decided(config["trainer"])
            check_ranges(config["trainer"])
            check_resume(config["trainer"])
        if config.get("lora"):
            check_lora(config["lora"])
        if spec_of(program).by_ranks:
            ranks.check_strategy(config)
            check_attention(config["attention"], config["device"])
        spec_of(program).check(config)
        check_not_examined(program, config)
        if program == "rejection":
            check_prompt_file(config["file"])


def check_template(template: str | None) -> None:
    """Refuse the name of a template where its text belongs: all prompts would be that word."""
    if template and "messages" not in template:
        raise UserError(
            f"template: {template!r} isn't a chat template in Jinja (it uses no messages); choose one of"
            ' conf/template/, as in overrides="template@base=short"'
        )


def check_not_examined(program: str, config: dict[str, Any]) -> None:
    """Refuse to train on rows that evaluations ask, or to draw training samples for them."""
    data = config.get("data") or {}
    files = {f"data.{key}": data.get(key) for key in ("file", "general_file")} if "trainer" in config else {}
    if program == "rejection":
        files["file"] = config["file"]
    for key, file in files.items():
        if file in EVALUATION:
            raise UserError(f"{key}: {file} is what models are examined on; name a file to train on")


def check_prompt_file(file: str) -> None:
    """Refuse to sample from a file of the data whose rows aren't problems or general prompts alone."""
    rows = (FILES | {"corpus": None}).get(file.removesuffix(".jsonl"), Problem)
    if rows not in (Problem, General):
        remedy = "name a file of prompts, such as rejection.jsonl, rl.jsonl or general_rl.jsonl"
        raise UserError(f"file: {file} has texts to learn, no prompts to sample from; {remedy}")


def check_slurm() -> None:
    """Raise UserError unless Slurm answers; each job of a run would find that out by itself, again at each retry."""
    remedy = "run this where `sinfo` shows the cluster's partitions, or without --profile"
    try:
        asked = subprocess.run(["sinfo"], capture_output=True, text=True, timeout=SLURM_S)
    except FileNotFoundError:
        raise UserError(f"there is no Slurm here (no program `sinfo`); {remedy}") from None
    except subprocess.TimeoutExpired:
        raise UserError(f"Slurm hasn't answered `sinfo` within {SLURM_S} s; {remedy}") from None
    if asked.returncode:
        said = asked.stderr.strip().splitlines()[-1:] or [f"exit code {asked.returncode}"]
        raise UserError(f"Slurm can't be reached ({said[0]}); {remedy}")


def check_place() -> None:
    """Refuse a run in a shell whose encoding would fail hours later, or in a folder whose path others can't read."""
    check_encoding()
    own_store = not os.environ.get("MLFLOW_TRACKING_URI")
    unfit = {
        "{}": "Snakemake takes braces in a path for names of its own",
        ":": "Python and the shell take a : in PYTHONPATH and PATH for the end of a folder",
        "?'": "MLflow's database can't be in such a path" if own_store else "",
    }
    for chars, why in unfit.items():
        for char in chars:
            if why and char in str(Path.cwd()):
                raise UserError(f"{Path.cwd()}: there is a {char} in it, and {why}; rename the folder")


def check_encoding() -> None:
    """Refuse a shell whose encoding isn't UTF-8, as that of all files here is; a run's jobs get PYTHONUTF8."""
    encoding = locale.getpreferredencoding(False)
    if codecs.lookup(encoding).name != "utf-8":
        raise UserError(f"this shell's encoding is {encoding}, and files here are UTF-8; export PYTHONUTF8=1 first")
    given = os.environ.get("PYTHONIOENCODING", "").partition(":")[0]
    if given and codecs.lookup(given).name != "utf-8":
        raise UserError(f"PYTHONIOENCODING is {given}, and what r1flow prints is UTF-8; unset PYTHONIOENCODING")


def check_rows(run: dict[str, Any]) -> None:
    """Refuse a training that names the file of another stage than the one whose rows it gets."""
    for stage in run["stages"]:
        if RECIPE[stage].program != "sft":
            continue
        file = run[stage]["data"]["file"]
        source = rows_of(stage, run["stages"])
        if source != "data" and file != MIX:
            raise UserError(f"{stage}.data.file: {file}: it learns from {source}, which writes {MIX}; name that file")
        if source != "data" and MIX not in spec_of(RECIPE[source].program).outputs(run[source]):
            raise UserError(
                f"{stage}.data.file: {file}: {source} writes it of rejection.jsonl alone; set {source}.split=rejection"
            )
        if source == "data" and file == MIX:
            raise UserError(f"{stage}.data.file: {file}: no stage of this run writes it; add cold_start_data to stages")


def check_look_ups(run: dict[str, Any]) -> None:
    """Refuse a run that teaches calls of a table, and has none, or another tool of ours."""
    if LOOK_UPS not in (run["data"].get("tasks") or {}):
        return
    blocks = {stage: run[stage]["environment"] for stage in run["stages"] if run[stage].get("environment")}
    for stage, block in blocks.items():
        if block["name"] in ENVIRONMENTS and block["name"] != "LookUp":
            what = f"{stage}.environment.name: {block['name']} doesn't answer the calls of data.tasks.{LOOK_UPS}"
            raise UserError(f"{what}; use LookUp")
    if not blocks:
        raise UserError(
            f"data.tasks.{LOOK_UPS}: nothing in this run answers their calls; take an environment as in"
            " conf/experiment/agent_look_up.yaml"
        )


def check_kinds(run: dict[str, Any]) -> None:
    """Refuse RL on general prompts of a kind that no reward scores: they would cost rollouts, and teach nothing."""
    for stage in run["stages"]:
        rows = run[stage].get("data") or {}
        if RECIPE[stage].program != "grpo" or not rows["general_share"]:
            continue
        kinds = kinds_made(run["data"], rows["general_file"].removesuffix(".jsonl"))
        if left := unscored_kinds(run[stage]["rewards"], kinds):
            raise UserError(
                f"{stage}.rewards: none scores general prompts of the kinds {listed(left, 20)}, which {stage} is"
                " trained on; add them to the args.kinds of a reward"
            )


def kinds_made(data: dict[str, Any], file: str) -> list[str]:
    """The kinds of general prompts in a file of the data; of what is fetched, those that its sources name."""
    if "general_kinds" in data:
        return data["general_kinds"]
    kinds = set()
    for pool in data["pools"]:
        if file in pool["into"]:
            kinds |= {data["sources"][take.partition(".")[0]]["fixed"].get("kind") for take in pool["take"]}
    return sorted(kinds - {None})


def check_files(run: dict[str, Any]) -> None:
    """Refuse a run whose stages read a file that its data doesn't have."""
    made = spec_of(program_of("data", run["data"])).outputs(run["data"])
    for stage in run["stages"]:
        rows_are_data = rows_of(stage, run["stages"]) == "data"
        for key, file in files_read(stage, run[stage], rows_are_data):
            if not fnmatch.filter(made, file):
                remedy = "; or add it to a pool" if "pools" in run["data"] else ""
                remedy = "; or name a model directory" if key == "init_from" else remedy
                hint = did_you_mean(file, sorted(made))
                if key == "paraphrased":
                    hint, remedy = "", "; only generated data has other wordings: set it to 0"
                raise UserError(f"{stage}.{key}: it reads {file}, which the data stage doesn't make{hint}{remedy}")


def files_read(stage: str, config: dict[str, Any], rows_are_data: bool) -> Iterator[tuple[str, str]]:
    """The key that has a stage read a file of the data, and the file."""
    rows = config.get("data") or {}
    if "file" in rows and rows_are_data:
        yield "data.file", rows["file"]
    yield from spec_of(program_of(stage, config)).files_read(config)


def check_parts(parts: Mapping[str, int | str]) -> None:
    """Refuse parts (Snakemake's --set-scatter) of a stage that isn't sampled in shards, and fewer than 1."""
    sampled = sampled_stages()
    for name, count in parts.items():
        if name not in sampled:
            hint = did_you_mean(name, sampled)
            raise UserError(f"--set-scatter {name}={count}: {name} isn't a stage that samples{hint}")
        if not str(count).isdecimal() or int(count) < 1:
            raise UserError(f"--set-scatter {name}={count}: use 1 (one job samples all) or more")


def check_rules(names: Iterable[str]) -> None:
    """Refuse resources (Snakemake's --set-resources) of a rule that doesn't exist: Snakemake would ignore them."""
    for name in names:
        if name not in RULES:
            raise UserError(f"--set-resources {name}: there is no such rule{did_you_mean(name, list(RULES))}")
