"""Start a group of worker processes, one a device: torchrun, after what a TPU needs before it.

`python -m tpu_ui.runtime.group RANKS ARGUMENTS` runs `python -m tpu_ui.worker ARGUMENTS` as often
as there are ranks. When one of them ends badly, torchrun ends the others.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Any

from tpu_ui import chips

TORCHRUN_PID = "TPU_UI_TORCHRUN_PID"  # for the ranks, who end when it does

# Where torch_tpu before 0.2.0 had it; it prints lines of NAME=VALUE.
OLDER_LAUNCHER = "torch_tpu._internal.distributed.launchers.singlehost_wrapper"


def main(arguments: list[str]) -> None:
    """Run the group; ends with its exit code."""
    ranks, *worker = arguments
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    os.environ[TORCHRUN_PID] = str(os.getpid())
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # the host's name may lead elsewhere, or fail
    # torchrun's own choice is one thread, and a text encoder may run on the host.
    os.environ.setdefault("OMP_NUM_THREADS", str(max((os.cpu_count() or 1) // int(ranks), 1)))
    if chips.on_the_bus():
        set_tpu_environment(int(ranks))
    from torch.distributed.run import main as torchrun  # noqa: PLC0415 - after the environment

    with TemporaryDirectory(prefix="tpu-ui-") as folder:  # readable by this user only
        # In a file: "--standalone" unpickles what anybody sends to a port that is open to all.
        meeting = ["--rdzv-backend=c10d", f"--rdzv-endpoint={folder}/ranks"]
        meeting += ["--rdzv-conf=store_type=file", "--local-addr=localhost", f"--log-dir={folder}"]
        torchrun([*meeting, f"--nproc-per-node={ranks}", "-m", "tpu_ui.worker", *worker])


def set_tpu_environment(ranks: int) -> None:
    """Set what a TPU's processes have to know of each other, before any of them starts."""
    import torch  # noqa: PLC0415
    import torch_tpu  # noqa: F401, PLC0415 - registers torch.tpu

    distributed: Any = getattr(torch.tpu, "distributed", None)  # type: ignore[attr-defined]
    if hasattr(distributed, "set_tpu_launch_env"):
        distributed.set_tpu_launch_env(nproc_per_node=ranks)
    elif _is_there(OLDER_LAUNCHER):
        told = subprocess.run(
            [sys.executable, "-m", OLDER_LAUNCHER], capture_output=True, text=True, check=True
        )
        os.environ.update(_assignments(told.stdout))
    else:
        raise RuntimeError("This torch_tpu has no launcher for several chips.")


def _assignments(text: str) -> dict[str, str]:
    lines = [line.removeprefix("export ").partition("=") for line in text.splitlines()]
    return {name.strip(): value.strip().strip("\"'") for name, equals, value in lines if equals}


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even its package
        return False


if __name__ == "__main__":
    main(sys.argv[1:])
