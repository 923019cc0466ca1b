"""The folder of batch files: a ledger, and the files that it names. Knows no HTTP and no engine."""

import re
import time
from pathlib import Path

from spinf_serve.packs.errors import Refused, Unusable
from spinf_serve.server.batches.ledger import Ledger
from spinf_serve.server.batches.records import KeptFile
from spinf_serve.server.config import ServerConfig

_LEDGER = "batches.sqlite"
_FILES = "files"
# Of `new_id`; nothing else in the folder is ours to delete.
_OURS = re.compile(r"file-[0-9A-HJKMNP-TV-Z]{26}")
DAY_SECONDS = 24 * 60 * 60


class BatchFolder:
    """An open folder, of this process alone. Any thread.

    Attributes:
        ledger: what there is.
        files: folder of the files, each called by its id.
    """

    def __init__(self, path: Path, config: ServerConfig) -> None:
        """Opens a folder or makes it, and deletes files of a run cut short.

        Raises:
            Unusable: it cannot be written, or another server has it.
        """
        self.files = path / _FILES
        self._config = config
        try:
            self.files.mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            raise Unusable(f"--batch-dir {path}: {fault.strerror}") from fault
        self.ledger = Ledger(path / _LEDGER)
        named = self.ledger.named_files()
        for file in self.files.iterdir():
            if _OURS.fullmatch(file.name) and file.name not in named:
                file.unlink()

    def close(self) -> None:
        """Lets go of the folder."""
        self.ledger.close()

    def path(self, file_id: str) -> Path:
        """Where a file lies."""
        return self.files / file_id

    @property
    def keep_seconds(self) -> int:
        """How long files are kept."""
        return self._config.batch_days * DAY_SECONDS

    def room_bytes(self) -> int:
        """The largest file that can be added now. Raises `Refused` (`storage_full`) at none."""
        limit = self._config.max_batch_dir_bytes
        kept = self.ledger.size_bytes()
        if kept >= limit:
            raise Refused(
                "storage_full",
                f"the files kept have {kept} bytes and the limit of all together is {limit}: "
                "delete some, or start the server with a larger --max-batch-dir-bytes",
                "file",
            )
        return min(self._config.max_batch_file_bytes, limit - kept)

    def remove(self, file: KeptFile) -> None:
        """Deletes a file. Raises `Refused` (`file_in_use`) while an unfinished batch reads it."""
        if not self.ledger.remove_file(file.id):
            raise Refused(
                "file_in_use",
                f"a batch that has not ended reads {file.id}: cancel it, or wait for its end",
                "file_id",
            )
        self.path(file.id).unlink(missing_ok=True)

    def sweep(self, now: float | None = None) -> None:
        """Deletes what has been kept for long enough; `now` in unix seconds."""
        moment = int(time.time() if now is None else now)
        for id in self.ledger.expired_files(moment):
            if self.ledger.remove_file(id):
                self.path(id).unlink(missing_ok=True)
        self.ledger.remove_batches(moment - self.keep_seconds)
