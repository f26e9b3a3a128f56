"""What a worker says, written down: in the job's log, the outputs folder, the pool and the costs.
Knows no process.
"""

import logging

from tpu_ui.dispatch import outputs
from tpu_ui.dispatch.costs import Cost
from tpu_ui.dispatch.jobs import Job
from tpu_ui.dispatch.pool import Pool
from tpu_ui.dispatch.state import WorkerState
from tpu_ui.protocol import (
    Counted,
    Failed,
    ImageMade,
    Memory,
    Progress,
    Stepped,
    Warmed,
    Warming,
)

log = logging.getLogger(__name__)


class Recorder:
    """For one worker."""

    def __init__(self, pool: Pool, state: WorkerState) -> None:
        self._pool = pool
        self._state = state

    def save(self, job: Job, made: ImageMade, queue_s: float) -> Failed | None:
        """Write the image; why not, if that is so."""
        assert job.request is not None
        folder = self._pool.options.outputs
        saved = outputs.save_or_say(made, job.request.size, queue_s, folder)
        if isinstance(saved, Failed):
            return saved
        job.record(saved)
        with self._pool.lock:
            self._pool.waits.made(job, saved.info)
        return None

    def count(self, counted: Counted | Memory) -> None:
        """What the process holds, and what it has compiled."""
        with self._pool.lock:
            if isinstance(counted, Memory):
                self._state.memory = counted
                return
            grown = self._state.count(counted)
        if grown > 0:
            log.warning("worker %d compiled %d program(s) after ready", self._state.index, grown)

    def notice(self, job: Job, event: Progress) -> None:
        """How far the worker is with the job."""
        with self._pool.lock:
            self._state.notice(job.target, event)
            if isinstance(event, Stepped):
                self._pool.waits.stepped(self._state, event)
            if isinstance(event, Stepped | Warming):
                self._pool.tell_places()
            on = self._state.runs_on
        if isinstance(event, Warmed) and on is not None:
            cost = Cost(event.elapsed_s, event.programs_compiled)
            self._pool.costs.remember(job.target, on, cost)
        job.record(event)
