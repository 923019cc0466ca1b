"""Personal data is on no page that quotes rows or a file, where the project masks it."""

import io

import pytest

from spinf_serve.workbench.actions import sheets, uploads
from spinf_serve.workbench.actions.labelling import write_note
from tests.workbench.cut_desks import scored
from tests.workbench.data_desks import example
from tests.workbench.support import messages, page

MAIL, PHONE = "anna.berg@mail.example", "+49 170 1234567"
ROWS = (
    f"id,text,contact,spam,kind\n1,write to {MAIL},{PHONE},yes,{MAIL}\n2,call {PHONE},{MAIL},{MAIL},x\n"
    f"3,see you,,{PHONE},x\n4,well,,yes,x\n5,well then,,no,{MAIL}\n"
)


@pytest.fixture
def desk(tmp_path):
    made = example(tmp_path / "p")
    made.set(mask=True)
    return made


def shown(test):
    """All that a page says, in words and tables."""
    assert not test.exception
    return messages(test) + "".join(one.value.to_csv() for one in test.dataframe)


def hides(told, words=(MAIL, PHONE, "anna.berg", "1234567")):
    return not [word for word in words if word in told]


def test_an_import_shows_no_personal_data_before_and_after_it_was_tried(desk):
    kept = uploads.keep_file(desk, "eva", "new.csv", io.BytesIO(ROWS.encode()))
    test = page("data", desk.folder, part="import", upload=kept.id)
    next(one for one in test.multiselect if one.label == "Labels").set_value(["spam", "kind"]).run()
    told = shown(test)
    assert hides(told) and "[email]" in told and "[phone]" in told
    assert "say something else" in told
    # The second label is a class.
    [one for one in test.checkbox if str(one.key).startswith("class-")][1].set_value(True).run()
    test.button(key="import-try").click().run()
    told = shown(test)
    assert "Can be taken" in str([one.label for one in test.metric])
    assert hides(told) and "Words that are no label" in told


def test_rows_with_the_same_text_show_no_personal_data(desk):
    # The address stands where a text is cut for the table.
    text = "x" * 190 + " " + MAIL
    with desk.project.open(write=True) as connection:
        connection.execute(
            "UPDATE item SET text = ?, content_digest = 'same', grp = 'g'"
            " WHERE row_id IN ('t0009', 't0010')",
            [text],
        )
    test = page("data", desk.folder, part="checks")
    told = shown(test)
    assert "x" * 190 in told and hides(told)


def test_rows_with_the_same_text_are_hidden_for_a_pack_about_harm(desk):
    file = desk.folder / "packs" / "triage" / "pack.yaml"
    file.write_text(file.read_text().replace("tags: [support,", "tags: [moderation,", 1))
    with desk.project.open(write=True) as connection:
        connection.execute(
            "UPDATE item SET text = 'terrible words', content_digest = 'same', grp = 'g'"
            " WHERE row_id IN ('t0009', 't0010')"
        )
    test = page("data", desk.folder, part="checks")
    assert "terrible" not in shown(test)
    next(one for one in test.toggle if str(one.key).startswith("open-doubles-")).set_value(
        True
    ).run()
    assert "terrible" in shown(test)


def test_a_note_on_a_row_shows_no_personal_data(desk):
    write_note(desk, "eva", "messages", "t0002", "case", "eva", f"ask {MAIL}")
    told = shown(page("data", desk.folder, row="t0002"))
    assert "Note of eva" in told and hides(told)


def test_a_text_of_a_sheet_is_masked_before_it_is_cut(desk):
    laid = sheets.lay(desk, "new.csv", io.BytesIO(f"text\n{'x' * 190} {MAIL}\n".encode()))
    told = shown(page("run", desk.folder, mode="sheet", sheet=laid.id))
    assert "x" * 190 in told and hides(told)


def test_a_row_of_the_table_on_scores_is_masked_before_it_is_cut(tmp_path):
    desk = scored(tmp_path / "desk", 20, text=f"{{:03d}}{'x' * 187} {MAIL}")
    desk.set(mask=True)
    told = shown(page("scores", desk.folder))
    assert "x" * 187 in told and hides(told, ("anna",))
