"""Real runtimes in real worker processes, on the software TPU and the CPU."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.runtime import twins
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.presets import Preset
from tpu_ui.runtime.start import forget_shared_memory, shared_memory_name

READY_S = 240.0

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
        forget_programs(cache)


def forget_programs(cache: Path) -> None:
    """Nothing of a test stays in shared memory."""
    for folder in (cache / "programs").glob("*"):
        forget_shared_memory(shared_memory_name(folder))


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Start a dispatcher for one preset; keywords replace the options."""
    with _starting(tmp_path_factory.mktemp("real")) as make:
        yield make


@pytest.fixture(scope="session")
def tiny_sd3(tmp_path_factory: pytest.TempPathFactory) -> Preset:
    return twins.sd3(tmp_path_factory.mktemp("twins"))
