"""Kept trunks: a content that is asked about again is not read again, and no score can tell."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinf_serve.engine.api import Engine, Job
from spinf_serve.engine.bench.checks import answer_bits
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.fingerprint import cpu_fingerprint
from spinf_serve.engine.turn import Priority, Turn
from spinf_serve.engine.work import Limits, Result, Work
from spinf_serve.packs.errors import Fault
from tests.engine.test_api import SERVED, ask, fake
from tests.support.fake_forward import FakeForward
from tests.support.toy_tokenizers import ByteTokenizer

LATE = ask("late", "\nLate?", floor=False)
DAMAGED = ask("damaged", "\nDamaged?", floor=False)
CONTENT = "The parcel came two days late in a crushed box, and nobody called about it."


def engine_of(cached=10_000, *, ahead=0, token_budget=200) -> Engine:
    """An engine that may keep `cached` trunk tokens."""
    tokenizer = ByteTokenizer()
    forward = FakeForward(tokenizer.vocab_size, ahead)
    forward.cached_bytes = cached
    return Engine(
        served=SERVED,
        tokenizer=tokenizer,
        forward=forward,
        fingerprint=cpu_fingerprint("0" * 64, "float32", "test"),
        config=EngineConfig(token_budget=token_budget, trunk_cache_bytes=cached),
        limits=Limits(),
        context_tokens=100_000,
    )


def words(letter: str, tokens: int) -> str:
    return ((letter * 4 + " ") * tokens)[:tokens]


def bits(work: Work) -> Any:
    [result] = engine_of(0).run([work])
    return answer_bits(result)


def kept(engine: Engine) -> tuple[int, int]:
    """Trunks and tokens that are kept, by the engine's word and by its forward's."""
    stats, forward = engine.stats, fake(engine)
    assert stats.trunk_entries == len(forward.kept)
    assert stats.trunk_bytes == sum(map(len, forward.kept.values()))
    return stats.trunk_entries, stats.trunk_bytes


def ended(engine: Engine) -> dict[Job, Any]:
    """Every outcome: a result or a fault."""
    found: dict[Job, Any] = {}
    while engine.pending:
        found |= dict(engine.step())
    return found


def test_a_content_that_is_asked_about_again_costs_its_own_rows_only():
    engine = engine_of()
    work = Work(CONTENT, (DAMAGED,))
    tree = engine.compile(work).tree
    [first] = engine.run([Work(CONTENT, (LATE,))])
    [again] = engine.run([work])
    assert answer_bits(again) == bits(work)
    assert fake(engine).rows[-1] == tree.packed_tokens - len(tree.trunk) < len(tree.trunk)
    # bos, the trunk's first token, is none of the content's.
    assert (first.counts.cached_tokens, again.counts.cached_tokens) == (0, len(tree.trunk) - 1)
    assert (engine.stats.trunk_hits, engine.stats.trunk_misses) == (1, 1)
    assert engine.stats.trunk_cached_tokens == len(tree.trunk)
    assert kept(engine) == (1, len(tree.trunk))


def test_nothing_is_kept_where_that_is_off():
    engine = engine_of(0)
    for _ in range(2):
        [result] = engine.run([Work(CONTENT, (LATE,))])
        assert result.counts.cached_tokens == 0
    assert fake(engine).rows[0] == fake(engine).rows[1]
    assert kept(engine) == (0, 0)
    assert engine.stats.trunk_misses == engine.stats.trunk_hits == 0


def test_the_content_used_least_recently_makes_room():
    engine = engine_of(120)
    contents = [words(letter, 50) for letter in "abc"]
    for content in [contents[0], contents[1], contents[0], contents[2]]:
        engine.run([Work(content, (LATE,))])
    assert engine.stats.trunk_evictions == 1
    asked = [engine.run([Work(contents[at], (DAMAGED,))])[0] for at in (0, 2, 1)]
    assert [result.counts.cached_tokens > 0 for result in asked] == [True, True, False]
    assert kept(engine)[1] <= 120


def test_a_content_that_never_fits_pushes_nothing_out():
    engine = engine_of(150)
    engine.run([Work(words("a", 50), (LATE,))])
    for _ in range(2):
        [long] = engine.run([Work(words("b", 500), (LATE,))])
        assert answer_bits(long) == bits(Work(words("b", 500), (LATE,)))
    assert engine.stats.trunk_evictions == 0
    assert engine.run([Work(words("a", 50), (DAMAGED,))])[0].counts.cached_tokens


def test_a_content_in_use_is_not_pushed_out():
    """Its tree goes on behind others that come meanwhile, are wanted sooner and want its room."""
    engine = engine_of(150)
    many = tuple(ask(f"q{n}", f"\n{n:03} is it?", floor=False) for n in range(40))
    slow = engine.compile(Work(words("a", 60), many))
    engine.submit(slow, Turn("batch", Priority.BATCH))
    assert engine.step() == []
    assert slow.tree.is_begun and not slow.tree.is_planned
    jobs = [engine.compile(Work(words(letter, 60), (LATE,))) for letter in "bcde"]
    for job in jobs:
        engine.submit(job, Turn("other"))
    found = ended(engine)
    for job in [slow, *jobs]:
        assert answer_bits(found[job]) == bits(job.work)
    assert engine.stats.trunk_evictions
    assert kept(engine)[1] <= 150


def test_a_content_of_which_another_has_read_a_part_is_read_apart():
    """What is wanted sooner does not wait for what is not."""
    engine = engine_of()
    slow = engine.compile(Work("abcdefg " * 80, (LATE,)))
    engine.submit(slow, Turn("batch", Priority.BATCH))
    assert engine.step() == []
    assert 0 < slow.tree.trunk_done < len(slow.tree.trunk)
    quick = engine.compile(Work(slow.work.content, (DAMAGED,)))
    engine.submit(quick, Turn("other"))
    found = ended(engine)
    for job in (slow, quick):
        assert answer_bits(found[job]) == bits(job.work)
    assert found[quick].counts.cached_tokens == 0
    assert kept(engine) == (1, len(slow.tree.trunk))


def test_works_that_wait_together_read_a_content_once():
    engine = engine_of()
    works = [Work(CONTENT, (LATE,)), Work("x", (LATE,)), Work(CONTENT, (DAMAGED,))]
    results = engine.run(works)
    assert [answer_bits(result) for result in results] == [bits(work) for work in works]
    trees = [engine.compile(work).tree for work in works]
    assert sum(fake(engine).rows) == sum(tree.packed_tokens for tree in trees) - len(trees[0].trunk)
    assert results[2].counts.cached_tokens


def test_a_short_content_is_not_worth_waiting_a_pass_for():
    engine = engine_of(token_budget=2000)
    engine.run([Work(CONTENT, (LATE,)), Work(CONTENT, (DAMAGED,))])
    assert len(fake(engine).rows) == 1
    assert kept(engine)[0] == 1


def test_a_content_longer_than_a_pass_is_kept_too():
    engine = engine_of()
    work = Work("abcdefg " * 80, (DAMAGED,))
    engine.run([Work(work.content, (LATE,))])
    passes = len(fake(engine).rows)
    [again] = engine.run([work])
    assert answer_bits(again) == bits(work)
    assert passes > 3 and len(fake(engine).rows) == passes + 1


def test_a_cancelled_reader_leaves_nothing_half_read():
    engine = engine_of(ahead=1)
    job = engine.compile(Work("abcdefg " * 80, (LATE,)))
    engine.submit(job)
    engine.step()
    assert 0 < job.tree.trunk_done < len(job.tree.trunk)
    engine.cancel(job)
    ended(engine)
    assert kept(engine) == (0, 0)
    [result] = engine.run([job.work])
    assert answer_bits(result) == bits(job.work)
    assert result.counts.cached_tokens == 0


def test_a_cancelled_user_leaves_the_content_to_others():
    engine = engine_of(ahead=1)
    engine.run([Work(CONTENT, (LATE,))])
    many = tuple(ask(f"q{n}", f"\n{n:03} is it?", floor=False) for n in range(40))
    job = engine.compile(Work(CONTENT, many))
    engine.submit(job)
    engine.step()
    engine.cancel(job)
    ended(engine)
    assert kept(engine)[0] == 1
    [result] = engine.run([Work(CONTENT, (DAMAGED,))])
    assert answer_bits(result) == bits(Work(CONTENT, (DAMAGED,)))
    assert result.counts.cached_tokens


@pytest.mark.parametrize("faults", ["start_faults", "finish_faults"])
def test_what_a_lost_pass_read_is_forgotten(faults):
    engine = engine_of()
    getattr(fake(engine), faults)[0] = OSError("broken")
    with pytest.raises(Fault):
        engine.run([Work(CONTENT, (LATE,))])
    assert kept(engine) == (0, 0)
    [result] = engine.run([Work(CONTENT, (LATE,))])
    assert answer_bits(result) == bits(Work(CONTENT, (LATE,)))
    assert result.counts.cached_tokens == 0


def test_who_continues_a_lost_trunk_fails_with_it():
    """Two passes are in flight: the second continues what the first was to read."""
    engine = engine_of(ahead=1)
    fake(engine).finish_faults[0] = OSError("broken")
    jobs = [engine.compile(Work(CONTENT, (asked,))) for asked in (LATE, DAMAGED)]
    jobs.append(engine.compile(Work(words("y", 90), (LATE,))))
    for job in jobs:
        engine.submit(job)
    found = ended(engine)
    assert [type(found[job]).__name__ for job in jobs[:2]] == ["Fault", "Fault"]
    assert jobs[1].tree.trunk_found
    assert isinstance(engine.run([jobs[1].work])[0], Result)


def test_a_content_of_which_came_no_number_is_read_anew():
    engine = engine_of()
    fake(engine).nan_tokens = {ord("#")}
    with pytest.raises(Fault, match="no number"):
        engine.run([Work("# " * 20, (LATE,))])
    assert kept(engine) == (0, 0)
    fake(engine).nan_tokens = set()
    [result] = engine.run([Work("# " * 20, (LATE,))])
    assert result.counts.cached_tokens == 0


def test_forgetting_reads_everything_anew():
    engine = engine_of()
    engine.run([Work(CONTENT, (LATE,))])
    engine.forget()
    assert kept(engine) == (0, 0)
    [result] = engine.run([Work(CONTENT, (LATE,))])
    assert result.counts.cached_tokens == 0


works_on_few_contents = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 8), st.booleans()), min_size=2, max_size=8
).map(
    lambda specs: [
        Work(
            ("ab \n" * 30)[at : at + 25 * at],
            (ask("q", *(f"\n{n}:" for n in range(count)), floor=floor, options=(" a", "b")),),
        )
        for at, count, floor in specs
    ]
)


@settings(deadline=None, max_examples=30)
@given(
    works_on_few_contents,
    st.integers(20, 150),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([0, 30, 80, 120, 1000]),
    st.integers(0, 2**32),
)
def test_no_score_can_tell_whatever_fails_or_is_cancelled(works, budget, ahead, cached, seed):
    draw = random.Random(seed)
    engine = engine_of(cached, token_budget=budget, ahead=ahead)
    forward = fake(engine)
    broken = OSError("broken")
    forward.start_faults = {n: broken for n in range(1000) if draw.random() < 0.05}
    forward.finish_faults = {n: broken for n in range(1000) if draw.random() < 0.05}
    right = {id(work): bits(work) for work in works}
    waiting = [engine.compile(work) for work in works]
    open_jobs: list[Job] = []
    found: dict[Job, Any] = {}
    while waiting or engine.pending:
        match draw.randrange(4):
            case 0 if waiting:
                open_jobs.append(waiting.pop(0))
                engine.submit(open_jobs[-1])
            case 1 if open_jobs and draw.random() < 0.2:
                engine.cancel(draw.choice(open_jobs))
            case _:
                found |= dict(engine.step())
        assert sum(forward._reserved.values()) <= cached
    for job, outcome in found.items():
        if isinstance(outcome, Result):
            assert answer_bits(outcome) == right[id(job.work)]
    # Only whole trunks stay.
    _, tokens = kept(engine)
    assert tokens <= cached
    forward.start_faults = forward.finish_faults = {}
    for result, work in zip(engine.run(works), works, strict=True):
        assert answer_bits(result) == right[id(work)]
