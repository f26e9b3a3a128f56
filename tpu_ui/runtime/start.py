"""Start a runtime: open the device first, import torch after. The worker's default runtime.

The order matters: torch_tpu learns while torch is imported which library drives the device.
"""

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
    # torch_tpu reads this before its first program and keeps executables there from then on.
    os.environ.setdefault("TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT", str(folder))
    opened = devices.open_device(device)
    from tpu_ui.runtime.diffusion import DiffusionRuntime  # noqa: PLC0415 - imports torch

    return DiffusionRuntime(opened)
