"""The real engine around a made-up model: tokens are bytes, answers a function of all of them.

Unlike the stub it compiles, packs and reads as an engine does, and costs next to nothing.
"""

from dataclasses import replace

from spinf_serve.engine.api import Engine
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.fingerprint import cpu_fingerprint
from spinf_serve.engine.models.served import ServedModel
from spinf_serve.engine.work import Frame, Limits
from tests.support.fake_forward import FakeForward
from tests.support.stub_engine import SERVED
from tests.support.toy_tokenizers import ByteTokenizer

VOCABULARY = 264
"""Bytes, bos, and some control tokens that no text can spell."""

FRAME = Frame(before=(257, 258), behind=(259, 260), close=(261,))


def made_up_engine(frame: Frame | None = None) -> Engine:
    """An engine for questions worded as clozes, or with a frame as turns of a chat."""
    return Engine(
        served=_served(frame),
        tokenizer=ByteTokenizer(),
        forward=FakeForward(VOCABULARY),
        fingerprint=cpu_fingerprint("0" * 64, "float32", "made up"),
        config=EngineConfig(token_budget=4096),
        limits=Limits(),
        context_tokens=100_000,
    )


def _served(frame: Frame | None) -> ServedModel:
    if frame is None:
        return SERVED
    return replace(SERVED, prompt_style="chat", frame=frame)
