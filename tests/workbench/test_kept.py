"""What is typed and not used yet lies in the project, for who typed it, and goes when it is used."""

import pytest

from spinf_serve.workbench.desk import open_desk
from spinf_serve.workbench.parts import kept
from tests.workbench.support import page

PASTED = "Where is my parcel?\nI want my money back."


def pasted(shown):
    return next(one for one in shown.text_area if one.key == "sheet-paste")


def files(folder):
    return list((folder / ".workbench" / "kept").glob("*"))


def test_a_paste_is_there_for_its_user_until_it_is_used(folder):
    shown = page("run", folder, mode="sheet")
    pasted(shown).set_value(PASTED).run()
    again = page("run", folder, mode="sheet")
    assert pasted(again).value == PASTED
    open_desk(folder).set(user="lee")
    assert pasted(page("run", folder, mode="sheet")).value == ""
    open_desk(folder).set(user=None)
    next(one for one in again.button if one.key == "sheet-paste-use").click().run()
    assert not again.exception
    assert files(folder) == []
    assert pasted(page("run", folder, mode="sheet")).value == ""


def test_what_is_kept_is_bounded(folder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kept, "MOST_BYTES", 30)
    shown = page("run", folder, mode="sheet")
    pasted(shown).set_value("short").run()
    assert len(files(folder)) == 1
    pasted(shown).set_value("long " * 10).run()
    assert not shown.exception and files(folder) == []
    assert pasted(shown).value == "long " * 10
    monkeypatch.setattr(kept, "MOST_FILES", 2)
    for user in ("a", "b", "c"):
        open_desk(folder).set(user=user)
        pasted(page("run", folder, mode="sheet")).set_value("short").run()
    assert len(files(folder)) == 2


def test_half_a_file_is_as_if_nothing_was_kept(folder):
    pasted(page("run", folder, mode="sheet")).set_value("short").run()
    files(folder)[0].write_text('{"value"')
    shown = page("run", folder, mode="sheet")
    assert not shown.exception and pasted(shown).value == ""
