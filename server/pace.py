"""How fast an engine reads: tokens a second of its work, the latest passes counting most."""

_KEPT = 0.9
"""What of a pass's weight is left when the next one is counted: about the last ten count."""


class Pace:
    """A running measure. Written by one thread, read by any."""

    def __init__(self) -> None:
        self._rows = 0.0
        self._seconds = 0.0

    def add(self, rows: int, seconds: float) -> None:
        """Counts what a step of the engine read, and how long it took."""
        if rows:
            self._rows = self._rows * _KEPT + rows
            self._seconds = self._seconds * _KEPT + seconds

    @property
    def tokens_per_second(self) -> float | None:
        """The measure; None before there is one."""
        return self._rows / self._seconds if self._seconds else None
