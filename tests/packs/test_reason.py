"""Reasons: the numbers that decided, with the thresholds of the call and not only the pack's."""

from dataclasses import replace

import pytest

from spinf_serve.packs.decision import DecisionCall
from spinf_serve.packs.evaluate import Evaluation, evaluate
from spinf_serve.packs.pack import Constants, Pack
from spinf_serve.packs.reads import shares
from spinf_serve.packs.reason import reason
from tests.support.packs import GOLDEN_LOGPROBS, golden, made


def evaluated(call: DecisionCall, **changes: object) -> tuple[Pack, Constants, Evaluation]:
    pack, constants = made(golden(**changes))
    vectors = {key: shares(values, key[0]) for key, values in GOLDEN_LOGPROBS.items()}
    return pack, constants, evaluate(pack, constants, [vectors], call)


def told(call: DecisionCall, **changes: object) -> str:
    pack, constants, found = evaluated(call, **changes)
    return reason(pack, constants, call, found)


PER_CATEGORY = DecisionCall(mode="per_category", critical=())


def test_the_flagged_categories_stand_beside_their_thresholds():
    _, _, found = evaluated(PER_CATEGORY)
    anger, money = found.categories["anger"].score, found.categories["money"].score
    assert anger >= 0.5 and money >= 0.4
    assert told(PER_CATEGORY) == (f"anger {anger:.4g} reaches 0.5, money {money:.4g} reaches 0.4")


def test_a_threshold_of_the_call_is_the_one_that_is_told():
    call = replace(PER_CATEGORY, thresholds={"anger": 0.99, "money": None})
    _, _, found = evaluated(call)
    assert not found.verdict.unsafe
    assert told(call) == f"anger {found.categories['anger'].score:.4g} stays below 0.99"


def test_a_category_that_lacks_what_it_requires_says_so():
    call = replace(PER_CATEGORY, thresholds={"anger": 0.99})
    assert told(call).endswith("reaches 0.4, but not what it requires: anger")


def test_without_a_threshold_nothing_decides():
    call = replace(PER_CATEGORY, thresholds={"anger": None, "money": None})
    assert told(call) == "no category of the pack decides"


@pytest.mark.parametrize(("mode", "name"), [("max", "anger"), ("micro_layer", "the layer")])
def test_one_score_decides_in_the_other_modes(mode, name):
    call = DecisionCall(mode=mode, threshold=0.25, critical=())
    _, _, found = evaluated(call)
    score = found.verdict.score or 0.0
    side = "reaches" if score >= 0.25 else "stays below"
    assert told(call) == f"{found.verdict.category or name} {score:.4g} {side} 0.25"


def test_a_critical_category_that_decided_alone_is_all_there_is_to_say():
    call = DecisionCall(mode="max", threshold=1.0)
    assert told(call) == "critical: anger"


def test_a_fallback_is_told_behind_the_reason():
    words = told(DecisionCall(critical=()), decision__micro_layer__lock="sha256:" + "0" * 64)
    assert words.startswith("anger ")
    assert words.endswith("; the mode per_category decided")
