"""Claims about one worker process: handshake, key, log, end."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.dispatch.driving import FAKE, alive, make_preset
from tpu_ui.dispatch.options import Options
from tpu_ui.dispatch.process import StartRefused, WorkerEnded, WorkerProcess, WorkerSpec
from tpu_ui.protocol import Load, Memory
from tpu_ui.shapes import Device


def never() -> bool:
    return False


@pytest.fixture
def spec(tmp_path: Path) -> WorkerSpec:
    return WorkerSpec(0, FAKE, "auto", tmp_path / "cache", (("TPU_VISIBLE_CHIPS", "3"),))


@pytest.fixture
def worker(spec: WorkerSpec) -> Iterator[WorkerProcess]:
    worker = WorkerProcess.start(spec, never)
    yield worker
    worker.stop()
    assert not alive(worker.pid)


def test_worker_says_first_what_it_runs_on(worker: WorkerProcess) -> None:
    assert worker.started is not None
    assert worker.started.pid == worker.pid
    assert worker.started.device is Device.SOFTWARE_TPU
    while (event := worker.receive(0)) is not None:
        assert isinstance(event, Memory)  # which it tells of by itself


def test_key_is_in_no_process_list_and_no_environment(worker: WorkerProcess) -> None:
    process = Path(f"/proc/{worker.pid}")
    arguments = process.joinpath("cmdline").read_bytes().split(b"\0")
    options = [text for text in arguments if text.startswith(b"--")]
    assert options == [b"--address", b"--runtime", b"--device", b"--cache"]
    names = {pair.split(b"=")[0] for pair in process.joinpath("environ").read_bytes().split(b"\0")}
    added = names - {name.encode() for name in os.environ} - {b""}
    assert added <= {b"PYTHONPATH", b"TPU_VISIBLE_CHIPS"}
    assert b"TPU_VISIBLE_CHIPS" in names


def test_socket_is_gone_as_soon_as_the_worker_is_connected(worker: WorkerProcess) -> None:
    arguments = Path(f"/proc/{worker.pid}/cmdline").read_bytes().split(b"\0")
    address = Path(arguments[arguments.index(b"--address") + 1].decode())
    assert not address.parent.exists()


def listen_to_the_end(worker: WorkerProcess) -> None:
    while worker.receive(5) is not None:  # what it had said before
        pass


def test_death_is_told_by_its_signal(worker: WorkerProcess) -> None:
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(WorkerEnded) as caught:
        listen_to_the_end(worker)
    assert caught.value.how == "was killed by signal 9"
    assert not worker.alive()


def test_log_holds_job_ids_and_no_prompt_and_the_one_before_is_kept(
    worker: WorkerProcess, spec: WorkerSpec, tmp_path: Path
) -> None:
    worker.send(Load("job-17", make_preset(tmp_path)))
    while type(worker.receive(5)).__name__ != "Finished":
        pass
    log = spec.cache / "logs" / "worker-0.log"
    assert "[job-17] Load begins" in log.read_text()
    WorkerProcess.start(spec, never).stop()
    assert "job-17" not in log.read_text()
    assert "job-17" in log.with_suffix(".previous.log").read_text()


def test_log_that_cannot_be_written_is_no_reason_to_stop(
    spec: WorkerSpec, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    worker = WorkerProcess.start(spec, never)
    worker.stop()
    assert "has no log file" in caplog.text


def test_start_that_takes_too_long_is_given_up(spec: WorkerSpec) -> None:
    with pytest.raises(WorkerEnded, match=r"did not start within 0\.01 s"):
        WorkerProcess.start(replace(spec, start_timeout_s=0.01), never)


def test_start_is_given_up_when_nobody_wants_it_any_more(spec: WorkerSpec) -> None:
    begin_s = time.monotonic()
    with pytest.raises(WorkerEnded, match="was stopped while it started"):
        WorkerProcess.start(spec, lambda: True)
    assert time.monotonic() - begin_s < 2


def test_device_that_is_refused_is_told_with_its_reason(spec: WorkerSpec) -> None:
    with pytest.raises(StartRefused) as caught:
        WorkerProcess.start(replace(spec, device="tpu"), never)
    assert caught.value.failed.kind == "DeviceUnavailableError"


@pytest.mark.parametrize(
    ("device", "workers", "expected"),
    [
        ("tpu", 4, (("TPU_VISIBLE_CHIPS", "2"),)),
        ("tpu", 1, ()),
        ("auto", 4, ()),
        ("cpu", 4, ()),
    ],
)
def test_only_several_workers_on_tpus_are_told_their_chip(
    tmp_path: Path, device: str, workers: int, expected: tuple[tuple[str, str], ...]
) -> None:
    options = Options(
        presets={},
        model="demo",
        mode=None,
        device=device,
        warm="none",
        locked=False,
        workers=workers,
        outputs=tmp_path,
        cache=tmp_path,
        runtime=FAKE,
        queue_limit=1,
        first_pause_s=1.0,
    )
    assert options.environment(2) == expected
