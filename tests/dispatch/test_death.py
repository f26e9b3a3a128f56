"""Claims about workers that die: their job fails, a new one starts, nobody else notices."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.dispatch.driving import (
    COMPILED,
    SQUARE,
    WIDE,
    alive,
    ask,
    ending_of,
    make_preset,
    state_of,
    wait_for,
    wait_ready,
    wait_step,
)
from tpu_ui.dispatch.interface import Status
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.dispatch.watchdog import Patience
from tpu_ui.errors import DeviceUnavailableError, LoadError, WorkerDiedError
from tpu_ui.protocol import Failed, Finished
from tpu_ui.shapes import ProgramState

Start = Callable[..., LocalDispatcher]
SHORT_S = 3.0  # longer than a worker that is well is silent


def test_killed_worker_fails_its_job_and_the_next_runs(start: Start) -> None:
    dispatcher = start(locked=True)
    wait_ready(dispatcher)
    (pid,) = dispatcher.worker_pids()
    job = dispatcher.submit(ask(dispatcher, "fake:slow", steps=30))
    waiting = dispatcher.submit(ask(dispatcher))
    wait_step(dispatcher, job, 1)
    os.kill(pid, signal.SIGKILL)
    assert ending_of(dispatcher, job) == Failed(
        job,
        "WorkerDiedError",
        "The worker process was killed by signal 9 in the middle of this job."
        " A new one is starting; try again.",
    )
    assert isinstance(ending_of(dispatcher, waiting), Finished)
    (new_pid,) = dispatcher.worker_pids()
    assert new_pid != pid
    assert wait_ready(dispatcher).programs_compiled_since_ready == 0


def test_new_worker_warms_what_was_ready_before_it_takes_jobs(start: Start) -> None:
    dispatcher = start(locked=True)
    wait_ready(dispatcher)
    assert isinstance(ending_of(dispatcher, dispatcher.warm_up("demo", COMPILED, WIDE)), Finished)
    job = dispatcher.submit(ask(dispatcher, "fake:slow", steps=30))
    waiting = dispatcher.submit(ask(dispatcher, size=WIDE))
    wait_step(dispatcher, job, 1)
    os.kill(dispatcher.worker_pids()[0], signal.SIGKILL)
    assert isinstance(ending_of(dispatcher, waiting), Finished)
    status = wait_ready(dispatcher)
    assert state_of(status, SQUARE) is ProgramState.READY
    assert state_of(status, WIDE) is ProgramState.READY
    assert status.programs_compiled_since_ready == 0


def test_worker_that_dies_idle_is_replaced(ready: LocalDispatcher) -> None:
    (pid,) = ready.worker_pids()
    os.kill(pid, signal.SIGKILL)
    wait_for(ready, lambda _: ready.worker_pids() not in ((pid,), ()))
    assert state_of(wait_ready(ready)) is ProgramState.READY
    assert isinstance(ending_of(ready, ready.submit(ask(ready))), Finished)


def test_job_sent_to_a_worker_that_died_idle_runs_on_the_new_one(ready: LocalDispatcher) -> None:
    for _ in range(3):
        wait_ready(ready)
        (pid,) = ready.worker_pids()
        os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):  # the dispatcher has noticed first
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert isinstance(ending_of(ready, ready.submit(ask(ready))), Finished)


def test_prompt_that_kills_its_worker_harms_only_its_own_job(ready: LocalDispatcher) -> None:
    crash = ready.submit(ask(ready, "fake:crash"))
    after = ready.submit(ask(ready))
    ending = ending_of(ready, crash)
    assert isinstance(ending, Failed)
    assert ending.kind == "WorkerDiedError"
    assert isinstance(ending_of(ready, after), Finished)


def test_out_of_memory_fails_the_job_and_gives_a_new_worker(ready: LocalDispatcher) -> None:
    before = ready.worker_pids()
    oom = ready.submit(ask(ready, "fake:oom"))
    after = ready.submit(ask(ready))
    assert ending_of(ready, oom) == Failed(
        oom, "OutOfDeviceMemoryError", "The chip's memory is used up (fake:oom)."
    )
    assert isinstance(ending_of(ready, after), Finished)
    assert ready.worker_pids() != before


def test_one_of_two_workers_dies_and_the_other_goes_on(start: Start) -> None:
    dispatcher = start(workers=2, locked=True)
    wait_for(dispatcher, lambda status: status.programs_compiled == 8)
    wait_ready(dispatcher)
    jobs = [dispatcher.submit(ask(dispatcher, "fake:slow", steps=4)) for _ in range(2)]
    for job in jobs:
        wait_step(dispatcher, job, 1)
    os.kill(dispatcher.worker_pids()[0], signal.SIGKILL)
    kinds = sorted(type(ending_of(dispatcher, job)).__name__ for job in jobs)
    assert kinds == ["Failed", "Finished"]
    assert isinstance(ending_of(dispatcher, dispatcher.submit(ask(dispatcher))), Finished)
    wait_for(dispatcher, lambda status: status.programs_compiled == 8)


def test_five_deaths_in_a_row_while_loading_are_a_failure_with_its_reason(start: Start) -> None:
    dispatcher = start("fake:load-crash")
    job = dispatcher.submit(ask(dispatcher))
    status = wait_for(dispatcher, lambda status: status.state == "failed")
    reason = (
        "The worker process was killed by signal 9 while it loaded Model demo."
        " That was 5 times in a row. It is tried again every 6 s."
    )
    assert status.detail == reason
    assert ending_of(dispatcher, job) == Failed(job, "WorkerDiedError", reason)
    with pytest.raises(WorkerDiedError, match="5 times in a row"):
        dispatcher.submit(ask(dispatcher))
    assert dispatcher.worker_pids() == ()


def test_worker_that_is_down_is_tried_again_after_a_rest(start: Start, tmp_path: Path) -> None:
    dispatcher = start("fake:load-crash", first_pause_s=0.005)
    wait_for(dispatcher, lambda status: status.state == "failed")
    (tmp_path / "cache" / "fake-mended").touch()
    wait_ready(dispatcher)
    assert isinstance(ending_of(dispatcher, dispatcher.submit(ask(dispatcher))), Finished)


def test_worker_that_every_job_kills_is_left_alone_longer_and_longer_then_is_down(
    start: Start,
) -> None:
    dispatcher = start(first_pause_s=0.2)
    jobs = [dispatcher.submit(ask(dispatcher, "fake:crash")) for _ in range(6)]
    pauses = set()

    def down(status: Status) -> bool:
        if "Next try in" in status.detail:
            pauses.add(status.detail.partition("Next try in ")[2])
        return status.state == "failed"

    status = wait_for(dispatcher, down)
    assert {"0.2 s (3 of 5).", "0.8 s (4 of 5).", "3.2 s (5 of 5)."} <= pauses
    assert status.detail.startswith(
        "The worker process was killed by signal 9 in the middle of this job. That was 5 times"
    )
    messages = [ending_of(dispatcher, job).message for job in jobs]  # type: ignore[union-attr]
    assert all(message.endswith("try again.") for message in messages[:5])
    assert messages[5] == status.detail
    with pytest.raises(WorkerDiedError, match="5 times in a row"):
        dispatcher.submit(ask(dispatcher))


def test_finished_picture_ends_the_row(start: Start) -> None:
    dispatcher = start()
    for _ in range(2):
        for prompt in ("fake:crash", "fake:crash", "fake:crash", "a hill"):
            ending = ending_of(dispatcher, dispatcher.submit(ask(dispatcher, prompt)))
    assert isinstance(ending, Finished)


@pytest.mark.parametrize("during", ["idle", "loading", "compiling", "generating"])
def test_stopped_worker_is_found_and_replaced(start: Start, during: str) -> None:
    flaw = {"loading": "fake:slow-load", "compiling": "fake:slow-warm"}.get(during, "A fake.")
    dispatcher = start(flaw, patience=Patience.of(SHORT_S), warm="none")
    job = ""
    if during == "loading":
        wait_for(dispatcher, lambda status: "1 of 3" in status.detail)
    else:
        wait_ready(dispatcher)
    if during == "compiling":
        job = dispatcher.warm_up("demo", COMPILED, SQUARE)
        wait_for(dispatcher, lambda status: state_of(status) is ProgramState.COMPILING)
    if during == "generating":
        job = dispatcher.submit(ask(dispatcher, "fake:slow", steps=30))
        wait_step(dispatcher, job, 2)
    (pid,) = dispatcher.worker_pids()
    os.kill(pid, signal.SIGSTOP)
    if job:
        ending = ending_of(dispatcher, job)
        assert isinstance(ending, Failed)
        assert ending.message == (
            "The worker process hung (the process was stopped by a signal) and was ended in the"
            " middle of this job. A new one is starting; try again."
        )
    assert not alive(pid) or wait_for(dispatcher, lambda _: not alive(pid))
    assert isinstance(ending_of(dispatcher, dispatcher.submit(ask(dispatcher))), Finished)


def test_step_that_never_ends_is_found_and_the_next_job_runs(start: Start) -> None:
    dispatcher = start(patience=Patience(step_s=SHORT_S))
    wait_ready(dispatcher)
    stuck = dispatcher.submit(ask(dispatcher, "fake:stuck"))
    after = dispatcher.submit(ask(dispatcher))
    ending = ending_of(dispatcher, stuck)
    assert isinstance(ending, Failed)
    assert "hung (a step took more than 3 s" in ending.message
    assert isinstance(ending_of(dispatcher, after), Finished)


def test_compilation_that_is_longer_than_a_step_may_take_is_left_alone(start: Start) -> None:
    dispatcher = start("fake:slow-warm", patience=Patience(step_s=0.5), warm="none")
    wait_ready(dispatcher)
    job = dispatcher.warm_up("demo", COMPILED, SQUARE)
    assert isinstance(ending_of(dispatcher, job), Finished)


def test_load_error_is_shown_and_a_warm_up_tries_again(start: Start, tmp_path: Path) -> None:
    dispatcher = start("fake:load-error", locked=True)
    status = wait_for(dispatcher, lambda status: status.state == "failed")
    assert status.detail == "The weights of text_encoder are missing (fake:load-error)."
    with pytest.raises(LoadError, match="weights of text_encoder are missing"):
        dispatcher.submit(ask(dispatcher))
    failed = ending_of(dispatcher, dispatcher.warm_up("demo", COMPILED, SQUARE))
    assert isinstance(failed, Failed)
    assert failed.kind == "LoadError"
    wait_for(dispatcher, lambda status: status.state == "failed")
    (tmp_path / "cache" / "fake-mended").touch()
    job = dispatcher.warm_up("demo", COMPILED, SQUARE)
    assert isinstance(ending_of(dispatcher, job), Finished)
    assert isinstance(ending_of(dispatcher, dispatcher.submit(ask(dispatcher))), Finished)


def test_unlocked_app_whose_model_is_broken_still_takes_another(
    start: Start, tmp_path: Path
) -> None:
    presets = {
        "demo": make_preset(tmp_path, "demo", "fake:load-error"),
        "other": make_preset(tmp_path, "other"),
    }
    dispatcher = start(presets=presets)
    wait_for(dispatcher, lambda status: status.state == "failed")
    with pytest.raises(LoadError):
        dispatcher.submit(ask(dispatcher))
    job = dispatcher.submit(ask(dispatcher, model="other"))
    assert isinstance(ending_of(dispatcher, job), Finished)
    assert dispatcher.status().model == "other"


def test_device_that_is_not_there_is_a_failure_without_retries(start: Start) -> None:
    dispatcher = start(device="tpu")
    status = wait_for(dispatcher, lambda status: status.state == "failed")
    assert status.detail == "The fake runtime has no TPU; use software-tpu or cpu."
    with pytest.raises(DeviceUnavailableError, match="no TPU"):
        dispatcher.submit(ask(dispatcher))


def test_runtime_that_cannot_be_imported_is_a_failure_with_its_reason(start: Start) -> None:
    dispatcher = start(runtime="tpu_ui.runtime.no_such_module:Runtime")
    status = wait_for(dispatcher, lambda status: status.state == "failed")
    assert "ModuleNotFoundError" in status.detail
