"""How a group of ranks ends, all of it: a rank dies, a rank fails alone, the app closes or dies."""

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.dispatch.driving import ending_of, wait_step
from tests.processes import family, listening_anywhere, still_alive
from tests.runtime import twins
from tests.runtime.conftest import READY_S, Start
from tests.runtime.sharding import ROOT, Group, ask, drawn, group_of, start_sharded
from tpu_ui import presets
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.dispatch.watchdog import Patience
from tpu_ui.errors import WorkerDiedError
from tpu_ui.presets import Preset
from tpu_ui.protocol import Cancelled, Failed
from tpu_ui.runtime.group import lost_rank

GONE_S = 5.0
STOPPED_S = 8.0
CLOSE_S = 10.0
APP_GONE_S = 15.0
LOPSIDED = "tests.runtime.lopsided:lopsided_runtime"

# Starts a dispatcher, says when its model is loaded, and goes on until it is killed.
APP = """
import pickle, sys
from pathlib import Path
from tests.dispatch.driving import wait_for
from tests.runtime.sharding import start_sharded
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.shapes import Strategy

preset, folder = pickle.loads(Path(sys.argv[1]).read_bytes())
dispatcher = LocalDispatcher(
    {preset.name: preset}, model=preset.name, mode=None, device="cpu", warm="none", locked=False,
    workers=1, outputs=folder, cache=folder, strategy=Strategy.SHARDED, chips=2,
)
wait_for(dispatcher, lambda status: status.state == "ready", 60)
print("loaded", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Preset:
    """The smallest of the twins that are shared out."""
    return twins.of(presets.load_all()["flux1-dev"], tmp_path_factory.mktemp("twins"))


@pytest.fixture(scope="module")
def pair(start: Start, tiny: Preset) -> Iterator[LocalDispatcher]:
    """A model on two ranks. Tests leave it at work."""
    dispatcher = start_sharded(start, tiny, 2, first_pause_s=0.1, patience=Patience.of(STOPPED_S))
    yield dispatcher
    dispatcher.close()


def assert_gone(group: Group, patience_s: float = GONE_S) -> None:
    assert still_alive(group.pids, patience_s) == []
    assert group.sockets, "ranks listen for each other; here nobody did"
    assert not group.sockets & listening_anywhere()


def in_mid_job(dispatcher: LocalDispatcher, preset: Preset) -> str:
    job = dispatcher.submit(ask(dispatcher, preset, steps=50))
    wait_step(dispatcher, job, 2)
    return job


def wait_until(found: Callable[[], list[int]], count: int = 1) -> list[int]:
    """As many processes, the moment that they are there."""
    deadline_s = time.monotonic() + READY_S
    while time.monotonic() < deadline_s:
        if len(pids := found()) == count:
            return pids
        time.sleep(0.002)
    raise AssertionError("they did not start")


def told(pid: int, folder: Path) -> bool:
    """Whether a process has the folder among its arguments."""
    return str(folder) in Path(f"/proc/{pid}/cmdline").read_text()


@pytest.mark.parametrize(
    ("victim", "told"),
    [
        pytest.param(lambda group: group.ranks[1], "lost its rank 1, which was killed by", id="1"),
        pytest.param(lambda group: group.ranks[0], "lost its rank 0, which was killed by", id="0"),
        pytest.param(lambda group: group.torchrun, "was killed by", id="torchrun"),
    ],
)
def test_killed_process_fails_its_job_and_a_new_group_takes_the_next(
    pair: LocalDispatcher, tiny: Preset, victim: Callable[[Group], int], told: str
) -> None:
    drawn(pair, tiny)
    group = group_of(pair)
    job = in_mid_job(pair, tiny)
    os.kill(victim(group), signal.SIGKILL)
    ending = ending_of(pair, job, READY_S)
    assert isinstance(ending, Failed)
    assert ending.kind == WorkerDiedError.__name__
    assert ending.message.startswith(f"The worker process {told} signal 9")
    assert ending.message.endswith("try again.")
    drawn(pair, tiny)
    assert_gone(group)
    assert not set(group_of(pair).pids) & set(group.pids)


def test_stopped_rank_fails_its_job_and_a_new_group_takes_the_next(
    pair: LocalDispatcher, tiny: Preset
) -> None:
    drawn(pair, tiny)
    group = group_of(pair)
    job = in_mid_job(pair, tiny)
    os.kill(group.ranks[1], signal.SIGSTOP)  # the one that does not speak
    ending = ending_of(pair, job, READY_S)
    assert isinstance(ending, Failed)
    assert "hung (rank 1 was stopped by a signal) and was ended" in ending.message
    drawn(pair, tiny)
    assert_gone(group)


@pytest.mark.parametrize(
    ("codes", "told"),
    [
        ({1: -9}, "lost its rank 1, which was killed by signal 9,"),
        ({0: 70, 2: -6}, "lost its rank 2, which was killed by signal 6,"),
        ({3: 1}, "lost its rank 3, which ended with exit code 1,"),
    ],
)
def test_lost_rank_is_the_one_that_a_signal_killed(codes: dict[int, int], told: str) -> None:
    assert lost_rank(codes) == told


def test_rank_that_fails_alone_keeps_nobody_waiting(start: Start, tiny: Preset) -> None:
    dispatcher = start_sharded(start, tiny, 2, runtime=LOPSIDED, first_pause_s=0.1)
    try:
        for rank in (1, 0):
            drawn(dispatcher, tiny)
            group = group_of(dispatcher)
            job = dispatcher.submit(ask(dispatcher, tiny, prompt=f"rank {rank}"))
            ending = ending_of(dispatcher, job, READY_S)
            assert isinstance(ending, Failed)
            assert ending.kind == WorkerDiedError.__name__
            assert_gone(group)
    finally:
        dispatcher.close()


def test_close_while_idle_leaves_no_process(start: Start, tiny: Preset) -> None:
    dispatcher = start_sharded(start, tiny, 2, runtime=LOPSIDED)
    drawn(dispatcher, tiny)
    group = group_of(dispatcher)
    began_s = time.monotonic()
    dispatcher.close()
    assert time.monotonic() - began_s < CLOSE_S
    assert_gone(group, patience_s=0)


def test_close_in_mid_job_leaves_no_process(pair: LocalDispatcher, tiny: Preset) -> None:
    drawn(pair, tiny)
    group = group_of(pair)
    job = in_mid_job(pair, tiny)
    began_s = time.monotonic()
    pair.close()
    assert time.monotonic() - began_s < CLOSE_S
    assert_gone(group, patience_s=0)
    assert ending_of(pair, job) == Cancelled(job)


def test_torchrun_killed_while_its_ranks_start_leaves_none(
    start: Start, tiny: Preset, tmp_path: Path
) -> None:
    dispatcher = start_sharded(start, tiny, 2, cache=tmp_path, runtime=LOPSIDED)
    try:
        torchrun = wait_until(lambda: [pid for pid in family(os.getpid()) if told(pid, tmp_path)])
        ranks = wait_until(lambda: family(torchrun[0]), count=2)
        os.kill(torchrun[0], signal.SIGKILL)  # before they have asked to end with it
        assert still_alive(ranks, GONE_S) == []
    finally:
        dispatcher.close()


def test_killed_app_leaves_no_rank(tiny: Preset, tmp_path: Path) -> None:
    told = tmp_path / "told"
    told.write_bytes(pickle.dumps((tiny, tmp_path)))
    with subprocess.Popen(
        [sys.executable, "-c", APP, str(told)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as app:
        assert app.stdout is not None
        assert app.stdout.readline() == "loaded\n"
        pids = family(app.pid)
        assert len(pids) == 3
        app.kill()
    assert still_alive(pids, APP_GONE_S) == []
