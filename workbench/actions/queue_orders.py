"""In what order a queue has its rows: by chance, by score, or where something disagrees.

Statements over a project's tables and a view of its scores; knows no file and no screen.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from spinf_serve.evals.data.labels import CHOSEN, RESOLVED
from spinf_serve.evals.questions import YES_AT, target_of
from spinf_serve.evals.scored import Place
from spinf_serve.packs.pack import Pack
from spinf_serve.workbench.view_file import column_of, options_kept
from spinf_serve.workbench.views import View, quoted

Order = Literal["random", "second", "uncertainty", "lift", "conflict"]

ORDERS: Final[Mapping[Order, tuple[str, str]]] = {
    "random": (
        "At random",
        (
            "Rows without a label that counts, in an order that chance made. Labels of a random sample"
            " count for a promise."
        ),
    ),
    "second": (
        "Second look",
        (
            "Rows that somebody else has labelled, in an order that chance made. Their answers stay"
            " hidden, so that the page can tell how far you agree."
        ),
    ),
    "uncertainty": (
        "Least certain first",
        "Unlabelled rows whose score is nearest to the cut: these teach the most.",
    ),
    "lift": (
        "Most likely first",
        (
            "Unlabelled rows that stand out most from an empty text: where something is rare, this"
            " finds it."
        ),
    ),
    "conflict": (
        "Conflicts",
        (
            "Rows whose annotators differ, then rows whose label and score say the opposite. What you"
            " answer settles them. Look at others too: mending only these flatters the score."
        ),
    ),
}
"""Order -> its title, and what it is good for."""

BY_SCORE: Final = ("uncertainty", "lift")
"""Orders that need scores; `conflict` uses them where they are there."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """What orders rows by score: SQL over the columns of a view.

    Attributes:
        score: the score itself, 0 to 1, for people.
        doubt: smallest where it is least certain.
        lift: largest where it stands out most.
        against: where the label, `item.value`, says the opposite; None where no score can.
        cut: of the score.
    """

    score: str
    doubt: str
    lift: str
    against: str | None
    cut: float | None


def ranked(pack: Pack, view: View, target: str) -> Ranked | None:
    """How a view orders rows for a target; None when it has no score for it."""
    if target in pack.categories:
        if not view.fitted:
            return None
        score, flagged = quoted(f"score:{target}"), quoted(f"flagged:{target}")
        cut = (view.about["thresholds"] or {}).get(target)
        against = f"((item.value = 'yes' AND NOT {flagged}) OR (item.value = 'no' AND {flagged}))"
        return Ranked(
            score,
            f"abs({score} - {0.5 if cut is None else float(cut)!r})",
            quoted(f"macro:{target}"),
            None if cut is None else against,
            cut,
        )
    for question in pack.questions:
        for index, prompt in enumerate(question.prompts):
            if target_of(question.id, prompt.values.get("F")) == target:
                options = [option.strip() for option in question.options]
                return _of_question((question.id, index), options, view)
    return None


def _of_question(place: Place, options: list[str], view: View) -> Ranked:
    count = len(options)
    floor = view.floor(place) or [0.0] * count
    p = [quoted(column_of("p", place, option)) for option in options_kept(count)]
    texts = ["'" + option.replace("'", "''") + "'" for option in options]
    if count == 2:
        said = f"CASE WHEN {p[0]} >= {YES_AT!r} THEN {texts[0]} ELSE {texts[1]} END"
        score, doubt, lift = p[0], f"abs({p[0]} - {YES_AT!r})", f"{p[0]} - {floor[0]!r}"
    else:
        score = doubt = f"greatest({', '.join(p)})"
        pairs = zip(p, texts, strict=True)
        whens = " ".join(f"WHEN {one} = {score} THEN {text}" for one, text in pairs)
        said = f"CASE {whens} END"
        lifts = [f"{one} - {at!r}" for one, at in zip(p, floor, strict=True)]
        lift = f"greatest({', '.join(lifts)})"
    against = f"(item.value IN ({', '.join(texts)}) AND item.value <> {said})"
    return Ranked(score, doubt, lift, against, YES_AT if count == 2 else None)


def query(order: Order, by_score: Ranked | None, view: View | None) -> str:
    """SQL of number, row_id, in_it, first, key, score: sorted by `first`, then `key`."""
    held = RESOLVED.replace(
        "FROM label", "FROM label WHERE dataset = $dataset AND target = $target"
    )
    rows = (
        f"SELECT number, row_id, value, {CHOSEN} AS chosen, target IS NOT NULL AS labelled"
        f" FROM item LEFT JOIN ({held}) AS said USING (dataset, row_id)"
        " WHERE item.dataset = $dataset AND ($split IS NULL OR split = $split)"
    )
    chance = "md5($seed || row_id)"
    if order == "random":
        # Also those that were labelled out of a queue: without them the rest is no random sample.
        return (
            f"SELECT number, row_id, true AS in_it, 0 AS first, {chance} AS key, NULL::DOUBLE AS score"
            f" FROM ({rows}) WHERE NOT labelled OR chosen"
        )
    if order == "second":
        return (
            f"SELECT number, row_id, true AS in_it, 0 AS first, {chance} AS key, NULL::DOUBLE AS score"
            f" FROM ({rows}) WHERE labelled AND row_id NOT IN (SELECT row_id FROM label WHERE"
            " dataset = $dataset AND target = $target AND (annotator = $annotator OR adjudicated))"
        )
    scored = f"({rows}) AS item LEFT JOIN {view.sql} AS view USING (row_id)" if view else ""
    if order == "conflict":
        if by_score is None or by_score.against is None:
            return (
                "SELECT number, row_id, true AS in_it, 0 AS first, 0 AS key, NULL::DOUBLE AS score"
                f" FROM ({rows}) WHERE labelled AND value IS NULL"
            )
        return (
            "SELECT item.number, row_id, true AS in_it, CASE WHEN item.value IS NULL THEN 0 ELSE 1 END"
            f" AS first, -{by_score.doubt} AS key, {by_score.score} AS score FROM {scored}"
            f" WHERE labelled AND (item.value IS NULL OR {by_score.against})"
        )
    assert by_score is not None
    key = by_score.doubt if order == "uncertainty" else f"-({by_score.lift})"
    return (
        f"SELECT item.number, row_id, {key} IS NOT NULL AS in_it, 0 AS first, {key} AS key,"
        f" {by_score.score} AS score FROM {scored} WHERE NOT labelled"
    )


def nothing(order: Order, target: str, left_out: int) -> str:
    if left_out:
        return (
            f"none of the {left_out:,} unlabelled rows has a score of {target}; ask a model on the"
            " page Run first"
        )
    return {
        "random": f"every row has a label of {target} that counts; import more rows to go on",
        "second": f"nobody else has labelled a row for {target} that you have not",
        "conflict": f"no annotators differ on {target}, and no label says the opposite of its score",
    }.get(order, f"every row has a label of {target}; import more rows to go on")
