"""Google's TPU chips: how they show themselves on the PCI bus, and how much each can hold.

Knows nothing of torch; what a chip is asked to do is decided elsewhere.
"""

from dataclasses import dataclass
from pathlib import Path

PCI_FOLDER = Path("/sys/bus/pci/devices")
GOOGLE_VENDOR = "0x1ae0"  # alone it is not enough: Google's network cards carry it too


@dataclass(frozen=True, slots=True)
class Chip:
    """One generation. `memory_gib` is the high-bandwidth memory of each device that torch sees,
    `peak_flops` its bfloat16 operations in a second, `bandwidth` the bytes that its memory gives in
    one; a chip shows itself as `devices` of them. Sources: Google's Cloud TPU pages (memory, peaks:
    https://docs.cloud.google.com/tpu/docs/v6e, .../v5p-training, .../tpu7x), torch_tpu's
    `_internal/utils/hardware.py` (PCI ids)."""

    name: str
    memory_gib: int
    peak_flops: float
    bandwidth: float
    devices: int = 1

    @property
    def short_name(self) -> str:
        """As on a command line: "v6e"."""
        return self.name.removeprefix("TPU ")

    def floor_s(self, flop: float, accessed_bytes: float) -> float:
        """Less time than this no program takes that does so much, and reads and writes so much."""
        return max(flop / self.peak_flops, accessed_bytes / self.bandwidth)


CHIPS = {
    "0x005e": Chip("TPU v4", 32, 275e12, 1228e9),
    "0x0063": Chip("TPU v5e", 16, 197e12, 819e9),
    "0x0062": Chip("TPU v5p", 95, 459e12, 2765e9),
    "0x006f": Chip("TPU v6e", 32, 918e12, 1640e9),
    "0x0076": Chip("TPU v7x", 96, 2307e12 / 2, 7380e9 / 2, devices=2),
}
BY_NAME = {chip.short_name: chip for chip in CHIPS.values()}


def on_the_bus(folder: Path | None = None) -> tuple[Chip, ...]:
    """The TPU chips of this machine."""
    found = []
    for entry in sorted((folder or PCI_FOLDER).glob("*")):
        try:
            vendor = (entry / "vendor").read_text().strip()
            device = (entry / "device").read_text().strip()
        except OSError:
            continue
        if vendor == GOOGLE_VENDOR and device in CHIPS:
            found.append(CHIPS[device])
    return tuple(found)
