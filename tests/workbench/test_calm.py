"""Callbacks that are held together, run as Streamlit runs them: in a script's thread, with clicks to come.

And those that Streamlit calls for a widget that left the page while the browser still tells its value.
"""

from types import SimpleNamespace
from typing import Any

import pytest
from streamlit.runtime.scriptrunner import RerunException
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData
from streamlit.testing.v1 import AppTest

from spinf_serve.workbench.parts import calm


class State:
    """A session whose every use ends the callback, as when more was clicked."""

    def __init__(self, requests: list[RerunException]) -> None:
        self.requests = requests
        self._yield_callback = self.end

    def end(self) -> None:
        if self.requests:
            raise self.requests.pop(0)

    def use(self) -> None:
        self._yield_callback()


def request(name: str) -> RerunException:
    return RerunException(RerunData(query_string=name))


@pytest.fixture
def session(monkeypatch):
    def made(*requests: RerunException) -> Any:
        handed: list[RerunData] = []
        context = SimpleNamespace(
            session_state=State(list(requests)),
            script_requests=SimpleNamespace(request_rerun=handed.append),
            handed=handed,
        )
        monkeypatch.setattr(calm, "get_script_run_ctx", lambda: context)
        return context

    return made


def test_a_callback_is_not_broken_off_by_the_next_click(session):
    context = session(request("next"))
    done = []

    def callback(word: str) -> None:
        context.session_state.use()
        done.append(word)

    calm.whole(callback)("kept")
    assert done == ["kept"]
    # What was clicked meanwhile is still there for the page.
    with pytest.raises(RerunException):
        context.session_state.use()


def test_without_it_the_callback_is_broken_off(session):
    context = session(request("next"))
    with pytest.raises(RerunException):
        context.session_state.use()


def test_what_came_in_while_it_was_at_work_is_handed_on_in_order(session):
    context = session()
    waiting = [request("first"), request("second")]
    done = []

    def use() -> str:
        if waiting:
            raise waiting.pop(0)
        return "value"

    def callback() -> None:
        done.append(calm.calmly(use))

    with pytest.raises(RerunException) as last:
        calm.whole(callback)()
    assert done == ["value"]
    assert last.value.rerun_data.query_string == "second"
    assert [one.query_string for one in context.handed] == ["first"]


def test_an_error_of_the_callback_gives_the_session_back(session):
    context = session(request("next"))

    def callback() -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        calm.whole(callback)()
    with pytest.raises(RerunException):
        context.session_state.use()


def two_names() -> None:
    """A page with the name of one of two; what its callback is told goes into `taken`."""
    import streamlit as st

    from spinf_serve.workbench.parts.calm import is_change, shows

    st.session_state.setdefault("taken", [])
    st.session_state.setdefault("heard", [])
    one = st.radio("One", ["a", "b"], key="one")
    key = f"name-{one}"

    def take(name: str) -> None:
        value = st.session_state[f"name-{name}"]
        st.session_state["heard"].append((name, value))
        if is_change(f"name-{name}"):
            st.session_state["taken"].append((name, value))

    if key not in st.session_state:
        st.session_state[key] = f"name of {one}"
    st.text_input("Name", key=key, on_change=take, args=(one,))
    shows(key, st.session_state[key])


def test_what_left_the_page_has_not_changed():
    shown = AppTest.from_function(two_names).run()
    gone = next(one for one in shown._tree.get_widget_states().widgets if one.id.endswith("name-a"))
    shown.radio(key="one").set_value("b").run()
    shown.text_input(key="name-b").set_value("other")
    # The browser had no time to forget what is not drawn any more.
    states = shown._tree.get_widget_states()
    states.widgets.append(gone)
    shown._run(states)
    assert ("a", "name of a") in shown.session_state["heard"]
    assert shown.session_state["taken"] == [("b", "other")]


def test_what_is_changed_and_changed_back_are_two_changes():
    shown = AppTest.from_function(two_names).run()
    for value in ("other", "name of a"):
        shown.text_input(key="name-a").set_value(value).run()
    assert shown.session_state["taken"] == [("a", "other"), ("a", "name of a")]
