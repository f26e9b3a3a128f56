"""Claims about what the owner is told of the workers."""

from pathlib import Path

from tests.dispatch.driving import wait_for
from tpu_ui.dispatch import logs
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.runtime.fake import MEMORY


def test_a_worker_tells_its_memory_versions_and_process(ready: LocalDispatcher) -> None:
    wait_for(ready, lambda _: ready.report().workers[0].memory is not None)
    (worker,) = ready.report().workers
    assert worker.memory == MEMORY
    assert dict(worker.versions)["tpu_ui"]
    assert (worker.pid,) == ready.worker_pids()
    assert 0 < ready.report().uptime_s < 600


def test_the_log_of_a_worker_is_there(ready: LocalDispatcher) -> None:
    wait_for(ready, lambda _: any("Load begins" in line for line in ready.log_lines(0)))
    assert ready.log_lines(7) == []


def test_no_more_than_the_end_of_a_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "worker-0.log"
    log.write_text("".join(f"line {number} {'x' * 400}\n" for number in range(100_000)))
    lines = logs.last_lines(log)
    assert len(lines) == logs.LINES
    assert lines[-1].startswith("line 99999 ")
    assert {len(line) for line in lines} == {logs.LINE_CHARACTERS}
    log.write_bytes(b"\xff\xfe one\n" + b"y" * (2 * logs.TAIL_BYTES))
    assert logs.last_lines(log) == []  # one line whose beginning is far away
    log.write_bytes(b"\xff short")
    assert logs.last_lines(log) == ["\ufffd short"]
