"""How a dataset stands, now and by a job; rows page by page; shares as people write them."""

import io
import json

import pandas as pd
import pytest

from spinf_serve.evals.data.labels import Label, now, put_labels
from spinf_serve.evals.data.overview import datasets
from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench import jobs
from spinf_serve.workbench.actions import checks, importing, queues, rows, uploads
from spinf_serve.workbench.actions.importing import Plan
from spinf_serve.workbench.actions.rows import DISPUTED, NO_LABEL, SORTS, Filter
from spinf_serve.workbench.audit import events
from tests.workbench.data_desks import large

SECONDS = 120


@pytest.fixture
def desk(tmp_path):
    made = large(tmp_path / "p", 200)
    put_labels(
        made.project,
        "big",
        [Label("r10", "angry", "yes", "bob", now(), None), Label("r1", "other", "no", "bob", now(), None)],
    )  # fmt: skip
    with made.project.open(write=True) as connection:
        connection.execute(
            "UPDATE item SET content_digest = 'same', grp = 'near:r3' WHERE number BETWEEN 4 AND 6"
        )
        connection.execute(
            "UPDATE item SET split = CASE WHEN number <= 5 THEN 'fit' ELSE 'test' END WHERE number <= 6"
        )
    return made


def done(desk, kind, arguments):
    """What a job in a process of its own came to."""
    job = jobs.start(desk, "ann", kind, kind, arguments)
    job = jobs.wait(desk, job.id, SECONDS)
    assert job.state == "done", job.log()
    return job.result()


def test_a_job_finds_what_a_page_finds(desk):
    told = json.loads(json.dumps(done(desk, "check", {"dataset": "big", "state": [1, 2]})))
    expected = checks.checked(desk.project, "big"), checks.together(desk.project, "big")
    assert checks.of_job(told) == expected
    standing, together = expected
    assert [one.row_id for one in standing.disagreements] == ["r10"]
    assert standing.apart == 1
    assert (together.same, together.same_rows, together.groups, together.near) == (1, 2, 1, 1)


def test_doubles_and_groups_lead_to_their_rows(desk):
    (double,) = checks.doubles(desk.project, "big", 0, 10).to_dict("records")
    assert double["rows"] == 3
    assert rows.ids_of(desk.project, "big", Filter(digest=double["digest"]), 10) == [
        "r3",
        "r4",
        "r5",
    ]
    (group,) = checks.groups(desk.project, "big", 0, 10).to_dict("records")
    assert (group["group"], group["rows"], group["splits"]) == ("near:r3", 3, "fit, test")
    assert rows.count(desk.project, "big", Filter(group="near:r3")) == 3
    assert len(checks.groups(desk.project, "big", 1, 10)) == 0


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Filter(), 200),
        (Filter("NUMBER 19"), 11),
        (Filter("100%"), 0),
        (Filter("r_"), 0),
        (Filter(target="angry", value="yes"), 10),
        (Filter(target="angry", value=DISPUTED), 1),
        (Filter(target="angry", value=NO_LABEL), 180),
        (Filter(slice=("language", "de")), 67),
        (Filter(split=""), 194),
        (Filter(split="fit", word="number 3"), 1),
        (Filter(drawn="queue"), 0),
    ],
)
def test_a_filter_leaves_what_it_says_and_pages_are_apart(desk, wanted, expected):
    assert rows.count(desk.project, "big", wanted) == expected
    found = []
    for first in range(0, 210, 30):
        found += rows.page(desk.project, "big", wanted, first, 30, ["angry"])["id"].tolist()
    assert found == rows.ids_of(desk.project, "big", wanted, 1000)
    assert len(set(found)) == expected
    if found:
        assert rows.position(desk.project, "big", wanted, found[-1]) == expected - 1
    assert rows.position(desk.project, "big", wanted, "gone") is None


@pytest.mark.parametrize("sort", SORTS)
def test_backwards_is_the_other_way_round_where_nothing_is_blank(desk, sort):
    forth = rows.ids_of(desk.project, "big", Filter(split="fit", sort=sort), 100)
    back = rows.ids_of(desk.project, "big", Filter(split="fit", sort=sort, descending=True), 100)
    if sort == "group":
        assert set(back[:2]) == {"r3", "r4"}
    else:
        assert back == forth[::-1]


def test_what_holds_stands_beside_the_text(desk):
    data = rows.page(desk.project, "big", Filter(), 0, 20, ["angry", "other"])
    by_row = data.set_index("id")
    assert by_row.loc["r0", "angry"] == "yes" and by_row.loc["r10", "angry"] == DISPUTED
    assert by_row.loc["r1", "other"] == "no" and pd.isna(by_row.loc["r2", "other"])


def test_rows_are_deleted_and_exported_by_jobs_too(desk):
    found = done(desk, "delete", {"dataset": "big", "ids": ["r1", "r2"], "user": "ann"})
    assert found == {"rows": 2} and datasets(desk.project)[0].rows == 198
    assert [one.action for one in events(desk)][:2] == ["delete rows", "start delete"]
    given = {"dataset": "big", "what": "labels", "ending": "csv", "text": False, "user": "ann"}
    found = done(desk, "export", given)
    lines = (desk.folder / found["file"]).read_text().splitlines()
    assert len(lines) == found["rows"] + 1 == 22
    assert "message number" not in "".join(lines)
    assert rows.export(desk, "big", "csv", text=True, labels=False).count(b"\n") == 199
    assert list(desk.below("exports").iterdir()) == []


def test_more_rows_than_are_deleted_at_once_are_refused():
    with pytest.raises(Unusable, match="10,000"):
        rows.check_deletable(10_001)
    rows.check_deletable(10_000)


def test_queues_are_made_by_jobs_too(desk):
    given = {
        "user": "ann", "dataset": "big", "target": "angry", "order": "random", "annotator": "ann",
        "split": None, "pack": None, "bits": None,
    }  # fmt: skip
    found = done(desk, "queue", given)
    assert queues.queue(desk, found["queue"]).rows == 180


def test_files_are_imported_by_jobs_too(desk):
    text = "id,text\n" + "".join(f"{i},text {i * 7919} of {i}\n" for i in range(300))
    file = uploads.keep_file(desk, "ann", "many.csv", io.BytesIO(text.encode()))
    plan = Plan(dataset="many", text="text", id="id")
    done(desk, "import", importing.job_arguments(file, plan, "ann", dry_run=True))
    tried = importing.previewed(desk, file, plan)
    assert tried is not None and tried.rows_read == 300
    result = done(desk, "import", importing.job_arguments(file, plan, "ann", dry_run=False))
    assert importing.report_of(result).rows_taken == 300
    assert {one.name: one.rows for one in datasets(desk.project)} == {"big": 200, "many": 300}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("fit=60 test=40", {"fit": 0.6, "test": 0.4}),
        ("fit=0.6, test=0.4", {"fit": 0.6, "test": 0.4}),
        ("a=50% b=50%", {"a": 0.5, "b": 0.5}),
        ("a=1 b=2", {"a": 1.0, "b": 2.0}),
    ],
)
def test_shares_are_read_as_people_write_them(written, expected):
    assert checks.shares_of(written) == expected


@pytest.mark.parametrize("written", ["fit", "fit=x", "=1", "fit=0", "fit=-1 test=2", "a=1 a=2"])
def test_what_is_no_share_is_said(written):
    with pytest.raises(Unusable):
        checks.shares_of(written)
