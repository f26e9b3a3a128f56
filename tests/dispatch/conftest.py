"""Dispatchers that leave nothing behind, whatever a test does."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dispatch.driving import FAKE, alive, make_preset, wait_ready
from tpu_ui.dispatch.local import LocalDispatcher


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., LocalDispatcher]]:
    """Start a dispatcher; keywords replace its options, `description` the preset's."""
    made: list[LocalDispatcher] = []

    def make(description: str = "A fake.", **options: Any) -> LocalDispatcher:
        chosen: dict[str, Any] = {
            "presets": {"demo": make_preset(tmp_path, description=description)},
            "model": "demo",
            "mode": None,
            "device": "auto",
            "warm": "default",
            "locked": False,
            "workers": 1,
            "outputs": tmp_path / "outputs",
            "cache": tmp_path / "cache",
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
def ready(start: Callable[..., LocalDispatcher]) -> LocalDispatcher:
    """An unlocked dispatcher with one worker, 64x64 warm in compiled mode."""
    dispatcher = start()
    wait_ready(dispatcher)
    return dispatcher
