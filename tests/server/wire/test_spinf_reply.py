"""Bodies of answers from made-up results."""

import json

import pytest

from spinf_serve.engine.work import Counts, Limits, Result
from spinf_serve.packs.answer import OptionAnswer, PromptAnswer, QuestionAnswer
from spinf_serve.packs.question import Prompt, Question
from spinf_serve.server.calls import Call, Input
from spinf_serve.server.exchange import Timing
from spinf_serve.server.usage import usage_of
from spinf_serve.server.wire.spinf import ScoreRequest
from spinf_serve.server.wire.spinf_reply import reply
from tests.support.stub_engine import StubEngine

QUESTION = Question("late", (Prompt("Late?"),), (" yes",), group=None)
COUNTS = Counts(content_tokens=24, query_tokens=8, packed_tokens=32, floors={1: 8})


def answer(option: OptionAnswer, residual=0.5, floor_residual=None):
    prompt = PromptAnswer({}, (option,), residual, floor_residual)
    result = Result((QuestionAnswer("late", (prompt,), True),), COUNTS, True)
    call = Call((Input("0", "inputs.0", "x", (QUESTION,), ("scoring.queries.0",), 1),), Limits())
    raw = reply(
        ScoreRequest(call, "spinf-12b", None, False, False, (), {}),
        [result],
        usage_of(call, [result]),
        [],
        engine=StubEngine().as_engine(),
        request_id="scr_1",
        created=7,
        timing=Timing(64.4, 0.4, 2.0, 21.5, 20.6),
        extras=False,
    )
    return json.loads(raw)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (-0.18632957, "-0.18633"),
        (-2.4079456, "-2.407946"),
        (-0.00000049, "0.0"),
        (-0.0, "0.0"),
        (1.0, "1.0"),
        (-103.2789254999, "-103.278925"),
        (1e-7, "0.0"),
        (0.1 + 0.2, "0.3"),
    ],
)
def test_values_have_six_decimals_and_no_negative_zero(value, written):
    body = answer(OptionAnswer(" yes", value, value, value, value), value, value)
    [combination] = body["results"][0]["queries"][0]["combinations"]
    [option] = combination["options"]
    shown = [option["logprob"], option["p"], option["floor_p"]]
    assert [repr(entry) for entry in shown] == [written] * 3
    assert repr(combination["residual"]) == repr(combination["floor_residual"]) == written


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_what_is_no_number_is_never_written(value):
    with pytest.raises((ValueError, OverflowError)):
        answer(OptionAnswer(" yes", value, 1.0, None, None))


def test_usage_and_timing_are_whole_numbers():
    body = answer(OptionAnswer(" yes", -0.5, 1.0, None, None))
    assert body["timing"] == {
        "wall_ms": 64, "queue_ms": 0, "compile_ms": 2, "score_ms": 22, "gpu_busy_ms": 21,
    }  # fmt: skip
    assert body["usage"] == {
        "prompt_tokens": 40,
        "completion_tokens": 0,
        "total_tokens": 40,
        "prompt_tokens_details": {
            "content_tokens": 24, "text_tokens": 24, "query_tokens": 8, "floor_tokens": 8,
            "cached_tokens": 0,
        },
        "inputs": 1,
        "content": {
            "tokens": 24, "text_tokens": 24, "images": 0, "image_tokens": 0, "video_frames": 0,
            "video_tokens": 0, "audio_seconds": 0.0, "audio_tokens": 0,
        },
        "scoring": {
            "queries": 1, "combinations": 1, "options": 1, "prompts": 1, "floor_prompts": 1,
            "query_tokens": 8, "floor_tokens": 8,
        },
        "processed_tokens": 40,
    }  # fmt: skip
