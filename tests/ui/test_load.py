"""Claims about sixty clients at once, against a real server with a fake model."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from benchmarks.load import GONE, IMAGE, LOST, REFUSED, Clients, Report, memory_mb, wait_ready
from tests.launching import ROOT, free_port
from tests.processes import family

FLAT = 1.15  # memory at the end over memory at the start


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, str, Path]]:
    folder, port = tmp_path_factory.mktemp("load"), free_port()
    command = [sys.executable, "-m", "tests.ui.serving_fakes", str(folder), str(port)]
    with (folder / "app.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        deadline_s = time.monotonic() + 60
        while time.monotonic() < deadline_s:
            try:
                wait_ready(url)
                break
            except httpx.TransportError:
                time.sleep(0.2)
        yield process.pid, url, folder / "outputs"
    finally:
        process.kill()
        process.wait()


def test_sixty_clients_get_an_image_or_a_refusal_each_and_memory_stays(
    app: tuple[int, str, Path],
) -> None:
    pid, url, outputs = app
    asyncio.run(Clients(url, {"steps": 1}).drive(outputs, requests=1))
    (worker, *_) = family(pid)
    before = memory_mb(pid), memory_mb(worker)
    for path in outputs.rglob("*.png"):
        path.unlink()
    report = asyncio.run(Clients(url, {"steps": 1}).drive(outputs))
    assert_nothing_lost(report)
    assert report.greedy_ahead() <= 2, "fifty jobs of one visitor held up another"
    assert max(report.looks_s["page"]) < 5.0
    after = memory_mb(pid), memory_mb(worker)
    assert after[0] < FLAT * before[0]
    assert after[1] < FLAT * before[1]


def assert_nothing_lost(report: Report) -> None:
    assert [one for one in report.answers if one.end == LOST] == []
    assert report.unclear == []
    assert report.twice == []
    assert report.promised_but_missing == set()
    assert report.count(IMAGE) + report.count(REFUSED) + report.count(GONE) == 60 * 5 + 50
    assert report.count(IMAGE) > 200
    assert report.count(REFUSED) > 0
    assert report.count(GONE) > 0
