"""Claims about the queue and about what a job's listeners are told."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from tests.dispatch.driving import (
    COMPILED,
    SQUARE,
    WIDE,
    all_updates,
    ask,
    ending_of,
    in_time,
    make_preset,
    saved_by,
    state_of,
    wait_for,
    wait_ready,
    wait_step,
)
from tpu_ui.dispatch.interface import ImageSaved, Queued
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.dispatch.outputs import mark_of
from tpu_ui.errors import InvalidRequestError, ModeUnavailableError, QueueFullError, SettingsError
from tpu_ui.metadata import read_png
from tpu_ui.protocol import Cancelled, Failed, Finished, ImageMade, Stepped, Warming
from tpu_ui.shapes import Device, ImageSize, Mode, ProgramState

Start = Callable[..., LocalDispatcher]


def test_constructor_returns_while_the_model_is_still_loading(start: Start) -> None:
    dispatcher = start("fake:slow-load")
    status = dispatcher.status()
    assert (status.state, status.device) == ("loading", None)
    assert dispatcher.limits("demo").default_mode is Mode.COMPILED
    told = wait_for(dispatcher, lambda status: "2 of 3" in status.detail).detail
    assert told == "Loading Model demo: transformer, 2 of 3, 2 MB so far."
    assert wait_ready(dispatcher).device is Device.SOFTWARE_TPU


def test_each_of_several_images_has_its_seed_its_file_and_its_settings(
    ready: LocalDispatcher,
) -> None:
    job = ready.submit(ask(ready, "three hills", count=3, seed=1000))
    updates = all_updates(ready, job)
    saved = [one for one in updates if isinstance(one, ImageSaved)]
    assert [one.image for one in saved] == [1, 2, 3]
    assert [one.info.seed for one in saved] == [1000, 1001, 1002]
    assert not any(isinstance(one, ImageMade) for one in updates)
    for one in saved:
        assert one.path.name == f"{mark_of(job, one.image)}-{one.image}-{one.info.seed}.png"
        assert read_png(one.path)["prompt"] == "three hills"
        with Image.open(one.path) as picture:
            assert picture.size == (64, 64)
            assert picture.getpixel((5, 5)) == (0, one.info.seed >> 8, one.info.seed & 255)


def test_size_is_width_by_height(ready: LocalDispatcher) -> None:
    (saved,) = saved_by(ready, ready.submit(ask(ready, size=WIDE)))
    with Image.open(saved.path) as picture:
        assert picture.size == (96, 64)


def test_jobs_run_in_the_order_they_came(ready: LocalDispatcher) -> None:
    jobs = [ready.submit(ask(ready, f"number {n} fake:slow", steps=1)) for n in range(4)]
    for job in jobs:
        assert isinstance(ending_of(ready, job), Finished)
    paths = [saved_by(ready, job)[0].path for job in jobs]
    written = [path.stat().st_mtime_ns for path in paths]
    assert written == sorted(written)


def test_waiting_jobs_are_told_their_place_as_it_changes(ready: LocalDispatcher) -> None:
    first = ready.submit(ask(ready, "fake:slow", steps=3))
    wait_step(ready, first, 0)
    jobs = [ready.submit(ask(ready)) for _ in range(3)]
    assert ready.status().queue_length == 3
    assert ready.status().state == "busy"
    updates = all_updates(ready, jobs[2])
    places = [one.position for one in updates if isinstance(one, Queued)]
    assert list(dict.fromkeys(places)) == [2, 1, 0]


def test_waiting_jobs_are_told_how_long_it_may_take(start: Start) -> None:
    dispatcher = start()
    wait_ready(dispatcher)
    ending_of(dispatcher, dispatcher.submit(ask(dispatcher, "fake:slow", steps=5)))  # 0.2 s a step
    running = dispatcher.submit(ask(dispatcher, "fake:slow", steps=5))
    wait_step(dispatcher, running, 0)
    dispatcher.submit(ask(dispatcher, "fake:slow", steps=20))
    last = dispatcher.submit(ask(dispatcher))
    told = next(one for one in dispatcher.updates(last) if isinstance(one, Queued))
    assert told.position == 1
    assert told.expected_s == pytest.approx(5.0, abs=0.7)


def test_wait_in_the_queue_is_part_of_the_timings(ready: LocalDispatcher) -> None:
    ready.submit(ask(ready, "fake:slow", steps=2))
    (saved,) = saved_by(ready, ready.submit(ask(ready)))
    timings = saved.info.timings_s
    assert timings.queue >= 0.3
    assert timings.total == pytest.approx(timings.queue + timings.denoise)
    assert read_png(saved.path)["timings_s"]["queue"] == timings.queue


def test_full_queue_refuses_and_says_how_many_wait(start: Start) -> None:
    dispatcher = start(queue_limit=2)
    wait_ready(dispatcher)
    running = dispatcher.submit(ask(dispatcher, "fake:slow", steps=5))
    wait_step(dispatcher, running, 0)
    for _ in range(2):
        dispatcher.submit(ask(dispatcher))
    with pytest.raises(QueueFullError, match="2 jobs wait already"):
        dispatcher.submit(ask(dispatcher))


def test_late_and_early_listeners_hear_the_same(ready: LocalDispatcher) -> None:
    job = ready.submit(ask(ready, "fake:slow", steps=3, count=2))
    heard: list[list[object]] = [[], []]
    threads = [
        threading.Thread(target=lambda into=into: into.extend(ready.updates(job))) for into in heard
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    late = all_updates(ready, job)
    assert heard[0] == heard[1] == late
    steps = [(one.image, one.step) for one in late if isinstance(one, Stepped)]
    assert steps == [(image, step) for image in (1, 2) for step in range(4)]


def test_job_goes_on_when_its_listener_leaves(ready: LocalDispatcher) -> None:
    job = ready.submit(ask(ready, "fake:slow", steps=2))
    listener = iter(ready.updates(job))
    next(listener)
    del listener
    assert isinstance(ending_of(ready, job), Finished)


def test_unknown_job_is_a_key_error_at_once(ready: LocalDispatcher) -> None:
    with pytest.raises(KeyError):
        ready.updates("no-such-job")


def test_error_ends_its_job_with_a_message_and_the_next_runs(ready: LocalDispatcher) -> None:
    pids = ready.worker_pids()
    failed = ending_of(ready, ready.submit(ask(ready, "fake:error")))
    assert isinstance(failed, Failed)
    assert failed.kind == "RuntimeError"
    assert failed.message == (
        "Something went wrong in the worker (RuntimeError: the fake runtime was asked for this"
        " error). The log has the rest."
    )
    assert isinstance(ending_of(ready, ready.submit(ask(ready))), Finished)
    assert ready.worker_pids() == pids


def test_broken_image_is_told_in_its_own_words(ready: LocalDispatcher) -> None:
    failed = ending_of(ready, ready.submit(ask(ready, "fake:broken")))
    assert failed == Failed(
        failed.job, "BrokenImageError", "The model made NaN values (fake:broken)."
    )


def test_picture_of_another_size_is_refused_and_not_kept(ready: LocalDispatcher) -> None:
    job = ready.submit(ask(ready, "fake:wrong-size fake:slow", count=4, steps=1))
    failed = ending_of(ready, job)
    assert isinstance(failed, Failed)
    assert failed.kind == "BrokenImageError"
    assert "32x64" in failed.message
    assert saved_by(ready, job) == []
    assert isinstance(ending_of(ready, ready.submit(ask(ready))), Finished)


def test_outputs_that_cannot_be_written_fail_the_job_and_the_app_goes_on(
    start: Start, tmp_path: Path
) -> None:
    dispatcher = start()
    wait_ready(dispatcher)
    outputs = tmp_path / "outputs"
    outputs.write_text("a file where a folder should be")
    failed = ending_of(dispatcher, dispatcher.submit(ask(dispatcher, count=3)))
    assert isinstance(failed, Failed)
    assert "could not be written into the outputs folder" in failed.message
    assert str(tmp_path) not in failed.message
    outputs.unlink()
    assert len(saved_by(dispatcher, dispatcher.submit(ask(dispatcher)))) == 1
    assert list(outputs.rglob("*.tmp")) == []


def test_unlocked_cold_request_warms_up_first_in_view_and_is_ready_after(
    fresh: LocalDispatcher,
) -> None:
    assert state_of(fresh.status(), WIDE) is ProgramState.COLD
    job = fresh.submit(ask(fresh, size=WIDE))
    updates = all_updates(fresh, job)
    kinds = [type(one).__name__ for one in updates]
    assert kinds.index("Warming") < kinds.index("Warmed") < kinds.index("Stepped")
    assert isinstance(updates[-1], Finished)
    assert all(one.job == job for one in updates)
    (saved,) = [one for one in updates if isinstance(one, ImageSaved)]
    assert saved.info.programs_compiled == 0
    status = fresh.status()
    assert state_of(status, WIDE) is ProgramState.READY
    assert (status.programs_compiled, status.programs_compiled_since_ready) == (8, 0)


def test_unlocked_request_that_came_before_loading_waits_for_the_warm_up(start: Start) -> None:
    dispatcher = start("fake:slow-load")
    job = dispatcher.submit(ask(dispatcher))
    updates = all_updates(dispatcher, job)
    assert isinstance(updates[-1], Finished)
    assert not any(isinstance(one, Warming) for one in updates)


def test_compilation_after_ready_is_counted_as_a_bug(fresh: LocalDispatcher) -> None:
    ending_of(fresh, fresh.submit(ask(fresh, "fake:compile")))
    status = fresh.status()
    assert (status.programs_compiled, status.programs_compiled_since_ready) == (5, 1)


def test_other_model_starts_a_new_worker_and_the_old_sizes_are_cold(
    start: Start, tmp_path: Path
) -> None:
    presets = {name: make_preset(tmp_path, name) for name in ("demo", "other")}
    dispatcher = start(presets=presets)
    wait_ready(dispatcher)
    before = dispatcher.worker_pids()
    job = dispatcher.submit(ask(dispatcher, model="other"))
    updates = all_updates(dispatcher, job)
    kinds = [type(one).__name__ for one in updates]
    assert kinds.index("Loading") < kinds.index("Warming") < kinds.index("ImageSaved")
    assert saved_by(dispatcher, job)[0].info.model == "other"
    status = dispatcher.status()
    assert status.model == "other"
    assert state_of(status) is ProgramState.READY
    assert dispatcher.worker_pids() != before
    again = dispatcher.submit(ask(dispatcher))
    assert any(isinstance(one, Warming) for one in all_updates(dispatcher, again))
    assert dispatcher.status().model == "demo"


def test_model_that_cannot_be_loaded_fails_its_job_and_the_old_one_comes_back(
    start: Start, tmp_path: Path
) -> None:
    presets = {
        "demo": make_preset(tmp_path),
        "broken": make_preset(tmp_path, "broken", "fake:load-error"),
        "deadly": make_preset(tmp_path, "deadly", "fake:load-crash"),
    }
    dispatcher = start(presets=presets)
    wait_ready(dispatcher)
    failed = ending_of(dispatcher, dispatcher.submit(ask(dispatcher, model="broken")))
    assert isinstance(failed, Failed)
    assert failed.kind == "LoadError"
    assert "weights" in failed.message
    died = ending_of(dispatcher, dispatcher.submit(ask(dispatcher, model="deadly")))
    assert isinstance(died, Failed)
    assert died.kind == "WorkerDiedError"
    assert isinstance(ending_of(dispatcher, dispatcher.submit(ask(dispatcher))), Finished)
    assert dispatcher.status().model == "demo"


@pytest.mark.parametrize("flaw", ["fake:load-error", "fake:load-crash"])
def test_sizes_that_were_ready_are_warm_again_when_another_model_cannot_be_loaded(
    start: Start, tmp_path: Path, flaw: str
) -> None:
    presets = {"demo": make_preset(tmp_path), "broken": make_preset(tmp_path, "broken", flaw)}
    dispatcher = start(presets=presets, locked=True)
    wait_ready(dispatcher)
    ending_of(dispatcher, dispatcher.warm_up("demo", COMPILED, WIDE))
    failed = ending_of(dispatcher, dispatcher.warm_up("broken", COMPILED, SQUARE))
    assert isinstance(failed, Failed)
    for size in (SQUARE, WIDE):
        wait_for(dispatcher, lambda now, size=size: state_of(now, size) is ProgramState.READY)
    assert dispatcher.status().model == "demo"
    wide = dispatcher.submit(ask(dispatcher, size=str(WIDE)))
    assert saved_by(dispatcher, wide)[0].info.programs_compiled == 0


def test_requests_are_checked_again_whoever_made_them(ready: LocalDispatcher) -> None:
    request = ask(ready)
    with pytest.raises(InvalidRequestError, match="no size 1x1"):
        ready.submit(type(request)(**{**_fields(request), "size": ImageSize(1, 1)}))
    with pytest.raises(InvalidRequestError, match="no model 'x'; choose from demo"):
        ready.submit(type(request)(**{**_fields(request), "model": "x"}))
    with pytest.raises(InvalidRequestError, match="choose from 64x64, 96x64"):
        ready.warm_up("demo", Mode.COMPILED, ImageSize(1, 1))


def test_mode_that_the_device_lacks_is_refused(start: Start) -> None:
    dispatcher = start(device="cpu")
    status = wait_ready(dispatcher)
    assert (status.mode, list(status.sizes)) == (Mode.EAGER, [Mode.EAGER])
    assert state_of(status, SQUARE, Mode.EAGER) is ProgramState.READY
    with pytest.raises(ModeUnavailableError):
        dispatcher.warm_up("demo", Mode.COMPILED, SQUARE)
    with pytest.raises(ModeUnavailableError):
        start(device="cpu", mode=Mode.COMPILED)


def test_wrong_settings_are_refused_at_once(start: Start) -> None:
    with pytest.raises(SettingsError, match="choose from default, all, none"):
        start(warm="some")
    with pytest.raises(SettingsError, match="at least 1"):
        start(workers=0)
    with pytest.raises(InvalidRequestError, match="no model"):
        start(model="no-such-model")


def test_two_workers_run_two_jobs_at_a_time(start: Start) -> None:
    dispatcher = start(workers=2)
    wait_for(dispatcher, lambda status: len(dispatcher.worker_pids()) == 2)
    wait_for(dispatcher, lambda status: status.programs_compiled == 8)
    jobs = [dispatcher.submit(ask(dispatcher, "fake:slow", steps=3)) for _ in range(2)]
    for job in jobs:
        wait_step(dispatcher, job, 1)
    assert dispatcher.status().queue_length == 0
    assert [type(ending_of(dispatcher, job)) for job in jobs] == [Finished, Finished]
    assert state_of(dispatcher.status()) is ProgramState.READY


def test_close_ends_every_job_and_later_ones_are_refused(start: Start) -> None:
    dispatcher = start()
    wait_ready(dispatcher)
    jobs = [dispatcher.submit(ask(dispatcher, "fake:slow", steps=30)) for _ in range(2)]
    wait_step(dispatcher, jobs[0], 1)
    in_time(dispatcher.close)
    assert [type(ending_of(dispatcher, job)) for job in jobs] == [Cancelled, Cancelled]
    with pytest.raises(InvalidRequestError, match="shutting down"):
        dispatcher.submit(ask(dispatcher))
    dispatcher.close()


def _fields(request: object) -> dict[str, object]:
    return {name: getattr(request, name) for name in request.__slots__}  # type: ignore[attr-defined]
