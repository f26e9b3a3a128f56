"""Commands and events between the UI process and a worker. Frozen dataclasses, nothing else.

Every command but `Cancel` and `Shutdown` starts a job. Every job ends in exactly one of `Finished`,
`Failed`, `Cancelled`. A worker runs one job at a time, in the order of arrival.
"""

from dataclasses import dataclass

from tpu_ui.metadata import ImageInfo
from tpu_ui.presets import Preset
from tpu_ui.request import GenerationRequest
from tpu_ui.shapes import Device, ImageSize, Mode
from tpu_ui.strategy import RESIDENT, Placement
from tpu_ui.tokens import Reader


@dataclass(frozen=True, slots=True)
class Load:
    """Load the model's components, each to the place that the strategy has for it."""

    job: str
    preset: Preset
    placement: Placement = RESIDENT


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Run every program of an image of `size` once. `expected_s` is None when nobody knows.

    `then`: the sizes whose warm-ups are to follow, so that their programs may compile beside.
    """

    job: str
    mode: Mode
    size: ImageSize
    expected_s: float | None = None
    then: tuple[ImageSize, ...] = ()


@dataclass(frozen=True, slots=True)
class Generate:
    """Make `request.count` images. Several images are several runs of the same programs."""

    job: str
    request: GenerationRequest


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop `job` within one step, if it is the one that runs."""

    job: str


@dataclass(frozen=True, slots=True)
class Shutdown:
    """End the process after the current job has been cancelled."""


Command = Load | WarmUp | Generate | Cancel | Shutdown


@dataclass(frozen=True, slots=True)
class Started:
    """First event of a worker: what it runs on. `reason` says why this device, in one line."""

    pid: int
    device: Device
    chip: str
    memory_bytes: int | None
    reason: str
    versions: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Loading:
    """At component `index` (from 1) of `count`, with `loaded_bytes` of all weights in place.

    Without a component the model's files are downloaded, and the bytes are theirs. `total_bytes` is
    None where nobody knows.
    """

    job: str
    component: str
    index: int
    count: int
    loaded_bytes: int
    total_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Warming:
    """A sign of life while programs are compiled. `stage` is for people: "text", "step 1 of 2"."""

    job: str
    mode: Mode
    size: ImageSize
    stage: str
    programs_compiled: int
    elapsed_s: float
    expected_s: float | None


@dataclass(frozen=True, slots=True)
class Warmed:
    """Every program of this mode and size has run."""

    job: str
    mode: Mode
    size: ImageSize
    programs_compiled: int
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class Stepped:
    """Step `step` (from 1) of `steps` of image `image` (from 1) of `count` is done.

    Step 0 means that the text is encoded and denoising begins. `left_s` is for this image.
    `preview`: what it looks like by now, a JPEG file of a few kB; empty where there is none.
    """

    job: str
    image: int
    count: int
    step: int
    steps: int
    left_s: float | None
    preview: bytes = b""


@dataclass(frozen=True, slots=True)
class ImageMade:
    """One image: `rgb` holds height x width x 3 bytes, uint8, rows from the top."""

    job: str
    image: int
    size: ImageSize
    rgb: bytes
    info: ImageInfo


@dataclass(frozen=True, slots=True)
class Counted:
    """The programs this worker has handed to the compiler since it started, eager ops included.

    Sent when it grows, and every two seconds as a sign of life.

    `since_ready` counts those compiled by requests the lock lets through: zero, or a bug.
    """

    programs_compiled: int
    since_ready: int


@dataclass(frozen=True, slots=True)
class Memory:
    """What this worker holds and what is left: of its chip, if the chip tells.

    Else `of_chip` is False: what its process holds of the host's memory, and what the host has
    left. Of a group of ranks it is the first one's.
    """

    in_use_bytes: int
    free_bytes: int
    of_chip: bool


@dataclass(frozen=True, slots=True)
class Readers:
    """How the text encoders of the model that was just loaded read a prompt."""

    readers: tuple[Reader, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    job: str


@dataclass(frozen=True, slots=True)
class Cancelled:
    job: str


@dataclass(frozen=True, slots=True)
class Failed:
    """`message` is for the person who asked; `kind` is the error's class name.

    With an empty `job`, and in place of `Started`, it says why the worker cannot start.
    """

    job: str
    kind: str
    message: str


Ending = Finished | Failed | Cancelled
Progress = Loading | Warming | Warmed | Stepped | ImageMade
JobEvent = Progress | Ending
Event = Started | Counted | Memory | Readers | JobEvent
