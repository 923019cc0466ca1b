"""One row of the page Scores: all its answers, categories and decision; its label fixed and undone.

Labels go through `spinf_serve.workbench.actions.labelling`; what was fixed is remembered on disk, so
that it can be undone after a reload. Knows no screen.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from spinf_serve.packs.atomic import locked, write_beside
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.pack import Pack
from spinf_serve.workbench.actions.labelling import Given, as_json, correct, of_json, undo
from spinf_serve.workbench.desk import LOCK_SECONDS, Desk, key_of
from spinf_serve.workbench.view_file import column_of, options_kept
from spinf_serve.workbench.views import View

MOST_UNDONE: Final = 50
"""Fixed labels of a user that can be undone."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a pack says of one row.

    Attributes:
        refused: error code of a row without a whole answer.
        chunks: in how many it was read.
        answers: an entry for each option: question, option, p, floor p, lift, residual.
        categories: an entry for each: category, score, threshold, flagged, band.
        unsafe, band, route, reason: the decision; None for a draft.
    """

    refused: str | None
    chunks: int
    answers: tuple[dict[str, Any], ...]
    categories: tuple[dict[str, Any], ...]
    unsafe: bool | None = None
    band: str | None = None
    route: str | None = None
    reason: str | None = None


def answered(view: View, pack: Pack, row_id: str) -> Answered | None:
    """What is known of a row; None when the view has no such row."""
    frame = view.frame("WHERE row_id = $1", params=[row_id])
    if not len(frame):
        return None
    line: dict[Any, Any] = {
        name: None if pd.isna(value) else value for name, value in frame.iloc[0].items()
    }
    answers = []
    for question in pack.questions:
        count = len(question.options)
        for index, prompt in enumerate(question.prompts):
            place = (question.id, index)
            floor = view.floor(place)
            value = prompt.values.get("F")
            name = question.id if value is None else f"{question.id} [{value}]"
            shown = {option: line[column_of("p", place, option)] for option in options_kept(count)}
            if count == 2:
                shown[1] = None if shown[0] is None else 1.0 - shown[0]
            for option, p in shown.items():
                empty = None if floor is None else floor[option]
                answers.append(
                    {
                        "question": name,
                        "option": question.options[option].strip(),
                        "p": p,
                        "floor p": empty,
                        "lift": None if p is None or empty is None else p - empty,
                        "residual": line[column_of("residual", place)],
                    }
                )
    if not view.fitted:
        return Answered(line["refused"], int(line["chunks"]), tuple(answers), ())
    cuts = view.about["thresholds"]
    categories = tuple(
        {
            "id": id,
            "category": one.label or id,
            "score": line[f"score:{id}"],
            "threshold": cuts[id],
            "flagged": None if line[f"flagged:{id}"] is None else bool(line[f"flagged:{id}"]),
            "band": line[f"band:{id}"],
        }
        for id, one in pack.categories.items()
    )
    unsafe = None if line["unsafe"] is None else bool(line["unsafe"])
    return Answered(
        line["refused"],
        int(line["chunks"]),
        tuple(answers),
        categories,
        unsafe,
        line["band"],
        line["route"],
        line["reason"],
    )


def fix(
    desk: Desk, user: str, dataset: str, row_id: str, target: str, value: str, *, seen: str | None
) -> Given:
    """Set a row's label where its score was seen; it settles what others said.

    Arguments and errors as for `labelling.correct`.
    """
    given = correct(
        desk, user, dataset, row_id, target, value, annotator=user, score_visible=True, seen=seen
    )
    path = _path(desk, user, dataset)
    with locked(path, LOCK_SECONDS):
        write_beside(path, json.dumps([*_kept(desk, user, dataset), as_json(given)]).encode())
    return given


def last_fixed(desk: Desk, user: str, dataset: str) -> Given | None:
    """What a user fixed last and can undo."""
    kept = _kept(desk, user, dataset)
    return of_json(kept[-1]) if kept else None


def undo_last(desk: Desk, user: str, dataset: str) -> Given:
    """Undo that. Raises `Unusable`: there is nothing, or the label is another one by now."""
    path = _path(desk, user, dataset)
    with locked(path, LOCK_SECONDS):
        kept = _kept(desk, user, dataset)
        if not kept:
            raise Unusable("there is no label that you could undo")
        given = of_json(kept[-1])
        # Whether it can be undone or not: the one before it is next.
        write_beside(path, json.dumps(kept[:-1]).encode())
    undo(desk, user, dataset, given)
    return given


def _path(desk: Desk, user: str, dataset: str) -> Any:
    return desk.below("fixed") / f"{key_of(user, dataset)}.json"


def _kept(desk: Desk, user: str, dataset: str) -> list[dict[str, object]]:
    try:
        found = json.loads(_path(desk, user, dataset).read_bytes())
    except (OSError, ValueError):
        return []
    return found[-MOST_UNDONE:] if isinstance(found, list) else []
