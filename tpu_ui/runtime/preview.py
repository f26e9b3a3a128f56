"""What a picture will look like, while it is made: from latents to a small picture, on the host.

A linear map of latent channels stands in for the VAE. All that the device does for it is to copy
the latents, and a copy compiles nothing. Knows nothing of events or of who looks.
"""

import io
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from tpu_ui.errors import LoadError
from tpu_ui.presets import Preset
from tpu_ui.previews import PreviewMap
from tpu_ui.shapes import ImageSize

INTERVAL_S = 1.0  # between two pictures: as often as one that slowly clears is worth a look
LEAST_REST = 50  # times as long as a picture took, on a host that has no time for them
# JPEG, since WebP takes five times as long to save a few hundred bytes.
FORMAT: dict[str, Any] = {"format": "JPEG", "quality": 85, "subsampling": 0}

Latents = npt.NDArray[np.float32]  # channels x height x width


class Preview:
    """Small pictures of one image on its way. Ask after each step that was waited for."""

    def __init__(
        self,
        pipeline: Any,
        colours: PreviewMap,
        size: ImageSize,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pipeline = pipeline
        self._rgb = np.asarray(colours.rgb, np.float32).T
        self._bias = np.asarray(colours.bias, np.float32)[:, None]
        self._size = size
        self._clock = clock
        self._before: tuple[float, Latents] | None = None
        self._next_s = 0.0

    def after(self, step: int, latents: torch.Tensor) -> bytes:
        """A small JPEG of what step `step` (from 1) has come to; empty if none is due.

        `latents`: the pipeline's own, on any device. The first picture comes as soon as there are
        two steps to compare.
        """
        began_s, sigma = self._clock(), self._sigma(step)
        if began_s < self._next_s - INTERVAL_S / 2:  # too early to be compared with what is shown
            return b""
        now = unpacked(self._pipeline, latents.cpu(), self._size)
        before, self._before = self._before, (sigma, now)
        if began_s < self._next_s or (before is None and sigma):
            return b""
        if before is not None and before[0] != sigma:
            now = without_noise(*before, sigma, now)
        jpeg = self._as_jpeg(now)
        ended_s = self._clock()
        self._next_s = ended_s + max(INTERVAL_S, LEAST_REST * (ended_s - began_s))
        return jpeg

    def _sigma(self, step: int) -> float:
        """How much noise is left after `step`. A scheduler that has no word for it counts as done:
        its latents are shown as they are."""
        sigmas = getattr(self._pipeline.scheduler, "sigmas", None)
        return 0.0 if sigmas is None else float(sigmas[step])

    def _as_jpeg(self, latents: Latents) -> bytes:
        channels, height, width = latents.shape
        rgb = (self._rgb @ latents.reshape(channels, -1) + self._bias).reshape(3, height, width)
        bright = np.nan_to_num(np.clip(rgb * 0.5 + 0.5, 0, 1))  # broken latents are told elsewhere
        pixels = (bright * 255).astype(np.uint8).transpose(1, 2, 0)
        file = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(pixels)).save(file, **FORMAT)
        return file.getvalue()


def without_noise(sigma_before: float, before: Latents, sigma: float, now: Latents) -> Latents:
    """Where the latest steps lead: their straight line, followed to where no noise is left.

    Samplers that go by sigmas move along a line from step to step, so of two steps in a row this is
    what the model believes the picture to be.
    """
    return now - sigma * (now - before) / (sigma - sigma_before)


def unpacked(pipeline: Any, latents: torch.Tensor, size: ImageSize) -> Latents:
    """The first image's latents as channels x height x width, whatever the pipeline keeps them as.

    `latents` are on the host. Pipelines that pack them have methods of their own to undo it.
    """
    if hasattr(pipeline, "_unpack_latents"):
        unit_px = pipeline.vae_scale_factor
        latents = pipeline._unpack_latents(latents, size.height_px, size.width_px, unit_px)
    if hasattr(pipeline, "_unpatchify_latents"):
        unit_px = pipeline.vae_scale_factor * 2
        rows, columns = size.height_px // unit_px, size.width_px // unit_px
        latents = latents.mT.reshape(len(latents), -1, rows, columns)
        latents = pipeline._unpatchify_latents(latents)
    values = latents[0].float()
    if values.ndim == 4:  # the frames of a film; a picture is the first
        values = values[:, 0]
    return values.numpy()


def check(preset: Preset, vae: Any) -> None:
    """Raises LoadError if the preset's map is made for another VAE."""
    if preset.preview is None:
        return
    config = vae.config
    channels = config.get("latent_channels", config.get("z_dim"))
    if channels != preset.preview.channels:
        raise LoadError(
            f"{preset.name}.toml: preview: the map is for {preset.preview.channels} channels, and"
            f" the latents of this VAE have {channels}."
        )
