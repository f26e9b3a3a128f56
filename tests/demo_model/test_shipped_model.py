"""Claims about the weights in presets/demo, on the CPU."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import StableDiffusion3Pipeline
from PIL import Image

from demo_model import contact_sheet, dataset, scorer
from demo_model.captions import parse
from demo_model.scene import PICTURE_SIZES_PX
from demo_model.score import Tally, compare, score_model, score_scorer
from tpu_ui import presets
from tpu_ui.runtime.preview import Preview
from tpu_ui.shapes import ImageSize

FOLDER = Path(__file__).parents[2] / "presets" / "demo"
SQUARE = (256, 256)


@pytest.fixture(scope="module")
def pipeline() -> Iterator[StableDiffusion3Pipeline]:
    return contact_sheet.load(FOLDER)


def _draw(
    pipeline: StableDiffusion3Pipeline, prompts: list[str], **settings: object
) -> list[Image.Image]:
    size_px = settings.pop("size_px", SQUARE)
    return contact_sheet.draw(
        pipeline, prompts, size_px, list(range(len(prompts))), max_sequence_length=1, **settings
    )


def _read(pictures: list[Image.Image]) -> list[scorer.Reading]:
    return scorer.read(scorer.load(), np.stack([np.asarray(picture) for picture in pictures]))


def test_diffusers_loads_the_folder_and_needs_no_advice(
    pipeline: StableDiffusion3Pipeline,
) -> None:
    plain = StableDiffusion3Pipeline.from_pretrained(FOLDER)
    plain.set_progress_bar_config(disable=True)
    call = {"prompt": "a red house", "height": 256, "width": 256, "num_inference_steps": 2}
    ours, theirs = (
        one(**call, output_type="np", generator=torch.Generator("cpu").manual_seed(3)).images[0]
        for one in (pipeline, plain)
    )
    assert np.abs(ours - theirs).max() < 1e-4


def test_weights_are_under_16_mb() -> None:
    sizes = [path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()]
    assert sum(sizes) < 16_000_000
    assert scorer.WEIGHTS.stat().st_size < 1_000_000


def test_autoencoder_reaches_32_db_on_held_out_postcards(
    pipeline: StableDiffusion3Pipeline,
) -> None:
    scores = []
    for number in range(12):
        pixels, _, _ = dataset.postcard(number, PICTURE_SIZES_PX[number % 3], held_out=True)
        picture = torch.from_numpy(pixels).permute(2, 0, 1).float()[None] / 127.5 - 1
        with torch.no_grad():
            latents = pipeline.vae.encode(picture).latent_dist.sample()
            error = pipeline.vae.decode(latents).sample.clamp(-1, 1) - picture
        scores.append(10 * float(torch.log10(4 / error.square().mean())))
    assert np.mean(scores) >= 32


def test_scorer_is_right_on_rendered_postcards() -> None:
    assert score_scorer(60).share() >= 0.98


@pytest.mark.parametrize("size_px", PICTURE_SIZES_PX)
def test_pictures_show_what_the_prompts_ask_for(
    pipeline: StableDiffusion3Pipeline, size_px: tuple[int, int]
) -> None:
    prompts = [
        "a red house on the left at noon on a meadow",
        "a big blue balloon in the middle at dawn with mountains",
        "a white sheep left of a green tree in the snow at night",
    ]
    tally = Tally()
    pictures = _draw(pipeline, prompts, size_px=size_px)
    for prompt, reading in zip(prompts, _read(pictures), strict=True):
        compare(parse(prompt), reading, tally)
    assert tally.share("sky", "ground", "mountains") == 1, tally.table()
    assert tally.share() >= 0.9, tally.table()


def test_negative_prompt_decides_about_mountains(pipeline: StableDiffusion3Pipeline) -> None:
    prompts = ["a red house on a meadow"] * 12

    def share(negative: str) -> float:
        pictures = _draw(pipeline, prompts, negative_prompt=negative, steps=8)
        return float(np.mean([reading.mountains for reading in _read(pictures)]))

    assert share("mountains") <= 0.15
    assert share("no mountains") >= 0.6


def test_held_out_prompts_are_followed(pipeline: StableDiffusion3Pipeline) -> None:
    tally = score_model(FOLDER, 40, contact_sheet.STEPS, contact_sheet.GUIDANCE)
    assert tally.share() >= 0.95, tally.table()
    assert tally.share("at place") >= 0.9, tally.table()


def test_a_negative_prompt_takes_a_sky_away(pipeline: StableDiffusion3Pipeline) -> None:
    prompts = ["a red house on a meadow"] * 8

    def skies(negative: str) -> set[str]:
        pictures = _draw(pipeline, prompts, negative_prompt=negative, steps=8)
        return {reading.sky for reading in _read(pictures)}

    assert {"night", "noon"} <= skies("")
    assert "night" not in skies("at night")
    assert "noon" not in skies("at noon")


def test_guidance_changes_the_picture_and_unknown_words_do_not_break_it(
    pipeline: StableDiffusion3Pipeline,
) -> None:
    prompt = ["a Ünder-zebra, a blue boat at sea, xylophone"]
    low, high = (
        np.asarray(_draw(pipeline, prompt, guidance=guidance, steps=4)[0], np.float32)
        for guidance in (1.0, 6.0)
    )
    assert np.abs(low - high).mean() > 2


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_few_steps_work(pipeline: StableDiffusion3Pipeline, steps: int) -> None:
    (picture,) = _draw(pipeline, ["a green tree"], steps=steps)
    assert np.isfinite(np.asarray(picture)).all()


def test_previews_resemble_the_picture_more_and_more(pipeline: StableDiffusion3Pipeline) -> None:
    colours = presets.load_all()["demo"].preview
    assert colours is not None
    shown: list[bytes] = []
    preview = Preview(pipeline, colours, ImageSize(*SQUARE), clock=lambda: 10.0 * len(shown))

    def look(_: object, index: int, __: object, values: dict[str, Any]) -> dict[str, Any]:
        shown.append(preview.after(index + 1, values["latents"]))
        return values

    made = pipeline(
        "a red house left of two green trees under a night sky",
        height=SQUARE[1],
        width=SQUARE[0],
        num_inference_steps=8,
        guidance_scale=contact_sheet.GUIDANCE,
        generator=torch.Generator().manual_seed(0),
        max_sequence_length=1,
        callback_on_step_end=look,
    ).images[0]
    likeness = {step: _likeness(shown[step - 1], made) for step in (2, 6, 8)}
    assert likeness[2] > 0.6, likeness
    assert likeness[6] > 0.9, likeness
    assert likeness[8] > 0.95, likeness


def _likeness(jpeg: bytes, made: Image.Image) -> float:
    """Correlation of a preview's values with those of the picture, as small."""
    with Image.open(io.BytesIO(jpeg)) as preview:
        small = made.resize(preview.size, Image.Resampling.BOX)
        sides = (np.asarray(preview.convert("RGB")), np.asarray(small))
        return float(np.corrcoef(*(side.astype(float).ravel() for side in sides))[0, 1])


def test_the_number_of_zero_tokens_hardly_matters(pipeline: StableDiffusion3Pipeline) -> None:
    prompt = ["a red boat on the sea at sunset"]
    few = contact_sheet.draw(pipeline, prompt, SQUARE, [0], steps=6, max_sequence_length=1)
    many = contact_sheet.draw(pipeline, prompt, SQUARE, [0], steps=6, max_sequence_length=256)
    few_reading, many_reading = _read(few)[0], _read(many)[0]
    assert few_reading.sky == many_reading.sky == "sunset"
    assert few_reading.groups[0].kind == many_reading.groups[0].kind == "boat"
