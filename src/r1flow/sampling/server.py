"""Samples through a server with OpenAI's completions endpoint: vLLM's, or any other.

    python -m vllm.entrypoints.openai.api_server --model results/r1_7b/base/model --host 127.0.0.1

    ServerSampler(Path("results/r1_7b/base/model"), batch_size=256, url="http://127.0.0.1:8000/v1")
    POST /v1/completions {"model": …, "prompt": [5, 17, …], "max_tokens": 96, "seed": 1211652362427040497, …}
    → {"choices": [{"text": "<think>8 + 16 …", "token_ids": [9, 4, …, 0], "finish_reason": "stop"}]}

The prompt is rendered and tokenised here, with the model folder's template. `batch_size` requests are sent at a time.
Temporary failures are retried: a rate limit, a server's error, a lost connection, a reply that can't be read. After any
other failure the stage ends with an error of one line; its complete shards are kept.

Left out: streamed replies, several rows in one request. Which rows a server decodes together depends on timing, and a
row's low bits may depend on that (docs/scaling.md has measurements).
"""

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from r1flow.core import servers
from r1flow.core.endpoint import Endpoint, Unanswered, complete
from r1flow.core.errors import UserError, listed
from r1flow.core.template import APART, Response, text_ids, unmarked
from r1flow.model.pretrained import read_pretrained
from r1flow.sampling import ADDRESS, Completion, OnProgress, Opening, SamplingParams, encode
from r1flow.sampling.engine import completions, ends_of
from r1flow.sampling.hf import until

if TYPE_CHECKING:
    from httpx import AsyncClient

BACKOFF_S = 1.0  # the first pause; each further one is twice as long
# A server takes missing options from the model's generation_config.json, which the other engines don't read.
NEUTRAL = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
LONGEST_TOKEN = 128  # characters: large vocabularies have tokens for long runs of spaces
HttpRequest = tuple[str, str, dict[str, Any] | None]  # method, path after /v1, JSON
Made = TypeVar("Made")


class ServerSampler:
    """A server behind the Sampler call; tokenizer and template are those of `model_dir`.

    With `model` None, the server must have loaded this very folder (vLLM's server reports it); a name isn't checked in
    that way. `plain` sends OpenAI's own fields only: prompts and replies are text, so `ids` come from tokenising the
    text again, and their number may differ a little from what was sampled. `chat` does the same with the endpoint
    /chat/completions: the server renders the conversation with its own template.
    """

    positions = None  # the server refuses what is too long for it

    def __init__(
        self,
        model_dir: Path,
        batch_size: int,
        url: str | None = None,
        model: str | None = None,
        api_key_env: str | None = None,
        timeout_s: float = 3600.0,
        attempts: int = 6,
        plain: bool = False,
        chat: bool = False,
    ) -> None:
        from transformers import AutoTokenizer

        self.url = url or os.environ.get(ADDRESS, "")
        if not self.url:
            raise UserError(f"engine_options.url: no server is named; write its address here, or set {ADDRESS}")
        self.endpoint = Endpoint(self.url, api_key_env, timeout_s, batch_size, attempts, BACKOFF_S)
        self.words = read_pretrained(AutoTokenizer, model_dir)
        self.tokenizer = Conversation() if chat else self.words
        self.eos_ids = ends_of(model_dir, self.words)
        self.plain, self.chat = plain or chat, chat
        self.model = served_model(self.ask([("GET", "/models", None)], entries_of)[0], model_dir, model, self.url)

    def sample(
        self,
        prompts: list[str],
        params: SamplingParams,
        seeds: list[int],
        on_progress: OnProgress | None = None,
        openings: Sequence[Opening] | None = None,
    ) -> list[Completion]:
        asked = zip(prompts, openings or [""] * len(prompts), seeds, strict=True)
        bodies = [self.body(prompt, opening, params, seed) for prompt, opening, seed in asked]
        path = "/chat/completions" if self.chat else "/completions"
        read = partial(self.completion, params)
        return self.ask([("POST", path, body) for body in bodies], read, on_progress)

    def body(self, prompt: str, opening: Opening, params: SamplingParams, seed: int) -> dict[str, Any]:
        common = {
            "model": self.model,
            "temperature": params.temperature,
            "top_p": params.top_p,
            "max_tokens": params.max_new_tokens,
        }
        if self.plain and params.stops:
            raise UserError(
                "engine_options.plain: a server that is asked for text can't end a step by its tokens; set plain and"
                " chat to false, take another engine, or leave out the strategies that search over steps"
            )
        if self.plain:
            asked = {"messages": json.loads(prompt)} if self.chat else {"prompt": unmarked(prompt) + opening}
            return common | asked | {"seed": seed & 0x7FFFFFFF}  # some servers take at most 31 bits
        [ids] = encode(self.words, [prompt], [opening])
        ends = [*self.eos_ids, *params.stops]
        return common | NEUTRAL | {"prompt": ids, "seed": seed, "stop_token_ids": ends, "return_token_ids": True}

    def completion(self, params: SamplingParams, reply: dict[str, Any]) -> Completion:
        """The completion in a reply; for a malformed reply, or one that is too long, any Python exception is raised."""
        most = params.max_new_tokens
        choice = reply["choices"][0]
        # A valid reply, and a retry gives the same.
        refused = self.chat and choice["finish_reason"] == "content_filter"
        if choice["finish_reason"] not in ("stop", "length") and not refused:
            raise ValueError(f"finish_reason {choice['finish_reason']!r}")
        if self.plain:
            finished = choice["finish_reason"] == "stop"
            text = said(choice["message"]) if self.chat else string(choice["text"])
            if len(text) > LONGEST_TOKEN * most:
                raise ValueError(f"{len(text)} characters for max_tokens {most}")
            [ids] = text_ids(self.words, [text])
            if finished:
                ids = [*ids, self.words.eos_token_id]
            return Completion(ids, text, finished)
        ids = choice.get("token_ids")
        if ids is None:
            raise UserError(
                f"engine: openai: {self.url} returns no token ids; set engine_options.plain: true to ask for text"
            )
        if not (isinstance(ids, list) and all(type(i) is int and 0 <= i < len(self.words) for i in ids)):
            raise ValueError("token_ids that the model's tokenizer doesn't have")
        if len(ids) > most:
            raise ValueError(f"{len(ids)} token_ids for max_tokens {most}")
        return completions([until(ids, [*self.eos_ids, *params.stops])], self.words, self.eos_ids)[0]

    def ask(
        self, requests: list[HttpRequest], read: Callable[[Any], Made], on_progress: OnProgress | None = None
    ) -> list[Made]:
        """`read(reply)` for each request, in order; the first request without a usable reply raises UserError."""
        try:
            return complete(self.ask_all(requests, read, on_progress))
        except ExceptionGroup as failures:
            first = failures.exceptions[0]
            if not isinstance(first, Unanswered):
                raise first from None
            raise UserError(
                f"engine: openai: {self.url} gave no answer ({first}); repair the server and run again: what"
                " is done is kept"
            ) from first

    async def ask_all(
        self, requests: list[HttpRequest], read: Callable[[Any], Made], on_progress: OnProgress | None
    ) -> list[Made]:
        free, done = asyncio.Semaphore(self.endpoint.concurrency), 0

        async def one(client: "AsyncClient", request: HttpRequest) -> Made:
            nonlocal done
            async with free:
                made = await self.endpoint.patiently(self.ask_once, client, request, read)
            done += 1
            if on_progress:
                on_progress(done, len(requests))
            return made

        async with self.endpoint.client() as client, asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(client, request)) for request in requests]
        return [task.result() for task in tasks]

    async def ask_once(self, client: "AsyncClient", request: HttpRequest, read: Callable[[Any], Made]) -> Made:
        response = await self.endpoint.request(client, *request)
        try:
            return read(response.json())
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            why = f"{type(error).__name__}: {servers.named_in_words(error)}"
            raise Unanswered(f"the reply can't be read, {why}; it is {self.endpoint.words_of(response)}") from error


class Conversation:
    """Replaces the tokenizer where the server renders prompts: a prompt is its messages as JSON."""

    def apply_chat_template(self, messages: list[dict[str, str]], **options: Any) -> str:
        return json.dumps(messages, ensure_ascii=False)


def said(message: dict[str, Any]) -> str:
    """The text of a message; where the server separates the reasoning, the tags are restored."""
    parts = [*(message.get(name) for name in APART), message["content"]]
    *apart, text = ("" if part is None else string(part) for part in parts)
    return str(Response.joined(next(filter(None, apart), ""), text))


def string(value: Any) -> str:
    """`value`, which must be text: a list of texts could be tokenised too, and would be stored unnoticed."""
    if not isinstance(value, str):
        raise TypeError(f"text that is {type(value).__name__}")
    return value


def entries_of(reply: dict[str, Any]) -> list[tuple[str, str]]:
    """Each served model's name and, if the server reports it, the folder it was loaded from."""
    return [(str(entry["id"]), str(entry.get("root") or "")) for entry in reply["data"]]


def served_model(entries: list[tuple[str, str]], model_dir: Path, name: str | None, url: str) -> str:
    """The name to request; raises UserError if the server doesn't have this model, so that no other is sampled."""
    names = [served for served, _ in entries]
    has = listed([servers.named_in_words(served) for served in names]) or "none"
    if name is not None and name not in names:
        raise UserError(f"engine_options.model: {url} doesn't serve {name!r}; it serves {has}")
    of_folder = (served for served, root in entries if root and servers.same_folder(root, model_dir))
    served_name = name or next(of_folder, None)
    if served_name is None:
        raise UserError(f"engine: openai: {url} doesn't serve {model_dir} but {has}; start the server with that folder")
    return served_name
