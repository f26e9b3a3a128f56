"""The queue, and who may take what from it. Shared by all workers' threads; starts no process."""

import threading

from tpu_ui.dispatch.choices import Choices
from tpu_ui.dispatch.costs import Costs
from tpu_ui.dispatch.interface import Queued, Status, Takes
from tpu_ui.dispatch.jobs import WAIT_S, Job, JobBook, Target, worst
from tpu_ui.dispatch.options import Options
from tpu_ui.dispatch.overview import Overview
from tpu_ui.dispatch.placements import Placements
from tpu_ui.dispatch.startup import StartUp
from tpu_ui.dispatch.state import (
    MAX_KILLS,
    Phase,
    WorkerState,
    is_ready,
    not_ready_message,
    refusal,
)
from tpu_ui.dispatch.turns import Turns
from tpu_ui.dispatch.waits import Waits, worth_telling
from tpu_ui.errors import InvalidRequestError, LockedError, QueueFullError
from tpu_ui.presets import Preset
from tpu_ui.protocol import Cancelled, Ending, Failed, Finished, Started
from tpu_ui.request import GenerationRequest, Limits, check_mode
from tpu_ui.shapes import Device, ImageSize, Strategy
from tpu_ui.strategy import Placement
from tpu_ui.tokens import Reader

BEGUN: tuple[Phase, str] = ("busy", "Making a picture.")
READY: tuple[Phase, str] = ("ready", "Ready.")
TO_WARM: tuple[Phase, str] = ("warming", "Warming up.")
ENDED_AS = {Finished: "finished", Cancelled: "cancelled", Failed: "failed"}


class Pool:
    """Jobs in, jobs out. `lock` guards the queue and every WorkerState."""

    def __init__(self, options: Options, costs: Costs) -> None:
        self.options = options
        self.costs = costs
        self.waits = Waits(costs, options.preset)
        self.jobs = JobBook()
        self.closing = threading.Event()
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._queue = Turns()
        self._started: Started | None = None
        self.readers: dict[str, tuple[Reader, ...]] = {}  # of the models that were loaded
        self._choices = Choices(options.cache)
        self._placements = Placements(options, self._choices)
        self._locked = self._choices.locked_or(options.locked, options.lock_is_fixed)
        preset = options.preset(options.model)
        self.states = [WorkerState(index, preset) for index in range(options.workers)]
        self._start_up = StartUp(options, self._placements, self.states)
        self._overview = Overview(options, self._placements, costs, self.states, self._queue)

    # What the dispatcher's callers ask

    @property
    def locked(self) -> bool:
        return self._locked

    def set_locked(self, locked: bool) -> None:
        """See `Dispatcher.set_locked`."""
        with self.lock:
            self._locked = locked
            self._choices.lock(locked)

    @property
    def device(self) -> Device | None:
        return self._started.device if self._started else None

    def limits(self, model: str) -> Limits:
        """What a caller may ask of `model` here. Raises InvalidRequestError."""
        return self._placements.limits(self.options.preset(model), self.device)

    def submit(self, request: GenerationRequest, visitor: str = "", kept: bool = True) -> Job:
        """Raises LockedError, StrategyError, QueueFullError, or why no worker runs."""
        target = Target(request.model, request.mode, request.size)
        job = Job(target, request, visitor=visitor, kept=kept)
        with self.lock:
            self._refuse_if_closing()
            self._refuse_if_failed(target)
            if self.locked and not is_ready(target, self.states):
                raise LockedError(self.not_ready(target))
            self.placement(self.options.preset(target.model))
            self._refuse_if_full(visitor)
            self._queue.add(job)
            self.jobs.add(job)
            self._announce()
        return job

    def warm_up(self, target: Target) -> Job:
        """A warm-up on every worker. One that waits or runs already is not doubled.

        Raises StrategyError.
        """
        with self.lock:
            self._refuse_if_closing()
            self.placement(self.options.preset(target.model))
            for state in self.states:
                if state.failure is not None:
                    self._ask_restart(state, target.model)
            known: list[Job] = [*self._queue, *(state.job for state in self.states if state.job)]
            for job in known:
                if job.request is None and job.target == target and not job.cancel_asked:
                    return job
            job = Job(target)
            self.jobs.add(job)
            if is_ready(target, self.states):
                job.record(Finished(job.id))
                return job
            for state in self.states:
                state.failed.pop(target, None)
                state.kills.pop(target, None)
            job.waiting = {state.index for state in self.states}
            self._queue.add(job)
            self._announce()
            return job

    def set_strategy(self, model: str, strategy: Strategy | None) -> None:
        """See `Dispatcher.set_strategy`. The workers' threads see to the rest."""
        preset = self.options.preset(model)
        with self.lock:
            self._placements.set(preset, strategy, self.device)
            for state in self.states:
                if state.failure is not None and state.preset.name == model:
                    self._ask_restart(state, model)
            self._changed.notify_all()

    def placement(self, preset: Preset) -> Placement:
        """How the model is to run. Raises StrategyError."""
        return self._placements.of(preset, self.device)

    def takes(self, request: GenerationRequest) -> Takes:
        target = Target(request.model, request.mode, request.size)
        with self.lock:
            loaded = self._overview.shown().preset.name
            known = self._overview.size_status(target, self._started)
            return self.waits.takes(target, request, loaded, known)

    def cancel(self, job_id: str) -> tuple[str, Job | None, list[int]]:
        """The word for the caller, and the workers that have to be told."""
        job = self.jobs.get(job_id)
        if job is None:
            return "unknown", None, []
        with self.lock:
            if job.ending is not None:
                return ENDED_AS[type(job.ending)], job, []
            job.cancel_asked = True
            if job in self._queue:
                self._queue.drop(job)
                job.waiting.clear()
            at_it = [state.index for state in self.states if state.job is job]
            if not at_it:
                job.record(Cancelled(job.id))
            self._announce()
            return "cancelled", job, at_it

    def status(self) -> Status:
        with self.lock:
            return self._overview.status(self._started, self.locked)

    def close(self) -> None:
        """Nothing waits any more, and no thread waits for anything."""
        with self.lock:
            self.closing.set()
            for job in self._queue:
                job.cancel_asked = True
                if not job.working:
                    job.record(Cancelled(job.id))
            self._queue.clear()
            self._changed.notify_all()

    # What the workers' threads ask

    def take(self, state: WorkerState) -> Job | None:
        """The next job for this worker; None when there was none for a moment, or on closing."""
        with self.lock:
            job = self._next_for(state)
            if job is None:
                self._changed.wait(WAIT_S)
                job = self._next_for(state)
            if job is not None:
                state.job, state.stepped = job, None
                state.phase, state.detail = BEGUN if job.request else TO_WARM
                self._announce()
            return job

    def put_back(self, state: WorkerState, job: Job) -> None:
        """The worker was dead before the job began: another process takes it, first of all."""
        with self.lock:
            state.job = None
            if job.cancel_asked:
                self._end(state, job, Cancelled(job.id))
                return
            if job.request is None:
                job.working.discard(state.index)
                job.waiting.add(state.index)
            if job not in self._queue:
                self._queue.add_first(job)
            self._announce()

    def finish(self, state: WorkerState, job: Job, ending: Ending) -> None:
        """This worker's work on the job is over; so is the job, unless others are still at it."""
        with self.lock:
            state.job = None
            state.warming = None
            if state.loaded:
                state.phase, state.detail = READY
                self._settle(state)
            self._end(state, job, ending)

    def came_up(self, state: WorkerState) -> None:
        """The model is loaded: plan the warm-ups that come before any job."""
        with self.lock:
            state.loaded = True
            fresh = self._start_up.plan(state, self.device, self._queue)
            self._queue.add_background(fresh)
            for job in fresh:
                self.jobs.add(job)
            # Nobody is to hear of a worker that is ready while nothing can be asked of it.
            warms = any(state.index in job.waiting for job in self._queue if not job.request)
            state.phase, state.detail = TO_WARM if warms else READY
            self._settle(state)
            self._announce()

    def says(self, state: WorkerState, started: Started) -> None:
        """A process has come up and said what it runs on. Raises ModeUnavailableError."""
        with self.lock:
            self._started = started
            state.started, state.pid = started, started.pid
            if self.options.mode is not None:
                check_mode(self.options.limits(self.options.model, self.device), self.options.mode)
            state.detail = f"Loading {state.preset.title}."
            self._start_up.begin(self.device)

    def fail(self, state: WorkerState, failed: Failed) -> None:
        """This worker is given up until somebody asks for a warm-up."""
        with self.lock:
            state.failure = failed
            state.phase, state.detail = "failed", failed.message
            last = all(one.failure for one in self.states)
            job, state.job = state.job, None
            if job is not None:
                self._end(state, job, Failed(job.id, failed.kind, failed.message))
            for job in self._queue:
                part = Failed(job.id, failed.kind, failed.message)
                if last and job.request is not None:
                    self._queue.drop(job)
                    job.record(part)
                elif state.index in job.waiting:
                    job.waiting.discard(state.index)
                    if not job.waiting:
                        self._queue.drop(job)
                    self._end(state, job, part)
            self._announce()

    def sizes_after(self, state: WorkerState, target: Target) -> tuple[ImageSize, ...]:
        """Those that this worker is to warm next, of the same model and mode."""
        with self.lock:
            return tuple(
                job.target.size
                for job in self._queue
                if job.request is None
                and state.index in job.waiting
                and (job.target.model, job.target.mode) == (target.model, target.mode)
            )

    def wait_for_restart(self, state: WorkerState) -> bool:
        """Wait a moment; True when this worker is to be tried again."""
        with self.lock:
            if not state.restart_asked:
                self._changed.wait(WAIT_S)
            asked, state.restart_asked = state.restart_asked, False
            return asked

    def try_again(self, state: WorkerState) -> None:
        """The worker has rested: a new process is to be started for the model it had."""
        with self.lock:
            self._ask_restart(state, state.preset.name)
            state.restart_asked = False

    def tell_places(self) -> None:
        """Tell each waiting job its place and how long it may wait, where that has changed."""
        with self.lock:
            queue = self._queue.foreseen(self.states)
            waiting = [job for job in queue if not job.working]
            expected = self.waits.expected(queue, self.states) if waiting else {}
            for place, job in enumerate(waiting):
                now = Queued(job.id, place, expected.get(job.id))
                if worth_telling(job.told, now):
                    job.told = now
                    job.record(now)

    def not_ready(self, target: Target) -> str:
        with self.lock:
            model = self._overview.shown().preset
            states = [state for state in self.states if state.preset is model]
            return not_ready_message(target, states, list(model.image_sizes))

    def killed_by(self, state: WorkerState, job: Job, target: Target, reason: str) -> None:
        """A warm-up has taken its worker along. Not to be tried for ever."""
        with self.lock:
            state.kills[target] = state.kills.get(target, 0) + 1
            if not job.background or state.kills[target] >= MAX_KILLS:
                state.warm_up_failed(target, reason)

    # Below: with the lock held

    def _refuse_if_closing(self) -> None:
        if self.closing.is_set():
            raise InvalidRequestError("The app is shutting down.")

    def _refuse_if_full(self, visitor: str) -> None:
        """`visitor` "" is the app itself, and has no limit of her own."""
        own, limit = self._queue.requests_of(visitor), self.options.visitor_limit
        if visitor and own >= limit:
            raise QueueFullError(f"{own} of your jobs wait already; one visitor may have {limit}.")
        waiting = self._queue.requests()
        if waiting >= self.options.queue_limit:
            queue = self._queue.foreseen(self.states)
            expected = self.waits.expected(queue, self.states)
            known = expected and len(expected) == len(queue)
            raise QueueFullError.of(waiting, max(expected.values()) if known else None)

    def _refuse_if_failed(self, target: Target) -> None:
        failures = [state.failure for state in self.states if state.failure]
        if len(failures) < len(self.states):
            return
        if self.locked or target.model == self.states[0].preset.name:
            raise refusal(failures[0])
        for state in self.states:  # the failure was another model's
            self._ask_restart(state, target.model)

    def _ask_restart(self, state: WorkerState, model: str) -> None:
        if model != state.preset.name:
            state.switch(self.options.preset(model))
        state.failure = None
        state.restart_asked = True
        state.phase, state.detail = "loading", "Starting the worker."
        self._changed.notify_all()

    def _next_for(self, state: WorkerState) -> Job | None:
        if self.closing.is_set():
            return None
        self._settle(state)
        while (job := self._first_for(state)) is not None:
            if job.request is None:
                job.waiting.discard(state.index)
                job.working.add(state.index)
                if not job.waiting:
                    self._queue.take(job)
                return job
            if not job.abandoned:
                self._queue.take(job)
                return job
            self._queue.drop(job)  # the turn stays its visitor's, who may have others
            job.record(Cancelled(job.id))
        return None

    def _first_for(self, state: WorkerState) -> Job | None:
        for job in self._queue:
            if job.request is None:
                if state.index in job.waiting:
                    return job
            elif state.settled or job.target in state.warmed:
                return job
        return None

    def _settle(self, state: WorkerState) -> None:
        if not state.loaded or state.settled:
            return
        state.settled = not any(
            job.background and state.index in job.waiting for job in self._queue
        )

    def _end(self, state: WorkerState, job: Job, ending: Ending) -> None:
        if job.request is None:
            job.working.discard(state.index)
            job.parts.append(ending)
            if job.waiting or job.working:
                return
            ending = worst(job.parts)
        job.record(ending)
        self._changed.notify_all()

    def _announce(self) -> None:
        """Tell each waiting job its place, and every thread that the queue has changed."""
        self.tell_places()
        self._changed.notify_all()
