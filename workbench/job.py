"""The process of one job: `python -m spinf_serve.workbench.job PROJECT ID DESCRIPTOR`.

`spinf_serve.workbench.jobs` starts it, and reads what it writes. Knows no kind of job.
"""

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from spinf_serve.packs.atomic import write_beside
from spinf_serve.packs.errors import SpinfError, Unusable
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.workbench.answering import forget_who
from spinf_serve.workbench.desk import Desk
from spinf_serve.workbench.job_kinds import KINDS, Report, Stopped
from spinf_serve.workbench.jobs import JOB, RESULT, STATUS, STOP

WRITE_SECONDS: Final = 0.5
"""How often progress is written at most."""

BEAT_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.2
INTERRUPT_SECONDS: Final = 5.0
"""How long a step may go on after the job was asked to stop, before it is interrupted."""

END_SECONDS: Final = 20.0
"""How long it may then take to put things in order, before the process ends anyhow."""


class Running:
    """The `Report` of the job in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._status: dict[str, Any] = {"state": "running", "pid": os.getpid(), "words": "starting"}
        self._written = self._looked = 0.0
        self._is_stopped = False
        self._first: tuple[float, int] | None = None
        self._over = threading.Event()

    def progress(
        self,
        done: int,
        of: int,
        words: str = "",
        *,
        rate: float | None = None,
        seconds_left: float | None = None,
        **more: float | str | None,
    ) -> None:
        """See `Report`."""
        now = time.monotonic()
        if self._first is None or done < self._first[1]:
            self._first = now, done
        if rate is None and now > self._first[0] and done > self._first[1]:
            rate = (done - self._first[1]) / (now - self._first[0])
        if seconds_left is None and rate and of:
            seconds_left = max(0.0, of - done) / rate
        told = {
            "done": done,
            "of": of,
            "rate": rate,
            "seconds_left": seconds_left,
            "words": words,
            "more": more,
        }
        with self._lock:
            self._status |= told
        if now - self._written > WRITE_SECONDS:
            self._beat()

    def say(self, line: str) -> None:
        """See `Report`."""
        at = datetime.now(UTC).strftime("%H:%M:%S")
        with suppress(OSError):
            # The log lies on the project's disk, which may be full.
            print(f"{at} {line}", flush=True)

    def stopped(self) -> bool:
        """See `Report`."""
        now = time.monotonic()
        if not self._is_stopped and now - self._looked > LOOK_SECONDS / 2:
            self._looked = now
            self._is_stopped = (self.folder / STOP).exists()
        return self._is_stopped

    def check(self) -> None:
        """See `Report`."""
        if self.stopped():
            raise Stopped

    def write(self, **status: Any) -> None:
        """Write the status as it is now."""
        with self._lock:
            self._written = time.monotonic()
            beat = datetime.now(UTC).isoformat(timespec="seconds")
            self._status |= {"heartbeat": beat, **status}
            write_beside(self.folder / STATUS, json.dumps(self._status).encode())

    def _beat(self) -> None:
        """Writes the status if that can be: a full disk must not end the work, nor the watch."""
        with suppress(OSError):
            self.write()

    def end(self, state: str, words: str) -> None:
        """Write the last status."""
        self._over.set()
        ended = datetime.now(UTC).isoformat(timespec="seconds")
        self.write(state=state, words=words, ended=ended, seconds_left=None)
        if state == "done":
            forget_who(self.folder)

    def watch(self) -> None:
        """Beats, and interrupts a step that goes on long after a stop; in a thread of its own."""
        asked: float | None = None
        interrupted = False
        beat = time.monotonic()
        while not self._over.wait(LOOK_SECONDS):
            now = time.monotonic()
            if now - beat > BEAT_SECONDS:
                beat = now
                self._beat()
            if asked is None and self.stopped():
                asked = now
            if asked is None:
                continue
            if not interrupted and now - asked > INTERRUPT_SECONDS:
                interrupted = True
                os.kill(os.getpid(), signal.SIGINT)
            elif now - asked > INTERRUPT_SECONDS + END_SECONDS:
                self.say("a step did not end: the process is ended")
                self.end("stopped", "stopped in the midst of a step")
                os._exit(1)


def main(file: str, id: str, descriptor: str) -> int:
    """Do the job; the exit code is 0 when it ended as it should."""
    # Held until this process ends; what it starts must not hold it longer.
    os.set_inheritable(int(descriptor), False)
    desk = Desk(Path(file).parent, Path(file))
    folder = desk.below("jobs") / id
    report = Running(folder)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _stop)
    threading.Thread(target=report.watch, daemon=True).start()
    try:
        told = json.loads((folder / JOB).read_bytes())
        report.write()
        result = _function(told["kind"])(desk, told["arguments"], report)
        write_beside(folder / RESULT, json.dumps(result, ensure_ascii=False).encode())
    except (Stopped, KeyboardInterrupt):
        report.say("stopped")
        report.end("stopped", "stopped; what was finished is kept")
        return 0
    except InvalidPack as invalid:
        words = "; ".join(map(str, invalid.faults))
    except (SpinfError, Unusable) as fault:
        words = str(fault)
    except OSError as fault:
        _tell_fault()
        name = "" if fault.filename is None else f"{Path(str(fault.filename)).name}: "
        words = f"{name}{fault.strerror or fault}; look after the project's folder, then resume it"
    except Exception as fault:  # noqa: BLE001 - whatever a kind of job does is told
        _tell_fault()
        words = f"an unexpected fault, {type(fault).__name__}; the log tells more"
    else:
        if report.stopped():
            report.end("stopped", "stopped; what was finished is kept")
        else:
            report.end("done", "done")
        return 0
    report.say(words)
    report.end("failed", words)
    return 1


def _tell_fault() -> None:
    with suppress(OSError):
        traceback.print_exc()


def _function(kind: str) -> Callable[[Desk, dict[str, Any], Report], dict[str, Any]]:
    module, _, name = KINDS[kind].partition(":")
    function: Callable[[Desk, dict[str, Any], Report], dict[str, Any]] = getattr(
        import_module(module), name
    )
    return function


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    with suppress(OSError):
        sys.stdout.flush()
    # Whatever threads a model left do not matter any more.
    os._exit(code)
