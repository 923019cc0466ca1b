"""A small stand-in for the model hub on this machine's loopback, for tests of fetching.

Serves files of repositories with commits, branches and byte ranges, and the ways a hub says no.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote


@dataclass
class Repository:
    """What the hub holds of one repository.

    Attributes:
        files: name -> bytes.
        commit: 40 hex digits, the only one there is.
        branches: names of the commit.
        answers: None, or the status and error code of every answer about it.
        cut: name of a file -> its byte at which every transfer of it breaks off.
        mends: name of a file -> transfers after which it is no longer cut.
    """

    files: Mapping[str, bytes]
    commit: str = "c0ffee" + "0" * 34
    branches: tuple[str, ...] = ("main",)
    answers: tuple[int, str] | None = None
    cut: dict[str, int] = field(default_factory=dict)
    mends: dict[str, int] = field(default_factory=dict)

    def mend(self, file: str) -> None:
        """Counts a transfer of a file."""
        if file in self.mends:
            self.mends[file] -= 1
            if self.mends[file] == 0:
                del self.cut[file], self.mends[file]


@dataclass(frozen=True)
class Asked:
    """One request that the hub got. `range` is its Range header."""

    method: str
    path: str
    range: str | None


class HubStandIn(ThreadingHTTPServer):
    """The server; `url` is what HF_ENDPOINT should hold, `asked` what was asked of it so far."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, Repository] = {}
        self.asked: list[Asked] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def fetched(self) -> list[str]:
        """Names of the files whose bytes were asked for, in order."""
        return [
            one.path.rsplit("/", 1)[1]
            for one in self.asked
            if one.method == "GET" and "/resolve/" in one.path
        ]

    def ranges(self, file: str) -> list[str | None]:
        """The Range headers of what was asked of a file's bytes, in order."""
        return [
            one.range for one in self.asked if one.method == "GET" and one.path.endswith(f"/{file}")
        ]

    def handle_error(self, request, client_address) -> None:
        """A client that went away is what some tests are about."""


@contextmanager
def hub_stand_in() -> Iterator[HubStandIn]:
    """A running stand-in."""
    server = HubStandIn()
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HubStandIn

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        """Tests look at `asked` and nobody at a log."""

    def _answer(self) -> None:
        path = unquote(self.path.split("?")[0])
        self.server.asked.append(Asked(self.command, path, self.headers.get("Range")))
        parts = path.strip("/").split("/")
        about = parts[:2] == ["api", "models"]
        name = "/".join(parts[2:4] if about else parts[:2])
        repository = self.server.repositories.get(name)
        if repository is None:
            self._refuse(HTTPStatus.NOT_FOUND, "RepoNotFound")
        elif repository.answers is not None:
            self._refuse(*repository.answers)
        elif about:
            self._describe(name, repository, parts[4:])
        else:
            self._send(repository, parts[2:])

    def _describe(self, name: str, repository: Repository, rest: list[str]) -> None:
        revision = "/".join(rest[1:]) if rest else "main"
        if not self._knows(repository, revision):
            return
        siblings = [{"rfilename": file} for file in repository.files]
        body = {"id": name, "sha": repository.commit, "siblings": siblings, "private": False}
        self._reply(HTTPStatus.OK, {"Content-Type": "application/json"}, json.dumps(body).encode())

    def _send(self, repository: Repository, rest: list[str]) -> None:
        """`resolve/<revision>/<file>`; files here have no folders in their names."""
        revision, file = "/".join(rest[1:-1]), rest[-1]
        if not self._knows(repository, revision):
            return
        if file not in repository.files:
            self._refuse(HTTPStatus.NOT_FOUND, "EntryNotFound", repository.commit)
            return
        data = repository.files[file]
        headers = {
            "X-Repo-Commit": repository.commit,
            "ETag": f'"{hashlib.sha256(data).hexdigest()}"',
            "Accept-Ranges": "bytes",
        }
        status, start = HTTPStatus.OK, 0
        asked = self.headers.get("Range")
        if asked is not None:
            start = int(asked.removeprefix("bytes=").split("-")[0])
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
            status = HTTPStatus.PARTIAL_CONTENT
        cut = repository.cut.get(file)
        if self.command == "GET":
            repository.mend(file)
        self._reply(status, headers, data[start:], None if cut is None else max(0, cut - start))

    def _knows(self, repository: Repository, revision: str) -> bool:
        known = revision in (repository.commit, *repository.branches)
        if not known:
            self._refuse(HTTPStatus.NOT_FOUND, "RevisionNotFound")
        return known

    def _refuse(self, status: int, code: str, commit: str | None = None) -> None:
        headers = {"X-Error-Code": code} if code else {}
        if commit is not None:
            headers["X-Repo-Commit"] = commit
        self._reply(status, headers, b'{"error": "no"}')

    def _reply(
        self, status: int, headers: Mapping[str, str], body: bytes, cut: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(body[:cut])
        if cut is not None and cut < len(body):
            self.close_connection = True
