"""The logs of the workers: one file each, which their processes write into. Never too long."""

import logging
import os
import shutil
from pathlib import Path
from typing import BinaryIO

MAX_LOG_BYTES = 5_000_000

log = logging.getLogger(__name__)


def folder_of(cache: Path) -> Path:
    """Where all logs are."""
    return cache / "logs"


def open_log(cache: Path, index: int) -> BinaryIO:
    """The log of a worker, empty. The log of the one before it is kept, for what ended it."""
    path = folder_of(cache) / f"worker-{index}.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            path.replace(path.with_suffix(".previous.log"))
        return path.open("ab")  # after a rotation the process goes on at the new end
    except OSError as error:
        log.warning("worker %d has no log file: %s", index, error.strerror)
        return Path(os.devnull).open("wb")


def rotate(folder: Path, max_bytes: int = MAX_LOG_BYTES) -> None:
    """Put aside what long logs hold, in place of what was put aside before.

    The processes keep their files open, so the content moves, and lines that come in that moment
    are lost.
    """
    for path in folder.glob("worker-*.log"):
        if path.name.endswith((".previous.log", ".older.log")):
            continue
        try:
            if path.stat().st_size > max_bytes:
                shutil.copyfile(path, path.with_suffix(".older.log"))
                os.truncate(path, 0)
        except OSError as error:
            log.warning("%s cannot be rotated: %s", path.name, error.strerror)
