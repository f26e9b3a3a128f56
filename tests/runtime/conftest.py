"""Real runtimes in real worker processes, on the software TPU and the CPU."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.runtime import twins
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.presets import Preset
from tpu_ui.runtime.start import shared_memory_name

READY_S = 240.0
SHARED_MEMORY = Path("/dev/shm/torch_tpu_cache")  # torch_tpu's tier 2

Start = Callable[..., LocalDispatcher]


@contextmanager
def _starting(folder: Path) -> Iterator[Start]:
    made: list[LocalDispatcher] = []

    def make(preset: Preset, **options: Any) -> LocalDispatcher:
        chosen: dict[str, Any] = {
            "model": preset.name,
            "mode": None,
            "device": "software-tpu",
            "warm": "none",
            "locked": False,
            "workers": 1,
            "outputs": folder / "outputs",
            "cache": folder / f"cache-{len(made)}",
            **options,
        }
        made.append(LocalDispatcher({preset.name: preset}, **chosen))
        return made[-1]

    yield make
    for dispatcher in made:
        dispatcher.close()
    for cache in folder.glob("cache-*"):
        forget_shared_memory(cache)


def forget_shared_memory(cache: Path) -> None:
    """What a restart of the machine does."""
    for folder in (cache / "programs").glob("*"):
        shutil.rmtree(SHARED_MEMORY / shared_memory_name(folder), ignore_errors=True)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Start a dispatcher for one preset; keywords replace the options."""
    with _starting(tmp_path_factory.mktemp("real")) as make:
        yield make


@pytest.fixture(scope="session")
def tiny_sd3(tmp_path_factory: pytest.TempPathFactory) -> Preset:
    return twins.sd3(tmp_path_factory.mktemp("twins"))
