"""Serves a model to chat programs on this machine, by OpenAI's API.

    r1flow serve results/r1_tiny/align_rl/model        then give the program http://127.0.0.1:8000/v1, and any key

    POST /v1/chat/completions {"messages": [{"role": "user", "content": "What is 2 + 3?"}]}
    → {"choices": [{"message": {"content": "…5", "reasoning_content": "2 + 3 = 5", …}, "finish_reason": "stop"}], …}

Reasoning is told apart from the reply, as DeepSeek's own API does. Questions are answered one after another. With
`stream` a reply comes in one piece, when it is whole; with `stop` it ends before such a word. A request is refused that
asks for what this server can't do (NOT_HERE, several replies to a question); OpenAI's other options are ignored.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from r1flow.api.examination import load_chat_sampler, prompt_in_template, room_for
from r1flow.artifacts.folders import model_folder
from r1flow.commands.finding import add_sampling, parts_of
from r1flow.core.errors import UserError
from r1flow.core.template import prompt_ids
from r1flow.sampling import Completion, SamplingParams, seed_of, with_opened_thought

HOST = "127.0.0.1"
LARGEST_REQUEST = 1_000_000  # bytes
PATIENCE_S = 10.0  # for a request that doesn't come
# OpenAI's options that would make another reply, with the values by which nobody asks for anything.
NOT_HERE: dict[str, Any] = {
    "tools": [],
    "functions": [],
    "response_format": {"type": "text"},
    "logprobs": False,
    "logit_bias": {},
    "frequency_penalty": 0,
    "presence_penalty": 0,
}

Answer = Callable[[dict[str, Any]], dict[str, Any]]  # a request → a whole reply, as OpenAI's API has both


class ContentPart(BaseModel):
    type: Literal["text"]
    text: str


class ChatTurn(BaseModel):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[ContentPart]

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class Request(BaseModel):
    """What is read of a request."""

    messages: list[ChatTurn] = Field(min_length=1)
    temperature: float
    top_p: float
    max_tokens: int | None = Field(default=None, ge=1)  # None: as many as there is room for, up to the usual
    seed: int = Field(ge=0)
    stop: str | list[str] = []  # a reply ends before the first of these that it has
    n: Literal[1] = 1


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Serve a model to chat programs that know OpenAI's API, on this machine only. End with Ctrl-C. A request's own "
        "temperature, top_p, max_tokens and seed come before these options."
    )
    parser.add_argument("model", type=Path, metavar="MODEL_DIR", help="for example results/r1_tiny/align_rl/model")
    parser.add_argument("--port", type=int, default=8000, help="where to listen; 0: any free one (default: 8000)")
    add_sampling(parser)
    parser.add_argument("--max-new-tokens", type=int, default=512, help="longest reply, if it has room (default: 512)")


def run(arguments: argparse.Namespace) -> None:
    model = model_folder(arguments.model)
    usual = {name: getattr(arguments, name) for name in ("temperature", "top_p", "seed")}
    answer = answerer(model, arguments.engine, usual, arguments.max_new_tokens)
    with served(model, answer, arguments.port) as server:
        print(f"{model}: http://{HOST}:{server.server_port}/v1 (any key will do); Ctrl-C ends", flush=True)
        server.serve_forever()


class Server(HTTPServer):
    request_queue_size = 128  # questions that wait; with Python's 5 a program that asks 16 at once is turned away


def served(model: Path, answer: Answer, port: int) -> Server:
    """The server, which listens already; raises UserError for a port that can't be had."""
    try:
        return Server((HOST, port), partial(Handler, str(model), answer))
    except (OSError, OverflowError) as error:
        raise UserError(f"--port {port}: {error}; use another, or 0 for any free one") from error


def answerer(model: Path, engine: str, usual: Mapping[str, Any], longest: int) -> Answer:
    """Load the model (takes seconds); returns a function that answers requests, and raises UserError for wrong ones.

    `longest` is how many tokens a reply may have whose request doesn't say it.
    """
    request_of({"messages": [{"role": "user", "content": "?"}]}, usual)
    SamplingParams(usual["temperature"], usual["top_p"], longest)
    sampler = load_chat_sampler(model, engine, batch_size=1)
    asked = 0

    def answer(sent: dict[str, Any]) -> dict[str, Any]:
        nonlocal asked
        request = request_of(sent, usual)
        *before, last = [{"role": turn.role, "content": turn.text} for turn in request.messages]
        if last["role"] != "user":
            raise UserError(f"messages: the last turn is of {last['role']}; the user's must be the last")
        prompt = prompt_in_template(model, sampler, last["content"], before)
        most = request.max_tokens or room_for(model, sampler, [prompt], longest)
        params = SamplingParams(request.temperature, request.top_p, most)
        seed = seed_of(request.seed, last["content"], asked if sent.get("seed") is None else 0)
        [drawn] = sampler.sample([prompt], params, [seed])
        asked += 1
        words = [request.stop] if isinstance(request.stop, str) else request.stop
        completion = with_opened_thought(prompt, ended_at(drawn, words))
        return told_as_openai(str(model), completion, len(prompt_ids(sampler.tokenizer, [prompt])[0]))

    return answer


def request_of(sent: dict[str, Any], usual: Mapping[str, Any]) -> Request:
    """The request with the usual values of what it doesn't set; raises UserError naming what is wrong."""
    given = {name: value for name, value in sent.items() if value is not None}
    if "max_completion_tokens" in given:  # its newer name
        given.setdefault("max_tokens", given["max_completion_tokens"])
    for name, nothing in NOT_HERE.items():
        if given.get(name, nothing) != nothing:
            raise UserError(f"{name}: this server can't do that; leave it out")
    try:
        return Request.model_validate({**usual, **given})
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False)
        raise UserError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def ended_at(completion: Completion, words: Iterable[str]) -> Completion:
    """The completion up to the first of these words; its tokens are still all that were drawn."""
    begins = [completion.text.find(word) for word in words if word in completion.text and word]
    return replace(completion, text=completion.text[: min(begins)], finished=True) if begins else completion


def told_as_openai(model: str, completion: "Completion", prompt_tokens: int) -> dict[str, Any]:
    """A completion as a reply of OpenAI's API."""
    reasoning, content = parts_of(completion.text)
    counts = {"prompt_tokens": prompt_tokens, "completion_tokens": len(completion.ids)}
    message = {"role": "assistant", "content": content.strip(), "reasoning_content": reasoning}
    choice = {"index": 0, "message": message, "finish_reason": "stop" if completion.finished else "length"}
    made = {"id": f"chatcmpl-{time.time_ns():x}", "object": "chat.completion", "created": int(time.time())}
    return {**made, "model": model, "choices": [choice], "usage": {**counts, "total_tokens": sum(counts.values())}}


def in_chunks(whole: dict[str, Any]) -> Iterator[str]:
    """The reply as a stream has it: the message in one chunk, then why it ended."""
    [choice] = whole["choices"]
    about = {name: whole[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    for delta, why in ((choice["message"], None), ({}, choice["finish_reason"])):
        chunk = {**about, "choices": [{"index": 0, "delta": delta, "finish_reason": why}]}
        yield f"data: {json.dumps(chunk)}\n\n"
    yield "data: [DONE]\n\n"


class Handler(BaseHTTPRequestHandler):
    """One request; a new one is made for each."""

    timeout = PATIENCE_S

    def __init__(self, model: str, answer: Answer, *rest: Any) -> None:
        self.model, self.answer = model, answer
        super().__init__(*rest)

    def handle(self) -> None:
        with suppress(ConnectionError):  # the program has gone, and nobody waits for the reply
            super().handle()

    def do_GET(self) -> None:
        if self.is_for("/v1/models"):
            known = {"id": self.model, "object": "model", "owned_by": "r1flow", "created": 0}
            # As vLLM's server tells from which folder a model is.
            known["root"] = str(Path(self.model).resolve())
            self.send(json.dumps({"object": "list", "data": [known]}))

    def do_POST(self) -> None:
        try:
            if self.is_for("/v1/chat/completions") and (request := self.read_request()) is not None:
                whole = self.answer(request)
                if request.get("stream"):
                    self.send("".join(in_chunks(whole)), "text/event-stream")
                else:
                    self.send(json.dumps(whole))
        except UserError as error:
            self.refuse(400, str(error))

    def is_for(self, path: str) -> bool:
        """Whether the request is for this path and names this machine; it is refused if not.

        A page in a browser could have another name lead here.
        """
        if self.headers.get("Host", "").partition(":")[0] not in (HOST, "localhost"):
            self.refuse(403, "this server answers programs on this machine only")
        elif self.path.rstrip("/") != path:
            self.refuse(404, f"there is nothing at {self.path[:80]}; POST to /v1/chat/completions")
        else:
            return True
        return False

    def read_request(self) -> dict[str, Any] | None:
        """The JSON object that was sent; None if the request was refused for it.

        A web page may only send other types than JSON without asking first, which this server doesn't answer.
        """
        length = self.headers.get("Content-Length", "")
        if self.headers.get_content_type() != "application/json":
            self.refuse(415, "send JSON, with the header Content-Type: application/json")
        elif not length.isdecimal() or int(length) > LARGEST_REQUEST:
            self.refuse(413, f"send at most {LARGEST_REQUEST} bytes, with the header Content-Length")
        else:
            try:
                request = json.loads(self.rfile.read(int(length)))
            except (ValueError, RecursionError):
                request = None
            if isinstance(request, dict):
                return request
            self.refuse(400, 'this is no JSON object; send {"messages": […]}')
        return None

    def refuse(self, status: int, why: str) -> None:
        self.send(json.dumps({"error": {"message": why, "type": "invalid_request_error"}}), status=status)

    def send(self, text: str, kind: str = "application/json", status: int = 200) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: Any) -> None:
        """Nothing: a line for each question would hide the address."""
