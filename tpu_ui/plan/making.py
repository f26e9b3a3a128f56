"""Making a plan: capture what images need, compile each program once, and say how far it is."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tpu_ui import plans
from tpu_ui.chips import Chip
from tpu_ui.errors import StrategyError
from tpu_ui.estimates import computed, guess, weights_bytes
from tpu_ui.plan import captured, compiler
from tpu_ui.plan.compiler import TELL_S
from tpu_ui.plans import Image, Layout, Plan, Program, Way
from tpu_ui.presets import Preset
from tpu_ui.shapes import Device, ImageSize, Strategy
from tpu_ui.strategy import Machine, choose

# With what is asked about it: what is done, of how many, and at what it is since when.
Tell = Callable[[int, int, str, float], None]


@dataclass(frozen=True)
class Bench:
    """Where plans are made: for so many chips, with kept results in `cache`. `tell` hears of
    progress: programs done, programs there are, what is going on, for how many seconds.
    `compiles`: what was not compiled before is; else it is computed. `fresh`: a plan that is kept
    with the app is made anew."""

    chip: Chip
    chips: int
    cache: Path
    tell: Tell
    compiles: bool = True
    fresh: bool = False

    @property
    def machine(self) -> Machine:
        devices = self.chips * self.chip.devices
        return Machine(Device.TPU, self.chip.memory_gib, devices, self.chip.short_name)


def planned(
    preset: Preset, wanted: Strategy | None, sizes: Sequence[ImageSize], bench: Bench
) -> Plan:
    """The preset's plan for these sizes and `wanted`, or for what `choose` takes by it.

    Raises PlanError if the machine does not exist or nothing can be captured.
    """
    compiler.topology(bench.chip, bench.chips)
    kept = None if bench.fresh else plans.usable(preset, bench.chip.short_name)
    plan = kept or Plan(
        model=preset.name,
        chip=bench.chip.short_name,
        versions=plans.versions(),
        weights_bytes=weights_bytes(preset, None),
    )
    plan = _with(plan, preset, Layout.WHOLE, sizes, bench)
    strategy = wanted
    if wanted is None:
        try:
            strategy = choose(preset, None, bench.machine, plan).strategy
        except StrategyError:
            strategy = None
    match strategy:
        case Strategy.OFFLOAD:
            return _with(plan, preset, Layout.BLOCKS, sizes, bench)
        case Strategy.SHARDED if bench.compiles:  # else computed from the whole programs
            return _with(plan, preset, Layout.SHARDED, sizes, bench)
        case _:
            return plan


def _covers(
    plan: Plan,
    preset: Preset,
    layout: Layout,
    devices: int,
    sizes: Iterable[ImageSize],
    bench: Bench,
) -> bool:
    """Whether a plan has the answer, with nothing computed in it that could be compiled."""
    taken = not_captured(preset, layout)
    return all(
        images
        and not (
            bench.compiles
            and any(
                one.how == "computed" and one.component not in taken
                for image in images
                for one in image.programs
            )
        )
        for images in (plan.compiled(layout, devices, size) for size in sizes)
    )


def not_captured(preset: Preset, layout: Layout) -> tuple[str, ...]:
    """Components whose programs cannot be had in this layout, and are computed from the whole ones:
    text encoders that are shared run eagerly, and read their inputs back on the way."""
    if layout is not Layout.SHARDED:
        return ()
    return tuple(
        name for name in preset.components.text_encoders if name in preset.components.sharded
    )


def _with(
    plan: Plan, preset: Preset, layout: Layout, sizes: Sequence[ImageSize], bench: Bench
) -> Plan:
    """The plan with the images of this layout, compiled if they were not."""
    devices = bench.machine.devices if layout is Layout.SHARDED else 1
    if _covers(plan, preset, layout, devices, sizes, bench):
        return plan
    absent = not_captured(preset, layout)
    images: list[tuple[Image, Path]] = []
    for size in sizes:
        began_s = time.monotonic()

        def waits(began_s: float = began_s, size: ImageSize = size) -> None:
            time.sleep(TELL_S)
            bench.tell(
                0,
                0,
                f"reading the programs of {preset.name} at {size}; may take minutes",
                time.monotonic() - began_s,
            )

        found, weights, folder = captured.images(preset, layout, size, bench.cache, waits, devices)
        plan = plan.model_copy(update={"weights_bytes": weights})
        images += [(_without(image, absent), folder) for image in found]
    tasks = {
        program.digest: _Task(
            preset,
            program,
            captured.program_file(folder, program.digest),
            ImageSize.parse(image.size),
            image.guided,
        )
        for image, folder in images
        for program in image.programs
    }
    known: dict[str, Program] = {}
    for done, (digest, task) in enumerate(tasks.items()):
        known[digest] = _compiled(task, bench, (done, len(tasks)))
    bench.tell(len(tasks), len(tasks), "compiled", 0.0)
    filled = [_filled(image, known) for image, _ in images]
    return plan.with_images([_with_computed(image, preset, plan, absent) for image in filled])


def _without(image: Image, components: Sequence[str]) -> Image:
    kept = tuple(one for one in image.programs if one.component not in components)
    return image.model_copy(update={"programs": kept})


def _with_computed(image: Image, preset: Preset, plan: Plan, components: Sequence[str]) -> Image:
    """The image with these components' programs, by the plan's whole ones."""
    way = Way(Strategy.SHARDED, image.devices)
    programs = [
        computed(preset, way, one, plan.weights_bytes)
        for whole in plan.compiled(Layout.WHOLE, 1, ImageSize.parse(image.size))
        if whole.guided == image.guided
        for one in whole.programs
        if one.component in components
    ]
    return image.model_copy(update={"programs": (*programs, *image.programs)})


@dataclass(frozen=True)
class _Task:
    """A program to compile, in `file`."""

    preset: Preset
    program: Program
    file: Path
    size: ImageSize
    guided: bool

    @property
    def name(self) -> str:
        guided = ", guidance on" if self.guided else ""
        return f"{self.program.component} ({self.program.part}{guided})"


def _compiled(task: _Task, bench: Bench, course: tuple[int, int]) -> Program:
    """The task's program with what the compiler says of it."""
    program = task.program
    chips = bench.chips if program.devices > 1 else 1
    topology = compiler.topology(bench.chip, chips)
    kept = compiler.kept(program, topology, bench.cache)
    if kept is not None:
        return kept
    if not bench.compiles:
        return guess(task.preset, program, task.size)
    began_s = time.monotonic()

    def waits() -> None:
        time.sleep(TELL_S)
        bench.tell(*course, f"compiling {task.name}", time.monotonic() - began_s)

    return compiler.compile_(program, task.file, topology, bench.cache, waits)


def _filled(image: Image, known: dict[str, Program]) -> Image:
    """The image with compiled programs in place of captured ones."""
    programs = [
        known[one.digest].model_copy(
            update={
                "component": one.component,
                "part": one.part,
                "copies": one.copies,
                "runs": one.runs,
                "devices": one.devices,
            }
        )
        for one in image.programs
    ]
    return image.model_copy(update={"programs": tuple(programs)})
