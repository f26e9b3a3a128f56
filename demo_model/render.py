"""Paint a postcard of a scene. Same scene and seed, same pixels.

python -m demo_model.render sheet.png      a sheet of random postcards to look at
"""

from __future__ import annotations

import argparse
import math
import random
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from demo_model.canvas import Array, Canvas, Colour, ellipse, mix
from demo_model.latents import BLOCK_PX
from demo_model.layout import HALF_TILE_PX, TILE_PX, Layout, Placed, lay_out, snap
from demo_model.objects import COLOUR_RGB, PAINTERS, WIDTH_OF_HEIGHT, Light
from demo_model.scene import PICTURE_SIZES_PX, Scene, sample_scene

SKY_RGB: dict[str, tuple[Colour, Colour, Colour]] = {  # top, middle, horizon
    "dawn": ((150, 152, 218), (232, 178, 204), (255, 224, 196)),
    "noon": ((58, 138, 226), (118, 186, 242), (208, 236, 250)),
    "sunset": ((92, 52, 126), (224, 92, 92), (255, 178, 84)),
    "night": ((14, 18, 54), (28, 36, 92), (60, 70, 134)),
}
GROUND_RGB: dict[str, tuple[Colour, Colour]] = {  # far, near
    "meadow": ((158, 206, 100), (82, 156, 64)),
    "sea": ((98, 180, 214), (26, 98, 168)),
    "desert": ((244, 212, 148), (224, 168, 98)),
    "snow": ((242, 248, 252), (212, 226, 244)),
}
LIGHTS = {
    "dawn": Light((255, 190, 205), 0.08, 0.97, False),
    "noon": Light((255, 255, 255), 0.0, 1.0, False),
    "sunset": Light((255, 150, 90), 0.08, 0.94, False),
    "night": Light((70, 80, 170), 0.14, 0.86, True),
}
GROUND_TINT: dict[str, Colour] = {
    "dawn": (1.0, 0.91, 0.94),
    "noon": (1.0, 1.0, 1.0),
    "sunset": (0.95, 0.74, 0.68),
    "night": (0.46, 0.5, 0.74),
}


def render(scene: Scene, seed: int) -> NDArray[np.uint8]:
    """The postcard as uint8 RGB, shape (height, width, 3)."""
    return render_with_layout(scene, seed)[0]


def render_with_layout(scene: Scene, seed: int) -> tuple[NDArray[np.uint8], Layout]:
    rng = random.Random(seed)
    layout = lay_out(scene)
    canvas = Canvas(scene.width_px, scene.height_px)
    _paint_sky(canvas, scene, layout, rng)
    if scene.mountains:
        _paint_mountains(canvas, scene, layout, rng)
    _paint_ground(canvas, scene, layout, rng)
    light = LIGHTS[scene.sky]
    for thing in layout.placed:
        _paint_footing(canvas, scene, thing, light)
    for thing in layout.placed:
        PAINTERS[thing.group.kind](canvas, thing.spot, COLOUR_RGB[thing.group.colour], light)
    return canvas.pixels(), layout


def _ramp(stops: tuple[Colour, ...], share: Array) -> Array:
    """Colours along a gradient: share (n, 1) in 0..1 -> (n, 1, 3)."""
    at = np.linspace(0, 1, len(stops))
    columns = [np.interp(share[:, 0], at, [stop[c] for stop in stops]) for c in range(3)]
    return np.stack(columns, -1)[:, None, :].astype(np.float32)


def _paint_sky(canvas: Canvas, scene: Scene, layout: Layout, rng: random.Random) -> None:
    share = np.clip(canvas.y / layout.horizon_px, 0, 1)
    canvas.rgb[:] = _ramp(SKY_RGB[scene.sky], share)
    horizon = layout.horizon_px
    # Sun and moon fill one tile.
    x = float(rng.randrange(HALF_TILE_PX, scene.width_px, TILE_PX))
    radius = float(HALF_TILE_PX)
    high, low = 1.5 * TILE_PX, horizon - HALF_TILE_PX
    if scene.sky == "night":
        _paint_stars(canvas, horizon, rng)
        _paint_moon(canvas, x, high, radius, rng)
        return
    y, colour, halo = {
        "dawn": (rng.choice((low, low - TILE_PX)), (255, 246, 214), (255, 236, 200)),
        "noon": (high, (255, 246, 190), (255, 255, 240)),
        "sunset": (low, (255, 232, 130), (255, 214, 120)),
    }[scene.sky]
    canvas.glow(x, y, radius * 2.6, halo, 0.55)
    window = (x - radius, y - radius, x + radius, y + radius)
    canvas.fill(ellipse(x, y, radius, radius), window, colour, edge_px=2.0)
    for _ in range(rng.choice((0, 1, 2))):
        _paint_cloud(canvas, scene, horizon, rng)


def _paint_stars(canvas: Canvas, horizon: float, rng: random.Random) -> None:
    for _ in range(int(canvas.width_px * horizon / 2200)):
        x = snap(rng.uniform(0, canvas.width_px - BLOCK_PX), BLOCK_PX) + BLOCK_PX / 2
        y = snap(horizon * 0.84 * rng.random() ** 1.3, BLOCK_PX) + BLOCK_PX / 2
        canvas.glow(x, y, rng.choice((1.4, 1.9)), (255, 250, 222), 0.9)


def _paint_moon(canvas: Canvas, x: float, y: float, radius: float, rng: random.Random) -> None:
    crescent = rng.random() < 0.5
    canvas.glow(x, y, radius * 2.0, (170, 180, 240), 0.45)
    disc = ellipse(x, y, radius, radius)
    window = (x - radius, y - radius, x + radius, y + radius)
    if crescent:
        bite = ellipse(x + radius * 0.55, y - radius * 0.22, radius * 0.86, radius * 0.86)
        shape = lambda px, py: np.maximum(disc(px, py), -bite(px, py))  # noqa: E731
        canvas.fill(shape, window, (255, 246, 208), edge_px=1.6)
    else:
        canvas.fill(disc, window, (255, 248, 220), end=(232, 222, 200), edge_px=1.6)


def _paint_cloud(canvas: Canvas, scene: Scene, horizon: float, rng: random.Random) -> None:
    tint, alpha = {
        "dawn": ((255, 232, 232), 0.75),
        "noon": ((255, 255, 255), 0.9),
        "sunset": ((255, 178, 150), 0.6),
    }[scene.sky]
    x = snap(canvas.width_px * rng.random(), TILE_PX)
    y = HALF_TILE_PX + rng.choice((0.0, TILE_PX))
    wide = float(TILE_PX)
    for across, up, share in ((0.0, 0.0, 1.0), (-0.55, 0.12, 0.62), (0.6, 0.1, 0.66)):
        a, b = wide * share, wide * share * 0.3
        cx, cy = x + across * wide, y + up * wide * 0.4
        window = (cx - a - 4, cy - b - 4, cx + a + 4, cy + b + 4)
        canvas.fill(ellipse(cx, cy, a, b), window, tint, alpha=alpha, edge_px=7.0)


def _ridge(width: int, peaks: list[tuple[float, float]]) -> Array:
    """Height over the horizon for each pixel column, straight from peak to valley to peak."""
    xs, ys = zip(*sorted(peaks), strict=True)
    heights: Array = np.interp(np.arange(width) + 0.5, xs, ys).astype(np.float32)
    return heights


def _paint_mountains(canvas: Canvas, scene: Scene, layout: Layout, rng: random.Random) -> None:
    width, horizon = scene.width_px, layout.horizon_px
    _, middle, low = SKY_RGB[scene.sky]
    rock: Colour = (98, 92, 136) if scene.sky != "night" else (54, 56, 104)
    snow = mix((255, 255, 255), low, 0.15 if scene.sky != "night" else 0.45)
    tall = min(horizon, 150.0)
    for layer in range(2):
        high = (0.5, 0.27)[layer] * tall
        gap = (4.0 * TILE_PX, 2.0 * TILE_PX)[layer]
        x = -float(rng.randrange(0, int(gap), TILE_PX))
        points: list[tuple[float, float]] = []
        while x < width + gap:
            points.append((x, high * rng.choice((0.8, 1.0))))
            points.append((x + gap / 2, high * 0.36))
            x += gap
        ridge = _ridge(width, points)
        above = horizon - ridge[None, :] - canvas.y
        slope = np.hypot(1.0, np.gradient(ridge))[None, :]
        cover = np.clip(0.5 - above / slope / 1.4, 0, 1)[..., None]
        share = np.clip((horizon - canvas.y) / high, 0, 1)[..., None]
        colour = np.asarray(mix(rock, middle, (0.34, 0.1)[layer]), np.float32)
        hazy = np.asarray(mix(rock, low, (0.62, 0.34)[layer]), np.float32)
        paint = hazy + (colour - hazy) * share
        if layer == 0:
            line = horizon - 0.68 * high - canvas.y
            wave = 5 * np.cos(canvas.x * (2 * math.pi / 16))
            cap = np.clip(0.5 + (line + wave) / 2.0, 0, 1)[..., None]
            paint = paint + (np.asarray(snow, np.float32) - paint) * cap
        canvas.rgb += (paint - canvas.rgb) * cover


def _paint_ground(canvas: Canvas, scene: Scene, layout: Layout, rng: random.Random) -> None:
    tint = GROUND_TINT[scene.sky]
    far, near = ((c[0] * tint[0], c[1] * tint[1], c[2] * tint[2]) for c in GROUND_RGB[scene.ground])
    horizon, depth = layout.horizon_px, scene.height_px - layout.horizon_px
    if scene.ground == "sea":
        far = mix(far, SKY_RGB[scene.sky][2], 0.3)
    share = np.clip((canvas.y - horizon) / depth, 0, 1)
    paint = _ramp((far, near), share)
    cover = np.clip(0.5 + (canvas.y - horizon) / 1.4, 0, 1)[..., None]
    canvas.rgb += (paint - canvas.rgb) * cover
    if scene.ground == "sea":
        _paint_waves(canvas, horizon, depth, mix(far, (255, 255, 255), 0.3), rng)
    else:
        _paint_hills(canvas, scene, layout, far, near, rng)


def _paint_waves(
    canvas: Canvas, horizon: float, depth: float, colour: Colour, rng: random.Random
) -> None:
    for _ in range(9):
        x = snap(canvas.width_px * rng.random(), HALF_TILE_PX)
        y = float(rng.randrange(int(horizon) + BLOCK_PX, canvas.height_px, HALF_TILE_PX))
        share = (y - horizon) / depth
        a, b = 22 * (0.6 + share), 1.6 + 1.6 * share
        window = (x - a - 3, y - b - 3, x + a + 3, y + b + 3)
        canvas.fill(ellipse(x, y, a, b), window, colour, alpha=0.42, edge_px=3.0)


def _paint_hills(
    canvas: Canvas,
    scene: Scene,
    layout: Layout,
    far: Colour,
    near: Colour,
    rng: random.Random,
) -> None:
    depth = scene.height_px - layout.horizon_px
    steep = {"meadow": 0.09, "desert": 0.13, "snow": 0.08}[scene.ground]
    for number in range(2):
        level = layout.horizon_px + depth * (0.3 + 0.36 * number)
        length = (256.0, 192.0)[number]
        phase = math.pi / 2 * rng.randrange(4)
        crest = level + steep * depth * np.sin(canvas.x * (2 * math.pi / length) + phase)
        cover = np.clip(0.5 + (canvas.y - crest) / 2.0, 0, 1)[..., None]
        fade = np.clip((canvas.y - crest) / (0.5 * depth), 0, 1)[..., None]
        bright = mix(mix(far, near, 0.3 + 0.4 * number), (255, 255, 255), 0.06)
        dark = mix(far, near, 0.75 + 0.25 * number)
        start, end = np.asarray(bright, np.float32), np.asarray(dark, np.float32)
        canvas.rgb += (start + (end - start) * fade - canvas.rgb) * cover


def _paint_footing(canvas: Canvas, scene: Scene, thing: Placed, light: Light) -> None:
    """A shadow on land, an islet or a bow wave at sea; nothing under a balloon."""
    kind, spot = thing.group.kind, thing.spot
    if kind == "balloon":
        return
    half = WIDTH_OF_HEIGHT[kind] * spot.height / 2
    if scene.ground != "sea":
        a, b = half * 1.1, max(half * 0.16, 2.5)
        window = (spot.x - a, spot.base - b, spot.x + a, spot.base + b)
        canvas.fill(ellipse(spot.x, spot.base, a, b), window, (40, 34, 80), alpha=0.28, edge_px=3.0)
        return
    if kind == "boat":
        a, b = half * 1.15, max(half * 0.14, 2.5)
        window = (spot.x - a, spot.base - b, spot.x + a, spot.base + b)
        foam = light.on((222, 240, 250))
        canvas.fill(ellipse(spot.x, spot.base, a, b), window, foam, alpha=0.55, edge_px=3.0)
        return
    a = max(half * 1.25, half + 7)
    b = a * 0.24
    y = spot.base + b * 0.3
    window = (spot.x - a, y - b, spot.x + a, y + b + 3)
    foam = light.on((222, 240, 250))
    canvas.fill(ellipse(spot.x, y + 2.0, a + 3, b + 2), window, foam, alpha=0.4, edge_px=3.0)
    sand = light.on((240, 214, 156)), light.on((196, 156, 108))
    canvas.fill(ellipse(spot.x, y, a, b), window, sand[0], end=sand[1], across=(0.0, 1.0))


def sheet(pictures: list[NDArray[np.uint8]], columns: int) -> NDArray[np.uint8]:
    """Pictures of one size side by side in rows."""
    rows = [
        np.concatenate(pictures[start : start + columns], 1)
        for start in range(0, len(pictures) - columns + 1, columns)
    ]
    return np.concatenate(rows, 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=int, default=0, help="0 square, 1 wide, 2 tall")
    parser.add_argument("--count", type=int, default=16)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    pictures = []
    for number in range(arguments.count):
        scene = sample_scene(rng, held_out=False, size_px=PICTURE_SIZES_PX[arguments.size])
        pictures.append(render(scene, number))
    Image.fromarray(sheet(pictures, 4)).save(arguments.path)


if __name__ == "__main__":
    main()
