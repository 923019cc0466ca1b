"""A small stand-in for GitHub's API on this machine's loopback, for tests of fetching packs.

Knows commits, tags, branches and archives, and the ways GitHub says no. Archives come after a
redirect to another host name, as GitHub's do.
"""

import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Barrier, Thread
from urllib.parse import unquote

COMMIT = "c0ffee" + "0" * 34
OTHER_COMMIT = "decade" + "0" * 34


@dataclass
class Answer:
    """What every call about a repository is answered with."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b'{"message": "no"}'


@dataclass
class Repository:
    """What GitHub holds of one repository.

    Attributes:
        archives: commit -> tar.gz.
        tags, branches: name -> commit; the branch `main` is the default one.
        answer: None, or the answer of every call.
        token: None for a public one.
        cut: byte at which a transfer of an archive breaks off.
        together: makes transfers of an archive wait for one another.
    """

    archives: Mapping[str, bytes]
    tags: dict[str, str] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=lambda: {"main": COMMIT})
    answer: Answer | None = None
    token: str | None = None
    cut: int | None = None
    together: Barrier | None = None

    def commit_of(self, ref: str) -> str | None:
        """The commit of `HEAD`, `tags/…`, `heads/…`."""
        if ref == "HEAD":
            return self.branches.get("main")
        kind, _, name = ref.partition("/")
        return {"tags": self.tags, "heads": self.branches}.get(kind, {}).get(name)


@dataclass(frozen=True)
class Asked:
    """One request: its path and the token that came with it."""

    path: str
    host: str
    authorization: str | None


class GitHubStandIn(ThreadingHTTPServer):
    """The server; `url` is the API's address, `asked` what was asked of it so far."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, Repository] = {}
        self.asked: list[Asked] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def archive_url(self) -> str:
        """The same server under another host name."""
        return f"http://localhost:{self.server_port}"

    def paths(self) -> list[str]:
        """What was asked for, in order."""
        return [one.path for one in self.asked]

    def handle_error(self, request, client_address) -> None:
        """A client that went away is what some tests are about."""


@contextmanager
def github_stand_in() -> Iterator[GitHubStandIn]:
    """A running stand-in."""
    server = GitHubStandIn()
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def archive(files: Mapping[str, bytes | str], top: str = "owner-repo-c0ffee0") -> bytes:
    """A tar.gz as GitHub makes them: a comment for the commit, everything in one folder."""
    members = [file_member(f"{top}/{path}") for path in files]
    return tar_gz(
        [(folder_member(top), b""), *zip(members, map(_bytes, files.values()), strict=True)]
    )


def tar_gz(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """A tar.gz of exactly these members."""
    made = io.BytesIO()
    with tarfile.open(
        fileobj=made, mode="w:gz", format=tarfile.PAX_FORMAT, pax_headers={"comment": COMMIT}
    ) as tar:
        for member, data in members:
            if member.isreg():
                member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return made.getvalue()


def file_member(name: str) -> tarfile.TarInfo:
    """A plain file."""
    return tarfile.TarInfo(name)


def folder_member(name: str) -> tarfile.TarInfo:
    """A folder."""
    member = tarfile.TarInfo(name)
    member.type = tarfile.DIRTYPE
    return member


def _bytes(data: bytes | str) -> bytes:
    return data.encode() if isinstance(data, str) else data


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: GitHubStandIn

    def do_GET(self) -> None:
        path = unquote(self.path.split("?")[0])
        authorization = self.headers.get("Authorization")
        self.server.asked.append(Asked(path, self.headers["Host"], authorization))
        kind, owner, name, *rest = path.strip("/").split("/")
        repository = self.server.repositories.get(f"{owner}/{name}")
        if repository is None:
            self._reply(HTTPStatus.NOT_FOUND, {}, b'{"message": "Not Found"}')
        elif kind == "archive":
            self._send_archive(repository, rest[0])
        elif repository.answer is not None:
            self._reply(repository.answer.status, repository.answer.headers, repository.answer.body)
        elif repository.token is not None and authorization != f"Bearer {repository.token}":
            self._reply(HTTPStatus.NOT_FOUND, {}, b'{"message": "Not Found"}')
        elif not rest:
            self._reply(HTTPStatus.OK, {}, json.dumps({"full_name": f"{owner}/{name}"}).encode())
        elif rest[0] == "tarball":
            there = f"{self.server.archive_url}/archive/{owner}/{name}/{rest[1]}"
            self._reply(HTTPStatus.FOUND, {"Location": there}, b"")
        else:
            self._send_commit(repository, "/".join(rest[1:]))

    def log_message(self, format: str, *args: object) -> None:
        """Tests look at `asked` and nobody at a log."""

    def _send_commit(self, repository: Repository, ref: str) -> None:
        commit = repository.commit_of(ref)
        if commit is None:
            body = json.dumps({"message": f"No commit found for SHA: {ref}"}).encode()
            self._reply(HTTPStatus.UNPROCESSABLE_ENTITY, {}, body)
        else:
            self._reply(HTTPStatus.OK, {}, commit.encode())

    def _send_archive(self, repository: Repository, commit: str) -> None:
        data = repository.archives.get(commit)
        if data is None:
            self._reply(HTTPStatus.NOT_FOUND, {}, b"{}")
            return
        if repository.together is not None:
            repository.together.wait(10)
        self._reply(HTTPStatus.OK, {}, data, repository.cut)

    def _reply(
        self, status: int, headers: Mapping[str, str], body: bytes, cut: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:cut])
        if cut is not None:
            self.wfile.flush()
            self.close_connection = True
