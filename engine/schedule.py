"""Which waiting tree is read next: fair between callers, quick for small requests, never unbounded.

Priorities come first, one by one, and within a priority scoring before texts that are written: these
take what is left of passes. In each of these lanes callers share the rows of passes evenly: the one
that had the fewest goes next. Within a caller requests go in the order in which they would end if the
device served all of them at the same time in equal parts (fair sojourn: Friedman and Henderson,
SIGMETRICS 2003): a small request passes a large one, and none ends later than it would there, but for
a pass. Where more is asked for than the device can read, that alone would hold a large one up for as
long as small ones come: so the request that came first gets a quarter as many rows as those behind it,
whatever its size. A request's own trees go in the order of their coming.

Knows trees by their sizes only; what a tree's rows come to does not depend on its place.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from spinf_serve.engine.tree.packing import PackedPass, Tree, Trunks, next_pass
from spinf_serve.engine.turn import Priority, Turn

MOST_BEGUN: Final = 8
"""Trees of one lane that may be begun and not wholly planned: their trunks stay on the device."""

_FIRST_SHARE: Final = 0.25
"""Rows for a caller's oldest request by the row that a later one had."""

_LITTLE: Final = 8
"""What part of a pass is too little to cut a tree for."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits: requests and trees with unplanned rows, and these rows."""

    requests: int = 0
    trees: int = 0
    rows: int = 0


@dataclass(slots=True, eq=False)
class _Request:
    """A request with trees that wait.

    Attributes:
        number: requests that came earlier have lower ones.
        ends: on its caller's clock, when it would end if all were served at once.
        trees: by key, in the order of their coming.
    """

    turn: Turn
    number: int
    ends: float = 0.0
    trees: OrderedDict[int, "_Place"] = field(default_factory=OrderedDict)


@dataclass(slots=True, eq=False)
class _Place:
    """A tree that waits, and where.

    Attributes:
        rows: those of it that are counted as waiting.
        is_begun: whether what it found of its trunk is accounted for.
        most_rows: of a pass, where it goes first because it came first; None for no bound.
    """

    tree: Tree
    lane: "_Lane"
    caller: "_Caller"
    request: _Request
    rows: int
    is_begun: bool = False
    most_rows: int | None = None


@dataclass(slots=True, eq=False)
class _Caller:
    """Requests of one caller in one lane.

    Attributes:
        served: rows it had, beginning at what others had when it came.
        now: the clock of a device that serves its requests at the same time: rows each of them had.
        open: when those end that are not through there, by turn.
        requests: those with trees that wait, in the order of their coming.
        owed: rows that the oldest of them should have had by now, for its age alone.
    """

    served: float
    now: float = 0.0
    owed: float = 0.0
    open: dict[Turn, float] = field(default_factory=dict)
    requests: dict[Turn, _Request] = field(default_factory=dict)

    def lengthen(self, request: _Request, rows: int) -> None:
        """A request has so many rows more to be read."""
        begins = max(self.open.get(request.turn, self.now), self.now)
        request.ends = self.open[request.turn] = begins + rows

    @property
    def oldest(self) -> _Request:
        """The request that came first; there must be one."""
        return next(iter(self.requests.values()))

    def count(self, request: _Request, rows: int) -> None:
        """Rows of a request were planned."""
        self.advance(rows)
        if request is self.oldest:
            self.owed = max(0.0, self.owed - rows)
        else:
            self.owed += rows * _FIRST_SHARE

    def advance(self, rows: float) -> None:
        """Moves the clock by rows that were read, in equal parts for all that are not through."""
        while self.open and rows > 0:
            turn, ends = min(self.open.items(), key=lambda item: item[1])
            needed = (ends - self.now) * len(self.open)
            if needed > rows:
                self.now += rows / len(self.open)
                return
            rows -= needed
            self.now = ends
            del self.open[turn]


@dataclass(slots=True, eq=False)
class _Lane:
    """Callers of one priority who have something scored, or who have something written.

    Attributes:
        floor: rows that those had who were served least; new ones begin here.
        begun: keys of trees that are begun and not wholly planned.
    """

    callers: dict[str, _Caller] = field(default_factory=dict)
    floor: float = 0.0
    begun: set[int] = field(default_factory=set)
    trees: int = 0
    rows: int = 0

    def caller(self, name: str) -> _Caller:
        """The caller of a name. One who comes is not behind those that wait."""
        return self.callers.setdefault(name, _Caller(self.floor))

    def tidy(self) -> None:
        """Forgets callers for whom nothing waits and who had no more than others."""
        if not self.trees:
            self.callers.clear()
            return
        gone = [
            name
            for name, caller in self.callers.items()
            if not caller.requests and caller.served <= self.floor
        ]
        for name in gone:
            del self.callers[name]


class Schedule:
    """The trees that wait. Belongs to one thread; its counts may be read from any."""

    def __init__(self) -> None:
        # In the order in which they are asked for trees, as `Turn.lane` names them.
        self._lanes = {
            (priority, writes): _Lane() for priority in Priority for writes in (False, True)
        }
        self._places: dict[int, _Place] = {}
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._places)

    @property
    def rows(self) -> int:
        """Rows that wait, about: stems that are read again in a later pass are not foreseen."""
        return sum(lane.rows for lane in self._lanes.values())

    def backlog(self, priority: Priority) -> Backlog:
        """What waits of a priority. Any thread."""
        lanes = [self._lanes[priority, writes] for writes in (False, True)]
        requests = sum(
            len(caller.requests) for lane in lanes for caller in list(lane.callers.values())
        )
        return Backlog(
            requests, sum(lane.trees for lane in lanes), sum(lane.rows for lane in lanes)
        )

    def put(self, tree: Tree, turn: Turn) -> None:
        """Queues a tree of a request; a step goes before the request's other trees.

        What a step continues holds memory until the last one, and others do not yet.
        """
        lane = self._lanes[turn.lane]
        caller = lane.caller(turn.caller)
        request = caller.requests.get(turn)
        if request is None:
            request = caller.requests[turn] = _Request(turn, next(self._numbers))
        place = _Place(tree, lane, caller, request, tree.rows_left)
        caller.lengthen(request, place.rows)
        request.trees[tree.key] = self._places[tree.key] = place
        if tree.behind is not None:
            request.trees.move_to_end(tree.key, last=False)
        lane.trees += 1
        lane.rows += place.rows
        if tree.is_begun and tree.behind is None:
            lane.begun.add(tree.key)

    def hurry(self, tree: Tree, turn: Turn) -> None:
        """Moves a tree that waits to the place of a turn, if that goes before its own."""
        place = self._places.get(tree.key)
        if place is not None and turn.lane < place.request.turn.lane:
            self.drop(tree)
            self.put(tree, turn)

    def drop(self, tree: Tree) -> None:
        """Forgets a tree; one that does not wait is no error."""
        place = self._places.get(tree.key)
        if place is not None:
            self._leave(place)
            if not place.request.trees:
                place.caller.open.pop(place.request.turn, None)

    def next_pass(self, budget: int, trunks: Trunks | None = None) -> PackedPass | None:
        """Plans the next pass of at most `budget` rows; None when nothing waits."""
        offered: dict[int, _Place] = {}
        packed = next_pass(self._offers(offered, budget), budget, trunks, self._room_for)
        for place in offered.values():
            place.most_rows = None
            self._settle(place)
            if place.tree.is_planned:
                self._leave(place)
            elif place.tree.is_begun and place.tree.behind is None:
                place.lane.begun.add(place.tree.key)
        for lane in self._lanes.values():
            lane.tidy()
        return packed

    def _offers(self, offered: dict[int, _Place], budget: int) -> Iterator[Tree]:
        """Trees in the order in which they are wanted, each once; told in `offered` too."""
        for lane in self._lanes.values():
            waiting = {
                caller: _in_order(caller, lane.rows, budget)
                for caller in lane.callers.values()
                if caller.requests
            }
            while waiting:
                caller = min(waiting, key=lambda one: one.served)
                place = next(waiting[caller], None)
                if place is None:
                    del waiting[caller]
                    continue
                lane.floor = max(lane.floor, caller.served)
                if place.tree.key not in offered:
                    offered[place.tree.key] = place
                    yield place.tree
                    self._settle(place)

    def _room_for(self, tree: Tree, room: int) -> int:
        """How many of the rows that are left a tree may have that does not fit in them whole."""
        place = self._places[tree.key]
        if not tree.is_begun and len(tree.trunk) and len(place.lane.begun) >= MOST_BEGUN:
            return 0
        return room if place.most_rows is None else min(room, place.most_rows)

    def _settle(self, place: _Place) -> None:
        """Counts what was planned of a tree since it was counted last."""
        tree = place.tree
        planned = place.rows - tree.rows_left
        # What a tree that is not begun has found of its trunk may be gone again when it begins.
        if not tree.is_begun or planned <= 0:
            return
        place.rows -= planned
        place.lane.rows -= planned
        place.caller.count(place.request, planned)
        # What others have read costs the device nothing.
        place.caller.served += planned - (0 if place.is_begun else tree.trunk_found)
        place.is_begun = True

    def _leave(self, place: _Place) -> None:
        key, request = place.tree.key, place.request
        del self._places[key], request.trees[key]
        place.lane.trees -= 1
        place.lane.rows -= place.rows
        place.lane.begun.discard(key)
        if not request.trees:
            if request is place.caller.oldest:
                place.caller.owed = 0.0
            del place.caller.requests[request.turn]
        if not place.caller.requests:
            place.caller.open.clear()


def _in_order(caller: _Caller, waiting_rows: int, budget: int) -> Iterator[_Place]:
    """Places of a caller's trees as they are wanted; the first one may come a second time.

    Args:
        waiting_rows: what the caller and others wait for.
    """
    first = next(iter(caller.oldest.trees.values()))
    # Without enough beside it the pass would not be full, and it has the rest of it anyway.
    if caller.owed >= budget / _LITTLE and waiting_rows - first.rows >= budget:
        first.most_rows = int(caller.owed)
        yield first
    for request in sorted(caller.requests.values(), key=lambda one: (one.ends, one.number)):
        yield from request.trees.values()
