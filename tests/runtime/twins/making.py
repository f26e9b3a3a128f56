"""The twin of a real preset: every field of the preset as it is, on a model made in a moment."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from diffusers import DiffusionPipeline

from tests.runtime.twins import flux_1, flux_2, qwen_image, sdxl, stable_diffusion_3, z_image
from tests.runtime.twins.tokenizers import CHAT_TOKENS, CLIP_TOKENS, T5_TOKENS
from tpu_ui.presets import Preset
from tpu_ui.previews import PreviewMap

SIZES = ("32x32", "64x32")

# What random weights of a denoiser are multiplied by, so that a prompt changes the picture.
GAIN = 2.5


@dataclass(frozen=True)
class _Kind:
    """How to make one model small; `make` gets a folder that is not there, for a vocabulary."""

    make: Callable[[Path], DiffusionPipeline]
    text_tokens: int
    call: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))


def _reads(text_tokens: int, make: Callable[[Path], DiffusionPipeline]) -> _Kind:
    """A model whose pipeline is told how long a prompt may be."""
    return _Kind(make, text_tokens, MappingProxyType({"max_sequence_length": text_tokens}))


KINDS = {
    "flux1-dev": _reads(T5_TOKENS, flux_1.dev),
    "flux1-schnell": _reads(T5_TOKENS, flux_1.schnell),
    "flux2-dev": _reads(CHAT_TOKENS, flux_2.dev),
    "flux2-klein-4b": _reads(CHAT_TOKENS, flux_2.klein),
    "flux2-klein-9b": _reads(CHAT_TOKENS, flux_2.klein),
    "qwen-image": _reads(CHAT_TOKENS, qwen_image.qwen_image),
    "sd35-large": _reads(T5_TOKENS, stable_diffusion_3.large),
    "sd35-large-turbo": _reads(T5_TOKENS, stable_diffusion_3.large),
    "sd35-medium": _reads(T5_TOKENS, stable_diffusion_3.medium),
    "sdxl": _Kind(sdxl.base, CLIP_TOKENS),
    "z-image-turbo": _reads(CHAT_TOKENS, z_image.turbo),
}


def of(preset: Preset, folder: Path) -> Preset:
    """Make the twin of a real preset's model in `folder`; returns the twin's preset.

    It is the real preset but for what a small model has to have otherwise: where it is, its sizes,
    the length of its prompts, and float32. Raises KeyError for a preset that has no twin.
    """
    kind = KINDS[preset.name]
    name = f"tiny-{preset.name}"
    torch.manual_seed(0)
    pipeline = kind.make(folder / f"{name}-vocabulary")
    _amplify(getattr(pipeline, preset.components.denoiser))
    pipeline.save_pretrained(folder / name)
    vae = getattr(pipeline, preset.components.vae).config
    channels = vae.get("latent_channels") or vae["z_dim"]
    shorter = kind.text_tokens - preset.text_tokens
    padding = {name: tokens + shorter for name, tokens in preset.padding if tokens is not None}
    changes: dict[str, Any] = {
        "name": name,
        "repository": f"./{name}",
        "folder": folder,
        "revision": None,
        "gated": False,
        "dtype": "float32",
        "sizes": SIZES,
        "text_tokens": kind.text_tokens,
        "call": {**preset.call, **kind.call},
        "padding": preset.padding.model_copy(update=padding),
        "preview": preset.preview and PreviewMap(rgb=((0.3, 0.2, 0.1),) * channels),
    }
    return preset.model_copy(update=changes)


def _amplify(denoiser: torch.nn.Module) -> None:
    with torch.no_grad():
        for name, part in denoiser.named_modules():
            if isinstance(part, torch.nn.Linear) and name != "proj_out":  # its scale is the noise's
                part.weight.mul_(GAIN)
