"""Personal data in texts: what is masked, what is not, and texts of packs about harm."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from spinf_serve.packs.loader import read_pack
from spinf_serve.workbench.desk import open_desk
from spinf_serve.workbench.masking import masked
from spinf_serve.workbench.parts.texts import is_about_harm, shown_text

POSITIVE = [
    ("Write to anna.lee+shop@mail.example.com please.", "Write to [email] please."),
    ("mail: ANNA_LEE@EXAMPLE.ORG", "mail: [email]"),
    ("j.doe@sub.domain.co.uk, thanks", "[email], thanks"),
    ("reach me at joe at example dot com", "reach me at [email]"),
    ("max (at) beispiel (punkt) de", "[email]"),
    ("See https://shop.example/orders?id=7&u=anna", "See [link]"),
    ("my page is www.anna-lee.example", "my page is [link]"),
    ("HTTP://X.EXAMPLE/a b", "[link] b"),
    ("IBAN DE89 3704 0044 0532 0130 00.", "IBAN [account]."),
    ("DE89370400440532013000", "[account]"),
    ("konto: de89 3704 0044 0532 0130 00", "konto: [account]"),
    ("GB82 WEST 1234 5698 7654 32 is mine", "[account] is mine"),
    ("FR14 2004 1010 0505 0001 3M02 606", "[account]"),
    ("ES91 2100 0418 4502 0005 1332", "[account]"),
    ("card 4111 1111 1111 1111", "card [card]"),
    ("5500-0000-0000-0004 expired", "[card] expired"),
    ("4012888888881881", "[card]"),
    ("SSN 078-05-1120", "SSN [id]"),
    ("from 192.168.10.25 again", "from [ip] again"),
    ("I was born on 12.03.1985.", "I was born on [date]."),
    ("date of birth: 1985-03-12", "date of birth: [date]"),
    ("geboren am 3. März 1990", "geboren am [date]"),
    ("née le 14/07/1975", "née le [date]"),
    ("fecha de nacimiento: 01/02/1980", "fecha de nacimiento: [date]"),
    ("Call +49 30 1234567 today", "Call [phone] today"),
    ("+1 (555) 123-4567", "[phone]"),
    ("0044 20 7946 0958", "[phone]"),
    ("Ring 020 7946 0958", "Ring [phone]"),
    ("mobil 0171/1234567", "mobil [phone]"),
    ("06 12 34 56 78", "[phone]"),
    ("555-123-4567", "[phone]"),
    ("(555) 123-4567 works", "[phone] works"),
    ("phone: 5551234", "phone: [phone]"),
    ("my number is 612 345 678", "my number is [phone]"),
    ("teléfono 912345678", "teléfono [phone]"),
    ("Write @anna_lee or @max99", "Write [handle] or [handle]"),
    ("I live at 12 Baker Street, London", "I live at [address], London"),
    ("221b Old Mill Road", "[address]"),
    ("Lieferung an Hauptstraße 5", "Lieferung an [address]"),
    ("Am Ende der Goethestr. 12b wohne ich", "Am Ende der [address] wohne ich"),
    ("12 rue de la Paix", "[address]"),
    ("8 bis avenue Victor Hugo, Lyon", "[address], Lyon"),
    ("vivo en calle de Alcalá 45", "vivo en [address]"),
    ("abito in via Roma 10", "abito in [address]"),
    ("Hello, my name is Anna Lee and I wait.", "Hello, my name is [name] and I wait."),
    ("My name is Jan van der Berg.", "My name is [name]."),
    ("my name is anna, hi", "my name is [name], hi"),
    ("This is Anna Lee speaking", "This is [name] speaking"),
    ("Hi, this is Peter from the second floor", "Hi, this is [name] from the second floor"),
    ("Ich heiße Jürgen Müller und warte", "Ich heiße [name] und warte"),
    ("mein Name ist Özlem Yılmaz", "mein Name ist [name]"),
    ("Je m'appelle Élodie Dupont.", "Je m'appelle [name]."),
    ("me llamo José García", "me llamo [name]"),
    ("Mi chiamo Luca Rossi", "Mi chiamo [name]"),
    ("Meu nome é João da Silva", "Meu nome é [name]"),
    ("Ik heet Sanne de Vries", "Ik heet [name]"),
    ("Nazywam się Łukasz Nowak", "Nazywam się [name]"),
    ("меня зовут Иван Петров", "меня зовут [name]"),
    ("我叫王小明。", "我叫[name]。"),
    ("Dear Mr. Smith, hello", "Dear Mr. [name], hello"),
    ("Sehr geehrte Frau Schneider", "Sehr geehrte Frau [name]"),
    ("Dr. Meier said so", "Dr. [name] said so"),
    ("It broke.\nKind regards,\nAnna Lee", "It broke.\nKind regards,\n[name]"),
    ("Viele Grüße\nMax Mustermann\n", "Viele Grüße\n[name]\n"),
    ("Danke. LG Tom", "Danke. LG [name]"),
    ("Merci.\nCordialement,\nMarie Curie", "Merci.\nCordialement,\n[name]"),
]

NEGATIVE = [
    "I paid $1,299.00 for it.",
    "1.000.000 Euro sind zu viel",
    "The total is 12345678 points",
    "It costs 49.99 and not 59.99",
    "Delivered on 2024-01-05 at 10:30",
    "am 05.01.2024 bestellt",
    "On 01/05/2024 nothing came",
    "between 10:30-11:30 or 14-16",
    "Open 24/7, 365 days",
    "Version 3.11.2 crashes, 3.10 did not",
    "firmware 1.2.3.4 is fine",
    "Order 7781 never came",
    "PO 77-3301 must be on it",
    "Bestellung 4711 fehlt",
    "The screen is 1920x1080 at 60 Hz",
    "iPhone 15 and Galaxy S23",
    "30 office chairs for the 15th",
    "My name is misspelled on the card",
    "my name is not on the list",
    "My name is still wrong.",
    "my name is on the invoice twice",
    "the name is wrong, please mend it",
    "This is Great news",
    "This is Monday's parcel",
    "This is unacceptable!",
    "Meine Frau hat schon bezahlt",
    "Der Herr am Schalter war nett",
    "Eine Frau rief an",
    "Best regards to the whole team, you rock",
    "Cheers for nothing",
    "Lots of regards",
    "LG TV does not turn on",
    "meet me @ 5",
    "5 @ 3 EUR each",
    "a@b",
    "Main Street was closed",
    "I walked 12 kilometres in the rain",
    "Der Weg war weit",
    "la rue est bloquée",
    "via e-mail or via app",
    "calle cortada todo el día",
    "They called 3 times in 2 days",
    "phone battery lasts 5 hours",
    "my phone: dead since Monday",
    "The number 42 bus",
    "tel quel, merci",
    "RMA AB12 was refused",
    "Model AB12CDEF3456GH78JKL is loud",
    "part DE12 3456 7890 1234 5678 90 fits",
    "Tracking 12345678901234 says delivered",
    "1111 2222 3333 4445 is on the box",
    "I need 500 g, 1000 g and 2000 g",
    "Score was 3-2 in 2019",
    "1-2-3 and done",
    "born to run",
    "I was born in Berlin",
    "Case 12 of 30",
    "He is at home dot",
    "Mr is missing on the form",
    "at the dot of noon",
    "我叫了出租车没来",
    "ich heiße das nicht gut",
    "adim sayısı 10000",
]


@pytest.mark.parametrize(("text", "expected"), POSITIVE)
def test_personal_data_is_masked(text: str, expected: str) -> None:
    assert masked(text) == expected


@pytest.mark.parametrize("text", NEGATIVE)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert masked(text) == text


def test_there_are_enough_examples() -> None:
    assert len(POSITIVE) >= 60
    assert len(NEGATIVE) >= 60


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Order 7781 never came", "Order [number] never came"),
        ("order no. AB-12/77", "order no. [number]"),
        ("invoice #2024-0042 is wrong", "invoice #[number] is wrong"),
        ("Kundennummer: 4711-88", "Kundennummer: [number]"),
        ("commande n° FR4455", "commande n° [number]"),
        ("see #12345", "see #[number]"),
        ("in order to pay", "in order to pay"),
        ("my order is late", "my order is late"),
        ("Case closed", "Case closed"),
    ],
)
def test_numbers_of_orders_are_masked_on_request(text: str, expected: str) -> None:
    assert masked(text, orders=True) == expected


@given(st.text(max_size=200))
def test_masking_twice_is_masking_once(text: str) -> None:
    once = masked(text, orders=True)
    assert masked(once, orders=True) == once


def test_a_long_text_is_masked_at_once() -> None:
    # Would take minutes where a pattern goes back and forth.
    for piece in ("1 ", "a@", "Aa ", "12 Aa ", "my name is ", "0-", "AB12 "):
        once = masked(piece * 20_000, orders=True)
        assert masked(once, orders=True) == once


def test_the_setting_of_the_project_decides(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("pack: a/b\n")
    desk = open_desk(tmp_path)
    text = "order 7781 for a@b.example"
    assert shown_text(desk, text) == text
    desk.set(mask=True)
    assert shown_text(desk, text) == "order 7781 for [email]"
    desk.set(mask_orders=True)
    assert shown_text(desk, text) == "order [number] for [email]"


PACK = b"""\
pack: a/b
version: 0.1.0
contexts: {default: "{X}"}
scoring:
  queries: [{id: q, template: "It is{?}", options: [bad, good], category: c}]
"""


@pytest.mark.parametrize(
    ("tags", "hidden"),
    [([], False), (["support"], False), (["Moderation"], True), (["trust-and-safety"], True)],
)
def test_packs_about_harm_are_known_by_tags(tags: list[str], hidden: bool) -> None:
    pack = replace(read_pack(PACK, "p.yaml"), tags=tuple(tags))
    assert is_about_harm(pack) is hidden


def _page(folder: str, tags: list[str]) -> None:
    from dataclasses import replace
    from pathlib import Path

    from spinf_serve.packs.loader import load_pack
    from spinf_serve.workbench.desk import Desk
    from spinf_serve.workbench.parts.texts import show_text

    path = Path(folder)
    pack = replace(load_pack(path / "p.yaml"), tags=tuple(tags))
    show_text(Desk(path, path / "project.duckdb"), pack, "a terrible text", "row-1")


def test_a_text_about_harm_is_sent_only_when_asked_for(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_bytes(PACK)
    test = AppTest.from_function(_page, args=(str(tmp_path), ["moderation"])).run()
    assert not test.text
    test.button[0].click().run()
    assert test.text[0].value == "a terrible text"
    plain = AppTest.from_function(_page, args=(str(tmp_path), [])).run()
    assert plain.text[0].value == "a terrible text"
