"""Start the program as a person does, `python app.py`, for tests."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parent.parent
OPEN_S = 90.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The app on a free port, and its address once the port is open."""
    port = free_port()
    folders = ["--outputs", str(folder / "outputs"), "--cache", str(folder / "cache")]
    command = [sys.executable, "app.py", "--port", str(port), *folders, *arguments]
    with (folder / "app.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_open(process, url)
            yield process, url
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
