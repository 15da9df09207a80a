"""Requests to an OpenAI-compatible server (vLLM's, a hosted API): limited in number, retried, and cached on disk.

    endpoint = Endpoint("http://127.0.0.1:8000/v1", cache=Path("scratch/judge"))
    endpoint.ask([{"model": "judge", "messages": […], "temperature": 0, "seed": 0}], read=len)    # [212]

After a rate limit, a server's error, a lost connection, a time-out or an unusable reply the request is retried, after
the server's Retry-After or else after a pause that doubles. The cache has one JSON file for each request, named by the
sha256 of the request's content; the API key is neither in the cache nor in any message. Left out: streaming, batches,
other APIs.
"""

import asyncio
import hashlib
import json
import logging
import math
import os
import re
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from r1flow.core import servers
from r1flow.core.errors import UserError, printable
from r1flow.core.files import write_whole

if TYPE_CHECKING:
    from httpx import AsyncClient, Response
    from tenacity import RetryCallState

Body = dict[str, Any]  # the JSON of a request
T = TypeVar("T")

# An address without a password: configurations are written to results and to MLflow, so addresses are visible.
PLAIN_URL = re.compile(r"https?://[^\s/@?#]+(/[^\s@?#]*)?")
VARIABLE = re.compile(r"[A-Za-z_]\w{0,63}", re.ASCII)
HEXADECIMAL = re.compile(r"[0-9a-f]{20,}", re.IGNORECASE)
LOG = logging.getLogger(__name__)
MISCONFIGURED = (301, 302, 307, 308, 401, 403, 404, 405)  # the same for every request: the user must fix it
TRANSIENT = (408, 409, 425, 429)  # and everything from 500 on
# No retry if a server asks for a longer pause: training can't wait for tomorrow's quota.
LONGEST_PAUSE_S = 60.0
SHOWN_CHARACTERS = 200  # of a server's own message


class Unanswered(Exception):
    """A request got no usable reply; tells whether to try again, and after how many seconds."""

    def __init__(self, why: str, again: bool = True, after_s: float | None = None) -> None:
        too_long = (after_s or 0.0) > LONGEST_PAUSE_S
        super().__init__(f"{why}; it asks to wait {after_s:.0f} s, more than we wait" if too_long else why)
        self.again = again and not too_long
        self.after_s = after_s


@dataclass(frozen=True)
class Endpoint:
    """A server with its time limits and retries; the API key stays in the environment variable `key_env`."""

    url: str  # up to and including /v1, as OpenAI's clients take it
    key_env: str | None = None
    timeout_s: float = 60.0  # for one attempt, from connecting to the last byte
    concurrency: int = 16  # requests at a time, including those that wait for another attempt
    attempts: int = 5
    backoff_s: float = 1.0  # the first pause; 0 never pauses
    cache: Path | None = None
    most_bytes: int = servers.LARGEST_REPLY  # of one reply

    def __post_init__(self) -> None:
        parts = split_address(self.url) if isinstance(self.url, str) else None
        # It may contain a password.
        shown = "" if re.search("[@?]", str(self.url)) else f" {self.url!r}"
        rules = {
            f"url{shown} is no address like http://127.0.0.1:8000/v1": parts,
            "url has a password or key in it; name the environment variable that holds the key instead": parts
            and parts.username is None
            and not parts.query,
            "api_key_env must be the name of an environment variable; set one to the key": not self.key_env
            or is_variable(self.key_env),
            f"timeout_s {self.timeout_s!r} must be seconds, above 0": is_json_number(self.timeout_s)
            and self.timeout_s > 0,
            f"concurrency {self.concurrency!r} must be 1 or more": is_count(self.concurrency),
            f"attempts {self.attempts!r} must be 1 or more": is_count(self.attempts),
            f"backoff_s {self.backoff_s!r} must be seconds, not below 0": is_json_number(self.backoff_s)
            and self.backoff_s >= 0,
        }
        for message, holds in rules.items():
            if not holds:
                raise UserError(f"endpoint: {message}")
        self.headers()
        if self.cache:
            make_folder(self.cache)

    def ask(self, bodies: list[Body], read: Callable[[str], T | None]) -> list[T | None]:
        """`read(reply)` for each request; None where no reply was usable (which is logged).

        Equal requests are sent once. Raises UserError when the server would refuse every request: key, url or model.
        """
        names = [digest(body) for body in bodies]
        requests = dict(zip(names, bodies, strict=True))
        answers = {name: self.recall(name, body, read) for name, body in requests.items()}
        missing = {name: body for name, body in requests.items() if answers[name] is None}
        if missing:
            answers |= complete(self.ask_all(missing, read))
        return [answers[name] for name in names]

    async def ask_all(self, requests: dict[str, Body], read: Callable[[str], T | None]) -> dict[str, T | None]:
        waiting = asyncio.Semaphore(self.concurrency)
        async with self.client() as client:

            async def one(name: str, body: Body) -> T | Unanswered:
                async with waiting:
                    try:
                        return await self.patiently(self.ask_once, client, name, body, read)
                    except Unanswered as failure:
                        return failure

            answers = await asyncio.gather(*(one(name, body) for name, body in requests.items()))
        failures = [answer for answer in answers if isinstance(answer, Unanswered)]
        if failures:
            first = printable(str(failures[0]))
            LOG.warning("%s: %d of %d requests failed; the first: %s", self.url, len(failures), len(answers), first)
        return {
            name: None if isinstance(answer, Unanswered) else answer
            for name, answer in zip(requests, answers, strict=True)
        }

    def client(self) -> "AsyncClient":
        return servers.client(self.url, self.timeout_s, self.concurrency, self.headers())

    async def patiently(self, ask: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """The result of `ask`, with retries; raises the last attempt's Unanswered."""
        from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt

        retrying = AsyncRetrying(
            stop=stop_after_attempt(self.attempts),
            wait=self.pause,
            retry=retry_if_exception(lambda error: isinstance(error, Unanswered) and error.again),
            reraise=True,
        )
        return await retrying(ask, *arguments)

    def pause(self, state: "RetryCallState") -> float:
        """Seconds before the next attempt: as the server asks, else twice the last pause."""
        from tenacity import wait_exponential

        failure = state.outcome.exception()
        if failure.after_s is not None:
            return failure.after_s
        return wait_exponential(multiplier=self.backoff_s, max=LONGEST_PAUSE_S)(state)

    async def ask_once(self, client: "AsyncClient", name: str, body: Body, read: Callable[[str], T | None]) -> T:
        response = await self.request(client, "POST", "/chat/completions", body)
        text = reply_of(response, self.words_of(response))
        value = read(text)
        if value is None:
            raise Unanswered(f"the reply can't be read; it ends in {text[-SHOWN_CHARACTERS:]!r}")
        self.remember(name, body, text)
        return value

    async def request(self, client: "AsyncClient", method: str, path: str, body: Body | None = None) -> "Response":
        """One attempt; raises Unanswered, or UserError where every request would be refused."""
        from httpx import HTTPError

        address = self.url.rstrip("/") + path
        try:
            response = await servers.exchange(client, method, address, self.timeout_s, self.most_bytes, json=body)
        except servers.Unreadable as error:
            raise Unanswered(str(error), error.again) from error
        except (HTTPError, TimeoutError) as error:
            raise Unanswered(f"{type(error).__name__}: {error}") from error
        self.check(response, path)
        return response

    def check(self, response: "Response", path: str) -> None:
        """Raise for a response that is no answer."""
        status = response.status_code
        if status in MISCONFIGURED:
            key = f"the key in {self.key_env}" if self.key_env else "api_key_env (no key was sent)"
            raise UserError(
                f"endpoint: {self.url} answers {status} {response.reason_phrase} at {path}; check url, model and {key}"
            )
        if status != 200:
            again = status in TRANSIENT or status >= 500
            raise Unanswered(f"HTTP {status}: {self.words_of(response)}", again, after_s(response))

    def words_of(self, response: "Response") -> str:
        """How a server's message begins, on one line and without the key."""
        words = " ".join(response.text[: 10 * SHOWN_CHARACTERS].split())
        if key := self.key():
            words = words.replace(key, "…")
        return words[:SHOWN_CHARACTERS]

    # -- the key and the cache ---------------------------------------------------------------------------------

    def key(self) -> str | None:
        """The API key, read each time it is needed, so that no object holds it."""
        return os.environ.get(self.key_env, "").strip() if self.key_env else None

    def headers(self) -> dict[str, str]:
        key = self.key()
        if key is None:
            return {}
        if not (key and key.isascii() and key.isprintable()):
            raise UserError(
                f"endpoint: the environment variable {self.key_env} holds no API key; set it, or change api_key_env"
            )
        return {"Authorization": f"Bearer {key}"}

    def path(self, name: str) -> Path:
        return self.cache / name[:2] / f"{name}.json"

    def recall(self, name: str, body: Body, read: Callable[[str], T | None]) -> T | None:
        """`read` of the cached reply; None if there is none, or its file is damaged."""
        if not self.cache:
            return None
        try:
            entry = json.loads(self.path(name).read_bytes())
            return read(entry["reply"]) if entry["request"] == body else None
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return None

    def remember(self, name: str, body: Body, text: str) -> None:
        """Cache a reply atomically, since several processes may share a cache; raises UserError if that fails."""
        if not self.cache:
            return
        path = self.path(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps({"request": body, "reply": text}, sort_keys=True))
        except OSError as error:
            raise UserError(
                f"endpoint: cache_dir {self.cache} can't be written ({error.strerror}); make room, or name another one"
            ) from error


def split_address(url: str) -> SplitResult | None:
    """The parts of a web server's address; None if it isn't one."""
    try:
        parts = urlsplit(url)
        # Reading the port may raise.
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return None
    return parts if known else None


def is_json_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def is_variable(value: Any) -> bool:
    """Whether this can be the name of an environment variable, and not the key that should be in one."""
    return isinstance(value, str) and bool(VARIABLE.fullmatch(value)) and not HEXADECIMAL.search(value)


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def complete(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; in a thread of its own if an event loop is running already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def digest(body: Body) -> str:
    """The hash of a request's content; url and key are no part of it."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def reply_of(response: "Response", words: str) -> str:
    """The text of the first choice, if it wasn't cut off: "Score: 10" could become "Score: 1".

    `words` are shown where it is no chat completion: a page of a website, an error that was sent with the status 200.
    """
    try:
        choice = response.json()["choices"][0]
        text, reason = choice["message"]["content"], choice.get("finish_reason")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise Unanswered(f"no chat completion came back ({type(error).__name__}), but: {words}") from error
    if not isinstance(text, str) or reason not in (None, "stop"):
        raise Unanswered(f"the reply isn't complete (finish_reason {reason!r}; perhaps max_tokens is too small)")
    return text


def after_s(response: "Response") -> float | None:
    """The seconds of a Retry-After, which may be a date; None if there is none, or it can't be read."""
    text = response.headers.get("Retry-After", "").strip()
    if text.isdecimal():
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):  # it isn't a date, has no time zone, or is in no year
        return None


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"endpoint: cache_dir {folder} can't be made ({error.strerror}); name another folder"
        ) from error
