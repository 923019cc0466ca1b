"""How many labels a promise may count: what is left out, and why."""

from spinf_serve.evals.counting import counting
from spinf_serve.evals.data.labels import Label, now, put_labels
from spinf_serve.evals.project import create


def project_of(tmp_path, rows):
    """A project with a dataset `d` of (id, group, drawn, weight)."""
    project = create(tmp_path / "p.duckdb")
    with project.open(write=True) as connection:
        connection.execute("INSERT INTO dataset VALUES ('d', now()::TIMESTAMP, 's', '')")
        for number, (row_id, group, drawn, weight) in enumerate(rows, 1):
            connection.execute(
                "INSERT INTO item VALUES ('d', ?, ?, 't', 'x', NULL, '{}', MAP {}, ?, ?, ?, ?, NULL)",
                [row_id, number, group, "test" if number % 2 else "fit", drawn, weight],
            )
    return project


def said(row_id, value, who="ann", drawn=None, **more):
    return Label(row_id, "spam", value, who, now(), drawn, **more)


def count(project, split=None):
    with project.open(write=False) as connection:
        return counting(connection, "d", "spam", split)


def test_no_label_counts_where_none_is(tmp_path):
    found = count(project_of(tmp_path, [("a", None, "random", None)]))
    assert (found.counted, found.labelled, found.left_out) == (0, 0, ())


def test_each_reason_leaves_its_rows_out(tmp_path):
    rows = [
        ("a", None, "random", None),
        ("b", None, "random", None),
        ("c", "g", "random", None),
        ("d", "g", "random", None),
        ("e", None, "import", None),
        ("f", None, "random", None),
        ("g", None, "random", None),
        ("h", None, "random", None),
    ]
    project = project_of(tmp_path, rows)
    labels = [said(one, "yes") for one in "acde"] + [said("b", "no"), said("f", "unsure")]
    labels += [said("g", "yes"), said("g", "no", "bob"), said("h", "yes", drawn="queue")]
    put_labels(project, "d", labels)
    found = count(project)
    assert dict(found.values) == {"yes": 2, "no": 1}
    assert (found.labelled, found.unsure, found.disputed, found.chosen) == (6, 1, 1, 1)
    assert len(found.left_out) == 2
    assert found.left_out[0].startswith("2 rows were not drawn")
    assert found.left_out[1].startswith("1 row ") and "group" in found.left_out[1]


def test_a_row_that_is_met_by_chance_afterwards_counts(tmp_path):
    project = project_of(tmp_path, [("a", None, "random", None)])
    put_labels(project, "d", [said("a", "yes", drawn="queue")])
    assert count(project).counted == 0
    put_labels(project, "d", [said("a", "yes")])
    assert count(project).counted == 1


def test_weights_count_and_splits_are_apart(tmp_path):
    project = project_of(tmp_path, [("a", None, "import", 2.0), ("b", None, "import", 2.0)])
    put_labels(project, "d", [said("a", "yes"), said("b", "no")])
    assert dict(count(project).values) == {"yes": 1, "no": 1}
    assert dict(count(project, "test").values) == {"yes": 1}
