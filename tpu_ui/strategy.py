"""Which strategy a model runs by: from what it weighs, what a device holds, and how many there are.

Arithmetic on a preset's figures. Knows no model by name, and nothing of how a strategy is done.
"""

import math
from dataclasses import dataclass, field
from typing import assert_never

from tpu_ui.errors import StrategyError
from tpu_ui.presets import Preset
from tpu_ui.shapes import Device, Strategy

# What XLA leaves to programs: a v6e chip of 32 GiB has 31.25 (libtpu 0.0.52).
USABLE = 0.97
ENCODING_GIB = 0.5  # beside a text encoder's weights while it runs (T5-XXL, 512 tokens: 0.1)

# By what crosses the host link for an image: nothing, nothing, text, everything.
BY_LEAST_MOVED = (Strategy.RESIDENT, Strategy.SHARDED, Strategy.STAGED, Strategy.OFFLOAD)


@dataclass(frozen=True, slots=True)
class Machine:
    """What there is to run on. `memory_gib` is one device's; None where it is the host's own."""

    device: Device
    memory_gib: float | None
    devices: int


@dataclass(frozen=True, slots=True)
class Placement:
    """A strategy with its details. `devices`: how many it uses, one process each. `text_on_host`:
    text encoders that are not sharded run on the host. `reason`, one line, tells no two apart."""

    strategy: Strategy
    devices: int = 1
    text_on_host: bool = False
    reason: str = field(default="", compare=False)


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


def choose(preset: Preset, wanted: Strategy | None, machine: Machine) -> Placement:
    """How `preset` runs on `machine`. `wanted` None: what moves least over the host link and fits.

    What is wanted is done though it may not fit. Raises StrategyError when nothing fits, or
    `wanted` cannot run or is not offered.
    """
    if wanted is not None:
        return _as_wanted(preset, wanted, machine)
    able = [
        strategy
        for strategy in BY_LEAST_MOVED
        if strategy in preset.strategies and unavailable_strategy(strategy, machine) is None
    ]
    if not able:
        offered = ", ".join(preset.strategies)
        raise StrategyError(f"{preset.title} cannot run on {machine.device}: it offers {offered}.")
    if machine.memory_gib is None:
        return _placed(preset, able[0], machine, "no limit is known for this device's memory")
    if not preset.weights_gib:
        return _placed(preset, able[0], machine, "the preset does not say what the model weighs")
    needs: dict[Strategy, float] = {}
    for strategy in able:
        too_much = [f"{name} would need {need:.1f}" for name, need in needs.items()]
        needs[strategy] = need_gib(preset, strategy, machine)
        if needs[strategy] <= USABLE * machine.memory_gib:
            reason = "; ".join([_needed(preset, strategy, machine), *too_much])
            return _placed(preset, strategy, machine, reason)
    least = min(needs, key=lambda strategy: needs[strategy])
    more = ", or more chips" if Strategy.SHARDED in preset.strategies else ""
    raise StrategyError(
        f"{preset.title} does not fit: {least}, it needs {needs[least]:.1f} GiB of each device's"
        f" {machine.memory_gib:g}. Use a chip with more memory{more}."
    )


def need_gib(preset: Preset, strategy: Strategy, machine: Machine) -> float:
    """GiB that each device has to hold at the worst moment of an image.

    Where text encoders may run on the host, they are left out.
    """
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


def _as_wanted(preset: Preset, wanted: Strategy, machine: Machine) -> Placement:
    if wanted not in preset.strategies:
        offered = ", ".join(preset.strategies)
        raise StrategyError(f"{preset.title} is not offered {wanted}; choose from {offered}.")
    why = unavailable_strategy(wanted, machine)
    if why is not None:
        raise StrategyError(f"{preset.title} cannot run {wanted} here: {why}.")
    reason = "asked for"
    if machine.memory_gib is not None and preset.weights_gib:
        reason = f"{reason}; {_needed(preset, wanted, machine)}"
        if need_gib(preset, wanted, machine) > USABLE * machine.memory_gib:
            reason = f"{reason}, which is too much"
    return _placed(preset, wanted, machine, reason)


def _placed(preset: Preset, strategy: Strategy, machine: Machine, reason: str) -> Placement:
    """The text encoders come to the device if there is room for them."""
    if strategy in (Strategy.RESIDENT, Strategy.OFFLOAD):
        return Placement(strategy, reason=reason)
    parts, need = preset.components, need_gib(preset, strategy, machine)
    sharded = parts.sharded if strategy is Strategy.SHARDED else ()
    whole = [name for name in parts.text_encoders if name not in sharded]
    texts = [preset.weights_gib.get(name, 0.0) for name in whole]
    if strategy is Strategy.STAGED:
        # They come one at a time, while what the denoiser's and VAE's programs work with is free.
        need += max(texts) + ENCODING_GIB - preset.working_gib
    else:
        need += sum(texts)  # and stay
    on_host = bool(texts) and need > USABLE * (machine.memory_gib or math.inf)
    if texts:
        reason = f"{reason}; text is encoded {'on the host' if on_host else 'on the chip'}"
    devices = machine.devices if strategy is Strategy.SHARDED else 1
    return Placement(strategy, devices, on_host, reason)


def _needed(preset: Preset, strategy: Strategy, machine: Machine) -> str:
    text = f"needs {need_gib(preset, strategy, machine):.1f} of {machine.memory_gib:g} GiB"
    several = strategy is Strategy.SHARDED
    return f"{text} on each of {machine.devices} devices" if several else text
