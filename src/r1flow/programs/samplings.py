"""Checks and costs that the programs that sample have in common."""

from typing import Any

from r1flow.core.endpoint import PLAIN_URL, is_variable
from r1flow.core.errors import UserError
from r1flow.core.flops import forward_flops
from r1flow.programs.cost_estimate import BF16, F32, Cost, Estimator
from r1flow.programs.keys import OneOrMore, Positive, Sampled, ShareAboveZero, in_range
from r1flow.programs.model_sizes import Model
from r1flow.programs.specs import spec_of
from r1flow.recipe.stages import ROWS
from r1flow.sampling import check_engine


def sampled_stages() -> list[str]:
    """The stages that sample, in shards: those whose program has the keys for it."""
    return [row.stage for row in ROWS if issubclass(spec_of(row.program).keys, Sampled)]


def check_sampling(config: dict[str, Any]) -> None:
    """Refuse sampling options with which rejection and evaluate can't work."""
    check_engine(config["engine"], config["engine_options"])
    check_option_values(config["engine_options"])


# Engine options: a test of each value, and the remedy.
OPTION_RULES = {
    "tensor_parallel_size": in_range(OneOrMore),
    "gpu_memory_utilization": in_range(ShareAboveZero),
    "max_model_len": in_range(OneOrMore),
    "dtype": (("auto", "float32", "bfloat16", "float16").__contains__, "use auto, float32, bfloat16 or float16"),
    "url": (PLAIN_URL.fullmatch, "use an address like http://127.0.0.1:8000/v1, without a password"),
    "api_key_env": (is_variable, "name the environment variable that holds the key"),
    "timeout_s": in_range(Positive),
    "attempts": in_range(OneOrMore),
}


def check_option_values(options: dict[str, Any]) -> None:
    for name, value in options.items():
        holds, remedy = OPTION_RULES.get(name, (lambda _: True, ""))
        if not holds(value):
            may_be_secret = name in ("url", "api_key_env")  # put in the wrong place
            shown = "its value" if may_be_secret else value
            raise UserError(f"engine_options.{name}: {shown} isn't allowed; {remedy}")


# What they cost.


def cost_of_sampling(estimator: Estimator, job: str, config: dict[str, Any], *ways: float) -> Cost:
    """The cost of drawing samples, so many in each way of asking, and of keeping them."""
    model, samples = estimator.model(job), sum(ways)
    tokens = samples and samples * (estimator.prompt + estimator.completion(config["max_new_tokens"]))
    states, host = memory_of_sampling(config, model.parameters)
    return Cost(
        job,
        parameters=model.parameters,
        sampled=tokens,
        sampling=forward_flops(model.parameters, tokens),
        layer_tokens=layer_tokens(config, model, *ways),
        engine=config["engine"],
        disk=2 * estimator.assumed["bytes_per_token"] * tokens,
        states=states,
        host=host,
    )


def layer_tokens(config: dict[str, Any], model: Model, *ways: float) -> float:
    """Layers × tokens that are drawn one after another, if each batch has a row as long as allowed.

    `ways` has the samples of each way of asking, which are in batches of their own.
    """
    batches = sum(-(-samples // config["batch_size"]) for samples in ways)
    return model.layers * config["max_new_tokens"] * batches


def memory_of_sampling(config: dict[str, Any], parameters: float, reward: float = 0) -> tuple[float, float]:
    """Bytes of the model on its GPU, and in the machine's memory while it loads; a server's model isn't counted."""
    if config["engine"] == "openai":
        return 0, 0
    dtype = config["engine_options"].get("dtype", "auto" if config["engine"] == "vllm" else "float32")
    return parameters * (F32 if dtype == "float32" else BF16), parameters * F32
