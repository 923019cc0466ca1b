"""Labels: several annotators, what holds then, and adjudication."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from spinf_serve.evals.data.columns import Columns, Origin
from spinf_serve.evals.data.importing import import_rows
from spinf_serve.evals.data.label_files import read_labels, value_of
from spinf_serve.evals.data.labels import Label, annotations, disagreements, put_labels
from spinf_serve.evals.data.overview import standing
from spinf_serve.evals.data.readers import Source
from spinf_serve.evals.data.rows import data_digest, rows
from spinf_serve.evals.project import create
from spinf_serve.packs.errors import Unusable

AT = datetime(2026, 1, 1)


@pytest.fixture
def project(tmp_path):
    made = create(tmp_path / "p.duckdb")
    path = tmp_path / "a.csv"
    path.write_text("id,text\n" + "".join(f"r{n},this is text {n * 7919}\n" for n in range(4)))
    import_rows(made, "d", Source(path), Columns("text", "id"), Origin())
    return made


def label(row_id, value, annotator, minutes=0, **more):
    return Label(row_id, "t", value, annotator, AT + timedelta(minutes=minutes), "random", **more)


def held(project):
    return [row.labels.get("t", row.classes.get("t")) for row in rows(project, "d")]


def test_agreement_holds_and_disagreement_is_listed(project):
    put_labels(project, "d", [
        label("r0", "yes", "ann"), label("r0", "yes", "bob"),
        label("r1", "yes", "ann"), label("r1", "no", "bob"),
        label("r2", "unsure", "ann"), label("r2", "no", "bob"),
        label("r3", "unsure", "ann"),
    ])  # fmt: skip
    assert held(project) == [True, None, None, None]
    found = disagreements(project, "d")
    assert [(one.row_id, one.target, one.said) for one in found] == [
        ("r1", "t", (("ann", "yes"), ("bob", "no"))),
        ("r2", "t", (("ann", "unsure"), ("bob", "no"))),
    ]


def test_the_last_adjudication_wins(project):
    put_labels(project, "d", [label("r1", "yes", "ann"), label("r1", "no", "bob")])
    put_labels(project, "d", [label("r1", "no", "cat", 1, adjudicated=True)])
    assert held(project)[1] is False
    assert disagreements(project, "d") == []
    put_labels(project, "d", [label("r1", "yes", "dan", 2, adjudicated=True)])
    assert held(project)[1] is True
    # Also where all the others agree, and over a later label that adjudicates nothing.
    put_labels(project, "d", [label("r1", "no", "ann", 3), label("r1", "no", "bob", 3)])
    assert held(project)[1] is True


def test_an_annotator_s_label_is_replaced_and_others_stay(project):
    before = data_digest(project, "d")
    put_labels(project, "d", [label("r0", "yes", "ann"), label("r0", "no", "bob")])
    put_labels(
        project, "d", [label("r0", "yes", "bob"), label("r0", "no", "bob", score_visible=True)]
    )
    found = list(annotations(project, "d", "t"))
    assert found == [
        label("r0", "yes", "ann"),
        label("r0", "no", "bob", score_visible=True),
    ]
    assert list(annotations(project, "d", "t", annotators=["ann"])) == found[:1]
    assert data_digest(project, "d") != before


def test_rows_that_are_not_there_keep_all_out(project):
    with pytest.raises(Unusable, match=r"2 of the rows are not in dataset 'd': 'x', 'y'; no label"):
        put_labels(
            project, "d", [label("r0", "yes", "a"), label("x", "no", "a"), label("y", "no", "a")]
        )
    with pytest.raises(Unusable, match="there is no dataset 'e' in the project; it has d"):
        put_labels(project, "e", [label("r0", "yes", "a")])
    assert held(project) == [None] * 4
    put_labels(project, "d", [])


def test_labels_from_a_file(project, tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("id,target,value,who\nr0,t,TRUE,ann\nr0,t,0,bob\nr1,t,,ann\nr2,t,unsure,ann\n")
    labels = read_labels(Source(path), Origin("x", "queue"), annotator="who")
    assert [(one.row_id, one.value, one.annotator, one.drawn) for one in labels] == [
        ("r0", "yes", "ann", "queue"), ("r0", "no", "bob", "queue"), ("r2", "unsure", "ann", "queue")
    ]  # fmt: skip
    put_labels(project, "d", labels)
    assert [one.row_id for one in disagreements(project, "d")] == ["r0"]
    assert {one.annotator for one in read_labels(Source(path), Origin("x"))} == {"x"}
    path.write_text("id,target,value\nr0,t,yes\nr1,t,perhaps\n")
    with pytest.raises(Unusable, match=r"labels.csv, line 3: 'perhaps' is no label"):
        read_labels(Source(path), Origin())
    assert read_labels(Source(path), Origin(), classes=True)[1].value == "perhaps"
    path.write_text("id,target,value\n,t,yes\n")
    with pytest.raises(Unusable, match="line 2: column 'id' is blank"):
        read_labels(Source(path), Origin())


def test_classes_resolve_like_words(project):
    put_labels(project, "d", [
        label("r0", "billing", "ann"), label("r0", "billing", "bob"),
        label("r1", "billing", "ann"), label("r1", "Billing", "bob"),
    ])  # fmt: skip
    assert held(project) == ["billing", None, None, None]
    with pytest.raises(Unusable, match="no label"):
        value_of("billing", classes=False)
    with pytest.raises(Unusable, match="no label"):
        value_of(" ", classes=True)


def test_a_label_of_one_target_leaves_another(project):
    other = replace(label("r0", "no", "ann"), target="u")
    put_labels(project, "d", [label("r0", "yes", "ann"), other])
    assert next(rows(project, "d")).labels == {"t": True, "u": False}


@pytest.mark.parametrize(
    ("row", "labels", "chosen"),
    [
        ("random", ["random"], False),
        ("random", ["queue"], True),
        ("random", ["import"], True),
        ("random", ["random", "queue"], False),
        ("random", [None], False),
        ("queue", ["queue"], False),
        ("import", ["import"], False),
        ("import", ["queue"], True),
    ],
)
def test_a_row_that_was_chosen_for_its_label_says_so(project, row, labels, chosen):
    before = data_digest(project, "d")
    with project.open(write=True) as connection:
        connection.execute("UPDATE item SET drawn = ?", [row])
    drawn = data_digest(project, "d")
    put_labels(project, "d", [
        Label("r1", "t", "yes", f"one{place}", AT, how) for place, how in enumerate(labels)
    ])  # fmt: skip
    found = {one.id: one for one in rows(project, "d")}
    assert found["r1"].labels == {"t": True}
    assert found["r1"].chosen == (frozenset("t") if chosen else frozenset())
    assert not found["r0"].chosen
    assert standing(project, "d").chosen == ({"t": 1} if chosen else {})
    # What may be promised on the rows is another thing then.
    as_drawn = data_digest(project, "d")
    put_labels(project, "d", [Label("r1", "t", "yes", "one0", AT, "random")])
    assert (data_digest(project, "d") != as_drawn) is chosen
    assert (before == drawn) is (row == "import")


def test_annotators_are_compared_on_the_rows_that_both_labelled(project):
    said = {"ann": ["yes", "no", "yes", "unsure"], "bob": ["yes", "no", "no", "no"]}
    put_labels(project, "d", [
        label(f"r{n}", value, who) for who, values in said.items() for n, value in enumerate(values)
    ])  # fmt: skip
    put_labels(project, "d", [label("r2", "yes", "cat", adjudicated=True)])
    (found,) = standing(project, "d").agreements
    assert (found.target, found.annotators) == ("t", ("ann", "bob"))
    # By hand: 2 of 3 agree; by chance (2/3)(1/3) + (1/3)(2/3) = 4/9 would; (2/3 - 4/9) / (5/9).
    assert (found.rows, found.same) == (3, 2)
    assert found.kappa == pytest.approx(0.4)
