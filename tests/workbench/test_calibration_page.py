"""The page Calibration in each of its states: empty, draft, unlabelled, small, large."""

import pytest

from spinf_serve.workbench import jobs
from tests.workbench.cut_desks import scored
from tests.workbench.support import messages, page


def figures(test) -> dict[str, str]:
    return {one.label: one.value for one in test.metric}


def test_without_labels_the_page_says_what_to_do(tmp_path):
    desk = scored(tmp_path / "desk", 40, labelled=False)
    test = page("calibration", desk.folder)
    assert not test.exception and "Nothing in **d** is labelled" in messages(test)


def test_without_scores_the_page_says_what_to_do(tmp_path):
    desk = scored(tmp_path / "desk", 40)
    with desk.project.open(write=True) as connection:
        for table in ("score", "content", "prompt", "model"):
            connection.execute(f"DELETE FROM {table}")
    test = page("calibration", desk.folder)
    assert not test.exception and "Ask a model on the page **Run**" in messages(test)


def test_a_drafts_categories_wait_for_numbers_and_its_questions_do_not(tmp_path):
    desk = scored(tmp_path / "desk", 200, fitted=False)
    test = page("calibration", desk.folder)
    assert not test.exception and "is a draft on stub" in messages(test) and not test.metric
    with desk.project.open(write=True) as connection:
        connection.execute("UPDATE label SET target = 'question:sells'")
    test = page("calibration", desk.folder)
    assert not test.exception and "200 labelled rows" in messages(test)
    assert figures(test)["Log loss"] != "–"


def test_a_score_that_is_right_is_within_what_chance_shows(tmp_path):
    desk = scored(tmp_path / "desk", 900)
    test = page("calibration", desk.folder)
    told = messages(test)
    assert not test.exception and "900 labelled rows" in told
    assert "No more than chance makes of a perfect score" in told
    assert "What calibration does not change" in [one.label for one in test.expander]
    assert "A map never changes the order" in told
    maps = next(one.value for one in test.dataframe if "map" in one.value)
    assert maps["map"].tolist() == ["as it is", "Platt's map", "beta map", "isotonic map"]
    assert "not offered below 1,000 labels" in maps["note"].iloc[3]
    slices = next(one.value for one in test.dataframe if "slice" in one.value)
    assert slices["slice"].tolist() == ["language = de", "language = en"]
    assert slices["rows"].sum() == 900


def test_a_score_that_is_wrong_is_beyond_chance(tmp_path):
    desk = scored(tmp_path / "desk", 900)
    with desk.project.open(write=True) as connection:
        connection.execute("UPDATE label SET value = 'no' WHERE hash(row_id) % 3 = 0")
    told = messages(page("calibration", desk.folder))
    assert "More than chance makes of a perfect score" in told


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """100,000 labelled rows."""
    return scored(tmp_path_factory.mktemp("large") / "desk", 100_000)


def test_many_rows_are_worked_out_by_a_job_and_found_again(large):
    test = page("calibration", large.folder)
    assert not test.exception and "100,000 labelled rows take a moment" in messages(test)
    (job,) = jobs.jobs(large, "calibrate")
    assert jobs.wait(large, job.id, 300).state == "done", jobs.job(large, job.id).log()
    test = page("calibration", large.folder)
    assert not test.exception and "100,000 labelled rows" in messages(test)
    assert figures(test)["Said on average"] == "50.0 %"
    assert len(jobs.jobs(large, "calibrate")) == 1
