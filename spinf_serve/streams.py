"""Standard streams that are closed, full or no longer read, and the end of the process.

A command prints and reads as usual; `spinf_serve.cli.main` calls what is here around it.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import current_thread, main_thread
from typing import Any, BinaryIO, NoReturn, TextIO, TypeVar, cast

from spinf_serve.packs.errors import Unusable

T = TypeVar("T")


def replace_closed_streams() -> None:
    """Stands in for streams that were closed by the caller (`<&-`, `>&-`); to Python they are None.

    Their numbers must not go to the next file or socket. Using stdin or stdout fails like before.
    """
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_WRONLY), encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(
            os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8", errors="backslashreplace"
        )


@contextmanager
def checked_stdout() -> Iterator[None]:
    """Has stdout written to its end.

    Raises:
        Unusable: it cannot be written.
        SystemExit: its reader has enough; code 1.
    """
    plain = sys.stdout
    sys.stdout = cast(TextIO, _Checked(plain))
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        sys.exit(1)
    finally:
        sys.stdout = plain


class _Checked:
    """Stdout, whose faults are thereby told from those of other files, and not forgotten.

    Attributes:
        faults: what went wrong at the first write that failed; shared with `buffer`.
    """

    def __init__(self, stream: TextIO | BinaryIO, faults: list[OSError] | None = None) -> None:
        self._stream = stream
        self.faults: list[OSError] = [] if faults is None else faults

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def buffer(self) -> "_Checked":
        return _Checked(cast(TextIO, self._stream).buffer, self.faults)

    def write(self, data: Any) -> int:
        return self._done(lambda: self._stream.write(data))

    def flush(self) -> None:
        self._done(self._stream.flush)

    def _done(self, action: Callable[[], T]) -> T:
        try:
            # Printers try a stream out and forget that it failed.
            if self.faults:
                raise self.faults[0]
            return action()
        except OSError as fault:
            self.faults.append(fault)
            _discard(self._stream)
            if isinstance(fault, BrokenPipeError):
                raise
            raise Unusable(f"stdout cannot be written: {fault.strerror}") from fault


def complain(line: str) -> None:
    """A line on stderr; where that takes none, the exit code has to tell."""
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        _discard(sys.stderr)


def _discard(stream: TextIO | BinaryIO) -> None:
    """Throws away what a stream could not write, which Python would try again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def interruptible() -> Iterator[None]:
    """Has Ctrl-C and SIGTERM end the process without waiting for the engine's thread.

    What stands between cleans up, as behind any exception.
    """
    mine = current_thread() is main_thread()
    before = signal.signal(signal.SIGTERM, _terminate) if mine else None
    try:
        yield
    except _Terminated:
        complain("error: terminated")
        leave(143)
    except KeyboardInterrupt:
        complain("error: interrupted")
        leave(130)
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


class _Terminated(KeyboardInterrupt):
    """SIGTERM came."""


def _terminate(*_: object) -> NoReturn:
    raise _Terminated


def leave(code: int) -> NoReturn:
    """Ends the process at once, whatever its threads do; see `Worker.alive`."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, Unusable):
            stream.flush()
    os._exit(code)
