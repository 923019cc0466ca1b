"""The text of a file that is being edited: kept at every pause, with its history, apart from the file.

A change names the revision that it was made on. What another tab changed meanwhile is never
overwritten: the change is refused, and its author chooses. Knows no screen and no pack.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from spinf_serve.packs.atomic import locked, write_beside
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import read_regular, shown
from spinf_serve.workbench import audit
from spinf_serve.workbench.desk import LOCK_SECONDS, Desk, as_json, key_of

MOST_STEPS: Final = 300
"""Steps of history that are kept; the oldest go first."""

_STATE: Final = "draft.json"
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Draft:
    """A file's text as it is being edited.

    Attributes:
        file: the pack's file.
        text: with line ends as `\\n`, without a byte order mark; saving puts back what the file had.
        revision: grows with every change, also with undo and with saving.
        base_digest: sha256 of the file's bytes that the text began with, or was last saved as.
        unsaved: whether the text is another than that file's.
        moved: whether the file on disk is another by now, while this text is unsaved.
        undo, redo: how many steps there are back, and forth again.
    """

    file: Path
    text: str
    revision: int
    base_digest: str
    unsaved: bool = False
    moved: bool = False
    undo: int = 0
    redo: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """A text that the draft once was.

    Attributes:
        digest: names the text for `text_of`.
        at: ISO time, UTC.
        user: who made it.
        what: how it came about: `typed`, `form`, `undo`, `saved` and the like.
    """

    digest: str
    at: str
    user: str
    what: str


class Moved(Unusable):
    """The draft was changed elsewhere since it was read; nothing was overwritten.

    Attributes:
        draft: as it is now.
    """

    def __init__(self, draft: Draft) -> None:
        super().__init__(
            f"{shown(draft.file.name)} was changed in another tab or by somebody else since this"
            " page read it; nothing was overwritten. Choose which text to go on with."
        )
        self.draft = draft


class FileMoved(Unusable):
    """The file on disk is not the one that the draft began with; nothing was overwritten."""

    def __init__(self, file: Path) -> None:
        super().__init__(
            f"{shown(file.name)} was changed on disk since this draft was begun; nothing was"
            " overwritten. Compare the two, then take the file's text or write yours over it."
        )


@dataclass(slots=True)
class _State:
    """What `draft.json` holds. Texts are named by digest.

    `writer` made all changes since the revision `writer_from`; so its own earlier changes, of which
    it has not heard yet, are no reason to refuse its next.
    """

    revision: int
    base: str
    saved: str
    now: str
    undo: list[str] = field(default_factory=list)
    redo: list[str] = field(default_factory=list)
    steps: list[dict[str, str]] = field(default_factory=list)
    writer: str = ""
    writer_from: int = 0


def draft_of(desk: Desk, file: Path) -> Draft:
    """The draft of a file; the file's own text when nobody has edited it.

    A file that was changed on disk while nothing was unsaved is simply read anew, as a step.

    Raises `Unusable` when it cannot be read, or is not UTF-8.
    """
    with _Store(desk, file).opened() as (store, state):
        return store.draft(state)


def keep(
    desk: Desk,
    file: Path,
    text: str,
    revision: int,
    *,
    user: str = "",
    what: str = "typed",
    writer: str = "",
) -> Draft:
    """Keep a changed text as the draft.

    Args:
        revision: of the draft that was changed.
        user, what: for the history.
        writer: names the tab that types, so that it may be ahead of what it has been told.

    Raises `Moved` when another changed the draft since; not when to the very same text.
    """
    text = _plain(text)
    with _Store(desk, file).opened() as (store, state):
        if _digest(text) == state.now:
            return store.draft(state)
        own = writer != "" and state.writer == writer and revision >= state.writer_from
        if revision != state.revision and not own:
            raise Moved(store.draft(state))
        if state.writer != writer:
            state.writer, state.writer_from = writer, revision
        store.change(state, store.put(text), user, what)
        return store.draft(state)


def undo(desk: Desk, file: Path, revision: int, *, user: str = "") -> Draft:
    """One step back; as it is when there is none. Raises `Moved` as `keep` does."""
    return _walk(desk, file, revision, user, "undo")


def redo(desk: Desk, file: Path, revision: int, *, user: str = "") -> Draft:
    """One step forth again; as it is when there is none. Raises `Moved` as `keep` does."""
    return _walk(desk, file, revision, user, "redo")


def set_aside(desk: Desk, file: Path, text: str, *, user: str = "") -> None:
    """Put a text into the history without making it the draft, so that it can be had again."""
    with _Store(desk, file).opened() as (store, state):
        store.note(state, store.put(_plain(text)), user, "set aside")


def rebase(desk: Desk, file: Path, revision: int, *, mine: bool, user: str = "") -> Draft:
    """Settle that the file was changed on disk while the draft was unsaved.

    Args:
        mine: True keeps the draft's text, to be saved over the file's; False takes the file's
            text, and leaves the draft's in the history.

    Raises `Moved` as `keep` does.
    """
    with _Store(desk, file).opened() as (store, state):
        if revision != state.revision:
            raise Moved(store.draft(state))
        data = store.on_disk()
        state.base = hashlib.sha256(data).hexdigest()
        state.saved = store.put(_decoded(data, file))
        if mine:
            state.revision += 1
            state.writer = ""
        else:
            state.writer = ""
            store.change(state, state.saved, user, "from disk")
        return store.draft(state)


def save(desk: Desk, user: str, file: Path, draft: Draft) -> Draft:
    """Write the draft into its file, beside and renamed.

    Raises:
        Moved: the draft is no longer the given one.
        FileMoved: the file on disk is not the one that the draft began with.
        Unusable: it cannot be written.
    """
    with _Store(desk, file).opened() as (store, state), locked(file, LOCK_SECONDS):
        if draft.revision != state.revision or _digest(draft.text) != state.now:
            raise Moved(store.draft(state))
        before = store.on_disk()
        known = hashlib.sha256(before).hexdigest()
        if known != state.base:
            raise FileMoved(file)
        if state.now == state.saved:
            return store.draft(state)
        data = _encoded(draft.text, before)
        try:
            write_beside(file, data)
        except OSError as error:
            raise Unusable(f"{shown(file)} cannot be written: {error.strerror}") from None
        state.base, state.saved = hashlib.sha256(data).hexdigest(), state.now
        state.revision += 1
        # The tab that typed goes on from its own text.
        store.note(state, state.now, user, "saved")
        found = store.draft(state)
    audit.note(desk, user, "save pack", desk.name_of(file), before=known, after=found.base_digest)
    return found


def steps(desk: Desk, file: Path) -> list[Step]:
    """The history, newest first; a text that was come back to stands there again."""
    with _Store(desk, file).opened() as (_, state):
        return [Step(**step) for step in reversed(state.steps)]


def text_of(desk: Desk, file: Path, digest: str) -> str:
    """The text of a step. Raises `Unusable` when it is no longer kept."""
    return _Store(desk, file).get(digest)


def saved_text(desk: Desk, file: Path) -> str:
    """The text of the file on disk, as drafts have it."""
    return _decoded(_Store(desk, file).on_disk(), file)


def revision_of(desk: Desk, file: Path) -> int:
    """The draft's revision, looked up quickly; 0 while nobody has edited the file."""
    try:
        return int(json.loads((_folder(desk, file) / _STATE).read_bytes())["revision"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def is_unsaved(desk: Desk, file: Path) -> bool:
    """Whether a draft of the file is unsaved, looked up quickly."""
    try:
        state = json.loads((_folder(desk, file) / _STATE).read_bytes())
        return bool(state["now"] != state["saved"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def unsaved_files(desk: Desk) -> list[Path]:
    """Files of packs of which a draft is unsaved."""
    return [file for file in desk.pack_files() if is_unsaved(desk, file)]


def _walk(desk: Desk, file: Path, revision: int, user: str, what: str) -> Draft:
    with _Store(desk, file).opened() as (store, state):
        if revision != state.revision:
            raise Moved(store.draft(state))
        back, forth = (state.undo, state.redo) if what == "undo" else (state.redo, state.undo)
        if back:
            forth.append(state.now)
            state.now = back.pop()
            state.revision += 1
            state.writer = ""
            store.note(state, state.now, user, what)
        return store.draft(state)


class _Store:
    """The folder of one file's draft."""

    def __init__(self, desk: Desk, file: Path) -> None:
        self.file = file
        self.folder = _folder(desk, file)
        self.texts = self.folder / "texts"

    @contextmanager
    def opened(self) -> Iterator[tuple["_Store", _State]]:
        """The state, under a lock; written when the block ends well and it was changed."""
        try:
            self.texts.mkdir(parents=True, exist_ok=True)
            with locked(self.folder / _STATE, LOCK_SECONDS):
                known, state = self._read()
                self._follow(state)
                yield self, state
                told = as_json({name: getattr(state, name) for name in _State.__slots__})
                if told != known:
                    write_beside(self.folder / _STATE, told)
        except OSError as error:
            raise Unusable(
                f"the draft of {shown(self.file.name)} cannot be kept: {error.strerror}; make room on"
                " the disk of the project, then try again"
            ) from None

    def draft(self, state: _State) -> Draft:
        """What callers see."""
        unsaved = state.now != state.saved
        moved = unsaved and hashlib.sha256(self.on_disk()).hexdigest() != state.base
        text = self.get(state.now)
        counts = len(state.undo), len(state.redo)
        return Draft(self.file, text, state.revision, state.base, unsaved, moved, *counts)

    def change(self, state: _State, digest: str, user: str, what: str) -> None:
        """Make a kept text the draft."""
        if what == "typed" and state.undo[-1:] == [digest]:
            # The editor undid it by itself: the next undo goes on from there, not forth again.
            state.undo.pop()
            state.redo.append(state.now)
        elif digest != state.now:
            state.undo = [*state.undo, state.now][-MOST_STEPS:]
            state.redo = []
        state.now = digest
        state.revision += 1
        self.note(state, digest, user, what)

    def note(self, state: _State, digest: str, user: str, what: str) -> None:
        """Add a step to the history."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        state.steps.append({"digest": digest, "at": at, "user": user, "what": what})
        if len(state.steps) > MOST_STEPS:
            del state.steps[:-MOST_STEPS]
            self._forget(state)

    def put(self, text: str) -> str:
        """Keep a text; its digest."""
        digest = _digest(text)
        if not (self.texts / digest).exists():
            write_beside(self.texts / digest, text.encode())
        return digest

    def get(self, digest: str) -> str:
        """A kept text."""
        try:
            return read_regular(self.texts / digest).decode()
        except (OSError, ValueError):
            raise Unusable(
                f"a text of the history of {shown(self.file.name)} is no longer kept"
            ) from None

    def on_disk(self) -> bytes:
        """The file's bytes."""
        try:
            return read_regular(self.file)
        except OSError as error:
            raise Unusable(f"{shown(self.file.name)} cannot be read: {error.strerror}") from None

    def _read(self) -> tuple[bytes, _State]:
        try:
            known = (self.folder / _STATE).read_bytes()
        except FileNotFoundError:
            known = b""
        try:
            state = _State(**json.loads(known)) if known else self._begun()
            self.get(state.now)
        except (ValueError, TypeError, Unusable):
            # Cut by a full disk: set aside, so that a person can still look into it.
            aside = self.folder.with_name(f"{self.folder.name}-broken")
            shutil.rmtree(aside, ignore_errors=True)
            shutil.copytree(self.folder, aside)
            state = self._begun()
        return known, state

    def _begun(self) -> _State:
        data = self.on_disk()
        digest = self.put(_decoded(data, self.file))
        return _State(0, hashlib.sha256(data).hexdigest(), digest, digest)

    def _follow(self, state: _State) -> None:
        """Take over what others wrote into the file while nothing was unsaved."""
        if state.now != state.saved:
            return
        data = self.on_disk()
        base = hashlib.sha256(data).hexdigest()
        if base != state.base:
            state.base, state.writer = base, ""
            state.saved = self.put(_decoded(data, self.file))
            self.change(state, state.saved, "", "from disk")

    def _forget(self, state: _State) -> None:
        wanted = {state.now, state.saved, *state.undo, *state.redo}
        wanted |= {step["digest"] for step in state.steps}
        for path in self.texts.iterdir():
            if path.name not in wanted and not path.name.startswith("."):
                path.unlink(missing_ok=True)


def _folder(desk: Desk, file: Path) -> Path:
    return desk.private / "drafts" / key_of(desk.name_of(file))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


def _plain(text: str) -> str:
    """With line ends as the editor has them, and nothing that UTF-8 cannot hold."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.encode(errors="replace").decode()


def _decoded(data: bytes, file: Path) -> str:
    try:
        return _plain(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise Unusable(
            f"{shown(file.name)} is not UTF-8 (byte {error.start + 1}); save it as UTF-8 first"
        ) from None


def _encoded(text: str, before: bytes) -> bytes:
    """The text with the byte order mark and the line ends of what it replaces."""
    ends = b"\r\n" if before.count(b"\r\n") * 2 > max(1, before.count(b"\n")) else b"\n"
    data = text.encode().replace(b"\n", ends)
    return (_BOM if before.startswith(_BOM) else b"") + data
