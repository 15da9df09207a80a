"""An OpenAI-compatible server on this machine that does what a test tells it, and breaks down on request.

    with FakeServer(script=[RATE_LIMITED]) as server:    # what every request meets when it is asked for the first time
        judge(server.url, "judge")(["hello"], ["Hello!"])

What it answers follows from the request alone, so neither order nor concurrency shows in it.
"""

import asyncio
import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import pytest


@dataclass(frozen=True)
class Reply:
    """One response, or what goes wrong in place of one."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    fault: str = ""  # "close": the connection ends; "hang": nothing comes; "drip": a byte now and then comes


def says(text: str | None, finish_reason: str = "stop") -> Reply:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish_reason}
    return Reply(body=json.dumps({"object": "chat.completion", "choices": [choice]}).encode())


RATE_LIMITED = Reply(429, b'{"error": "slow down"}', {"Retry-After": "0"})
BROKEN = Reply(500, b"oops")
BUSY = Reply(503, b"")
GARBAGE = Reply(body=b'{"choices": [{"mess')
NOT_TEXT = Reply(body=b"\xff\xfe\x00")
WRONG_SCHEMA = Reply(body=b'{"choices": []}')
NO_OBJECT = Reply(body=b"[[[1]]]")
CLOSED = Reply(fault="close")
HANGING = Reply(fault="hang")
DRIPPING = Reply(fault="drip")


def grade(body: dict[str, Any]) -> Reply:
    """A verdict that follows from the request: a number from 0 to 10."""
    asked = json.dumps(body["messages"], sort_keys=True).encode()
    return says(f"It does what was asked.\n\nScore: {hashlib.sha256(asked).digest()[0] % 11}")


class FakeServer:
    """Serves while it is entered. The n-th asking of a request gets `script[n]`, then what `answer` makes of it.

    `gate`: so many requests wait for each other before any is answered.
    """

    def __init__(
        self,
        script: Sequence[Reply] = (),
        answer: Callable[[Any], Reply] = grade,
        gate: int = 1,
    ) -> None:
        self.script, self.answer = script, answer
        self.bodies: list[dict[str, Any] | None] = []  # None: of a GET
        self.requests: list[tuple[str, dict[str, str]]] = []  # path and headers
        self._asked: Counter[str] = Counter()
        self._gate = threading.Barrier(gate, timeout=300)
        self._lock, self.over = threading.Lock(), threading.Event()
        self.time_is_up: Callable[[], None] = lambda: None  # called where a request gets no whole reply

    def __enter__(self) -> Self:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def reply(self, path: str, headers: dict[str, str], text: bytes) -> Reply:
        body = json.loads(text or b"null")
        with self._lock:
            self.requests.append((path, headers))
            self.bodies.append(body)
            asked, self._asked[text] = self._asked[text], self._asked[text] + 1
        self._gate.wait()
        return self.script[asked] if asked < len(self.script) else self.answer(body)


def without_a_clock(server: FakeServer, timeout_s: float, patch: pytest.MonkeyPatch) -> None:
    """The client's time limit, of so many seconds, is up as soon as the server hangs: sooner or later, as it comes."""

    def begin(seconds: float) -> asyncio.Timeout:
        assert seconds == timeout_s
        limit, loop = asyncio.timeouts.timeout(None), asyncio.get_running_loop()
        server.time_is_up = lambda: loop.call_soon_threadsafe(lambda: limit.reschedule(loop.time()))
        return limit

    patch.setattr(asyncio, "timeout", begin)


def handler(server: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            time_is_up = server.time_is_up  # this attempt's; the next one has another
            text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            reply = server.reply(self.path, dict(self.headers), text)
            if reply.fault == "hang":
                time_is_up()
                server.over.wait()
            if reply.fault in ("hang", "close"):
                return
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if reply.fault == "drip":
                self.wfile.write(b" ")
                time_is_up()
            while reply.fault == "drip" and not server.over.wait(0.01):
                self.wfile.write(b" ")
            self.wfile.write(reply.body)

        do_GET = do_POST

        def log_message(self, *args: object) -> None:
            pass

        def handle(self) -> None:
            with suppress(OSError):  # the client has had enough
                super().handle()

    return Handler
