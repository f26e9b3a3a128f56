"""Value objects for what shapes a compiled program. Knows nothing of presets, torch or Gradio."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from tpu_ui.errors import InvalidRequestError

_SIZE = re.compile(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})", re.ASCII)


class Device(StrEnum):
    """Where a model runs."""

    TPU = "tpu"
    SOFTWARE_TPU = "software-tpu"  # the real torch_tpu on XLA's CPU backend
    CPU = "cpu"  # plain PyTorch, no torch_tpu


class Mode(StrEnum):
    """How operations reach the device, in TorchTPU's terms."""

    EAGER = "eager"  # strict eager: one program an operation (DEFER_NEVER)
    FUSED = "fused"  # fused eager: operations wait and become larger programs (DEFER_AND_FUSE)
    COMPILED = "compiled"  # the denoiser is one program, made ahead by torch.compile


class Strategy(StrEnum):
    """Where a model's components live while an image is made."""

    RESIDENT = "resident"  # everything stays on the chip
    STAGED = "staged"  # denoiser and VAE stay; text encoders run on the host or visit the chip
    OFFLOAD = "offload"  # one component at a time (diffusers' enable_model_cpu_offload)
    SHARDED = "sharded"  # tensor parallelism over several chips


class ProgramState(StrEnum):
    """What is known of the programs of a key."""

    COLD = "cold"
    COMPILING = "compiling"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ImageSize:
    """Width and height of an image, in pixels. Written "WIDTHxHEIGHT"."""

    width_px: int
    height_px: int

    @classmethod
    def parse(cls, text: object) -> Self:
        """Read "WIDTHxHEIGHT". Raises InvalidRequestError for anything else."""
        match = _SIZE.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise InvalidRequestError(f"{shown(text)} is not a size; write it like 256x256.")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.width_px}x{self.height_px}"


@dataclass(frozen=True, slots=True)
class ProgramKey:
    """Everything that changes the compiled programs of an image.

    `batch` counts pictures made by one run of the pipeline, before guidance doubles it.
    `text_tokens` is the padded prompt length, in tokens.
    """

    preset: str
    mode: Mode
    device: Device
    size: ImageSize
    guidance: bool
    text_tokens: int
    batch: int = 1

    def __str__(self) -> str:
        guidance = "on" if self.guidance else "off"
        return (
            f"{self.preset}/{self.mode}/{self.device}/{self.size}"
            f"/batch-{self.batch}/guidance-{guidance}/tokens-{self.text_tokens}"
        )


def shown(value: object) -> str:
    """A short form of any input, safe to put into a message."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested too deep, or a number of thousands of digits
        text = f"something of type {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def amount(size_bytes: int) -> str:
    """Bytes for people: "28 MB", "23.4 GB"; 10^6 and 10^9 bytes each."""
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.0f} MB"
