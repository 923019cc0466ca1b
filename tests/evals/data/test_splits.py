"""Splits: groups stay whole, labels are balanced, and a seed gives the same split anywhere."""

import random

import pytest

from spinf_serve.evals.data.columns import Columns, Origin
from spinf_serve.evals.data.importing import import_rows
from spinf_serve.evals.data.overview import standing
from spinf_serve.evals.data.readers import Source
from spinf_serve.evals.data.rows import data_digest, rows
from spinf_serve.evals.data.splits import split_rows
from spinf_serve.evals.project import create
from spinf_serve.packs.errors import Unusable

SHARES = {"fit": 0.5, "cut": 0.3, "test": 0.2}


def made(tmp_path, lines, name="p"):
    project = create(tmp_path / f"{name}.duckdb")
    path = tmp_path / f"{name}.csv"
    path.write_text("id,text,g,t\n" + "".join(f"{','.join(map(str, line))}\n" for line in lines))
    columns = Columns("text", "id", {"t": "t"}, group="g")
    import_rows(project, "d", Source(path), columns, Origin())
    return project


def text(number):
    return " ".join(str((number + 1) * prime % 100_003) for prime in (7919, 104_729, 15_485_863))


@pytest.fixture
def lines():
    """400 rows: 12 positives alone, and 100 in twenty groups of five."""
    alone = [(n, text(n), "", "yes" if n < 12 else "no") for n in range(300)]
    return alone + [
        (n, text(n), f"g{n // 5}", "yes" if n % 10 < 5 else "") for n in range(300, 400)
    ]


def splits(project):
    return {row.id: row.split for row in rows(project, "d")}


def test_groups_stay_whole_and_labels_are_balanced(tmp_path, lines):
    project = made(tmp_path, lines)
    parts = {part.name: part for part in split_rows(project, "d", SHARES)}
    groups: dict[str, set[str | None]] = {}
    for row in rows(project, "d"):
        if row.group is not None:
            groups.setdefault(row.group, set()).add(row.split)
    assert len(groups) == 20
    assert all(len(found) == 1 for found in groups.values())
    for name, share in SHARES.items():
        assert abs(parts[name].rows - share * 400) <= 5
        assert abs(parts[name].held["t"] - share * 62) <= 6
    assert sum(part.groups for part in parts.values()) == 320
    assert standing(project, "d").apart == 0


def test_rare_positives_are_in_every_part(tmp_path):
    lines = [(n, text(n), "", "yes" if n < 12 else "no") for n in range(1_000)]
    project = made(tmp_path, lines)
    for seed in range(3):
        held = [part.held["t"] for part in split_rows(project, "d", SHARES, seed=seed)]
        assert held == [pytest.approx(12 * share, abs=1) for share in (0.3, 0.5, 0.2)]


def test_the_same_seed_gives_the_same_split_in_any_order(tmp_path, lines):
    one = made(tmp_path, lines, "one")
    shuffled = random.Random(1).sample(lines, len(lines))
    other = made(tmp_path, shuffled, "other")
    for project in (one, other):
        split_rows(project, "d", SHARES, seed=5)
    assert splits(one) == splits(other)
    assert data_digest(one, "d") == data_digest(other, "d")
    before = splits(one)
    split_rows(one, "d", SHARES, seed=6)
    assert sum(before[id] != split for id, split in splits(one).items()) > 50
    split_rows(one, "d", SHARES, seed=5)
    assert splits(one) == before


def test_near_duplicates_never_lie_in_two_parts(tmp_path):
    lines = [(n, text(n // 2) + ("" if n % 2 else " "), "", "no") for n in range(200)]
    project = made(tmp_path, lines)
    split_rows(project, "d", {"fit": 0.5, "test": 0.5})
    found = splits(project)
    assert all(found[str(n)] == found[str(n + 1)] for n in range(0, 200, 2))
    assert set(found.values()) == {"fit", "test"}


def test_a_group_that_grows_into_two_parts_is_told(tmp_path, lines):
    project = made(tmp_path, [line for line in lines if line[0] < 300])
    split_rows(project, "d", SHARES)
    found = splits(project)
    one, other = "0", next(id for id, split in found.items() if split != found["0"])
    texts = {row.id: row.text for row in rows(project, "d")}
    path = tmp_path / "more.csv"
    path.write_text(f"id,text,g\nx,{texts[one]},both\ny,{texts[other]},both\n")
    columns = Columns("text", "id", group="g")
    report = import_rows(project, "d", Source(path), columns, Origin(), append=True)
    assert any(
        "1 groups of rows that belong together lie in more" in one for one in report.warnings
    )
    assert standing(project, "d").apart == 1
    split_rows(project, "d", SHARES)
    assert standing(project, "d").apart == 0


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ({"fit": 1.0}, "two parts or more"),
        ({"fit": 0.5, "test": 0.4}, "add up to 0.9"),
        ({"fit": 1.5, "test": -0.5}, "share -0.5"),
        ({"fit": float("nan"), "test": 0.5}, "share nan"),
        ({" ": 0.5, "test": 0.5}, "part ' '"),
    ],
)
def test_shares_that_are_none_are_refused(tmp_path, lines, shares, words):
    project = made(tmp_path, lines[:5])
    with pytest.raises(Unusable, match=words):
        split_rows(project, "d", shares)
    assert set(splits(project).values()) == {None}


def test_a_target_that_nobody_labelled_is_refused(tmp_path, lines):
    project = made(tmp_path, lines[:5])
    with pytest.raises(Unusable, match="nobody labelled 'u' in 'd'; labelled are t"):
        split_rows(project, "d", SHARES, by=["u"])
    with pytest.raises(Unusable, match="no dataset 'e'"):
        split_rows(project, "e", SHARES)
    assert sum(part.rows for part in split_rows(project, "d", SHARES, by=["t"])) == 5
