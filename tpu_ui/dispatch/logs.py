"""Where each worker's log is, and its last lines. Knows nothing of what is written there."""

from pathlib import Path

LINES = 40
LINE_CHARACTERS = 300
TAIL_BYTES = 32 * 1024


def path(cache: Path, worker: int) -> Path:
    """The log of the process that worker number `worker` is in now."""
    return cache / "logs" / f"worker-{worker}.log"


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
