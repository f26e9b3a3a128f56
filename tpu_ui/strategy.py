"""Which strategy a model runs by: from what it weighs, what a device holds, and how many there are.

Arithmetic on a preset's figures. Knows no model by name, and nothing of how a strategy is done.
"""

import math
from dataclasses import dataclass
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
    text encoders that are not sharded run on the host. `reason` is one line."""

    strategy: Strategy
    devices: int = 1
    text_on_host: bool = False
    reason: str = ""


RESIDENT = Placement(Strategy.RESIDENT)


def unavailable_strategy(strategy: Strategy, machine: Machine) -> str | None:
    """Why `strategy` cannot run on this machine; None where it can."""
    if strategy is Strategy.SHARDED:
        if machine.device is Device.SOFTWARE_TPU:
            return "the software TPU is one device; ranks run on chips, or with --device cpu"
        if machine.devices < 2:
            return "it takes at least two chips; say how many with --chips"
    elif strategy is not Strategy.RESIDENT and machine.device is Device.CPU:
        return "on a plain CPU there is no chip to keep weights away from"
    return None


def choose(preset: Preset, wanted: Strategy | None, machine: Machine) -> Placement:
    """How `preset` runs on `machine`. `wanted` None: what moves least over the host link and fits.

    Raises StrategyError when nothing fits, or `wanted` cannot run or is not offered.
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
    if machine.memory_gib is None or not preset.weights_gib:
        unknown = "the device's memory" if machine.memory_gib is None else "the model's weight"
        return _placed(preset, able[0], machine, f"{unknown} sets no limit that is known")
    needs = {strategy: need_gib(preset, strategy, machine) for strategy in able}
    for strategy, need in needs.items():
        if need <= USABLE * machine.memory_gib:
            return _placed(preset, strategy, machine, _why(needs, strategy, machine.memory_gib))
    least = min(needs, key=lambda strategy: needs[strategy])
    raise StrategyError(
        f"{preset.title} does not fit: {least}, it needs {needs[least]:.1f} GiB of each device's"
        f" {machine.memory_gib:g}. Use a chip with more memory, or more chips."
    )


def need_gib(preset: Preset, strategy: Strategy, machine: Machine) -> float:
    """GiB that each device has to hold at the worst moment of an image.

    Where text encoders may run on the host, they are left out.
    """
    parts = preset.components
    gib = dict.fromkeys(parts.weighted, 0.0) | preset.weights_gib
    staying = gib[parts.denoiser] + gib[parts.vae]
    texts = [gib[name] for name in parts.text_encoders]
    match strategy:
        case Strategy.RESIDENT:
            need = staying + sum(texts)
        case Strategy.STAGED:
            need = staying
        case Strategy.SHARDED:
            gib |= {name: gib[name] / machine.devices for name in parts.sharded}
            need = sum(gib[name] for name in {parts.denoiser, parts.vae, *parts.sharded})
        case Strategy.OFFLOAD:
            need = max(gib[parts.denoiser], gib[parts.vae])
            return max(need + preset.working_gib, max(texts) + ENCODING_GIB)
        case _:
            assert_never(strategy)
    return need + preset.working_gib


def _as_wanted(preset: Preset, wanted: Strategy, machine: Machine) -> Placement:
    if wanted not in preset.strategies:
        offered = ", ".join(preset.strategies)
        raise StrategyError(f"{preset.title} is not offered {wanted}; choose from {offered}.")
    why = unavailable_strategy(wanted, machine)
    if why is not None:
        raise StrategyError(f"{preset.title} cannot run {wanted} here: {why}.")
    return _placed(preset, wanted, machine, "asked for")


def _placed(preset: Preset, strategy: Strategy, machine: Machine, reason: str) -> Placement:
    """The text encoders come to the device if there is room for them."""
    devices = machine.devices if strategy is Strategy.SHARDED else 1
    on_host = False
    if strategy in (Strategy.STAGED, Strategy.SHARDED):
        parts = preset.components
        apart = [name for name in parts.text_encoders if name not in parts.sharded or devices == 1]
        texts = [preset.weights_gib.get(name, 0.0) for name in apart]
        more = max(texts, default=0.0) if strategy is Strategy.STAGED else sum(texts)
        room = USABLE * (machine.memory_gib or math.inf)
        # While text is encoded, what a denoiser's or VAE's program works with is free.
        resting = need_gib(preset, strategy, machine) - preset.working_gib
        on_host = resting + more + ENCODING_GIB > room
        if apart:
            reason = f"{reason}; text is encoded {'on the host' if on_host else 'on the chip'}"
    return Placement(strategy, devices, on_host, reason)


def _why(needs: dict[Strategy, float], chosen: Strategy, memory_gib: float) -> str:
    text = f"needs {needs[chosen]:.1f} of {memory_gib:g} GiB"
    too_much = [f"{name} {need:.1f}" for name, need in needs.items() if need > memory_gib * USABLE]
    return f"{text}; too much: {', '.join(too_much)}" if too_much else text
