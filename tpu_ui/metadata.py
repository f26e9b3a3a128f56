"""What made an image: written into the PNG, and read back. Knows nothing of torch or Gradio.

Two text chunks are written: `parameters`, the form that A1111 began and other tools read, and
`tpu_ui`, our own JSON, which is exact. The JSON is plain ASCII, so any text a person can type
survives, emoji, control characters and lone surrogates included. Neither tells the job: a picture
is shown around, and whoever knows a job's id can cancel it.
"""

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tpu_ui.errors import MetadataError
from tpu_ui.outside import parsed
from tpu_ui.png_text import PngError, PngTooLargeError, read_texts

JSON_KEY = "tpu_ui"
PARAMETERS_KEY = "parameters"
NEGATIVE = "Negative prompt:"
SETTING = re.compile(r'([A-Z][\w /-]*): ("(?:[^"\\]|\\.)*"|[^,]*)(?:, |,?$)')
NAMES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "Steps": ("steps", int),
    "CFG scale": ("guidance", float),
    "Seed": ("seed", int),
    "Size": ("size", str),
    "Model": ("model", str),
    "Sampler": ("scheduler", str),
}
MAX_FILE_PX = 64_000_000  # a larger picture is not one of ours
MAX_PARAMETERS_CHARACTERS = 20_000  # twice what the longest prompts of ours take


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds of wall time that one image took. `total` includes the wait in the queue."""

    queue: float
    encode: float
    denoise: float
    decode: float
    total: float


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """What made one image, read off the pipeline that ran.

    `mode` is the mode that ran; `programs_compiled` counts the programs handed to the compiler
    while this image was made. `notices` are sentences for the person who asked. `prompt` is what
    the model read; with `styles`, `unstyled_prompt` is what the caller wrote.
    """

    job: str
    model: str
    mode: str
    device: str
    chip: str
    size: str
    steps: int
    guidance: float
    seed: int
    prompt: str
    negative_prompt: str
    scheduler: str
    dtype: str
    strategy: str
    timings_s: Timings
    programs_compiled: int
    version: str
    lora: str | None = None
    lora_weight: float = 1.0
    notices: tuple[str, ...] = ()
    styles: tuple[str, ...] = ()
    unstyled_prompt: str | None = None
    unstyled_negative_prompt: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: what the API returns to who asked."""
        return {**asdict(self), "notices": list(self.notices), "styles": list(self.styles)}

    def written(self) -> dict[str, Any]:
        """What is stored in a PNG: all but the job."""
        return without_job(self.to_dict())

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Self:
        """What `to_dict` made this of; what another version has added is left out.

        Raises KeyError, TypeError or ValueError for anything else.
        """
        known = {one.name: told[one.name] for one in fields(cls) if one.name in told}
        lists = {name: tuple(told.get(name, ())) for name in ("notices", "styles")}
        return cls(**{**known, **lists, "timings_s": Timings(**told["timings_s"])})


def without_job(info: Mapping[str, Any]) -> dict[str, Any]:
    """An info dict that may go anywhere."""
    return {name: value for name, value in info.items() if name != "job"}


def encode_png(pixels: Image.Image, info: ImageInfo) -> bytes:
    """The bytes of a PNG file of `pixels` (RGB) that carries `info`, but for its job."""
    text = PngInfo()
    text.add_itxt(PARAMETERS_KEY, _clean(parameters_text(info)))
    text.add_itxt(JSON_KEY, json.dumps(info.written(), ensure_ascii=True))
    file = io.BytesIO()
    pixels.save(file, format="PNG", pnginfo=text)
    return file.getvalue()


def read_png(path: Path) -> dict[str, Any]:
    """The info dict that `encode_png` wrote, with the job if an earlier version did; of another
    program's picture, what `read_parameters` makes of it. Raises MetadataError, saying what is
    wrong.
    """
    try:
        (width_px, height_px), text = read_texts(path, (JSON_KEY, PARAMETERS_KEY))
    except PngTooLargeError as error:
        raise MetadataError("The settings in the picture are too long to be read.") from error
    except (PngError, OSError) as error:
        raise MetadataError("The file is not a PNG picture that can be read.") from error
    if not width_px or not height_px:
        raise MetadataError("The file is not a PNG picture that can be read.")
    if width_px * height_px > MAX_FILE_PX:
        raise MetadataError("The picture is too large to be one of ours.")
    if JSON_KEY not in text and PARAMETERS_KEY in text:
        return read_parameters(text[PARAMETERS_KEY])
    if JSON_KEY not in text:
        raise MetadataError("The picture carries no settings, of TPU UI or in A1111's form.")
    try:
        info = parsed(text[JSON_KEY])
    except ValueError as error:
        raise MetadataError("The settings in the picture are damaged.") from error
    if not isinstance(info, dict):
        raise MetadataError("The settings in the picture are damaged.")
    return info


def parameters_text(info: ImageInfo) -> str:
    """The settings in A1111's form: prompt, negative prompt, then one line of "Name: value"."""
    lines = [info.prompt]
    if info.negative_prompt:
        lines.append(f"Negative prompt: {info.negative_prompt}")
    lines.append(
        f"Steps: {info.steps}, Sampler: {info.scheduler}, CFG scale: {info.guidance:g}, "
        f"Seed: {info.seed}, Size: {info.size}, Model: {info.model}, "
        + (f"LoRA: {info.lora} {info.lora_weight:g}, " if info.lora else "")
        + f"Version: TPU UI {info.version}"
    )
    return "\n".join(lines)


def read_parameters(text: str) -> dict[str, Any]:
    """Settings in A1111's form, under our names. What has no name of ours is in `others`, as text.

    Forge, SD.Next and others write the same. Raises MetadataError.
    """
    if len(text) > MAX_PARAMETERS_CHARACTERS:
        raise MetadataError("The settings in the picture are too long to be read.")
    *lines, last = text.strip().split("\n")
    found = dict(_settings(last))
    if "Steps" not in found:
        raise MetadataError("The settings in the picture are not in A1111's form.")
    prompt, _, negative = "\n".join(lines).partition(NEGATIVE)
    info: dict[str, Any] = {"prompt": prompt.strip(), "negative_prompt": negative.strip()}
    for name, (ours, kind) in NAMES.items():
        if (value := found.pop(name, None)) is not None:
            try:
                info[ours] = kind(value)
            except ValueError:
                info[ours] = value  # told as what it is, when somebody wants to use it
    return {**info, "others": found}


def _settings(line: str) -> Iterator[tuple[str, str]]:
    """The "Name: value" of a line. Tried only where one may begin: a search at every letter takes
    the square of the line's length."""
    at = 0
    while True:
        if (found := SETTING.match(line, at)) is not None:
            yield found[1], found[2].strip('"')
            at = found.end()
        else:
            at = line.find(", ", at) + 2
            if at < 2:
                return


def _clean(text: str) -> str:
    """`text` without what a PNG text chunk cannot hold: NUL and lone surrogates."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
