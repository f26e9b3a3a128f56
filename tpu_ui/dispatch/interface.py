"""What the UI asks of a dispatcher. Knows nothing of Gradio, sockets or torch.

A dispatcher owns the jobs: they go on, and end, whether anybody listens or not.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tpu_ui.metadata import ImageInfo
from tpu_ui.presets import Preset
from tpu_ui.protocol import JobEvent, Memory
from tpu_ui.request import GenerationRequest, Limits
from tpu_ui.shapes import Device, ImageSize, Mode, ProgramState, Strategy
from tpu_ui.strategy import Placement
from tpu_ui.tokens import Reader


@dataclass(frozen=True, slots=True)
class SizeStatus:
    """The programs of one size in one mode.

    `seconds` is what the warm-up took when ready, and what it has taken so far while compiling.
    `expected_s` is what it took last time, on this chip (None: nobody knows yet); or `elsewhere`,
    what a plan says that compiling takes on another machine. `reason` is set when failed. `unfit`:
    why the size cannot fit, and cannot be chosen.
    """

    state: ProgramState
    seconds: float | None = None
    expected_s: float | None = None
    programs_compiled: int = 0
    stage: str = ""
    reason: str = ""
    elsewhere: bool = False
    unfit: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    """The whole state of the app at one moment."""

    device: Device | None  # None until the first worker has said what it runs on
    chip: str
    device_reason: str
    model: str
    mode: Mode
    state: str  # "loading", "warming", "ready", "busy", "failed"
    detail: str  # one sentence for people: what is going on, or why it failed
    locked: bool
    sizes: dict[Mode, dict[ImageSize, SizeStatus]]  # of the loaded model, for every mode
    queue_length: int
    programs_compiled: int
    programs_compiled_since_ready: int
    workers: int
    placement: Placement  # how the loaded model runs, and why
    strategy: Strategy | None  # what the owner asked for; None: the one that moves least and fits
    strategies: dict[Strategy, str | None]  # what it offers: None, or why not on this machine
    plan: str = ""  # one sentence on the kept plan for this chip, where there is one


@dataclass(frozen=True, slots=True)
class Queued:
    """A job waits: `position` jobs are before it (0: it is next).

    `expected_s`: until its turn, the job that runs included; None where nobody knows.
    """

    job: str
    position: int
    expected_s: float | None = None


@dataclass(frozen=True, slots=True)
class ImageSaved:
    """An image of the job is on disk, metadata included."""

    job: str
    image: int
    path: Path
    info: ImageInfo


@dataclass(frozen=True, slots=True)
class Takes:
    """Seconds that the pictures of a request take, and before them the model and the programs.

    0 where there is nothing to do, None where nobody knows. `programs_s` may have been measured
    on another machine.
    """

    pictures_s: float | None
    model_s: float | None
    programs_s: float | None


Update = Queued | ImageSaved | JobEvent  # ImageMade never reaches a listener; ImageSaved does


@dataclass(frozen=True, slots=True)
class CancelResult:
    """`state` is "cancelled", "finished" or "failed" (it had ended so before), or "unknown"."""

    job: str
    state: str

    def to_dict(self) -> dict[str, Any]:
        return {"job": self.job, "state": self.state}


@dataclass(frozen=True, slots=True)
class Tally:
    """Since the start of the app: images that were saved, and jobs by how they ended. Warm-ups are
    jobs too."""

    images: int = 0
    finished: int = 0
    failed: int = 0
    cancelled: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.images + other.images,
            self.finished + other.finished,
            self.failed + other.failed,
            self.cancelled + other.cancelled,
        )


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """One worker. `pid` and `memory` are None while it has no process; `versions` are those of the
    packages that it runs."""

    index: int
    pid: int | None
    state: str
    chip: str
    versions: tuple[tuple[str, str], ...]
    memory: Memory | None
    programs_compiled: int


@dataclass(frozen=True, slots=True)
class Report:
    """What the owner of the machine may want to know besides the status."""

    uptime_s: float
    workers: tuple[WorkerReport, ...]


class Dispatcher(Protocol):
    """Every method may be called from any thread."""

    @property
    def presets(self) -> dict[str, Preset]:
        """Every model on offer, by name."""

    @property
    def outputs(self) -> Path:
        """The folder that pictures are written into: `<YYYY-MM-DD>/<mark>-<image>-<seed>.png`, by
        which nobody learns the job."""

    def limits(self, model: str) -> Limits:
        """What a caller may ask of `model` on this device. Raises InvalidRequestError (unknown)."""

    def submit(self, request: GenerationRequest, visitor: str = "", kept: bool = True) -> str:
        """Queue a request; returns the job's id. Raises LockedError, QueueFullError.

        Visitors are served in turn. A job whose images are not to be `kept` is cancelled when its
        turn comes, if all who followed it have gone by then.
        """

    def warm_up(self, model: str, mode: Mode, size: ImageSize) -> str:
        """Queue a warm-up; returns the job's id."""

    def set_strategy(self, model: str, strategy: Strategy | None) -> None:
        """Run `model` by this strategy from now on; None: by the one that moves least and fits.

        A model that is loaded is loaded again, and what was ready is warmed again. Raises
        StrategyError, InvalidRequestError (unknown model).
        """

    @property
    def locked_at_start(self) -> bool:
        """Whether it was started locked, whatever the owner has chosen since."""

    def set_locked(self, locked: bool) -> None:
        """Refuse, or take, requests for what is not ready, from now on.

        A job that waits for such a size fails when its turn comes after a lock.
        """

    def updates(self, job: str, pace_s: float = 0.0, repeat_s: float = 0.0) -> Iterator[Update]:
        """All updates of a job from its beginning, as they come; ends after the job's ending.

        With a pace, steps come at most once in so many seconds and overtaken ones are left out;
        nothing else is held back or left out. With `repeat_s`, the last update comes again whenever
        nothing has happened for so long: a listener that only passes it on then finds out whether
        anybody is there. Several listeners may follow one job. Raises KeyError for an unknown job.
        """

    def recorded(self, job: str) -> list[Update]:
        """The updates of a job so far. Never blocks. Raises KeyError for an unknown job."""

    def takes(self, request: GenerationRequest) -> Takes:
        """What a request would take at this moment, the queue aside."""

    def cancel(self, job: str) -> CancelResult:
        """Cancel a waiting or running job. Returns at once; the job's ending follows."""

    def status(self) -> Status:
        """A snapshot. Never blocks on a worker."""

    def readers(self, model: str) -> tuple[Reader, ...]:
        """How the model's text encoders read a prompt; empty before the model has been loaded."""

    def tally(self) -> Tally:
        """What has been done since the start."""

    def report(self) -> Report:
        """What the owner may want to know. Never blocks on a worker."""

    def log_lines(self, worker: int) -> list[str]:
        """The last lines of a worker's log, oldest first; bounded in number and length."""

    def close(self) -> None:
        """End all workers; no process is left behind."""
