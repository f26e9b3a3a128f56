"""Warm-ups that nobody has asked for: of the sizes that the app starts with, and of what was ready
when a worker lost its process. Data; the pool's lock guards it.
"""

from collections.abc import Iterable

from tpu_ui.dispatch.jobs import Job, Target
from tpu_ui.dispatch.options import Options
from tpu_ui.dispatch.placements import Placements
from tpu_ui.dispatch.state import WorkerState
from tpu_ui.shapes import Device, ImageSize


class StartUp:
    """Each worker does those that it wants before it takes other jobs."""

    def __init__(self, options: Options, placements: Placements, states: list[WorkerState]) -> None:
        self._options = options
        self._placements = placements
        self._states = states
        self._pending = True

    def begin(self, device: Device | None) -> None:
        """A process has come up; with the first one, every worker wants the first sizes."""
        if self._pending:
            self._pending = False
            for state in self._states:
                state.wanted.update(dict.fromkeys(self._first(device)))

    def plan(self, state: WorkerState, device: Device | None, queue: Iterable[Job]) -> list[Job]:
        """Jobs for what this worker wants and no job of the queue does. On the first start they are
        everybody's."""
        known = list(queue)
        jobs = (self._job(state, target, known) for target in self._to_warm(state, device))
        return [job for job in jobs if job is not None]

    def _first(self, device: Device | None) -> list[Target]:
        preset = self._options.preset(self._options.model)
        limits = self._placements.limits(preset, device)
        sizes: tuple[ImageSize, ...] = ()
        if self._options.warm == "default":
            sizes = (limits.default_size,)
        elif self._options.warm == "all":
            sizes = limits.available_sizes
        return [Target(preset.name, limits.default_mode, size) for size in sizes]

    def _to_warm(self, state: WorkerState, device: Device | None) -> list[Target]:
        known = [*self._first(device), *state.wanted]
        return [
            target
            for target in dict.fromkeys(known)
            if target in state.wanted
            and target.model == state.preset.name
            and target not in state.warmed
        ]

    def _job(self, state: WorkerState, target: Target, queue: list[Job]) -> Job | None:
        for job in queue:
            if job.request is None and job.target == target and state.index in job.waiting:
                job.background = True
                return None
        job = Job(target, background=True)
        job.waiting = {
            one.index
            for one in self._states
            if one is state or (not one.loaded and target in one.wanted and not one.failure)
        }
        return job
