"""A hub on 127.0.0.1 in the real one's URL layout: /api/…/revision, /api/…/tree, /resolve with the headers that
huggingface_hub reads, large files by a redirect to another path with Range requests."""

import hashlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

LARGE = 2000  # bytes from which a file is one of LFS


@dataclass
class Repository:
    files: dict[str, bytes]
    branches: dict[str, str]  # name → commit
    served: dict[str, bytes] = field(default_factory=dict)  # other bytes than the listing says
    size_said: dict[str, int] = field(default_factory=dict)  # another size in the listing
    gated: bool = False

    def commit(self, revision: str) -> str | None:
        return self.branches.get(revision, revision if revision in self.branches.values() else None)


@dataclass
class Hub:
    repositories: dict[str, Repository] = field(default_factory=dict)  # "datasets/openai/gsm8k", "models/…"
    requests: list[str] = field(default_factory=list)  # "GET /cdn/… bytes=1000-"
    breaks: dict[str, int] = field(default_factory=dict)  # file: break its next transfer after so many bytes

    def __enter__(self) -> "Hub":
        hub = self

        class Bound(Handler):
            world = hub

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        self.elsewhere = f"http://localhost:{self.server.server_port}"  # another host, as large files are on
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def connect(self, monkeypatch: Any, cache: Path) -> None:
        """Have huggingface_hub take this for the hub, as HF_ENDPOINT and HF_HUB_CACHE do before it is imported."""
        from huggingface_hub import constants

        template = constants.HUGGINGFACE_CO_URL_TEMPLATE
        monkeypatch.setattr(constants, "ENDPOINT", self.address)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", self.address + template[template.index("/{repo_id}") :]
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)

    def add(self, name: str, files: dict[str, bytes], commit: str = "c0ffee", **more: object) -> Repository:
        """A repository whose branch main is at `commit`, made 40 digits long."""
        self.repositories[name] = Repository(files, {"main": f"{commit:0<40}"}, **more)
        return self.repositories[name]


class Handler(BaseHTTPRequestHandler):
    world: ClassVar[Hub]
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.serve()

    def do_GET(self) -> None:
        self.serve()

    def log_message(self, *_: object) -> None:
        pass

    def serve(self) -> None:
        path = self.path.partition("?")[0]
        self.world.requests.append(f"{self.command} {path} {self.headers.get('Range', '')}".rstrip())
        parts = path.strip("/").split("/")
        if parts[0] == "cdn":
            return self.content("/".join(parts[1:4]), "/".join(parts[4:]))
        if parts[0] == "api":
            return self.api("/".join(parts[1:4]), parts[4], parts[5])
        start = 0 if parts[0] == "datasets" else -1
        name = "/".join(parts[:3]) if start == 0 else "models/" + "/".join(parts[:2])
        return self.resolve(name, parts[start + 4], "/".join(parts[start + 5 :]))

    def repository(self, name: str, revision: str) -> Repository | None:
        """The repository, or the hub's answer when there is none."""
        found = self.world.repositories.get(name)
        if found is None:
            return self.answer(401, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "no such repository"})
        if found.gated:
            return self.answer(403, {"X-Error-Code": "GatedRepo", "X-Error-Message": "ask for it"})
        if found.commit(revision) is None:
            return self.answer(404, {"X-Error-Code": "RevisionNotFound", "X-Error-Message": "no such revision"})
        return found

    def api(self, name: str, what: str, revision: str) -> None:
        found = self.repository(name, revision)
        if found and what == "revision":
            self.json({"id": name.partition("/")[2], "sha": found.commit(revision), "siblings": []})
        elif found:
            self.json([entry(path, content, found.size_said.get(path)) for path, content in found.files.items()])

    def resolve(self, name: str, revision: str, path: str) -> None:
        found = self.repository(name, revision)
        if not found:
            return
        content = found.files[path]
        headers = {"X-Repo-Commit": found.commit(revision), "ETag": f'"{git_blob(content)}"'}
        if len(content) < LARGE:
            return self.content(name, path, headers)
        linked = {"X-Linked-Etag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Linked-Size": str(len(content))}
        self.answer(302, headers | linked | {"Location": f"{self.world.elsewhere}/cdn/{name}/{path}"})

    def content(self, name: str, path: str, headers: dict[str, str] | None = None) -> None:
        found = self.world.repositories[name]
        content = found.served.get(path, found.files[path])
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
        partial = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"} if start else {}
        self.send_response(206 if start else 200)
        for key, value in ((headers or {}) | partial | {"Content-Length": str(len(content) - start)}).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            end = self.world.breaks.pop(path, len(content))
            self.wfile.write(content[start:end])
            if end < len(content):
                self.close_connection = True

    def json(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in (headers | {"Content-Length": "0"}).items():
            self.send_header(key, value)
        self.end_headers()


def git_blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def entry(path: str, content: bytes, size: int | None) -> dict[str, object]:
    """A file in the listing of a tree."""
    said = size or len(content)
    listed = {"type": "file", "path": path, "size": said, "oid": git_blob(content)}
    if len(content) < LARGE:
        return listed
    sha256 = hashlib.sha256(content).hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {said}\n".encode()
    return listed | {"oid": git_blob(pointer), "lfs": {"oid": sha256, "size": said, "pointerSize": len(pointer)}}
