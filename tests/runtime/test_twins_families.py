"""Each real preset's twin makes pictures on a plain CPU, by diffusers alone."""

import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.runtime import twins
from tests.runtime.twins import plain
from tests.runtime.twins.making import KINDS
from tpu_ui.presets import Preset, load_all
from tpu_ui.runtime.preview import Preview

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
def test_a_twin_draws_its_second_size_and_its_latents_show_it(real: Preset, tmp_path: Path) -> None:
    twin = twins.of(real, tmp_path)
    wide = twin.model_copy(update={"sizes": twin.sizes[1:]})
    wish = {"prompt": "a hill", "steps": max(2, twin.steps.minimum), "seed": 1}
    pipeline = plain.pipeline_of(twin)
    assert twin.preview is not None
    preview, shown = Preview(pipeline, twin.preview, wide.image_sizes[0]), []

    def look(_: Any, index: int, __: Any, values: dict[str, Any]) -> dict[str, Any]:
        shown.append(preview.after(index + 1, values["latents"]))
        return values

    picture = plain.picture(pipeline, wide, wish, callback_on_step_end=look)
    assert picture.shape == (32, 64, 3)
    with Image.open(io.BytesIO(next(filter(None, shown)))) as small:
        assert small.size == (64 // pipeline.vae_scale_factor, 32 // pipeline.vae_scale_factor)
