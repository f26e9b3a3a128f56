"""What a visitor sees of a fault, and how long it takes until the next image, on the software TPU
with the demo model in compiled mode. Each fault is injected into the app as it is started by hand.

Usage: python -m benchmarks.faults [FAULT ...]
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import httpx

from tests.launching import running
from tests.processes import family, still_alive

COLD = "320x192"
ENOUGH_S = 300.0
ARGUMENTS = ("--device", "software-tpu")


@dataclass
class App:
    """The app under test. `asked`: what the last request came to."""

    process: subprocess.Popen[bytes]
    url: str
    folder: Path

    @property
    def worker(self) -> int:
        return family(self.process.pid)[0]

    def ask(self, **wish: Any) -> str:
        """A picture; "image", or why there is none."""
        body = {"prompt": "a red house", "steps": 8, "response_format": "b64_json", **wish}
        answer = httpx.post(f"{self.url}/v1/images/generations", json=body, timeout=ENOUGH_S)
        return "image" if answer.status_code == 200 else answer.json()["error"]["message"]

    def told(self) -> dict[str, Any]:
        health: dict[str, Any] = httpx.get(f"{self.url}/health", timeout=30).json()
        return health

    def wait(self, word: str) -> None:
        """Until the state of the app is told with `word` in it."""
        deadline_s = time.monotonic() + ENOUGH_S
        while word not in str(self.told()):
            assert time.monotonic() < deadline_s, f"never {word}; now {self.told()}"
            time.sleep(0.02)

    def next_image_s(self) -> float:
        """How long it takes from now until somebody who keeps asking has a picture."""
        began_s = time.monotonic()
        while self.ask() != "image":
            assert time.monotonic() - began_s < ENOUGH_S
            time.sleep(0.2)
        return time.monotonic() - began_s


class Asked(Thread):
    """A request that goes on while the fault is made."""

    def __init__(self, app: App, **wish: Any) -> None:
        super().__init__(daemon=True)
        self._app, self._wish = app, wish
        self.answer = ""
        self.start()

    def run(self) -> None:
        with suppress(httpx.TransportError):
            self.answer = self._app.ask(**self._wish)

    def told(self) -> str:
        self.join(ENOUGH_S)
        return self.answer or "the connection is closed"


def struck(app: App, number: signal.Signals, at: str, **wish: Any) -> str:
    """A request is answered by a worker that gets a signal when the app says `at`."""
    asked = Asked(app, **wish)
    app.wait(at)
    os.kill(app.worker, number)
    return asked.told()


def killed(app: App) -> str:
    """Killed while generating."""
    return struck(app, signal.SIGKILL, "step 3", steps=30, n=4)


def killed_idle(app: App) -> str:
    """Killed while nobody asks."""
    os.kill(app.worker, signal.SIGKILL)
    return "nothing; the next request waits"


def killed_compiling(app: App) -> str:
    """Killed while it compiles another size."""
    return struck(app, signal.SIGKILL, "Compiling", size=COLD)


def killed_loading(app: App) -> str:
    """Killed while it loads, after it was killed before."""
    os.kill(app.worker, signal.SIGKILL)
    app.wait("Loading")
    os.kill(app.worker, signal.SIGKILL)
    return "nothing; the next request waits"


def stopped(app: App) -> str:
    """Stopped (SIGSTOP) while generating: found by the watchdog."""
    return struck(app, signal.SIGSTOP, "step 3", steps=30, n=4)


def stopped_compiling(app: App) -> str:
    """Stopped (SIGSTOP) while it compiles another size: found by the watchdog."""
    return struck(app, signal.SIGSTOP, "Compiling", size=COLD)


def outputs_gone(app: App) -> str:
    """A file in the place of the outputs folder; then it is taken away."""
    outputs = app.folder / "outputs"
    outputs.rename(app.folder / "elsewhere")
    outputs.write_text("no folder")
    told = app.ask()
    outputs.unlink()
    return told


def outputs_full(app: App) -> str:
    """No room on the disk of the outputs folder; then there is."""
    outputs = app.folder / "outputs"
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(outputs)]
    subprocess.run(mount, check=True)
    told = app.ask()
    subprocess.run(["umount", "--lazy", str(outputs)], check=True)
    return told


def cache_full(app: App) -> str:
    """No room on the disk of the cache folder while another size is compiled."""
    cache = app.folder / "cache"
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs"]
    (versions,) = (cache / "programs").iterdir()
    folders = [versions, *(cache / "traces").iterdir()]
    for folder in folders:
        subprocess.run([*mount, str(folder)], check=True)
    told = app.ask(size=COLD)
    for folder in folders:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
    return told


def cache_corrupt(app: App) -> str:
    """Every kept program is cut in half, then the worker is killed."""
    for path in (app.folder / "cache" / "programs").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    os.kill(app.worker, signal.SIGKILL)
    return "nothing; the next request waits while programs are compiled anew"


def asked_to_end(app: App) -> str:
    """SIGTERM in mid-job; the app is started again."""
    asked = Asked(app, steps=30, n=4)
    app.wait("step 3")
    pids = [app.process.pid, *family(app.process.pid)]
    began_s = time.monotonic()
    app.process.send_signal(signal.SIGTERM)
    code = app.process.wait(ENOUGH_S)
    left = still_alive(pids, 0)
    return (
        f"{asked.told()} (exit code {code} after {time.monotonic() - began_s:.1f} s,"
        f" {len(left)} processes left)"
    )


FAULTS: dict[str, Callable[[App], str]] = {
    fault.__name__: fault
    for fault in (
        killed_idle,
        killed,
        killed_compiling,
        killed_loading,
        stopped,
        stopped_compiling,
        outputs_gone,
        outputs_full,
        cache_full,
        cache_corrupt,
        asked_to_end,
    )
}


def measure(name: str, app: App) -> dict[str, Any]:
    usual_s = app.next_image_s()
    began_s = time.monotonic()
    told = FAULTS[name](app)
    told_s = time.monotonic() - began_s
    if app.process.poll() is None:
        next_s = app.next_image_s()
    else:
        with running(app.folder, *ARGUMENTS) as (process, url):
            next_s = App(process, url, app.folder).next_image_s()
    figures = {"usual_s": usual_s, "told_after_s": told_s, "next_image_after_s": next_s}
    rounded = {key: round(value, 1) for key, value in figures.items()}
    return {"fault": name, "what": FAULTS[name].__doc__, "told": told, **rounded}


def main(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as kept, running(Path(kept), *ARGUMENTS) as (process, url):
        app = App(process, url, Path(kept))
        app.wait("Ready.")
        for name in names:
            print(json.dumps(measure(name, app)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(FAULTS))
