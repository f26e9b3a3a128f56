"""Whose turn it is: the jobs that wait, in the order in which they will be taken.

Visitors are served in turn, one job each time round; each one's own jobs go first in, first out. So
fifty jobs of one visitor hold up another's single one by one job. A warm-up that somebody asked for
takes a turn like a visitor. Warm-ups that nobody asked for come last: a worker that has them to do
first says so itself.

What is foretold of a job goes by this order too.

Not safe by itself for several threads: the pool's lock guards it.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, zip_longest

from tpu_ui.dispatch.jobs import Job
from tpu_ui.dispatch.state import WorkerState


class Turns:
    """Every job that waits, once."""

    def __init__(self) -> None:
        self._ring: dict[str, list[Job]] = {}  # in the order of the next turns; no list is empty
        self._background: list[Job] = []

    def __iter__(self) -> Iterator[Job]:
        """All of them, the next one first. A snapshot: jobs may come and go meanwhile."""
        return iter(_in_rounds(self._ring.values()) + self._background)

    def __contains__(self, job: Job) -> bool:
        return job in self._background or job in self._ring.get(_whose(job), ())

    def add(self, job: Job) -> None:
        """Behind its visitor's other jobs."""
        self._ring.setdefault(_whose(job), []).append(job)

    def add_first(self, job: Job) -> None:
        """Before all others: it had its turn, and nobody could take it."""
        whose = _whose(job)
        own = self._ring.pop(whose, [])
        self._ring = {whose: [job, *own], **self._ring}

    def add_background(self, jobs: list[Job]) -> None:
        """Warm-ups that nobody asked for, before older ones."""
        self._background[:0] = jobs

    def take(self, job: Job) -> None:
        """It is begun. Its visitor's next turn comes after everybody else's."""
        whose = _whose(job)
        self.drop(job)
        if whose in self._ring:
            self._ring[whose] = self._ring.pop(whose)

    def drop(self, job: Job) -> None:
        """It waits no more. Raises ValueError if it did not."""
        if job in self._background:
            self._background.remove(job)
            return
        whose = _whose(job)
        self._ring.get(whose, []).remove(job)
        if not self._ring[whose]:
            del self._ring[whose]

    def clear(self) -> None:
        self._ring.clear()
        self._background.clear()

    def foreseen(self, states: Iterable[WorkerState]) -> list[Job]:
        """Those that will begin, in that order, as far as can be known now.

        Requests whose callers have gone will not. What is cold comes after the warm-ups of the
        start, until one worker has done them.
        """
        known = list(states)
        live = [[job for job in own if not job.abandoned] for own in self._ring.values()]

        def rank(job: Job) -> int:
            if job.request is None:
                return int(job in self._background)
            return 0 if any(one.settled or job.target in one.warmed for one in known) else 2

        return sorted(_in_rounds(live) + self._background, key=rank)

    def requests(self) -> int:
        """How many requests wait. Those whose callers have gone will not run."""
        return sum(1 for job in self if job.request and not job.abandoned)

    def requests_of(self, visitor: str) -> int:
        return sum(1 for job in self._ring.get(visitor, ()) if not job.abandoned)


def _in_rounds(queues: Iterable[list[Job]]) -> list[Job]:
    """The first of each, the second of each, and so on."""
    rounds = chain.from_iterable(zip_longest(*queues))
    return [job for job in rounds if job is not None]


def _whose(job: Job) -> str:
    return job.visitor if job.request else f"warm-up {job.id}"
