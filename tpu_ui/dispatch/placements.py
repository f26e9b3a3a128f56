"""By which strategy each model is to run: as the owner has chosen, else as the machine suggests.

Knows no worker and no job; the pool's lock guards it.
"""

from tpu_ui.dispatch.options import Options
from tpu_ui.presets import Preset
from tpu_ui.shapes import Device, Strategy
from tpu_ui.strategy import Placement, choose, unavailable_strategy


class Placements:
    """A choice made while the app runs stands above the one it was started with, which holds for
    every model that offers it. `device` None is the one that is likely."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._chosen: dict[str, Strategy | None] = {}

    def wish(self, preset: Preset) -> Strategy | None:
        """What the owner has chosen for this model; None: the one that moves least and fits."""
        started_with = self._options.strategy
        offered = started_with if started_with in preset.strategies else None
        return self._chosen.get(preset.name, offered)

    def of(self, preset: Preset, device: Device | None) -> Placement:
        """How the model is to run. Raises StrategyError."""
        return choose(preset, self.wish(preset), self._options.machine(device))

    def set(self, preset: Preset, strategy: Strategy | None, device: Device | None) -> None:
        """The owner's choice from now on. Raises StrategyError, and then the old one stands."""
        choose(preset, strategy, self._options.machine(device))
        self._chosen[preset.name] = strategy

    def offered(self, preset: Preset, device: Device | None) -> dict[Strategy, str | None]:
        """The model's strategies: None, or why not on this machine."""
        machine = self._options.machine(device)
        return {one: unavailable_strategy(one, machine) for one in map(Strategy, preset.strategies)}
