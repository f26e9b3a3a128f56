"""Start a runtime: open the device first, import torch after. The worker's default runtime.

The order matters: torch_tpu learns while torch is imported which library drives the device.
"""

import hashlib
import os
from pathlib import Path

from tpu_ui.runtime import device as devices
from tpu_ui.runtime.interface import Runtime


def diffusion_runtime(device: str, cache: Path) -> Runtime:
    """A runtime for diffusers' pipelines on `device` ("auto" or the name of a Device).

    Compiled programs are kept in `cache`, in a folder named after the versions that made them.
    Raises DeviceUnavailableError.
    """
    folder = cache / "programs" / "-".join(version for _, version in devices.versions())
    # torch_tpu reads these before its first program. Tier 3 is the folder. Tier 2 is in shared
    # memory, for all processes that use the same name: our workers, and nobody else's.
    os.environ.setdefault("TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT", str(folder))
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    os.environ.setdefault("TORCH_TPU_TIER2_COMPILATION_CACHE", f"tpu-ui-{name}")
    # Each device imports torch_tpu itself, or does without; loaded with torch, it looks for libtpu.
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    opened = devices.open_device(device)
    from tpu_ui.runtime.diffusion import DiffusionRuntime  # noqa: PLC0415 - imports torch

    return DiffusionRuntime(opened)
