"""Start a group of worker processes, one a device: torchrun, after what a TPU needs before it.

`python -m tpu_ui.runtime.group RANKS FILE ARGUMENTS` runs `python -m tpu_ui.worker ARGUMENTS` as
often as there are ranks. When one of them ends badly, torchrun ends the others, and who it was is
written into FILE, the number of one that is open.
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
    ranks, last_words, *worker = arguments
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    os.environ[TORCHRUN_PID] = str(os.getpid())
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # the host's name may lead elsewhere, or fail
    # torchrun's own choice is one thread, and a text encoder may run on the host.
    os.environ.setdefault("OMP_NUM_THREADS", str(max((os.cpu_count() or 1) // int(ranks), 1)))
    if chips.on_the_bus():
        set_tpu_environment(int(ranks))
    # After the environment.
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError  # noqa: PLC0415
    from torch.distributed.run import main as torchrun  # noqa: PLC0415

    with TemporaryDirectory(prefix="tpu-ui-") as folder:  # readable by this user only
        # In a file: "--standalone" unpickles what anybody sends to a port that is open to all.
        meeting = ["--rdzv-backend=c10d", f"--rdzv-endpoint={folder}/ranks"]
        meeting += ["--rdzv-conf=store_type=file", "--local-addr=localhost", f"--log-dir={folder}"]
        try:
            torchrun([*meeting, f"--nproc-per-node={ranks}", "-m", "tpu_ui.worker", *worker])
        except ChildFailedError as error:
            codes = {rank: failure.exitcode for rank, failure in error.failures.items()}
            os.write(int(last_words), lost_rank(codes).encode())
            raise


def lost_rank(codes: dict[int, int]) -> str:
    """Who has ended first and how, by exit codes; goes on after "The worker process".

    A rank that a signal killed comes before others, which may have failed for want of it.
    """
    rank, code = min(codes.items(), key=lambda one: one[1] >= 0)
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"lost its rank {rank}, which {how},"


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
