"""Asks the process that holds the tokenizer, without ever waiting for it in a page.

A question gets a future; the same question is asked once. Knows no screen.
"""

import json
import subprocess
import sys
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from spinf_serve.evals.estimate import Counted, Estimate, estimate
from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench.answering import Who, keep_who, served_by

MOST_ANSWERS: Final = 64


@dataclass(frozen=True, slots=True)
class Pieces:
    """Tokens of texts.

    Attributes:
        model: whose.
        texts: of each text the tokens: id, and the characters that end with it (none for a token
            in the middle of a character).
        starts: whether every sequence begins with a token of its own.
        lint: `residual` and `floor`, where lint finds fault on this model; None for its own limits.
        stands_for: whose they are about, see `Tokens`; None where they are exact.
    """

    model: str
    texts: tuple[tuple[tuple[int, str], ...], ...]
    starts: bool
    lint: Mapping[str, float | None]
    stands_for: str | None = None


@dataclass(frozen=True, slots=True)
class Costs:
    """Tokens of a pack's questions about contents.

    Attributes:
        model: whose.
        counted: sums over the contents.
        refused: code -> contents that the model refuses, which are not in the sums.
        prompts: of each filled template, question by question.
        stands_for: whose they are about, see `Tokens`; None where they are exact.
    """

    model: str
    counted: Counted
    refused: Mapping[str, int]
    prompts: tuple[int, ...]
    stands_for: str | None = None

    @property
    def per_1000(self) -> Estimate:
        """Tokens of 1,000 such contents, read once and as one call per question."""
        return estimate(self.counted, 1.0, 0.0)


class Tokens:
    """The tokenizer of who answers, in a process that starts with the first question.

    A server does not lend its tokenizer: that of the model of the same id is taken where its files
    are on this machine, else the local model's stands for the served one, and its tokens are told
    as about.
    """

    def __init__(self, who: Who) -> None:
        self._who = who
        self._served: str | None = None
        self._lock = threading.Lock()
        self._answers: OrderedDict[str, Future[Any]] = OrderedDict()
        # One thread: questions are answered in turn.
        self._pool = ThreadPoolExecutor(1, "tokens")
        self._child: subprocess.Popen[str] | None = None
        self._model = ""
        self._lint: dict[str, float | None] = {}

    def pieces(self, texts: Sequence[str]) -> "Future[Pieces]":
        """The tokens of texts; `Unusable` where they cannot be had."""
        return self._ask({"do": "pieces", "texts": list(texts)}, self._pieces)

    def costs(self, pack: str, name: str, contents: Sequence[str]) -> "Future[Costs]":
        """What a pack's text costs.

        Args:
            pack: a valid pack's text.
            name: of its file.
            contents: with the context around them, at least one.
        """
        asked = {"do": "cost", "pack": pack, "name": name, "contents": list(contents)}
        return self._ask(asked, self._costs)

    def close(self) -> None:
        """End the process."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        child = self._child
        if child is not None:
            child.kill()
            child.communicate()

    def _ask(self, asked: dict[str, Any], made: Any) -> "Future[Any]":
        line = json.dumps(asked)
        with self._lock:
            known = self._answers.get(line)
            failed = known is not None and known.done() and known.exception() is not None
            if known is None or failed:
                known = self._answers[line] = self._pool.submit(lambda: made(self._answer(line)))
            self._answers.move_to_end(line)
            while len(self._answers) > MOST_ANSWERS:
                self._answers.popitem(last=False)
        return known

    def _answer(self, line: str) -> dict[str, Any]:
        if self._who.server is not None and self._served is None:
            self._served = served_by(self._who)
        for _ in range(2):
            child = self._started()
            try:
                assert child.stdin is not None
                child.stdin.write(line + "\n")
                child.stdin.flush()
                return self._read(child)
            except (BrokenPipeError, EOFError):
                # It ended for want of questions.
                child.kill()
                child.communicate()
                self._child = None
        raise Unusable("the process that holds the tokenizer ended; ask again")

    def _started(self) -> "subprocess.Popen[str]":
        if self._child is not None:
            if self._child.poll() is None:
                return self._child
            self._child.communicate()
        with tempfile.TemporaryDirectory(prefix="tokens-") as folder:
            # The settings of the model on this machine, which a server's are kept without.
            keep_who(Who(None, None, self._who.config), Path(folder))
            more = [] if self._who.server is None else [self._served or ""]
            child = subprocess.Popen(
                [sys.executable, "-m", "spinf_serve.workbench.token_child", folder, *more],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            try:
                # Before the folder goes: it says so once it has read who answers.
                first = self._read(child)
                self._model, self._lint = str(first["model"]), first["lint"]
            except (EOFError, Unusable) as fault:
                child.kill()
                child.communicate()
                told = str(fault) or "it ended at once"
                raise Unusable(f"no tokenizer can be opened here: {told}") from None
        self._child = child
        return child

    @staticmethod
    def _read(child: "subprocess.Popen[str]") -> dict[str, Any]:
        assert child.stdout is not None
        line = child.stdout.readline()
        if not line:
            raise EOFError
        answer: dict[str, Any] = json.loads(line)
        if "fault" in answer:
            raise Unusable(str(answer["fault"]))
        return answer

    def _stands_for(self) -> str | None:
        if self._who.server is None or self._served == self._model:
            return None
        return self._served or f"the model of {self._who.server}"

    def _pieces(self, answer: dict[str, Any]) -> Pieces:
        texts = tuple(tuple((id, piece) for id, piece in text) for text in answer["texts"])
        return Pieces(
            self._model, texts, answer["start"] is not None, self._lint, self._stands_for()
        )

    def _costs(self, answer: dict[str, Any]) -> Costs:
        counted = Counted(**answer["counted"])
        return Costs(
            self._model, counted, answer["refused"], tuple(answer["prompts"]), self._stands_for()
        )
