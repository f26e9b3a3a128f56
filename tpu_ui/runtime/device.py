"""Which device this process runs on, and what it is. Decides once, before torch is imported.

torch_tpu reads `TPU_LIBRARY_PATH` while torch is imported, so the choice between a chip and the
software TPU is made from the PCI bus and not by asking torch.
"""

import logging
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from tpu_ui import chips
from tpu_ui.errors import DeviceUnavailableError
from tpu_ui.protocol import Memory
from tpu_ui.runtime import software_tpu
from tpu_ui.shapes import Device

if TYPE_CHECKING:
    import torch

log = logging.getLogger(__name__)

VERSIONED = ("torch", "torch_tpu", "libtpu", "diffusers", "transformers", "accelerate")


@dataclass(frozen=True)
class OpenDevice:
    """A device that works.

    `programs_compiled` counts programs handed to the compiler since the start, eager operations
    included; `program_names(n)` names those after the first n, where that can be known.
    `memory_bytes` is None where the device does not tell. `compiler` is torch.compile's backend.
    """

    device: Device
    torch_device: "torch.device"
    chip: str
    memory_bytes: int | None
    reason: str
    programs_compiled: Callable[[], int]
    program_names: Callable[[int], tuple[str, ...]]
    compiler: str = "tpu"

    def send(self, tensor: "torch.Tensor") -> None:
        """Have the operations that make `tensor` sent to the device; waits for nothing.

        Left alone, those that are deferred would become one program with what follows them.
        """
        if self.device is not Device.CPU:
            from torch_tpu._internal import sync  # noqa: PLC0415 - torch_tpu 0.2.0; private

            sync.synchronize(tensor, wait=False)

    def wait_for(self, tensor: "torch.Tensor") -> None:
        """Wait until `tensor` has been made, and not for what was sent after it."""
        if self.device is not Device.CPU:
            from torch_tpu._internal import sync  # noqa: PLC0415 - torch_tpu 0.2.0; private

            sync.synchronize(tensor, wait=True)

    def synchronize(self) -> None:
        """Wait until everything that was sent to the device has run."""
        import torch  # noqa: PLC0415

        if self.device is not Device.CPU:
            torch.accelerator.synchronize()

    def memory(self) -> Memory:
        """What is in use and free: of the chip, or of the host where the device does not tell."""
        import torch  # noqa: PLC0415

        if self.device is Device.TPU:
            try:
                free, total = torch.accelerator.get_memory_info()
            except RuntimeError:  # not on this chip
                total = 0
            if total:
                return Memory(total - free, free, of_chip=True)
        return Memory(_resident_bytes(), _available_bytes(), of_chip=False)


def open_device(choice: str) -> OpenDevice:
    """Open the device meant by `choice`: "auto", or the name of a Device.

    "auto" takes the first that works of a chip, the software TPU and the CPU, and says why.
    Raises DeviceUnavailableError if a device asked for by name does not work.
    """
    if choice != "auto":
        return _OPENERS[Device(choice)]("asked for by name")
    found = chips.on_the_bus()
    if found:
        return _OPENERS[Device.TPU](f"a {found[0].name} chip was found")
    try:
        return _OPENERS[Device.SOFTWARE_TPU]("no TPU chip was found, the software TPU works")
    except DeviceUnavailableError as error:
        log.warning("The software TPU does not work: %s", error)
        return _OPENERS[Device.CPU](f"no TPU chip was found, and no software TPU: {error}")


def versions() -> tuple[tuple[str, str], ...]:
    """Installed versions of what makes a compiled program, by distribution name."""
    found = []
    for name in VERSIONED:
        try:
            found.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            continue
    return tuple(found)


def _open_tpu(reason: str) -> OpenDevice:
    if not chips.on_the_bus():
        raise DeviceUnavailableError(
            "There is no TPU chip in this machine. Use --device software-tpu or cpu."
        )
    import torch  # noqa: PLC0415
    import torch_tpu  # noqa: F401, PLC0415 - registers the device

    device = _working_device("tpu")
    properties = torch.tpu.get_device_properties()  # type: ignore[attr-defined]
    return OpenDevice(
        device=Device.TPU,
        torch_device=device,
        chip=torch.tpu.get_device_name(),  # type: ignore[attr-defined]
        memory_bytes=getattr(properties, "total_memory", None),
        reason=reason,
        programs_compiled=_compilations,
        program_names=lambda after: (),
    )


def _open_software_tpu(reason: str) -> OpenDevice:
    plugin = software_tpu.install()
    return OpenDevice(
        device=Device.SOFTWARE_TPU,
        torch_device=_working_device("tpu"),
        chip=f"XLA on {_processor()}",
        memory_bytes=None,
        reason=reason,
        programs_compiled=lambda: len(plugin.programs),
        program_names=lambda after: tuple(plugin.programs[after:]),
    )


def _open_cpu(reason: str) -> OpenDevice:
    import torch  # noqa: PLC0415

    return OpenDevice(
        device=Device.CPU,
        torch_device=torch.device("cpu"),
        chip=_processor(),
        memory_bytes=None,
        reason=reason,
        programs_compiled=lambda: 0,
        program_names=lambda after: (),
    )


_OPENERS: dict[Device, Callable[[str], OpenDevice]] = {
    Device.TPU: _open_tpu,
    Device.SOFTWARE_TPU: _open_software_tpu,
    Device.CPU: _open_cpu,
}


def _working_device(name: str) -> "torch.device":
    """The torch device `name`, after one addition has run on it."""
    import torch  # noqa: PLC0415

    try:
        if (torch.ones(2, device=name) + 1).sum().item() != 4:
            raise DeviceUnavailableError(f"Device {name} computes wrong results.")
    except RuntimeError as error:
        raise DeviceUnavailableError(f"Device {name} does not work: {error}") from error
    return torch.device(name)


def _compilations() -> int:
    """Programs that no cache of torch_tpu held, so that they were compiled.

    A private counter (torch_tpu 0.2.0), used here and nowhere else. A test holds that on the
    software TPU it equals the programs handed to the compiler.
    """
    from torch_tpu._internal.device import _device_ops_backend  # noqa: PLC0415

    return int(_device_ops_backend._get_cache_stats().num_compilations)


def _processor() -> str:
    """The processor's name, as the kernel gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _resident_bytes() -> int:
    """What this process holds of the host's memory (proc(5), statm)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _available_bytes() -> int:
    """What the host could give without swapping (proc(5), meminfo)."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    kibibytes = next(line.split()[1] for line in lines if line.startswith("MemAvailable"))
    return int(kibibytes) * 1024
