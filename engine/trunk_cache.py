"""Which trunks stay on the device after the works that read them, for other works on the same content.

A trunk is known by its tokens. What lies in the device's memory are its keys and values, which are
the same bits whoever reads them: a work that continues a kept trunk has the scores that it has
alone. Passes run in the order in which they were started, so a trunk may be continued from the pass
after the one that ends it; one whose pass was lost, or whose reader was cancelled half way, is
forgotten. Knows no text and no tensors. Belongs to the engine's thread.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import count
from typing import Final, Protocol

from spinf_serve.engine.stats import Stats
from spinf_serve.engine.tree.packing import PackedPass, Tree

WORTH: Final = 16
"""A trunk of at least a sixteenth of a pass is worth waiting a pass for, instead of reading it again
beside the tree that reads it: a pass more costs about as much as so many rows."""


class Rooms(Protocol):
    """Where keys and values lie: a part of `pipeline.Forward`, which says what each does."""

    def room_bytes(self, tokens: int) -> int | None:
        """Bytes that a trunk takes; None where it never fits."""
        ...

    def reserve(self, key: int, tokens: int) -> bool:
        """Makes room for a trunk; False when none is free."""
        ...

    def release(self, key: int) -> None:
        """Gives the room back, behind what was started."""
        ...


@dataclass(slots=True, eq=False)
class _Entry:
    """A trunk with a room.

    Attributes:
        key: the room's.
        tokens: of the trunk, as bytes.
        room_bytes: what it takes.
        reader: the tree that reads it, until a pass with its end was started.
        users: keys of the trees that still need it.
        is_known: whether further trees may find it.
    """

    key: int
    tokens: bytes
    room_bytes: int
    reader: Tree | None
    users: set[int] = field(default_factory=set)
    is_known: bool = True


class TrunkCache:
    """Kept trunks, the least recently used ones first; implements `packing.Trunks`."""

    def __init__(self, rooms: Rooms, stats: Stats, pass_tokens: int, *, enabled: bool) -> None:
        """With `enabled` off every tree reads its own trunk, and nothing stays."""
        self._rooms = rooms
        self._stats = stats
        self._worth_tokens = max(1, pass_tokens // WORTH)
        self._enabled = enabled
        self._known: OrderedDict[bytes, _Entry] = OrderedDict()
        self._entries: dict[int, _Entry] = {}
        # Below zero, where no tree's own key is.
        self._keys = count(-1, -1)

    def find(self, tree: Tree) -> bool:
        """Looks for the trunk of a tree that is not begun, and sets what of it is done.

        False: it is being read in the pass under construction, and is worth waiting for the next.
        """
        if not self._enabled:
            return True
        entry = self._known.get(tree.trunk.tobytes())
        is_there = entry is not None and entry.reader is None
        tree.trunk_done = tree.trunk_found = len(tree.trunk) if is_there else 0
        if entry is None or entry.reader is None:
            return True
        ends_here = entry.reader.trunk_done == len(tree.trunk)
        return not (ends_here and len(tree.trunk) >= self._worth_tokens)

    def claim(self, tree: Tree) -> None:
        """The tree begins, right after it was looked for: keeps what was found, or makes room."""
        if not self._enabled or not len(tree.trunk):
            return
        tokens = tree.trunk.tobytes()
        entry = self._known.get(tokens)
        if tree.trunk_found:
            if entry is None:
                raise AssertionError(f"the trunk of tree {tree.key} left between find and claim")
            self._known.move_to_end(tokens)
            self._stats.trunk_hits += 1
            self._stats.trunk_cached_tokens += tree.trunk_found
        else:
            self._stats.trunk_misses += 1
            # One that another tree is in the midst of is read a second time, and not kept.
            entry = self._with_room(tree, tokens) if entry is None else None
        if entry is not None:
            entry.users.add(tree.key)
            tree.kept_key, tree.is_cached = entry.key, True

    def started(self, packed: PackedPass) -> None:
        """A pass was started: later ones may continue the trunks that it ends.

        Trees that are wholly planned need theirs no longer, unless steps follow.
        """
        for tree in packed.parts:
            entry = self._entries.get(tree.kept_key)
            if entry is None:
                continue
            if entry.reader is tree and tree.trunk_done == len(tree.trunk):
                entry.reader = None
            if tree.is_planned and not tree.is_held:
                self._leave(entry, tree)

    def leave(self, tree: Tree) -> None:
        """Nobody waits for the tree any more: what it has not read to the end is forgotten."""
        entry = self._entries.get(tree.kept_key)
        if entry is not None:
            if entry.reader is tree:
                self._forget(entry)
            self._leave(entry, tree)

    def lost(self, packed: PackedPass) -> set[int]:
        """Forgets the trunks that a lost pass read rows of.

        Returns:
            Their keys: the `kept_key` of every tree that was to continue one of them.
        """
        keys = {part.key for part in packed.plan.slices if part.trunk_rows}
        for key in keys & self._entries.keys():
            self._drop(self._entries[key])
        return keys

    def spoiled(self, tree: Tree) -> None:
        """What came of the tree is no number: its trunk is not continued by further trees."""
        entry = self._entries.get(tree.kept_key)
        if entry is not None:
            self._forget(entry)

    def clear(self) -> None:
        """Forgets every trunk; those in use stay until they are not."""
        for entry in list(self._entries.values()):
            self._forget(entry)

    def _with_room(self, tree: Tree, tokens: bytes) -> _Entry | None:
        """An entry for a trunk that nobody has read; trunks that nobody uses make room for it."""
        room_bytes = self._rooms.room_bytes(len(tree.trunk))
        if room_bytes is None:
            return None
        key = next(self._keys)
        while not self._rooms.reserve(key, len(tree.trunk)):
            idle = next((entry for entry in self._known.values() if not entry.users), None)
            if idle is None:
                return None
            self._stats.trunk_evictions += 1
            self._drop(idle)
        entry = _Entry(key, tokens, room_bytes, reader=tree)
        self._known[tokens] = self._entries[key] = entry
        self._stats.trunk_entries += 1
        self._stats.trunk_bytes += room_bytes
        return entry

    def _leave(self, entry: _Entry, tree: Tree) -> None:
        entry.users.discard(tree.key)
        if not entry.is_known and not entry.users:
            self._drop(entry)

    def _forget(self, entry: _Entry) -> None:
        """No further tree finds it; it goes when the last user leaves."""
        if entry.is_known:
            entry.is_known = False
            del self._known[entry.tokens]
        if not entry.users:
            self._drop(entry)

    def _drop(self, entry: _Entry) -> None:
        """Gives its room back at once."""
        if self._entries.pop(entry.key, None) is None:
            return
        if entry.is_known:
            entry.is_known = False
            del self._known[entry.tokens]
        self._rooms.release(entry.key)
        self._stats.trunk_entries -= 1
        self._stats.trunk_bytes -= entry.room_bytes
