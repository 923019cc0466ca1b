"""Some rows of a dataset on their way through a run: their contents, long ones cut, and what is kept.

How a content was cut is kept with its scores, so that the next run need not read it again. Asks no
model.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import duckdb

from spinf_serve.evals.asking import Item, cuts_for
from spinf_serve.evals.project import Project
from spinf_serve.evals.score_tables import Cut, Identity, Known, Whole, known
from spinf_serve.packs.chunks import Reader, chunks_of
from spinf_serve.packs.digests import content_digest
from spinf_serve.packs.pack import Pack


@dataclass(slots=True)
class Window:
    """What is read for some rows of a dataset.

    Attributes:
        presented: rows that the pack presents, with their digests.
        known_cuts: how long ones among them were cut by an earlier run.
        held: what is kept of them and of their chunks.
        contents: content digest -> content, or nothing where none of it is going to be asked; equal
            ones are one.
        counts: content digest -> how often it stands in rows.
        rows: digests of what is read for each row.
        first: content digest -> id of the first row.
        texts: content digest -> digest of that row's text alone.
        cuts: how long ones were cut just now, to be kept.
        cut_texts: digest of a cut content or a chunk -> digest of the row's text alone.
        cut_rows: rows that are read in chunks.
    """

    presented: Sequence[tuple[Item, str]]
    known_cuts: dict[Whole, Cut]
    held: Known
    contents: dict[str, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    rows: list[Sequence[str]] = field(default_factory=list)
    first: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    cuts: dict[Whole, Cut] = field(default_factory=dict)
    cut_texts: dict[str, str] = field(default_factory=dict)
    cut_rows: int = 0

    def add(self, item: Item, parts: Sequence[str], texts: Sequence[str]) -> None:
        """Takes a row: digests and texts of what is read for it."""
        self.rows.append(parts)
        self.counts.update(parts)
        for digest, text in zip(parts, texts, strict=True):
            if text or digest not in self.contents:
                self.contents[digest] = text
            self.first.setdefault(digest, item.id)
            self.texts.setdefault(digest, item.text_digest)


@dataclass(frozen=True, slots=True)
class Windows:
    """Makes the windows of one run.

    Attributes:
        reader: measures and cuts long contents; None where they are not cut.
        prompts: digests of what the run asks of each content.
    """

    project: Project
    identity: Identity
    pack: Pack
    reader: Reader | None
    prompts: Collection[str]

    def looked_up(self, connection: duckdb.DuckDBPyConnection, rows: Sequence[Item]) -> Window:
        """A window of the rows that the pack presents, nothing read for them yet."""
        presented = [
            (item, content_digest(item.content)) for item in rows if isinstance(item.content, str)
        ]
        digests = {digest for _, digest in presented}
        cuts = {}
        if self.reader is not None:
            # Also of those that fit: they may have been cut under another limit.
            cuts = cuts_for(connection, self.identity, self.pack, digests)
        digests.update(*(cut.parts for cut in cuts.values()))
        return Window(presented, cuts, known(connection, self.identity, digests, self.prompts))

    def fill(self, window: Window) -> None:
        """Says what is to be read for each row, cuts long ones, and looks their chunks up.

        It may take long, and the project is open for the last step alone.
        """
        fresh: set[str] = set()
        for item, digest in window.presented:
            content = str(item.content)
            parts: Sequence[str] = (digest,)
            texts: Sequence[str] = (content,)
            key = (digest, *item.context)
            cut = window.known_cuts.get(key)
            if self.reader is not None and (cut or not self.reader.surely_fits(content)):
                settled = cut is not None and cut.most_tokens == self.reader.most_tokens
                if cut is not None and settled and self._whole(cut.parts, window.held):
                    # Nothing is going to be asked of it, so that its texts are not needed.
                    parts, texts = cut.parts, ("",) * len(cut.parts)
                else:
                    texts = chunks_of(self.reader, *item.halved())
                    parts = tuple(map(content_digest, texts))
                    if not settled:
                        window.cuts[key] = Cut(self.reader.most_tokens, tuple(parts))
                        fresh.update(parts)
                window.cut_rows += len(parts) > 1
                window.cut_texts |= dict.fromkeys((digest, *parts), item.text_digest)
            window.add(item, parts, texts)
        if fresh:
            with self.project.open(write=False) as connection:
                more = known(connection, self.identity, fresh, self.prompts)
            held = window.held
            window.held = Known(
                {**held.prompts, **more.prompts}, {**held.refused, **more.refused}, held.floors
            )

    def _whole(self, parts: Sequence[str], held: Known) -> bool:
        """Whether every prompt was answered, or refused, on all of these."""
        return all(len(held.prompts.get(one, ())) == len(self.prompts) for one in parts)
