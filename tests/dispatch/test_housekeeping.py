"""Claims about what stays on the disk: pictures, copies, logs."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.dispatch.driving import (
    ask,
    ending_of,
    in_time,
    make_preset,
    saved_by,
    wait_ready,
)
from tpu_ui.dispatch.housekeeping import Housekeeper, Keeping
from tpu_ui.dispatch.jobs import JobBook
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.dispatch.logs import rotate
from tpu_ui.folders import Bounds
from tpu_ui.protocol import Finished

Start = Callable[..., LocalDispatcher]


def pictures_in(folder: Path) -> list[Path]:
    return list(folder.rglob("*.png"))


def test_of_a_thousand_pictures_as_many_are_kept_as_the_owner_says(
    start: Start, tmp_path: Path
) -> None:
    keeping = Keeping(pictures=Bounds(count=100), after_job_s=0.0, every_s=0.05)
    dispatcher = start(
        presets={"demo": make_preset(tmp_path, max_count=100)}, keeping=keeping, locked=True
    )
    wait_ready(dispatcher)
    outputs, most = tmp_path / "outputs", 0
    foreign = outputs / "2020-01-01" / "of the owner.png"
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(b"mine")
    for _ in range(10):
        job = dispatcher.submit(ask(dispatcher, count=100, steps=1))
        assert isinstance(ending_of(dispatcher, job), Finished)
        most = max(most, len(pictures_in(outputs)))
    assert dispatcher.tally().images == 1000
    newest = {one.path for one in saved_by(dispatcher, job)}
    deadline_s = time.monotonic() + 10
    while len(pictures_in(outputs)) > 101 and time.monotonic() < deadline_s:
        threading.Event().wait(0.05)
    assert set(pictures_in(outputs)) == newest | {foreign}
    assert most < 400  # those of the job that ran, and of one that had ended meanwhile


def test_pictures_of_a_job_that_goes_on_stay(start: Start, tmp_path: Path) -> None:
    keeping = Keeping(pictures=Bounds(count=0), after_job_s=0.0, every_s=0.02)
    dispatcher = start(keeping=keeping)
    wait_ready(dispatcher)
    job = dispatcher.submit(ask(dispatcher, "fake:slow", count=2, steps=4))

    def second_begins() -> bool:
        return any(
            getattr(update, "image", 0) == 2 and getattr(update, "step", 0) == 1
            for update in dispatcher.updates(job)
        )

    assert in_time(second_begins)
    (first, *_) = [one for one in dispatcher.recorded(job) if hasattr(one, "path")]
    assert first.path.exists()  # type: ignore[union-attr]
    assert isinstance(ending_of(dispatcher, job), Finished)
    deadline_s = time.monotonic() + 10
    while pictures_in(tmp_path / "outputs") and time.monotonic() < deadline_s:
        threading.Event().wait(0.02)
    assert pictures_in(tmp_path / "outputs") == []


def housekeeper(folder: Path, keeping: Keeping) -> Housekeeper:
    return Housekeeper(keeping, folder / "outputs", folder / "logs", JobBook(), threading.Event())


def test_half_written_files_of_a_killed_app_go(tmp_path: Path) -> None:
    day = tmp_path / "outputs" / "2026-01-01"
    day.mkdir(parents=True)
    for name, age_s in ((".a.png.1.tmp", 7200), (".b.png.1.tmp", 60), ("notes.txt", 7200)):
        (day / name).touch()
        os.utime(day / name, (time.time() - age_s,) * 2)
    housekeeper(tmp_path, Keeping()).tidy()
    assert sorted(path.name for path in day.iterdir()) == [".b.png.1.tmp", "notes.txt"]


def test_copies_go_by_age_and_size_but_not_those_just_made(tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    ages_s = {"old": 90_000, "hour": 3600, "two": 7200, "fresh": 1}
    for name, age_s in ages_s.items():
        path = copies / name / "picture.png"
        path.parent.mkdir(parents=True)
        path.write_bytes(bytes(100))
        os.utime(path, (time.time() - age_s,) * 2)
    bounds = Bounds(size_bytes=200, age_s=86_400)
    housekeeper(tmp_path, Keeping(copies=bounds, temporary=copies)).tidy()
    assert sorted(path.name for path in copies.iterdir()) == ["fresh", "hour"]
    none = Keeping(copies=Bounds(count=0), temporary=copies)
    housekeeper(tmp_path, none).tidy()
    assert [path.name for path in copies.iterdir()] == ["fresh"]


def test_links_out_of_the_outputs_are_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    picture = elsewhere / f"{'a' * 32}-1-7.png"
    picture.touch()
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "2026-01-01").symlink_to(elsewhere)
    housekeeper(tmp_path, Keeping(pictures=Bounds(count=0))).tidy()
    assert picture.exists()


def test_long_log_is_put_aside_and_its_process_writes_on(tmp_path: Path) -> None:
    path = tmp_path / "worker-0.log"
    with path.open("ab", buffering=0) as log:
        log.write(b"a" * 1000)
        rotate(tmp_path, max_bytes=2000)
        assert path.stat().st_size == 1000
        for letter in (b"b", b"c"):
            log.write(letter * 2000)
            rotate(tmp_path, max_bytes=1999)
        log.write(b"d")
    assert path.read_bytes() == b"d"
    assert (tmp_path / "worker-0.older.log").read_bytes() == b"c" * 2000


def test_prompts_are_in_no_log_unless_the_owner_says_so(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    secret = "a purple elephant"
    for told in (False, True):
        dispatcher = start(log_prompts=told, cache=tmp_path / f"cache-{told}")
        wait_ready(dispatcher)
        for prompt in ("", " fake:error", " fake:crash"):
            job = dispatcher.submit(ask(dispatcher, secret + prompt), "the visitor's session")
            ending_of(dispatcher, job)
        logs = "".join(path.read_text() for path in tmp_path.rglob("*.log"))
        assert f"[{job}]" in logs
        text = logs + caplog.text
        assert (secret in text) is told
        assert f"job {job} of visitor" in text
        assert "the visitor's session" not in text
        dispatcher.close()
