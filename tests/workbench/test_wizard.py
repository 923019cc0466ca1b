"""Packs that are begun: from plain sentences, and as copies. What comes out is a pack that lint lets pass."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from spinf_serve.packs.catalogue import official_folder
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.loader import load_pack, read_pack
from spinf_serve.workbench import audit
from spinf_serve.workbench.actions import wizard
from spinf_serve.workbench.actions.sentences import Ask, propose
from spinf_serve.workbench.desk import Desk, open_desk
from tests.workbench.support import messages, page, read

SENTENCES = {
    "the customer threatens to leave": ("The customer wants to{?}", ("leave", "stay")),
    "The customer wants to cancel the contract.": (
        "The customer wants to{?}",
        ("cancel", "continue"),
    ),
    "the writer is angry": ("The writer is{?}", ("angry", "calm")),
    "the writer is not satisfied": ("The writer is{?}", ("disappointed", "satisfied")),
    "somebody sounds very rude": ("The writer is{?}", ("rude", "polite")),
    "the matter is urgent": ("The matter is{?}", ("urgent", "ordinary")),
    "the customer wants a refund": ("The customer asks for a{?}", ("refund", "answer")),
    "the client asks for an invoice for May": ("The client asks for an{?}", ("invoice", "answer")),
    "the customer needs help": ("The customer asks for{?}", ("help", "answer")),
    "the message is about a late delivery": ("This is about{?}", ("delivery", "something")),
    "The user complains about the app": ("This is about{?}", ("app", "something")),
    "the customer has a problem with the login": ("This is about{?}", ("login", "something")),
    "they insult our staff": ("In the message, the writer{?}", ("insults", "thanks")),
    "the post praises the brand": ("In the message, the post{?}", ("praises", "complains")),
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_sentence_becomes_the_beginning_of_one_that_a_word_goes_on_with(sentence: str) -> None:
    found = propose(sentence)
    template, options = SENTENCES[sentence]
    assert found.asks[0] == Ask(f"\n{template}", options)
    assert not found.advice
    for ask in found.asks:
        assert ask.small
        assert ask.template.endswith("{?}")
        # Single everyday words, and neither true nor false.
        assert all(option.isalpha() and option.islower() for option in ask.options)
        assert not {"true", "false", "yes", "no"} & set(ask.options)


@pytest.mark.parametrize("sentence", ["Der Kunde droht mit Kündigung", "angry", "in {F} danger"])
def test_a_sentence_that_is_not_understood_gets_advice(sentence: str) -> None:
    found = propose(sentence)
    assert "Begin it with who and what" in found.advice
    assert [ask.small for ask in found.asks] == [False]


def test_a_large_model_is_asked_the_sentence_too() -> None:
    asks = propose("the writer is angry", large=True).asks
    assert asks[-1] == Ask(
        "\nThe writer is angry. True or false? It is{?}", ("true", "false"), small=False
    )
    assert len(asks) == 3


@settings(deadline=None, max_examples=15)
@given(
    st.lists(
        st.sampled_from(list(SENTENCES))
        | st.tuples(
            st.sampled_from(["the customer", "they", "it", "The message", "somebody", ""]),
            st.sampled_from(
                ["wants to", "is", "asks for", "is about", "wants", "has a problem with", "x"]
            ),
            st.text(max_size=20),
        ).map(" ".join),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from(list(wizard.KINDS)),
    st.text(min_size=1, max_size=20).filter(str.strip),
    st.booleans(),
)
def test_any_sentences_become_a_pack_without_findings(
    sentences: list[str], kind: str, name: str, large: bool
) -> None:
    proposals = [propose(sentence, large=large) for sentence in sentences]
    text = wizard.written(name, kind, [(one, one.asks) for one in proposals])
    assert wizard.findings(text) == []
    pack = read_pack(text.encode(), "pack.yaml")
    assert len(pack.questions) == sum(len(one.asks) for one in proposals)
    assert len(pack.categories) == len(proposals)
    assert [one.label for one in pack.categories.values()] == [one.label for one in proposals]


def test_each_sentence_stands_above_its_questions() -> None:
    proposals = [propose(sentence) for sentence in SENTENCES]
    text = wizard.written("Mail", "email", [(one, one.asks) for one in proposals])
    lines = text.split("\n")
    for one in proposals:
        at = lines.index(f"    # {one.sentence}")
        assert lines[at + 1].startswith("    - id: ")
    assert 'default: "Email: {X}\\n"' in text


def test_what_was_not_ticked_is_left_out_and_nothing_is_refused() -> None:
    one, other = propose("the writer is angry"), propose("the customer wants a refund")
    text = wizard.written("x", "review", [(one, one.asks[:1]), (other, [])])
    pack = read_pack(text.encode(), "pack.yaml")
    assert [question.id for question in pack.questions] == list(pack.categories) == ["angry"]
    with pytest.raises(Unusable, match="no question is ticked"):
        wizard.written("x", "review", [(one, [])])


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "pack.yaml").write_text("pack: a/b\n")
    return open_desk(tmp_path)


def test_an_official_pack_is_copied_with_comments_and_numbers(desk: Desk) -> None:
    offers = {offer.name: offer for offer in wizard.official()}
    assert len(offers) == len(list(official_folder().glob("*/pack.yaml")))
    offer = offers["Support triage"]
    assert offer.rows == 339
    assert offer.auc is not None
    assert 0.8 < offer.auc < 0.9
    file = wizard.copy_pack(desk, "anna", offer.file, "Our Mail Desk!")
    assert desk.name_of(file) == "packs/our-mail-desk/pack.yaml"
    assert (file.parent / "pack.schema.json").is_file()
    before, after = load_pack(offer.file), load_pack(file)
    assert (after.id, after.version, after.name) == ("my/our-mail-desk", "0.1.0", "Our Mail Desk!")
    assert after.fitted == before.fitted
    old, new = offer.file.read_text().splitlines(), file.read_text().splitlines()
    assert len(set(old) - set(new)) <= 3
    assert audit.events(desk)[0].action == "copy pack"


def test_letters_with_marks_stay_in_an_id() -> None:
    assert wizard.id_from("Kunden & Ärger, groß") == "my/kunden-arger-gross"
    assert wizard.id_from("Réclamations") == "my/reclamations"


def test_nothing_is_overwritten(desk: Desk) -> None:
    one = propose("the writer is angry")
    text = wizard.written("Mine", "email", [(one, one.asks)])
    file = wizard.create(desk, "u", "Mine", text)
    with pytest.raises(Unusable, match="there is a pack in packs/mine/pack.yaml already"):
        wizard.create(desk, "u", "mine!", text.replace("Email:", "Mail:"))
    assert file.read_text() == text
    with pytest.raises(Unusable, match="give the pack a name"):
        wizard.create(desk, "u", " ", text)


def field(test: AppTest, label: str) -> Any:
    kinds = (test.text_input, test.text_area, test.selectbox, test.checkbox)
    (found,) = [one for kind in kinds for one in kind if read(one.label) == label]
    return found


def test_the_page_shows_questions_before_it_writes_them(desk: Desk) -> None:
    test = page("pack", desk.folder, new="1")
    assert not test.exception
    assert "Write a sentence" in messages(test)
    field(test, "What is to be noticed? One sentence a line.").set_value(
        "the customer threatens to leave\nder Kunde droht"
    ).run()
    assert not test.exception
    assert "Begin it with who and what" in messages(test)
    assert not list(desk.folder.glob("packs/*/pack.yaml"))
    # A reload loses nothing; questions can be reworded.
    test = page("pack", desk.folder, new="1")
    field(test, "Speaks against it: The customer wants to{?}").set_value("remain").run()
    field(test, "Ask: What the customer will do next:{?}").set_value(False).run()
    field(test, "Wording: In the message, the customer{?}").set_value("The customer").run()
    assert any("Not yet" in one.value for one in test.error)
    assert test.button(key="new-create").disabled
    field(test, "Wording: In the message, the customer{?}").set_value("The customer{?}").run()
    field(test, "Name of the pack").set_value("At risk").run()
    test.button(key="new-create").click().run()
    assert not test.exception
    pack = load_pack(desk.folder / "packs" / "at-risk" / "pack.yaml")
    assert [question.options for question in pack.questions] == [
        (" leave", " remain"), (" threatens", " thanks"),
    ]  # fmt: skip
    assert "new" not in test.query_params
    assert test.session_state["choice-pack"] == "packs/at-risk/pack.yaml"


def test_the_page_copies(desk: Desk) -> None:
    test = page("pack", desk.folder, new="1")
    test.segmented_control(key="new-way").set_value("Copy an official pack").run()
    assert not test.exception
    assert "Support triage" in messages(test)
    names = [one for one in test.text_input if one.label == "Name of the copy"]
    (mine,) = [one for one in names if one.value == "My News"]
    assert mine.key is not None
    mine.set_value("Wire").run()
    (button,) = [
        one for one in test.button if one.key == mine.key.replace("official-", "official-make-")
    ]
    button.click().run()
    assert not test.exception
    assert load_pack(desk.folder / "packs" / "wire" / "pack.yaml").name == "Wire"
