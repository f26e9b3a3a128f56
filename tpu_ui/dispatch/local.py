"""The dispatcher of one machine: worker processes behind one queue. Implements `Dispatcher`.

The pool knows the queue and the rules, each slot keeps one worker process busy; this class only
ties them together. Knows nothing of Gradio, sockets or torch.
"""

import atexit
import hashlib
import logging
import time
from collections.abc import Iterator
from pathlib import Path

from tpu_ui.dispatch import logs
from tpu_ui.dispatch.costs import Costs
from tpu_ui.dispatch.housekeeping import KEEPING, Housekeeper, Keeping
from tpu_ui.dispatch.interface import CancelResult, Report, Status, Takes, Tally, Update
from tpu_ui.dispatch.jobs import Target
from tpu_ui.dispatch.options import WARM_CHOICES, Options
from tpu_ui.dispatch.pool import Pool
from tpu_ui.dispatch.slot import Slot
from tpu_ui.dispatch.watchdog import USUAL, Patience
from tpu_ui.errors import SettingsError
from tpu_ui.plans import usable
from tpu_ui.presets import Preset
from tpu_ui.protocol import Cancelled
from tpu_ui.request import GenerationRequest, Limits, check_mode, check_size
from tpu_ui.shapes import ImageSize, Mode, Strategy, shown
from tpu_ui.strategy import choose
from tpu_ui.styles import Suiting
from tpu_ui.tokens import Reader

DIFFUSION_RUNTIME = "tpu_ui.runtime.start:diffusion_runtime"
CLOSE_S = 10.0

log = logging.getLogger(__name__)


class LocalDispatcher:
    """Starts its workers at once, in threads; what they are at is in `status()`.

    `mode` None means each model's own default, `strategy` None the one that moves least over the
    host link and fits, `chips` None all there are, shared out among the workers. `styles` are
    those that suit each model. Raises
    SettingsError, StrategyError, InvalidRequestError for a model, mode or choice that does not
    exist.
    """

    def __init__(
        self,
        presets: dict[str, Preset],
        *,
        model: str,
        mode: Mode | None,
        device: str,
        warm: str,
        locked: bool,
        workers: int,
        outputs: Path,
        cache: Path,
        runtime: str = DIFFUSION_RUNTIME,
        queue_limit: int = 100,
        visitor_limit: int = 20,
        first_pause_s: float = 1.0,
        strategy: Strategy | None = None,
        chips: int | None = None,
        lock_is_fixed: bool = False,
        patience: Patience = USUAL,
        keeping: Keeping = KEEPING,
        log_prompts: bool = False,
        styles: Suiting | None = None,
    ) -> None:
        if warm not in WARM_CHOICES:
            raise SettingsError(f"warm is {shown(warm)}; choose from {', '.join(WARM_CHOICES)}.")
        if workers < 1:
            raise SettingsError(f"workers is {workers}; at least 1 is needed.")
        options = Options(
            presets=presets,
            model=model,
            mode=mode,
            device=device,
            warm=warm,
            locked=locked,
            workers=workers,
            outputs=outputs,
            cache=cache,
            runtime=runtime,
            queue_limit=queue_limit,
            visitor_limit=visitor_limit,
            first_pause_s=first_pause_s,
            strategy=strategy,
            chips=chips,
            lock_is_fixed=lock_is_fixed,
            patience=patience,
            keeping=keeping,
            log_prompts=log_prompts,
            styles=styles or {},
        )
        options.check_chips()
        if mode is not None:
            check_mode(options.limits(model, None), mode)
        preset, machine = options.preset(model), options.machine(None)
        choose(preset, strategy, machine, usable(preset, machine.chip))  # refused here, if at all
        self._pool = Pool(options, Costs(cache))
        self._began_s = time.monotonic()
        self._slots = [Slot(self._pool, state) for state in self._pool.states]
        self._housekeeper = Housekeeper(
            keeping, outputs, logs.folder_of(cache), self._pool.jobs, self._pool.closing
        )
        for thread in (*self._slots, self._housekeeper):
            thread.start()
        atexit.register(self.close)

    @property
    def presets(self) -> dict[str, Preset]:
        return self._pool.options.presets

    @property
    def outputs(self) -> Path:
        return self._pool.options.outputs

    def limits(self, model: str) -> Limits:
        return self._pool.limits(model)

    def submit(self, request: GenerationRequest, visitor: str = "", kept: bool = True) -> str:
        limits = self.limits(request.model)
        check_mode(limits, request.mode)
        check_size(limits, request.size)
        job = self._pool.submit(request, visitor, kept)
        what = (request.count, request.size, request.model, request.mode)
        prompt = f": {request.prompt!r}" if self._pool.options.log_prompts else ""
        whose = (job.id, _anonymous(visitor))
        log.info("job %s of visitor %s: %d of %s by %s, %s%s", *whose, *what, prompt)
        return job.id

    def warm_up(self, model: str, mode: Mode, size: ImageSize) -> str:
        limits = self.limits(model)
        target = Target(model, check_mode(limits, mode), check_size(limits, size))
        return self._pool.warm_up(target).id

    def set_strategy(self, model: str, strategy: Strategy | None) -> None:
        self._pool.set_strategy(model, strategy)

    @property
    def locked_at_start(self) -> bool:
        return self._pool.options.locked

    def set_locked(self, locked: bool) -> None:
        self._pool.set_locked(locked)

    def updates(self, job: str, pace_s: float = 0.0, repeat_s: float = 0.0) -> Iterator[Update]:
        found = self._pool.jobs.get(job)
        if found is None:
            raise KeyError(job)
        return found.follow(pace_s, repeat_s)

    def recorded(self, job: str) -> list[Update]:
        found = self._pool.jobs.get(job)
        if found is None:
            raise KeyError(job)
        return found.recorded()

    def takes(self, request: GenerationRequest) -> Takes:
        return self._pool.takes(request)

    def cancel(self, job: str) -> CancelResult:
        state, found, workers = self._pool.cancel(job)
        if found is not None:
            for index in workers:
                self._slots[index].tell_cancelled(found)
        return CancelResult(job, state)

    def status(self) -> Status:
        return self._pool.status()

    def readers(self, model: str) -> tuple[Reader, ...]:
        return self._pool.readers.get(model, ())

    def tally(self) -> Tally:
        return self._pool.jobs.tally()

    def report(self) -> Report:
        with self._pool.lock:
            workers = tuple(state.report() for state in self._pool.states)
        return Report(time.monotonic() - self._began_s, workers)

    def log_lines(self, worker: int) -> list[str]:
        return logs.last_lines(logs.path(self._pool.options.cache, worker))

    def worker_pids(self) -> tuple[int, ...]:
        """The processes of the workers that run now."""
        with self._pool.lock:
            return tuple(state.pid for state in self._pool.states if state.pid is not None)

    def close(self) -> None:
        atexit.unregister(self.close)
        self._pool.close()
        for thread in (*self._slots, self._housekeeper):
            thread.join(CLOSE_S)
        for job in self._pool.jobs.all():
            job.record(Cancelled(job.id))


def _anonymous(visitor: str) -> str:
    """The same for the same visitor; her session, which is a key to her page, is in no log."""
    return hashlib.sha256(visitor.encode()).hexdigest()[:8] if visitor else "-"
