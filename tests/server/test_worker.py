"""The engine's thread: outcomes, sharing, failures, cancels, the end."""

import threading
import time
from collections.abc import Iterator
from queue import Queue

import pytest

from spinf_serve.engine.api import Turn
from spinf_serve.engine.work import Work
from spinf_serve.packs.errors import Busy, Fault, Unusable
from spinf_serve.packs.question import Prompt, Question
from spinf_serve.server.worker import Answered, Failed, Outcome, Ticket, Worker
from tests.engine.test_api import engine_of, fake
from tests.support.stub_engine import NAN, StubEngine

QUESTIONS = (Question("q", (Prompt("Late?"),), (" yes", " no")),)


@pytest.fixture
def stub() -> StubEngine:
    return StubEngine()


@pytest.fixture
def worker(stub):
    loaded = threading.Event()
    worker = Worker(stub.as_engine, loaded.set)
    worker.start()
    assert loaded.wait(10)
    yield worker
    stub.gate.set()
    worker.stop(10)
    assert not worker.ready


@pytest.fixture
def ask(worker):
    def ask(*contents: str):
        outcomes: Queue[Outcome] = Queue()
        jobs = tuple(worker.engine.compile(Work(text, QUESTIONS)) for text in contents)
        return worker.ask(jobs, outcomes.put, Turn()), outcomes

    return ask


def test_results_come_in_the_order_of_the_works(ask, stub):
    _, outcomes = ask("a", "b", "a")
    outcome = outcomes.get(timeout=10)
    assert isinstance(outcome, Answered)
    a, b, again = (result.answers for result in outcome.results)
    assert a == again != b
    assert min(outcome.queue_seconds, outcome.score_seconds, outcome.busy_seconds) >= 0
    assert stub.passes == [3]


def test_busy_seconds_count_the_passes_of_others_too(ask, stub):
    stub.step_seconds = 0.05
    stub.gate.clear()
    _, first = ask("a")
    _, second = ask("b")
    stub.gate.set()
    first.get(timeout=10)
    outcome = second.get(timeout=10)
    assert outcome.busy_seconds >= 0.05
    assert outcome.busy_seconds <= outcome.score_seconds


def test_a_failing_work_fails_its_ticket_once_and_no_other(ask):
    _, bad = ask("a", f"b {NAN}", f"c {NAN}")
    _, good = ask("d")
    failed = bad.get(timeout=10)
    assert isinstance(failed, Failed)
    assert (failed.index, failed.error.code) == (1, "engine_error")
    assert isinstance(good.get(timeout=10), Answered)
    assert bad.empty()


@pytest.mark.parametrize("hook", ["step_error", "submit_error"])
def test_an_exception_of_the_engine_is_a_fault_and_the_thread_lives(
    ask, stub, worker, hook, caplog
):
    setattr(stub, hook, OSError("no device"))
    _, outcomes = ask("a", "b")
    failed = outcomes.get(timeout=10)
    assert isinstance(failed.error, Fault)
    assert failed.error.message.endswith("the server's log says why")
    assert "no device" in caplog.text
    assert stub.pending == 0
    _, outcomes = ask("c")
    assert isinstance(outcomes.get(timeout=10), Answered)
    assert worker.ready


def test_an_engine_that_forgets_works_is_found_out(ask, stub, caplog):
    stub.step = lambda: stub._jobs.clear() or []
    _, outcomes = ask("a")
    assert isinstance(outcomes.get(timeout=10), Failed)
    assert "has not answered" in caplog.text


def test_a_cancelled_ticket_gets_no_outcome(ask, stub, worker):
    stub.gate.clear()
    _, first = ask("a")
    ticket, dropped = ask("b", "c")
    worker.cancel(ticket)
    stub.gate.set()
    assert isinstance(first.get(timeout=10), Answered)
    _, last = ask("d")
    last.get(timeout=10)
    assert dropped.empty()
    worker.cancel(ticket)


def test_stopping_answers_what_was_asked(ask, stub, worker):
    stub.gate.clear()
    _, first = ask("a")
    _, second = ask("b")
    stopping = threading.Thread(target=worker.stop, args=[10])
    stopping.start()
    stub.gate.set()
    stopping.join(10)
    assert isinstance(first.get_nowait(), Answered)
    assert isinstance(second.get_nowait(), Answered)


def test_before_it_is_loaded_there_is_no_engine(stub):
    opening = threading.Event()

    def open_engine():
        opening.wait(10)
        return stub.as_engine()

    worker = Worker(open_engine)
    worker.start()
    with pytest.raises(Busy) as caught:
        worker.engine  # noqa: B018
    assert (caught.value.code, caught.value.retry_after_seconds) == ("warming_up", 10)
    assert not worker.ready
    start = time.monotonic()
    worker.stop(10)
    assert time.monotonic() - start < 5
    assert worker.alive
    opening.set()
    until = time.monotonic() + 10
    while worker.alive:
        assert time.monotonic() < until
        time.sleep(0.005)


@pytest.mark.parametrize(
    ("fault", "logged"), [(Unusable("get it so"), False), (MemoryError("too large"), True)]
)
def test_a_model_that_cannot_be_opened_is_told_to_who_started_the_server(fault, logged, caplog):
    def open_engine():
        raise fault

    loaded = threading.Event()
    worker = Worker(open_engine, loaded.set)
    worker.start()
    assert loaded.wait(10)
    assert worker.load_error is fault
    assert ("could not be loaded" in caplog.text) is logged
    with pytest.raises(Busy) as caught:
        worker.engine  # noqa: B018
    assert (caught.value.code, caught.value.retry_after_seconds) == ("model_unavailable", 60)
    worker.stop(10)


class Ahead:
    """A worker whose engine runs one pass ahead, on a device that ends passes when it is told to.

    Attributes:
        waits_for: passes in the order in which the worker begins to wait for them.
        may_end: released once for each pass that may end.
    """

    def __init__(self) -> None:
        self.engine = engine_of(ahead=1, token_budget=50)
        self.forward = fake(self.engine)
        self.waits_for: Queue[int] = Queue()
        self.may_end = threading.Semaphore(0)
        finish = self.forward.finish

        def gated(started):
            self.waits_for.put(started.number)
            assert self.may_end.acquire(timeout=10)
            return finish(started)

        self.forward.finish = gated  # type: ignore[method-assign]
        loaded = threading.Event()
        self.worker = Worker(lambda: self.engine, loaded.set)
        self.worker.start()
        assert loaded.wait(10)

    def ask(self, text: str) -> tuple[Ticket, Queue[Outcome]]:
        outcomes: Queue[Outcome] = Queue()
        question = Question("q", (Prompt("\nx:"),), (" yes", " no"), empty_floor=False)
        job = self.worker.engine.compile(Work(text, (question,)))
        return self.worker.ask((job,), outcomes.put, Turn()), outcomes

    def end_pass(self, number: int) -> None:
        """Ends a pass once the worker waits for it."""
        assert self.waits_for.get(timeout=10) == number
        self.may_end.release()

    def end_all(self) -> None:
        self.may_end.release(1000)


@pytest.fixture
def ahead() -> Iterator[Ahead]:
    made = Ahead()
    yield made
    made.end_all()
    made.worker.stop(10)
    assert not made.worker.ready


def test_works_that_arrive_while_passes_run_share_the_next(ahead):
    outcomes = [ahead.ask("a" * 35)[1]]
    assert ahead.waits_for.get(timeout=10) == 0
    outcomes += [ahead.ask("b")[1], ahead.ask("c" * 30)[1], ahead.ask("d" * 35)[1]]
    ahead.may_end.release()
    first = outcomes[0].get(timeout=10)
    # b and c fill a pass; d's begins before that one is waited for, and e and f come behind.
    assert ahead.waits_for.get(timeout=10) == 1
    assert [len(trees) for trees in ahead.forward.trees] == [1, 2, 1]
    outcomes += [ahead.ask("e")[1], ahead.ask("f")[1]]
    ahead.may_end.release()
    ahead.end_pass(2)
    ahead.end_pass(3)
    others = [one.get(timeout=10) for one in outcomes[1:]]
    assert all(isinstance(outcome, Answered) for outcome in (first, *others))
    assert [len(trees) for trees in ahead.forward.trees] == [1, 2, 1, 2]
    calls = ahead.forward.calls
    assert calls.index(("start", 3)) < calls.index(("finish", 2))


def test_busy_seconds_count_the_wait_for_passes_in_flight(ahead):
    _, outcomes = ahead.ask("a" * 35)
    assert ahead.waits_for.get(timeout=10) == 0
    time.sleep(0.05)
    ahead.may_end.release()
    outcome = outcomes.get(timeout=10)
    assert 0.05 <= outcome.busy_seconds <= outcome.score_seconds


def test_a_ticket_cancelled_in_flight_gets_no_outcome(ahead):
    _, first = ahead.ask("a" * 35)
    assert ahead.waits_for.get(timeout=10) == 0
    _, second = ahead.ask("b" * 35)
    ticket, dropped = ahead.ask("c" * 35)
    ahead.may_end.release()
    assert ahead.waits_for.get(timeout=10) == 1
    assert ahead.forward.in_flight == [1, 2]
    ahead.worker.cancel(ticket)
    ahead.may_end.release()
    assert isinstance(first.get(timeout=10), Answered)
    assert isinstance(second.get(timeout=10), Answered)
    _, last = ahead.ask("d" * 35)
    ahead.end_pass(2)
    ahead.end_pass(3)
    assert isinstance(last.get(timeout=10), Answered)
    assert dropped.empty()
    assert ahead.engine.pending == 0


def test_a_pass_that_fails_in_flight_fails_its_ticket_and_no_other(ahead):
    ahead.forward.finish_faults[0] = OSError("no device")
    _, bad = ahead.ask("a" * 35)
    _, good = ahead.ask("b" * 35)
    ahead.end_all()
    failed = bad.get(timeout=10)
    assert isinstance(failed, Failed)
    assert "OSError" in failed.error.message
    assert isinstance(good.get(timeout=10), Answered)
    assert ahead.worker.ready


def test_how_long_a_step_takes_shows_while_it_runs_and_not_between(ask, worker, stub):
    assert worker.step_seconds == 0
    stub.gate.clear()
    _, outcomes = ask("a")
    deadline = time.monotonic() + 10
    while worker.step_seconds < 0.05:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    stub.gate.set()
    outcomes.get(timeout=10)
    while worker.step_seconds:
        assert time.monotonic() < deadline


def test_a_step_that_failed_runs_no_more(ask, worker, stub):
    stub.step_error = ValueError("broken")
    _, outcomes = ask("a")
    assert isinstance(outcomes.get(timeout=10), Failed)
    deadline = time.monotonic() + 10
    while worker.step_seconds:
        assert time.monotonic() < deadline
