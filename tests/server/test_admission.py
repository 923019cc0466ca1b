"""Slots: one in work and the queue; given back whatever happens."""

import pytest

from spinf_serve.packs.errors import Busy
from spinf_serve.server.admission import Admission


def test_one_request_more_than_the_queue_is_taken():
    admission = Admission(queue=1)
    with admission.slot(), admission.slot():
        assert admission.in_flight == 2
        with pytest.raises(Busy) as caught, admission.slot():
            pass
    assert (caught.value.code, caught.value.retry_after_seconds) == ("concurrency_limit", 2)
    assert "2 requests" in caught.value.message and "holds 1" in caught.value.message
    assert admission.in_flight == 0
    with admission.slot():
        assert admission.in_flight == 1


def test_a_slot_is_given_back_after_an_error():
    admission = Admission(queue=1)
    with pytest.raises(ValueError, match="broken"), admission.slot():
        raise ValueError("broken")
    assert admission.in_flight == 0
