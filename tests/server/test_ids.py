"""Request ids: form, order in time, no repeats."""

import re
from types import SimpleNamespace

from spinf_serve.server import ids
from spinf_serve.server.ids import new_request_id


def test_an_id_has_the_form_of_the_contract():
    assert re.fullmatch("scr_[0-7][0-9A-HJKMNP-TV-Z]{25}", new_request_id())


def test_ids_sort_by_time_and_hold_it(monkeypatch):
    made = []
    for milliseconds in (0, 1, 1_469_918_176_385):
        clock = SimpleNamespace(time_ns=lambda now=milliseconds: now * 1_000_000 + 7)
        monkeypatch.setattr(ids, "time", clock)
        made.append(new_request_id())
    assert made == sorted(made)
    # The example of the ULID specification.
    assert made[2].startswith("scr_01ARYZ6S41")


def test_ids_do_not_repeat():
    assert len({new_request_id() for _ in range(1000)}) == 1000
