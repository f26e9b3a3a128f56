"""How a local dispatcher was set up. Frozen; knows nothing of what goes on."""

from dataclasses import dataclass
from pathlib import Path

from tpu_ui.errors import InvalidRequestError
from tpu_ui.presets import Preset
from tpu_ui.request import Limits
from tpu_ui.shapes import Device, Mode, shown

WARM_CHOICES = ("default", "all", "none")


@dataclass(frozen=True)
class Options:
    """`mode` None means each model's own default. `warm` is one of WARM_CHOICES.

    `first_pause_s` is how long a worker that died while it started is left alone; each further
    death doubles it.
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

    def preset(self, model: str) -> Preset:
        """Raises InvalidRequestError that names the models there are."""
        if model not in self.presets:
            names = ", ".join(self.presets)
            raise InvalidRequestError(f"There is no model {shown(model)}; choose from {names}.")
        return self.presets[model]

    def limits(self, model: str, device: Device | None) -> Limits:
        """What `model` takes on `device`; None: on the device that the choice will likely give."""
        if device is None:
            auto = self.device not in list(Device)
            device = Device.SOFTWARE_TPU if auto else Device(self.device)
        return self.preset(model).limits(device)

    def environment(self, index: int) -> tuple[tuple[str, str], ...]:
        """Added to the environment of worker `index`: with several chips, which one is its."""
        if self.device == Device.TPU and self.workers > 1:
            return (("TPU_VISIBLE_CHIPS", str(index)),)
        return ()
