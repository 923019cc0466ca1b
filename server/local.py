"""One request answered in this process, without a server; the same bodies as over HTTP."""

import time
from collections.abc import Callable

from spinf_serve.engine.api import Engine, Job
from spinf_serve.engine.work import Result
from spinf_serve.packs.errors import SpinfError
from spinf_serve.server.auth import ANYBODY
from spinf_serve.server.calls import compile_call, located, usage_of, warnings_of
from spinf_serve.server.ids import new_request_id
from spinf_serve.server.problems import envelope
from spinf_serve.server.wire.json_text import decode, encode
from spinf_serve.server.wire.spinf import ScoreRequest, read_request
from spinf_serve.server.wire.spinf_reply import Timing, reply


def answer_locally(
    engine: Engine, body: bytes, progress: Callable[[int, int], None] | None = None
) -> tuple[int, bytes]:
    """HTTP status and body of the answer to a body of /v1/score, on the calling thread.

    Args:
        engine: one that nothing else uses meanwhile.
        progress: called after every pass with the contents done and the contents in all.
    """
    request_id = new_request_id()
    start = time.perf_counter()
    try:
        request = read_request(decode(body), engine, ANYBODY, chat=False)
        jobs = compile_call(engine, request.call)
        compiled_at = time.perf_counter()
        results = _run(engine, request, jobs, progress)
    except SpinfError as error:
        return error.status, encode(envelope(error, request_id, ANYBODY))
    end = time.perf_counter()
    timing = Timing(
        wall=1e3 * (end - start),
        queue=0.0,
        compile=1e3 * (compiled_at - start),
        score=1e3 * (end - compiled_at),
        busy=1e3 * (end - compiled_at),
    )
    return 200, reply(
        request,
        results,
        usage_of(request.call, [result.counts for result in results]),
        [*request.warnings, *warnings_of(request.call, results)],
        engine=engine,
        request_id=request_id,
        created=int(time.time()),
        timing=timing,
        extras=False,
    )


def _run(
    engine: Engine,
    request: ScoreRequest,
    jobs: tuple[Job, ...],
    progress: Callable[[int, int], None] | None,
) -> list[Result]:
    for job in jobs:
        engine.submit(job)
    results: dict[Job, Result] = {}
    while len(results) < len(jobs):
        for job, outcome in engine.step():
            if isinstance(outcome, SpinfError):
                for other in jobs:
                    engine.cancel(other)
                raise located(outcome, request.call.inputs[jobs.index(job)])
            results[job] = outcome
        if progress is not None:
            progress(len(results), len(jobs))
    return [results[job] for job in jobs]
