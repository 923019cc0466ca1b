"""Answers for the page Try without ever waiting in a page: from a server, or from a model's own process.

A question gets a future; the same question is asked once. Knows no screen.
"""

import atexit
import json
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import IO, Any, Final, Literal, cast

from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.loader import read_pack
from spinf_serve.workbench.actions.trying import Asked, Content, ask
from spinf_serve.workbench.answering import Who, scorer, who_plain

MOST_ANSWERS: Final = 200

_COMMAND: Final = [sys.executable, "-m", "spinf_serve.workbench.model_child"]

State = Literal["off", "loading", "ready"]


class Model:
    """The model on this machine, in a process that starts with the first question."""

    def __init__(self, who: Who) -> None:
        self._who = who
        self._child: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._loading: float | None = None
        # Questions are answered in turn.
        self._turn = threading.Lock()

    @property
    def state(self) -> State:
        """Whether its process is there; it goes when nobody asked for a while."""
        child = self._child
        if self._loading is not None:
            return "loading"
        return "off" if child is None or child.poll() is not None else "ready"

    @property
    def loading_seconds(self) -> float:
        """How long it has been loading."""
        begun = self._loading
        return 0.0 if begun is None else time.monotonic() - begun

    def ask(self, pack: str, name: str, content: Content) -> Asked:
        """The answers; waits for the model. Raises `Unusable`."""
        asked = {
            "pack": pack,
            "name": name,
            "text": content.text,
            "context": content.context,
            "parameters": content.parameters,
        }
        line = json.dumps(asked).encode() + b"\n"
        said = ""
        with self._turn:
            for _ in range(2):
                child = self._started()
                try:
                    return self._answer(child, line)
                except (BrokenPipeError, EOFError):
                    # It ended for want of questions, between a look at it and now; or it was killed.
                    said = self._said()
                    self._end()
        raise Unusable(f"the model's process ended: {said or 'it said nothing'}")

    def stop(self) -> None:
        """End its process, which frees its memory; the next question starts another."""
        self._end()

    def _answer(self, child: "subprocess.Popen[bytes]", line: bytes) -> Asked:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(line)
        child.stdin.flush()
        answer = pickle.load(child.stdout)
        if isinstance(answer, str):
            raise Unusable(answer)
        return cast(Asked, answer)

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._child is not None and self._child.poll() is None:
            return self._child
        self._end()
        # Kept open as long as the process.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._loading = time.monotonic()
        try:
            child = subprocess.Popen(
                _COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log
            )
            self._child = child
            assert child.stdin is not None and child.stdout is not None
            # By its standard input, which nobody else sees.
            child.stdin.write(json.dumps(who_plain(self._who)).encode() + b"\n")
            child.stdin.flush()
            told = pickle.load(child.stdout)
        except (OSError, EOFError, BrokenPipeError) as error:
            said = self._said() or str(error)
            self._end()
            raise Unusable(f"the model cannot be opened: {said}") from None
        finally:
            self._loading = None
        if told is not None:
            self._end()
            raise Unusable(f"the model cannot be opened: {told}")
        return child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            for stream in (child.stdin, child.stdout):
                if stream is not None:
                    # What was written and not sent is of no use any more.
                    with suppress(OSError):
                        stream.close()
        if self._log is not None:
            self._log.close()
            self._log = None

    def _said(self) -> str:
        """The last line of what it said before it ended."""
        if self._log is None or self._log.closed:
            return ""
        self._log.seek(0)
        lines = self._log.read()[-4000:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""


class Asking:
    """Questions of the page Try and their answers, for all tabs of this process."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(4, "try")
        self._lock = threading.Lock()
        self._answers: OrderedDict[str, Future[Asked]] = OrderedDict()
        self._models: dict[str, Model] = {}

    def answer(
        self, who: Who, pack: bytes, name: str, content: Content, *, again: bool = False
    ) -> "Future[Asked]":
        """The answers of somebody to a pack's text about a content.

        Args:
            pack: a valid pack's bytes; `name` that of its file.
            again: whether one that failed is asked once more.
        """
        key = json.dumps(
            [self._key(who), pack.decode(), content.text, content.context, content.parameters]
        )
        with self._lock:
            known = self._answers.get(key)
            failed = known is not None and known.done() and known.exception() is not None
            if known is None or (failed and again):
                known = self._pool.submit(self._asked, who, pack, name, content)
                self._answers[key] = known
            self._answers.move_to_end(key)
            while len(self._answers) > MOST_ANSWERS:
                self._answers.popitem(last=False)
        return known

    def model(self, who: Who) -> Model:
        """The model on this machine with such settings."""
        with self._lock:
            return self._models.setdefault(self._key(who), Model(who))

    def close(self) -> None:
        """End the processes of all models."""
        with self._lock:
            models = list(self._models.values())
        for model in models:
            model.stop()

    def _asked(self, who: Who, pack: bytes, name: str, content: Content) -> Asked:
        if who.server is None:
            return self.model(who).ask(pack.decode(), name, content)
        # Opened anew each time: what a server serves may have changed.
        return ask(scorer(who), read_pack(pack, name, fitted=False), content)

    @staticmethod
    def _key(who: Who) -> str:
        told: dict[str, Any] = who_plain(who)
        return json.dumps(told, sort_keys=True)


_asking: Asking | None = None
_made = threading.Lock()


def asking() -> Asking:
    """The one of this process; its models end with it."""
    global _asking
    with _made:
        if _asking is None:
            _asking = Asking()
            atexit.register(_asking.close)
        return _asking
