"""Google's TPU chips: how they show themselves on the PCI bus, and how much each can hold.

Knows nothing of torch; what a chip is asked to do is decided elsewhere.
"""

from dataclasses import dataclass
from pathlib import Path

PCI_FOLDER = Path("/sys/bus/pci/devices")
GOOGLE_VENDOR = "0x1ae0"  # alone it is not enough: Google's network cards carry it too


@dataclass(frozen=True, slots=True)
class Chip:
    """One generation. `memory_gib` is the high-bandwidth memory of each device that torch sees; a
    chip shows itself as `devices` of them. Sources: Google's Cloud TPU pages (memory), torch_tpu's
    `_internal/utils/hardware.py` (PCI ids)."""

    name: str
    memory_gib: int
    devices: int = 1


CHIPS = {
    "0x005e": Chip("TPU v4", 32),
    "0x0063": Chip("TPU v5e", 16),
    "0x0062": Chip("TPU v5p", 95),
    "0x006f": Chip("TPU v6e", 32),
    "0x0076": Chip("TPU v7x", 96, devices=2),
}


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
