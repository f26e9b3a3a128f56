"""Start a runtime: caches, then the device, then torch. The worker's default runtime.

The order matters: torch_tpu reads its environment when it first touches a device, and learns while
torch is imported which library drives it.
"""

import hashlib
import logging
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tpu_ui.folders import make_writable
from tpu_ui.runtime import device as devices
from tpu_ui.runtime.interface import Runtime

if TYPE_CHECKING:
    from tpu_ui.runtime.parallel import FollowingRuntime

SHARED_MEMORY = Path("/dev/shm/torch_tpu_cache")  # where torch_tpu keeps tier 2

log = logging.getLogger(__name__)


def diffusion_runtime(device: str, cache: Path) -> "Runtime | FollowingRuntime":
    """A runtime for diffusers' pipelines on `device` ("auto" or the name of a Device).

    In a group of ranks only the first one's is a Runtime; the others follow it.

    Compiled programs, and what torch.compile traced for them, are kept in `cache`, in folders named
    after the versions that made them. Raises DeviceUnavailableError.
    """
    versions = "-".join(version for _, version in devices.versions())
    keep_programs(cache / "programs" / versions)
    # Each device imports torch_tpu itself, or does without; loaded with torch, it looks for libtpu.
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    opened = devices.open_device(device)
    from tpu_ui.runtime.diffusion import DiffusionRuntime  # noqa: PLC0415 - imports torch

    traces = cache / "traces" / versions
    if "WORLD_SIZE" not in os.environ:  # set by torchrun
        return DiffusionRuntime(opened, traces)
    from tpu_ui.runtime import parallel  # noqa: PLC0415

    ranks = parallel.join(opened)
    runtime = DiffusionRuntime(opened, traces / f"rank-{ranks.rank}-of-{ranks.mesh.size()}", ranks)
    if ranks.rank == 0:
        return parallel.LeadingRuntime(runtime, ranks)
    return parallel.FollowingRuntime(runtime, ranks)


def keep_programs(folder: Path) -> None:
    """Have torch_tpu keep compiled programs in `folder`, for later processes.

    Tier 3 of its cache is the folder; damaged files in it are compiled anew. Tier 2 is in shared
    memory and cannot be turned off. XLA's CPU backend writes programs into it that it has read from
    tier 3, without some of their functions: whoever read those could not run at all. So each
    process has a tier 2 of its own, and takes away those of processes that are gone. A folder that
    cannot be written to costs a warning here; torch_tpu would end the process.
    """
    try:
        make_writable(folder)
    except OSError as error:
        log.warning("compiled programs are not kept: %s: %s", folder, error.strerror)
        return
    os.environ["TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT"] = str(folder)
    name = shared_memory_name(folder)
    forget_shared_memory(name)
    os.environ["TORCH_TPU_TIER2_COMPILATION_CACHE"] = f"{name}-{os.getpid()}"
    # By default a compilation starts beside each read, in case the folder is far away and slow;
    # on a disk it often wins, so that a second start would compile programs that are there.
    os.environ["TORCH_TPU_INTERNAL_TIER3_COMPILATION_CACHE_LOCAL_BACKUP_TASK"] = "0"


def forget_shared_memory(name: str) -> None:
    """Remove the shared-memory caches of that name whose processes have ended."""
    for left in SHARED_MEMORY.glob(f"{name}-*"):
        if not Path("/proc", left.name.rpartition("-")[2]).exists():
            shutil.rmtree(left, ignore_errors=True)


def shared_memory_name(folder: Path) -> str:
    """What the names of the shared-memory caches that go with a folder of programs begin with."""
    return "tpu-ui-" + hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
