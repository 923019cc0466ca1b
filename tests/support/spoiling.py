"""Hostile requests made from valid ones: values replaced, removed, doubled; bytes cut and turned."""

import copy
import gzip
import json
from random import Random
from typing import Any

import zstandard

WORDS = (
    "id", "template", "options", "combinations", "values", "all", "user", "text", "type", "x",
    "queries", "scoring", "inputs", "messages", "role", "content", "model", "{?}", "{x}{?}",
    "full", "precision", "image_url", "url", "video", "frames", "t", "data:image/png;base64,AA",
    "state", "input", "questions", "criteria", "instructions", "noul", "choice", "score", "levels",
    "assets", "part", "name", "value", "predicate", "endpoint", "metadata", "completion_window",
)  # fmt: skip
HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**63, 10**400, 1e308, -0.0, 0.1, "", " ", "\x00", "\x1b[2J\n",
    "\ud800", "\udc00x", "x" * 3000, "ſ\u0345İ", "\U0001f600" * 40, '["\\q"]', '["\\ud800"]', "a.b[0]",
    "{", "}}", "{?}{?}", "{" * 500, "٣", [], {}, [[[[[[[[[[]]]]]]]]]], {"\ud800": 1},
    {'["\\q"]': ["\ud800"]},
    {"": ""}, {"a.b": {"c]": None}}, [None] * 300, ["x"] * 300, {str(n): n for n in range(300)},
)  # fmt: skip
# What JSON's readers disagree about; each stands for a value.
_RAW = (
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"01",
    b'"\\ud800"',
    b"1" * 5000,
    b"[" * 2000,
    b'"\xff"',
    b"",
)
_HEADERS = {
    "Content-Encoding": ("gzip", "zstd", "br", "identity", "", "gzip, zstd", "\xff"),
    "Content-Type": (
        "application/json", "text/plain", "multipart/form-data", "", "\xff",
        "multipart/form-data; boundary=B", 'multipart/form-data; boundary="' + ";" * 2000,
    ),
    "X-Spinf-Priority": ("batch", "Interactive", "urgent", "", "batch\xff"),
    "X-Request-Deadline-Ms": ("0", "-1", "NaN", "9" * 40, "\xb2", "1e3", "60000"),
    "X-Request-Id": ("\x1b]0;x", "a" * 4000, "ok-1", "\xff"),
    "traceparent": ("00-" + "0" * 32 + "-" + "0" * 16 + "-00", "x" * 1000),
    "Authorization": ("Bearer x", "Basic \xff", "Bearer " + "y" * 2000),
}  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value below a value."""
    found = [path] if path else []
    if isinstance(value, dict):
        entries = list(value.items())
    elif isinstance(value, list):
        entries = list(enumerate(value))
    else:
        return found
    return found + [place for key, part in entries for place in places(part, (*path, key))]


def spoilt(good: Any, random: Random) -> Any:
    """A valid body of which a few parts are replaced, removed, doubled or renamed."""
    body = copy.deepcopy(good)
    for _ in range(random.randint(0, 3)):
        found = places(body)
        if not found:
            break
        *above, last = random.choice(found)
        owner = body
        for key in above:
            owner = owner[key]
        change = random.choice(["replace", "replace", "remove", "double", "rename"])
        if change == "remove":
            del owner[last]
        elif change == "double" and isinstance(owner, list):
            owner.append(copy.deepcopy(owner[last]))
        elif change == "rename" and isinstance(owner, dict):
            owner[_text(random)] = owner.pop(last)
        else:
            owner[last] = _value(random)
    return body


def spoilt_bytes(body: bytes, random: Random) -> bytes:
    """A body cut short, turned somewhere, or with something that is no JSON in it."""
    change = random.randrange(5)
    at = random.randrange(len(body) + 1)
    if change == 0:
        return body[:at]
    if change == 1:
        return body[:at] + bytes([random.randrange(256)]) + body[at + 1 :]
    if change == 2:
        return body[:at] + random.choice(_RAW) + body[at:]
    if change == 3:
        return body.replace(b'"', random.choice(_RAW), 1)
    return body + body


def compressed(body: bytes, random: Random) -> tuple[str, bytes]:
    """A body in an encoding, and the header's word for it; sometimes it is not quite that."""
    word = random.choice(["gzip", "zstd"])
    packed = gzip.compress(body, 1) if word == "gzip" else zstandard.ZstdCompressor().compress(body)
    return word, spoilt_bytes(packed, random) if random.random() < 0.3 else packed


def form(parts: dict[str, bytes], random: Random) -> bytes:
    """A body of several parts with the boundary `B`; sometimes it is not quite that."""
    body = b""
    for name, value in parts.items():
        for _ in range(2 if random.random() < 0.05 else 1):
            more = '; filename="a.jsonl"' if name == "file" else ""
            if random.random() < 0.1:
                charset = random.choice(
                    ["idna", "unicode_escape", "utf-8", "undefined", "\x00", ""]
                )
                more = f"; filename*={charset}''{random.choice(['%5Cud800', '%ff', 'a..b', '%00'])}"
            head = f'--B\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'
            body += head.encode() + value + b"\r\n"
    body += b"--B--\r\n"
    return spoilt_bytes(body, random) if random.random() < 0.3 else body


def headers(random: Random) -> dict[str, str]:
    """A few headers that a client might send; most requests have none."""
    if random.random() < 0.7:
        return {}
    names = random.sample(sorted(_HEADERS), random.randint(1, 3))
    return {name: random.choice(_HEADERS[name]) for name in names}


def encoded(value: Any) -> bytes:
    """A value as JSON; what UTF-8 cannot say stands as escapes."""
    return json.dumps(value).encode()


def _text(random: Random) -> str:
    texts = [each for each in HOSTILE if isinstance(each, str)]
    return random.choice(texts) if random.random() < 0.3 else random.choice(WORDS)


def _value(random: Random) -> Any:
    # A copy, since what is put in may be spoilt again.
    return copy.deepcopy(random.choice(HOSTILE)) if random.random() < 0.7 else random.choice(WORDS)
