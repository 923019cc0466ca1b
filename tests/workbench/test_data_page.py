"""The page Data without a browser: empty, with faults, with 100,000 rows, and its main paths."""

import io
import shutil

import pytest

from spinf_serve.evals.data.labels import Label, now, put_labels
from spinf_serve.evals.data.overview import datasets
from spinf_serve.evals.project import create
from spinf_serve.workbench.actions import queues, uploads
from spinf_serve.workbench.actions.rows import Filter, detail
from spinf_serve.workbench.audit import events
from spinf_serve.workbench.desk import PROJECT_FILE, Desk, key_of
from tests.workbench.data_desks import large
from tests.workbench.support import messages, page


def desk_of(folder):
    return Desk(folder, folder / PROJECT_FILE)


def fine(test):
    """No fault of the page, and no error on it."""
    assert [one.value for one in test.exception] == []
    assert [one.value for one in test.error] == []
    return test


def labels_of(folder, row_id, target):
    """What is said of a row, as given."""
    row = detail(desk_of(folder).project, "messages", row_id)
    assert row is not None
    return [one for one in row.labels if one.target == target]


def button(test, label):
    (found,) = (one for one in test.button if one.label == label)
    return found


def widget(kind, label):
    (found,) = (one for one in kind if one.label == label)
    return found


@pytest.fixture
def empty(tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    create(folder / PROJECT_FILE)
    return folder


def test_a_project_without_rows_asks_for_some(empty):
    test = fine(page("data", empty))
    assert test.segmented_control[0].value == "import"
    for part in ("rows", "label", "checks"):
        assert "Import some on the page **Data**" in messages(page("data", empty, part=part))


def test_a_dataset_without_pack_and_labels_says_what_to_do(empty):
    with desk_of(empty).project.open(write=True) as connection:
        connection.execute("INSERT INTO dataset VALUES ('d', now()::TIMESTAMP, 's', '')")
        connection.execute(
            "INSERT INTO item VALUES ('d', 'r', 1, 'a text', 'x', NULL, '{}', MAP {}, NULL, NULL,"
            " 'import', NULL, NULL)"
        )
    assert "nothing to label these rows for" in messages(page("data", empty, part="label"))
    assert "Nothing is labelled yet" in messages(fine(page("data", empty, part="checks")))
    assert "1 row of **d**" in messages(fine(page("data", empty, row="r")))


def test_rows_are_found_by_words_labels_and_slices(folder):
    test = fine(page("data", folder))
    assert "600 rows of **messages**" in messages(test)
    test.text_input[0].set_value("refund").run()
    shown = test.dataframe[0].value
    assert 0 < len(shown) < 600
    assert all("refund" in text.casefold() for text in shown["text"])
    test.text_input[0].set_value("").run()
    widget(test.selectbox, "Label").select("angry").run()
    (value,) = (one for one in test.selectbox if one.label == "is")
    value.select("yes").run()
    assert set(fine(test).dataframe[0].value["angry"]) == {"yes"}
    widget(test.selectbox, "Sort by").select("length, backwards").run()
    lengths = [len(text) for text in fine(test).dataframe[0].value["text"]]
    assert lengths == sorted(lengths, reverse=True)
    test.text_input[0].set_value("no such words 100%").run()
    assert "No row is like that" in messages(fine(test))


def test_a_link_to_a_row_shows_it_with_all_its_labels(folder):
    test = fine(page("data", folder, row="t0300"))
    assert any(one.value == "Row t0300" for one in test.subheader)
    labels = test.dataframe[1].value
    assert set(labels["by"]) == {"example"} and len(labels) == 12
    # The table stands at its page.
    assert "t0300" in set(test.dataframe[0].value["id"])


def test_a_row_that_is_not_there_is_told(folder):
    assert "There is no row **gone**" in messages(fine(page("data", folder, row="gone")))


def test_a_label_is_mended_by_a_click_and_two_fast_ones_are_both_kept(folder):
    """T-O2: nothing is to be pressed after a choice, and no choice is lost."""
    desk = desk_of(folder)
    test = fine(page("data", folder, row="t0001", how={"user": "ann"}))
    widget(test.selectbox, "Set the label of").select("angry").run()
    choice = next(one for one in test.segmented_control if one.label.startswith("You say"))
    choice.set_value("yes").run()
    choice = next(one for one in fine(test).segmented_control if one.label.startswith("You say"))
    assert choice.value == "yes"
    choice.set_value("unsure").run()
    fine(test)
    said = labels_of(folder, "t0001", "angry")
    assert [(one.annotator, one.value, one.adjudicated) for one in said] == [
        ("example", "no", False),
        ("ann", "unsure", True),
    ]
    assert [one.details["value"] for one in events(desk)[:2]] == ["unsure", "yes"]


def test_a_label_that_changed_meanwhile_is_told_and_stays(folder):
    desk = desk_of(folder)
    test = fine(page("data", folder, row="t0001", how={"user": "ann"}))
    put_labels(desk.project, "messages", [Label("t0001", "case", "no", "ann", now(), None)])
    choice = next(one for one in test.segmented_control if one.label.startswith("You say"))
    choice.set_value("yes").run()
    assert "changed elsewhere meanwhile" in messages(test)
    choice = next(one for one in test.segmented_control if one.label.startswith("You say"))
    assert choice.value == "no"


def test_a_click_alone_deletes_nothing(folder):
    """The dialog that follows is looked at in a browser."""
    test = fine(page("data", folder, row="t0002"))
    button(test, "Delete this row").click().run()
    assert "This cannot be undone" in messages(fine(test))
    assert detail(desk_of(folder).project, "messages", "t0002") is not None


def test_checks_list_what_cannot_be_trusted_and_lead_to_the_rows(folder):
    desk = desk_of(folder)
    put_labels(desk.project, "messages", [Label("t0005", "angry", "no", "bob", now(), None)])
    with desk.project.open(write=True) as connection:
        connection.execute(
            "UPDATE item SET text = 'same', content_digest = 'same' WHERE row_id IN ('t0009', 't0010')"
        )
    test = fine(page("data", folder, part="checks"))
    told = messages(test)
    assert "1 row; nothing holds there until somebody settles it" in told
    assert "1 row repeat" in told or "1 rows repeat" in told
    frames = [one.value for one in test.dataframe]
    assert any("bob: no, example: yes" in set(one.get("said", [])) for one in frames)
    assert any({"t0009", "t0010"} <= set(one.get("row", [])) for one in frames)


def test_a_dataset_is_split_and_shows_its_balance(folder):
    test = fine(page("data", folder, part="checks"))
    widget(test.text_input, "Parts and their shares").set_value("fit=50 test=60")
    button(test, "Split").click().run()
    assert "the shares add up to 110" in messages(test)
    widget(test.text_input, "Parts and their shares").set_value("fit=50 test=50")
    button(test, "Split").click().run()
    splits = next(one.value for one in fine(test).dataframe if "split" in one.value)
    assert list(splits["rows"]) == [300, 300]
    assert abs(splits["case yes"][0] - splits["case yes"][1]) <= 2
    assert events(desk_of(folder))[0].action == "split"


def key(queue, who, place):
    return key_of(queue.id, who, place)


def test_labelling_goes_from_row_to_row_and_comes_back(folder):
    desk = desk_of(folder)
    test = fine(page("data", folder, part="label", target="decision", how={"user": "ann"}))
    assert "**0 labels** of decision count" in messages(test)
    button(test, "Start").click().run()
    (queue,) = queues.queues(desk, "messages", "decision")
    assert "Row 1 of 600" in str(test.get("progress")[0].proto.text)
    rows = [queues.shown(desk, queue, place).row_id for place in range(3)]
    test.button(key=f"say-{key(queue, 'ann', 0)}-0").click().run()
    test.button(key=f"say-{key(queue, 'ann', 1)}-1").click().run()
    test.button(key=f"skip-{key(queue, 'ann', 2)}").click().run()
    fine(test)

    def said(row_id):
        return [one.value for one in labels_of(folder, row_id, "decision")]

    assert [said(row) for row in rows] == [["yes"], ["no"], []]
    assert "**2 labels** of decision count" in messages(test)
    test.button(key=f"undo-{key(queue, 'ann', 3)}").click().run()
    assert said(rows[1]) == [] and "Row 2 of 600" in str(test.get("progress")[0].proto.text)
    # Another tab, and a reload, go on where this one is.
    again = fine(page("data", folder, part="label", queue=queue.id, how={"user": "ann"}))
    assert "Row 2 of 600" in str(again.get("progress")[0].proto.text)


def test_the_end_of_a_queue_leads_to_what_was_left_out(folder):
    desk = desk_of(folder)
    queue = queues.make(desk, "ann", "messages", "decision", "random", annotator="ann")
    queues.go(desk, queue.id, "ann", queues.Progress(600))
    test = fine(page("data", folder, part="label", queue=queue.id, how={"user": "ann"}))
    assert "The end. 600 rows have no answer of yours" in messages(test)
    button(test, "Go to the first of them").click().run()
    assert "Row 1 of 600" in str(fine(test).get("progress")[0].proto.text)


def test_a_queue_that_is_gone_leads_back(folder):
    test = page("data", folder, part="label", queue="none")
    assert "this queue is gone" in messages(test)
    assert any(one.label == "Start" for one in test.button)


def test_settling_shows_who_said_what(folder):
    desk = desk_of(folder)
    put_labels(desk.project, "messages", [Label("t0005", "angry", "no", "bob", now(), None)])
    queue = queues.make(desk, "ann", "messages", "angry", "conflict", annotator="ann")
    test = fine(page("data", folder, part="label", queue=queue.id, how={"user": "ann"}))
    assert "**bob** says no" in messages(test) and "**example** says yes" in messages(test)
    test.button(key=f"say-{key(queue, 'ann', 0)}-0").click().run()
    assert "All 1 row of this queue have your answer" in messages(fine(test))
    assert "**bob** and **example** say the same of 0 of 1 row" in messages(test)


def bring(folder, text, name="mails.csv"):
    return uploads.keep_file(desk_of(folder), "ann", name, io.BytesIO(text.encode()))


def test_a_file_is_tried_and_imported(folder):
    desk = desk_of(folder)
    text = "id,text,spam\n1,buy now,yes\n2,see you at noon,no\n3,well,maybe\n4,lunch on me,\n"
    file = bring(folder, text)
    test = fine(page("data", folder, part="import", upload=file.id, how={"user": "ann"}))
    assert "1 yes, 1 no, 0 unsure, 1 blank, **1 say something else**" in messages(test)
    assert button(test, "Import").disabled
    button(test, "Try").click().run()
    told = messages(fine(test))
    assert "1 row would be left out" in told and "Words that are no label" in told
    assert "--classes" not in str([one.value for one in test.dataframe])
    assert "Nothing was written yet" in told
    assert [one.name for one in datasets(desk.project)] == ["messages"]
    # A reload shows the same, without another trial.
    test = fine(page("data", folder, part="import", upload=file.id, how={"user": "ann"}))
    assert "1 row would be left out" in messages(test)
    button(test, "Import").click().run()
    told = messages(fine(test))
    assert "3 rows are in **mails**. 1 was left out." in told and "1 row was left out" in told
    assert {one.name: one.rows for one in datasets(desk.project)} == {"messages": 600, "mails": 3}
    assert uploads.uploads(desk) == []


def test_what_a_column_means_can_be_changed_and_survives(folder):
    file = bring(folder, "id,text,kind\n1,a text,apple\n2,another text,pear\n")
    test = fine(page("data", folder, part="import", upload=file.id))
    widget(test.multiselect, "Labels").set_value(["kind"]).run()
    widget(test.checkbox, "holds classes").check().run()
    fine(test)
    test = fine(page("data", folder, part="import", upload=file.id))
    assert widget(test.multiselect, "Labels").value == ["kind"]
    assert widget(test.checkbox, "holds classes").value is True
    button(test, "Try").click().run()
    labels = next(one.value for one in fine(test).dataframe if "says" in one.value)
    assert list(labels["says"]) == ["1 apple, 1 pear"]


def test_a_file_that_cannot_be_read_says_so_and_can_be_dropped(folder):
    file = bring(folder, "not a workbook", "x.xlsx")
    test = page("data", folder, part="import", upload=file.id)
    assert "is no workbook" in messages(test) and [one.value for one in test.exception] == []
    button(test, "Drop").click().run()
    assert uploads.uploads(desk_of(folder)) == []
    gone = page("data", folder, part="import", upload=file.id)
    assert "bring it again" in messages(gone)


def test_pasted_cells_become_rows(folder):
    test = fine(page("data", folder, part="import"))
    test.segmented_control[1].set_value("paste").run()
    test.text_area[0].set_value("text\tspam\nbuy now\tyes\nsee you\tno")
    button(test, "Take these").click().run()
    assert "1 yes, 1 no" in messages(fine(test))


@pytest.fixture(scope="module")
def hundred_thousand(tmp_path_factory):
    return large(tmp_path_factory.mktemp("large") / "p", 100_000)


def test_with_a_hundred_thousand_rows_only_a_page_is_loaded(hundred_thousand, monkeypatch):
    folder = hundred_thousand.folder
    test = fine(page("data", folder))
    assert "100,000 rows of **big**" in messages(test)
    assert len(test.dataframe[0].value) == 50
    test = fine(page("data", folder, row="r99999"))
    assert "r99999" in set(test.dataframe[0].value["id"])
    assert "10,000 labels" in messages(fine(page("data", folder, part="label", target="angry")))
    labels = fine(page("data", folder, part="checks")).dataframe[0].value
    assert list(labels["no label"]) == [90_000]


def test_a_queue_of_a_hundred_thousand_rows_opens_at_once(hundred_thousand, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(hundred_thousand.folder, folder)
    test = fine(page("data", folder, part="label", target="angry", how={"user": "ann"}))
    button(test, "Start").click().run()
    (queue,) = queues.queues(desk_of(folder), "big")
    assert queue.rows == 90_000
    test.button(key=f"say-{key(queue, 'ann', 0)}-0").click().run()
    assert "Row 2 of 90,000" in str(fine(test).get("progress")[0].proto.text)


def test_a_sort_that_is_unknown_is_none():
    with pytest.raises(KeyError):
        _ = Filter(sort="1; DROP TABLE item").order
