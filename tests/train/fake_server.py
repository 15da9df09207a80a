"""A server on 127.0.0.1 that answers as a function says, for tests of what asks servers; no network, no clock.

    with FakeServer(lambda path, body, number: (200, {"echo": body})) as server:
        httpx.post(f"{server.url}/completions", json={})      # {"echo": {}}; server.seen[0].body == {}

The function gets the path after /v1, the request's JSON and how many requests came before it, and returns a status and
what to send: a dict as JSON, bytes as they are, or None to cut the connection. A third element adds headers.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Seen:
    path: str
    body: Any
    headers: dict[str, str]


class FakeServer:
    def __init__(self, answer: Callable[[str, Any, int], tuple]) -> None:
        self.answer, self.seen, self.lock = answer, [], threading.Lock()
        self.busy = self.most_at_once = 0

    def __enter__(self) -> "FakeServer":
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                fake.serve(self)

            do_POST = do_GET

            def log_message(self, *arguments: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        return self

    def __exit__(self, *error: Any) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        content = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        seen = Seen(handler.path.removeprefix("/v1"), json.loads(content) if content else None, dict(handler.headers))
        with self.lock:
            number = len(self.seen)
            self.seen.append(seen)
            self.busy += 1
            self.most_at_once = max(self.most_at_once, self.busy)
        status, reply, *more = self.answer(seen.path, seen.body, number)
        with self.lock:
            self.busy -= 1
        if reply is None:
            handler.close_connection = True
            return
        data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(more[0] if more else {})}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)
