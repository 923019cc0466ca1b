"""Free text behind a prompt, as chats and completions have it, handed out piece by piece.

Unlike what is generated into a slot it may have many lines. It ends where the model ends it, before
a stop text, or at the most tokens. No half of a character and no beginning of a stop text is ever
handed out.
"""

import codecs
from collections.abc import Callable, Sequence

from spinf_serve.engine.extraction.answers import Finish, GeneratedAnswer, SlotAnswers
from spinf_serve.engine.extraction.generation import drawn, stream_of
from spinf_serve.engine.extraction.steps import NO_COLUMNS, Ask, Seen
from spinf_serve.engine.extraction.vocabulary import Vocabulary
from spinf_serve.packs.question import Sampling


class Writing:
    """A text in the making; implements `steps.Slot`. Its probabilities are of one token each."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        stop: Sequence[str],
        max_tokens: int,
        sampling: Sampling,
        on_text: Callable[[str], None],
    ) -> None:
        """`on_text` gets each piece of the text once no further token can change it."""
        self._vocabulary = vocabulary
        self._stop = tuple(stop)
        self._max_tokens = max_tokens
        self._sampling = sampling
        self._on_text = on_text
        self._draws = stream_of(sampling, 0)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._tokens: tuple[int, ...] = ()
        self._held = ""
        self._told: list[str] = []
        self._finish: Finish | None = None
        self._read = 0

    def asks(self) -> list[Ask]:
        """The next token's candidates; nothing once the text has ended."""
        if self._finish is not None:
            return []
        top = 1 if self._sampling.temperature == 0 else self._sampling.top_k
        return [Ask(self._tokens, NO_COLUMNS, top)]

    def take(self, seen: Sequence[Seen]) -> None:
        """What was read for `asks`."""
        [one] = seen
        self._read += 1
        token = self._choice(one)
        if token is None or token in self._vocabulary.silent:
            self._end("stop")
            return
        self._tokens = (*self._tokens, token)
        self._held += self._decoder.decode(self._vocabulary.pieces[token])
        stops = [at for text in self._stop if (at := self._held.find(text)) >= 0]
        if stops:
            self._held = self._held[: min(stops)]
            self._end("stop")
        elif len(self._tokens) == self._max_tokens:
            self._end("length")
        else:
            self._tell(len(self._held) - self._may_stop())

    def answers(self) -> SlotAnswers:
        """The text as it was handed out."""
        text = GeneratedAnswer("".join(self._told), self._finish or "length", len(self._tokens))
        return SlotAnswers(kind="text", generated=(text,), tokens=self._read)

    def _choice(self, seen: Seen) -> int | None:
        """The next token; None where none of those that were read stands for anything."""
        if not len(seen.top_ids):
            return None
        if self._sampling.temperature == 0:
            return int(seen.top_ids[0])
        return int(seen.top_ids[drawn(seen.top_logprobs, self._sampling, self._draws)])

    def _may_stop(self) -> int:
        """How many characters at the end of what is held may be the beginning of a stop text."""
        longest = max((len(text) for text in self._stop), default=0)
        for length in range(min(longest - 1, len(self._held)), 0, -1):
            if any(text.startswith(self._held[-length:]) for text in self._stop):
                return length
        return 0

    def _end(self, finish: Finish) -> None:
        self._finish = finish
        self._tell(len(self._held))

    def _tell(self, length: int) -> None:
        if length:
            self._told.append(self._held[:length])
            self._on_text(self._held[:length])
            self._held = self._held[length:]


def unheard(piece: str) -> None:
    """For whom the whole text is enough."""
