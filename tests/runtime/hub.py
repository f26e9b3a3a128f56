"""A stand-in for the Hugging Face hub: what `from_pretrained` asks of it, over real HTTP.

Serves folders as repositories of one commit each. What it answers where it refuses (status and
headers) is what huggingface.co answers; HF_ENDPOINT leads the libraries here.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_of_one_who_may"
FILE = re.compile(r"/([\w.-]+/[\w.-]+)/resolve/([^/]+)/(.+)")
INFO = re.compile(r"/api/models/([\w.-]+/[\w.-]+)(?:/revision/([^/]+))?")
TREE = re.compile(r"/api/models/([\w.-]+/[\w.-]+)/tree/([^/?]+)")


HELD_S = 20.0


@dataclass
class Hub:
    """`repositories`: name to folder. `gated`: those for TOKEN alone. `asked`: the files that were
    downloaded, in order. `huge`: files said to be that many bytes. `held`: files that stop halfway
    until `go_on` is set. `status`: in place of any answer.
    """

    repositories: dict[str, Path] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    huge: dict[str, int] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    go_on: Event = field(default_factory=Event)
    status: int = 0
    url: str = ""


@contextmanager
def serving() -> Iterator[Hub]:
    """A hub on a free port."""
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        hub.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield hub
        finally:
            hub.go_on.set()
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the tests look at what the worker says."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        if self.hub.status:
            self._refuse(self.hub.status, "", "Not now")
            return
        path = self.path.partition("?")[0]
        for pattern, answer in ((FILE, self._file), (TREE, self._tree), (INFO, self._info)):
            if found := pattern.fullmatch(path):
                name, revision, *rest = found.groups()
                if self._may_see(name, revision or "main"):
                    answer(self.hub.repositories[name], *rest)
                return
        self._refuse(404, "", f"There is no {path}.")

    def _may_see(self, name: str, revision: str) -> bool:
        sent = self.headers.get("Authorization", "")
        if name not in self.hub.repositories:
            self._refuse(401, "RepoNotFound", "Repository not found")
        elif revision not in ("main", COMMIT):
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        elif name in self.hub.gated and sent != f"Bearer {TOKEN}" and "/api/" not in self.path:
            status = 403 if sent else 401
            self._refuse(status, "GatedRepo", f"Access to model {name} is restricted.")
        else:
            return True
        return False

    def _file(self, folder: Path, name: str) -> None:
        path = folder / name
        if not path.is_file():
            self._refuse(404, "EntryNotFound", "Entry not found")
            return
        content = path.read_bytes()
        if self.command == "GET":
            self.hub.asked.append(name)
        etag = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"'}
        self._send(200, content, etag, name)

    def _tree(self, folder: Path) -> None:
        self._send_json(
            [
                {"type": "file", "path": name, "oid": "0" * 40, "size": self._size(folder, name)}
                for name in _names(folder)
            ]
        )

    def _info(self, folder: Path) -> None:
        siblings = [{"rfilename": name} for name in _names(folder)]
        self._send_json({"id": folder.name, "sha": COMMIT, "siblings": siblings, "private": False})

    def _size(self, folder: Path, name: str) -> int:
        return self.hub.huge.get(name, (folder / name).stat().st_size)

    def _send_json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _refuse(self, status: int, code: str, message: str) -> None:
        self._send(status, message.encode(), {"X-Error-Code": code, "X-Error-Message": message})

    def _send(self, status: int, content: bytes, headers: dict[str, str], file: str = "") -> None:
        self.send_response(status)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(self.hub.huge.get(file, len(content))))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            half = len(content) // 2
            self.wfile.write(content[:half])
            if file in self.hub.held:
                self.hub.go_on.wait(HELD_S)
            self.wfile.write(content[half:])


def _names(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if path.is_file()]
