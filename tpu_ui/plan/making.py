"""Making a plan: capture what images need, compile each program once, and say how far it is."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tpu_ui import plans
from tpu_ui.chips import Chip
from tpu_ui.errors import StrategyError
from tpu_ui.estimates import guess, weights_bytes
from tpu_ui.plan import captured, compiler
from tpu_ui.plan.compiler import TELL_S
from tpu_ui.plans import Image, Layout, Plan, Program
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
    if kept is not None and _covers(kept, wanted, sizes, bench.compiles):
        return kept
    plan = Plan(
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
    if strategy is Strategy.OFFLOAD:
        plan = _with(plan, preset, Layout.BLOCKS, sizes, bench)
    return plan


def _covers(plan: Plan, wanted: Strategy | None, sizes: Iterable[ImageSize], in_full: bool) -> bool:
    """Whether a kept plan has the answer; `in_full`: with nothing computed in it."""
    layout = Layout.BLOCKS if wanted is Strategy.OFFLOAD else Layout.WHOLE
    return all(
        images and not (in_full and any(p.how == "computed" for i in images for p in i.programs))
        for images in (plan.compiled(layout, 1, size) for size in sizes)
    )


def _with(
    plan: Plan, preset: Preset, layout: Layout, sizes: Iterable[ImageSize], bench: Bench
) -> Plan:
    """The plan with the images of this layout, compiled."""
    images: list[tuple[Image, Path]] = []
    for size in sizes:
        began_s = time.monotonic()

        def waits(began_s: float = began_s, size: ImageSize = size) -> None:
            time.sleep(TELL_S)
            bench.tell(0, 0, f"capturing {preset.name} at {size}", time.monotonic() - began_s)

        found, weights, folder = captured.images(preset, layout, size, bench.cache, waits)
        plan = plan.model_copy(update={"weights_bytes": weights})
        images += [(image, folder) for image in found]
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
    return plan.with_images(_filled(image, known) for image, _ in images)


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
    topology = compiler.topology(bench.chip, 1)
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
            }
        )
        for one in image.programs
    ]
    return image.model_copy(update={"programs": tuple(programs)})
