"""Claims about cancelling: within one step, one ending, nothing left held."""

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.dispatch.driving import (
    COMPILED,
    SQUARE,
    WIDE,
    all_updates,
    ask,
    ending_of,
    make_preset,
    state_of,
    wait_for,
    wait_ready,
    wait_step,
)
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.protocol import Cancelled, Finished, Stepped
from tpu_ui.shapes import ProgramState

Start = Callable[..., LocalDispatcher]


def test_waiting_job_is_cancelled_at_once_and_never_runs(ready: LocalDispatcher) -> None:
    running = ready.submit(ask(ready, "fake:slow", steps=5))
    wait_step(ready, running, 0)
    waiting = ready.submit(ask(ready))
    assert ready.cancel(waiting).to_dict() == {"job": waiting, "state": "cancelled"}
    assert ready.status().queue_length == 0
    updates = all_updates(ready, waiting)
    assert [type(one).__name__ for one in updates] == ["Queued", "Cancelled"]
    assert isinstance(ending_of(ready, running), Finished)


def test_running_job_is_cancelled_within_one_step_and_the_next_runs(
    ready: LocalDispatcher,
) -> None:
    pids = ready.worker_pids()
    job = ready.submit(ask(ready, "fake:slow", steps=30))
    wait_step(ready, job, 2)
    begin_s = time.monotonic()
    assert ready.cancel(job).state == "cancelled"
    assert isinstance(ending_of(ready, job), Cancelled)
    assert time.monotonic() - begin_s < 1.0  # a step takes 0.2 s
    steps = [one.step for one in all_updates(ready, job) if isinstance(one, Stepped)]
    assert max(steps) <= 4
    assert isinstance(ending_of(ready, ready.submit(ask(ready))), Finished)
    assert ready.worker_pids() == pids


def test_ended_and_unknown_jobs_are_told_apart(ready: LocalDispatcher) -> None:
    job = ready.submit(ask(ready))
    assert isinstance(ending_of(ready, job), Finished)
    assert ready.cancel(job).state == "finished"
    slow = ready.submit(ask(ready, "fake:slow", steps=30))
    assert ready.cancel(slow).state == "cancelled"
    assert isinstance(ending_of(ready, slow), Cancelled)
    assert ready.cancel(slow).state == "cancelled"
    assert ready.cancel("no-such-job").state == "unknown"
    assert isinstance(ending_of(ready, job), Finished)


def test_job_cancelled_again_and_again_ends_once(ready: LocalDispatcher) -> None:
    job = ready.submit(ask(ready, "fake:slow", steps=30))
    wait_step(ready, job, 1)
    threads = [threading.Thread(target=ready.cancel, args=(job,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert isinstance(ending_of(ready, job), Cancelled)
    assert isinstance(ending_of(ready, ready.submit(ask(ready))), Finished)


def test_cancel_that_races_with_the_end_leaves_one_ending_each(ready: LocalDispatcher) -> None:
    tick = threading.Event()
    chance = random.Random(5)
    endings = []
    for _ in range(40):
        job = ready.submit(ask(ready, steps=1))
        tick.wait(chance.uniform(0, 0.012))
        ready.cancel(job)
        endings.append(type(ending_of(ready, job)))
    assert set(endings) <= {Finished, Cancelled}
    assert isinstance(ending_of(ready, ready.submit(ask(ready))), Finished)
    assert ready.status().state == "ready"


def test_warm_up_is_cancelled_between_its_programs_and_stays_cold(start: Start) -> None:
    dispatcher = start("fake:slow-warm", warm="none")
    wait_ready(dispatcher)
    job = dispatcher.warm_up("demo", COMPILED, WIDE)
    wait_for(dispatcher, lambda status: state_of(status, WIDE) is ProgramState.COMPILING)
    dispatcher.cancel(job)
    assert isinstance(ending_of(dispatcher, job), Cancelled)
    assert state_of(dispatcher.status(), WIDE) is ProgramState.COLD
    again = dispatcher.warm_up("demo", COMPILED, WIDE)
    assert again != job
    assert isinstance(ending_of(dispatcher, again), Finished)
    assert state_of(dispatcher.status(), WIDE) is ProgramState.READY


def test_cold_request_is_cancelled_while_it_warms_up(start: Start) -> None:
    dispatcher = start("fake:slow-warm", warm="none")
    wait_ready(dispatcher)
    job = dispatcher.submit(ask(dispatcher))
    wait_for(dispatcher, lambda status: state_of(status) is ProgramState.COMPILING)
    dispatcher.cancel(job)
    kinds = [type(one).__name__ for one in all_updates(dispatcher, job)]
    assert kinds[-1] == "Cancelled"
    assert "Stepped" not in kinds


def test_warm_up_of_two_workers_is_cancelled_on_both(start: Start) -> None:
    dispatcher = start("fake:slow-warm", warm="none", workers=2)
    wait_for(dispatcher, lambda _: len(dispatcher.worker_pids()) == 2)
    wait_ready(dispatcher)
    job = dispatcher.warm_up("demo", COMPILED, SQUARE)
    wait_for(dispatcher, lambda status: state_of(status) is ProgramState.COMPILING)
    dispatcher.cancel(job)
    assert isinstance(ending_of(dispatcher, job), Cancelled)
    assert state_of(dispatcher.status()) is ProgramState.COLD
    assert isinstance(ending_of(dispatcher, dispatcher.submit(ask(dispatcher))), Finished)


def test_request_for_another_model_is_cancelled_while_that_loads(
    start: Start, tmp_path: Path
) -> None:
    presets = {
        "demo": make_preset(tmp_path),
        "slow": make_preset(tmp_path, "slow", "fake:slow-load"),
    }
    dispatcher = start(presets=presets)
    wait_ready(dispatcher)
    for detail in ("Loading Model slow: starting", "Loading Model slow: transformer"):
        job = dispatcher.submit(ask(dispatcher, model="slow"))
        wait_for(dispatcher, lambda status, detail=detail: status.detail.startswith(detail))
        dispatcher.cancel(job)
        assert isinstance(ending_of(dispatcher, job), Cancelled)
    assert isinstance(ending_of(dispatcher, dispatcher.submit(ask(dispatcher))), Finished)
    assert dispatcher.status().model == "demo"
