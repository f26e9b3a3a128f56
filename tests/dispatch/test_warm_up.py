"""Claims about warm-ups: in view, never swallowed, never doubled, their cost remembered."""

from collections.abc import Callable
from pathlib import Path

import pytest

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
)
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.dispatch.state import warming_message
from tpu_ui.protocol import Failed, Finished, Warmed, Warming
from tpu_ui.shapes import Mode, ProgramState

Start = Callable[..., LocalDispatcher]


def test_stages_and_counts_are_in_view_while_it_goes_on(start: Start) -> None:
    dispatcher = start("fake:slow-warm")
    status = wait_for(
        dispatcher, lambda status: status.sizes[COMPILED][SQUARE].stage == "step 1 of 2"
    )
    assert status.state == "warming"
    assert status.detail.startswith("Compiling 64x64 in compiled mode: 1 program, ")
    assert "(step 1 of 2)" in status.detail
    assert status.sizes[COMPILED][SQUARE].programs_compiled >= 1
    done = wait_ready(dispatcher).sizes[COMPILED][SQUARE]
    assert (done.state, done.programs_compiled) == (ProgramState.READY, 4)
    assert done.seconds is not None
    assert done.seconds >= 0.8


def test_compiler_that_blocks_still_shows_signs_of_life(start: Start) -> None:
    dispatcher = start("fake:block-warm", warm="none")
    wait_ready(dispatcher)
    job = dispatcher.warm_up("demo", COMPILED, SQUARE)
    updates = all_updates(dispatcher, job)
    texts = [one for one in updates if isinstance(one, Warming) and one.stage == "text"]
    assert len(texts) >= 3  # the runtime itself said it once, then nothing for 1.5 s
    elapsed = [one.elapsed_s for one in texts]
    assert elapsed == sorted(elapsed)
    assert elapsed[-1] >= 0.9
    assert isinstance(updates[-2], Warmed)


def test_ready_size_is_warm_at_once(ready: LocalDispatcher) -> None:
    job = ready.warm_up("demo", COMPILED, SQUARE)
    assert all_updates(ready, job) == [Finished(job)]


def test_same_warm_up_twice_is_one_job(start: Start) -> None:
    dispatcher = start("fake:slow-warm")
    wait_for(dispatcher, lambda status: state_of(status) is ProgramState.COMPILING)
    running = dispatcher.warm_up("demo", COMPILED, SQUARE)
    waiting = dispatcher.warm_up("demo", COMPILED, WIDE)
    assert dispatcher.warm_up("demo", COMPILED, WIDE) == waiting
    assert dispatcher.warm_up("demo", COMPILED, SQUARE) == running
    assert dispatcher.status().sizes[COMPILED][WIDE].stage == "waits for its turn"
    assert isinstance(ending_of(dispatcher, running), Finished)
    assert isinstance(ending_of(dispatcher, waiting), Finished)
    assert dispatcher.status().programs_compiled == 8


def test_failed_warm_up_is_shown_with_its_reason_and_other_sizes_go_on(start: Start) -> None:
    dispatcher = start("fake:warm-error=64x64", warm="all", locked=True)
    status = wait_for(dispatcher, lambda status: state_of(status, WIDE) is ProgramState.READY)
    failed = status.sizes[COMPILED][SQUARE]
    assert failed.state is ProgramState.FAILED
    assert "the compiler gave up" in failed.reason
    assert isinstance(
        ending_of(dispatcher, dispatcher.submit(ask(dispatcher, size=WIDE))), Finished
    )


def test_failed_warm_up_can_be_tried_again(start: Start, tmp_path: Path) -> None:
    dispatcher = start("fake:warm-error=64x64")
    wait_for(dispatcher, lambda status: state_of(status) is ProgramState.FAILED)
    job = dispatcher.warm_up("demo", COMPILED, SQUARE)
    ending = ending_of(dispatcher, job)
    assert isinstance(ending, Failed)
    assert "the compiler gave up" in ending.message
    (tmp_path / "cache" / "fake-mended").touch()
    job = dispatcher.warm_up("demo", COMPILED, SQUARE)
    assert isinstance(ending_of(dispatcher, job), Finished)
    assert state_of(dispatcher.status()) is ProgramState.READY


def test_warm_up_that_kills_its_worker_fails_and_the_app_comes_up_without_it(
    start: Start,
) -> None:
    dispatcher = start("fake:warm-crash=64x64", warm="all")
    status = wait_for(
        dispatcher,
        lambda status: state_of(status, WIDE) is ProgramState.READY and status.state == "ready",
    )
    failed = status.sizes[COMPILED][SQUARE]
    assert failed.state is ProgramState.FAILED
    assert "killed by signal 9" in failed.reason
    assert isinstance(
        ending_of(dispatcher, dispatcher.submit(ask(dispatcher, size=WIDE))), Finished
    )


def test_warm_up_somebody_asked_for_that_kills_its_worker_is_not_repeated(start: Start) -> None:
    dispatcher = start("fake:warm-crash=96x64")
    wait_ready(dispatcher)
    ending = ending_of(dispatcher, dispatcher.warm_up("demo", COMPILED, WIDE))
    assert isinstance(ending, Failed)
    assert ending.kind == "WorkerDiedError"
    status = wait_ready(dispatcher)
    assert state_of(status, SQUARE) is ProgramState.READY
    assert state_of(status, WIDE) is ProgramState.FAILED


def test_every_worker_is_warmed_before_a_size_is_ready(start: Start) -> None:
    dispatcher = start(workers=2, warm="none")
    wait_for(dispatcher, lambda _: len(dispatcher.worker_pids()) == 2)
    wait_ready(dispatcher)
    assert isinstance(ending_of(dispatcher, dispatcher.warm_up("demo", COMPILED, WIDE)), Finished)
    status = dispatcher.status()
    assert state_of(status, WIDE) is ProgramState.READY
    assert status.programs_compiled == 8


@pytest.mark.parametrize("locked", [True, False])
def test_warm_up_of_another_model_loads_it(start: Start, tmp_path: Path, locked: bool) -> None:
    presets = {name: make_preset(tmp_path, name) for name in ("demo", "other")}
    dispatcher = start(presets=presets, locked=locked)
    wait_ready(dispatcher)
    updates = all_updates(dispatcher, dispatcher.warm_up("other", COMPILED, WIDE))
    kinds = [type(one).__name__ for one in updates]
    assert kinds.index("Loading") < kinds.index("Warming") < kinds.index("Warmed")
    assert isinstance(updates[-1], Finished)
    status = dispatcher.status()
    assert (status.model, state_of(status, WIDE)) == ("other", ProgramState.READY)
    job = dispatcher.submit(ask(dispatcher, model="other", size=WIDE))
    assert isinstance(ending_of(dispatcher, job), Finished)


def test_cost_of_a_warm_up_is_known_at_the_next_start(start: Start) -> None:
    first = start("fake:slow-warm")
    took = wait_ready(first).sizes[COMPILED][SQUARE].seconds
    first.close()
    second = start("fake:slow-warm", warm="none")
    cold = wait_ready(second).sizes[COMPILED]
    assert cold[SQUARE].state is ProgramState.COLD
    assert cold[SQUARE].expected_s == pytest.approx(took, abs=0.01)
    assert cold[WIDE].expected_s is None
    updates = all_updates(second, second.warm_up("demo", COMPILED, SQUARE))
    expected = {one.expected_s for one in updates if isinstance(one, Warming)}
    assert expected == {cold[SQUARE].expected_s}


@pytest.mark.parametrize(
    ("programs", "expected_s", "said"),
    [
        (41, 30.2, "41 programs, 12 s of about 30 s (step 1 of 2)."),
        (1, None, "1 program, 12 s so far (step 1 of 2)."),
    ],
)
def test_a_warm_up_says_programs_and_seconds_of_how_many(
    programs: int, expected_s: float | None, said: str
) -> None:
    event = Warming("j", Mode.COMPILED, WIDE, "step 1 of 2", programs, 12.4, expected_s)
    assert warming_message(event) == f"Compiling 96x64 in compiled mode: {said}"
