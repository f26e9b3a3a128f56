"""Claims about the watchdog: it knows work from a hang. A clock and a processor of our own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.dispatch.driving import COMPILED, SQUARE, make_preset
from tpu_ui.dispatch import family
from tpu_ui.dispatch.watchdog import IDLE_SHARE, Patience, Pid, Watch, Watchdog
from tpu_ui.protocol import Counted, Event, Generate, Load, Loading, Stepped, Warming, WarmUp
from tpu_ui.request import validate
from tpu_ui.shapes import Device

PATIENCE = Patience()
WARM_UP = WarmUp("job", COMPILED, SQUARE, 100.0)
TICK_S = 0.5
ALIVE = Counted(4, 0)


def generate(folder: Path) -> Generate:
    limits = make_preset(folder).limits(Device.SOFTWARE_TPU)
    return Generate("job", validate(limits, prompt="a hill", seed=1))


class Scene:
    """A worker under watch. `busy`: the share of a core that its processes use."""

    def __init__(
        self, command: Load | WarmUp | Generate | None, busy: float = 0.0, slowest_s: float = 0.0
    ) -> None:
        self.now_s, self.used_s, self.busy, self.stopped = 1000.0, 0.0, busy, ""
        processes = Pid(0)
        processes.effort_s = lambda: self.used_s
        processes.stopped = lambda: self.stopped
        self.watch = Watch(
            PATIENCE, processes, command, self.now_s, programs=4, slowest_s=slowest_s
        )

    def goes_on(self, seconds: float, event: Event | None = None) -> str | None:
        """What the watch finds wrong in so many seconds of hearing `event` again and again."""
        for _ in range(int(seconds / TICK_S)):
            self.now_s += TICK_S
            self.used_s += TICK_S * self.busy
            if event is not None:
                self.watch.heard(event, self.now_s)
            if wrong := self.watch.look(self.now_s):
                return wrong
        return None


def warming(programs: int) -> Warming:
    return Warming("job", COMPILED, SQUARE, "step 1 of 3", programs, 1.0, None)


def step(number: int) -> Stepped:
    return Stepped("job", 1, 1, number, 30, None)


def test_silent_worker_with_an_idle_processor_hangs() -> None:
    for command in (None, WARM_UP):
        assert Scene(command).goes_on(29) is None
        assert Scene(command).goes_on(40) == "hung (no sign of life for 30 s) and was ended"


def test_silent_worker_that_computes_is_left_alone() -> None:
    assert Scene(WARM_UP, busy=1.0).goes_on(3600) is None


def test_compilation_that_says_nothing_new_for_an_hour_is_no_hang() -> None:
    assert Scene(WARM_UP, busy=0.5).goes_on(3600, warming(3)) is None


def test_compilation_that_computes_nothing_hangs() -> None:
    wrong = Scene(WARM_UP).goes_on(400, warming(3))
    assert wrong == "hung (it compiled nothing for 300 s) and was ended"


def test_compilation_ends_at_its_hard_limit_which_grows_with_what_is_expected() -> None:
    assert Scene(WARM_UP, busy=1.0).goes_on(7100, warming(3)) is None
    wrong = Scene(WARM_UP, busy=1.0).goes_on(7300, warming(3))
    assert wrong == "hung (it compiled for more than 7200 s) and was ended"
    long = WarmUp("job", COMPILED, SQUARE, 1000.0)
    assert Scene(long, busy=1.0).goes_on(9900, warming(3)) is None


def test_step_that_takes_too_long_hangs_though_the_worker_speaks_and_computes(
    tmp_path: Path,
) -> None:
    scene = Scene(generate(tmp_path), busy=1.0)
    assert scene.goes_on(1, step(1)) is None
    assert scene.goes_on(118, ALIVE) is None
    assert scene.goes_on(10, ALIVE) == (
        "hung (a step took more than 120 s; the slowest before took 0.5 s) and was ended"
    )


def test_slow_steps_are_measured_against_those_before(tmp_path: Path) -> None:
    assert Scene(generate(tmp_path), slowest_s=40.0).goes_on(390, ALIVE) is None
    assert Scene(generate(tmp_path), slowest_s=40.0).goes_on(410, ALIVE) is not None


def test_watchdog_remembers_the_slowest_step_of_a_size(tmp_path: Path) -> None:
    dog, command = Watchdog(PATIENCE), generate(tmp_path)
    watch = dog.watch(os.getpid(), command)
    watch.slowest_s = 7.0
    dog.learn(watch)
    assert dog.watch(os.getpid(), command).slowest_s == 7.0


def test_program_compiled_in_mid_image_is_no_step_that_takes_too_long(tmp_path: Path) -> None:
    scene = Scene(generate(tmp_path), busy=1.0)
    assert scene.goes_on(1, step(1)) is None
    assert scene.goes_on(1000, Counted(5, 1)) is None
    assert scene.goes_on(1, step(2)) is None
    assert scene.goes_on(200, Counted(5, 1)) is not None


def test_download_that_stands_still_hangs_and_one_that_goes_on_does_not(tmp_path: Path) -> None:
    load = Load("job", make_preset(tmp_path))
    scene = Scene(load)
    for megabytes in range(100):
        assert scene.goes_on(200, Loading("job", "", 0, 1, megabytes * 1_000_000)) is None
    wrong = scene.goes_on(400, Loading("job", "", 0, 1, 99_000_000))
    assert wrong == "hung (it loaded nothing for 300 s) and was ended"


def test_stopped_rank_is_found_while_the_first_one_speaks(tmp_path: Path) -> None:
    scene = Scene(generate(tmp_path))
    scene.stopped = "rank 1"
    assert scene.goes_on(29, ALIVE) is None
    assert scene.goes_on(5, ALIVE) == "hung (rank 1 was stopped by a signal) and was ended"


def test_time_that_the_app_itself_slept_accuses_nobody() -> None:
    scene = Scene(None)
    for _ in range(20):
        scene.now_s += 3600
        assert scene.watch.look(scene.now_s) is None


@pytest.mark.parametrize(("step_s", "silence_s"), [(10.0, 10.0), (120.0, 30.0), (600.0, 30.0)])
def test_shorter_patience_holds_for_silence_too(step_s: float, silence_s: float) -> None:
    patience = Patience.of(step_s)
    assert (patience.step_s, patience.silence_s) == (step_s, silence_s)
    assert patience.still_s >= step_s or step_s > 120


def test_family_is_counted_with_its_children_and_its_stopped_are_named() -> None:
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'])"
    with subprocess.Popen([sys.executable, "-c", script], start_new_session=True) as parent:
        try:
            while not (members := family.family(parent.pid)[1:]) or members[0].used_s < 0.1:
                pass
            assert family.effort_s(parent.pid) >= 0.1
            assert members[0].moved_bytes > 0
            assert family.stopped(parent.pid) == ""
            os.kill(members[0].pid, signal.SIGSTOP)
            while not family.stopped(parent.pid):
                pass
            assert family.stopped(parent.pid) == "the process"
        finally:
            os.killpg(parent.pid, signal.SIGKILL)
    assert family.family(parent.pid) == []


def test_process_that_only_moves_bytes_is_at_work() -> None:
    script = "import sys, time\nwhile True: sys.stdout.write('a' * 100_000); time.sleep(0.05)"
    command = [sys.executable, "-uc", script]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as writer:
        try:
            while not family.family(writer.pid):
                pass
            before_s, began_s = family.effort_s(writer.pid), time.monotonic()
            time.sleep(1)
            done_s = family.effort_s(writer.pid) - before_s
            assert done_s > 5 * IDLE_SHARE * (time.monotonic() - began_s)
        finally:
            writer.kill()
