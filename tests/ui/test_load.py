"""Claims about sixty clients at once, against a real server with a fake model."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.load import GONE, IMAGE, LOST, REFUSED, Clients, Report, memory_mb, wait_ready
from tests.launching import free_port, run_apart, serving
from tests.processes import family

FLAT = 1.15  # memory at the end over memory at the start


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, str, Path]]:
    folder, port = tmp_path_factory.mktemp("load"), free_port()
    command = ["-m", "tests.ui.serving_fakes", str(folder), str(port)]
    with serving(command, port, folder / "app.log") as (process, url):
        wait_ready(url)
        yield process.pid, url, folder / "outputs"


def test_sixty_clients_get_an_image_or_a_refusal_each_and_memory_stays(
    app: tuple[int, str, Path],
) -> None:
    pid, url, outputs = app
    run_apart(Clients(url, {"steps": 1}).drive(outputs, requests=1))
    (worker, *_) = family(pid)
    before = memory_mb(pid), memory_mb(worker)
    for path in outputs.rglob("*.png"):
        path.unlink()
    report = run_apart(Clients(url, {"steps": 1}, hold="fake:slow").drive(outputs))
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
