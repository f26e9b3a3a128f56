"""How a local dispatcher was set up. Frozen; knows nothing of what goes on."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from tpu_ui.chips import Chip, on_the_bus
from tpu_ui.errors import InvalidRequestError, SettingsError
from tpu_ui.presets import Preset
from tpu_ui.request import Limits
from tpu_ui.shapes import Device, Mode, Strategy, shown
from tpu_ui.strategy import Machine
from tpu_ui.styles import Suiting

WARM_CHOICES = ("default", "all", "none")


@dataclass(frozen=True)
class Options:
    """`mode` is the default of every model that has it; None: each model's own. `warm` is one of
    WARM_CHOICES.

    `first_pause_s` is how long a worker that died while it started is left alone; each further
    death doubles it. `strategy` None means the one that moves least; `chips`, which is a worker's
    own, all of the machine's, shared out.
    """

    presets: dict[str, Preset]
    model: str
    mode: Mode | None
    device: str
    warm: str
    locked: bool
    workers: int
    outputs: Path
    cache: Path
    runtime: str
    queue_limit: int
    first_pause_s: float
    strategy: Strategy | None = None
    chips: int | None = None
    styles: Suiting = field(default_factory=dict)

    def preset(self, model: str) -> Preset:
        """Raises InvalidRequestError that names the models there are."""
        if model not in self.presets:
            names = ", ".join(self.presets)
            raise InvalidRequestError(f"There is no model {shown(model)}; choose from {names}.")
        return self.presets[model]

    def limits(self, model: str, device: Device | None) -> Limits:
        """What `model` takes on `device`; None: on the device that the choice will likely give."""
        limits = self.preset(model).limits(device or self.likely_device())
        limits = replace(limits, styles=self.styles.get(model, ()))
        return replace(limits, default_mode=self.mode) if self.mode in limits.modes else limits

    def likely_device(self) -> Device:
        """What the choice of device will give, before a worker has said so."""
        if self.device in list(Device):
            return Device(self.device)
        return Device.TPU if self._on_the_bus else Device.SOFTWARE_TPU

    def machine(self, device: Device | None) -> Machine:
        """What one worker has to itself; `device` None: on the one that is likely."""
        device = device or self.likely_device()
        found = self._on_the_bus if device is Device.TPU else ()
        if not found:
            return Machine(device, None, self.chips or 1)
        devices = self._own_chips * found[0].devices
        return Machine(device, found[0].memory_gib, devices, found[0].short_name)

    def check_chips(self) -> None:
        """Raises SettingsError where the workers would take more chips than there are."""
        found, taken = len(self._on_the_bus), self.workers * self._own_chips
        if found and self.likely_device() is Device.TPU and taken > found:
            raise SettingsError(
                f"--workers {self.workers} with {self._own_chips} chip(s) each would take {taken}"
                f" chips, and there are {found}. Choose fewer with --workers or --chips."
            )

    def environment(self, index: int) -> tuple[tuple[str, str], ...]:
        """Added to the environment of worker `index`: which chips are its, where not all are."""
        all_of_them = self.workers == 1 and self.chips in (None, len(self._on_the_bus))
        if self.likely_device() is not Device.TPU or all_of_them:
            return ()
        numbers = range(index * self._own_chips, (index + 1) * self._own_chips)
        return (("TPU_VISIBLE_CHIPS", ",".join(map(str, numbers))),)

    @cached_property
    def _on_the_bus(self) -> tuple[Chip, ...]:
        """Looked for once: the status asks all the time, and they stay."""
        return on_the_bus()

    @property
    def _own_chips(self) -> int:
        return self.chips or max(len(self._on_the_bus) // self.workers, 1)
