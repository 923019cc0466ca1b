"""What is asked of a dataset's rows, and by which digests it is kept.

A row's content is its text with the pack's context around it; a question's prompts are its filled
templates. An edited question has other digests, so that it is simply not found in the store. Asks
nobody and keeps nothing.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import duckdb

from spinf_serve.evals.score_tables import Cut, Identity, Whole, column, cuts_of
from spinf_serve.packs.digests import content_digest, prompt_digest
from spinf_serve.packs.errors import Refused, Unusable
from spinf_serve.packs.files import shown
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.present import halves
from spinf_serve.packs.question import Question

PROMPT_STYLE = "plain"
"""How models want a text put before them; the one style there is."""

WINDOW_ROWS = 10_000
"""Rows that are read in one operation."""

_OF_SPLIT = "dataset = $1 AND ($2::VARCHAR IS NULL OR split = $2)"


@dataclass(frozen=True, slots=True)
class Item:
    """A row as far as it is asked about.

    Attributes:
        number: its place in the dataset, from 1.
        id: its id.
        content: its text with the pack's context around it; the refusal where that cannot be made.
        text_digest: of its text alone.
        context: characters of the content before and after the text.
    """

    number: int
    id: str
    content: str | Refused
    text_digest: str
    context: tuple[int, int] = (0, 0)

    @property
    def digest(self) -> str | None:
        """Of its content."""
        return content_digest(self.content) if isinstance(self.content, str) else None

    def halved(self) -> tuple[str, str, str]:
        """The text, and what the context puts before and after it; of a row that is presented."""
        content = str(self.content)
        before, after = self.context
        end = len(content) - after
        return content[before:end], content[:before], content[end:]

    def parts(self, digest: str, cuts: Mapping[Whole, Cut]) -> tuple[str, ...]:
        """Digests of what is read for it: its own, or those of the chunks it was cut in.

        Args:
            digest: of its content.
            cuts: those that count for the pack, see `cuts_for`.
        """
        cut = cuts.get((digest, *self.context))
        return (digest,) if cut is None else cut.parts


def prompts(questions: Sequence[Question]) -> dict[str, tuple[int, int]]:
    """Digest of every filled template -> its question and its place there.

    Templates that two questions share are one; options in another order make it another.
    """
    found: dict[str, tuple[int, int]] = {}
    for number, question in enumerate(questions):
        for place in range(len(question.prompts)):
            found.setdefault(digest_of(question, place), (number, place))
    return found


def digest_of(question: Question, place: int = 0) -> str:
    """Digest of one filled template of a question, by which its scores are kept."""
    return prompt_digest(
        question.prompts[place].text, question.options, question.case_insensitive, PROMPT_STYLE
    )


def asked_about(pack: Pack, wanted: Collection[str], *, floors: bool) -> tuple[Question, ...]:
    """The pack's questions cut down to some of their filled templates.

    Args:
        wanted: digests of prompts of the pack; answers come in the order of `in_order`.
        floors: whether their floors are asked for too.
    """
    known_prompts = prompts(pack.questions)
    places: dict[int, list[int]] = {}
    for prompt in in_order(known_prompts, wanted):
        number, place = known_prompts[prompt]
        places.setdefault(number, []).append(place)
    return tuple(
        replace(
            question := pack.questions[number],
            prompts=tuple(question.prompts[place] for place in chosen),
            empty_floor=floors,
        )
        for number, chosen in places.items()
    )


def in_order(places: Mapping[str, tuple[int, int]], wanted: Collection[str]) -> list[str]:
    """Digests in the order in which `asked_about` asks; `places` as from `prompts`."""
    return sorted(wanted, key=places.__getitem__)


def count_rows(connection: duckdb.DuckDBPyConnection, dataset: str, split: str | None) -> int:
    """How many rows a dataset has, of one split or all. Raises `Unusable` when it is not there."""
    if not column(connection, "SELECT name FROM dataset WHERE name = $1", [dataset]):
        names = column(connection, "SELECT name FROM dataset ORDER BY name", [])
        has = f"it has {', '.join(names)}" if names else "it has none: import one"
        raise Unusable(f"the project has no dataset {dataset!r}; {has}")
    query = f"SELECT count(*) FROM item WHERE {_OF_SPLIT}"
    return int(column(connection, query, [dataset, split])[0])


def items(
    connection: duckdb.DuckDBPyConnection,
    dataset: str,
    pack: Pack,
    *,
    split: str | None = None,
    after: int = 0,
    count: int = WINDOW_ROWS,
) -> list[Item]:
    """The next rows of a dataset behind the row `after`, as a pack presents them."""
    query = (
        "SELECT number, row_id, text, context, parameters, content_digest, media FROM item"
        f" WHERE {_OF_SPLIT} AND number > $3 ORDER BY number LIMIT $4"
    )
    found = []
    for number, id, text, context, parameters, text_digest, media in connection.execute(
        query, [dataset, split, after, count]
    ).fetchall():
        if media is not None:
            found.append(Item(number, id, _no_media(media), text_digest))
            continue
        try:
            ahead, behind = halves(pack, context, json.loads(parameters))
        except Refused as refused:
            found.append(Item(number, id, refused, text_digest))
        else:
            lengths = len(ahead), len(behind)
            found.append(Item(number, id, ahead + text + behind, text_digest, lengths))
    return found


def _no_media(media: str) -> Refused:
    return Refused(
        "media_not_supported",
        f"the row is about the file {shown(media)}, and no model reads media here yet; it stays in"
        " every denominator",
        "media",
    )


def cuts_for(
    connection: duckdb.DuckDBPyConnection,
    identity: Identity,
    pack: Pack,
    contents: Collection[str],
) -> dict[Whole, Cut]:
    """How long contents were read for a pack, by digests; none for a pack that refuses them."""
    return {} if pack.on_long == "refuse" else cuts_of(connection, identity, contents)


def by_options(pack: Pack, wanted: Mapping[str, tuple[int, int]]) -> dict[int, list[str]]:
    """Number of options -> digests of the prompts that have so many."""
    found: dict[int, list[str]] = {}
    for digest, (number, _) in wanted.items():
        found.setdefault(len(pack.questions[number].options), []).append(digest)
    return found
