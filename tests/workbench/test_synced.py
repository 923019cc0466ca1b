"""Widgets of what is kept elsewhere: each run's messages say it, so that a lost one loses nothing."""

from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from spinf_serve.workbench.desk import open_desk
from spinf_serve.workbench.parts.synced import begins
from tests.workbench.support import page


def fields(shown: AppTest) -> dict[str, Any]:
    """Key of each widget -> what its message alone would make a browser show."""
    found: dict[str, Any] = {}
    for kind in ("text_input", "text_area", "checkbox", "toggle", "number_input", "multiselect"):
        for one in getattr(shown, kind):
            found[str(one.key)] = one.proto.default
    for one in shown.selectbox:
        found[str(one.key)] = one.options[one.proto.default] if one.options else None
    return found


def one_name() -> None:
    """A page with a name that is kept in a list."""
    import streamlit as st

    from spinf_serve.workbench.parts.calm import is_change
    from spinf_serve.workbench.parts.synced import synced

    kept = st.session_state.setdefault("kept", ["first"])
    key, value = synced("name", kept[0])

    def take() -> None:
        if is_change(key) and st.session_state[key] != "refused":
            kept[0] = st.session_state[key].strip()

    st.text_input("Name", value, key=key, on_change=take)


def test_the_forms_fields_say_what_the_draft_holds_in_every_run(folder):
    shown = page("pack", folder, tab="Form", question="emergency")
    first = fields(shown)
    assert "The caller reports an{?}" in first.values()
    assert "emergency\norder" in first.values()
    assert fields(shown.run()) == first
    assert fields(shown.run()) == first


def test_the_settings_are_said_in_every_run(folder):
    open_desk(folder).set(mask=True, per_day=500)
    shown = page("history", folder, tab="Settings")
    for _ in range(2):
        said = fields(shown)
        assert (said["setting-mask"], said["setting-per_day"]) == (True, 500)
        shown.run()


def test_what_was_typed_and_kept_is_said_in_every_run(folder):
    page("run", folder, mode="sheet").text_area(key="sheet-paste").set_value("kept").run()
    shown = page("run", folder, mode="sheet")
    for _ in range(2):
        assert fields(shown)["sheet-paste"] == "kept"
        shown.run()


@pytest.mark.parametrize(
    ("name", "params", "said"),
    [
        ("calibration", {"target": "refund"}, {"calibration-target": "Refund or return"}),
        ("thresholds", {"cut": "refund"}, {"thresholds-cut": "Refund or return"}),
        ("scores", {"target": "refund"}, {"scores-target": "Refund or return"}),
        ("scores", {"target": "case", "search": "parcel"}, {"search": "parcel"}),
    ],
)
def test_what_the_address_says_is_said_in_every_run(folder, name, params, said):
    shown = page(name, folder, **params)
    assert not shown.exception
    for _ in range(2):
        found = fields(shown)
        for key, value in said.items():
            assert value in [one for known, one in found.items() if key in known], found
        shown.run()


def test_what_was_changed_elsewhere_makes_a_new_widget():
    shown = AppTest.from_function(one_name).run()
    before = shown.text_input[0].id
    shown.text_input[0].set_value("own").run()
    assert (shown.text_input[0].id, shown.session_state["kept"]) == (before, ["own"])
    shown.session_state["kept"][0] = "of another tab"
    shown.run()
    assert shown.text_input[0].id != before
    assert shown.text_input[0].value == shown.text_input[0].proto.default == "of another tab"
    # And one that is kept otherwise than it was typed.
    before = shown.text_input[0].id
    shown.text_input[0].set_value(" spaced ").run()
    shown.run()
    assert shown.text_input[0].id != before and shown.text_input[0].value == "spaced"


def test_what_could_not_be_taken_stays_where_it_was_typed():
    shown = AppTest.from_function(one_name).run()
    before = shown.text_input[0].id
    shown.text_input[0].set_value("refused").run()
    shown.run()
    assert shown.text_input[0].id == before
    assert shown.text_input[0].value == shown.text_input[0].proto.default == "refused"


def test_a_widget_begins_at_a_value_by_its_own_argument():
    assert begins(st.text_area, "words") == {"value": "words"}
    assert begins(st.container().number_input, 3.0) == {"value": 3.0}
    assert begins(st.checkbox, False) == {"value": False}
    assert begins(st.text_input, None) == {}
    assert begins(st.selectbox, "b", ["a", "b"]) == {"index": 1}
    assert begins(st.selectbox, "gone", ["a", "b"]) == {}
