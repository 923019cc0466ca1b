"""Texts and slices of some rows of a dataset, for lists that name rows."""

from collections.abc import Sequence

from spinf_serve.workbench.desk import Desk


def texts_of(desk: Desk, dataset: str, row_ids: Sequence[str]) -> dict[str, str]:
    """Row -> its text, or the reference of a row about a file; rows that are gone are left out."""
    with desk.project.open(write=False) as connection:
        found = connection.execute(
            "SELECT row_id, coalesce(media, text) FROM item WHERE dataset = $1"
            " AND row_id IN (SELECT unnest($2::VARCHAR[]))",
            [dataset, list(row_ids)],
        ).fetchall()
    return dict(found)
