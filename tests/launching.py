"""Start the program as a person does, `python app.py`, for tests."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx

ROOT = Path(__file__).resolve().parent.parent
OPEN_S = 90.0

Result = TypeVar("Result")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_apart(work: Coroutine[Any, Any, Result]) -> Result:
    """What it comes to, in a loop and a thread of its own: this one may run Playwright's loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The app on a free port, and its address once the port is open."""
    port = free_port()
    folders = ["--outputs", str(folder / "outputs"), "--cache", str(folder / "cache")]
    command = ["app.py", "--port", str(port), *folders, *arguments]
    with serving(command, port, folder / "app.log") as served:
        yield served


@contextmanager
def serving(
    command: Sequence[str], port: int, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A Python program that serves at this port, and its address once the port is open."""
    with log.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, *command], cwd=ROOT, stdout=file, stderr=file, env=environment
        )
    with ending(process):
        url = f"http://127.0.0.1:{port}"
        _wait_open(process, url)
        yield process, url


@contextmanager
def ending(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """A context that the process does not outlive."""
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(15)
        finally:
            process.kill()


def _wait_open(process: subprocess.Popen[bytes], url: str) -> None:
    deadline_s = time.monotonic() + OPEN_S
    while time.monotonic() < deadline_s:
        assert process.poll() is None, "the app ended"
        try:
            httpx.get(url, timeout=5).raise_for_status()
            return
        except httpx.TransportError:
            time.sleep(0.2)
    raise AssertionError("the port did not open in time")
