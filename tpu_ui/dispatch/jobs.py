"""Jobs: what was asked, what has happened, how it ended. Knows nothing of workers or processes."""

import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import assert_never

from tpu_ui.dispatch.interface import ImageSaved, Queued, Tally, Update
from tpu_ui.protocol import Cancelled, Ending, Failed, Finished, Stepped
from tpu_ui.request import GenerationRequest
from tpu_ui.shapes import ImageSize, Mode

WAIT_S = 0.25  # longest wait between two looks at whether the app is closing
KEPT_ENDED_JOBS = 500


@dataclass(frozen=True, slots=True)
class Target:
    """The programs that a job needs: all those of one model, mode and size."""

    model: str
    mode: Mode
    size: ImageSize


class Job:
    """One generation or warm-up. Anybody may read and follow it; the dispatcher records.

    `waiting` and `working` belong to the pool, under its lock: which workers have not yet begun
    their part of a warm-up, and which are at it. `background` marks a warm-up nobody asked for.
    """

    def __init__(
        self, target: Target, request: GenerationRequest | None = None, *, background: bool = False
    ) -> None:
        self.id = secrets.token_hex(16)  # unguessable: whoever knows it can follow and cancel
        self.target = target
        self.request = request
        self.background = background
        self.submitted_s = time.monotonic()
        self.waiting: set[int] = set()
        self.working: set[int] = set()
        self.parts: list[Ending] = []
        self.told: Queued | None = None  # its place, as last told
        self.cancel_asked = False
        self.images = 0
        self._log: list[Update] = []
        self._previewed: int | None = None  # the only place in the log that has a preview
        self._ending: Ending | None = None
        self._changed = threading.Condition()

    @property
    def ending(self) -> Ending | None:
        """How the job ended; None while it goes on."""
        with self._changed:
            return self._ending

    def record(self, update: Update) -> bool:
        """Add to the log. False after the ending: the first one stands, and nothing follows it."""
        with self._changed:
            if self._ending is not None:
                return False
            self._keep_newest_preview(update)
            self._log.append(update)
            self.images += isinstance(update, ImageSaved)
            if isinstance(update, Ending):
                self._ending = update
            self._changed.notify_all()
            return True

    def _keep_newest_preview(self, update: Update) -> None:
        """A preview is forgotten when a newer one comes, or the picture itself, or the end."""
        shows = isinstance(update, Stepped) and bool(update.preview)
        if self._previewed is not None and (shows or isinstance(update, ImageSaved | Ending)):
            step = self._log[self._previewed]
            assert isinstance(step, Stepped)
            self._log[self._previewed] = replace(step, preview=b"")
            self._previewed = None
        if shows:
            self._previewed = len(self._log)

    def recorded(self) -> list[Update]:
        """All updates so far."""
        with self._changed:
            return list(self._log)

    def follow(self, pace_s: float = 0.0) -> Iterator[Update]:
        """All updates from the first, as they come; ends after the ending.

        With a pace, only the newest step is told, and the next one no sooner than so many seconds
        later; what is not a step is told at once. Of the previews only the newest is ever told.
        """
        seen, quiet_until_s = 0, 0.0
        while True:
            fresh = self._news(seen, quiet_until_s)
            seen += len(fresh)
            preview = b""
            for number, update in enumerate(fresh, start=1):
                if pace_s and isinstance(update, Stepped):
                    preview = update.preview or preview
                    if number < len(fresh):
                        continue
                    quiet_until_s = time.monotonic() + pace_s
                    update = replace(update, preview=preview)
                yield update
                if isinstance(update, Ending):
                    return

    def _news(self, seen: int, quiet_until_s: float) -> list[Update]:
        """What came after the first `seen` updates, none after a while. Before `quiet_until_s`,
        steps alone are no news."""

        def steps_alone() -> bool:
            return all(isinstance(update, Stepped) for update in self._log[seen:])

        with self._changed:
            self._changed.wait_for(lambda: len(self._log) > seen, timeout=WAIT_S)
            left_s = quiet_until_s - time.monotonic()
            if left_s > 0:
                self._changed.wait_for(lambda: not steps_alone(), timeout=left_s)
            return self._log[seen:]


def worst(parts: list[Ending]) -> Ending:
    """One ending for a job that several workers had a part in."""
    for kind in (Failed, Cancelled):
        for part in parts:
            if isinstance(part, kind):
                return part
    return parts[0]


class JobBook:
    """Jobs by id. The oldest ended ones are forgotten beyond a count; running ones never."""

    def __init__(self, kept: int = KEPT_ENDED_JOBS) -> None:
        self._kept = kept
        self._jobs: dict[str, Job] = {}
        self._forgotten = Tally()
        self._lock = threading.RLock()

    def add(self, job: Job) -> None:
        with self._lock:
            self._jobs[job.id] = job
            ended = [old.id for old in self._jobs.values() if old.ending is not None]
            for old_id in ended[: max(0, len(ended) - self._kept)]:
                self._forgotten = self._forgotten + _tally(self._jobs.pop(old_id))

    def get(self, job: str) -> Job | None:
        with self._lock:
            return self._jobs.get(job)

    def all(self) -> list[Job]:
        with self._lock:
            return list(self._jobs.values())

    def tally(self) -> Tally:
        """All jobs that there ever were."""
        with self._lock:
            return sum(map(_tally, self._jobs.values()), self._forgotten)


def _tally(job: Job) -> Tally:
    match job.ending:
        case Finished():
            return Tally(job.images, finished=1)
        case Failed():
            return Tally(job.images, failed=1)
        case Cancelled():
            return Tally(job.images, cancelled=1)
        case None:
            return Tally(job.images)
        case other:
            assert_never(other)
