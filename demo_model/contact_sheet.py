"""A fixed sheet of prompts and the pictures the shipped pipeline makes of them.

python -m demo_model.contact_sheet presets/demo docs/contact_sheet.png
"""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path

import torch
from diffusers import StableDiffusion3Pipeline
from PIL import Image, ImageDraw, ImageFont

STEPS = 16
GUIDANCE = 4.0
TEXT_PX = 44
GAP_PX = 8
SQUARE = (
    "a small red house left of two green trees under a night sky",
    "a big blue balloon in the middle at dawn, mountains in the background",
    "a big white lighthouse on the left and a red boat on the right at sea at sunset",
    "three white sheep on a green meadow at noon",
    "a green cactus on the right in the desert at sunset with mountains",
    "a yellow house in the middle in the snow at night",
    "two purple trees on the left and an orange house on the right in the snow at dawn",
    "a big red boat on the sea by day",
    "an orange balloon on the left and a blue house on the right, meadow, sunset",
    "a yellow boat left of a red lighthouse at sea at night with mountains",
    "a big green tree in the middle on a meadow at dawn",
    "a purple balloon right of a white sheep in the desert at noon",
)
WIDE = (
    "a red house on the left and two green trees on the right on a meadow at noon",
    "a big yellow balloon in the middle before snowy peaks at sunset, snow",
    "three blue boats in the middle at sea at dawn",
)
TALL = (
    "a big red lighthouse in the middle at sea at night",
    "a big orange balloon in the middle at sunset in the desert with mountains",
    "a green tree left of a blue house in the snow at dawn",
    "a purple boat on the right at noon on the sea with mountains",
)


def load(folder: Path) -> StableDiffusion3Pipeline:
    pipeline = StableDiffusion3Pipeline.from_pretrained(
        folder, dtype=torch.float32, text_encoder_3=None, tokenizer_3=None
    )
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def draw(
    pipeline: StableDiffusion3Pipeline,
    prompts: list[str],
    size_px: tuple[int, int],
    seeds: list[int],
    *,
    negative_prompt: str = "",
    steps: int = STEPS,
    guidance: float = GUIDANCE,
    max_sequence_length: int = 256,
) -> list[Image.Image]:
    """One picture a prompt, each from its own seed, so that a picture does not depend on others."""
    pictures: list[Image.Image] = []
    for start in range(0, len(prompts), 8):
        batch = prompts[start : start + 8]
        pictures += pipeline(
            batch,
            negative_prompt=[negative_prompt] * len(batch),
            width=size_px[0],
            height=size_px[1],
            num_inference_steps=steps,
            guidance_scale=guidance,
            max_sequence_length=max_sequence_length,
            generator=[torch.Generator().manual_seed(s) for s in seeds[start : start + 8]],
        ).images
    return pictures


def _row(sheet: Image.Image, y: int, pictures: list[Image.Image], prompts: list[str]) -> int:
    """Paste a centred row with its prompts below; the y of the next row."""
    pen = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(11)
    width, height = pictures[0].size
    x = (sheet.width - len(pictures) * (width + GAP_PX) + GAP_PX) // 2
    for picture, prompt in zip(pictures, prompts, strict=True):
        sheet.paste(picture, (x, y))
        text = textwrap.fill(prompt, max(width // 6, 10))
        pen.multiline_text((x, y + height + 3), text, "black", font, spacing=1)
        x += width + GAP_PX
    return y + height + TEXT_PX


def contact_sheet(pipeline: StableDiffusion3Pipeline) -> Image.Image:
    rows: list[tuple[list[Image.Image], list[str]]] = []
    for size_px, prompts, columns in (
        ((256, 256), SQUARE, 4),
        ((320, 192), WIDE, 3),
        ((192, 320), TALL, 4),
    ):
        pictures = draw(pipeline, list(prompts), size_px, list(range(len(prompts))))
        for start in range(0, len(prompts), columns):
            stop = start + columns
            rows.append((pictures[start:stop], list(prompts[start:stop])))
    width = 4 * 256 + 5 * GAP_PX
    height = GAP_PX + sum(pictures[0].height + TEXT_PX for pictures, _ in rows)
    sheet = Image.new("RGB", (width, height), "white")
    y = GAP_PX
    for pictures, prompts_of_row in rows:
        y = _row(sheet, y, pictures, prompts_of_row)
    return sheet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("path", type=Path)
    arguments = parser.parse_args()
    arguments.path.parent.mkdir(parents=True, exist_ok=True)
    contact_sheet(load(arguments.folder)).save(arguments.path, optimize=True)


if __name__ == "__main__":
    main()
