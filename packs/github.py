"""GitHub's API, as far as sources need it: which commit a name means, and a commit's files.

Every way it can fail is one line with a remedy. Knows no cache and no archives.
"""

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import IO, Any, Final, Literal
from urllib.parse import quote, urlsplit

from spinf_serve.packs.errors import Unusable

RefKind = Literal["commit", "tag", "branch"]

_SHA: Final = "application/vnd.github.sha"
_JSON: Final = "application/vnd.github+json"
_ANSWER_BYTES: Final = 1024 * 1024
_HEX: Final = frozenset("0123456789abcdef")
_NOT_FOUND: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY)


class Unreachable(Unusable):
    """GitHub cannot say now: no network, too many calls, an error of its own."""


@dataclass(frozen=True, slots=True)
class GitHub:
    """How its API is reached.

    Attributes:
        api: base address.
        token: of someone who may read the repositories; None reads public ones.
        seconds: how long an answer, or the next bytes of one, may take.
    """

    api: str
    token: str | None = field(repr=False)
    seconds: float

    def resolve(self, repository: str, ref: str | None) -> tuple[str, RefKind]:
        """The commit, 40 hex digits, that a tag or branch is now; None is the default branch.

        A tag wins over a branch of the same name. Raises `Unusable`, of which `Unreachable` may
        be over later.
        """
        if ref is None:
            commit = self._commit(repository, "HEAD")
            if commit is None:
                raise self._no_repository(repository)
            return commit, "branch"
        kinds: tuple[tuple[RefKind, str], ...] = (("tag", "tags"), ("branch", "heads"))
        for kind, prefix in kinds:
            commit = self._commit(repository, f"{prefix}/{ref}")
            if commit is not None:
                return commit, kind
        # Both a missing repository and a missing name answer 404.
        with self._open(f"/repos/{repository}", _JSON, repository) as answer:
            if answer is None:
                raise self._no_repository(repository)
        raise Unusable(
            f"github:{repository} has no tag or branch {ref}: check the name after the @"
        )

    @contextmanager
    def tarball(self, repository: str, commit: str) -> Iterator["Body"]:
        """The stream of a commit's files as tar.gz. Raises `Unusable`, also while it is read."""
        path = f"/repos/{repository}/tarball/{commit}"
        with self._open(path, _JSON, repository) as answer:
            if answer is None:
                raise Unusable(
                    f"github:{repository} has no commit {commit}, or is private: check both, and "
                    f"set GITHUB_TOKEN for a private repository"
                )
            yield answer

    def _commit(self, repository: str, ref: str) -> str | None:
        path = f"/repos/{repository}/commits/{quote(ref, safe='/')}"
        with self._open(path, _SHA, repository) as answer:
            if answer is None:
                return None
            text = answer.read(_ANSWER_BYTES).decode("latin-1").strip()
        if len(text) != 40 or not set(text) <= _HEX:
            raise Unusable(
                f"{self.api} did not answer with a commit for github:{repository}: a proxy may have "
                f"answered in its place; check the network's settings"
            )
        return text

    @contextmanager
    def _open(self, path: str, accept: str, repository: str) -> Iterator["Body | None"]:
        """An answer's body; None when there is no such thing."""
        headers = {
            "Accept": accept,
            "User-Agent": "spinf-serve",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(f"{self.api}{path}", headers=headers)
        opener = urllib.request.build_opener(_Redirects(self.api))
        try:
            answer = opener.open(request, timeout=self.seconds)
        except urllib.error.HTTPError as error:
            with error:
                if error.code not in _NOT_FOUND:
                    raise self._refused(repository, error) from error
            answer = None
        except urllib.error.URLError as error:
            raise self._unreachable(repository, error.reason) from error
        except (http.client.HTTPException, OSError) as error:
            raise self._unreachable(repository, error) from error
        if answer is None:
            yield None
            return
        with answer:
            yield Body(answer, lambda error: self._unreachable(repository, error))

    def _refused(self, repository: str, error: urllib.error.HTTPError) -> Unusable:
        name, status = f"github:{repository}", error.code
        until = _limited_until(error)
        if until is not None:
            more = "" if self.token else ", or set GITHUB_TOKEN, which allows many more"
            return Unreachable(
                f"{name}: GitHub takes no more calls from here ({status}) {until}: wait{more}"
            )
        if status == HTTPStatus.UNAUTHORIZED:
            return Unusable(
                f"{name}: GitHub refuses the token ({status}): renew GITHUB_TOKEN, or unset it for a "
                f"public repository"
            )
        if status == HTTPStatus.FORBIDDEN:
            return Unusable(
                f"{name}: GitHub forbids reading it ({status}{_said(error)}): give GITHUB_TOKEN the "
                f"right to read the repository's contents"
            )
        if status == HTTPStatus.CONFLICT:
            return Unusable(f"{name} is empty ({status}): push a commit with packs to it")
        if 300 <= status < 400:
            return Unusable(
                f"{name}: GitHub's redirect ({status}) is not followed, it leads too far or to an "
                f"address that is not https: check the repository's name"
            )
        if status >= 500:
            return Unreachable(f"{name}: GitHub answered {status}: try again later")
        return Unusable(f"{name}: GitHub answered {status}{_said(error)}: check the source's name")

    def _no_repository(self, repository: str) -> Unusable:
        return Unusable(
            f"github:{repository} does not exist or is private (404): check the name, and set "
            f"GITHUB_TOKEN for a private repository"
        )

    def _unreachable(self, repository: str, reason: object) -> Unreachable:
        text = str(reason) or type(reason).__name__
        return Unreachable(
            f"github:{repository}: cannot read from {self.api} ({text}): check the network, or start "
            f"offline with what is in the cache"
        )


class Body:
    """An answer's bytes as they arrive. A network that fails meanwhile is `Unreachable`."""

    def __init__(
        self, answer: http.client.HTTPResponse, failed: Callable[[Exception], Unreachable]
    ) -> None:
        self._answer = answer
        self._failed = failed

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; none at the end."""
        try:
            return self._answer.read(size)
        except (http.client.HTTPException, OSError) as error:
            raise self._failed(error) from error


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a few redirects, never from https to http, and keeps the token from other hosts."""

    max_redirections = 5

    def __init__(self, api: str) -> None:
        self._api = urlsplit(api)

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        target = urlsplit(newurl)
        if target.scheme not in ("https", self._api.scheme):
            return None
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None and (target.scheme, target.netloc) != self._api[:2]:
            request.remove_header("Authorization")
        return request


def _limited_until(error: urllib.error.HTTPError) -> str | None:
    """When GitHub takes calls again, if it counts them; None when that is not the reason."""
    headers = error.headers
    wait = headers.get("Retry-After", "")
    if error.code == HTTPStatus.TOO_MANY_REQUESTS or wait:
        return f"for {wait} s" if wait.isdigit() else "for a while"
    if error.code != HTTPStatus.FORBIDDEN or headers.get("X-RateLimit-Remaining") != "0":
        return None
    reset = headers.get("X-RateLimit-Reset", "")
    if not (reset.isascii() and reset.isdigit() and len(reset) < 12):
        return "for up to an hour"
    return f"until {time.strftime('%H:%M:%S', time.gmtime(int(reset)))} UTC"


def _said(error: urllib.error.HTTPError) -> str:
    """GitHub's own words, in one short line."""
    try:
        body: Any = json.loads(error.read(_ANSWER_BYTES))
    except (ValueError, OSError, http.client.HTTPException):
        return ""
    message = body.get("message") if isinstance(body, dict) else None
    return f", {' '.join(message.split())[:200]!r}" if isinstance(message, str) else ""
