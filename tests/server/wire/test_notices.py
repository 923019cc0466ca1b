"""Slots on short invoices and notices, by the model that comes along: a small one, so what is held to
account is mostly the reader."""

import json
import re
from decimal import Decimal
from pathlib import Path

import pytest

from spinf_serve.engine.api import open_engine
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.extraction.answers import FoundAnswer
from spinf_serve.engine.work import Limits, Work
from spinf_serve.packs.question import Slot
from spinf_serve.server.features import Features
from spinf_serve.server.wire.fields import Fields
from spinf_serve.server.wire.slots import open_template, read_slot

NOTICES = json.loads((Path(__file__).parents[2] / "data" / "notices.json").read_text("utf-8"))
TOP = 5
LEAST_RIGHT = 12
PLAIN = re.compile(r"(\D*)(\d+(?:[.,]\d{1,2})?|\d{1,3}(?:[., ]\d{3})+(?:[.,]\d{1,2})?)(\D*)")


def slot(template: str) -> Slot:
    parsed = open_template(template)
    assert parsed is not None
    query = Fields({"max_tokens": 10}, "query", frozenset({"max_tokens"}))
    return read_slot(query, "q", parsed, None, None, None, Features())[0]


def plainly(text: str) -> set[Decimal]:
    """What a text with digits can mean, by rules that share nothing with the reader; empty when
    they do not fit."""
    found = PLAIN.fullmatch(text)
    if found is None or set(found[1] + found[3]) & set("kKmMbBtT%½¼¾"):
        return set()
    digits = found[2].replace(" ", "")
    sign = -1 if set(found[1] + found[3]) & set("-−–(") else 1
    marks = [char for char in digits if char in ".,"]
    readings = set()
    if not marks or len(digits) - max(digits.rfind("."), digits.rfind(",")) == 4:
        readings.add(Decimal(re.sub("[.,]", "", digits)))
    if marks:
        at = max(digits.rfind("."), digits.rfind(","))
        whole = re.sub("[.,]", "", digits[:at])
        if len(marks) == 1 or marks[-1] != marks[0]:
            readings.add(Decimal(f"{whole}.{digits[at + 1 :]}"))
    return {sign * value for value in readings}


def is_right(answer: FoundAnswer, right: list[str]) -> bool:
    if answer.values:
        return any(str(value.normalize()) == str(Decimal(one).normalize())
                   for value in answer.values for one in right if one.replace(".", "").isdigit())  # fmt: skip
    return answer.text.strip(" .").casefold() in right


def test_the_notices_are_twenty_of_all_kinds():
    kinds = [slot(one["template"]).kind.value for one in NOTICES]
    assert len(NOTICES) == 20
    assert {kind: kinds.count(kind) >= 4 for kind in "*n$"} == dict.fromkeys("*n$", True)


@pytest.mark.weights
@pytest.mark.slow
def test_answers_are_found_and_no_value_misreads_its_text():
    engine = open_engine(EngineConfig(model="embedded", device="cpu"), Limits())
    works = [Work(one["content"], (), slots=(slot(one["template"]),)) for one in NOTICES]
    results = engine.run(works)
    right, checked = [], 0
    for one, result in zip(NOTICES, results, strict=True):
        [[answers]] = result.slots
        best = answers.found[:TOP]
        right.append(any(is_right(answer, one["right"]) for answer in best))
        for answer in answers.found:
            said = plainly(answer.text)
            if answers.kind != "text" and said and answer.values:
                assert set(answer.values) <= said, (answer, said)
                checked += 1
    assert sum(right) >= LEAST_RIGHT, [
        (one["template"], [answer.text for answer in result.slots[0][0].found[:TOP]])
        for one, ok, result in zip(NOTICES, right, results, strict=True)
        if not ok
    ]
    assert checked > 30
