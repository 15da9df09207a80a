"""vLLM's server for GRPO's rollouts: its address, what it must be, and the command that starts it.

    r1flow serve-rollouts results/r1_qwen2.5_7b/base/model                 # on 127.0.0.1:8000, no one else's
    export R1FLOW_ROLLOUT_URL=http://127.0.0.1:8000

TRL sends the weights to it before it samples (NCCL, so both sides need GPUs), through endpoints that vLLM has in its
development mode only. None of these asks who is calling: whoever reaches the port can replace the weights or run code
there. So it listens on localhost unless told otherwise. Left out: starting it for a stage, several servers.
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

from r1flow.core.endpoint import LARGEST_REPLY, split_address
from r1flow.core.errors import UserError
from r1flow.core.pretrained import check_weights

ADDRESS = "R1FLOW_ROLLOUT_URL"  # an address, or a file with one: a server that moves reruns nothing
PAUSE_S = 2.0
# What weights sent from one model to another must share.
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
# As TRL's trainers need it: a way in for the weights, and log-probabilities after temperature and top_p.
FLAGS = [
    *("--weight-transfer-config", '{"backend": "nccl"}'),
    *("--logprobs-mode", "processed_logprobs"),
    *("--max-logprobs", "-1"),
]


def serve(model: Path, host: str, port: int, more: list[str]) -> None:
    """Become vLLM's server of a model's folder; `more` are options of vLLM's own."""
    if any(word.replace("_", "-").startswith("--trust-rem") for word in more):  # vLLM takes it shortened, too
        raise UserError("serve-rollouts: --trust-remote-code runs what a model's folder says; it can't be set")
    if any(word.partition("=")[0] == "--config" for word in more):
        raise UserError("serve-rollouts: --config can set any option of vLLM's unseen; write them as words here")
    check_weights(model)
    words = ["-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--host", host, "--port", str(port)]
    os.execve(sys.executable, [sys.executable, *words, *FLAGS, *more], {**os.environ, "VLLM_SERVER_DEV_MODE": "1"})


def find(model_dir: Path, configured: str | None, wait_s: float, say: Callable[[str], None]) -> str:
    """The address of the server that a stage starting from `model_dir` may train with, once it answers.

    Raises UserError when there is none after `wait_s` seconds, or when it serves something else. The port that the
    weights leave by is then open on the way to the server only: for one on this machine, on its loopback.
    """
    url = wait(configured, wait_s, model_dir, say)
    check_server(url, vllm_config(url), model_dir)
    os.environ.setdefault("VLLM_HOST_IP", own_address(url))  # else vLLM takes the interface that reaches the internet
    return url


def own_address(url: str) -> str:
    """This machine's address on the way to the server: 127.0.0.1 for one that is here."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    with socket.create_connection((parts.hostname, port), timeout=10) as connection:
        return connection.getsockname()[0]


def address(configured: str | None) -> str | None:
    """The server's address; None while the file that is to have it isn't there."""
    given = configured or os.environ.get(ADDRESS, "")
    if not given:
        raise UserError(f"trainer.vllm_mode: server, and no server is named; set {ADDRESS} (docs/scaling.md)")
    if ":" not in given:
        given = Path(given).read_text().strip() if Path(given).is_file() else ""
    parts = split_address(given)
    if given and (not parts or parts.path.strip("/") or parts.username is not None or parts.query):
        shown = "what it names" if re.search("[@?]", given) else repr(given)  # there may be a password in it
        raise UserError(f"{ADDRESS}: {shown} is no address like http://127.0.0.1:8000 (without /v1, user or key)")
    return given.rstrip("/") or None


def wait(configured: str | None, wait_s: float, model_dir: Path, say: Callable[[str], None]) -> str:
    """The address as soon as the server there is healthy; one that is still queued or loading gets its time."""
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
            say(f"waits for vLLM's server at {where}")
            told = True
        time.sleep(PAUSE_S)


def reply(url: str, timeout_s: float, **parameters: str) -> tuple[int, bytes] | None:
    """Status and content; None without an answer, and for one that takes longer or is of no bounds."""
    import httpx

    until, content = time.monotonic() + timeout_s, bytearray()
    try:  # httpx's own time limit starts again with every byte
        with httpx.stream("GET", url, params=parameters, timeout=timeout_s) as response:
            for part in response.iter_bytes():
                content += part
                if len(content) > LARGEST_REPLY or time.monotonic() > until:
                    return None
            return response.status_code, bytes(content)
    except httpx.HTTPError:
        return None


def vllm_config(url: str) -> dict[str, Any]:
    """What the server says of itself."""
    status, content = reply(f"{url}/server_info", 60, config_format="json") or (None, b"")
    try:
        found = json.loads(content)["vllm_config"] if status == 200 else None
    except (ValueError, LookupError, TypeError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("model_config"), dict):
        raise UserError(f"rollouts: {url} is no server for rollouts; start it with `r1flow serve-rollouts MODEL_DIR`")
    return found


def check_server(url: str, config: dict[str, Any], model_dir: Path) -> None:
    """Refuse a server that can't take this model's weights, or whose samples TRL couldn't use."""
    model, start = config["model_config"], f"start it with `r1flow serve-rollouts {model_dir}`"
    if (config.get("weight_transfer_config") or {}).get("backend") != "nccl":
        raise UserError(f"rollouts: {url} takes no weights; {start}")
    if model.get("logprobs_mode") != "processed_logprobs":
        raise UserError(f"rollouts: {url} gives {model.get('logprobs_mode')}, no processed_logprobs; {start}")
    served = Path(str(model.get("model")))
    if served.resolve() != Path(model_dir).resolve() and shape(served) != shape(model_dir):
        raise UserError(f"rollouts: {url} serves {served}, which hasn't the shape or end of text of ours; {start}")


def shape(folder: Path) -> dict[str, Any]:
    """What of a model vLLM keeps when other weights come: its layers, and the ids that end a text."""
    config, generation = (read_config(folder / name) for name in ("config.json", "generation_config.json"))
    ends = generation.get("eos_token_id", config.get("eos_token_id"))
    return {name: config.get(name) for name in SHAPE} | {"ends": sorted(ends) if isinstance(ends, list) else [ends]}


def read_config(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
