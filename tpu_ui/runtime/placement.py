"""Loading a preset's components, and where each of them lives.

Each component is read straight to its place, one after another: the device, or the host for what
only comes to the device for its turn. `repository` brings the files, `weights` reads them.
"""

import functools
import importlib
import inspect
from collections.abc import Generator, Iterable
from typing import Any

import diffusers
import torch
from accelerate.utils import send_to_device

from tpu_ui.errors import LoadError
from tpu_ui.presets import Preset
from tpu_ui.runtime import captions, checkpoint, parallel, repository, schedule, weights
from tpu_ui.runtime.checkpoint import INDEX, Files
from tpu_ui.runtime.device import OpenDevice
from tpu_ui.runtime.encoders import HOST, TextEncoders
from tpu_ui.runtime.loading import Course, Reached
from tpu_ui.runtime.lora import Loras
from tpu_ui.runtime.parallel import Ranks
from tpu_ui.shapes import Strategy
from tpu_ui.strategy import Placement


def load_pipeline(
    preset: Preset,
    opened: OpenDevice,
    placement: Placement,
    ranks: Ranks | None = None,
    course: Course | None = None,
) -> Generator[Reached, None, tuple[Any, Loras]]:
    """Load the preset's pipeline for the device, component by component.

    Returns the pipeline, and its LoRA files ready to be chosen from.

    `ranks`: the group that a sharded model is shared out among. `course` is told how it goes.
    Raises LoadError that names the component or the file and the remedy, StrategyError if a
    component cannot be shared out.
    """
    kind = getattr(diffusers, preset.pipeline, None)
    if kind is None:
        raise LoadError(
            f"Preset {preset.name}: diffusers {diffusers.__version__} has no {preset.pipeline}."
        )
    _check_fields(preset, kind)
    course = course or Course(None)
    files, classes = _files(preset, course)
    _check_kind(preset, kind, (*classes, *preset.components.omitted))
    sharded = preset.components.sharded if placement.strategy is Strategy.SHARDED else ()
    for name in sharded:
        _check_heads(files, name, classes[name], placement.devices)
    components: dict[str, Any] = {}
    for number, (name, kind_of) in enumerate(classes.items(), start=1):
        with course.reading(name, number, len(classes)):
            if name in sharded:
                assert ranks is not None
                with parallel.sharding_on(opened):
                    shares = parallel.loading_options(kind_of, ranks.mesh)
                    components[name] = weights.read(files, name, kind_of, shares)
            elif issubclass(kind_of, torch.nn.Module):
                home = _home(preset, name, opened.torch_device, placement)
                components[name] = _moved(weights.read_to(files, name, kind_of, home), home)
            else:
                components[name] = weights.read_plain(files, name, kind_of)
        yield course.reached()
    return _pipeline(files, kind, components, opened.torch_device, placement)


def _check_fields(preset: Preset, kind: Any) -> None:
    """Raises LoadError that names a field of the preset which its pipeline does not know."""
    taken = inspect.signature(kind.__call__).parameters
    wrong = [
        *(("guidance.argument", name) for name in {preset.guidance.argument} - set(taken)),
        *((f"call.{name}", name) for name in preset.call if name not in taken),
        *(("on_host", name) for name in preset.on_host if not hasattr(kind, name)),
    ]
    for field, name in wrong:
        raise LoadError(
            f"Model {preset.name} cannot be loaded: {preset.pipeline} has no {name}. Correct"
            f" {field} in {preset.name}.toml, or its pipeline."
        )


def _check_kind(preset: Preset, kind: Any, components: Iterable[str]) -> None:
    """Raises LoadError if the files are those of another pipeline."""
    taken = inspect.signature(kind.__init__).parameters
    for name in components:
        if name not in taken:
            raise LoadError(
                f"Model {preset.name} cannot be loaded: {preset.pipeline} has no {name}, and the"
                f" model has. Correct pipeline in {preset.name}.toml."
            )


def _files(preset: Preset, course: Course) -> tuple[Files, dict[str, type]]:
    """The model's files, all there and looked at, and the class of each component."""

    def begins(missing_bytes: int) -> None:
        course.downloads(repository.blobs(preset), missing_bytes)

    files = repository.fetch(preset, [INDEX], begins)
    wanted = _component_classes(preset, files.index())
    _check_components(preset, list(wanted))
    classes = {name: _component_class(preset, name, *found) for name, found in wanted.items()}
    patterns = [
        INDEX,
        *(one for name in classes for one in checkpoint.patterns(name, classes[name])),
    ]
    files = repository.fetch(preset, patterns, begins)
    for name, kind in classes.items():
        files.check(name, kind)
    return files, classes


def _pipeline(
    files: Files,
    kind: Any,
    components: dict[str, Any],
    device: torch.device,
    placement: Placement,
) -> tuple[Any, Loras]:
    """The components as one pipeline at work on `device`, and its LoRA files."""
    preset = files.preset
    with weights.reading_errors(files, "the pipeline"):
        pipeline = assembled(preset, kind, components, files.index(), device)
    loras = Loras(pipeline, getattr(pipeline, preset.components.denoiser), preset.loras)
    if placement.strategy is Strategy.OFFLOAD:
        pipeline.enable_model_cpu_offload(device=device)
    return pipeline, loras


def assembled(
    preset: Preset,
    kind: Any,
    components: dict[str, Any],
    index: dict[str, Any],
    device: torch.device,
) -> Any:
    """The components as a pipeline of class `kind` at work on `device`. `index`: model_index.json.

    Raises LoadError if the preset's sizes do not fit the model.
    """
    components = components | {"scheduler": schedule.on_host(components["scheduler"])}
    pipeline = _running_on(device, kind, preset.on_host)(
        **components, **dict.fromkeys(preset.components.omitted), **_plain_values(kind, index)
    )
    _check_sizes(preset, pipeline)
    pipeline.set_progress_bar_config(disable=True)
    if preset.padding.flagged_tokens is not None:
        captions.take_flagged(getattr(pipeline, preset.components.denoiser), device)
    return pipeline


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


def _check_heads(files: Files, name: str, kind: Any, devices: int) -> None:
    """Raises StrategyError, before anything is loaded."""
    with weights.reading_errors(files, f"the configuration of {name}"):
        if issubclass(kind, diffusers.ModelMixin):
            config = kind.load_config(files.folder, subfolder=name)
        else:
            config = kind.config_class.from_pretrained(files.folder, subfolder=name)
    parallel.check_heads(f"{files.preset.title}'s {name}", config, devices)
