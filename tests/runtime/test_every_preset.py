"""Claims about every preset, by its tiny twin: each strategy and mode on the software TPU gives the
picture that a CPU gives, and compiles nothing after ready."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.dispatch.driving import ending_of, saved_by
from tests.runtime import twins
from tests.runtime.conftest import (
    READY_S,
    Start,
    pixels,
    random_wish,
    starting,
    warm_all,
)
from tpu_ui.dispatch.interface import ImageSaved
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.presets import PaddingTable, Preset, load_all
from tpu_ui.protocol import Finished
from tpu_ui.request import Limits, validate
from tpu_ui.shapes import Device, Mode, Strategy

BIG = [preset for preset in load_all().values() if not preset.is_local]
# The two processes share the presets out.
EACH = [
    pytest.param(preset, id=preset.name, marks=pytest.mark.xdist_group(preset.name))
    for preset in BIG
]
LONG = "one more hill and " * 80
# XLA and PyTorch order sums differently, and a value at the edge of two greys may fall either way.
TOLERANCE = 1

Pixels = npt.NDArray[np.int16]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Start]:
    with starting(tmp_path) as make:
        yield make


@pytest.mark.parametrize("preset", EACH)
def test_strategies_and_modes_give_the_picture_and_compile_nothing(
    preset: Preset, begin: Start, tmp_path: Path
) -> None:
    twin = one_size(twins.of(preset, tmp_path))
    cpu = begin(twin, device="cpu")
    asked = wishes(cpu.limits(twin.name))
    expected = [picture(cpu, twin, Mode.EAGER, wish) for wish in asked]
    assert differ(expected[0], expected[1]) > TOLERANCE
    cpu.close()
    dispatcher = begin(twin)
    for strategy in (Strategy.RESIDENT, Strategy.STAGED, Strategy.OFFLOAD):
        assert strategy in twin.strategies
        dispatcher.set_strategy(twin.name, strategy)
        for mode in Mode:
            warm_all(dispatcher, twin.name, [mode])
            for wish, right in zip(asked, expected, strict=True):
                made = picture(dispatcher, twin, mode, wish)
                assert differ(made, right) <= TOLERANCE, (strategy, mode, wish)
        status = dispatcher.status()
        assert status.placement.strategy is strategy
        assert status.programs_compiled_since_ready == 0


@pytest.mark.parametrize(
    "preset",
    [
        pytest.param(preset, id=preset.name, marks=pytest.mark.xdist_group(preset.name))
        for preset in BIG
        if preset.padding != PaddingTable()
    ],
)
def test_padding_leaves_the_picture_as_it_was(preset: Preset, begin: Start, tmp_path: Path) -> None:
    padded = one_size(twins.of(preset, tmp_path))
    bare = padded.model_copy(update={"padding": PaddingTable()})
    pictures = [
        [picture(made, twin, Mode.EAGER, wish) for wish in wishes(made.limits(twin.name))]
        for twin in (padded, bare)
        for made in [begin(twin, device="cpu")]
    ]
    for with_padding, without in zip(*pictures, strict=True):
        assert differ(with_padding, without) <= TOLERANCE


def one_size(twin: Preset) -> Preset:
    return twin.model_copy(update={"sizes": twin.sizes[:1]})


def wishes(limits: Limits) -> list[dict[str, Any]]:
    """A short prompt, one that no text encoder reads to its end, and anything."""
    chance = random.Random(limits.model)
    made = [{**random_wish(chance, limits), "count": 1} for _ in range(3)]
    made[0]["prompt"], made[1]["prompt"] = "hill", LONG
    return made


def picture(dispatcher: LocalDispatcher, twin: Preset, mode: Mode, wish: dict[str, Any]) -> Pixels:
    request = validate(dispatcher.limits(twin.name), mode=mode, **wish)
    job = dispatcher.submit(request)
    ending = ending_of(dispatcher, job, READY_S)
    assert isinstance(ending, Finished), ending
    saved: ImageSaved = saved_by(dispatcher, job)[0]
    assert saved.info.mode == mode
    assert saved.info.programs_compiled == 0 or dispatcher.status().device is Device.CPU
    return np.frombuffer(pixels(saved.path), np.uint8).astype(np.int16)


def differ(one: Pixels, other: Pixels) -> int:
    """The largest difference of two pictures, of 255."""
    return int(np.abs(one - other).max())
