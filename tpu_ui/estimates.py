"""The programs of an image that were not compiled: computed from those that were.

Where nothing was, from the preset's figures. Knows no model by name and no torch.
"""

from tpu_ui.plans import GIB, Image, Layout, Plan, Program, Way
from tpu_ui.presets import Preset
from tpu_ui.shapes import ImageSize, Strategy


def images_of(preset: Preset, plan: Plan | None, way: Way, size: ImageSize) -> tuple[Image, ...]:
    """The images of this kind: compiled for, else computed from the whole programs."""
    if plan is not None:
        found = plan.compiled(way.layout, way.devices, size)
        if found:
            return found
    whole = _whole(preset, plan, size)
    if way.layout == Layout.WHOLE:
        return whole
    weights = weights_bytes(preset, plan)
    return tuple(
        image.model_copy(
            update={
                "layout": way.layout,
                "devices": way.devices,
                "programs": tuple(computed(preset, way, one, weights) for one in image.programs),
            }
        )
        for image in whole
    )


def computed(preset: Preset, way: Way, program: Program, weights: dict[str, int]) -> Program:
    """A whole program as it would be in another layout. Temporaries are taken as the whole's, which
    are no less."""
    own = weights[program.component]
    on_each = share(preset, program.component, own, way)
    changed: dict[str, object] = {}
    if program.how == "failed":  # the whole does not fit; this form may
        changed["temporary_bytes"] = round(preset.working_gib * GIB)
    if on_each != own:
        inputs = max(0, program.argument_bytes - own) if program.argument_bytes else 0
        changed |= {
            "argument_bytes": on_each + inputs,
            "flop": program.flop / way.devices,
            "accessed_bytes": program.accessed_bytes / way.devices,
        }
    elif way.layout != Layout.BLOCKS or program.component != preset.components.denoiser:
        return program  # it is the same program
    changed |= {"how": "computed", "compile_s": None, "digest": "", "peak_bytes": 0, "error": ""}
    return program.model_copy(update=changed)


def _whole(preset: Preset, plan: Plan | None, size: ImageSize) -> tuple[Image, ...]:
    """Whole programs for `size`: those of the size that was compiled for, by pixels."""
    known = [image for image in plan.images if image.layout == Layout.WHOLE] if plan else []
    same = tuple(image for image in known if image.size == str(size))
    if same:
        return same
    if not known:
        return _guessed(preset, size)
    nearest = max(known, key=lambda image: _pixels(ImageSize.parse(image.size)))
    ratio = _pixels(size) / _pixels(ImageSize.parse(nearest.size))
    return tuple(
        _scaled(preset, image, size, ratio) for image in known if image.size == nearest.size
    )


def _scaled(preset: Preset, image: Image, size: ImageSize, ratio: float) -> Image:
    texts = preset.components.text_encoders

    def scaled(program: Program) -> Program:
        if program.component in texts or program.how == "failed":
            return program
        return program.model_copy(
            update={
                "how": "computed",
                "compile_s": None,
                "digest": "",
                "temporary_bytes": round(program.temporary_bytes * ratio),
                "output_bytes": round(program.output_bytes * ratio),
                "peak_bytes": 0,
                "flop": program.flop * ratio,
                "accessed_bytes": program.accessed_bytes * ratio,
            }
        )

    return image.model_copy(
        update={"size": str(size), "programs": tuple(map(scaled, image.programs))}
    )


def guess(preset: Preset, program: Program, size: ImageSize) -> Program:
    """A program that was not compiled: what the preset says that programs work with, by pixels."""
    working_bytes = preset.working_gib * GIB * _pixels(size) / max(map(_pixels, preset.image_sizes))
    if program.component in preset.components.text_encoders:
        working_bytes = 0
    return program.model_copy(
        update={"how": "computed", "temporary_bytes": round(working_bytes), "digest": ""}
    )


def _guessed(preset: Preset, size: ImageSize) -> tuple[Image, ...]:
    """Nothing was compiled: the weights, and a guess at each program."""
    parts = preset.components
    programs = tuple(
        guess(preset, Program(component=name, part=name), size)
        for name in (*parts.text_encoders, parts.denoiser, parts.vae)
    )
    return tuple(
        Image(layout=Layout.WHOLE, size=str(size), guided=guided, programs=programs)
        for guided in preset.guidance_states()
    )


def _pixels(size: ImageSize) -> int:
    return size.width_px * size.height_px


def weights_bytes(preset: Preset, plan: Plan | None) -> dict[str, int]:
    """What each component weighs: by the plan, else by the preset."""
    known = {name: round(gib * GIB) for name, gib in preset.weights_gib.items()}
    return (
        dict.fromkeys(preset.components.weighted, 0) | known | (plan.weights_bytes if plan else {})
    )


def share(preset: Preset, component: str, size_bytes: int, way: Way) -> int:
    """What one device holds of a component."""
    if way.strategy is not Strategy.SHARDED or component not in preset.components.sharded:
        return size_bytes
    whole = round(preset.whole_gib.get(component, 0.0) * GIB)
    return whole + (size_bytes - whole) // way.devices
