"""What a card must show before it serves: that company moves no bit, in passes of every kind of tile.

Seconds, not a proof: `spinf-serve doctor --invariance` sweeps. A card that fails is not served.
"""

from collections.abc import Callable, Iterator

from spinf_serve.engine.api import Engine
from spinf_serve.engine.bench.checks import Bits, Check, answer_bits, compare
from spinf_serve.engine.bench.passes import (
    Company,
    in_one_pass,
    rows_of,
    smallest_work,
    without_floors,
    works_of_many_lengths,
)
from spinf_serve.engine.work import Work
from spinf_serve.packs.errors import Fault, Unusable

_LENGTHS = (0, 1, 3, 9, 40, 150)
# On both sides of where tiles change, or where a half-filled one ends.
_ROWS = (64, 65, 128, 129, 256, 257, 1024, 1025, 2100)


def self_check(engine: Engine, tell: Callable[[str], None]) -> None:
    """Reads works of many lengths alone and in company, and compares every bit.

    Raises:
        Unusable: they differ, or a pass is lost; one line that says where, or why.
    """
    compared = 0
    try:
        for check in _checks(engine):
            if not check.passed:
                raise Unusable(_failed(engine, check))
            compared += check.compared
    except Fault as fault:
        raise Unusable(f"the self-check of the card was cut short: {fault}") from fault
    tell(f"self-check: {compared} answers have the same bits alone and in company")


def _checks(engine: Engine) -> Iterator[Check]:
    works = [
        without_floors(work)
        for work in works_of_many_lengths(engine.tokenizer, _LENGTHS, questions=3)
    ]
    works.append(smallest_work(engine))
    alone = [bits for work in works for bits in _bits(engine, [work])]
    yield compare("each content alone and all together", alone, _bits(engine, works))
    turned = _bits(engine, works[::-1])[::-1]
    yield compare("all together and in reverse order", alone, turned)
    own_rows = [rows_of(engine, work) for work in works]
    company = Company(engine)
    for rows in _ROWS:
        if rows > engine.config.pass_tokens:
            break
        # As many of them as fit, the shortest first, behind their company.
        chosen, room = [], rows
        for place in sorted(range(len(works)), key=own_rows.__getitem__):
            if own_rows[place] <= room:
                chosen.append(place)
                room -= own_rows[place]
        beside = company.up_to(room)
        got = _bits(engine, beside + [works[place] for place in chosen])[len(beside) :]
        yield compare(
            f"each content alone and in a pass of {rows} rows",
            [alone[place] for place in chosen],
            got,
        )


def _bits(engine: Engine, works: list[Work]) -> list[Bits]:
    return [answer_bits(result) for result in in_one_pass(engine, works)]


def _failed(engine: Engine, check: Check) -> str:
    card = engine.fingerprint.facts.get("card", "this processor")
    return (
        f"{card} does not give a score the same bits whatever runs beside it ({check.name}: "
        f"{check.different} of {check.compared} answers differ), so it is not served; "
        "`spinf-serve doctor --invariance` shows where, --device cpu serves without it"
    )
