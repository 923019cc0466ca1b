"""Errors as bodies and headers."""

import json

import pytest

from spinf_serve.packs.errors import CODES, Busy, Fault, Refused
from spinf_serve.server.auth import ANYBODY, Caller
from spinf_serve.server.problems import Envelope, NotFound, Stalled, envelope, headers
from spinf_serve.server.wire.json_text import encode

TRUSTED = Caller(trusted=True, sees_counters=True)


def test_every_code_has_a_type_that_goes_with_its_status():
    types = {
        code.status: envelope(Refused(code.name, "m"), "scr_1", ANYBODY)["error"]["type"]
        for code in CODES.values()
    }
    assert types == {
        400: "invalid_request",
        401: "authentication_error",
        404: "not_found",
        413: "invalid_request",
        415: "invalid_request",
        429: "rate_limited",
        500: "api_error",
        503: "unavailable",
        504: "api_error",
    }


def test_a_body_names_code_message_param_and_request():
    body = envelope(Refused("missing_value", "options is missing", "a.0.options"), "scr_1", ANYBODY)
    assert body == {
        "error": {
            "type": "invalid_request",
            "code": "missing_value",
            "message": "options is missing",
            "param": "a.0.options",
        },
        "request_id": "scr_1",
    }


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (Refused("invalid_field", "m", "p"), True),
        (Refused("request_too_large", "m"), True),
        (Refused("invalid_token", "m"), False),
        (NotFound("unknown_pack", "m", "id"), False),
        (Fault("m"), False),
    ],
)
def test_what_was_rejected_is_shown_to_trusted_callers_of_400_and_413(error, shown):
    assert ("rejected" in envelope(error, "scr_1", TRUSTED)) is shown
    assert "rejected" not in envelope(error, "scr_1", ANYBODY)


def test_a_path_that_does_not_exist_is_not_found():
    error = NotFound("unknown_pack", "m", "id")
    assert error.status == 404
    assert envelope(error, "scr_1", ANYBODY)["error"]["type"] == "not_found"


def test_overload_says_when_to_come_back():
    assert headers(Busy("concurrency_limit", "m", 2)) == {"Retry-After": "2"}
    assert headers(Refused("invalid_field", "m")) == {}


def test_a_connection_whose_request_stalled_is_closed():
    assert headers(Stalled("invalid_json", "m")) == {"Connection": "close"}


def test_a_message_that_quotes_megabytes_is_shortened_and_says_so():
    error = envelope(Refused("invalid_field", "x" * 10**6, "y" * 10**6), "scr_1", ANYBODY)["error"]
    assert len(error["message"]) < 2100 and len(error["param"]) < 400
    assert error["message"].endswith("(1000000 characters in all)")


@pytest.mark.parametrize(
    ("param", "loc"),
    [
        ('questions["a.b"].type', ["body", "questions", "a.b", "type"]),
        (r'questions["\u0007\n\"\\"]', ["body", "questions", '\x07\n"\\']),
        # A key of the caller's as it is, in a path of what could not be read as Unicode.
        (r'questions.["\q"].a', ["body", "questions", '"\\q"', "a"]),
        (r'questions.["\ud800"].a', ["body", "questions", '"\\ud800"', "a"]),
        ('questions.["\n"].a', ["body", "questions", '"\n"', "a"]),
        ("questions.٣", ["body", "questions", 3]),
    ],
)
def test_a_location_is_told_whatever_the_callers_keys_look_like(param, loc):
    body = envelope(Refused("invalid_field", "m", param), "scr_1", ANYBODY, Envelope.DETAIL)
    assert body["detail"][0]["loc"] == loc
    json.dumps(body, ensure_ascii=False).encode()


@pytest.mark.parametrize("form", list(Envelope))
def test_what_has_no_bytes_is_written_as_its_escape(form):
    told = envelope(Refused("invalid_field", "\ud800 is no é", "a.\udc00x"), "scr_", ANYBODY, form)
    body = encode(told).decode()
    assert r"\\ud800 is no é" in body and r"\\udc00x" in body
