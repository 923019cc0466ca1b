"""Named keys of callers, from a file that may change while the server runs and from the settings.

A line is `NAME: KEY` or `NAME trusted: KEY`; KEY is the key itself, or `sha256:` and the 64 hex
digits of its digest. Only digests are kept. Knows no headers and no routes.
"""

import hashlib
import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from spinf_serve.packs.errors import Unusable

logger = logging.getLogger(__name__)

RESERVED_NAMES = frozenset({"anonymous", "token", "trusted_token"})
"""Names of callers that the settings `token` and `trusted_token` and the lack of a key stand for."""

MIN_KEY_CHARS = 16
"""Least length of a key: a digest of a short one can be found by trial."""

_LINE = re.compile(r"(?P<name>[^\s:]+)(?:[ \t]+(?P<right>[^\s:]+))?[ \t]*:[ \t]*(?P<key>.*)")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_DIGEST = re.compile(r"sha256:[0-9a-fA-F]{64}")
_REMEDY = "a line is `NAME: KEY` or `NAME trusted: KEY`"


@dataclass(frozen=True, slots=True)
class Key:
    """A key that callers may carry.

    Attributes:
        name: of its holders, in logs and metrics.
        digest: [32] bytes, SHA-256 of the key's text in UTF-8.
        trusted: whether its holders are trusted callers.
    """

    name: str
    digest: bytes = field(repr=False)
    trusted: bool = False


def digest_of(key: str) -> bytes:
    """What a key is kept and compared as."""
    return hashlib.sha256(key.encode()).digest()


def read_keys(lines: Iterable[str], source: str) -> tuple[Key, ...]:
    """The keys of some lines; empty lines and those that begin with # are skipped.

    Raises:
        Unusable: a line says something else, or a name or key occurs twice. The message names
            source and line and never a key.
    """
    keys: dict[str, Key] = {}
    digests: dict[bytes, str] = {}
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            key = _key(text)
            if key.name in keys:
                raise Unusable(f"the name {key.name} occurs twice")
            if key.digest in digests:
                raise Unusable(f"{key.name} and {digests[key.digest]} have the same key")
        except Unusable as fault:
            raise Unusable(f"{source} {number}: {fault}") from None
        keys[key.name] = key
        digests[key.digest] = key.name
    return tuple(keys.values())


def _key(text: str) -> Key:
    match = _LINE.fullmatch(text)
    if match is None:
        raise Unusable(_REMEDY)
    name, right, key = match["name"], match["right"], match["key"]
    if not _NAME.fullmatch(name):
        raise Unusable("a name is 1 to 64 letters, digits, dots, dashes and underscores of ASCII")
    if name in RESERVED_NAMES:
        raise Unusable(f"the name {name} is taken: it stands for callers without a named key")
    if right not in (None, "trusted"):
        raise Unusable(f"{_REMEDY}, and {name} has another word behind its name")
    if key.startswith("sha256:"):
        if not _DIGEST.fullmatch(key):
            raise Unusable(f"the digest of {name} is not `sha256:` and 64 hexadecimal digits")
        digest = bytes.fromhex(key.removeprefix("sha256:"))
    elif not (key.isascii() and key.isprintable() and " " not in key):
        raise Unusable(f"the key of {name} is not letters, digits and signs of ASCII")
    elif len(key) < MIN_KEY_CHARS:
        raise Unusable(
            f"the key of {name} has {len(key)} characters and {MIN_KEY_CHARS} are the least; "
            "`openssl rand -hex 32` makes one"
        )
    else:
        digest = digest_of(key)
    return Key(name, digest, trusted=right is not None)


class KeyRing:
    """The named keys of a server, as they are now. Any thread.

    Attributes:
        current: the keys. Replaced as a whole.
        fault: why the file as it is now is not in effect; None when it is.
    """

    def __init__(self, given: Sequence[str], file: Path | None) -> None:
        """Reads the keys.

        Args:
            given: lines of the settings.
            file: a file of lines; None for none.

        Raises:
            Unusable: as `read_keys` says, the file cannot be read, or it holds no key.
        """
        self.fault: str | None = None
        self._given = read_keys(given, "keys, entry")
        self._file = file
        self._seen: bytes | None = None
        self.current: tuple[Key, ...] = self._given
        if file is not None:
            self._seen = _bytes_of(file)
            self.current = self._with_file(file, self._seen)
            if file.stat().st_mode & 0o004:
                logger.warning(
                    "the file of keys can be read by every user of this machine: chmod 600 %s", file
                )

    @property
    def wanted(self) -> bool:
        """Whether callers need a key: also when a file is named whose keys were all taken away."""
        return self._file is not None or bool(self._given)

    def refresh(self) -> None:
        """Takes up a file that changed.

        One that cannot be read, has a faulty line or holds no key leaves the keys that were: half a
        file must shut nobody out. It is logged once, and `fault` says so until the file is mended.
        """
        if self._file is None:
            return
        try:
            raw = _bytes_of(self._file)
            if raw == self._seen and self.fault is None:
                return
            found = self._with_file(self._file, raw)
        except Unusable as fault:
            if str(fault) != self.fault:
                logger.error("the keys stay as they were: %s", fault)
            self.fault = str(fault)
            return
        if found != self.current:
            names = ", ".join(key.name for key in found)
            logger.info("%s changed; the keys are now those of %s", self._file, names)
        self._seen, self.current, self.fault = raw, found, None

    def _with_file(self, file: Path, raw: bytes) -> tuple[Key, ...]:
        """All keys, given what the file holds. Raises `Unusable`."""
        try:
            lines = raw.decode("utf-8-sig").splitlines()
        except UnicodeDecodeError:
            raise Unusable(f"{file} is no text in UTF-8") from None
        keys = read_keys(lines, f"{file}, line")
        if not keys:
            raise Unusable(f"{file} holds no key; {_REMEDY}")
        for key in keys:
            for other in self._given:
                if key.name == other.name or key.digest == other.digest:
                    raise Unusable(
                        f"{file}: {key.name} has the name or the key of {other.name} in `keys`"
                    )
        return self._given + keys


def _bytes_of(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as fault:
        raise Unusable(f"the file of keys {file}: {fault.strerror}") from fault
