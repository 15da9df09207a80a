"""What a configuration needs and a machine may lack: vLLM, DeepSpeed, flash-attn, a sandbox, servers with their keys.

    missing({"zero_rl": {"strategy": "zero2", …}})
    ["zero_rl.strategy: deepspeed isn't installed; pip install -c constraints.txt -e .[deepspeed]"]

A run that lacks something is refused before its first job. A plan only warns, because it can be made on any machine.
Whether a library works and a server answers shows only when it is used.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from r1flow import sampling
from r1flow.core.optional import asked_for
from r1flow.core.rewarding import reward_names
from r1flow.sandbox import ELSEWHERE
from r1flow.training import rollout_server


def missing(stages: Mapping[str, dict[str, Any]]) -> list[str]:
    """What the stages need and this machine lacks, a line each: the keys, and the remedy."""
    keys: dict[str, list[str]] = {}
    for stage, config in stages.items():
        for key, modules in asked_for(config).items():
            if not any(map(find_spec, modules)):
                keys.setdefault(modules[0], []).append(f"{stage}.{key}")
    lines = [f"{', '.join(asking)}: {module} isn't installed; {remedy(module)}" for module, asking in keys.items()]
    for stage, config in stages.items():
        lines += [f"{stage}.{line}" for line in unnamed(config)]
        if sys.platform != "linux" and (key := key_of_code(config)):
            lines.append(f"{stage}.{key}: no sandbox for model-written code: {ELSEWHERE}")
    return lines


def key_of_code(config: dict[str, Any]) -> str | None:
    """The key of a stage's config by which code is run that a model wrote; None without one."""
    for label, reward in reward_names(config.get("rewards") or {}).items():
        if reward == "code_tests":
            return f"rewards.{label}"
    if (config.get("environment") or {}).get("name") == "Python":
        return "environment.name"
    for name, source in (config.get("sources") or {}).items():
        # A problem without an answer is graded by its tests.
        if (source.get("fixed") or {}).get("answer") == "":
            return f"sources.{name}"
    return None


def unnamed(config: dict[str, Any]) -> Iterator[str]:
    """A line for each address or key of a server that neither the stage's config nor the environment gives."""
    options, trainer = config.get("engine_options") or {}, config.get("trainer") or {}
    if config.get("engine") == "openai":
        if not (options.get("url") or os.environ.get(sampling.ADDRESS)):
            yield f"engine_options.url: no server is named; write its address here, or set {sampling.ADDRESS}"
        yield from keyless("engine_options", options)
    for label, reward in (config.get("rewards") or {}).items():
        yield from keyless(f"rewards.{label}.args", reward.get("args") or {})
    asks = trainer.get("use_vllm") and trainer.get("vllm_mode") == "server"
    if asks and not (trainer.get("vllm_server_base_url") or os.environ.get(rollout_server.ADDRESS)):
        yield f"trainer.vllm_mode: server, but no server is named; set {rollout_server.ADDRESS} (docs/scaling.md)"


def keyless(place: str, options: Mapping[str, Any]) -> Iterator[str]:
    """A line if the variable that these options name for a server's key isn't there."""
    if (name := options.get("api_key_env")) and not os.environ.get(name):
        yield f"{place}.api_key_env: the environment has no {name}; set it to the server's key"


def remedy(module: str) -> str:
    if module.startswith("flash_attn"):
        return "install flash-attn by hand, or use sdpa"
    if module == "vllm":  # it needs an older numpy than constraints.txt pins
        return "run `make vllm`, which installs it in .venv-vllm (docs/scaling.md)"
    own = Path(sys.prefix, "constraints.txt")  # the environment with vLLM has its own
    constraints = os.path.relpath(own) if own.is_file() else "constraints.txt"
    return f"pip install -c {constraints} -e .[{module.partition('_')[0]}]"
