"""How long a job will wait: what is left of those before it, by what such jobs have taken so far.

In memory alone: it is learned again after a restart. Knows nothing of threads or processes; the
pool's lock guards it.
"""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tpu_ui.dispatch.costs import Costs
from tpu_ui.dispatch.interface import Queued, SizeStatus, Takes
from tpu_ui.dispatch.jobs import Job, Target
from tpu_ui.dispatch.state import WorkerState
from tpu_ui.metadata import ImageInfo
from tpu_ui.presets import Preset
from tpu_ui.protocol import Stepped
from tpu_ui.request import GenerationRequest
from tpu_ui.shapes import ProgramState

UNKNOWN = math.inf
NEWEST_PART = 0.5  # of what is remembered: a machine may become slower or faster
LEAST_CHANGE_S = 2.0  # what is told is "about" so many seconds


@dataclass(frozen=True, slots=True)
class _Kind:
    """What decides how long an image takes, but for its steps."""

    target: Target
    guided: bool


@dataclass(frozen=True, slots=True)
class _Speed:
    """Seconds of one step, and of an image's text and decoder."""

    step_s: float
    around_s: float = 0.0


@dataclass
class _Worker:
    """One worker as it will be when the jobs before are done."""

    free_s: float
    model: str
    warmed: set[Target] = field(default_factory=set)


class Waits:
    """Learns from what the workers say, and foretells."""

    def __init__(self, costs: Costs, preset: Callable[[str], Preset]) -> None:
        self._costs = costs
        self._preset = preset
        self._measured: dict[_Kind, _Speed] = {}
        self._glimpsed: dict[_Kind, _Speed] = {}  # of images that are not done yet
        self._loads: dict[str, float] = {}

    # What has been seen

    def made(self, job: Job, info: ImageInfo) -> None:
        """An image is done."""
        if job.request is None:
            return
        kind, timings = self._kind(job.target, job.request), info.timings_s
        step_s, around_s = timings.denoise / info.steps, timings.encode + timings.decode
        if (old := self._measured.get(kind)) is not None:
            step_s += (1 - NEWEST_PART) * (old.step_s - step_s)
            around_s += (1 - NEWEST_PART) * (old.around_s - around_s)
        self._measured[kind] = _Speed(step_s, around_s)

    def stepped(self, state: WorkerState, event: Stepped) -> None:
        """A step of the worker's job is done."""
        state.stepped = (time.monotonic(), event)
        job = state.job
        if job is not None and job.request and event.left_s and event.step < event.steps:
            speed = _Speed(event.left_s / (event.steps - event.step))
            self._glimpsed[self._kind(job.target, job.request)] = speed

    def loaded(self, model: str, seconds: float) -> None:
        """A worker has started, and has the model."""
        self._loads[model] = seconds

    # What follows

    def takes(
        self, target: Target, request: GenerationRequest, loaded: str, known: SizeStatus
    ) -> Takes:
        """What a request takes; the model `loaded` is there, and `known` is of its programs."""
        seconds = self._images_s(Job(target, request))
        return Takes(
            seconds if math.isfinite(seconds) else None,
            0.0 if target.model == loaded else self._loads.get(target.model),
            0.0 if known.state is ProgramState.READY else known.expected_s,
        )

    def expected(self, queue: Iterable[Job], states: Iterable[WorkerState]) -> dict[str, float]:
        """Seconds until each job of the queue begins, by its id; those that nobody knows are left
        out. Each job goes to the worker that is free first."""
        workers = {
            state.index: _Worker(self._left_s(state), state.preset.name, set(state.warmed))
            for state in states
            if state.failure is None
        }
        on = {state.index: state for state in states}
        found = {}
        for job in queue:
            able = workers if job.request else {i: workers[i] for i in job.waiting if i in workers}
            if not able:
                continue
            first = min(able, key=lambda index: able[index].free_s)
            if math.isfinite(able[first].free_s):
                found[job.id] = able[first].free_s
            for index in [first] if job.request else able:
                able[index].free_s += self._job_s(job, able[index], on[index])
        return found

    def _left_s(self, state: WorkerState) -> float:
        """Until the worker is free."""
        job = state.job
        if not state.loaded:
            return UNKNOWN
        if job is None:
            return 0.0
        if state.warming is not None:
            warming = state.warming[1]
            if warming.expected_s is None:
                return UNKNOWN
            return max(warming.expected_s - warming.elapsed_s, 0.0) + self._images_s(job)
        if state.stepped is None or job.request is None:
            return self._images_s(job)
        told_s, event = state.stepped
        speed = self._speed(job)
        if speed is None:
            return UNKNOWN
        denoising_s = speed.step_s * (event.steps - event.step) + speed.around_s
        rest_s = self._images_s(job) / event.count * (event.count - event.image)
        return max(denoising_s - (time.monotonic() - told_s), 0.0) + rest_s

    def _job_s(self, job: Job, worker: _Worker, state: WorkerState) -> float:
        """What the job takes of the worker, with the model and the warm-up that it needs. The
        worker is then as the job leaves it."""
        seconds = self._images_s(job)
        if job.target.model != worker.model:
            seconds += self._loads.get(job.target.model, UNKNOWN)
            worker.model = job.target.model
            worker.warmed.clear()
        if job.target not in worker.warmed:
            worker.warmed.add(job.target)
            on = state.runs_on
            cost = self._costs.get(job.target, on) if on else None
            seconds += cost.seconds if cost else UNKNOWN
        return seconds

    def _images_s(self, job: Job) -> float:
        """All images of a job whose programs are ready; 0 for a warm-up."""
        if job.request is None:
            return 0.0
        speed = self._speed(job)
        if speed is None:
            return UNKNOWN
        return job.request.count * (speed.step_s * job.request.steps + speed.around_s)

    def _speed(self, job: Job) -> _Speed | None:
        assert job.request is not None
        kind = self._kind(job.target, job.request)
        return self._measured.get(kind) or self._glimpsed.get(kind)

    def _kind(self, target: Target, request: GenerationRequest) -> _Kind:
        off = self._preset(target.model).guidance.off
        return _Kind(target, off is not None and request.guidance > off)


def worth_telling(told: Queued | None, now: Queued) -> bool:
    """Whether a job's place has changed, or its wait by more than an "about" covers."""
    if told is None or told.position != now.position:
        return True
    if told.expected_s is None or now.expected_s is None:
        return told.expected_s != now.expected_s
    return abs(told.expected_s - now.expected_s) > max(told.expected_s / 5, LEAST_CHANGE_S)
