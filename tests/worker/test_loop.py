"""Claims about the worker's loop, in a real process with the fake runtime."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dispatch.driving import COMPILED, FAKE, SQUARE, WIDE, alive, make_preset
from tpu_ui.dispatch.process import WorkerEnded, WorkerProcess, WorkerSpec
from tpu_ui.protocol import (
    Cancel,
    Cancelled,
    Command,
    Counted,
    Event,
    Failed,
    Finished,
    Generate,
    ImageMade,
    Load,
    Shutdown,
    Stepped,
    Warming,
    WarmUp,
)
from tpu_ui.request import validate
from tpu_ui.shapes import Device, ImageSize
from tpu_ui.worker.loop import EXIT_BROKEN, REPORT_S, message_of


class Driver:
    """Sends commands to one worker and collects its events."""

    def __init__(self, folder: Path, description: str = "A fake.") -> None:
        self.preset = make_preset(folder, description=description)
        spec = WorkerSpec(0, FAKE, "auto", folder / "cache")
        self.process = WorkerProcess.start(spec, lambda: False)
        self.run(Load("load", self.preset))

    def run(self, command: Load | WarmUp | Generate) -> list[Event]:
        self.process.send(command)
        return self.until_end(command.job)

    def until_end(self, job: str) -> list[Event]:
        events: list[Event] = []
        while True:
            event = self.process.receive(10)
            assert event is not None, "nothing came for 10 s"
            events.append(event)
            if isinstance(event, Finished | Failed | Cancelled) and event.job == job:
                return events

    def until_step(self, step: int) -> None:
        while True:
            event = self.process.receive(10)
            if isinstance(event, Stepped) and event.step >= step:
                return

    def generate(self, job: str, prompt: str = "a hill", size: ImageSize = SQUARE) -> Generate:
        limits = self.preset.limits(Device.SOFTWARE_TPU)
        steps = 30 if "fake:slow" in prompt else 2
        return Generate(job, validate(limits, prompt=prompt, size=size, steps=steps, seed=1))


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    driver = Driver(tmp_path)
    yield driver
    driver.process.stop()
    assert not alive(driver.process.pid)


def test_count_comes_before_the_ending_and_nothing_after_it(driver: Driver) -> None:
    events = driver.run(WarmUp("w", COMPILED, SQUARE))
    assert events[-2:] == [Counted(4, 0), Finished("w")]
    events = driver.run(driver.generate("g"))
    assert events[-2:] == [Counted(4, 0), Finished("g")]
    assert sum(isinstance(event, ImageMade) for event in events) == 1
    assert driver.process.receive(3 * REPORT_S) is None


def test_only_compilations_of_warm_requests_count_since_ready(driver: Driver) -> None:
    driver.run(WarmUp("w", COMPILED, SQUARE))
    assert driver.run(driver.generate("cold", size=WIDE))[-2] == Counted(8, 0)
    assert driver.run(driver.generate("bug", "fake:compile"))[-2] == Counted(9, 1)
    assert driver.run(driver.generate("again", "fake:compile"))[-2] == Counted(10, 2)
    assert driver.run(driver.generate("fine"))[-2] == Counted(10, 2)


def test_what_is_compiled_beside_an_image_is_not_counted_as_its_own(
    driver: Driver, tmp_path: Path
) -> None:
    driver.run(WarmUp("w", COMPILED, SQUARE))
    events = driver.run(driver.generate("meanwhile", "fake:beside"))
    assert [one.info.programs_compiled for one in events if isinstance(one, ImageMade)] == [0]
    assert events[-2] == Counted(5, 0)
    assert driver.run(driver.generate("both", "fake:compile fake:beside"))[-2] == Counted(7, 1)
    log = (tmp_path / "cache" / "logs" / "worker-0.log").read_text()
    assert "[meanwhile] compiled" not in log
    assert "[both] compiled 1 program(s) after ready: fake_5\n" in log


def test_stray_compilations_are_logged_with_their_names(driver: Driver, tmp_path: Path) -> None:
    driver.run(WarmUp("w", COMPILED, SQUARE))
    driver.run(driver.generate("fine"))
    log = tmp_path / "cache" / "logs" / "worker-0.log"
    assert "after ready" not in log.read_text()
    driver.run(driver.generate("bug", "fake:compile"))
    assert "[bug] compiled 1 program(s) after ready: fake_4" in log.read_text()


def test_cancel_of_another_job_is_ignored(driver: Driver) -> None:
    driver.process.send(Cancel("nobody"))
    driver.process.send(driver.generate("g", "fake:slow"))
    driver.until_step(1)
    driver.process.send(Cancel("nobody"))
    driver.until_step(3)
    driver.process.send(Cancel("g"))
    assert driver.until_end("g")[-1] == Cancelled("g")
    driver.process.send(Cancel("g"))
    assert driver.run(driver.generate("h"))[-1] == Finished("h")


def test_commands_that_come_during_a_job_run_after_it_in_order(driver: Driver) -> None:
    driver.process.send(driver.generate("a", "fake:slow"))
    driver.until_step(1)
    commands: list[Command] = [driver.generate("b"), driver.generate("c"), Cancel("a")]
    for command in commands:
        driver.process.send(command)
    endings = [driver.until_end(job)[-1] for job in ("a", "b", "c")]
    assert endings == [Cancelled("a"), Finished("b"), Finished("c")]


def test_shutdown_during_a_job_cancels_it_and_ends_the_process(driver: Driver) -> None:
    driver.process.send(driver.generate("g", "fake:slow"))
    driver.until_step(1)
    driver.process.send(Shutdown())
    assert driver.until_end("g")[-1] == Cancelled("g")
    with pytest.raises(WorkerEnded, match="exit code 0"):
        driver.process.receive(5)


def test_error_that_survives_leaves_the_worker_running(driver: Driver) -> None:
    failed = driver.run(driver.generate("g", "fake:error"))[-1]
    assert isinstance(failed, Failed)
    assert failed.kind == "RuntimeError"
    assert driver.run(driver.generate("h"))[-1] == Finished("h")


def test_error_that_does_not_survive_is_told_and_ends_the_process(driver: Driver) -> None:
    failed = driver.run(driver.generate("g", "fake:oom"))[-1]
    assert failed == Failed(
        "g", "OutOfDeviceMemoryError", "The chip's memory is used up (fake:oom)."
    )
    with pytest.raises(WorkerEnded, match=f"exit code {EXIT_BROKEN}"):
        driver.process.receive(5)


def test_reporter_speaks_while_a_compile_blocks_and_never_after_the_ending(
    tmp_path: Path,
) -> None:
    driver = Driver(tmp_path, "fake:block-warm")
    try:
        events = driver.run(WarmUp("w", COMPILED, SQUARE, 9.0))
        warming = [event for event in events if isinstance(event, Warming)]
        assert len([event for event in warming if event.stage == "text"]) >= 3
        assert {event.expected_s for event in warming} == {9.0}
        assert driver.process.receive(3 * REPORT_S) is None
    finally:
        driver.process.stop()


def test_load_of_another_model_forgets_what_was_warm(driver: Driver) -> None:
    driver.run(WarmUp("w", COMPILED, SQUARE))
    driver.run(Load("again", driver.preset))
    assert driver.run(driver.generate("g"))[-2] == Counted(8, 0)


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (RuntimeError("one\ntwo"), "RuntimeError: one"),
        (RuntimeError(), "RuntimeError"),
        (ValueError("x" * 1000), "ValueError: " + "x" * 200),
    ],
)
def test_unexpected_error_is_named_in_one_line(error: Exception, named: str) -> None:
    expected = f"Something went wrong in the worker ({named}). The log has the rest."
    assert message_of(error) == expected
