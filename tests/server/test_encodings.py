"""Compressed bodies: what comes out, and that no more than the limit ever does."""

import gzip
import time
import tracemalloc

import pytest
import zstandard

from spinf_serve.packs.errors import Refused
from spinf_serve.server.encodings import decoded

BODY = b'{"state": "' + b"Billed twice. " * 5000 + b'"}'
LIMIT = 1 << 20


def zstd(data: bytes, level: int = 3) -> bytes:
    return zstandard.ZstdCompressor(level=level).compress(data)


def streamed(data: bytes) -> bytes:
    """As senders do that do not know the size beforehand."""
    compressor = zstandard.ZstdCompressor().compressobj()
    return compressor.compress(data) + compressor.flush()


ENCODED = [
    ("zstd", zstd(BODY)),
    ("zstd", streamed(BODY)),
    (" ZSTD ", zstd(BODY[:100]) + zstd(BODY[100:])),
    ("gzip", gzip.compress(BODY)),
    ("gzip", gzip.compress(BODY[:7]) + gzip.compress(BODY[7:])),
    ("identity", BODY),
    (None, BODY),
]


@pytest.mark.parametrize(("encoding", "sent"), ENCODED)
def test_what_was_sent_comes_out(encoding, sent):
    assert decoded(sent, encoding, len(BODY)) == BODY


@pytest.mark.parametrize(("encoding", "sent"), ENCODED[:5])
def test_one_byte_over_the_limit_is_refused(encoding, sent):
    with pytest.raises(Refused) as caught:
        decoded(sent, encoding, len(BODY) - 1)
    assert caught.value.code == "body_too_large"


@pytest.mark.parametrize(
    ("encoding", "bomb"),
    [
        ("zstd", zstd(b"\0" * 200_000_000, 19)),
        ("gzip", gzip.compress(b"\0" * 200_000_000)),
    ],
)
def test_a_bomb_takes_no_more_memory_than_a_few_times_the_limit(encoding, bomb):
    tracemalloc.start()
    with pytest.raises(Refused, match="over the limit of 1048576 bytes"):
        decoded(bomb, encoding, LIMIT)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * LIMIT


@pytest.mark.parametrize(
    ("encoding", "sent"),
    [
        ("zstd", BODY),
        ("zstd", zstd(BODY)[:-2]),
        ("zstd", zstd(BODY) + b"more"),
        ("gzip", BODY),
        ("gzip", gzip.compress(BODY)[:-2]),
        ("gzip", gzip.compress(BODY) + b"more"),
    ],
)
def test_bytes_of_no_such_encoding_are_refused(encoding, sent):
    with pytest.raises(Refused) as caught:
        decoded(sent, encoding, LIMIT)
    assert caught.value.code == "invalid_encoding"


@pytest.mark.parametrize("encoding", ["br", "gzip, zstd", "deflate"])
def test_other_encodings_are_refused_by_name(encoding):
    with pytest.raises(Refused, match="send zstd, gzip or plain") as caught:
        decoded(BODY, encoding, LIMIT)
    assert caught.value.status == 415


def test_a_window_larger_than_any_compressor_needs_is_refused():
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    frame = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    sent = frame.compress(b"x" * 100) + frame.flush()
    with pytest.raises(Refused) as caught:
        decoded(sent, "zstd", LIMIT)
    assert caught.value.code == "invalid_encoding"


@pytest.mark.parametrize(("encoding", "frame"), [("zstd", zstd(b"")), ("gzip", gzip.compress(b""))])
def test_a_body_of_very_many_frames_is_refused_before_they_are_read(encoding, frame):
    sent = frame * (1024 * 1024 // len(frame))
    begun = time.process_time()
    with pytest.raises(Refused, match="more than 64 frames") as caught:
        decoded(sent, encoding, LIMIT)
    assert caught.value.code == "invalid_encoding"
    assert time.process_time() - begun < 2


@pytest.mark.parametrize(("encoding", "pack"), [("zstd", zstd), ("gzip", gzip.compress)])
def test_frames_that_were_made_side_by_side_are_one_body(encoding, pack):
    assert decoded(pack(BODY[:999]) * 64, encoding, LIMIT) == BODY[:999] * 64
