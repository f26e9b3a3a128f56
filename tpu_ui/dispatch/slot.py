"""One worker's thread: keeps a process running, gives it jobs one after another, records what it
says. Knows the pool and the process; knows nothing of who asked.
"""

import logging
import threading
import time
from dataclasses import replace
from typing import assert_never

from tpu_ui.dispatch.deaths import Deaths
from tpu_ui.dispatch.jobs import WAIT_S, Job, Target
from tpu_ui.dispatch.pool import Pool
from tpu_ui.dispatch.process import StartRefused, WorkerEnded, WorkerProcess, WorkerSpec
from tpu_ui.dispatch.recorder import Recorder
from tpu_ui.dispatch.state import WorkerState, worker_survives
from tpu_ui.dispatch.watchdog import Watch, Watchdog
from tpu_ui.errors import (
    InvalidRequestError,
    LockedError,
    StrategyError,
    WorkerDiedError,
)
from tpu_ui.presets import Preset
from tpu_ui.protocol import (
    Cancel,
    Cancelled,
    Counted,
    Ending,
    Failed,
    Finished,
    Generate,
    ImageMade,
    Load,
    Loading,
    Memory,
    Readers,
    Started,
    Stepped,
    Warmed,
    Warming,
    WarmUp,
)
from tpu_ui.shapes import Mode

log = logging.getLogger(__name__)


class Slot(threading.Thread):
    """Runs until the pool closes. Only `tell_cancelled` is for other threads."""

    def __init__(self, pool: Pool, state: WorkerState) -> None:
        super().__init__(name=f"worker {state.index}", daemon=True)
        self._pool = pool
        self._state = state
        self._process: WorkerProcess | None = None
        self._recorder = Recorder(pool, state)
        self._deaths = Deaths(pool.options.first_pause_s)
        self._watchdog = Watchdog(pool.options.patience)
        self._idle: Watch | None = None
        self._commands = threading.Lock()  # a cancel is either seen before a command, or follows it
        options = pool.options
        self._spec = WorkerSpec(
            state.index,
            options.runtime,
            options.device,
            options.cache,
            options.environment(state.index),
        )

    def run(self) -> None:
        try:
            self._serve()
        finally:
            self._stop_process()
            if not self._pool.closing.is_set():  # an error in this file: say so, do not hang
                reason = "The dispatcher's thread has ended by an error of its own; see the log."
                self._pool.fail(self._state, Failed("", WorkerDiedError.__name__, reason))

    def tell_cancelled(self, job: Job) -> None:
        """Pass a cancel on to the worker, if it is at this job. Called from any thread."""
        with self._commands:
            process = self._process
            if process is not None and self._state.job is job:
                try:
                    process.send(Cancel(job.id))
                except WorkerEnded:
                    log.info("worker %d ended before a cancel", self._state.index)

    def _serve(self) -> None:
        asked = True
        while not self._pool.closing.is_set():
            if self._process is None and not (asked and self._bring_up()):
                asked = self._wait_for_restart()
                continue
            asked = True
            job = self._pool.take(self._state)
            how = self._listen_idle()
            if how is not None:
                self._deaths.died(f"The worker process {how} while it had no job.")
                log.warning("worker %d %s while it had no job", self._state.index, how)
            if how is not None or self._misplaced():
                self._lose_process()
                if job is not None:
                    self._pool.put_back(self._state, job)
            elif job is not None:
                self._work(job)

    def _wait_for_restart(self) -> bool:
        """Wait a moment; True when the worker, which is down, is to be tried again."""
        if self._pool.wait_for_restart(self._state):
            self._deaths.forget()
            return True
        if self._deaths.rested:
            self._deaths.grant_one()
            self._pool.try_again(self._state)
            return True
        return False

    def _misplaced(self) -> bool:
        """Whether the model is to run in another way than it was loaded for."""
        with self._pool.lock:
            try:
                placement = self._pool.placement(self._state.preset)
            except StrategyError:  # asked for where it could run; it is told when it is loaded
                return False
            if placement != self._state.placement:
                return True
            self._state.place(placement)  # for another reason, perhaps
            return False

    def _listen_idle(self) -> str | None:
        """Take what the worker says between two jobs; how it ended, if it did."""
        process = self._process
        assert process is not None
        if self._idle is None:
            self._idle = self._watchdog.watch(process.pid, None)
        try:
            while (event := process.receive(0)) is not None:
                self._idle.heard(event, time.monotonic())
                if isinstance(event, Counted | Memory):
                    self._recorder.count(event)
            self._end_if_hung(process, self._idle)
        except WorkerEnded as ended:
            return ended.how
        return None if process.alive() else process.how_it_ended()

    def _end_if_hung(self, process: WorkerProcess, watch: Watch) -> None:
        """Raises WorkerEnded."""
        wrong = watch.look(time.monotonic())
        if wrong is not None:
            process.stop(0)
            raise WorkerEnded(wrong)

    # Starting

    def _bring_up(self) -> bool:
        """Start a process and load the model, again and again if it dies. False: given up."""
        while not self._pool.closing.is_set():
            if self._deaths.down:
                self._give_up(Failed("", WorkerDiedError.__name__, self._deaths.told))
                return False
            if pause_s := self._deaths.pause_s:
                self._says(self._deaths.told)
                self._pool.closing.wait(pause_s)
            preset = self._state.preset
            loader = Job(Target(preset.name, Mode(preset.mode), preset.image_sizes[0]))
            began_s = time.monotonic()
            try:
                self._start_process(loader, preset)
                ending = self._run(loader, Load(loader.id, preset, self._state.placement))
            except StartRefused as refused:
                self._give_up(refused.failed)
                return False
            except WorkerEnded as ended:
                self._lose_process()
                reason = f"The worker process {ended.how} while it loaded {preset.title}."
                log.warning("worker %d: %s", self._state.index, reason)
                self._deaths.died(reason)
                continue
            if isinstance(ending, Failed):
                self._give_up(ending)
                return False
            if isinstance(ending, Finished):
                with self._pool.lock:
                    self._pool.waits.loaded(preset.name, time.monotonic() - began_s)
                    self._pool.came_up(self._state)
                return True
        return False

    def _start_process(self, job: Job, preset: Preset) -> None:
        """Raises WorkerEnded, StartRefused."""
        try:
            with self._pool.lock:
                likely = self._pool.placement(preset)
                self._state.place(likely)
            spec = replace(self._spec, ranks=likely.devices)
            self._deaths.born()
            process = WorkerProcess.start(
                spec, lambda: job.cancel_asked or self._pool.closing.is_set()
            )
            with self._commands:
                self._process = process
            assert process.started is not None
            self._pool.says(self._state, process.started)
            with self._pool.lock:
                known = self._pool.placement(preset)  # on the device that it turned out to be
                if known.devices == likely.devices:  # more ranks than were started load nothing
                    self._state.place(known)
        except InvalidRequestError as error:
            raise StartRefused(Failed(job.id, type(error).__name__, str(error))) from error

    def _give_up(self, failed: Failed) -> None:
        self._lose_process()
        self._pool.fail(self._state, failed)

    def _lose_process(self) -> None:
        with self._pool.lock:
            self._state.lose_process()
        self._stop_process()

    def _stop_process(self) -> None:
        with self._commands:
            process, self._process = self._process, None
        self._idle = None
        if process is not None:
            process.stop()

    # Working

    def _work(self, job: Job) -> None:
        try:
            ending = self._generate(job) if job.request else self._warm_up(job)
            if isinstance(ending, Failed) and not worker_survives(ending):
                ending = self._named(job, ending)
                self._lose_process()
            elif isinstance(ending, Finished) and job.request:
                self._deaths.forget()
        except WorkerEnded as ended:
            warming = self._state.warming
            self._lose_process()
            ending = self._died(job, ended, warming[0] if warming else None)
        self._pool.finish(self._state, job, ending)

    def _named(self, job: Job, failed: Failed) -> Ending:
        """Rank 0 cannot know which of the others is gone; the group's last words say it."""
        process = self._process
        if failed.kind != WorkerDiedError.__name__ or process is None:
            return failed
        words = process.last_words()
        return self._died(job, WorkerEnded(words), None) if words else failed

    def _died(self, job: Job, ended: WorkerEnded, warming: Target | None) -> Ending:
        if self._pool.closing.is_set():
            return Cancelled(job.id)
        reason = f"The worker process {ended.how} in the middle of this job."
        log.warning("worker %d, job %s: %s", self._state.index, job.id, reason)
        self._deaths.died(reason)
        if warming is not None:
            self._pool.killed_by(self._state, job, warming, reason)
        advice = "A new one is starting; try again."
        return Failed(job.id, WorkerDiedError.__name__, f"{reason} {advice}")

    def _generate(self, job: Job) -> Ending:
        ending = self._warm_up(job)  # does nothing for a request the lock let through
        if not isinstance(ending, Finished):
            return ending
        assert job.request is not None
        return self._run(job, Generate(job.id, job.request))

    def _warm_up(self, job: Job) -> Ending:
        """Have the job's model loaded and its programs warm."""
        target = job.target
        if target in self._state.warmed:
            return Finished(job.id)
        if job.request is not None and self._pool.locked:
            return Failed(job.id, LockedError.__name__, self._pool.not_ready(target))
        if target.model != self._state.preset.name:
            ending = self._switch(job)
            if not isinstance(ending, Finished):
                return ending
        on = self._state.runs_on
        cost = self._pool.costs.get(target, on) if on else None
        expected_s = cost.seconds if cost else None
        then = self._pool.sizes_after(self._state, target)
        command = WarmUp(job.id, target.mode, target.size, expected_s, then)
        with self._pool.lock:
            self._state.failed.pop(target, None)
            self._state.warming = (
                target,
                Warming(job.id, target.mode, target.size, "", 0, 0.0, command.expected_s),
            )
        ending = self._run(job, command)
        if isinstance(ending, Finished):
            log.info(
                "worker %d: %s is ready in %s mode", self._state.index, target.size, target.mode
            )
        with self._pool.lock:
            self._state.warming = None
            if isinstance(ending, Failed):
                self._state.warm_up_failed(target, ending.message)
        return ending

    def _switch(self, job: Job) -> Ending:
        """Load the job's model into a new process. When that fails, the old model comes back."""
        preset = self._pool.options.preset(job.target.model)
        began_s = time.monotonic()
        self._lose_process()
        with self._pool.lock:
            before, ready = self._state.preset, dict(self._state.wanted)
            self._state.switch(preset)
            self._state.detail = f"Loading {preset.title}: starting a worker."
        ending: Ending = Cancelled(job.id)
        try:
            self._start_process(job, preset)
            ending = self._run(job, Load(job.id, preset, self._state.placement))
        except StartRefused as refused:
            ending = Failed(job.id, refused.failed.kind, refused.failed.message)
        except WorkerEnded:
            if not job.cancel_asked:
                raise
        finally:
            with self._pool.lock:
                self._state.loaded = self._state.settled = isinstance(ending, Finished)
                if self._state.loaded:
                    self._pool.waits.loaded(preset.name, time.monotonic() - began_s)
                else:
                    self._state.switch(before)
                    self._state.wanted.update(ready)  # to be warm again
            if not self._state.loaded:
                self._lose_process()
        return ending

    def _run(self, job: Job, command: Load | WarmUp | Generate) -> Ending:
        """Give one command to the worker and record what it says, but for the ending."""
        process = self._process
        assert process is not None
        with self._commands:
            if job.cancel_asked:
                return Cancelled(job.id)
            process.send(command)
        queue_s = time.monotonic() - job.submitted_s
        spoiled: Failed | None = None
        programs = self._state.programs_compiled
        self._idle, watch = None, self._watchdog.watch(process.pid, command, programs)
        while not self._pool.closing.is_set():
            if _is_left(command, job):
                return Cancelled(job.id)
            event = process.receive(WAIT_S)
            if event is None:
                self._end_if_hung(process, watch)
            else:
                watch.heard(event, time.monotonic())
            match event:
                case None | Started():
                    continue
                case Counted() | Memory():
                    self._recorder.count(event)
                case Readers():
                    self._pool.readers[self._state.preset.name] = event.readers
                case ImageMade():
                    if spoiled is None and (spoiled := self._recorder.save(job, event, queue_s)):
                        process.send(Cancel(job.id))
                case Loading() | Warming() | Warmed() | Stepped():
                    self._recorder.notice(job, event)
                case Finished() | Failed() | Cancelled():
                    self._watchdog.learn(watch)
                    return spoiled or event
                case _:
                    assert_never(event)
        return Cancelled(job.id)

    def _says(self, detail: str) -> None:
        with self._pool.lock:
            self._state.phase, self._state.detail = "loading", detail


def _is_left(command: Load | WarmUp | Generate, job: Job) -> bool:
    """Whether a load is not waited for any more: it may be reading for a long time yet, and its
    process ends in any case."""
    return isinstance(command, Load) and job.cancel_asked
