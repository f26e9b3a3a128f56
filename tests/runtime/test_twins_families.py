"""Each real preset's twin makes pictures on a plain CPU, by diffusers alone."""

from pathlib import Path
from typing import Any

import pytest

from tests.runtime import twins
from tests.runtime.twins import plain
from tests.runtime.twins.making import KINDS
from tpu_ui.presets import Preset, load_all

REAL = [preset for preset in load_all().values() if not preset.is_local]
SEEN = 0.5  # a mean difference, of 255, that shows when a picture is saved

# SDXL's scheduler (diffusers 0.42.1) and NumPy 2.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")


def test_every_real_preset_has_a_twin() -> None:
    assert {preset.name for preset in REAL} <= set(KINDS)


@pytest.mark.parametrize("real", REAL, ids=lambda preset: preset.name)
def test_a_twin_draws_by_prompt_and_seed(real: Preset, tmp_path: Path) -> None:
    twin = twins.of(real, tmp_path)
    pipeline = plain.pipeline_of(twin)
    wish: dict[str, Any] = {"prompt": "a hill", "steps": max(3, twin.steps.minimum), "seed": 1}
    first = plain.picture(pipeline, twin, wish)
    assert first.std() > 2
    assert (first == plain.picture(pipeline, twin, wish)).all()
    for change in ({"prompt": "two boats on the sea"}, {"seed": 2}):
        other = plain.picture(pipeline, twin, {**wish, **change})
        assert abs(first - other).mean() > SEEN, change


@pytest.mark.parametrize("real", REAL, ids=lambda preset: preset.name)
def test_a_twin_draws_its_second_size(real: Preset, tmp_path: Path) -> None:
    twin = twins.of(real, tmp_path)
    wide = twin.model_copy(update={"sizes": twin.sizes[1:]})
    wish = {"prompt": "a hill", "steps": twin.steps.minimum, "seed": 1}
    assert plain.picture(plain.pipeline_of(twin), wide, wish).shape == (32, 64, 3)
