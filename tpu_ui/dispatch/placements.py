"""By which strategy each model is to run: as the owner has chosen, else as the machine suggests.

And what a kept plan says of the model on this chip. Knows no worker and no job; the pool's lock
guards it.
"""

from dataclasses import replace

from tpu_ui import plans
from tpu_ui.dispatch.choices import Choices
from tpu_ui.dispatch.interface import SizeStatus
from tpu_ui.dispatch.jobs import Target
from tpu_ui.dispatch.options import Options
from tpu_ui.errors import StrategyError
from tpu_ui.plans import Plan
from tpu_ui.presets import Preset
from tpu_ui.request import Limits
from tpu_ui.shapes import Device, ImageSize, Mode, Strategy
from tpu_ui.strategy import Placement, choose, unavailable_sizes, unavailable_strategy
from tpu_ui.timeline import timeline

Unfit = tuple[tuple[ImageSize, str], ...]


class Placements:
    """A choice made while the app runs stands above the one it was started with, which holds for
    every model that offers it. It is kept for the next start, unless that names a strategy.
    `device` None is the one that is likely."""

    def __init__(self, options: Options, choices: Choices) -> None:
        self._options = options
        self._choices = choices
        self._chosen = dict(self._choices.strategies) if options.strategy is None else {}
        self._known: dict[object, Placement | StrategyError] = {}
        self._unfit: dict[object, Unfit] = {}

    def wish(self, preset: Preset) -> Strategy | None:
        """What the owner has chosen for this model; None: the one that moves least and fits."""
        chosen = self._chosen.get(preset.name, self._options.strategy)
        return chosen if chosen in preset.strategies else None

    def of(self, preset: Preset, device: Device | None) -> Placement:
        """How the model is to run. Raises StrategyError."""
        return self._choose(preset, self.wish(preset), device)

    def set(self, preset: Preset, strategy: Strategy | None, device: Device | None) -> None:
        """The owner's choice from now on. Raises StrategyError, and then the old one stands."""
        self._choose(preset, strategy, device)
        self._chosen[preset.name] = strategy
        self._choices.choose(preset.name, strategy)

    def offered(self, preset: Preset, device: Device | None) -> dict[Strategy, str | None]:
        """The model's strategies: None, or why not on this machine."""
        machine = self._options.machine(device)
        return {one: unavailable_strategy(one, machine) for one in map(Strategy, preset.strategies)}

    def limits(self, preset: Preset, device: Device | None) -> Limits:
        """What a caller may ask of the model, in the way that it is to run."""
        limits = self._options.limits(preset.name, device)
        limits = replace(limits, unavailable_sizes=self._too_large(preset, device))
        fit = limits.available_sizes
        default = limits.default_size
        return replace(limits, default_size=default if default in fit or not fit else fit[0])

    def planned(self, target: Target, device: Device | None, known: SizeStatus) -> SizeStatus:
        """What is `known` of a size, with what the plan says of it."""
        preset = self._options.preset(target.model)
        unfit = dict(self._too_large(preset, device)).get(target.size, "")
        plan = self._plan(preset, device)
        if plan is None or known.expected_s is not None or target.mode is not Mode.COMPILED:
            return replace(known, unfit=unfit)
        try:
            way = self.of(preset, device).way
        except StrategyError:
            return known
        seconds = timeline(preset, plan, way, target.size).compile_s
        return replace(known, unfit=unfit, expected_s=seconds, elsewhere=seconds is not None)

    def plan_note(self, preset: Preset, device: Device | None) -> str:
        """One sentence on the kept plan for this chip; empty if there is none."""
        chip = self._options.machine(device).chip
        plan = plans.read(preset.name, chip) if chip else None
        if plan is None:
            return ""
        if stale := plan.stale():
            return f"The plan for {chip} is not used: it was made with {'; '.join(stale)}."
        return (
            f"By the plan for {chip}, made with libtpu {plan.versions.get('libtpu', 'unknown')};"
            " its times were measured on another machine."
        )

    def _choose(self, preset: Preset, wanted: Strategy | None, device: Device | None) -> Placement:
        """Thought about once: the status asks all the time; neither machine nor plan changes."""
        key = preset.name, wanted, device
        if key not in self._known:
            machine, plan = self._options.machine(device), self._plan(preset, device)
            try:
                self._known[key] = choose(preset, wanted, machine, plan)
            except StrategyError as error:
                self._known[key] = error
        known = self._known[key]
        if isinstance(known, StrategyError):
            raise StrategyError(str(known))
        return known

    def _too_large(self, preset: Preset, device: Device | None) -> Unfit:
        """The sizes that cannot fit. What the owner has asked for by name is tried all the same."""
        if self.wish(preset) is not None:
            return ()
        key = preset.name, device
        if key not in self._unfit:
            machine, plan = self._options.machine(device), self._plan(preset, device)
            try:
                placement = self.of(preset, device)
            except StrategyError:  # the model is not going to be loaded, which is said elsewhere
                return ()
            self._unfit[key] = unavailable_sizes(preset, placement, machine, plan)
        return self._unfit[key]

    def _plan(self, preset: Preset, device: Device | None) -> Plan | None:
        return plans.usable(preset, self._options.machine(device).chip)
