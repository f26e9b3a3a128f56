"""What is thrown away so that the disk does not fill: old pictures, temporary copies, long logs.

Runs in a thread of its own. Removes only files that this app has made, known by their names, and no
picture of a job that goes on or has just ended.
"""

import logging
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tpu_ui.dispatch.jobs import JobBook
from tpu_ui.dispatch.logs import rotate
from tpu_ui.dispatch.outputs import mark_of
from tpu_ui.folders import Bounds, prune

DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
PICTURE = re.compile(r"[0-9a-f]{32}-\d{1,4}-\d{1,10}\.png", re.ASCII)
LEFT_OVER = re.compile(r"\..+\.tmp")  # of a process that ended while it wrote
LEFT_OVER_S = 3600.0
PICTURES = Bounds(count=10_000, size_bytes=20_000_000_000)
COPIES = Bounds(count=10_000, size_bytes=2_000_000_000, age_s=6 * 3600)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Keeping:
    """What is kept of what. `temporary`: a folder of copies, any of which may go.

    `after_job_s`: how long a job's pictures are out of reach after its end, and a copy after it was
    made: somebody may be fetching them. `every_s`: between two looks while pictures are made.
    """

    pictures: Bounds = PICTURES
    copies: Bounds = COPIES
    temporary: Path | None = None
    after_job_s: float = 300.0
    every_s: float = 30.0


KEEPING = Keeping()


class Housekeeper(threading.Thread):
    """Looks when pictures have been made, and once in `REST_S` anyway."""

    REST_S = 600.0

    def __init__(
        self, keeping: Keeping, outputs: Path, logs: Path, jobs: JobBook, closing: threading.Event
    ) -> None:
        super().__init__(name="housekeeper", daemon=True)
        self._keeping = keeping
        self._outputs = outputs
        self._logs = logs
        self._jobs = jobs
        self._closing = closing

    def run(self) -> None:
        known, looked_s = None, 0.0
        while not self._closing.wait(0 if known is None else self._keeping.every_s):
            tally = self._jobs.tally()  # an ending frees pictures, too
            if tally != known or time.monotonic() - looked_s >= self.REST_S:
                known, looked_s = tally, time.monotonic()
                self.tidy()

    def tidy(self) -> None:
        """Once."""
        keeping, now_s = self._keeping, time.time()
        pictures = list(self._pictures())
        needed = self._needed()  # after the list: whatever is on it, its job is known by now
        gone = prune(pictures, keeping.pictures, lambda path: _mark(path) in needed, now_s)
        gone += prune(self._left_over(), Bounds(age_s=LEFT_OVER_S), lambda _: False, now_s)
        if keeping.temporary is not None:
            copies = (path for path in keeping.temporary.rglob("*") if path.is_file())
            gone += prune(copies, keeping.copies, lambda path: self._fresh(path, now_s), now_s)
        if gone:
            log.info("%d old file(s) removed from the outputs and temporary folders", gone)
        rotate(self._logs)

    def _days(self) -> Iterator[Path]:
        for day in self._outputs.glob("*-*-*"):
            if DAY.fullmatch(day.name) and day.is_dir() and not day.is_symlink():
                yield day

    def _pictures(self) -> Iterator[Path]:
        for day in self._days():
            yield from (path for path in day.iterdir() if PICTURE.fullmatch(path.name))

    def _left_over(self) -> Iterator[Path]:
        for day in self._days():
            yield from (path for path in day.iterdir() if LEFT_OVER.fullmatch(path.name))

    def _needed(self) -> set[str]:
        """The marks of pictures, made and to come, that are not to go."""
        return {
            mark_of(job.id, image)
            for job in self._jobs.all()
            if job.request is not None and job.ended_within(self._keeping.after_job_s)
            for image in range(1, job.request.count + 1)
        }

    def _fresh(self, path: Path, now_s: float) -> bool:
        try:
            return 0 <= now_s - path.stat().st_mtime < self._keeping.after_job_s
        except OSError:
            return False


def _mark(path: Path) -> str:
    return path.name.partition("-")[0]
