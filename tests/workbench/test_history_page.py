"""The page History: every change is found and told; settings are kept and stand in the trail. The tour."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench import audit
from spinf_serve.workbench.actions.project_settings import WORDS, change
from spinf_serve.workbench.desk import Desk, open_desk
from spinf_serve.workbench.page_list import PAGES
from spinf_serve.workbench.parts import tour
from tests.workbench.support import messages, page


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "pack.yaml").write_text("pack: a/b\n")
    return open_desk(tmp_path)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return open_desk(tmp_path_factory.mktemp("tour") / "p").folder


def settings(desk: Desk, **how: object) -> AppTest:
    return page("history", desk.folder, how=dict(how), tab="Settings")


def test_an_empty_trail_says_what_will_stand_here(desk: Desk) -> None:
    test = page("history", desk.folder)
    assert not test.exception
    assert "Nothing was changed yet" in test.info[0].value


def test_changes_are_listed_searched_and_told_in_full(desk: Desk) -> None:
    for number in range(120):
        audit.note(desk, "anna" if number % 2 else "bert", "label", f"row {number}", value="yes")
    audit.note(desk, "anna", "save pack", "pack.yaml", before="a" * 64, after="b" * 64)
    test = page("history", desk.folder)
    shown = test.dataframe[0].value
    assert len(shown) == 50
    assert shown.iloc[0].tolist()[1:4] == ["anna", "save pack", "pack.yaml"]
    assert shown.iloc[0]["Details"] == f"before: {'a' * 12}…, after: {'b' * 12}…"
    test.selectbox(key="history-who").set_value("bert").run()
    assert set(test.dataframe[0].value["Who"]) == {"bert"}
    test.text_input(key="history-search").set_value("ROW 11").run()
    found = test.dataframe[0].value["To what"].tolist()
    assert found == ["row 118", "row 116", "row 114", "row 112", "row 110"]
    test.text_input(key="history-search").set_value("nothing like it").run()
    assert "No change has this" in test.info[0].value


def test_a_trail_of_a_hundred_thousand_lines_shows_its_newest(desk: Desk) -> None:
    line = (
        '{"at": "2026-01-01T00:00:00+00:00", "user": "u", "action": "label", "subject": "row %d"}\n'
    )
    (desk.folder / audit.AUDIT_FILE).write_text("".join(line % n for n in range(100_000)))
    test = page("history", desk.folder)
    assert not test.exception
    assert test.dataframe[0].value["To what"].iloc[0] == "row 99999"
    assert "newest 5,000" in messages(test)


def test_settings_are_kept_and_stand_in_the_trail(desk: Desk) -> None:
    test = settings(desk)
    assert not test.exception
    test.number_input(key="setting-per_day").set_value(2_000).run()
    test.toggle(key="setting-mask").set_value(True).run()
    test.toggle(key="setting-mask_orders").set_value(True).run()
    test.toggle(key="setting-open_texts").set_value(True).run()
    test.text_input(key="setting-user").set_value("  Anna   Lee ").run()
    assert not test.exception
    assert desk.settings() == {
        "per_day": 2000, "mask": True, "mask_orders": True, "open_texts": True, "user": "Anna Lee",
    }  # fmt: skip
    told = [(event.user, event.subject, event.details) for event in audit.events(desk)]
    assert told[-1] == ("author", WORDS["per_day"], {"before": None, "after": 2000})
    assert told[0] == ("author", WORDS["user"], {"before": None, "after": "Anna Lee"})
    assert len(told) == 5
    # The name holds from now on, also after a reload.
    again = settings(desk)
    again.toggle(key="setting-mask").set_value(False).run()
    assert audit.events(desk)[0].user == "Anna Lee"
    assert again.text_input(key="setting-user").value == "Anna Lee"


def test_what_the_pages_that_ask_keep_stands_in_the_trail(folder: Path) -> None:
    desk = open_desk(folder)
    test = page("run", folder, how={"server": "http://127.0.0.1:9"})
    test.number_input(key="run-price").set_value(2.5).run()
    test.number_input(key="run-price").set_value(0.0).run()
    test.selectbox(key="run-rows-who").set_value("other").run()
    test.text_input(key="run-rows-url").set_value("http://127.0.0.1:9").run()
    assert not test.exception
    assert desk.settings() == {"hour_price": 0.0, "other_server": "http://127.0.0.1:9"}
    told = [(event.user, event.subject, event.details) for event in audit.events(desk)]
    assert told == [
        ("author", WORDS["other_server"],
         {"before": None, "after": "http://127.0.0.1:9"}),
        ("author", WORDS["hour_price"], {"before": 2.5, "after": 0.0}),
        ("author", WORDS["hour_price"], {"before": None, "after": 2.5}),
    ]  # fmt: skip


def test_the_same_value_again_is_no_change(desk: Desk) -> None:
    assert change(desk, "u", "per_day", 5)
    assert not change(desk, "u", "per_day", 5)
    assert not change(desk, "u", "mask", False)
    assert len(audit.events(desk)) == 1


@pytest.mark.parametrize(("name", "value"), [("per_day", -1), ("per_day", 10**11), ("user", "a" * 81), ("user", "a\x00b")])  # fmt: skip
def test_a_value_that_cannot_be_is_refused(desk: Desk, name: str, value: object) -> None:
    with pytest.raises(Unusable):
        change(desk, "u", name, value)
    assert desk.settings() == {}


def test_nobody_names_themselves_an_approver(desk: Desk) -> None:
    desk.set(user="boss")
    test = settings(desk, approvers=frozenset({"boss"}))
    assert not test.text_input
    said = messages(test)
    assert "You are **author**" in said
    assert "is for: boss" in said


# The tour


def test_the_tour_goes_step_by_step_and_is_remembered(example: Path) -> None:
    desk = Desk(example, example / "project.duckdb")
    test = page("history", example)
    assert "**1 of 6: Edit a question.**" in messages(test)
    assert "an example" in messages(test)
    for _ in tour.STEPS[:2]:
        test.button(key="tour-done").click().run()
    assert "**3 of 6: Find the wrong label.**" in messages(page("history", example))
    test.checkbox(key="tour-scores").uncheck().run()
    assert "**2 of 6:" in messages(test)
    test.button(key="tour-close").click().run()
    assert "of 6:" not in messages(test)
    assert "of 6:" not in messages(page("data", example))
    assert audit.events(desk)[0].action == "close tour"
    test = page("history", example, tab="Settings")
    test.button(key="tour-again").click().run()
    assert "**2 of 6:" in messages(test)


def test_another_project_has_no_tour(desk: Desk) -> None:
    assert "of 6:" not in messages(page("history", desk.folder))


def test_steps_lead_to_pages_that_are_there() -> None:
    assert len(tour.STEPS) == 6
    assert {step.page for step in tour.STEPS} <= {one.path for one in PAGES}
