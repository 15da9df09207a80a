"""One run's configuration: composed once by Hydra, checked, cut into one frozen file per stage.

`compose` makes a plain, resolved dict of conf/, an experiment and overrides; `check_run` refuses what can't be run.
Each stage gets its own slice as a content-addressed file (frozen.py), so that it reruns when its own slice changes and
never because of another's. This is the only module that imports Hydra, and only the process that plans calls it.
"""

import ast
import dataclasses
import importlib.util
import json
import math
import re
import shlex
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from r1flow.artifacts.locks import LIVE, PINNED
from r1flow.core.errors import UserError, did_you_mean, faults_in, nearest_word, raise_faults
from r1flow.core.files import one_line, read_yaml
from r1flow.data import sources
from r1flow.engine import checks, own_data, samplers
from r1flow.engine.own_model import settle_own_model
from r1flow.engine.secrets import check_environment, check_secret
from r1flow.model.precision import NATIVE
from r1flow.programs.keys import OneOrMore, ZeroOrMore, in_range
from r1flow.programs.specs import spec_of
from r1flow.recipe.stages import RECIPE, STAGES, compared_with, program_of, sources_of

# The keys of the whole configuration; those of a stage's block are in its program's spec.py.
WHOLE = dataclasses.make_dataclass(
    "Whole",
    [
        ("run", Any),
        ("model", str | None),
        ("seed", int),
        ("threads", OneOrMore),
        ("device", Literal["cpu", "cuda"]),
        ("traces", ZeroOrMore),
        ("stages", list[str]),
    ]
    + [(stage, dict[str, Any]) for stage in STAGES],
)
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)
UNKNOWN_KEY = re.compile(r"Could not override '([\w.]+)'")  # Hydra's words
TO_THE_HUB = re.compile(r"hub_|push_to_hub|trackio_|log_completions_hub")
UNENDED = "No closing quotation"  # what shlex says of a quote that doesn't end
# pydantic's errors for values of a wrong type, and the type that is wanted; a block has keys of its own.
TYPE_FAULTS = {
    "bool_type": "bool",
    "int_type": "int",
    "int_from_float": "int",
    "float_type": "float",
    "string_type": "str",
    "list_type": "list",
    "dict_type": "block",
    "dataclass_type": "block",
}
LOG_LEVELS = ["detail", "debug", "info", "warning", "error", "critical", "passive"]
# Values of options that transformers' config class doesn't list, though it accepts no others; a test reads its source.
WORDS = {
    **dict.fromkeys(("log_level", "log_level_replica"), LOG_LEVELS),
    "torch_compile_mode": ["default", "lite", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"],
}
# Values that need an evaluation during training, which no stage has.
EVALUATING = {
    "lr_scheduler_type": {"reduce_lr_on_plateau", "greedy"},
    "eval_strategy": {"steps", "epoch"},
    "save_strategy": {"best"},
}


def compose(conf: Path, experiment: str, overrides: str = "", run: Any = None) -> dict[str, Any]:
    """The whole configuration of a run as a plain dict with every interpolation resolved.

    `overrides` are Hydra's, separated by blanks: `zero_rl.trainer.learning_rate=1.0e-5 seed=1`; `run` is its name.
    Raises UserError, with a line for each mistake, for an unknown experiment, key or value.
    """
    return settle(composed(conf, experiment, overrides, run), experiment, conf)


def composed(conf: Path, experiment: str, overrides: str, run: Any) -> dict[str, Any]:
    """The configuration as Hydra composes it; keys and types aren't checked yet."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException
    from yaml import YAMLError

    names = experiment_names(conf)
    if experiment not in names:
        raise UserError(
            f"conf/experiment: there is no experiment {experiment!r}{did_you_mean(Path(experiment).stem, names)}"
        )
    refuse_aliases(conf)
    check_header(conf / "experiment" / f"{experiment}.yaml")
    try:
        given = shlex.split(overrides)  # ValueError: a quote that doesn't end
        words = [override_of("experiment", experiment), *map(quoted_override, given)]
        words += [] if run is None else [f"run='{run_name(run)}'"]
        with initialize_config_dir(str(conf.resolve()), version_base="1.3"):
            made = hydra_compose("config", overrides=words)
            check_environment("", OmegaConf.to_container(made, resolve=False))
            config = OmegaConf.to_container(made, resolve=True, throw_on_missing=True)
            start = {} if config.get("model") is None else {"base": {**config["base"], "init_from": config["model"]}}
            check_given(config | start, read_yaml(conf / "experiment" / f"{experiment}.yaml", aliases=True))
            return config
    except MissingMandatoryValue as error:
        raise left_to_you(error.full_key) from error
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        said = f"{mark.name}: line {mark.line + 1}: {error.problem}" if mark else one_line(error)
        raise UserError(f"{said}; mend that line") from error
    except UnicodeDecodeError as error:
        raise not_utf8(conf) from error
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        check_added(conf, experiment, overrides, str(error), run)
        said = group_hint(conf, str(error)) or nearest(conf, experiment, str(error)) or first_lines(error)
        said += "; a text ends with the quote that it begins with" if said == UNENDED else ""
        faults = [f"conf (experiment={experiment} overrides={overrides!r}): {said}"]
        # Hydra stops at the first one: what else is wrong without it?
        if mistyped := UNKNOWN_KEY.match(str(error)):
            others = [word for word in given if word.partition("=")[0] != mistyped[1]]
            if others != given:
                for fault in faults_in(compose, conf, experiment, shlex.join(others), run):
                    faults.append(fault.replace(f"overrides={shlex.join(others)!r}", f"overrides={overrides!r}"))
        raise_faults(faults, cause=error)


def experiment_names(conf: Path) -> list[str]:
    return sorted(path.stem for path in (conf / "experiment").glob("*.yaml"))


def left_to_you(key: str) -> UserError:
    return UserError(f'{key}: the experiment leaves this value to you; add overrides="{key}=…"')


def not_utf8(conf: Path) -> UserError:
    """The error for the first configuration file whose text isn't UTF-8."""
    for path in sorted(conf.rglob("*.yaml")):
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return UserError(f"{path}: line {number} isn't UTF-8; save the file in that encoding")
    return UserError(f"{conf}: one of its files isn't UTF-8; save it in that encoding")


def check_given(run: Any, experiment: Any, place: str = "") -> None:
    """Refuse a null where the experiment has ???: Hydra takes the value of the file that it builds on instead."""
    for key, value in experiment.items():
        found = run.get(key) if isinstance(run, dict) else None
        if value == "???" and found is None:
            raise left_to_you(f"{place}{key}")
        if isinstance(value, dict) and isinstance(found, dict):
            check_given(found, value, f"{place}{key}.")


def check_header(path: Path) -> None:
    """Refuse an experiment without Hydra's first line: its keys would be those of a block, not the run's."""
    first = path.read_text(encoding="utf-8", errors="replace").strip().partition("\n")[0]
    if not re.fullmatch(r"#\s*@package\s+_global_\s*", first):
        what = "not even a comment, or the mark that some editors put before UTF-8"
        raise UserError(f"{path}: write `# @package _global_` as its first line, with nothing above it, {what}")


def refuse_aliases(conf: Path) -> None:
    """Raise BadFile for a configuration whose aliases make a few lines stand for more than fits into memory."""
    for path in sorted(conf.rglob("*.yaml")):
        text = path.read_bytes()
        if b"&" in text and b"*" in text:
            read_yaml(path, aliases=True)


def quoted_override(override: str) -> str:
    """The override as Hydra reads it: with quotes around a value that isn't of its grammar, such as /models/a#b=c.

    A value that begins as a list, a block or a text in quotes must be one: a mistake in one must be said. Raises
    ValueError for that, and for a word that has no value, such as the second one of a text with a blank. A family of
    generated problems needs no + before it, since its name and keys are checked later.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import Quote, QuotedString
    from hydra.errors import OverrideParseException

    key, equals, value = override.partition("=")
    if override.startswith("#") or not key or not (equals or override.startswith("~")):
        raise ValueError(f"{override!r} isn't KEY=VALUE; text with a blank is quoted, as in key='two words'")
    added = "++" if key.startswith("data.tasks.") else ""
    text = QuotedString(value, Quote.single).with_quotes()
    try:
        [parsed] = OverridesParser.create().parse_overrides([override])
    except OverrideParseException:
        if value[:1] not in ("[", "{", "'", '"'):
            return f"{added}{key}={text}"
        raise ValueError(
            f"{value} is no list in [], no block in {{}} and no text in quotes; if it is text, write {key}={text}"
        ) from None
    if parsed.is_sweep_override():
        raise ValueError(
            f"{value} would be several values, one for each of several runs; write a list as {key}=[{value}], and a"
            f' text as "{key}={text}", with both kinds of quotes'
        )
    return f"{added}{override}"


def override_of(key: str, text: str) -> str:
    """KEY=TEXT, with quotes around the text where Hydra wouldn't read it as that text without: [a].csv, 5, null."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import Quote, QuotedString
    from hydra.errors import OverrideParseException

    plain = f"{key}={text}"
    try:
        [parsed] = OverridesParser.create().parse_overrides([plain])
        is_read = not parsed.is_sweep_override() and parsed.value() == text
    except OverrideParseException:
        is_read = False
    return plain if is_read else f"{key}={QuotedString(text, Quote.single).with_quotes()}"


def settle(run: dict[str, Any], experiment: str, conf: Path) -> dict[str, Any]:
    """Check the keys, add the run's name, and give each stage the values that hold for all; raises UserError."""
    check_keys("", {key: {} if isinstance(value, dict) else value for key, value in run.items()}, WHOLE)
    run |= {"run": run_name(experiment if run["run"] is None else run["run"]), "experiment": experiment}
    notes = own_data.settle_families(run)
    faults = faults_in(lambda: notes.extend(settle_own_model(run, conf)))
    faults += faults_in(lambda: notes.extend(own_data.settle_own_data(run)))
    for stage in STAGES:  # the run's values, unless the stage's own block has others
        program = program_of(stage, run[stage])
        schema = spec_of(program).keys
        own = known_keys(schema)
        run[stage] = {**{key: run[key] for key in ("seed", "threads", "device") if key in own}, **run[stage]}
        if stage == "report":
            run[stage]["run"] = run["run"]
        wrong = key_faults(stage, run[stage], schema)
        faults += wrong
        trainer = run[stage].get("trainer")
        for key, value in trainer.items() if isinstance(trainer, dict) else ():
            faults += faults_in(check_option, f"{stage}.trainer.{key}", value, program)
        if wrong:
            continue
        # In the slice, as it changes the stage's random numbers.
        if ablation_of := RECIPE[stage].ablation_of:
            run[stage]["ablation_of"] = ablation_of
        if "trainer" in run[stage]:
            run[stage]["trainer"]["use_cpu"] = run[stage]["device"] == "cpu"
    raise_faults(faults)
    sources.fill_in_locked(run, conf.parent / sources.LOCK)
    notes += samplers.settle_engines(run)
    return run | ({"notes": notes} if notes else {})


def run_name(given: Any) -> str:
    """A run's name as text (Snakemake and YAML read 5 as a number); it names a folder and is part of commands."""
    number = isinstance(given, int) and not isinstance(given, bool)
    if not (number or isinstance(given, str)) or not NAME.fullmatch(str(given)):
        raise UserError(
            f"run: {given!r} can't name a folder; use letters, digits, _ . and -, at most 100 of them, and begin with a"
            " letter or digit"
        )
    if str(given) in (LIVE.name, PINNED.name, "evaluate"):  # files in scratch/, and the folder of all evaluations
        raise UserError(f"run: {str(given)!r} is a name that r1flow uses itself; use another")
    return str(given)


def check_added(conf: Path, experiment: str, overrides: str, said: str, run: Any) -> None:
    """Refuse a wrong value of a key that conf/ leaves to its default by what is wrong with the value.

    Hydra would only say that the key takes a + before it, and the value is refused after that.
    """
    mistyped = UNKNOWN_KEY.match(said)
    stage, _, key = mistyped[1].partition(".") if mistyped else ("", "", "")
    if stage in STAGES and key in known_keys(spec_of(RECIPE[stage].program).keys):
        given = shlex.split(overrides)
        added = [f"+{word}" if word.startswith(f"{mistyped[1]}=") else word for word in given]
        check_run(compose(conf, experiment, shlex.join(added), run))


def group_hint(conf: Path, said: str) -> str | None:
    """A hint for a mistyped group or experiment, and for a group of several stages; None for any other message."""
    if below := re.search(r"Could not find 'experiment/([\w.-]+)/([\w.-]+)'", said):
        line = f"- override /{below[1]}@STAGE: {below[2]}"
        return f"{below[2]!r} of {below[1]} in an experiment's defaults is written `{line}`"
    if built_on := re.search(r"Could not load 'experiment/([\w.-]+)'", said):
        near = did_you_mean(built_on[1], experiment_names(conf))
        return f"its defaults name {built_on[1]!r}, and there is no such experiment{near}"
    if unknown := re.search(r"config group '(\S+)' does not exist", said):
        groups = sorted(path.name for path in conf.iterdir() if path.is_dir())
        return f"there is no group {unknown[1]!r} in conf/{did_you_mean(unknown[1], groups)}"
    mistyped = UNKNOWN_KEY.match(said)
    if not mistyped or not (conf / mistyped[1]).is_dir():
        return None
    mounted = []
    for entry in read_yaml(conf / "config.yaml")["defaults"]:
        if isinstance(entry, dict):
            mounted += [key for key in entry if key.startswith(f"{mistyped[1]}@")]
    return f"{mistyped[1]} is a group that several stages have; use {', '.join(mounted)}"


def nearest(conf: Path, experiment: str, said: str) -> str | None:
    """A hint for a mistyped key; without a similar one, the keys that there are. None for any other message."""
    mistyped = UNKNOWN_KEY.match(said)
    if not mistyped:
        return None
    try:
        node = compose(conf, experiment)
    except UserError:  # the experiment leaves a key for the user to set
        return None
    node["data"] = own_data.WORDS | node["data"]
    for name in mistyped[1].split("."):
        if not isinstance(node, dict):
            return None
        if name not in node:
            close = nearest_word(name, list(node))
            if close:
                return f"there is no {mistyped[1]}; did you mean {close!r} for {name!r}? A new key takes a + before it"
            return f"there is no {mistyped[1]}; known: {', '.join(node)}. A new key takes a + before it"
        node = node[name]
    return None


def first_lines(error: Exception | str) -> str:
    """Hydra's message without its multi-line hints; where it says only that a value can't be merged, with the cause."""
    message = str(error).partition("Config search path")[0]
    if in_a_list := re.match(r"invalid literal for int\(\) with base 10: ('.*')", message):
        return f"{in_a_list[1]} is named in a list, whose entries have numbers from 0; use one, or give the whole list"
    if message.startswith("Error merging override"):
        message = f"{message}: {error.__cause__}"
    lines = [line.strip() for line in re.sub(r"\n\t", " ", message).splitlines() if line.strip()]
    return "; ".join(line for line in lines[:2] if not line.startswith(("object_type", "set HYDRA_FULL_ERROR")))


@cache
def trainer_fields(program: str) -> dict[str, str]:
    """Names and annotations of the trainer options that a program accepts, read from the wheels' source.

    Read rather than imported: TRL's config classes cost 5 s of imports, and a plan must take less than that.
    """
    fields = {}
    for source in spec_of(program).trainer:
        for node in classes(*source):
            for option in annotated(node):
                fields[option.target.id] = ast.unparse(option.annotation)
    return fields


@cache
def trainer_choices(program: str) -> dict[str, list[str]]:
    """Allowed values of trainer options that take one of a few words: by enumeration, metadata, or our own lists."""
    enumerations, choices = {}, WORDS | spec_of(program).words
    for source in [("transformers", "trainer_utils.py"), *spec_of(program).trainer]:
        for node in classes(*source):
            words = [
                item.value.value for item in node.body if isinstance(item, ast.Assign) and is_text_node(item.value)
            ]
            enumerations[node.name] = words
            for option in annotated(node):
                kind = ast.unparse(option.annotation).partition(" | ")[0]
                if allowed := enumerations.get(kind) or listed_in(option):
                    spared = EVALUATING.get(option.target.id, ())
                    choices[option.target.id] = [word for word in allowed if word not in spared]
    return choices


@cache
def classes(package: str, file: str) -> list[ast.ClassDef]:
    source = Path(importlib.util.find_spec(package).origin).parent / file
    return [node for node in ast.parse(source.read_text()).body if isinstance(node, ast.ClassDef)]


def annotated(node: ast.ClassDef) -> list[ast.AnnAssign]:
    return [item for item in node.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)]


def is_text_node(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def listed_in(option: ast.AnnAssign) -> list[str]:
    """`"choices": ["bfd", "bfd_split"]` of an option's metadata; empty if there is none or it isn't a plain list."""
    for node in ast.walk(option):
        for key, value in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
            if ast.unparse(key) == "'choices'" and isinstance(value, ast.List):
                return ast.literal_eval(value)
    return []


def check_run(run: dict[str, Any]) -> None:
    """Refuse, before anything is computed, what no stage could run; raises UserError naming the key and the remedy."""
    if not run["stages"]:
        raise UserError("stages: the list is empty; name at least data and a stage that makes a model")
    for stage in run["stages"]:
        if stage not in STAGES:
            raise UserError(f"stages: there is no stage {stage!r}{did_you_mean(stage, list(STAGES))}")
        if run["stages"].count(stage) > 1:
            raise UserError(f"stages: {stage} is in the list {run['stages'].count(stage)} times; name it once")
    for stage in run["stages"]:
        check_sources(stage, run[stage], run["stages"])
        check_compared(stage, run["stages"])
    if "report" in run["stages"] and "evaluate" not in run["stages"]:
        raise UserError("stages: report reads evaluate, which isn't in the list; add it")
    faults: list[str] = []
    for stage in STAGES:
        if stage in run["stages"]:
            faults += faults_in(checks.check_stage, stage, program_of(stage, run[stage]), run[stage], STAGES)
    raise_faults(faults)
    samplers.check_engines(run)
    checks.check_rows(run)
    checks.check_look_ups(run)
    checks.check_kinds(run)
    checks.check_files(run)


def check_sources(stage: str, config: dict[str, Any], stages: list[str]) -> None:
    """Refuse a stage that reads the outputs of another stage which this run doesn't have; raises UserError."""
    needed = set(sources_of(stage, config, stages).values()) & set(STAGES)
    for source in sorted(needed - set(stages)):
        other = f", or name a model directory in {stage}.init_from" if source == config.get("init_from") else ""
        raise UserError(f"stages: {stage} reads {source}, which isn't in the list; add it{other}")


def check_compared(stage: str, stages: list[str]) -> None:
    """Refuse an ablation or a control without the stage that it is compared with; raises UserError."""
    other = compared_with(stage)
    if other and other not in stages:
        raise UserError(f"stages: {stage} says something beside {other} alone, which isn't in the list; add it")


def check_keys(stage: str, config: dict[str, Any], schema: type) -> None:
    """Refuse a block in which `key_faults` finds something; raises UserError."""
    raise_faults(key_faults(stage, config, schema))


def key_faults(stage: str, config: dict[str, Any], schema: type) -> list[str]:
    """Keys that the program doesn't know, missing ones without a default, and values of the wrong type."""
    from pydantic import ValidationError

    check_values(stage, config)
    try:
        # As JSON, a block may become a dataclass.
        reader_of(schema).validate_json(json.dumps(config), strict=True)
    except ValidationError as error:
        meant: set[tuple[str | int, ...]] = set()  # keys that aren't missing, but mistyped
        for fault in error.errors():
            *block, key = fault["loc"]
            if fault["type"] == "unexpected_keyword_argument":
                meant.add((*block, nearest_word(str(key), known_keys(schema, block)) or ""))
        return [
            f"{key_path(stage, fault['loc'])}: {key_fault(schema, fault)}"
            for fault in error.errors()
            if fault["type"] != "missing" or fault["loc"] not in meant
        ]
    return []


@cache
def reader_of(schema: type) -> Any:
    """What reads configurations into this dataclass and takes no other keys, at no depth."""
    from pydantic import TypeAdapter

    take_no_others(schema)
    return TypeAdapter(schema)


def take_no_others(kind: Any) -> None:
    if dataclasses.is_dataclass(kind):
        kind.__pydantic_config__ = {"extra": "forbid"}
        for inner in get_type_hints(kind).values():
            take_no_others(inner)
    for inner in get_args(kind):
        take_no_others(inner)


def key_path(stage: str, keys: Iterable[str | int]) -> str:
    """The path to a value: rejection.filters[0].name."""
    path = stage
    for key in keys:
        path += f"[{key}]" if isinstance(key, int) else f".{key}"
    return path.removeprefix(".")


def key_fault(schema: type, error: dict[str, Any]) -> str:
    """What is wrong with a value, by pydantic's kind of error, and what to do."""
    kind, given = error["type"], error["input"]
    if kind == "missing":
        return "it is missing; give it a value, in conf/ or as an override"
    if kind == "unexpected_keyword_argument":
        return f"there is no such key{did_you_mean(str(error['loc'][-1]), known_keys(schema, error['loc'][:-1]))}"
    if kind in TYPE_FAULTS:
        said = "null" if given is None else repr(given)
        fault = f"{said} isn't of type {TYPE_FAULTS[kind]}; write a value of that type"
        if isinstance(given, str) and TYPE_FAULTS[kind] == "block":
            fault += ", or take a file of conf/ by its group, as in environment@reasoning_rl.environment=python"
        return fault
    limits = error.get("ctx", {})
    if kind == "literal_error":
        return f"{given!r}; use {limits['expected'].replace(chr(39), '')}"
    if limits.keys() & {"ge", "gt", "le", "lt"}:
        _, remedy = in_range(type_at(schema, error["loc"]))
        return f"{given}; {remedy}"
    return f"{given!r} can't be taken: {error['msg']}"


def known_keys(schema: Any, keys: Iterable[str | int] = ()) -> list[str]:
    """The keys of the block that these keys lead to; without any, of the whole one."""
    return [field.name for field in dataclasses.fields(type_at(schema, keys))]


def type_at(schema: Any, keys: Iterable[str | int]) -> Any:
    """The type of the value that these keys lead to."""
    for key in keys:
        hints = get_type_hints(schema, include_extras=True) if dataclasses.is_dataclass(schema) else {}
        schema = hints[key] if hints else get_args(schema)[-1]
        if type(None) in get_args(schema):  # `Corpus | None`
            schema = get_args(schema)[0]
    return schema


def check_values(place: str, given: Any) -> None:
    """Refuse what isn't plain YAML, infinity and NaN, secrets, and trust_remote_code, at every depth."""
    if isinstance(given, dict | list):
        for key, value in given.items() if isinstance(given, dict) else enumerate(given):
            where = key_path(place, [key])
            check_secret(where, key, value)
            if value and key == "trust_remote_code":
                raise UserError(f"{where}: r1flow never runs code from a model's folder; remove this key")
            check_values(where, value)
    elif not isinstance(given, bool | int | float | str | None):
        raise UserError(f"{place}: {given!r} is no text, number, true, false or null; write one of these")
    elif isinstance(given, float) and not math.isfinite(given):
        raise UserError(f"{place}: {given} isn't a finite number; use another")


def check_option(path: str, value: Any, program: str) -> None:
    """Refuse an option that the trainer doesn't have, an upload, and a value that isn't of the declared type, if plain.

    `path` is the option's: zero_rl.trainer.beta.
    """
    fields, choices, key = trainer_fields(program), trainer_choices(program), path.rpartition(".")[2]
    if key not in fields:
        raise UserError(f"{path}: the trainer has no such option{did_you_mean(key, list(fields))}")
    if value and TO_THE_HUB.match(key):
        raise UserError(
            f"{path}: r1flow uploads nothing while it trains; remove this key, and upload what `r1flow export` writes, "
            "with HF_TOKEN in the environment"
        )
    plain = {"int": int, "float": (int, float), "bool": bool, "str": str}
    kinds = [kind.strip() for kind in fields[key].split("|")]
    if value is None and "None" not in kinds:
        raise UserError(f"{path}: null isn't of type {fields[key]}; give it a value")
    if value is None or (key, value) == ("bf16", NATIVE):
        return
    if all(kind in (*plain, "None") for kind in kinds):
        allowed = tuple(plain[kind] for kind in kinds if kind != "None")
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            is_text = isinstance(value, str) and "float" in kinds
            hint = "; write 1.0e-4 for 1e-4, which YAML reads as text" if is_text else ""
            hint = f"; write true, false or {NATIVE}" if key == "bf16" else hint
            raise UserError(f"{path}: {value!r} isn't of type {fields[key]}{hint}")
    if key in choices and value not in choices[key]:
        raise UserError(f"{path}: there is no {value!r}{did_you_mean(str(value), choices[key])}")
