"""The three modes give one picture, and each is what it says it is."""

import functools
import io
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.dispatch.driving import all_updates, ending_of, saved_by
from tests.runtime.conftest import READY_S, Start
from tpu_ui.dispatch.interface import ImageSaved
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.presets import GuidanceTable, Preset, load_all
from tpu_ui.protocol import Cancelled, Finished, Stepped
from tpu_ui.request import validate
from tpu_ui.shapes import Mode

PROMPT = "a small red house left of two green trees under a night sky"
STEPS = 6


def demo(dtype: str) -> Preset:
    """The demo model at one size, guidance always on: fewer programs to wait for."""
    return load_all()["demo"].model_copy(
        update={
            "dtype": dtype,
            "sizes": ("320x192",),
            "guidance": GuidanceTable(minimum=4.0, maximum=4.0, default=4.0, off=1.0),
        }
    )


def picture(dispatcher: LocalDispatcher, mode: Mode) -> tuple[np.ndarray, ImageSaved]:
    limits = dispatcher.limits("demo")
    request = validate(limits, prompt=PROMPT, mode=mode, steps=STEPS, seed=11)
    job = dispatcher.submit(request)
    ending = ending_of(dispatcher, job, READY_S)
    assert isinstance(ending, Finished), ending
    saved = saved_by(dispatcher, job)[0]
    return np.asarray(Image.open(io.BytesIO(Path(saved.path).read_bytes()))).astype(float), saved


def psnr_db(one: np.ndarray, other: np.ndarray) -> float:
    error = float(((one - other) ** 2).mean())
    return math.inf if error == 0 else 10 * math.log10(255**2 / error)


@pytest.fixture(scope="module")
def reference(start: Start) -> np.ndarray:
    """The picture in float32 on the CPU."""
    pixels, saved = picture(start(demo("float32"), device="cpu"), Mode.EAGER)
    assert saved.info.device == "cpu"
    assert pixels.std() > 10  # not a flat picture, which anything would equal
    return pixels


@pytest.fixture(scope="module")
def software_tpu(start: Start) -> Callable[[str], LocalDispatcher]:
    """The demo model on the software TPU, one dispatcher for each dtype."""
    return functools.cache(lambda dtype: start(demo(dtype)))


@pytest.mark.parametrize(("dtype", "least_db"), [("float32", 40.0), ("bfloat16", 30.0)])
def test_all_modes_on_the_software_tpu_give_the_picture_of_the_cpu(
    software_tpu: Callable[[str], LocalDispatcher],
    reference: np.ndarray,
    dtype: str,
    least_db: float,
) -> None:
    dispatcher = software_tpu(dtype)
    measured = {}
    for mode in Mode:
        pixels, saved = picture(dispatcher, mode)
        assert saved.info.mode == mode
        assert saved.info.device == "software-tpu"
        assert saved.info.dtype == dtype
        assert saved.info.programs_compiled == 0
        measured[mode] = psnr_db(pixels, reference)
    print(dtype, {mode.value: round(value, 1) for mode, value in measured.items()})
    assert min(measured.values()) >= least_db, measured


def test_cancel_stops_a_job_at_once(software_tpu: Callable[[str], LocalDispatcher]) -> None:
    dispatcher = software_tpu("float32")
    limits = dispatcher.limits("demo")
    job = dispatcher.submit(validate(limits, prompt=PROMPT, mode="eager", steps=30, count=4))
    seen: list[int] = []
    for update in dispatcher.updates(job):
        if isinstance(update, Stepped):
            if update.step >= 3 and max(seen) < 3:
                dispatcher.cancel(job)
            seen.append(update.step)
    assert isinstance(ending_of(dispatcher, job), Cancelled)
    # What ran when the cancel was sent, and until it was seen: two times 0.25 s of steps.
    assert max(seen) < 20
    assert {
        update.image for update in all_updates(dispatcher, job) if isinstance(update, Stepped)
    } == {1}
    _, saved = picture(dispatcher, Mode.EAGER)
    assert saved.info.programs_compiled == 0
