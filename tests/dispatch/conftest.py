"""Dispatchers that leave nothing behind, whatever a test does."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.dispatch.driving import FAKE, alive, make_preset, wait_ready
from tpu_ui.dispatch.local import LocalDispatcher

Start = Callable[..., LocalDispatcher]


@contextmanager
def starting(folder: Path) -> Iterator[Start]:
    """Start dispatchers; keywords replace the options, `description` the preset's own."""
    made: list[LocalDispatcher] = []

    def make(description: str = "A fake.", **options: Any) -> LocalDispatcher:
        chosen: dict[str, Any] = {
            "presets": {"demo": make_preset(folder, description=description)},
            "model": "demo",
            "mode": None,
            "device": "auto",
            "warm": "default",
            "locked": False,
            "workers": 1,
            "outputs": folder / "outputs",
            "cache": folder / "cache",
            "runtime": FAKE,
            "first_pause_s": 0.02,
            **options,
        }
        made.append(LocalDispatcher(chosen.pop("presets"), **chosen))
        return made[-1]

    yield make
    for dispatcher in made:
        pids = dispatcher.worker_pids()
        dispatcher.close()
        assert not [pid for pid in pids if alive(pid)]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting(tmp_path) as make:
        yield make


@pytest.fixture
def fresh(start: Start) -> LocalDispatcher:
    """An unlocked dispatcher with one worker; 64x64 is warm in compiled mode and nothing else."""
    dispatcher = start()
    wait_ready(dispatcher)
    return dispatcher


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalDispatcher]:
    with starting(tmp_path_factory.mktemp("shared")) as make:
        yield make()


@pytest.fixture
def ready(shared: LocalDispatcher) -> LocalDispatcher:
    """Like `fresh`, but earlier tests of the same file have used it."""
    wait_ready(shared)
    return shared
