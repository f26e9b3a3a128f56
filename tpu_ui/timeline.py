"""What is on a chip at each moment of an image, and what crosses the host link for it.

Arithmetic on a plan, and where a plan says nothing, on the preset's figures. Knows no model by name
and no torch; a test holds that components are where `tpu_ui.runtime.placement` has them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from tpu_ui.estimates import images_of, share, weights_bytes
from tpu_ui.plans import Image, Plan, Program, Way
from tpu_ui.presets import Preset
from tpu_ui.shapes import ImageSize, Strategy

ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, slots=True)
class Moment:
    """While `program` runs. `held`: bytes of each component on one device; `kept_bytes`: embeddings
    of recent prompts; `code_bytes`: the loaded programs; `working_bytes`: what this one takes
    beside. `on_host`: it runs there, and takes nothing of the device."""

    program: Program
    guided: bool
    held: tuple[tuple[str, int], ...]
    kept_bytes: int
    code_bytes: int
    working_bytes: int
    on_host: bool = False

    @property
    def total_bytes(self) -> int:
        held = sum(size_bytes for _, size_bytes in self.held)
        return held + self.kept_bytes + self.code_bytes + self.working_bytes


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes over the host link for one image: weights, embeddings, the picture."""

    to_chip_bytes: int
    to_host_bytes: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """One image of `size`, in each state of guidance that there is."""

    size: ImageSize
    way: Way
    images: tuple[Image, ...]
    moments: tuple[Moment, ...]
    new_prompt: Traffic
    same_prompt: Traffic

    @property
    def peak_bytes(self) -> int:
        """What a device has to hold at the worst moment."""
        return max(moment.total_bytes for moment in self.moments)

    @property
    def refused(self) -> tuple[Program, ...]:
        """Programs that the compiler would not compile."""
        refused = {
            moment.program.digest: moment.program
            for moment in self.moments
            if moment.program.how == "failed" and not moment.on_host
        }
        return tuple(refused.values())

    @property
    def compile_s(self) -> float | None:
        """Seconds to compile each program once, where that is known of all of them."""
        programs = {program.digest: program for one in self.images for program in one.programs}
        seconds = [program.compile_s for program in programs.values()]
        known = [one for one in seconds if one is not None]
        return sum(known) if len(known) == len(seconds) else None


def timeline(preset: Preset, plan: Plan | None, way: Way, size: ImageSize) -> Timeline:
    """The image of `size` under `way`, from what the plan has, else computed."""
    images = images_of(preset, plan, way, size)
    weights = weights_bytes(preset, plan)
    on_chip = {name: share(preset, name, size_bytes, way) for name, size_bytes in weights.items()}
    loaded = {
        program.digest or program.component: program.code_bytes
        for one in images
        for program in one.programs
        if not _on_host(preset, way, program.component)
    }
    code_bytes = sum(loaded.values())
    kept_bytes = max(one.kept_bytes for one in images)
    moments = [
        _moment(preset, way, one, program, on_chip, kept_bytes, code_bytes)
        for one in images
        for program in one.programs
    ]
    new_prompt, same_prompt = _traffic(preset, way, size, images, weights)
    return Timeline(size, way, images, tuple(moments), new_prompt, same_prompt)


def _moment(
    preset: Preset,
    way: Way,
    image: Image,
    program: Program,
    weights: dict[str, int],
    kept_bytes: int,
    code_bytes: int,
) -> Moment:
    on_host = _on_host(preset, way, program.component)
    there = present(preset, way, None if on_host else program.component)
    held = tuple((name, weights[name]) for name in preset.components.weighted if name in there)
    working_bytes = 0
    if program.how == "failed" and not on_host:
        working_bytes = max(0, program.peak_bytes - weights[program.component])
    elif not on_host:
        # What of the arguments is not weights; or the chip's layout takes more for these.
        inputs = max(0, program.argument_bytes - weights[program.component])
        working_bytes = inputs + program.working_bytes
    return Moment(program, image.guided, held, kept_bytes, code_bytes, working_bytes, on_host)


def present(preset: Preset, way: Way, running: str | None) -> frozenset[str]:
    """The components on the device while `running` runs there; None: while nothing does."""
    parts = preset.components
    at_work = {running} if running else set()
    match way.strategy:
        case Strategy.RESIDENT:
            return frozenset(parts.weighted)
        case Strategy.STAGED:
            return frozenset({parts.denoiser, parts.vae} | at_work)
        case Strategy.OFFLOAD:
            return frozenset(at_work)
        case Strategy.SHARDED:
            absent = {name for name in parts.text_encoders if _on_host(preset, way, name)}
            return frozenset(set(parts.weighted) - absent)
        case _:
            assert_never(way.strategy)


def _on_host(preset: Preset, way: Way, component: str) -> bool:
    parts = preset.components
    if component not in parts.text_encoders or not way.text_on_host:
        return False
    return way.strategy is not Strategy.SHARDED or component not in parts.sharded


def _traffic(
    preset: Preset,
    way: Way,
    size: ImageSize,
    images: Iterable[Image],
    weights: dict[str, int],
) -> tuple[Traffic, Traffic]:
    """For a prompt that is new, and for one whose embeddings are kept."""
    parts = preset.components
    picture = 3 * size.width_px * size.height_px * ITEM_BYTES[preset.dtype]
    embeddings = max(one.embedding_bytes for one in images)
    texts = sum(weights[name] for name in parts.text_encoders)
    every_image = new = 0  # weights that come and go again
    if way.strategy is Strategy.OFFLOAD:
        every_image, new = weights[parts.denoiser] + weights[parts.vae], texts
    elif way.strategy is Strategy.STAGED and not way.text_on_host:
        new = texts
    # What an encoder gives goes to the host, is put together there, and comes back.
    encoded_here = 0 if all(_on_host(preset, way, name) for name in parts.text_encoders) else 1
    return (
        Traffic(
            every_image + new + embeddings, every_image + new + encoded_here * embeddings + picture
        ),
        Traffic(every_image, every_image + picture),
    )
