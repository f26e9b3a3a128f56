"""What is known of another TPU UI: asked every second, and tried again while it is away.

A thread asks; whoever wants to know gets the latest answer at once. Knows nothing of jobs.
"""

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tpu_ui.dispatch.far import Far
from tpu_ui.dispatch.interface import SizeStatus, Status
from tpu_ui.dispatch.wire import UNREADABLE, read_model, read_reader, read_status
from tpu_ui.errors import AwayError, TpuUiError
from tpu_ui.presets import Preset
from tpu_ui.request import Limits
from tpu_ui.shapes import ProgramState
from tpu_ui.strategy import RESIDENT
from tpu_ui.tokens import Reader

AWAY = "away"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Known:
    """What the far app has last said of itself. Replaced as a whole, and never changed."""

    status: Status
    presets: Mapping[str, Preset]
    limits: Mapping[str, Limits]
    readers: Mapping[str, tuple[Reader, ...]] = field(default_factory=dict)


class Watch(threading.Thread):
    """`first` is what is shown before the far app has ever been reached."""

    def __init__(self, far: Far, first: Known, every_s: float) -> None:
        super().__init__(name="watch", daemon=True)
        self._far = far
        self._known = first
        self._every_s = every_s
        self._look = threading.Event()
        self._closing = False
        self._first_look = threading.Event()
        # Why it cannot be reached, and since when; None while it can be.
        self._away: tuple[str, float] | None = (f"The TPU UI at {far.host} cannot be reached", 0.0)
        self._away_lock = threading.Lock()

    @property
    def known(self) -> Known:
        return self._known

    def why_away(self) -> str | None:
        """A sentence on why it cannot be reached; None while it can be."""
        with self._away_lock:
            away = self._away
        if away is None:
            return None
        why, since_s = away
        if not since_s:
            return f"{why} yet; trying again."
        gone_s = time.monotonic() - since_s
        if gone_s < 120:
            return f"{why}, for {gone_s:.0f} s now; trying again."
        return f"{why}, for {gone_s / 60:.0f} min now; trying again."

    def check(self) -> None:
        """Raises AwayError while it cannot be reached."""
        if (why := self.why_away()) is not None:
            raise AwayError(why)

    def status(self) -> Status:
        """As the far app has it. While it is away nothing is ready, and nothing waits."""
        status, why = self._known.status, self.why_away()
        if why is None:
            return status
        cold = SizeStatus(ProgramState.COLD)
        sizes = {mode: dict.fromkeys(sizes, cold) for mode, sizes in status.sizes.items()}
        return replace(status, state=AWAY, detail=why, sizes=sizes, queue_length=0)

    def look_now(self) -> None:
        """Somebody has met a failure, and wants it to be seen by all."""
        self._look.set()

    def wait_for_first_look(self, timeout_s: float) -> None:
        self._first_look.wait(timeout_s)

    def run(self) -> None:
        while not self._closing:
            self._look.clear()
            try:
                self._known = self._asked()
                self._reached()
            except AwayError as error:
                self._lost(str(error))
            except TpuUiError as error:
                self._lost(f"{self._far.host} answers: {str(error).rstrip('.')}")
            except UNREADABLE as error:
                log.debug("unreadable", exc_info=error)
                self._lost(str(self._far.unreadable()))
            self._first_look.set()
            self._look.wait(self._every_s)

    def close(self) -> None:
        self._closing = True
        self._look.set()

    def _asked(self) -> Known:
        known, again = self._known, self._away is not None
        status = read_status(self._far.ask("status"))
        if again or _changes_limits(status) != _changes_limits(known.status):
            told = self._far.ask("models")
            models = {str(name): read_model(one) for name, one in told.items()}
            presets = {name: preset for name, (preset, _) in models.items()}
            known = Known(status, presets, {name: limits for name, (_, limits) in models.items()})
        if status.model not in known.limits:
            raise self._far.unreadable()
        known = replace(known, status=status)
        if status.model not in known.readers and status.state != "loading":
            told = self._far.ask("readers", status.model)
            if readers := tuple(map(read_reader, told)):
                known = replace(known, readers={**known.readers, status.model: readers})
        return known

    def _reached(self) -> None:
        with self._away_lock:
            if self._away is not None:
                log.info("reached %s", self._far.host)
            self._away = None

    def _lost(self, why: str) -> None:
        with self._away_lock:
            since_s = self._away[1] if self._away else 0.0
            if not since_s:
                log.warning("%s; trying again", why)
            self._away = (why, since_s or time.monotonic())


def _changes_limits(status: Status) -> tuple[object, ...]:
    """What the far app's limits depend on, besides its settings."""
    return status.device, status.chip, status.model, status.placement, status.strategy


def unseen(preset: Preset, limits: Mapping[str, Limits], presets: Mapping[str, Preset]) -> Known:
    """Of an app that has not been reached yet: a model of this version's, and nothing ready."""
    mine = limits[preset.name]
    cold = SizeStatus(ProgramState.COLD)
    status = Status(
        device=None,
        chip="",
        device_reason="",
        model=preset.name,
        mode=mine.default_mode,
        state=AWAY,
        detail="",
        locked=True,
        sizes={mode: dict.fromkeys(mine.sizes, cold) for mode in mine.modes},
        queue_length=0,
        programs_compiled=0,
        programs_compiled_since_ready=0,
        workers=0,
        placement=RESIDENT,
        strategy=None,
        strategies={},
    )
    return Known(status, presets, limits)
