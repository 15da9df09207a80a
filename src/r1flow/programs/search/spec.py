"""Facts about the program that searches at test time, for plan, checks and report (programs/specs.py)."""

from dataclasses import dataclass
from typing import Any

from r1flow.core.errors import UserError, did_you_mean
from r1flow.core.flops import forward_flops
from r1flow.core.rewarding import reward_names
from r1flow.core.schema import MIX, TO_LEARN
from r1flow.programs.cost_estimate import Cost, Estimator, least
from r1flow.programs.keys import Counting, OneOrMore, Positive, Seeded, ShareAboveZero
from r1flow.programs.model_sizes import UNKNOWN
from r1flow.programs.samplings import check_sampling, layer_tokens, memory_of_sampling
from r1flow.programs.search.scorers import IN_PROCESS, SCORERS, check_votes
from r1flow.programs.specs import Spec
from r1flow.recipe.stages import MODELS
from r1flow.sampling import BY_TORCH
from r1flow.sampling.step_search import STEP_STRATEGIES
from r1flow.sampling.strategies import check_strategies


@dataclass
class Search(Seeded, Counting):
    models: list[str]
    strategies: dict[str, dict[str, Any]]
    budgets: list[OneOrMore]
    split: str
    n_problems: OneOrMore | None
    temperature: Positive  # greedily, all samples would be the same
    top_p: ShareAboveZero
    max_new_tokens: OneOrMore
    engine: str
    engine_options: dict[str, Any]
    batch_size: OneOrMore


def check_search(config: dict[str, Any]) -> None:
    """Refuse models, strategies, scorers and budgets that there can't be."""
    check_sampling(config)
    check_strategies(config["strategies"], config["max_new_tokens"])
    check_asked_for_text(config)
    for key in ("models", "budgets"):
        if not config[key] or len(set(config[key])) < len(config[key]):
            raise UserError(f"{key}: {config[key]}; name at least one, and each once")
    for model in config["models"]:
        if model not in MODELS:
            raise UserError(f"models: there is no model {model!r}{did_you_mean(model, MODELS)}")
    for label, part in config["strategies"].items():
        check_votes(label, part)
        args = part.get("args") or {}
        scorer = args.get("scorer")
        if "scorer" in args and scorer not in SCORERS:
            hint = did_you_mean(str(scorer), list(SCORERS))
            raise UserError(f"strategies.{label}.args.scorer: there is no scorer {scorer!r}{hint}")
        if scorer in IN_PROCESS and config["engine"] not in BY_TORCH:
            raise UserError(
                f"strategies.{label}.args.scorer: {scorer} needs the model in this process; set engine to"
                f" {' or '.join(BY_TORCH)}, or leave {label} out"
            )


def check_asked_for_text(config: dict[str, Any]) -> None:
    """Refuse what a server that is asked for text can't do: end a step by its tokens, or, in a chat, go on writing."""
    options = config["engine_options"]
    if config["engine"] == "openai" and (options.get("plain") or options.get("chat")):
        for label, name in reward_names(config["strategies"]).items():
            if name in STEP_STRATEGIES:
                raise UserError(
                    f"strategies.{label}: a server that is asked for text can't end a step by its tokens; set"
                    " engine_options.plain and chat to false, or leave it out"
                )
            if name == "budget_forcing" and options.get("chat"):
                raise UserError(
                    f"strategies.{label}: a chat can't go on with a completion that it has ended; set"
                    " engine_options.chat to false, or leave it out"
                )


def cost(estimator: Estimator, job: str, config: dict[str, Any]) -> Cost:
    """The cost of the largest budget for every model; strategies that choose among the same samples share them."""
    data, limit = estimator.run.slice("data"), config["n_problems"]
    families = len(data.get("tasks") or data["sources"])
    problems = least(estimator.rows.get(config["split"], UNKNOWN), limit and limit * families)
    # An entry of either block has its name in the same place.
    names = list(reward_names(config["strategies"]).values())
    own = [name for name in names if name in ("budget_forcing", "revision", *STEP_STRATEGIES)]
    draws = len(own) + (len(own) < len(names))
    samples = problems * max(config["budgets"]) * draws
    tokens = samples * config["max_new_tokens"]
    models = [estimator.model(model) for model in config["models"]]
    parameters = max(model.parameters for model in models)
    states, host = memory_of_sampling(config, parameters)
    return Cost(
        job,
        parameters=parameters,
        sampled=tokens * len(models),
        sampling=sum(forward_flops(model.parameters, tokens) for model in models),
        layer_tokens=sum(layer_tokens(config, model, samples) for model in models),
        engine=config["engine"],
        states=states,
        host=host,
    )


SPEC = Spec(
    keys=Search,
    outputs=lambda config: ["samples.parquet", *([MIX] if config["split"] == TO_LEARN else [])],
    check=check_search,
    files_read=lambda config: iter([("split", f"{config['split']}.jsonl")]),
    metrics={"models": dict, "counts": dict},
    cost=cost,
    memory=memory_of_sampling,
    on_gpu=True,
)
