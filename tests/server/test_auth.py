"""Tokens: who is let in, who is trusted, and that no comparison stops early."""

import contextlib
import hmac

import pytest

from spinf_serve.packs.errors import Refused
from spinf_serve.server.auth import ANYBODY, Caller, Guard
from spinf_serve.server.keys import KeyRing, digest_of

LONG = "0123456789abcdef"
OTHER = "fedcba9876543210"


def held(name: str, trusted: bool) -> Caller:
    return Caller(trusted=trusted, sees_counters=trusted, name=name)


TRUSTED = held("token", trusted=True)


@pytest.mark.parametrize(
    ("guard", "given", "caller"),
    [
        (Guard(None, None), [], ANYBODY),
        (Guard(None, None), ["Bearer x"], ANYBODY),
        (Guard(None, None, debug=True), [], Caller(trusted=False, sees_counters=True)),
        (Guard("a", None), ["Bearer a"], TRUSTED),
        (Guard("a", None), ["bEaReR  a "], TRUSTED),
        (Guard("a", "b"), ["Bearer a"], held("token", trusted=False)),
        (Guard("a", "b"), ["Bearer b"], held("trusted_token", trusted=True)),
        (Guard(None, "b"), [], ANYBODY),
        (Guard(None, "b"), ["Bearer x"], ANYBODY),
        (Guard(None, "b"), ["Bearer b"], held("trusted_token", trusted=True)),
        (Guard("ä", None), ["Bearer ä"], TRUSTED),
    ],
)
def test_who_is_let_in_and_who_is_trusted(guard, given, caller):
    assert guard.caller(given) == caller


@pytest.mark.parametrize(
    "given",
    [[], [""], ["Bearer"], ["Bearer "], ["a"], ["Basic a"], ["Bearer A"], ["Bearer a b"],
     ["Bearer a", "Bearer a"]],
)  # fmt: skip
@pytest.mark.parametrize("guard", [Guard("a", None), Guard("a", "b")])
def test_who_is_not_let_in(guard, given):
    with pytest.raises(Refused) as caught:
        guard.caller(given)
    assert caught.value.code == "invalid_token"


def test_all_keys_are_always_compared_in_constant_time(monkeypatch):
    compared = []

    def compare(given: bytes, wanted: bytes) -> bool:
        compared.append(wanted)
        return given == wanted

    ring = KeyRing([f"shop: {LONG}", f"ops trusted: {OTHER}"], None)
    monkeypatch.setattr(hmac, "compare_digest", compare)
    for given in ("a", LONG, "x"):
        guard = Guard("a", "b", keys=ring)
        with contextlib.suppress(Refused):
            guard.caller([f"Bearer {given}"])
        assert compared == [digest_of(key) for key in (LONG, OTHER, "a", "b")]
        compared.clear()


def test_named_keys_close_a_server_and_say_who_calls():
    guard = Guard(None, None, keys=KeyRing([f"shop: {LONG}", f"ops trusted: {OTHER}"], None))
    assert guard.closed
    assert guard.caller([f"Bearer {LONG}"]) == held("shop", trusted=False)
    assert guard.caller([f"Bearer {OTHER}"]) == held("ops", trusted=True)
    for wrong in ([], ["Bearer x"], [f"Bearer {LONG}x"], [f"Bearer {digest_of(LONG).hex()}"]):
        with pytest.raises(Refused, match="bearer token is (missing|not accepted)"):
            guard.caller(wrong)


def test_named_keys_and_tokens_are_accepted_side_by_side():
    guard = Guard("a", None, keys=KeyRing([f"shop: {LONG}"], None))
    assert guard.caller(["Bearer a"]) == held("token", trusted=True)
    assert guard.caller([f"Bearer {LONG}"]) == held("shop", trusted=False)


def test_only_the_metrics_can_be_opened():
    closed, opened = Guard("a", None), Guard("a", None, open_metrics=True)
    for path in ("/healthz", "/readyz", "/livez"):
        assert closed.is_open(path) and opened.is_open(path)
    assert opened.is_open("/metrics") and not closed.is_open("/metrics")
    assert not opened.is_open("/v1/score") and not opened.is_open("/metrics/")


def test_a_refusal_tells_no_token():
    with pytest.raises(Refused) as caught:
        Guard("secret", "hidden").caller(["Bearer guess"])
    assert not {"secret", "hidden", "guess"} & set(caught.value.message.split())


def test_holders_of_a_key_are_one_party_and_others_are_one_per_address():
    assert Caller(False, False, "shop", "10.0.0.1").party == "key:shop"
    assert Caller(False, False, address="10.0.0.1").party == "address:10.0.0.1"
