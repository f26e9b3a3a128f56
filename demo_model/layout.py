"""Where things go on a postcard: horizon, feet and heights, from a scene and a random source.

Knows sizes in pixels, nothing of colours. The same layout tells the renderer where to paint, the
trainer which parts matter and the scorer what is where. Everything stands on a grid of 8 pixels,
that of the latents: a thing has the same latents wherever it stands, which lets a small model draw
it crisply.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

from demo_model.objects import HEIGHT_OF_SIZE, WIDTH_OF_HEIGHT, Spot
from demo_model.scene import Group, Scene

GRID_PX = 8
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


def snap(value: float, grid_px: int = GRID_PX) -> float:
    """The nearest point of the grid."""
    return round(value / grid_px) * float(grid_px)


def lay_out(scene: Scene, rng: random.Random) -> Layout:
    """Find room for all groups; shrink everything a little as often as it takes."""
    middle = 0.65 if scene.height_px > scene.width_px else 0.59
    horizon_px = snap(scene.height_px * middle, 16) + rng.choice((-8.0, 0.0, 8.0))
    scale = 1.0
    while True:
        for _ in range(6):
            placed = _try(scene, rng, horizon_px, scale)
            if placed is not None:
                return Layout(horizon_px, placed)
        scale *= 0.9


def as_drawn(scene: Scene, layout: Layout) -> Scene:
    """The scene with the sizes that its things came out with: two big houses beside each other on a
    narrow card are medium ones."""
    groups = []
    for group in scene.groups:
        height = next(thing.spot.height for thing in layout.placed if thing.group == group)
        nominal = HEIGHT_OF_SIZE[group.kind] * _COUNT_SCALE[group.count] * unit_px(scene)
        share = height / nominal
        size = min(_SIZE_HEIGHT, key=lambda name: abs(math.log(share / _SIZE_HEIGHT[name])))
        groups.append(replace(group, size=size))
    return replace(scene, groups=tuple(groups))


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
    height = _SIZE_HEIGHT[group.size] * HEIGHT_OF_SIZE[group.kind] * unit_px(scene)
    height *= _COUNT_SCALE[group.count] * scale
    width = WIDTH_OF_HEIGHT[group.kind] * height
    step = max(snap(width * 1.14), GRID_PX)
    reach = step * (group.count - 1) / 2 + width / 2
    x = scene.width_px * PLACE_X[group.place] + rng.choice((-GRID_PX, 0, GRID_PX))
    x = min(max(x, reach + _MARGIN_PX), scene.width_px - reach - _MARGIN_PX)
    first = snap(x - step * (group.count - 1) / 2)
    if group.kind == "balloon":
        free = max(horizon_px - height - 10, 1.0)
        base = height + 8 + free * rng.choice((0.1, 0.3, 0.55))
    else:
        depth = scene.height_px - horizon_px
        low, high = {"small": (0.22, 0.5), "medium": (0.3, 0.58), "big": (0.44, 0.72)}[group.size]
        base = horizon_px + depth * rng.choice((low, (low + high) / 2, high))
    lifts = rng.choice(((0, 0, 0), (0, -GRID_PX, 0), (-GRID_PX, 0, -GRID_PX)))
    row: list[Placed] = []
    for number in range(group.count):
        lift = lifts[number] if group.count > 1 else 0
        row.append(Placed(group, Spot(first + step * number, snap(base) + lift, height)))
    return row
