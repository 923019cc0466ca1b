"""Near-duplicates among many texts: MinHash over runs of eight bytes, found by bands.

Two texts are near when about three quarters or more of the runs that either has are in both, in
lower case and with white space made one blank. About 100 bytes a text are held, whatever its
length. The method is that of A. Broder, "On the resemblance and containment of documents" (1997).
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

NEAR: Final = 0.75
"""Least estimated share of common runs. The estimate's standard error is about 0.07 there."""

RUN_BYTES: Final = 8

_BANDS: Final = 8
_ROWS: Final = 5
# With these two, texts that share 80 % of their runs meet in a band with 96 %, at 90 % with 99.9 %.
_HASHES: Final = _BANDS * _ROWS
_MIX: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93))
_HALF: Final = np.uint64(32)


class NearFinder:
    """Texts added in batches, and then which of them belong together."""

    def __init__(self) -> None:
        random = np.random.default_rng(20)
        # Odd, so that a product modulo 2^32 loses nothing.
        self._factors = random.integers(0, 1 << 31, _HASHES, dtype=np.uint32) * 2 + 1
        self._bands: list[NDArray[np.uint64]] = []
        self._bytes: list[NDArray[np.uint8]] = []

    def add(self, texts: Sequence[str]) -> None:
        """Take texts, numbered on from those added before."""
        if not texts:
            return
        minima = self._minima(texts)
        # One byte of each hash is enough to estimate how much two texts share.
        self._bytes.append((minima >> np.uint32(24)).astype(np.uint8).T.copy())
        bands = np.zeros((_BANDS, len(texts)), np.uint64)
        for row in minima.reshape(_BANDS, _ROWS, -1).transpose(1, 0, 2):
            bands = (bands ^ row) * _MIX[0]
            bands ^= bands >> _HALF
        self._bands.append(bands)

    def groups(self) -> NDArray[np.int64]:
        """For each text the number of the first text that it is near to, through others too.

        Returns:
            int64 [texts]; a text that is near to none before it has its own number.
        """
        if not self._bands:
            return np.zeros(0, np.int64)
        signatures = np.concatenate(self._bytes)
        count = len(signatures)
        found = [
            _near_pairs(np.concatenate([part[band] for part in self._bands]), signatures)
            for band in range(_BANDS)
        ]
        one, other = (np.concatenate([pairs[side] for pairs in found]) for side in (0, 1))
        graph = coo_array((np.ones(len(one), np.int8), (one, other)), shape=(count, count))
        parts, part = connected_components(graph, directed=False)
        first = np.full(parts, count, np.int64)
        np.minimum.at(first, part, np.arange(count))
        groups: NDArray[np.int64] = first[part]
        return groups

    def _minima(self, texts: Sequence[str]) -> NDArray[np.uint32]:
        """uint32 [_HASHES, texts]: the least value of each hash over a text's runs."""
        parts = [" ".join(text.lower().split()).encode(errors="replace") for text in texts]
        parts = [part.ljust(RUN_BYTES, b"\0") for part in parts]
        lengths = np.array([len(part) for part in parts])
        whole = np.frombuffer(b"".join(parts), np.uint8)
        runs = np.lib.stride_tricks.sliding_window_view(whole, RUN_BYTES).copy()
        mixed = runs.view("<u8")[:, 0] * _MIX[0]
        mixed = (mixed ^ (mixed >> _HALF)) * _MIX[1]
        hashes = (mixed >> _HALF).astype(np.uint32)
        ends = np.cumsum(lengths)
        # Runs that reach into the next text are none.
        inside = np.ones(len(hashes), bool)
        for back in range(1, RUN_BYTES):
            inside[ends[:-1] - back] = False
        hashes = hashes[inside]
        kept = lengths - (RUN_BYTES - 1)
        starts = np.cumsum(kept) - kept
        return np.stack([np.minimum.reduceat(hashes * factor, starts) for factor in self._factors])


def _near_pairs(
    band: NDArray[np.uint64], signatures: NDArray[np.uint8]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of texts with one band's value that also share enough of the rest."""
    order = np.argsort(band, kind="stable")
    ordered = band[order]
    same = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    opens = np.r_[True, ordered[1:] != ordered[:-1]]
    # Place of the first of each run of equal values.
    first = np.maximum.accumulate(np.where(opens, np.arange(len(band)), 0))
    later = order[same]
    pairs: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    # Each with its neighbour and with the first, so that an odd first one parts nobody.
    for earlier in (order[same - 1], order[first[same]]):
        for start in range(0, len(later), 100_000):
            a, b = later[start : start + 100_000], earlier[start : start + 100_000]
            share = (signatures[a] == signatures[b]).mean(axis=1)
            near = share >= NEAR
            pairs.append((a[near], b[near]))
    if not pairs:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs])
