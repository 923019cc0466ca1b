"""What an answer says of a pack, in every mode, and what the lists of packs say."""

from dataclasses import replace
from typing import Any

import pytest

from spinf_serve.packs.decision import DecisionCall
from spinf_serve.packs.digests import asked_digest, constants_digest
from spinf_serve.packs.evaluate import state
from spinf_serve.packs.pack import Bands, Constants, Cuts, Pack, Route
from spinf_serve.server.calls import UsedPack
from spinf_serve.server.served_packs import Fit
from spinf_serve.server.wire.pack_reply import listing, pack_result
from tests.support.packs import GOLDEN_LOGPROBS, answered, golden, made
from tests.support.served_packs import fitted, served_from, write_packs
from tests.support.stub_engine import StubEngine

ANSWERS = answered(golden(), GOLDEN_LOGPROBS)
SCORES = {
    "anger": {"score": 0.627148, "percentile": 0.829467, "flagged": True},
    "money": {"score": 0.50602, "percentile": None, "flagged": True},
    "topic": {"score": 0.280291, "percentile": None, "flagged": None},
}
MISMATCH = (
    "micro-layer lock mismatch: questions, reads or maps are not those it was fitted on; "
    "the mode per_category decided"
)


def result(
    call: DecisionCall | None = None,
    *,
    full: bool = False,
    chunks: int = 1,
    pack: Pack | None = None,
    constants: Constants | None = None,
    **changes: Any,
) -> dict[str, Any]:
    its_pack, its_constants = made(golden(**changes))
    pack, constants = pack or its_pack, constants or its_constants
    fit = Fit(constants, "provisional", 5)
    used = UsedPack(
        "scoring.packs.0", pack, fit, pack.contexts["email"], False, call or DecisionCall()
    )
    return pack_result(used, [ANSWERS] * chunks, full)


def test_the_answer_of_the_contract():
    call = DecisionCall("micro_layer", 0.5, {"topic": None}, ("anger",))
    assert result(call) == {
        "id": "demo/support",
        "version": "0.1.0",
        "context": "email",
        "categories": SCORES,
        "decision": {
            "unsafe": True,
            "mode": "micro_layer",
            "score": 0.588394,
            "threshold": 0.5,
            "critical": ["anger"],
        },
        "state": "provisional",
    }


@pytest.mark.parametrize(
    ("call", "changes", "decision"),
    [
        (
            DecisionCall("max"),
            {},
            {
                "unsafe": True,
                "mode": "max",
                "score": 0.627148,
                "threshold": 0.6,
                "category": "anger",
                "critical": ["anger"],
            },
        ),
        (
            DecisionCall("per_category"),
            {},
            {
                "unsafe": True,
                "mode": "per_category",
                "categories": ["anger", "money"],
                "critical": ["anger"],
            },
        ),
        (
            DecisionCall("max", 0.9),
            {},
            {
                "unsafe": True,
                "mode": "max",
                "score": 0.627148,
                "threshold": 0.9,
                "category": "anger",
                "critical": ["anger"],
                "by": "critical",
            },
        ),
        (
            DecisionCall("max", 0.9, critical=()),
            {},
            {
                "unsafe": False,
                "mode": "max",
                "score": 0.627148,
                "threshold": 0.9,
                "category": "anger",
            },
        ),
        (
            DecisionCall(thresholds={"anger": 0.9}),
            {},
            {"unsafe": True, "mode": "micro_layer", "score": 0.588394, "threshold": 0.5},
        ),
        (
            DecisionCall(thresholds={"anger": None, "money": None}, critical=(), mode="max"),
            {},
            {"unsafe": False, "mode": "max", "score": 0.0, "threshold": 0.6, "category": None},
        ),
        (
            DecisionCall(),
            {"reads__0__sd": 2.5},
            {
                "unsafe": True,
                "mode": "per_category",
                "categories": ["anger", "money"],
                "critical": ["anger"],
                "warning": MISMATCH,
            },
        ),
        (
            DecisionCall(),
            {
                "decision__micro_layer__hidden": 2,
                "decision__micro_layer__weights": "AAAAPwAAgL4AAIA+AAAAPwAAAD4AAAAAzczMPc3MzL0AAIA/"
                "AAAAP83MTL7NzMw+",
            },
            {
                "unsafe": True,
                "mode": "micro_layer",
                "score": 0.632951,
                "threshold": 0.4,
                "critical": ["anger"],
            },
        ),
    ],
)  # fmt: skip
def test_the_decision_in_every_mode(call, changes, decision):
    assert result(call, **changes)["decision"] == decision


def test_full_precision_holds_for_packs_too():
    whole = result(DecisionCall("max"), full=True)
    short = result(DecisionCall("max"))
    for name, category in whole["categories"].items():
        assert category["score"] != short["categories"][name]["score"]
        assert round(category["score"], 6) == short["categories"][name]["score"]
    assert round(whole["decision"]["score"], 6) == 0.627148 != whole["decision"]["score"]


@pytest.mark.parametrize("threshold", [1e308, -1e12, 123456789.1234567])
def test_a_threshold_of_a_layer_may_be_of_any_size(threshold):
    shown = result(DecisionCall("micro_layer", threshold, critical=()))["decision"]
    assert shown["threshold"] == round(threshold, 6)
    assert shown["unsafe"] is (threshold < 0)


def test_a_draft_decides_nothing_and_says_so():
    pack, _ = made(golden())
    used = UsedPack("p", pack, Fit(None, "draft", 5), pack.contexts["chat"], False, DecisionCall())
    none = {"score": None, "percentile": None, "flagged": None}
    assert used.shows_answers
    assert pack_result(used, [ANSWERS], False) == {
        "id": "demo/support",
        "version": "0.1.0",
        "context": "chat",
        "categories": {"anger": none, "money": none, "topic": none},
        "decision": None,
        "state": "draft",
    }


def test_bands_and_a_route_stand_beside():
    pack, constants = made(golden())
    bands = Bands(Cuts(act=0.9, review=0.5), {"money": Cuts(act=0.5, review=0.2)})
    body = result(
        pack=replace(pack, route=Route(("anger", "money"), margin=0.2, abstain="unsure")),
        constants=replace(constants, bands=bands),
    )
    assert body["categories"]["money"]["band"] == "act"
    assert "band" not in body["categories"]["anger"]
    assert body["decision"]["band"] == "review"
    assert body["route"] == {
        "choice": "unsure",
        "leader": "anger",
        "score": 0.627148,
        "second": 0.50602,
        "margin": 0.121128,
    }
    alone = result(pack=replace(pack, route=Route(("anger",))))["route"]
    assert alone == {
        "choice": "anger", "leader": "anger", "score": 0.627148, "second": None, "margin": None,
    }  # fmt: skip


def test_chunks_are_counted():
    pack, constants = made(golden())
    body = result(pack=replace(pack, on_long="mean"), constants=constants, chunks=3)
    assert body["chunks"] == 3 and body["categories"] == SCORES
    assert "chunks" not in result()


def test_a_list_has_every_field_of_a_pack(tmp_path):
    write_packs(
        tmp_path / "packs",
        fitted(name="Support", description="Mail of a shop", tags=["mail"]),
        fitted(version="0.0.9"),
        fitted(pack="demo/draft", model="other/model", contexts={"one": "{X}\n"}),
    )
    served = served_from(tmp_path / "packs")
    body = listing(served, StubEngine().as_engine())
    draft, support = sorted(body["packs"], key=lambda entry: entry["id"])
    assert support == {
        "id": "demo/support",
        "name": "Support",
        "status": "available",
        "version": "0.1.0",
        "versions": ["0.1.0", "0.0.9"],
        "description": "Mail of a shop",
        "tags": ["mail"],
        "model": "stub/words-1",
        "media": ["text"],
        "source": f"local:{tmp_path / 'packs'}",
        "parameters": [
            {"id": "shop", "required": False, "label": "Shop name", "default": "the shop"}
        ],
        "contexts": [{"id": name, "template": text} for name, text in fitted()["contexts"].items()],
        "categories": [
            {"id": "anger", "label": "Anger", "threshold": 0.5},
            {"id": "money", "label": "Money", "threshold": 0.4},
            {"id": "topic", "label": "Topic", "threshold": None},
        ],
        "decision": {
            "mode": "micro_layer",
            "modes": ["per_category", "max", "micro_layer"],
            "fallback": "per_category",
            "max_threshold": 0.6,
            "critical": ["anger"],
        },
        "queries": 3,
        "prompts": 4,
        "state": "provisional",
    }
    assert (draft["state"], draft["model"]) == ("draft", "other/model")
    assert {category["threshold"] for category in draft["categories"]} == {None}
    assert draft["decision"]["max_threshold"] is None
    assert body["sources"] == [f"local:{tmp_path / 'packs'}"] and body["faults"] == []


def test_a_proof_certifies_on_the_model_it_was_made_on():
    pack, constants = made(golden())
    proof = {
        "model": "ab" * 32,
        "constants": constants_digest(constants),
        "asked": asked_digest(pack.body),
    }
    proven = replace(constants, proof=proof)
    assert state(pack, proven, "ab" * 32) == "certified"
    assert state(pack, proven, "cd" * 32) == "provisional"
