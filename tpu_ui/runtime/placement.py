"""Loading a preset's components, and where each of them lives.

Each component is read straight to its place, one after another: the device, or the host for what
only comes to the device for its turn.
"""

import functools
import importlib
import inspect
import logging
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diffusers
import torch
from accelerate.utils import send_to_device
from torch.distributed.tensor import DTensor

from tpu_ui.errors import LoadError
from tpu_ui.presets import Preset
from tpu_ui.runtime import captions, parallel, schedule
from tpu_ui.runtime.device import OpenDevice
from tpu_ui.runtime.encoders import HOST, TextEncoders
from tpu_ui.runtime.lora import Loras
from tpu_ui.runtime.parallel import Ranks
from tpu_ui.shapes import Strategy
from tpu_ui.strategy import Placement

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Placed:
    """Component `index` (from 1) of `count` is in its place; it weighs `weight_bytes`."""

    component: str
    index: int
    count: int
    weight_bytes: int


def load_pipeline(
    preset: Preset, opened: OpenDevice, placement: Placement, ranks: Ranks | None = None
) -> Generator[Placed, None, tuple[Any, Loras]]:
    """Load the preset's pipeline for the device, component by component.

    Returns the pipeline, and its LoRA files ready to be chosen from.

    `ranks`: the group that a sharded model is shared out among. Raises LoadError that names the
    component and the remedy, StrategyError if a component cannot be shared out.
    """
    device = opened.torch_device
    if preset.is_local and not Path(preset.source).is_dir():
        raise LoadError(
            f"Model {preset.name} cannot be loaded: there is no folder {preset.repository} beside"
            " its preset."
        )
    kind = getattr(diffusers, preset.pipeline, None)
    if kind is None:
        raise LoadError(
            f"Preset {preset.name}: diffusers {diffusers.__version__} has no {preset.pipeline}."
        )
    index = _model_index(preset, kind)
    wanted = _component_classes(preset, index)
    _check_components(preset, list(wanted))
    sharded = preset.components.sharded if placement.strategy is Strategy.SHARDED else ()
    classes = {name: _component_class(preset, name, *found) for name, found in wanted.items()}
    for name in sharded:
        _check_heads(preset, name, classes[name], placement.devices)
    components: dict[str, Any] = {}
    for number, (name, kind_of) in enumerate(classes.items(), start=1):
        if name in sharded:
            assert ranks is not None
            with parallel.sharding_on(opened):
                options = parallel.loading_options(kind_of, ranks.mesh)
                component = _load_component(preset, name, kind_of, **options).eval()
        else:
            component = _load_component(preset, name, kind_of)
            if isinstance(component, torch.nn.Module):
                component = _moved(component, _home(preset, name, device, placement)).eval()
        components[name] = component
        yield Placed(name, number, len(classes), _weight_bytes(component))
    components["scheduler"] = schedule.on_host(components["scheduler"])
    with _load_errors(preset, "the pipeline"):
        pipeline = _running_on(device, kind, preset.on_host)(
            **components, **dict.fromkeys(preset.components.omitted), **_plain_values(kind, index)
        )
    _check_sizes(preset, pipeline)
    pipeline.set_progress_bar_config(disable=True)
    if preset.padding.flagged_tokens is not None:
        captions.take_flagged(getattr(pipeline, preset.components.denoiser), device)
    loras = Loras(pipeline, getattr(pipeline, preset.components.denoiser), preset.loras)
    if placement.strategy is Strategy.OFFLOAD:
        pipeline.enable_model_cpu_offload(device=device)
    return pipeline, loras


def text_encoders(
    preset: Preset, pipeline: Any, device: torch.device, placement: Placement
) -> TextEncoders:
    """The pipeline's text encoders, at work where the placement has them."""
    visiting = placement.strategy is Strategy.STAGED and not placement.text_on_host
    encoders = [getattr(pipeline, name) for name in preset.components.text_encoders]
    return TextEncoders(encoders, device, visiting=visiting, padding=preset.padding)


def _home(preset: Preset, name: str, device: torch.device, placement: Placement) -> torch.device:
    """Where a component is while it does not run."""
    if placement.strategy is Strategy.OFFLOAD:
        return HOST
    is_text = name in preset.components.text_encoders
    if is_text and (placement.strategy is Strategy.STAGED or placement.text_on_host):
        return HOST
    return device


def _moved(component: torch.nn.Module, device: torch.device) -> torch.nn.Module:
    """The component on `device`, with tensors that are plain attributes and that `to` passes over
    (Qwen-Image keeps its tables of positions so)."""
    for part in component.modules():
        for name, value in vars(part).items():
            if isinstance(value, torch.Tensor):
                setattr(part, name, value.to(device))
    return component.to(device)


def _running_on(device: torch.device, kind: Any, on_host: tuple[str, ...]) -> Any:
    """The pipeline class, at work on `device` though its first component may be elsewhere, and with
    these methods on the host."""
    methods = {name: _on_host(inspect.getattr_static(kind, name), device) for name in on_host}
    return type(kind.__name__, (kind,), {"_execution_device": device, **methods})


def _on_host(method: Any, device: torch.device) -> Any:
    static = isinstance(method, staticmethod)
    function = method.__func__ if static else method

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        given = function(*send_to_device(args, HOST), **send_to_device(kwargs, HOST))
        return send_to_device(given, device)

    return staticmethod(run) if static else run


def _check_components(preset: Preset, present: list[str]) -> None:
    named = preset.components
    for field, names in (
        ("denoiser", (named.denoiser,)),
        ("text_encoders", named.text_encoders),
        ("vae", (named.vae,)),
    ):
        for name in names:
            if name not in present:
                raise LoadError(
                    f"{preset.name}.toml: components.{field}: {preset.repository} has no {name};"
                    f" it has {', '.join(present)}."
                )


def _check_sizes(preset: Preset, pipeline: Any) -> None:
    """A side that the latents cannot have fails late, and in words that name no preset."""
    patch = getattr(getattr(pipeline, preset.components.denoiser).config, "patch_size", None)
    unit_px = pipeline.vae_scale_factor * (patch if isinstance(patch, int) else 1)
    for size in preset.image_sizes:
        if size.width_px % unit_px or size.height_px % unit_px:
            raise LoadError(
                f"{preset.name}.toml: sizes: {size} does not fit the model; both sides have to be"
                f" multiples of {unit_px}."
            )


def _model_index(preset: Preset, kind: Any) -> dict[str, Any]:
    with _load_errors(preset, "model_index.json"):
        index: dict[str, Any] = kind.load_config(preset.source, revision=preset.revision)
    return index


def _plain_values(kind: Any, index: dict[str, Any]) -> dict[str, Any]:
    """What else the index says of the pipeline, such as that the model is a distilled one."""
    return {
        name: value
        for name, value in index.items()
        if name in inspect.signature(kind.__init__).parameters
        and isinstance(value, bool | int | float | str)
    }


def _component_classes(preset: Preset, index: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Library and class of each component, as the repository's index names them."""
    return {
        name: (value[0], value[1])
        for name, value in index.items()
        if isinstance(value, list | tuple)
        and len(value) == 2
        and all(isinstance(part, str) for part in value)
        and name not in preset.components.omitted
    }


def _component_class(preset: Preset, name: str, library: str, class_name: str) -> type:
    if library not in ("diffusers", "transformers"):
        raise LoadError(f"{preset.name}: component {name} comes from {library}, which is unknown.")
    if class_name.endswith(
        "Processor"
    ):  # there are no pictures to read, and its tokenizer is there
        class_name = "AutoTokenizer"
    kind = getattr(importlib.import_module(library), class_name, None)
    if not isinstance(kind, type):
        raise LoadError(f"{preset.name}: the installed {library} has no {class_name} ({name}).")
    return kind


def _check_heads(preset: Preset, name: str, kind: Any, devices: int) -> None:
    """Raises StrategyError, before anything is loaded."""
    options = {"subfolder": name, "revision": preset.revision}
    with _load_errors(preset, f"the configuration of {name}"):
        if issubclass(kind, diffusers.ModelMixin):
            config = kind.load_config(preset.source, **options)
        else:
            config = kind.config_class.from_pretrained(preset.source, **options)
    parallel.check_heads(f"{preset.title}'s {name}", config, devices)


def _load_component(preset: Preset, name: str, kind: Any, **options: Any) -> Any:
    options |= {"subfolder": name, "revision": preset.revision}
    if issubclass(kind, torch.nn.Module):
        options["dtype"] = getattr(torch, preset.dtype)
        options["use_safetensors"] = True
    log.info("loading %s (%s)", name, kind.__name__)
    with _load_errors(preset, name):
        return kind.from_pretrained(preset.source, **options)


class _load_errors:
    """Turns the many ways in which loading fails into a LoadError with a remedy."""

    def __init__(self, preset: Preset, what: str) -> None:
        self._preset = preset
        self._what = what

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None or isinstance(error, LoadError) or not isinstance(error, Exception):
            return
        if isinstance(error, torch.OutOfMemoryError):
            return
        remedy = (
            f"Check that {self._preset.repository} beside the preset is complete."
            if self._preset.is_local
            else f"Check the network, and that you may read {self._preset.repository}."
        )
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise LoadError(
            f"Model {self._preset.name} cannot be loaded: {self._what}: {lines[0]} {remedy}"
        ) from error


def _weight_bytes(component: Any) -> int:
    if not isinstance(component, torch.nn.Module):
        return 0
    tensors = [_own(tensor) for tensor in (*component.parameters(), *component.buffers())]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _own(tensor: torch.Tensor) -> torch.Tensor:
    """What of a tensor is in this process."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
