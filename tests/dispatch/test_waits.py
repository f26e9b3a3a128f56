"""Claims about how long a job will wait. No process: the workers are what is said of them."""

import time
from pathlib import Path

import pytest

from tests.dispatch.driving import COMPILED, SQUARE, WIDE, make_preset
from tpu_ui.dispatch.costs import Cost, Costs
from tpu_ui.dispatch.interface import Queued
from tpu_ui.dispatch.jobs import Job, Target
from tpu_ui.dispatch.state import WorkerState
from tpu_ui.dispatch.waits import Waits, worth_telling
from tpu_ui.metadata import ImageInfo, Timings
from tpu_ui.presets import Preset
from tpu_ui.protocol import Failed, Started, Stepped, Warming
from tpu_ui.request import validate
from tpu_ui.shapes import Device, ImageSize, Strategy

READY = Target("demo", COMPILED, SQUARE)
COLD = Target("demo", COMPILED, WIDE)


class Scene:
    """Workers with a model that has one size ready, and what is known of them."""

    def __init__(self, folder: Path, workers: int = 1) -> None:
        self.presets = {name: make_preset(folder, name) for name in ("demo", "other")}
        self.costs = Costs(folder)
        self.waits = Waits(self.costs, self.presets.__getitem__)
        self.states = [worker(index, self.presets["demo"]) for index in range(workers)]

    def job(self, target: Target = READY, **wishes: object) -> Job:
        limits = self.presets[target.model].limits(Device.SOFTWARE_TPU)
        wishes = {"size": target.size, "steps": 10, **wishes}
        return Job(target, validate(limits, prompt="a hill", mode=target.mode, **wishes))

    def made(self, step_s: float, around_s: float, **wishes: object) -> None:
        self.waits.made(self.job(**wishes), info(step_s, around_s))

    def waiting(self, *queue: Job) -> list[float | None]:
        found = self.waits.expected(queue, self.states)
        return [None if job.id not in found else round(found[job.id], 1) for job in queue]


def worker(index: int, preset: Preset) -> WorkerState:
    state = WorkerState(index, preset, loaded=True, settled=True)
    state.started = Started(1, Device.SOFTWARE_TPU, "fake", None, "", ())
    state.warmed[READY] = Cost(30.0, 4)
    return state


def info(step_s: float, around_s: float) -> ImageInfo:
    timings = Timings(9.0, around_s / 4, 10 * step_s, around_s * 3 / 4, 0.0)
    settings = {"size": "64x64", "steps": 10, "guidance": 4.0, "seed": 1, "prompt": "a hill"}
    ran = {"job": "j", "model": "demo", "mode": COMPILED, "device": Device.SOFTWARE_TPU}
    made = {"scheduler": "", "dtype": "float32", "strategy": Strategy.RESIDENT, "version": ""}
    more = {"chip": "", "negative_prompt": "", "timings_s": timings, "programs_compiled": 0}
    return ImageInfo(**settings, **ran, **made, **more)  # type: ignore[arg-type]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_nothing_is_foretold_before_an_image_was_made(scene: Scene) -> None:
    assert scene.waiting(scene.job(), scene.job()) == [0.0, None]


def test_jobs_before_are_counted_by_their_steps_and_images(scene: Scene) -> None:
    scene.made(step_s=0.5, around_s=1.0)
    queue = [scene.job(), scene.job(steps=20, count=2), scene.job()]
    assert scene.waiting(*queue) == [0.0, 6.0, 6.0 + 2 * 11.0]


def test_what_is_left_of_the_job_that_runs_is_waited_for(scene: Scene) -> None:
    scene.made(step_s=0.5, around_s=1.0)
    (state,) = scene.states
    state.job = scene.job(count=3)
    assert scene.waiting(scene.job()) == [18.0]
    scene.waits.stepped(state, Stepped(state.job.id, 2, 3, 4, 10, 3.0))
    assert scene.waiting(scene.job()) == [6 * 0.5 + 1.0 + 6.0]
    state.stepped = (time.monotonic() - 100, state.stepped[1])
    assert scene.waiting(scene.job()) == [6.0], "a step that is late takes no time away"


def test_the_first_image_of_its_kind_is_foretold_by_its_own_steps(scene: Scene) -> None:
    (state,) = scene.states
    state.job = scene.job(count=2)
    scene.waits.stepped(state, Stepped(state.job.id, 1, 2, 5, 10, 10.0))
    assert scene.waiting(scene.job()) == [10.0 + 20.0]


def test_guidance_has_a_speed_of_its_own(scene: Scene) -> None:
    scene.made(step_s=0.5, around_s=1.0)
    assert scene.waiting(scene.job(guidance=1.0), scene.job()) == [0.0, None]
    scene.made(step_s=0.2, around_s=1.0, guidance=1.0)
    assert scene.waiting(scene.job(guidance=1.0), scene.job()) == [0.0, 3.0]


def test_the_newest_images_count_most(scene: Scene) -> None:
    for step_s in (8.0, 1.0, 1.0, 1.0):
        scene.made(step_s, around_s=0.0)
    (_, wait_s) = scene.waiting(scene.job(), scene.job())
    assert wait_s is not None
    assert 10 < wait_s < 20


def test_warm_ups_before_are_counted_once(scene: Scene) -> None:
    scene.made(step_s=0.5, around_s=1.0)
    scene.waits.made(scene.job(COLD), info(1.0, 0.0))
    queue = [scene.job(COLD), scene.job(COLD), scene.job()]
    assert scene.waiting(*queue) == [0.0, None, None], "nobody knows what the warm-up takes"
    on = scene.states[0].runs_on
    assert on is not None
    scene.costs.remember(COLD, on, Cost(60.0, 4))
    assert scene.waiting(*queue) == [0.0, 70.0, 80.0]


def test_a_warm_up_that_runs_is_waited_for(scene: Scene) -> None:
    (state,) = scene.states
    state.job = Job(COLD)
    for expected_s, left in ((50.0, 38.0), (10.0, 0.0), (None, None)):
        state.warming = (COLD, warming(expected_s))
        assert scene.waiting(scene.job()) == [left]


def warming(expected_s: float | None) -> Warming:
    return Warming("j", COMPILED, ImageSize(96, 64), "", 3, 12.0, expected_s)


def test_another_model_is_loaded_first(scene: Scene) -> None:
    scene.made(step_s=0.5, around_s=1.0)
    other = Target("other", COMPILED, SQUARE)
    on = scene.states[0].runs_on
    assert on is not None
    scene.costs.remember(other, on, Cost(10.0, 4))
    scene.waits.made(scene.job(other), info(0.1, 0.0))
    queue = [scene.job(other), scene.job(other), scene.job(other)]
    assert scene.waiting(*queue) == [0.0, None, None]
    scene.waits.loaded("other", 40.0)
    assert scene.waiting(*queue) == [0.0, 51.0, 52.0]


def test_workers_share_the_queue(tmp_path: Path) -> None:
    scene = Scene(tmp_path, workers=2)
    scene.made(step_s=0.5, around_s=1.0)
    scene.states[0].job = scene.job(count=2)
    assert scene.waiting(scene.job(), scene.job(), scene.job()) == [0.0, 6.0, 12.0]
    scene.states[1].failure = Failed("", "LoadError", "gone")
    assert scene.waiting(scene.job(), scene.job()) == [12.0, 18.0]
    scene.states[0].loaded = False
    assert scene.waiting(scene.job()) == [None]


@pytest.mark.parametrize(
    ("told", "now", "worth"),
    [
        (None, Queued("j", 0), True),
        (Queued("j", 1), Queued("j", 0), True),
        (Queued("j", 0), Queued("j", 0), False),
        (Queued("j", 0), Queued("j", 0, 8.0), True),
        (Queued("j", 0, 100.0), Queued("j", 0, 85.0), False),
        (Queued("j", 0, 100.0), Queued("j", 0, 75.0), True),
        (Queued("j", 0, 3.0), Queued("j", 0, 1.5), False),
    ],
)
def test_a_wait_is_told_again_when_it_has_changed_enough(
    told: Queued | None, now: Queued, worth: bool
) -> None:
    assert worth_telling(told, now) is worth
