"""Slots: one in work and the queue, with bounds of bytes and tokens; given back whatever happens."""

import pytest

from spinf_serve.engine.api import Priority
from spinf_serve.packs.errors import Busy
from spinf_serve.server.admission import Admission, Bounds, Held

NOW, LATER = Priority.INTERACTIVE, Priority.BATCH


def admission_of(requests=1, size_bytes=1000, tokens=1000, pace=None) -> Admission:
    return Admission(Bounds(requests, size_bytes, tokens), lambda: pace)


def refused(admission: Admission, size_bytes=0, priority=NOW) -> Busy:
    with pytest.raises(Busy) as caught, admission.slot(priority, size_bytes):
        pass
    assert caught.value.code == "concurrency_limit"
    return caught.value


def test_one_request_more_than_the_queue_is_taken():
    admission = admission_of(requests=1)
    with admission.slot(NOW, 0), admission.slot(NOW, 0):
        assert admission.in_flight == 2
        told = refused(admission)
        assert "2 requests" in told.message and "holds 1" in told.message
        assert told.retry_after_seconds == 2
    assert admission.in_flight == 0
    with admission.slot(NOW, 0):
        assert admission.in_flight == 1


def test_a_slot_is_given_back_after_an_error():
    admission = admission_of()
    with pytest.raises(ValueError, match="broken"), admission.slot(NOW, 400) as slot:
        slot.weigh(900)
        raise ValueError("broken")
    assert admission.held[NOW] == Held()


def test_bytes_have_a_bound_but_one_request_is_always_taken():
    admission = admission_of(requests=9, size_bytes=1000)
    with admission.slot(NOW, 5000):
        assert "5000 bytes" in refused(admission, 1).message
    with admission.slot(NOW, 600), admission.slot(NOW, 400):
        refused(admission, 1)


def test_tokens_have_a_bound_but_one_request_is_always_taken():
    admission = admission_of(requests=9, tokens=1000)
    with admission.slot(NOW, 40) as first:
        assert admission.held[NOW].tokens == 10
        first.weigh(5000)
        with pytest.raises(Busy) as caught, admission.slot(NOW, 0) as second:
            second.weigh(1)
        assert "5001 tokens" in caught.value.message
        assert admission.held[NOW] == Held(1, 40, 5000)


def test_a_priority_does_not_take_the_place_of_another():
    admission = admission_of(requests=1)
    with admission.slot(LATER, 900), admission.slot(LATER, 0):
        refused(admission, priority=LATER)
        with admission.slot(NOW, 900):
            assert admission.held[NOW].requests == 1
            assert admission.in_flight == 3


@pytest.mark.parametrize(("pace", "seconds"), [(100.0, 5), (1e6, 1), (0.1, 60), (None, 2)])
def test_who_is_turned_away_is_told_when_what_waits_will_be_done(pace, seconds):
    admission = admission_of(requests=1, pace=pace)
    with admission.slot(NOW, 0) as first, admission.slot(NOW, 0) as second:
        first.weigh(300)
        second.weigh(140)
        with admission.slot(LATER, 40):
            told = refused(admission)
    assert told.retry_after_seconds == seconds
    assert f"in {seconds} seconds" in told.message


def test_those_that_are_about_to_take_a_place_count_at_the_door():
    admission = admission_of(requests=1)
    admission.check_requests(NOW, entering=1)
    with pytest.raises(Busy, match="2 requests are in work and the queue holds 1"):
        admission.check_requests(NOW, entering=2)
    with admission.slot(NOW, 0):
        admission.check_requests(LATER, entering=1)
        with pytest.raises(Busy):
            admission.check_requests(NOW, entering=1)
