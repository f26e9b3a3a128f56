"""Which strategy a model runs by: from what it takes, what a device holds, and how many there are.

Arithmetic on a plan where there is one for the chip, else on the preset's figures. Knows no model
by name, and nothing of how a strategy is done.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from tpu_ui.errors import StrategyError
from tpu_ui.plans import GIB, Plan, Way
from tpu_ui.presets import Preset
from tpu_ui.shapes import Device, ImageSize, Strategy
from tpu_ui.timeline import timeline

# What XLA leaves to programs: a v6e chip of 32 GiB has 31.25 (libtpu 0.0.52).
USABLE = 0.97
ENCODING_GIB = 0.5  # beside a text encoder's weights while it runs (T5-XXL, 512 tokens: 0.1)

# By what crosses the host link for an image: nothing, nothing, text, everything.
BY_LEAST_MOVED = (Strategy.RESIDENT, Strategy.SHARDED, Strategy.STAGED, Strategy.OFFLOAD)


@dataclass(frozen=True, slots=True)
class Machine:
    """What there is to run on. `memory_gib` is one device's; None where it is the host's own.
    `chip` is the short name of a TPU ("v6e"), by which plans are kept."""

    device: Device
    memory_gib: float | None
    devices: int
    chip: str | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """A strategy with its details. `devices`: how many it uses, one process each. `text_on_host`:
    text encoders that are not sharded run on the host. `reason`, one line, and `needs`, a part of
    it ("needs 23.1 of 32 GiB"), tell no two apart."""

    strategy: Strategy
    devices: int = 1
    text_on_host: bool = False
    reason: str = field(default="", compare=False)
    needs: str = field(default="", compare=False)

    @property
    def way(self) -> Way:
        return Way(self.strategy, self.devices, self.text_on_host)


RESIDENT = Placement(Strategy.RESIDENT)


def unavailable_strategy(strategy: Strategy, machine: Machine) -> str | None:
    """Why `strategy` cannot run on this machine; None where it can."""
    if strategy is Strategy.SHARDED:
        if machine.device is Device.SOFTWARE_TPU:
            return "the software TPU is one device; ranks run on chips, or with --device cpu"
        if machine.devices < 2:
            remedy = "; say how many processes with --chips" if machine.device is Device.CPU else ""
            return f"it takes several devices, and a worker has one{remedy}"
    elif strategy is not Strategy.RESIDENT and machine.device is Device.CPU:
        return "on a plain CPU there is no chip to keep weights away from"
    return None


def choose(
    preset: Preset, wanted: Strategy | None, machine: Machine, plan: Plan | None = None
) -> Placement:
    """How `preset` runs on `machine`. `wanted` None: what moves least over the host link and fits.

    Fits at every size; where a plan says that nothing does, at the default size. `plan`: of the
    preset for the machine's chip. What is wanted is done though it may not fit. Raises
    StrategyError when nothing fits, or `wanted` cannot run or is not offered.
    """
    if wanted is not None:
        return _as_wanted(preset, wanted, machine, plan)
    able = [
        strategy
        for strategy in BY_LEAST_MOVED
        if strategy in preset.strategies and unavailable_strategy(strategy, machine) is None
    ]
    if not able:
        offered = ", ".join(preset.strategies)
        raise StrategyError(f"{preset.title} cannot run on {machine.device}: it offers {offered}.")
    if machine.memory_gib is None:
        return _placed(preset, able[0], machine, plan, "no limit is known for this device's memory")
    if plan is None and not preset.weights_gib:
        reason = "the preset does not say what the model weighs"
        return _placed(preset, able[0], machine, plan, reason)
    default = preset.image_sizes[:1]
    for sizes in (preset.image_sizes, default) if plan else (preset.image_sizes,):
        needs: dict[Strategy, float] = {}
        for strategy in able:
            too_much = [f"{name} would need {_gib(need)}" for name, need in needs.items()]
            needs[strategy] = need_gib(preset, strategy, machine, plan, sizes)
            if needs[strategy] <= USABLE * machine.memory_gib:
                needed = _needed(preset, strategy, machine, plan, sizes)
                reason = "; ".join([needed, *too_much])
                return _placed(preset, strategy, machine, plan, reason, needed)
    least = min(needs, key=lambda strategy: needs[strategy])
    more = ", or more chips" if Strategy.SHARDED in preset.strategies else ""
    raise StrategyError(
        f"{preset.title} does not fit: {least}, it needs {_gib(needs[least])} GiB of each device's"
        f" {machine.memory_gib:g}. Use a chip with more memory{more}."
    )


def need_gib(
    preset: Preset,
    strategy: Strategy,
    machine: Machine,
    plan: Plan | None = None,
    sizes: Sequence[ImageSize] = (),
) -> float:
    """GiB that each device has to hold at the worst moment of an image of these sizes; all by
    default. Where text encoders may run on the host, they are left out.

    Infinite where the compiler refused a program, and has not said for how much memory.
    """
    if plan is None:
        return _preset_gib(preset, strategy, machine)
    text_on_host = strategy in (Strategy.STAGED, Strategy.SHARDED)
    way = Way(strategy, _devices(strategy, machine), text_on_host)
    return max(_plan_gib(preset, plan, way, size) for size in sizes or preset.image_sizes)


def unavailable_sizes(
    preset: Preset, placement: Placement, machine: Machine, plan: Plan | None
) -> tuple[tuple[ImageSize, str], ...]:
    """The sizes that cannot fit in this placement, with the reason for each. Only a plan tells."""
    memory_gib = machine.memory_gib
    if plan is None or memory_gib is None:
        return ()
    needs = {size: _plan_gib(preset, plan, placement.way, size) for size in preset.image_sizes}
    return tuple(
        (size, f"it needs {_gib(need)} of {memory_gib:g} GiB")
        for size, need in needs.items()
        if need > USABLE * memory_gib
    )


def _devices(strategy: Strategy, machine: Machine) -> int:
    return machine.devices if strategy is Strategy.SHARDED else 1


def _plan_gib(preset: Preset, plan: Plan, way: Way, size: ImageSize) -> float:
    image = timeline(preset, plan, way, size)
    if any(program.peak_bytes == 0 for program in image.refused):
        return math.inf
    return image.peak_bytes / GIB


def _preset_gib(preset: Preset, strategy: Strategy, machine: Machine) -> float:
    """From the preset's own figures, at the largest size."""
    parts = preset.components
    gib = dict.fromkeys(parts.weighted, 0.0) | preset.weights_gib
    texts = [gib[name] for name in parts.text_encoders]
    match strategy:
        case Strategy.RESIDENT:
            held = sum(gib.values())
        case Strategy.STAGED:
            held = gib[parts.denoiser] + gib[parts.vae]
        case Strategy.SHARDED:
            for name in parts.sharded:
                whole = preset.whole_gib.get(name, 0.0)
                gib[name] = whole + (gib[name] - whole) / machine.devices
            held = sum(gib[name] for name in {parts.denoiser, parts.vae, *parts.sharded})
        case Strategy.OFFLOAD:
            held = max(gib[parts.denoiser], gib[parts.vae])
            return max(held + preset.working_gib, max(texts) + ENCODING_GIB)
        case _:
            assert_never(strategy)
    return held + preset.working_gib


def _as_wanted(preset: Preset, wanted: Strategy, machine: Machine, plan: Plan | None) -> Placement:
    if wanted not in preset.strategies:
        offered = ", ".join(preset.strategies)
        raise StrategyError(f"{preset.title} is not offered {wanted}; choose from {offered}.")
    why = unavailable_strategy(wanted, machine)
    if why is not None:
        raise StrategyError(f"{preset.title} cannot run {wanted} here: {why}.")
    reason, needed = "asked for", ""
    if machine.memory_gib is not None and (plan or preset.weights_gib):
        sizes = preset.image_sizes
        needed = _needed(preset, wanted, machine, plan, sizes)
        reason = f"{reason}; {needed}"
        if need_gib(preset, wanted, machine, plan, sizes) > USABLE * machine.memory_gib:
            reason = f"{reason}, which is too much"
    return _placed(preset, wanted, machine, plan, reason, needed)


def _placed(
    preset: Preset,
    strategy: Strategy,
    machine: Machine,
    plan: Plan | None,
    reason: str,
    needs: str = "",
) -> Placement:
    """The text encoders come to the device if there is room for them."""
    if strategy in (Strategy.RESIDENT, Strategy.OFFLOAD):
        return Placement(strategy, reason=reason, needs=needs)
    parts = preset.components
    sharded = parts.sharded if strategy is Strategy.SHARDED else ()
    whole = [name for name in parts.text_encoders if name not in sharded]
    on_host = bool(whole) and (
        _gib_with_text(preset, strategy, machine, plan, whole)
        > USABLE * (machine.memory_gib or math.inf)
    )
    if whole:
        reason = f"{reason}; text is encoded {'on the host' if on_host else 'on the chip'}"
    return Placement(strategy, _devices(strategy, machine), on_host, reason, needs)


def _gib_with_text(
    preset: Preset, strategy: Strategy, machine: Machine, plan: Plan | None, whole: list[str]
) -> float:
    """What each device has to hold if text encoders run there; `whole` are not sharded."""
    if plan is not None:
        # The sizes that fit with text on the host are those that are to fit with it here.
        way = Way(strategy, _devices(strategy, machine))
        limit = USABLE * (machine.memory_gib or math.inf)
        on_host = replace(way, text_on_host=True)
        sizes = [s for s in preset.image_sizes if _plan_gib(preset, plan, on_host, s) <= limit]
        return max((_plan_gib(preset, plan, way, size) for size in sizes), default=math.inf)
    need = _preset_gib(preset, strategy, machine)
    texts = [preset.weights_gib.get(name, 0.0) for name in whole]
    if strategy is Strategy.STAGED:
        # They come one at a time, while what the denoiser's and VAE's programs work with is free.
        return need + max(texts) + ENCODING_GIB - preset.working_gib
    return need + sum(texts)  # and stay


def _gib(need: float) -> str:
    return f"{need:.1f}" if math.isfinite(need) else "more memory than any chip has"


def _needed(
    preset: Preset,
    strategy: Strategy,
    machine: Machine,
    plan: Plan | None,
    sizes: Sequence[ImageSize],
) -> str:
    need = _gib(need_gib(preset, strategy, machine, plan, sizes))
    several = strategy is Strategy.SHARDED
    text = f"needs {need} of {machine.memory_gib:g} GiB"
    text = f"{text} on each of {machine.devices} devices" if several else text
    return f"{text} by its plan" if plan else text
