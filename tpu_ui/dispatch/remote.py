"""The dispatcher of a front end with no chip: another TPU UI does the work. Implements
`Dispatcher`.

Jobs go through the far app's API, and its state, sizes and lock are shown as this one's. Pictures
are kept here too. Whoever asks here has a turn of their own in the far app's queue. While the far
app is away, requests are refused; when it is back, all goes on.
"""

import atexit
import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import TimeoutError as NotInTimeError
from dataclasses import replace
from pathlib import Path

from tpu_ui.dispatch import logs
from tpu_ui.dispatch.choices import Choices
from tpu_ui.dispatch.costs import Costs
from tpu_ui.dispatch.errand import Errand, cancelled
from tpu_ui.dispatch.far import Far
from tpu_ui.dispatch.housekeeping import KEEPING, Housekeeper, Keeping
from tpu_ui.dispatch.interface import (
    CancelResult,
    Report,
    SizeStatus,
    Status,
    Takes,
    Tally,
    Update,
    WorkerReport,
)
from tpu_ui.dispatch.jobs import Job, JobBook, Target
from tpu_ui.dispatch.pool import ENDED_AS
from tpu_ui.dispatch.waits import Waits
from tpu_ui.dispatch.watch import Watch, unseen
from tpu_ui.errors import (
    AwayError,
    InvalidRequestError,
    LockedError,
    NotTheOwnerError,
    TpuUiError,
)
from tpu_ui.metadata import ImageInfo
from tpu_ui.presets import Preset
from tpu_ui.protocol import Cancelled
from tpu_ui.request import GenerationRequest, Limits, check_mode, check_size
from tpu_ui.shapes import Device, ImageSize, Mode, ProgramState, Strategy, shown
from tpu_ui.tokens import Reader

EVERY_S = 1.0
BEGIN_S = 15.0  # until the far app has taken a job
GOODBYE_S = 1.0
APP_LOG = "app.log"

log = logging.getLogger(__name__)


class RemoteDispatcher:
    """Starts asking at once, in a thread. `presets` are shown until the far app has been reached.

    `url` is its address, `token` "USER:PASSWORD" of its --auth. `locked`: only ready sizes can be
    asked for here, even if the far app lets more through; `lock_is_fixed` as for a local one.
    """

    def __init__(
        self,
        presets: Mapping[str, Preset],
        *,
        url: str,
        token: str | None,
        locked: bool,
        outputs: Path,
        cache: Path,
        lock_is_fixed: bool = False,
        keeping: Keeping = KEEPING,
        log_prompts: bool = False,
        every_s: float = EVERY_S,
    ) -> None:
        self._far = Far(url, token)
        self._locked_at_start = locked
        self._choices = Choices(cache)
        self._locked = self._choices.locked_or(locked, lock_is_fixed)
        self._outputs, self._cache, self._log_prompts = outputs, cache, log_prompts
        limits = {name: preset.limits(Device.TPU) for name, preset in presets.items()}
        self._watch = Watch(
            self._far, unseen(next(iter(presets.values())), limits, presets), every_s
        )
        self._jobs = JobBook()
        self._waits = Waits(Costs(cache), lambda model: self.presets[model])
        self._lock = threading.Lock()  # of the jobs' adoption and of what was learned of waits
        self._key = secrets.token_bytes(16)
        self._closing = threading.Event()
        self._began_s = time.monotonic()
        folder = logs.folder_of(cache)
        self._housekeeper = Housekeeper(keeping, outputs, folder, self._jobs, self._closing)
        self._housekeeper.start()
        self._watch.start()
        atexit.register(self.close)

    def wait_for_first_look(self, timeout_s: float) -> None:
        """Until the far app has answered or not, so that a page can be built for its models."""
        self._watch.wait_for_first_look(timeout_s)

    @property
    def presets(self) -> dict[str, Preset]:
        return dict(self._watch.known.presets)

    @property
    def outputs(self) -> Path:
        return self._outputs

    def limits(self, model: str) -> Limits:
        known = self._watch.known.limits
        if model not in known:
            names = ", ".join(known)
            raise InvalidRequestError(f"There is no model {shown(model)}; choose from {names}.")
        return known[model]

    def submit(self, request: GenerationRequest, visitor: str = "", kept: bool = True) -> str:
        limits = self.limits(request.model)
        check_mode(limits, request.mode)
        check_size(limits, request.size)
        self._watch.check()
        target = Target(request.model, request.mode, request.size)
        self._refuse_if_locked(target)
        job = Job(target, request, visitor=visitor, kept=kept)
        sent = self._send("generate", _inputs(request), job)
        prompt = f": {request.prompt!r}" if self._log_prompts else ""
        what = (request.count, request.size, request.model, request.mode)
        log.info("job %s at %s: %d of %s by %s, %s%s", sent.id, self._far.host, *what, prompt)
        return sent.id

    def warm_up(self, model: str, mode: Mode, size: ImageSize) -> str:
        limits = self.limits(model)
        target = Target(model, check_mode(limits, mode), check_size(limits, size))
        self._watch.check()
        return self._send("warm_up", [model, mode.value, str(size)], Job(target)).id

    def set_strategy(self, model: str, strategy: Strategy | None) -> None:
        raise NotTheOwnerError(f"How a model runs is chosen at {self._far.host}.")

    @property
    def locked_at_start(self) -> bool:
        return self._locked_at_start

    def set_locked(self, locked: bool) -> None:
        if not locked and self._watch.known.status.locked:
            raise NotTheOwnerError(f"The sizes are locked at {self._far.host}; unlock them there.")
        self._locked = locked
        self._choices.lock(locked)

    def updates(self, job: str, pace_s: float = 0.0, repeat_s: float = 0.0) -> Iterator[Update]:
        return self._job(job).follow(pace_s, repeat_s)

    def recorded(self, job: str) -> list[Update]:
        return self._job(job).recorded()

    def takes(self, request: GenerationRequest) -> Takes:
        status = self._watch.status()
        target = Target(request.model, request.mode, request.size)
        known = SizeStatus(ProgramState.COLD)
        if request.model == status.model:
            known = status.sizes.get(request.mode, {}).get(request.size, known)
        with self._lock:
            return self._waits.takes(target, request, status.model, known)

    def cancel(self, job: str) -> CancelResult:
        """Of jobs that were asked for here alone: the far app's others are nobody's business."""
        found = self._jobs.get(job)
        if found is None:
            return CancelResult(job, "unknown")
        if found.ending is not None:
            return CancelResult(job, ENDED_AS[type(found.ending)])
        found.cancel_asked = True
        return CancelResult(job, cancelled(self._far, job))

    def status(self) -> Status:
        status = self._watch.status()
        return replace(status, locked=status.locked or self._locked)

    def readers(self, model: str) -> tuple[Reader, ...]:
        return self._watch.known.readers.get(model, ())

    def tally(self) -> Tally:
        return self._jobs.tally()

    def report(self) -> Report:
        """The far app tells nothing of its processes; here there is none."""
        status = self._watch.status()
        worker = WorkerReport(
            index=0,
            pid=None,
            state=status.state,
            chip=status.chip,
            versions=(),
            memory=None,
            programs_compiled=status.programs_compiled,
        )
        return Report(time.monotonic() - self._began_s, (worker,))

    def log_lines(self, worker: int) -> list[str]:
        return logs.last_lines(logs.folder_of(self._cache) / APP_LOG)

    def close(self) -> None:
        atexit.unregister(self.close)
        if self._closing.is_set():
            return
        self._closing.set()
        self._watch.close()
        self._say_goodbye([job for job in self._jobs.all() if job.record(Cancelled(job.id))])
        self._far.close()
        self._watch.join(GOODBYE_S)

    def _say_goodbye(self, jobs: list[Job]) -> None:
        """Have the far app cancel them, unless that takes long: it does when their turn comes."""
        try:
            for job in jobs:
                self._far.ask("cancel", job.id, timeout_s=GOODBYE_S)
        except TpuUiError as error:
            log.info("jobs are not cancelled at %s: %s", self._far.host, error)

    def _job(self, job: str) -> Job:
        found = self._jobs.get(job)
        if found is None:
            raise KeyError(job)
        return found

    def _refuse_if_locked(self, target: Target) -> None:
        """By the lock of this app alone: that of the far app is its own to tell."""
        status = self._watch.status()
        if not self._locked or status.locked:
            return
        sizes = status.sizes.get(target.mode, {}) if target.model == status.model else {}
        ready = [size for size, one in sizes.items() if one.state is ProgramState.READY]
        if target.size not in ready:
            names = ", ".join(map(str, ready)) or "none"
            raise LockedError(f"{target.size} is not ready in {target.mode} mode. Ready: {names}.")

    def _send(self, endpoint: str, inputs: list[object], job: Job) -> Job:
        """The job as the far app has taken it. Raises what it says, or AwayError."""

        def adopt(known_as: str) -> tuple[Job, bool]:
            with self._lock:
                if (found := self._jobs.get(known_as)) is not None:
                    return found, False
                job.id = known_as
                self._jobs.add(job)
                return job, True

        errand = Errand(
            self._far,
            self._outputs,
            endpoint=endpoint,
            inputs=inputs,
            caller=self._turn_of(job.visitor),
            adopt=adopt,
            made=self._learn,
            missed=self._watch.look_now,
        )
        errand.start()
        try:
            return errand.begun.result(BEGIN_S)
        except NotInTimeError:
            errand.drop()
            raise AwayError(f"{self._far.host} takes too long to answer. Try again.") from None
        except AwayError as error:
            raise AwayError(f"{str(error).rstrip('.')}. Try again.") from error

    def _learn(self, job: Job, info: ImageInfo) -> None:
        with self._lock:
            self._waits.made(job, info)

    def _turn_of(self, visitor: str) -> str:
        """The same for the same visitor; her session, which is a key to her page, stays here."""
        return hashlib.blake2b(visitor.encode(), key=self._key, digest_size=16).hexdigest()


def _inputs(request: GenerationRequest) -> list[object]:
    """Those of `/generate`, in its order; the styles are laid over the prompt there."""
    prompt, negative_prompt = request.written
    return [
        prompt,
        negative_prompt,
        request.model,
        request.mode.value,
        str(request.size),
        request.steps,
        request.guidance,
        request.seed,
        request.count,
        request.lora,
        request.lora_weight,
        list(request.styles),
        True,  # previews
    ]
