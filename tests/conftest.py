"""A served app for tests of the page and the API: real Gradio, real workers, a fake model."""

import gc
import os
import socket
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from tests.dispatch.driving import wait_for
from tests.launching import run_apart
from tpu_ui import styles
from tpu_ui.dispatch.interface import Dispatcher, Status
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.passwords import known_logins
from tpu_ui.presets import Preset, load_all
from tpu_ui.ui.blocks import build
from tpu_ui.ui.door import Door, door_of, usual_door
from tpu_ui.ui.launch import launch_arguments, queued

# The tests' own process uses torch on the CPU only. Workers look after themselves.
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
# Two of them at once, with two OpenMP threads each, wait for each other at full speed: a whole run
# took a tenth longer so. Workers take this over.
os.environ["OMP_NUM_THREADS"] = "1"

FAKE_RUNTIME = "tpu_ui.runtime.fake:FakeRuntime"
READY_TIMEOUT_S = 30.0

Serve = Callable[..., AbstractContextManager["Served"]]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collecting imports torch, diffusers and Gradio. There is no garbage to look for in them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@dataclass(frozen=True)
class Served:
    """An app that runs. `outputs` is where its pictures are written."""

    url: str
    dispatcher: LocalDispatcher
    outputs: Path

    def wait_for(self, claim: Callable[[Status], bool]) -> Status:
        """The first status for which `claim` holds."""
        return wait_for(self.dispatcher, claim, READY_TIMEOUT_S)


def presets_with(description: str = "", **changes: Any) -> dict[str, Preset]:
    """The shipped presets; `description` steers the fake runtime (see tpu_ui.runtime.fake)."""
    shipped = load_all()
    demo = shipped["demo"].model_copy(
        update={"description": description or shipped["demo"].description, **changes}
    )
    return {**shipped, "demo": demo}


@contextmanager
def _serving(
    folder: Path,
    *,
    presets: dict[str, Preset] | None = None,
    wait: bool = True,
    login: tuple[str, str] | None = None,
    door: Door | None = None,
    **options: Any,
) -> Iterator[Served]:
    chosen: dict[str, Any] = {
        "model": "demo",
        "mode": None,
        "device": "auto",
        "warm": "default",
        "locked": True,
        "workers": 1,
        "outputs": folder / "outputs",
        "cache": folder / "cache",
        "runtime": FAKE_RUNTIME,
        "first_pause_s": 0.05,
        "styles": styles.load(load_all()),
        **options,
    }
    if login is not None:
        door = door_of(owner=login[0], logins=known_logins(login, None), closed=True)
    # Whoever calls owns the app, locked or not, unless a test says who does.
    door = door or usual_door(locked_at_start=False)
    dispatcher = LocalDispatcher(presets or presets_with(), **chosen)
    try:
        with page_of(dispatcher, door) as url:
            served = Served(url, dispatcher, chosen["outputs"])
            if wait:
                served.wait_for(lambda status: status.state == "ready")
            yield served
    finally:
        dispatcher.close()


@contextmanager
def page_of(dispatcher: Dispatcher, door: Door | None = None) -> Iterator[str]:
    """The page and the API of a dispatcher, and their address."""
    app, url = run_apart(_launch(dispatcher, door))
    try:
        yield url
    finally:
        app.close(verbose=False)


async def _launch(dispatcher: Dispatcher, door: Door | None) -> tuple[gr.Blocks, str]:
    """In a running loop, because without one Gradio makes a loop for each lock and closes none."""
    app = queued(build(dispatcher, door))
    _, url, _ = app.launch(
        server_name="127.0.0.1",
        server_port=free_port(),
        prevent_thread_lock=True,
        quiet=True,
        **launch_arguments(dispatcher, door),
    )
    return app, url


def free_port() -> int:
    """Gradio looks for one itself, but forgets to close the sockets it tries."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Serve:
    """`with serve(locked=False) as served:` an app with other options, for one test."""

    def make(**options: Any) -> AbstractContextManager[Served]:
        return _serving(tmp_path_factory.mktemp("served"), **options)

    return make


@pytest.fixture(scope="session")
def server(serve: Serve) -> Iterator[Served]:
    """A locked app with 256x256 ready and two cold sizes. Tests leave its sizes as they are."""
    with serve() as served:
        yield served
