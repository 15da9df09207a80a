"""What a server sends, read within limits: of bytes after unpacking, of layers of compression, and of time.

    content = Content("gzip", most=1_000_000)
    for part in parts: content.take(part)       # Unreadable: a reply of more than 1 MB
    bytes(content)                              # b'{"choices": …'

The judge's, the rollouts' and MLflow's clients read through this. HTTP libraries unpack what they get before its size
is known (64 kB of gzip are 64 MB), in as many layers as the server names, with the charset that it names, and their
time limits begin again with every byte.
"""

import asyncio
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from r1flow.core.limits import time_limit

if TYPE_CHECKING:
    from httpx import AsyncClient, Response

PACKING = "gzip"  # what is asked for, as Accept-Encoding
# Bytes; 32k tokens with their ids and text are under 1 MB. As Python objects 25 times more.
LARGEST_REPLY = 16_000_000
LARGEST_VERDICT = 1_000_000
PART = 1 << 16  # bytes
LONGEST_NAME = 200  # characters
# Times the time limit that requests has between two bytes: 300 s for a whole exchange with MLflow.
PATIENCE = 10


class Unreadable(Exception):
    """A reply that isn't read; `again`: perhaps another attempt gets a better one."""

    def __init__(self, why: str, again: bool = False) -> None:
        super().__init__(why)
        self.again = again


class Content:
    """A reply's bytes, unpacked part by part; raises Unreadable beyond `most` bytes and for other packings."""

    def __init__(self, packing: str | None, most: int) -> None:
        packing = (packing or "identity").strip().lower()
        # Also "gzip, gzip": each layer multiplies by a thousand.
        if packing not in ("identity", PACKING):
            raise Unreadable(f"a reply compressed as {packing!r}, though only {PACKING} was asked for")
        self.most, self.content = most, bytearray()
        self.unpacker = zlib.decompressobj(wbits=31) if packing == PACKING else None

    def take(self, part: bytes) -> None:
        try:
            self.content += self.unpacker.decompress(part, self.most + 1 - len(self.content)) if self.unpacker else part
        except zlib.error as error:
            raise Unreadable(f"a reply that can't be unpacked ({error})", again=True) from error
        if len(self.content) > self.most:
            raise Unreadable(f"a reply of more than {self.most / 10**6:g} MB")

    def __bytes__(self) -> bytes:
        return bytes(self.content)


def same_folder(named: Any, folder: Path) -> bool:
    """Whether a server's name of a folder is this folder's; what can be no path (a NUL in it) is none."""
    try:
        return Path(named).resolve() == Path(folder).resolve()
    except (ValueError, TypeError, OSError):
        return False


def named_in_words(named: Any) -> str:
    """What a server names, for a message: on one line, and not without end."""
    return " ".join(str(named).split())[:LONGEST_NAME]


def client(url: str, timeout_s: float, connections: int = 1, headers: dict[str, str] | None = None) -> "AsyncClient":
    """A client for one server; a server on this machine isn't asked through a proxy."""
    from httpx import AsyncClient, Limits

    local = urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
    headers, limits = {"Accept-Encoding": PACKING, **(headers or {})}, Limits(max_connections=connections)
    return AsyncClient(headers=headers, timeout=timeout_s, limits=limits, trust_env=not local)


async def exchange(
    client: "AsyncClient", method: str, url: str, timeout_s: float, most: int = LARGEST_REPLY, **options: Any
) -> "Response":
    """One request and its whole reply, as UTF-8 whatever its charset is said to be.

    Raises Unreadable, httpx's errors, and TimeoutError `timeout_s` seconds after the request began.
    """
    from httpx import Response

    async with asyncio.timeout(timeout_s), client.stream(method, url, **options) as streamed:
        content = Content(streamed.headers.get("Content-Encoding"), most)
        async for part in streamed.aiter_raw():
            content.take(part)
    headers = {name: streamed.headers[name] for name in ("Retry-After",) if name in streamed.headers}
    return Response(streamed.status_code, headers=headers, content=bytes(content))


# -- requests, with which MLflow's own client asks, and TRL's --------------------------------------------------------

# Of a request's body: the bytes that its reply may have, and its seconds; None: by the client's own time limit.
ReplyLimits = Callable[[bytes | str | None], tuple[int, float | None]]


def bound_requests(limits: ReplyLimits = lambda body: (LARGEST_REPLY, None)) -> None:
    """From now on, whatever this process asks for through requests is read within these limits."""
    from requests.adapters import HTTPAdapter
    from requests.exceptions import ConnectionError, ContentDecodingError, Timeout
    from urllib3.exceptions import HTTPError
    from urllib3.exceptions import TimeoutError as ReadingTimeout

    send = getattr(HTTPAdapter.send, "unbounded", HTTPAdapter.send)

    def send_bounded(self: HTTPAdapter, request: Any, stream: bool = False, timeout: Any = None, **options: Any) -> Any:
        waits = [each for each in (timeout if isinstance(timeout, tuple) else (timeout,)) if each] or [30.0]
        most, seconds = limits(request.body)
        seconds = seconds or PATIENCE * max(waits)
        request.headers["Accept-Encoding"] = PACKING
        try:
            with time_limit(clock_s=seconds):
                response = send(self, request, stream=True, timeout=timeout, **options)
                response._content, response._content_consumed = read_raw(response, most, seconds), True
        except (TimeoutError, ReadingTimeout) as error:
            raise Timeout(f"no whole reply within {seconds:g} s", request=request) from error
        except Unreadable as error:
            raise ContentDecodingError(str(error), request=request) from error
        except HTTPError as error:  # the connection ended within the reply
            raise ConnectionError(error, request=request) from error
        response.encoding = "utf-8"
        return response

    send_bounded.unbounded = send
    HTTPAdapter.send = send_bounded


def read_raw(response: Any, most: int, seconds: float) -> bytes:
    """The content of a response of requests."""
    until, content = time.monotonic() + seconds, Content(response.headers.get("Content-Encoding"), most)
    for part in response.raw.stream(PART, decode_content=False):
        content.take(part)
        if time.monotonic() > until:
            raise TimeoutError
    return bytes(content)
