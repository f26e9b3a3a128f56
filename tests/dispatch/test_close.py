"""Claims about the end: no process, thread or temporary folder outlives the app."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.dispatch.driving import alive, ask, in_time, make_preset, wait_ready, wait_step
from tpu_ui.dispatch.local import LocalDispatcher

Start = Callable[..., LocalDispatcher]
ROOT = Path(__file__).parent.parent.parent

APP = """
import signal, sys, threading
from pathlib import Path
from tests.dispatch.driving import FAKE, ask, make_preset, wait_ready, wait_step
from tpu_ui.dispatch.local import LocalDispatcher

if __name__ == "__main__":
    # A shell's background job ignores it, and so would what is started from there.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder, description, prompt = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    dispatcher = LocalDispatcher(
        {"demo": make_preset(folder, description=description)},
        model="demo", mode=None, device="auto", warm="default" if prompt else "none",
        locked=False, workers=2, outputs=folder / "outputs", cache=folder / "cache", runtime=FAKE,
    )
    while len(dispatcher.worker_pids()) < 2:
        threading.Event().wait(0.02)
    wait_ready(dispatcher)
    if prompt:
        wait_step(dispatcher, dispatcher.submit(ask(dispatcher, prompt, steps=30)))
    else:
        job = dispatcher.submit(ask(dispatcher))
        next(update for update in dispatcher.updates(job) if type(update).__name__ == "Warming")
    print(*dispatcher.worker_pids(), flush=True)
    sys.stdin.readline()
"""


def run_app(folder: Path, description: str, prompt: str) -> tuple[subprocess.Popen[str], list[int]]:
    app = subprocess.Popen(
        [sys.executable, "-c", APP, str(folder), description, prompt],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert app.stdout is not None
    return app, [int(pid) for pid in app.stdout.readline().split()]


def gone_within(pids: list[int], seconds: float) -> bool:
    deadline_s = time.monotonic() + seconds
    while any(map(alive, pids)):
        if time.monotonic() > deadline_s:
            return False
        threading.Event().wait(0.02)
    return True


@pytest.mark.parametrize(
    ("description", "prompt"),
    [("A fake.", "fake:slow"), ("fake:block-warm", "")],
    ids=["in a job", "in a compile"],
)
def test_workers_of_a_killed_app_end_by_themselves(
    tmp_path: Path, description: str, prompt: str
) -> None:
    app, pids = run_app(tmp_path, description, prompt)
    with app:
        assert len(pids) == 2
        assert all(map(alive, pids))
        os.kill(app.pid, signal.SIGKILL)
        assert gone_within(pids, 1.0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_workers_end_with_an_app_that_does_not_close(
    tmp_path: Path, number: signal.Signals
) -> None:
    app, pids = run_app(tmp_path, "A fake.", "fake:slow")
    with app:
        app.send_signal(number)
        app.wait(10)
        assert gone_within(pids, 1.0)


def test_close_leaves_no_process_thread_or_folder(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = set(threading.enumerate())
    folder = tmp_path / "t"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    dispatcher = start(workers=2)
    wait_ready(dispatcher)
    wait_step(dispatcher, dispatcher.submit(ask(dispatcher, "fake:slow", steps=30)))
    pids = dispatcher.worker_pids()
    begin_s = time.monotonic()
    in_time(dispatcher.close)
    assert time.monotonic() - begin_s < 5
    assert not any(map(alive, pids))
    assert not [one for one in set(threading.enumerate()) - threads if "worker" in one.name]
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("description", ["A fake.", "fake:slow-load", "fake:load-crash"])
def test_close_during_the_start_leaves_nothing(
    start: Start, tmp_path: Path, description: str
) -> None:
    presets = {"demo": make_preset(tmp_path, description=description)}
    dispatcher = start(presets=presets, workers=2, first_pause_s=30.0)
    threading.Event().wait(0.25)
    pids = dispatcher.worker_pids()
    in_time(dispatcher.close, 10)
    assert not any(map(alive, pids))
    dispatcher.close()


def test_stopped_worker_is_ended_all_the_same(fresh: LocalDispatcher) -> None:
    (pid,) = fresh.worker_pids()
    os.kill(pid, signal.SIGSTOP)
    in_time(fresh.close, 12)
    assert not alive(pid)
