"""The decision: what a call may say, fallbacks, bands, routes."""

from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from spinf_serve.packs.categories import CategoryScore
from spinf_serve.packs.decision import (
    DecisionCall,
    Verdict,
    check_call,
    choose,
    decide,
    thresholds,
)
from spinf_serve.packs.errors import Refused
from spinf_serve.packs.evaluate import evaluate
from spinf_serve.packs.pack import Bands, Constants, Cuts, Pack, Route
from spinf_serve.packs.reads import Vectors, vectors
from tests.support.packs import GOLDEN_LOGPROBS, answered, golden, made


def judged(call: DecisionCall | None = None, bands: Bands | None = None, **changes: Any) -> Verdict:
    plain = golden(**changes)
    pack, constants = made(plain)
    answers = vectors(pack, answered(plain, GOLDEN_LOGPROBS))
    known = replace(constants, bands=bands)
    return evaluate(pack, known, [answers], call or DecisionCall()).verdict


def golden_chunks() -> list[Vectors]:
    return [vectors(made(golden())[0], answered(golden(), GOLDEN_LOGPROBS))]


def refusal(call: DecisionCall, pack: Pack, constants: Constants | None) -> tuple[str, str, str]:
    with pytest.raises(Refused) as caught:
        check_call(pack, constants, call)
    return caught.value.code, caught.value.param or "", caught.value.message


@pytest.mark.parametrize(
    "call",
    [
        DecisionCall(),
        DecisionCall(mode="max", threshold=0),
        DecisionCall(mode="max", threshold=1),
        DecisionCall(mode="micro_layer", threshold=-7.5),
        DecisionCall(threshold=12),
        DecisionCall(mode="per_category", thresholds={"anger": None, "topic": 1.0}),
        DecisionCall(critical=()),
        DecisionCall(critical=("topic",)),
    ],
)
def test_what_a_call_may_say(call):
    pack, constants = made(golden())
    check_call(pack, constants, call)
    check_call(pack, None, call)
    assert evaluate(pack, constants, golden_chunks(), call).verdict.mode in pack.modes


@pytest.mark.parametrize(
    ("call", "code", "param", "says"),
    [
        (DecisionCall(mode="per_category", threshold=0.5), "invalid_field", "threshold", "per_cat"),
        (DecisionCall(mode="max", threshold=1.5), "invalid_field", "threshold", "0 to 1"),
        (DecisionCall(mode="max", threshold=-0.1), "invalid_field", "threshold", "0 to 1"),
        (DecisionCall(mode="max", threshold=nan), "invalid_field", "threshold", "finite"),
        (DecisionCall(threshold=inf), "invalid_field", "threshold", "finite"),
        (DecisionCall(threshold=True), "invalid_field", "threshold", "finite"),
        (DecisionCall(thresholds={"anger": 2}), "invalid_field", "thresholds.anger", "0 to 1"),
        (DecisionCall(thresholds={"angre": 0.5}), "unknown_category", "thresholds.angre", "anger"),
        (DecisionCall(thresholds={"zzz": None}), "unknown_category", "thresholds.zzz", "topic"),
        (DecisionCall(critical=("anger", "x")), "unknown_category", "critical.1", "'x'"),
    ],
)
def test_what_a_call_may_not_say(call, code, param, says):
    pack, constants = made(golden())
    for known in (constants, None):
        found = refusal(call, pack, known)
        assert found[:2] == (code, f"decision.{param}")
        assert says in found[2]


def test_a_mode_that_the_pack_lacks():
    plain = golden(decision={"mode": "per_category"})
    pack, constants = made(plain)
    code, param, message = refusal(DecisionCall(mode="micro_layer"), pack, constants)
    assert (code, param) == ("invalid_field", "decision.mode")
    assert "has per_category" in message
    unknown: Any = DecisionCall(mode="loud")  # type: ignore[arg-type]
    assert refusal(unknown, pack, constants)[1] == "decision.mode"


def test_a_threshold_goes_with_the_packs_mode_when_none_is_named():
    pack, constants = made(golden(decision={"mode": "per_category"}))
    assert refusal(DecisionCall(threshold=0.5), pack, constants)[1] == "decision.threshold"


def test_a_mode_that_was_not_fitted_on_this_model():
    pack, constants = made(golden())
    bare = replace(constants, layer=None, max_threshold=None)
    for mode in ("max", "micro_layer"):
        code, param, message = refusal(DecisionCall(mode=mode), pack, bare)
        assert (code, param) == ("invalid_field", "decision.mode")
        assert "not fitted on the served model" in message


def test_call_thresholds_hold_in_every_mode():
    for mode in ("max", "per_category", "micro_layer"):
        plain = golden(decision__critical=["anger"])
        pack, constants = made(plain)
        answers = vectors(pack, answered(plain, GOLDEN_LOGPROBS))
        call = DecisionCall(mode=mode, thresholds={"anger": 0.9, "topic": 0.1})
        result = evaluate(pack, constants, [answers], call)
        assert [one.flagged for one in result.categories.values()] == [False, False, True]
        assert result.verdict.critical == ()


def test_a_null_threshold_of_the_call_takes_the_category_out():
    verdict = judged(DecisionCall(mode="max", thresholds={"anger": None}))
    assert verdict.category == "money"
    assert not verdict.unsafe


def test_a_threshold_given_to_a_reporting_category_makes_it_decide():
    verdict = judged(DecisionCall(mode="per_category", thresholds={"topic": 0.2}))
    assert verdict.categories == ("anger", "money", "topic")


def test_a_category_that_does_not_decide_can_still_be_critical():
    verdict = judged(DecisionCall(mode="per_category"), categories__anger__decides=False)
    assert verdict.categories == ("money",)
    assert verdict.critical == ("anger",)


def test_nothing_decides():
    call = DecisionCall(mode="max", thresholds=dict.fromkeys(("anger", "money", "topic")))
    verdict = judged(call)
    assert (verdict.score, verdict.category, verdict.unsafe) == (0, None, False)


def test_of_equal_scores_the_first_in_the_file_counts():
    plain = golden()
    pack, constants = made(plain)
    scores = {id: CategoryScore(0.7, None, True, None) for id in pack.categories}
    call = DecisionCall(mode="max", thresholds={"topic": 0.5})
    assert decide(pack, constants, call, scores, {}, {}).category == "anger"


def test_the_threshold_of_a_fallback_is_not_the_calls():
    verdict = judged(DecisionCall(threshold=0.99), reads__0__sd=2.5, decision__fallback="max")
    assert (verdict.mode, verdict.threshold) == ("max", 0.6)
    assert "lock mismatch" in (verdict.warning or "")


def test_a_layer_that_was_never_fitted_on_this_model_falls_back_with_a_warning():
    pack, constants = made(golden(decision__fallback="max"))
    answers = vectors(pack, answered(golden(), GOLDEN_LOGPROBS))
    bare = replace(constants, layer=None)
    verdict = evaluate(pack, bare, [answers], DecisionCall()).verdict
    assert (verdict.mode, verdict.threshold) == ("max", 0.6)
    assert verdict.warning == "no micro layer was fitted on demo/model; the mode max decided"
    barer = replace(bare, max_threshold=None)
    verdict = evaluate(pack, barer, [answers], DecisionCall()).verdict
    assert (verdict.mode, verdict.categories) == ("per_category", ("anger", "money"))


def test_a_mode_without_a_cut_falls_back_unless_the_call_brings_one():
    pack, constants = made(golden(decision__mode="max"))
    bare = replace(constants, max_threshold=None)
    answers = vectors(pack, answered(golden(), GOLDEN_LOGPROBS))
    verdict = evaluate(pack, bare, [answers], DecisionCall()).verdict
    assert verdict.mode == "per_category"
    assert "no threshold of the mode max" in (verdict.warning or "")
    given = evaluate(pack, bare, [answers], DecisionCall(threshold=0.7)).verdict
    assert (given.mode, given.threshold, given.warning) == ("max", 0.7, None)


def test_thresholds_in_force():
    pack, constants = made(golden())
    call = DecisionCall(thresholds={"anger": None, "topic": 0.3})
    assert thresholds(pack, constants, call) == {"anger": None, "money": 0.4, "topic": 0.3}


def test_band_of_a_scored_decision_is_its_scores():
    bands = Bands(Cuts(0.62, 0.5))
    assert judged(DecisionCall(), bands, decision__mode="max").band == "act"
    assert judged(DecisionCall(), bands).band == "review"
    high = Bands(Cuts(0.9, 0.8))
    assert judged(DecisionCall(critical=()), high, decision__mode="max").band == "pass"


def test_cuts_of_the_decision_say_nothing_on_the_scale_of_another_mode():
    bands = Bands(Cuts(0.62, 0.5))
    other = judged(DecisionCall(mode="max"), bands)
    assert (other.mode, other.band) == ("max", None)
    fallen = judged(DecisionCall(), bands, reads__0__sd=2.5, decision__fallback="max")
    assert (fallen.mode, fallen.band) == ("max", None)


def test_band_of_per_category_is_the_highest_of_the_deciding():
    call = DecisionCall(mode="per_category", critical=())
    cuts = {"anger": Cuts(0.9, 0.6), "money": Cuts(0.5, 0.1), "topic": Cuts(0.1, 0.05)}
    assert judged(call, Bands(None, cuts)).band == "act"
    # topic would act but only reports.
    only = {"anger": Cuts(0.9, 0.6), "topic": Cuts(0.1, 0.05)}
    assert judged(call, Bands(None, only)).band == "review"
    assert judged(call, Bands(Cuts(0.1, 0.1))).band is None


def test_a_flagged_critical_category_does_not_pass():
    high = Bands(Cuts(0.99, 0.98))
    assert judged(DecisionCall(critical=()), high, decision__mode="max").band == "pass"
    assert judged(DecisionCall(), high, decision__mode="max").band == "review"
    assert judged(DecisionCall(), None, decision__mode="max").band is None


def scored(**scores: float) -> dict[str, CategoryScore]:
    return {id: CategoryScore(score, None, None, None) for id, score in scores.items()}


def test_route_takes_the_leader():
    routed = choose(Route(("a", "b", "c")), scored(a=0.2, b=0.7, c=0.6, other=0.99))
    assert (routed.choice, routed.leader, routed.score, routed.second) == ("b", "b", 0.7, 0.6)
    assert routed.margin == pytest.approx(0.1)


def test_route_abstains_below_the_minimum_or_the_margin():
    scores = scored(a=0.4, b=0.3)
    assert choose(Route(("a", "b"), minimum=0.4, margin=0.05), scores).choice == "a"
    unsure = choose(Route(("a", "b"), minimum=0.41, abstain="a person"), scores)
    assert (unsure.choice, unsure.leader) == ("a person", "a")
    assert choose(Route(("a", "b"), margin=0.2), scores).choice == "unsure"


def test_route_of_one_has_no_margin():
    routed = choose(Route(("a",), margin=0.5, minimum=0.1), scored(a=0.4))
    assert (routed.choice, routed.second, routed.margin) == ("a", None, None)


def test_route_between_equals_takes_the_first_listed():
    assert choose(Route(("b", "a")), scored(a=0.4, b=0.4)).choice == "b"
    assert choose(Route(("b", "a"), margin=0.01), scored(a=0.4, b=0.4)).choice == "unsure"
