"""Which engine samples where a stage says `engine: auto`, and whether ours can where a stage names it.

    vllm           on a GPU, a model from outside, where vLLM is installed (not in RL: there trainer.use_vllm says so)
    r1flow         else every model that ours can sample, those that this run trains from nothing among them
    transformers   everything else

It is decided when the run is planned and written into the stage's slice: so the same choice has the same identity and
bytes, and another choice runs the stage again. No torch is imported, a model is known by its config.json.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from r1flow.core.errors import UserError
from r1flow.data.gguf import is_gguf
from r1flow.data.sources import COMMIT, fetch_settings
from r1flow.model.pretrained import OUR_KINDS, has_our_pass
from r1flow.model.weights import read_object
from r1flow.recipe.stages import MODELS, RECIPE, STAGES
from r1flow.sampling import AUTO
from r1flow.training.ranks import IN_SHARES, strategy_of

# Source and revision of a model from outside; source None: trained from nothing.
Origin = tuple[str | None, str | None]


def settle_engines(run: dict[str, Any]) -> list[str]:
    """Write the engine of every stage that says `auto`; returns what the user should know, a line each."""
    stages: dict[str, list[str]] = {}
    unseen: dict[str, str] = {}
    for stage in STAGES:
        if run[stage].get("engine") != AUTO:
            continue
        run[stage]["engine"] = engine = engine_of(run, stage, unseen) if stage in run["stages"] else "r1flow"
        if stage in run["stages"] and (engine != "r1flow" or any(map(is_outside, origins(run, stage)))):
            stages.setdefault(engine, []).append(stage)
    notes = [f"engine: what kind of model {source} is can't be seen here: {why}" for source, why in unseen.items()]
    notes += [f"engine: auto is {engine} for {', '.join(names)}" for engine, names in stages.items()]
    unanswered = [stage for stage in stages.get("transformers", ()) if run[stage].get("dev")]
    for stage in unanswered:
        run[stage]["dev"] = None
    if unanswered:
        notes.append(f"dev is null for {', '.join(unanswered)}: transformers can't answer dev problems during training")
    return notes


def engine_of(run: dict[str, Any], stage: str, unseen: dict[str, str]) -> str:
    """The engine for a stage that leaves the choice to us; `unseen` gets models on a hub that can't be asked, and why.

    These have transformers, which any model has: a run fetches their weights, so it has seen what they are.
    """
    config, outside = run[stage], list(filter(is_outside, origins(run, stage)))
    in_rl = "trainer" in config
    if in_rl and (config["trainer"].get("use_vllm") or strategy_of(config) in IN_SHARES):
        return "transformers"
    if outside and not in_rl and config["device"] == "cuda" and find_spec("vllm"):
        return "vllm"
    return "r1flow" if all(is_ours(*origin, unseen) for origin in outside) else "transformers"


def is_ours(source: str, revision: str | None, unseen: dict[str, str]) -> bool:
    """Whether our engine can sample this model from outside; a hub's settings are fetched for it, once."""
    if is_gguf(source):  # only plain Llamas are read from such files
        return True
    try:
        config = config_of(source, revision)
    except UserError:  # check_start says what is wrong with it
        return False
    if config is None and revision and COMMIT.fullmatch(revision) and source not in unseen:
        try:
            config = config_of(str(fetch_settings(source, revision)), None)
        except UserError as error:
            unseen[source] = str(error)
    return bool(config) and has_our_pass(config)


def check_engines(run: dict[str, Any]) -> None:
    """Refuse our engine for a model from outside that it can't sample; one on the hub is checked once fetched."""
    for stage in run["stages"]:
        if run[stage].get("engine") != "r1flow":
            continue
        for source, revision in origins(run, stage):
            config = None if is_gguf(source) else config_of(source, revision)
            if config and not has_our_pass(config):
                ours = f"r1flow samples {', '.join(OUR_KINDS)} without sliding windows"
                kind = f"{source} is {config.get('model_type')!r}; set {stage}.engine=transformers"
                raise UserError(f"{stage}.engine: {ours}, and {kind}")


def origins(run: dict[str, Any], stage: str) -> list[Origin]:
    """Where the models come from in the end that a stage samples: its own, those it names, or for `evaluate` all."""
    models = [stage]
    if RECIPE[stage].program in ("evaluate", "search"):
        models = [other for other in run[stage].get("models", run["stages"]) if other in MODELS]
    return list(dict.fromkeys(origin(run, model) for model in models))


def origin(run: dict[str, Any], stage: str) -> Origin:
    """The source and revision that a stage's model comes from in the end; source None: a Llama trained from scratch."""
    *stages, source = lineage(run, stage)
    return (source, run[stages[-1]].get("revision")) if source not in STAGES else (None, None)


def lineage(run: dict[str, Any], stage: str) -> list[str | None]:
    """A stage, what it starts from, and so on, up to what is no stage; in a circle, up to a stage that was there."""
    chain: list[str | None] = []
    while stage in STAGES and stage not in chain:
        chain.append(stage)
        stage = run[stage].get("init_from")
    return [*chain, stage]


def is_outside(origin: Origin) -> bool:
    return origin[0] is not None


def config_of(source: str | None, revision: str | None) -> dict[str, Any] | None:
    """The config.json of a model from outside; None where there is none, or it isn't known without the network."""
    path: Any = Path(source or "", "config.json")
    if revision:
        from huggingface_hub import try_to_load_from_cache

        path = try_to_load_from_cache(source, "config.json", revision=revision)
    if not source or not isinstance(path, str | Path) or not Path(path).is_file():
        return None
    return read_object(Path(path))
