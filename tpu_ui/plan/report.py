"""A plan as text for people: programs, what is on the chip when, what crosses the link, verdict."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from tpu_ui import plans
from tpu_ui.chips import BY_NAME, Chip
from tpu_ui.errors import StrategyError
from tpu_ui.plan.compiler import TOPOLOGIES
from tpu_ui.plans import GIB, Plan, Program, Way
from tpu_ui.presets import Preset
from tpu_ui.shapes import Device, ImageSize
from tpu_ui.strategy import BY_LEAST_MOVED, USABLE, Machine, choose, need_gib, unavailable_strategy
from tpu_ui.timeline import Moment, Timeline, Traffic

HEAD = (
    *("program", "runs", "", "compile s", "arguments", "temporary", "code", "peak", "TFLOP", "GB"),
    "floor ms",
)
SIZES = (
    "Sizes in GiB. Floor: work over the chip's peak, or bytes over its bandwidth if that is more."
)


@dataclass(frozen=True)
class Verdict:
    """Whether an image fits, in words."""

    fits: bool
    text: str


def program_table(preset: Preset, timeline: Timeline, chip: Chip) -> str:
    """A line for each program of an image. An image runs a denoiser's as often as it has steps."""
    rows: list[tuple[str, ...]] = [HEAD]
    for moment in timeline.moments:
        row = _program_row(preset, moment, chip)
        if row not in rows:
            rows.append(row)
    return _aligned(rows)


def _program_row(preset: Preset, moment: Moment, chip: Chip) -> tuple[str, ...]:
    program = moment.program
    how = "on host" if moment.on_host else program.how
    runs = f"{program.runs}"
    if program.component == preset.components.denoiser:
        runs += " a step"
    first = (_name(preset, moment), runs, how)
    if program.how == "failed":
        return (*first, *["-"] * 4, f"{program.peak_bytes / GIB:.2f}", "-", "-", "-")
    if moment.on_host or not program.flop:
        return (*first, "-", *(_gib(one) for one in _sizes(program)), *["-"] * 4)
    seconds = "-" if program.compile_s is None else f"{program.compile_s:.0f}"
    peak = _gib(program.peak_bytes) if program.peak_bytes else "-"
    floor_s = chip.floor_s(program.flop, program.accessed_bytes)
    work = (f"{program.flop / 1e12:.2f}", f"{program.accessed_bytes / 1e9:.1f}")
    return (*first, seconds, *map(_gib, _sizes(program)), peak, *work, f"{floor_s * 1e3:.1f}")


def _sizes(program: Program) -> tuple[int, int, int]:
    return program.argument_bytes, program.temporary_bytes, program.code_bytes


def _name(preset: Preset, moment: Moment) -> str:
    name = moment.program.component
    if moment.program.devices > 1:
        name = f"{name}: sum over {moment.program.devices} devices"
    elif moment.program.part != name:
        name = f"{name}: {moment.program.part}"
    if len(preset.guidance_states()) > 1 and name.startswith(preset.components.denoiser):
        name += ", guided" if moment.guided else ", unguided"
    return name


def timeline_table(preset: Preset, timeline: Timeline) -> str:
    """What each device holds while each component runs; while the program of it that takes most,
    where it has several."""
    rows: list[tuple[str, ...]] = [("while this runs", "weights", "working", "kept", "GiB", "held")]
    parts = groupby(timeline.moments, lambda moment: (moment.guided, moment.program.component))
    for moment in (max(group, key=lambda one: one.total_bytes) for _, group in parts):
        held = sum(size_bytes for _, size_bytes in moment.held)
        names = ", ".join(name for name, _ in moment.held) or "nothing"
        where = " (on host)" if moment.on_host else ""
        row = (
            _name(preset, moment) + where,
            _gib(held),
            _gib(moment.working_bytes),
            _gib(moment.kept_bytes + moment.code_bytes),
            _gib(moment.total_bytes),
            names,
        )
        if row not in rows:
            rows.append(row)
    return _aligned(rows)


def traffic(timeline: Timeline) -> str:
    """Bytes over the host link, for a prompt that is new and for one that is kept."""

    def said(one: Traffic) -> str:
        return f"{_amount(one.to_chip_bytes)} to the chip, {_amount(one.to_host_bytes)} back"

    new, same = said(timeline.new_prompt), said(timeline.same_prompt)
    return f"Over the host link: new prompt {new}; same prompt again {same}."


def least_time(preset: Preset, timeline: Timeline, chip: Chip) -> str:
    """The floor of an image at the preset's default steps and guidance, in words; or empty."""
    guided = preset.guidance_states()[0]
    total_s = 0.0
    for moment in timeline.moments:
        program = moment.program
        if program.how == "failed" or not program.flop:
            return ""
        if moment.guided != guided or moment.on_host:
            continue
        runs = program.runs
        if program.component == preset.components.denoiser:
            runs *= preset.steps.default
        total_s += runs * chip.floor_s(program.flop, program.accessed_bytes)
    steps = f"{preset.steps.default} step{'s' if preset.steps.default > 1 else ''}"
    return f"No image of {steps} takes less than {total_s:.2g} s."


def verdict(preset: Preset, timeline: Timeline, machine: Machine, plan: Plan) -> Verdict:
    """Whether the image fits, with how much to spare; or what would fit."""
    assert machine.memory_gib is not None
    usable_gib = USABLE * machine.memory_gib
    peak_gib = timeline.peak_bytes / GIB
    refused = timeline.refused
    if any(program.peak_bytes == 0 for program in refused):
        peak_gib = math.inf
    way = _way(timeline.way)
    if peak_gib <= usable_gib:
        spare = usable_gib - peak_gib
        return Verdict(
            True,
            f"{timeline.size} fits, {way}: {peak_gib:.1f} of {machine.memory_gib:g} GiB, of which"
            f" {usable_gib:.1f} can be used; {spare:.1f} to spare.",
        )
    needs = "its programs do not compile"
    if math.isfinite(peak_gib):
        needs = f"it needs {peak_gib:.1f} of the {usable_gib:.1f} GiB that can be used"
    why = f" ({refused[0].component}: {refused[0].error})" if refused else ""
    other = _what_would(preset, timeline.size, machine, plan)
    return Verdict(
        False,
        f"{timeline.size} does not fit, {way}: {needs}{why}. {other}",
    )


def _what_would(preset: Preset, size: ImageSize, machine: Machine, plan: Plan) -> str:
    """A sentence on the nearest way in which this size fits."""
    for strategy in BY_LEAST_MOVED:
        if strategy not in preset.strategies or unavailable_strategy(strategy, machine):
            continue
        need = need_gib(preset, strategy, machine, plan, [size])
        if need <= USABLE * (machine.memory_gib or math.inf):
            return f"It would fit {strategy}, with {need:.1f} GiB."
    chip = BY_NAME[machine.chip or ""]
    for other, chips in _other_machines(chip, machine.devices // chip.devices):
        bigger = Machine(Device.TPU, other.memory_gib, chips * other.devices, other.short_name)
        known = plan if other is chip else plans.usable(preset, other.short_name)
        try:
            placed = choose(preset, None, bigger, known)
        except StrategyError:
            continue
        count = "one chip" if chips == 1 else f"{chips} chips"
        return f"It would fit {placed.strategy} on {count} of {other.short_name}."
    return "No machine that this app knows would hold it."


def _other_machines(chip: Chip, chips: int) -> Sequence[tuple[Chip, int]]:
    more = [(chip, count) for count in TOPOLOGIES[chip.short_name] if count > chips]
    others = [
        (BY_NAME[name], count)
        for name, counts in TOPOLOGIES.items()
        if name != chip.short_name
        for count in counts
    ]
    return (*more, *sorted(others, key=lambda pair: pair[1]))


def _way(way: Way) -> str:
    text = f"{way.strategy}"
    if way.devices > 1:
        text += f" on {way.devices} devices"
    return f"{text}, text on the host" if way.text_on_host else text


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.2f}"


def _amount(size_bytes: int) -> str:
    """Of any size, in words."""
    return f"{_gib(size_bytes)} GiB" if size_bytes >= GIB else f"{size_bytes / 2**20:.1f} MiB"


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    """Columns of the same width, but for the last; the first begins at the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][1:-1]
    left = max(len(row[0]) for row in rows)
    return "\n".join(
        "  ".join([first.ljust(left), *map(str.rjust, middle, widths), last])
        for first, *middle, last in rows
    )
