"""The page Thresholds in each of its states: empty, draft, unlabelled, large, reached and not reached."""

import shutil

import pytest
from streamlit.testing.v1 import AppTest

from spinf_serve.evals.ledger import spent
from spinf_serve.packs.loader import load_pack
from spinf_serve.workbench import jobs
from spinf_serve.workbench.actions.certifying import last_fits
from spinf_serve.workbench.actions.cut_plans import PlannedCut, keep_plan, plan_of
from spinf_serve.workbench.audit import events
from tests.workbench.cut_desks import BITS, scored
from tests.workbench.data_desks import example
from tests.workbench.support import messages, page

EXAMPLE_FILE = "packs/triage/pack.yaml"
WAIT_SECONDS = 300


def figures(test) -> dict[str, str]:
    """Label -> value of what stands in large print."""
    return {one.label: one.value for one in test.metric}


def address(test, name: str) -> str:
    """A parameter of the page's address."""
    found = test.query_params[name]
    return str(found[0] if isinstance(found, list) else found)


def bits_of(desk) -> str:
    with desk.project.open(write=False) as connection:
        ((bits,),) = connection.execute("SELECT bits FROM model").fetchall()
    return str(bits)


def press(test, label):
    """Press the button of that name."""
    (button,) = [one for one in test.button if one.label == label]
    assert not button.disabled, label
    return button.click().run()


def finished(desk, file, dataset, bits):
    """The newest certification, once it has ended."""
    newest = last_fits(desk, file, dataset, bits)[0]
    return jobs.wait(desk, newest.id, WAIT_SECONDS)


def test_without_a_pack_or_rows_the_page_says_what_to_do(tmp_path):
    desk = scored(tmp_path / "desk", 30)
    with desk.project.open(write=True) as connection:
        for table in ("score", "content", "prompt", "model"):
            connection.execute(f"DELETE FROM {table}")
    test = page("thresholds", desk.folder)
    assert not test.exception and "Ask a model on the page **Run**" in messages(test)
    (desk.folder / "mail.yaml").unlink()
    test = page("thresholds", desk.folder)
    assert not test.exception and "page **Pack**" in messages(test)


def test_a_draft_is_fitted_to_look_at_without_saving_or_spending(tmp_path):
    desk = scored(tmp_path / "desk", 200, fitted=False)
    text = (desk.folder / "mail.yaml").read_text()
    test = page("thresholds", desk.folder)
    assert not test.exception and "is a draft on stub" in messages(test) and not test.metric
    test = press(test, "Fit numbers to look at")
    assert not test.exception
    assert finished(desk, "mail.yaml", "d", BITS).state == "done"
    test = page("thresholds", desk.folder)
    assert not test.exception and figures(test)["Precision"] != "–"
    assert (desk.folder / "mail.yaml").read_text() == text
    assert spent(desk.project, "d", "spam", None) == []


@pytest.mark.parametrize("name", ["thresholds", "calibration"])
def test_a_draft_that_was_asked_nothing_is_asked_before_it_is_fitted(tmp_path, name):
    desk = scored(tmp_path / "desk", 40, fitted=False)
    file = desk.folder / "mail.yaml"
    file.write_text(file.read_text().replace("{?}", " in the end{?}", 1))
    for part in ("look", "certify"):
        test = page(name, desk.folder, part=part)
        assert not test.exception and "page **Run**" in messages(test)
        assert not [
            one for one in test.button if one.label in ("Certify", "Fit numbers to look at")
        ]


def test_without_labels_only_the_share_flagged_is_known(tmp_path):
    desk = scored(tmp_path / "desk", 100, labelled=False)
    test = page("thresholds", desk.folder)
    assert not test.exception and "Label rows on the page **Data**" in messages(test)
    found = figures(test)
    assert found["Precision"] == found["Recall"] == "–" and found["Flagged"].endswith("%")
    test = page("thresholds", desk.folder, part="cost")
    assert not test.exception and "No row is labelled" in messages(test)


def test_the_cut_moves_all_figures(tmp_path):
    desk = scored(tmp_path / "desk", 400)
    desk.set(per_day=2000)
    test = page("thresholds", desk.folder)
    at_first = figures(test)
    assert "of 1,000 messages" in messages(test) and " a day" in messages(test)
    (number,) = [one for one in test.number_input if one.label == "Exactly"]
    assert number.value == 0.7
    test = number.set_value(0.2).run()
    assert not test.exception
    after = figures(test)
    assert all(at_first[name] != after[name] for name in ("Flagged", "Precision", "Recall"))
    assert address(test, "at") == "0.2" and test.slider[0].value == 0.2
    test = test.slider[0].set_value(0.9).run()
    assert address(test, "at") == "0.9"
    test = press(test, "Cut in force")
    assert figures(test) == at_first
    # The address alone shows the same cut again.
    test = page("thresholds", desk.folder, at="0.2")
    assert figures(test) == after
    assert spent(desk.project, "d", "spam", None) == []


def test_a_second_cut_parts_the_messages_into_three_bands(tmp_path):
    desk = scored(tmp_path / "desk", 400)
    test = page("thresholds", desk.folder)
    assert len(test.slider) == 1 and "Three bands" not in messages(test)
    (switch,) = [one for one in test.toggle if one.label.startswith("A second cut")]
    test = switch.set_value(True).run()
    upper, lower = test.slider
    assert (upper.value, lower.max) == (0.7, 0.7) and lower.value != 0.7
    test = lower.set_value(0.3).run()
    table = next(one.value for one in test.dataframe if "band" in one.value)
    assert table["band"].tolist() == ["Act", "Review", "Pass"]
    assert table[["holds", "does not hold"]].to_numpy().sum() == 400
    assert table["right"][1] == "a person decides"
    # What passes though it holds is below the lower cut: the misses listed are those.
    (errors,) = [one for one in test.segmented_control if str(one.key).startswith("errors-")]
    assert errors.options[1] == f"Misses ({table['holds'][2]})"
    reviewed, passed = table["holds"][1:]
    assert f"{reviewed} come up for review and {passed} pass" in messages(test)
    assert address(test, "review") == "0.3"
    # The lower cut gives way to the upper one, and comes back with it.
    (number,) = [one for one in test.number_input if one.label == "Exactly"]
    test = number.set_value(0.2).run()
    assert test.slider[1].value == 0.2 and not test.exception
    test = press(test, "Cut in force")
    assert test.slider[1].value == 0.3
    # The address alone shows the same two.
    test = page("thresholds", desk.folder, at="0.7", review="0.3")
    assert [one.value for one in test.slider] == [0.7, 0.3]


def test_the_cut_in_the_address_is_of_one_category_only(tmp_path):
    desk = example(tmp_path / "desk")
    test = page("thresholds", desk.folder, cut="case", at="0.9")
    assert test.slider[0].value == 0.9
    (box,) = [one for one in test.selectbox if one.label == "Cut of"]
    test = box.set_value("refund").run()
    assert not test.exception and test.slider[0].value == 0.182051
    assert address(test, "cut") == "refund" and address(test, "at") == "0.182051"


def test_errors_are_listed_with_links_to_their_answers(tmp_path):
    desk = scored(tmp_path / "desk", 1_000)
    test = page("thresholds", desk.folder)
    table = next(one.value for one in test.dataframe if "text" in one.value)
    assert len(table) == 20 and table["text"].str.startswith("Mail number").all()
    assert table["score"].is_monotonic_decreasing
    assert table["open"].str.contains(r"^scores\?pack=mail\.yaml&data=d&bits=b+&row=r\d+$").all()


def test_certifying_the_example_promises_a_cut_and_an_approver_puts_it_in_force(tmp_path):
    desk = example(tmp_path / "desk")
    bits, file = bits_of(desk), desk.folder / EXAMPLE_FILE
    before = file.read_bytes()

    def certify(**how: object) -> AppTest:
        return page("thresholds", desk.folder, how=how, part="certify", cut="case")

    test = press(certify(), "Put into the table")
    assert not test.exception and "of the flagged, at least 90 % are right" in messages(test)
    assert plan_of(desk, EXAMPLE_FILE, "messages").of("case") == PlannedCut(
        "case", "precision", 0.9
    )
    assert "It spends for 1 target" in messages(test)
    assert spent(desk.project, "messages", "case", None) == []
    test = press(test, "Certify")
    assert not test.exception
    job = finished(desk, EXAMPLE_FILE, "messages", bits)
    assert job.state == "done", job.log()
    assert [one.delta for one in spent(desk.project, "messages", "case", None)] == [0.05]

    test = certify(approvers=frozenset({"eve"}))
    told = messages(test)
    assert "Precision 0.9 holds at the cut" in told and "promised" in told
    assert "shows nothing new and spends nothing" in told and "is no approver" in told
    (save,) = [one for one in test.button if one.label == "Save into the pack"]
    assert save.disabled and file.read_bytes() == before

    # What the promise would have done stands one click away, on its own numbers.
    cut = job.result()["report"]["targets"][0]["promises"][0]
    point = cut["result"]["point"]
    test = press(certify(), "See what it would have done")
    assert not test.exception and address(test, "part") == "look"
    assert address(test, "numbers") == "new" and address(test, "cut") == "case"
    assert float(address(test, "at")) == cut["cut"]
    assert f"{point['k']:,} of {point['n']:,}" in messages(test)
    confusion = next(one.value for one in test.dataframe if "does not hold" in one.value)
    assert confusion["holds"][0] == point["k"]
    assert confusion["does not hold"][0] == point["n"] - point["k"]

    test = press(certify(), "Save into the pack")
    assert not test.exception and file.read_bytes() != before
    assert "These numbers stand in the pack's file" in messages(test)
    constants = load_pack(file).constants(("smollm2-135m-instruct",))
    assert constants is not None and constants.proof is not None
    (promise,) = constants.proof["promises"].values()
    assert promise["bound"] >= 0.9
    assert next(one.action for one in events(desk)) == "put cuts in force"
    # What is looked at now is what was promised.
    test = page("thresholds", desk.folder, cut="case")
    assert f"{promise['hits']:,} of {promise['rows']:,}" in messages(test)
    comments = [line for line in before.decode().splitlines() if line.lstrip().startswith("#")]
    kept = [line for line in file.read_text().splitlines() if line.lstrip().startswith("#")]
    assert comments and comments == kept


def test_a_target_with_a_share_of_the_traffic_is_shown_as_it_stands(tmp_path):
    desk = scored(tmp_path / "desk", 60)
    plan = plan_of(desk, "mail.yaml", "d").with_cut(PlannedCut("spam", "bands", 0.9, 0.97, 0.25))
    keep_plan(desk, "ada", "mail.yaml", "d", plan)
    test = page("thresholds", desk.folder, part="certify")
    assert not test.exception
    shown = {one.label: one.value for one in test.number_input}
    assert [value for label, value in shown.items() if label.startswith("Share of")] == [25.0]
    assert shown["Lower cut: not holding below, %"] == 97.0
    (put,) = [one for one in test.button if one.label == "Change the line"]
    assert put.disabled


def test_what_is_not_reachable_says_how_many_labels_are_missing(tmp_path):
    desk = scored(tmp_path / "desk", 150)
    plan = plan_of(desk, "mail.yaml", "d").with_cut(PlannedCut("spam", "precision", 0.95))
    keep_plan(desk, "ada", "mail.yaml", "d", plan)
    test = press(page("thresholds", desk.folder, part="certify"), "Certify")
    assert finished(desk, "mail.yaml", "d", BITS).state == "done"
    test = page("thresholds", desk.folder, part="certify")
    told = messages(test)
    assert not test.exception and "not reachable yet" in told
    assert "Best cut, no promise" in figures(test) and "more label" in told
    assert "(data?data=d&part=label&target=spam)" in told
    (save,) = [one for one in test.button if one.label == "Save into the pack"]
    assert save.disabled and "A target has no cut yet" in told


def test_labels_of_a_question_say_where_to_go(tmp_path):
    desk = scored(tmp_path / "desk", 60)
    with desk.project.open(write=True) as connection:
        connection.execute("UPDATE label SET target = 'question:sells' WHERE row_id < 'r2'")
    told = messages(page("thresholds", desk.folder))
    assert "Labels of sells have no cut here" in told and "category of its own" in told


def test_prices_make_a_cost_in_money_and_are_kept(tmp_path):
    desk = scored(tmp_path / "desk", 300)
    test = page("thresholds", desk.folder, part="cost")
    assert not test.exception and figures(test)["Cost of 1,000 messages"].endswith("€")
    (miss,) = [one for one in test.number_input if one.label == "A miss costs"]
    before = figures(test)
    test = miss.set_value(50.0).run()
    assert not test.exception and figures(test) != before
    assert plan_of(desk, "mail.yaml", "d").miss == 50.0
    test = page("thresholds", desk.folder, part="cost")
    assert next(one.value for one in test.number_input if one.label == "A miss costs") == 50.0
    test = press(test, "Put this cut into the table of targets")
    assert plan_of(desk, "mail.yaml", "d").of("spam") == PlannedCut("spam", "cost", 50.0)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """100,000 labelled rows."""
    return scored(tmp_path_factory.mktemp("large") / "desk", 100_000)


def test_a_hundred_thousand_rows_are_shown_by_counts_and_a_page_of_errors(large, tmp_path):
    desk = large
    test = page("thresholds", desk.folder)
    assert not test.exception and not test.error
    assert "100,000 with a label" in messages(test)
    # Scores are right as shares: of those from 0.7 on, the mean of 0.7 to 0.99 holds.
    assert figures(test)["Precision"] == "84.5 %"
    assert max(len(one.value) for one in test.dataframe) == 20
    test = page("thresholds", desk.folder, part="cost")
    assert not test.exception
    assert float(figures(test)["Cheapest cut"]) == pytest.approx(1 / 6, abs=0.02)
    shutil.rmtree(tmp_path, ignore_errors=True)
