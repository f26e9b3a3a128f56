"""Which device is taken, and how its compilations are counted."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.conftest import forget_programs
from tpu_ui.errors import DeviceUnavailableError
from tpu_ui.runtime import device, software_tpu

COUNT = """
import sys
from pathlib import Path
from tpu_ui.runtime.start import diffusion_runtime
runtime = diffusion_runtime("auto", Path(sys.argv[1]))
import torch
from torch_tpu._internal.device import _device_ops_backend as backend
result = (torch.arange(6, device="tpu") * 3).sum().item()
started = runtime.started()
print(started.device, started.reason, sep="|")
print(result, runtime.programs_compiled(), backend._get_cache_stats().num_compilations)
print(*runtime.program_names(0))
before = runtime.memory()
held = torch.ones(2**26, device="tpu") + 1
torch.accelerator.synchronize()
after = runtime.memory()
print(after.of_chip, (after.in_use_bytes - before.in_use_bytes) / 2**28, after.free_bytes > 0)
"""


# Nobody holds the device that was opened, and torch_tpu goes on calling into it.
DROPPED = """
import gc
from tpu_ui.runtime import device
device.open_device("software-tpu")
gc.collect()
import torch
print((torch.arange(6, device="tpu") * 3).sum().item())
"""


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "cache"
    forget_programs(tmp_path / "cache")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[str]]]:
    """The cache that a first process filled, and what it printed. Tests take copies."""
    cache = tmp_path_factory.mktemp("kept") / "cache"
    yield cache, run(COUNT, cache)
    forget_programs(cache)


def test_later_processes_compile_nothing_and_both_counters_agree(
    kept: tuple[Path, list[str]], cache: Path
) -> None:
    filled, first = kept
    assert first[0] == "software-tpu|no TPU chip was found, the software TPU works"
    result, ours, theirs = map(int, first[1].split())
    assert result == 45
    assert ours == theirs > 3
    assert {"arange", "mul", "sum"} <= set(first[2].split())
    assert len(first[2].split()) == ours
    # The software TPU's memory is its process's: a tensor of 256 MiB is seen.
    of_chip, gained, some_is_free = first[3].split()
    assert (of_chip, some_is_free) == ("False", "True")
    assert 0.9 < float(gained) < 4
    shutil.copytree(filled, cache)
    # More than one: what the second process leaves behind must not harm the third.
    for _ in range(2):
        assert run(COUNT, cache)[1:3] == ["45 0 0", ""]


@pytest.mark.parametrize("damage", ["truncated", "garbage"])
def test_damaged_cache_costs_compilations_and_nothing_else(
    kept: tuple[Path, list[str]], cache: Path, damage: str
) -> None:
    filled, first = kept
    shutil.copytree(filled, cache)
    files = list(cache.rglob("*.bin"))
    assert files
    for file in files:
        content = file.read_bytes()
        half = content[: len(content) // 2]
        file.write_bytes(half if damage == "truncated" else bytes(reversed(content)))
    assert run(COUNT, cache)[1] == first[1]


def test_folder_that_cannot_be_written_costs_a_warning(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    done = started(COUNT, tmp_path / "cache")
    assert done.stdout.splitlines()[1].startswith("45 ")
    assert "compiled programs are not kept" in done.stderr


def test_software_tpu_lives_as_long_as_the_process() -> None:
    assert run(DROPPED) == ["45"]


def test_software_tpu_refuses_to_come_after_torch() -> None:
    import torch  # noqa: F401

    with pytest.raises(DeviceUnavailableError, match="before torch is imported"):
        software_tpu.install()


def test_chip_that_is_not_there_is_refused_with_what_is() -> None:
    with pytest.raises(DeviceUnavailableError, match="software-tpu or cpu"):
        device.open_device("tpu")


def started(script: str, *arguments: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def run(script: str, *arguments: Path) -> list[str]:
    return started(script, *arguments).stdout.splitlines()
