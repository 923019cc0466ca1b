"""Rows and scores out of a decision log, and that both sides mean the same tables."""

import sqlite3
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from spinf_serve.evals.data import decision_log as reader
from spinf_serve.evals.data.columns import Columns, Origin
from spinf_serve.evals.data.decision_log import LogWanted, log_scores, log_table, parameters_of
from spinf_serve.evals.data.importing import import_rows
from spinf_serve.evals.data.readers import Source
from spinf_serve.evals.data.rows import rows
from spinf_serve.evals.project import Project, create
from spinf_serve.packs.errors import Unusable
from spinf_serve.server.decision_log import tables
from tests.support.decision_logs import IDENTITY, decided, entry, written

DAY = 86_400
START = 1_800_000_000


def found(path, **wanted) -> list[dict[str, object]]:
    table = log_table(path, LogWanted(**wanted))
    return [dict(zip(table.columns, cells, strict=True)) for _, cells in table.lines]


@pytest.fixture
def log(tmp_path):
    other = decided({"toxic": 0.9}, pack="demo/other", digest="e" * 64, context="forum")
    return written(
        tmp_path / "log.db",
        [
            entry("late", decided=(decided({"anger": 0.7}),), parameters={"shop": "Bolt"}),
            entry("fine", decided=(decided({"anger": 0.2}),), at=START + DAY, rate=0.5),
            entry("both", decided=(decided({"anger": 0.1}), other), at=START + 2 * DAY),
            entry("bare", text=None, decided=(decided({"anger": 0.3}),)),
            entry("rest", drawn=False, decided=(decided({"anger": 0.6}),)),
            entry("own questions", endpoint=None),
        ],
    )


def test_both_sides_speak_of_one_kind_of_file(log, tmp_path):
    assert reader.VERSION == tables.VERSION
    assert reader.is_decision_log(log) and tables.is_decision_log(log)
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE asked (x)")
    for path in (tmp_path / "other.db", tmp_path / "none.db", tmp_path):
        assert not reader.is_decision_log(path) and not tables.is_decision_log(path)


def test_the_random_sample_has_the_weight_of_its_rate(log):
    sample = found(log)
    assert [one["text"] for one in sample] == ["late", "own questions", "fine", "both"]
    assert [float(str(one["weight"])) for one in sample] == [4.0, 4.0, 2.0, 4.0]
    late, own, fine, _ = sample
    assert str(late["id"]).startswith("req-") and str(late["id"]).endswith("/0")
    assert (late["context"], late["pack"], late["decision"]) == ("email", "demo/support", "unsafe")
    assert (late["parameter.shop"], fine["parameter.shop"]) == ("Bolt", None)
    assert (late["endpoint"], late["caller"], late["model"]) == ("inbox", "shop", IDENTITY.served)
    assert (own["context"], own["pack"], own["decision"], own["endpoint"]) == (None,) * 4
    assert late["day"] == "2027-01-15" and fine["day"] == "2027-01-16"
    assert parameters_of(log, LogWanted()) == ("shop",)
    assert log_table(log, LogWanted()).notes == ("1 of 5 entries have no text and are left out",)


def test_other_rows_have_no_weight(log):
    assert [one["text"] for one in found(log, rows="queue")] == ["late", "rest", "both"]
    everything = found(log, rows="all")
    assert len(everything) == 5
    assert {one["weight"] for one in everything} == {None}


def test_rows_can_be_those_of_a_pack_and_of_a_time(log):
    (both,) = found(log, pack="demo/other")
    assert (both["text"], both["context"], both["decision"]) == ("both", "forum", "unsafe")
    assert [one["context"] for one in found(log, pack="demo/support")] == ["email"] * 3
    assert [one["text"] for one in found(log, since=START + DAY, until=START + 2 * DAY)] == ["fine"]
    assert [one["text"] for one in found(log, rows="queue", pack="demo/support")] == [
        "late",
        "rest",
    ]


def test_a_log_without_texts_says_how_to_keep_them(tmp_path):
    path = written(tmp_path / "log.db", [entry("a", text=None), entry("b", text=None)])
    with pytest.raises(Unusable, match=r"none of its 2 entries of the random sample has its text;"):
        log_table(path, LogWanted())
    with pytest.raises(Unusable, match="no entries of the random sample that demo/none was asked"):
        log_table(path, LogWanted(pack="demo/none"))


def test_what_is_no_log_or_a_newer_one_is_refused(log, tmp_path):
    (tmp_path / "x.db").write_bytes(b"x" * 200)
    with pytest.raises(Unusable, match="is no decision log"):
        log_table(tmp_path / "x.db", LogWanted())
    with closing(sqlite3.connect(log)) as connection:
        connection.execute("PRAGMA user_version = 7")
    with pytest.raises(Unusable, match="has tables of version 7"):
        log_table(log, LogWanted())


def test_a_damaged_log_is_refused_in_words(log):
    data = log.read_bytes()
    log.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
    with pytest.raises(Unusable, match=r"decision log .*log\.db: "):
        found(log)


def test_a_log_is_imported_as_a_random_sample(log, tmp_path):
    project = Project(tmp_path / "p.duckdb")
    create(project.path)
    columns = Columns(
        text="text",
        id="id",
        context="context",
        weight="weight",
        slices=("endpoint",),
        parameters={"shop": "parameter.shop"},
    )
    source = Source(log, log=LogWanted())
    report = import_rows(project, "november", source, columns, Origin(drawn="random"))
    assert (report.rows_taken, report.refused_count, report.encoding) == (4, 0, "decision log")
    taken = {one.text: one for one in rows(project, "november")}
    assert {one.drawn for one in taken.values()} == {"random"}
    assert taken["fine"].weight == 2.0 and taken["late"].weight == 4.0
    assert taken["late"].parameters == {"shop": "Bolt"} and taken["late"].context == "email"
    assert taken["late"].slices == {"endpoint": "inbox"}


def test_scores_of_the_sample_count_a_content_once(tmp_path):
    said: list[tuple[str, float, dict[str, Any]]] = [
        ("a", 0.1, {}),
        ("b", 0.2, {}),
        ("a", 0.1, {}),
        ("a", 0.3, {"parameters": {"shop": "Bolt"}}),
        ("not drawn", 0.9, {"drawn": False}),
    ]
    path = written(
        tmp_path / "log.db",
        [entry(text, decided=(decided({"anger": p}),), **more) for text, p, more in said],
    )
    scores = log_scores(path, LogWanted(pack="demo/support"))
    assert (scores.entries, scores.contents) == (4, 3)
    assert scores.scores["anger"].tolist() == [0.1, 0.2, 0.3]
    assert scores.thresholds == {"anger": 0.5}
    assert (scores.models, scores.pack_digests) == (("a" * 64,), ("c" * 64,))
    assert scores.rates == (0.25,)
    with pytest.raises(Unusable, match="demo/none decided on no entry of the random sample"):
        log_scores(path, LogWanted(pack="demo/none"))
    early = LogWanted(pack="demo/support", until=86_400)
    with pytest.raises(Unusable, match="random sample before 1970-01-02 00:00:00 UTC; see"):
        log_scores(path, early)


def test_full_precision_survives_the_log(tmp_path):
    values = np.random.default_rng(0).random(50)
    path = written(
        tmp_path / "log.db",
        [
            entry(f"content {n}", decided=(decided({"anger": float(p)}),))
            for n, p in enumerate(values)
        ],
    )
    kept = log_scores(path, LogWanted(pack="demo/support")).scores["anger"]
    assert np.array_equal(kept, values)
