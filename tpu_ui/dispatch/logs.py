"""The logs of the workers: one file each, which their processes write into. Never too long. Knows
nothing of what is written there.
"""

import logging
import os
import shutil
from pathlib import Path
from typing import BinaryIO

MAX_LOG_BYTES = 5_000_000
LINES = 40
LINE_CHARACTERS = 300
TAIL_BYTES = 32 * 1024

log = logging.getLogger(__name__)


def folder_of(cache: Path) -> Path:
    """Where all logs are."""
    return cache / "logs"


def path(cache: Path, worker: int) -> Path:
    """The log of the process that worker number `worker` is in now."""
    return folder_of(cache) / f"worker-{worker}.log"


def open_log(cache: Path, index: int) -> BinaryIO:
    """The log of a worker, empty. The log of the one before it is kept, for what ended it."""
    file = path(cache, index)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists():
            file.replace(file.with_suffix(".previous.log"))
        return file.open("ab")  # after a rotation the process goes on at the new end
    except OSError as error:
        log.warning("worker %d has no log file: %s", index, error.strerror)
        return Path(os.devnull).open("wb")


def rotate(folder: Path, max_bytes: int = MAX_LOG_BYTES) -> None:
    """Put aside what long logs hold, in place of what was put aside before.

    The processes keep their files open, so the content moves, and lines that come in that moment
    are lost.
    """
    for file in folder.glob("worker-*.log"):
        if file.name.endswith((".previous.log", ".older.log")):
            continue
        try:
            if file.stat().st_size > max_bytes:
                shutil.copyfile(file, file.with_suffix(".older.log"))
                os.truncate(file, 0)
        except OSError as error:
            log.warning("%s cannot be rotated: %s", file.name, error.strerror)


def last_lines(log: Path) -> list[str]:
    """At most LINES of at most LINE_CHARACTERS, oldest first. A log may be of any length, and none
    may be there."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            begin = max(size - TAIL_BYTES, 0)
            file.seek(begin)
            text = file.read(TAIL_BYTES).decode(errors="replace")
    except OSError:
        return []
    lines = text.splitlines()[1 if begin else 0 :]  # the first may have lost its beginning
    return [line[:LINE_CHARACTERS] for line in lines[-LINES:]]
