"""The program as a host starts it: no disk that lasts, no home, and a port that must open soon."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.launching import ROOT, ending, free_port

# Of its own CPU time, which is what the clock says where nobody else works: 5 s are promised, and
# one is for a crowd, which makes every second of it longer.
OPEN_CPU_S = 6.0
OPEN_S, READY_S = 90.0, 240.0


@pytest.fixture
def space(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """As in a Space, but with a disk that takes nothing: only a temporary folder does."""
    port = free_port()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TPU_UI_")},
        "SPACE_ID": "somebody/tpu-ui",
        "HOME": "/proc/nowhere",
        "TMPDIR": str(tmp_path),
        "TPU_UI_HOST": "127.0.0.1",
        "TPU_UI_PORT": str(port),
        # It has to compile before it is ready, so that a crowded machine opens the port first too.
        "TPU_UI_DEVICE": "software-tpu",
    }
    with (tmp_path / "app.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "app.py")],
            cwd="/sys",
            env=environment,
            stdout=log,
            stderr=log,
        )
    with ending(process):
        yield process, f"http://127.0.0.1:{port}"


def first_health(process: subprocess.Popen[bytes], url: str) -> httpx.Response:
    deadline_s = time.monotonic() + OPEN_S
    while time.monotonic() < deadline_s:
        assert process.poll() is None, "the app ended"
        try:
            return httpx.get(f"{url}/health", timeout=5)
        except httpx.TransportError:
            time.sleep(0.02)
    raise AssertionError("the port did not open in time")


def cpu_s(pid: int) -> float:
    """Of the process alone, without its workers."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_space_opens_its_port_at_once_and_makes_pictures_without_a_disk(
    space: tuple[subprocess.Popen[bytes], str], tmp_path: Path
) -> None:
    process, url = space
    first = first_health(process, url)
    assert cpu_s(process.pid) < OPEN_CPU_S
    # Long before a picture can be asked for.
    assert (first.status_code, first.json()["state"]) in {(503, "starting"), (503, "warming")}
    status = httpx.post(f"{url}/gradio_api/run/status", json={"data": []}).json()["data"][0]
    assert status["locked"]
    deadline_s = time.monotonic() + READY_S
    while (health := httpx.get(f"{url}/health")).status_code == 503:
        assert time.monotonic() < deadline_s, health.text
        time.sleep(0.2)
    body = {"prompt": "a hill", "steps": 1, "response_format": "b64_json"}
    answer = httpx.post(f"{url}/v1/images/generations", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    kept = tmp_path / f"tpu-ui-{os.getuid()}"
    assert len(list((kept / "outputs").rglob("*.png"))) == 1
    assert (kept / "cache" / "logs" / "app.log").exists()
    told = (tmp_path / "app.log").read_text()
    for folder in ("outputs", "cache"):
        assert f"The folder {folder} cannot be written" in told
    assert "Traceback" not in told
