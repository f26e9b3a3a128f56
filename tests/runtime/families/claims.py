"""Claims about every preset, by its tiny twin: each strategy and mode on the software TPU gives the
picture that diffusers alone gives on a CPU, and compiles nothing after ready."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.dispatch.driving import ending_of, saved_by
from tests.runtime import twins
from tests.runtime.conftest import READY_S, Start, pixels, random_wish, warm_all
from tests.runtime.twins import plain
from tests.runtime.twins.plain import Values
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.presets import Preset, load_all
from tpu_ui.protocol import Finished
from tpu_ui.request import Limits, validate
from tpu_ui.shapes import Mode, Strategy

# A file of tests for each: the two processes share out files, and presets of one family have
# programs in common, so that what the first compiled the next one reads.
FAMILIES = {
    "flux1": ("flux1-dev", "flux1-schnell"),
    "flux2": ("flux2-dev",),
    "flux2_klein": ("flux2-klein-4b", "flux2-klein-9b"),
    "qwen_image": ("qwen-image",),
    "sd35_large": ("sd35-large", "sd35-large-turbo"),
    "sd35_medium": ("sd35-medium",),
    "sdxl": ("sdxl",),
    "z_image": ("z-image-turbo",),
}
STRATEGIES = (Strategy.RESIDENT, Strategy.STAGED, Strategy.OFFLOAD)
FROM_COMPILED = (Mode.COMPILED, Mode.FUSED, Mode.EAGER)
LONG = "one more hill and " * 80
# XLA and PyTorch order sums differently, and a value at the edge of two greys may fall either way.
TOLERANCE = 1


def each(family: str) -> Callable[..., Any]:
    """A decorator: the test runs for every preset of the family."""
    return pytest.mark.parametrize("name", FAMILIES[family])


def gives_the_picture_and_compiles_nothing(name: str, start: Start, folder: Path) -> None:
    """By each strategy and in each mode, for the twin of the preset. `folder` is the family's.

    Presets of one family differ in numbers alone: those after the first run by one strategy.
    """
    twin = twins.of(load_all()[name], folder)
    twin = twin.model_copy(update={"sizes": twin.sizes[:1]})
    dispatcher = start(twin, cache=folder / "cache")
    asked = wishes(dispatcher.limits(twin.name))
    pipeline = plain.pipeline_of(twin)
    expected = [plain.picture(pipeline, twin, wish) for wish in asked]
    assert differ(expected[0], expected[1]) > TOLERANCE
    first = name in {presets[0] for presets in FAMILIES.values()}
    for strategy in STRATEGIES if first else STRATEGIES[:1]:
        dispatcher.set_strategy(twin.name, strategy)
        # Compiled first: nothing has run yet that it would find made.
        warm_all(dispatcher, twin.name, FROM_COMPILED)
        for mode in FROM_COMPILED:
            for wish, right in zip(asked, expected, strict=True):
                made = picture(dispatcher, twin, mode, strategy, wish)
                assert differ(made, right) <= TOLERANCE, (strategy, mode, wish)
        assert dispatcher.status().programs_compiled_since_ready == 0
    dispatcher.close()


def wishes(limits: Limits) -> list[dict[str, Any]]:
    """A short prompt, one that no text encoder reads to its end, and anything."""
    chance = random.Random(limits.model)
    made = [{**random_wish(chance, limits), "count": 1} for _ in range(3)]
    made[0]["prompt"], made[1]["prompt"] = "hill", LONG
    return made


def picture(
    dispatcher: LocalDispatcher, twin: Preset, mode: Mode, strategy: Strategy, wish: dict[str, Any]
) -> Values:
    job = dispatcher.submit(validate(dispatcher.limits(twin.name), mode=mode, **wish))
    ending = ending_of(dispatcher, job, READY_S)
    assert isinstance(ending, Finished), ending
    (saved,) = saved_by(dispatcher, job)
    assert (saved.info.mode, saved.info.strategy) == (mode, strategy)
    assert saved.info.programs_compiled == 0
    size = twin.image_sizes[0]
    values = np.frombuffer(pixels(saved.path), np.uint8).astype(np.int16)
    return values.reshape(size.height_px, size.width_px, 3)


def differ(one: Values, other: Values) -> int:
    """The largest difference of two pictures, of 255."""
    return int(np.abs(one - other).max())
