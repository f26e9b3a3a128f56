"""Every error this program raises on purpose. Knows nothing of torch, Gradio or processes.

`survives` says whether a worker that raised the error can go on with its next job. A worker that
does not survive is replaced by a new one. Messages are shown to people as they are: each one says
what would be right.
"""

import math
import re
from typing import ClassVar


class TpuUiError(Exception):
    """Base of all errors below. `str(error)` is a sentence for the person who asked."""

    survives: ClassVar[bool] = True


class SettingsError(TpuUiError):
    """The command line or the environment asks for something that does not exist."""


class PresetError(TpuUiError):
    """A preset file is wrong. The message names the file and the field."""


class InvalidRequestError(TpuUiError):
    """A request is outside what the model takes. The message says what it takes."""


class LockedError(InvalidRequestError):
    """The sizes are locked and the one asked for is not ready. The message names the ready ones."""


class NotTheOwnerError(TpuUiError):
    """Only the owner may do this. The message says how to become it."""


class QueueFullError(TpuUiError):
    """Too many jobs wait already. The message says how many, and for how long. `wait_s`: the same;
    None where nobody knows yet."""

    wait_s: float | None = None

    @classmethod
    def of(cls, waiting: int, wait_s: float | None) -> "QueueFullError":
        """The queue of everybody is full."""
        told = f"The queue is full: {waiting} jobs wait already. Try again later."
        if wait_s is not None:
            how_long = f"{wait_s:.0f} s" if wait_s < 120 else f"{wait_s / 60:.0f} min"
            told = f"The queue is full: {waiting} jobs wait already, for about {how_long}."
            told += " Try again later."
        error = cls(told)
        error.wait_s = wait_s
        return error


class AllowanceError(TpuUiError):
    """A visitor has asked too often, or for too much. The message says when there is more.
    `wait_s`: the same; infinite where so much is never had at once."""

    wait_s: float = 0.0

    @classmethod
    def of_requests(cls, most: int, wait_s: float) -> "AllowanceError":
        return cls._of(f"One visitor may ask {most} times a minute.", wait_s)

    @classmethod
    def of_images(cls, most: int, left: int, wait_s: float) -> "AllowanceError":
        return cls._of(f"One visitor may have {most} images an hour; {left} are left.", wait_s)

    @classmethod
    def _of(cls, told: str, wait_s: float) -> "AllowanceError":
        if wait_s < math.inf:
            minutes, seconds = math.ceil(wait_s / 60), math.ceil(wait_s)
            how_long = f"{seconds} s" if seconds < 120 else f"{minutes} min"
            told += f" Ask again in {how_long}."
        error = cls(told)
        error.wait_s = wait_s
        return error


class MetadataError(TpuUiError):
    """A file carries no settings of ours, or ones that cannot be read."""


class DeviceUnavailableError(TpuUiError):
    """The device asked for is not on this machine."""

    survives = False


class ModeUnavailableError(InvalidRequestError):
    """The mode asked for cannot run on this device."""


class StrategyError(InvalidRequestError):
    """The model cannot run in this way on this machine. The message says what could."""

    survives = False


class PlanError(TpuUiError):
    """A plan cannot be made. The message says why, and what would be right."""


class LoadError(TpuUiError):
    """The model's files are missing or broken. The message names the file and the remedy."""

    survives = False


class OutOfDeviceMemoryError(TpuUiError):
    """The chip's memory is used up. A new worker starts with all of it free."""

    survives = False


class CompilationError(TpuUiError):
    """The model could not be compiled. The message says why, and what runs without it."""


class BrokenImageError(TpuUiError):
    """The model made NaN or infinite values, or a picture of another size than asked for."""


class WorkerDiedError(TpuUiError):
    """The worker process ended in the middle of a job."""

    survives = False


class AwayError(TpuUiError):
    """The TPU UI that does the work cannot be reached. The message says which, and since when."""


class JobCancelledError(TpuUiError):
    """Somebody cancelled the job."""


_KINDS: dict[str, type[TpuUiError]] = {
    kind.__name__: kind
    for kind in list(vars().values())
    if isinstance(kind, type) and issubclass(kind, TpuUiError)
}
_WAIT = re.compile(r"(?:for about|Ask again in) (\d+) (s|min)\.")


def as_told(kind: str, sentence: str) -> TpuUiError:
    """The error that another TPU UI tells of by its kind's name and its sentence.

    How long to wait is read from the sentence. A kind that is not known here is a TpuUiError.
    """
    error = _KINDS.get(kind, TpuUiError)(sentence)
    wait = _WAIT.search(sentence)
    wait_s = float(wait[1]) * (60 if wait[2] == "min" else 1) if wait else None
    if isinstance(error, QueueFullError):
        error.wait_s = wait_s
    elif isinstance(error, AllowanceError):
        error.wait_s = math.inf if wait_s is None else wait_s
    return error
