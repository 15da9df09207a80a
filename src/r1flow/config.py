"""One run's configuration: composed once by Hydra, checked, cut into one frozen file per stage.

`compose` turns conf/ + an experiment + overrides into a plain, resolved dict; `check` refuses what no stage could run.
Each stage gets its own slice as a content-addressed file (frozen.py), so that it reruns when its own slice changes and
never because of another's. This is the only module that imports Hydra, and only the process that plans calls it.
"""

import ast
import dataclasses
import importlib.util
import re
import shlex
from pathlib import Path
from typing import Any

from r1flow import checks, settings
from r1flow.data import sources
from r1flow.errors import UserError, did_you_mean
from r1flow.recipe import REWARDED_BY, STAGES, curated_from, program_of, rows_of

SETTINGS = {
    "data": settings.Data,
    "fetch": settings.Fetch,
    "pretrain": settings.Pretrain,
    "sft": settings.Sft,
    "grpo": settings.Grpo,
    "rejection": settings.Rejection,
    "curate": settings.Curate,
    "reward_model": settings.RewardModel,
    "evaluate": settings.Evaluate,
    "report": settings.Report,
}
# Which class of which wheel owns the keys under `trainer:` of a stage.
TRAINERS = {
    "pretrain": [("transformers", "training_args.py")],
    "sft": [("transformers", "training_args.py"), ("trl", "trainer/base_config.py"), ("trl", "trainer/sft_config.py")],
    "grpo": [
        ("transformers", "training_args.py"),
        ("trl", "trainer/base_config.py"),
        ("trl", "trainer/grpo_config.py"),
    ],
    "reward_model": [
        ("transformers", "training_args.py"),
        ("trl", "trainer/base_config.py"),
        ("trl", "trainer/reward_config.py"),
    ],
}


def compose(conf: Path, experiment: str, overrides: str = "") -> dict[str, Any]:
    """The whole configuration of a run as a plain dict with every interpolation resolved.

    `overrides` are Hydra's, separated by blanks: `zero_rl.trainer.learning_rate=1.0e-5 seed=1`.
    Raises UserError, in one line, for an unknown experiment, key or value.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    names = sorted(p.stem for p in (conf / "experiment").glob("*.yaml"))
    if experiment not in names:
        raise UserError(f"conf/experiment: there is no {experiment!r}{did_you_mean(experiment, names)}")
    words = [f"experiment={experiment}", *shlex.split(overrides)]
    try:
        with initialize_config_dir(str(conf.resolve()), version_base="1.3"):
            composed = hydra_compose("config", overrides=words)
            run = OmegaConf.to_container(composed, resolve=True, throw_on_missing=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(f"conf (experiment={experiment} overrides={overrides!r}): {first_lines(error)}") from error
    run |= {"run": run["run"] or experiment, "experiment": experiment}
    sources.locked(run, conf.parent / sources.LOCK)
    for stage in STAGES:  # the run's, unless the stage's own block says otherwise
        program = program_of(stage, run[stage])
        own = {field.name for field in dataclasses.fields(SETTINGS[program])}
        run[stage] = {**{key: run[key] for key in ("seed", "threads", "device") if key in own}, **run[stage]}
        if "trainer" in run[stage]:
            run[stage]["trainer"]["use_cpu"] = run[stage]["device"] == "cpu"
    run["report"]["run"] = run["run"]
    return run


def first_lines(error: Exception) -> str:
    """Hydra's message without its stack of causes and its multi-line hints."""
    message = str(error).partition("Config search path")[0]
    lines = [line.strip() for line in re.sub(r"\n\t", " ", message).splitlines() if line.strip()]
    return "; ".join(line for line in lines[:2] if not line.startswith(("object_type", "set HYDRA_FULL_ERROR")))


def trainer_fields(program: str) -> dict[str, str]:
    """Names and annotations of the trainer options that a program accepts, read from the wheels' source.

    Read rather than imported: TRL's config classes cost 5 s of imports, and a plan must take less than that.
    """
    fields: dict[str, str] = {}
    for package, file in TRAINERS[program]:
        source = Path(importlib.util.find_spec(package).origin).parent / file
        for node in ast.parse(source.read_text()).body:
            if isinstance(node, ast.ClassDef):
                fields |= {
                    item.target.id: ast.unparse(item.annotation)
                    for item in node.body
                    if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
                }
    return fields


def check(run: dict[str, Any]) -> None:
    """Refuse, before anything is computed, what no stage could run; raises UserError naming the key and the remedy."""
    for stage in run["stages"]:
        if stage not in STAGES:
            raise UserError(f"stages: there is no stage {stage!r}{did_you_mean(stage, list(STAGES))}")
    for stage in run["stages"]:
        check_sources(stage, run[stage], run["stages"])
    for stage in STAGES:
        program = program_of(stage, run[stage])
        check_keys(stage, run[stage], SETTINGS[program])
        if "trainer" in run[stage]:
            check_trainer(stage, run[stage]["trainer"], trainer_fields(program))
        if stage in run["stages"]:
            checks.check(stage, program, run[stage], STAGES)
    checks.check_rows(run)
    checks.check_files(run)
    checks.check_packed(run)


def check_sources(stage: str, config: dict[str, Any], stages: list[str]) -> None:
    """What a stage reads is made by the same run, unless it comes from outside."""
    start = config.get("init_from")
    needed = {"data", rows_of(stage, config, stages), REWARDED_BY.get(stage), start}
    needed |= set(curated_from(config).values()) if stage == "curate" else set()
    needed &= set(STAGES)
    for source in sorted(needed - set(stages)):
        other = f", or name a model directory in {stage}.init_from" if source == start else ""
        raise UserError(f"stages: {stage} reads {source}, which is not among them; add it{other}")


def check_keys(stage: str, config: dict[str, Any], schema: type) -> None:
    """The keys that the program knows, all that have no default, with values of their types."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    needed = (field.name for field in dataclasses.fields(schema) if field.default is dataclasses.MISSING)
    missing = [name for name in needed if name not in config]
    if missing:
        raise UserError(f"{stage}.{missing[0]}: missing; every key is written in conf/, so put it back there")
    try:
        OmegaConf.merge(OmegaConf.structured(schema), OmegaConf.create(config))
    except OmegaConfBaseException as error:
        key = f"{stage}.{error.full_key}" if error.full_key else stage
        raise UserError(f"{key}: {error.msg.splitlines()[0] if error.msg else error}") from error


def check_trainer(stage: str, trainer: dict[str, Any], fields: dict[str, str]) -> None:
    """Keys that TRL and transformers know, with values of the type that they declare, where that is a plain one."""
    plain = {"int": int, "float": (int, float), "bool": bool, "str": str}
    for key, value in trainer.items():
        if key not in fields:
            raise UserError(f"{stage}.trainer.{key}: the trainer has no such option{did_you_mean(key, list(fields))}")
        kinds = [kind.strip() for kind in fields[key].split("|")]
        if value is None or not all(kind in (*plain, "None") for kind in kinds):
            continue
        allowed = tuple(plain[kind] for kind in kinds if kind != "None")
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            hint = "; write 1.0e-4 for 1e-4, which YAML reads as text" if isinstance(value, str) else ""
            raise UserError(f"{stage}.trainer.{key}: {value!r} is not {fields[key]}{hint}")
