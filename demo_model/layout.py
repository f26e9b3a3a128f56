"""Where things go on a postcard: horizon, feet and heights, from a scene and a random source.

Knows sizes in pixels, nothing of colours. The same layout tells the renderer where to paint, the
trainer which parts matter and the scorer what is where.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from demo_model.objects import HEIGHT_OF_SIZE, WIDTH_OF_HEIGHT, Spot
from demo_model.scene import Group, Scene

PLACE_X = {"left": 0.21, "middle": 0.5, "right": 0.79}
_SIZE_HEIGHT = {"small": 0.2, "medium": 0.28, "big": 0.39}
_COUNT_SCALE = {1: 1.0, 2: 0.87, 3: 0.77}
_MARGIN_PX = 5.0


@dataclass(frozen=True)
class Placed:
    """One thing with the group it belongs to and its spot."""

    group: Group
    spot: Spot

    @property
    def box_px(self) -> tuple[float, float, float, float]:
        half = WIDTH_OF_HEIGHT[self.group.kind] * self.spot.height / 2
        return (
            self.spot.x - half,
            self.spot.base - self.spot.height,
            self.spot.x + half,
            self.spot.base,
        )


@dataclass(frozen=True)
class Layout:
    horizon_px: float
    placed: tuple[Placed, ...]


def unit_px(scene: Scene) -> float:
    """What one length unit is in pixels: 256 on a square card, less on a narrow one."""
    return {256: 256.0, 192: 212.0}[min(scene.width_px, scene.height_px)]


def lay_out(scene: Scene, rng: random.Random) -> Layout:
    """Find room for all groups; shrink everything a little as often as it takes."""
    low, high = (0.62, 0.69) if scene.height_px > scene.width_px else (0.56, 0.63)
    horizon_px = scene.height_px * rng.uniform(low, high)
    scale = 1.0
    while True:
        for _ in range(6):
            placed = _try(scene, rng, horizon_px, scale)
            if placed is not None:
                return Layout(horizon_px, placed)
        scale *= 0.95


def _try(
    scene: Scene, rng: random.Random, horizon_px: float, scale: float
) -> tuple[Placed, ...] | None:
    spans: list[tuple[float, float]] = []
    placed: list[Placed] = []
    for group in scene.groups:
        row = _row(scene, group, rng, horizon_px, scale)
        left = min(thing.box_px[0] for thing in row)
        right = max(thing.box_px[2] for thing in row)
        room = scene.width_px - 2 * _MARGIN_PX
        if right - left > room or any(left < b + 6 and right > a - 6 for a, b in spans):
            return None
        middle = (left + right) / 2 / scene.width_px
        if (group.place == "left" and middle > 0.4) or (group.place == "right" and middle < 0.6):
            return None
        spans.append((left, right))
        placed += row
    return tuple(sorted(placed, key=lambda thing: thing.spot.base))


def _row(
    scene: Scene, group: Group, rng: random.Random, horizon_px: float, scale: float
) -> list[Placed]:
    """The things of one group, side by side around its place, moved inside the card's margins."""
    base_height = _SIZE_HEIGHT[group.size] * HEIGHT_OF_SIZE[group.kind] * unit_px(scene)
    height = base_height * _COUNT_SCALE[group.count] * scale * rng.uniform(0.94, 1.06)
    width = WIDTH_OF_HEIGHT[group.kind] * height
    step = width * rng.uniform(1.06, 1.16)
    reach = step * (group.count - 1) / 2 + width / 2
    x = scene.width_px * (PLACE_X[group.place] + rng.uniform(-0.045, 0.045))
    x = min(max(x, reach + _MARGIN_PX), scene.width_px - reach - _MARGIN_PX)
    depth = scene.height_px - horizon_px
    if group.kind == "balloon":
        free = max(horizon_px - height - 10, 1.0)
        base = height + 8 + free * rng.uniform(0.08, 0.62)
    else:
        share = {"small": (0.2, 0.5), "medium": (0.28, 0.6), "big": (0.42, 0.74)}[group.size]
        base = horizon_px + depth * rng.uniform(*share)
    row: list[Placed] = []
    for number in range(group.count):
        lift = rng.uniform(-0.09, 0.09) * height if group.count > 1 else 0.0
        here = x + step * (number - (group.count - 1) / 2)
        row.append(Placed(group, Spot(here, base + lift, height)))
    return row
