"""Compressed request bodies: decoded within the limit that holds for bodies that are not.

The size is checked while decoding, so that a small body cannot fill the memory.
"""

import zlib
from collections.abc import Callable, Mapping

import zstandard

from spinf_serve.packs.errors import Refused

# A block of four bytes may stand for 128 KiB, so that little is decoded at once.
_ZSTD_PIECE_BYTES = 128
_GZIP_PIECE_BYTES = 64 * 1024
# What a sender may ask to be kept while decoding; compressors use as much only for larger bodies.
_MAX_WINDOW_BYTES = 8 * 1024 * 1024
_GZIP_BITS = zlib.MAX_WBITS | 16
# Compressors that work side by side make a frame each; beginning one costs far more than its bytes.
_MAX_FRAMES = 64


def decoded(body: bytes, encoding: str | None, limit_bytes: int) -> bytes:
    """The body without its `Content-Encoding`.

    Args:
        body: as it arrived.
        encoding: the header; None where there is none.
        limit_bytes: largest size of what comes out.

    Raises:
        Refused: `unsupported_encoding` for a header with another word than zstd, gzip or identity,
            or with two; `body_too_large` as soon as more than the limit has come out;
            `invalid_encoding` for bytes that are not of that encoding, end too early, or come in
            more than 64 frames.
    """
    name = (encoding or "identity").strip().lower()
    if name == "identity":
        return body
    decode = _DECODERS.get(name)
    if decode is None:
        raise Refused(
            "unsupported_encoding",
            f"bodies in the Content-Encoding {name[:64]!r} are not read; send zstd, gzip or plain",
        )
    return decode(body, limit_bytes)


def _zstd(body: bytes, limit_bytes: int) -> bytes:
    pieces: list[bytes] = []
    size = at = frames = 0
    try:
        # A body may be several frames, one after the other.
        while at < len(body):
            frames += 1
            _check_frames(frames, "zstd")
            decoder = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).decompressobj()
            while not decoder.eof:
                given = body[at : at + _ZSTD_PIECE_BYTES]
                if not given:
                    raise _broken("zstd", "it ends too early")
                piece = decoder.decompress(given)
                at += len(given)
                size += len(piece)
                _check_size(size, limit_bytes)
                pieces.append(piece)
            at -= len(decoder.unused_data)
    except zstandard.ZstdError as fault:
        raise _broken("zstd", str(fault)) from None
    return b"".join(pieces)


def _gzip(body: bytes, limit_bytes: int) -> bytes:
    pieces: list[bytes] = []
    size = frames = 0
    rest = body
    try:
        while rest:
            frames += 1
            _check_frames(frames, "gzip")
            decoder = zlib.decompressobj(_GZIP_BITS)
            while not decoder.eof:
                if not rest:
                    raise _broken("gzip", "it ends too early")
                piece = decoder.decompress(rest, _GZIP_PIECE_BYTES)
                rest = decoder.unconsumed_tail
                size += len(piece)
                _check_size(size, limit_bytes)
                pieces.append(piece)
            rest = decoder.unused_data
    except zlib.error as fault:
        raise _broken("gzip", str(fault)) from None
    return b"".join(pieces)


_DECODERS: Mapping[str, Callable[[bytes, int], bytes]] = {"zstd": _zstd, "gzip": _gzip}


def _check_size(size: int, limit_bytes: int) -> None:
    if size > limit_bytes:
        raise Refused(
            "body_too_large",
            f"the request body is over the limit of {limit_bytes} bytes once it is decoded; "
            "split the request, or start the server with a larger --max-body-bytes",
        )


def _check_frames(frames: int, name: str) -> None:
    if frames > _MAX_FRAMES:
        raise _broken(name, f"it has more than {_MAX_FRAMES} frames; compress it as one")


def _broken(name: str, why: str) -> Refused:
    return Refused("invalid_encoding", f"the body is not valid {name}: {why}")
