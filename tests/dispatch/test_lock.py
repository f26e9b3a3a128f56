"""Claims about the lock: nobody who comes by makes the app compile."""

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
from tpu_ui.errors import LockedError
from tpu_ui.protocol import Failed, Finished, Warming
from tpu_ui.shapes import Mode, ProgramState

Start = Callable[..., LocalDispatcher]


@pytest.fixture
def locked(start: Start, tmp_path: Path) -> LocalDispatcher:
    presets = {name: make_preset(tmp_path, name) for name in ("demo", "other")}
    dispatcher = start(presets=presets, locked=True)
    wait_ready(dispatcher)
    return dispatcher


def test_ready_size_runs_and_compiles_nothing(locked: LocalDispatcher) -> None:
    assert locked.status().locked
    before = locked.status().programs_compiled
    for prompt, steps, guidance in (("a hill", 1, 1.0), ("the sea", 30, 8.0)):
        request = ask(locked, prompt, steps=steps, guidance=guidance, seed=-1)
        assert isinstance(ending_of(locked, locked.submit(request)), Finished)
    assert locked.status().programs_compiled == before


def test_size_that_is_not_ready_is_refused_naming_the_ready_ones(locked: LocalDispatcher) -> None:
    with pytest.raises(LockedError) as caught:
        locked.submit(ask(locked, size=WIDE))
    assert str(caught.value) == "96x64 is not ready in compiled mode. Ready: 64x64."
    with pytest.raises(LockedError) as caught:
        locked.submit(ask(locked, mode="eager"))
    assert str(caught.value) == ("64x64 is not ready in eager mode. Ready: 64x64 in compiled mode.")
    assert locked.status().queue_length == 0


def test_model_that_is_not_loaded_is_refused(locked: LocalDispatcher) -> None:
    with pytest.raises(LockedError) as caught:
        locked.submit(ask(locked, model="other"))
    assert str(caught.value) == (
        "Model other is not loaded. Ready: model demo, 64x64 in compiled mode."
    )
    assert locked.status().model == "demo"


def test_refusal_before_anything_is_ready_says_what_goes_on(start: Start) -> None:
    dispatcher = start("fake:slow-load fake:slow-warm", locked=True)
    wait_for(dispatcher, lambda status: status.device is not None)
    with pytest.raises(LockedError, match="Nothing is ready yet: the model is being loaded"):
        dispatcher.submit(ask(dispatcher))
    wait_for(dispatcher, lambda status: state_of(status) is ProgramState.COMPILING)
    with pytest.raises(LockedError) as caught:
        dispatcher.submit(ask(dispatcher, size=WIDE))
    assert str(caught.value) == "Nothing is ready yet: 64x64 is being compiled."


def test_locked_app_with_no_warm_up_says_that_nothing_will_be_ready(start: Start) -> None:
    dispatcher = start(warm="none", locked=True)
    wait_ready(dispatcher)
    with pytest.raises(LockedError, match="no size has been compiled, and the sizes are locked"):
        dispatcher.submit(ask(dispatcher))


def test_warm_up_of_a_locked_app_makes_another_size_ready(locked: LocalDispatcher) -> None:
    job = locked.warm_up("demo", Mode.EAGER, WIDE)
    assert isinstance(ending_of(locked, job), Finished)
    assert state_of(locked.status(), WIDE, Mode.EAGER) is ProgramState.READY
    request = ask(locked, size=WIDE, mode="eager")
    assert isinstance(ending_of(locked, locked.submit(request)), Finished)


def test_ready_request_does_not_wait_for_warm_ups_of_the_start(start: Start) -> None:
    dispatcher = start("fake:slow-warm", warm="all", locked=True)
    wait_for(dispatcher, lambda status: state_of(status) is ProgramState.READY)
    assert state_of(dispatcher.status(), WIDE) is not ProgramState.READY
    updates = all_updates(dispatcher, dispatcher.submit(ask(dispatcher)))
    assert isinstance(updates[-1], Finished)
    assert not any(isinstance(one, Warming) for one in updates)
    status = wait_for(dispatcher, lambda status: state_of(status, WIDE) is ProgramState.READY)
    assert {mode: set(map(str, of_mode)) for mode, of_mode in status.sizes.items()} == {
        mode: {"64x64", "96x64"} for mode in Mode
    }
    assert state_of(status, SQUARE, COMPILED) is ProgramState.READY


def test_a_lock_at_run_time_refuses_what_is_cold_and_ends_with_the_lock(start: Start) -> None:
    dispatcher = start("fake:slow-warm")
    wait_ready(dispatcher)
    waits = dispatcher.submit(ask(dispatcher, "fake:slow", steps=10))
    behind = dispatcher.submit(ask(dispatcher, size=WIDE))
    dispatcher.set_locked(True)
    assert dispatcher.status().locked
    with pytest.raises(LockedError, match="96x64 is not ready"):
        dispatcher.submit(ask(dispatcher, size=WIDE))
    assert isinstance(ending_of(dispatcher, waits), Finished)
    refused = ending_of(dispatcher, behind)
    assert isinstance(refused, Failed)
    assert refused.kind == "LockedError"
    dispatcher.set_locked(False)
    assert isinstance(
        ending_of(dispatcher, dispatcher.submit(ask(dispatcher, size=WIDE))), Finished
    )
