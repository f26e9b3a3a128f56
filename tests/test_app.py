"""The program as a person starts it: `python app.py`."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

import app
from tests.launching import ROOT, free_port, running
from tpu_ui import settings


def run(*arguments: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "app.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s)


def test_importing_the_app_loads_no_torch() -> None:
    script = (
        "import app, sys; print([m for m in ('torch', 'diffusers', 'gradio') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_page_and_queue_load_no_torch() -> None:
    script = "import tpu_ui.ui.blocks, tpu_ui.dispatch.local, sys; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def refused(*arguments: str) -> str:
    """What the app says when it ends at once because of wrong settings."""
    done = run(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    return done.stderr


def test_port_in_use_is_told_with_the_remedy() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refused("--port", str(port))
    assert f"Port {port}" in said
    assert "--port" in said


def test_outputs_folder_that_takes_no_picture_is_told_with_the_remedy() -> None:
    said = refused("--outputs", "README.md", "--port", str(free_port()))
    assert "README.md" in said
    assert "--outputs" in said


def test_unknown_model_is_told_with_those_that_exist() -> None:
    said = refused("--model", "dalle", "--port", str(free_port()))
    assert "dalle" in said
    assert "demo" in said


def test_strategy_that_the_model_does_not_offer_is_told_with_those_it_does() -> None:
    said = refused("--strategy", "sharded", "--model", "sdxl", "--port", str(free_port()))
    assert said.splitlines()[-1] == (
        "app.py: Stable Diffusion XL is not offered sharded; choose from resident, staged, offload."
    )


def test_strategy_that_the_device_does_not_allow_is_told_with_the_reason() -> None:
    said = refused("--strategy", "offload", "--device", "cpu", "--port", str(free_port()))
    assert "cannot run offload here: on a plain CPU there is no chip" in said


def test_wrong_variable_is_told() -> None:
    environment = {**os.environ, "TPU_UI_WARM": "everything"}
    done = subprocess.run(
        [sys.executable, "app.py"], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "TPU_UI_WARM" in done.stderr
    assert "Traceback" not in done.stderr


def test_sigterm_in_mid_job_ends_the_app_and_its_worker_in_ten_seconds(tmp_path: Path) -> None:
    with running(tmp_path, "--device", "cpu", "--warm", "none") as (process, url):
        answers: list[httpx.Response] = []
        body = {"prompt": "a hill", "n": 4, "steps": 30}

        def ask() -> None:
            with suppress(httpx.TransportError):
                answers.append(httpx.post(f"{url}/v1/images/generations", json=body, timeout=60))

        caller = threading.Thread(target=ask)
        caller.start()
        log = tmp_path / "cache" / "logs" / "worker-0.log"
        wait_until(lambda: log.exists() and "WarmUp begins" in log.read_text())
        children = children_of(process.pid)
        assert children
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
        assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]
        caller.join(10)
        assert all("was cancelled" in answer.text for answer in answers)
    assert list((tmp_path / "outputs").rglob("*.tmp")) == []


def test_temporary_files_are_gone_with_the_app(tmp_path: Path) -> None:
    parent = tmp_path / "temporary"
    left = parent / "tpu-ui-page-999999999-killed"
    left.mkdir(parents=True)
    environment = {**os.environ, "GRADIO_TEMP_DIR": str(parent)}
    script = (
        "import app; from pathlib import Path\n"
        "with app.temporary_folder() as own:\n"
        " (own / 'a.png').touch()\n"
        " print(own.parent, list(own.parent.iterdir()) == [own])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.stdout.split() == [str(parent), "True"], done.stderr
    assert list(parent.iterdir()) == []


def wait_until(claim: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not claim():
        assert time.monotonic() < deadline_s, "did not come about"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("arguments", "fixed"),
    [
        ([], False),
        (["--lock"], True),
        (["--no-lock"], True),
        (["--share"], True),
        (["--share", "--auth", "me:secret"], False),
    ],
)
def test_kept_lock_is_used_only_where_its_owner_is_known(
    arguments: list[str], fixed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A share link without a login must not start unlocked, whatever was chosen before."""
    given: dict[str, object] = {}
    monkeypatch.setattr(app, "LocalDispatcher", lambda _, **options: given.update(options))
    app.make_dispatcher(settings.read([*arguments, "--cache", str(tmp_path)], {}))
    assert given["lock_is_fixed"] is fixed


def children_of(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task")  # a child is listed with the thread that started it
    deadline_s = time.monotonic() + 10
    while time.monotonic() < deadline_s:
        if children := [
            int(child)
            for listed in threads.glob("*/children")
            for child in listed.read_text().split()
        ]:
            return children
        time.sleep(0.1)
    return []
