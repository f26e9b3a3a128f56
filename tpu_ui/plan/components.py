"""A preset's components at full size, from their configurations, on the meta device."""

import json
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import diffusers
import torch
import transformers

from tpu_ui.presets import Preset


def folder(preset: Preset) -> Path:
    """Where the configurations of the preset's components are: with the model, or kept here."""
    return Path(preset.source) if preset.is_local else preset.folder / "configs" / preset.name


def configuration(preset: Preset, component: str) -> dict[str, Any]:
    """The component's config.json."""
    read: dict[str, Any] = json.loads((folder(preset) / component / "config.json").read_text())
    return read


def made(preset: Preset, component: str) -> torch.nn.Module:
    """The component at full size, from its configuration, on the meta device: without memory."""
    config = configuration(preset, component)
    with torch.device("meta"):
        if "_class_name" in config:
            model = getattr(diffusers, config["_class_name"]).from_config(config)
        else:
            kind = getattr(transformers, config["architectures"][0])
            assert kind.config_class.model_type == config["model_type"]
            model = kind(kind.config_class.from_dict(config))
    assert isinstance(model, torch.nn.Module)
    return model


def size_bytes(tensors: Iterable[torch.Tensor], dtype: torch.dtype) -> int:
    """What the tensors take when those of floating point are of `dtype`."""
    return sum(
        tensor.numel() * (dtype.itemsize if tensor.is_floating_point() else tensor.itemsize)
        for tensor in tensors
    )


def tensors(model: torch.nn.Module) -> Iterable[torch.Tensor]:
    """All that a model keeps on its device, such as SD3's table of positions."""
    return chain(model.parameters(), model.buffers())
