"""The page Data in a browser: a file comes in, rows are found, exported and deleted."""

import re

from spinf_serve.evals.data.overview import datasets
from spinf_serve.workbench.actions import uploads
from spinf_serve.workbench.actions.rows import detail
from spinf_serve.workbench.desk import PROJECT_FILE, Desk
from tests.support.waiting import until

MAILS = "id,text,spam\n" + "".join(
    f"m{i},mail {i * 7919} about thing {i * 31 % 17},{('yes', 'no', '', 'maybe')[i % 4]}\n"
    for i in range(40)
)

PAUSE = 1.0
"""Who looks all the time keeps the project open, and those out who write."""


def desk_of(browser):
    return Desk(browser.folder, browser.folder / PROJECT_FILE)


def button(page, name):
    """A button by its label; a picture before it has a name of its own."""
    return page.get_by_role("button", name=re.compile(rf"(^|\W){name}$")).last


def test_a_file_is_uploaded_tried_and_imported_and_a_reload_loses_nothing(browser):
    desk = desk_of(browser)
    with browser.tab("data", part="import") as page:
        page.locator("[data-testid=stFileUploader] input").set_input_files(
            {"name": "mails.csv", "mimeType": "text/csv", "buffer": MAILS.encode()}
        )
        page.get_by_text("10 yes, 10 no, 0 unsure, 10 blank").wait_for()
        page.get_by_text("At random").click()
        (file,) = uploads.uploads(desk)
        until(lambda: (uploads.kept_plan(desk, file.id) or {}).get("drawn") == "random", 90, PAUSE)
        page.reload()
        page.get_by_text("10 yes, 10 no, 0 unsure, 10 blank").wait_for()
        button(page, "Try").click()
        page.get_by_text("10 rows would be left out").wait_for()
        assert [one.name for one in datasets(desk.project)] == ["messages"]
        page.reload()
        page.get_by_text("10 rows would be left out").wait_for()
        button(page, "Import").click()
        page.get_by_text("30 rows are in mails").wait_for()
        button(page, "See the rows").click()
        page.get_by_text("30 rows of mails").wait_for()
    assert uploads.uploads(desk) == []
    with desk.project.open(write=False) as connection:
        assert connection.execute(
            "SELECT DISTINCT drawn FROM item WHERE dataset = 'mails'"
        ).fetchall() == [("random",)]


def test_a_row_is_deleted_after_it_was_asked(browser):
    desk = desk_of(browser)
    with browser.tab("data", data="messages", row="t0002") as page:
        button(page, "Delete this row").click()
        page.get_by_text("This cannot be undone").wait_for()
        assert detail(desk.project, "messages", "t0002") is not None
        button(page.get_by_role("dialog"), "Delete").click()
        page.get_by_text("599 rows of messages").wait_for()
        assert "row=" not in page.url
    assert detail(desk.project, "messages", "t0002") is None


def test_a_dataset_is_downloaded(browser):
    with browser.tab("data", data="messages") as page:
        page.get_by_text("Export", exact=True).click()
        with page.expect_download() as found:
            button(page, "Download").click()
        text = found.value.path().read_text("utf-8")
    assert found.value.suggested_filename == "messages-rows.csv"
    assert text.startswith("id,content_digest,text") and text.count("\nt0") >= 599


def test_a_choice_and_another_at_once_are_both_kept(browser):
    """T-O2: the second click comes before the page has been drawn for the first."""
    desk = desk_of(browser)
    with browser.tab("data", data="messages", row="t0001") as page:
        page.get_by_text("Set the label of").wait_for()
        choices = page.locator("[data-testid=stButtonGroup]").last
        choices.get_by_role("radio", name="no", exact=True).click()
        choices.get_by_role("radio", name="yes", exact=True).click()
        until(lambda: settled(desk, "t0001") == ["yes"], 90, PAUSE)
        assert page.get_by_text("changed elsewhere").count() == 0


def settled(desk, row_id):
    """What somebody set a row's labels to by hand."""
    row = detail(desk.project, "messages", row_id)
    assert row is not None
    return [one.value for one in row.labels if one.adjudicated]
