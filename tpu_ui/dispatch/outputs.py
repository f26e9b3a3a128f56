"""Pictures on disk: one PNG an image, with what made it inside. Knows nothing of jobs' states."""

import hashlib
import logging
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from PIL import Image

from tpu_ui.dispatch.interface import ImageSaved
from tpu_ui.errors import BrokenImageError
from tpu_ui.folders import write_whole
from tpu_ui.metadata import ImageInfo, encode_png
from tpu_ui.protocol import Failed, ImageMade
from tpu_ui.shapes import ImageSize

log = logging.getLogger(__name__)


def save(made: ImageMade, asked: ImageSize, queue_s: float, outputs: Path) -> ImageSaved:
    """Write one image as `<outputs>/<YYYY-MM-DD>/<mark>-<n>-<seed>.png`, whole or not at all.

    `queue_s` is how long the job waited for its worker. Raises BrokenImageError if the picture has
    another size than `asked`, and OSError if it cannot be written.
    """
    width_px, height_px = asked.width_px, asked.height_px
    if made.size != asked or len(made.rgb) != width_px * height_px * 3:
        raise BrokenImageError(
            f"The model made a picture of {made.size} ({len(made.rgb):,} bytes) where {asked} was"
            " asked for. It was thrown away."
        )
    info = _with_queue(made.info, queue_s)
    pixels = Image.frombytes("RGB", (width_px, height_px), made.rgb)
    path = place(outputs, made.job, made.image, info.seed)
    write_whole(path, encode_png(pixels, info))
    return ImageSaved(made.job, made.image, path, info)


def place(outputs: Path, job: str, image: int, seed: int) -> Path:
    """Where a picture of today goes."""
    # The date of the person at the machine, for a folder they look into.
    folder = outputs / datetime.now().astimezone().date().isoformat()
    return folder / f"{mark_of(job, image)}-{image}-{seed}.png"


def mark_of(job: str, image: int) -> str:
    """What a picture's name begins with: as hard to guess as its job's id, and telling nothing of
    that, nor of the job's other pictures."""
    return hashlib.sha256(f"{job}-{image}".encode()).hexdigest()[:32]


def save_or_say(
    made: ImageMade, asked: ImageSize, queue_s: float, outputs: Path
) -> ImageSaved | Failed:
    """`save`, or why not, for the person who asked."""
    try:
        return save(made, asked, queue_s, outputs)
    except BrokenImageError as error:
        return Failed(made.job, type(error).__name__, str(error))
    except OSError as error:
        log.warning("job %s: an image could not be written: %s", made.job, error)
        return Failed(made.job, type(error).__name__, why_unwritable(error))


def why_unwritable(error: OSError) -> str:
    """What a person is told when `save` could not write. Names no path of the machine."""
    reason = error.strerror or type(error).__name__
    return f"The picture could not be written into the outputs folder: {reason}."


def _with_queue(info: ImageInfo, queue_s: float) -> ImageInfo:
    timings = info.timings_s
    return replace(info, timings_s=replace(timings, queue=queue_s, total=timings.total + queue_s))
