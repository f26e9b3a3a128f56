"""Claims about a machine that fails: disks, folders, clock. Each costs its own job, and no more."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.dispatch.driving import (
    COMPILED,
    SQUARE,
    ask,
    ending_of,
    make_preset,
    saved_by,
    state_of,
    wait_for,
    wait_ready,
)
from tpu_ui.dispatch import outputs
from tpu_ui.dispatch.choices import FILE_NAME as CHOICES
from tpu_ui.dispatch.costs import FILE_NAME as COSTS
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.protocol import Failed, Finished
from tpu_ui.shapes import ProgramState, Strategy

Start = Callable[..., LocalDispatcher]
TILED = '{"strategies": {"demo": "tiled"}}'
LOCKED_BY_TEXT = '{"strategies": {}, "locked": "no"}'
STRATEGIES = ("resident", "staged", "offload")


@dataclass(frozen=True)
class Disk:
    """A folder, and a context in which there is no room in it."""

    folder: Path
    full: Callable[[Path], AbstractContextManager[None]]


@pytest.fixture(params=["mounted", "stand-in"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    """A disk of its own, of 256 KB; or a folder that can be as if full, which alone is to be had
    where nothing may be mounted."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if request.param == "mounted" and not subprocess.run(mount, capture_output=True).returncode:
        yield Disk(folder, filled)
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
    else:
        yield Disk(folder, as_if_full)


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """With a file that leaves no byte."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    assert shutil.disk_usage(folder).free == 0
    yield
    filler.unlink()


@contextmanager
def as_if_full(folder: Path) -> Iterator[None]:
    """Files can be made there, and what is written into them meets the system's own refusal."""
    write_bytes = Path.write_bytes

    def write(path: Path, content: bytes) -> int:
        if not path.is_relative_to(folder):
            return write_bytes(path, content)
        with path.open("wb"), Path("/dev/full").open("wb", buffering=0) as full:
            return full.write(content)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "write_bytes", write)
        yield


def test_full_disk_fails_the_job_says_so_and_the_next_runs_when_there_is_room(
    start: Start, disk: Disk
) -> None:
    dispatcher = start(outputs=disk.folder / "outputs")
    wait_ready(dispatcher)
    with disk.full(disk.folder):
        failed = ending_of(dispatcher, dispatcher.submit(ask(dispatcher)))
    assert isinstance(failed, Failed)
    assert failed.message == (
        "The picture could not be written into the outputs folder: No space left on device."
    )
    assert dispatcher.status().state == "ready"
    assert len(saved_by(dispatcher, dispatcher.submit(ask(dispatcher)))) == 1
    assert list(disk.folder.rglob("*.tmp")) == []


def test_full_cache_disk_costs_what_would_be_kept_and_no_picture(
    start: Start, disk: Disk, tmp_path: Path
) -> None:
    presets = {"demo": make_preset(tmp_path, strategies=STRATEGIES)}
    with disk.full(disk.folder):
        dispatcher = start(cache=disk.folder, presets=presets)
        wait_ready(dispatcher)
        dispatcher.set_strategy("demo", Strategy.STAGED)
        assert isinstance(ending_of(dispatcher, dispatcher.submit(ask(dispatcher))), Finished)
        wait_for(dispatcher, lambda status: status.placement.strategy is Strategy.STAGED)
        assert not any((disk.folder / name).exists() for name in (COSTS, CHOICES))
        dispatcher.close()


def test_outputs_folder_that_has_gone_is_made_again(start: Start, tmp_path: Path) -> None:
    dispatcher = start()
    wait_ready(dispatcher)
    for _ in range(2):
        (saved,) = saved_by(dispatcher, dispatcher.submit(ask(dispatcher)))
        assert saved.path.is_file()
        shutil.rmtree(tmp_path / "outputs")


def test_clock_that_is_set_back_loses_no_picture_and_lengthens_no_wait(
    ready: LocalDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Earlier(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:
            return datetime.now() - timedelta(days=400)

    (before,) = saved_by(ready, ready.submit(ask(ready)))
    monkeypatch.setattr(outputs, "datetime", Earlier)
    (after,) = saved_by(ready, ready.submit(ask(ready)))
    assert before.path.parent != after.path.parent
    assert before.path.is_file()
    assert after.path.is_file()
    assert 0 <= after.info.timings_s.queue <= after.info.timings_s.total < 10


def test_restart_keeps_the_pictures_and_what_the_owner_chose(start: Start, tmp_path: Path) -> None:
    presets = {"demo": make_preset(tmp_path, strategies=STRATEGIES)}
    first = start(presets=presets)
    wait_ready(first)
    first.set_strategy("demo", Strategy.OFFLOAD)
    (saved,) = saved_by(first, first.submit(ask(first)))
    first.set_locked(True)
    first.close()
    second = start(presets=presets)
    status = wait_ready(second)
    assert status.strategy is status.placement.strategy is Strategy.OFFLOAD
    assert (status.locked, second.locked_at_start) == (True, False)
    assert state_of(status) is ProgramState.READY
    assert saved.path.is_file()
    second.set_strategy("demo", None)
    second.close()
    third = start(presets=presets, lock_is_fixed=True)
    assert (third.status().strategy, third.status().locked) == (None, False)


def test_strategy_of_the_command_line_stands_above_one_that_was_kept(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "cache").mkdir()
    kept = {"strategies": {"demo": "offload"}}
    (tmp_path / "cache" / CHOICES).write_text(json.dumps(kept))
    presets = {"demo": make_preset(tmp_path, strategies=STRATEGIES)}
    dispatcher = start(presets=presets, strategy=Strategy.STAGED)
    assert dispatcher.status().strategy is Strategy.STAGED


@pytest.mark.parametrize(
    "text", ["", "[]", '{"strategies": {"demo": "tiled"}}', "\0", '{"a": 1}', LOCKED_BY_TEXT]
)
def test_damaged_choices_cost_a_warning(
    start: Start, tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / CHOICES).write_text(text)
    dispatcher = start(warm="none")
    assert dispatcher.status().strategy is None
    assert "left out" in caplog.text


def test_kept_strategy_that_the_model_offers_no_more_is_left_out(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / CHOICES).write_text('{"strategies": {"demo": "sharded"}}')
    dispatcher = start()
    assert wait_ready(dispatcher).strategy is None
    assert isinstance(ending_of(dispatcher, dispatcher.warm_up("demo", COMPILED, SQUARE)), Finished)
