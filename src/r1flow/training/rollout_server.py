"""vLLM's server for GRPO's rollouts: how it is found, checked and started.

    r1flow serve-rollouts results/r1_qwen2.5_7b/base/model                 # on 127.0.0.1:8000, this machine only
    export R1FLOW_ROLLOUT_URL=http://127.0.0.1:8000

TRL sends the weights to the server before it samples (by NCCL, so both sides need GPUs), through endpoints that vLLM
has in its development mode only. These have no authentication: anyone who can reach the port can replace the weights or
run code there. So the server listens on localhost unless told otherwise. Left out: starting it for a stage, several
servers.
"""

import json
import os
import re
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from r1flow.artifacts.contract import try_apart
from r1flow.core import servers
from r1flow.core.endpoint import complete, split_address
from r1flow.core.errors import UserError
from r1flow.core.files import read_json
from r1flow.model.pretrained import check_weights

# An address, or a file with one; not in the configuration, so a new one reruns nothing.
ADDRESS = "R1FLOW_ROLLOUT_URL"
# Between two questions to a server that loads its model.
PAUSE_S = 2.0
# Of a token of a completion: its id and name, each twice, its log-probability twice, and its text take about 150 bytes.
TOKEN_BYTES = 500
# Of any reply, and for each token that a completion may have; vLLM takes hundredths of a second for one of a batch.
REPLY_S, TOKEN_S = 600.0, 1.0
# Keys in which two models must agree, so that one can take the other's weights.
SHAPE = (
    "architectures",
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "tie_word_embeddings",
)
# What TRL's trainers need: an endpoint for the weights, and log-probabilities after temperature and top_p.
FLAGS = [
    *("--weight-transfer-config", '{"backend": "nccl"}'),
    *("--logprobs-mode", "processed_logprobs"),
    *("--max-logprobs", "-1"),
]


def serve_vllm(model: Path, host: str, port: int, more: list[str]) -> None:
    """Replace this process by vLLM's server of the model in a folder; `more` are vLLM's own options."""
    # vLLM accepts abbreviations.
    if any(word.replace("_", "-").startswith("--trust-rem") for word in more):
        raise UserError("serve-rollouts: --trust-remote-code would run code from the model's folder; leave it out")
    if any(word.partition("=")[0] == "--config" for word in more):
        raise UserError("serve-rollouts: --config could hide any of vLLM's options; write the options themselves")
    check_weights(model)
    try_apart(model)
    words = ["-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--host", host, "--port", str(port)]
    os.execve(sys.executable, [sys.executable, *words, *FLAGS, *more], {**os.environ, "VLLM_SERVER_DEV_MODE": "1"})


def find_server(model_dir: Path, configured: str | None, wait_s: float, say: Callable[[str], None]) -> str:
    """The address of the server that a stage starting from `model_dir` may train with, once it answers.

    Raises UserError when there is none after `wait_s` seconds, or when it serves something else. The port from which
    weights are sent then opens only on the interface towards the server: for a local server, on the loopback.
    """
    url = wait(configured, wait_s, model_dir, say)
    check_server(url, vllm_config(url), model_dir)
    servers.bound_requests(rollout_limits)
    # Else vLLM takes the interface towards the internet.
    os.environ.setdefault("VLLM_HOST_IP", own_address(url))
    return url


def rollout_limits(body: bytes | str | None) -> tuple[int, float]:
    """The bytes and seconds that a reply to TRL's client may take, by the completions that it asked for.

    TRL itself waits for ever, and asks for the completions of a whole step at once, whose prompts come back, too.
    """
    asked = json.loads(body or b"{}")
    prompts = asked.get("prompt", ())
    count = asked.get("n", 1) * (1 if isinstance(prompts, str) else max(1, len(prompts)))
    longest = asked.get("max_tokens", 0)
    most = servers.LARGEST_REPLY + asked.get("n", 1) * len(body or b"") + count * longest * TOKEN_BYTES
    return most, REPLY_S + longest * TOKEN_S


def own_address(url: str) -> str:
    """This machine's address towards the server: 127.0.0.1 for a local one."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    with socket.create_connection((parts.hostname, port), timeout=10) as connection:
        return connection.getsockname()[0]


def address(configured: str | None) -> str | None:
    """The server's address; None while the file that will contain it doesn't exist."""
    given = configured or os.environ.get(ADDRESS, "")
    if not given:
        raise UserError(f"trainer.vllm_mode: server, but no server is named; set {ADDRESS} (docs/scaling.md)")
    if ":" not in given:
        given = Path(given).read_text().strip() if Path(given).is_file() else ""
    parts = split_address(given)
    if given and (not parts or parts.path.strip("/") or parts.username is not None or parts.query):
        # There may be a password in it.
        shown = "its value" if re.search("[@?]", given) else repr(given)
        raise UserError(f"{ADDRESS}: {shown} isn't an address like http://127.0.0.1:8000 (without /v1, user or key)")
    return given.rstrip("/") or None


def wait(configured: str | None, wait_s: float, model_dir: Path, say: Callable[[str], None]) -> str:
    """The address, once the server there is healthy; waits while it is still queued or loading."""
    until, told = time.monotonic() + wait_s, False
    while True:
        url = address(configured)
        if url and (reply(f"{url}/health", 10) or (None,))[0] == 200:
            return url
        where = url or configured or os.environ[ADDRESS]
        if time.monotonic() >= until:
            raise UserError(
                f"rollouts: no vLLM server answers at {where} after {wait_s:.0f} s; start it with"
                f" `r1flow serve-rollouts {model_dir}`, or set {ADDRESS}"
            )
        if not told:
            say(f"waiting for vLLM's server at {where}")
            told = True
        time.sleep(PAUSE_S)


def reply(url: str, timeout_s: float, **parameters: str) -> tuple[int, bytes] | None:
    """Status and content; None without an answer, and for one that takes too long or is too large."""
    import httpx

    async def ask() -> httpx.Response:
        async with servers.client(url, timeout_s) as client:
            return await servers.exchange(client, "GET", url, timeout_s, params=parameters)

    try:
        response = complete(ask())
    except (httpx.HTTPError, TimeoutError, servers.Unreadable):
        return None
    return response.status_code, response.content


def vllm_config(url: str) -> dict[str, Any]:
    """The configuration that the server reports."""
    status, content = reply(f"{url}/server_info", 60, config_format="json") or (None, b"")
    try:
        reported = json.loads(content)["vllm_config"] if status == 200 else None
    except (ValueError, LookupError, TypeError, RecursionError):
        reported = None
    if not isinstance(reported, dict) or not isinstance(reported.get("model_config"), dict):
        raise UserError(
            f"rollouts: {url} isn't a server for rollouts; start one with `r1flow serve-rollouts MODEL_DIR`"
        )
    return reported


def check_server(url: str, config: dict[str, Any], model_dir: Path) -> None:
    """Refuse a server that can't take this model's weights, or whose samples TRL couldn't use."""
    model, start = config["model_config"], f"start it with `r1flow serve-rollouts {model_dir}`"
    weights, mode = config.get("weight_transfer_config"), model.get("logprobs_mode")
    if not isinstance(weights, dict) or weights.get("backend") != "nccl":
        raise UserError(f"rollouts: {url} can't receive new weights; {start}")
    if mode != "processed_logprobs":
        raise UserError(f"rollouts: {url} returns {servers.named_in_words(mode)}, not processed_logprobs; {start}")
    served = str(model.get("model"))
    if not servers.same_folder(served, model_dir) and shape(Path(served)) != shape(model_dir):
        what = f"{servers.named_in_words(served)}, whose shape or end of text is not that of this model"
        raise UserError(f"rollouts: {url} serves {what}; {start}")


def shape(folder: Path) -> dict[str, Any]:
    """What vLLM keeps of a model when it receives new weights: its layers, and the ids that end a text."""
    config, generation = (read_config(folder / name) for name in ("config.json", "generation_config.json"))
    ends = generation.get("eos_token_id", config.get("eos_token_id"))
    return {name: config.get(name) for name in SHAPE} | {
        "ends": sorted(ends, key=str) if isinstance(ends, list) else [ends]
    }


def read_config(path: Path) -> dict[str, Any]:
    try:
        config = read_json(path)
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}
