"""The twin of a real preset: every field of the preset as it is, on a model made in a moment."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from diffusers import DiffusionPipeline

from tests.runtime.twins import flux_1, stable_diffusion_3
from tests.runtime.twins.tokenizers import T5_TOKENS
from tpu_ui.presets import Preset

SIZES = ("32x32", "64x32")


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
    "sd35-large": _reads(T5_TOKENS, stable_diffusion_3.large),
    "sd35-large-turbo": _reads(T5_TOKENS, stable_diffusion_3.large),
    "sd35-medium": _reads(T5_TOKENS, stable_diffusion_3.medium),
}


def of(preset: Preset, folder: Path) -> Preset:
    """Make the twin of a real preset's model in `folder`; returns the twin's preset.

    It is the real preset but for what a small model has to have otherwise: where it is, its sizes,
    the length of its prompts, and float32. Raises KeyError for a preset that has no twin.
    """
    kind = KINDS[preset.name]
    name = f"tiny-{preset.name}"
    torch.manual_seed(0)
    kind.make(folder / f"{name}-vocabulary").save_pretrained(folder / name)
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
    }
    return preset.model_copy(update=changes)
