"""Which device is taken, and how its compilations are counted."""

import subprocess
import sys
from pathlib import Path

import pytest

from tpu_ui.errors import DeviceUnavailableError
from tpu_ui.runtime import device, software_tpu

COUNT = """
import sys
from pathlib import Path
from tpu_ui.runtime.start import diffusion_runtime
runtime = diffusion_runtime("auto", Path(sys.argv[1]))
import torch
from torch_tpu._internal.device import _device_ops_backend as backend
(torch.arange(6, device="tpu") * 3).sum().item()
started = runtime.started()
print(started.device, started.reason, sep="|")
print(runtime.programs_compiled(), backend._get_cache_stats().num_compilations)
print(*runtime.program_names(0))
"""


def test_second_process_compiles_nothing_and_both_counters_agree(tmp_path: Path) -> None:
    first, second = (run(COUNT, tmp_path / "cache"), run(COUNT, tmp_path / "cache"))
    assert first[0] == "software-tpu|no TPU chip was found, the software TPU works"
    ours, theirs = map(int, first[1].split())
    assert ours == theirs > 3
    assert {"arange", "mul", "sum"} <= set(first[2].split())
    assert len(first[2].split()) == ours
    assert second[1:] == ["0 0", ""]


def test_software_tpu_refuses_to_come_after_torch() -> None:
    import torch  # noqa: F401

    with pytest.raises(DeviceUnavailableError, match="before torch is imported"):
        software_tpu.install()


def test_chip_is_told_from_a_network_card_of_the_same_maker(tmp_path: Path) -> None:
    assert device.chip_on_the_bus(tmp_path) is None
    plug(tmp_path / "0000:00:04.0", "0x1ae0", "0x0042")  # gVNIC
    assert device.chip_on_the_bus(tmp_path) is None
    plug(tmp_path / "0000:00:05.0", "0x1ae0", "0x006f")
    assert device.chip_on_the_bus(tmp_path) == "TPU v6e"


def test_chip_that_is_not_there_is_refused_with_what_is() -> None:
    with pytest.raises(DeviceUnavailableError, match="software-tpu or cpu"):
        device.open_device("tpu")


def plug(folder: Path, vendor: str, kind: str) -> None:
    folder.mkdir()
    (folder / "vendor").write_text(f"{vendor}\n")
    (folder / "device").write_text(f"{kind}\n")


def run(script: str, *arguments: Path) -> list[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.splitlines()
