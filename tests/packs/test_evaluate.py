"""The evaluation against the contract's golden vector and against the published client's own."""

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import spinf_client.packs as client  # type: ignore[import-untyped]
from spinf_client import Moderation

from spinf_serve.packs.decision import DecisionCall
from spinf_serve.packs.digests import asked_digest, constants_digest
from spinf_serve.packs.errors import Fault
from spinf_serve.packs.evaluate import Evaluation, evaluate, state
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.pack import Constants, Mode, Pack
from spinf_serve.packs.reads import Vectors, vectors
from tests.support.packs import (
    GOLDEN_LOGPROBS,
    answered,
    api_result,
    golden,
    made,
    random_logprobs,
    random_plain,
)

HIDDEN = "AAAAPwAAgL4AAIA+AAAAPwAAAD4AAAAAzczMPc3MzL0AAIA/AAAAP83MTL7NzMw+"


def loaded(plain: dict[str, Any]) -> tuple[Pack, Constants]:
    """Pack and constants as the loader makes them of the same object."""
    pack = read_pack(json.dumps(plain).encode(), "pack.json")
    (constants,) = pack.fitted.values()
    return pack, constants


def judged(plain: dict[str, Any], call: DecisionCall | None = None) -> Evaluation:
    """The evaluation of the golden answers, the same whichever way the pack was made."""
    pack, constants = made(plain)
    answers = answered(plain, GOLDEN_LOGPROBS)
    call = call or DecisionCall()
    result = evaluate(pack, constants, [vectors(pack, answers)], call)
    pack, constants = loaded(plain)
    assert evaluate(pack, constants, [vectors(pack, answers)], call) == result
    return result


def test_golden_scores():
    result = judged(golden())
    assert {id: round(z, 6) for id, z in result.z.items()} == {
        "angry": 0.85,
        "refund": 1.258992,
        "bill": 0.789172,
        "notbill": -0.943018,
    }
    assert {id: round(macro, 6) for id, macro in result.macros.items()} == {
        "anger": 0.85,
        "money": 1.024082,
        "topic": -0.943018,
    }
    anger, money, topic = result.categories.values()
    assert (round(anger.score, 6), round(anger.percentile or 0, 6)) == (0.627148, 0.829467)
    assert (round(money.score, 6), money.percentile) == (0.50602, None)
    assert (round(topic.score, 6), topic.percentile) == (0.280291, None)
    assert [one.flagged for one in (anger, money, topic)] == [True, True, None]
    assert [one.band for one in (anger, money, topic)] == [None, None, None]


def test_golden_default_decision():
    verdict = judged(golden()).verdict
    assert (verdict.mode, verdict.threshold) == ("micro_layer", 0.5)
    assert round(verdict.score or 0, 6) == 0.588394
    assert (verdict.unsafe, verdict.critical, verdict.by) == (True, ("anger",), None)
    assert verdict.warning is None and verdict.band is None


def test_golden_max():
    verdict = judged(golden(), DecisionCall(mode="max")).verdict
    assert (verdict.mode, verdict.threshold, verdict.category) == ("max", 0.6, "anger")
    assert round(verdict.score or 0, 6) == 0.627148
    assert (verdict.unsafe, verdict.critical, verdict.by) == (True, ("anger",), None)


def test_golden_per_category():
    verdict = judged(golden(), DecisionCall(mode="per_category")).verdict
    assert (verdict.mode, verdict.categories) == ("per_category", ("anger", "money"))
    assert (verdict.score, verdict.threshold, verdict.category) == (None, None, None)
    assert (verdict.unsafe, verdict.critical, verdict.by) == (True, ("anger",), None)


def test_golden_critical_alone_makes_it_unsafe():
    verdict = judged(golden(), DecisionCall(mode="max", threshold=0.9)).verdict
    assert (verdict.unsafe, verdict.by, verdict.threshold) == (True, "critical", 0.9)


def test_golden_empty_critical_list_of_the_call():
    verdict = judged(golden(), DecisionCall(mode="max", threshold=0.9, critical=())).verdict
    assert (verdict.unsafe, verdict.by, verdict.critical) == (False, None, ())


def test_golden_raised_threshold_takes_what_requires_it_along():
    result = judged(golden(), DecisionCall(thresholds={"anger": 0.9}))
    assert [one.flagged for one in result.categories.values()] == [False, False, None]
    assert (result.verdict.mode, result.verdict.unsafe) == ("micro_layer", True)
    assert result.verdict.critical == ()


def test_golden_lock_mismatch():
    verdict = judged(golden(reads__0__sd=2.5)).verdict
    assert (verdict.mode, verdict.categories) == ("per_category", ("anger", "money"))
    assert verdict.unsafe
    assert (verdict.warning or "").startswith("micro-layer lock mismatch")


def test_golden_hidden_layer():
    verdict = judged(
        golden(decision__micro_layer__weights=HIDDEN, decision__micro_layer__hidden=2)
    ).verdict
    assert (verdict.mode, verdict.warning) == ("micro_layer", None)
    assert round(verdict.score or 0, 6) == 0.632951
    assert verdict.threshold == 0.4000000059604645


def random_call(plain: dict[str, Any], rng: Random) -> DecisionCall:
    categories = list(plain["categories"])
    modes: tuple[Mode | None, ...] = (None, "max", "per_category", "micro_layer")
    mode = rng.choice(modes)
    takes_threshold = (mode or plain["decision"]["mode"]) != "per_category"
    chosen = rng.sample(categories, rng.randint(0, len(categories)))
    return DecisionCall(
        mode,
        rng.random() if takes_threshold and rng.random() < 0.5 else None,
        {id: rng.choice((None, rng.random())) for id in chosen},
        rng.choice((None, (), tuple(rng.sample(categories, 1)))),
    )


def as_arguments(call: DecisionCall) -> dict[str, Any]:
    return {
        "mode": call.mode,
        "threshold": call.threshold,
        "thresholds": dict(call.thresholds),
        "critical": None if call.critical is None else list(call.critical),
    }


def assert_equal(result: Evaluation, theirs: dict[str, Any], note: str) -> None:
    assert list(result.categories) == list(theirs["categories"]), note
    for id, category in theirs["categories"].items():
        ours = result.categories[id]
        assert ours.score == pytest.approx(category["score"], abs=1e-6), note
        assert ours.percentile == pytest.approx(category["percentile"], abs=1e-6), note
        assert ours.flagged is category["flagged"], note
    decision, verdict = theirs["decision"], result.verdict
    assert (verdict.unsafe, verdict.mode) == (decision["unsafe"], decision["mode"]), note
    if verdict.mode == "per_category":
        assert list(verdict.categories) == decision["categories"], note
    else:
        assert verdict.score == pytest.approx(decision["score"], abs=1e-6), note
        assert verdict.threshold == decision["threshold"], note
    if verdict.mode == "max":
        assert verdict.category == decision["category"], note
    assert list(verdict.critical) == decision.get("critical", []), note
    assert verdict.by == decision.get("by"), note
    assert (verdict.warning is None) == ("warning" not in decision), note


def test_equals_the_clients_evaluation_on_random_packs():
    seen: set[tuple[Any, ...]] = set()
    for seed in range(400):
        rng = Random(seed)
        plain = random_plain(rng)
        pack, constants = made(plain)
        answers = answered(plain, random_logprobs(plain, rng))
        call = random_call(plain, rng)
        result = evaluate(pack, constants, [vectors(pack, answers)], call)
        theirs = client.evaluate(
            plain, client.answers_from_result(api_result(answers), plain), **as_arguments(call)
        )
        assert_equal(result, theirs, f"seed {seed}: {call}")
        verdict = result.verdict
        seen |= {
            ("mode", verdict.mode, verdict.unsafe),
            ("warning", verdict.warning is None),
            ("by", verdict.by),
            ("answers", pack.answers),
            ("no category", verdict.mode == "max" and verdict.category is None),
        }
    # The draw has met all of these, else the comparison would say little.
    assert len([one for one in seen if one[0] == "mode"]) == 6
    assert {one[1] for one in seen if one[0] == "warning"} == {True, False}
    assert {one[1] for one in seen if one[0] == "by"} == {None, "critical"}
    assert {one[1] for one in seen if one[0] == "answers"} == {"p", "logprob"}
    assert ("no category", True) in seen


def test_the_loader_makes_the_same_of_random_packs():
    for seed in range(40):
        plain = random_plain(Random(seed))
        by_hand, by_loader = made(plain), loaded(plain)
        assert by_loader[1] == by_hand[1]
        assert by_loader[0].reads == by_hand[0].reads
        assert by_loader[0].categories == by_hand[0].categories
        assert by_loader[0].decision == by_hand[0].decision
        assert by_loader[0].modes == by_hand[0].modes


def test_equals_redecide_of_a_stored_result():
    for seed in range(60):
        rng = Random(1000 + seed)
        plain = random_plain(rng)
        pack, constants = made(plain)
        answers = answered(plain, random_logprobs(plain, rng))
        first = client.evaluate(plain, client.answers_from_result(api_result(answers), plain))
        stored = Moderation.from_result(
            "0",
            "text",
            {**first, "id": plain["pack"], "version": plain["version"], "context": "default"},
            raw=api_result(answers)["queries"],
        )
        call = random_call(plain, rng)
        again = stored.redecide(plain, **as_arguments(call))
        ours = evaluate(pack, constants, [vectors(pack, answers)], call)
        assert ours.verdict.unsafe == again.unsafe
        assert ours.verdict.mode == again.decision["mode"]
        for id, category in again.categories.items():
            assert ours.categories[id].score == pytest.approx(category.score, abs=1e-6)
            assert ours.categories[id].flagged is category.flagged


def drawn(seed: int) -> tuple[Pack, Constants, Vectors, Vectors]:
    rng = Random(seed)
    plain = random_plain(rng)
    pack, constants = made(plain)
    one, other = (vectors(pack, answered(plain, random_logprobs(plain, rng))) for _ in range(2))
    return pack, constants, one, other


def test_order_of_reads_moves_nothing_but_the_last_bits():
    for seed in range(40):
        pack, constants, answers, _ = drawn(seed)
        turned = replace(pack, reads=tuple(reversed(pack.reads)))
        before = evaluate(pack, constants, [answers], DecisionCall())
        after = evaluate(turned, constants, [answers], DecisionCall())
        for id, macro in before.macros.items():
            assert after.macros[id] == pytest.approx(macro, abs=1e-12)


def test_one_chunk_is_no_chunk_in_every_way_of_combining():
    for seed in range(20):
        pack, constants, answers, _ = drawn(seed)
        whole = evaluate(pack, constants, [answers], DecisionCall())
        for on_long in ("max", "mean"):
            cut = evaluate(replace(pack, on_long=on_long), constants, [answers], DecisionCall())
            assert cut == whole


@pytest.mark.parametrize("on_long", ["max", "mean"])
def test_chunks_are_combined_read_by_read(on_long):
    pack, constants, one, other = drawn(7)
    cut = replace(pack, on_long=on_long)
    first = evaluate(pack, constants, [one], DecisionCall()).z
    second = evaluate(pack, constants, [other], DecisionCall()).z
    result = evaluate(cut, constants, [one, other], DecisionCall())
    for id, z in result.z.items():
        both = (first[id], second[id])
        expected = max(both) if on_long == "max" else sum(both) / 2
        assert z == pytest.approx(expected, abs=1e-12)
    assert first != second
    back = evaluate(cut, constants, [other, one], DecisionCall())
    assert back == result


def test_chunks_of_a_pack_that_refuses_long_contents_are_a_mistake():
    pack, constants, one, other = drawn(7)
    with pytest.raises(ValueError, match="2 chunks .* 'refuse'"):
        evaluate(pack, constants, [one, other], DecisionCall())
    with pytest.raises(ValueError, match="0 chunks"):
        evaluate(pack, constants, [], DecisionCall())


def test_route_is_part_of_the_evaluation():
    plain = golden()
    plain["route"] = {"categories": ["anger", "money", "topic"], "margin": 0.1, "minimum": 0.2}
    routed = judged(plain).route
    assert routed is not None
    assert (routed.choice, routed.leader) == ("anger", "anger")
    assert routed.margin == pytest.approx(0.627148 - 0.50602, abs=1e-6)
    assert judged(golden()).route is None


def test_state():
    pack, constants = made(golden())
    model = "a" * 64
    assert state(pack, None, model) == "draft"
    assert state(pack, constants, model) == "provisional"
    proof = {
        "model": model,
        "constants": constants_digest(constants),
        "asked": asked_digest(pack.body),
    }
    proven = replace(constants, proof=proof)
    assert state(pack, proven, model) == "certified"
    assert state(pack, proven, "b" * 64) == "provisional"
    assert state(pack, replace(proven, max_threshold=0.61), model) == "provisional"
    for missing in proof:
        part = {name: value for name, value in proof.items() if name != missing}
        assert state(pack, replace(constants, proof=part), model) == "provisional"


def test_a_reworded_question_is_no_longer_proven_and_a_new_label_is():
    pack, constants = made(golden())
    model = "a" * 64
    proof = {
        "model": model,
        "constants": constants_digest(constants),
        "asked": asked_digest(pack.body),
    }
    proven = replace(constants, proof=proof)

    def changed(**parts: object) -> Pack:
        return replace(pack, body={**pack.body, **parts})

    queries = [dict(query) for query in pack.body["scoring"]["queries"]]
    queries[0]["template"] = "\nThe writer is furious. True or false?{?}"
    reworded = changed(scoring={**pack.body["scoring"], "queries": queries})
    assert state(reworded, proven, model) == "provisional"
    assert state(changed(contexts={"email": "{X}"}), proven, model) == "provisional"
    assert state(changed(description="Other words"), proven, model) == "certified"


def test_a_number_that_is_not_finite_is_a_fault():
    pack, constants = made(golden())
    answers = vectors(pack, answered(golden(), GOLDEN_LOGPROBS))
    reads = {id: replace(fit, sd=5e-324) for id, fit in constants.reads.items()}
    wild = replace(constants, reads=reads)
    with pytest.raises(Fault, match="not finite"):
        evaluate(pack, wild, [answers], DecisionCall(mode="per_category"))
